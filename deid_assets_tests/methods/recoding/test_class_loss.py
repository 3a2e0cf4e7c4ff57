"""Losses by class add up to the loss of a node."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.methods.lattice.information_loss import LatticeLoss
from deid_assets.methods.population.longitudinal_data import Dimension, Domain, generalization_at
from deid_assets.methods.recoding.class_loss import ClassLoss
from deid_assets.methods.recoding.recoded_data import claim_level, classes_of
from deid_assets_tests.methods.cases import cases, data_of
from deid_assets_tests.methods.oracle import Person

scales = st.sampled_from(["raw", "normalised"])


def losses_of(case, scale, member_node):
    people, demographic_domains, history_domains, dimensions, _ = case
    data = data_of(people, demographic_domains, history_domains)
    loss = LatticeLoss(data, dimensions, scale)
    classes, class_of = classes_of(data, dimensions, member_node)
    return data, loss, ClassLoss(loss, data, dimensions, member_node, class_of, len(classes)), class_of


@given(cases(), scales, st.data())
def test_equal_levels_lose_what_the_node_loses(case, scale, data):
    dimensions = case[3]
    member_node = tuple(data.draw(st.integers(0, axis.levels - 1)) if axis.demographics else 0 for axis in dimensions)
    _, loss, by_class, _ = losses_of(case, scale, member_node)
    every = by_class.of_every_node()
    axes = claim_level(dimensions)
    assert every.shape[1:] == tuple(dimensions[axis].levels for axis in axes)
    for levels in np.ndindex(every.shape[1:]):
        node = list(member_node)
        for axis, level in zip(axes, levels, strict=True):
            node[axis] = level
        assert by_class.of_members + every[(slice(None), *levels)].sum() == pytest.approx(loss(node))


@given(cases(), st.data())
def test_the_loss_of_a_class_is_that_of_its_values(case, data):
    """In bits: for each released value, the logarithm of how many more have its generalized value than have the value."""
    dimensions = case[3]
    member_node = tuple(0 for _ in dimensions)
    made, _, by_class, class_of = losses_of(case, "raw", member_node)
    every, axes = by_class.of_every_node(), claim_level(dimensions)
    levels = tuple(data.draw(st.integers(0, size - 1)) for size in every.shape[1:])
    node = list(member_node)
    for axis, level in zip(axes, levels, strict=True):
        node[axis] = level
    expected = np.zeros(len(every))
    for history, level in enumerate(generalization_at(made, dimensions, node).histories):
        values = [(class_of[row], code) for row in made.targets for code in made.held[history].take(np.array([row])).codes]
        coarser = made.history_domains[history].levels[level]
        for number, code in values:
            same = sum(other == code for _, other in values)
            expected[number] += np.log2(sum(coarser[other] == coarser[code] for _, other in values) / same)
    assert np.allclose(every[(slice(None), *levels)], expected)


@given(cases(), scales)
def test_no_loss_falls_on_the_way_up(case, scale):
    every = losses_of(case, scale, tuple(0 for _ in case[3]))[2].of_every_node()
    for axis in range(1, every.ndim):
        assert np.all(np.diff(every, axis=axis) >= -1e-12)


def test_an_attribute_with_nothing_to_lose():
    people = [Person((), ((0,),), ((0,),), (1,))]
    case = people, (), (Domain((np.arange(2), np.zeros(2, int))),), (Dimension("history", (), (0,), 2),), 1
    assert losses_of(case, "normalised", (0,))[2].of_every_node().tolist() == [[0.0, 0.0]]
