"""What a release shows of every delivered member, in the form in which later releases are compared with it (methods#meet).

One row is a value of one quasi-identifier of one member, as delivered and as released. Members are named by keyed tags,
which are the same in every delivery. The rows never leave the restricted store.

==================  ===================================================================================================
column              content
==================  ===================================================================================================
tag                 UBIGINT: keyed tag of the member
quasi_identifier    VARCHAR: its column
service_day         INTEGER: day of service since 1970 or, if unknown, minus the year; NULL: a member-level quasi-identifier
value, label        VARCHAR: the value, and its label in the release; NULL if missing
known, held         UINTEGER: how often a member's claims of that day have the value, before and after the long tail is cut
released            BOOLEAN: whether the member is released
==================  ===================================================================================================

`known` is 0 for members who are not released: what is known about them is never needed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from deid_assets.methods.population.value_domains import CLASS, labels_query, same_class
from deid_assets.store.tables import Table, quoted

COLUMNS = ("tag", "quasi_identifier", "service_day", "value", "label", "known", "held", "released")
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
    tables: MemberTables, tags: Table, members: Mapping[str, int], claims: Mapping[str, int], released_only: bool = False
) -> str:
    """SELECT the kept rows of a release, in any order.

    Parameters
    ----------
    tags
        member_id and tag of every member of the population.
    members, claims
        Level of each member-level and of each claim-level quasi-identifier in the release.
    released_only
        Whether the released members are the population, because classes are estimated from the release.
    """
    people = f"""SELECT p.*, t.tag, p.released AND p.member_id NOT IN (SELECT member_id FROM {tables.suppressed.sql}) AS shown
        FROM {tables.profiles.sql} AS p JOIN {tags.sql} AS t USING (member_id)"""
    of_members, of_claims = tables.profiles.columns(), tables.known.columns()
    parts = [_of_members(tables, column, level, of_members[column]) for column, level in members.items()]
    parts += [_of_claims(tables, column, level, of_claims[column]) for column, level in claims.items()]
    only = " WHERE shown" if released_only else ""
    return f"""WITH people AS (FROM ({people}){only})
        SELECT tag, quasi_identifier, service_day::INTEGER AS service_day, value, label,
          known::UINTEGER AS known, held::UINTEGER AS held, released
        FROM ({" UNION ALL ".join(parts)})"""


def _of_members(tables: MemberTables, column: str, level: int, kind: str) -> str:
    return f"""(SELECT tag, '{column}' AS quasi_identifier, NULL AS service_day, p.{quoted(column)}::VARCHAR AS value, d.label,
          1 AS known, 1 AS held, shown AS released
        FROM people AS p LEFT JOIN ({labels_query(tables.domains, column, level, kind)}) AS d
          ON d.value IS NOT DISTINCT FROM p.{quoted(column)})"""


def _of_claims(tables: MemberTables, column: str, level: int, kind: str) -> str:
    by_class = CLASS in tables.domains.columns()
    of_class = same_class("l", "c") if by_class else ""
    shown = f"claim_id, member_id, year, {quoted(column)} AS value{f', {CLASS}' if by_class else ''}"
    return f"""(SELECT tag, '{column}' AS quasi_identifier, coalesce({_DAY}, -c.year) AS service_day, c.value::VARCHAR AS value,
          any_value(l.label) AS label, sum(c.known) AS known, sum(c.held) AS held, shown AS released
        FROM (SELECT {shown}, 1 AS known, 0 AS held FROM {tables.known.sql}
              WHERE member_id IN (SELECT member_id FROM people WHERE shown)
              UNION ALL SELECT {shown}, 0, 1 FROM {tables.held.sql}) AS c
        JOIN people USING (member_id)
        LEFT JOIN {tables.dates.sql} AS d USING (claim_id)
        LEFT JOIN ({labels_query(tables.domains, column, level, kind, by_class)}) AS l ON l.value = c.value{of_class}
        GROUP BY ALL)"""
