"""How a policy states the coding system of diagnoses, and which named sets of codes remove members."""

import pytest

from deid_assets.errors import PolicyError
from deid_assets.policy import policy_by_name
from deid_assets.policy.loading import policy_from
from deid_assets.policy.rules.needs import needs_of
from deid_assets.reports.plain_words import explain
from deid_assets_tests.policy.test_rule_needs import public_values
from deid_assets_tests.scenarios.policies import changed
from deid_assets_tests.scenarios.tables_delivery import TABLES


def test_a_policy_that_says_nothing_reads_icd_9_cm_and_keeps_its_hash():
    silent, stated = policy_from(TABLES), policy_from(changed(TABLES, diagnosis_codes="icd9cm"))
    assert silent.diagnosis_codes == "icd9cm" and silent.content() == stated.content()
    assert policy_from(changed(TABLES, diagnosis_codes="icd10cm")).content()["diagnosis_codes"] == "icd10cm"


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        ("icd9cm", "diagnoses are codes of ICD-9-CM\n"),
        ("icd10cm", "diagnoses are codes of ICD-10-CM\n"),
        ("by_date", "of ICD-10-CM from October 2015 on, and of ICD-9-CM before"),
        ({"from": "dx_type"}, "of the system that column dx_type of the claims names"),
    ],
)
def test_the_explanation_names_the_system(codes, words):
    policy = policy_from(changed(TABLES, diagnosis_codes=codes))
    assert words in explain(policy) and policy_from(policy.content()).diagnosis_codes == policy.diagnosis_codes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"diagnosis_codes": "icd11"}, "icd10cm"),
        ({"diagnosis_codes": {"from": ""}}, "diagnosis_codes"),
        ({"diagnosis_codes": "icd10cm", "grouping": {"charlson": "deyo"}}, "Deyo's list is of ICD-9-CM only"),
    ],
)
def test_what_cannot_be_known_is_an_error_of_the_policy(changes, message):
    with pytest.raises(PolicyError, match=message):
        policy_from(changed(TABLES, **changes))


def test_by_date_needs_dates():
    values = changed(TABLES, diagnosis_codes="by_date", source__years=None)
    people, columns = (values["source"][table]["columns"] for table in ("members", "claims"))
    people["age"] = people.pop("birth_date")
    values["source"]["claims"]["columns"] = {
        name: theirs for name, theirs in columns.items() if name not in ("service_date", "admission_date", "discharge_date")
    } | {"year": "day"}
    with pytest.raises(PolicyError, match="by_date needs the dates of claims"):
        policy_from(values)


def test_files_of_a_fixed_layout_have_no_column_of_systems():
    with pytest.raises(PolicyError, match="deliveries of kind synthetic have no column dx_type"):
        policy_from(public_values(diagnosis_codes={"from": "dx_type"}))


def test_the_twin_for_icd_10_cm_differs_from_the_default_in_the_coding_system_only():
    own, default = (policy_by_name(name).content() for name in ("claims_2026", "heritage_public"))
    differing = {key for key in own.keys() | default.keys() if own.get(key) != default.get(key)}
    assert differing == {"policy", "title", "description", "diagnosis_codes"}


def test_with_fills_the_rules_and_thresholds_are_the_same():
    own, claims = (policy_by_name(name).content() for name in ("claims_and_fills", "claims_2026"))
    differing = {key for key in own.keys() | claims.keys() if own.get(key) != claims.get(key)}
    of_columns = {"source", "columns", "quasi_identifiers", "dimensions", "hierarchies"}
    assert differing == {"policy", "title", "description", *of_columns}
    for name, hierarchy in claims["hierarchies"].items():
        levels = hierarchy.get("levels", hierarchy.get("level_names", ()))
        kept = own["hierarchies"][name].get("levels", own["hierarchies"][name].get("level_names", ()))
        assert [*kept] == [level for level in levels if level in kept], "no level that the other lacks"


LAYOUTS = {"sample", "inference", "attribute_disclosure"}


@pytest.mark.parametrize(
    ("name", "further"),
    [
        ("claims_2026_population", set()),
        ("tuva", LAYOUTS),
        ("omop", LAYOUTS | {"removal", "long_tail", "detail_at_least", "dates"}),
    ],
)
def test_policies_of_layouts_and_people_have_the_rules_and_thresholds_of_claims_and_fills(name, further):
    own, fills = (policy_by_name(one).content() for one in (name, "claims_and_fills"))
    differing = {key for key in own.keys() | fills.keys() if own.get(key) != fills.get(key)}
    of_columns = {"source", "columns", "quasi_identifiers", "dimensions", "hierarchies", "number_of_claims"}
    assert differing == {"policy", "title", "description", *of_columns, *further}
    known = own["number_of_claims"]
    assert known == fills["number_of_claims"] | {"reference": {"age": fills["number_of_claims"]["reference"]["age"]}}
    assert own["inference"] == fills["inference"] | {"columns": own["inference"]["columns"]}
    # Visits have neither codes nor places, and a year is that of a drawn date; every other rule stays.
    of_visits = {"non_procedure_claims": False, "coded_claims_at_least": {"diagnosis": None, "procedure": None, "place": None}}
    assert own["removal"] == fills["removal"] | (of_visits if "removal" in further else {})
    assert own["long_tail"] == fills["long_tail"] | ({"unit": "member"} if "long_tail" in further else {})


def test_de_synpuf_is_of_icd_9_cm():
    values = policy_by_name("desynpuf").content() | {"diagnosis_codes": "icd10cm"}
    with pytest.raises(PolicyError, match="DE-SynPUF is of 2008 to 2010"):
        policy_from(values)


class TestNamedSets:
    def test_they_remove_members_without_a_list(self):
        values = public_values(removal__code_list=None, removal__rare_visible_diseases=False, removal__sets=["hiv"])
        policy = policy_from(values)
        assert policy.removal.removes_members and policy.removal.listed_kinds == ("diagnosis", "procedure", "place")
        assert {"removal.sets"} == {need.rule for need in needs_of(policy) if need.figure == "sensitive_members"}
        assert "named sets hiv, with" in explain(policy)

    def test_a_policy_without_them_keeps_its_hash(self):
        assert policy_from(public_values()).content() == policy_from(public_values(removal__sets=[])).content()

    def test_a_set_that_does_not_exist_is_an_error(self):
        with pytest.raises(PolicyError, match="removal.sets"):
            policy_from(public_values(removal__sets=["gossip"]))
