"""The gate refuses each thing once."""

from deid_assets.assessments.demographic_risk import DEMOGRAPHIC, demographic_measurements
from deid_assets.assessments.longitudinal_risk import high_risk_measurements
from deid_assets.methods.disclosure.demographic_classes import demographic_risk
from deid_assets.methods.kernel.node_computation import NodeMeasurement
from deid_assets.policy.loading import policy_by_name
from deid_assets.release.gate import judgement

POLICY = policy_by_name("heritage_public")


def refusals(population, released, staged_members):
    """What the gate says of the demographic classes, as `release` asks for it."""
    risk = demographic_risk(population, released, k=20)
    measured = demographic_measurements(POLICY, risk, 0.1, 0.1)
    return [*judgement.demographic_refusals(risk, staged_members), *judgement.measurement_refusals("gate", measured)]


def test_too_many_members_in_small_classes_are_one_refusal():
    (found,) = refusals((500, 19), (990, 10), 1_000)
    assert found.name == f"gate/{DEMOGRAPHIC}" and found.measured == 0.01


def test_classes_of_other_members_than_those_staged_are_refused():
    (found,) = refusals((500,), (990,), 991)
    assert found.rule == "inconsistent_rows"
    assert refusals((500,), (990,), 990) == []
    assert refusals((500,), (0,), 0)


def test_a_bound_that_refuses_is_called_a_bound():
    """Value and bound on different sides of the threshold: the text says which number was compared."""
    found = NodeMeasurement(7_900, 0, 1_000_000)
    refused, _ = judgement.measurement_refusals("gate", high_risk_measurements(POLICY, found, found, "c" * 64, 1))
    assert refused.text == "gate: high_risk_share, its upper bound, is not at most its threshold"
    assert refused.measured > refused.threshold == 0.008
