"""From findings to measurements: every gate of the policy gates, at its threshold, on the statistic it names."""

import numpy as np
import pandas as pd
import pytest

from deid_assets.assessments import cross_release_risk, membership_changes
from deid_assets.assessments.absence import ABSENCE_FACTOR, ABSENCE_POSTERIOR, ABSENCE_PRIOR, absence_measurements
from deid_assets.assessments.assessment import CANARIES, canaries_measurement
from deid_assets.assessments.count_disclosure import CHANCE, DISCLOSED_CELLS, count_measurements
from deid_assets.assessments.demographic_risk import DEMOGRAPHIC, demographic_measurements
from deid_assets.assessments.identified_files import VOTER_LIST, Inpatients, inpatient_measurements, voter_list_measurements
from deid_assets.assessments.longitudinal_risk import (
    EXPECTED,
    EXPOSURE,
    FIXED,
    LIKE_SAFE_HARBOR,
    LITERAL,
    exposure_measurements,
    high_risk_measurements,
)
from deid_assets.assessments.membership_changes import ROTATION_POSTERIOR, NewlySensitive, rotation_measurements
from deid_assets.assessments.neighbor_attack import (
    GIVEN_MEMBERSHIP,
    UNCONDITIONAL,
    attack_confidence,
    mean_interval,
    neighbor_measurements,
)
from deid_assets.assessments.number_of_claims import NUMBERED, number_of_events_measurements
from deid_assets.assessments.registry import LONGITUDINAL, required_measurements
from deid_assets.assessments.utility import UNACCOUNTED, ledger_measurement
from deid_assets.assessments.worst_classes import WORST, worst_measurements
from deid_assets.methods.attacks.neighbor_attack import Estimate, NeighborAttackResult
from deid_assets.methods.attacks.worst_classes import ClassShares, RiskByMember
from deid_assets.methods.canaries.planting import Findings
from deid_assets.methods.counts.published_tables import COLUMNS, EarlierTables
from deid_assets.methods.disclosure.absence import NO_BOUND, AbsenceByClass, absence_posterior
from deid_assets.methods.disclosure.demographic_classes import demographic_risk
from deid_assets.methods.kernel.node_computation import NodeMeasurement
from deid_assets.methods.statistics.confidence import clopper_pearson_upper_bound
from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets.release.manifest.public_numbers import PublicNumbers
from deid_assets_tests.policy.policy_texts import public_values

POLICY = policy_by_name("heritage_public")
LIMIT = POLICY.risk.max_high_risk_share
SIZES = demographic_risk((500,), (100,), k=20)
NO_CLASS_AT_RISK = ClassShares(np.array([8_192]), np.array([0]))
NO_MEMBER_AT_RISK = RiskByMember(np.zeros(3), np.zeros(3, np.int64))


def attack(value: float = 0.01, high: float = 0.02) -> NeighborAttackResult:
    estimate = Estimate(value, 0.0, high)
    return NeighborAttackResult(trials=10_000, literal=estimate, unconditional=estimate, given_membership=estimate)


