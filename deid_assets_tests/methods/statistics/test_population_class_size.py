"""Estimators of the population class size: the tables of methods#class-size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from deid_assets.methods.statistics import population_class_size

fractions = st.floats(0.005, 0.995)

# Smallest f that counts as F >= 20; at alpha = .5 and .8 the Poisson form with its tolerance of .01.
MINIMA = {
    0.02: (1, 2, 3),
    0.05: (1, 2, 4),
    0.1: (2, 3, 5),
    0.15: (3, 4, 6),
    0.2: (4, 5, 7),
    0.3: (6, 7, 10),
    0.5: (10, 10, 15),
    0.8: (16, 16, 21),
}


def test_truncated_poisson_means():
    found = population_class_size.truncated_poisson_mean([1, 2, 3, 4, 5, 6])
    assert found == pytest.approx([0, 1.593624, 2.821439, 3.920690, 4.965114, 5.984901], abs=5e-7)


@given(st.integers(2, 500))
def test_truncated_poisson_mean_solves_its_equation(f):
    mean = population_class_size.truncated_poisson_mean(f)
    assert mean / -np.expm1(-mean) == pytest.approx(f)


def test_truncated_binomial_sizes():
    assert population_class_size.truncated_binomial([1, 2, 3, 4, 5, 6], 0.2).tolist() == [1, 8, 14, 19, 24, 29]


@given(st.integers(1, 30), fractions)
def test_truncated_binomial_is_the_maximum_of_its_likelihood(f, alpha):
    sizes = np.arange(f, int(f / alpha) + 50)
    likelihood = (
        special.gammaln(sizes + 1)
        - special.gammaln(sizes - f + 1)
        + sizes * np.log1p(-alpha)
        - np.log(-np.expm1(sizes * np.log1p(-alpha)))
    )
    found = int(population_class_size.truncated_binomial(f, alpha))
    assert likelihood[found - f] == pytest.approx(likelihood.max(), abs=1e-7)


@given(st.integers(1, 200))
def test_where_the_sample_is_the_population_every_estimator_gives_f(f):
    assert population_class_size.truncated_binomial(f, 1.0) == population_class_size.large_sample(f, 1.0) == f
    assert population_class_size.truncated_poisson(f, 1.0) == pytest.approx(f)
    assert population_class_size.posterior_risk(f, 1.0) == pytest.approx(1 / f)


@pytest.mark.parametrize(
    ("f", "alpha", "expected"),
    [(1, 0.1, 0.255843), (2, 0.1, 0.082684), (3, 0.1, 0.046368), (1, 0.5, 0.693147), (2, 0.5, 0.306853)],
)
def test_posterior_risks(f, alpha, expected):
    assert population_class_size.posterior_risk(f, alpha) == pytest.approx(expected, abs=5e-7)


@given(fractions)
def test_posterior_risk_has_the_closed_forms_of_small_classes(alpha):
    log = np.log(alpha)
    assert population_class_size.posterior_risk(1, alpha) == pytest.approx(-alpha * log / (1 - alpha), rel=1e-6)
    assert population_class_size.posterior_risk(2, alpha) == pytest.approx(
        alpha * (alpha * log + 1 - alpha) / (1 - alpha) ** 2, rel=1e-4
    )


@pytest.mark.parametrize(("f", "alpha"), [(1, 0.3), (4, 0.1), (25, 0.6)])
def test_posterior_risk_is_the_mean_over_the_negative_binomial(f, alpha):
    unseen = np.arange(20_000)
    expected = (stats.nbinom.pmf(unseen, f, alpha) / (f + unseen)).sum()
    assert population_class_size.posterior_risk(f, alpha) == pytest.approx(expected)


@pytest.mark.parametrize("alpha", MINIMA)
def test_minimum_class_sizes(alpha):
    estimators = ("large_sample", "truncated_poisson", "test")
    assert tuple(population_class_size.minimum_sample_class_size(alpha, estimator) for estimator in estimators) == MINIMA[alpha]


def test_without_its_tolerance_the_poisson_form_needs_one_more():
    assert 19.99 < population_class_size.truncated_poisson(10, 0.5) < 20
    assert 19.99 < population_class_size.truncated_poisson(16, 0.8) < 20


@pytest.mark.parametrize("estimator", ["large_sample", "truncated_poisson", "truncated_binomial", "posterior", "test"])
def test_where_the_sample_is_the_population_20_are_20(estimator):
    assert population_class_size.minimum_sample_class_size(1.0, estimator) == 20


@given(fractions, st.sampled_from(["large_sample", "truncated_poisson", "truncated_binomial", "posterior"]))
def test_the_minimum_is_the_first_that_counts(alpha, estimator):
    smallest = population_class_size.minimum_sample_class_size(alpha, estimator)
    slack = 0.01 if estimator == "truncated_poisson" else 1e-6
    assert population_class_size.estimated_class_size(smallest, alpha, estimator) >= 20 - slack
    assert smallest == 1 or population_class_size.estimated_class_size(smallest - 1, alpha, estimator) < 20


@given(fractions)
def test_the_test_form_bounds_the_share_of_small_classes_that_pass(alpha):
    smallest = population_class_size.minimum_sample_class_size(alpha, "test")
    size = stats.poisson(19 * alpha)
    assert size.sf(smallest - 1) / size.sf(0) <= 0.1 + 1e-12
    assert smallest == 1 or size.sf(smallest - 2) / size.sf(0) > 0.1


def test_provider_example():
    assert population_class_size.truncated_poisson([3, 4, 5], 0.2) == pytest.approx([14.1, 19.6, 24.8], abs=0.05)
    assert population_class_size.large_sample(4, 0.2) == pytest.approx(20)


def test_large_sample_lets_everything_pass_at_small_fractions():
    assert population_class_size.minimum_sample_class_size(0.05, "large_sample") == 1


def test_wrong_input_is_refused():
    for f, alpha in ((0, 0.5), (1.5, 0.5), (3, 0), (3, 1.1)):
        with pytest.raises(ValueError, match="class size|fraction"):
            population_class_size.large_sample(f, alpha)
    with pytest.raises(ValueError, match="estimator"):
        population_class_size.estimated_class_size(3, 0.5, "test")
    with pytest.raises(ValueError, match="at least 1"):
        population_class_size.minimum_sample_class_size(0.5, "large_sample", F=0)


# Share of sampled members of small classes (F < 20) who pass for members of large ones: methods#class-size.
WRONGLY_PASSED = {
    0.05: {"large_sample": 1.0, "truncated_poisson": 0.25, "test": 0.01},
    0.2: {"large_sample": 0.19, "truncated_poisson": 0.09, "test": 0.015},
}


@pytest.mark.parametrize("alpha", WRONGLY_PASSED)
def test_how_often_a_small_class_passes(alpha):
    """Classes whose sizes follow Zipf's law with exponent 1.6 (the printed shares tell it), sampled class by class.

    The tolerance is a tenth of the printed share, or the half of its last digit, and four standard errors.
    """
    generator = np.random.default_rng(20)
    sizes = generator.zipf(1.6, 1_500_000)
    small = sizes[sizes < 20]
    sampled = generator.binomial(small, alpha)
    members = sampled.sum()
    for estimator, expected in WRONGLY_PASSED[alpha].items():
        passed = sampled[sampled >= population_class_size.minimum_sample_class_size(alpha, estimator)].sum() / members
        error = 4 * np.sqrt(20 * expected * (1 - expected) / members)  # at most 19 members pass together
        assert passed == pytest.approx(expected, abs=max(0.1 * expected, 0.0015) + error), estimator


def test_the_order_of_caution_holds_at_every_fraction():
    """What passes by the test passes by the zero-truncated Poisson, and what passes there by the large sample."""
    for alpha in np.linspace(0.01, 0.99, 99):
        large, poisson, test = (
            population_class_size.minimum_sample_class_size(alpha, name)
            for name in ("large_sample", "truncated_poisson", "test")
        )
        assert large <= poisson <= test
