"""The claims of a synthetic delivery: visits of members, their lines, and who provided them.

A member's claims are related. Most visits take their diagnosis from the member's lasting conditions. The diagnosis
determines the setting (office, laboratory, hospital ...), both determine the services, and a service its specialty,
place and procedure. The member sees the same few providers. All arrays are over one block of members.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from deid_assets.sources.synthetic import shape
from deid_assets.sources.synthetic.members import DAYS_OF_YEAR, YEAR_STARTS, Members, chance, uniform_words
from deid_assets.sources.synthetic.tables import (
    BURDENS,
    EMERGENCY,
    INPATIENT,
    LINE_CLASSES,
    SETTINGS,
    STRATA,
    DrawTable,
    Tables,
)

# Our own choice, set so that the published distributions result (see the tests).
_LINES_PER_VISIT: Final = 2.4
_FOLLOW_UP_SHARE: Final = 0.30
_FOLLOW_UP_DAYS: Final = 21
_LATE_START_DAYS: Final = 40  # a year of care begins and ends up to this many days late or early
_EARLY_END_DAYS: Final = 4
_PARTIAL_YEAR_SHARE: Final = 0.20  # member-years with care in only a uniform part of the year
_RECURRING_SHARE: Final = 0.76
_EARLIER_SLOTS: Final = 2.0  # exponent: above 1, a member's first conditions occur more often
_NEWBORN_DAYS: Final = 28
_NEWBORN_VISIT_SHARE: Final = 0.4
_SECONDARY_SHARES: Final = np.array([0.50, 0.27, 0.14, 0.09])  # visits with 0..3 further diagnoses
_OTHER_PROVIDER_SHARE: Final = 0.12
_EMERGENCY_DAY_SHARE: Final = 0.24  # visits to an emergency department that count as a day in hospital
_STAY_LENGTH_KNOWN_SHARE: Final = 0.82  # lines of such a day or of a stay that say how long it was

# Share of claims without the value: as published for the date of service (2 % lack DSFC, which is derived from it), the
# provider and the vendor; our own choice, of similar size, for the others. Length of stay is known in hospital only,
# for 3 %.
MISSING_SHARES: Final = {
    "service_date": 0.02,
    "provider_id": 0.006,
    "vendor_id": 0.009,
    "pcp_id": 0.003,
    "specialty": 0.003,
    "place": 0.003,
    "cpt": 0.0015,
    "pay_delay": 0.001,
    "diagnosis_1": 0.004,
}

# Providers per 10,000 members (our own choice: in all about 13 per 100 members), and vendors per provider.
_PROVIDERS: Final = {
    "Family practice": 60, "Internal medicine": 110, "General practice": 20, "Pediatric medicine": 30, "Laboratory": 4,
    "Hospital": 4, "Ambulance": 3, "Dialysis center": 3, "Emergency medicine": 60, "Diagnostic radiology": 80,
    "Anesthesiology": 60, "Physical therapy": 60, "Pathology": 20,
}  # fmt: skip
_PROVIDERS_OTHERWISE: Final = 22
_FEWEST_PROVIDERS: Final = 2
VENDORS_PER_PROVIDER: Final = 0.43
_SPREAD: Final = 1 << 11  # how far a member's providers are from the member's home, on a circle of 65,536


@dataclass(frozen=True)
class Providers:
    """The providers of the whole delivery, numbered by specialty: `first` and `size`, one entry per specialty.

    Within a specialty they are located along a circle, like members, who see nearby providers. Vendors are runs of
    neighboring providers.
    """

    first: np.ndarray
    size: np.ndarray

    @classmethod
    def of(cls, members: int, tables: Tables) -> "Providers":
        """Return the providers for a given number of members."""
        rates = np.array([_PROVIDERS.get(name, _PROVIDERS_OTHERWISE) for name in tables.specialties[:-1]])
        size = np.maximum(np.rint(rates * members / 10_000).astype(np.int64), _FEWEST_PROVIDERS)
        return cls(first=np.cumsum(size) - size, size=size)

    def near(self, home: np.ndarray, specialty: np.ndarray) -> np.ndarray:
        """Return the number of the provider of a specialty near a home on the circle (integers below 65,536)."""
        number: np.ndarray = self.first[specialty] + (home.astype(np.int64) * self.size[specialty] >> 16)
        return number


@dataclass(frozen=True)
class ClaimBlock:
    """The claims of a block, each attribute with one entry per claim; numbers into `Tables`, -1 where missing.

    `member` is the position in the block, `visit` the number of the visit in it. `day` counts from the first day of year 1, -1
    if missing. `days_in_hospital` is (members, 3), by year, whether enrolled or not.
    """

    member: np.ndarray
    visit: np.ndarray
    year: np.ndarray
    day: np.ndarray
    provider: np.ndarray
    vendor: np.ndarray
    pcp: np.ndarray
    specialty: np.ndarray
    place: np.ndarray
    procedure: np.ndarray
    length_of_stay: np.ndarray
    pay_delay: np.ndarray
    diagnoses: tuple[np.ndarray, ...]
    days_in_hospital: np.ndarray


@dataclass(frozen=True)
class _Visits:
    """Visits ordered by member and date: one entry each, -1 if there is no value."""

    member: np.ndarray
    lines: np.ndarray
    year: np.ndarray
    day: np.ndarray  # of the year
    diagnoses: tuple[np.ndarray, ...]
    setting: np.ndarray
    stay: np.ndarray  # days in hospital


def draw_claims(random: np.random.Generator, members: Members, providers: Providers, tables: Tables) -> ClaimBlock:
    """Draw the claims of a block of members."""
    visits = _draw_visits(random, members, tables)
    count = int(visits.lines.sum())
    visit = np.repeat(np.arange(len(visits.lines)), visits.lines)
    member = visits.member[visit]
    rows = (tables.condition_profile[visits.diagnoses[0]] * len(SETTINGS) + visits.setting) * STRATA
    stratum = members.stratum[visits.member]
    service = tables.service.draw((rows + stratum)[visit], uniform_words(random, count)).astype(np.int64)
    specialty = tables.service_specialty[service]
    primary = len(tables.specialties) - 1
    specialty = np.where(specialty == primary, members.primary_care[member], specialty)
    procedure = tables.procedure.draw(service * STRATA + stratum[visit], uniform_words(random, count))
    provider, pcp = _draw_providers(random, members, member, specialty, providers)
    # Lines of a stay are dated from admission to discharge, within the year.
    left = np.clip(np.minimum(visits.stay, DAYS_OF_YEAR - visits.day), 1, None)
    day = visits.day[visit] + (left[visit] * uniform_words(random, count).astype(np.int64) >> 16)
    year = visits.year[visit]
    stay = np.where(chance(random, count, _STAY_LENGTH_KNOWN_SHARE), visits.stay[visit], -1)
    first_diagnosis, *further = (codes[visit] for codes in visits.diagnoses)

    def sometimes_missing(name: str, values: np.ndarray) -> np.ndarray:
        return np.where(chance(random, count, MISSING_SHARES[name]), -1, values)

    return ClaimBlock(
        member=member,
        visit=visit,
        year=year,
        day=sometimes_missing("service_date", year_offsets()[year] + day),
        provider=sometimes_missing("provider_id", provider),
        vendor=sometimes_missing("vendor_id", (provider * VENDORS_PER_PROVIDER).astype(np.int64)),
        pcp=sometimes_missing("pcp_id", pcp),
        specialty=sometimes_missing("specialty", specialty),
        place=sometimes_missing("place", tables.service_place[service]),
        procedure=sometimes_missing("cpt", procedure),
        length_of_stay=stay,
        pay_delay=sometimes_missing("pay_delay", _PAY_DELAYS.draw(0, uniform_words(random, count)).astype(np.int64)),
        diagnoses=(sometimes_missing("diagnosis_1", first_diagnosis), *further),
        days_in_hospital=_days_in_hospital(visits, len(members.age)),
    )


def _draw_visits(random: np.random.Generator, members: Members, tables: Tables) -> _Visits:
    """Divide every member's claims into visits, with their dates, diagnoses and settings."""
    member, lines = _divide_into_visits(random, members.claims)
    count = len(member)
    year, day = _draw_dates(random, members, member)
    newborn = (year == members.birth_year[member]) & (day - members.birth_day[member] <= _NEWBORN_DAYS)
    diagnoses = _draw_diagnoses(random, members, member, newborn, tables)
    line_class = np.minimum(lines >> 1, LINE_CLASSES - 1)
    rows = tables.condition_profile[diagnoses[0]] * LINE_CLASSES + line_class
    setting = tables.setting.draw(rows, uniform_words(random, count)).astype(np.int64)
    old = members.age[member] >= shape.LONG_STAY_AGE
    stay = _draw_stays(random, setting, member, year_offsets()[year] + day, old)
    return _Visits(member, lines, year, day, diagnoses, setting, stay)