class TestHighRisk:
    def measured(self, fixed=4_000, literal=5_000, draws=1_000_000, policy=POLICY, number=1):
        found = high_risk_measurements(
            policy, NodeMeasurement(fixed, 0, draws), NodeMeasurement(literal, 0, draws), "c" * 64, number
        )
        return {m.name: m for m in found}

    def test_both_readings_gate_on_their_upper_bounds(self):
        found = self.measured()
        assert set(found) == {FIXED, LITERAL}
        for name, flagged in ((FIXED, 4_000), (LITERAL, 5_000)):
            one = found[name]
            assert (one.value, one.sample_size) == (flagged / 1_000_000, 1_000_000)
            assert one.bound == clopper_pearson_upper_bound(flagged, 1_000_000, 0.995) and one.confidence == 0.995
            assert (one.threshold, one.statistic, one.gating) == (LIMIT, "upper_bound", True)

    def test_every_try_has_half_the_error_of_the_one_before(self):
        for number, confidence in ((1, 0.995), (2, 0.9975), (3, 0.99875)):
            one = self.measured(number=number)[FIXED]
            assert one.confidence == pytest.approx(confidence, abs=1e-12)
            assert one.bound == clopper_pearson_upper_bound(4_000, 1_000_000, one.confidence)

    def test_a_share_just_below_the_threshold_does_not_pass_because_its_bound_is_above(self):
        found = self.measured(fixed=79, literal=10, draws=10_000)
        assert found[FIXED].value < LIMIT < found[FIXED].bound
        assert not found[FIXED].passed and found[LITERAL].passed

    def exposures(self, **counts) -> dict:
        return {m.name: m for m in exposure_measurements(POLICY, tuple(self.measured(**counts).values()))}

    def test_the_larger_share_is_told_as_the_article_reckons_it(self):
        found = self.exposures(fixed=4_000, literal=5_000)
        bound = clopper_pearson_upper_bound(5_000, 1_000_000, 0.995)
        expected, exposure = found[EXPECTED], found[EXPOSURE]
        assert expected.value == pytest.approx(0.005 + 0.995 * 0.05) and expected.bound == pytest.approx(
            bound + (1 - bound) * 0.05
        )
        assert exposure.value == pytest.approx(0.00025) and exposure.bound == pytest.approx(bound * 0.05)
        assert exposure.threshold == 0.0004 and exposure.passed and not self.exposures(literal=9_000)[EXPOSURE].passed
        assert {m.unit for m in (expected, exposure)} == {"probability"} and expected.sample_size == 1_000_000
        assert not any(m.gating for m in found.values())

    def test_the_papers_own_numbers(self):
        """A share of exactly .8 %: 5.8 % are expected to be re-identified, and the exposure is that of .04 % unique."""
        found = self.exposures(fixed=8_000, literal=8_000)
        assert round(found[EXPECTED].value, 3) == 0.058
        assert found[EXPOSURE].value == pytest.approx(found[EXPOSURE].threshold)
        like = found[LIKE_SAFE_HARBOR]
        assert (like.value, like.threshold, like.passed) == (pytest.approx(0.008), LIMIT, True)

    def test_a_policy_may_gate_on_the_estimate(self):
        policy = policy_from(public_values(risk__gate__statistic="estimate"))
        assert self.measured(fixed=79, literal=79, draws=10_000, policy=policy)[FIXED].passed


class TestNeighborAttack:
    def test_both_figures_gate_and_the_literal_one_is_reported(self):
        found = {m.name: m for m in neighbor_measurements(POLICY, attack(), "c" * 64, 1)}
        assert {name: m.gating for name, m in found.items()} == {
            UNCONDITIONAL: True, GIVEN_MEMBERSHIP: True, "neighbor_success_literal": False,
        }  # fmt: skip
        assert found[GIVEN_MEMBERSHIP].threshold == 0.05
        assert found[GIVEN_MEMBERSHIP].compared == 0.02

    def test_what_the_policy_does_not_gate_on_is_measured_without_a_threshold(self):
        policy = policy_from(public_values(neighbor_attack__unconditional=None))
        found = {m.name: m for m in neighbor_measurements(policy, attack(), "c" * 64, 1)}
        assert not found[UNCONDITIONAL].gating and found[UNCONDITIONAL].threshold is None
        assert found[GIVEN_MEMBERSHIP].gating

    def test_the_confidence_is_the_highest_that_a_gate_asks_for(self):
        policy = policy_from(public_values(neighbor_attack__unconditional__confidence=0.999))
        assert attack_confidence(policy) == 0.999
        sure = [m.confidence for m in neighbor_measurements(policy, attack(), "c" * 64, 2)]
        assert sure == pytest.approx([1 - 0.001 / 4] * 3, abs=1e-12)


