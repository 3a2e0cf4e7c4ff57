"""Releases of flat tables together: people in several of them, and people in one of them only (methods#linked-records).

Whoever links the records of a person in several releases knows what each of them shows of the person. The person is then
hidden among the people of whom every release shows the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from deid_assets.methods.disclosure.membership_changes import NOT_RELEASED, Roll, stand_out
from deid_assets.store.tables import Table, quoted


def kept_records(rows: str, columns: Sequence[str], person: str, tags: Table, left_out: Table) -> str:
    """SELECT what a release shows of every delivered person, in the form of `kept_rows`: one row for each person.

    The label is the list of the person's released records, each with the label of every quasi-identifier; of a person without
    a released record, the list of all.

    Parameters
    ----------
    rows, columns, person
        A SELECT of every delivered record: its number, the labels of the quasi-identifiers, and the identifier of its person.
    tags
        person and tag of everybody.
    left_out
        record of the records that are not released.
    """
    shown = ", ".join(f"{quoted(column)} := {quoted(column)}" for column in columns)
    return f"""WITH labelled AS (
            SELECT t.tag, to_json(struct_pack({shown}))::VARCHAR AS shown,
              record NOT IN (SELECT record FROM {left_out.sql}) AS released
            FROM ({rows}) AS r
            JOIN {tags.sql} AS t ON t.person = r.{quoted(person)})
        SELECT tag, 'record' AS quasi_identifier, NULL::INTEGER AS service_day, NULL::VARCHAR AS value,
          to_json(coalesce(list(shown ORDER BY shown) FILTER (released), list(shown ORDER BY shown)))::VARCHAR AS label,
          1::UINTEGER AS known, 1::UINTEGER AS held, bool_or(released) AS released
        FROM labelled GROUP BY tag"""


@dataclass(frozen=True, eq=False)
class ShownPeople:
    """What a release shows of each person of its delivery.

    Attributes
    ----------
    tags
        (n,) uint64, ascending.
    classes
        (n,) int64: equal for people of whom the release shows, or would show, the same.
    released
        (n,) bool: whether the person is in the release.
    """

    tags: np.ndarray
    classes: np.ndarray
    released: np.ndarray

    def discloses_the_same_as(self, other: "ShownPeople") -> bool:
        """Whether both show the same of the same people; their classes must have common numbers."""
        pairs = zip((self.tags, self.classes, self.released), (other.tags, other.classes, other.released), strict=True)
        return all(np.array_equal(own, theirs) for own, theirs in pairs)


def shown_people(releases: Sequence[Table]) -> list[ShownPeople]:
    """Read the kept rows of several releases (`kept_records`); a class has the same number in all of them."""
    read = [one.arrays(f"SELECT tag, label, released FROM {one.sql} ORDER BY tag") for one in releases]
    codes, _ = pd.factorize(np.concatenate([np.asarray(one["label"], dtype=object) for one in read]))
    parts = np.split(codes.astype(np.int64), np.cumsum([len(one["tag"]) for one in read])[:-1])
    return [
        ShownPeople(np.asarray(one["tag"], dtype=np.uint64), classes, np.asarray(one["released"], dtype=bool))
        for one, classes in zip(read, parts, strict=True)
    ]


def singled_out(own: ShownPeople, others: Sequence[ShownPeople], k: int, among_released: bool) -> np.ndarray:
    """Return (n,) bool: whose class under all releases together, themselves included, has fewer than k people.

    Parameters
    ----------
    own, others
        The release about to be made, and earlier ones. Only people in all of them can be singled out.
    k
        Smallest class that is large enough.
    among_released
        Whether people are hidden only by those who are in every release (k-anonymity), or by everybody in all deliveries.

    Examples
    --------
    Four people are two pairs in each release, and the pairs cross:

    >>> tags, everybody = np.arange(4, dtype=np.uint64), np.ones(4, dtype=bool)
    >>> first, second = (ShownPeople(tags, np.array(c), everybody) for c in ([0, 0, 1, 1], [2, 3, 2, 3]))
    >>> singled_out(second, [first], 2, True).tolist(), singled_out(second, [second], 2, True).tolist()
    ([True, True, True, True], [False, False, False, False])
    """
    inside, released = np.arange(len(own.tags)), own.released
    for other in others:
        place = np.minimum(np.searchsorted(other.tags, own.tags), max(len(other.tags) - 1, 0))
        there = other.tags[place] == own.tags if len(other.tags) else np.zeros(len(own.tags), dtype=bool)
        inside = np.intersect1d(inside, np.flatnonzero(there))
        released = released & there & (other.released[place] if len(other.tags) else False)
    hiding = np.flatnonzero(released) if among_released else inside
    found = np.zeros(len(own.tags), dtype=bool)
    if not len(hiding):
        return found
    seen = [own.classes[hiding]]
    seen += [other.classes[np.searchsorted(other.tags, own.tags[hiding])] for other in others]
    _, of_class, sizes = np.unique(np.stack(seen, axis=1), axis=0, return_inverse=True, return_counts=True)
    found[hiding] = sizes[of_class.ravel()] < k
    return found & released


def added_standing_out(own: ShownPeople, earlier: ShownPeople, k: int) -> np.ndarray:
    """Return (n,) bool: who is released now and would stand out, because the earlier release lacks fewer than k of their class.

    See `disclosure.membership_changes.stand_out`.
    """
    roll = Roll(earlier.tags, np.where(earlier.released, earlier.classes, NOT_RELEASED).astype(np.int32))
    return stand_out(own.tags, own.classes, roll, k) & own.released


@dataclass(frozen=True, eq=False)
class RecordClasses:
    """The delivered records of people, at the levels of the release.

    Attributes
    ----------
    person
        (m,) int64: place of the record's person among the people.
    classes
        (m,) int64: class of the record, from 0.
    small
        (m,) bool: records that are not released whatever was released before.
    """

    person: np.ndarray
    classes: np.ndarray
    small: np.ndarray


def records_to_leave_out(
    people: ShownPeople, records: RecordClasses, earlier: Sequence[ShownPeople], k: int, among_released: bool
) -> np.ndarray:
    """Return (m,) bool: the small records, and those of people who would stand out beside earlier releases.

    With k-anonymity, those who are left out no longer hide others, so that classes are counted again until nobody is left who
    stands out.

    Parameters
    ----------
    people
        Everybody delivered; `released` is ignored.
    earlier, k, among_released
        As in `singled_out`; each earlier release counts by itself, and all together.
    """
    left_out = records.small
    while True:
        released = np.zeros(len(people.tags), dtype=bool)
        released[records.person[~left_out]] = True
        own = replace(people, released=released)
        stands_out = standing_out(own, earlier, lambda own, one: added_standing_out(own, one, k))
        stands_out |= standing_out(own, groups(earlier), lambda own, group: singled_out(own, group, k, among_released))
        more = left_out | stands_out[records.person]
        if among_released:
            sizes = np.bincount(records.classes[~more], minlength=int(records.classes.max(initial=-1)) + 1)
            more = more | (sizes[records.classes] < k)
        if np.array_equal(more, left_out):
            return left_out
        left_out = more


def groups(earlier: Sequence[ShownPeople]) -> list[Sequence[ShownPeople]]:
    """Each release by itself and, if there are several, all of them."""
    return [[one] for one in earlier] + ([earlier] if len(earlier) > 1 else [])


def standing_out(own: ShownPeople, others: Sequence, found: Callable[..., np.ndarray]) -> np.ndarray:
    """Return (n,) bool: for whom a function of this release and any of the others is true."""
    return np.any([found(own, one) for one in others], axis=0) if len(others) else np.zeros(len(own.tags), dtype=bool)
