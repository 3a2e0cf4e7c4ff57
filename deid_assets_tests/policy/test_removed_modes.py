"""A policy that asks for a mode that was removed: it is read as before, and nothing new is made under it."""

import pytest

from deid_assets.errors import PolicyError
from deid_assets.policy.adoption import adopt
from deid_assets.policy.kinds import require_runnable
from deid_assets.policy.loading import load_policy, policies_in, policy_from, shipped_policies
from deid_assets.store.home import Home
from deid_assets_tests.frozen_homes.make_levels_by_class import BY_CLASS, BY_COLUMN
from deid_assets_tests.scenarios.policies import SMALL, write_policy


def test_an_adopted_policy_is_read_and_keeps_its_hash(tmp_path):
    home = Home(tmp_path / "deid").create()
    read = write_policy(tmp_path, BY_CLASS)
    adopted = adopt(home, read, tmp_path / "small.yaml")
    assert policies_in(home.policies)["small"].hash == adopted.hash == read.hash
    assert read.content()["recoding"] == "by_class" and read.hash != policy_from(BY_COLUMN).hash


def test_the_refusal_is_one_sentence_with_the_file_the_field_and_what_to_use_instead(tmp_path):
    with pytest.raises(PolicyError) as caught:
        require_runnable(write_policy(tmp_path, BY_CLASS))
    said = str(caught.value)
    assert said.startswith(f"policy file {tmp_path / 'small.yaml'}: recoding: by_class was removed")
    assert "risk.suppression.at_most" in said and ". " not in said and "\n" not in said


def test_a_policy_made_of_values_is_named():
    with pytest.raises(PolicyError, match=r"\Apolicy small: recoding: by_class was removed"):
        require_runnable(policy_from(BY_CLASS))


@pytest.mark.parametrize("file", shipped_policies(), ids=lambda file: file.stem)
def test_policies_that_ship_can_be_run(file):
    require_runnable(load_policy(file))


def test_one_level_for_all_members_can_be_said_or_left_out():
    left_out, said = policy_from(BY_COLUMN), policy_from(BY_COLUMN | {"recoding": "by_column"})
    require_runnable(left_out)
    require_runnable(said)
    assert left_out.hash == said.hash


def test_no_other_value_is_known():
    with pytest.raises(PolicyError, match="recoding"):
        policy_from(SMALL | {"recoding": "by_member"})


@pytest.mark.parametrize("values", [SMALL, SMALL | {"recoding": "by_column"}], ids=["left out", "said"])
def test_the_hash_covers_the_key_with_the_value_that_earlier_versions_hashed(values):
    """Releases and noise pin the hash; a policy that never named the key has none of its own."""
    assert policy_from(values).content()["recoding"] == "by_column"
