"""Numbers of values, recoded without gaps."""

from collections.abc import Sequence

import numpy as np


def renumbered(codes: np.ndarray) -> np.ndarray:
    """Recode values as 0, 1, ..., in their own order, so that products of numbers of values stay small.

    Parameters
    ----------
    codes
        (n,) integers from 0.

    Returns
    -------
    numpy.ndarray
        (n,) int64.

    Raises
    ------
    ValueError
        If a code is negative.

    Examples
    --------
    >>> renumbered(np.array([7, 9, 7, 3])).tolist()
    [1, 2, 1, 0]
    """
    if codes.min(initial=0) < 0:
        raise ValueError("codes must be whole numbers from 0")
    top = int(codes.max(initial=0)) + 1
    if top > 4 * len(codes) + 1024:
        return np.unique(codes, return_inverse=True)[1]
    used = np.zeros(top, dtype=bool)
    used[codes] = True
    return (np.cumsum(used) - 1)[codes]


def numbered_together(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Number rows of several columns as 0, 1, ..., in their lexicographic order; equal rows share a number.

    Parameters
    ----------
    columns
        At least one, each (n,) integers from 0.

    Returns
    -------
    numpy.ndarray
        (n,) int64.

    Examples
    --------
    >>> numbered_together([np.array([1, 0, 1, 1]), np.array([7, 9, 5, 7])]).tolist()
    [2, 0, 1, 2]
    """
    first, *others = columns
    numbers = renumbered(first)
    for column in others:
        # There are at most n numbers on either side, so that the product fits.
        own = renumbered(column)
        numbers = renumbered(numbers * (own.max(initial=0) + 1) + own)
    return numbers