def _divide_into_visits(random: np.random.Generator, claims: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each visit's member and number of lines; lines per visit are geometric, truncated at the member's last claim."""
    ends = np.cumsum(claims)
    starts = chance(random, int(ends[-1]), 1 / _LINES_PER_VISIT)
    starts[ends - claims] = True
    at = np.flatnonzero(starts)
    member = np.repeat(np.arange(len(claims)), np.add.reduceat(starts, ends - claims, dtype=np.int64))
    return member, np.diff(at, append=ends[-1])


def _draw_dates(random: np.random.Generator, members: Members, member: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return year 0..2 and day of the year of every visit, in order within each member.

    Years are those of enrolment, with unequal use. Some visits follow another within weeks. Members born within the
    three years have no visit before birth and many in the weeks after it.
    """
    count = len(member)
    weights = np.cumsum(members.enrolled * random.standard_exponential(members.enrolled.shape), axis=1)
    bounds = weights / weights[:, -1:]
    point = random.random(count)
    year = (point >= bounds[member, 0]).astype(np.int64) + (point >= bounds[member, 1])
    starts, lengths = _draw_times_in_care(random, members)
    start = starts[member, year]
    day = start + (lengths[member, year] * uniform_words(random, count).astype(np.int64) >> 16)
    newborn = year == members.birth_year[member]
    early = newborn & chance(random, count, _NEWBORN_VISIT_SHARE)
    in_first_weeks = start + ((_NEWBORN_DAYS + 1) * uniform_words(random, count).astype(np.int64) >> 16)
    day = np.where(early & (in_first_weeks < DAYS_OF_YEAR), in_first_weeks, day)

    before = np.roll(day, 1) + random.integers(1, _FOLLOW_UP_DAYS + 1, count)
    follows = (np.roll(member, 1) == member) & (np.roll(year, 1) == year) & (before < DAYS_OF_YEAR)
    follows[0] = False
    day = np.where(follows & chance(random, count, _FOLLOW_UP_SHARE), before, day)
    # Sorting one packed number per visit sorts by member, year and day.
    packed = np.sort((member << 12) | (year << 9) | day)
    return (packed >> 9) & 7, packed & 511


def _draw_times_in_care(random: np.random.Generator, members: Members) -> tuple[np.ndarray, np.ndarray]:
    """Return the first day and the number of days in care, each (members, 3), by year.

    Members join and leave within a year and start care late. Otherwise the days since the first claim would be evenly
    spread, whereas in Table 2 of Multimedia Appendix 1 (El Emam et al. 2012) they fall from month to month.
    """
    size = members.enrolled.shape
    start = np.floor(_LATE_START_DAYS * random.random(size))
    end = DAYS_OF_YEAR - np.floor(_EARLY_END_DAYS * random.random(size))
    partial = random.random(size) < _PARTIAL_YEAR_SHARE
    length = np.where(partial, np.ceil((end - start) * random.random(size)), end - start)
    start += np.floor((end - start - length) * random.random(size))
    born = np.flatnonzero(members.birth_year >= 0)
    at = born, members.birth_year[born]
    start[at] = members.birth_day[born]
    length[at] = np.minimum(length[at], DAYS_OF_YEAR - start[at])
    return start.astype(np.int64), np.maximum(length, 1).astype(np.int64)


def _draw_diagnoses(
    random: np.random.Generator, members: Members, member: np.ndarray, newborn: np.ndarray, tables: Tables
) -> tuple[np.ndarray, ...]:
    """Return up to four distinct diagnoses per visit: mostly for the first, always for the others, from lasting conditions."""
    count = len(member)
    slots = members.condition_count[member]
    slot = (slots * random.random(count) ** _EARLIER_SLOTS).astype(np.int64)
    recurring = chance(random, count, _RECURRING_SHARE)
    rows = (members.stratum * BURDENS + members.burden)[member]
    passing = tables.passing.draw(rows, uniform_words(random, count)).astype(np.int64)
    first = np.where(recurring, members.conditions[member, slot], passing)

    first[newborn] = tables.newborn.draw(0, uniform_words(random, int(newborn.sum())))

    sensitive = np.flatnonzero(members.sensitive)
    visits = np.bincount(member, minlength=len(members.age))
    first_visit = np.cumsum(visits) - visits
    shown = first_visit + (visits * random.random(len(visits))).astype(np.int64)
    first[shown[sensitive]] = members.sensitive_condition[sensitive]

    further = np.searchsorted(np.cumsum(_SECONDARY_SHARES)[:-1], random.random(count), side="right")
    diagnoses = [first]
    for place in range(1, len(_SECONDARY_SHARES)):
        other = members.conditions[member, (slot + place) % slots]
        given = (further >= place) & (place < slots) & ~newborn
        diagnoses.append(np.where(given & (other != first), other, -1))
    return tuple(diagnoses)


def _draw_stays(
    random: np.random.Generator, setting: np.ndarray, member: np.ndarray, date: np.ndarray, old: np.ndarray
) -> np.ndarray:
    """Return the days in hospital of every visit: stays, and some emergency visits with one day; -1 otherwise."""
    hospital = setting == INPATIENT
    hospital |= (setting == EMERGENCY) & chance(random, len(setting), _EMERGENCY_DAY_SHARE)
    at = np.flatnonzero(hospital)
    days = np.where(setting[at] == INPATIENT, 1 + _STAYS.draw(old[at], uniform_words(random, len(at))).astype(np.int64), 1)
    stay = np.full(len(setting), -1)
    stay[at] = _without_overlap(member[at], date[at], days)
    return stay


def _without_overlap(member: np.ndarray, admission: np.ndarray, days: np.ndarray) -> np.ndarray:
    """Return lengths of stay, truncated at the member's next admission; rows are ordered by member and admission.

    Examples
    --------
    >>> _without_overlap(np.array([0, 0, 1]), np.array([10, 14, 3]), np.array([9, 2, 5])).tolist()
    [4, 2, 5]
    """
    gap = np.diff(admission, append=0)
    same = np.diff(member, append=-1) == 0
    return np.where(same, np.minimum(days, np.maximum(gap, 1)), days)


def _days_in_hospital(visits: _Visits, members: int) -> np.ndarray:
    """Return days in hospital by member and year, (members, 3); a stay over New Year counts in both years."""
    stays = np.flatnonzero(visits.stay > 0)
    cell = visits.member[stays] * shape.YEARS + visits.year[stays]
    within = np.minimum(visits.stay[stays], DAYS_OF_YEAR - visits.day[stays])
    days = np.bincount(cell, within, members * shape.YEARS)
    goes_on = visits.year[stays] < shape.YEARS - 1
    beyond = (visits.stay[stays] - within)[goes_on]
    days += np.bincount(cell[goes_on] + 1, beyond, members * shape.YEARS)
    return np.minimum(days, DAYS_OF_YEAR).astype(np.int64).reshape(members, shape.YEARS)


def _draw_providers(
    random: np.random.Generator, members: Members, member: np.ndarray, specialty: np.ndarray, providers: Providers
) -> tuple[np.ndarray, np.ndarray]:
    """Return each claim's provider and its member's primary care physician (a provider too).

    A member has a home on the circle of providers, denser in towns, and one usual provider of each specialty near it.
    """
    size = len(members.age), len(providers.size)
    home = (random.random(size[0]) ** 1.3 * (1 << 16)).astype(np.int64)
    usual = home[:, None] + random.integers(-_SPREAD, _SPREAD, size)
    usual = providers.near(usual & 0xFFFF, np.arange(size[1])[None, :])
    provider = usual.ravel()[member * size[1] + specialty]
    elsewhere = np.flatnonzero(chance(random, len(member), _OTHER_PROVIDER_SHARE))
    provider[elsewhere] = providers.near(uniform_words(random, len(elsewhere)), specialty[elsewhere])
    return provider, usual[np.arange(size[0]), members.primary_care][member]


def year_offsets() -> np.ndarray:
    """Return the days from the first day of year 1 to that of each year."""
    days: np.ndarray = YEAR_STARTS - YEAR_STARTS[0]
    return days.astype(np.int64)


_STAYS: Final = DrawTable(shape.length_of_stay_days()[1], bits=14)
_PAY_DELAYS: Final = DrawTable(shape.pay_delay_days()[1][None, :], bits=14)
