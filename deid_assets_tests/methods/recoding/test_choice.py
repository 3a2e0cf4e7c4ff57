"""Levels by class: the best of all assignments when shares are exact, and never one that was only lucky."""

import hashlib
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from deid_assets.methods.adversary.two_readings import Adversary
from deid_assets.methods.kernel.node_computation import Measurement, NodeComputation
from deid_assets.methods.lattice.information_loss import LatticeLoss
from deid_assets.methods.lattice.predictive_tagging import all_nodes
from deid_assets.methods.population.longitudinal_data import Dimension, Domain, Histories, LongitudinalData
from deid_assets.methods.recoding import choice, estimates
from deid_assets.methods.recoding.choice import choose_class_levels
from deid_assets.methods.recoding.recoded_data import ClassLevels, classes_of, recoded

KEY = bytes(range(16))
SEX = Domain((np.arange(3), np.array([0, 0, 1]), np.zeros(3, int)))
PLACE = Domain((np.arange(4), np.array([0, 0, 1, 1]), np.zeros(4, int)))
STAY = Domain((np.arange(3), np.zeros(3, int)))
AXES = (Dimension("sex", (0,), (), 3), Dimension("place", (), (0,), 3), Dimension("stay", (), (1,), 2))
MEMBER_NODES = [(0, 0, 0), (1, 0, 0), (2, 0, 0)]
K = 4
MOST = 0.12


def population(seed: int, members: int = 60, released: float = 0.7) -> LongitudinalData:
    """Three classes of different sizes; an adversary knows everything about a member, so that flags are not random."""
    generator = np.random.default_rng(seed)
    sex = generator.choice(3, members, p=[0.6, 0.25, 0.15])
    held = [
        Histories.of([generator.choice(values, generator.integers(1, 3), p=parts).tolist() for _ in range(members)])
        for values, parts in ((4, [0.5, 0.3, 0.15, 0.05]), (3, [0.6, 0.3, 0.1]))
    ]
    targets = np.sort(generator.permutation(members)[: int(released * members)])
    power = np.full(len(targets), 5)
    known = [histories.take(targets) for histories in held]
    return LongitudinalData(sex[:, None], (SEX,), held, (PLACE, STAY), targets, known, (power, power))


