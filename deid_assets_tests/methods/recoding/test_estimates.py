"""Shares by class: those of the node computation, at every node at once, and on each class's own draws."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.predictive_tagging import all_nodes
from deid_assets.methods.recoding import estimates
from deid_assets.methods.recoding.estimates import (
    ReleasedClasses,
    at_levels,
    draws_by_class,
    estimated_shares,
    searched_shares,
)
from deid_assets.methods.recoding.recoded_data import claim_level, classes_of
from deid_assets_tests.methods.cases import KEY, cases, data_of, middling_case, rich_case, short_blocks
from deid_assets_tests.methods.engines import each_engine, running_on

DRAWS = 150  # not a whole number of short blocks


def computation_of(case):
    people, demographic_domains, history_domains, dimensions, k = case
    return NodeComputation(data_of(people, demographic_domains, history_domains), dimensions, k)


def check_every_node(computation, node, executor=None):
    data, dimensions = computation.data, computation.dimensions
    group_of = np.arange(len(data.targets)) % 3
    drawn, flagged = computation.flagged_by_group(node, claim_level(dimensions), group_of, 4, KEY, DRAWS, executor)
    assert drawn.sum() == DRAWS and drawn[3] == 0
    assert flagged.shape[1:] == tuple(dimensions[axis].levels for axis in claim_level(dimensions))
    for levels in all_nodes([size - 1 for size in flagged.shape[1:]]):
        of_targets = computation.flagged_targets(at_levels(node, claim_level(dimensions), levels), KEY, DRAWS)
        expected = np.bincount(group_of, weights=of_targets.flagged, minlength=4)
        assert flagged[(slice(None), *levels)].tolist() == expected.tolist()


@given(cases(), st.data())
def test_flags_of_groups_at_every_node_are_those_of_each_node(case, data):
    dimensions = case[3]
    node = tuple(data.draw(st.integers(0, axis.levels - 1)) if axis.demographics else 0 for axis in dimensions)
    with short_blocks():
        check_every_node(computation_of(case), node)


@each_engine
@pytest.mark.parametrize("seed", range(6))
def test_flags_of_groups_in_crowded_cases_with_much_truncation(seed, name):
    case = rich_case(seed)
    with running_on(name), short_blocks():
        check_every_node(computation_of(case), tuple(0 for _ in case[3]))


def test_flags_of_groups_do_not_depend_on_the_executor():
    data, dimensions = middling_case()
    computation = NodeComputation(data, dimensions, 20)
    asked = (0, 0), (1,), np.arange(len(data.targets)) % 5, 5, KEY, 70_000
    alone = computation.flagged_by_group(*asked)
    with ThreadPoolExecutor(3) as executor:
        together = computation.flagged_by_group(*asked, executor)
    assert np.array_equal(alone[0], together[0]) and np.array_equal(alone[1], together[1])


@given(cases(), st.data())
def test_shares_of_classes_add_up_to_that_of_the_node(case, data):
    """Weighted by how often they were drawn: each class's share is of its own draws."""
    computation, dimensions = computation_of(case), case[3]
    node = tuple(data.draw(st.integers(0, axis.levels - 1)) if axis.demographics else 0 for axis in dimensions)
    codes, class_of = classes_of(computation.data, dimensions, node)
    classes = ReleasedClasses.of(class_of[computation.data.targets], len(codes))
    with short_blocks():
        shares = searched_shares(computation, node, classes, KEY, DRAWS)
        drawn = np.bincount(classes.class_of, weights=computation.flagged_targets(node, KEY, DRAWS).drawn, minlength=len(codes))
        for levels in all_nodes([size - 1 for size in shares.shape[1:]]):
            measured = computation.measure(at_levels(node, claim_level(dimensions), levels), KEY, DRAWS)
            own = shares[(slice(None), *levels)][drawn > 0] / classes.parts[drawn > 0]
            assert own @ drawn[drawn > 0] == pytest.approx(measured.flagged)
    assert np.all(shares[drawn == 0] == classes.parts[drawn == 0].reshape(-1, *(1 for _ in shares.shape[1:])))
    for axis in range(1, shares.ndim):
        assert np.all(np.diff(shares, axis=axis) <= 0)


def test_estimates_of_candidates_are_of_draws_of_the_class_alone(monkeypatch):
    monkeypatch.setattr(estimates, "ESTIMATE_DRAWS", 30_000)
    monkeypatch.setattr(estimates, "LEAST_DRAWS", 9_000)
    data, dimensions = middling_case()
    computation = NodeComputation(data, dimensions, 300)
    codes, class_of = classes_of(data, dimensions, (0, 0))
    classes = ReleasedClasses.of(class_of[data.targets], len(codes))
    keys = {number: bytes([number]) * 16 for number in range(3)}
    shares = estimated_shares(computation, (0, 0), classes, [[(0,), (1,)], [(1,)], []], keys.__getitem__)
    assert [len(of_class) for of_class in shares] == [2, 1, 0]
    assert draws_by_class(classes).tolist() == np.maximum(np.ceil(30_000 * classes.parts), 9_000).tolist()
    own = computation.keeping(classes.class_of == 0)
    expected = own.measure((0, 1), keys[0], int(draws_by_class(classes)[0])).share * classes.parts[0]
    assert shares[0][1] == pytest.approx(expected)
    # Fresh draws of all members say about the same.
    flagged = computation.flagged_targets((0, 1), KEY, 100_000)
    own_share = flagged.flagged[classes.class_of == 0].sum() / flagged.drawn[classes.class_of == 0].sum()
    assert shares[0][1] / classes.parts[0] == pytest.approx(own_share, abs=0.03)


def test_a_class_without_released_members_has_no_draws_and_no_risk():
    classes = ReleasedClasses.of(np.array([0, 0, 2]), 4)
    assert classes.released.tolist() == [0, 2]
    assert draws_by_class(classes).tolist()[1::2] == [0, 0]
    data, dimensions = middling_case()
    computation = NodeComputation(data, dimensions, 20)
    nobody = ReleasedClasses.of(np.zeros(len(data.targets), int), 2)
    assert estimated_shares(computation, (0, 0), nobody, [[], [(0,)]], lambda number: KEY)[1].tolist() == [0.0]
