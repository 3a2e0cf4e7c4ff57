"""Tables of a run itself: how many members remained after each step, and who they are (methods#tables-of-a-run).

Cells are named by what they count, and the sums that hold between them follow from the names. So whoever reads published
tables knows them too.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from deid_assets.methods.counts.protected_counts import SMALLEST_DESCRIBED
from deid_assets.methods.counts.tables import CellName, Sum
from deid_assets.store.tables import Table, quoted

ATTRITION, CHARACTERISTICS, CLAIMS, TOTALS = "attrition", "characteristics", "claims", "totals"
"""The tables: steps, the members who remained by what is known of them, claims by step, and sums of what members have."""

ALL, _BY = "all", " by "

REMAINING, EXCLUDED = "remaining", "excluded"
COHORT_STEP, SAMPLE_STEP, RELEASED_STEP = "eligible_members", "sampled_members", "released_members"
RECORDS_STEP, RELEASED_RECORDS_STEP = "records", "released_records"
PEOPLE_STEP, RELEASED_PEOPLE_STEP = "cohort_people", "released_people"
COHORT = CellName(ATTRITION, COHORT_STEP, REMAINING)
COHORTS = (COHORT, CellName(ATTRITION, RECORDS_STEP, REMAINING), CellName(ATTRITION, PEOPLE_STEP, REMAINING))
"""Whom the table of characteristics describes: eligible members, the records of a flat table, the people of a cohort."""
RELEASED = CellName(ATTRITION, RELEASED_STEP, REMAINING)
RELEASED_RECORDS = CellName(ATTRITION, RELEASED_RECORDS_STEP, REMAINING)
RELEASED_PEOPLE = CellName(ATTRITION, RELEASED_PEOPLE_STEP, REMAINING)
TOLD_BY_FILES = frozenset(
    {
        RELEASED, RELEASED_RECORDS, RELEASED_PEOPLE,
        COHORTS[2], RELEASED_PEOPLE._replace(column=EXCLUDED),
    }
)  # fmt: skip
"""The released files tell these numbers exactly. Of a cohort nobody is left out, so that its size is one of them."""

UNKNOWN, OTHER = "unknown", "other"
NUMBER_OF_CLAIMS = "number of claims"
CLAIM_BANDS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Where the bands of numbers of claims begin; the last is open."""

PERCENTILES = (5, 25, 50, 75, 95)


def attrition_cells(remaining: Sequence[tuple[str, int]]) -> list[tuple[CellName, int]]:
    """Return the cells of the attrition table with their counts.

    Parameters
    ----------
    remaining
        Each step with the number of members that remain after it, in order.

    Examples
    --------
    >>> for name, count in attrition_cells([("delivered_members", 50), ("eligible_members", 47)]):
    ...     print(name, count)
    attrition / delivered_members / remaining 50
    attrition / eligible_members / remaining 47
    attrition / eligible_members / excluded 3
    """
    found = []
    before: int | None = None
    for step, count in remaining:
        found.append((CellName(ATTRITION, step, REMAINING), count))
        if before is not None:
            found.append((CellName(ATTRITION, step, EXCLUDED), before - count))
        before = count
    return found


def sums_of(cells: Iterable[CellName]) -> tuple[Sum, ...]:
    """Return every sum that holds between cells: what remained and was excluded, the cohort by each characteristic, and totals.

    A sum of which a cell is missing is left out.

    Examples
    --------
    >>> names = [name for name, _ in attrition_cells([("delivered_members", 50), ("eligible_members", 47)])]
    >>> [(one.name, len(one.parts)) for one in sums_of([*names, CellName("characteristics", "sex", "F")])]
    [('eligible_members', 2), ('sex', 1)]
    """
    names = tuple(cells)
    known = set(names)
    steps = [name for name in names if name.table == ATTRITION and name.column == REMAINING]
    found = []
    for before, after in pairwise(steps):
        excluded = after._replace(column=EXCLUDED)
        if excluded in known:
            found.append(Sum(after.row, before, (after, excluded)))
    variables = dict.fromkeys(name.row for name in names if name.table == CHARACTERISTICS)
    for cohort in known.intersection(COHORTS):
        for variable in variables:
            parts = tuple(name for name in names if name.table == CHARACTERISTICS and name.row == variable)
            found.append(Sum(variable, cohort, parts))
    for row in dict.fromkeys(name.row for name in names if name.table == TOTALS and _BY in name.row):
        total = CellName(TOTALS, row.partition(_BY)[0], ALL)
        if total in known:
            found.append(Sum(row, total, tuple(name for name in names if name.table == TOTALS and name.row == row)))
    return tuple(found)


