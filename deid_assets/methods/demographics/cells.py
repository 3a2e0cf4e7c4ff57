"""A cohort within its population: known people first, then those that nobody knows (methods#demographics-population).

The people of a row of the population table who are in the cohort are known to be at their own age. The others, R of them, are
spread over the ages of the row, and over dates. So the class of a record holds a certain number of people and a random one.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from deid_assets.errors import DeliveryError
from deid_assets.methods.demographics.attributes import CohortAttributes
from deid_assets.methods.demographics.population import Population, number_groups


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
            f"column {attribute.name}: {count:,} records"
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
