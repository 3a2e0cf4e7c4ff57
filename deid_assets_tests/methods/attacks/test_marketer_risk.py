"""Marketer risk: the worked numbers of methods#marketer-risk, and the exact expectation by enumeration."""

from itertools import combinations, product
from math import comb, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.attacks import marketer_risk
from deid_assets_tests import examples

SIZES = (1, 2, 3, 4)
sizes = st.lists(st.integers(1, 6), min_size=1, max_size=4)


def sampled(population: tuple[int, ...], n: int):
    """The class sizes of every sample of n people."""
    people = [number for number, size in enumerate(population) for _ in range(size)]
    for chosen in combinations(people, n):
        yield np.bincount(chosen, minlength=len(population))


class TestExpectation:
    @pytest.mark.parametrize("n", range(1, 11))
    def test_it_is_classes_over_people_whatever_the_size_of_the_sample(self, n):
        """Enumerated with F = (1, 2, 3, 4): 0.4 for every n."""
        risks = [marketer_risk.matched_share(f, SIZES) for f in sampled(SIZES, n)]
        assert len(risks) == comb(10, n)
        assert np.mean(risks) == pytest.approx(0.4, abs=1e-12) == marketer_risk.expected_marketer_risk(SIZES)

    @settings(max_examples=examples.of(30), deadline=None)
    @given(sizes, st.data())
    def test_by_enumeration(self, population, data):
        n = data.draw(st.integers(1, sum(population)))
        if comb(sum(population), n) > 3_000:
            return
        risks = [marketer_risk.matched_share(f, population) for f in sampled(tuple(population), n)]
        assert np.mean(risks) == pytest.approx(marketer_risk.expected_marketer_risk(population), rel=1e-12)

    def test_by_simulation(self):
        """N = 4826 in 400 classes of uneven sizes: .0829."""
        random = np.random.default_rng(1)
        population = 1 + np.bincount(random.choice(400, 4426, p=_uneven(400)), minlength=400)
        classes = np.repeat(np.arange(400), population)
        risks = []
        for _ in range(400):
            f = np.bincount(random.choice(classes, 482, replace=False), minlength=400)
            risks.append(marketer_risk.matched_share(f, population))
        assert round(marketer_risk.expected_marketer_risk(population), 4) == 0.0829
        assert abs(np.mean(risks) - 400 / 4826) < 5 * np.std(risks) / 20

    def test_classes_of_nobody_do_not_count(self):
        assert marketer_risk.expected_marketer_risk([1, 2, 3, 4, 0, 0]) == 0.4


class TestPublishedFormula:
    def test_the_numbers_that_enumeration_gives(self):
        found = [round(marketer_risk.published_marketer_risk(SIZES, n), 6) for n in (1, 3, 5, 9, 10)]
        assert found == [0.1, 0.2375, 0.317063, 0.39, 0.4]

    @pytest.mark.parametrize("n", range(1, 11))
    def test_it_is_the_expected_number_of_classes_in_the_sample_over_all_people(self, n):
        in_sample = np.mean([(f > 0).sum() for f in sampled(SIZES, n)])
        assert marketer_risk.published_marketer_risk(SIZES, n) == pytest.approx(in_sample / 10, rel=1e-12)

    @settings(deadline=None)
    @given(sizes, st.data())
    def test_it_is_never_above_the_expectation(self, population, data):
        n = data.draw(st.integers(1, sum(population)))
        low = marketer_risk.published_marketer_risk(population, n)
        assert low <= marketer_risk.expected_marketer_risk(population) * (1 + 1e-12)
        if n == sum(population):
            assert low == pytest.approx(marketer_risk.expected_marketer_risk(population))

    @pytest.mark.parametrize("n", [0, 11])
    def test_a_sample_that_cannot_be_is_refused(self, n):
        with pytest.raises(ValueError, match="sample"):
            marketer_risk.published_marketer_risk(SIZES, n)


