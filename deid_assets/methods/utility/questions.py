"""Rates that analysts ask for, in the delivery and in the release, with sampling error as the yardstick (methods#utility)."""

import numpy as np

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
