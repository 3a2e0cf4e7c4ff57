"""A lattice that is not listed: the same choice as of one that is, or the best that was found, with a bound."""

import pytest

from deid_assets.methods.lattice import large_lattice
from deid_assets.methods.lattice.information_loss import LatticeLoss
from deid_assets.methods.lattice.large_lattice import search_large_lattice
from deid_assets.methods.lattice.longitudinal_search import SearchRule, SuppressionGoal, nodes_frame, search_lattice
from deid_assets.methods.lattice.predictive_tagging import lower_neighbors
from deid_assets.methods.statistics.sequential_decision import rule_of_number
from deid_assets_tests.methods.cases import KEY
from deid_assets_tests.methods.lattice.test_longitudinal_search import computation

__all__ = ["computation"]
DRAWS = 200_000


def searches(computation, threshold, tops=(2, 2, 2), asked=(), **options):
    """The large search, and the one that lists every node."""
    loss, rule = LatticeLoss(computation.data, computation.dimensions), SearchRule(KEY, threshold, 0.001, DRAWS, **options)
    large = search_large_lattice(computation, loss, rule, tops, asked)
    return large, search_lattice(computation, loss.of_every_node(), rule)


@pytest.mark.parametrize("threshold", [0.01, 0.03, 0.1, 0.3])
def test_chooses_what_listing_every_node_chooses(computation, threshold):
    large, listed = searches(computation, threshold)
    assert not large.listed and large.chosen.node == listed.chosen.node and large.minimal == listed.minimal
    right = {result.node: result for result in listed.nodes}
    for result in large.nodes:
        assert result.decision in (right[result.node].decision, "open")
        assert result.loss == pytest.approx(right[result.node].loss, abs=1e-12)
    assert [found.node for found in large.candidates()] == [found.node for found in listed.candidates()]
    assert all(result.reached == "measured" for result in large.lower_neighbors)


def test_the_error_of_each_decision_follows_from_its_number(computation):
    large, _ = searches(computation, 0.05)
    measured = [result for result in large.nodes if result.reached == "measured"]
    assert sorted(result.number for result in measured) == list(range(1, len(measured) + 1))
    for result in measured:
        rule = rule_of_number(0.05, 0.001, result.number)
        assert rule.decide(result.flagged, result.draws) == result.decision
    frame = nodes_frame(large)
    assert frame["measured_in_order"].notna().equals(frame["reached"] == "measured")


def test_ends_with_the_best_node_found_where_the_measurements_do_not_suffice(computation, monkeypatch):
    monkeypatch.setattr(large_lattice, "MEASURED_AT_MOST", 2)
    large, listed = searches(computation, 0.05)
    right = {result.node: result.decision for result in listed.nodes}
    assert right[large.chosen.node] == "candidate" and large.chosen.loss >= listed.chosen.loss
    assert all(large.at(below).decision != "candidate" for below in lower_neighbors(large.chosen.node))


def test_nothing_above_what_keeps_enough_is_found(computation):
    large, _ = searches(computation, 0.05, tops=(2, 1, 2))
    assert all(found.node[1] <= 1 for found in large.nodes if found.reached == "measured")
    assert large.chosen.node[1] <= 1


def test_nodes_that_are_asked_for_are_measured(computation):
    large, _ = searches(computation, 0.05, asked=[(2, 2, 1)])
    assert large.at((2, 2, 1)).reached == "measured"


def test_no_more_candidates_are_found_than_enough(computation):
    large, listed = searches(computation, 0.3, enough=2)
    best = [found.node for found in listed.candidates()][:2]
    assert [found.node for found in large.candidates()][:2] == best


def test_without_a_candidate_nodes_in_reach_of_suppression_are_found(computation):
    large, listed = searches(computation, 1e-5, in_reach=0.02)
    assert large.chosen is None and listed.chosen is None
    within = {result.node for result in listed.nodes if result.lower <= 0.02}
    assert within and within <= {result.node for result in large.nodes if result.lower <= 0.02}


def test_nodes_that_need_few_suppressed_members_are_found(computation):
    allowed = SuppressionGoal(goal=0.03, at_most=0.2)
    large, listed = searches(computation, 0.03, suppression=allowed)
    found = [result for result in large.nodes if result.to_suppress is not None and result.to_suppress <= 0.2]
    right = [result for result in listed.nodes if result.to_suppress is not None and result.to_suppress <= 0.2]
    assert min(result.loss for result in found) == pytest.approx(min(result.loss for result in right))
