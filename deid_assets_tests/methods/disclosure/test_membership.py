"""Delta-presence and the advantage of guessing who is in the release, against enumeration."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.methods.disclosure.membership import membership, shortfalls

classes = st.lists(
    st.integers(1, 12).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size))), min_size=1, max_size=12
)
"""(F, f) of each class."""


@given(classes)
def test_the_advantage_is_that_of_the_best_guess(sizes):
    """Of all rules that guess by class, the best has balanced accuracy (1 + advantage) / 2."""
    F, f = (np.array(column) for column in zip(*sizes, strict=True))  # noqa: N806
    found = membership(F, f)
    n, N = f.sum(), F.sum()  # noqa: N806
    if n in (0, N):
        assert found.advantage == 0
        return
    inside, outside = f / n, (F - f) / (N - n)
    best = np.maximum(inside, outside).sum() / 2
    assert found.advantage == pytest.approx(2 * best - 1)
    by_rule = sum(max(a, b) for a, b in zip(inside, outside, strict=True)) - 1
    assert found.advantage == pytest.approx(by_rule)


@given(classes)
def test_presence_is_that_of_members(sizes):
    delta = [f / F for F, f in sizes for _ in range(F)]
    found = membership(*zip(*sizes, strict=True))
    assert (found.least, found.greatest) == (min(delta), max(delta))
    assert found.percentiles[0] <= found.percentiles[1] <= found.percentiles[2]
    below = np.mean(np.array(delta) <= found.percentiles[1])
    assert below >= 0.5 and np.mean(np.array(delta) < found.percentiles[1]) <= 0.5


def test_the_same_share_everywhere_tells_nothing():
    found = membership([100, 50, 10], [10, 5, 1])
    assert found.advantage == pytest.approx(0) and found.least == found.greatest == 0.1


def test_a_class_that_is_in_as_a_whole_tells_all_of_its_members():
    found = membership([10, 10], [10, 0])
    assert (found.advantage, found.greatest, found.least) == (1.0, 1.0, 0.0)


@pytest.mark.parametrize(("population", "released"), [([3], [4]), ([3, 3], [1]), ([3], [-1]), ([], []), ([0], [0])])
def test_wrong_classes_are_refused(population, released):
    with pytest.raises(ValueError, match="members"):
        membership(population, released)


@given(classes)
def test_drawn_members_of_the_release_give_the_same_advantage(sizes):
    """One draw of each released member: what the odds fall short of 1 by averages to the total variation."""
    F, f = (np.array(column) for column in zip(*sizes, strict=True))  # noqa: N806
    n, N = f.sum(), F.sum()  # noqa: N806
    if n in (0, N):
        return
    own = np.repeat(np.arange(F.size), f)
    assert shortfalls(f[own], F[own], n / N).mean() == pytest.approx(membership(F, f).advantage)


@pytest.mark.parametrize("alpha", [0, 1, -0.1])
def test_without_a_fraction_there_are_no_odds(alpha):
    with pytest.raises(ValueError, match="fraction"):
        shortfalls([1], [2], alpha)


def test_more_in_the_release_than_in_the_population_is_refused():
    with pytest.raises(ValueError, match="cannot fit"):
        shortfalls([3], [2], 0.5)
