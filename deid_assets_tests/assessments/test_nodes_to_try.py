"""Which nodes of a lattice are tried that the search did not decide everywhere."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from deid_assets.assessments.kernel_input import lattice_dimensions
from deid_assets.assessments.nodes_to_try import nodes_to_try, useful_dimensions
from deid_assets.methods.adversary.two_readings import Adversary
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.candidate_gates import PINNED, TOO_LITTLE
from deid_assets.methods.lattice.choice import choose_generalization
from deid_assets.methods.lattice.information_loss import LatticeLoss
from deid_assets.methods.lattice.longitudinal_search import SearchRule, nodes_frame, search_lattice
from deid_assets.methods.lattice.predictive_tagging import all_nodes, below_or_equal, node_text
from deid_assets.methods.population.longitudinal_data import (
    Dimension,
    Domain,
    Histories,
    LongitudinalData,
    generalization_at,
    top_node,
    without_coarser_levels,
)
from deid_assets.policy.loading import policy_from
from deid_assets_tests.methods.cases import KEY
from deid_assets_tests.methods.lattice.test_choice import MAX_SHARE, judge_of
from deid_assets_tests.methods.lattice.test_diagnosis import population
from deid_assets_tests.policy.policy_texts import example_policy, public_values
from deid_assets_tests.scenarios.policies import SMALL, changed

DETAIL = policy_from(public_values(risk__suppression={"at_most": 0.03, "prefer": "detail"}))
USEFUL = lattice_dimensions(DETAIL)
EVERY = all_nodes([levels - 1 for levels in DETAIL.dimension_levels])
TOP = EVERY[-1]


def searched(to_suppress: dict[tuple[int, ...], float], candidates: tuple = ()) -> pd.DataFrame:
    """The whole lattice, whose losses are sums of levels, with the shares of members that some nodes need."""
    rows = [
        (
            node_text(node),
            float(sum(node)),
            "candidate" if node in candidates else "not_candidate" if candidates else "open",
            0.0,
            to_suppress.get(node, math.nan),
        )
        for node in sorted(EVERY, key=lambda node: (sum(node), node))
    ]
    return pd.DataFrame(rows, columns=["node", "loss", "decision", "lower", "to_suppress"])


def test_a_candidate_that_loses_as_much_as_an_open_node_is_not_tried_as_it_is():
    """The open node may lie directly below, and nothing would show that the candidate is minimal."""
    rows = [("0,0", 0.1, "candidate", 0.0), ("0,1", 0.2, "open", 0.5), ("1,1", 0.2, "candidate", 0.0)]
    nodes = pd.DataFrame(rows, columns=["node", "loss", "decision", "lower"])
    policy = policy_from(SMALL)
    found = nodes_to_try(policy, nodes, lattice_dimensions(policy), {})
    assert found.as_they_are == ((0, 0),) and found.left_open == 1
    assert found.without_flagged == ((0, 0), (1, 1))


def test_if_detail_is_preferred_nodes_are_tried_that_need_no_more_suppressed_members_best_first():
    fine = next(node for node in EVERY if sum(node) == 1)
    above = [node for node in EVERY if below_or_equal(fine, node)]
    others = {node: 0.2 for node in EVERY if not below_or_equal(fine, node)}
    found = nodes_to_try(DETAIL, searched({fine: 0.03} | others), USEFUL, {})
    assert found.without_flagged == tuple(sorted(above, key=lambda node: (sum(node), node)))


def test_nor_is_one_tried_that_loses_as_much_as_one_of_which_nothing_is_known():
    """Nothing is known of the others of the same height."""
    fine = next(node for node in EVERY if sum(node) == 2)
    needs_more = {node: 0.2 for node in EVERY if sum(node) == 1}
    assert nodes_to_try(DETAIL, searched({fine: 0.01} | needs_more), USEFUL, {}).without_flagged == ()


def test_candidates_are_tried_without_some_members_whatever_they_need():
    found = nodes_to_try(DETAIL, searched(dict.fromkeys(EVERY, 0.2), (TOP,)), USEFUL, {})
    assert found.without_flagged == found.as_they_are == (TOP,)


@pytest.mark.parametrize("policy", [example_policy(), DETAIL], ids=["members", "detail"])
def test_a_pinned_node_is_tried_whatever_the_search_left_open(policy):
    pinned = EVERY[len(EVERY) // 2]
    found = nodes_to_try(policy, searched({}), USEFUL, {node: PINNED for node in EVERY if node != pinned})
    assert found.as_they_are == found.without_flagged == (pinned,)


def test_a_pinned_node_that_is_known_to_need_more_suppressed_members_is_not_tried():
    """The certificate would refuse the release, because a node above the pinned one failed."""
    pinned = EVERY[len(EVERY) // 2]
    not_again = {node: PINNED for node in EVERY if node != pinned}
    assert nodes_to_try(DETAIL, searched({TOP: 0.2}, (TOP,)), USEFUL, not_again).without_flagged == ()
    still = nodes_to_try(DETAIL, searched({pinned: 0.2}, (pinned,)), USEFUL, not_again)
    assert still.as_they_are == still.without_flagged == (pinned,)


@pytest.mark.parametrize(
    ("asked", "levels"),
    [
        ({}, (2, 2)),
        ({"detail_at_least": {"AgeAtFirstClaim": 0.3}}, (2, 2)),
        ({"detail_at_least": {"AgeAtFirstClaim": 0.31}}, (1, 2)),
        ({"detail_at_least": {"AgeAtFirstClaim": 0.31, "DaysInHospital_Y2": 0.5}}, (1, 1)),
        ({"detail_at_least": {"AgeAtFirstClaim": 0.95}}, (0, 2)),
        ({"detail_at_least": {"AgeAtFirstClaim": 0.31}, "publish_however_coarse": True}, (2, 2)),
    ],
    ids=str,
)
def test_changes_are_tried_where_every_column_keeps_enough(asked, levels):
    """Of the levels of age, what is delivered keeps .9 and 20 years .3; none is left where none keeps enough."""
    policy = policy_from(changed(SMALL, **asked))
    kept = {"AgeAtFirstClaim": np.array([0.9, 0.3]), "DaysInHospital_Y2": np.array([1.0, 0.2])}
    found = useful_dimensions(policy, lattice_dimensions(policy), kept, 600_000)
    assert tuple(dimension.levels for dimension in found) == levels


def test_a_node_at_a_level_that_says_too_little_is_not_tried():
    policy = policy_from(SMALL)
    nodes = pd.DataFrame(
        [(text, 0.1 * number, "candidate", 0.0) for number, text in enumerate(("0,0", "0,1", "1,0", "1,1"))],
        columns=["node", "loss", "decision", "lower"],
    )
    useful = [replace(dimension, levels=levels) for dimension, levels in zip(lattice_dimensions(policy), (1, 2), strict=True)]
    found = nodes_to_try(policy, nodes, useful, {})
    assert found.as_they_are == ((0, 0), (0, 1)) and found.not_tried == dict.fromkeys([(1, 0), (1, 1)], TOO_LITTLE)
    nothing = nodes_to_try(policy, nodes, [replace(dimension, levels=0) for dimension in useful], {})
    assert nothing.as_they_are == () and len(nothing.not_tried) == 4


def test_hierarchies_end_where_the_levels_of_their_dimension_end():
    data = population(unique=10)
    dimension = Dimension("common", (), (0,), 2)
    cut = without_coarser_levels(data, [replace(dimension, levels=1)])
    assert [domain.height for domain in cut.history_domains] == [0, data.history_domains[1].height]
    assert top_node([replace(dimension, levels=1)]) == (0,)
    assert generalization_at(cut, [replace(dimension, levels=1)], (0,)).histories[0] == 0
    assert without_coarser_levels(data, [dimension]).history_domains[0].sizes == data.history_domains[0].sizes


class Counted(NodeComputation):
    """A node computation that counts how often a node is measured."""

    measurements = 0

    def measure(self, *of, **options):
        Counted.measurements += 1
        return super().measure(*of, **options)

    def flagged_targets(self, *of, **options):
        Counted.measurements += 1
        return super().flagged_targets(*of, **options)

    def running_counts(self, *of, **options):
        Counted.measurements += 1
        return super().running_counts(*of, **options)


def three_histories(seed: int) -> Counted:
    """600 members with three histories, of which the first has rarer values; in hierarchies of four levels."""
    generator = np.random.default_rng(seed)
    domain = Domain((np.arange(12), np.arange(12) // 2, np.arange(12) // 4, np.zeros(12, int)))
    held = tuple(
        Histories.of([np.minimum(generator.geometric(rare, generator.integers(1, 5)) - 1, 11).tolist() for _ in range(600)])
        for rare in (0.1, 0.7, 0.7)
    )
    targets = np.arange(0, 600, 2)
    known, power = tuple(own.take(targets) for own in held), tuple(np.ones(300, int) for _ in held)
    data = LongitudinalData(np.zeros((600, 0), int), (), held, (domain,) * 3, targets, known, power)
    return Counted(data, [Dimension(name, (), (h,), 4) for h, name in enumerate("abc")], k=60)


@pytest.mark.parametrize("top", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_where_what_loses_least_says_too_little_the_choice_is_that_of_every_node_decided_with_fewer_measurements(seed, top):
    """The best candidates have the first history at its coarsest level, which is not useful."""
    computation = three_histories(seed)
    losses = LatticeLoss(computation.data, computation.dimensions).of_every_node()
    useful = [replace(dimension, levels=1 + top if dimension.name == "a" else 4) for dimension in computation.dimensions]
    policy = policy_from(changed(SMALL, risk__max_high_risk_share=MAX_SHARE, risk__suppression={"at_most": 0.05}))
    adversary = Adversary(computation.data.known[0].counts, 1, "nearest")
    judge = replace(judge_of(computation, 0.05), adversary=adversary)

    def chosen(enough: int | None, tops: tuple[int, ...] | None):
        Counted.measurements = 0
        rule = SearchRule(KEY, 0.8 * MAX_SHARE, draws_at_most=40_000, enough=enough, in_reach=MAX_SHARE + 0.05)
        nodes = nodes_frame(search_lattice(computation, losses, rule, tops=tops)).sort_values(["loss", "height", "node"])
        to_try = nodes_to_try(policy, nodes, useful, {})
        found, _, _ = choose_generalization(judge, to_try.as_they_are, to_try.without_flagged)
        return next((one.node for one in found), None), to_try, Counted.measurements

    every, of_every, _ = chosen(None, None)
    _, of_before, measured_before = chosen(2, None)
    now, of_now, measured = chosen(2, top_node(useful))
    assert now == every is not None
    assert of_now.as_they_are == of_every.as_they_are[: len(of_now.as_they_are)] != ()
    if top == 1:
        assert of_before.as_they_are == (), "so that suppression decided, although a candidate says enough"
    assert bool(of_before.as_they_are) or measured < measured_before
