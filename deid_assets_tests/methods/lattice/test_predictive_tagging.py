"""OLA finds what asking every node finds, with fewer questions."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.lattice.predictive_tagging import (
    FAILS,
    OPEN,
    PASSES,
    all_nodes,
    below_or_equal,
    minimal_passing_nodes,
    sums_of_losses,
    tagged_lattice,
)
from deid_assets_tests import examples
from deid_assets_tests.methods.oracle import k_minimal_nodes, number_of_nodes


@st.composite
def monotone_questions(draw):
    """A lattice and some nodes; a node passes when it lies above one of them."""
    heights = tuple(draw(st.lists(st.integers(0, 4), min_size=1, max_size=4)))
    seeds = draw(st.lists(st.tuples(*(st.integers(0, height) for height in heights)), max_size=6))
    return heights, seeds


@given(monotone_questions())
@settings(max_examples=examples.of(500), deadline=None)
def test_equals_exhaustive_search(question):
    heights, seeds = question
    asked = []

    def passes(node):
        asked.append(node)
        return any(below_or_equal(seed, node) for seed in seeds)

    found = minimal_passing_nodes(heights, passes)
    assert len(asked) == len(set(asked)) <= number_of_nodes(heights)
    assert set(found) == k_minimal_nodes(heights, passes)
    assert found == sorted(found)


@given(monotone_questions())
@settings(max_examples=examples.of(200), deadline=None)
def test_the_answers_settle_every_node(question):
    heights, seeds = question
    answers = {}

    def passes(node):
        answers[node] = any(below_or_equal(seed, node) for seed in seeds)
        return answers[node]

    minimal_passing_nodes(heights, passes)
    for node in all_nodes(heights):
        assert any(below_or_equal(asked, node) if good else below_or_equal(node, asked) for asked, good in answers.items())


def test_tags_spare_most_questions_on_the_papers_lattice():
    asked = []

    def passes(node):
        asked.append(node)
        return sum(node) >= 8

    heights = (3, 2, 4, 3)
    found = minimal_passing_nodes(heights, passes)
    assert set(found) == {node for node in all_nodes(heights) if sum(node) == 8}
    assert len(asked) < 0.4 * number_of_nodes(heights)


def test_no_node_passes_or_all_do():
    assert minimal_passing_nodes((2, 3), lambda node: False) == []
    assert minimal_passing_nodes((2, 3), lambda node: True) == [(0, 0)]
    assert minimal_passing_nodes((), lambda node: True) == [()]


@given(
    st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=4), min_size=1, max_size=3),
    st.integers(0, 6),
    st.integers(1, 4),
)
def test_a_node_that_stays_open_comes_after_enough_that_pass_even_if_many_are_equal(steps, needed, enough):
    order = sums_of_losses([np.cumsum(own) for own in steps])
    tags = tagged_lattice(order, lambda node: sum(node) >= needed, enough)
    first = np.sort(order[tags == PASSES])[:enough]
    assert np.all(order[tags == OPEN] > first.max(initial=-1.0)) and (len(first) == enough or not np.any(tags == OPEN))


@given(monotone_questions(), st.data())
@settings(max_examples=examples.of(300), deadline=None)
def test_if_nothing_useful_is_among_the_best_that_pass_the_best_useful_ones_are_found(question, data):
    """Useful are all nodes up to a level of each dimension, as those that keep enough information."""
    heights, seeds = question
    tops = [data.draw(st.integers(0, height)) for height in heights]
    enough = data.draw(st.integers(1, 3))
    weights = [data.draw(st.integers(0, 5)) for _ in heights]
    order = sums_of_losses([weight * np.arange(height + 1) for weight, height in zip(weights, heights, strict=True)])
    asked = []

    def passes(node):
        asked.append(node)
        return any(below_or_equal(seed, node) for seed in seeds)

    useful = np.zeros(order.shape, dtype=bool)
    useful[tuple(slice(top + 1) for top in tops)] = True
    found = tagged_lattice(order, passes, enough, useful)
    assert len(asked) == len(set(asked))
    passing = np.zeros(order.shape, dtype=bool)
    for node in all_nodes(heights):
        passing[node] = any(below_or_equal(seed, node) for seed in seeds)
    assert passing[found == PASSES].all() and not passing[found == FAILS].any()
    before_the_best = order <= order[passing & useful].min(initial=np.inf)
    assert (found[useful & before_the_best] != OPEN).all(), "no useful node is open that comes before the best, or beside it"