class TestDemographics:
    def measured(self, population=(500, 19), release=(990, 10), removed=0.1, released_of_eligible=0.1):
        risk = demographic_risk(population, release, k=20)
        found = demographic_measurements(POLICY, risk, removed, released_of_eligible)
        return {m.name: m for m in found}

    def test_small_classes_gate_by_the_share_of_members_in_them(self):
        one = self.measured()[DEMOGRAPHIC]
        assert (one.value, one.gating, one.passed) == (0.01, True, False)
        assert self.measured(release=(993, 7))[DEMOGRAPHIC].passed

    def test_a_class_of_exactly_k_is_safe(self):
        assert self.measured(population=(500, 20))[DEMOGRAPHIC].value == 0

    def test_a_release_of_nobody_does_not_pass(self):
        one = self.measured(release=(0, 0))[DEMOGRAPHIC]
        assert one.value is None and not one.passed

    def test_small_classes_with_the_number_of_claims_gate_where_the_policy_says_so(self):
        reported = policy_from(public_values(number_of_claims=None))
        for released, passed in ((993, 7), True), ((990, 10), False), ((0, 0), False):
            risk = demographic_risk((500, 19), released, k=20)
            (one,) = number_of_events_measurements(POLICY, {NUMBERED: risk})
            assert (one.name, one.gating, one.passed) == (NUMBERED, True, passed)
            assert not number_of_events_measurements(reported, {NUMBERED: risk})[0].gating

    def test_absence_gates_by_bayes_rule(self):
        one = self.measured()[ABSENCE_POSTERIOR]
        assert one.value == absence_posterior(0.1, 0.1) == pytest.approx(0.11, abs=0.005)
        assert one.threshold is None and not one.gating, "the limit on the average is optional"
        limited = policy_from(public_values(removal__absence_posterior_at_most=0.15))
        for alpha, passed in ((0.1, True), (0.776, False)):
            risk = demographic_risk((500,), (100,), k=20)
            (found,) = (m for m in demographic_measurements(limited, risk, 0.1, alpha) if m.name == ABSENCE_POSTERIOR)
            assert (found.gating, found.passed, found.threshold) == (True, passed, 0.15)

    @pytest.mark.parametrize(
        ("eligible", "released", "value", "passed"),
        [([100, 100], [10, 20], 1.25, True), ([100, 100], [10, 21], 100 / 79, False), ([100, 1], [10, 1], NO_BOUND, False)],
    )
    def test_absence_gates_by_the_largest_factor_of_any_class(self, eligible, released, value, passed):
        found = AbsenceByClass(np.array(eligible), np.array(released), np.array([10, 0]))
        factor, prior = absence_measurements(POLICY, found)
        assert (factor.name, factor.gating, factor.threshold, factor.exposure.counts_people) == (
            ABSENCE_FACTOR,
            True,
            1.25,
            True,
        )
        assert (factor.value, factor.passed) == (pytest.approx(value), passed)
        assert (prior.name, prior.gating, prior.value) == (ABSENCE_PRIOR, False, 10 / (10 + sum(eligible)))

    def test_the_public_edition_rounds_up_what_absence_discloses_and_spends_no_noise_on_it(self):
        def nothing(*cell):
            raise AssertionError(f"{cell} would be a noisy number that nobody planned")

        found = AbsenceByClass(np.array([10_000, 5_000]), np.array([1_000, 581]), np.array([1_400, 900]))
        measured = {
            one.name: one
            for one in (*absence_measurements(POLICY, found), *demographic_measurements(POLICY, SIZES, 0.13213, 0.11623))
        }
        told = {
            name: PublicNumbers(nothing, {})._measurement(measured[name], [])
            for name in (ABSENCE_FACTOR, ABSENCE_POSTERIOR, ABSENCE_PRIOR)
        }
        assert measured[ABSENCE_FACTOR].value == pytest.approx(1.13148, abs=1e-5)
        assert told[ABSENCE_FACTOR]["value"] == 1.14 and told[ABSENCE_FACTOR]["passed"] is True
        assert (told[ABSENCE_POSTERIOR]["value"], told[ABSENCE_PRIOR]["value"]) == (0.15, None)
        assert {one["sample_size"] for one in told.values()} == {None}

    def test_where_nobody_is_removed_absence_gates_nothing(self):
        policy = policy_from(public_values(removal__code_list=None, removal__rare_visible_diseases=False))
        factor, _ = absence_measurements(policy, AbsenceByClass(np.array([1]), np.array([1]), np.array([0])))
        assert not factor.gating and factor.threshold is None
        assert not any(r.measurement == ABSENCE_FACTOR for r in required_measurements(policy))

    def test_the_smallest_class_is_a_number_about_people_and_only_reported(self):
        one = self.measured()["smallest_demographic_class"]
        assert (one.value, one.gating, one.exposure.counts_people) == (19, False, True)


