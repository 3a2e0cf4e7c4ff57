"""What two releases of one population disclose about members who are in only one of them (methods#disappearance).

The records of one member in two releases can be linked because long histories are nearly unique. Anybody can then see who is
in an earlier release but not in a later one. These members left the delivery, were suppressed, or now have a sensitive
condition:

    P(sensitive | in it, absent now) = newly sensitive / all who disappeared

The same holds in reverse for new members: some of them may have been removed before. New members also form a smaller set, in
which fewer members share their demographics than in the whole delivery.

Some members therefore leave for good at every re-release, so that disappearing discloses little (methods#rotation). Who was
released and is absent now has left the population, or is newly removed as sensitive. Classes of few missing members disclose
who was removed, and so does knowledge of who left. So every released member leaves for good with probability rho at each
re-release. A keyed hash decides, whatever the delivery holds. Then, whatever else is known,

    P(absent | newly sensitive) = 1 and P(absent | not) >= rho: absence multiplies the odds by at most 1 / rho
    P(sensitive | released before, absent now) <= q / (q + (1 - q) rho), q the newly sensitive share of those released before
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from deid_assets.store.tables import quoted

NOT_RELEASED, REMOVED, NOT_DELIVERED = -1, -2, -3
"""Codes used in place of a class: delivered but not released, removed because of their claims, and not on the roll."""

_ROW = np.dtype([("tag", "<u8"), ("class", "<i4")])


@dataclass(frozen=True)
class Roll:
    """The members of a delivery, and what its release did with each of them.

    Attributes
    ----------
    tags
        (n,) uint64: keyed tags of the delivered members, ascending and distinct.
    classes
        (n,) int32: demographic class of released members, from 0; otherwise `NOT_RELEASED` or `REMOVED`.
    """

    tags: np.ndarray
    classes: np.ndarray

    @classmethod
    def from_bytes(cls, content: bytes) -> "Roll":
        """Read a roll written by `to_bytes`.

        Raises
        ------
        ValueError
            If the bytes are not a valid roll.
        """
        rows = np.frombuffer(content, dtype=_ROW)
        tags, classes = rows["tag"].astype(np.uint64), rows["class"].astype(np.int32)
        if (tags[1:] <= tags[:-1]).any() or (classes <= NOT_DELIVERED).any():
            raise ValueError("a roll contains every tag once, in order, each with a class")
        return cls(tags, classes)

    def to_bytes(self) -> bytes:
        """Serialize the roll: 12 bytes per member, tag and class."""
        rows = np.empty(len(self.tags), dtype=_ROW)
        rows["tag"], rows["class"] = self.tags, self.classes
        return rows.tobytes()

    def classes_of(self, tags: np.ndarray) -> np.ndarray:
        """Return (m,) int32: class of each tag; `NOT_DELIVERED` if the tag is not on this roll.

        Examples
        --------
        >>> roll = Roll(np.array([3, 7], dtype=np.uint64), np.array([0, REMOVED], dtype=np.int32))
        >>> roll.classes_of(np.array([7, 3, 5], dtype=np.uint64)).tolist() == [REMOVED, 0, NOT_DELIVERED]
        True
        """
        if not len(self.tags):
            return np.full(len(tags), NOT_DELIVERED, dtype=np.int32)
        place = np.minimum(np.searchsorted(self.tags, tags), len(self.tags) - 1)
        return np.where(self.tags[place] == tags, self.classes[place], NOT_DELIVERED).astype(np.int32)


def posterior_of_the_missing(released: Roll, other: Roll) -> float:
    """Return the probability that a member of one release who is missing from another was removed because of their claims.

    Parameters
    ----------
    released
        The release that contains the members, with its demographic classes.
    other
        The release, later or earlier, from which they are missing.

    Returns
    -------
    float
        In [0, 1]: members removed from the other release over all members missing from it, maximum over demographic classes;
        0 if nobody is missing.

    Examples
    --------
    Of a hundred members of one class 53 are gone, three of them newly removed and fifty since they left:

    >>> members = np.arange(100, dtype=np.uint64)
    >>> earlier = Roll(members, np.zeros(100, dtype=np.int32))
    >>> now = Roll(members[50:], np.repeat(np.int32([REMOVED, 0]), [3, 47]))
    >>> round(posterior_of_the_missing(earlier, now), 4)
    0.0566
    """
    held = released.classes >= 0
    classes, there = released.classes[held], other.classes_of(released.tags[held])
    missing = np.bincount(classes[there < 0])
    removed = np.bincount(classes[there == REMOVED], minlength=len(missing))
    some = missing > 0
    return float((removed[some] / missing[some]).max(initial=0.0))


def stand_out(tags: np.ndarray, class_of: np.ndarray, earlier: Roll, k: int) -> np.ndarray:
    """Return (n,) bool: delivered members whose absence from an earlier release leaves them in a class smaller than k.

    If released, such members could be recognized as one of fewer than k. Risk is 1/F in the population (methods#population), so
    classes are counted over delivered members: over those who are not in the earlier release or, for members who were not
    delivered then, over newly delivered members alone. Who is released now does not matter, so leaving out these members
    empties the class. If a whole demographic class has fewer than k members, they are at risk without any earlier release and
    are counted elsewhere.

    Parameters
    ----------
    tags
        (n,) uint64: tags of the delivered members.
    class_of
        (n,) int: their demographic classes, from 0, at the levels of the planned release.
    earlier
        Roll of the earlier release.
    k
        Smallest class size that is large enough, 1 / threshold.

    Examples
    --------
    Thirty are alike. Three of them were released before, and two are newcomers. Among thirty all would be safe:

    >>> members, alike = np.arange(30, dtype=np.uint64), np.zeros(30, dtype=np.int64)
    >>> earlier = Roll(members[:28], np.repeat(np.int32([0, NOT_RELEASED]), [3, 25]))
    >>> np.flatnonzero(stand_out(members, alike, earlier, 20)).tolist()
    [28, 29]
    >>> stand_out(members, alike, Roll(members[:0], alike[:0]), 20).any()
    np.False_
    """
    there = earlier.classes_of(tags)
    like = count_in_class(class_of, np.ones(len(there), dtype=bool))
    lacking, new = count_in_class(class_of, there < 0), count_in_class(class_of, there == NOT_DELIVERED)
    few = np.where(there == NOT_DELIVERED, new, lacking) < k
    return (there < 0) & few & (like >= k)


def count_in_class(class_of: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Return (n,) int: for each person, the number of people of their class in `among`."""
    return np.bincount(class_of[among], minlength=int(class_of.max(initial=-1)) + 1)[class_of]


def membership_query(demographics: str, columns: Sequence[str], removed: str, released: str) -> str:
    """SELECT member_id, class, sensitive and released of everybody delivered or removed.

    Parameters
    ----------
    demographics
        A SELECT of member_id and the generalized columns of all delivered members.
    columns
        The columns that define a class; classes are numbered from 1, and members without demographics are in class 0.
    removed, released
        A SELECT of the member_id of members removed because of their claims, and of those about to be released.
    """
    return f"""SELECT member_id, coalesce(class, 0)::BIGINT AS class, sensitive IS NOT NULL AS sensitive,
          member_id IN (SELECT member_id FROM ({released})) AS released
        FROM (SELECT member_id, dense_rank() OVER (ORDER BY {", ".join(quoted(column) for column in columns)}) AS class
              FROM ({demographics}))
        FULL JOIN (SELECT member_id, true AS sensitive FROM ({removed})) USING (member_id)"""


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
