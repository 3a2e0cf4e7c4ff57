"""The section `approval`: who may approve, for how long; a policy without it is what it was before there was one."""

import pytest

from deid_assets.errors import PolicyError
from deid_assets.policy.loading import policy_from
from deid_assets.reports.plain_words import explain
from deid_assets_tests.scenarios.policies import SMALL
from deid_assets_tests.scenarios.test_flat_release import FLAT


@pytest.mark.parametrize("policy", [SMALL, FLAT])
def test_a_policy_without_it_has_the_hash_that_it_had_before(policy):
    plain = policy_from(policy)
    assert plain.approval is None
    assert "approval" not in plain.content() and plain.content("approval") == {} and "approval" not in plain.public_content()


@pytest.mark.parametrize("policy", [SMALL, FLAT])
def test_it_is_part_of_the_public_text(policy):
    section = {"by": ["Anna Muster"], "within_days": 3}
    asked = policy_from(policy | {"approval": section})
    assert asked.public_content()["approval"] == section and asked.hash != policy_from(policy).hash
    assert "published once Anna Muster approves it, within 3 days" in " ".join(explain(asked).split())


@pytest.mark.parametrize(
    "section",
    [
        {},
        {"by": []},
        {"by": [""]},
        {"by": [" Anna"]},
        {"by": ["An\nna"]},
        {"by": "Anna"},
        {"by": ["Anna"], "within_days": 0},
        {"by": ["Anna"], "within_days": 366},
        {"by": ["Anna"], "required": True},
    ],
)
def test_names_and_days_are_needed(section):
    with pytest.raises(PolicyError, match="approval"):
        policy_from(FLAT | {"approval": section})
