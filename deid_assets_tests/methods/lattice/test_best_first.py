"""Search in the order of loss against looking at every node of random lattices."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.methods.lattice.predictive_tagging import (
    FAILS,
    OPEN,
    PASSES,
    NodesByLoss,
    SparseTagging,
    all_nodes,
    below_or_equal,
    best_passing_nodes,
    sum_of_losses,
)


@st.composite
def lattices(draw):
    """Losses of levels, and the lowest nodes that pass a monotone test."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    losses = [
        np.cumsum([0.0, *draw(st.lists(st.integers(0, 4), min_size=levels - 1, max_size=levels - 1))]) for levels in shape
    ]
    marks = draw(st.lists(st.tuples(*(st.integers(0, levels - 1) for levels in shape)), max_size=4))
    return losses, marks


def passes(node, marks):
    return any(below_or_equal(mark, node) for mark in marks)


def in_order(losses):
    nodes = all_nodes([len(own) - 1 for own in losses])
    return sorted(nodes, key=lambda node: (sum_of_losses(losses, node), sum(node), node))


@given(lattices(), st.integers(1, 30))
def test_finds_the_passing_nodes_of_least_loss(lattice, enough):
    losses, marks = lattice
    asked = []

    def test(node):
        asked.append(node)
        return passes(node, marks)

    found, tagging = best_passing_nodes(losses, test, enough, 10_000)
    assert found == [node for node in in_order(losses) if passes(node, marks)][:enough]
    assert len(set(asked)) == len(asked) == tagging.tests
    for node in in_order(losses):
        assert tagging.tag(node) in (OPEN, PASSES if passes(node, marks) else FAILS)


@given(lattices(), st.integers(1, 3))
def test_ends_with_a_node_that_passes_where_the_tests_do_not_suffice(lattice, tests):
    losses, marks = lattice
    found, tagging = best_passing_nodes(losses, lambda node: passes(node, marks), 1, tests)
    right = [node for node in in_order(losses) if passes(node, marks)]
    assert len(found) == min(1, len(right)) and all(passes(node, marks) for node in found)
    # Whatever was not evaluated loses no less than the first that is not known to fail.
    if right:
        least = next(loss for loss, _ in NodesByLoss(losses, tagging.failed_above))
        assert least <= sum_of_losses(losses, right[0]) <= sum_of_losses(losses, found[0])


@given(lattices(), st.integers(0, 40))
def test_nodes_come_in_the_order_of_loss_without_those_below_a_failed_one(lattice, steps):
    losses, failed = lattice

    def above(node):
        return next((upper for upper in failed if below_or_equal(node, upper)), None)

    right = [node for node in in_order(losses) if above(node) is None]
    assert [node for _, node in NodesByLoss(losses, above)] == right
    nodes = NodesByLoss(losses, above, steps_at_most=steps)
    found = [node for _, node in nodes]
    assert found == right[: len(found)]
    if left := right[len(found) :]:
        assert nodes.least_left is not None and nodes.least_left <= sum_of_losses(losses, left[0])


@given(lattices(), lattices())
def test_nodes_above_what_is_left_out_are_left_out(lattice, other):
    losses, failed = lattice
    useless = [mark for mark in other[1] if len(mark) == len(losses)]
    left_out = np.array(useless, dtype=np.int16).reshape(-1, len(losses))
    nodes = NodesByLoss(losses, lambda node: next((up for up in failed if below_or_equal(node, up)), None), left_out)
    assert [node for _, node in nodes] == [
        node
        for node in in_order(losses)
        if not any(below_or_equal(node, up) for up in failed) and not any(below_or_equal(low, node) for low in useless)
    ]


def test_a_lattice_of_fourteen_thousand_million_nodes_is_searched_by_few_tests():
    """Eight columns of five levels and twelve of three: what decides are four of them."""
    losses = [np.arange(5) / 4] * 8 + [np.arange(3) / 2] * 12
    found, tagging = best_passing_nodes(losses, lambda node: node[0] >= 2 and node[5] >= 1 and sum(node[8:10]) >= 3, 1, 500)
    assert found == [tuple({0: 2, 5: 1, 8: 1, 9: 2}.get(place, 0) for place in range(20))]
    assert tagging.tests < 200


def test_the_coarsest_node_is_tested_first():
    asked = []
    tagging = SparseTagging([3, 2], sum, lambda node: asked.append(node) or False)
    assert asked == [(2, 1)] and all(tagging.tag(node) == FAILS for node in itertools.product(range(3), range(2)))
