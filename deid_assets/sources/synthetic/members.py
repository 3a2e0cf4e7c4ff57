"""The members of a synthetic delivery: demographics, burden of disease, and lasting conditions.

All functions work on one block of members at a time, as arrays with one entry per member, in member order.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from deid_assets.sources.synthetic import shape
from deid_assets.sources.synthetic.tables import BURDENS, PRIMARY_CARE_SPECIALTIES, Tables, burden_classes, strata

SLOTS: Final = 6
"""Maximum number of lasting conditions of a member."""

# Of the members aged 0 to 9, those born within the three years: birth cohorts of equal size.
_BORN_WITHIN_SHARE: Final = 3 / 13
_CHILD: Final = 18
# Primary care of children and adults by PRIMARY_CARE_SPECIALTIES (our own choice).
_PRIMARY_CARE_SHARES: Final = np.array([[0.30, 0.00, 0.00, 0.70], [0.46, 0.42, 0.12, 0.00]])
# Beyond 80, each year of age has this share of the one before (our own choice), up to 99.
_AGEING: Final = 0.86
_OLDEST: Final = 99

# Calendar of the three years. The published files do not say which years these are.
YEAR_STARTS: Final = np.array(["2007-01-01", "2008-01-01", "2009-01-01"], dtype="datetime64[D]")
DAYS_OF_YEAR: Final = 365
YEARS_LATER: Final = 12
"""Diagnoses in ICD-10-CM are of these years later, of which the second is a leap year, too."""


@dataclass(frozen=True)
class Members:
    """A block of members, each attribute with one entry per member.

    Attributes
    ----------
    female, sensitive
        bool. A sensitive member has at least one claim with a sensitive code (methods#removal).
    age
        int64, completed years at the first claim of year 1, else at the start of year 1; 0 for the unborn.
    enrolled
        bool, (members, 3): by year.
    birth_year, birth_day
        int64: for members born within the three years, the year 0..2 and the day of that year; else -1 and 0.
    claims
        int64, at least 1: the number of claims.
    stratum, burden
        int64, see `tables.strata` and `tables.burden_classes`.
    conditions
        int64, (members, SLOTS): the lasting conditions of the member; the first `condition_count` are distinct.
    sensitive_condition
        int64, the condition that makes a sensitive member sensitive; meaningless for the others.
    primary_care
        int64, number of the specialty of the member's primary care physician.
    """

    female: np.ndarray
    sensitive: np.ndarray
    age: np.ndarray
    enrolled: np.ndarray
    birth_year: np.ndarray
    birth_day: np.ndarray
    claims: np.ndarray
    stratum: np.ndarray
    burden: np.ndarray
    conditions: np.ndarray
    condition_count: np.ndarray
    sensitive_condition: np.ndarray
    primary_care: np.ndarray


def uniform_words(random: np.random.Generator, size: int | tuple[int, ...]) -> np.ndarray:
    """Return uniform 16-bit words."""
    return random.integers(0, 1 << 16, size, dtype=np.uint16)


def chance(random: np.random.Generator, size: int, probability: float) -> np.ndarray:
    """Return bool draws that are true with the given probability, to 1/65,536."""
    return uniform_words(random, size) < round(probability * (1 << 16))


def first_year(icd10cm: bool) -> int:
    """Return the calendar year that is year 1, by the coding system of diagnoses.

    Examples
    --------
    >>> first_year(icd10cm=True)
    2019
    """
    return int(YEAR_STARTS[0].astype("datetime64[Y]").astype(np.int64)) + 1970 + YEARS_LATER * icd10cm


def draw_members(random: np.random.Generator, count: int, tables: Tables) -> Members:
    """Draw a block of members."""
    sensitive = chance(random, count, shape.SENSITIVE_SHARE)
    female = random.random(count) < shape.FEMALE_SHARE[sensitive.astype(np.int64)]
    decade = _draw_decades(random, sensitive)
    enrolment = random.choice(len(shape.ENROLMENT_SHARES), count, p=shape.ENROLMENT_SHARES)
    enrolled = shape.ENROLMENTS[enrolment]
    born_within = (decade == 0) & chance(random, count, _BORN_WITHIN_SHARE)
    age = np.where(born_within, 0, _draw_ages(random, decade))
    birth_day = random.integers(0, DAYS_OF_YEAR, count)
    rank = shape.burden_rank(sensitive.astype(np.int64), decade, enrolment, random.standard_normal(count))
    stratum = strata(female, age)
    sensitive_condition = tables.sensitive.draw(stratum, uniform_words(random, count)).astype(np.int64)
    lasting = np.where(sensitive & tables.condition_chronic[sensitive_condition], sensitive_condition, -1)
    conditions, condition_count = _draw_conditions(random, rank, stratum, lasting, tables)
    return Members(
        female=female,
        sensitive=sensitive,
        age=age,
        enrolled=enrolled,
        # A member born within the three years is born in the first year of enrolment.
        birth_year=np.where(born_within, enrolled.argmax(axis=1), -1),
        birth_day=np.where(born_within, birth_day, 0),
        claims=shape.claims_at_rank(rank),
        stratum=stratum,
        burden=burden_classes(rank),
        conditions=conditions,
        condition_count=condition_count,
        sensitive_condition=sensitive_condition,
        primary_care=_draw_primary_care(random, age),
    )


def birth_dates(random: np.random.Generator, members: Members, first_service: np.ndarray) -> np.ndarray:
    """Return dates of birth that give each member's age.

    Parameters
    ----------
    first_service
        datetime64[D], the member's first known date of service in year 1; NaT where there is none.

    Returns
    -------
    numpy.ndarray
        datetime64[D]: the member has completed `age` years at the first service of year 1, or else at the start of
        year 1. Members born within the three years have the date drawn for them.
    """
    reference = np.where(np.isnat(first_service), YEAR_STARTS[0], first_service)
    months = reference.astype("datetime64[M]")
    birthday_months = months - 12 * members.age
    days = (reference - months.astype("datetime64[D]")).astype(np.int64)
    # 29 February becomes 28 February in common years.
    month_starts = birthday_months.astype("datetime64[D]")
    month_lengths = ((birthday_months + 1).astype("datetime64[D]") - month_starts).astype(np.int64)
    birthdays = month_starts + np.minimum(days, month_lengths - 1)
    births = birthdays - random.integers(0, DAYS_OF_YEAR, len(reference))
    born: np.ndarray = np.where(members.birth_year < 0, births, YEAR_STARTS[members.birth_year] + members.birth_day)
    return born


def _draw_decades(random: np.random.Generator, sensitive: np.ndarray) -> np.ndarray:
    """Return decades of age 0..8 by Table 3 of Multimedia Appendix 1 (El Emam et al. 2012), for sensitive and other members."""
    cumulated = np.cumsum(shape.AGE_DECADES, axis=1)
    bounds = (cumulated / cumulated[:, -1:])[sensitive.astype(np.int64), :-1]
    decade: np.ndarray = (random.random(len(sensitive))[:, None] >= bounds).sum(axis=1)
    return decade


def _draw_ages(random: np.random.Generator, decade: np.ndarray) -> np.ndarray:
    """Return ages in years within the decades: uniform below 80, falling beyond."""
    beyond = _AGEING ** np.arange(_OLDEST - 80 + 1)
    old = 80 + random.choice(len(beyond), len(decade), p=beyond / beyond.sum())
    return np.where(decade == 8, old, decade * 10 + random.integers(0, 10, len(decade)))


def _draw_conditions(
    random: np.random.Generator, rank: np.ndarray, stratum: np.ndarray, lasting: np.ndarray, tables: Tables
) -> tuple[np.ndarray, np.ndarray]:
    """Return each member's lasting conditions, with the sensitive one if there is one, and their number; burden gives more."""
    rows = stratum * BURDENS + burden_classes(rank)
    conditions = tables.recurring.draw(rows[:, None], uniform_words(random, (len(rank), SLOTS))).astype(np.int64)
    stays = lasting >= 0
    place = random.integers(0, 2, len(rank))
    conditions[stays, place[stays]] = lasting[stays]
    count = 1 + np.minimum((rank * SLOTS).astype(np.int64), SLOTS - 1)
    count[stays] = np.maximum(count[stays], place[stays] + 1)
    # A condition drawn twice ends the list, so that the diagnoses of one claim are distinct.
    for later in range(SLOTS - 1, 0, -1):
        repeated = (conditions[:, :later] == conditions[:, later : later + 1]).any(axis=1)
        count = np.where(repeated, np.minimum(count, later), count)
    return conditions, count


def _draw_primary_care(random: np.random.Generator, age: np.ndarray) -> np.ndarray:
    """Return the specialty of each member's primary care physician, a number below len(PRIMARY_CARE_SPECIALTIES)."""
    bounds = np.cumsum(_PRIMARY_CARE_SHARES, axis=1)[(age >= _CHILD).astype(np.int64), :-1]
    specialty = (random.random(len(age))[:, None] >= bounds).sum(axis=1)
    found: np.ndarray = np.minimum(specialty, len(PRIMARY_CARE_SPECIALTIES) - 1)
    return found
