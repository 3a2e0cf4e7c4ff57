"""The key that compares generalizations by what they keep: what it changes, and what it does not."""

import pytest

from deid_assets.errors import PolicyError
from deid_assets.policy.loading import policy_from
from deid_assets.reports.plain_words import explain
from deid_assets_tests.scenarios.policies import SMALL, changed


def test_a_policy_without_it_has_the_hash_that_it_had_before():
    without = policy_from(SMALL)
    assert without.section_hash("risk") == "77d3249c02d19b9d55a11208b2d573ef1769492645356d579088e1ba47a87d73"
    assert policy_from(changed(SMALL, risk__nodes_by_gain=None)).hash == without.hash
    assert "nodes_by_gain" not in without.public_content()["risk"] and "keep of the gain" not in explain(without)


@pytest.mark.parametrize(("mode", "published"), [("report", "that of least loss"), ("choose", "that which keeps most")])
def test_it_is_explained_and_counts(mode, published):
    policy = policy_from(changed(SMALL, risk__nodes_by_gain=mode))
    assert policy.hash != policy_from(SMALL).hash and policy.public_content()["risk"]["nodes_by_gain"] == mode
    said = " ".join(explain(policy).split())
    assert f"up to 12 generalizations that pass, compared by what they keep of the gain; {published} is published" in said


def test_it_needs_a_model_with_which_the_chosen_one_is_measured_again():
    with pytest.raises(PolicyError, match="nothing is predicted from the release") as caught:
        policy_from(changed(SMALL, risk__nodes_by_gain="choose", utility={"model": None}))
    assert "risk.nodes_by_gain" in str(caught.value)