class TestEmptyProbability:
    def test_all_digits_where_log_gammas_lose_half(self):
        found = marketer_risk.log_empty_probability([20], 30_000_000, 113_000)[0]
        assert found == pytest.approx(-0.0754755923372445, rel=1e-14)

    @settings(deadline=None)
    @given(st.integers(1, 60), st.data())
    def test_it_is_hypergeometric(self, total, data):
        size, n = data.draw(st.integers(1, total)), data.draw(st.integers(1, total))
        found = marketer_risk.log_empty_probability([size], total, n)[0]
        ways = comb(total - size, n)
        assert found == pytest.approx(log(ways) - log(comb(total, n)) if ways else -np.inf, rel=1e-9, abs=1e-12)
        assert found == pytest.approx(marketer_risk.log_empty_probability([n], total, size)[0], rel=1e-9, abs=1e-12), (
            "symmetric"
        )

    def test_somebody_must_be_in_the_sample_where_the_class_is_larger_than_the_rest(self):
        assert marketer_risk.log_empty_probability([4, 3], 10, 7).tolist()[0] == -np.inf
        assert np.isfinite(marketer_risk.log_empty_probability([3], 10, 7)[0])

    def test_where_both_are_large_log_gammas_agree_with_the_sum(self):
        total, n, size = 3_000_000, 150_000, 120_000
        summed = np.log1p(-n / (total - np.arange(size))).sum()
        assert marketer_risk.log_empty_probability([size], total, n)[0] == pytest.approx(summed, rel=1e-9)

    def test_classes_of_all_sizes_at_once_are_as_one_by_one(self):
        found = marketer_risk.log_empty_probability([1, 7, 50, 90], 100, 20)
        assert found.tolist() == [marketer_risk.log_empty_probability([size], 100, 20)[0] for size in (1, 7, 50, 90)]


class TestMatchedShare:
    @given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=6))
    def test_it_is_the_direct_sum_where_the_file_holds_the_release(self, pairs):
        f, population = np.array([min(f, size) for f, size in pairs]), np.array([size for _, size in pairs])
        if f.sum():
            assert marketer_risk.matched_share(f, population) == pytest.approx((f / population).sum() / f.sum())
            assert marketer_risk.missing_records(f, population) == 0

    def test_whom_the_file_lacks_counts_as_found(self):
        assert marketer_risk.matched_share([5, 5], [100, 0]) == pytest.approx((5 / 100 + 5) / 10)
        assert marketer_risk.missing_records([5, 5], [100, 3]) == 2

    @given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=5))
    def test_more_people_in_the_file_never_look_riskier(self, pairs):
        f, population = (np.array(column) for column in zip(*pairs, strict=True))
        if f.sum():
            assert marketer_risk.matched_share(f, population + 1) <= marketer_risk.matched_share(f, population) + 1e-12

    @given(st.integers(1, 5), st.integers(1, 5))
    def test_it_bounds_what_any_one_to_one_or_repeated_guess_can_expect(self, f, people):
        """All people of the class who can be released are; guesses by every record, or one for each person."""
        true = min(f, people)
        one_to_one = true / max(f, people)
        guesses = list(product(range(people), repeat=min(f, 4))) if f <= 4 else []
        with_repeats = np.mean([sum(g == i for i, g in enumerate(guess[:true])) for guess in guesses]) if guesses else 0
        assert marketer_risk.matched_share([f], [people]) * f >= max(one_to_one, with_repeats) - 1e-12

    def test_nothing_released_has_no_share(self):
        with pytest.raises(ValueError, match="no released records"):
            marketer_risk.matched_share([0], [5])


@pytest.mark.parametrize(
    ("f", "population", "message"),
    [([1, 2], [1], "need one shape"), ([-1], [2], "a negative number"), ([1], [-2], "a negative number")],
)
def test_shapes_and_signs(f, population, message):
    with pytest.raises(ValueError, match=message):
        marketer_risk.matched_share(f, population)


def test_an_empty_file_has_no_risk_to_tell():
    with pytest.raises(ValueError, match="empty"):
        marketer_risk.expected_marketer_risk([0, 0])


def _uneven(classes: int) -> np.ndarray:
    weights = 1 / np.arange(1, classes + 1)
    return weights / weights.sum()
