"""The policy's identity, and the numbers that follow from it."""

import hashlib
import json
import pickle
import random

import pytest
from pydantic import ValidationError

from deid_assets.errors import PolicyError
from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets_tests.policy.policy_texts import REMOVED, example_policy, public_values

PUBLIC = example_policy()


class TestHashes:
    def test_a_section_hash_changes_with_its_sections_only(self):
        changed = policy_from(public_values(risk__threshold=0.1))
        assert changed.section_hash("risk") != PUBLIC.section_hash("risk")
        assert changed.section_hash("source", "intake") == PUBLIC.section_hash("source", "intake")
        assert changed.hash != PUBLIC.hash and changed.public_hash != PUBLIC.public_hash

    def test_defaults_count_as_if_they_were_stated(self):
        assert policy_from(public_values(intake=REMOVED, opt_outs=REMOVED, demographics=REMOVED)).hash == PUBLIC.hash

    def test_the_order_of_keys_does_not_count(self):
        values = public_values()
        sections = list(values.items())
        random.Random(1).shuffle(sections)
        assert policy_from(dict(sections)).hash == PUBLIC.hash

    def test_no_sections_are_a_constant_and_unknown_ones_an_error(self):
        assert PUBLIC.section_hash() == policy_by_name("desynpuf").section_hash()
        with pytest.raises(PolicyError, match="a policy has no section riks; its sections are policy, title"):
            PUBLIC.section_hash("risk", "riks")

    def test_members_who_opted_out_change_the_restricted_hash_only(self):
        out = policy_from(public_values(opt_outs={"members": ["m1"]}))
        assert out.hash != PUBLIC.hash and out.section_hash("opt_outs") != PUBLIC.section_hash("opt_outs")
        assert out.public_hash == PUBLIC.public_hash

    def test_the_order_of_who_opted_out_does_not_count(self):
        one = policy_from(public_values(opt_outs={"members": ["m1", "m2"]}))
        assert one.hash == policy_from(public_values(opt_outs={"members": ["m2", "m1", "m1"]})).hash

    def test_the_public_text_is_all_that_the_public_hash_is_of(self):
        text = json.dumps(PUBLIC.public_content(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert hashlib.sha256(text.encode()).hexdigest() == PUBLIC.public_hash

    def test_the_size_of_the_sample_is_not_in_the_public_text(self):
        """With the rows that are released it is the exact number of members who were suppressed."""
        for sample in ({"members": 21_347}, {"fraction": 0.21347}):
            policy = policy_from(public_values(sample=sample))
            assert "21347" in str(policy.content()) and "21347" not in str(policy.public_content())
            assert policy.hash != PUBLIC.hash and policy.public_hash == PUBLIC.public_hash

    def test_the_size_of_the_population_is_rounded_in_the_public_text(self):
        extract = {"risk__class_size": "truncated_poisson", "risk__population_size": 1_234_567}
        assert policy_from(public_values(**extract)).public_content()["risk"]["population_size"] == 1_200_000

    def test_names_of_files_are_not_in_the_public_text(self):
        source = {
            "kind": "tables", "years": {"first": 2008},
            "members": {"file": "john_smith.csv", "columns": {"member_id": "id", "sex": "sex", "age": "age"}},
            "claims": {"file": "john_smith.duckdb", "table": "john_smith", "columns": {"member_id": "id", "year": "y"}},
        }  # fmt: skip
        policy = policy_from(public_values(source=source))
        assert "john_smith" in str(policy.content()) and "john_smith" not in str(policy.public_content())


class TestNumbers:
    @pytest.mark.parametrize(("threshold", "size"), [(0.05, 20), (0.1, 10), (0.09, 12), (0.2, 5), (1 / 3, 3)])
    def test_safe_class_size(self, threshold, size):
        assert policy_from(public_values(risk__threshold=threshold)).safe_class_size == size

    def test_alpha_is_known_only_where_the_policy_tells(self):
        assert PUBLIC.declared_alpha is None
        assert policy_from(public_values(sample={"fraction": 0.1})).declared_alpha == 0.1
        extract = {"risk__class_size": "truncated_poisson", "risk__population_size": 1_000_000}
        assert policy_from(public_values(**extract)).declared_alpha == 0.02
        assert policy_from(public_values(sample={"fraction": 0.1}, **extract)).declared_alpha is None

    def test_levels_at_a_node(self):
        node = (2, 1, 2, 3)
        days = ("days_in_hospital_y2", "days_in_hospital_y3")
        columns = ("age", *days, "length_of_stay", "days_since_first_claim", "sex")
        assert [PUBLIC.level_of(column, node) for column in columns] == [2, 1, 1, 2, 3, 0]

    def test_unknown_names(self):
        with pytest.raises(PolicyError, match="policy heritage_public has no hierarchy 'ages'"):
            PUBLIC.hierarchy("ages")
        with pytest.raises(PolicyError, match="policy heritage_public has no quasi-identifier 'weight'"):
            PUBLIC.hierarchy_of("weight")


def test_a_policy_is_frozen_and_can_be_sent_to_another_process():
    with pytest.raises(ValidationError):
        PUBLIC.policy = "other"
    assert pickle.loads(pickle.dumps(PUBLIC)).hash == PUBLIC.hash
