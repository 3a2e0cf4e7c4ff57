"""Attacks 2 and 3 as measurements: what gates, what is only told, and what cannot be measured."""

import json

import numpy as np
import pytest

from deid_assets.assessments.evidence import Exposure
from deid_assets.assessments.identified_files import (
    INPATIENT,
    VOTER_LIST,
    Attempts,
    FileClassSizes,
    Inpatients,
    inpatient_measurements,
    voter_list_measurements,
)
from deid_assets.assessments.registry import required_measurements
from deid_assets.figures.figures import neighbor_attack_figure
from deid_assets.figures.heritage import ATTACK_2, TABLE_6, population_comparison
from deid_assets.figures.population_figures import inpatient_figure
from deid_assets.figures.rendering import markdown_image
from deid_assets.methods.attacks.identified_file import ALL_YEARS, COLUMNS, subsets
from deid_assets.methods.attacks.marketer_risk import Linkage
from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets_tests.policy.policy_texts import public_values

COMMITMENT = "c" * 64
SIZES = FileClassSizes(np.array([1, 2, 3, 4]), np.array([1, 0, 2, 2]))
ATTEMPTS = Attempts(Linkage(5, 5, np.array([2, 3, 2, 3])), Linkage(5, 0, np.array([0, 0, 0, 0])))
INPATIENTS = {ALL_YEARS: 40, 1: 20, 2: 30}
SHARES = {(p, s): len(s) / 100 + p / 1000 for p in (ALL_YEARS, 1, 2) for s in subsets(COLUMNS)}


def voters(at_most=0.05, sizes=SIZES, attempts=ATTEMPTS):
    return {m.name: m for m in voter_list_measurements(at_most, sizes, attempts, COMMITMENT)}


def inpatients(at_most=0.05, shares=SHARES, sizes=SIZES, attempts=ATTEMPTS):
    return {
        m.name: m for m in inpatient_measurements(at_most, Inpatients(COLUMNS, shares, INPATIENTS, sizes, attempts), COMMITMENT)
    }


class TestVoterList:
    def test_the_matched_share_gates_and_everything_else_is_told(self):
        found = voters()
        assert [name for name, m in found.items() if m.gating] == [VOTER_LIST]
        gate = found[VOTER_LIST]
        assert gate.value == pytest.approx((1 + 2 / 3 + 2 / 4) / 5) and gate.threshold == 0.05 and not gate.passed
        assert found["voter_list_expected"].value == 0.4
        assert found["voter_list_published_formula"].value == pytest.approx(0.317063, abs=1e-6)
        assert "biased low" in found["voter_list_published_formula"].section
        assert voters(at_most=0.5)[VOTER_LIST].passed

    def test_without_a_threshold_nothing_gates(self):
        assert not any(m.gating for m in voters(at_most=None).values())

    def test_whom_the_file_lacks_is_a_number_about_people(self):
        found = voters(sizes=FileClassSizes(np.array([3, 0]), np.array([4, 1])))
        missing = found["voter_list_not_in_the_file"]
        assert missing.value == 2 / 5 and missing.exposure.counts_people and missing.sample_size == 5
        assert found[VOTER_LIST].value == (2 + 1) / 5
        assert found["voter_list_published_formula"].value is None, "the release is no sample of this file"

    def test_no_other_number_tells_how_many_are_released(self):
        assert all(m.sample_size in (None, 4) for name, m in voters().items() if not m.exposure.counts_people)

    def test_linkage_has_precision_and_recall_with_bounds(self):
        found = voters()
        precision = found["voter_list_linked_precision"]
        assert (precision.value, precision.sample_size, precision.seed_commitment) == (0.5, 4, COMMITMENT)
        assert precision.bound > 0.5 and found["voter_list_linked_if_alone_precision"].value is None
        assert found["voter_list_linked_if_alone_recall"].value == 0

    @pytest.mark.parametrize("sizes", [None, FileClassSizes(np.array([5]), np.array([0]))])
    def test_what_cannot_be_measured_does_not_pass(self, sizes):
        found = voters(sizes=sizes, attempts=None)
        assert found[VOTER_LIST].value is None and not found[VOTER_LIST].passed
        assert not any("linked" in name for name in found)


