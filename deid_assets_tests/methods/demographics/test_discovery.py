"""Discovery finds what an exhaustive comparison of all policies finds."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.demographics.attributes import policy_at
from deid_assets.methods.demographics.class_sizes import ClassCounter
from deid_assets.methods.demographics.discovery import Bar, all_policies, detail_of_levels, discover, risk_and_detail
from deid_assets.methods.demographics.measures import LARGEST, TOTAL, Measure
from deid_assets.methods.demographics.risk import bounded_risks, groups_by, no_riskier, risks_and_errors, risks_at
from deid_assets_tests import examples
from deid_assets_tests.methods.demographics.printed import refines
from deid_assets_tests.methods.demographics.small_population import oracle_risks, small_cells

BARS = (
    Bar(),
    Bar((TOTAL, LARGEST, Measure("non-graduated", 3))),
    Bar((Measure("graduated", 4),), by=("geography", "state")),
    Bar((TOTAL,), confidence=0.9),
)


def exhaustively(cells, reference, bar):
    """The passing policies that no other passing policy refines, by comparing all with all."""
    demographics = cells.demographics
    counter = ClassCounter(cells, groups_by(cells, *bar.by)[0] if bar.by else None)
    groups = counter.number_of_groups
    most, error = risks_and_errors(counter.at(reference.node(demographics)), bar.measures, groups)
    passing = []
    for node in product(*(range(size) for size in demographics.shape)):
        risks, own_error = risks_and_errors(counter.at(node), bar.measures, groups)
        if bar.confidence is not None:
            risks = bounded_risks(counter.at(node), bar.measures, groups, bar.confidence).upper
        if np.all(no_riskier(risks, most, error + own_error)):
            passing.append(policy_at(node, demographics))
    return {own for own in passing if not any(other != own and refines(other, own, demographics) for other in passing)}


@settings(deadline=None, max_examples=examples.of(15))
@given(st.booleans().flatmap(small_cells), st.sampled_from(BARS), st.data())
def test_discovery_is_exhaustive_enumeration(drawn, bar, data):
    cells, _, _ = drawn
    nodes = list(all_policies(cells.demographics))
    reference = policy_at(data.draw(st.sampled_from(nodes)), cells.demographics)
    found = discover(cells, reference, bar)
    assert set(found.alternatives) == exhaustively(cells, reference, bar)
    assert found.policies == len(nodes) == int(np.prod(cells.demographics.shape))
    assert found.measured <= found.policies


@settings(deadline=None, max_examples=5)
@given(small_cells(dated=True))
def test_all_policies_are_each_combination_once(drawn):
    shape = drawn[0].demographics.shape
    assert len(shape) == 6
    assert sorted(all_policies(drawn[0].demographics)) == sorted(product(*(range(size) for size in shape)))


@settings(deadline=None, max_examples=5)
@given(small_cells())
def test_not_every_policy_is_measured(drawn):
    cells, _, _ = drawn
    reference = policy_at((1, 0, 1, 0), cells.demographics)
    for bar in (Bar(), Bar((TOTAL,), confidence=0.9)):
        found = discover(cells, reference, bar)
        assert found.measured < found.policies


@settings(deadline=None, max_examples=examples.of(10))
@given(small_cells())
def test_the_table_says_what_is_finer_and_what_is_coarser(drawn):
    cells, _, _ = drawn
    demographics = cells.demographics
    reference = policy_at((1, 0, 1, 0), demographics)
    found = discover(cells, reference)
    assert (found.table["total risk"] <= risks_at(ClassCounter(cells).at((1, 0, 1, 0)), [TOTAL], 1)[0, 0] * (1 + 1e-9)).all()
    assert found.table["detail"].is_monotonic_decreasing
    for policy, row in zip(found.alternatives, found.table.itertuples(), strict=True):
        changed = {name for name in policy.levels if policy.levels[name] != reference.levels[name]}
        told = [set(filter(None, part.split(", "))) for part in (row.finer, row.coarser, row.different)]
        assert set().union(*told) == changed and sum(map(len, told)) == len(changed)
        for name in told[0]:
            position = [own.name for own in demographics.attributes].index(name)
            own = demographics.attributes[position]
            assert own.refines[own.number_of(policy.levels[name]), own.number_of(reference.levels[name])]


@settings(deadline=None, max_examples=examples.of(10))
@given(small_cells(), st.sampled_from([TOTAL, LARGEST, Measure("graduated", 2), Measure("non-graduated", 3)]))
def test_the_frontier_of_risk_and_detail_is_that_of_enumeration(drawn, measure):
    cells, cohort, table = drawn
    found = risk_and_detail(cells, measure)
    oracle = {
        policy_at(node, cells.demographics).name: oracle_risks(cohort, table, cells.demographics, node, [measure])[0]
        for node in all_policies(cells.demographics)
    }
    risk, detail = np.array([oracle[name] for name in found["policy"]]), np.round(found["detail"].to_numpy(), 9)

    as_detailed = detail[np.newaxis] >= detail[:, np.newaxis]

    def frontier(tolerance: float) -> np.ndarray:
        """(policies,) bool: no other one is better; risks within the tolerance are equal."""
        at_most = np.asarray(no_riskier(risk[np.newaxis], risk[:, np.newaxis], tolerance))
        better = at_most & as_detailed & ~(at_most.T & as_detailed.T)
        return ~better.any(axis=1)

    # Which policies are equal is decided by the error of their own sums: nearly equal ones may be either.
    expected = frontier(0.0)
    judged = np.all([frontier(tolerance) == expected for tolerance in (1e-14, 1e-12, 1e-10)], axis=0)
    assert judged.mean() > 0.5 and np.array_equal(found["on_frontier"].to_numpy()[judged], expected[judged])


@settings(deadline=None, max_examples=examples.of(10))
@given(small_cells())
def test_detail_is_the_entropy_of_what_is_published(drawn):
    cells, cohort, _ = drawn
    for attribute, bits in zip(cells.demographics.attributes, detail_of_levels(cells), strict=True):
        for level, found in zip(attribute.levels, bits, strict=True):
            shares = np.unique(level.codes[attribute.codes_of(cohort[attribute.name])], return_counts=True)[1] / len(cohort)
            assert found == pytest.approx(-np.sum(shares * np.log2(shares)), abs=1e-12)
        for finer, coarser in np.argwhere(attribute.refines):
            assert bits[finer] >= bits[coarser] - 1e-12
