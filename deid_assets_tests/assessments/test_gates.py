"""What every gate says of itself, so that no list elsewhere has to know it."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from deid_assets.assessments.absence import ABSENCE, absence_tells_too_much, what_helps_against_absence
from deid_assets.assessments.assessment import Gate
from deid_assets.assessments.evidence import EXPOSURES, Exposure, Requirement, judge
from deid_assets.assessments.no_choice import why_no_choice
from deid_assets.assessments.reachable_risk import other_gates, require_reachable
from deid_assets.assessments.registry import ASSESSMENTS, gates_of, noise_plan
from deid_assets.errors import RefusedError
from deid_assets.methods.attacks.attack_sensitivity import confidence_of_each
from deid_assets.methods.lattice.choice import WORST_CLASS
from deid_assets.methods.lattice.diagnosis import COLUMNS, NOT_TRIED
from deid_assets.methods.population import encoding
from deid_assets.policy import policy_by_name
from deid_assets.policy.loading import policy_from, shipped_policies
from deid_assets.policy.models import Policy
from deid_assets.release.manifest.public_numbers import PublicNumbers
from deid_assets.reports.determination_texts import precedent_of
from deid_assets_tests.policy.cohort_values import cohort_values
from deid_assets_tests.release.test_evidence import CONTEXT, evidence
from deid_assets_tests.scenarios.policies import SMALL, changed
from deid_assets_tests.scenarios.test_flat_release import FLAT

POLICIES = (
    *(policy_by_name(file.stem.replace("-", "_")) for file in shipped_policies()),
    policy_from(FLAT),
    policy_from(cohort_values()),
)
GATES = [(one, gate) for one in ASSESSMENTS.values() for gate in one.all_gates]


@pytest.mark.parametrize(("one", "gate"), GATES, ids=[f"{one.name}/{gate.measurement}" for one, gate in GATES])
def test_a_gate_has_a_range_an_adversary_and_a_precedent(one, gate):
    least, most = gate.range
    assert least < most and all(one.adversary.__dict__.values())
    assert precedent_of(one.name, gate.measurement) == (gate.precedent or one.adversary.precedent)
    if gate.noise is not None:
        unit, method = gate.noise
        assert EXPOSURES.get(unit, Exposure.PEOPLE) in (Exposure.PEOPLE, Exposure.WHOLE_IN_FILES) and method


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_thresholds_are_within_the_range(policy):
    for _, gate in gates_of(policy):
        limit = gate.limit(policy)
        assert limit is None or gate.range[0] <= limit.threshold <= gate.range[1], gate.measurement


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_the_noise_of_a_gate_is_planned(policy):
    cells = PublicNumbers.cells(noise_plan(policy))
    assert {gate.measurement for _, gate in gates_of(policy) if gate.noise} <= cells


@pytest.mark.parametrize(("value", "rule"), [(-1e-6, "impossible_value"), (1.01, "impossible_value"), (math.nan, "not_finite")])
def test_a_number_that_cannot_be_is_refused(value, rule):
    item = evidence()
    (one,) = item.measurements
    wrong = replace(item, measurements=(replace(one, value=value, bound=None, statistic="value"),))
    refused = judge([wrong], (Requirement(item.asset, one.name, one.threshold, None, (0.0, 1.0)),), CONTEXT)
    assert rule in {refusal.rule for refusal in refused}, refused


def test_a_gate_says_its_limit_or_that_it_has_none():
    policy = policy_by_name("heritage")
    gate = Gate("share", "share_within_threshold", "Few are found.", "Share who are found.", lambda policy: None)
    assert gate.in_words(policy) == "share who are found"
    said = {name: gate.in_words(policy) for one in (policy,) for name, gate in ((g.measurement, g) for _, g in gates_of(one))}
    assert "(limit 0.05)" in said["voter_list_match"]


def foreseen(policy: Policy, monkeypatch):
    """The gates of a hundred members, of whom ten are drawn."""
    for name, found in {"demographic_codes": np.zeros((100, 3), int), "released_members": np.arange(10)}.items():
        monkeypatch.setattr(encoding, name, lambda *_, found=found: found)
    table = SimpleNamespace(sql="profiles", count=lambda: 100)
    tables = SimpleNamespace(profiles=table, domains=None, held=None)
    computation = SimpleNamespace(data=SimpleNamespace(targets=np.arange(10)), dimensions=())
    bins = np.ones((100, 1), int)
    return other_gates(policy, tables, computation, released_before=0, number=1, stream_key=bytes(16), claim_bins=bins)


def test_who_knows_the_number_of_claims_is_foreseen_with_the_bound_that_holds_with_all_others(monkeypatch):
    """The gate's bound is one of many that hold together, at half the error in the first try: further from the estimate."""
    section = {
        "per": "member", "width": 5, "reference": {"age": "20 years", "days_in_hospital": "none or any"},
        "with_values": {"at_most": 0.3, "confidence": 0.95},
    }  # fmt: skip
    policy = policy_from(changed(SMALL, number_of_claims=section))
    cells = policy.attack_sensitivity.cells
    found = foreseen(policy, monkeypatch)
    assert cells > 20 and found.number_confidence == confidence_of_each(0.995, cells) > 0.999
    assert found.number_trials == policy.attack_sensitivity.trials
    section["with_values"] |= {"statistic": "estimate"}
    assert foreseen(policy_from(changed(SMALL, number_of_claims=section)), monkeypatch).number_confidence is None


