"""What releases hide, who is missing, and which rows give their members away, against brute force."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings

from deid_assets.methods.disclosure.membership_changes import NOT_RELEASED, REMOVED, Roll, posterior_of_the_missing
from deid_assets.methods.releases.comparison import compared, linkable_share, withdrawn_standing_out
from deid_assets_tests import examples
from deid_assets_tests.methods.releases.rows import Shown, SmallRelease
from deid_assets_tests.methods.releases.test_meet import VALUES, releases
from deid_assets_tests.methods.small_tables import small_store


def released(release):
    return {tag for tag, member in release.members.items() if member.released}


def values_of(member, what):
    found = Counter()
    for column, day, value, known, held in member.claims:
        if value is not None:
            found[column, day, value] += known if what == "known" else held
    return found


@settings(max_examples=examples.of(20), deadline=None)
@given(releases())
def test_what_is_hidden_and_who_changed_are_those_of_brute_force(made):
    earlier, later = made[0], made[-1]
    with small_store() as store:
        a, b = earlier.table(store, "a"), later.table(store, "b")
        found, standing = compared(a, b), withdrawn_standing_out(a, b, 2)
    both = released(earlier) & released(later)
    by_earlier = by_later = shown = 0
    for tag in both:
        (known_a, held_a), (known_b, held_b) = (
            (values_of(release.members[tag], "known"), values_of(release.members[tag], "held")) for release in (earlier, later)
        )
        for value in set(known_a) & set(known_b):
            in_both = min(held_a[value], held_b[value])
            shown += max(held_a[value], held_b[value])
            by_earlier += max(min(known_a[value], held_b[value]) - in_both, 0)
            by_later += max(min(known_b[value], held_a[value]) - in_both, 0)
    assert (found.members, found.added, found.withdrawn) == (
        len(both), len(released(later) - released(earlier)), len(released(earlier) - released(later))
    )  # fmt: skip
    assert (found.values, found.hidden_by_earlier, found.hidden_by_later) == (shown, by_earlier, by_later)
    assert found.hidden_share == (by_earlier + by_later) / max(shown, 1)

    def like(tag):
        return [own for own in earlier.members if earlier.members[own].demographics == earlier.members[tag].demographics]

    few = [
        tag for tag in released(earlier) - released(later)
        if len(like(tag)) >= 2 > sum(own not in released(later) for own in like(tag))
    ]  # fmt: skip
    assert standing == len(few)


def joined(releases, column):
    """The coarsest classes of the labels that two releases show, as one letter for each value that both have."""
    first, second = releases
    seen = [{v for m in r.members.values() for c, _, v, *_ in m.claims if c == column} for r in releases]
    both = [value for value in (*VALUES, None) if value in seen[0] and value in seen[1]]
    groups = {value: {value} for value in both}
    for _ in both:
        for one in both:
            for other in both:
                same = any(r.label(column, one) == r.label(column, other) for r in releases)
                if same:
                    groups[one] = groups[other] = groups[one] | groups[other]
    names = {}
    for number, release in enumerate(releases):
        for value in both:
            names[number, release.label(column, value)] = min(map(str, groups[value]))
    return names


@settings(max_examples=examples.of(20), deadline=None)
@given(releases())
def test_the_share_of_linkable_records_is_that_of_brute_force(made):
    pair = (made[0], made[-1])
    columns = [
        column for column in ("place", "group")
        if {v for m in pair[0].members.values() for c, _, v, *_ in m.claims if c == column}
        & {v for m in pair[1].members.values() for c, _, v, *_ in m.claims if c == column}
    ]  # fmt: skip
    ages = {a.demographics["age"] for a in pair[0].members.values()} & {b.demographics["age"] for b in pair[1].members.values()}
    names = {column: joined(pair, column) for column in columns}

    def record(number, member):
        found = Counter()
        for column, _, value, _, held in member.claims:
            if column in names:
                found[column, names[column].get((number, pair[number].label(column, value)))] += held
        age = member.demographics["age"]
        return frozenset((+found).items()), (age if age in ages else None) if ages else "not compared"

    others = Counter(record(1, m) for m in pair[1].members.values() if m.released)
    own = [record(0, m) for m in pair[0].members.values() if m.released]
    expected = sum(others[one] == 1 for one in own) / max(len(own), 1)
    with small_store() as store:
        assert linkable_share(pair[0].table(store, "a"), pair[1].table(store, "b")) == pytest.approx(expected)


def test_long_histories_are_linked_whatever_each_release_joins(store):
    """The two releases join different places, yet how often each pair occurs is unique."""

    def visits(labels):
        return SmallRelease(
            {tag: Shown({"age": "x"}, (("place", 1, "v", tag, tag), ("place", 1, "u", 9, 9))) for tag in range(1, 9)},
            {"place": labels},
        )  # fmt: skip

    one, two = visits({"v": "v", "u": "u"}).table(store, "a"), visits({"v": "v or w", "u": "u"}).table(store, "b")
    assert linkable_share(one, two) == 1
    alone = visits({"v": "any", "u": "any"}).table(store, "c")
    assert linkable_share(one, alone) == 1, "the numbers of claims tell them apart"


@pytest.mark.parametrize(("left", "expected"), [(0, 0.57), (0.1, 0.20)])
def test_worked_numbers_of_the_disappearance(left, expected):
    """.03 newly sensitive, .023 suppressed: beyond a bound of .15, whether nobody left or a tenth did."""
    members = np.arange(10_000, dtype=np.uint64)
    earlier = Roll(members, np.zeros(10_000, dtype=np.int32))
    classes = np.zeros(10_000, dtype=np.int32)
    classes[:300], classes[300:530] = REMOVED, NOT_RELEASED
    there = np.ones(10_000, dtype=bool)
    there[530 : 530 + round(left * 10_000)] = False
    posterior = posterior_of_the_missing(earlier, Roll(members[there], classes[there]))
    assert round(posterior, 2) == expected and posterior > 0.15
