"""A population table as counts of people by geography, sex, ethnicity and span of ages (methods#demographics-population).

A table that cannot be right is refused. Nothing in it is skipped or filled in, because people who are not in it make a class
look smaller, and people who are in it twice make a class look larger.

`GompertzSurvival` spreads the people in an open class of ages, such as 85+ or 110+, over single years.

`Cells` place a cohort within its population: known people first, then those that nobody knows.

The people of a row of the population table who are in the cohort are known to be at their own age. The others, R of them, are
spread over the ages of the row, and over dates. So the class of a record holds a certain number of people and a random one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from deid_assets.errors import DeliveryError, how_many
from deid_assets.methods.demographics.attributes import Attribute, CohortAttributes


@dataclass(frozen=True)
class GompertzSurvival:
    """Survivors after the first age of the class by the law of Gompertz.

    The number of people i years after the first age is proportional to exp(-hazard (e^(growth i) - 1) / growth).

    Parameters
    ----------
    hazard
        Force of mortality at the first age, for each year; 0 spreads people evenly.
    growth
        How fast it grows, for each year of age; 0 keeps it constant.

    References
    ----------
    Gompertz B (1825). On the nature of the function expressive of the law of human mortality. doi:10.1098/rstl.1825.0026

    Examples
    --------
    >>> GompertzSurvival(0, 0).shares(4).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    hazard: float
    growth: float

    def shares(self, years: int) -> np.ndarray:
        """Return (years,) float, sum 1: the share of each single year of age."""
        after = np.arange(years, dtype=np.float64)
        cumulated = after if self.growth == 0 else np.expm1(self.growth * after) / self.growth
        survivors = np.exp(-self.hazard * cumulated)
        return survivors / survivors.sum()


EVENLY = GompertzSurvival(0, 0)
"""People are spread evenly: for 110+ over 110 to 119, as nobody knows better."""

FROM_85 = GompertzSurvival(0.1415, 0.0685)
"""Fitted to ages 85-89, 90-94, 95-99 and 100+ of the United States in the Census of 2000 (methods#demographics-population)."""


GROUP = ("geography", "sex", "ethnicity")
COLUMNS = (*GROUP, "youngest", "oldest", "people")


@dataclass(frozen=True, eq=False)
class Population:
    """A population table that covers each age of each group exactly once.

    Attributes
    ----------
    demographics
        The attributes whose base values the table uses.
    groups
        (rows, 3) int: base codes of geography, sex and ethnicity. Rows are sorted by group, then by age.
    youngest
        (rows,) int: position of the first age of the row among the ages.
    span
        (rows,) int: row of `shares`.
    people
        (rows,) int: number of people.
    shares
        (spans, ages) float: how the people of a row that nobody knows are spread over its ages; each row sums to 1.
    """

    demographics: CohortAttributes
    groups: np.ndarray
    youngest: np.ndarray
    span: np.ndarray
    people: np.ndarray
    shares: np.ndarray

    @property
    def group_numbers(self) -> np.ndarray:
        """(rows,) int: the number of each row's group; `number_groups` counts it from codes."""
        return number_groups(self.demographics, self.groups)


def number_groups(demographics: CohortAttributes, groups: np.ndarray) -> np.ndarray:
    """Return (n,) int, one number for each combination of geography, sex and ethnicity."""
    _, sexes, ethnicities = _sizes(demographics)
    return (groups[:, 0] * sexes + groups[:, 1]) * ethnicities + groups[:, 2]


