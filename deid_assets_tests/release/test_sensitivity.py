"""Cells and canaries as evidence: all of them told, the worst plausible one judged, whatever the others are."""

import pytest

from deid_assets.assessments.assessment import CANARIES, canaries_measurement
from deid_assets.assessments.evidence import Context, Evidence, judge
from deid_assets.assessments.neighbor_attack import (
    ATTACK_SENSITIVITY,
    SENSITIVITY,
    WITH_VALUES,
    WORST,
    analysis_rows,
    sensitivity_measurements,
    table_rows,
)
from deid_assets.assessments.registry import LONGITUDINAL, required_measurements
from deid_assets.methods.attacks.attack_sensitivity import Cell
from deid_assets.methods.attacks.neighbor_attack import Estimate
from deid_assets.methods.canaries.planting import Findings
from deid_assets.policy.loading import policy_from
from deid_assets_tests.policy.policy_texts import public_values

GATED = policy_from(
    public_values(
        attack_sensitivity={
            "plausible": {"variants": ["original", "one_pair_ordered"], "powers": [5, 10]},
            "given_membership": {"at_most": 0.05},
        }
    )
)
REPORTED = policy_from(public_values(attack_sensitivity={}))


def gates_required(policy) -> list[tuple[str, str, float]]:
    """What the policy requires of the analysis besides its canaries."""
    found = ATTACK_SENSITIVITY.required(policy)
    return [(one.asset, one.measurement, one.threshold) for one in found if one.measurement != CANARIES]


def canaries_required():
    return [one for one in required_measurements(GATED) if one.measurement == CANARIES]


def cells(policy=GATED, **given) -> list[Cell]:
    """Every cell at .01 with a bound of .02 given membership, but for those named like `original_5`."""
    made = []
    for row in analysis_rows(policy):
        for power in policy.attack_sensitivity.powers:
            value = given.get(f"{row}_{power}", 0.01)
            made.append(Cell(row, power, 10_000, 9_000, Estimate(value, 0, 2 * value), Estimate(value / 10, 0, value / 5)))
    return made


def measured(policy=GATED, **given):
    return {found.name: found for found in sensitivity_measurements(policy, cells(policy, **given), "c" * 64, 1)}


def test_both_figures_of_every_cell_are_told_and_gate_nothing_themselves():
    found = measured(one_claim_jointly_15=0.3)
    assert len(found) == 2 * 39 + 3
    one = found["one_claim_jointly_power_15_given_membership"]
    assert (one.value, one.bound, one.gating, one.threshold, one.sample_size) == (0.3, 0.6, False, None, 10_000)
    assert found["one_claim_jointly_power_15_unconditional"].value == pytest.approx(0.03)
    assert {name for name, m in found.items() if m.gating} == {WORST["given_membership"]}
    assert all(not m.exposure.counts_people and m.confidence == 0.995 for m in found.values())


def test_the_worst_plausible_cell_gates_and_no_other():
    worst = WORST["given_membership"]
    assert measured(one_claim_jointly_15=0.3, original_15=0.3)[worst].passed
    failed = measured(one_pair_ordered_10=0.03)[worst]
    assert (failed.value, failed.bound, failed.threshold, failed.passed) == (0.03, 0.06, 0.05, False)


def test_a_policy_without_gate_demands_nothing_of_it_and_one_with_a_gate_its_threshold():
    assert gates_required(REPORTED) == []
    assert gates_required(GATED) == [(SENSITIVITY, WORST["given_membership"], 0.05)]
    assert not any(found.gating for found in measured(REPORTED).values())


def test_who_knows_values_and_the_number_of_claims_gates_where_the_policy_says_so():
    """At the width of the policy and its plausible powers, whatever other widths and powers find."""
    gated = policy_from(
        public_values(
            number_of_claims__with_values={"at_most": 0.3, "confidence": 0.999},
            attack_sensitivity={"plausible": {"powers": [5, 10]}},
        )
    )
    assert gates_required(gated) == [(SENSITIVITY, WITH_VALUES, 0.3)]
    found = measured(gated, number_of_claims_known_5=0.9, number_of_claims_known_within_5_15=0.9)
    assert (found[WITH_VALUES].value, found[WITH_VALUES].gating, found[WITH_VALUES].passed) == (0.01, True, True)
    assert {round(one.confidence, 12) for one in found.values()} == {0.9995}
    failed = measured(gated, number_of_claims_known_within_5_10=0.2)[WITH_VALUES]
    assert (failed.value, failed.bound, failed.passed) == (0.2, 0.4, False)
    reported = measured(REPORTED, number_of_claims_known_within_5_15=0.9)[WITH_VALUES]
    assert (reported.value, reported.gating, reported.threshold) == (0.9, False, None)


def test_a_cell_that_was_not_measured_is_no_small_risk():
    with pytest.raises(ValueError, match="not those that the policy names"):
        sensitivity_measurements(GATED, cells()[:-1], "c" * 64, 1)


def test_the_table_is_read_back_in_the_order_of_the_policy():
    rows = table_rows(GATED, reversed(list(measured(original_10=0.04).values())))
    assert [(row, power) for row, power, _ in rows[:4]] == [
        ("original", 5), ("original", 10), ("original", 15), ("one_claim_jointly", 5),
    ]  # fmt: skip
    assert rows[1][2]["given_membership"] == (0.04, 0.08) and len(rows) == 39
    assert table_rows(GATED, []) == []


class TestCanaries:
    context = Context("2024", "p" * 64, {SENSITIVITY: "a" * 64}, {SENSITIVITY: "1"})

    def judged(self, *measurements):
        evidence = Evidence(SENSITIVITY, "2024", "p" * 64, "a" * 64, "1", measurements)
        required = [requirement for requirement in ATTACK_SENSITIVITY.required(GATED) if requirement.measurement == CANARIES]
        return [(refusal.rule, refusal.name) for refusal in judge([evidence], required, self.context)]

    def test_all_found_pass(self):
        assert self.judged(canaries_measurement(Findings(1000, 1000), "c" * 64)) == []

    @pytest.mark.parametrize("found", [Findings(999, 1000), Findings(0, 0), Findings(0, 1000)])
    def test_one_that_is_missing_refuses(self, found):
        assert self.judged(canaries_measurement(found, "c" * 64)) == [("failed_measurement", f"{SENSITIVITY}/{CANARIES}")]

    def test_evidence_without_them_refuses(self):
        others = sensitivity_measurements(REPORTED, cells(REPORTED), "c" * 64, 1)
        assert self.judged(*others) == [("absent_measurement", f"{SENSITIVITY}/{CANARIES}")]

    def test_every_attack_that_plants_them_must_show_them(self):
        assert {one.name for one in LONGITUDINAL} == {one.asset for one in canaries_required()}
        assert all(requirement.threshold == 1.0 for requirement in canaries_required())
