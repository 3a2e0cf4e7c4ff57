"""Columns that are an age, or a year of birth, under another name (methods#passed-on-columns).

A few people over 89 among thousands change no measure of association. A column that repeats the ages of everybody else gives
theirs away nevertheless.
"""

import numpy as np


def repeats_ages(numbers: np.ndarray, ages: np.ndarray) -> float:
    """Return how far a column is the age plus or minus a constant, above what a constant column would be.

    Of a year of birth, two neighboring constants count as one, because a birthday may not have passed.

    Parameters
    ----------
    numbers
        (n,) float: number in each value of the column; NaN where it has none.
    ages
        (n,) int: age of the same people, in years.

    Returns
    -------
    float
        0 to 1; 1 for a column that repeats all ages. 0 for people of one age, or of two neighboring ones.

    Examples
    --------
    >>> ages = np.array([41, 57, 93, 64])
    >>> repeats_ages(2008.0 - ages, ages), repeats_ages(np.array([1.0, 0.0, 0.0, 1.0]), ages)
    (1.0, 0.0)
    """
    by_chance = _most_alike(ages.astype(np.float64))
    if by_chance >= 1:
        return 0.0
    alike = max(_most_alike(numbers - ages), _most_alike(numbers + ages))
    return max((alike - by_chance) / (1 - by_chance), 0.0)


def _most_alike(numbers: np.ndarray) -> float:
    """Greatest share of the numbers that are one whole number or the next; a missing one is like no other."""
    found, counts = np.unique(np.floor(numbers[np.isfinite(numbers)]), return_counts=True)
    if not len(found):
        return 0.0
    following = np.append(np.where(np.diff(found) == 1, counts[1:], 0), 0)
    return float((counts + following).max() / len(numbers))
