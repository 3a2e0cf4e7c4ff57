"""Numbers of values, recoded without gaps."""

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

    Examples
    --------
    >>> renumbered(np.array([7, 9, 7, 3])).tolist()
    [1, 2, 1, 0]
    """
    top = int(codes.max(initial=0)) + 1
    if top > 4 * len(codes) + 1024:
        return np.unique(codes, return_inverse=True)[1]
    used = np.zeros(top, dtype=bool)
    used[codes] = True
    return (np.cumsum(used) - 1)[codes]
