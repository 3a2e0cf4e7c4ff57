"""Whether the rows of a release recur in an earlier one whose people are others, as its policy states."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from deid_assets.assessments.evidence import Refusal
from deid_assets.policy.sections.longitudinal import PSEUDONYM_COLUMNS
from deid_assets.policy.sections.releases import OtherPeople
from deid_assets.release.published_tables import CLAIMS, PEOPLE, RECORDS
from deid_assets.store.tables import Table, quoted

_FEWEST = 2
"""Columns that rows must have in common to be compared: the values of one column recur in every population."""


def recurring_refusals(
    stated: OtherPeople, staged: Table, releases: Path, names: Iterable[str], pseudonym: str | None
) -> list[Refusal]:
    """Refuse a statement about other people where too many rows recur.

    Rows are compared by the columns that both releases publish, without pseudonyms. Only rows that occur once in their release
    count: others recur in any population. Of claims, a row is all claims of a member.

    Parameters
    ----------
    staged
        The rows of people, or the claims, as read back from the files.
    releases
        Folder of the published releases.
    names
        Releases, as policy/number, of which the policy states that their people are others.
    pseudonym
        Column of the pseudonyms of people; None if the release has none.
    """
    found = []
    for name in names:
        share = _recurring(staged, releases / name / "data", pseudonym)
        if share > stated.recurring_at_most:
            text = (
                f"{name}: the policy states under releases.other_people that its people are others, but {share:.0%} of the "
                f"rows that occur once here occur once there, too, and at most {stated.recurring_at_most:.0%} may "
                "(releases.recurring_at_most). Take the statement back, and identify people by the same column in both; or, "
                "where rows of these few columns recur by chance, state the share that may"
            )
            found.append(Refusal("statement_contradicted", name, share, stated.recurring_at_most, text, "share of rows"))
    return found


def _recurring(staged: Table, data: Path, pseudonym: str | None) -> float:
    """Share of the rows that occur once here, and once in the earlier release; 0 if no row does, or nothing can be compared."""
    own = set(staged.columns()) - {pseudonym, *PSEUDONYM_COLUMNS}
    shares = [0.0]
    for table in (RECORDS, PEOPLE, CLAIMS):
        file = data / f"{table}.parquet"
        if not file.is_file():
            continue
        theirs = _columns(staged, file)
        common = sorted(own & theirs.keys())
        if len(common) < _FEWEST or ("MemberID" in staged.columns()) != ("MemberID" in theirs):
            continue
        here, there = _once(staged.sql, common, staged.columns()), _once("read_parquet($file)", common, theirs)
        counted = staged.query(
            f"""WITH here AS ({here}), there AS ({there})
                SELECT count(*) AS rows, count(*) FILTER (seen IN (SELECT seen FROM there)) AS recurring FROM here""",
            {"file": str(file)},
        ).iloc[0]
        shares.append(int(counted["recurring"]) / max(int(counted["rows"]), 1))
    return max(shares)


def _columns(staged: Table, file: Path) -> dict[str, str]:
    found = staged.query("SELECT name, type FROM parquet_schema(?) WHERE num_children IS NULL", [str(file)])
    return dict(zip(found["name"], found["type"].astype("str"), strict=True))


def _once(rows: str, columns: Sequence[str], every: Mapping[str, str]) -> str:
    """SELECT what occurs once, as text: rows, or all rows of a member together."""
    listed = ", ".join(f"{quoted(column)}::VARCHAR" for column in columns)
    row = f"to_json([{listed}])::VARCHAR"
    if "MemberID" in every:
        row = f"to_json(list({row} ORDER BY {row}))::VARCHAR"
        return f'SELECT seen FROM (SELECT {row} AS seen FROM {rows} GROUP BY "MemberID") GROUP BY seen HAVING count(*) = 1'
    return f"SELECT {row} AS seen FROM {rows} GROUP BY seen HAVING count(*) = 1"
