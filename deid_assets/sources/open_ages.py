"""Spread an open group of ages, 85 and over, over single years by a stated model.

Estimates of the Census Bureau end with 85 and over. The people of each sex are spread as those of the national population of
Census 2000, which counted them at 85-89, 90-94, 95-99, and 100 and over. From one age to the next, the count falls by a factor
exp(-a exp(b (age - 85))), the survival of a Gompertz hazard (Gompertz 1825). For each sex, a and b fit the counts at 85-89, at
90-94, and at 95 and over exactly. Totals are kept: shares are rounded by largest remainders (methods#census-tables).

References
----------
Gompertz B (1825). Philos Trans R Soc Lond 115:513-583. doi:10.1098/rstl.1825.0026

U.S. Census Bureau (2001). Census 2000 Summary File 1, table QT-P1: Age Groups and Sex.
"""

import functools
from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.optimize import root

from deid_assets.errors import DeliveryError

FIRST_OPEN, LAST_OPEN = 85, 119
"""First age of the group that is spread, and the last age that gets a share."""
CENSUS_2000_OLDEST: Mapping[str, tuple[int, int, int, int]] = {
    "M": (876_501, 282_325, 58_115, 10_057),
    "F": (1_913_317, 830_206, 228_669, 40_397),
}
"""People of the United States in 2000 at 85-89, 90-94, 95-99, and 100 and over."""


@functools.cache
def open_age_shares(sex: str) -> np.ndarray:
    """Return (35,) float64 shares of the people of a sex aged 85 and over at 85, 86, ..., 119.

    Raises
    ------
    ValueError
        If the sex is neither M nor F.

    Examples
    --------
    >>> shares = open_age_shares("F")
    >>> float(round(shares[:5].sum(), 4)), float(round(shares[15:].sum(), 4)), bool((np.diff(shares) < 0).all())
    (0.6351, 0.012, True)
    """
    if sex not in CENSUS_2000_OLDEST:
        raise ValueError("a sex is M or F")
    counted = np.array(CENSUS_2000_OLDEST[sex], dtype=float)
    wanted = np.array([counted[0], counted[1], counted[2:].sum()]) / counted.sum()

    def shares(logs: np.ndarray) -> np.ndarray:
        falls = np.exp(logs[0] + np.exp(logs[1]) * np.arange(LAST_OPEN - FIRST_OPEN))
        left = np.exp(-np.concatenate([[0.0], np.cumsum(falls)]))
        return left / left.sum()

    def missed(logs: np.ndarray) -> np.ndarray:
        found = shares(logs)
        return np.log([found[:5].sum() / wanted[0], found[5:10].sum() / wanted[1]])

    solved = root(missed, np.log([0.12, 0.08]), tol=1e-12)
    if not solved.success:
        raise RuntimeError("the model of the oldest ages has no solution")
    found = shares(solved.x)
    found.setflags(write=False)
    return found


def spread_open_ages(people: pd.DataFrame) -> pd.DataFrame:
    """Replace rows of people aged 85 and over by rows of single years; other rows stay.

    Parameters
    ----------
    people
        Columns sex ('M', 'F'), age_from, age_to, people, and others, which are copied.

    Returns
    -------
    pandas.DataFrame
        The same columns and the same number of people in whole numbers; the rows of single years stand at the end.

    Raises
    ------
    DeliveryError
        If an open group begins at another age: the model knows none but 85.
    """
    opened = people["age_to"] >= LAST_OPEN
    if (people.loc[opened, "age_from"] != FIRST_OPEN).any():
        raise DeliveryError(f"ages: an open group begins at another age than {FIRST_OPEN}, the only one the model can spread")
    rows = people[opened]
    if rows.empty:
        return people.reset_index(drop=True)
    shares = np.stack([open_age_shares(sex) for sex in rows["sex"]])
    spread = apportioned(rows["people"].to_numpy(), shares)
    ages = np.arange(FIRST_OPEN, LAST_OPEN + 1)
    single = rows.loc[rows.index.repeat(ages.size)].assign(
        age_from=np.tile(ages, len(rows)), age_to=np.tile(ages, len(rows)), people=spread.ravel()
    )
    return pd.concat([people[~opened], single], ignore_index=True)


def apportioned(totals: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Distribute whole numbers by shares, rounded by largest remainders, so that every total is kept.

    Parameters
    ----------
    totals
        (n,) int, at least 0.
    shares
        (n, m) float: shares of each total, with a sum of 1 in every row.

    Returns
    -------
    numpy.ndarray
        (n, m) int64 with row sums `totals`. Of equal remainders the first is rounded up.

    Examples
    --------
    >>> apportioned(np.array([10]), np.array([[0.25, 0.25, 0.5]])).tolist()
    [[3, 2, 5]]
    """
    exact = totals[:, np.newaxis] * shares
    whole = np.floor(exact + 1e-9).astype(np.int64)
    left = totals - whole.sum(axis=1)
    order = np.argsort(-(exact - whole), axis=1, kind="stable")
    rank = np.argsort(order, axis=1, kind="stable")
    return whole + (rank < left[:, np.newaxis])
