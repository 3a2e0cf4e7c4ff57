"""Suppressed values: where a policy cannot have them, and how many."""

import pytest

from deid_assets.errors import PolicyError
from deid_assets.methods.population.value_domains import NOT_TOLD
from deid_assets.policy.explanation import explain
from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets_tests.policy.test_population_sections import DISCHARGES
from deid_assets_tests.scenarios.policies import SMALL, changed
from deid_assets_tests.scenarios.test_suppressed_values import WITH_VALUES

AT = "risk.suppression.values_at_most"


def test_none_are_suppressed_unless_a_policy_says_so():
    policy = policy_from(SMALL)
    assert policy.risk.suppression.values_at_most == 0
    assert not policy.suppresses_values
    assert policy_from(WITH_VALUES).suppresses_values


def test_the_explanation_says_how_many_and_what_an_adversary_then_knows():
    said = " ".join(explain(policy_from(WITH_VALUES)).split())
    assert "up to 30 % of the values" in said and "looks for members of whom a value is suppressed or missing" in said
    assert "suppressed or missing" not in " ".join(explain(policy_from(SMALL)).split())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"releases": {"pseudonyms": "stable"}}, "with stable pseudonyms"),
        ({"releases": {"generalization": "pinned"}}, "with a pinned generalization"),
        ({"risk__suppression__values_at_most": 0.51}, "most of a column would say nothing"),
        ({"risk__suppression__values_at_most": -0.1}, "must be at least 0"),
    ],
    ids=["stable pseudonyms", "pinned", "more than half", "negative"],
)
def test_where_they_cannot_be_is_an_error(change, reason):
    with pytest.raises(PolicyError, match=reason) as caught:
        policy_from(changed(WITH_VALUES, **change))
    assert AT in str(caught.value)


def test_not_with_released_dates():
    values = policy_by_name("claims_dates").model_dump(mode="json", by_alias=True, exclude_unset=True)
    values["risk"]["suppression"] = {"at_most": 0.0, "values_at_most": 0.1}
    with pytest.raises(PolicyError, match="cannot be combined with released dates"):
        policy_from(values)


def test_not_with_estimated_classes():
    values = changed(WITH_VALUES, risk__class_size="large_sample")
    with pytest.raises(PolicyError, match="cannot be combined with classes that are estimated"):
        policy_from(values)


def test_not_with_a_discharge_table(tmp_path):
    (tmp_path / "stays.csv").write_text("WHO,SEX\na,F\n", encoding="utf-8")
    with pytest.raises(PolicyError, match="cannot be combined with a discharge table"):
        policy_from(changed(WITH_VALUES, inpatient_attack={"table": DISCHARGES}), tmp_path)


PLACES = {"kind": "codes", "level_names": ["places", "any"], "values": {"Office": [NOT_TOLD], "Home": [NOT_TOLD]}}


def test_no_other_value_has_the_label_of_what_is_not_told():
    with pytest.raises(PolicyError, match="hierarchies.place: 'suppressed or missing' is what a release shows"):
        policy_from(changed(WITH_VALUES, hierarchies__place=PLACES))
    assert policy_from(changed(WITH_VALUES, hierarchies__place=PLACES, risk__suppression={"at_most": 0.0}))


def test_nor_in_a_hierarchy_that_is_a_file(tmp_path):
    (tmp_path / "places.csv").write_text(f"Office;{NOT_TOLD}\nHome;{NOT_TOLD}\n", encoding="utf-8")
    values = changed(WITH_VALUES, hierarchies__place={"kind": "csv", "file": "places.csv"})
    with pytest.raises(PolicyError, match="hierarchies.place: 'suppressed or missing' is what a release shows"):
        policy_from(values, tmp_path)
