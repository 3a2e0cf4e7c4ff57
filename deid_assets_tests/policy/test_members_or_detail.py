"""What a policy prefers where members would have to be suppressed: where it can say so, and how that is explained."""

import pytest

from deid_assets.errors import PolicyError
from deid_assets.policy.loading import policy_from
from deid_assets.reports.plain_words import explain
from deid_assets_tests.scenarios.policies import SMALL, changed

DETAIL = {"at_most": 0.1, "prefer": "detail"}


def test_members_are_preferred_unless_a_policy_says_otherwise():
    assert not policy_from(SMALL).prefers_detail
    assert policy_from(changed(SMALL, risk__suppression=DETAIL)).prefers_detail


@pytest.mark.parametrize(("prefer", "purpose"), [("members", "to reach this, up to"), ("detail", "keep more detail, up to")])
def test_the_explanation_says_what_members_are_suppressed_for(prefer, purpose):
    said = " ".join(explain(policy_from(changed(SMALL, risk__suppression=DETAIL | {"prefer": prefer}))).split())
    assert f"{purpose} 10 % of the sampled members may be suppressed" in said


@pytest.mark.parametrize(
    ("values", "suppression", "reason"),
    [
        (SMALL, {"at_most": 0}, "no member may be suppressed"),
        (SMALL, {"prefer": "both"}, "members.*detail"),
    ],
    ids=["nobody", "unknown"],
)
def test_a_preference_that_cannot_apply_is_an_error(values, suppression, reason):
    with pytest.raises(PolicyError, match=reason) as caught:
        policy_from(changed(values, risk__suppression=DETAIL | suppression))
    assert "risk.suppression.prefer" in str(caught.value)
