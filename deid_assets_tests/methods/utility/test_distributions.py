"""Distances and associations: worked numbers, and against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency

from deid_assets.methods.utility.distributions import (
    FEWEST,
    associations,
    cramers_v,
    earth_movers,
    kolmogorov_smirnov_distance,
    spread_evenly,
    standard_errors,
    total_variation,
)

COUNTS = st.lists(st.integers(0, 20), min_size=2, max_size=6)


@given(COUNTS, st.data())
@settings(max_examples=50, deadline=None)
def test_the_distance_is_the_largest_difference_of_the_shares_of_any_set(before, data):
    after = data.draw(st.lists(st.integers(0, 20), min_size=len(before), max_size=len(before)))
    if not sum(before) or not sum(after):
        return
    p, q = np.array(before) / sum(before), np.array(after) / sum(after)
    sets = [[bool(number >> place & 1) for place in range(len(before))] for number in range(2 ** len(before))]
    assert total_variation(np.array(before), np.array(after)) == pytest.approx(max(abs(p[s].sum() - q[s].sum()) for s in sets))


@given(COUNTS, st.data())
@settings(max_examples=50, deadline=None)
def test_distances_are_0_of_equal_shares_symmetric_and_at_most_1(before, data):
    after = np.array(data.draw(st.lists(st.integers(1, 20), min_size=len(before), max_size=len(before))))
    before = np.array(before) + 1
    for distance in (total_variation, earth_movers, kolmogorov_smirnov_distance):
        assert distance(before, 3 * before) == pytest.approx(0)
        assert distance(before, after) == pytest.approx(distance(after, before))
        assert 0 <= distance(before, after) <= 1 + 1e-12


def test_a_column_that_is_left_without_rows_has_lost_everything():
    assert total_variation(np.array([3, 1]), np.array([0, 0])) == 1
    assert total_variation(np.array([0, 0]), np.array([0, 0])) == 0


def test_the_order_counts_for_the_earth_movers_distance():
    near, far = np.array([0, 5, 0, 0]), np.array([0, 0, 0, 5])
    first = np.array([5, 0, 0, 0])
    assert total_variation(first, near) == total_variation(first, far) == 1
    assert earth_movers(first, near) == pytest.approx(1 / 3) and earth_movers(first, far) == 1


def test_a_class_for_all_is_as_far_as_an_even_distribution():
    """Nineteen of twenty have no days: released as any number, they seem to have half of the largest."""
    counts = np.array([95, 1, 1, 1, 1, 1])
    spread = spread_evenly(np.array([100.0]), np.zeros(6, dtype=int))
    assert spread == pytest.approx(100 / 6)
    assert (
        earth_movers(counts, spread)
        > 0.4
        > 0.02
        > earth_movers(counts, spread_evenly(np.array([95.0, 5.0]), np.r_[0, [1] * 5]))
    )


def test_values_without_a_class_get_nothing():
    assert spread_evenly(np.array([6.0]), np.array([0, -1, 0])).tolist() == [3.0, 0.0, 3.0]


@given(st.lists(st.lists(st.integers(0, 30), min_size=3, max_size=3), min_size=2, max_size=4))
@settings(max_examples=50, deadline=None)
def test_associations_are_those_of_the_corrected_formula(table):
    table = np.array(table)
    present = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    if min(present.shape, default=0) < 2:
        assert cramers_v(table) == 0
        return
    (r, c), n = present.shape, present.sum()
    phi = max(0.0, chi2_contingency(present, correction=False)[0] / n - (r - 1) * (c - 1) / (n - 1))
    least = min(r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1)) - 1
    assert cramers_v(table) == pytest.approx(min(1.0, np.sqrt(phi / max(least, 1e-12))))


def test_independent_columns_of_many_values_seem_unrelated():
    generator = np.random.default_rng(0)
    codes = [generator.integers(0, 30, 5_000), generator.integers(0, 40, 5_000)]
    found = associations([codes], [30, 40])
    assert found[0, 1] < 0.03, "without the correction it would be .09"
    in_batches = ([column[rows] for column in codes] for rows in (slice(0), slice(0, 7), slice(7, None)))
    assert np.array_equal(associations(in_batches, [30, 40]), found)


def test_a_shuffled_column_loses_its_association():
    generator = np.random.default_rng(0)
    column = generator.integers(0, 4, 2_000)
    kept, shuffled = (associations([[column, other]], [4, 4]) for other in (column, generator.permutation(column)))
    assert kept[0, 1] == pytest.approx(1, abs=0.01) and shuffled[0, 1] < 0.06


class TestAnswers:
    def test_a_worked_rate(self):
        """40 of 100 released instead of 500 of 1,000 delivered: a tenth too few, two standard errors of .05."""
        found = standard_errors((np.array([500]), np.array([1_000])), (np.array([40]), np.array([100])))
        assert found[0] == pytest.approx(-2.0, abs=0.001)

    def test_small_groups_are_not_compared(self):
        found = standard_errors(
            (np.array([5, 5, 0]), np.array([10, 10, 0])), (np.array([3] * 3), np.array([FEWEST - 1, FEWEST, 50]))
        )
        assert np.isnan(found[[0, 2]]).all() and np.isfinite(found[1])

    def test_a_rate_of_nobody_has_an_error_too(self):
        found = standard_errors((np.array([0, 0]), np.array([1_000] * 2)), (np.array([0, 10]), np.array([100] * 2)))
        assert found[0] == 0 and found[1] > 10

    def test_simple_random_samples_are_within_two_errors_nineteen_times_of_twenty(self):
        generator = np.random.default_rng(0)
        drawn = generator.hypergeometric(3_000, 27_000, 500, 2_000)
        found = standard_errors((np.full(2_000, 3_000), np.full(2_000, 30_000)), (drawn, np.full(2_000, 500)))
        assert 0.93 < (np.abs(found) <= 2).mean() < 0.98
