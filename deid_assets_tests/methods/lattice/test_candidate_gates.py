"""The gates besides the share at high risk, asked before a node is chosen."""

from dataclasses import replace

import numpy as np
import pytest

from deid_assets.methods.lattice.candidate_gates import ATTACK, DEMOGRAPHICS, NUMBER, OtherGates
from deid_assets.methods.population.longitudinal_data import Dimension, Domain, Histories, LongitudinalData
from deid_assets.methods.statistics.confidence import empirical_bernstein_upper_bound, range_on_fresh_trials

KEY = b"other gates' key"
TRIALS = 4_096
DIMENSIONS = (Dimension("age", (0,), (), 2),)
AGES = Domain((np.arange(10), np.zeros(10, int)))


def gates(members: int = 100, released: int = 40, **changes) -> OtherGates:
    """Members of ten ages, ten of each; everyone holds the same single value, so that only age tells them apart."""
    ages = (np.arange(members) % 10)[:, None]
    alike = Histories.of([[0]] * members)
    targets = np.arange(released)
    data = LongitudinalData(
        ages, (AGES,), (alike,), (Domain((np.zeros(1, int), np.zeros(1, int))),), targets, (alike.take(targets),),
        (np.ones(released, int),),
    )  # fmt: skip
    settings = {
        "class_size_at_least": 10, "max_high_risk_share": 0.1, "success_at_most": 0.3, "trials": TRIALS,
        "confidence": None, "number_trials": TRIALS,
    }  # fmt: skip
    return OtherGates(data, DIMENSIONS, ages, targets, stream_key=KEY, **settings | changes)


def nobody(of: OtherGates) -> np.ndarray:
    return np.zeros(len(of.sampled), dtype=bool)


def test_demographic_classes_are_counted_in_the_delivery():
    of = gates(class_size_at_least=11)
    assert of.small_class_share((0,), nobody(of)) == 1 and of.small_class_share((1,), nobody(of)) == 0
    assert gates(class_size_at_least=10).small_class_share((0,), nobody(of)) == 0
    assert of.failing((0,), nobody(of)) == DEMOGRAPHICS and of.failing((1,), nobody(of)) is None


def test_success_is_one_over_the_class_in_the_release():
    """Four released members of each age: a neighbor finds his target with probability 1/4, or 1/40 at the top."""
    of = gates()
    assert of.failing((0,), nobody(of)) is None
    assert gates(success_at_most=0.24).failing((0,), nobody(of)) == ATTACK
    assert gates(success_at_most=0.026).failing((1,), nobody(of)) is None
    bounded = gates(success_at_most=0.025, confidence=0.99)
    assert bounded.failing((1,), nobody(of)) == ATTACK, "the bound is above the estimate"


def unequal(**changes) -> OtherGates:
    """As `gates`, but one released member in four is alone in their age: the success varies from draw to draw, .28 in all."""
    of = gates(members=400, released=40, **changes)
    ages = np.where(np.arange(400) % 40 < 10, np.arange(400) % 40, 10)[:, None]
    domain = Domain((np.arange(11), np.zeros(11, int)))
    return replace(of, data=replace(of.data, demographics=ages, demographic_domains=(domain,)), delivered=ages)


@pytest.mark.parametrize("confidence", [None, 0.99])
def test_a_node_that_its_own_trials_would_choose_is_left_where_the_gates_draws_would_often_refuse_it(confidence):
    """The limit lies just above what these trials alone give: another stream of as many trials is above it half the time."""
    of = unequal(confidence=confidence, class_size_at_least=2)
    found = of._successes(ATTACK, (0,), nobody(of), TRIALS)
    own = float(found.mean()) if confidence is None else empirical_bernstein_upper_bound(found, 1.0, confidence)
    assert replace(of, success_at_most=1.001 * own).failing((0,), nobody(of)) == ATTACK
    assert replace(of, success_at_most=1.001 * own).failing_however_suppressed((0,), 0.0) is None, "a prospect needs no margin"
    assert replace(of, success_at_most=1.2 * own).failing((0,), nobody(of)) is None


