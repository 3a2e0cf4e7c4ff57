"""Laboratory results in a synthetic delivery: a member's tests follow from the diagnoses, and so do their values.

`tests.csv` says of each test for which diagnoses it is done, to which share of the members who have one and of all others, how
often on average, and what it finds: the median of the healthy, the factor by which a diagnosis changes it, and how much
members and tests of one member differ (standard deviations of the logarithm). The numbers are our own choice. No test is for a
condition of the lists of sensitive codes.

Results are drawn from random numbers of their own, so that a delivery with them has the same members and claims as one without.
"""

import functools
from dataclasses import dataclass
from typing import Final

import numpy as np

from deid_assets.reference.tables import read_table
from deid_assets.sources.synthetic.claims import ClaimBlock, year_offsets
from deid_assets.sources.synthetic.members import DAYS_OF_YEAR, Members

_REPORTED_DAYS: Final = 3
"""Days from a visit to the last day on which its tests are done: our own choice."""
_MOST_RESULTS: Final = 40


@dataclass(frozen=True)
class ResultBlock:
    """The results of a block, each attribute with one entry per result, ordered by member and test.

    `member` is the position in the block, `test` a number into `tests().codes`, `day` counts from the first day of year 1; a
    provider is -1 if missing.
    """

    member: np.ndarray
    provider: np.ndarray
    year: np.ndarray
    day: np.ndarray
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
