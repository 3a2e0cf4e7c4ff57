"""Members who leave for good at every re-release, so that disappearing discloses little (methods#rotation).

Who was released and is absent now has left the population, or is newly removed as sensitive. Classes of few missing members
disclose who was removed, and so does knowledge of who left. So every released member leaves for good with probability rho at
each re-release. A keyed hash decides, whatever the delivery holds. Then, whatever else is known,

    P(absent | newly sensitive) = 1 and P(absent | not) >= rho: absence multiplies the odds by at most 1 / rho
    P(sensitive | released before, absent now) <= q / (q + (1 - q) rho), q the newly sensitive share of those released before
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np


def rotated(tags: np.ndarray, key: bytes, rotation: float) -> np.ndarray:
    """Return (n,) bool: members who leave for good at one re-release.

    Each is decided alone, by the keyed BLAKE2b hash (RFC 7693) of the tag: nothing else that was delivered matters.
    Under one key, who leaves at a smaller probability leaves at a larger one, too.

    Parameters
    ----------
    tags
        (n,) uint64: keyed tags of members.
    key
        32 secret bytes, derived for this re-release alone.
    rotation
        rho, the probability with which each leaves.

    Examples
    --------
    >>> leave = rotated(np.arange(10_000, dtype=np.uint64), bytes(32), 0.0572)
    >>> int(leave.sum()), bool(rotated(np.arange(10_000, dtype=np.uint64), bytes(32), 0.06)[leave].all())
    (542, True)
    """
    little = np.ascontiguousarray(tags, dtype="<u8").tobytes()
    hashes = b"".join(blake2b(little[at : at + 8], digest_size=8, key=key).digest() for at in range(0, len(little), 8))
    return np.frombuffer(hashes, dtype="<u8") < np.uint64(int(rotation * 2.0**64))


def left_for_good(series: Iterable[Sequence[np.ndarray]]) -> np.ndarray:
    """Return (n,) uint64, ascending: members who were in a release of a series and are absent from a later one of it.

    Parameters
    ----------
    series
        The releases of each series, oldest first, as tags of their members, (m,) uint64 each.

    Examples
    --------
    Member 2 returned once, and member 5 left another series:

    >>> first, second, third = (np.array(tags, dtype=np.uint64) for tags in ([1, 2], [1, 3], [1, 2, 3]))
    >>> left_for_good([[first, second, third], [np.array([5, 6], dtype=np.uint64), np.array([6], dtype=np.uint64)]]).tolist()
    [2, 5]
    """
    left = np.empty(0, dtype=np.uint64)
    for releases in series:
        ever = np.empty(0, dtype=np.uint64)
        for tags in releases:
            left = np.union1d(left, np.setdiff1d(ever, tags))
            ever = np.union1d(ever, tags)
    return left


def posterior_of_the_rotated(newly_sensitive_share: float, rotation: float) -> float:
    """Return the highest probability with which disappearing discloses a new sensitive condition.

    Parameters
    ----------
    newly_sensitive_share
        q, the share of the members released before who are newly removed as sensitive, in [0, 1].
    rotation
        rho, the probability with which each of the others leaves, in (0, 1).

    Returns
    -------
    float
        q / (q + (1 - q) rho), for somebody known to be a member still: less for others, who may have left the population.

    Raises
    ------
    ValueError
        If a number is outside its range.

    Examples
    --------
    >>> [round(posterior_of_the_rotated(0.01, rotation), 4) for rotation in (0.0572, 0.0573)]
    [0.1501, 0.1499]
    """
    _check(newly_sensitive_share, rotation)
    return newly_sensitive_share / (newly_sensitive_share + (1 - newly_sensitive_share) * rotation)


def rotation_needed(newly_sensitive_share: float, posterior_at_most: float) -> float:
    """Return the smallest rho with which `posterior_of_the_rotated` is at most a limit; 1 and more if none is.

    Examples
    --------
    >>> round(rotation_needed(0.01, 0.15), 4)
    0.0572
    """
    _check(newly_sensitive_share, posterior_at_most)
    if newly_sensitive_share == 1:
        return np.inf
    return newly_sensitive_share * (1 - posterior_at_most) / ((1 - newly_sensitive_share) * posterior_at_most)


def ever_released_share(released_share: float, rotation: float, releases: int) -> float:
    """Return the share of the eligible members whom some release contains after further releases of the same size, at most.

    Each release replaces those who left for good. Where members also leave the population fewer remain who were ever released.

    Parameters
    ----------
    released_share
        Share that some release contains now.
    rotation
        rho.
    releases
        Number of further releases.

    Examples
    --------
    >>> round(ever_released_share(0.115, 0.0572, 10), 3), ever_released_share(0.5, 0.3, 10)
    (0.181, 1.0)
    """
    return min(1.0, released_share * (1 + rotation * releases))


def _check(share: float, probability: float) -> None:
    if not 0 <= share <= 1:
        raise ValueError(f"the newly sensitive share is {share}; a share lies between 0 and 1")
    if not 0 < probability < 1:
        raise ValueError(f"{probability} is not a probability between 0 and 1")
