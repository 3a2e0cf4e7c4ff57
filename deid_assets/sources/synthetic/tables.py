"""The code tables of the synthetic delivery, prepared for drawing.

Eight CSV files beside this module, all our own, determine who gets which care. Codes are real. Weights are plausible
frequencies, chosen so that the groups of the Heritage files are about as frequent as published.

* `conditions.csv`: ICD-9-CM codes with weight, whether chronic, whether severe, the age curve, limits of sex and age,
  the clinical profile, and the use: `general`, `sensitive` (only for members drawn to be sensitive; see
  methods#removal) or `newborn` (only within 28 days of birth);
* `age_curves.csv`: how a condition's frequency changes over the ten age bands;
* `settings.csv`: how a profile's visits are split into office, laboratory, outpatient, emergency, inpatient;
* `pathways.csv`: which services a visit of that profile and setting consists of;
* `services.csv`: each service's specialty and place; `procedures.csv`: its procedure codes;
* `icd10cm.csv`: a code of ICD-10-CM of 2024 for each diagnosis, by the General Equivalence Mappings of CMS (2018). Of several,
  it is the first that is mapped back to the diagnosis, else to its condition group; where the mappings name a code that was
  split since, its first part; for two suicides by poisoning, which they leave out, one of the same substance.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from deid_assets.reference.tables import read_table

_read = functools.partial(read_table, package=__package__)

SEXES: Final = ("F", "M")
SETTINGS: Final = ("office", "laboratory", "outpatient", "emergency", "inpatient")
EMERGENCY: Final = SETTINGS.index("emergency")
INPATIENT: Final = SETTINGS.index("inpatient")
PRIMARY_CARE: Final = "Primary care"
PRIMARY_CARE_SPECIALTIES: Final = ("Family practice", "Internal medicine", "General practice", "Pediatric medicine")
SENSITIVE, GENERAL, NEWBORN = "sensitive", "general", "newborn"

_AGE_BANDS: Final = np.array([0, 1, 5, 12, 18, 30, 45, 53, 65, 80])
_LAST_AGES: Final = np.append(_AGE_BANDS[1:] - 1, 120)
STRATA: Final = len(SEXES) * len(_AGE_BANDS)
# Chronic conditions recur, acute ones do not: factors on a condition's weight (our own choice).
_RECURRING_FACTOR: Final = {True: 1.0, False: 0.15}
_PASSING_FACTOR: Final = {True: 0.35, False: 1.0}
# Severe conditions occur in members with a high burden of disease: factors for the lower half, the next three tenths
# and the upper fifth of members by burden (our own choice).
_SEVERE_FACTORS: Final = (0.12, 0.6, 1.5)
_BURDEN_RANKS: Final = (0.5, 0.8)
BURDENS: Final = len(_SEVERE_FACTORS)
# A stay with many lines is likelier than one with a single line: factors on the inpatient share for visits of one line,
# of two or three, and of more (our own choice).
_INPATIENT_FACTOR: Final = (0.2, 1.1, 1.9)
LINE_CLASSES: Final = len(_INPATIENT_FACTOR)


class DrawTable:
    """Discrete distributions as rows of equally likely cells: a draw is one look-up.

    Parameters
    ----------
    weights
        Non-negative, (rows, outcomes), at most 2**15 outcomes. A row of zeros must never be drawn from and yields
        outcome 0.
    bits
        2**bits cells per row, at most 16: shares are exact to one cell.

    Examples
    --------
    >>> table = DrawTable(np.array([[1.0, 3.0]]), bits=4)
    >>> table.draw(np.zeros(3, np.int64), np.array([0, 16_383, 16_384], np.uint16)).tolist()
    [0, 0, 1]
    """

    def __init__(self, weights: np.ndarray, bits: int) -> None:
        size = 1 << bits
        middles = (np.arange(size) + 0.5) / size
        cells = np.zeros((len(weights), size), dtype=np.int16)
        for row, weight in zip(cells, weights, strict=True):
            if weight.any():
                cumulated = np.cumsum(weight)
                row[:] = np.searchsorted(cumulated / cumulated[-1], middles, side="right")
        self._cells = cells.ravel()
        self._bits = bits

    def draw(self, rows: np.ndarray | int, words: np.ndarray) -> np.ndarray:
        """Return one outcome (int16) per 16-bit random word, from the distribution of its row."""
        return self._cells[(np.asarray(rows, dtype=np.int64) << self._bits) + (words >> (16 - self._bits))]


@dataclass(frozen=True)
class Tables:
    """All draw tables made from code tables. Codes, services and specialties are numbered.

    Attributes
    ----------
    conditions
        ICD-9-CM codes, text, by number; `condition_profile` (int) and `condition_chronic` (bool) go with them.
    recurring, passing
        Conditions by stratum * BURDENS + burden class (see `strata`, `burden_classes`): lasting ones, and those of a
        single visit.
    sensitive
        Conditions that make a member sensitive, by stratum.
    newborn
        Conditions of the first 28 days, one row.
    setting
        Settings by profile * LINE_CLASSES + line class.
    service
        Services by (profile * len(SETTINGS) + setting) * STRATA + stratum.
    service_specialty, service_place
        Numbers into `specialties` and `places`, by service.
    specialties, places, procedures
        Texts by number. The last specialty, `PRIMARY_CARE`, stands for the member's own primary care specialty.
    procedure
        Procedures by service * STRATA + stratum.
    """

    conditions: tuple[str, ...]
    condition_profile: np.ndarray
    condition_chronic: np.ndarray
    recurring: DrawTable
    passing: DrawTable
    sensitive: DrawTable
    newborn: DrawTable
    setting: DrawTable
    service: DrawTable
    service_specialty: np.ndarray
    service_place: np.ndarray
    specialties: tuple[str, ...]
    places: tuple[str, ...]
    procedures: tuple[str, ...]
    procedure: DrawTable


def strata(female: np.ndarray, age: np.ndarray) -> np.ndarray:
    """Return each member's stratum: sex and age band, 0..STRATA-1.

    Examples
    --------
    >>> strata(np.array([True, False]), np.array([0, 95])).tolist()
    [0, 19]
    """
    band = np.searchsorted(_AGE_BANDS, age, side="right") - 1
    return np.where(female, 0, len(_AGE_BANDS)) + band


def burden_classes(rank: np.ndarray) -> np.ndarray:
    """Return each member's class by burden of disease, 0..BURDENS-1, from their rank in [0, 1).

    Examples
    --------
    >>> burden_classes(np.array([0.1, 0.5, 0.99])).tolist()
    [0, 1, 2]
    """
    return np.searchsorted(_BURDEN_RANKS, rank, side="right")


@functools.cache
def tables() -> Tables:
    """Read the CSV files and return the draw tables; cached in memory (about 10 MB)."""
    conditions = _read("conditions.csv")
    services = _read("services.csv")
    profiles = _numbered(row["profile"] for row in conditions)
    procedures, procedure_weights = _procedure_weights(services)
    specialties = tuple(
        dict.fromkeys((*PRIMARY_CARE_SPECIALTIES, *sorted({row["specialty"] for row in services} - {PRIMARY_CARE})))
    )
    specialties = (*specialties, PRIMARY_CARE)
    places = tuple(sorted({row["place"] for row in services}))
    return Tables(
        conditions=tuple(row["code"] for row in conditions),
        condition_profile=np.array([profiles[row["profile"]] for row in conditions]),
        condition_chronic=np.array([row["chronic"] == "1" for row in conditions]),
        recurring=DrawTable(_by_burden(conditions, _RECURRING_FACTOR), bits=15),
        passing=DrawTable(_by_burden(conditions, _PASSING_FACTOR), bits=15),
        sensitive=DrawTable(_condition_weights(conditions, SENSITIVE), bits=12),
        newborn=DrawTable(_condition_weights(conditions, NEWBORN)[:1], bits=12),
        setting=DrawTable(_setting_weights(profiles), bits=12),
        service=DrawTable(_service_weights(profiles, services, procedure_weights), bits=10),
        service_specialty=np.array([specialties.index(row["specialty"]) for row in services]),
        service_place=np.array([places.index(row["place"]) for row in services], dtype=np.int16),
        specialties=specialties,
        places=places,
        procedures=procedures,
        procedure=DrawTable(procedure_weights.reshape(len(services) * STRATA, -1), bits=11),
    )


def in_icd10(lookups: Tables) -> Tables:
    """The same tables with the diagnoses coded in ICD-10-CM."""
    codes = {row["code"]: row["icd10cm"] for row in _read("icd10cm.csv")}
    return replace(lookups, conditions=tuple(codes[code] for code in lookups.conditions))


def _numbered(names: Iterable[str]) -> dict[str, int]:
    """Number distinct names in order of first occurrence."""
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def _allowed(row: dict[str, str]) -> np.ndarray:
    """Return which strata satisfy a row's limits of sex and age: bool, (STRATA,). A band must be inside the limits."""
    first, last = int(row["min_age"] or 0), int(row["max_age"] or 120)
    bands = (first <= _AGE_BANDS) & (last >= _LAST_AGES)
    return np.concatenate([bands & (row["sex"] in ("", sex)) for sex in SEXES])


