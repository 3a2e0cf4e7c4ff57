"""Attack 3, the inpatient database: classes on all inpatient visits (El Emam et al. 2012; methods#inpatient-database).

The adversary of the article has every visit of the discharge database and matches all of them. Two people are in one class if
they agree on age and sex, on the number of visits, and on the multiset of the visits' length of stay, condition group and
procedure group, or on any subset of these six. The extraction of the article's Table 6 lost which subset each row uses, so
every subset is counted (methods#inpatient-database), within each year and over all years.

A visit of the release is a claim whose place of service is an inpatient hospital; a row of the file must be the same kind of
event. Missing values count as values: both files show the blank.
"""

from collections.abc import Sequence
from itertools import combinations

from deid_assets.reference.known_columns import GROUPED, IN_DAYS_IN_HOSPITAL, MEMBERS, STAYS
from deid_assets.store.tables import Table, quoted

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
            FROM {histories.sql} GROUP BY GROUPING SETS ({sets}))
        SELECT period, CASE mask {names} END AS key,
               sum(CASE WHEN people >= own THEN own / greatest(people, 1)
                        ELSE own - people + least(people, 1) END) AS found,
               sum(greatest(own - people, 0))::BIGINT AS missing, sum(own)::BIGINT AS released,
               sum(people)::BIGINT AS people, count(*) FILTER (people > 0)::BIGINT AS classes
        FROM sized GROUP BY period, mask ORDER BY period, mask"""


def _mask(key: Sequence[str], compared: Sequence[str]) -> int:
    """Return the value of GROUPING for a key: one bit per column not grouped by, with the last column lowest."""
    return sum(1 << (len(compared) - 1 - place) for place, column in enumerate(compared) if column not in key)
