"""Linked releases against brute force: members of all deliveries, values at the meet, D' as the union."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.adversary.two_readings import both_readings
from deid_assets.methods.kernel.knowledge import draw_knowledge
from deid_assets.methods.releases.meet import linked_members
from deid_assets_tests import examples
from deid_assets_tests.methods import oracle
from deid_assets_tests.methods.releases.rows import Shown, SmallRelease
from deid_assets_tests.methods.small_tables import small_store

KEY = b"0123456789abcdef"
K = 3
VALUES = ("v", "w", "z")


def claims_of(draw, column):
    """Claims of a member, each with how often it is known and held; held is a part of known."""
    found = draw(st.dictionaries(st.tuples(st.integers(1, 2), st.sampled_from((*VALUES, None))), st.integers(1, 2), max_size=3))
    return tuple((column, day, value, known, draw(st.integers(0, known))) for (day, value), known in found.items())


@st.composite
def releases(draw):
    """A few releases of overlapping members, each with its own labels."""
    made = []
    for _ in range(draw(st.integers(1, 3))):
        members = {
            tag: Shown(
                {"age": draw(st.sampled_from("xy"))},
                claims_of(draw, "place") + claims_of(draw, "group"),
                draw(st.booleans()),
            )
            for tag in draw(st.sets(st.integers(1, 7), min_size=3))
        }
        labels = {column: {value: draw(st.sampled_from("pq")) for value in VALUES} for column in ("place", "group")}
        made.append(SmallRelease(members, labels))
    return made


def union(releases, tag, column, what):
    """How often each value occurs in any release, claims of one day of several releases counted once."""
    most = Counter()
    for release in releases:
        member = release.members[tag]
        for name, day, value, known, held in member.claims:
            if name == column:
                times = (known if member.released else 0) if what == "known" else held
                most[day, value] = max(most[day, value], times)
    found = Counter()
    for (_, value), times in most.items():
        found[value] += times
    return found


def listed(values, codes):
    return tuple(codes[value] for value, times in sorted(values.items(), key=str) if value is not None for _ in range(times))


def brute_force(releases, columns):
    """The members of all deliveries as `oracle.Person`s by tag, and the class of each value at the meet."""
    tags = sorted(set.intersection(*(set(release.members) for release in releases)))
    shown = [tuple(release.members[tag].demographics["age"] for release in releases) for tag in tags]
    seen = {
        column: sorted(
            {v for release in releases for m in release.members.values() for c, _, v, *_ in m.claims if c == column and v}
        )
        for column in columns
    }
    codes = {column: {value: code for code, value in enumerate(values)} for column, values in seen.items()}
    meets = []
    for column in columns:
        labels = []
        for value in seen[column]:
            there = [
                any(c == column and v == value for m in release.members.values() for c, _, v, *_ in m.claims)
                for release in releases
            ]
            labels.append(
                tuple(r.label(column, value) if is_there else "absent" for r, is_there in zip(releases, there, strict=True))
            )
        meets.append([labels.index(label) for label in labels])
    people = {
        tag: oracle.Person(
            (sorted(set(shown)).index(own),),
            tuple(listed(union(releases, tag, column, "known"), codes[column]) for column in columns),
            tuple(listed(union(releases, tag, column, "held"), codes[column]) for column in columns),
            (),
            all(release.members[tag].released for release in releases),
        )
        for tag, own in zip(tags, shown, strict=True)
    }
    return people, meets


@settings(max_examples=examples.of(20), deadline=None)
@given(releases())
def test_classes_at_the_meet_are_those_of_brute_force(made):
    with small_store() as store:
        linked = linked_members([one.table(store, f"release_{number}") for number, one in enumerate(made)], 2, "nearest")
    names = sorted({c for one in made for m in one.members.values() for c, _, v, *_ in m.claims if v})
    people, meets = brute_force(made, names)
    targets = [person for person in people.values() if person.released]
    if not targets:
        assert linked is None
        return
    assert linked is not None and [d.name for d in linked.dimensions] == names
    assert len(linked.data.targets) == len(targets) and linked.data.members == len(people)
    found = linked.computation(K).measure(linked.node, KEY, 60, exemption="literal", keep_flags=True).kept_flags
    once = linked.computation(K).measure(linked.node, KEY, 60, keep_flags=True).kept_flags
    drawn = draw_knowledge(linked.data, KEY, 0)
    same = [list(range(len(people)))]
    for number in range(60):
        target = targets[drawn.targets[number]]
        knowledge = tuple(tuple(code for code in own[:, number].tolist() if code >= 0) for own in drawn.codes)
        for own, known in zip(knowledge, target.known, strict=True):
            assert not Counter(own) - Counter(known), "what is drawn is known from either delivery"
        expected = oracle.flagged(list(people.values()), target, knowledge, same, meets, meets, K)
        assert found[number] == once[number] == expected


@settings(max_examples=examples.of(20), deadline=None)
@given(releases())
def test_neighbors_pick_among_the_linked_records_that_brute_force_finds(made):
    with small_store() as store:
        linked = linked_members([one.table(store, f"release_{number}") for number, one in enumerate(made)], 2, "nearest")
    names = sorted({c for one in made for m in one.members.values() for c, _, v, *_ in m.claims if v})
    people, meets = brute_force(made, names)
    targets = [person for person in people.values() if person.released]
    if linked is None:
        assert not targets
        return
    found = linked.neighbor_success(KEY, 60)
    drawn = draw_knowledge(linked.data, KEY, 0)

    def holds(person, knowledge):
        meeting = zip(knowledge, person.held, meets, strict=True)
        return all(not Counter(meet[v] for v in known) - Counter(meet[v] for v in held) for known, held, meet in meeting)

    for number in range(60):
        target = targets[drawn.targets[number]]
        knowledge = [[code for code in own[:, number].tolist() if code >= 0] for own in drawn.codes]
        fitting = sum(one.demographics == target.demographics and holds(one, knowledge) for one in targets)
        assert found[number] == (1 / fitting if holds(target, knowledge) else 0)


def alike(sizes, **changes):
    """Members of classes named by a letter per release: 'xu' is x in the first and u in the second."""
    tags = iter(range(1, 10_000))
    first, second = {}, {}
    for name, size in sizes.items():
        for _ in range(size):
            tag = next(tags)
            first[tag], second[tag] = Shown({"age": name[0]}), Shown({"age": name[1]})
    return SmallRelease(first), SmallRelease(second)


def flagged_share(made, k=20, draws=20_000):
    with small_store() as store:
        linked = linked_members([one.table(store, f"release_{number}") for number, one in enumerate(made)], 2, "nearest")
    return both_readings(linked.computation(k), linked.node, linked.adversary, KEY, draws).fixed.share


def test_classes_that_are_large_in_each_release_are_small_under_the_meet():
    """Four halves: each release tells two halves of 30 + 10 apart; together they tell four quarters apart."""
    first, second = alike({"xu": 30, "xv": 10, "yu": 10, "yv": 30})
    assert flagged_share([first]) == flagged_share([second]) == 0
    assert flagged_share([first, second]) == pytest.approx(20 / 80, abs=0.02)


def test_the_same_generalization_twice_adds_nothing():
    first, _ = alike({"xu": 20, "yu": 60})
    assert flagged_share([first, first]) == 0


def with_claims(values, labels, held=1):
    members = {
        tag: Shown({"age": "x"}, (("place", 1, value, 1, held),) if value else ()) for tag, value in enumerate(values, start=1)
    }
    return SmallRelease(members, {"place": labels})


def test_a_value_that_each_release_joins_with_another_is_alone_under_the_meet():
    values = ["v"] * 15 + ["w"] * 20 + ["z"] * 20
    first = with_claims(values, {"v": "vw", "w": "vw", "z": "z"})
    second = with_claims(values, {"v": "vz", "w": "w", "z": "vz"})
    assert flagged_share([first]) == flagged_share([second]) == 0
    assert flagged_share([first, second]) == pytest.approx(15 / 55, abs=0.02)


def test_a_claim_that_one_release_truncates_is_known_from_the_other():
    values = ["v"] * 15 + ["w"] * 25
    cut, whole = with_claims(values, {}, held=0), with_claims(values, {})
    assert flagged_share([cut]) == 0, "who lost what is known about them cannot be found"
    assert flagged_share([cut, whole]) == pytest.approx(15 / 40, abs=0.02)


def test_only_members_of_both_deliveries_hide_each_other():
    first, second = alike({"xu": 40})
    fewer = SmallRelease({tag: shown for tag, shown in second.members.items() if tag <= 10})
    assert flagged_share([first, fewer]) == 1
    unreleased = SmallRelease({tag: Shown(m.demographics, m.claims, tag <= 10) for tag, m in second.members.items()})
    assert flagged_share([first, unreleased]) == 0, "the others are not released, but could be meant"


def test_without_a_common_member_there_is_nothing_to_link(store):
    first, second = alike({"xu": 3})
    others = SmallRelease({tag + 10: shown for tag, shown in second.members.items()})
    assert linked_members([first.table(store, "a"), others.table(store, "b")], 2, "nearest") is None


def test_knowledge_is_of_the_claims_of_either_delivery(store):
    """A claim of one day counts once, whichever delivery has it; another day is another claim."""
    one = SmallRelease({1: Shown({"age": "x"}, (("place", 1, "v", 1, 1),))})
    two = SmallRelease({1: Shown({"age": "x"}, (("place", 1, "v", 1, 1), ("place", 2, "v", 1, 0)))})
    linked = linked_members([one.table(store, "a"), two.table(store, "b")], 2, "nearest")
    assert linked.data.known[0].counts.tolist() == [2] and linked.data.held[0].counts.tolist() == [1]
    assert np.array_equal(linked.adversary.claims, [2])


def neighbor_success(made, trials=20_000):
    with small_store() as store:
        linked = linked_members([one.table(store, f"release_{number}") for number, one in enumerate(made)], 2, "nearest")
    return linked.neighbor_success(KEY, trials).mean()


def test_who_knows_that_a_member_is_in_two_releases_finds_their_record_more_often_than_in_either():
    """Two classes of 40 in each release are four of 30 and 10 together: 1/40 becomes 4/80."""
    first, second = alike({"xu": 30, "xv": 10, "yu": 10, "yv": 30})
    for one in (first, second):
        assert neighbor_success([one]) == pytest.approx(2 / 80)
    assert neighbor_success([first, second]) == pytest.approx(4 / 80, abs=0.001)
