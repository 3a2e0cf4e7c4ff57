"""Members that adversaries find most often: who has to go so that the others are safe (methods#suppression)."""

import numpy as np

DRAWS_A_MEMBER = 25
"""Number of draws of the suppression stream for each sampled member and round."""


def members_to_suppress(drawn: np.ndarray, flagged: np.ndarray, goal: float, own: np.ndarray | None = None) -> np.ndarray:
    """Return the fewest members, most often flagged first, without whom the share of these draws is at most `goal`.

    Parameters
    ----------
    drawn, flagged
        (n,) number of draws of each member, and number of those that were flagged.
    own
        (n,) how often each member is flagged, by which they are ordered; None: in these draws.

    Returns
    -------
    np.ndarray
        Positions of the members, from most to least often flagged; empty if nobody must be suppressed.

    Examples
    --------
    >>> members_to_suppress(np.array([10, 10, 10]), np.array([1, 9, 0]), goal=0.1).tolist()
    [1]
    """
    order = np.argsort(-(flagged / np.maximum(drawn, 1) if own is None else own), kind="stable")
    left_drawn = drawn.sum() - np.concatenate([[0], np.cumsum(drawn[order])])
    left_flagged = flagged.sum() - np.concatenate([[0], np.cumsum(flagged[order])])
    return order[: int(np.flatnonzero(left_flagged <= goal * left_drawn)[0])]


def members_of_classes_to_suppress(
    drawn: np.ndarray, flagged: np.ndarray, goal: float, own: np.ndarray, class_of: np.ndarray, class_goals: np.ndarray
) -> np.ndarray:
    """Return the fewest members without whom every class is at its goal, and then the rest of them at the goal of all.

    Parameters
    ----------
    drawn, flagged, own
        As above. Draws that do not decide `own` say when to stop: on those that do, the rest looks better than it is.
    class_of
        (n,) class of each member.
    class_goals
        (C,) largest share of the draws of each class.

    Returns
    -------
    np.ndarray
        Ascending positions of the members.

    Examples
    --------
    Two classes of two members. One draw in five may be flagged, and one in ten of each class:

    >>> drawn, flagged = np.array([10, 10, 10, 10]), np.array([1, 9, 0, 2])
    >>> members_of_classes_to_suppress(
    ...     drawn, flagged, 0.2, flagged / drawn, np.array([0, 0, 1, 1]), np.array([0.1, 0.1])).tolist()
    [1]
    """
    chosen = np.zeros(len(drawn), dtype=bool)
    groups = [(np.flatnonzero(class_of == number), class_goal) for number, class_goal in enumerate(class_goals)]
    for members, class_goal in groups:
        chosen[members[members_to_suppress(drawn[members], flagged[members], class_goal, own[members])]] = True
    rest = np.flatnonzero(~chosen)
    chosen[rest[members_to_suppress(drawn[rest], flagged[rest], goal, own[rest])]] = True
    return np.flatnonzero(chosen)


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