def population_of(table: pd.DataFrame, demographics: CohortAttributes, open_ages: GompertzSurvival) -> Population:
    """Return the population of a table, or say why it cannot be right.

    Parameters
    ----------
    table
        geography | sex | ethnicity: base values of the attributes | youngest, oldest: first and last age of the row, both
        included; oldest is missing in an open class such as 110+ | people: a whole number. Each group needs rows for all ages,
        with 0 people where nobody lives.
    open_ages
        How the people of an open class are spread over its ages. Those of other classes of several ages are spread evenly.

    Raises
    ------
    DeliveryError
        If a column lacks; if a value is not one of its attribute, or not a whole number; if a group lacks, has a hole between
        ages, or counts an age twice. The message counts rows and groups.

    Examples
    --------
    See `deid_assets.methods.demographics.risk.risks_of_policies`.
    """
    if missing := [column for column in COLUMNS if column not in table]:
        raise DeliveryError(f"population table: no column {', '.join(missing)}")
    if table.empty:
        raise DeliveryError("population table: it has no rows")
    codes = np.stack([_codes(table[name], attribute) for name, attribute in _grouping(demographics)], axis=1)
    ages = demographics.age.values.to_numpy()
    youngest = _whole(table["youngest"], "youngest")
    is_open = table["oldest"].isna().to_numpy()
    oldest = np.where(is_open, ages[-1], _whole(table["oldest"].fillna(ages[-1]), "oldest"))
    people = _whole(table["people"], "people")
    outside = (youngest < ages[0]) | (oldest > ages[-1]) | (oldest < youngest)
    if outside.any():
        raise DeliveryError(
            f"population table: {how_many(int(outside.sum()), 'row has', 'rows have')} ages outside {ages[0]} to {ages[-1]}, "
            "or an end before the start"
        )
    numbers = number_groups(demographics, codes)
    order = np.lexsort((youngest, numbers))
    numbers, youngest, oldest = numbers[order], youngest[order], oldest[order]
    _check_ages(numbers, youngest, oldest, ages)
    _check_groups(numbers, demographics)
    youngest, oldest = youngest - ages[0], oldest - ages[0]
    spans, span = np.unique((youngest * len(ages) + oldest) * 2 + is_open[order], return_inverse=True)
    shares = np.zeros((len(spans), len(ages)))
    for number, key in enumerate(spans):
        (first, last), model = divmod(int(key) // 2, len(ages)), open_ages if key % 2 else EVENLY
        shares[number, first : last + 1] = model.shares(last - first + 1)
    return Population(demographics, codes[order], youngest, span, people[order], shares)


def _grouping(demographics: CohortAttributes) -> Sequence[tuple[str, Attribute]]:
    return [(name, getattr(demographics, name)) for name in GROUP]


def _sizes(demographics: CohortAttributes) -> list[int]:
    return [len(attribute.values) for _, attribute in _grouping(demographics)]


def _codes(column: pd.Series, attribute: Attribute) -> np.ndarray:
    codes = attribute.codes_of(column)
    if np.any(codes < 0):
        raise DeliveryError(
            f"population table: {how_many(int((codes < 0).sum()), 'row has', 'rows have')} a {attribute.name} that is none of "
            f"its {len(attribute.values):,} values"
        )
    return codes


def _whole(column: pd.Series, name: str) -> np.ndarray:
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    broken = ~np.isfinite(numbers) | (numbers < 0) | (numbers != np.floor(numbers))
    if broken.any():
        raise DeliveryError(
            f"population table: {how_many(int(broken.sum()), 'row has', 'rows have')} no whole number of 0 or more in column "
            f"{name}"
        )
    return numbers.astype(np.int64)


def _check_ages(numbers: np.ndarray, youngest: np.ndarray, oldest: np.ndarray, ages: np.ndarray) -> None:
    """Every group must have each age once: each row starts one year after the row before it has ended."""
    starts = np.diff(numbers, prepend=-1) != 0
    ends = np.append(starts[1:], True)
    expected = np.where(starts, ages[0], np.roll(oldest, 1) + 1)
    twice = numbers[youngest < expected]
    holes = np.concatenate([numbers[youngest > expected], numbers[ends & (oldest < ages[-1])]])
    for broken, what in ((twice, "with an age twice"), (holes, f"without ages between {ages[0]} and {ages[-1]}")):
        if len(broken):
            raise DeliveryError(
                f"population table: {how_many(len(np.unique(broken)), 'group')} of geography, sex and ethnicity {what}; give "
                "each group one row for each age or span of ages"
            )


def _check_groups(numbers: np.ndarray, demographics: CohortAttributes) -> None:
    lacking = int(np.prod(_sizes(demographics))) - len(np.unique(numbers))
    if lacking:
        raise DeliveryError(
            f"population table: {how_many(lacking, 'group')} of geography, sex and ethnicity without rows; give them rows with "
            "0 people if nobody lives there"
        )


@dataclass(frozen=True)
class CohortWarnings:
    """Signs that the population table is not that of the cohort, as counts; all 0 if there are none.

    Attributes
    ----------
    crowded_rows, crowded_records
        Number of rows of the table with fewer people than the cohort has there, and the cohort's records in them. Such a row is
        taken to hold the cohort and nobody else.
    empty_rows, empty_records
        Those of them in which the table counts nobody at all.
    """

    crowded_rows: int
    crowded_records: int
    empty_rows: int
    empty_records: int

    def __bool__(self) -> bool:
        """Whether there is anything to warn about."""
        return self.crowded_rows > 0


@dataclass(frozen=True, eq=False)
class Cells:
    """A cohort and the rest of its population.

    Attributes
    ----------
    population
        The population table.
    codes
        (records, attributes) int: base codes of each record of the cohort, in the order of `CohortAttributes.attributes`.
    rest
        (rows,) int: people of each row of the population table who are not in the cohort.
    warnings
        Rows that are smaller than the cohort.
    """

    population: Population
    codes: np.ndarray
    rest: np.ndarray
    warnings: CohortWarnings

    @property
    def demographics(self) -> CohortAttributes:
        """The attributes."""
        return self.population.demographics

    @property
    def records(self) -> int:
        """Number of records of the cohort."""
        return len(self.codes)


def cells_of(cohort: pd.DataFrame, population: Population) -> Cells:
    """Place each record of a cohort in its population.

    Parameters
    ----------
    cohort
        One row for each person, with one column for each attribute, named as the attribute.
    population
        The population that the cohort is part of.

    Raises
    ------
    DeliveryError
        If the cohort is empty or lacks a column, or a value is none of its attribute's, such as a state that is not in the
        population table. The message names columns and counts records.
    """
    demographics = population.demographics
    attributes = demographics.attributes
    if missing := [attribute.name for attribute in attributes if attribute.name not in cohort]:
        raise DeliveryError(f"cohort: no column {', '.join(missing)}")
    if cohort.empty:
        raise DeliveryError("cohort: it has no records")
    codes = np.stack([attribute.codes_of(cohort[attribute.name]) for attribute in attributes], axis=1)
    if np.any(codes < 0):
        listed = "; ".join(
            f"column {attribute.name}: {how_many(count, 'record')}"
            for attribute, count in zip(attributes, (codes < 0).sum(axis=0), strict=True)
            if count
        )
        raise DeliveryError(f"cohort: values that are missing or not in the population table: {listed}")
    row = _row_of(codes, population)
    cohort_in = np.bincount(row, minlength=len(population.people))
    crowded = cohort_in > population.people
    empty = crowded & (population.people == 0)
    warnings = CohortWarnings(int(crowded.sum()), int(cohort_in[crowded].sum()), int(empty.sum()), int(cohort_in[empty].sum()))
    return Cells(population, codes, np.maximum(population.people - cohort_in, 0), warnings)


def _row_of(codes: np.ndarray, population: Population) -> np.ndarray:
    """Return (records,) int: the row of the population table that counts each record."""
    ages = len(population.demographics.age.values)
    age, ethnicity, geography, sex = codes.T[:4]
    group = number_groups(population.demographics, np.stack([geography, sex, ethnicity], axis=1))
    # Rows are sorted by group and age, and cover every age of every group.
    keys = population.group_numbers * ages + population.youngest
    return np.searchsorted(keys, group * ages + age, side="right") - 1
