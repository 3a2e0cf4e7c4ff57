"""What repeats of fresh noise give away (methods#repeated-counts)."""

import numpy as np
import pytest

from deid_assets.methods.counts.estimates import chance_of_exact_average, chance_of_exact_mean
from deid_assets.methods.counts.noise import Mechanism, noise_distribution


@pytest.mark.parametrize(
    ("sd", "repeats", "rounded", "continuous"),
    [(1.33, 10, 0.705, 0.765), (2.5, 10, 0.4285, 0.473), (2.5, 20, 0.602, 0.629), (2.5, 24, 0.649, 0.673)],
)
def test_chance_that_an_average_is_exact(sd, repeats, rounded, continuous):
    assert chance_of_exact_average(repeats, sd) == pytest.approx(rounded, abs=6e-4)
    assert chance_of_exact_average(repeats, sd, rounded=False) == pytest.approx(continuous, abs=6e-4)


def test_discrete_noise_averages_out_as_fast():
    draws = np.random.default_rng(2).choice(np.arange(-24, 25), (100_000, 3), p=noise_distribution(2.5, Mechanism.DISCRETE))
    expected = (np.abs(draws.mean(axis=1)) < 0.5).mean()
    assert chance_of_exact_average(3, 2.5, mechanism=Mechanism.DISCRETE) == pytest.approx(expected, abs=0.006)


@pytest.mark.parametrize(("repeats", "expected"), [(1, 0.159), (100, 0.954)])
def test_no_number_of_repeats_is_safe(repeats, expected):
    assert chance_of_exact_average(repeats, rounded=False) == pytest.approx(expected, abs=6e-4)


def test_the_chance_is_that_of_simulated_averages():
    means = np.rint(np.random.default_rng(0).normal(0, 2.5, (200_000, 10))).mean(axis=1)
    assert chance_of_exact_average(10) == pytest.approx((np.abs(means) < 0.5).mean(), abs=0.004)


@pytest.mark.parametrize("sds", [[2.5] * 10, [2.5] + [1.6] * 9, [1.0, 2.0, 3.0, 3.0, 50.0], [0.8, 5.0], [0.8, 0.8, 0.8]])
def test_an_attacker_who_weighs_draws_of_different_widths_does_no_better(sds):
    """Weights 1 / sd^2, rounded and not: the larger share of hits of simulated attackers is the stated chance."""
    draws, widths = np.random.default_rng(4), np.array(sds)
    noise = draws.normal(0, widths, (400_000, len(sds)))
    weights = widths**-2.0 / (widths**-2.0).sum()
    hits = [(np.abs(one @ weights) < 0.5).mean() for one in (noise, np.rint(noise))]
    assert chance_of_exact_mean(sds) == pytest.approx(max(hits), abs=0.004)
    assert (np.abs(np.rint(noise).mean(axis=1)) < 0.5).mean() <= chance_of_exact_mean(sds) + 0.003


def test_the_larger_of_rounded_and_unrounded_decides():
    assert chance_of_exact_mean([2.5] * 10) == pytest.approx(0.473, abs=6e-4)
    assert chance_of_exact_mean([1.33] * 10) == pytest.approx(0.765, abs=6e-4)
    assert chance_of_exact_mean([2.5]) == pytest.approx(0.1585, abs=1e-4)
