"""The rows that attacks 2 and 3 compare, people of an identified file and released records, and the classes that they form.

A person of the delivery and the person's record have the same number, which identifies correct matches.

Attack 3, on an inpatient database, forms classes on all inpatient visits (El Emam et al. 2012; methods#inpatient-database).

The adversary of the article has every visit of the discharge database and matches all of them. Two people are in one class if
they agree on age and sex, on the number of visits, and on the multiset of the visits' length of stay, condition group and
procedure group, or on any subset of these six. The extraction of the article's Table 6 lost which subset each row uses, so
every subset is counted (methods#inpatient-database), within each year and over all years.

A visit of the release is a claim whose place of service is an inpatient hospital; a row of the file must be the same kind of
event. Missing values count as values: both files show the blank.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

from deid_assets.methods.candidate.released_tables import generalized_claims, generalized_members
from deid_assets.reference.known_columns import GROUPED, IN_DAYS_IN_HOSPITAL, INPATIENT_VISIT, MEMBERS, STAYS
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
    return ", ".join(quoted(column) for column in columns)


MEMBER_LEVEL = tuple(column for column in MEMBERS if column not in IN_DAYS_IN_HOSPITAL)
VISITS = "visits"
VISIT_LEVEL = (*STAYS, GROUPED["diagnosis"], GROUPED["procedure"])
COLUMNS = (*MEMBER_LEVEL, VISITS, *VISIT_LEVEL)
"""Columns that may be matched: those of Table 6 of El Emam et al. 2012."""

ALL_YEARS = 0
"""The period that covers all years; 1, 2, 3 are the single years."""


def subsets(columns: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return every non-empty subset of the columns, ordered by size and then as in `COLUMNS`.

    Examples
    --------
    >>> len(subsets(COLUMNS)), subsets(("sex", "age"))
    (63, (('age',), ('sex',), ('age', 'sex')))
    """
    ordered = [column for column in COLUMNS if column in columns]
    return tuple(chosen for size in range(1, len(ordered) + 1) for chosen in combinations(ordered, size))


def visit_histories(visits: Table, columns: Sequence[str]) -> str:
    """SELECT one row per person and period: the visits of the period, encoded as comparable numbers.

    Parameters
    ----------
    visits
        One row per visit: released BOOLEAN (false for the file) | person BIGINT | year INTEGER, missing if the release has
        none, so that the visit counts over all years only | weight BIGINT, number of people that the row represents, the
        same in all rows of a person | age, sex, length_of_stay, condition_group, procedure_group VARCHAR, generalized, if
        in `columns`. Age and sex are the same in all rows of a person.
    columns
        Columns of `COLUMNS` that are known.

    Returns
    -------
    str
        SELECT of released | person | period INTEGER | weight | age, sex, visits, and one column per subset of visit-level
        columns, named by joining their names with '__'. Its values are equal exactly if the multisets are equal.
    """
    member = [column for column in MEMBER_LEVEL if column in columns]
    choices = visit_choices(columns)
    known = [column for column in VISIT_LEVEL if column in columns]
    # Each value becomes a small number, each visit one number per subset, and each period a sorted list of these.
    codes = [
        f"""(SELECT value, row_number() OVER (ORDER BY value) AS code
             FROM (SELECT DISTINCT coalesce({quoted(column)}, '') AS value FROM {visits.sql})) AS of_{column}"""
        for column in known
    ]
    joins = " ".join(
        f"JOIN {code} ON of_{column}.value = coalesce(v.{quoted(column)}, '')"
        for column, code in zip(known, codes, strict=True)
    )
    numbers = "".join(
        f", {' + '.join(f'of_{column}.code * {1_000_000**place}::BIGINT' for place, column in enumerate(choice))}"
        f" AS {quoted('__'.join(choice))}"
        for choice in choices
    )
    own = "".join(f", coalesce(v.{quoted(column)}, '') AS {quoted(column)}" for column in member)
    histories = "".join(f", list_sort(list({quoted('__'.join(c))})) AS {quoted('__'.join(c))}" for c in choices)
    carried = "".join(f", any_value({quoted(column)}) AS {quoted(column)}" for column in member)
    shown = "".join(f", {quoted(column)}" for column in member)
    ranked = "".join(
        f", dense_rank() OVER (PARTITION BY period ORDER BY {quoted('__'.join(c))}) AS {quoted('__'.join(c))}" for c in choices
    )
    return f"""
        WITH numbered AS (SELECT v.released, v.person, v.year, v.weight{own}{numbers} FROM {visits.sql} AS v {joins}),
             gathered AS (
                SELECT released, person, CASE GROUPING(year) WHEN 1 THEN {ALL_YEARS} ELSE year END AS period,
                       any_value(weight) AS weight{carried}, count(*) AS visits{histories}
                FROM numbered GROUP BY GROUPING SETS ((released, person, year), (released, person))
                HAVING GROUPING(year) = 1 OR year IS NOT NULL)
        SELECT released, person, period, weight{shown}, visits{ranked} FROM gathered"""


