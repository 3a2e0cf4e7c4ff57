"""Fills of drugs in a synthetic delivery: they follow from the diagnoses of a member's visits.

`drugs.csv` says for which diagnoses a drug is given, to which share of the members who have one, how often it is filled on
average and for how many days. The numbers are our own choice, as plausible as those of `conditions.csv`. Ingredients are real
names. Codes are made up: they have the form of National Drug Codes and begin with 99999.

Fills are drawn from random numbers of their own, so that a delivery with them has the same members and claims as one without.
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
class FillBlock:
    """The fills of a block, each attribute with one entry per fill, ordered by member, drug and day.

    `member` is the position in the block, `drug` a number into `drugs().codes`, `day` counts from the first day of year 1; a
    provider is -1 if missing.
    """

    member: np.ndarray
    provider: np.ndarray
    year: np.ndarray
    day: np.ndarray
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
