"""Estimators of population uniques (methods#population-uniqueness), on populations whose uniques are known.

Tolerances: each population is sampled once with a fixed seed; an estimator is held to 15 % (about three standard errors of
its spread over seeds) on populations that follow its own model, and to a factor on others, where it has a bias.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special, stats

from deid_assets.methods.statistics.population_uniqueness import (
    Uniqueness,
    expected_singles_and_pairs,
    fit_pitman,
    fit_slide_negative_binomial,
    pitman_uniques,
    population_uniqueness,
    shlosser_3,
    zayatz,
)
from deid_assets_tests import examples


def pitman_population(theta: float, a: float, members: int, seed: int) -> np.ndarray:
    """Class sizes by the Ewens-Pitman urn: a new class with probability (theta + a u) / (theta + members so far)."""
    generator = np.random.default_rng(seed)
    sizes: list[int] = []
    label = np.empty(members, dtype=np.int64)
    uniform = iter(generator.random(8 * members))
    for placed in range(members):
        if next(uniform) * (theta + placed) < theta + a * len(sizes):
            label[placed] = len(sizes)
            sizes.append(1)
            continue
        while True:  # a class with probability in proportion to its size less a
            chosen = label[int(next(uniform) * placed)]
            if next(uniform) < (sizes[chosen] - a) / sizes[chosen]:
                break
        label[placed] = chosen
        sizes[chosen] += 1
    return np.array(sizes)


def slide_population(classes: int, a: float, b: float, seed: int) -> np.ndarray:
    return 1 + np.random.default_rng(seed).negative_binomial(a, b, classes)


def poisson_gamma_population(classes: int, shape: float, scale: float, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    sizes = generator.poisson(generator.gamma(shape, scale, classes))
    return sizes[sizes > 0]


def zipf_population(largest: int, classes: int) -> np.ndarray:
    return np.maximum(1, largest / np.arange(1, classes + 1)).astype(int)


def sampled(sizes: np.ndarray, fraction: float, seed: int = 7) -> tuple[np.ndarray, np.ndarray, int]:
    """Sizes that occur in a simple random sample, their classes, and N."""
    owner = np.repeat(np.arange(sizes.size), sizes)
    drawn = np.random.default_rng(seed).choice(owner, round(fraction * owner.size), replace=False)
    found = np.bincount(drawn, minlength=sizes.size)
    return *np.unique(found[found > 0], return_counts=True), int(sizes.sum())


class TestPitman:
    @pytest.mark.parametrize(("theta", "a"), [(200.0, 0.1), (50.0, 0.4), (20.0, 0.7)])
    @pytest.mark.parametrize("fraction", [0.05, 0.1])
    def test_it_finds_the_uniques_of_its_own_model(self, theta, a, fraction):
        population = pitman_population(theta, a, 20_000, seed=3)
        true = int((population == 1).sum())
        found = population_uniqueness(*sampled(population, fraction))
        assert found.taken == "pitman"
        # The sample's number of classes has a relative spread of about .1 at these sizes.
        assert found.rule == pytest.approx(true, rel=0.3)

    def test_it_recovers_its_parameters(self):
        i, s = np.unique(pitman_population(50.0, 0.4, 20_000, seed=5), return_counts=True)
        theta, a = fit_pitman(i.astype(float), s.astype(float))
        assert a == pytest.approx(0.4, abs=0.05) and theta == pytest.approx(50, rel=0.35)

    @given(st.lists(st.integers(1, 12), min_size=3, max_size=40))
    @settings(max_examples=examples.of(60))
    def test_no_neighbor_is_more_likely_and_the_score_equations_hold(self, classes):
        i, s = (column.astype(float) for column in np.unique(classes, return_counts=True))
        fit = fit_pitman(i, s)
        if isinstance(fit, str):
            return
        theta, a = fit
        n, u = sum(classes), len(classes)
        assert 0 < a < 1 and theta > -a

        def likelihood(theta, a):
            found = sum(np.log(theta + j * a) for j in range(1, u)) - sum(np.log(theta + j) for j in range(1, n))
            return found + sum(sum(np.log(j - a) for j in range(1, size)) for size in classes)

        best = likelihood(theta, a)
        for other_theta, other_a in ((theta * 1.02 + 1e-3, a), (theta, min(a * 1.01, 0.9999)), (theta + 0.05, a * 0.98)):
            assert likelihood(other_theta, other_a) <= best + 1e-6
        if a > 0.01 and theta + a > 0.01:  # inside, where both scores are 0
            of_theta = sum(1 / (theta + j * a) for j in range(1, u)) - sum(1 / (theta + j) for j in range(1, n))
            of_a = sum(j / (theta + j * a) for j in range(1, u))
            of_a -= sum(sum(1 / (j - a) for j in range(1, size)) for size in classes)
            assert of_theta == pytest.approx(0, abs=1e-4) and of_a == pytest.approx(0, abs=1e-2 * max(u, 10))

    @pytest.mark.parametrize(("theta", "a"), [(-0.3, 0.5), (10.0, 0.5), (100.0, 0.05)])
    def test_expected_uniques_follow_the_urn(self, theta, a):
        """E uniques of N+1 members: each stays unique unless the next joins it, and the next may be new."""
        expected = 1.0
        classes = 1.0
        for placed in range(1, 300):
            new = (theta + a * classes) / (theta + placed)
            expected += new - expected * (1 - a) / (theta + placed)
            classes += new
        assert pitman_uniques(theta, a, 300) == pytest.approx(expected, rel=1e-9)

    def test_the_printed_form_is_its_limit(self):
        printed = special.gamma(11) / special.gamma(10.4) * 2e6**0.4
        assert pitman_uniques(10.0, 0.4, 2_000_000) == pytest.approx(printed, rel=1e-4)

    @pytest.mark.parametrize("fraction", [0.01, 0.05, 0.1])
    @pytest.mark.parametrize(
        "population", [zipf_population(30_000, 8_000), np.full(400, 37), slide_population(3_000, 0.5, 0.05, 1)]
    )
    def test_the_solver_never_overflows_on_other_populations(self, population, fraction):
        with np.errstate(all="raise", under="ignore"):
            found = population_uniqueness(*sampled(population, fraction))
        assert np.isfinite(found.rule) and 0 <= found.rule <= population.sum()


class TestSlideNegativeBinomial:
    @given(st.floats(0.05, 5), st.floats(0.02, 0.9), st.floats(0.05, 0.95))
    @settings(max_examples=examples.of(50))
    def test_expected_singles_and_pairs_are_those_of_thinning(self, a, b, fraction):
        """methods#population-uniqueness: E s2 is divided by (1-d)^(a+2); some public implementations multiply."""
        unseen = np.arange(4_000)
        weight = stats.nbinom.pmf(unseen, a, b)
        thinned = [weight @ stats.binom.pmf(j, 1 + unseen, fraction) for j in (1, 2)]
        assert expected_singles_and_pairs(1.0, a, b, fraction) == pytest.approx(thinned, rel=1e-6, abs=1e-12)

    @pytest.mark.parametrize("fraction", [0.2, 0.4, 0.7])
    def test_it_finds_the_uniques_of_its_own_model(self, fraction):
        population = slide_population(6_000, 0.7, 0.08, seed=2)
        found = population_uniqueness(*sampled(population, fraction))
        assert found.slide_negative_binomial == pytest.approx((population == 1).sum(), rel=0.15)

    def test_it_gives_back_what_it_was_made_of(self):
        """Expected class counts of a known model, so that only the equations are tried."""
        unseen, fraction, number = np.arange(3_000), 0.3, 50_000
        weight = stats.nbinom.pmf(unseen, 0.7, 0.08)
        sizes = np.arange(1, 400)
        expected = np.round([number * (weight @ stats.binom.pmf(j, 1 + unseen, fraction)) for j in sizes])
        i, s = sizes[expected > 0].astype(float), expected[expected > 0]
        found = fit_slide_negative_binomial(i, s, fraction)
        assert not isinstance(found, str)
        classes, a, b = found
        assert classes * b**a == pytest.approx(number * 0.08**0.7, rel=0.1)

    @pytest.mark.parametrize("fraction", [0.2, 0.5, 0.8])
    def test_shlosser_3_counts_classes(self, fraction):
        """With the brackets of (1-q)^i ((1+q)^i - 1); without them it is far off."""
        for population in (slide_population(6_000, 0.7, 0.08, 4), zipf_population(4_000, 6_000)):
            i, s, _ = sampled(population, fraction)
            assert shlosser_3(i.astype(float), s.astype(float), fraction) == pytest.approx(population.size, rel=0.12)


