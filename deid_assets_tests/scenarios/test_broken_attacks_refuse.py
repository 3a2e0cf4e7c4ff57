"""An attack that breaks reports no risk and is refused, because it did not find the canaries; and the new gate."""

import numpy as np
import pytest

from deid_assets.assessments import neighbor_attack as assessed_sensitivity
from deid_assets.assessments.assessment import CANARIES
from deid_assets.assessments.evidence import from_frame
from deid_assets.errors import ERROR, REFUSED
from deid_assets.methods.attacks import attack_sensitivity, identified_file, provider_graph
from deid_assets.methods.kernel import engine
from deid_assets.methods.kernel.node_computation import DrawnClasses, NodeComputation
from deid_assets.store.tables import Query
from deid_assets_tests.scenarios.conftest import KEY
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy

pytestmark = pytest.mark.matrix


def measured(pipeline, asset: str) -> dict:
    (evidence,) = from_frame(pipeline.table(KEY, asset).frame())
    return {found.name: found for found in evidence.measurements}


def refused_for(pipeline, asset: str) -> None:
    """The run of the assessment fails its canary check, and the release alone afterwards is refused for it."""
    before = pipeline.published_bytes()
    summary = pipeline.run(KEY, [asset, "release"])
    assert summary.exit_code == REFUSED and summary.release is None
    (failed,) = summary.failed_checks
    assert failed.startswith(f"{asset}_canaries_within_threshold: measured 0."), failed
    again = pipeline.run(KEY, ["release"])
    assert again.exit_code == REFUSED and again.release is None
    assert f"{asset}/{CANARIES}" in " ".join(again.reasons)
    assert pipeline.published_bytes() == before


def test_a_neighbor_who_never_matches_reports_no_risk_and_is_refused(pipeline, monkeypatch):
    honest = NodeComputation.drawn_classes

    def no_match(self, *args, **kwargs):
        found = honest(self, *args, **kwargs)
        return DrawnClasses(found.targets, np.zeros_like(found.sizes), np.ones_like(found.exempt))

    with monkeypatch.context() as patch:
        patch.setattr(NodeComputation, "drawn_classes", no_match)
        pipeline.run(KEY, ["neighbor_attack"])
        found = measured(pipeline, "neighbor_attack")
        assert found["neighbor_success_given_membership"].value == 0 and found["neighbor_success_given_membership"].passed
        refused_for(pipeline, "neighbor_attack")


def test_a_kernel_that_finds_no_classes_is_refused(pipeline, monkeypatch):
    """Whoever asks it for flags flags everybody; the canaries who are alike are among them."""
    with monkeypatch.context() as patch:
        honest = engine.chosen()
        broken = engine.Engine(
            honest.name, honest.draw_in_order, honest.rows_for_knowledge,
            lambda part, cells, cell, rows, limit=None: np.full(len(cell), np.iinfo(np.int32).max // 2, np.int32),
        )  # fmt: skip
        patch.setattr(engine, "chosen", lambda: broken)
        pipeline.run(KEY, ["longitudinal_risk"])
        assert measured(pipeline, "longitudinal_risk")["high_risk_share"].value == 0
        refused_for(pipeline, "longitudinal_risk")


def test_an_analysis_in_which_nothing_fits_is_refused(pipeline, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(attack_sensitivity, "all_rows_hold", lambda bits, blocks, at, rows: np.zeros(len(at), bool))
        pipeline.run(KEY, ["attack_sensitivity"])
        assert measured(pipeline, "attack_sensitivity")["worst_sensitivity_given_membership"].value == 0
        refused_for(pipeline, "attack_sensitivity")


@pytest.mark.parametrize("lost", ["SELECT claim_id, member_id, NULL::VARCHAR AS place", "SELECT * EXCLUDE ()"])
def test_an_analysis_that_did_not_read_what_may_be_known_makes_no_evidence(pipeline, monkeypatch, lost):
    """The canaries are planted behind the reading, and would be found; whoever knows nothing would seem harmless."""
    honest = assessed_sensitivity.generalized_claims
    none = "" if "NULL" in lost else " WHERE false"

    def broken(*args, **kwargs):
        query = honest(*args, **kwargs)
        return (
            Query(f"{lost} FROM ({query.sql}){none}", query.parameters)
            if isinstance(query, Query)
            else f"{lost} FROM ({query}){none}"
        )

    before = pipeline.published_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(assessed_sensitivity, "generalized_claims", broken)
        summary = pipeline.run(KEY, ["attack_sensitivity", "release"])
    assert summary.exit_code == ERROR and summary.release is None, summary.reasons
    assert pipeline.published_bytes() == before


def test_a_list_of_people_that_overlooks_their_sex_is_refused(pipeline, monkeypatch):
    honest = identified_file.file_class_sizes
    reported = measured(pipeline, "voter_list_attack")["voter_list_match"].value
    with monkeypatch.context() as patch:
        patch.setattr(
            identified_file, "file_class_sizes", lambda rows, columns: honest(rows, [c for c in columns if c != "sex"])
        )
        pipeline.run(KEY, ["voter_list_attack"])
        assert measured(pipeline, "voter_list_attack")["voter_list_match"].value < reported
        refused_for(pipeline, "voter_list_attack")


def test_an_adversary_who_recognizes_no_provider_is_refused(pipeline, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(provider_graph, "recognized_by_patterns", lambda *_: provider_graph.Recognition(9, 0.0, 0.0))
        pipeline.run(KEY, ["provider_graph_attack"])
        assert measured(pipeline, "provider_graph_attack")["provider_pattern_success"].value == 0
        refused_for(pipeline, "provider_graph_attack")


def test_a_gate_on_the_worst_plausible_cell_refuses_with_the_right_number(pipeline):
    plausible = {"variants": ["one_claim_jointly"], "powers": [15]}
    section = {"trials": 2_000, "given_membership": {"at_most": 0.03}, "plausible": plausible}
    write_policy(pipeline.home.policies, changed(SMALL, attack_sensitivity=section))
    summary = pipeline.run(KEY, ["attack_sensitivity", "release"])
    assert summary.exit_code == REFUSED and summary.release is None
    found = measured(pipeline, "attack_sensitivity")
    worst = found["worst_sensitivity_given_membership"]
    cell = found["one_claim_jointly_power_15_given_membership"]
    assert (worst.value, worst.bound) == (cell.value, cell.bound) and worst.bound > 0.03
    (failed,) = summary.failed_checks
    said = f"measured {worst.value:.6g}, upper bound {worst.bound:.6g}, threshold 0.03"
    assert failed == f"worst_sensitivity_given_membership_within_threshold: {said}"


def test_the_original_cell_is_attack_1(pipeline):
    """Two programs, two streams: the row without other assumptions is what attack 1 itself measures."""
    attack = measured(pipeline, "neighbor_attack")["neighbor_success_given_membership"]
    policy_power = 3
    write_policy(
        pipeline.home.policies,
        changed(SMALL, attack_sensitivity={"trials": 20_000, "powers": [policy_power], "wrong_shares": [],
                                           "plausible": {"powers": [policy_power]}}),
    )  # fmt: skip
    pipeline.run(KEY, ["attack_sensitivity"])
    original = measured(pipeline, "attack_sensitivity")[f"original_power_{policy_power}_given_membership"]
    assert abs(original.value - attack.value) < (original.bound - original.value) + (attack.bound - attack.value)
