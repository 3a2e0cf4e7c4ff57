"""Releases of flat tables together: people in several of them, and people in one of them only (methods#linked-records).

An adversary who links the records of a person in several releases knows what each shows of the person. The person is then
hidden among the people of whom every release shows the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

import numpy as np
import pandas as pd

from deid_assets.errors import ReleaseError
from deid_assets.methods.disclosure.membership_changes import count_in_class
from deid_assets.store.tables import Table, quoted

ATTRIBUTE = "attribute "
"""Prefix of the names under which kept rows say what a release shows of a person besides the quasi-identifiers."""


def kept_records(
    rows: str, columns: Sequence[str], attributes: Mapping[str, str], person: str, tags: Table, left_out: str
) -> str:
    """SELECT what a release shows of every delivered person, in the form of `kept_rows`.

    One row for each person, and one more for each attribute. The label of the first is the list of the person's released
    records, each with the label of every quasi-identifier; of a person without a released record, the list of all. The label of
    an attribute is a digest of its values in these records.

    Parameters
    ----------
    rows, columns, attributes, person
        A SELECT of every delivered record: its number, the labels of the quasi-identifiers, the other columns that are
        published, by their names in the delivery, and the identifier of its person.
    tags
        person and tag of everybody.
    left_out
        SELECT of the record numbers that are not released.
    """
    shown = ", ".join(f"{quoted(column)} := {quoted(column)}" for column in columns)
    values = {name: f"to_json(r.{quoted(column)})::VARCHAR" for name, column in attributes.items()}
    if len(values) > 1:  # two records of a person may exchange values of one attribute
        values["; ".join(sorted(values))] = f"to_json([{', '.join(values[name] for name in sorted(values))}])::VARCHAR"
    named = "".join(f", {value} AS a{place}" for place, value in enumerate(values.values()))
    in_order = [_in_order("shown", "to_json({})::VARCHAR", "'record'")]
    for place, name in enumerate(values):
        # A digest, because columns of a delivery have any names.
        kept = ATTRIBUTE + sha256(name.encode()).hexdigest()[:32]
        in_order.append(_in_order(f"a{place}", "sha256(to_json({})::VARCHAR)", f"'{kept}'"))
    return f"""WITH labelled AS MATERIALIZED (
            SELECT t.tag, to_json(struct_pack({shown}))::VARCHAR AS shown, record NOT IN ({left_out}) AS released{named}
            FROM ({rows}) AS r
            JOIN {tags.sql} AS t ON t.person = r.{quoted(person)})
        {" UNION ALL ".join(in_order)}"""


def _in_order(column: str, label: str, name: str) -> str:
    """SELECT the row of each person that lists one column of their records."""
    listed = f"list({column} ORDER BY shown, {column})"
    return f"""SELECT tag, {name} AS quasi_identifier, NULL::INTEGER AS service_day, NULL::VARCHAR AS value,
          {label.format(f"coalesce({listed} FILTER (released), {listed})")} AS label,
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
        (n,) int64: equal for people of whom the release shows, or would show, the same quasi-identifiers.
    released
        (n,) bool: whether the person is in the release.
    values
        Name of an attribute to (n,) int64, equal for the same values, whatever the attribute.
    same_rows
        Whether the release has rows of the same kind as the one about to be made, so that the difference of both files tells
        whose rows are new or changed. A table of people and one of claims can only be linked.
    """

    tags: np.ndarray
    classes: np.ndarray
    released: np.ndarray
    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    same_rows: bool = True

    def discloses_the_same_as(self, other: "ShownPeople") -> bool:
        """Whether both show the same of the same people; their classes and values must have common numbers."""
        pairs = [(self.tags, other.tags), (self.classes, other.classes), (self.released, other.released)]
        pairs += [(own, other.values[name]) for name, own in self.values.items() if name in other.values]
        return all(np.array_equal(own, theirs) for own, theirs in pairs)

    def as_one_class(self) -> "ShownPeople":
        """The same people in one class, with their quasi-identifiers as an attribute."""
        return replace(self, classes=np.zeros_like(self.classes), values={**self.values, "": self.classes})


def shown_people(releases: Sequence[Table]) -> list[ShownPeople]:
    """Read the kept rows of several releases; a class, and a value, has the same number in all of them.

    Of releases of members and claims, the quasi-identifiers of members count only.

    Parameters
    ----------
    releases
        As `kept_records` or `comparison.kept_rows` gives them.

    Raises
    ------
    ReleaseError
        If the kept rows lack an attribute of a person.
    """
    people = [
        one.arrays(
            f"""SELECT tag, to_json(list({{'of': quasi_identifier, 'label': label}} ORDER BY quasi_identifier, label))::VARCHAR
                  AS label, bool_or(released) AS released
                FROM {one.sql} WHERE service_day IS NULL AND NOT starts_with(quasi_identifier, ?) GROUP BY tag ORDER BY tag""",
            [ATTRIBUTE],
        )
        for one in releases
    ]
    attributes = [_attributes(one, len(own["tag"])) for one, own in zip(releases, people, strict=True)]
    classes = _numbered([own["label"] for own in people])
    # In all attributes, too: a column may have another name in another release.
    codes = iter(_numbered([told for own in attributes for told in own.values()]))
    values = [{name: next(codes) for name in own} for own in attributes]
    return [
        ShownPeople(np.asarray(own["tag"], dtype=np.uint64), of_class, np.asarray(own["released"], dtype=bool), told)
        for own, of_class, told in zip(people, classes, values, strict=True)
    ]


def _attributes(kept: Table, people: int) -> dict[str, np.ndarray]:
    """Name of each attribute to the (n,) digests of its values, by ascending tag."""
    found = kept.arrays(
        f"""SELECT quasi_identifier, label FROM {kept.sql} WHERE starts_with(quasi_identifier, ?)
            ORDER BY quasi_identifier, tag""",
        [ATTRIBUTE],
    )
    names, sizes = np.unique(np.asarray(found["quasi_identifier"], dtype=str), return_counts=True)
    if np.any(sizes != people):
        raise ReleaseError("the kept rows of a release lack attributes of some people; restore them from a backup")
    parts = np.split(np.asarray(found["label"], dtype=object), np.cumsum(sizes)[:-1])
    return {str(name).removeprefix(ATTRIBUTE): part for name, part in zip(names, parts, strict=False)}


def _numbered(labels: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The same number for the same label, in all of the arrays."""
    if not labels:
        return []
    codes, _ = pd.factorize(np.concatenate([np.asarray(one, dtype=object) for one in labels]))
    return np.split(codes.astype(np.int64), np.cumsum([len(one) for one in labels])[:-1])


