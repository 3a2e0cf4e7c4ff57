"""Shares at high risk in larger populations: bounds that hold for every distribution of classes."""

import numpy as np
import pytest
from scipy import stats

from deid_assets.methods.statistics.population_class_size import Explained, independent_trials, size_shares

K, TIMES = 20, [1.0, 2.0, 4.0, 16.0]


def shares_in_larger(shares: np.ndarray, trials: float, times: float, confidence: float = 0.95) -> tuple[float, float]:
    found = Explained.of(shares, trials, confidence)
    return found.least(K, times), found.largest(K, times)


def test_shares_of_sizes_leave_out_draws_that_are_never_at_risk():
    shares = size_shares(np.array([0, 1, 1, 4, 5, 201, 10_000, 0]))
    assert shares[[0, 3, 12]].tolist() == [0.25, 0.25, 0.25] and shares.sum() == 0.75


@pytest.mark.parametrize("seed", range(8))
def test_the_share_of_every_mixture_is_within_the_bounds(seed):
    random = np.random.default_rng(seed)
    means = random.lognormal(random.uniform(0, 4), random.uniform(0.2, 2), 40)
    weights = random.dirichlet(np.ones(40))
    drawn = random.choice(means, 20_000, p=weights)
    shares = size_shares(1 + random.poisson(drawn))
    for time in TIMES:
        low, high = shares_in_larger(shares, 20_000, time, confidence=0.999)
        truth = float((weights * stats.poisson.cdf(K - 2, time * means)).sum())
        assert low - 1e-9 <= truth <= high + 1e-9


def test_more_people_never_raise_a_bound_and_more_trials_never_widen_the_bounds():
    shares = size_shares(1 + np.random.default_rng(1).poisson(np.random.default_rng(2).exponential(15, 5_000)))
    few, many = (np.array([shares_in_larger(shares, trials, time) for time in TIMES]).T for trials in (100, 5_000))
    for ends in (*few, *many):
        assert (np.diff(ends) <= 1e-9).all()
    assert (few[0] <= many[0] + 1e-9).all() and (many[1] <= few[1] + 1e-9).all()


@pytest.mark.parametrize("of_a_kind", [1, 5, 20])
def test_members_of_a_class_are_worth_fewer_independent_ones(of_a_kind):
    # Of 1,000 members of each half, all of a kind are in small classes, or none of them is.
    small = np.random.default_rng(3).binomial(1_000 // of_a_kind, 0.3, size=(400, 2)) * of_a_kind / 1_000
    worth = independent_trials(np.stack([small, 1 - small], axis=2), 2_000)
    assert worth == pytest.approx(2_000 / (1 + 2 * (of_a_kind - 1)), rel=0.25)


def test_classes_more_alike_than_those_of_random_people_have_wide_bounds():
    equal = size_shares(np.full(1_000_000, 19))
    (least, largest), (fewer, more) = (shares_in_larger(equal, 1_000_000, time) for time in (1.0, 1.5))
    assert least < 0.9 < largest and fewer < 0.1 < more
