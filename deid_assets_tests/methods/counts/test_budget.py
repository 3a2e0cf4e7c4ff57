"""What noisy counts cost, and a budget that refuses in time (methods#budget-of-noise)."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special

from deid_assets.errors import CountsError
from deid_assets.methods.counts.budget import (
    Budget,
    NoisyCell,
    best_guess,
    epsilon,
    rho_of_tables,
    rho_within,
)
from deid_assets.methods.counts.tables import CellName
from deid_assets_tests import examples
from deid_assets_tests.methods.counts.made_tables import attrition, characteristics, group, two_way

SD = 2.5


def cost(tables) -> float:
    ones = np.ones(len(tables.cells))
    return rho_of_tables(tables.cells, tables.sums, SD * ones, ones)


def gaussian_epsilon(rho: float, delta: float) -> float:
    """The exact epsilon of Gaussian noise (Balle and Wang 2018, theorem 8)."""
    mu = np.sqrt(2 * rho)

    def excess(at: float) -> float:
        return special.ndtr(mu / 2 - at / mu) - np.exp(at + special.log_ndtr(-mu / 2 - at / mu)) - delta

    return 0.0 if excess(0.0) <= 0 else optimize.brentq(excess, 0.0, epsilon(rho, delta) + 1e-6)


def test_one_count_and_24_repeats():
    assert gaussian_epsilon(0.08, 1e-5) == pytest.approx(1.55, abs=0.006)
    assert gaussian_epsilon(24 * 0.08, 1e-5) == pytest.approx(9.75, abs=0.006)


@settings(max_examples=examples.of(40), deadline=None)
@given(st.floats(0.001, 5), st.floats(1e-9, 0.05))
def test_the_conversion_bounds_the_exact_one_and_beats_the_standard_one(rho, delta):
    found = epsilon(rho, delta)
    assert gaussian_epsilon(rho, delta) <= found + 1e-9
    assert found <= rho + 2 * np.sqrt(rho * np.log(1 / delta)) + 1e-9


def test_a_person_is_in_one_part_of_every_total():
    assert cost(group([5, 6, 7])) == pytest.approx(0.16)
    assert cost(two_way(np.ones((3, 4), int))) == pytest.approx(4 * 0.08)
    for stated, touched in ((attrition()[0], 3), (characteristics(1)[0], 3)):
        ones = np.ones(len(stated[0]))
        assert rho_of_tables(*stated, SD * ones, ones) == pytest.approx(touched * 0.08)


@settings(max_examples=examples.of(30), deadline=None)
@given(st.integers(2, 4), st.integers(2, 3))
def test_the_cost_covers_every_person(rows, columns):
    tables = two_way(np.ones((rows, columns), int))
    position = {name: i for i, name in enumerate(tables.cells)}
    touched = 0
    for values in itertools.product((0, 1), repeat=rows * columns):
        if sum(values) <= 1:
            inner = np.reshape(values, (rows, columns))
            vector = two_way(inner).counts
            touched = max(touched, int((vector**2).sum()))
    assert len(position) == len(tables.cells) and cost(tables) == pytest.approx(touched / (2 * SD**2))


def test_wider_noise_for_larger_contributions_costs_the_same():
    names = (CellName("claims", "all", "count"),)
    assert rho_of_tables(names, (), np.array([250.0]), np.array([100])) == pytest.approx(0.08)


def test_a_count_without_noise_has_no_price():
    with pytest.raises(CountsError, match="no noise"):
        rho_of_tables((CellName("a", "b", "c"),), (), np.zeros(1), np.ones(1))


def test_best_guess_is_that_of_two_gaussians():
    assert best_guess(0) == 0.5
    assert best_guess(0.08) == pytest.approx(special.ndtr(0.2))


def charged(budget: Budget, noise: str, parts: int = 2) -> Budget:
    tables = group([20] * parts)
    return budget.charged([NoisyCell(name, noise, SD) for name in tables.cells], tables.sums)


def test_repeated_noise_is_free_and_fresh_noise_is_charged():
    budget = charged(Budget(total=0.5, lockout=10), "delivery 1")
    assert budget.spent == pytest.approx(0.16)
    assert charged(budget, "delivery 1") == budget
    assert charged(budget, "delivery 1", parts=3).spent == pytest.approx(0.24)  # one new cell
    assert charged(budget, "delivery 2").spent == pytest.approx(0.32)


def test_another_width_is_another_draw_and_is_charged():
    """One cell of one delivery with ten widths would otherwise be ten free draws, which average the noise away."""
    cell = CellName("sex", "F", "people")
    budget = Budget(total=100, lockout=3)
    for width in (2.5, 2.6, 2.7):
        budget = budget.charged([NoisyCell(cell, "delivery 1", width)], ())
    assert budget.spent == pytest.approx(sum(1 / (2 * width**2) for width in (2.5, 2.6, 2.7)))
    assert budget.charged([NoisyCell(cell, "delivery 1", 2.6)], ()) == budget
    with pytest.raises(CountsError, match="published 3 times"):
        budget.charged([NoisyCell(cell, "delivery 1", 2.8)], ())


def test_a_sum_with_a_repeated_total_still_places_a_person_in_one_part():
    tables = group([20] * 5)
    total, *parts = tables.cells
    budget = Budget(total=1, lockout=10).charged([NoisyCell(total, "delivery 1", SD)], ())
    cells = [NoisyCell(total, "delivery 1", SD), *(NoisyCell(part, "delivery 2", SD) for part in parts)]
    assert budget.charged(cells, tables.sums).spent == pytest.approx(0.16)


def test_masked_cells_cost_nothing():
    budget = Budget(total=1, lockout=1)
    assert budget.charged([NoisyCell(CellName("a", "b", "c"), "delivery 1", np.inf)], ()) == budget


@settings(max_examples=examples.of(30), deadline=None)
@given(st.floats(0.01, 50), st.floats(1e-9, 0.05))
def test_a_total_as_epsilon_is_the_largest_cost_within_it(least, delta):
    assert epsilon(rho_within(least, delta), delta) == pytest.approx(least, rel=1e-6)


def test_a_total_as_epsilon_must_be_a_number():
    with pytest.raises(CountsError, match="epsilon must be"):
        rho_within(0, 0.1)


def test_a_budget_that_would_be_exceeded_refuses():
    budget = charged(Budget(total=0.3, lockout=10), "delivery 1")
    with pytest.raises(CountsError, match=r"cost 0.16 of zCDP, but only 0.14 of the total of 0.3"):
        charged(budget, "delivery 2")
    assert charged(budget, "delivery 1") == budget


def test_a_lockout_refuses():
    budget = charged(charged(Budget(total=100, lockout=2), "delivery 1"), "delivery 2")
    with pytest.raises(CountsError, match="3 cells were published 2 times"):
        charged(budget, "delivery 3")


@pytest.mark.parametrize("wrong", [{"total": 0}, {"total": float("nan")}, {"total": float("inf")}, {"lockout": 0}])
def test_a_budget_without_a_limit_is_refused(wrong):
    with pytest.raises(CountsError, match="finite total"):
        Budget(**({"total": 1.0, "lockout": 1} | wrong))


@pytest.mark.parametrize(("rho", "delta"), [(-1, 0.1), (float("inf"), 0.1), (1, 0), (1, 1)])
def test_a_cost_or_delta_that_cannot_be(rho, delta):
    with pytest.raises(CountsError, match="delta between 0 and 1"):
        epsilon(rho, delta)