def in_small_joint_class(own: ShownPeople, others: Sequence[ShownPeople], k: int, among_released: bool) -> np.ndarray:
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
    >>> in_small_joint_class(second, [first], 2, True).tolist(), in_small_joint_class(second, [second], 2, True).tolist()
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


def singled_out_together(own: ShownPeople, earlier: Sequence[ShownPeople], k: int, among_released: bool) -> np.ndarray:
    """Return (n,) bool: whose labels in this release and in every earlier one that has them are shared by fewer than k people.

    Each person is linked over the releases that have them, whichever these are. People who are not singled out by all of these
    are not by some of them, either.

    Parameters
    ----------
    own, earlier, k, among_released
        As in `in_small_joint_class`.

    Examples
    --------
    The pairs of two releases cross. A third one, of somebody else, makes no difference:

    >>> tags, everybody = np.arange(4, dtype=np.uint64), np.ones(4, dtype=bool)
    >>> first, own = (ShownPeople(tags, np.array(c), everybody) for c in ([0, 0, 1, 1], [2, 3, 2, 3]))
    >>> third = ShownPeople(tags[:1] + 9, np.zeros(1, dtype=np.int64), everybody[:1])
    >>> singled_out_together(own, [first, third], 2, True).tolist()
    [True, True, True, True]
    """
    found = np.zeros(len(own.tags), dtype=bool)
    inside = np.zeros((len(earlier), len(own.tags)), dtype=bool)
    for place, one in enumerate(earlier):
        inside[place] = np.isin(own.tags, one.tags[one.released])
    patterns, of_pattern = np.unique(inside, axis=1, return_inverse=True)
    for number, pattern in enumerate(patterns.T):
        if pattern.any():
            having = [one for one, has in zip(earlier, pattern, strict=True) if has]
            found |= in_small_joint_class(own, having, k, among_released) & (of_pattern.ravel() == number)
    return found


