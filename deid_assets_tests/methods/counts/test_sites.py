"""Counts of several sites (methods#sums-over-sites)."""

import numpy as np
import pytest

from deid_assets.errors import CountsError
from deid_assets.methods.counts.noise import Mechanism, noise_distribution
from deid_assets.methods.counts.sites import Serves, selection_bias, sites_at_crossover, sum_over_sites


@pytest.mark.parametrize(("average", "sites"), [(0.5, 25), (1, 6.25), (2, 1.5625), (2.5, 1)])
def test_the_number_of_sites_up_to_which_masking_serves_better(average, sites):
    counts = np.full((60, 1), average)
    served = [sum_over_sites(counts[:x], is_true=True).serves_better[0] for x in range(1, 61)]
    assert served == [Serves.NOISE if x > sites else Serves.MASKING for x in range(1, 61)]
    assert sites_at_crossover(average, 2.5) == sites


def test_uncertainty_adds_in_squares_with_that_of_the_rounding():
    counts = np.zeros((9, 2))
    assert sum_over_sites(counts).sd.tolist() == pytest.approx([3 * 6.3333333**0.5] * 2)
    assert sum_over_sites(counts, mechanism=Mechanism.DISCRETE).sd.tolist() == [7.5, 7.5]
    some = np.array([[2.5, 0.0]] * 4 + [[0.0, 0.0]] * 5)
    assert sum_over_sites(counts, some, mechanism=Mechanism.DISCRETE).sd.tolist() == [5.0, 0.0]


@pytest.mark.parametrize(("largest", "sites"), [(1, 40), (3, 5), (12, 10), (40, 40), (400, 5)])
def test_the_noise_decides_wrongly_in_few_cases(largest, sites):
    draws = np.random.default_rng(largest)
    true = draws.integers(0, largest + 1, (400, sites, 1))
    noisy = true + np.rint(draws.normal(0, 2.5, true.shape))
    known, told = ([sum_over_sites(counts, is_true=one) for counts in all_of] for all_of, one in ((true, True), (noisy, False)))
    served = [(exact.serves_better[0], said.serves_better[0]) for exact, said in zip(known, told, strict=True)]
    decided = [(exact, said) for exact, said in served if said is not Serves.UNDECIDED]
    assert len(decided) > 20 and sum(exact is not said for exact, said in decided) < 0.05 * len(served)


def test_bounds_of_what_masking_hides_are_those_of_brute_force():
    """The expectation of the small part of a count, over all true counts as likely as the noise that they would need."""
    chances = noise_distribution(2.5)
    true = np.arange(len(chances)) - len(chances) // 2
    for shown in (-4, 3, 10, 11, 14, 30):
        part = np.where(true + shown < 11, true + shown, 0)
        mean = chances @ part
        least = max(0.0, mean - 1.6449 * np.sqrt(chances @ part**2 - mean**2))
        assert sum_over_sites(np.array([[shown]])).hidden_at_least[0] == pytest.approx(least, abs=0.02)


def test_a_masked_cell_has_no_sum_and_may_be_small():
    found = sum_over_sites(np.array([[np.nan, 90.0], [40.0, 80.0]]), np.array([[0.0, 2.5], [2.5, 2.5]]))
    assert found.serves_better == (None, Serves.UNDECIDED) and np.isnan(found.totals).tolist() == [True, False]
    assert found.hidden_at_most[1] == pytest.approx(90 + 1.6449 * 6.3333**0.5, abs=1e-3)


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
