"""Attack 3, the inpatient database: who is alike in all inpatient visits (El Emam et al. 2012; methods#inpatient-database).

The adversary of the article holds every visit of the discharge database and matches all of them: two people are alike when they
agree on age and sex, on the number of visits, and on the multiset of what the visits tell of length of stay, condition group
and procedure group, or on any choice of these six. Which choice each row of the article's Table 6 made was lost in its
extraction, so that every choice is counted (methods#inpatient-database), within each year and over all years.

A visit of the release is a claim whose place of service is an inpatient hospital, and a row of the file must be the
same kind of thing. What is missing is a value like any other: both files show the blank.
"""

from collections.abc import Sequence
from itertools import combinations

from deid_assets.store.tables import Table, quoted

MEMBER_LEVEL = ("age", "sex")
VISITS = "visits"
VISIT_LEVEL = ("length_of_stay", "condition_group", "procedure_group")
COLUMNS = (*MEMBER_LEVEL, VISITS, *VISIT_LEVEL)
"""What may be matched: the columns of Table 6 of El Emam et al. 2012."""

ALL_YEARS = 0
"""The period of all years together; 1, 2, 3 are the years."""


def subsets(columns: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Every choice of one column or more, in the order of `COLUMNS`, small choices first.

    Examples
    --------
    >>> len(subsets(COLUMNS)), subsets(("sex", "age"))
    (63, (('age',), ('sex',), ('age', 'sex')))
    """
    ordered = [column for column in COLUMNS if column in columns]
    return tuple(chosen for size in range(1, len(ordered) + 1) for chosen in combinations(ordered, size))


def visit_histories(visits: Table, columns: Sequence[str]) -> str:
    """SELECT one row for each person and period: what the visits of the period tell, as numbers that can be compared.

    Parameters
    ----------
    visits
        One row per visit: released BOOLEAN (else of the file) | person BIGINT | year INTEGER, missing where the release
        tells none, so that the visit counts over all years only | weight BIGINT, people
        that the row stands for, the same in all rows of a person | age, sex, length_of_stay, condition_group,
        procedure_group VARCHAR, generalized, as far as in `columns`. Age and sex are the same in all rows of a
        person.
    columns
        Which of `COLUMNS` are known.

    Returns
    -------
    str
        SELECT of released | person | period INTEGER | weight | age, sex, visits, and one column for each choice of
        visit-level columns, named after them and joined by '__': equal exactly where the multisets of values are equal.
    """
    member = [column for column in MEMBER_LEVEL if column in columns]
    choices = visit_choices(columns)
    known = [column for column in VISIT_LEVEL if column in columns]
    # A value becomes a small number, a visit one number for each choice, and the sorted numbers of a period a history.
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
    """Every choice of visit-level columns among those known."""
    return tuple(choice for choice in subsets(columns) if set(choice) <= set(VISIT_LEVEL))


def key_columns(subset: Sequence[str]) -> tuple[str, ...]:
    """The columns of `visit_histories` on which a choice of columns is compared.

    The visits of a history are counted in it, so that the number of visits adds nothing where it is there.

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
    """The histories of one period, as a SELECT writes them after FROM."""
    return f"(SELECT * FROM {histories.sql} WHERE period = {int(period)})"


def match_table(histories: Table, columns: Sequence[str]) -> str:
    """SELECT, for every period and every distinct key, what `marketer_risk` needs, all choices in one pass.

    Parameters
    ----------
    histories
        `visit_histories`, as a table.
    columns
        Which of `COLUMNS` are known.

    Returns
    -------
    str
        SELECT of period | key VARCHAR, the columns compared joined by ',' | found DOUBLE, released records that an
        adversary is expected to match, those whom the file lacks counted as found (`marketer_risk.matched_share`) |
        missing BIGINT, of these lacking | released BIGINT | people BIGINT of the file | classes BIGINT of the file.
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
    """What GROUPING says for a key: a bit for each column that is not grouped by, the last column's the lowest."""
    return sum(1 << (len(compared) - 1 - place) for place, column in enumerate(compared) if column not in key)
