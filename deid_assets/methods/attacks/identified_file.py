"""The rows that attacks 2 and 3 compare, people of an identified file and released records, and the classes that they form.

A person of the delivery and the person's record have the same number, which identifies correct matches.
"""

from collections.abc import Mapping, Sequence

from deid_assets.methods.candidate.released_tables import generalized_claims, generalized_members
from deid_assets.reference.known_columns import INPATIENT_VISIT
from deid_assets.store.tables import Table, quoted


def delivered_people(profiles: Table, domains: Table, levels: Mapping[str, int]) -> str:
    """SELECT person | weight | the generalized columns of every delivered member; `levels` by member-level column."""
    if not levels:
        return f"SELECT member_number AS person, 1::BIGINT AS weight FROM {profiles.sql}"
    return f"""SELECT p.member_number AS person, 1::BIGINT AS weight{_names(levels, "g")}
        FROM ({generalized_members(profiles, domains, levels)}) AS g JOIN {profiles.sql} AS p USING (member_id)"""


def released_people(members: Table, crosswalk: Table, profiles: Table, names: Mapping[str, str]) -> str:
    """SELECT person | weight | MemberID | the columns of every released member, as published.

    Parameters
    ----------
    names
        Released name of each column.
    """
    told = "".join(f", m.{quoted(name)} AS {quoted(column)}" for column, name in names.items())
    return f"""SELECT p.member_number AS person, 1::BIGINT AS weight, m."MemberID"{told} FROM {members.sql} AS m
        JOIN {crosswalk.sql} AS x ON x.kind = 'member' AND x.pseudonym = m."MemberID"
        JOIN {profiles.sql} AS p ON p.member_id = x.original_id"""


def delivered_visits(
    claims: Table, profiles: Table, domains: Table, of_visit: Mapping[str, int], of_member: Mapping[str, int]
) -> str:
    """SELECT person | weight | year | the generalized columns of the inpatient claims of every delivered member.

    Parameters
    ----------
    claims
        Claims before the long tail is truncated: a discharge database truncates nothing.
    of_visit, of_member
        Level of each column.

    Returns
    -------
    str
        A SELECT with one parameter: the labels of inpatient hospitals at the level of `place`, which `of_visit` contains.
    """
    visits = generalized_claims(claims, domains, of_visit, ["year"])
    shown = [column for column in of_visit if column not in INPATIENT_VISIT]
    return f"""SELECT m.member_number AS person, people.weight, v.year{_names(shown, "v")}{_names(of_member, "people")}
        FROM ({visits}) AS v JOIN {profiles.sql} AS m USING (member_id)
        JOIN ({delivered_people(profiles, domains, of_member)}) AS people ON people.person = m.member_number
        WHERE {_of_inpatients({column: column for column in of_visit})}"""


def released_visits(claims: Table, people: str, of_visit: Mapping[str, str], of_member: Sequence[str]) -> str:
    """SELECT the columns of `delivered_visits` for the visits of every released member, as published.

    Parameters
    ----------
    people
        The SELECT of `released_people`.
    of_visit
        Released name of each column, including `place`.

    Returns
    -------
    str
        A SELECT with the same parameter.
    """
    told = "".join(
        f", v.{quoted(name)} AS {quoted(column)}" for column, name in of_visit.items() if column not in INPATIENT_VISIT
    )
    return f"""SELECT people.person, people.weight, v."Year"[2:]::INTEGER AS year{told}{_names(of_member, "people")}
        FROM {claims.sql} AS v JOIN ({people}) AS people USING ("MemberID")
        WHERE {_of_inpatients(of_visit)}"""


def _of_inpatients(names: Mapping[str, str]) -> str:
    return " AND ".join(f"list_contains(?, v.{quoted(names[column])})" for column in INPATIENT_VISIT)


def listed_people(table: Table, columns: Sequence[str]) -> str:
    """SELECT person | weight | the columns of a population table, as read."""
    return f"SELECT person, weight{_names(columns)} FROM {table.sql}"


def listed_visits(table: Table, of_visit: Sequence[str], of_member: Sequence[str]) -> str:
    """SELECT person | weight | year | the columns of a discharge table; age and sex are those of the person's first row."""
    year = "year::INTEGER" if "year" in table.columns() else "1"
    by_row = "OVER (PARTITION BY person ORDER BY row_key)"
    first = "".join(f", first({quoted(column)}) {by_row} AS {quoted(column)}" for column in of_member)
    return f"SELECT person, weight, {year} AS year{_names(of_visit)}{first} FROM {table.sql}"


def compared_rows(people: str, released: str, columns: Sequence[str], others: Sequence[str] = ()) -> str:
    """SELECT the rows of the file and those of the release: released BOOLEAN | person | weight | the columns.

    Parameters
    ----------
    people, released
        SELECTs of both; parameters are bound in this order.
    columns
        Columns to compare; missing values become '', a value like any other.
    others
        Columns to carry along.
    """
    told = "".join(f", coalesce({quoted(column)}, '') AS {quoted(column)}" for column in columns)
    names = f"person, weight{_names(others)}{told}"
    return f"SELECT false AS released, {names} FROM ({people}) UNION ALL SELECT true, {names} FROM ({released})"


def _names(columns: Sequence[str] | Mapping[str, object], of: str | None = None) -> str:
    prefix = f"{of}." if of else ""
    return "".join(f", {prefix}{quoted(column)}" for column in columns)


def file_class_sizes(rows: str, columns: Sequence[str]) -> str:
    """SELECT the size of every class in the file and in the release: population_size | released_size BIGINT.

    Parameters
    ----------
    rows
        SQL to put after FROM: released BOOLEAN (false for the file) | weight BIGINT, number of people that a row of the
        file represents | the columns.
    columns
        Columns on which records and people are compared; missing values count as values.
    """
    return f"""
        SELECT coalesce(sum(weight) FILTER (NOT released), 0)::BIGINT AS population_size,
               count(*) FILTER (released)::BIGINT AS released_size
        FROM {rows} GROUP BY {_listed(columns)} ORDER BY {_listed(columns)}"""


def class_numbers(rows: str, columns: Sequence[str]) -> str:
    """SELECT the class number of every record and person: released | person | class BIGINT, ordered by person.

    Parameters
    ----------
    rows
        As for `file_class_sizes`, with person BIGINT: the same number for a record and for the person it belongs to.
    """
    return f"""
        SELECT released, person, dense_rank() OVER (ORDER BY {_listed(columns)})::BIGINT AS class
        FROM {rows} ORDER BY released, person"""


def _listed(columns: Sequence[str]) -> str:
    if not columns:
        raise ValueError("name at least one column on which records and people are compared")
    return ", ".join(quoted(column) for column in columns)
