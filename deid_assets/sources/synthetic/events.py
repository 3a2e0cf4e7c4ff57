"""Fills of drugs and laboratory results in a synthetic delivery: both follow from the diagnoses of a member's visits.

`drugs.csv` says for which diagnoses a drug is given, to which share of the members who have one, how often it is filled on
average and for how many days. Ingredients are real names. Codes are made up: they have the form of National Drug Codes and
begin with 99999.

`tests.csv` says of each test for which diagnoses it is done, to which share of the members who have one and of all others, how
often on average, and what it finds: the median of the healthy, the factor by which a diagnosis changes it, and how much
members and tests of one member differ (standard deviations of the logarithm). No test is for a condition of the lists of
sensitive codes.

The numbers are our own choice, as plausible as those of `conditions.csv`. Fills and results are each drawn from random numbers
of their own, so that a delivery with them has the same members and claims as one without.
"""

import functools
from dataclasses import dataclass
from typing import Final

import numpy as np

from deid_assets.reference.tables import read_table
from deid_assets.sources.synthetic.claims import ClaimBlock, year_offsets
from deid_assets.sources.synthetic.members import DAYS_OF_YEAR, Members, chance

# Our own choice: days from the visit to the first fill, and how many days early or late the next one is.
_FIRST_FILL_DAYS: Final = 4
_REFILL_EARLY: Final = 3
_REFILL_LATE: Final = 20
_MOST_FILLS: Final = 60
_PRIMARY_CARE_SHARE: Final = 0.6
"""Share of the drugs that the primary care physician prescribes, and not who made the diagnosis."""


@dataclass(frozen=True)
class EventBlock:
    """Events of a block, each attribute with one entry per event.

    `member` is the position in the block, `day` counts from the first day of year 1; a provider is -1 if missing.
    """

    member: np.ndarray
    provider: np.ndarray
    year: np.ndarray
    day: np.ndarray


@dataclass(frozen=True)
class FillBlock(EventBlock):
    """Fills, ordered by member, drug and day; `drug` is a number into `drugs().codes`."""

    drug: np.ndarray


@dataclass(frozen=True)
class Drugs:
    """The drugs of `drugs.csv` by number: their codes, and by drug the share, the mean number of fills and the days of supply.

    `given` and `first`: the drugs of condition c are `given[first[c] : first[c + 1]]`.
    """

    codes: tuple[str, ...]
    share: np.ndarray
    fills: np.ndarray
    days_supply: np.ndarray
    given: np.ndarray
    first: np.ndarray


@functools.cache
def drugs() -> Drugs:
    """Read `drugs.csv`; a condition of it is the beginning of a code of ICD-9-CM."""
    rows = read_table("drugs.csv", package=__package__)
    conditions = [row["code"] for row in read_table("conditions.csv", package=__package__)]
    prefixes = [tuple(row["conditions"].split()) for row in rows]
    given = [[number for number, prefix in enumerate(prefixes) if code.startswith(prefix)] for code in conditions]
    return Drugs(
        codes=tuple(row["ndc"] for row in rows),
        share=np.array([float(row["share"]) for row in rows]),
        fills=np.array([float(row["fills"]) for row in rows]),
        days_supply=np.array([int(row["days_supply"]) for row in rows]),
        given=np.array([number for numbers in given for number in numbers], dtype=np.int64),
        first=np.cumsum([0, *map(len, given)]),
    )


def draw_fills(random: np.random.Generator, members: Members, claims: ClaimBlock) -> FillBlock:
    """Draw the fills of a block of members whose claims were drawn."""
    known = drugs()
    claim, drug = _prescribed(claims, known)
    taken = np.flatnonzero(random.random(len(drug)) < known.share[drug])
    claim, drug = claim[taken], drug[taken]
    by_primary_care = chance(random, len(claim), _PRIMARY_CARE_SHARE)
    provider = np.where(by_primary_care, claims.pcp[claim], claims.provider[claim])
    number = np.minimum(random.geometric(1 / known.fills[drug]), _MOST_FILLS)
    course = np.repeat(np.arange(len(drug)), number)
    starts = np.cumsum(number) - number
    gap = known.days_supply[drug][course] + random.integers(-_REFILL_EARLY, _REFILL_LATE + 1, len(course))
    gap[starts] = random.integers(0, _FIRST_FILL_DAYS + 1, len(starts))
    elapsed = np.cumsum(gap)
    day = claims.day[claim][course] + elapsed - (elapsed[starts] - gap[starts])[course]
    year = np.searchsorted(year_offsets(), day, side="right") - 1
    member = claims.member[claim][course]
    # Whoever is not enrolled fills nothing.
    kept = np.flatnonzero((day < year_offsets()[-1] + DAYS_OF_YEAR) & members.enrolled[member, year])
    return FillBlock(member[kept], provider[course[kept]], year[kept], day[kept], drug[course[kept]])