def _by_burden(rows: list[dict[str, str]], chronic_factor: dict[bool, float]) -> np.ndarray:
    """Return the weights (STRATA * BURDENS, conditions) of the general conditions."""
    chronic = np.array([chronic_factor[row["chronic"] == "1"] for row in rows])
    severe = np.array([row["severe"] == "1" for row in rows])
    factors = np.where(severe, np.array(_SEVERE_FACTORS)[:, None], 1.0) * chronic
    weights = _condition_weights(rows, GENERAL)
    by_burden: np.ndarray = weights[:, None, :] * factors[None, :, :]
    return by_burden.reshape(-1, len(rows))


def _condition_weights(rows: list[dict[str, str]], use: str) -> np.ndarray:
    """Return the weights (STRATA, conditions) of the conditions of one use."""
    curves = {row["age_curve"]: [float(v) for k, v in row.items() if k != "age_curve"] for row in _read("age_curves.csv")}
    weights = np.zeros((STRATA, len(rows)))
    for number, row in enumerate(rows):
        if row["use"] == use:
            by_stratum = np.tile(curves[row["age_curve"]], len(SEXES)) * _allowed(row)
            weights[:, number] = by_stratum * float(row["weight"])
    return weights


def _setting_weights(profiles: dict[str, int]) -> np.ndarray:
    """Return the weights (profiles * LINE_CLASSES, settings)."""
    weights = np.zeros((len(profiles), LINE_CLASSES, len(SETTINGS)))
    for row in _read("settings.csv"):
        setting = SETTINGS.index(row["setting"])
        factor = np.array(_INPATIENT_FACTOR) if setting == INPATIENT else 1.0
        weights[profiles[row["profile"]], :, setting] = float(row["share"]) * factor
    return weights.reshape(-1, len(SETTINGS))


