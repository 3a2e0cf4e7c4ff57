"""Counts of several sites (methods#sums-over-sites)."""

import numpy as np
import pytest

from deid_assets.errors import CountsError
from deid_assets.methods.counts.sites import selection_bias, sum_over_sites


@pytest.mark.parametrize(("average", "sites"), [(0.5, 25), (1, 6.25), (2, 1.5625), (2.5, 1)])
def test_the_number_of_sites_up_to_which_masking_serves_better(average, sites):
    counts = np.full((60, 1), average)
    assert [bool(sum_over_sites(counts[:x]).noise_serves[0]) for x in range(1, 61)] == [x > sites for x in range(1, 61)]


def test_uncertainty_adds_in_squares():
    counts = np.zeros((9, 2))
    assert sum_over_sites(counts).sd.tolist() == [7.5, 7.5]
    assert sum_over_sites(counts, np.array([[2.5, 0.0]] * 4 + [[0.0, 0.0]] * 5)).sd.tolist() == [5.0, 0.0]


def test_sums_of_noisy_counts_are_unbiased_only_with_negative_ones():
    noisy = 1 + np.rint(np.random.default_rng(0).normal(0, 2.5, (100, 2_000)))
    assert sum_over_sites(noisy).totals.mean() == pytest.approx(100, abs=3)
    assert sum_over_sites(np.maximum(noisy, 0)).totals.mean() > 130
    assert sum_over_sites(noisy).totals.std() == pytest.approx(25.17, rel=0.06)


def test_small_sites_lose_more():
    counts = np.array([[5, 9], [8, 40], [100, 60], [500, 300]])
    found = selection_bias(counts, np.array([20, 90, 300, 2_000]), groups=2)
    assert found.lost.tolist() == [22 / 62, 0.0] and found.size_at_most.tolist() == [90, 2_000]
    assert found.sites.tolist() == [2, 2] and found.lost_of_all == pytest.approx(22 / 1_022)


def test_what_masking_loses_ends_at_the_threshold():
    found = selection_bias(np.array([[10, 11, 0]]), np.array([21]), groups=1)
    assert found.lost.tolist() == [10 / 21] and selection_bias(np.array([[10, 11]]), np.array([21]), 10, 1).lost_of_all == 0


def test_more_groups_than_sites_cannot_be_made():
    with pytest.raises(CountsError):
        selection_bias(np.ones((2, 1)), np.ones(2), groups=3)
