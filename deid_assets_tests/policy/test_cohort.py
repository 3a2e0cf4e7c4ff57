"""Policies of kind cohort: what loads, what is refused, and what the public text shows."""

import pytest

from deid_assets.command_line.plan import planned_assets
from deid_assets.errors import PolicyError
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.loading import policy_from
from deid_assets.reports.cohort_report import caveats_of
from deid_assets.reports.plain_words import explain
from deid_assets_tests.policy.cohort_values import cohort_values

LEVELS = {"age": "5 years", "ethnicity": "any", "geography": "state", "sex": "sex"}
A_DATE = {"column": "admitted", "first": "2008-01-01", "last": "2008-12-31", "dated": 0.1}


def loaded(**changes: object) -> CohortPolicy:
    policy = policy_from(cohort_values(**changes))
    assert isinstance(policy, CohortPolicy)
    return policy


def refused(**changes: object) -> str:
    with pytest.raises(PolicyError) as caught:
        loaded(**changes)
    return str(caught.value)


def test_a_published_policy_and_its_levels_are_one_node():
    named, by_levels = loaded(demographics__policy="5_year"), loaded(demographics={"levels": LEVELS})
    assert named.demographic_policy.levels == by_levels.demographic_policy.levels == LEVELS


def test_a_date_needs_a_level_beside_a_published_policy():
    assert "exactly: date" in refused(columns__date=A_DATE)
    dated = loaded(columns__date=A_DATE, demographics__levels={"date": "year"})
    assert dated.demographic_policy.levels["date"] == "year"
    assert dated.layout.dates == {"date": "admitted"}


def test_the_release_has_pseudonyms_demographics_and_attributes_in_this_order():
    policy = loaded(columns__person__release_as="Person", attributes=[{"column": "a1c", "release_as": "HbA1c"}])
    assert policy.released_columns == ("Person", "Age", "Sex", "Race", "Place", "HbA1c")


def test_without_races_the_release_has_none():
    assert loaded(columns__race=None).demographic_columns == {"age": "Age", "sex": "Sex", "geography": "Place"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns__age": {"age": "age", "birth_year": "born"}}, "exactly one of age"),
        ({"columns__age": {"birth_date": "born"}}, "belongs to a birth"),
        ({"columns__age": {"birth_date": "born", "reference": "31.12.2008"}}, "2012-12-31"),
        ({"columns__race__values": {"1": "Asian", "2": "Other"}}, "White, Black and Other"),
        ({"columns__date": A_DATE | {"last": "2007-12-31"}, "demographics__levels": {"date": "year"}}, "before it starts"),
        ({"columns__place__zip": "zip", "population__kind": "p12"}, "only a tidy table"),
        ({"population__file": None}, "name one file"),
        ({"population__file": "../census.csv"}, "below the delivery's folder"),
        ({"population": {"kind": "pct12", "by_race": {"A": {"file": "a.csv"}}}}, "one file for each of A"),
        ({"population__kind": "estimates"}, "races of state estimates"),
        ({"demographics": {"levels": {"age": "5 years"}}}, "exactly: age, ethnicity, geography, sex"),
        ({"demographics__levels": {"age": "1 year"}}, "exactly: nothing"),
        ({"risk": {"no_riskier_than": None}}, "nothing could refuse"),
        ({"risk": {"measures": ["total", "graduated"], "thresholds": []}}, "need a threshold"),
        ({"risk": {"measures": ["largest"]}}, "total must be one of them"),
        ({"attributes": [{"column": "race", "release_as": "Group"}]}, "listed twice"),
        ({"attributes": [{"column": "note", "release_as": "age"}]}, "two columns age"),
        ({"attributes": [{"column": "mail", "release_as": "Mail", "role": "email"}]}, "free"),
        ({"reviewed_attributes": {"Note": "because"}}, "not one of the attributes"),
        ({"hierarchies": {"age": {"kind": "fixed"}}}, "hierarchies"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(changes, message):
    assert message in refused(**changes)


def test_the_public_text_names_no_file():
    shares = {"file": "bands.csv", "year": 2008}
    policy = loaded(population={"kind": "estimates", "file": "secret.csv", "race_shares": shares})
    text = str(policy.public_content())
    assert "secret.csv" not in text and "bands.csv" not in text and "cohort.csv" not in text


def test_the_policy_in_plain_words():
    policy = loaded(
        columns__person__release_as="Person",
        demographics={"policy": "10_year", "old_ages": {"by": "state", "levels": ["5 years", "1 year, 90+"]}},
        attributes=[{"column": "a1c", "release_as": "HbA1c"}],
        reviewed_attributes={"HbA1c": "rare values are rounded"},
        risk={"measures": ["total", "graduated"], "thresholds": [10], "compared": "expected", "largest_at_most": 0.2},
    )
    text = explain(policy)
    for line in (
        "Person: a pseudonym that differs in every delivery",
        "HbA1c (a1c): as it is; reviewed: rare values are rounded",
        "Age: age at the level 10 years",
        "ages from 90 on: for each state the finest of 5 years, 1 year, 90+ that is no riskier than Safe Harbor",
        "by total and graduated risk, T = 10, the expected risk does not exceed the expected risk of Safe Harbor",
        "nobody is re-identified with a probability above 0.2",
    ):
        assert f"  - {line}" in text


def test_a_plan_makes_everything_up_to_the_measured_risk():
    assert planned_assets(loaded())[-1] == "cohort_risk"


@pytest.mark.parametrize(
    ("changes", "said", "unsaid"),
    [
        ({}, "The upper bound of a policy is compared", "Expected risks are compared"),
        ({"risk": {"compared": "expected"}}, "Expected risks are compared", "The upper bound of a policy is compared"),
        ({"risk": {"no_riskier_than": None, "largest_at_most": 0.05}}, "errors of the census", "compared"),
        (
            {"columns__date": A_DATE, "demographics__levels": {"date": "year"}},
            "10 % of the population have such a date",
            "T = ",
        ),
    ],
    ids=["upper bound", "expected", "no comparison", "date"],
)
def test_the_report_says_what_the_numbers_do_not(changes, said, unsaid):
    limits = " ".join(caveats_of(loaded(**changes)))
    assert said in limits and unsaid not in limits and "Two releases of one cohort" in limits


def test_what_is_taken_of_the_population_is_told_in_plain_words():
    dated = explain(loaded(columns__date=A_DATE, demographics__levels={"date": "year"}))
    assert "10 % of the population are taken to have such a date from 2008-01-01 to 2008-12-31" in dated
    estimates = explain(
        loaded(columns__race=None, population={"kind": "estimates", "file": "a.csv", "count": "POPESTIMATE2008"})
    )
    assert "its column POPESTIMATE2008" in estimates