def _procedure_weights(services: list[dict[str, str]]) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the procedure codes and their weights (services, STRATA, procedures)."""
    rows = _read("procedures.csv")
    codes = _numbered(sorted(row["cpt"] for row in rows))
    numbers = {row["service"]: number for number, row in enumerate(services)}
    weights = np.zeros((len(services), STRATA, len(codes)))
    for row in rows:
        weights[numbers[row["service"]], :, codes[row["cpt"]]] += float(row["weight"]) * _allowed(row)
    return tuple(codes), weights


def _service_weights(profiles: dict[str, int], services: list[dict[str, str]], procedure_weights: np.ndarray) -> np.ndarray:
    """Return the weights (profiles * settings * STRATA, services).

    A service without any procedure for a stratum (a mammogram for a boy) is not offered to it.
    """
    offered = np.asarray(procedure_weights.any(axis=2))  # (services, STRATA)
    numbers = {row["service"]: number for number, row in enumerate(services)}
    weights = np.zeros((len(profiles), len(SETTINGS), STRATA, len(services)))
    for row in _read("pathways.csv"):
        service = numbers[row["service"]]
        at = profiles[row["profile"]], SETTINGS.index(row["setting"]), slice(None), service
        weights[at] = float(row["weight"]) * offered[service]
    return weights.reshape(-1, len(services))
