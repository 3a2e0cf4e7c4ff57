"""Suppression of flagged members: fewest first, chosen on one stream and judged on others."""

import hashlib
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.methods.adversary.two_readings import Adversary
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice import choice
from deid_assets.methods.lattice.candidate_gates import DEMOGRAPHICS, FACTOR
from deid_assets.methods.lattice.choice import (
    HIGH_RISK,
    WORST_CLASS,
    Demands,
    Failed,
    Judge,
    choose_generalization,
    fewest_to_suppress,
    members_of_classes_to_suppress,
    members_to_suppress,
    suppress_flagged,
)
from deid_assets.methods.population.longitudinal_data import (
    EVERYTHING,
    Dimension,
    Domain,
    Histories,
    Knows,
    LongitudinalData,
)

MAX_SHARE, CONFIDENCE, DRAWS = 0.05, 0.99, 20_000
COARSEST = (2,)


def keys(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()[:16]


class Recorded(NodeComputation):
    """A node computation that notes which streams chose members and which ones judged."""

    chose: set[bytes] = set()
    judged: set[tuple[bytes, int]] = set()

    def measure(self, node, stream_key, draws, **options):
        self.judged.add((stream_key, len(self.data.targets)))
        return super().measure(node, stream_key, draws, **options)

    def flagged_targets(self, node, stream_key, draws, **options):
        self.chose.add(stream_key)
        return super().flagged_targets(node, stream_key, draws, **options)


def population(rare: int, members: int = 240, seed: int = 1) -> LongitudinalData:
    """Members with common values; the first `rare` hold a value that one or two others have, among common ones."""
    generator = np.random.default_rng(seed)
    common = [generator.integers(0, 3, generator.integers(2, 5)).tolist() for _ in range(members)]
    values = Histories.of([row + [3 + i // 2] * (i < rare) for i, row in enumerate(common)])
    base = 3 + (rare + 1) // 2
    coarser = np.minimum(np.arange(base), 3)
    domain = Domain((np.arange(base), np.unique(coarser, return_inverse=True)[1], np.zeros(base, int)))
    power = np.full(members, 2, dtype=np.int8)
    nobody_differs = np.zeros((members, 0), int)
    return LongitudinalData(nobody_differs, (), (values,), (domain,), np.arange(members), (values,), (power,))


def computation_of(data: LongitudinalData) -> Recorded:
    Recorded.chose, Recorded.judged = set(), set()
    return Recorded(data, [Dimension("history", (), (0,), 3)], k=5)


def adversary_of(data: LongitudinalData) -> Adversary:
    return Adversary(data.known[0].counts[: len(data.targets)], 3, "nearest")


def judge_of(computation, suppress_at_most, at_most=None, other_gates=None, max_share=MAX_SHARE) -> Judge:
    """A judge with the limit `at_most` for each class."""
    demands = Demands(max_share, DRAWS, CONFIDENCE, suppress_at_most, 0.8, at_most)
    return Judge(computation, adversary_of(computation.data), keys, demands, other_gates)


def tried(computation, candidates, others=(), suppress_at_most=0.0, other_gates=None, prefer_detail=False):
    judge = judge_of(computation, suppress_at_most, other_gates=other_gates)
    found, passed_over, _ = choose_generalization(judge, candidates, others, prefer_detail)
    return next(iter(found), None), passed_over


def choose(computation, candidates, **settings):
    return tried(computation, candidates, **settings)[0]


class Refusing:
    """Other gates that some nodes do not hold."""

    def __init__(self, *nodes, whoever_is_suppressed=True, members=240):
        self.nodes, self.whoever, self.members = nodes, whoever_is_suppressed, members

    def failing(self, node, suppressed):
        return "another gate" if node in self.nodes else None

    def failing_however_suppressed(self, node, share, and_below=False):
        return "another gate" if node in self.nodes and self.whoever else None

    def failing_everywhere(self, share):
        return DEMOGRAPHICS if COARSEST in self.nodes else None

    def in_excess(self, node, stream_key):
        return np.zeros(self.members, dtype=bool)


class TooManyOfAClass(Refusing):
    """A class of which the first seven members are too many."""

    def failing(self, node, suppressed):
        return None if suppressed[:7].all() else FACTOR

    def in_excess(self, node, stream_key):
        return np.arange(240) < 7


class TestThoseInExcess:
    def test_are_suppressed_where_the_node_holds_without_them(self):
        choice, passed_over = tried(
            computation_of(population(rare=0)), [(0,)], suppress_at_most=0.03, other_gates=TooManyOfAClass()
        )
        assert choice.node == (0,) and not passed_over
        assert np.flatnonzero(choice.suppressed).tolist() == list(range(7))

    def test_count_among_those_who_may_be_suppressed(self):
        for at_most in (0.0, 0.029):
            choice, passed_over = tried(
                computation_of(population(rare=0)), [(0,)], suppress_at_most=at_most, other_gates=TooManyOfAClass()
            )
            assert choice is None and passed_over == {(0,): FACTOR}, "seven of 240 are a share of .0292"

    def test_are_suppressed_with_those_who_were_flagged(self):
        computation = computation_of(population(rare=8))
        alone, _ = tried(computation, [], [(0,)], suppress_at_most=0.3)
        both, _ = tried(computation, [], [(0,)], suppress_at_most=0.3, other_gates=TooManyOfAClass())
        assert both.suppressed[:7].all() and not (alone.suppressed & ~both.suppressed).any()


class TestMembersToSuppress:
    counts = st.lists(st.tuples(st.integers(0, 30), st.floats(0, 1)), min_size=1, max_size=25)

    @given(counts, st.floats(0.001, 0.5))
    def test_the_rest_is_at_the_goal_and_with_one_more_member_it_is_not(self, rows, goal):
        drawn = np.array([n for n, _ in rows])
        flagged = np.array([round(n * share) for n, share in rows])
        chosen = members_to_suppress(drawn, flagged, goal)
        assert len(set(chosen.tolist())) == len(chosen)

        def holds(without) -> bool:
            rest = np.setdiff1d(np.arange(len(drawn)), without)
            return flagged[rest].sum() <= goal * drawn[rest].sum()

        assert holds(chosen)
        assert len(chosen) == 0 or not holds(chosen[:-1])

    @given(counts)
    def test_they_are_those_most_often_flagged(self, rows):
        drawn = np.array([n for n, _ in rows])
        flagged = np.array([round(n * share) for n, share in rows])
        chosen = members_to_suppress(drawn, flagged, 0.05)
        rates = flagged / np.maximum(drawn, 1)
        others = np.setdiff1d(np.arange(len(rates)), chosen)
        assert not len(chosen) or not len(others) or rates[chosen].min() >= rates[others].max()

    def test_nobody_has_to_go_where_nobody_was_flagged(self):
        assert members_to_suppress(np.array([5, 5]), np.array([0, 0]), 0.0).tolist() == []

    @given(counts, st.floats(0.001, 0.5))
    def test_no_set_of_members_is_smaller_than_the_fewest(self, rows, goal):
        drawn = np.array([n for n, _ in rows[:8]])
        flagged = np.array([round(n * share) for n, share in rows[:8]])

        def holds(rest: tuple[int, ...]) -> bool:
            return flagged[list(rest)].sum() <= goal * drawn[list(rest)].sum()

        every = range(len(drawn))
        by_hand = next(gone for gone in range(len(drawn) + 1) if any(map(holds, combinations(every, len(drawn) - gone))))
        assert fewest_to_suppress(drawn, flagged, goal) == by_hand <= len(members_to_suppress(drawn, flagged, goal))

    @given(counts, st.lists(st.floats(0, 1), min_size=25, max_size=25), st.floats(0.001, 0.5))
    def test_fewer_have_to_go_where_nobody_is_flagged_more_often(self, rows, falls, goal):
        """As at a coarser node."""
        drawn = np.array([n for n, _ in rows])
        flagged = np.array([round(n * share) for n, share in rows])
        coarser = np.floor(flagged * np.array(falls[: len(rows)])).astype(int)
        assert fewest_to_suppress(drawn, coarser, goal) <= fewest_to_suppress(drawn, flagged, goal)

    def test_members_never_drawn_are_not_blamed(self):
        assert members_to_suppress(np.array([0, 10]), np.array([0, 10]), 0.1).tolist() == [1]


class TestChoice:
    def test_the_first_candidate_that_holds_on_fresh_draws_is_chosen(self):
        choice, passed_over = tried(computation_of(population(rare=60)), [(0,), (2,), (1,)])
        assert choice.node == (2,)
        assert passed_over == {(0,): "share at high risk"}
        assert not choice.suppressed.any()
        assert choice.readings.upper_bound(CONFIDENCE) <= MAX_SHARE
        assert choice.readings.fixed.draws == choice.readings.literal.draws == DRAWS

    def test_what_is_found_of_each_node_is_told(self):
        told = []
        judge = judge_of(computation_of(population(rare=60)), 0.0, other_gates=Refusing((1,)))
        judge = replace(judge, progress=lambda *of_node: told.append(of_node))
        choose_generalization(judge, [(0,), (1,), (2,), (2,)], [])
        assert told == [
            (1, 4, "node (0,): share at high risk"),
            (2, 4, "node (1,): another gate"),
            (3, 4, "node (2,): holds"),
        ]

    def test_without_suppression_nothing_else_is_tried(self):
        computation = computation_of(population(rare=60))
        assert choose(computation, [(0,)], others=[(2,)]) is None
        assert not computation.chose

    def test_a_node_that_fails_another_gate_is_passed_over(self):
        choice, passed_over = tried(computation_of(population(rare=60)), [(0,), (1,), (2,)], other_gates=Refusing((1,)))
        assert choice.node == (2,)
        assert passed_over == {(0,): "share at high risk", (1,): "another gate"}

    @pytest.mark.parametrize("whoever", [True, False])
    def test_nor_does_suppression_make_it_hold(self, whoever):
        refusing = Refusing((0,), whoever_is_suppressed=whoever)
        computation = computation_of(population(rare=30))
        assert choose(computation, [], others=[(0,)], suppress_at_most=0.3, other_gates=refusing) is None
        assert bool(computation.chose) is not whoever, "members are looked for only where the other gates may hold"

    def test_where_classes_of_the_coarsest_node_are_too_small_nothing_is_measured(self):
        computation = computation_of(population(rare=60))
        choice, passed_over = tried(computation, [(1,), (2,)], others=[(0,)], other_gates=Refusing((2,)))
        assert choice is None
        assert passed_over == dict.fromkeys([(1,), (2,), (0,)], "demographic classes")
        assert not computation.judged

    def test_a_node_that_was_no_candidate_may_hold_with_suppression(self):
        data = population(rare=30)
        computation = computation_of(data)
        choice = choose(computation, [], others=[(0,)], suppress_at_most=0.3)
        assert choice.node == (0,)
        assert 0 < choice.suppressed.sum() <= 0.3 * len(data.targets)
        assert choice.readings.upper_bound(CONFIDENCE) <= MAX_SHARE

    def test_members_are_kept_unless_detail_is_preferred(self):
        """Node 2 holds with everybody, node 0 without some, and says more."""
        given = {"candidates": [(2,)], "others": [(0,), (1,), (2,)], "suppress_at_most": 0.3}
        everybody = choose(computation_of(population(rare=30)), **given)
        fewer = choose(computation_of(population(rare=30)), **given, prefer_detail=True)
        assert everybody.node == (2,) and not everybody.suppressed.any()
        assert fewer.node == (0,) and 0 < fewer.suppressed.mean() <= 0.3
        assert fewer.readings.upper_bound(CONFIDENCE) <= MAX_SHARE

    def test_if_nothing_holds_without_some_what_holds_with_everybody_is_chosen_all_the_same(self):
        computation = computation_of(population(rare=60))
        choice, passed_over = tried(computation, [(2,)], others=[(0,)], suppress_at_most=0.02, prefer_detail=True)
        assert choice.node == (2,) and not choice.suppressed.any() and passed_over == {(0,): "share at high risk"}

    @pytest.mark.parametrize("at_most", [0.3, 0.0005])
    def test_nobody_is_suppressed_for_a_node_that_holds_with_everybody_nor_a_coarser_one_chosen(self, at_most):
        """The draws that choose members would have left one out, which the second policy does not allow."""
        given = {"candidates": [(0,), (2,)], "others": [(0,), (1,), (2,)], "suppress_at_most": at_most}
        choice, passed_over = tried(computation_of(population(rare=17)), **given, prefer_detail=True)
        assert choice.node == (0,) and not choice.suppressed.any() and passed_over == {}

    def test_more_members_than_the_policy_allows_are_not_suppressed(self):
        assert choose(computation_of(population(rare=60)), [], others=[(0,)], suppress_at_most=0.02) is None

    def test_draws_that_chose_members_never_judge_them(self):
        computation = computation_of(population(rare=30))
        choice = choose(computation, [], others=[(0,)], suppress_at_most=0.3)
        kept = int((~choice.suppressed).sum())
        judged = {key for key, targets in computation.judged if targets == kept}
        assert judged and computation.chose
        assert not judged & computation.chose

    def test_suppressed_members_stay_in_the_population(self):
        """A class that they belong to is no smaller without them in the release."""
        data = population(rare=30)
        computation = computation_of(data)
        choice = choose(computation, [], others=[(0,)], suppress_at_most=0.3)
        rest = computation.keeping(~choice.suppressed)
        assert rest.data.members == data.members
        assert len(rest.data.targets) == int((~choice.suppressed).sum())

    def test_the_same_streams_choose_the_same_members(self):
        first, second = (choose(computation_of(population(rare=30)), [], others=[(0,)], suppress_at_most=0.3) for _ in range(2))
        assert np.array_equal(first.suppressed, second.suppressed)


class TestWorstClass:
    """One class in twelve holds what risk there is: the average is within its limit, the class is not."""

    @staticmethod
    def computation(rare: int = 6) -> Recorded:
        data = population(rare=rare, members=1_200)
        classes = np.zeros((1_200, 1), int)
        classes[:100] = 1
        with_classes = replace(data, demographics=classes, demographic_domains=(Domain((np.arange(2),)),))
        return computation_of(with_classes)

    @staticmethod
    def chosen(computation, at_most, suppress_at_most, candidates=((0,),), **settings):
        judge = judge_of(computation, suppress_at_most, at_most, **settings)
        found, passed_over, _ = choose_generalization(judge, list(candidates), [])
        return next(iter(found), None), passed_over

    def test_without_a_limit_by_class_the_average_hides_it(self):
        choice, _ = self.chosen(self.computation(), None, 0.05)
        assert choice.node == (0,) and not choice.suppressed.any()

    def test_a_candidate_is_tried_again_without_those_found_most_often(self):
        computation = self.computation()
        choice, passed_over = self.chosen(computation, 0.02, 0.05)
        assert choice.node == (0,) and passed_over == {}
        suppressed = np.flatnonzero(choice.suppressed)
        assert 0 < len(suppressed) <= 6 and (suppressed < 6).all(), "those with rare values, and nobody else"
        rest = computation.keeping(~choice.suppressed)
        shares = rest.keeping(rest.data.demographics[rest.data.targets, 0] == 1).measure((0,), keys("other"), 50_000).share
        assert shares < 0.02

    def test_no_more_of_them_than_the_policy_allows(self):
        for allowed in (0.0, 1 / 1_200):
            choice, passed_over = self.chosen(self.computation(), 0.005, allowed)
            assert choice is None and passed_over == {(0,): "share at high risk of the worst class"}

    @pytest.mark.parametrize(("allowed", "without_flagged"), [(0.0, False), (1 / 1_200, False), (1 / 1_200, True)])
    def test_the_class_is_told_with_its_share(self, allowed, without_flagged):
        """Whether the node was a candidate or not: on average it holds, and the class does not."""
        computation = self.computation()
        tries = ([], [(0,)]) if without_flagged else ([(0,)], [])
        _, passed_over, worst = choose_generalization(judge_of(computation, allowed, 0.005), *tries)
        assert passed_over == {(0,): WORST_CLASS} and worst.node == (0,) and worst.values == (1,)
        of_class = computation.keeping(computation.data.demographics[:, 0] == 1).measure((0,), keys("other"), 50_000).share
        assert worst.share == pytest.approx(of_class, rel=0.2) and of_class > 0.005

    def test_a_node_that_fails_on_average_does_not_fail_for_its_worst_class(self):
        computation = self.computation(rare=100)
        _, passed_over, worst = choose_generalization(judge_of(computation, 0.02, 0.05, max_share=0.01), [(0,)], [(0,)])
        assert passed_over == {(0,): HIGH_RISK} and not worst

    def test_a_coarser_candidate_is_next(self):
        choice, passed_over = self.chosen(self.computation(), 0.005, 0.0, candidates=[(0,), (2,)])
        assert choice.node == (2,) and list(passed_over) == [(0,)]

    def test_draws_that_chose_members_never_judge_them(self):
        computation = self.computation()
        choice, _ = self.chosen(computation, 0.02, 0.05)
        judged = {key for key, _ in computation.judged}
        assert choice.suppressed.any() and computation.chose and not judged & computation.chose

    def test_other_gates_judge_the_rest(self):
        refusing = Refusing(members=1_200)
        refusing.failing = lambda node, suppressed: "another gate" if suppressed.any() else None
        choice, passed_over = self.chosen(self.computation(), 0.02, 0.05, other_gates=refusing)
        assert choice is None and passed_over == {(0,): "another gate"}

    def test_members_go_in_the_order_of_their_own_probability(self):
        drawn, flagged = np.full(6, 20), np.array([9, 9, 1, 0, 0, 0])
        own, classes = np.array([0.3, 0.6, 0.05, 0, 0, 0]), np.array([0, 0, 0, 1, 1, 1])
        of_classes = members_of_classes_to_suppress(drawn, flagged, 0.2, own, classes, np.array([0.3, 0.3]))
        assert of_classes.tolist() == [1]
        both = members_of_classes_to_suppress(drawn, flagged, 0.05, own, classes, np.array([0.3, 0.3]))
        assert both.tolist() == [0, 1], "then the average"


class TestExtract:
    """Classes are those of the release: whoever is suppressed is in none of them."""

    @staticmethod
    def pairs(alone: int = 12, pairs: int = 60) -> NodeComputation:
        """Members with a value of their own, and pairs, each of whom also holds one of many values of which few know one."""
        rows = [[number] for number in range(alone)]
        rows += [[alone + number // 2] * 3 + [alone + pairs] * (number % 2) for number in range(2 * pairs)]
        values = Histories.of(rows)
        base = alone + pairs + 1
        domain = Domain((np.arange(base), np.zeros(base, int)))
        members = len(rows)
        data = LongitudinalData(
            np.zeros((members, 0), int),
            (),
            (values,),
            (domain,),
            np.arange(members),
            (values,),
            (np.full(members, 1, np.int8),),
        )
        return NodeComputation(data, [Dimension("history", (), (0,), 2)], k=2, extract=True)

    def test_classes_hold_the_published_members_only(self):
        computation = self.pairs()
        keep = np.ones(len(computation.data.targets), dtype=bool)
        keep[12::2] = False  # one of each pair: the other is alone now
        published, sampled = computation.keeping(keep), computation.keeping(keep, suppressed_count=True)
        assert published.data.members == keep.sum() and sampled.data.members == len(keep)
        shares = [found.measure((0,), keys("draws"), 20_000).share for found in (published, sampled)]
        # Of those left in pairs one value in four is held by all of them; 12 of 72 are alone in any case.
        assert shares == pytest.approx([12 / 72 + 60 / 72 * 3 / 4, 12 / 72], abs=0.01)

    def test_of_a_population_nobody_leaves_by_suppression(self):
        data = self.pairs().data
        keep = np.arange(len(data.targets)) >= 12
        assert NodeComputation(data, [Dimension("history", (), (0,), 2)], k=2).keeping(keep).data.members == data.members

    def test_who_is_alone_only_without_the_suppressed_is_found_too(self):
        """Of three who share a value one must go for another: the two left are too few, and go in a later round."""
        rows = [[0]] * 100 + [[1, 2]] * 2 + [[2]] * 2
        values = Histories.of(rows)
        domain = Domain((np.arange(3), np.zeros(3, int)))
        members = len(rows)
        data = LongitudinalData(
            np.zeros((members, 0), int),
            (),
            (values,),
            (domain,),
            np.arange(members),
            (values,),
            (np.full(members, 2, np.int8),),
        )
        computation = NodeComputation(data, [Dimension("history", (), (0,), 2)], k=4, extract=True)
        adversary = Adversary(values.counts, 3, "nearest")
        judge = Judge(computation, adversary, keys, Demands(0.008, DRAWS, CONFIDENCE, 0.1, 0.9))
        found = suppress_flagged(judge, (0,))
        assert not isinstance(found, Failed)
        readings, suppressed = found
        assert np.flatnonzero(suppressed).tolist() == [100, 101, 102, 103], "the last two held a value with those who went"
        assert readings.fixed.share == 0
        of_population = NodeComputation(data, [Dimension("history", (), (0,), 2)], k=4)
        _, fewer = suppress_flagged(replace(judge, computation=of_population), (0,))
        assert np.flatnonzero(fewer).tolist() == [100, 101]


def test_on_the_draws_that_chose_them_the_rest_looks_better_than_it_is():
    """methods#random-streams: the bias that separate streams are there for."""
    data = population(rare=40)
    computation = computation_of(data)
    draws = 4 * len(data.targets)
    flags = computation.flagged_targets((0,), keys("choosing"), draws)
    chosen = members_to_suppress(flags.drawn, flags.flagged, goal=0.0)
    rest = np.setdiff1d(np.arange(len(data.targets)), chosen)
    assert flags.flagged[rest].sum() == 0
    kept = np.zeros(len(data.targets), dtype=bool)
    kept[rest] = True
    assert computation.keeping(kept).measure((0,), keys("fresh"), 20_000).share > 0.001


def test_where_the_allowed_share_does_not_suffice_there_is_no_result():
    data = population(rare=60)
    found = suppress_flagged(judge_of(computation_of(data), 0.01), (0,))
    assert found == Failed(HIGH_RISK)


@pytest.mark.parametrize("number", range(choice.ROUNDS))
def test_every_round_has_streams_of_its_own(number):
    names = [f"{what} {number}" for what in ("suppression", "trial", "confirmation")]
    assert len({keys(name) for name in [*names, "confirmation", "prospect"]}) == 5


def test_a_node_that_holds_for_who_knows_less_has_to_hold_for_who_knows_everything_too():
    """One value of a member is known: who knows two finds those whose second value is rare."""
    data = population(24).known_as(Knows(total=1))
    judge = judge_of(computation_of(data), 0)
    assumed = judge.confirmed((0,)).fixed.share
    everything = replace(judge, computation=judge.computation.known_as(EVERYTHING)).confirmed((0,)).fixed.share
    assert 0 < assumed < everything
    room = 1.5 / 0.8
    for most, expected in ((room * everything, (0,)), ((assumed + everything) / 2, None)):
        demands = replace(judge.demands, max_high_risk_share=room * assumed, everything_known_at_most=most)
        found, passed_over, _ = choose_generalization(replace(judge, demands=demands), [(0,)], [])
        assert (found[0].node if found else None) == expected
        assert passed_over == ({} if expected else {(0,): HIGH_RISK})


def test_members_are_suppressed_until_who_knows_everything_finds_few_enough():
    data = population(24).known_as(Knows(total=1))
    judge = judge_of(computation_of(data), 0.2)
    for most in (None, 0.05):
        demands = replace(judge.demands, everything_known_at_most=most)
        readings, suppressed = suppress_flagged(replace(judge, demands=demands), (0,))
        rest = replace(judge, computation=judge.computation.known_as(EVERYTHING)).keeping(~suppressed)
        share = rest.readings((0,), "fresh", DRAWS).fixed.share
        assert (share <= 0.05) == (most is not None) and readings.fixed.share <= share
