"""What absence tells: methods#absence."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.disclosure import absence
from deid_assets_tests import examples

shares = st.floats(0, 1)


@given(shares, shares)
def test_absence_never_makes_the_condition_less_likely(share, alpha):
    assert share - 1e-12 <= absence.absence_posterior(share, alpha) <= 1


def test_simulated_absentees_have_the_condition_that_often():
    rng = np.random.default_rng(7)
    removed = rng.random(400_000) < 0.1
    released = ~removed & (rng.random(removed.size) < 0.5)
    assert removed[~released].mean() == pytest.approx(absence.absence_posterior(0.1, 0.5), abs=0.005)


def test_nobody_removed_tells_nothing():
    assert absence.absence_posterior(0, 1) == 0


@pytest.mark.parametrize(("share", "alpha"), [(-0.1, 0.5), (0.1, 1.1), (float("nan"), 0.5)])
def test_shares_outside_0_and_1_are_refused(share, alpha):
    with pytest.raises(ValueError, match="between 0 and 1"):
        absence.absence_posterior(share, alpha)
    with pytest.raises(ValueError, match="between 0 and 1"):
        absence.absence_factor(alpha if not 0 <= alpha <= 1 else share)


@pytest.mark.parametrize(("alpha", "factor"), [(0, 1), (0.1, 1.1111), (0.02, 1.0204), (0.5, 2), (1, math.inf)])
def test_worked_factors(alpha, factor):
    assert absence.absence_factor(alpha) == pytest.approx(factor, abs=5e-5)


def test_the_worked_release():
    """Prior .13213 and alpha .11623 give a factor of 1.1315 and a posterior of .14696."""
    factor = absence.absence_factor(0.11623)
    assert factor == pytest.approx(1.1315, abs=5e-5)
    assert absence.posterior_by_factor(0.13213, factor) == pytest.approx(0.14696, abs=1e-5)


@given(shares, shares)
def test_both_ways_to_the_posterior_agree(prior, alpha):
    assert absence.posterior_by_factor(prior, absence.absence_factor(alpha)) == pytest.approx(
        absence.absence_posterior(prior, alpha), abs=1e-9
    )


@settings(max_examples=examples.of(100), deadline=None)
@given(st.data())
def test_the_factor_of_each_class_is_what_bayes_rule_gives_over_all_releases(data):
    """By enumeration: everybody of a class who is in no release, and the odds among them over the odds before.

    Members are suppressed or left out of a release, opt out, leave, or are removed only later; several releases follow.
    """
    members = data.draw(st.integers(1, 25))
    class_of = data.draw(st.lists(st.integers(0, 3), min_size=members, max_size=members))
    state = data.draw(
        st.lists(st.sampled_from(["eligible", "removed", "opted out", "left"]), min_size=members, max_size=members)
    )
    releases = data.draw(st.lists(st.sets(st.integers(0, members - 1)), min_size=1, max_size=3))
    ever = [any(member in release for release in releases) for member in range(members)]
    found = absence.absence_by_class(class_of, [one == "eligible" for one in state], ever, [one == "removed" for one in state])
    factors = []
    for number in range(max(class_of) + 1):
        own = [member for member in range(members) if class_of[member] == number]
        able = [member for member in own if state[member] == "eligible"]
        gone = [member for member in own if state[member] == "removed"]
        absent = [member for member in able if not ever[member]]
        if not able:
            factors.append(1.0)
        elif not absent:
            factors.append(math.inf)
        else:
            factors.append(float(Fraction(len(able), len(absent))))
            if gone:
                odds_before, odds_given_absence = Fraction(len(gone), len(able)), Fraction(len(gone), len(absent))
                assert factors[-1] == pytest.approx(float(odds_given_absence / odds_before))
                posterior = Fraction(len(gone), len(gone) + len(absent))
                assert found.posteriors[number] == pytest.approx(float(posterior))
        assert found.priors[number] == pytest.approx(len(gone) / max(len(gone) + len(able), 1))
    assert found.factors.tolist() == pytest.approx(factors)
    assert found.largest == max(factors)
    assert factors[found.worst] == found.largest and found.largest not in factors[: found.worst]


def test_a_class_that_was_released_whole_has_no_bound():
    found = absence.absence_by_class([0, 0, 1], [True] * 3, [True, False, True], [False] * 3)
    assert found.factors.tolist() == [2, math.inf] and found.worst == 1
    assert found.posteriors.tolist() == [0, 0], "nobody of these classes was removed"
    assert absence.absence_by_class([0, 0], [True, False], [True, False], [False, True]).posteriors.tolist() == [1]


def test_members_who_cannot_be_compared_may_all_be_in_every_class():
    found = absence.absence_by_class([0] * 4 + [1] * 2, [True] * 6, [True] + [False] * 5, [False] * 6, of_others=2)
    assert found.released.tolist() == [3, 2] and found.factors.tolist() == [4, math.inf]


def test_nobody_at_all():
    found = absence.absence_by_class([], [], [], [])
    assert (found.largest, found.worst, found.prior) == (1, -1, 0)


@given(st.integers(0, 500), st.sampled_from([1.01, 1.1, 1.25, 4 / 3, 1.5, 1.7, 2.0]))
def test_one_more_than_may_be_released_is_too_many(eligible, at_most):
    def largest(released: int) -> float:
        return absence.AbsenceByClass(np.array([eligible]), np.array([released]), np.array([0])).largest

    most = int(absence.releasable(np.array([eligible]), at_most)[0])
    assert 0 <= most <= eligible and largest(most) <= at_most
    assert most == eligible or largest(most + 1) > at_most
