"""What each rule needs of a delivery: what is not met refuses, and only the policy switches a need off."""

import pytest

from deid_assets.methods.preparation.rule_figures import Figure
from deid_assets.policy.loading import load_policy, policy_by_name, policy_from, shipped_policies
from deid_assets.policy.rules.needs import Need, judged_needs, needs_of
from deid_assets.reference.known_columns import DIAGNOSES
from deid_assets.reports.plain_words import explain
from deid_assets_tests.policy.policy_texts import example_policy, public_values, refusal
from deid_assets_tests.policy.test_dates import with_dates

WHOLE = Figure(1_000_000, 1_000_000)


def unmet(policy, **figures: Figure) -> set[str]:
    """Rules that cannot apply where all is as it should be but these figures; '__' stands for '/'."""
    given = {name.replace("__", "/"): figure for name, figure in figures.items()}
    every = {need.figure: WHOLE for need in needs_of(policy)}
    assert set(given) <= set(every), "no rule needs this"
    return {one.need.rule for one in judged_needs(policy, every | given) if not one.met}


@pytest.fixture(scope="module")
def public():
    return example_policy()


LISTS = {"removal.code_list"}
WITH_PROCEDURES = {"removal.code_list", "removal.non_procedure_claims"}
FEW = Figure(4, 10)


@pytest.mark.parametrize(
    ("figure", "rules"),
    [
        ("coded_claims__diagnosis", LISTS),
        ("coded_claims__procedure", WITH_PROCEDURES),
        ("coded_claims__place", LISTS),
        *((f"readable_codes__diagnosis_{number}", LISTS) for number in range(1, 5)),
        ("readable_codes__cpt", WITH_PROCEDURES),
        ("readable_codes__place", LISTS),
        ("icd9_diagnoses", {"diagnosis_codes"}),
        ("newborn_claims", {"removal.newborn_days"}),
    ],
)
def test_a_need_that_is_not_met_names_its_rule(public, figure, rules):
    assert unmet(public, **{figure: FEW}) == rules


def test_what_a_column_holds_counts_and_an_empty_one_is_the_need_of_another(public):
    assert unmet(public, readable_codes__diagnosis_4=Figure(0, 0)) == set()
    assert unmet(public, readable_codes__diagnosis_4=Figure(98, 100)) == LISTS
    assert unmet(public, readable_codes__diagnosis_4=Figure(99, 100)) == set()


@pytest.mark.parametrize(
    ("members", "found", "refused"), [(500, 0, False), (1_000, 0, True), (200_000, 800, True), (200_000, 960, False)]
)
def test_a_list_that_finds_implausibly_few_was_not_read(public, members, found, refused):
    assert bool(unmet(public, sensitive_members=Figure(found, members))) == refused


def test_rare_diseases_are_missed_in_large_deliveries_only(public):
    assert unmet(public, rare_visible_members=Figure(0, 3_000)) == set()
    assert unmet(public, rare_visible_members=Figure(0, 30_000)) == {"removal.rare_visible_diseases"}


def test_what_a_delivery_may_lack_is_said_by_the_policy_only():
    values = public_values(
        removal__coded_claims_at_least={"procedure": None, "place": None},
        removal__sensitive_members_at_least=None,
        removal__rare_visible_members_at_least=None,
        removal__newborn_days=None,
    )
    figures = {need.figure for need in needs_of(policy_from(values))}
    assert not figures & {"coded_claims/procedure", "coded_claims/place", "sensitive_members", "newborn_claims"}
    assert {"coded_claims/diagnosis", "readable_codes/cpt", "readable_codes/place", "icd9_diagnoses"} <= figures


def test_rules_that_are_off_need_nothing_but_diagnoses_that_can_be_read():
    """Groups and the Charlson index are made of them."""
    values = public_values(
        removal__code_list=None, removal__rare_visible_diseases=False, removal__newborn_days=None,
        removal__non_procedure_claims=False,
    )  # fmt: skip
    needs = needs_of(policy_from(values))
    assert {need.rule for need in needs} == {"diagnosis_codes"} and needs[0].figure == "icd9_diagnoses"
    assert {need.figure for need in needs[1:]} == {f"readable_codes/{column}" for column in (*DIAGNOSES, "further_diagnoses")}