class TestZayatz:
    @pytest.mark.parametrize(("fraction", "upwards"), [(0.3, 1.5), (0.6, 1.15)])
    @pytest.mark.parametrize(
        "population",
        [poisson_gamma_population(8_000, 0.5, 20, 1), zipf_population(4_000, 6_000), slide_population(6_000, 0.7, 0.08, 4)],
    )
    def test_it_is_close_where_much_is_sampled_and_errs_upwards(self, population, fraction, upwards):
        found = population_uniqueness(*sampled(population, fraction))
        assert 0.85 <= found.zayatz / (population == 1).sum() <= upwards

    def test_by_hand(self):
        """Two singles and a pair of 10 members: Hyp(1; 10, 1, 4) = .4, Hyp(1; 10, 2, 4) = 48/90."""
        chance = 2 * 0.4 / (2 * 0.4 + 48 / 90)
        assert zayatz(np.array([1.0, 2.0]), np.array([2.0, 1.0]), 10) == pytest.approx(2 * chance * 10 / 4)


class TestRule:
    def test_small_fractions_take_pitman(self):
        found = population_uniqueness(*sampled(zipf_population(4_000, 6_000), 0.1))
        assert found.taken == "pitman" and found.rule == found.pitman

    @pytest.mark.parametrize("population", [zipf_population(4_000, 6_000), poisson_gamma_population(8_000, 0.5, 20, 1)])
    def test_others_the_smaller_of_zayatz_and_the_negative_binomial(self, population):
        found = population_uniqueness(*sampled(population, 0.3))
        assert found.rule == min(found.zayatz, found.slide_negative_binomial)
        assert found.taken in ("zayatz", "slide_negative_binomial")

    @pytest.mark.parametrize(("fraction", "upwards"), [(0.05, 2.6), (0.09, 2.6), (0.3, 1.3)])
    def test_it_errs_upwards_if_it_errs(self, fraction, upwards):
        """Pitman's estimate, which rules at small fractions, is up to 2.5 times too high on populations not of its kind."""
        for population in (
            pitman_population(50.0, 0.4, 20_000, 3), zipf_population(4_000, 6_000), slide_population(6_000, 0.7, 0.08, 4),
            poisson_gamma_population(8_000, 0.5, 20, 1),
        ):  # fmt: skip
            found = population_uniqueness(*sampled(population, fraction))
            assert 0.8 <= found.rule / (population == 1).sum() <= upwards


