"""By which order members are drawn: their own for every release, unless the policy asks for another each time."""

import pytest

from deid_assets.errors import PolicyError
from deid_assets.policy.loading import policy_from
from deid_assets.release.derived_keys import pseudonym_key, sample_key
from deid_assets.release.keys import Secret
from deid_assets.reports.plain_words.policy import explain
from deid_assets_tests.policy.policy_texts import public_values

SECRET, OTHER = (Secret(bytes(range(first, first + 32)), "environment") for first in (0, 1))
RELEASES = [("heritage", "2024"), ("heritage", "2025"), ("other", "2024")]


def test_by_member_all_deliveries_and_policies_draw_the_same():
    sample = policy_from(public_values()).sample
    assert len({sample_key(SECRET, sample.keyed_by, *release) for release in RELEASES}) == 1
    assert sample_key(SECRET, sample.keyed_by, *RELEASES[0]) != sample_key(OTHER, sample.keyed_by, *RELEASES[0])


def test_by_delivery_each_draws_others_and_the_policy_says_so():
    policy = policy_from(public_values(sample={"members": 20_000, "keyed_by": "delivery"}))
    assert len({sample_key(SECRET, policy.sample.keyed_by, *release) for release in RELEASES}) == 3
    assert "each delivery and policy draws different members" in explain(policy)


def test_there_is_no_third_way():
    with pytest.raises(PolicyError, match="keyed_by"):
        policy_from(public_values(sample={"members": 20_000, "keyed_by": "claim"}))


def test_stable_pseudonyms_are_those_of_members_of_one_policy():
    """Those of providers stay fresh: a stable one would join what one release blanks with what another shows."""
    secret = Secret(bytes(range(32)), "environment")

    def key(policy, delivery, kind, stable):
        return pseudonym_key(secret, policy, delivery, kind, stable)

    assert key("a", "2023", "member", True) == key("a", "2024", "member", True) != key("b", "2024", "member", True)
    assert key("a", "2024", "member", True) != key("a", "2024", "member", False) != key("a", "2023", "member", False)
    for kind in ("provider", "vendor", "pcp"):
        assert key("a", "2024", kind, True) == key("a", "2024", kind, False) != key("a", "2023", kind, True)
