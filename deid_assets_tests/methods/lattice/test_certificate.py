"""The proof of optimality against exhaustive search on random lattices, and against whoever forges it."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.lattice import certificate, predictive_tagging
from deid_assets.methods.lattice.candidate_gates import COARSER, COMPARED_AT_MOST, KEEPS_NO_MORE, TOO_LITTLE
from deid_assets.methods.lattice.certificate import (
    Criterion,
    MeasuredNode,
    OptimalityCertificate,
    failed_antichain,
    no_better_nodes,
)
from deid_assets.methods.lattice.predictive_tagging import (
    all_nodes,
    below_or_equal,
    lower_neighbors,
    minimal_passing_nodes,
)
from deid_assets.methods.statistics.sequential_decision import SequentialRule
from deid_assets_tests import examples

THRESHOLD, RECORDS = 0.2, 1000


@st.composite
def lattices(draw):
    """Heights, losses of levels, and a share of each node that never rises on the way up; some node passes."""
    heights = tuple(draw(st.lists(st.integers(0, 3), min_size=1, max_size=4)))
    steps = [draw(st.lists(st.integers(0, 5), min_size=height, max_size=height)) for height in heights]
    losses = tuple(tuple(float(loss) for loss in itertools.accumulate(own, initial=0)) for own in steps)
    marks = draw(st.lists(st.tuples(*(st.integers(0, height) for height in heights)), min_size=1, max_size=4))
    passing = [node for node in all_nodes(heights) if any(below_or_equal(mark, node) for mark in marks)]
    below = {node: 100 if node in passing else 900 - sum(node) for node in all_nodes(heights)}
    return heights, losses, below


def proof_of(heights, losses, below, **changes):
    """The certificate of the best node, as found by looking at all."""
    measured = {node: MeasuredNode(node, count / RECORDS, count, RECORDS) for node, count in below.items()}
    criterion = Criterion("counted", THRESHOLD)
    loss = {node: sum(own[level] for own, level in zip(losses, node, strict=True)) for node in below}
    passing = [node for node in below if not criterion.fails(measured[node])]
    chosen = min(passing, key=lambda node: (loss[node], sum(node), node))
    fields = {
        "dimensions": tuple(f"axis {place}" for place in range(len(heights))),
        "heights": heights,
        "losses": losses,
        "step": 0.0,
        "criterion": criterion,
        "chosen": chosen,
        "chosen_loss": loss[chosen],
        "failed": failed_antichain([found for found in measured.values() if criterion.fails(found)]),
        "neighbors": tuple(measured[node] for node in lower_neighbors(chosen)),
    }
    return OptimalityCertificate(**fields | changes).with_rest(), loss, passing


class TestItHolds:
    @settings(max_examples=examples.of(300), deadline=None)
    @given(lattices())
    def test_for_the_best_node_and_for_no_other(self, lattice):
        heights, losses, below = lattice
        proof, loss, passing = proof_of(*lattice)
        assert proof.problems() == []
        for node in below:
            forged = replace(
                proof,
                chosen=node,
                chosen_loss=loss[node],
                neighbors=tuple(MeasuredNode(own, below[own] / RECORDS, below[own], RECORDS) for own in lower_neighbors(node)),
            ).with_rest()
            best = node in passing and loss[node] == proof.chosen_loss
            minimal = not any(own in passing for own in lower_neighbors(node))
            assert (forged.problems() == []) == (best and minimal)

    @settings(max_examples=examples.of(200), deadline=None)
    @given(lattices(), st.sampled_from([0.001, 0.05, 0.3]), st.booleans())
    def test_when_rounded_as_well(self, lattice, step, hide_counts):
        proof, *_ = proof_of(*lattice)
        public = proof.rounded(step, hide_counts)
        assert public.problems() == []
        told = [measured.flagged for measured in (*public.failed, *public.neighbors)]
        assert not hide_counts or told == [None] * len(told)

    @settings(max_examples=examples.of(200), deadline=None)
    @given(lattices())
    def test_what_is_left_is_the_best_that_was_never_evaluated(self, lattice):
        proof, loss, passing = proof_of(*lattice)
        others = [loss[node] for node in passing if node != proof.chosen]
        assert proof.rest_loss == (min(others) if others else None)

    @settings(max_examples=examples.of(200), deadline=None)
    @given(lattices())
    def test_where_only_classes_tell_the_loss(self, lattice):
        heights, losses, below = lattice
        additive, loss, passing = proof_of(*lattice)
        minimal = minimal_passing_nodes(heights, lambda node: node in passing)
        best = min(minimal, key=lambda node: (loss[node], sum(node), node))
        proof = replace(
            additive, losses=None, chosen=best, chosen_loss=loss[best],
            no_better=tuple((node, loss[node]) for node in minimal),
            neighbors=tuple(MeasuredNode(own, below[own] / RECORDS, below[own], RECORDS) for own in lower_neighbors(best)),
        ).with_rest()  # fmt: skip
        assert proof.problems() == []
        assert proof.rounded(0.001, hide_counts=True).problems() == []
        if len(minimal) > 1:
            lost = next(found for found in proof.no_better if found[0] != best)
            missing = replace(proof, no_better=tuple(found for found in proof.no_better if found != lost))
            assert missing.problems()

    @settings(max_examples=examples.of(200), deadline=None)
    @given(lattices())
    def test_by_nodes_that_lose_no_less_though_they_fail(self, lattice):
        """What fails and loses too much rules out all above it; only failed nodes that would be better are needed."""
        heights, losses, below = lattice
        additive, loss, passing = proof_of(*lattice)
        best = additive.chosen
        cheap = [found for found in additive.failed if loss[found.node] < loss[best]]
        cheap += [MeasuredNode(node, below[node] / RECORDS, below[node], RECORDS) for node in below
                  if node not in passing and loss[node] < loss[best]]  # fmt: skip
        proof = replace(
            additive, losses=None, failed=failed_antichain(cheap), no_better=no_better_nodes(loss, best)
        ).with_rest()
        assert proof.problems() == []
        assert proof.rounded(0.001, hide_counts=True).problems() == []
        for node, measured in proof.no_better:
            if node != best and measured < loss[tuple(heights)]:
                others = tuple(found for found in proof.no_better if found[0] != node)
                covered = any(below_or_equal(other, node) for other, _ in others)
                assert covered or replace(proof, no_better=others).problems()
        for better in (found for found in proof.failed if loss[found.node] < loss[best]):
            assert replace(proof, failed=tuple(found for found in proof.failed if found != better)).problems()


SMALL = ((1, 2), ((0.0, 5.0), (0.0, 2.0, 4.0)))


@pytest.fixture
def proof():
    """A lattice in which (1, 0) fails and (0, 2) is the best."""
    below = {(0, 0): 900, (0, 1): 800, (1, 0): 700, (0, 2): 100, (1, 1): 100, (1, 2): 100}
    return proof_of(*SMALL, below)[0]


class TestItFails:
    def test_without_a_failed_node(self, proof):
        kept = tuple(found for found in proof.failed if found.node != (0, 1))
        assert replace(proof, failed=kept).problems() == [
            "a node that loses less than the chosen one is neither ruled out nor passed over: 0,1"
        ]

    def test_unless_that_was_passed_over(self, proof):
        kept = tuple(found for found in proof.failed if found.node != (0, 1))
        assert replace(proof, failed=kept, passed_over={(0, 1): "demographic classes"}).problems() == []

    def test_where_a_failed_node_did_not_fail(self, proof):
        lenient = replace(proof.failed[0], flagged=200, share=0.2)
        assert replace(proof, failed=(lenient, *proof.failed[1:])).problems()

    def test_where_the_chosen_node_lies_below_a_failed_one(self, proof):
        above = MeasuredNode((1, 2), 0.9, 900, RECORDS)
        assert "the chosen node lies below a node that failed" in replace(proof, failed=(*proof.failed, above)).problems()

    def test_where_a_share_is_not_that_of_its_counts(self, proof):
        odd = replace(proof.failed[0], share=0.77)
        assert "the share of a node is not that of its counts" in str(
            replace(proof, failed=(odd, *proof.failed[1:])).problems()
        )

    def test_where_a_search_stopped_before_it_knew(self):
        """Neither may a node be undecided before the last draw, nor may a share of 0 be above a threshold of 0."""
        early = (MeasuredNode((0,), 0.0, 0, 1),)
        stopped = OptimalityCertificate(
            ("age",), (1,), ((0.0, 1.0),), 0.0, Criterion("sequential", 0.008, 1e-5, 10_000), (1,), 1.0, early, neighbors=early
        )
        assert "the measured share of a node does not fail: 0" in stopped.problems()
        nothing = (MeasuredNode((0,), 0.0),)
        counted = replace(stopped, criterion=Criterion("counted", 0.0), failed=nothing, neighbors=nothing, step=0.001)
        assert "the measured share of a node does not fail: 0" in counted.problems()

    @pytest.mark.parametrize(
        "changes",
        [
            {"neighbors": (MeasuredNode((0, 1), 0.8, 800, RECORDS),) * 2},
            {"neighbors": (MeasuredNode((0, 1), 0.1, 100, RECORDS),)},
            {"chosen_loss": 3.9},
            {"chosen": (0, 3)},
            {"heights": (1,)},
            {"heights": (1, 3)},
            {"losses": ((0.0, 5.0), (0.0, 4.0, 2.0))},
            {"losses": ((0.0, 5.0),)},
            {"rest_loss": 4.5},
            {"rest_loss": None},
        ],
    )  # fmt: skip
    def test_where_it_does_not_fit_together(self, proof, changes):
        assert proof.problems() == []
        assert replace(proof, **changes).problems()

    def test_where_nothing_rules_out_a_node_directly_below(self, proof):
        """A neighbor that was not measured must lie below a failed node, even if it loses as much as the chosen one."""
        equal = replace(proof, losses=((0.0, 5.0), (0.0, 4.0, 4.0)), neighbors=(), rest_loss=5.0)
        without = replace(equal, failed=tuple(found for found in proof.failed if found.node[0] == 1)).with_rest()
        assert any(text.startswith("nothing rules out a node directly below") for text in without.problems())

    def test_where_the_lattice_would_fill_the_memory(self, proof):
        vast = replace(proof, dimensions=("a", "b"), heights=(2**24, 1))
        assert vast.problems() == ["a node does not lie in the lattice"]
        assert replace(vast, losses=None).problems() == ["of a lattice that is too large to list, each level needs its loss"]


class TestOfALatticeThatIsNotListed:
    @pytest.fixture(autouse=True)
    def _nothing_is_listed(self, monkeypatch):
        monkeypatch.setattr(certificate, "LISTED_AT_MOST", 0)

    @given(lattices(), st.data())
    def test_bounds_what_was_never_evaluated(self, lattice, data):
        heights, losses, below = lattice
        proof = proof_of(*lattice)[0]
        assert proof.problems() == [] and proof.gap == 0, "every failed node is named: it is a proof"
        named = data.draw(st.lists(st.sampled_from(proof.failed), unique=True)) if proof.failed else []
        fewer = replace(proof, failed=tuple(named)).with_rest()
        assert fewer.problems() == []
        left = [
            sum(own[level] for own, level in zip(losses, node, strict=True))
            for node in below
            if node != proof.chosen and not any(below_or_equal(node, failed.node) for failed in named)
        ]
        assert fewer.rest_loss == min(left, default=None)
        assert fewer.gap == max(0.0, proof.chosen_loss - min(left, default=proof.chosen_loss))

    @given(lattices())
    def test_a_bound_that_says_more_than_is_known_is_a_problem(self, lattice):
        proof = replace(proof_of(*lattice)[0], failed=()).with_rest()
        assert proof.problems() == []
        told = -1.0 if proof.rest_loss is None else proof.rest_loss + 0.5
        assert "never evaluated is not as stated" in " ".join(replace(proof, rest_loss=told).problems())

    def test_what_keeps_too_little_is_left_out_with_all_above(self):
        losses = ((0.0, 1.0, 2.0), (0.0, 3.0, 9.0))
        proof = OptimalityCertificate(
            ("a", "b"), (2, 2), losses, 0.0, Criterion("counted", THRESHOLD), (0, 1), 3.0,
            (MeasuredNode((0, 0), 0.9, 900, RECORDS),),
        )  # fmt: skip
        assert proof.with_rest().rest_loss == 1.0
        useless = replace(proof, passed_over={(1, 0): TOO_LITTLE}).with_rest()
        assert useless.rest_loss == 9.0 and useless.gap == 0 and useless.problems() == []

    @pytest.mark.parametrize(
        ("node", "said"),
        [
            ((0, 0), "not one column by itself keeps too little"),
            ((1, 1), "not one column by itself keeps too little"),
            ((0, 1), "a node that keeps too little was tried, or chosen: 1,1"),
        ],
    )
    def test_what_keeps_too_little_hides_neither_the_chosen_node_nor_the_lattice(self, node, said):
        losses = ((0.0, 1.0, 2.0), (0.0, 3.0, 9.0))
        criterion = Criterion("counted", THRESHOLD)
        proof = OptimalityCertificate(
            ("a", "b"), (2, 2), losses, 0.0, criterion, (1, 1), 4.0, (), passed_over={node: TOO_LITTLE}
        )
        assert any(text.startswith(said) for text in proof.with_rest().problems())

    @given(lattices(), st.sampled_from([0.001, 0.05, 0.2]), st.data())
    def test_the_rounded_bound_is_true_of_the_exact_losses(self, lattice, step, data):
        proof, loss, _ = proof_of(*lattice)
        named = data.draw(st.lists(st.sampled_from(proof.failed), unique=True)) if proof.failed else []
        fewer = replace(proof, failed=tuple(named)).with_rest()
        public = fewer.rounded(step, hide_counts=True)
        assert public.problems() == []
        assert fewer.gap / fewer.largest_loss <= public.gap + public.tolerance + 1e-9

    def test_losses_are_parts_of_the_largest(self):
        losses = ((0.0, 0.3), (0.0, 0.7))
        public = OptimalityCertificate(
            ("a", "b"), (1, 1), losses, 0.01, Criterion("counted", THRESHOLD), (1, 1), 1.0, ()
        ).with_rest()
        assert public.problems() == [] and public.says_nothing
        scaled = replace(public, losses=((0.0, 0.003), (0.0, 0.007)), chosen_loss=0.01).with_rest()
        assert scaled.problems() == ["losses are not stated as parts of the largest"]

    def test_a_node_directly_below_that_loses_as_much_has_to_be_ruled_out(self):
        proof = OptimalityCertificate(
            ("a", "b"), (1, 1), ((0.0, 1.0), (0.0, 0.0)), 0.0, Criterion("counted", THRESHOLD), (1, 1), 1.0,
            (MeasuredNode((0, 1), 0.9, 900, RECORDS),),
        ).with_rest()  # fmt: skip
        assert proof.problems() == ["nothing rules out a node directly below the chosen one: 1,0"]

    def test_the_work_on_a_lattice_of_very_many_dimensions_is_bounded(self, monkeypatch):
        monkeypatch.setattr(predictive_tagging, "_LEVELS_AT_MOST", 10_000)
        failed = tuple(MeasuredNode(tuple(int(place != axis) for place in range(60)), 0.9, 900, RECORDS) for axis in range(59))
        proof = OptimalityCertificate(
            tuple(f"c{axis}" for axis in range(60)), (1,) * 60, ((0.0, 1.0),) * 60, 0.0, Criterion("counted", THRESHOLD),
            (1,) * 60, 60.0, failed,
        ).with_rest()  # fmt: skip
        assert proof.problems() == [] and 0 < proof.gap <= 60

    def test_the_error_of_a_node_follows_from_its_number(self):
        criterion = Criterion("best_first", 0.05, 0.001, 100_000)
        counts = next((n, 3000) for n in range(150, 400) if criterion.fails(MeasuredNode((0,), n / 3000, n, 3000, 1)))
        late = MeasuredNode((0,), counts[0] / 3000, *counts, 10**6)
        assert not criterion.fails(late) and criterion.is_open(late), "the same draws decide less of a later node"

    @pytest.mark.parametrize("numbers", [(1, 1), (0, 1), (None, 1), (-1, 2)])
    def test_numbers_that_would_allow_too_much_error_are_a_problem(self, numbers):
        failed = tuple(
            MeasuredNode(node, 0.9, 9_000, 10_000, number) for node, number in zip([(0, 1), (1, 0)], numbers, strict=True)
        )
        proof = OptimalityCertificate(
            ("a", "b"),
            (1, 1),
            ((0.0, 1.0), (0.0, 1.0)),
            0.0,
            Criterion("best_first", 0.05, 0.001, 100_000),
            (1, 1),
            2.0,
            failed,
        )
        try:
            found = proof.with_rest().problems()
        except ValueError:  # which whoever reads a certificate takes for one that cannot be read
            found = ["unreadable"]
        assert found
        right = replace(proof, failed=tuple(replace(one, number=place) for place, one in enumerate(failed, 1)))
        assert right.with_rest().problems() == []


class TestByGain:
    """A lattice of two axes in which (0, 2) and (2, 0) pass as well as what lies above, and (2, 0) keeps more."""

    @pytest.fixture
    def proof(self):
        below = {node: 100 if node[0] == 2 or node[1] == 2 else 900 - sum(node) for node in all_nodes((2, 2))}
        best = proof_of((2, 2), ((0.0, 1.0, 5.0), (0.0, 1.0, 3.0)), below)[0]
        assert best.chosen == (0, 2)
        return replace(
            best,
            chosen=(2, 0),
            chosen_loss=5.0,
            neighbors=(MeasuredNode((1, 0), 0.899, 899, RECORDS),),
            passed_over={(0, 2): KEEPS_NO_MORE, (1, 2): COARSER},
            kept_less={(0, 2): 0.123},
        ).with_rest()

    def test_it_holds_and_so_it_does_when_rounded(self, proof):
        assert proof.problems() == [] and proof.rest_loss == 6.0
        assert proof.rounded(0.01, hide_counts=False).problems() == []
        assert proof.rounded(0.01, hide_counts=False).kept_less == {(0, 2): 0.1}

    @pytest.mark.parametrize(
        ("changes", "problem"),
        [
            ({"kept_less": {(0, 2): -0.001}}, "keeps more of the gain than the chosen one: 0,2"),
            ({"kept_less": {(0, 2): float("nan")}}, "keeps more of the gain than the chosen one: 0,2"),
            ({"kept_less": {}}, "is missing"),
            ({"kept_less": {(0, 2): 0.1, (1, 2): 0.1}}, "of a node that was not compared"),
            ({"kept_less": {(0, 9): 0.1}}, "does not lie in the lattice"),
            ({"passed_over": {(0, 2): KEEPS_NO_MORE}}, "neither ruled out nor passed over: 1,2"),
            ({"passed_over": {(0, 2): "other", (1, 2): COARSER}, "kept_less": {}}, "does not lie above one that keeps no more"),
        ],
    )
    def test_it_fails(self, proof, changes, problem):
        assert problem in "; ".join(replace(proof, **changes).problems())

    def test_no_more_are_said_to_be_compared_than_are(self, proof):
        heights, many = (COMPARED_AT_MOST, 0), COMPARED_AT_MOST
        compared = {(level, 0): KEEPS_NO_MORE for level in range(many)}
        less = dict.fromkeys(compared, 0.1)
        wide = replace(
            proof, heights=heights, losses=(tuple(map(float, range(many + 1))), (0.0,)), chosen=(many, 0),
            chosen_loss=float(many), passed_over=compared, kept_less=less, failed=(), neighbors=(),
        ).with_rest()  # fmt: skip
        assert f"more than {many} nodes" in "; ".join(wide.problems())


class TestCriterion:
    def test_the_sequential_rule_is_asked_again(self):
        criterion = Criterion("sequential", 0.008, 0.001, 2_000)
        rule = SequentialRule(0.008, 0.001)
        decisions = {(0, 1000): "undecided", (16, 2000): "undecided", (0, 3000): "candidate", (100, 3000): "not_candidate"}
        for (flagged, draws), decision in decisions.items():
            assert rule.decide(flagged, draws) == decision
            failed = criterion.fails(MeasuredNode((0,), flagged / draws, flagged, draws))
            assert failed == (decision == "not_candidate" or (flagged, draws) == (16, 2000)), "undecided at the last draw"

    def test_shares_that_count_draws_cannot_be_withheld(self):
        assert not Criterion("sequential", 0.008, 0.001, 1).fails(MeasuredNode((0,), 1.0))
        assert not Criterion("lower_bound", 0.008).fails(MeasuredNode((0,), 1.0))

    def test_suppression_compares_the_share_of_members_and_rounds_it_in_public(self):
        criterion = Criterion("suppression", 0.03)
        assert criterion.fails(MeasuredNode((0,), 0.0301)) and not criterion.fails(MeasuredNode((0,), 0.03))
        proof = OptimalityCertificate(
            ("age",), (1,), ((0.0, 1.0),), 0.0, criterion, (1,), 1.0, (MeasuredNode((0,), 0.03004),),
            neighbors=(MeasuredNode((0,), 0.03004),),
        ).with_rest()  # fmt: skip
        assert proof.problems() == []
        public = proof.rounded(0.002, hide_counts=False)
        assert [one.share for one in (*public.failed, *public.neighbors)] == [0.032, 0.032] and public.problems() == []

    @pytest.mark.parametrize(("flagged", "fails"), [(200, False), (201, True)])
    def test_exactly_as_many_as_may_be_suppressed_pass(self, flagged, fails):
        assert Criterion("counted", 0.2).fails(MeasuredNode((0,), flagged / 1000, flagged, 1000)) == fails


def test_the_antichain_rules_out_as_much_as_all_failed_nodes():
    generator = np.random.default_rng(1)
    for _ in range(50):
        nodes = {tuple(node) for node in generator.integers(0, 4, (20, 3)).tolist()}
        kept = [found.node for found in failed_antichain([MeasuredNode(node, 1.0) for node in nodes])]
        assert not any(a != b and below_or_equal(a, b) for a in kept for b in kept)
        assert all(any(below_or_equal(node, top) for top in kept) for node in nodes)
