"""The rows of inference channels: released fields of claims and members, beside the values that the release withholds.

Released rows carry no claim_id. They are made a second time, with it, for the members sampled (`linked`), joined with what was
delivered, and numbered. All of it stays in the restricted store.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from deid_assets.store.tables import Table, either_way, quoted

MEMBER, CLAIM = "MemberID", "claim_id"


@dataclass(frozen=True)
class Channel:
    """A withheld value.

    Attributes
    ----------
    name
        Such as "diagnosis_3".
    value
        SQL for the value, as text or number; NULL where nothing is withheld. It may use the released row `l`, the claim as
        delivered `o` (both for claims only), the member's released row `p` and the member as delivered `m`.
    group
        SQL for the released label within which it is predicted; None: all rows are one group.
    of_members
        Whether a row is a member instead of a claim.
    of_claims_alone
        Whether it is predicted from claims alone, without what other tables of events tell of the member.
    """

    name: str
    value: str
    group: str | None = None
    of_members: bool = False
    of_claims_alone: bool = False


def unlinked_rows(linked: Table, released: Table, sample: Table) -> str:
    """SELECT the number of released rows of the members sampled that `linked` lacks, or has beyond them, as n."""
    names = ", ".join(quoted(name) for name in released.columns())
    own = f'SELECT {names} FROM {released.sql} WHERE "{MEMBER}" IN (SELECT "{MEMBER}" FROM {sample.sql})'
    return either_way(own, f"SELECT {names} FROM {linked.sql}")


def released_profiles_of(sample: Table, crosswalk: Table, profiles: str, linked: Table, usual: Sequence[str]) -> str:
    """SELECT what the release tells of each member: demographics, number of claims, most frequent values of some columns.

    Parameters
    ----------
    sample
        MemberID and position of the members sampled.
    profiles
        A SELECT of MemberID and the released member-level columns.
    usual
        Released columns of claims whose most frequent value describes the member; of equal frequency, the first.

    Returns
    -------
    str
        SELECT of position | member_id | MemberID | the member-level columns | claims (power of two) | usual_0 ...
    """
    joins, columns = [], []
    for number, name in enumerate(usual):
        joins.append(f"""LEFT JOIN (SELECT "{MEMBER}", value FROM (
            SELECT "{MEMBER}", value, row_number() OVER (PARTITION BY "{MEMBER}" ORDER BY n DESC, value) AS place FROM (
                SELECT "{MEMBER}", {quoted(name)} AS value, count(*) AS n FROM {linked.sql}
                WHERE {quoted(name)} IS NOT NULL GROUP BY ALL)) WHERE place = 1) AS u{number} USING ("{MEMBER}")""")
        columns.append(f"u{number}.value AS usual_{number}")
    return f"""SELECT s.position, x.original_id AS member_id, p.*,
            floor(log2(coalesce(c.claims, 0) + 1))::INTEGER::VARCHAR AS claims{"".join(f", {column}" for column in columns)}
        FROM {sample.sql} AS s JOIN ({profiles}) AS p USING ("{MEMBER}")
        JOIN {crosswalk.sql} AS x ON x.kind = 'member' AND x.pseudonym = p."{MEMBER}"
        LEFT JOIN (SELECT "{MEMBER}", count(*) AS claims FROM {linked.sql} GROUP BY ALL) AS c USING ("{MEMBER}")
        {" ".join(joins)}"""


def claim_rows(
    linked: Table, delivered: Table, profiles: Table, members: Table, channels: Sequence[Channel]
) -> str:  # fmt: skip
    """SELECT one row for each claim of the members sampled: its member's position, fields and channels, see `numbered`.

    Parameters
    ----------
    linked
        claim_id and the released columns of the claims of the members sampled.
    delivered
        The same claims as delivered, by claim_id.
    profiles
        Result of `released_profiles_of`.
    members
        The members as delivered, by member_id.
    """
    fields = {f"l.{quoted(name)}": kind for name, kind in linked.columns().items() if name not in (CLAIM, MEMBER)}
    return f"""SELECT p.position, {", ".join(_fields(fields, profiles))}, {", ".join(_channels(channels))}
        FROM {linked.sql} AS l JOIN {profiles.sql} AS p USING ("{MEMBER}")
        JOIN {delivered.sql} AS o ON o.claim_id = l.claim_id JOIN {members.sql} AS m ON m.member_id = p.member_id
        ORDER BY l.claim_id"""


def member_rows(profiles: Table, members: Table, channels: Sequence[Channel]) -> str:
    """SELECT one row for each member sampled: position, fields and channels; parameters as for `claim_rows`."""
    return f"""SELECT p.position, {", ".join(_fields({}, profiles))}, {", ".join(_channels(channels))}
        FROM {profiles.sql} AS p JOIN {members.sql} AS m ON m.member_id = p.member_id ORDER BY p.position"""


def _fields(of_claims: Mapping[str, str], profiles: Table) -> Iterator[str]:
    of_members = {
        f"p.{quoted(name)}": kind for name, kind in profiles.columns().items() if name not in ("position", "member_id", MEMBER)
    }
    for number, (field, kind) in enumerate((dict(of_claims) | of_members).items()):
        yield f"{_value(field, kind)} AS f{number}"


def _value(field: str, kind: str) -> str:
    """SQL for a field's level."""
    # A date to the day is held by few: its month says more. Whole numbers of a release are days since the first service.
    return {"DATE": f"strftime({field}, '%Y-%m')", "INTEGER": f"{field} // 30"}.get(kind, field)