class TestInpatients:
    def test_the_worst_year_with_the_worst_columns_gates(self):
        gate = inpatients()[INPATIENT]
        assert gate.value == max(SHARES.values()) == SHARES[2, COLUMNS] and gate.gating and not gate.passed

    def test_periods_are_told_by_all_columns_and_by_four(self):
        found = inpatients()
        assert found["inpatient_match_year_1"].value == SHARES[1, COLUMNS]
        assert found["inpatient_match_all_years_least_of_four"].value == 0.04
        assert "inpatient_match_year_3" not in found, "nobody had a visit"

    def test_the_whole_of_each_share_is_told_as_the_files_tell_it(self):
        found = inpatients()
        assert {name: m.value for name, m in found.items() if name.startswith("inpatients_")} == {
            "inpatients_all_years": 40, "inpatients_year_1": 20, "inpatients_year_2": 30,
        }  # fmt: skip
        assert all(
            m.exposure is Exposure.IN_FILES and not m.gating for name, m in found.items() if name.startswith("inpatients_")
        )

    def test_a_release_without_inpatient_visits_has_nothing_to_tell_and_does_not_pass_a_gate(self):
        found = inpatients(shares={}, sizes=None, attempts=None)
        assert found[INPATIENT].value is None and not found[INPATIENT].passed


class TestRequirements:
    def test_gates_of_the_policy_are_demanded_at_its_thresholds(self):
        policy = policy_from(public_values(voter_list_attack={"at_most": 0.01}, inpatient_attack={"at_most": 0.02}))
        found = {(r.asset, r.measurement): r.threshold for r in required_measurements(policy)}
        assert found["voter_list_attack", VOTER_LIST] == 0.01
        assert found["inpatient_attack", INPATIENT] == 0.02

    def test_a_policy_without_thresholds_demands_nothing(self):
        policy = policy_from(public_values(voter_list_attack={}, inpatient_attack={}))
        attacks = {"voter_list_attack", "inpatient_attack"}
        demanded = {r.measurement for r in required_measurements(policy) if r.asset in attacks}
        assert demanded == {"canaries_found"}, "nothing but that planted truths are found"

    @pytest.mark.parametrize("name", ["heritage", "heritage_public", "desynpuf"])
    def test_shipped_policies_gate_attack_2_at_what_the_article_accepts(self, name):
        policy = policy_by_name(name)
        assert policy.voter_list_attack.at_most == policy.risk.threshold == 0.05
        assert policy.inpatient_attack.at_most is None, "the delivery is not the file that the article's adversary holds"


class TestComparison:
    def rows(self, **values):
        told = [{"name": name, "value": value} for name, value in values.items()]
        attrition = [{"unit": "members", "rows_out": 400}]
        return population_comparison(
            json.dumps({"evidence": [{"asset": "a", "measurements": told}], "attrition": attrition}).encode()
        )

    def test_attack_2_and_table_6_stand_beside_ours(self):
        rows = self.rows(
            voter_list_match=0.00009,
            inpatient_match_year_1_least_of_four=0.02,
            inpatient_match_year_1_most_of_four=0.5,
            inpatient_match_year_1=0.6,
            inpatients_year_1=20,
        )
        assert (rows[0].heritage, rows[0].here) == ("0.0005 %", "0.009 %")
        # 20 of 400 members were inpatients: the article counts of all records: .02 of the inpatients are .001 of the members.
        assert (rows[1].heritage, rows[1].here) == ("0.161 % to 1.73 %", "0.1 % to 2.5 %")
        assert (rows[2].heritage, rows[2].here) == ("not published", "2 % to 50 %")
        assert [row.here for row in rows[3:5]] == ["3 %", "60 %"] and {row.heritage for row in rows[2:5]} == {"not published"}
        assert rows[5].here == "not measured" and len(rows) == 17

    def test_a_protected_number_is_not_told(self):
        assert self.rows(voter_list_match="T")[0].here == "not measured"

    def test_what_the_article_printed(self):
        assert ATTACK_2 == 0.000005 and TABLE_6[0][3] == 0.005141
        assert TABLE_6[3] == (0.017272, 0.012702, 0.013797, 0.015991)


class TestFigures:
    def test_every_choice_is_drawn(self):
        image = inpatient_figure(SHARES, 0.05)
        assert markdown_image(image, "it fits") and image == inpatient_figure(SHARES, 0.05)

    def test_with_nothing_to_draw_it_says_so(self):
        image = inpatient_figure({}, None)
        assert b"no inpatient visit is released" in image

    def test_an_attack_with_its_gate(self):
        drawn = [found for found in voters().values() if found.unit == "probability"]
        image = neighbor_attack_figure([(found.name, found.value, found.bound, found.threshold) for found in drawn])
        assert markdown_image(image, "it fits")
        assert b"not in the" not in image, "a number about people is not drawn among probabilities"