def added_standing_out(own: ShownPeople, earlier: ShownPeople, k: int, among_released: bool) -> np.ndarray:
    """Return (n,) bool: who is released now and would stand out, because the earlier release lacks fewer than k of their class.

    People who were not delivered then must be hidden by others who were not, either. A class is the list of a person's records,
    which may be rare though each record is not, so that small classes are no exception.

    Parameters
    ----------
    own, earlier, k, among_released
        As in `in_small_joint_class`, with one earlier release.

    Examples
    --------
    Three people are alike. One was released before, and of the two others only one is released now:

    >>> tags, alike = np.arange(3, dtype=np.uint64), np.zeros(3, dtype=np.int64)
    >>> own, earlier = ShownPeople(tags, alike, tags < 2), ShownPeople(tags[:1], alike[:1], np.ones(1, dtype=bool))
    >>> [added_standing_out(own, earlier, 2, among_released).tolist() for among_released in (True, False)]
    [[False, True, False], [False, False, False]]
    """
    delivered, there = np.isin(own.tags, earlier.tags), np.isin(own.tags, earlier.tags[earlier.released])
    hiding = own.released if among_released else np.ones(len(own.tags), dtype=bool)
    lacking, new = count_in_class(own.classes, hiding & ~there), count_in_class(own.classes, hiding & ~delivered)
    return own.released & ~there & (np.where(delivered, lacking, new) < k)


def with_the_row_of_a_missing_one(own: ShownPeople, earlier: ShownPeople) -> np.ndarray:
    """Return (n,) bool: who is new, and has the row of somebody who is missing now, of whom there is one for each.

    Both files differ no more than if they were the same people, and they may be, under an identifier that is spelled otherwise.
    A row is the class and all attributes that both releases have.

    Examples
    --------
    Two people are missing and three are new, two of them with the row of one who is missing:

    >>> everybody, rows = np.ones(3, dtype=bool), ([0, 0, 1], [0, 1, 1])
    >>> earlier, own = (ShownPeople(np.arange(3, dtype=np.uint64) + n, np.array(rows[n // 2]), everybody) for n in (0, 2))
    >>> with_the_row_of_a_missing_one(own, earlier).tolist()
    [False, False, False]
    >>> own = replace(own, tags=own.tags + np.uint64(7))
    >>> with_the_row_of_a_missing_one(own, earlier).tolist()
    [True, True, False]
    """
    new = own.released & ~np.isin(own.tags, earlier.tags[earlier.released])
    missing = earlier.released & ~np.isin(earlier.tags, own.tags[own.released])
    names = sorted(own.values.keys() & earlier.values.keys())
    rows = [
        np.stack([people.classes[which], *(people.values[name][which] for name in names)], axis=1)
        for people, which in ((own, new), (earlier, missing))
    ]
    _, numbers = np.unique(np.concatenate(rows), axis=0, return_inverse=True)
    of_new, of_missing = np.split(numbers.ravel(), [len(rows[0])])
    order = np.argsort(of_new, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order)) - np.searchsorted(of_new[order], of_new[order])
    found = np.zeros(len(own.tags), dtype=bool)
    found[new] = place < np.bincount(of_missing, minlength=int(numbers.max(initial=-1)) + 1)[of_new]
    return found


def missed_standing_out(earlier: ShownPeople, own: ShownPeople, k: int, among_released: bool) -> np.ndarray:
    """Return (n,) bool: who of the earlier release is missing now, and stands out because fewer than k of their class are.

    Parameters
    ----------
    earlier, own, k, among_released
        As in `added_standing_out`; people are those of the earlier release.
    """
    missing = ~np.isin(earlier.tags, own.tags[own.released])
    hiding = earlier.released if among_released else np.ones(len(earlier.tags), dtype=bool)
    return earlier.released & missing & (count_in_class(earlier.classes, hiding & missing) < k)


def shown_otherwise(own: ShownPeople, earlier: ShownPeople) -> np.ndarray:
    """Return (n,) bool: who is in both releases, which show other quasi-identifiers of them."""
    if not len(earlier.tags):
        return np.zeros(len(own.tags), dtype=bool)
    place = np.minimum(np.searchsorted(earlier.tags, own.tags), len(earlier.tags) - 1)
    both = own.released & earlier.released[place] & (earlier.tags[place] == own.tags)
    return both & (own.classes != earlier.classes[place])


