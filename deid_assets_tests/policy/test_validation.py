"""Rules between sections: each refusal with its reason."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.errors import PolicyError
from deid_assets.methods.statistics.confidence import clopper_pearson_upper_bound, empirical_bernstein_upper_bound
from deid_assets.policy.loading import policy_from
from deid_assets.policy.rules.validation import RULES, bound_of_no_success, check_vacuous
from deid_assets_tests.policy.policy_texts import public_values, refusal

GATE = {"at_most": 0.05, "statistic": "upper_bound", "confidence": 0.99}


def estimating(class_size: str, **changes) -> dict:
    return {"risk__class_size": class_size, "risk__population_size": 1_000_000, **changes}


class TestVacuous:
    @pytest.mark.parametrize("members", [1, 50_000])
    def test_large_sample_with_k_one(self, members):
        lines = refusal(**estimating("large_sample", sample={"members": members}))
        assert lines == [
            f"risk.class_size: large_sample is vacuous here: at alpha = {members / 1000000.0:.4g} and threshold 0.05 it "
            "estimates every class to be large enough, from k = 1 member on, so every release would pass, even one of unique "
            "members; use counted if the delivery is the population, else truncated_poisson or test"
        ]

    def test_large_sample_with_k_two_is_accepted(self):
        policy = policy_from(public_values(**estimating("large_sample", sample={"members": 50_001})))
        with pytest.raises(PolicyError, match="risk.class_size: large_sample is vacuous here: at alpha = 0.05"):
            check_vacuous(policy, 0.05)
        check_vacuous(policy, 0.0500001)

    def test_an_extract_is_judged_by_the_fraction_that_bounds_its_alpha(self):
        assert refusal(**estimating("large_sample", sample={"fraction": 0.04}))[0].startswith("risk.class_size:")
        policy_from(public_values(**estimating("large_sample", sample={"fraction": 0.5})))

    def test_any_estimator_that_takes_uniques_for_large(self):
        assert refusal(**estimating("posterior", sample={"members": 2_000}))[0].startswith(
            "risk.class_size: posterior is vacuous here: at alpha = 0.002"
        )
        policy_from(public_values(**estimating("truncated_poisson", sample={"members": 2_000})))
        policy_from(public_values(**estimating("test", sample={"members": 2_000})))

    @pytest.mark.parametrize("estimator", ["large_sample", "posterior"])
    def test_a_gate_on_estimates_by_which_uniques_are_large(self, estimator):
        """Also where the search counts: this gate goes by an estimator of its own."""
        gate = {"estimator": estimator, "small_class_share_at_most": 0.01}
        policy = policy_from(public_values(sample={"members": 1_000}, population_estimates=gate))
        check_vacuous(policy, 0.06)
        with pytest.raises(PolicyError, match=f"population_estimates.small_class_share_at_most: {estimator} is vacuous here"):
            check_vacuous(policy, 0.002)
        check_vacuous(
            policy_from(public_values(sample={"members": 1_000}, population_estimates={"estimator": estimator})), 0.002
        )

    def test_counting_is_never_vacuous_for_a_small_fraction(self):
        check_vacuous(policy_from(public_values(sample={"fraction": 0.001})), 0.001)

    def test_an_unconditional_gate_that_can_not_fail(self):
        changes = {"sample": {"fraction": 0.05}, "neighbor_attack__given_membership": None}
        assert refusal(**changes) == [
            "neighbor_attack.unconditional.at_most: 0.05 is vacuous here: the neighbor can find a target only if the target "
            "is released, which has probability alpha = 0.05, so this gate cannot fail; gate given_membership too, or set "
            "at_most below alpha"
        ]
        policy_from(public_values(**changes | {"sample": {"fraction": 0.051}}))
        policy_from(public_values(sample={"fraction": 0.05}))

    def test_it_is_judged_again_once_alpha_is_known(self):
        policy = policy_from(public_values(neighbor_attack__given_membership=None))
        check_vacuous(policy, 0.1)
        message = "policy heritage_public is refused at alpha = 0.02: neighbor_attack.unconditional"
        with pytest.raises(PolicyError, match=message):
            check_vacuous(policy, 0.02)

    def test_releasing_all_while_removing_some(self):
        assert refusal(sample={"fraction": 1.0}) == [
            "sample: if all eligible members are released (alpha = 1) while members with sensitive conditions are removed, "
            "absence discloses that a member has such a condition; release a random part, or remove nobody"
        ]
        nobody = {"removal__code_list": None, "removal__rare_visible_diseases": False}
        policy_from(public_values(sample={"fraction": 1.0}, **nobody))
        with pytest.raises(PolicyError, match="sample: if all eligible members"):
            check_vacuous(policy_from(public_values()), 1.0)

    def test_an_attack_without_a_gate(self):
        lines = refusal(neighbor_attack__given_membership=None, neighbor_attack__unconditional=None)
        assert lines == [
            "neighbor_attack: neither unconditional nor given_membership has a gate, so the attack could succeed without "
            "consequence; set at_most for one of them"
        ]


class TestPopulation:
    def test_estimators_need_its_size(self):
        assert refusal(risk__class_size="truncated_poisson") == [
            "risk.population_size: is missing: class_size truncated_poisson estimates the population from the release, and "
            "an extract does not show how large its population is; state it, or use counted"
        ]

    def test_counting_does_not(self):
        assert refusal(risk__population_size=10**6) == [
            "risk.population_size: needs an estimator: counted uses the members of the delivery as the population"
        ]

    def test_no_more_members_than_there_are(self):
        lines = refusal(**estimating("truncated_poisson", risk__population_size=100, sample={"members": 101}))
        assert lines == ["sample.members: 101 members cannot be released from a population of 100"]


class TestEnoughDraws:
    def test_gate(self):
        """All tries must be able to pass, also the last one, which is judged most strictly."""
        assert refusal(risk__gate__draws=832) == [
            "risk.gate.draws: 832 draws are too few: even if none is flagged, the 0.99875 upper bound of the last try is "
            "0.008002, above max_high_risk_share 0.008, so no release could pass; at least 833 are needed"
        ]
        policy_from(public_values(risk__gate__draws=833))

    def test_an_estimate_of_few_draws_decides_nothing_either(self):
        assert refusal(risk__gate__draws=1, risk__gate__statistic="estimate") == [
            "risk.gate.draws: 1 draw is too few: even if none is flagged, the 0.99875 upper bound of the last try is "
            "0.9988, above max_high_risk_share 0.008, so an unsafe release could pass by chance; at least 833 are needed"
        ]
        policy_from(public_values(risk__gate__draws=833, risk__gate__statistic="estimate"))
        few = {"trials": 345, "unconditional": GATE, "given_membership": GATE | {"statistic": "estimate"}}
        assert [line.split("so ")[1].split(";")[0] for line in refusal(neighbor_attack=few)] == [
            "no release could pass", "an unsafe release could pass by chance",
        ]  # fmt: skip

    @given(share=st.floats(0.001, 0.5), confidence=st.floats(0.5, 0.999))
    def test_the_number_named_is_the_smallest_that_could_pass(self, share, confidence):
        needed = int(np.ceil(np.log1p(-confidence) / np.log1p(-share)))
        assert clopper_pearson_upper_bound(0, needed, confidence) <= share * (1 + 1e-9)
        assert needed == 1 or clopper_pearson_upper_bound(0, needed - 1, confidence) > share * (1 - 1e-9)

    def test_attack(self):
        lines = refusal(neighbor_attack={"trials": 200, "unconditional": GATE, "given_membership": GATE})
        assert lines == [
            f"neighbor_attack.trials: 200 trials are too few for {name}: even without any success, the 0.99875 upper bound "
            "of the last try is 0.08651, above at_most 0.05, so no release could pass; at least 346 are needed"
            for name in ("unconditional", "given_membership")
        ]
        policy_from(public_values(neighbor_attack={"trials": 346, "unconditional": GATE, "given_membership": GATE}))

    @given(trials=st.integers(2, 5000), confidence=st.floats(0.5, 0.999))
    def test_it_is_the_bound_that_the_gate_uses(self, trials, confidence):
        bound = empirical_bernstein_upper_bound(np.zeros(trials), 1.0, confidence)
        assert bound_of_no_success(trials, confidence) == pytest.approx(bound, rel=1e-12)


class TestQuasiIdentifiersAndLattice:
    def with_member(self, number: int, **changes) -> list[str]:
        values = public_values()
        values["quasi_identifiers"]["members"][number] |= changes
        return refusal(quasi_identifiers=values["quasi_identifiers"])

    def test_unknown_hierarchy(self):
        assert self.with_member(0, hierarchy="agee") == [
            "quasi_identifiers.members[0].hierarchy: there is no hierarchy 'agee'; did you mean age?; hierarchies: "
            "age, sex, days_in_hospital, length_of_stay, days_since_first_claim, specialty, place, "
            "procedure_group, condition_group"
        ]

    def test_unknown_column(self):
        lines = self.with_member(0, column="agee")
        assert lines[0] == (
            "quasi_identifiers.members[0].column: 'agee' is not a column of members; did you mean age?; columns: age, sex, "
            "days_in_hospital_y2, days_in_hospital_y3, claims_truncated; `columns` declares others"
        )

    def test_hierarchies_that_do_not_fit_their_column(self):
        assert self.with_member(1, hierarchy="age")[0] == (
            "quasi_identifiers.members[1].hierarchy: column sex contains text; intervals are for whole numbers"
        )
        assert refusal(hierarchies__sex={"kind": "dates", "levels": ["day"]}) == [
            "quasi_identifiers.members[1].hierarchy: column sex contains no dates"
        ]
        assert refusal(hierarchies__sex={"kind": "fixed", "values": ["F"]}) == [
            "quasi_identifiers.members[1].hierarchy: hierarchy has no class for M, which column sex may contain"
        ]

    def test_hierarchies_that_skip_values_of_their_column(self):
        levels = [{"name": f"level {level}", "width": 1} for level in range(4)]
        assert refusal(
            hierarchies__age={"kind": "intervals", "from": 18, "to": 120, "levels": levels}, number_of_claims=None
        ) == [
            "quasi_identifiers.members[0].hierarchy: hierarchy of age begins at 18 and skips 18 values that the column may "
            "contain"
        ]
        assert refusal(hierarchies__age={"kind": "intervals", "to": 100, "levels": levels}, number_of_claims=None) == [
            "quasi_identifiers.members[0].hierarchy: hierarchy ends at 100, but age may contain values up to 120: larger "
            "values would have no class"
        ]
        levels.append({"name": "all", "starts": [0]})
        assert refusal(hierarchies__length_of_stay={"kind": "intervals", "to": 100, "levels": levels}) == [
            "quasi_identifiers.claims[3].hierarchy: hierarchy ends at 100, but length_of_stay has no largest value: "
            "larger values would have no class"
        ]

    def test_names_in_the_release(self):
        assert self.with_member(0, release_as="Sex") == [
            "quasi_identifiers.members[1].release_as: the release already has a column Sex"
        ]
        assert self.with_member(0, release_as="MemberID") == [
            "quasi_identifiers.members[0].release_as: the release already has a column MemberID"
        ]
        assert "quasi_identifiers.members[1].column: column age is listed twice" in self.with_member(1, column="age")

    def dimensions(self, *changed: dict) -> list[str]:
        return refusal(dimensions=[*changed, *public_values()["dimensions"]], number_of_claims=None)

    def test_two_dimensions_share_a_column(self):
        assert self.dimensions({"name": "again", "columns": ["age"]}) == [
            "dimensions[1].columns[0]: age already belongs to dimension again: a column has one level at a node, not two"
        ]
        assert self.dimensions({"name": "age", "columns": ["sex"]}) == ["dimensions[1].name: two dimensions are called age"]

    def test_a_dimension_of_what_is_not_published(self):
        values = public_values()["quasi_identifiers"]
        del values["claims"][3]
        assert refusal(quasi_identifiers=values) == [
            "dimensions[2].columns[0]: length_of_stay is not a quasi-identifier of this policy: columns that are not "
            "published cannot be generalized; quasi-identifiers: age, sex, days_in_hospital_y2, days_in_hospital_y3, "
            "specialty, place, procedure_group, days_since_first_claim, condition_group"
        ]

    def test_columns_that_move_together_need_as_many_levels(self):
        together = [{"name": "both", "columns": ["age", "days_since_first_claim"]}, *public_values()["dimensions"][1:3]]
        assert policy_from(public_values(dimensions=together, number_of_claims=None)).node_count == 5 * 6 * 6
        together[0]["columns"] = ["age", "length_of_stay"]
        del together[2]
        together.append({"name": "days_since_first_claim", "columns": ["days_since_first_claim"]})
        assert refusal(dimensions=together, number_of_claims=None) == [
            "dimensions[0].columns: columns that move together need hierarchies with the same number of levels; here: "
            "age 5, length_of_stay 6"
        ]

    def test_levels_that_no_dimension_reaches(self):
        assert refusal(dimensions=public_values()["dimensions"][1:], number_of_claims=None) == [
            "quasi_identifiers.members[0].hierarchy: age has 5 levels but belongs to no dimension, so it would always be "
            "published at the finest; name it in dimensions, or give it a hierarchy of one level"
        ]

    def test_days_in_hospital_may_move_apart(self):
        apart = [
            {"name": "age", "columns": ["age"]},
            {"name": "y2", "columns": ["days_in_hospital_y2"]},
            {"name": "y3", "columns": ["days_in_hospital_y3"]},
            *public_values()["dimensions"][2:],
        ]
        assert policy_from(public_values(dimensions=apart, number_of_claims=None)).node_count == 5 * 6 * 6 * 6 * 5

    def test_claims_truncated_is_published_only_if_listed(self):
        assert not policy_from(public_values()).publishes("claims_truncated")
        values = public_values(hierarchies__claims_truncated={"kind": "fixed"})
        values["quasi_identifiers"]["members"].append(
            {"column": "claims_truncated", "release_as": "ClaimsTruncated", "hierarchy": "claims_truncated"}
        )
        assert policy_from(values).publishes("claims_truncated")

    def test_claims_truncated_needs_both_years_of_days_in_hospital(self):
        values = public_values(hierarchies__claims_truncated={"kind": "fixed"})
        members = values["quasi_identifiers"]["members"]
        members.append({"column": "claims_truncated", "release_as": "ClaimsTruncated", "hierarchy": "claims_truncated"})
        members[:] = [qi for qi in members if qi["column"] != "days_in_hospital_y3"]
        moved = [
            dimension | {"columns": [c for c in dimension["columns"] if c != "days_in_hospital_y3"]}
            for dimension in values["dimensions"]
        ]
        assert refusal(quasi_identifiers=values["quasi_identifiers"], dimensions=moved, hierarchies=values["hierarchies"]) == [
            "quasi_identifiers.members: claims_truncated is released in the files of days in hospital, so it needs both "
            "years; not listed: days_in_hospital_y3"
        ]

    def test_blanks_of_claims_join_nothing(self):
        values = public_values()
        values["hierarchies"]["length_of_stay"]["levels"][-1]["missing_joins"] = 0
        assert refusal(hierarchies=values["hierarchies"]) == [
            "quasi_identifiers.claims[3].hierarchy: missing_joins of length_of_stay is for columns of members: a missing "
            "length_of_stay of a claim is published as a blank, and an adversary does not know it"
        ]


def test_every_rule_says_why_it_exists():
    assert all(len(rule.__doc__ or "") > 60 for rule in RULES)