def test_a_refusal_offers_what_passed_with_its_threshold_and_nothing_else():
    rows = [
        ("as it is", "coarsest node", 0.021, 0.008, 0.0, NOT_TRIED, False, ""),
        ("without", "sex", 0.0041, 0.008, 0.0, "attack given membership", False, ""),
        ("without", "age", 0.0051, 0.008, 0.012, "", True, "quasi_identifiers: ..."),
    ]
    text = why_no_choice({(1,): "share at high risk"}, pd.DataFrame(rows, columns=list(COLUMNS)), 0.03, "")
    assert "Failed gates: share at high risk at 1 node." in text
    assert "with at most 0.03 of the sampled members suppressed" in text
    assert (
        "without age (share at high risk 0.0051 before suppression, at most 0.0080; 0.0120 of the sampled members left out)"
        in text
    )
    assert "sex" not in text and "coarsest node (" not in text
    none = why_no_choice({}, pd.DataFrame(rows[:2], columns=list(COLUMNS)), 0.03, "they are in ours/0001")
    assert "None of the changes" in none and "(attack given membership against 1)" in none
    assert none.endswith("For absence: they are in ours/0001.")


def test_a_refusal_for_the_worst_class_says_which_one_it_is():
    nothing = pd.DataFrame(columns=[*COLUMNS]).astype({"would_pass": "bool"})
    text = why_no_choice({(1,): WORST_CLASS}, nothing, 0.03, "", worst_class="The worst class at 1 is ages 80+.")
    assert "Failed gates: share at high risk of the worst class at 1 node." in text
    assert text.endswith("The worst class at 1 is ages 80+.")


def test_a_refusal_says_nothing_of_nodes_that_the_search_left_open():
    nothing = pd.DataFrame(columns=[*COLUMNS]).astype({"would_pass": "bool"})
    every = why_no_choice({}, nothing, 0.03, "")
    assert every.startswith("refused: no generalization of this policy passes.") and "at every node, even" in every
    some = why_no_choice({}, nothing, 0.03, "", left_open=7)
    assert some.startswith("refused: none of the generalizations that were tried passes.")
    assert "at every node that was tried, even" in some and "The search left 7 nodes open that lose more" in some


def reached(*proven: bool) -> pd.DataFrame:
    rows = [("share at high risk", 0.4713, 0.4, 0.008, one, True, "share at high risk: 0.4713 at ...") for one in proven]
    rows.append(("factor of absence", 1.1, 1.0, 1.25, True, False, ""))
    return pd.DataFrame(rows, columns=["gate", "measured", "least", "limit", "proven", "ruled_out", "against"])


@pytest.mark.parametrize(("proven", "can"), [(True, "can pass"), (False, "is likely to pass")])
def test_who_may_not_see_exact_numbers_is_told_the_failed_gates_and_where_the_remedy_is(proven, can):
    with pytest.raises(RefusedError, match=r"0\.4713 at .*--go-on") as raised:
        require_reachable(reached(proven))
    assert raised.value.sentence == (
        f"no generalization of this policy {can} (failed gates: share at high risk, at most 0.0080); the report of the "
        "refusal, in the restricted store, says what helps, such as a larger population or coarser quasi-identifiers"
    )


def test_a_policy_that_nothing_rules_out_is_searched():
    require_reachable(reached())


class TestAbsence:
    """100 members, 20 removed for a sensitive condition, a sample of 8; the limit is .3."""

    @staticmethod
    def told(before: int, at_most: float = 0.3):
        policy = policy_from(changed(SMALL, removal__absence_posterior_at_most=at_most))
        return absence_tells_too_much(policy, (20, 80), 8, before, ("ours/0001",) if before else ())

    def test_within_the_limit_nothing_stands_against_a_change(self):
        assert self.told(before=0) == ("", "")

    def test_where_the_sample_alone_tells_too_much_no_release_is_named(self):
        """.2 / (.2 + .8 * .9) = .217, whatever was released before."""
        gate, because = self.told(before=40, at_most=0.21)
        assert gate == ABSENCE and "ours/0001" not in because
        assert because.startswith(
            "20 of 100 members were removed for what their claims disclose, which is too many however few"
        )

    def test_what_helps_is_a_number_that_holds(self):
        """1,000 removed of 10,000: .1 / (.1 + .9 * (1 - 3333 / 9000)) = .15.

        The number that is told lies four standard deviations of a sample's size below.
        """
        assert what_helps_against_absence(1_000, 9_000, 0, 0.15).startswith("at most about 3,200 of 9,000 eligible members")
        assert what_helps_against_absence(1_000, 9_000, 3_000, 0.15).startswith("at most about 290 of 9,000")
        assert what_helps_against_absence(1_000, 9_000, 3_300, 0.15).startswith("1,000 of 10,000 members were removed")

    def test_where_earlier_releases_are_why_they_are_named(self):
        gate, because = self.told(before=40)
        assert gate == ABSENCE and "and are in ours/0001;" in because
