"""Nodes that are ruled out by a coarser one, which fails as every finer one does: brute force on small lattices."""

import hashlib
import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest

from deid_assets.methods.adversary.two_readings import Adversary
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice import choice
from deid_assets.methods.lattice.candidate_gates import ATTACK, COARSER, DEMOGRAPHICS, FACTOR, Absence, OtherGates
from deid_assets.methods.lattice.predictive_tagging import below_or_equal
from deid_assets_tests.methods.cases import data_of, flat, rich_case, short_blocks

CASES = 24


@dataclass
class Case:
    """A small lattice with what is demanded of a node, drawn at random, and every node in the order of some losses."""

    seed: int

    def __post_init__(self):
        people, demographics, histories, dimensions, k = rich_case(self.seed)
        if not demographics:
            people, demographics = [replace(person, demographics=(0,)) for person in people], (flat(1),)
        generator = np.random.default_rng(self.seed)
        whole = data_of(people, demographics, histories)
        extract = bool(generator.random() < 0.2)
        data = whole.released_only() if extract else whole
        self.computation = NodeComputation(data, dimensions, 1 + k // 2, extract=extract)
        losses = [np.cumsum(generator.random(dimension.levels)) for dimension in dimensions]
        every = itertools.product(*(range(dimension.levels) for dimension in dimensions))
        self.nodes = sorted(every, key=lambda node: sum(own[level] for own, level in zip(losses, node, strict=True)))
        released = len(data.targets)
        self.adversary = Adversary(np.full(released, 2), 2, "nearest")
        self.share, self.suppressed = generator.choice([0.1, 0.3, 0.6]), generator.choice([0.2, 0.4, 0.6])
        self.worst = generator.choice([None, 0.05, 0.6])
        eligible, before = generator.random(len(people)) < 0.9, generator.random(len(people)) < 0.05
        factor = float(generator.choice([1.25, 3.0, 20.0]))
        self.gates = OtherGates(
            data, dimensions, whole.demographics, whole.targets, int(generator.integers(1, 4)),
            float(generator.choice([0.1, 0.6])), float(generator.choice([0.2, 0.5, 1.0])), 200, None, b"gates of a case ",
            absence=Absence(factor, eligible, before) if generator.random() < 0.5 else None,
        )  # fmt: skip

    def key(self, name: str) -> bytes:
        return hashlib.sha256(f"{name} of {self.seed}".encode()).digest()[:16]

    def chosen(self):
        found, passed_over, worst = self.holding(self.nodes)
        return next(iter(found), None), passed_over, worst

    def holding(self, nodes, most: int = 1, candidates=(), prefer_detail: bool = False):
        return choice.choose_generalization(self.judge, candidates, nodes, prefer_detail, most)

    @property
    def judge(self) -> choice.Judge:
        demands = choice.Demands(self.share, 512, 0.9, self.suppressed, 0.95, self.worst)
        return choice.Judge(self.computation, self.adversary, self.key, demands, self.gates)

    def failing_however_suppressed(self, node) -> choice.Failed | None:
        gate = self.gates.failing_however_suppressed(node, self.suppressed, and_below=True)
        return choice.Failed(gate) if gate else choice._failing_however_suppressed(self.judge, node)


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    for name, draws in (("PROSPECT_DRAWS", 128), ("QUICK_DRAWS", 256)):
        monkeypatch.setattr(choice, name, draws)
    monkeypatch.setattr("deid_assets.methods.attacks.worst_classes.PILOT_DRAWS", 128)
    monkeypatch.setattr("deid_assets.methods.attacks.worst_classes.FEWEST_DRAWS", 128)
    monkeypatch.setattr("deid_assets.methods.attacks.worst_classes.MOST_DRAWS", 512)
    with short_blocks():
        yield


@pytest.mark.matrix
def test_the_same_node_is_chosen_as_without_ruling_out(monkeypatch):
    """The node, and whoever is suppressed; what is ruled out unseen would have failed by itself."""
    chosen, seen, looked_at = 0, 0, []
    honest = OtherGates.failing_however_suppressed

    def counted(gates, node, share, and_below=False):
        looked_at.extend([1] * and_below)
        return honest(gates, node, share, and_below)

    for seed in range(CASES):
        case = Case(seed)
        with monkeypatch.context() as patch:
            patch.setattr(OtherGates, "failing_however_suppressed", counted)
            found, passed_over, _ = case.chosen()
        with monkeypatch.context() as patch:
            patch.setattr(choice._RuledOut, "why", lambda self, node: self._failing(node))
            by_hand, all_passed_over, _ = case.chosen()
        assert (found and found.node) == (by_hand and by_hand.node)
        assert list(passed_over) == list(all_passed_over), "the nodes before it"
        assert found is None or np.array_equal(found.suppressed, by_hand.suppressed)
        chosen += found is not None
        seen += len(passed_over) + (found is not None)
    assert CASES / 5 <= chosen < CASES and len(looked_at) < 0.8 * seen, "something is chosen, and something is ruled out"


MOST = 3


def lenient_case(seed: int) -> Case:
    """A case in which some nodes hold and some do not: only the average is limited, by the median of all nodes."""
    case = Case(seed)
    shares = [case.computation.measure(node, case.key("of the limit"), 512).share for node in case.nodes]
    case.gates, case.worst, case.share, case.suppressed = None, None, float(np.median(shares)) + 0.02, 0.05
    return case


@pytest.mark.parametrize("way", ["suppressing", "as they are", "preferring detail"])
def test_several_are_found_as_by_trying_each_alone(way):
    """In the order of their loss, none coarser than another, until there are enough."""
    several = skipped = 0
    for seed in range(CASES):
        case = lenient_case(seed)
        tries = {
            "suppressing": lambda nodes: {"nodes": nodes},
            "as they are": lambda nodes: {"nodes": [], "candidates": nodes},
            "preferring detail": lambda nodes: {"nodes": nodes, "candidates": nodes, "prefer_detail": True},
        }[way]
        alone = {node: found[0] for node in case.nodes if (found := case.holding(**tries([node]))[0])}
        expected, coarser = [], set()
        for node in case.nodes:
            if any(below_or_equal(one, node) for one in expected):
                coarser.add(node)
            elif node in alone:
                expected.append(node)
            if len(expected) == MOST:
                break
        found, passed_over, _ = case.holding(most=MOST, **tries(case.nodes))
        assert [one.node for one in found] == expected, seed
        assert all(np.array_equal(one.suppressed, alone[one.node].suppressed) for one in found)
        assert {node for node, gate in passed_over.items() if gate == COARSER} == coarser
        several += len(found) > 1
        skipped += len(coarser)
    assert several >= 2 and skipped > 3


def test_one_that_holds_with_everybody_is_not_compared_with_one_that_holds_without_some():
    seen = 0
    for seed in range(CASES):
        case = lenient_case(seed)
        with_everybody, _, _ = case.holding([], most=9, candidates=case.nodes)
        both, _, _ = case.holding(case.nodes, most=9, candidates=case.nodes)
        if with_everybody:
            seen += 1
            assert [one.node for one in both] == [one.node for one in with_everybody]
    assert seen > 3


def test_only_so_many_further_nodes_are_tried(monkeypatch):
    monkeypatch.setattr(choice, "FURTHER_TRIES", 0)
    for seed in range(CASES):
        case = lenient_case(seed)
        assert len(case.holding(case.nodes, most=9)[0]) <= 1


def test_what_fails_however_suppressed_fails_at_every_finer_node():
    """Whichever gate it is."""
    gates = dict.fromkeys((choice.HIGH_RISK, choice.WORST_CLASS, DEMOGRAPHICS, FACTOR, ATTACK), 0)
    for seed in range(2 * CASES):
        case = Case(seed)
        failing = {node: case.failing_however_suppressed(node) for node in case.nodes}
        for upper, failed in failing.items():
            if failed:
                gates[failed.gate] += 1
                assert all(failing[node] for node in case.nodes if below_or_equal(node, upper)), (seed, upper, failed)
    assert min(gates.values()) > 0, gates


def test_what_fails_however_suppressed_is_not_saved_by_suppression(monkeypatch):
    """The first round of suppression draws the same, and asks for at least as many members."""
    seen = 0
    for seed in range(CASES):
        case = Case(seed)
        for node in case.nodes:
            # What few draws of another stream say is no proof, so the same stream is asked.
            asking = replace(case.judge, keys=lambda name, case=case: case.key("suppression 0"))
            failed = choice._failing_however_suppressed(asking, node)
            if failed is None:
                continue
            seen += 1
            found = choice.suppress_flagged(case.judge, node)
            assert isinstance(found, choice.Failed), (seed, node)
    assert seen >= CASES
