"""Members that adversaries find most often: who has to go so that the others are safe (methods#suppression)."""

import numpy as np

DRAWS_A_MEMBER = 25
"""Number of draws of the suppression stream for each sampled member and round."""


def members_to_suppress(drawn: np.ndarray, flagged: np.ndarray, goal: float) -> np.ndarray:
    """Return the fewest members, most often flagged first, without whom the share of these draws is at most `goal`.

    Parameters
    ----------
    drawn, flagged
        (n,) number of draws of each member, and number of those that were flagged.

    Returns
    -------
    np.ndarray
        Positions of the members, from most to least often flagged; empty if nobody must be suppressed.

    Examples
    --------
    >>> members_to_suppress(np.array([10, 10, 10]), np.array([1, 9, 0]), goal=0.1).tolist()
    [1]
    """
    order = np.argsort(-(flagged / np.maximum(drawn, 1)), kind="stable")
    left_drawn = drawn.sum() - np.concatenate([[0], np.cumsum(drawn[order])])
    left_flagged = flagged.sum() - np.concatenate([[0], np.cumsum(flagged[order])])
    return order[: int(np.flatnonzero(left_flagged <= goal * left_drawn)[0])]


def fewest_to_suppress(drawn: np.ndarray, flagged: np.ndarray, goal: float) -> int:
    """Return how many members have to go, whoever they are, before the share of these draws is at most `goal`.

    On the same draws it never increases on the way up the lattice, because no member is flagged more often at a coarser node.
    The members most often flagged (`members_to_suppress`) may be a few more.

    Parameters
    ----------
    drawn, flagged
        As above.

    Examples
    --------
    One draw in ten may be flagged. Without the first member, 5 of 40 are; without the second, 2 of 21:

    >>> fewest_to_suppress(np.array([1, 20, 20]), np.array([1, 4, 1]), goal=0.1)
    1
    >>> members_to_suppress(np.array([1, 20, 20]), np.array([1, 4, 1]), goal=0.1).tolist()
    [0, 1]
    """
    order = np.argsort(flagged - goal * drawn, kind="stable")  # the members that weigh least stay longest
    left_drawn, left_flagged = (np.concatenate([[0], np.cumsum(counts[order])])[::-1] for counts in (drawn, flagged))
    return int(np.flatnonzero(left_flagged <= goal * left_drawn)[0])
