"""Verdicts on policies: their names, their rounding, and what is joined or left out of what is shown."""

import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.assessments.demographic_verdicts import (
    CONFIDENCE,
    OTHER_STATES,
    Question,
    alternatives,
    judge,
    judged,
    policy_named,
    reference_of,
    to_three_digits,
)
from deid_assets.errors import PolicyError
from deid_assets.methods.demographics.attributes import date_attribute, published_alternatives, safe_harbor
from deid_assets.methods.demographics.class_sizes import ClassCounter
from deid_assets.methods.demographics.discovery import all_policies
from deid_assets.methods.demographics.risk import bounded_risks, groups_by, no_riskier, risks_at
from deid_assets.sources.demographics import cells_of_cohort
from deid_assets_tests import examples

RACES_JOINED = ("White", "Black", "Other")
STATES = ("MN", "WI", "IA", "ND")
PEOPLE = pd.DataFrame(
    [(state, sex, "all", age, age, 3 + age % 17) for state in STATES for sex in "FM" for age in range(120)],
    columns=["state", "sex", "race", "age_from", "age_to", "people"],
)


@given(st.floats(1e-12, 1e6))
def test_a_rounded_bound_is_a_bound(number):
    assert to_three_digits(number, up=True) >= number * (1 - 1e-9) and to_three_digits(number) == pytest.approx(
        number, rel=0.006
    )
    assert to_three_digits(number, up=True) == pytest.approx(number, rel=0.011)


@pytest.mark.parametrize("policy", [safe_harbor(), *published_alternatives()], ids=lambda policy: policy.name)
def test_published_policies_have_names(policy):
    assert policy_named(policy.name.lower().replace(" ", "_").replace("-", "_")) == policy == policy_named(policy.name)


@pytest.mark.parametrize("text", ["", "5", "age 5 years", "age 1 year; age 5 years; geography state; sex sex", "strict"])
def test_other_names_are_refused(text):
    with pytest.raises(PolicyError, match="a policy is one of safe_harbor, gen_eth, 5_year"):
        policy_named(text)


@pytest.mark.parametrize(
    "wrong", [{"decided_by": ()}, {"decided_by": ("none",)}, {"decided_by": ("graduated",), "thresholds": ()}]
)
def test_a_question_without_a_measure_that_decides_is_refused(wrong):
    with pytest.raises(PolicyError, match="name the measures that decide"):
        Question(**wrong)


@settings(max_examples=examples.of(12), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STATES), st.integers(0, 110)), min_size=11, max_size=60))
def test_nothing_shown_counts_fewer_than_eleven_people(people):
    """Neither a group, nor its part in small classes, nor the rest, nor what two thresholds or groups differ by."""
    cohort = pd.DataFrame(people, columns=["state", "age"]).assign(sex="F")
    cells, _ = cells_of_cohort(cohort, PEOPLE)
    question = Question(thresholds=(3, 8, 19, 40))
    found = judge(cells, question)
    assert set(judged(question)) == set(found.rows["policy"])
    groups = found.rows.groupby("group")["records"].first()
    assert groups.min() >= 11 and groups["all"] == len(cohort) and (len(groups) == 1 or groups.drop("all").sum() == len(cohort))
    assert OTHER_STATES in groups or set(groups.index) <= {"all", *STATES}
    counts = found.rows[found.rows["measure"].str.startswith("non-graduated")].copy()
    counts["people"] = counts["percent"] * counts["records"] / 100
    for _, own in counts.groupby(["policy", "group"], sort=False):
        shown = own["people"].dropna().to_numpy()
        for number in (*shown, *(own["records"].iloc[0] - shown), *np.diff(shown)):
            assert number < 0.5 or number > 10.5
    states = counts[counts["group"] != "all"].groupby(["policy", "measure"])["percent"]
    assert states.agg(lambda percent: percent.isna().any() == percent.isna().all()).all()