class TestDegenerate:
    def test_without_uniques_in_the_sample_there_are_none(self):
        assert population_uniqueness([2, 5], [3, 4], 1_000) == Uniqueness(0, 0, 0, 0, "zayatz", ())

    @pytest.mark.parametrize("population", [1_000, 150])
    def test_all_unique_says_that_all_are_and_why(self, population):
        found = population_uniqueness([1], [100], population)
        assert found.zayatz == found.rule == pytest.approx(population) and found.taken == "zayatz"
        assert found.pitman is found.slide_negative_binomial is None
        assert dict(found.why_not) == {
            "pitman": "every member of the sample is unique, so that the likelihood has no maximum",
            "slide_negative_binomial": "it needs classes of one and of two members in the sample",
        }

    def test_the_whole_population_is_counted(self):
        assert population_uniqueness([1, 4], [3, 2], 11) == Uniqueness(3, 3, 3, 3, "counted", ())

    def test_one_class_has_no_pitman_fit(self):
        assert "one class" in fit_pitman(np.array([9.0]), np.array([1.0]))

    def test_one_member(self):
        assert population_uniqueness([1], [1], 50).rule == pytest.approx(50)

    @pytest.mark.parametrize(("size", "classes"), [(1, 0), (3, 4)])
    def test_a_sample_that_is_empty_or_larger_than_the_population_is_refused(self, size, classes):
        with pytest.raises(ValueError, match="sample"):
            population_uniqueness([size], [classes], 11)


def test_the_profile_is_as_good_as_a_search_in_two_dimensions():
    i, s = (column.astype(float) for column in np.unique(zipf_population(500, 900), return_counts=True))
    theta, a = fit_pitman(i, s)
    n, u = i @ s, s.sum()
    steps = np.arange(1, u)

    def against(point):
        t, d = np.exp(point[0]) - special.expit(point[1]), special.expit(point[1])
        found = np.log(t + steps * d).sum() - special.gammaln(t + n) + special.gammaln(t + 1)
        return -(found + (s * (special.gammaln(i - d) - special.gammaln(1 - d))).sum())

    found = optimize.minimize(against, [2.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-9})
    assert special.expit(found.x[1]) == pytest.approx(a, abs=1e-4)
    assert np.exp(found.x[0]) - special.expit(found.x[1]) == pytest.approx(theta, rel=1e-3)


def test_an_optimum_outside_the_model_says_so():
    """Classes of nearly equal size vary less than any a above 0 allows: the solver ends at the boundary."""
    sizes, classes = np.array([1, 2, 3, 4, 5]), np.array([5, 60, 400, 300, 40])
    found = population_uniqueness(sizes, classes, population=int(sizes @ classes) * 20)
    assert found.pitman_at_boundary and found.pitman is not None
    inside = population_uniqueness(*sampled(pitman_population(50.0, 0.4, 20_000, 3), 0.09))
    assert not inside.pitman_at_boundary and inside.pitman is not None
