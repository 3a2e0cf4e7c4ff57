"""What two releases of one population disclose about members who are in only one of them (methods#disappearance).

The records of one member in two releases can be linked because long histories are nearly unique. Anybody can then see who is
in an earlier release but not in a later one. These members left the delivery, were suppressed, or now have a sensitive
condition:

    P(sensitive | in it, absent now) = newly sensitive / all who disappeared

The same holds in reverse for new members: some of them may have been removed before. New members also form a smaller set, in
which fewer members share their demographics than in the whole delivery.
"""

from collections.abc import Sequence
from dataclasses import dataclass

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
    like = _sizes(class_of, np.ones(len(there), dtype=bool))
    lacking, new = _sizes(class_of, there < 0), _sizes(class_of, there == NOT_DELIVERED)
    few = np.where(there == NOT_DELIVERED, new, lacking) < k
    return (there < 0) & few & (like >= k)


def _sizes(class_of: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Return (n,) int: for each member, the number of members of their class in `among`."""
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
