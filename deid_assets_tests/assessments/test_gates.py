"""What every gate says of itself, so that no list elsewhere has to know it."""

import math
from dataclasses import replace

import pytest

from deid_assets.assessments.assessment import Gate
from deid_assets.assessments.evidence import EXPOSURES, Exposure, Requirement, judge
from deid_assets.assessments.registry import ASSESSMENTS, gates_of, noise_plan
from deid_assets.policy import policy_by_name
from deid_assets.policy.loading import policy_from, shipped_policies
from deid_assets.release.manifest.public_numbers import PublicNumbers
from deid_assets.reports.determination_texts import precedent_of
from deid_assets_tests.policy.cohort_values import cohort_values
from deid_assets_tests.release.test_evidence import CONTEXT, evidence
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
