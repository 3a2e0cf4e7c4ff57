"""People of several flat releases, against brute force."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.releases.linked_records import (
    RecordClasses,
    ShownPeople,
    added_standing_out,
    changed_standing_out,
    in_small_joint_class,
    kept_records,
    missed_standing_out,
    records_to_leave_out,
    shown_people,
    singled_out_together,
    with_names_of,
)
from deid_assets.store.tables import Table, write_table
from deid_assets_tests import examples
from deid_assets_tests.methods.small_tables import small_store

Release = dict[int, tuple[int, bool]]
"""By tag: class of the person, and whether they are released."""

releases = st.dictionaries(st.integers(0, 14), st.tuples(st.integers(0, 2), st.booleans()), max_size=15)


def people(release: Release) -> ShownPeople:
    tags = sorted(release)
    return ShownPeople(
        np.array(tags, dtype=np.uint64), np.array([release[tag][0] for tag in tags], dtype=np.int64),
        np.array([release[tag][1] for tag in tags], dtype=bool),
    )  # fmt: skip


def alone(own: Release, others: list[Release], k: int, among_released: bool) -> set[int]:
    """By definition: people released everywhere, and fewer than k are like them everywhere."""
    inside = [tag for tag in own if all(tag in other for other in others)]
    everywhere = [tag for tag in inside if own[tag][1] and all(other[tag][1] for other in others)]
    seen = {tag: (own[tag][0], *(other[tag][0] for other in others)) for tag in inside}
    sizes = Counter(seen[tag] for tag in (everywhere if among_released else inside))
    return {tag for tag in everywhere if sizes[seen[tag]] < k}


def alone_together(own: Release, others: list[Release], k: int, among_released: bool) -> set[int]:
    """By definition, person by person: the labels in all releases that have the person, and who shares them there."""
    found = set()
    for tag, (_, released) in own.items():
        having = [own, *(other for other in others if other.get(tag, (0, False))[1])]
        hiding = [
            other
            for other in own
            if all(other in one and one[other][0] == one[tag][0] for one in having)
            and (not among_released or all(one[other][1] for one in having))
        ]
        if released and len(having) > 1 and len(hiding) < k:
            found.add(tag)
    return found


def new(own: Release, earlier: Release, k: int, among_released: bool) -> set[int]:
    """By definition: of those who hide, fewer than k of the class are lacking, or are not even delivered, as the person is."""

    def there(tag: int) -> str:
        return "unknown" if tag not in earlier else "released" if earlier[tag][1] else "left out"

    found = set()
    for tag, (one, released) in own.items():
        like = [there(other) for other, (theirs, shown) in own.items() if theirs == one and (shown or not among_released)]
        lacking = like.count("unknown") + (like.count("left out") if there(tag) == "left out" else 0)
        if released and there(tag) != "released" and lacking < k:
            found.add(tag)
    return found


def missed(earlier: Release, own: Release, k: int, among_released: bool) -> set[int]:
    """By definition: of those who hide, fewer than k of the class are not released now."""
    gone = {tag: one for tag, one in earlier.items() if not own.get(tag, (0, False))[1]}
    sizes = Counter(one for one, released in gone.values() if released or not among_released)
    return {tag for tag, (one, released) in gone.items() if released and sizes[one] < k}


def chosen(own: Release, flags: np.ndarray) -> set[int]:
    return set(np.array(sorted(own))[flags].tolist())


@settings(deadline=None)
@given(releases, st.lists(releases, min_size=1, max_size=3), st.integers(1, 4), st.booleans())
def test_who_is_singled_out_and_who_is_new_are_those_of_brute_force(own, others, k, among_released):
    shown = [people(other) for other in others]
    assert chosen(own, in_small_joint_class(people(own), shown, k, among_released)) == alone(own, others, k, among_released)
    assert chosen(own, added_standing_out(people(own), shown[0], k, among_released)) == new(own, others[0], k, among_released)
    together = singled_out_together(people(own), shown, k, among_released)
    assert chosen(own, together) == alone_together(own, others, k, among_released)
    assert chosen(own, together) >= alone(own, others, k, among_released)
    found = missed_standing_out(shown[0], people(own), k, among_released)
    assert chosen(others[0], found) == missed(others[0], own, k, among_released)


@settings(deadline=None)
@given(
    releases, releases, st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=15, max_size=15), st.integers(1, 4)
)
def test_whose_values_changed_are_those_of_brute_force(own, earlier, costs, k):
    shown = [
        replace(people(one), values={"cost": np.array([costs[tag][place] for tag in sorted(one)], dtype=np.int64)})
        for place, one in enumerate((own, earlier))
    ]
    for among_released in (True, False):
        changed = {tag: (own[tag][0], earlier[tag][0]) for tag in own if tag in earlier and costs[tag][0] != costs[tag][1]}
        both = {tag: seen for tag, seen in changed.items() if own[tag][1] and earlier[tag][1]}
        sizes = Counter((both if among_released else changed).values())
        wanted = {tag for tag, seen in both.items() if sizes[seen] < k}
        assert chosen(own, changed_standing_out(*shown, k, among_released)) == wanted


def test_attributes_that_exchanged_their_names_are_compared_by_their_values():
    """One has no counterpart: it agrees with a rare value of another no more often than by chance."""
    tags, alike, places = np.arange(40, dtype=np.uint64), np.zeros(40, dtype=np.int64), np.arange(40)
    a, b, rare, other = places // 2, places % 5, (places == 3) * 1, (places == 4) * 1
    earlier = ShownPeople(tags, alike, tags >= 0, {"a": a, "b": b, "old": other})
    own = ShownPeople(tags, alike, tags >= 0, {"a": b, "b": a, "new": rare})
    assert set(with_names_of(own, earlier).values) == {"a", "b", "old"}
    assert not changed_standing_out(own, with_names_of(own, earlier), 2, True).any()
    own = replace(own, values={"a": np.where(places == 7, 9, b), "b": a, "new": rare})
    assert np.flatnonzero(changed_standing_out(own, with_names_of(own, earlier), 2, True)).tolist() == [7]


@settings(deadline=None)
@given(releases, st.lists(releases, min_size=1, max_size=3), st.integers(1, 4), st.booleans())
def test_without_those_who_are_left_out_nobody_stands_out(own, others, k, among_released):
    """With one record for each person, who is also of a record class of their own."""
    shown, tags = [people(other) for other in others], sorted(own)
    small = np.array([not own[tag][1] for tag in tags], dtype=bool)
    records = RecordClasses(np.arange(len(tags)), people(own).classes, small)
    left_out = records_to_leave_out(people(own), records, shown, k, among_released)
    assert (left_out | ~small).all(), "small records are left out whatever was released"
    after = {tag: (own[tag][0], not gone) for tag, gone in zip(tags, left_out, strict=True)}
    assert alone_together(after, others, k, among_released) == set()
    for other in others:
        assert alone(after, [other], k, among_released) == set()
        assert new(after, other, k, among_released) == set()
    if among_released:
        sizes = Counter(one for one, released in after.values() if released)
        assert all(size >= k for size in sizes.values())
    beside_nothing = records_to_leave_out(people(own), records, [], k, among_released=False)
    assert (beside_nothing == small).all()


def test_a_release_beside_itself_singles_out_nobody_new():
    own = people({tag: (tag // 3, True) for tag in range(9)})
    assert not in_small_joint_class(own, [own], 3, True).any() and not added_standing_out(own, own, 3, True).any()
    assert own.discloses_the_same_as(own)
    assert not own.discloses_the_same_as(people({tag: (tag // 3, tag > 0) for tag in range(9)}))


def test_a_third_release_of_one_of_the_people_hides_nobody():
    """Pairs of the first and the second cross, and the third has only one of the people."""
    first, own = ({tag: (pair[tag], True) for tag in range(4)} for pair in ((0, 0, 1, 1), (2, 0, 2, 0)))
    third = people({0: (5, True), 9: (5, True)})
    assert not in_small_joint_class(people(own), [people(first), third], 2, True)[1:].any()
    assert chosen(own, singled_out_together(people(own), [people(first), third], 2, True)) == {0, 1, 2, 3}


def test_one_more_person_with_a_rare_list_of_records_stands_out():
    """Though each of the records is common: the difference of both releases would be exactly these records."""
    before = {tag: (tag % 3, True) for tag in range(12)}
    after = before | {12: (3, True)}
    for among_released in (True, False):
        assert chosen(after, added_standing_out(people(after), people(before), 4, among_released)) == {12}
        assert chosen(after, missed_standing_out(people(after), people(before), 4, among_released)) == {12}


def kept(store, name: str, records: list[tuple], left_out: list[int], costs: dict[str, str] | None = None) -> Table:
    """The kept rows of records (number, label, person), and of what people cost."""
    columns = "record BIGINT, Town VARCHAR, _person VARCHAR" + (", cost VARCHAR" if costs else "")
    rows = store.table(f"{name}_records", columns, [(*one, costs[one[-1]]) for one in records] if costs else records)
    out = store.table(f"{name}_out", "record BIGINT", [(number,) for number in left_out])
    tags = Table(rows.file, "scratch", f"{name}_tags")
    persons = sorted({one[2] for one in records})
    write_table(tags, pd.DataFrame({"person": persons, "tag": np.array([int(one) for one in persons], dtype=np.uint64)}))
    found, gone = Table(rows.file, "scratch", f"{name}_kept"), f"SELECT record FROM {out.sql}"
    attributes = {"what it; cost's": "cost"} if costs else {}
    write_table(found, kept_records(f"SELECT * FROM {rows.sql}", ["Town"], attributes, "_person", tags, gone))
    return found


def test_kept_rows_tell_whose_values_changed(store):
    records = [(number, "a", str(number)) for number in range(4)]
    before, later = ({str(number): cost for number, cost in enumerate(costs)} for costs in ("xxyy", "xxyz"))
    first, second = kept(store, "first", records, [], before), kept(store, "second", records, [], later)
    earlier, own, without = shown_people([first, second, kept(store, "third", records, [])])
    assert changed_standing_out(own, earlier, 2, True).tolist() == [False, False, False, True]
    assert not own.discloses_the_same_as(earlier) and own.discloses_the_same_as(own)
    assert not changed_standing_out(own, without, 2, True).any(), "it has no attribute"


def test_kept_rows_tell_the_released_records_of_each_person(store):
    """A person with several records is known by all of them that are released, in any order."""
    first = kept(store, "first", [(1, "a", "1"), (2, "b", "1"), (3, "b", "2"), (4, None, "3"), (5, "a", "3")], [4])
    second = kept(store, "second", [(1, "b", "1"), (2, "a", "1"), (3, "a", "3"), (4, "b", "4"), (5, "b", "2")], [4])
    earlier, own = shown_people([first, second])
    assert earlier.tags.tolist() == [1, 2, 3] and own.tags.tolist() == [1, 2, 3, 4]
    assert (earlier.classes == own.classes[:3]).all() and len(set(earlier.classes)) == 3
    assert own.released.tolist() == [True, True, True, False] and own.classes[3] == own.classes[1]


@settings(max_examples=examples.of(10), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4)), min_size=1, max_size=8))
def test_kept_rows_are_one_for_each_person(rows):
    with small_store() as store:
        found = kept(store, "own", [(number, town, str(person)) for number, (town, person) in enumerate(rows)], [])
        (own,) = shown_people([found])
    of = {person: sorted(town for town, theirs in rows if theirs == person) for _, person in rows}
    assert own.tags.tolist() == sorted(of)
    by_class = {tuple(of[person]): one for person, one in zip(sorted(of), own.classes.tolist(), strict=True)}
    assert len(set(by_class.values())) == len(by_class) == len(set(own.classes.tolist()))
