"""What a release shows of every delivered member, in the form in which later releases are compared with it (methods#meet).

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

from deid_assets.methods.population.value_domains import labels_query
from deid_assets.store.tables import Table, quoted

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
