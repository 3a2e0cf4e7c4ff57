"""Sections on disclosure: nothing gates by default, a limit gates, and a limit that would hold for nothing is refused."""

import pytest
import yaml

from deid_assets.assessments.assessment import CANARIES
from deid_assets.assessments.registry import required_measurements
from deid_assets.errors import PolicyError
from deid_assets.policy.loading import SHIPPED, policies_in, policy_from
from deid_assets.reports.plain_words import explain
from deid_assets_tests.policy.policy_texts import DISCLOSURE_LIMITS, example_policy, public_values, refusal

ASSESSMENTS = ("population_estimates", "attribute_disclosure", "membership_disclosure", "provider_graph_attack")


def limits_on_disclosure(policy):
    """What a policy requires of these assessments, besides their canaries."""
    return tuple(one for one in required_measurements(policy) if one.asset in ASSESSMENTS and one.measurement != CANARIES)


@pytest.mark.parametrize("policy", policies_in().values(), ids=lambda policy: policy.name)
def test_the_policies_that_ship_measure_all_and_gate_nothing_for_which_no_source_has_a_threshold(policy):
    assert limits_on_disclosure(policy) == ()
    claims, days = ("condition_group", "charlson"), ("days_in_hospital_y2", "days_in_hospital_y3")
    others = {
        "claims_dates": claims, "claims_2026_population": claims, "tuva": (*claims, "drug"), "omop": ("condition", "drug")
    }  # fmt: skip
    assert policy.sensitive_columns == others.get(policy.name, (*claims, *days))


def test_sections_that_are_left_out_count_as_their_defaults():
    values = public_values()
    for section in ("population_estimates", "attribute_disclosure", "membership", "provider_graph"):
        del values[section]
    assert policy_from(values).hash == example_policy().hash


def test_every_limit_is_demanded():
    demanded = limits_on_disclosure(policy_from(public_values(**DISCLOSURE_LIMITS)))
    assert sorted(one.threshold for one in demanded) == sorted(DISCLOSURE_LIMITS.values())


def test_a_column_that_is_not_published_cannot_be_judged():
    quasi_identifiers = public_values()["quasi_identifiers"]
    quasi_identifiers["claims"] = [one for one in quasi_identifiers["claims"] if one["column"] != "specialty"]
    changes = {"quasi_identifiers": quasi_identifiers, "attribute_disclosure__sensitive": ["specialty", "charlson"]}
    (line,) = refusal(**changes)
    assert line.startswith("attribute_disclosure.sensitive[0]: specialty is not published")


def test_a_column_listed_twice_or_unknown_is_refused():
    assert "listed twice" in refusal(attribute_disclosure__sensitive=["place", "place"])[0]
    assert "condition_group" in refusal(attribute_disclosure__sensitive=["diagnosis"])[0]
    assert "at least 1" in refusal(attribute_disclosure__sensitive=[])[0]


def omop(**limits):
    """The shipped policy of visits without codes, with other limits on attributes."""
    values = yaml.safe_load((SHIPPED / "omop.yaml").read_text())
    return policy_from(values | {"attribute_disclosure": limits}, SHIPPED)


def test_a_declared_column_of_any_table_may_be_sensitive():
    assert omop(sensitive=["drug", "sex"], l_at_least=2).sensitive_columns == ("drug", "sex")


@pytest.mark.parametrize("column", ["charlson", "service_period", "service_date", "birth_date"])
def test_dates_and_an_index_without_diagnoses_cannot_be_judged(column):
    with pytest.raises(PolicyError, match=rf"sensitive\[0\]: {column} is not published.*\(age, sex, .*drug.*\)"):
        omop(sensitive=[column])


def test_a_limit_on_no_column_is_refused_and_no_limit_is_not():
    assert omop().sensitive_columns == ()
    with pytest.raises(PolicyError, match="t_at_most: cannot gate, because no column is sensitive"):
        omop(t_at_most=0.3)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("attribute_disclosure__l_at_least", 1),
        ("attribute_disclosure__t_at_most", 1.0),
        ("membership__presence_at_most", 0.0),
        ("membership__advantage_at_most", 1.0),
        ("provider_graph__graph_success_at_most", 1.0),
        ("provider_graph__patterns_known", 0),
        ("population_estimates__small_class_share_at_most", 1.0),
        ("population_estimates__estimator", "counted"),
    ],
)
def test_limits_that_could_not_fail_are_refused(field, value):
    assert len(refusal(**{field: value})) == 1


def test_what_is_measured_and_what_gates_is_explained():
    plain = explain(example_policy())
    assert "looked for by 5 patterns of care" in plain
    assert "provider graph attack: probability that an adversary who knows patterns of care" in plain
    limited = explain(policy_from(public_values(**DISCLOSURE_LIMITS)))
    for text in (
        "estimated by truncated_poisson", "is in a small demographic class, by the estimate and, where there is one, by the "
        "count (limit 0.01)", "is unique by demographics, by the estimate and, where there is one, by the count (limit 0.0004)",
        "diversity is distinct", "of every sensitive attribute (l-diversity) (limit 2)", "(t-closeness) (limit 0.3)",
        "that its members are in the release (limit 0.5)", "is at most the allowed one (limit 0.1)",
        "who knows patterns of care of a provider re-identifies them with at most the allowed probability (limit 0.05)",
    ):  # fmt: skip
        assert text in limited