def changed_standing_out(own: ShownPeople, earlier: ShownPeople, k: int, among_released: bool) -> np.ndarray:
    """Return (n,) bool: who is in both releases with other values of an attribute, as fewer than k of their class are.

    The difference of both files shows their old and new values. Attributes that only one of the releases has tell nothing of
    a change. A class is what both releases show: the labels may have changed as well, or be coarser now. Whose labels alone
    changed is found by `in_small_joint_class`.

    Parameters
    ----------
    own, earlier, k, among_released
        As in `added_standing_out`.

    Examples
    --------
    Of three people who are alike one has another value now; if two have, neither stands out:

    >>> tags, alike, everybody = np.arange(3, dtype=np.uint64), np.zeros(3, dtype=np.int64), np.ones(3, dtype=bool)
    >>> costs = ([0, 0, 0], [0, 0, 1], [0, 2, 1])
    >>> first, one, two = (ShownPeople(tags, alike, everybody, {"cost": np.array(own)}) for own in costs)
    >>> changed_standing_out(one, first, 2, True).tolist(), changed_standing_out(two, first, 2, True).tolist()
    ([False, False, True], [False, False, False])
    """
    if not len(earlier.tags):
        return np.zeros(len(own.tags), dtype=bool)
    place = np.minimum(np.searchsorted(earlier.tags, own.tags), len(earlier.tags) - 1)
    there = earlier.tags[place] == own.tags
    changed = np.zeros(len(own.tags), dtype=bool)
    for name in own.values.keys() & earlier.values.keys():
        changed |= own.values[name] != earlier.values[name][place]
    changed &= there
    released = own.released & earlier.released[place]
    _, classes = np.unique(np.stack([own.classes, earlier.classes[place]]), axis=1, return_inverse=True)
    return released & changed & (count_in_class(classes.ravel(), changed & (released if among_released else True)) < k)


def with_names_of(own: ShownPeople, earlier: ShownPeople) -> ShownPeople:
    """The earlier release with its attributes under the names that they have in the release about to be made.

    Whoever compares both files knows a column by its values. So a name stands for the attribute of the earlier release that
    agrees with it best, if the one of that name does not agree and another does. Two attributes agree if Cohen's kappa of their
    values, over the people in both releases, is above 1/2 (Cohen 1960, Educational and Psychological Measurement 20:37-46).

    Examples
    --------
    Column `a` is called `b` now, and one person's value has changed:

    >>> tags, alike = np.arange(8, dtype=np.uint64), np.zeros(8, dtype=np.int64)
    >>> everybody, a, b = tags >= 0, np.array([0, 1] * 4), np.array([0, 1] * 3 + [0, 0])
    >>> own, first = ShownPeople(tags, alike, everybody, {"b": b}), ShownPeople(tags, alike, everybody, {"a": a})
    >>> with_names_of(own, first).values["b"].tolist()
    [0, 1, 0, 1, 0, 1, 0, 1]
    """
    _, mine, theirs = np.intersect1d(own.tags[own.released], earlier.tags[earlier.released], return_indices=True)
    before = {name: values[earlier.released][theirs] for name, values in earlier.values.items()}
    found = dict(earlier.values)
    for name, values in own.values.items():
        now = values[own.released][mine]
        if name in before and _agree(now, before[name]) > _THE_SAME:
            continue
        agreeing = {other: _agree(now, told) for other, told in before.items()}
        best = max(agreeing, key=agreeing.__getitem__, default=name)
        if agreeing.get(best, 0.0) > _THE_SAME:
            found[name] = earlier.values[best]
    return replace(earlier, values=found)


_THE_SAME = 0.5


def _agree(one: np.ndarray, other: np.ndarray) -> float:
    """Cohen's kappa of two arrays of values; 0 where agreement is certain by chance."""
    if not len(one):
        return 0.0
    _, codes = np.unique(np.concatenate([one, other]), return_inverse=True)
    first, second = np.split(codes.ravel(), 2)
    shares = [np.bincount(part, minlength=int(codes.max()) + 1) / len(one) for part in (first, second)]
    chance = float(shares[0] @ shares[1])
    return 0.0 if chance >= 1 else (float((first == second).mean()) - chance) / (1 - chance)


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
        As in `singled_out_together`; new people, and changed values, stand out beside each earlier release by itself.
    """
    left_out = records.small
    while True:
        released = np.zeros(len(people.tags), dtype=bool)
        released[records.person[~left_out]] = True
        own = replace(people, released=released)
        stands_out = np.zeros(len(people.tags), dtype=bool)
        for one in earlier:
            if one.same_rows:
                stands_out |= added_standing_out(own, one, k, among_released)
                stands_out |= changed_standing_out(own, one, k, among_released)
        stands_out |= singled_out_together(own, earlier, k, among_released)
        more = left_out | stands_out[records.person]
        if among_released:
            sizes = np.bincount(records.classes[~more], minlength=int(records.classes.max(initial=-1)) + 1)
            more = more | (sizes[records.classes] < k)
        if np.array_equal(more, left_out):
            return left_out
        left_out = more
