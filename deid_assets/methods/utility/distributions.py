"""How far distributions and associations of a release are from those of the prepared delivery (methods#utility).

Rates that analysts ask for are compared with sampling error as the yardstick.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np


def total_variation(before: np.ndarray, after: np.ndarray) -> float:
    """Total variation distance of two distributions given by counts of the same values; 0 equal, 1 disjoint.

    It is the largest difference of the shares of any set of values. A column that is left without rows is at distance 1.

    Examples
    --------
    >>> total_variation(np.array([1, 1]), np.array([2, 2])), total_variation(np.array([3, 0]), np.array([0, 5]))
    (0.0, 1.0)
    """
    if (np.sum(before) > 0) != (np.sum(after) > 0):
        return 1.0
    p, q = _shares(before), _shares(after)
    return float(0.5 * np.abs(p - q).sum())


def earth_movers(before: np.ndarray, after: np.ndarray) -> float:
    """Earth mover's distance of two distributions over ordered values, as a part of the largest one (Rubner et al. 2000).

    A step from one value to the next costs the same everywhere; 1 moves everything from the first value to the last.

    Examples
    --------
    >>> earth_movers(np.array([1, 0, 0]), np.array([0, 0, 1])), earth_movers(np.array([2, 0, 0]), np.array([0, 1, 0]))
    (1.0, 0.5)
    """
    if len(before) < 2:
        return 0.0
    difference = np.cumsum(_shares(before) - _shares(after))[:-1]
    return float(np.abs(difference).sum() / (len(before) - 1))


def spread_evenly(counts: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """(v,) counts of values, of which only the number in each class is known: spread evenly over the values of the class.

    Parameters
    ----------
    counts
        (c,) of each class.
    classes
        (v,) int64: the class of each value; -1 for none.

    Examples
    --------
    >>> spread_evenly(np.array([4.0, 6.0]), np.array([0, 0, 1])).tolist()
    [2.0, 2.0, 6.0]
    """
    sizes = np.bincount(classes[classes >= 0], minlength=len(counts))
    return np.where(classes >= 0, (counts / np.maximum(sizes, 1))[classes], 0.0)


def cramers_v(table: np.ndarray) -> float:
    """Cramér's V of a contingency table, corrected for bias (Bergsma 2013); 0 independent, 1 one determines the other.

    Parameters
    ----------
    table
        (r, c) counts; rows and columns without any are left out.

    Examples
    --------
    >>> round(cramers_v(np.diag([1000, 1000])), 3), cramers_v(np.full((2, 2), 1000)), cramers_v(np.array([[5, 5]]))
    (1.0, 0.0, 0.0)
    """
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0].astype(np.float64)
    n, (rows, columns) = table.sum(), table.shape
    if min(rows, columns) < 2 or n < 2:
        return 0.0
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True) / n
    phi = max(0.0, ((table - expected) ** 2 / expected).sum() / n - (rows - 1) * (columns - 1) / (n - 1))
    widths = [size - (size - 1) ** 2 / (n - 1) for size in (rows, columns)]
    return float(min(1.0, np.sqrt(phi / max(min(widths) - 1, 1e-12))))


def associations(batches: Iterable[Sequence[np.ndarray]], sizes: Sequence[int]) -> np.ndarray:
    """(k, k) Cramér's V of each pair of columns; 1 on the diagonal.

    Parameters
    ----------
    batches
        Of some rows each, all rows together: (n,) int of each of k columns, the number of the value.
    sizes
        Number of values of each column.
    """
    pairs = combinations(range(len(sizes)), 2)
    tables = {(one, other): np.zeros(sizes[one] * sizes[other], dtype=np.int64) for one, other in pairs}
    for codes in batches:
        for (one, other), counts in tables.items():
            counts += np.bincount(codes[one] * sizes[other] + codes[other], minlength=len(counts))
    found = np.eye(len(sizes))
    for (one, other), counts in tables.items():
        found[one, other] = found[other, one] = cramers_v(counts.reshape(sizes[one], sizes[other]))
    return found


def largest_and_mean_change(before: np.ndarray, after: np.ndarray) -> tuple[float, float]:
    """Largest and mean absolute difference of two association matrices; 0 where there is one column.

    Examples
    --------
    >>> largest_and_mean_change(np.eye(2), np.array([[1.0, 0.25], [0.25, 1.0]]))
    (0.25, 0.25)
    """
    pairs = np.tril_indices(len(before), -1)
    if not len(pairs[0]):
        return 0.0, 0.0
    change = np.abs(after - before)[pairs]
    return float(change.max()), float(change.mean())


def kolmogorov_smirnov_distance(before: np.ndarray, after: np.ndarray) -> float:
    """Largest difference of two cumulative distributions, given by counts of the same ordered values.

    Examples
    --------
    >>> kolmogorov_smirnov_distance(np.array([1, 1]), np.array([0, 2]))
    0.5
    """
    return float(np.abs(np.cumsum(_shares(before) - _shares(after))).max(initial=0.0))


def _shares(counts: np.ndarray) -> np.ndarray:
    """Counts over their sum; nothing is distributed as nothing."""
    return np.asarray(counts, dtype=np.float64) / max(float(np.sum(counts)), 1.0)


FEWEST = 30
"""Released members of a group, below which a rate is not compared: chance alone would be most of it."""


def standard_errors(before: tuple[np.ndarray, np.ndarray], after: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """(g,) float64: how many standard errors of sampling the released rate of each group is from the delivered one.

    A simple random sample of as many members as the release has would show a rate within 1 of them two times out of three,
    and within 2 nineteen times out of twenty. NaN for groups that are too small to be compared.

    The standard error is that of a binomial share, at the delivered rate moved half a member towards one half, so that it is
    never 0 (Agresti & Coull 1998).

    Parameters
    ----------
    before, after
        (g,) members with the property, and all members, of each group: of the delivery, and of the release.

    Examples
    --------
    >>> standard_errors((np.array([50]), np.array([100])), (np.array([60]), np.array([100]))).round(2).tolist()
    [2.0]
    """
    (x, n), (released_x, released_n) = ((np.asarray(a, dtype=np.float64) for a in pair) for pair in (before, after))
    compared = (released_n >= FEWEST) & (n > 0)
    rate = (x + 0.5) / (n + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (released_x / released_n - x / n) / np.sqrt(rate * (1 - rate) / released_n)
    return np.where(compared, found, np.nan)
