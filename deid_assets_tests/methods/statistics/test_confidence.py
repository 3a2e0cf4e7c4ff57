"""Bounds: published values, and that they cover as often as they say."""

import math

import numpy as np
import pytest
from scipy import stats

from deid_assets.methods.statistics.confidence import (
    clopper_pearson_interval,
    clopper_pearson_upper_bound,
    empirical_bernstein_upper_bound,
    wilson_interval,
)


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (3, 10), (10, 10), (84, 10_000), (8, 1000)])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_intervals_equal_those_of_scipy(hits, trials, confidence):
    test = stats.binomtest(hits, trials)
    for ours, method in ((wilson_interval, "wilson"), (clopper_pearson_interval, "exact")):
        theirs = test.proportion_ci(confidence, method)
        assert ours(hits, trials, confidence) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    one_sided = stats.binomtest(hits, trials, alternative="less")
    assert clopper_pearson_upper_bound(hits, trials, confidence) == pytest.approx(
        one_sided.proportion_ci(confidence, "exact").high, abs=1e-12
    )


@pytest.mark.parametrize(("draws", "half_width"), [(30_486, 0.001), (3_048_693, 0.0001)])
def test_worked_half_widths(draws, half_width):
    low, high = wilson_interval(round(0.008 * draws), draws)
    assert (high - low) / 2 == pytest.approx(half_width, rel=0.01)


@pytest.mark.parametrize(("iterations", "standard_error"), [(1, 8.9e-4), (10, 2.8e-4), (100, 8.9e-5), (1000, 2.8e-5)])
def test_worked_standard_errors(iterations, standard_error):
    """Half of an interval of 68.27 % is one standard error, of iterations of 10,000 draws at a share of .008."""
    draws = 10_000 * iterations
    low, high = wilson_interval(round(0.008 * draws), draws, confidence=0.6827)
    assert (high - low) / 2 == pytest.approx(standard_error, rel=0.015)


def test_no_trials_say_nothing():
    assert wilson_interval(0, 0) == (0, 1)
    assert clopper_pearson_interval(0, 0) == (0, 1)
    assert clopper_pearson_upper_bound(0, 0) == 1


def test_exact_bound_covers_at_least_so_often():
    share, trials = 0.008, 400
    hits = np.arange(trials + 1)
    missed = [clopper_pearson_upper_bound(int(n), trials, 0.95) < share for n in hits]
    assert stats.binom.pmf(hits, trials, share)[missed].sum() <= 0.05


def test_empirical_bernstein_is_the_printed_formula():
    values = np.array([0.0, 0.2, 0.1, 0.0])
    log_term = math.log(2 / 0.05)
    wanted = 0.075 + math.sqrt(2 * np.var(values, ddof=1) * log_term / 4) + 7 * 0.2 * log_term / (3 * 3)
    assert empirical_bernstein_upper_bound(values, 0.2, 0.95) == pytest.approx(wanted)


def test_empirical_bernstein_covers_and_beats_hoeffding_when_the_spread_is_small():
    generator = np.random.default_rng(3)
    bounds = [
        empirical_bernstein_upper_bound(generator.choice([0.01, 1.0], 2000, p=[0.995, 0.005]), 1, 0.95) for _ in range(300)
    ]
    mean = 0.01 * 0.995 + 0.005
    assert np.mean(np.array(bounds) < mean) <= 0.05
    assert np.median(bounds) < mean + math.sqrt(math.log(1 / 0.05) / (2 * 2000))


@pytest.mark.parametrize("arguments", [(-1, 3), (4, 3)])
def test_impossible_counts_are_refused(arguments):
    for bound in (wilson_interval, clopper_pearson_interval, clopper_pearson_upper_bound):
        with pytest.raises(ValueError, match="between 0 and the number"):
            bound(*arguments)


def test_impossible_confidence_and_values_are_refused():
    with pytest.raises(ValueError, match="confidence"):
        wilson_interval(1, 2, 1.0)
    with pytest.raises(ValueError, match="at least two"):
        empirical_bernstein_upper_bound(np.array([0.1]), 1)
    with pytest.raises(ValueError, match="outside"):
        empirical_bernstein_upper_bound(np.array([0.1, 1.1]), 1)
