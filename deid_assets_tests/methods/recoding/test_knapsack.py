"""The knapsack against brute force: the bound bounds every choice, and the solver finds the best."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.methods.recoding.knapsack import Candidates, relaxation, solve

numbers = st.integers(0, 12).map(lambda number: number / 8)
classes = st.lists(
    st.lists(st.tuples(numbers, numbers), min_size=1, max_size=5).map(
        lambda rows: Candidates(np.array([share for share, _ in rows]), np.array([loss for _, loss in rows]))
    ),
    min_size=1,
    max_size=4,
)


def least_loss(some, budget, positions) -> float | None:
    """The least loss of any choice within the budget, by trying all."""
    losses = [
        sum(one.losses[at] for one, at in zip(some, choice, strict=True))
        for choice in product(*positions)
        if sum(one.shares[at] for one, at in zip(some, choice, strict=True)) <= budget
    ]
    return min(losses, default=None)


@given(classes, st.integers(0, 40).map(lambda number: number / 8))
def test_the_choice_is_the_best_and_the_bound_bounds_all(some, budget):
    found = solve(some, budget)
    best = least_loss(some, budget, [range(len(one.shares)) for one in some])
    assert (found is None) == (best is None)
    if found is None:
        return
    assert found.loss == pytest.approx(best, abs=1e-5)
    assert found.bound <= best + 1e-9
    assert found.share <= budget * (1 + 1e-9)
    assert found.loss == pytest.approx(sum(one.losses[at] for one, at in zip(some, found.choice, strict=True)))
    assert found.gap == pytest.approx(found.loss - found.bound)


@given(classes, st.integers(0, 40).map(lambda number: number / 8))
def test_the_completed_relaxation_is_off_by_at_most_one_step(some, budget):
    relaxed = relaxation(some, budget)
    if relaxed is None:
        return
    loss = sum(one.losses[at] for one, at in zip(some, relaxed.choice, strict=True))
    share = sum(one.shares[at] for one, at in zip(some, relaxed.choice, strict=True))
    steps = [step for one in some for step in np.diff(one.losses[one.hull()])]
    assert share <= budget * (1 + 1e-9)
    assert loss - relaxed.bound <= max(steps, default=0) + 1e-9
    if not relaxed.price:
        assert loss == pytest.approx(relaxed.bound)


@given(classes, st.integers(0, 40).map(lambda number: number / 8))
def test_the_price_proves_the_bound(some, budget):
    """Lagrange's dual: no candidate of any class is cheaper at this price, so that nothing within the budget loses less."""
    relaxed = relaxation(some, budget)
    if relaxed is None:
        return
    cheapest = sum(float(np.min(one.losses + relaxed.price * one.shares)) for one in some)
    assert cheapest - relaxed.price * budget == pytest.approx(relaxed.bound, abs=1e-9)


@given(classes)
def test_a_hull_is_convex_and_below_all_candidates(some):
    for one in some:
        hull = one.hull()
        slopes = -np.diff(one.losses[hull]) / np.diff(one.shares[hull]) if len(hull) > 1 else np.zeros(0)
        assert np.all(slopes > 0) and np.all(np.diff(slopes) > 0)
        for price in (0, 0.1, 1, 10, *slopes):
            cost = one.losses + price * one.shares
            assert cost[hull].min() == pytest.approx(cost.min())


def test_a_step_that_saves_next_to_nothing():
    some = [Candidates(np.array([0.5, np.nextafter(0.5, 0), 0]), np.array([0.0, 1.0, 1.0]))]
    assert relaxation(some, 0.25).bound == pytest.approx(0.5)
    tiny = [Candidates(np.array([5e-324, 0.0]), np.array([0.0, 1.0]))]
    assert relaxation(tiny, 0.0).bound == pytest.approx(1.0)


def test_a_solver_without_time_leaves_the_completed_relaxation():
    some = [Candidates(np.array([3, 2, 0]), np.array([0, 1, 4])) for _ in range(6)]
    found = solve(some, 9.5, seconds=0.0)
    assert found is not None and found.share <= 9.5
    assert found.loss <= sum(one.losses[at] for one, at in zip(some, relaxation(some, 9.5).choice, strict=True))


def test_no_choice_within_the_budget():
    assert solve([Candidates(np.array([0.5]), np.array([0.0]))], 0.4) is None


@pytest.mark.parametrize(
    ("shares", "losses"), [([], []), ([0.1], [0.1, 0.2]), ([-0.1], [0.0]), ([0.1], [np.nan]), ([np.inf], [0.0])]
)
def test_candidates_that_make_no_sense(shares, losses):
    with pytest.raises(ValueError, match=r"one share and one loss|not negative"):
        Candidates(np.array(shares), np.array(losses))
