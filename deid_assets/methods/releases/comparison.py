"""What one release hides and another shows, and who is missing from the later one (methods#meet, methods#disappearance).

How many members can be linked by their rows alone is told as well (methods#linkability): the adversary generalizes both
releases until values that any of them joins are one class, and compares whole records: demographics, and how often each class
occurs in each history. A record that equals exactly one record of the other release is linked. Records that also differ by new
claims could be linked too, so the share is a lower bound.

`kept_rows` are what a release shows of every delivered member, in the form in which later releases are compared with it.

One row is a value of one quasi-identifier of one member, as delivered and as released. Members are named by keyed tags,
which are the same in every delivery. The rows never leave the restricted store.

==================  ===================================================================================================
column              content
==================  ===================================================================================================
tag                 UBIGINT: keyed tag of the member
quasi_identifier    VARCHAR: its column, or what a declared column is
service_day         INTEGER: day of service since 1970 or, if unknown, minus the year; NULL: a member-level quasi-identifier
value, label        VARCHAR: the value, and its label in the release; NULL if missing
known, held         UINTEGER: how often a member's claims of that day have the value, before and after the long tail is cut
released            BOOLEAN: whether the member is released
==================  ===================================================================================================

`known` is 0 for members who are not released: what is known about them is never needed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from deid_assets.methods.population.encoding import labels_query
from deid_assets.store.tables import Table, quoted, write_table


@dataclass(frozen=True)
class ComparedReleases:
    """The members and values of two releases.

    Attributes
    ----------
    members
        Members of both releases.
    added, withdrawn
        Members of the later release only, and of the earlier one only.
    values
        Values of claims of members of both releases that either release shows and that both deliveries contain.
    hidden_by_earlier, hidden_by_later
        How many of these values the one release hides and the other shows.
    """

    members: int
    added: int
    withdrawn: int
    values: int
    hidden_by_earlier: int
    hidden_by_later: int

    @property
    def hidden_share(self) -> float:
        """Share of the values that one of the releases hides and the other shows; 0 if there are none."""
        return (self.hidden_by_earlier + self.hidden_by_later) / max(self.values, 1)


def compared(earlier: Table, later: Table) -> ComparedReleases:
    """Compare what two releases show.

    Parameters
    ----------
    earlier, later
        Their kept rows (`comparison.kept_rows`), in one file.
    """
    members = later.query(
        f"""WITH a AS (SELECT DISTINCT tag FROM {earlier.sql} WHERE released),
              b AS (SELECT DISTINCT tag FROM {later.sql} WHERE released)
            SELECT count(*) FILTER (a.tag IS NOT NULL AND b.tag IS NOT NULL) AS both_of_them,
              count(*) FILTER (a.tag IS NULL) AS added, count(*) FILTER (b.tag IS NULL) AS withdrawn
            FROM a FULL JOIN b USING (tag)"""
    ).iloc[0]
    # A value that a delivery lacks is not hidden by its release.
    values = later.query(
        f"""SELECT coalesce(sum(greatest(a.held, b.held)), 0) AS shown,
              coalesce(sum(greatest(least(a.known, b.held) - least(a.held, b.held), 0)), 0) AS by_earlier,
              coalesce(sum(greatest(least(b.known, a.held) - least(a.held, b.held), 0)), 0) AS by_later
            FROM (SELECT tag, quasi_identifier, service_day, value, known::BIGINT AS known, held::BIGINT AS held
                  FROM {earlier.sql} WHERE released AND service_day IS NOT NULL) AS a
            JOIN (SELECT tag, quasi_identifier, service_day, value, known::BIGINT AS known, held::BIGINT AS held
                  FROM {later.sql} WHERE released AND service_day IS NOT NULL) AS b
              USING (tag, quasi_identifier, service_day, value)"""
    ).iloc[0]
    return ComparedReleases(
        int(members["both_of_them"]), int(members["added"]), int(members["withdrawn"]),
        int(values["shown"]), int(values["by_earlier"]), int(values["by_later"]),
    )  # fmt: skip


def withdrawn_standing_out(earlier: Table, later: Table, k: int) -> int:
    """Count the members of an earlier release whom the later one lacks, and who stand out as missing.

    They could be recognized as one of fewer than k: of their demographic class in the earlier release, fewer than k delivered
    members are missing from the later release, released before or not. Members of classes smaller than k are at risk without
    a later release, and are counted elsewhere.

    Parameters
    ----------
    earlier, later
        Their kept rows, in one file.
    k
        Smallest class size that is large enough, 1 / threshold.
    """
    found = later.arrays(
        f"""SELECT dense_rank() OVER (ORDER BY shown) - 1 AS class, e.released,
              e.tag NOT IN (SELECT tag FROM {later.sql} WHERE released) AS missing
            FROM (SELECT tag, bool_and(released) AS released,
                    list({{'column': quasi_identifier, 'label': label}} ORDER BY quasi_identifier) AS shown
                  FROM {earlier.sql} WHERE service_day IS NULL GROUP BY tag) AS e"""
    )
    class_of = np.asarray(found["class"])
    missing, released = (np.asarray(found[name], dtype=bool) for name in ("missing", "released"))
    size, lacking = np.bincount(class_of), np.bincount(class_of, missing)
    return int((released & missing & (lacking[class_of] < k) & (size[class_of] >= k)).sum())


def linkable_share(release: Table, other: Table) -> float:
    """Return the share of the members of one release whose record equals exactly one record of another release.

    Parameters
    ----------
    release, other
        Their kept rows (`comparison.kept_rows`), in one file.

    Returns
    -------
    float
        In [0, 1]; 0 if nobody is released.
    """
    joined = Table(release.file, "scratch", "classes_joined")
    write_table(joined, joined_classes(release, other))
    found = release.query(
        f"""WITH own AS ({_records(release, joined, 0)}), others AS ({_records(other, joined, 1)})
            SELECT count(*) AS all_records, count(*) FILTER (n = 1) AS linked
            FROM own LEFT JOIN (SELECT record, count(*) AS n FROM others GROUP BY record) USING (record)"""
    ).iloc[0]
    return float(found["linked"] / max(found["all_records"], 1))


def joined_classes(release: Table, other: Table) -> pd.DataFrame:
    """Return the coarsest classes that both releases show: quasi_identifier, release (0 or 1), label, joined.

    Labels are joined if one of the releases does not tell them apart. Quasi-identifiers that only one release shows,
    and labels of values that only one delivery has, are left out.
    """
    pairs = release.query(
        f"""SELECT a.quasi_identifier, a.label AS first, b.label AS second
            FROM (SELECT DISTINCT quasi_identifier, value, label FROM {release.sql}) AS a
            JOIN (SELECT DISTINCT quasi_identifier, value, label FROM {other.sql}) AS b
              ON a.quasi_identifier = b.quasi_identifier AND a.value IS NOT DISTINCT FROM b.value
            ORDER BY ALL"""
    )
    found = []
    for name, own in pairs.groupby("quasi_identifier"):
        first, first_labels = pd.factorize(own["first"], use_na_sentinel=False)
        second, second_labels = pd.factorize(own["second"], use_na_sentinel=False)
        size = len(first_labels) + len(second_labels)
        edges = coo_array((np.ones(len(own)), (first, second + len(first_labels))), shape=(size, size))
        _, component = connected_components(edges, directed=False)
        labels = [(0, label) for label in first_labels] + [(1, label) for label in second_labels]
        found += [(name, number, label, int(own_class)) for (number, label), own_class in zip(labels, component, strict=True)]
    frame = pd.DataFrame(found, columns=["quasi_identifier", "release", "label", "joined"])
    return frame.astype({"quasi_identifier": "str", "label": "str", "release": "int64", "joined": "int64"})


def _records(release: Table, joined: Table, number: int) -> str:
    """SELECT a record of each released member: a sum of hashes, the same for equal multisets of classes, in any order."""
    return f"""SELECT sum(hash(r.quasi_identifier, coalesce(j.joined, -1))::HUGEINT * r.held) AS record
        FROM {release.sql} AS r
        JOIN (SELECT DISTINCT quasi_identifier FROM {joined.sql}) USING (quasi_identifier)
        LEFT JOIN {joined.sql} AS j
          ON j.release = {int(number)} AND j.quasi_identifier = r.quasi_identifier AND j.label IS NOT DISTINCT FROM r.label
        WHERE r.released GROUP BY r.tag"""


COLUMNS = ("tag", "quasi_identifier", "service_day", "value", "label", "known", "held", "released")
ORDER = ("quasi_identifier", "tag", "service_day", "value")
"""The order of the rows in a file; no two rows are equal in it."""

_DAY = "date_diff('day', DATE '1970-01-01', d.service_date)"


@dataclass(frozen=True)
class MemberTables:
    """The tables of the restricted store that say what a release shows of its members.

    Attributes
    ----------
    profiles
        member_id, released, and the member-level quasi-identifiers of the population.
    suppressed
        member_id of sampled members who are left out.
    known, held
        Claims before and after the long tail is cut: claim_id, member_id, year and the claim-level quasi-identifiers.
    dates
        claim_id and service_date as delivered.
    domains
        The table `value_domains`.
    """

    profiles: Table
    suppressed: Table
    known: Table
    held: Table
    dates: Table
    domains: Table


def kept_rows(
    tables: MemberTables,
    tags: Table,
    members: Mapping[str, int],
    claims: Mapping[str, int],
    released_only: bool = False,
    in_order: bool = False,
    names: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """SELECT the kept rows of a release.

    Parameters
    ----------
    tags
        member_id and tag of every member of the population.
    members, claims
        Level of each member-level and of each claim-level quasi-identifier in the release.
    released_only
        Whether the released members are the population, because classes are estimated from the release.
    in_order
        Whether the rows are in the order of `ORDER`, if the connection preserves it; otherwise they are in any order.
    names
        Quasi-identifier -> its name in the rows, if it has another one there.
    """
    people = f"""SELECT p.*, t.tag, p.released AND p.member_id NOT IN (SELECT member_id FROM {tables.suppressed.sql}) AS shown
        FROM {tables.profiles.sql} AS p JOIN {tags.sql} AS t USING (member_id)"""
    of_members, of_claims = tables.profiles.columns(), tables.known.columns()
    parts = {
        names.get(column, column): _of_members(tables, column, level, of_members[column], names.get(column, column))
        for column, level in members.items()
    } | {
        names.get(column, column): _of_claims(tables, column, level, of_claims[column], names.get(column, column))
        for column, level in claims.items()
    }
    # One quasi-identifier after the other, because sorting all rows at once would need several times the memory; and by the
    # place of the text among the values, because sorting numbers takes half as long.
    selects = (
        [f"({parts[column]} ORDER BY tag, service_day, place)" for column in sorted(parts)] if in_order else parts.values()
    )
    only = " WHERE shown" if released_only else ""
    return f"""WITH people AS (FROM ({people}){only}), claims AS MATERIALIZED ({_claims(tables, claims)})
        SELECT tag, quasi_identifier, service_day::INTEGER AS service_day, value, label,
          known::UINTEGER AS known, held::UINTEGER AS held, released
        FROM ({" UNION ALL ".join(selects)})"""


def _of_members(tables: MemberTables, column: str, level: int, kind: str, name: str) -> str:
    return f"""SELECT tag, '{name}' AS quasi_identifier, NULL AS service_day, p.{quoted(column)}::VARCHAR AS value, d.label,
          1 AS known, 1 AS held, shown AS released, 1 AS place
        FROM people AS p LEFT JOIN ({labels_query(tables.domains, column, level, kind)}) AS d
          ON d.value IS NOT DISTINCT FROM p.{quoted(column)}"""


def _claims(tables: MemberTables, columns: Iterable[str]) -> str:
    """SELECT every claim that is known or held, with its member's tag and its day: joined once for all columns."""
    own = tuple(columns)
    shown = ", ".join(("claim_id", "member_id", "year", *map(quoted, own)))
    return f"""SELECT tag, shown, coalesce({_DAY}, -c.year) AS service_day, {", ".join(f"c.{quoted(name)}" for name in own)},
          c.known, c.held
        FROM (SELECT {shown}, 1 AS known, 0 AS held FROM {tables.known.sql}
              WHERE member_id IN (SELECT member_id FROM people WHERE shown)
              UNION ALL SELECT {shown}, 0, 1 FROM {tables.held.sql}) AS c
        JOIN people USING (member_id) LEFT JOIN {tables.dates.sql} AS d USING (claim_id)"""


def _of_claims(tables: MemberTables, column: str, level: int, kind: str, name: str) -> str:
    # The label follows from the value, so that it is looked up once for each day that has the value.
    return f"""SELECT tag, '{name}' AS quasi_identifier, service_day, c.value::VARCHAR AS value, l.label, known, held,
          shown AS released, l.place
        FROM (SELECT tag, shown, service_day, {quoted(column)} AS value,
                sum(known) AS known, sum(held) AS held FROM claims GROUP BY ALL) AS c
        LEFT JOIN (SELECT *, dense_rank() OVER (ORDER BY value::VARCHAR) AS place FROM (
          {labels_query(tables.domains, column, level, kind)})) AS l ON l.value = c.value"""