def dated_places(number):
    """A cohort with dates in a population by ZIP code, and its attributes."""
    rng = np.random.default_rng(11)
    people = pd.DataFrame(
        {
            "zip": ["56701", "56702", "56711", "56801", "53001", "37011"],
            "county": ["Polk", "Cass", "Polk", "Cass", "Dane", "Knox"],
            "state": ["MN", "MN", "MN", "MN", "WI", "TN"],
        }
    )
    for column, values in (("sex", ["F", "M"]), ("race", RACES_JOINED), ("age_from", range(120))):
        people = people.merge(pd.DataFrame({column: values}), how="cross")
    sizes = 30 * np.exp(-((people["age_from"] / 80) ** 6)) * people["race"].map(dict(zip(RACES_JOINED, (3, 1, 1), strict=True)))
    people = people.assign(age_to=people["age_from"], people=rng.poisson(sizes))
    drawn = people.iloc[rng.choice(len(people), number, p=people["people"] / people["people"].sum())]
    days = pd.Timestamp(2008, 1, 1) + pd.to_timedelta(rng.integers(0, 366, number), unit="D")
    cohort = drawn.rename(columns={"age_from": "age"}).reset_index(drop=True).assign(admission=days)
    date = date_attribute("admission", datetime.date(2008, 1, 1), datetime.date(2008, 12, 31), 0.5)
    return cells_of_cohort(cohort, people, RACES_JOINED, (date,))[0]


@pytest.mark.matrix
@pytest.mark.parametrize("at_upper_bound", [False, True])
def test_the_search_over_all_attributes_is_exhaustive(at_upper_bound):
    """Ages, ethnicities, ZIP codes, counties, states, regions, sexes and dates: all combinations, each measured."""
    cells, question = dated_places(60), Question(decided_by=("total", "largest"), at_upper_bound=at_upper_bound)
    demographics = cells.demographics
    named = {attribute.name: [level.name for level in attribute.levels] for attribute in demographics.attributes}
    assert named["geography"] == ["zip5", "zip4", "zip3", "county", "state", "region", "withheld"]
    assert named["admission"] == ["day", "week", "month", "quarter", "year", "withheld"]
    assert named["ethnicity"] == ["any", "withheld"] and named["sex"] == ["sex", "withheld"] and len(named["age"]) == 7
    found = alternatives(cells, question)
    groups, labels = groups_by(cells, "geography", "state")
    counter, measures = ClassCounter(cells, groups), question.deciding
    most = risks_at(counter.at(reference_of(cells).node(demographics)), measures, len(labels))
    nodes = np.array(list(all_policies(demographics)))
    assert len(nodes) == found.policies == 7 * 2 * 7 * 2 * 6

    def passes(node):
        classes = counter.at(tuple(node))
        if at_upper_bound:
            return np.all(no_riskier(bounded_risks(classes, measures, len(labels), CONFIDENCE).upper, most))
        return np.all(no_riskier(risks_at(classes, measures, len(labels)), most))

    passing = nodes[[passes(node) for node in nodes]]
    refines = np.ones((len(passing), len(passing)), dtype=bool)
    for column, attribute in zip(passing.T, demographics.attributes, strict=True):
        refines &= attribute.refines[np.ix_(column, column)]
    finest = passing[refines.sum(axis=0) == 1]
    assert {policy.node(demographics) for policy in found.alternatives} == {tuple(node) for node in finest.tolist()}
    assert len(finest) > 3 and found.measured < found.policies / 2


def test_safe_harbor_by_another_name_is_as_risky_as_safe_harbor():
    """Its upper bound exceeds its expected risk, as that of every policy whose classes are not certain."""
    people = [(state, sex, "all", age, age, 30) for state in STATES for sex in "FM" for age in range(85)]
    people += [(state, sex, "all", 85, 119, 200) for state in STATES for sex in "FM"]
    table = pd.DataFrame(people, columns=PEOPLE.columns)
    cohort = pd.DataFrame({"state": "MN", "age": [*range(40, 90)], "sex": "F"})
    cells, _ = cells_of_cohort(cohort, table)
    own, finer = policy_named("age 1 year, 90+; ethnicity any; geography state; sex sex"), published_alternatives()[0]
    found = judge(cells, Question(policies=(own,)))
    shown = found.rows[(found.rows["policy"] == own.name) & found.rows["decides"]]
    assert (shown["upper_percent"] > shown["percent"]).all()
    assert found.no_riskier(own.name) and not found.no_riskier(finer.name)