def visit_choices(columns: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return every subset of visit-level columns among the known ones."""
    return tuple(choice for choice in subsets(columns) if set(choice) <= set(VISIT_LEVEL))


def key_columns(subset: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of `visit_histories` on which a subset of columns is compared.

    A history implies its number of visits, so `visits` adds nothing if a visit-level column is compared.

    Examples
    --------
    >>> key_columns(("age", "visits", "length_of_stay", "condition_group"))
    ('age', 'length_of_stay__condition_group')
    >>> key_columns(("sex", "visits"))
    ('sex', 'visits')
    """
    of_visits = [column for column in VISIT_LEVEL if column in subset]
    own = tuple(column for column in MEMBER_LEVEL if column in subset)
    if of_visits:
        return (*own, "__".join(of_visits))
    return (*own, *([VISITS] if VISITS in subset else []))


def of_period(histories: Table, period: int) -> str:
    """Return the histories of one period, as SQL to put after FROM."""
    return f"(SELECT * FROM {histories.sql} WHERE period = {int(period)})"


def match_table(histories: Table, columns: Sequence[str]) -> str:
    """SELECT, for every period and every distinct key, the inputs of `marketer_risk`, all subsets in one pass.

    Parameters
    ----------
    histories
        Result of `visit_histories`, as a table.
    columns
        Columns of `COLUMNS` that are known.

    Returns
    -------
    str
        SELECT of period | key VARCHAR, the compared columns joined by ',' | found DOUBLE, expected number of correctly
        matched released records, where those not in the file count as found (`marketer_risk.matched_share`) | missing
        BIGINT, number of these | released BIGINT | people BIGINT in the file | classes BIGINT in the file.
    """
    keys = tuple(dict.fromkeys(key_columns(subset) for subset in subsets(columns)))
    compared = tuple(dict.fromkeys(column for key in keys for column in key))
    sets = ", ".join(f"(period, {', '.join(quoted(column) for column in key)})" for key in keys)
    grouping = ", ".join(quoted(column) for column in compared)
    names = " ".join(f"WHEN {_mask(key, compared)} THEN '{','.join(key)}'" for key in keys)
    return f"""
        WITH sized AS (
            SELECT period, GROUPING({grouping}) AS mask,
                   coalesce(sum(weight) FILTER (NOT released), 0)::DOUBLE AS people,
                   count(*) FILTER (released)::DOUBLE AS own
            FROM {histories.sql} GROUP BY GROUPING SETS ({sets})),
        shares AS (
            SELECT *, CASE WHEN people >= own THEN own / greatest(people, 1)
                           ELSE own - people + least(people, 1) END AS matched FROM sized)
        SELECT period, CASE mask {names} END AS key,
               sum(matched ORDER BY matched) AS found, -- the last digits of a sum depend on its order
               sum(greatest(own - people, 0))::BIGINT AS missing, sum(own)::BIGINT AS released,
               sum(people)::BIGINT AS people, count(*) FILTER (people > 0)::BIGINT AS classes
        FROM shares GROUP BY period, mask ORDER BY period, mask"""


def _mask(key: Sequence[str], compared: Sequence[str]) -> int:
    """Return the value of GROUPING for a key: one bit per column not grouped by, with the last column lowest."""
    return sum(1 << (len(compared) - 1 - place) for place, column in enumerate(compared) if column not in key)
