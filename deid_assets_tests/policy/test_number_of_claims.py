"""The section of the number of claims: what it must name, and gates that could not fail or not pass."""

import pytest

from deid_assets.assessments.neighbor_attack import WITH_VALUES
from deid_assets.assessments.number_of_claims import NUMBERED
from deid_assets.assessments.registry import required_measurements
from deid_assets.errors import PolicyError
from deid_assets.policy.loading import policy_from
from deid_assets.reports.plain_words import explain
from deid_assets_tests.policy.policy_texts import example_policy, public_values, refusal, with_levels_of_its_own
from deid_assets_tests.policy.test_limits import SHIPPED, with_value

SECTION = {"per": "member", "width": 5, "reference": {"age": "40 years", "days_in_hospital": "none or any"}}


def required(policy) -> dict[str, float]:
    return {found.measurement: found.threshold for found in required_measurements(policy)}


def test_the_default_policy_gates_on_it_and_one_without_the_section_does_not():
    policy = example_policy()
    assert policy.number_of_claims.width == 5 and required(policy)[NUMBERED] == policy.risk.max_high_risk_share
    silent = policy_from(public_values(number_of_claims=None))
    assert NUMBERED not in required(silent) and silent.measured_number_of_claims.width == 5


def test_values_besides_gate_only_where_the_policy_says_so():
    assert WITH_VALUES not in required(example_policy())
    gated = policy_from(public_values(number_of_claims=SECTION | {"with_values": {"at_most": 0.1}}))
    assert required(gated)[WITH_VALUES] == 0.1


def test_the_levels_of_a_dimension_are_called_as_those_of_its_first_column():
    values = with_levels_of_its_own(public_values())
    policy = policy_from(values)
    assert policy.reference_level("days_in_hospital_y2") == policy.reference_level("days_in_hospital_y3") == 4


def test_reference_levels_are_numbered():
    policy = policy_from(public_values(number_of_claims=SECTION))
    assert [policy.reference_level(column) for column in ("age", "sex", "days_in_hospital_y3")] == [4, 0, 4]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reference": {"age": "40 years"}}, "number_of_claims.reference: names no level of days_in_hospital"),
        ({"reference": SECTION["reference"] | {"sex": "any"}}, "number_of_claims.reference.sex: is not a dimension of members"),
        ({"reference": SECTION["reference"] | {"length_of_stay": "days"}}, "length_of_stay: is not a dimension of members"),
        ({"reference": SECTION["reference"] | {"age": "30 years"}}, "number_of_claims.reference.age: has no level '30 years'"),
        ({"width": 51}, "must be at most 50"),
        ({"width": 0}, "must be at least 1"),
        ({"with_values": {"at_most": 0.4}}, "number_of_claims.with_values.at_most: 0.4 is not allowed"),
        ({"with_values": {"at_most": 0.001}}, "10000 trials of attack_sensitivity are too few"),
        ({"width": 25}, "attack_sensitivity.number_of_claims_widths: does not list 25"),
    ],
)
def test_what_cannot_hold_is_refused(changes, message):
    lines = refusal(number_of_claims=SECTION | changes)
    assert message in lines[0], lines


@pytest.mark.parametrize(
    ("long_tail", "fits"),
    [
        ({"width": 10, "unit": "member"}, True),
        ({"width": 7, "unit": "member"}, False),
        ({"width": 10, "unit": "member_year"}, False),
    ],
)
def test_bins_of_the_long_tail_are_made_of_these(long_tail, fits):
    """Claims are cut twice: bins of the first cut stay whole only if they are unions of the second's."""
    tail = {"method": "bins", "risk": 0.1, "score": "support"} | long_tail
    values = {"number_of_claims": SECTION, "long_tail": tail}
    if fits:
        policy_from(public_values(**values))
    else:
        (line,) = refusal(**values)
        assert line.startswith("number_of_claims.width: does not fit the bins of long_tail")


def test_years_that_follow_from_dates_drawn_later_cannot_be_counted():
    with pytest.raises(
        PolicyError, match="number_of_claims.per: is member_year, but the year of a claim follows from its released"
    ):
        policy_from(with_value(SHIPPED["claims-dates"], "number_of_claims.per", "member_year"))


def test_the_explanation_says_what_is_cut_and_what_gates():
    told = explain(example_policy())
    assert "claims are cut until every bin of 5 is empty or contains 20 members of every class" in told
    assert "(age: 40 years, days_in_hospital: none or any)" in told
    assert "who knows that number and values of claims is measured and reported, but not gated" in told
    assert "to within 5, is measured and reported, but not gated" in explain(policy_from(public_values(number_of_claims=None)))
    gated = public_values(number_of_claims=SECTION | {"with_values": {"at_most": 0.1}})
    assert "finds a target known to be in the release with probability at most 0.1" in explain(policy_from(gated))


def test_what_is_wrong_elsewhere_is_told_and_not_hidden_by_this_rule():
    values = public_values()
    values["quasi_identifiers"]["members"][0]["hierarchy"] = "agee"
    assert "there is no hierarchy 'agee'" in refusal(quasi_identifiers=values["quasi_identifiers"])[0]
