"""Expected risk of classes whose size is partly random, against sums over every size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from deid_assets.methods.demographics.measures import LARGEST, TOTAL, UNIQUES, Measure
from deid_assets.methods.demographics.spread import ClassSizes, expected, plug_in, reciprocal_at_most

MEASURES = [TOTAL, UNIQUES, Measure("total", exponent=0.5), Measure("graduated", 5, 2.0), Measure("non-graduated", 7)]


def sizes(certain, *parts):
    rest = np.array([[people] for people, _ in parts], dtype=np.int64).reshape(len(parts), 1)
    return ClassSizes(np.array([certain]), rest, np.array([[share] for _, share in parts]).reshape(len(parts), 1))


def by_hand(certain, parts, measure):
    """Moments of the risk, over all numbers of people of all parts."""
    found = {certain: 1.0}
    for people, share in parts:
        after: dict[int, float] = {}
        for more, there in enumerate(binom.pmf(np.arange(people + 1), people, share)):
            for size, probability in found.items():
                after[size + more] = after.get(size + more, 0) + probability * there
        found = after
    risk = {size: float(measure.of(np.array([float(size)]))[0]) for size in found}
    mean = sum(p * risk[size] for size, p in found.items())
    return mean, sum(p * (risk[size] - mean) ** 2 for size, p in found.items())


class TestTwelvePeopleOverFiveAges:
    two_known_at_101 = sizes(2, (10, 1 / 5))

    def test_plug_in(self):
        assert round(float(plug_in(self.two_known_at_101, [TOTAL])[0, 0]), 4) == 0.25

    def test_exact(self):
        assert round(float(expected(self.two_known_at_101, [TOTAL])[0][0, 0]), 4) == 0.2782


shares = st.floats(1e-6, 1 - 1e-6)


@settings(deadline=None)
@given(st.integers(1, 6), st.lists(st.tuples(st.integers(0, 20), shares), max_size=3))
def test_moments_are_sums_over_all_sizes(certain, parts):
    first, variance = expected(sizes(certain, *parts), MEASURES)
    for number, measure in enumerate(MEASURES):
        mean, spread = by_hand(certain, parts, measure)
        assert first[number, 0] == pytest.approx(mean, rel=1e-9, abs=1e-14)
        assert variance[number, 0] == pytest.approx(spread, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(
    ("people", "share"), [(400_000, 0.2), (1_000_000, 1e-6), (50_000, 0.999_9), (3, 1 - 1e-11), (10**6, 1 - 1e-11)]
)
def test_large_numbers_of_people_lose_no_precision(people, share):
    # 1 / (1 + X) of a binomial number has a closed form.
    closed = -np.expm1((people + 1) * np.log1p(-share)) / ((people + 1) * share)
    first, _ = expected(sizes(1, (people, share)), [TOTAL, LARGEST])
    assert first[:, 0] == pytest.approx([closed, closed], rel=1e-11)


def test_classes_of_one_call_do_not_touch_each_other():
    rng = np.random.default_rng(3)
    rest, share = rng.integers(0, 3_000, (2, 60)), rng.uniform(0, 0.3, (2, 60))
    rest[1, ::2] = 0
    certain = rng.integers(1, 5, 60)
    together = expected(ClassSizes(certain, rest, share), MEASURES)
    for number in range(60):
        alone = expected(ClassSizes(certain[[number]], rest[:, [number]], share[:, [number]]), MEASURES)
        for ours, theirs in zip(together, alone, strict=True):
            assert ours[:, number] == pytest.approx(theirs[:, 0], rel=1e-9, abs=1e-13)


@given(st.integers(1, 9), st.lists(st.tuples(st.integers(0, 500), shares), max_size=2))
@settings(deadline=None)
def test_reciprocals_have_a_bound_in_closed_form(certain, parts):
    exact = expected(sizes(certain, *parts), [TOTAL])[0][0, 0]
    bound = reciprocal_at_most(sizes(certain, *parts))[0]
    assert exact <= bound * (1 + 1e-11)
    if certain == 1 and len(parts) <= 1:
        assert bound == pytest.approx(exact, rel=1e-10)


@given(st.integers(1, 5), st.integers(1, 60), shares)
def test_the_plug_in_is_never_larger(certain, people, share):
    measures = [TOTAL, Measure("total", exponent=2.0)]
    random = sizes(certain, (people, share))
    assert np.all(plug_in(random, measures) <= expected(random, measures)[0] * (1 + 1e-12))
