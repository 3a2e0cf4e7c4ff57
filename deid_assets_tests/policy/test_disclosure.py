"""Sections on disclosure: nothing gates by default, a limit gates, and a limit that would hold for nothing is refused."""

import pytest
import yaml

from deid_assets.assessments.assessment import CANARIES
from deid_assets.assessments.registry import required_measurements
from deid_assets.errors import PolicyError
from deid_assets.policy.loading import SHIPPED, policies_in, policy_by_name, policy_from
from deid_assets.reports.plain_words import explain
from deid_assets_tests.policy.cohort_values import cohort_values
from deid_assets_tests.policy.policy_texts import DISCLOSURE_LIMITS, example_policy, public_values, refusal
from deid_assets_tests.scenarios.test_flat_release import FLAT

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


NOBODY_REMOVED = {"removal__code_list": None, "removal__rare_visible_diseases": False}


def limits(factor=None, posterior=None, disappearance=None) -> dict:
    return {
        "removal__absence_factor_at_most": factor,
        "removal__absence_posterior_at_most": posterior,
        "removal__disappearance_posterior_at_most": disappearance,
    }


def demanded(policy) -> dict[str, float | None]:
    """The demands on absence and on changes of membership, with their thresholds."""
    names = ("absence_factor", "absence_posterior", "disappearance_posterior", "rotation_posterior", "appearance_posterior")
    return {one.measurement: one.threshold for one in required_measurements(policy) if one.measurement in names}


def test_a_policy_from_before_the_factor_keeps_its_hash_and_its_gates():
    policy = policy_from(public_values())
    assert policy.section_hash("removal") == "9254c0e18bd184a7dd41e5f01e3f6993639e07e689d290cb6c434d9a8d0c983c"
    assert demanded(policy) == dict.fromkeys(("absence_posterior", "disappearance_posterior", "appearance_posterior"), 0.15)
    assert policy_from(public_values(**limits(posterior=0.15))).hash == policy.hash
    assert policy_from(public_values(**limits(1.25, 0.15))).hash != policy.hash


@pytest.mark.parametrize(
    ("name", "absence", "changes"),
    [
        ("heritage", {"absence_factor": 1.25}, {"rotation_posterior": 0.15}),
        ("heritage_public", {"absence_factor": 1.25}, {"rotation_posterior": 0.15}),
        ("desynpuf", {"absence_factor": 1.7}, {"disappearance_posterior": 0.3}),
        ("claims_dates", {"absence_factor": 1.7}, {"disappearance_posterior": 0.3}),
    ],
)
def test_shipped_policies_limit_the_factor(name, absence, changes):
    found = {"appearance_posterior": max(changes.values())} | changes | absence
    assert demanded(policy_by_name(name)) == found


def test_both_limits_gate_where_both_are_set():
    found = demanded(policy_from(public_values(**limits(1.2, 0.14, 0.1))))
    assert found == {
        "absence_factor": 1.2, "absence_posterior": 0.14, "disappearance_posterior": 0.1, "appearance_posterior": 0.1
    }  # fmt: skip


def test_a_policy_that_removes_members_limits_absence_and_disappearance():
    absent, changed = refusal(**limits())
    assert absent.startswith("removal: members are removed for what their claims disclose, so that absence discloses it")
    assert "absence_factor_at_most" in absent and "absence_posterior_at_most" in absent
    assert changed.startswith("removal: ") and "set disappearance_posterior_at_most" in changed
    assert refusal(**limits(factor=1.25)) == [changed] and refusal(**limits(disappearance=0.1)) == [absent]
    policy_from(public_values(**limits(1.25, None, 0.15)))
    policy_from(public_values(**limits(posterior=0.15)))


@pytest.mark.parametrize("own", [{"removal__code_list": None}, {"removal__rare_visible_diseases": False}])
def test_either_list_removes_members(own):
    assert len(refusal(**own, **limits())) == 2


def test_where_nobody_is_removed_absence_discloses_nothing_and_needs_no_limit():
    assert demanded(policy_from(public_values(**NOBODY_REMOVED, **limits()))) == {}
    everybody = policy_from(public_values(sample={"fraction": 1.0}, **NOBODY_REMOVED, **limits(factor=1.25)))
    assert demanded(everybody) == {}, "all may be released"


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        (
            limits(factor=2.01),
            "removal.absence_factor_at_most: 2.01 is not allowed: it must be at most 2: beyond it, more than",
        ),
        (limits(factor=1.0), "removal.absence_factor_at_most"),
        (limits(1.25, None, 0.51), "removal.disappearance_posterior_at_most: 0.51 is not allowed: it must be at most 0.5"),
    ],
)
def test_limits_have_ranges(own, reason):
    with pytest.raises(PolicyError) as error:
        policy_from(public_values(**own))
    assert reason in str(error.value)


@pytest.mark.parametrize("values", [FLAT, cohort_values()], ids=["flat", "cohort"])
def test_policies_of_other_kinds_cannot_remove_people_for_what_is_known_of_them(values):
    """So their absence has no condition to disclose, and they need no limit on it."""
    assert demanded(policy_from(values)) == {}
    with pytest.raises(PolicyError, match="removal"):
        policy_from(values | {"removal": public_values()["removal"]})
