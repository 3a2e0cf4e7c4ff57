"""The lattice of a longitudinal release: decisions, optimum, certificate, next best."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from deid_assets.methods.kernel.executor import Threads
from deid_assets.methods.kernel.node_computation import NodeComputation, NodeMeasurement
from deid_assets.methods.lattice.certificate import Criterion, MeasuredNode, OptimalityCertificate, failed_antichain
from deid_assets.methods.lattice.choice import fewest_to_suppress
from deid_assets.methods.lattice.information_loss import LatticeLoss
from deid_assets.methods.lattice.longitudinal_search import LatticeSearch, SearchRule, SuppressionGoal, search_lattice
from deid_assets.methods.lattice.predictive_tagging import all_nodes, below_or_equal, lower_neighbors, sums_of_losses
from deid_assets.methods.population.longitudinal_data import Dimension, Domain, Histories, LongitudinalData
from deid_assets_tests.methods.cases import KEY


@pytest.fixture(scope="module")
def computation() -> NodeComputation:
    """1,200 members, 3 x 3 x 3 nodes, shares from nearly all to none."""
    generator = np.random.default_rng(11)
    members = 1200
    twelve = Domain((np.arange(12), np.arange(12) // 3, np.zeros(12, int)))
    codes = np.minimum(generator.geometric(0.25, (members, 3)) - 1, 11)
    histories = []
    for column in (1, 2):
        counts = generator.integers(1, 9, members)
        owner = np.repeat(np.arange(members), counts)
        values = np.where(generator.random(len(owner)) < 0.8, codes[owner, column], generator.integers(0, 12, len(owner)))
        histories.append(Histories(np.concatenate([[0], np.cumsum(counts)]), values))
    targets = np.sort(generator.choice(members, 500, replace=False))
    data = LongitudinalData(
        demographics=codes[:, :1],
        demographic_domains=(twelve,),
        held=histories,
        history_domains=(twelve, twelve),
        targets=targets,
        known=[history.take(targets) for history in histories],
        power=[generator.integers(1, 3, len(targets)) for _ in histories],
    )
    dimensions = [
        Dimension("age", (0,), (), 3),
        Dimension("diagnosis", (), (0,), 3),
        Dimension("place", (), (1,), 3),
    ]
    return NodeComputation(data, dimensions, k=10)


def searched(computation, losses, threshold, exhaustive=False, **rule) -> LatticeSearch:
    return search_lattice(computation, losses, SearchRule(KEY, threshold, **rule), exhaustive)


def search(computation, threshold=0.05, **options) -> LatticeSearch:
    losses = LatticeLoss(computation.data, computation.dimensions).of_every_node()
    return searched(computation, losses, threshold, **({"draws_at_most": 200_000} | options))


def test_tagging_finds_what_deciding_every_node_finds(computation):
    for threshold in (0.01, 0.03, 0.1, 0.3):
        tagged, exhaustive = search(computation, threshold), search(computation, threshold, exhaustive=True)
        assert all(result.reached == "measured" for result in exhaustive.nodes)
        assert {result.draws for result in exhaustive.nodes} == {exhaustive.draws_at_most}, "at full effort"
        assert {r.node: r.decision for r in tagged.nodes} == {r.node: r.decision for r in exhaustive.nodes}
        assert tagged.chosen.node == exhaustive.chosen.node
        assert tagged.minimal == exhaustive.minimal
        assert sum(result.reached == "measured" for result in tagged.nodes) < 27


def test_every_node_has_a_share_an_interval_and_a_decision(computation):
    found = search(computation)
    assert [result.node for result in found.nodes] == all_nodes([2, 2, 2])
    for result in found.nodes:
        assert result.height == sum(result.node)
        assert 0 <= result.lower <= result.upper <= 1
        if result.reached == "inferred":
            source = found.at(result.source)
            assert source.reached == "measured" and source.decision == result.decision
            pair = (result.source, result.node) if result.decision == "candidate" else (result.node, result.source)
            assert below_or_equal(*pair)
            assert result.flagged is result.draws is result.share is None
            share = computation.measure(result.node, KEY, 100_000).share
            assert result.lower - 0.01 <= share <= result.upper + 0.01, "bounds of measured nodes bound the others"
        else:
            assert result.source is None
            assert result.share == result.flagged / result.draws
            assert result.lower <= result.share <= result.upper


def test_shares_never_rise_on_the_way_up_on_the_same_draws(computation):
    shares = {node: computation.measure(node, KEY, 16384).flagged for node in all_nodes([2, 2, 2])}
    assert len(set(shares.values())) > 10
    assert all(shares[low] >= shares[high] for low in shares for high in shares if below_or_equal(low, high))


def test_the_optimum_has_its_certificate(computation):
    found = search(computation)
    best = min(
        (result for result in found.nodes if result.decision == "candidate"),
        key=lambda result: (result.loss, result.height, result.node),
    )
    assert found.chosen == best and best.reached == "measured"
    assert [result.node for result in found.lower_neighbors] == lower_neighbors(best.node)
    assert all(r.reached == "measured" and r.decision != "candidate" for r in found.lower_neighbors)
    assert found.candidates()[0] == best
    losses = [result.loss for result in found.candidates()]
    assert losses == sorted(losses)
    assert best.node in found.minimal


def test_least_loss_wins_then_least_height_then_order(computation):
    flat = searched(computation, np.ones((3, 3, 3)), 0.05, draws_at_most=200_000)
    candidates = [result.node for result in flat.nodes if result.decision == "candidate"]
    assert flat.chosen.node == min(candidates, key=lambda node: (sum(node), node))


def test_no_candidate_is_an_answer(computation):
    # The threshold lies below what even the top reaches: with k above the population everyone is at risk.
    hopeless = NodeComputation(computation.data, computation.dimensions, k=5000)
    found = search(hopeless)
    assert found.chosen is None and found.lower_neighbors == () and found.candidates() == []
    assert {result.decision for result in found.nodes} == {"not_candidate"}
    assert found.at((2, 2, 2)).share == 1


def test_undecided_at_the_cap_is_no_candidate_and_says_so(computation):
    near = computation.measure((1, 1, 1), KEY, 400_000).share
    found = search(computation, near, draws_at_most=8192)
    undecided = found.at((1, 1, 1))
    assert undecided.decision == "undecided"
    assert undecided not in found.candidates()
    for result in found.nodes:
        if result.decision == "undecided" and result.reached == "inferred":
            assert found.at(result.source).decision == "undecided"
            assert below_or_equal(result.node, result.source)


def test_workers_do_not_change_the_result(computation):
    with Threads(2) as executor:
        assert search(computation.on(executor)) == search(computation)


HEIGHTS = np.add.outer(np.arange(3), np.arange(3))


class Told:
    """A computation whose shares are told, so that they need not be monotone."""

    k = 20

    def __init__(self, shares):
        self.shares = shares
        axes = zip(*shares, strict=True)
        self.dimensions = [Dimension(f"axis {i}", (), (), max(levels) + 1) for i, levels in enumerate(axes)]

    def for_search(self):
        return self

    def running_counts(self, node, stream_key, blocks):
        return ((int(self.shares[node] * draws), 0, draws) for draws in range(10_000, (blocks + 1) * 10_000, 10_000))

    def measure(self, node, stream_key, draws):
        return NodeMeasurement(int(self.shares[node] * draws), 0, draws)


def test_a_lower_neighbor_wrongly_tagged_is_found_out_by_the_certificate():
    # (1, 0) lies below (1, 1), which fails, and passes all the same: by a wrong decision, or shares that are no shares.
    shares = dict.fromkeys(all_nodes([2, 2]), 0.5) | {(1, 0): 0.0, (2, 0): 0.0, (2, 1): 0.0, (2, 2): 0.0}
    found = searched(Told(shares), HEIGHTS, 0.1)
    assert found.chosen.node == (1, 0)
    assert [(result.node, result.decision) for result in found.lower_neighbors] == [((0, 0), "not_candidate")]


def test_a_decision_settles_the_nodes_it_implies():
    told = []
    shares = {(0,): 0.5, (1,): 0.5, (2,): 0.5, (3,): 0.0, (4,): 0.0, (5,): 0.0}
    searched(Told(shares), np.arange(6.0), 0.1, progress=lambda *what: told.append(what))
    # The coarsest passes; level 2 fails and with it 0 and 1; level 4 passes, then 3.
    assert [done for done, _, _ in told[:4]] == [1, 4, 5, 6]


def test_a_search_for_few_candidates_leaves_open_what_loses_more():
    shares = {node: 0.0 if sum(node) >= 6 else 0.5 for node in all_nodes([4, 4, 4])}
    losses = np.add.outer(np.add.outer(np.arange(5.0), 1.1 * np.arange(5)), 1.2 * np.arange(5))
    every, few = (searched(Told(shares), losses, 0.1, enough=enough) for enough in (None, 3))
    assert [found.node for found in few.candidates()[:3]] == [found.node for found in every.candidates()[:3]]
    third = few.candidates()[2].loss
    decided = {result.node: result.decision for result in every.nodes}
    left = [result for result in few.nodes if result.decision == "open"]
    assert left and all(result.loss >= third and result.reached == "not_reached" for result in left)
    assert all(result.decision in ("open", decided[result.node]) for result in few.nodes)
    measured = [sum(result.reached == "measured" for result in found.nodes) for found in (few, every)]
    assert measured[0] < measured[1]


def test_without_a_candidate_nodes_that_suppression_cannot_save_are_told_from_the_others():
    shares = {node: 0.5 / (1 + sum(node)) for node in all_nodes([3, 3])}
    losses = np.add.outer(np.arange(4.0), np.arange(4.0))
    found = searched(Told(shares), losses, 0.01, in_reach=0.1)
    assert found.chosen is None
    assert {result.node for result in found.nodes if result.lower <= 0.1} == {node for node in shares if shares[node] <= 0.1}


@pytest.mark.matrix
@pytest.mark.parametrize("exhaustive", [False, True])
@pytest.mark.parametrize(("threshold", "at_most"), [(0.01, 0.05), (0.03, 0.1), (0.03, 0.4), (0.3, 0.001)])
def test_nodes_that_need_no_more_suppressed_members_are_found_as_by_asking_every_node(
    computation, exhaustive, threshold, at_most
):
    allowed = SuppressionGoal(threshold, at_most)
    found = search(computation, threshold, suppression=allowed, exhaustive=exhaustive)
    members = len(computation.data.targets)

    def share(node) -> float:
        flags = computation.flagged_targets(node, KEY, 25 * members)
        return fewest_to_suppress(flags.drawn, flags.flagged, threshold) / members

    needed = {result.node: share(result.node) for result in found.nodes}
    told = {result.node: result.to_suppress for result in found.nodes if result.to_suppress is not None}
    assert told == {node: needed[node] for node in told} and len(told) == 27 if exhaustive else len(told) < 27
    for below, above in itertools.product(needed, repeat=2):
        assert not below_or_equal(below, above) or needed[below] >= needed[above], "tags are sound"
    for node, own in needed.items():
        implied = [one for one in told if below_or_equal(*((one, node) if told[one] <= at_most else (node, one)))]
        assert implied and all((told[one] <= at_most) == (own <= at_most) for one in implied)


def test_few_nodes_that_need_no_more_suppressed_members_are_found_by_asking_fewer(computation):
    every, few = (search(computation, 0.03, suppression=SuppressionGoal(0.03, 0.1, enough)) for enough in (None, 1))
    assert sum(result.to_suppress is not None for result in few.nodes) < sum(
        result.to_suppress is not None for result in every.nodes
    )
    best = [
        min(result.loss for result in found.nodes if result.to_suppress is not None and result.to_suppress <= 0.1)
        for found in (every, few)
    ]
    assert best[0] == best[1]


def test_progress_is_told(computation):
    told = []
    search(computation, progress=lambda done, total, text: told.append((done, total, text)))
    done = [count for count, _, _ in told]
    assert done == sorted(done) and done[-1] == 27
    assert {total for _, total, _ in told} == {27}
    assert all(text.startswith("node (") for _, _, text in told)


def test_what_was_asked_is_part_of_the_answer(computation):
    found = search(computation, error=0.01, draws_at_most=10_000)
    assert (found.k, found.threshold, found.error, found.draws_at_most) == (10, 0.05, 0.01, 16384)
    assert found.dimensions == ("age", "diagnosis", "place")


class Additive(Told):
    """Shares that fall by a factor for each level, the same in no two dimensions."""

    def __init__(self, levels):
        self.dimensions = [Dimension(f"axis {i}", (), (), size) for i, size in enumerate(levels)]

    def running_counts(self, node, stream_key, blocks):
        share = 0.9 * np.exp(-sum(level * (0.3 + 0.05 * axis) for axis, level in enumerate(node)))
        return ((round(share * draws), 0, draws) for draws in range(10_000, (blocks + 1) * 10_000, 10_000))


def test_the_certificate_of_a_large_lattice_is_small_and_holds():
    levels = (6, 4, 4, 2, 5, 3, 5, 7)
    axes = [np.cumsum(np.linspace(0, 1, size) ** (1 + axis / 8)) / size for axis, size in enumerate(levels)]
    found = searched(Additive(levels), sums_of_losses(axes), 0.008, draws_at_most=50_000, enough=10)
    measured = [node for node in found.nodes if node.reached == "measured"]
    assert len(found.nodes) == 100_800 and len(measured) < 3_000
    criterion = Criterion("sequential", 0.008, found.error / len(found.nodes), found.draws_at_most)
    told = {node.node: MeasuredNode(node.node, node.share, node.flagged, node.draws) for node in measured}
    proof = OptimalityCertificate(
        found.dimensions, tuple(size - 1 for size in levels), tuple(tuple(own.tolist()) for own in axes), 0.0, criterion,
        found.chosen.node, found.chosen.loss, failed_antichain([one for one in told.values() if criterion.fails(one)]),
        neighbors=tuple(told[node.node] for node in found.lower_neighbors),
    ).with_rest()  # fmt: skip
    assert proof.problems() == []
    assert len(proof.failed) < 1_000
    best = min(node.loss for node in found.nodes if node.decision == "candidate")
    assert found.chosen.loss == best and proof.rest_loss >= best
    assert replace(proof, failed=()).with_rest().problems()
