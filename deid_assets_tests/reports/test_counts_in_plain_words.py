"""What `deid policy check` says of published counts."""

import pytest

from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets.reports.plain_words import explain
from deid_assets_tests.policy.cohort_values import cohort_values
from deid_assets_tests.policy.policy_texts import public_values
from deid_assets_tests.scenarios.policies import changed
from deid_assets_tests.scenarios.test_flat_release import FLAT


def said(values: dict) -> str:
    return explain(policy_from(values))


def test_noise_budget_and_columns_of_the_default():
    text = explain(policy_by_name("heritage"))
    assert "by AgeAtFirstClaim (20 years), Sex (as it is), " in text
    assert "every count has rounded normal noise of standard deviation 2.5, zeros too" in text
    assert "cost at most 50 zCDP, and one cell is published with noise of its own at most 10 times" in text


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"zeros": "shown", "protection": "noise"}, "but zeros are shown"),
        ({"protection": "masked"}, "counts below 11 are hidden, and others by which fewer than 5 values would remain possible"),
        ({"mechanism": "discrete", "sd": 3, "budget": {"rho": 7}}, "discrete normal noise of standard deviation 3"),
        ({"mechanism": "discrete", "sd": 3, "budget": {"rho": 7}}, "at most 7 zCDP"),
        ({"lockout": 4}, "at most 4 times"),
    ],
)
def test_what_a_policy_sets_is_said(counts, words):
    assert words in said(public_values(counts=counts))


def test_a_flat_policy_names_levels_and_listed_values():
    assert ", by Town (" in said(changed(FLAT, counts={"protection": "noise"}))
    listed = {"protection": "noise", "characteristics": {"Sex": "as it is", "Likes": ["tea"]}}
    assert ", by Sex (as it is), Likes (listed values)" in said(changed(FLAT, counts=listed))


def test_a_cohort_names_its_demographics_or_none():
    assert "by all demographics" in said(cohort_values(counts={"protection": "noise"}))
    assert "no tables of counts are published" in said(cohort_values())
