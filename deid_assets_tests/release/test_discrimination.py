"""Each gate alone refuses a release of which half the members are disclosed, at the laxest threshold that loads."""

from dataclasses import replace

import numpy as np
import pytest

from deid_assets.assessments.demographic_risk import DEMOGRAPHIC, demographic_measurements
from deid_assets.assessments.evidence import Evidence
from deid_assets.assessments.longitudinal_risk import high_risk_measurements
from deid_assets.assessments.registry import DISCLOSED, required_measurements, vacuity_refusals
from deid_assets.methods.disclosure.demographic_classes import demographic_risk
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.population.longitudinal_data import Domain, Histories, LongitudinalData
from deid_assets.policy.loading import load_policy, policy_from, shipped_policies
from deid_assets.policy.rules.limits import LONGITUDINAL
from deid_assets_tests.methods.cases import KEY
from deid_assets_tests.policy.policy_texts import EVERY_LIMIT, public_values
from deid_assets_tests.policy.test_limits import FLAT_VALUES, laxest, with_value
from deid_assets_tests.release.making import measurement

AT_LEAST = {"canaries_found", "smallest_class", "least_diversity"}
GATING = {limit for limit in LONGITUDINAL if limit.field.endswith(("at_most", "at_least", "threshold", "share"))}
CASES = sorted((limit for limit in GATING if not limit.field.startswith("dates.")), key=lambda limit: limit.field)


def gates(policy) -> list[Evidence]:
    """Evidence of every gate that the policy demands, with its own threshold and nothing at risk."""
    return [
        Evidence(needed.asset, "d", "h", "0" * 64, "1", (
            measurement(
                name=needed.measurement, unit="probability", value=needed.threshold, bound=None, confidence=None,
                threshold=needed.threshold, statistic="value", gating=True,
                comparison="at_least" if needed.measurement in AT_LEAST else "at_most",
            ),
        ))
        for needed in required_measurements(policy)
    ]  # fmt: skip


def disclosed_passes(policy) -> list[str]:
    """Gates that a release of which half the members are disclosed would pass."""
    return [
        f"{item.asset}/{one.name}"
        for item in gates(policy)
        for one in item.measurements
        if DISCLOSED[one.name] is not None and replace(one, value=DISCLOSED[one.name]).passed
    ]


@pytest.mark.parametrize("path", shipped_policies(), ids=lambda path: path.stem)
def test_the_gates_of_every_shipped_policy_refuse_it(path):
    policy = load_policy(path)
    assert disclosed_passes(policy) == [] and vacuity_refusals(policy, gates(policy)) == []


@pytest.mark.parametrize("limit", CASES, ids=lambda limit: limit.field)
def test_at_the_laxest_number_that_loads_every_gate_refuses_it(limit):
    policy = policy_from(with_value(public_values(**EVERY_LIMIT), limit.field, laxest(limit)))
    assert disclosed_passes(policy) == [] and vacuity_refusals(policy, gates(policy)) == []


def test_a_flat_policy_at_its_laxest_refuses_it():
    disclosure = {"homogeneous_share_at_most": 1 / 3, "l_at_least": 1.5, "t_at_most": 0.4999}
    policy = policy_from(FLAT_VALUES | {"risk": {"k": 3, "max_suppressed": 0.2}, "attribute_disclosure": disclosure})
    assert disclosed_passes(policy) == [] and vacuity_refusals(policy, gates(policy)) == []


@pytest.mark.parametrize("name", sorted(name for name, value in DISCLOSED.items() if value is not None))
def test_a_threshold_that_passes_it_is_refused_by_the_gate_whatever_the_policy_said(name):
    policy = policy_from(public_values(**EVERY_LIMIT))
    comparison = "at_least" if name in AT_LEAST else "at_most"
    lax = measurement(
        name=name, unit="probability", value=DISCLOSED[name], bound=None, confidence=None, threshold=DISCLOSED[name],
        statistic="value", gating=True, comparison=comparison,
    )  # fmt: skip
    (refusal,) = vacuity_refusals(policy, [Evidence("asset", "d", "h", "0" * 64, "1", (lax,))])
    assert refusal.rule == "vacuous_threshold" and f"asset/{name}" in refusal.text


def test_a_gate_of_which_nobody_said_what_it_would_be_is_refused():
    unknown = measurement(name="something_new", gating=True)
    (refusal,) = vacuity_refusals(policy_from(public_values()), [Evidence("asset", "d", "h", "0" * 64, "1", (unknown,))])
    assert "no value is known for a release that must be refused" in refusal.text


def test_a_policy_made_without_being_read_is_judged_too():
    policy = policy_from(public_values())
    lax = policy.model_copy(update={"risk": policy.risk.model_copy(update={"threshold": 0.999})})
    assert [refusal.rule for refusal in vacuity_refusals(lax, [])] == ["vacuous_policy"]


def half_laid_open(members: int) -> LongitudinalData:
    """One half of the members is alone with a column, the other half is all alike; everybody has one claim."""
    codes = np.maximum(np.arange(members) - members // 2, 0)
    claims = Histories.of([[0]] * members)
    return LongitudinalData(
        codes[:, None], (Domain((np.arange(members),)),), (claims,), (Domain((np.arange(1),)),), np.arange(members),
        (claims,), (np.ones(members, dtype=np.int8),),
    )  # fmt: skip


def test_measured_by_the_attacks_themselves_it_is_refused_at_the_laxest_thresholds():
    policy = policy_from(
        public_values(risk__threshold=1 / 3, risk__max_high_risk_share=0.1, demographics={"class_size_at_least": 3})
    )
    data = half_laid_open(400)
    found = NodeComputation(data, (), policy.safe_class_size).measure((), KEY, 2_000)
    assert found.share > 0.4
    assert not any(one.passed for one in high_risk_measurements(policy, found, found, "0" * 64, 1))
    classes = NodeComputation(data, (), k=1).drawn_classes((), KEY, 2_000)
    assert np.where(classes.exempt, 0, 1 / np.maximum(classes.sizes, 1)).mean() > 1 / 3
    sizes = np.unique(data.demographics, return_counts=True)[1]
    (small, *_) = demographic_measurements(policy, demographic_risk(sizes, sizes, k=3), 0.1, 0.1)
    assert small.name == DEMOGRAPHIC and not small.passed