def total_by(column: str, by: Sequence[str]) -> str:
    """The row of the totals of a column by classes.

    Examples
    --------
    >>> total_by("months", ["age", "sex"]), total_by("months", [])
    ('months by age, sex', 'months')
    """
    return f"{column}{_BY}{', '.join(by)}" if by else column


def values_counted(profiles: Table, cohort: Table, column: str) -> str:
    """SELECT value, members, sampled: members of the cohort, and of the sample, with each value; a missing one is null."""
    return f"""
        SELECT {quoted(column)} AS value, count(*) AS members, count(*) FILTER (released) AS sampled
        FROM {profiles.sql} JOIN {cohort.sql} USING (member_id) GROUP BY ALL ORDER BY ALL
    """


def names_by(by: Sequence[str]) -> list[str]:
    """How `totals_counted` calls the columns by which it sums."""
    return [f"by_{place}" for place in range(len(by))]


def totals_counted(profiles: Table, cohort: Table, column: str, by: Sequence[str]) -> str:
    """SELECT names_by, members, sampled: sums of a column over the cohort, and over the sample, per combination of values."""
    total = f"sum({quoted(column)})"
    values = "".join(f"{quoted(one)} AS {name}, " for one, name in zip(by, names_by(by), strict=True))
    return f"""
        SELECT {values}coalesce({total}, 0)::BIGINT AS members,
            coalesce({total} FILTER (released), 0)::BIGINT AS sampled
        FROM {profiles.sql} JOIN {cohort.sql} USING (member_id) GROUP BY ALL ORDER BY ALL
    """


def claims_counted(claims: Table, per_member: int) -> str:
    """SELECT claims: the number of claims, of which each member contributes at most `per_member`."""
    return f"""
        SELECT coalesce(sum(least(n, {int(per_member)})), 0)::BIGINT AS claims
        FROM (SELECT count(*) AS n FROM {claims.sql} GROUP BY member_id)
    """


def claim_bands() -> list[str]:
    """The labels of the bands.

    Examples
    --------
    >>> claim_bands()[:4], claim_bands()[-1]
    (['0', '1', '2-4', '5-9'], '1000+')
    """
    pairs = pairwise(CLAIM_BANDS)
    return [*(f"{start}" if end == start + 1 else f"{start}-{end - 1}" for start, end in pairs), f"{CLAIM_BANDS[-1]}+"]


def claim_band(claims: int) -> str:
    """The label of the band of a number of claims, of at least 0.

    Examples
    --------
    >>> [claim_band(number) for number in (0, 4, 5, 5_000)]
    ['0', '2-4', '5-9', '1000+']
    """
    return claim_bands()[sum(start <= claims for start in CLAIM_BANDS) - 1]


def cumulative_shares(counts: Sequence[int | None]) -> list[float | None]:
    """Return the share of people up to and including each class, from protected counts alone.

    It discloses nothing that the counts do not. It is left out where they count fewer than 11 people altogether, or where one
    of them is masked: a sum would give that one away.

    Parameters
    ----------
    counts
        Protected counts of classes in order; None: masked.

    Examples
    --------
    >>> cumulative_shares([10, -1, 31]), cumulative_shares([4, 5]), cumulative_shares([40, None])
    ([0.25, 0.225, 1.0], [None, None], [None, None])
    """
    known = [count for count in counts if count is not None]
    total = sum(known)
    if len(known) < len(counts) or total < SMALLEST_DESCRIBED:
        return [None] * len(counts)
    return [round(sum(known[: place + 1]) / total, 4) for place in range(len(known))]


def percentile_class(shares: Sequence[float | None], percentile: int) -> int | None:
    """Return the position of the first class up to which at least a percentage of people are; None where it is left out.

    Examples
    --------
    >>> percentile_class([0.25, 0.225, 1.0], 25), percentile_class([0.25, 0.225, 1.0], 50), percentile_class([None], 50)
    (0, 2, None)
    """
    return next((place for place, share in enumerate(shares) if share is not None and share >= percentile / 100), None)
