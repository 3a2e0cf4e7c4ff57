"""Members who leave for good at each re-release (methods#rotation), against enumeration and simulation."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.disclosure.membership_changes import (
    ever_released_share,
    left_for_good,
    posterior_of_the_rotated,
    rotated,
    rotation_needed,
)
from deid_assets_tests import examples

KEY, OTHER = bytes(32), bytes(range(32))
shares = st.floats(0.001, 0.999)
members = st.sets(st.integers(0, 12))


def tags_of(numbers) -> np.ndarray:
    return np.array(sorted(numbers), dtype=np.uint64)


@pytest.mark.parametrize(
    ("share", "rotation", "posterior"),
    [(0.01, 0.0572, 0.1501), (0.01, 0.0573, 0.1499), (0.0139, 0.08, 0.1498), (0.5, 0.5, 2 / 3), (0, 0.1, 0), (1, 0.1, 1)],
)
def test_worked_numbers(share, rotation, posterior):
    assert posterior_of_the_rotated(share, rotation) == pytest.approx(posterior, abs=5e-5)


def test_the_rotation_that_is_needed_is_just_enough():
    assert rotation_needed(0.01, 0.15) == pytest.approx(0.0572, abs=5e-5)
    assert rotation_needed(0.9, 0.15) > 1 and rotation_needed(1, 0.15) == np.inf, "no rotation is enough"


@given(shares, shares)
def test_the_posterior_at_the_rotation_that_is_needed_is_the_limit(share, limit):
    needed = rotation_needed(share, limit)
    if needed < 1:
        assert posterior_of_the_rotated(share, needed) == pytest.approx(limit)


@given(shares, shares, shares, shares)
def test_the_posterior_rises_with_the_share_and_falls_with_rotation(one, other, rotation, another):
    low, high = sorted((one, other))
    little, much = sorted((rotation, another))
    assert posterior_of_the_rotated(low, little) <= posterior_of_the_rotated(high, little)
    assert posterior_of_the_rotated(low, much) <= posterior_of_the_rotated(low, little)


@pytest.mark.parametrize("wrong", [(1.01, 0.1), (-0.1, 0.1), (0.1, 0.0), (0.1, 1.0)])
def test_numbers_that_are_no_probabilities_are_refused(wrong):
    with pytest.raises(ValueError, match="between 0 and 1"):
        posterior_of_the_rotated(*wrong)


WHEN = (None, 1, 2)
"""The year in which a member has a new sensitive condition, or leaves the population, if ever."""


@given(st.lists(st.floats(0.001, 1), min_size=9, max_size=9), st.floats(0.01, 0.99))
@settings(max_examples=examples.of(200))
def test_the_odds_rise_by_no_more_than_one_over_rotation_on_every_path_whatever_is_known_of_leavers(weights, rotation):
    """Enumerates two years of a class in which conditions and leaving may depend on each other in any way.

    A member is missed first in a year. Odds before are those of who was not missed earlier, given the same knowledge.
    """
    lives = dict(zip(itertools.product(WHEN, WHEN), weights, strict=True))
    for year, knowledge in itertools.product((1, 2), (None, *WHEN)):
        before, missing = {True: 0.0, False: 0.0}, {True: 0.0, False: 0.0}
        for ((ill, gone), weight), *rotations in itertools.product(lives.items(), (False, True), (False, True)):
            if knowledge is not None and gone != knowledge:
                continue
            missed = [at for at in (1, 2) if ill == at or gone == at or rotations[at - 1]]
            if any(at < year for at in missed):
                continue
            probability = weight * np.prod([rotation if one else 1 - rotation for one in rotations])
            before[ill == year] += probability
            missing[ill == year] += probability * (year in missed)
        if before[True] and before[False]:
            odds, rise = before[True] / before[False], 1 / rotation
            assert missing[True] <= missing[False] * odds * rise * (1 + 1e-9)
            share = before[True] / (before[True] + before[False])
            posterior = missing[True] / (missing[True] + missing[False])
            assert posterior <= posterior_of_the_rotated(share, rotation) * (1 + 1e-9)


@given(st.lists(st.lists(members, max_size=4), max_size=3))
@settings(max_examples=examples.of(200))
def test_who_left_is_found_by_looking_at_one_after_the_other(series):
    expected = {
        member for releases in series for member in range(13)
        if any(member in one and member not in later for at, one in enumerate(releases) for later in releases[at + 1 :])
    }  # fmt: skip
    assert set(left_for_good([[tags_of(one) for one in releases] for releases in series]).tolist()) == expected


@given(st.sets(st.integers(0, 2**64 - 1), max_size=40), st.sets(st.integers(0, 2**64 - 1), max_size=40), shares)
@settings(max_examples=examples.of(100))
def test_each_member_is_decided_alone_whoever_else_is_delivered(one, other, rotation):
    both = tags_of(one | other)
    together = dict(zip(both.tolist(), rotated(both, KEY, rotation).tolist(), strict=True))
    alone = tags_of(one)
    assert rotated(alone, KEY, rotation).tolist() == [together[tag] for tag in alone.tolist()]
    assert rotated(alone[::-1], KEY, rotation).tolist() == rotated(alone, KEY, rotation).tolist()[::-1]


def test_another_key_draws_others_and_more_rotation_draws_more_of_the_same():
    tags = np.arange(20_000, dtype=np.uint64)
    little, more, other = rotated(tags, KEY, 0.05), rotated(tags, KEY, 0.1), rotated(tags, OTHER, 0.1)
    assert (more | ~little).all() and abs(more.mean() - 0.1) < 0.01 and abs(other.mean() - 0.1) < 0.01
    assert abs((more & other).mean() - 0.01) < 0.003, "two draws are independent"
    assert not rotated(tags[:0], KEY, 0.5).size


@pytest.mark.parametrize(
    ("released", "rotation", "releases", "ever"), [(0.1, 0.08, 0, 0.1), (0.1, 0.08, 10, 0.18), (0.6, 0.5, 9, 1)]
)
def test_the_share_ever_released_grows_by_those_who_are_replaced(released, rotation, releases, ever):
    assert ever_released_share(released, rotation, releases) == pytest.approx(ever)