def profile_counts(linked: Table, sample: Table, columns: Sequence[str]) -> str:
    """SELECT how many claims of each member have each released label, as position | label | n.

    Labels are numbered from 0 over all columns; one more, the first, is the number of claims. A blank is no label.

    Parameters
    ----------
    linked, sample
        As for `released_profiles_of`.
    columns
        Released columns of claims.
    """
    kinds = linked.columns()
    values = ["''", *(f"({_value(f'l.{quoted(name)}', kinds[name])})::VARCHAR" for name in columns)]
    counted = " UNION ALL ".join(
        f"""SELECT s.position, {place} AS place, {value} AS value, count(*) AS n
        FROM {linked.sql} AS l JOIN {sample.sql} AS s USING ("{MEMBER}") WHERE {value} IS NOT NULL GROUP BY ALL"""
        for place, value in enumerate(values)
    )
    return f"""SELECT position, (dense_rank() OVER (ORDER BY place, value) - 1)::INTEGER AS label, n::INTEGER AS n
        FROM ({counted}) ORDER BY position, label"""


def field_places(linked: Table, names: Collection[str]) -> list[int]:
    """The numbers of the fields of `claim_rows` that are released columns of these names."""
    own = [name for name in linked.columns() if name not in (CLAIM, MEMBER)]
    return [number for number, name in enumerate(own) if name in names]


def _channels(channels: Sequence[Channel]) -> Iterator[str]:
    for number, channel in enumerate(channels):
        yield f"({channel.value})::VARCHAR AS v{number}"
        yield f"coalesce(({channel.group})::VARCHAR, '') AS g{number}" if channel.group else f"'' AS g{number}"


def numbered(rows: Table) -> str:
    """SELECT rows with every field, value and group replaced by its number from 0; -1 for a value that is not withheld."""
    # Distinct values are numbered and looked up: ranks of all rows in every column would sort the rows as many times.
    selects, joins = [], []
    for place, name in enumerate(name for name in rows.columns() if name != "position"):
        joins.append(
            f"LEFT JOIN (SELECT value, (row_number() OVER (ORDER BY value NULLS {'LAST' if name[0] == 'v' else 'FIRST'}) - 1)"
            f"::INTEGER AS number FROM (SELECT DISTINCT {name} AS value FROM {rows.sql})) AS d{place}"
            f" ON d{place}.value IS NOT DISTINCT FROM r.{name}"
        )
        withheld = f"CASE WHEN r.{name} IS NULL THEN -1 ELSE d{place}.number END" if name[0] == "v" else f"d{place}.number"
        selects.append(f"{withheld} AS {name}")
    return f"SELECT r.position, {', '.join(selects)} FROM {rows.sql} AS r {' '.join(joins)} ORDER BY r.rowid"


def labels(rows: Table, number: int) -> str:
    """SELECT the labels of a channel's groups in the order of their numbers, as label."""
    return f"SELECT DISTINCT g{number} AS label FROM {rows.sql} ORDER BY label"
