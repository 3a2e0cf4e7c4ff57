"""The sections of a changed policy: put in the place of the policy's own, they make a policy that says the change."""

import pytest
import yaml

from deid_assets.methods.lattice.diagnosis import PolicyChange
from deid_assets.policy.changes import changed_sections, leaving_together
from deid_assets.policy.loading import policy_by_name, policy_from, with_sections
from deid_assets.policy.yaml_text import parse
from deid_assets_tests.policy.policy_texts import public_values, with_levels_of_its_own
from deid_assets_tests.scenarios.policies import SMALL, changed


def applied(values: dict, change: PolicyChange):
    """The policy with the sections pasted in, as the product reads YAML."""
    text = changed_sections(policy_from(values), change)
    sections = parse(text)
    assert not sections.faults
    return policy_from(values | sections.values), sections.values


def test_a_column_that_goes_takes_its_dimension_along():
    policy, sections = applied(public_values(), PolicyChange(("length_of_stay", "sex")))
    assert set(sections) == {"quasi_identifiers", "dimensions"}
    before = policy_from(public_values())
    assert {qi.column for qi in before.quasi_identifiers.all} - {qi.column for qi in policy.quasi_identifiers.all} == {
        "length_of_stay",
        "sex",
    }
    assert "length_of_stay" not in {column for dimension in policy.dimensions for column in dimension.columns}
    assert policy.section_hash("risk", "hierarchies", "removal") == before.section_hash("risk", "hierarchies", "removal")


def test_of_columns_that_move_together_the_other_stays():
    policy, _ = applied(public_values(), PolicyChange(("days_in_hospital_y2",)))
    assert ("days_in_hospital_y3",) in {dimension.columns for dimension in policy.dimensions}


def test_a_dimension_that_goes_is_no_level_in_which_claims_are_cut_any_more():
    before = policy_from(public_values())
    assert set(before.number_of_claims.reference) == {"age", "days_in_hospital"}
    policy, sections = applied(public_values(), PolicyChange(("age",)))
    assert set(sections) == {"quasi_identifiers", "dimensions", "number_of_claims"}
    assert policy.number_of_claims.reference == {"days_in_hospital": "none or any"}
    assert (policy.number_of_claims.per, policy.number_of_claims.width) == (
        before.number_of_claims.per,
        before.number_of_claims.width,
    )
    policy, _ = applied(public_values(), PolicyChange(("age", "days_in_hospital_y2", "days_in_hospital_y3")))
    assert policy.number_of_claims.reference == {}
    _, sections = applied(public_values(), PolicyChange(("days_in_hospital_y3",)))
    assert set(sections) == {"quasi_identifiers", "dimensions"}, "the dimension stays with the other year"


@pytest.mark.parametrize(
    ("name", "column", "sensitive", "inferred"),
    [
        ("tuva", "condition_group", ("charlson", "drug"), None),
        ("omop", "drug", ("condition",), ("condition", "provider", "age")),
    ],
)
def test_a_column_that_goes_is_not_sensitive_any_more_and_not_predicted(name, column, sensitive, inferred):
    before = policy_by_name(name)
    policy = with_sections(before, **yaml.safe_load(changed_sections(before, PolicyChange((column,)))))
    assert policy.sensitive_columns == sensitive
    assert policy.inference.columns == (before.inference.columns if inferred is None else inferred)


def test_without_the_only_sensitive_column_those_that_usually_are_are_judged():
    values = public_values() | {"attribute_disclosure": {"sensitive": ["condition_group"], "t_at_most": 0.3}}
    policy, _ = applied(values, PolicyChange(("condition_group",)))
    assert policy.sensitive_columns == ("charlson", "days_in_hospital_y2", "days_in_hospital_y3")
    assert policy.attribute_disclosure.t_at_most == 0.3


def test_what_is_left_of_a_dimension_calls_its_levels_by_the_column_that_is_first_now():
    values = with_levels_of_its_own(public_values())
    policy, _ = applied(values, PolicyChange(("days_in_hospital_y2",)))
    assert policy.number_of_claims.reference == {"age": "40 years", "days_in_hospital": "days of year 3: none or any"}
    _, sections = applied(values, PolicyChange(("days_in_hospital_y3",)))
    assert "number_of_claims" not in sections


def test_more_suppression_leaves_the_rest_of_the_section():
    values = public_values()
    policy, sections = applied(values, PolicyChange(suppress_at_most=0.07))
    assert set(sections) == {"risk"} and policy.risk.suppression.at_most == 0.07
    before = policy_from(values).risk
    assert policy.risk.model_copy(update={"suppression": before.suppression}) == before


@pytest.mark.parametrize(
    "change",
    [
        PolicyChange(("age", "days_in_hospital_y2")),
        PolicyChange(("place",)),
        PolicyChange(("age", "sex", "days_in_hospital_y2")),
    ],
    ids=["no dimension is left", "no claim-level column", "no member-level column"],
)
def test_what_no_policy_can_hold_is_said_by_none(change):
    assert changed_sections(policy_from(changed(SMALL)), change) is None


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("claims_dates", ("service_interval", "service_period")),
        ("heritage", ("days_in_hospital_y2", "claims_truncated")),
    ],
)
def test_columns_that_no_policy_has_alone_leave_together(name, columns):
    policy = policy_by_name(name)
    together = leaving_together(policy)
    assert {columns[0], *together[columns[0]]} == set(columns)
    assert changed_sections(policy, PolicyChange(columns[:1])) is None
    after = with_sections(policy, **yaml.safe_load(changed_sections(policy, PolicyChange(columns))))
    assert not {qi.column for qi in after.quasi_identifiers.all} & set(columns)
    assert after.dates is None or policy.name != "claims_dates"
    every = [qi.column for qi in policy.quasi_identifiers.all]
    for column in every:
        assert changed_sections(policy, PolicyChange((column, *together.get(column, ())))) is not None, column


def test_a_floor_of_a_column_goes_with_it():
    values = public_values(detail_at_least={"AgeAtFirstClaim": 0.1, "LengthOfStay": 0.1})
    policy, sections = applied(values, PolicyChange(("age",)))
    assert sections["detail_at_least"] == policy.detail_at_least == {"LengthOfStay": 0.1}
    _, sections = applied(values, PolicyChange(("sex",)))
    assert "detail_at_least" not in sections


def test_nobody_who_opted_out_is_named():
    values = public_values(opt_outs={"members": ["A PERSON"]})
    text = changed_sections(policy_from(values), PolicyChange(("sex",)))
    assert "A PERSON" not in text and set(yaml.safe_load(text)) == {"quasi_identifiers", "dimensions"}