def test_the_gates_own_draws_seldom_refuse_what_was_only_just_chosen():
    """At the least limit that lets the node be chosen, the gate refuses it on about one stream in a hundred."""
    of = unequal(confidence=0.99, class_size_at_least=2)
    limits = np.linspace(0.28, 0.40, 61)
    chosen_at = next(limit for limit in limits if replace(of, success_at_most=limit).failing((0,), nobody(of)) is None)
    refused = 0
    for stream in range(100):
        fresh = replace(of, stream_key=stream.to_bytes(16, "big"))._successes(ATTACK, (0,), nobody(of), TRIALS)
        refused += empirical_bernstein_upper_bound(fresh, 1.0, 0.99) > chosen_at
    assert refused <= 6, "more than 6 of 100 would come of a chance of .01 once in ten thousand"


@pytest.mark.parametrize(("limit", "made"), [(0.2, [1]), (0.4, [1]), (0.31, [1, 4, 16])])
def test_more_trials_are_made_where_it_is_close(limit, made, monkeypatch):
    asked = []
    honest = OtherGates._successes
    monkeypatch.setattr(
        OtherGates, "_successes",
        lambda self, gate, node, suppressed, trials: asked.append(trials) or honest(self, gate, node, suppressed, trials),
    )  # fmt: skip
    of = unequal(confidence=0.99, class_size_at_least=2)
    centre = range_on_fresh_trials(honest(of, ATTACK, (0,), nobody(of), 16 * TRIALS), 1.0, TRIALS, 0.99)
    replace(of, success_at_most=sum(centre) / 2 if limit == 0.31 else limit).failing((0,), nobody(of))
    assert asked == [times * TRIALS for times in made]


def test_suppressed_members_are_not_in_the_release():
    of = gates()
    most = nobody(of)
    most[4:] = True  # one of each of four ages is left
    assert of.failing((0,), most) == ATTACK and of.small_class_share((0,), most) == 0


def test_without_a_gate_on_the_attack_only_demographics_count():
    of = gates(success_at_most=None)
    assert of.failing((0,), nobody(of)) is None and of.failing_however_suppressed((0,), 0.0) is None


@pytest.mark.parametrize(("share", "may"), [(0.0, False), (0.04, False), (0.06, True)])
def test_suppression_lowers_success_by_its_share_at_most(share, may):
    assert (gates(success_at_most=0.2).failing_however_suppressed((0,), share) is None) is may


def test_nothing_left_is_no_release():
    of = gates()
    assert of.failing((1,), ~nobody(of)) == DEMOGRAPHICS


class TestNumberOfClaims:
    """Of each age nine members have their claims in one bin, and the tenth stands alone in another."""

    BINS = (np.arange(100) // 10 == 9).astype(int)[:, None] + 1

    def test_bins_divide_demographic_classes(self):
        of = gates(released=100, class_size_at_least=9, claim_bins=self.BINS)
        assert of.small_class_share((0,), nobody(of)) == pytest.approx(0.1)
        assert gates(released=100, class_size_at_least=11, claim_bins=self.BINS).small_class_share((1,), nobody(of)) == 0.1

    def test_who_knows_bin_and_values_succeeds_more_often(self):
        """Of each age nine find their like with 1/9 and one with 1: .2, and without the bin .1."""
        settings = {"released": 100, "class_size_at_least": 1, "success_at_most": 0.11, "claim_bins": self.BINS}
        of = gates(**settings)
        assert of.failing((0,), nobody(of)) is None
        assert gates(**settings, number_at_most=0.23).failing((0,), nobody(of)) is None
        refused = gates(**settings, number_at_most=0.18)
        assert refused.failing((0,), nobody(of)) == refused.failing_however_suppressed((0,), 0.0) == NUMBER
        assert refused.failing_however_suppressed((0,), 0.05) is None

    def test_its_bound_decides_where_it_must(self):
        settings = {"released": 100, "class_size_at_least": 1, "claim_bins": self.BINS, "number_at_most": 0.21}
        assert gates(**settings).failing((0,), np.zeros(100, bool)) is None
        assert gates(**settings, number_confidence=0.99).failing((0,), np.zeros(100, bool)) == NUMBER

    def test_who_is_suppressed_is_nobody_to_be_found(self):
        of = gates(released=100, class_size_at_least=1, claim_bins=self.BINS, number_at_most=0.12)
        assert of.failing((0,), self.BINS[:, 0] == 2) is None and of.failing((0,), nobody(of)) == NUMBER

    def test_without_bins_there_is_no_such_gate(self):
        with pytest.raises(ValueError, match="needs the bins"):
            gates(number_at_most=0.1)
