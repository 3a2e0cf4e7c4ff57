"""The worst class and the worst members as evidence: what gates, what is told, and to whom."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

from deid_assets.assessments import worst_classes
from deid_assets.assessments.evidence import Context, Evidence, judge
from deid_assets.assessments.registry import passes, required_measurements
from deid_assets.methods.attacks import worst_classes as method
from deid_assets.methods.attacks.attack_sensitivity import confidence_of_each
from deid_assets.methods.attacks.worst_classes import ClassShares, MemberClasses, RiskByMember
from deid_assets.methods.canaries import checks
from deid_assets.methods.canaries.checks import classes_of_canaries
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.choice import WorstClass
from deid_assets.methods.population.longitudinal_data import Dimension, Domain, Histories, LongitudinalData
from deid_assets.methods.population.released_population import member_codes
from deid_assets.methods.statistics import confidence
from deid_assets.policy.loading import policy_from
from deid_assets.release.manifest.public_numbers import PublicNumbers
from deid_assets.reports.plain_words import explain
from deid_assets_tests.methods.cases import KEY, middling_case
from deid_assets_tests.scenarios.policies import SMALL, changed

NAMED = ["AgeAtFirstClaim 0-19, Sex F", "AgeAtFirstClaim 80+, Sex blank"]
MEMBERS_OF_THREE = RiskByMember(np.array([0.9, 0.3, 0.0]), np.array([18, 6, 0]))


def policy(limit: float | None = 0.05):
    return policy_from(changed(SMALL, risk__worst_class_share_at_most=limit))


def measured(flagged, limit=0.05, number=1, draws=20_000):
    found = ClassShares(np.full(len(flagged), draws), np.array(flagged))
    return worst_classes.worst_measurements(policy(limit), found, NAMED, MEMBERS_OF_THREE, "c" * 64, number)


def by_name(measurements):
    return {one.name: one for one in measurements}


def judged(measurements, limit=0.05, number=1):
    evidence = Evidence(worst_classes.NAME, "d", "p", "0" * 64, worst_classes.WORST_CLASSES.version, measurements, number)
    required = [one for one in worst_classes.WORST_CLASSES.required(policy(limit)) if one.measurement == worst_classes.WORST]
    context = Context("d", "p", {worst_classes.NAME: "0" * 64}, {worst_classes.NAME: worst_classes.WORST_CLASSES.version},
                      {worst_classes.NAME: number})  # fmt: skip
    return [(one.rule, one.name) for one in judge([evidence], required, context)]


class TestGate:
    def test_compares_the_largest_joint_bound(self):
        for number in (1, 2):
            one = by_name(measured([100, 800], number=number))[worst_classes.WORST]
            each = confidence_of_each(confidence.confidence_of_try(0.99, number), 2)
            assert one.value == 0.04 and one.bound == confidence.clopper_pearson_upper_bound(800, 20_000, each)
            assert one.statistic == "upper_bound" and one.gating and one.passed
            assert not judged(measured([100, 800], number=number), number=number)

    def test_refuses_a_class_over_its_limit_although_the_others_are_not(self):
        assert judged(measured([0, 1_200])) == [("failed_measurement", f"worst_classes/{worst_classes.WORST}")]

    def test_refuses_a_class_of_which_only_the_bound_is_over(self):
        one = by_name(measured([0, 960]))[worst_classes.WORST]
        assert one.value < 0.05 < one.bound and one.failed_by_chance
        assert judged(measured([0, 960]))

    def test_refuses_evidence_that_did_not_judge_it(self):
        for wrong, rule in (
            (measured([0, 0], limit=None), "not_gating"),
            (measured([0, 0], limit=0.2), "another_threshold"),
            (tuple(one for one in measured([0, 0]) if one.name != worst_classes.WORST), "absent_measurement"),
        ):
            assert judged(wrong) == [(rule, f"worst_classes/{worst_classes.WORST}")]
        assert judged(measured([0, 0], number=1), number=2) == [("laxer_confidence", f"worst_classes/{worst_classes.WORST}")]

    def test_would_refuse_a_release_that_discloses_half_of_its_members(self):
        assert not passes(
            by_name(measured([0, 0], limit=1 / 3))[worst_classes.WORST], worst_classes.WORST_CLASSES.gates[0].disclosed
        )

    def test_is_optional(self):
        one = by_name(measured([0, 9_000], limit=None))[worst_classes.WORST]
        assert not one.gating and one.threshold is None and one.value == 0.45
        assert worst_classes.WORST not in {found.measurement for found in required_measurements(policy(None))}


class TestPolicy:
    def test_without_the_key_nothing_about_it_changes(self):
        """Its hash was that of an earlier version, which did not know the key."""
        without = policy_from(SMALL)
        assert "worst_class_share_at_most" not in without.content()["risk"]
        assert without.hash == policy(None).hash and without.section_hash("risk") == policy(None).section_hash("risk")
        assert without.hash != policy().hash and "worst_class_share_at_most" in policy().content()["risk"]

    def test_is_explained(self):
        assert "in each class of members with the same released person-level values, at most 5 %" in explain(policy())
        assert "the worst class of members with the same released person-level values is measured" in explain(policy(None))


class TestToldInPublic:
    def public(self):
        numbers = PublicNumbers(lambda cell, shape, count: count, {})
        evidence = Evidence(worst_classes.NAME, "d", "p", "0" * 64, "1", measured([100, 800]), 1)
        return numbers.evidence(evidence, "delivery", ())["measurements"]

    def test_the_restricted_edition_names_the_classes_the_worst_first(self):
        told = [one.name for one in measured([100, 800]) if one.name.startswith(worst_classes.OF_CLASS)]
        assert told == [f"{worst_classes.OF_CLASS}{NAMED[1]}", f"{worst_classes.OF_CLASS}{NAMED[0]}"]

    def test_the_public_edition_ranks_them(self):
        text = json.dumps(self.public())
        assert (
            "AgeAtFirstClaim" not in text and f'"{worst_classes.OF_CLASS}1"' in text and f'"{worst_classes.OF_CLASS}2"' in text
        )
        assert len(list(worst_classes.without_labels(measured([100, 800])))) == len(measured([100, 800]))

    def test_both_measurements_stand_in_it(self):
        told = {one["name"]: one for one in self.public()}
        assert told[worst_classes.WORST]["value"] == 0.04 and told[worst_classes.WORST]["passed"]
        assert told[worst_classes.MEMBERS]["protected"] is True and told[worst_classes.MEMBERS]["threshold"] is None

    def test_a_share_of_members_is_protected_and_that_of_their_flags_counts_nobody(self):
        found = by_name(measured([100, 800]))
        assert (
            found[worst_classes.MEMBERS].value == pytest.approx(1 / 3) and found[worst_classes.MEMBERS].exposure.counts_people
        )
        assert found[worst_classes.FLAGS].value == 0.75 and not found[worst_classes.FLAGS].exposure.counts_people

    def test_the_report_has_a_table_and_both_figures(self):
        told = {one["name"]: one for one in self.public()}
        assert worst_classes.report_table(told).rows[0][1].startswith("4 % (up to 4.")
        assert worst_classes.class_figure(measured([100, 800])).startswith(b"<?xml") and worst_classes.member_figure(
            measured([0, 0])
        ).startswith(b"<?xml")


class TestAttackByClass:
    success = np.array([[0.5, 0.0] * 2_000, [0.2, 0.2] * 2_000])

    def measured(self, number=1):
        return worst_classes.attack_measurements(policy(), self.success, NAMED, "c" * 64, number)

    def test_the_worst_class_is_told_with_a_joint_bound_and_gates_nothing(self):
        worst, first, second = self.measured()
        each = confidence_of_each(confidence.confidence_of_try(0.99, 1), 2)
        assert (worst.name, worst.value, worst.unit) == (worst_classes.WORST_ATTACK, 0.25, "probability")
        assert worst.bound == first.bound == confidence.empirical_bernstein_upper_bound(self.success[0], 1.0, each)
        assert (first.name, second.name) == tuple(f"{worst_classes.ATTACK_OF_CLASS}{name}" for name in NAMED)
        assert second.value == pytest.approx(0.2) and first.sample_size == 4_000 and worst.sample_size == 8_000
        assert not any(one.gating for one in self.measured()) and self.measured(2)[0].bound > worst.bound

    def test_the_public_edition_ranks_the_classes_and_rounds_the_worst(self):
        numbers = PublicNumbers(lambda cell, shape, count: count, {})
        both = (*measured([100, 800]), *self.measured())
        evidence = Evidence(worst_classes.NAME, "d", "p", "0" * 64, "2", both, 1)
        told = {one["name"]: one for one in numbers.evidence(evidence, "delivery", ())["measurements"]}
        assert not any(name in json.dumps(told) for name in NAMED)
        assert (
            told[f"{worst_classes.ATTACK_OF_CLASS}1"]["value"] == 0.25 and told[f"{worst_classes.OF_CLASS}1"]["value"] == 0.04
        )
        assert told[worst_classes.WORST_ATTACK]["value"] == 0.25
        (row,) = [row for row in worst_classes.report_table(told).rows if "neighbor" in row[0]]
        assert row[1].startswith("25 % (up to ") and worst_classes.attack_figure(self.measured()).startswith(b"<?xml")

    def test_classes_are_named_by_their_released_labels(self, store):
        own = policy()
        columns = own.member_columns
        names = ", ".join(f'"{column}" VARCHAR' for column in columns)
        rows = [(n, *(label if place == 0 else None for place in range(len(columns)))) for n, label in enumerate(["b", "a"])]
        shown = store.table("shown", f'"MemberID" BIGINT, {names}', rows)
        _, coded = member_codes(shown, columns)
        codes = np.stack([own_codes for own_codes, _ in coded], axis=1)
        named = worst_classes.released_class_names(own, shown, MemberClasses(np.arange(2), codes.astype(np.int64)))
        released = [own.quasi_identifier(column).release_as for column in columns]
        rest = "".join(f", {name} blank" for name in released[1:])
        assert named == [f"{released[0]} {label}{rest}" for label in ("b", "a")]

    @pytest.mark.parametrize(("members", "named"), [
        (20, "is AgeAtFirstClaim 20-39, Sex F, DaysInHospital_Y2 blank: 20.9 % of"),
        (19, "is one of fewer than 20 members of the population: 20.9 % of"),
    ])  # fmt: skip
    def test_a_refusal_names_the_class_unless_it_is_small_in_the_population(self, members, named, store):
        """In the second column, codes are of sex; the first is coarser at level 1, where ages 25 and 30 are one class."""
        age = Domain((np.arange(3), np.array([0, 0, 1])))
        codes = np.array([[n % 2, 1, 0] for n in range(members)] + [[2, 1, 0]] * (100 - members) + [[0, 0, 0]] * 20)
        whole = Domain((np.arange(2), np.arange(2)))
        known = Histories.of([[0]] * len(codes))
        data = LongitudinalData(
            codes, (age, Domain((np.arange(2),)), whole), (known,), (Domain((np.zeros(1, int),)),), np.arange(len(codes)),
            (known,), (np.ones(len(codes), np.int8),),
        )  # fmt: skip
        computation = NodeComputation(data, [Dimension("age", (0,), (), 2), Dimension("days", (2,), (), 2)], k=20)
        labels = {("age", 1): ["20-39", "40+"], ("sex", 0): ["M", "F"], ("days_in_hospital_y2", 0): [None, "0"]}
        rows = [(*key, code, label) for key, own in labels.items() for code, label in enumerate(own)]
        columns = "quasi_identifier VARCHAR, level INTEGER, level_code BIGINT, label VARCHAR"
        domains = store.table("domains", columns, rows)
        text = worst_classes.worst_class_text(policy(), computation, WorstClass((1, 0), (0, 1, 0), 0.1413), domains)
        every = worst_classes.worst_class_text(policy(), computation, WorstClass((1, 0), (0, 1, 0), 0.99), domains)
        assert named in text and text.endswith("risk.worst_class_share_at_most is 0.05.")
        assert ": 100 % of the draws" in every, "rounded up, but no share is above 1"


class TestCanaries:
    data, dimensions = middling_case()
    levels = NodeComputation(data, dimensions, k=20).generalization((1, 1))

    def found(self):
        return classes_of_canaries(self.data, self.levels, 20, hashlib.sha256(KEY).digest()[:16])

    def test_are_found_by_class_and_by_member(self):
        found = self.found()
        assert found.share == 1 and found.draws > 10

    def test_one_that_mixes_the_classes_misses_them(self, monkeypatch):
        def mixed(computation, node):
            classes = method.classes_of_members(computation, node)
            return replace(classes, of_target=np.roll(classes.of_target, 1))

        monkeypatch.setattr(checks, "classes_of_members", mixed)
        assert self.found().share < 1

    def test_one_that_overlooks_a_column_misses_them(self, monkeypatch):
        def one_class(computation, node):
            return method.classes_of_members(computation, computation.generalization(node, without_demographics=(0,)))

        monkeypatch.setattr(checks, "classes_of_members", one_class)
        assert self.found().share < 1

    @pytest.mark.parametrize("name", ["flagged_by_class", "risk_by_member"])
    def test_one_that_flags_nobody_misses_them(self, monkeypatch, name):
        honest = getattr(checks, name)

        def nobody(*of):
            found = honest(*of)
            return found * 0 if name == "flagged_by_class" else replace(found, share=found.share * 0)

        monkeypatch.setattr(checks, name, nobody)
        assert self.found().share < 1