def test_the_coding_system_is_named_first_and_no_rule_is_turned_off_for_it(public):
    first, *others = needs_of(public)
    assert first.figure == "icd9_diagnoses" and "correct it, or the source section" in first.remedy
    assert not any("code_list: null" in need.remedy for need in (first, *others))


def test_rare_diseases_alone_need_diagnoses():
    values = public_values(removal__code_list=None, removal__non_procedure_claims=False, removal__newborn_days=None)
    figures = {need.figure for need in needs_of(policy_from(values))}
    assert {"coded_claims/diagnosis", "icd9_diagnoses", "rare_visible_members"} <= figures
    assert not figures & {"coded_claims/place", "readable_codes/cpt", "sensitive_members"}


def test_an_extract_is_no_larger_than_its_population():
    policy = policy_by_name("desynpuf")
    assert unmet(policy, population=Figure(9_999, 10_000)) == {"risk.population_size"}
    assert unmet(policy, population=Figure(10_000, 10_000)) == set()


def test_narrower_dates_need_age_and_sex():
    policy = policy_from(public_values(**with_dates(narrower={"width": 5, "class_size_at_least": 1000})))
    assert unmet(policy, age_and_sex=Figure(8, 10)) == {"dates.narrower"}


@pytest.mark.parametrize("path", shipped_policies(), ids=lambda path: path.stem)
def test_policy_check_prints_every_need(path):
    policy = load_policy(path)
    text = explain(policy)
    assert all(f"  - {need.stated}" in text for need in needs_of(policy))
    assert needs_of(policy)


def test_policies_that_expect_no_procedures_say_so():
    for name in ("desynpuf", "claims_dates"):
        assert "a delivery may lack codes of procedure, and no list searches them" in explain(policy_by_name(name))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("readable_codes_at_least", 0.49),
        ("sensitive_members_at_least", 1e-9),
        ("rare_visible_members_at_least", 1e-9),
        ("known_newborn_claims_at_least", 0.1),
        ("coded_claims_at_least", {"diagnosis": 0.01}),
    ],
)
def test_a_need_is_not_lowered_to_nothing(key, value):
    (line,) = refusal(**{f"removal__{key}": value})
    assert line.startswith(f"removal.{key}") and "it must be at least" in line


def refused(policy, figure: str, found: Figure) -> str:
    every = {need.figure: WHOLE for need in needs_of(policy)}
    one, *_ = [judged for judged in judged_needs(policy, every | {figure: found}) if not judged.met]
    return one.text


def test_the_text_of_a_refusal_has_no_count(public):
    need = Need("removal.code_list", "coded_claims/diagnosis", "the claims", 0.5, "Do this")
    text = refused(public, "coded_claims/diagnosis", Figure(1_234, 98_765))
    assert "1234" not in text and "98765" not in text and "1,234" not in text
    assert not need.met(Figure(1, 3)) and need.met(Figure(0, 0))


@pytest.mark.parametrize(
    ("figure", "found", "said"),
    [
        ("readable_codes/cpt", Figure(370, 1_000), "this delivery has about 35 %."),
        ("readable_codes/cpt", Figure(9_899, 10_000), "this delivery has about 95 %."),
        ("readable_codes/cpt", Figure(1, 99), "this delivery has fewer."),
        ("newborn_claims", Figure(370, 1_000), "this delivery has fewer."),
        ("sensitive_members", Figure(1, 100_000), "this delivery has fewer."),
    ],
)
def test_a_share_of_codes_is_told_unless_they_are_few_and_no_share_of_people(public, figure, found, said):
    """Not rounded up: what is refused for less than 99 % never has 99 %."""
    assert said in refused(public, figure, found)
