"""Verdicts on policies: their names, their rounding, and what is joined or left out of what is shown."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.assessments.demographic_verdicts import OTHER_STATES, Question, judge, judged, policy_named, rounded
from deid_assets.errors import PolicyError
from deid_assets.methods.demographics.policies import published_alternatives, safe_harbor
from deid_assets.sources.demographics import cells_of_cohort

STATES = ("MN", "WI", "IA", "ND")
PEOPLE = pd.DataFrame(
    [(state, sex, "all", age, age, 3 + age % 17) for state in STATES for sex in "FM" for age in range(120)],
    columns=["state", "sex", "race", "age_from", "age_to", "people"],
)


@given(st.floats(1e-12, 1e6))
def test_a_rounded_bound_is_a_bound(number):
    assert rounded(number, up=True) >= number * (1 - 1e-9) and rounded(number) == pytest.approx(number, rel=0.006)
    assert rounded(number, up=True) == pytest.approx(number, rel=0.011)


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


@settings(max_examples=12, deadline=None)
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
