"""Who is in one release and not in another (methods#disappearance), against enumeration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.disclosure.membership_changes import (
    NOT_DELIVERED,
    NOT_RELEASED,
    REMOVED,
    Roll,
    posterior_of_the_missing,
    stand_out,
)
from deid_assets_tests import examples

people = st.dictionaries(st.integers(0, 30), st.tuples(st.integers(0, 2), st.sampled_from(["released", "removed", "neither"])))
"""Member to demographic class, and what the release does with them."""


def roll_of(members: dict[int, int]) -> Roll:
    """A roll from member and class; tags are the members' numbers."""
    tags = np.array(sorted(members), dtype=np.uint64)
    return Roll(tags, np.array([members[int(tag)] for tag in tags], dtype=np.int32))


def rolled(members: dict[int, tuple[int, str]]) -> Roll:
    kinds = {"removed": REMOVED, "neither": NOT_RELEASED}
    return roll_of({member: kinds.get(what, own) for member, (own, what) in members.items()})


def of_a_thousand(left: int) -> tuple[Roll, Roll]:
    """A thousand members of one class, of whom 30 are newly sensitive, 23 suppressed, and some left the delivery."""
    now = dict.fromkeys(range(1000), 0) | dict.fromkeys(range(30), REMOVED) | dict.fromkeys(range(30, 53), NOT_RELEASED)
    return roll_of(dict.fromkeys(range(1000), 0)), roll_of({m: own for m, own in now.items() if not 53 <= m < 53 + left})


@pytest.mark.parametrize(("left", "posterior"), [(0, 0.57), (100, 0.20)])
def test_what_disappearance_tells_where_nobody_left_and_where_a_tenth_did(left, posterior):
    assert posterior_of_the_missing(*of_a_thousand(left)) == pytest.approx(posterior, abs=0.005)


def test_the_worst_demographic_class_decides():
    earlier = roll_of({member: member % 2 for member in range(200)})
    now = roll_of({1: REMOVED} | dict.fromkeys(range(4, 200), 0))
    assert posterior_of_the_missing(earlier, now) == 1 / 2, "one of four who are gone, but one of two in its class"


def test_nobody_is_missing_in_the_same_release_and_strangers_tell_nothing():
    roll = roll_of({1: 0, 2: 1, 3: REMOVED, 4: NOT_RELEASED})
    assert posterior_of_the_missing(roll, roll) == 0
    assert posterior_of_the_missing(roll, roll_of({9: 0, 10: REMOVED})) == 0
    assert posterior_of_the_missing(roll_of({}), roll) == posterior_of_the_missing(roll, roll_of({})) == 0


def test_who_was_not_released_before_tells_nothing_by_going():
    assert posterior_of_the_missing(roll_of({1: NOT_RELEASED, 2: REMOVED, 3: 0}), roll_of({1: REMOVED, 2: REMOVED, 3: 0})) == 0


@given(people, people)
@settings(max_examples=examples.of(200))
def test_the_posterior_is_that_of_counting_one_by_one(earlier, now):
    worst = 0.0
    for own in range(3):
        gone = [
            member for member, (of, what) in earlier.items()
            if of == own and what == "released" and now.get(member, (0, "left"))[1] != "released"
        ]  # fmt: skip
        removed = [member for member in gone if now.get(member, (0, "left"))[1] == "removed"]
        worst = max(worst, len(removed) / len(gone) if gone else 0.0)
    assert posterior_of_the_missing(rolled(earlier), rolled(now)) == worst


@given(people, people, st.integers(1, 6))
@settings(max_examples=examples.of(200))
def test_who_stands_out_is_found_by_counting_one_by_one(earlier, now, k):
    roll = rolled(now)
    class_of = np.array([now[int(tag)][0] for tag in roll.tags], dtype=np.int64)
    expected = []
    for member in sorted(now):
        alike = [other for other in now if now[other][0] == now[member][0]]
        lacking = [other for other in alike if earlier.get(other, (0, ""))[1] != "released"]
        newcomers = [other for other in alike if other not in earlier]
        few = len(lacking if member in earlier else newcomers) < k
        expected.append(earlier.get(member, (0, ""))[1] != "released" and few and len(alike) >= k)
    assert stand_out(roll.tags, class_of, rolled(earlier), k).tolist() == expected


def test_another_population_makes_no_class_smaller():
    """All of its members are newcomers; who is alike with few is at risk without any earlier release."""
    now = roll_of({member: member // 25 for member in range(30)})
    assert not stand_out(now.tags, now.classes, roll_of({99: 0}), 20).any()


@given(people)
def test_a_roll_is_kept_and_read_back(members):
    roll = rolled(members)
    again = Roll.from_bytes(roll.to_bytes())
    assert np.array_equal(again.tags, roll.tags) and np.array_equal(again.classes, roll.classes)
    assert len(roll.to_bytes()) == 12 * len(members)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"x" * 13, "must be a multiple of element size"),
        (roll_of({1: 0}).to_bytes() * 2, "contains every tag once"),
        (roll_of({2: 0}).to_bytes() + roll_of({1: 0}).to_bytes(), "contains every tag once"),
        (roll_of({1: NOT_DELIVERED}).to_bytes(), "each with a class"),
    ],
    ids=["a piece", "a member twice", "not in order", "no class"],
)
def test_what_is_no_roll_is_not_read_as_one(content, message):
    with pytest.raises(ValueError, match=message):
        Roll.from_bytes(content)