class TestRequirements:
    def test_every_gate_of_the_policy_is_demanded_with_its_threshold(self):
        found = {(r.asset, r.measurement): r.threshold for r in required_measurements(POLICY)}
        assert found == {
            ("longitudinal_risk", FIXED): LIMIT,
            ("longitudinal_risk", LITERAL): LIMIT,
            ("worst_classes", WORST): 0.05,
            ("demographic_risk", DEMOGRAPHIC): LIMIT,
            ("demographic_risk", ABSENCE_FACTOR): 1.25,
            ("demographic_risk", NUMBERED): LIMIT,
            ("demographic_risk", ROTATION_POSTERIOR): 0.15,
            ("demographic_risk", membership_changes.APPEARED): 0.15,
            ("demographic_risk", membership_changes.CAME): 0.0,
            ("neighbor_attack", UNCONDITIONAL): 0.05,
            ("neighbor_attack", GIVEN_MEMBERSHIP): 0.05,
            ("voter_list_attack", VOTER_LIST): 0.05,
            ("count_disclosure_audit", CHANCE): 0.5,
            ("count_disclosure_audit", DISCLOSED_CELLS): 0.0,
            ("cross_release_risk", cross_release_risk.LINKED): LIMIT,
            ("cross_release_risk", cross_release_risk.LINKED_LITERAL): LIMIT,
            ("cross_release_risk", cross_release_risk.NEIGHBOR): 0.05,
            ("cross_release_risk", cross_release_risk.NOT_COMPARED): 0.0,
            ("cross_release_risk", cross_release_risk.TABLES): 0.0,
            ("cross_release_risk", cross_release_risk.WITHDRAWN): 0.0,
            ("utility", UNACCOUNTED): 0.0,
            **{(one.name, CANARIES): 1.0 for one in LONGITUDINAL},
        }

    def test_what_the_policy_does_not_gate_on_is_not_demanded(self):
        policy = policy_from(public_values(neighbor_attack__unconditional=None))
        names = {requirement.measurement for requirement in required_measurements(policy)}
        assert UNCONDITIONAL not in names and GIVEN_MEMBERSHIP in names

    def test_every_demand_is_met_by_what_is_measured(self):
        node = NodeMeasurement(0, 0, 1_000_000)
        measured = [
            *high_risk_measurements(POLICY, node, node, "c" * 64, 1),
            *worst_measurements(POLICY, NO_CLASS_AT_RISK, ["everybody"], NO_MEMBER_AT_RISK, "c" * 64, 1),
            *neighbor_measurements(POLICY, attack(), "c" * 64, 1),
            *demographic_measurements(POLICY, demographic_risk([500], [9], 20), 0.1, 0.1),
            *absence_measurements(POLICY, AbsenceByClass(np.array([500]), np.array([9]), np.array([50]))),
            *number_of_events_measurements(POLICY, {NUMBERED: demographic_risk([500], [9], 20)}),
            *membership_changes.changes_measured(POLICY, (), 9),
            *rotation_measurements(POLICY, NewlySensitive(0, 0, 0.99)),
            *cross_release_risk.linked_measurements(POLICY, (), "c" * 64, 1),
            *cross_release_risk.release_measurements(POLICY, cross_release_risk.Earlier(), ()),
            *voter_list_measurements(POLICY.voter_list_attack.at_most, None, None, "c" * 64),
            *inpatient_measurements(POLICY.inpatient_attack.at_most, Inpatients(()), "c" * 64),
            ledger_measurement(0),
        ]
        noisy = pd.DataFrame([("attrition", "a", "remaining", 5, None, 2.5, 1, 0, "x", "a remaining")], columns=list(COLUMNS))
        measured += count_measurements(POLICY, noisy, EarlierTables(), {})
        gating = {m.name: m.threshold for m in measured if m.gating}
        gating |= {canaries_measurement(Findings(9, 9), "c" * 64).name: 1.0}
        assert gating == {r.measurement: r.threshold for r in required_measurements(POLICY)}


def test_the_interval_of_a_mean_holds_the_mean_and_stays_within_0_and_1():
    interval = mean_interval(0.99)
    for values in (np.zeros(50), np.ones(50), np.linspace(0, 1, 400)):
        low, high = interval(values)
        assert 0 <= low <= values.mean() <= high <= 1
    assert interval(np.linspace(0, 1, 40_000))[1] - 0.5 < 0.02