def keys(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()[:16]


class Exact(NodeComputation):
    """A computation whose shares are exact: every target is drawn as often as any other."""

    def flagged(self, node):
        found = super().flagged_targets(node, KEY, 200 * len(self.data.targets))
        assert found.drawn.all() and np.isin(found.flagged, [0, *found.drawn]).all()
        return found.flagged > 0

    def measure(self, node, stream_key, draws, **options):
        times = 10**9
        return Measurement(int(self.flagged(node).sum()) * times, 0, len(self.data.targets) * times)

    def flagged_by_group(self, node, axes, group_of, groups, stream_key, draws, executor=None):
        heights = [self.dimensions[axis].levels - 1 for axis in axes]
        flagged = np.zeros((groups, *(height + 1 for height in heights)), np.int64)
        for levels in all_nodes(heights):
            own = self.flagged(estimates.at_levels(node, axes, levels))
            flagged[(slice(None), *levels)] = np.bincount(group_of[own], minlength=groups)
        return np.bincount(group_of, minlength=groups), flagged

    def keeping(self, keep, suppressed_count=None):
        return Exact(self.data.keeping(keep), self.dimensions, self.k, self.index)


def brute_force(data: LongitudinalData, most: float) -> float | None:
    """The least loss of all levels for all classes at all member-level nodes, with everything measured on recoded data."""
    loss, best = LatticeLoss(data, AXES), None
    for node in MEMBER_NODES:
        codes, class_of = classes_of(data, AXES, node)
        own = choice.ClassLoss(loss, data, AXES, node, class_of, len(codes))
        every = own.of_every_node()
        for levels in product(all_nodes((2, 1)), repeat=len(codes)):
            lost = own.of_members + sum(every[(number, *at)] for number, at in enumerate(levels))
            if best is not None and lost >= best:
                continue
            by_class = recoded(data, AXES, ClassLevels(node, codes, np.array([(node[0], *at) for at in levels])))
            if Exact(by_class, AXES, K, only_at=node).measure(node, KEY, 0).share <= most:
                best = lost
    return best


@pytest.mark.parametrize(
    ("seed", "most"),
    [(1, 0.311), (4, 0.051), *(pytest.param(seed, 0.011 + seed % 8 / 20, marks=pytest.mark.matrix) for seed in range(6, 18))],
)
def test_the_choice_is_that_of_brute_force_if_shares_are_exact(seed, most, monkeypatch):
    monkeypatch.setattr(choice, "NodeComputation", Exact)
    monkeypatch.setattr(choice, "NEAR", 6)
    data = population(seed)
    best = brute_force(data, most)
    found = choose_class_levels(Exact(data, AXES, K), MEMBER_NODES, LatticeLoss(data, AXES), keys, most, aim=1, draws=10**13)
    assert (found is None) == (best is None)
    if found is not None:
        assert found.loss == pytest.approx(best)
        assert found.certificate.problems() == []
        assert found.certificate.loss == found.loss
        (chosen,) = [one for one in found.tried if one.outcome == "chosen"]
        assert chosen.node == found.levels.member_node
        assert chosen.search_bound <= found.loss + 1e-9


class Noted(NodeComputation):
    """A computation that notes the keys of its streams, and how many targets were drawn from."""

    streams: list[tuple[bytes, int]] = []

    def measure(self, node, stream_key, draws, **options):
        self.streams.append((stream_key, len(self.data.targets)))
        return super().measure(node, stream_key, draws, **options)

    def flagged_by_group(self, node, axes, group_of, groups, stream_key, draws, executor=None):
        self.streams.append((stream_key, len(self.data.targets)))
        return super().flagged_by_group(node, axes, group_of, groups, stream_key, draws, executor)

    def keeping(self, keep, suppressed_count=None):
        return type(self)(self.data.keeping(keep), self.dimensions, self.k, self.index)

    def with_power(self, power):
        return type(self)(self.data.with_power(power), self.dimensions, self.k, self.index)


class LuckySearch(Noted):
    """Whose first stream finds nobody at high risk."""

    def flagged_by_group(self, *question, **options):
        drawn, flagged = super().flagged_by_group(*question, **options)
        return drawn, np.zeros_like(flagged)


class LuckyTwice(LuckySearch):
    """Whose second stream does neither."""

    def keeping(self, keep, suppressed_count=None):
        return NobodyFlagged(self.data.keeping(keep), self.dimensions, self.k, self.index)


class NobodyFlagged(NodeComputation):
    def measure(self, node, stream_key, draws, **options):
        return Measurement(0, 0, draws)


@pytest.fixture
def few_draws(monkeypatch):
    """Enough for populations this small."""
    monkeypatch.setattr(estimates, "ESTIMATE_DRAWS", 20_000)
    monkeypatch.setattr(estimates, "LEAST_DRAWS", 5_000)
    monkeypatch.setattr(choice, "NodeComputation", Noted)
    monkeypatch.setattr(Noted, "streams", [])


def chosen_by(kind, data=None, most=MOST, nodes=((0, 0, 0),), **options):
    data = population(1, 400) if data is None else data
    return choose_class_levels(kind(data, AXES, K), nodes, LatticeLoss(data, AXES), keys, most, draws=40_000, **options)


def fresh_share(found, data) -> float:
    made = NodeComputation(recoded(data, AXES, found.levels), AXES, K, only_at=found.levels.member_node)
    return made.measure(found.levels.member_node, b"as fresh as ever", 40_000).share


def test_what_was_chosen_holds_on_fresh_draws(few_draws):
    data = population(1, 400)
    found = chosen_by(Noted, data)
    assert found is not None and fresh_share(found, data) <= MOST
    assert found.certificate.share <= found.certificate.budget < 0.95 * MOST
    (tried,) = found.tried
    assert tried.trials[-1].upper_bound <= 0.95 * MOST
    assert tried.search_bound <= found.loss
    assert tried.trials[-1].loss == found.loss


def test_nodes_that_were_lucky_in_the_search_are_estimated_again(few_draws):
    """By the first stream alone every class would have its finest levels, far over the limit."""
    data = population(1, 400)
    finest = recoded(data, AXES, ClassLevels((0, 0, 0), np.arange(3)[:, None], np.zeros((3, 3), int)))
    assert NodeComputation(finest, AXES, K).measure((0, 0, 0), KEY, 40_000).share > 2 * MOST
    found = chosen_by(LuckySearch, data)
    assert found is not None and fresh_share(found, data) <= MOST


def test_a_choice_that_was_lucky_twice_is_caught_by_trials(few_draws):
    data = population(1, 400)
    assert chosen_by(LuckyTwice, data) is None
    trials = [key for key, targets in Noted.streams if key in {keys(f"recoding 0,0,0 trial {i}") for i in range(99)}]
    assert len(trials) == len(set(trials)) == choice.ROUNDS


def test_a_budget_that_was_too_large_is_lowered_until_a_choice_holds(few_draws, monkeypatch):
    """Estimates that are half of the truth: the first choices are over the limit on fresh draws."""
    estimated = choice.estimated_shares
    monkeypatch.setattr(choice, "estimated_shares", lambda *question: [shares / 2 for shares in estimated(*question)])
    data = population(1, 400)
    found = chosen_by(Noted, data)
    assert found is not None and fresh_share(found, data) <= MOST
    trials = found.tried[0].trials
    assert len(trials) > 1 and all(one.upper_bound > 0.95 * MOST for one in trials[:-1])
    assert all(later.budget < earlier.budget for earlier, later in pairwise(trials))


def test_no_stream_is_used_for_two_purposes(few_draws):
    """Candidates of a class share their draws; apart from that, each stream is used once, by one computation."""
    assert chosen_by(Noted, nodes=MEMBER_NODES) is not None
    purposes = {}
    for key, targets in Noted.streams:
        purposes.setdefault(key, set()).add(targets)
    assert all(len(targets) == 1 for targets in purposes.values())
    names = [f"recoding {node} search" for node in ("0,0,0", "1,0,0", "2,0,0")]
    assert keys(names[0]) in purposes


def test_the_literal_reading_is_measured_where_an_adversary_is_given(few_draws):
    data = population(1, 400)
    claims = data.known[0].counts
    found = chosen_by(Noted, data, adversary=Adversary(claims, 5, "nearest"))
    assert found is not None
    key = keys(f"recoding 0,0,0 trial {len(found.tried[0].trials) - 1}")
    # Once with fixed power, and once with power as recomputed on recoded values.
    assert [stream for stream, _ in Noted.streams].count(key) == 2


def test_a_member_level_node_that_cannot_be_better_is_not_estimated(few_draws):
    said = []
    found = chosen_by(Noted, nodes=MEMBER_NODES, most=0.45, progress=lambda *told: said.append(told))
    assert found.tried[0].outcome == "chosen"
    assert found.tried[-1].outcome == "no_better" and found.tried[-1].search_bound is None
    assert found.tried[-1].member_loss >= found.loss
    assert keys("recoding 2,0,0 search") not in {key for key, _ in Noted.streams}
    assert [told[:2] for told in said] == [(1, 3), (2, 3), (3, 3)]


def test_a_better_node_later_beats_an_earlier_one(few_draws):
    found = chosen_by(Noted, nodes=MEMBER_NODES[::-1], most=0.45)
    assert found.tried[0].outcome == "beaten"
    assert [one.outcome for one in found.tried].count("chosen") == 1
    assert found.loss < found.tried[0].trials[-1].loss


def test_no_levels_are_coarse_enough(few_draws):
    """A class of three members of the population is at high risk whatever its levels."""
    data = population(1, 400)
    few = data.demographics.copy()
    few[few == 2] = 1
    few[data.targets[:3]] = 2
    data = replace(data, demographics=few)
    assert chosen_by(Noted, data, most=0.004) is None
    result, _ = choice._at_member_node(
        choice._Question(Noted(data, AXES, K), LatticeLoss(data, AXES), keys, 0.004, 0.99, 40_000, None, None),
        (0, 0, 0),
        np.inf,
    )
    assert result.outcome == "infeasible" and result.trials == ()


def test_a_class_that_is_not_released_gets_the_coarsest_levels(few_draws):
    data = population(1, 400)
    data = data.keeping(data.demographics[data.targets, 0] != 2)
    found = chosen_by(Noted, data)
    assert found.levels.classes.tolist() == [[0], [1], [2]]
    assert found.levels.levels[2].tolist() == [0, 2, 1]
    assert [own.codes for own in found.certificate.classes] == [(0,), (1,)]


def test_a_member_level_node_with_claim_level_levels_is_refused(few_draws):
    with pytest.raises(ValueError, match="at level 0"):
        chosen_by(Noted, nodes=[(0, 1, 0)])