def _prescribed(claims: ClaimBlock, known: Drugs) -> tuple[np.ndarray, np.ndarray]:
    """Return claims and drugs: each drug that a member's diagnoses lead to, once, with the first dated claim that shows one."""
    dated = claims.day >= 0
    shown = [np.flatnonzero(dated & (diagnoses >= 0)) for diagnoses in claims.diagnoses]
    claim = np.concatenate(shown)
    condition = np.concatenate([diagnoses[at] for diagnoses, at in zip(claims.diagnoses, shown, strict=True)])
    claim, condition = _first_of(claims, claim, condition)
    number = np.diff(known.first)[condition]
    before = np.repeat(known.first[condition] - (np.cumsum(number) - number), number)
    return _first_of(claims, np.repeat(claim, number), known.given[before + np.arange(number.sum())])


def _first_of(claims: ClaimBlock, claim: np.ndarray, what: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first claim of each member with each of some numbers; of one day, the earlier claim."""
    order = np.lexsort((claim, claims.day[claim], what, claims.member[claim]))
    claim, what = claim[order], what[order]
    member = claims.member[claim]
    new = (np.diff(member, prepend=-1) != 0) | (np.diff(what, prepend=-1) != 0)
    return claim[new], what[new]


_REPORTED_DAYS: Final = 3
"""Days from a visit to the last day on which its tests are done: our own choice."""
_MOST_RESULTS: Final = 40


@dataclass(frozen=True)
class ResultBlock(EventBlock):
    """Results, ordered by member and test; `test` is a number into `tests().codes`."""

    test: np.ndarray
    value: np.ndarray


@dataclass(frozen=True)
class Tests:
    """The tests of `tests.csv` by number: codes of LOINC, units, and the columns of numbers.

    `done_for` is (conditions, tests) bool: whether a test is done for a condition. `of_women` is whether it is done for women.
    """

    codes: tuple[str, ...]
    units: tuple[str, ...]
    numbers: dict[str, np.ndarray]
    done_for: np.ndarray
    of_women: np.ndarray


@functools.cache
def tests() -> Tests:
    """Read `tests.csv`; a condition of it is the beginning of a code of ICD-9-CM."""
    rows = read_table("tests.csv", package=__package__)
    conditions = [row["code"] for row in read_table("conditions.csv", package=__package__)]
    numbers = ("share", "share_of_others", "times", "median", "factor", "between", "within", "decimals")
    return Tests(
        codes=tuple(row["loinc"] for row in rows),
        units=tuple(row["unit"] for row in rows),
        numbers={name: np.array([float(row[name]) for row in rows]) for name in numbers},
        of_women=np.array([row["sex"] != "M" for row in rows]),
        done_for=np.array([[code.startswith(tuple(row["conditions"].split())) for row in rows] for code in conditions]),
    )


def draw_results(random: np.random.Generator, members: Members, claims: ClaimBlock) -> ResultBlock:
    """Draw the results of a block of members whose claims were drawn: each is of one of the member's visits with a date."""
    known, dated = tests(), np.flatnonzero(claims.day >= 0)
    numbers = known.numbers
    ill = _ill(claims, dated, len(members.age), known)
    visits = np.bincount(claims.member[dated], minlength=len(members.age))
    share = np.where(ill, numbers["share"], numbers["share_of_others"])
    share *= (visits > 0)[:, None] & (known.of_women | ~members.female[:, None])
    member, test = np.nonzero(random.random(share.shape) < share)
    of_member = random.standard_normal(len(member))
    times = np.minimum(random.geometric(1 / numbers["times"][test]), _MOST_RESULTS)
    series = np.repeat(np.arange(len(member)), times)
    member, test = member[series], test[series]
    # Claims are in the order of members, so that those of one are beside each other.
    nth = (visits[member] * random.random(len(member))).astype(np.int64)
    claim = dated[(np.cumsum(visits) - visits)[member] + nth]
    last_day = year_offsets()[-1] + DAYS_OF_YEAR - 1
    day = np.minimum(claims.day[claim] + random.integers(0, _REPORTED_DAYS + 1, len(claim)), last_day)
    logs = np.log(numbers["median"][test] * np.where(ill[member, test], numbers["factor"][test], 1.0))
    logs += numbers["between"][test] * of_member[series] + numbers["within"][test] * random.standard_normal(len(test))
    scale = 10.0 ** numbers["decimals"][test]
    return ResultBlock(
        member=member,
        provider=claims.provider[claim],
        year=np.searchsorted(year_offsets(), day, side="right") - 1,
        day=day,
        test=test,
        value=np.rint(np.exp(logs) * scale) / scale,
    )


def _ill(claims: ClaimBlock, dated: np.ndarray, members: int, known: Tests) -> np.ndarray:
    """Return (members, tests) bool: whether a dated claim shows a diagnosis that the test is done for."""
    found = np.zeros((members, len(known.codes)), dtype=bool)
    for diagnoses in claims.diagnoses:
        shown = dated[diagnoses[dated] >= 0]
        claim, test = np.nonzero(known.done_for[diagnoses[shown]])
        found[claims.member[shown[claim]], test] = True
    return found
