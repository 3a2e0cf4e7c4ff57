"""The gate inside the release refuses whatever is missing, stale, foreign or changed; `release` is materialized alone.

Every scenario begins where all checks have passed and only the release is left to make. After each refusal nothing is
published and the earlier release lies there as it did.
"""

import re
from dataclasses import replace
from html import unescape

import dagster as dg
import numpy as np
import pytest
import yaml

from deid_assets.assessments.evidence import from_frame, to_frame
from deid_assets.assessments.membership_changes import Leavers
from deid_assets.assessments.reachable_risk import GO_ON_TAG
from deid_assets.assets import preparation, release
from deid_assets.automation.ended_runs import RunSummary
from deid_assets.errors import ERROR, REFUSED
from deid_assets.methods.kernel.node_computation import DrawnClasses, NodeComputation
from deid_assets.methods.lattice.diagnosis import best_change
from deid_assets.methods.population import encoding
from deid_assets.policy.withdrawals import OptOutLine, note
from deid_assets.release.cumulative import tags_in_order
from deid_assets.release.verdict import verdict_in
from deid_assets.resources import Workplace
from deid_assets.store.tables import write_table
from deid_assets_tests.scenarios.conftest import KEY
from deid_assets_tests.scenarios.pipeline import Pipeline, publish_earlier_release
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy
from deid_assets_tests.stages import STAGES

ASSESSMENTS = STAGES["assessment"]
CANDIDATE = STAGES["candidate"]


def refused(pipeline: Pipeline, *because: str) -> RunSummary:
    """Materialize `release` alone, and see that it is refused for these reasons and leaves nothing behind."""
    before = pipeline.published_bytes()
    summary = pipeline.run(KEY, ["release"])
    assert summary.release is None, "the release was published"
    assert pipeline.published_bytes() == before, "the earlier release, the registry or a staging folder changed"
    assert pipeline.releases == ["small/0001"]
    could_not_judge = any("the gate could not judge" in reason for reason in summary.reasons)
    assert summary.exit_code == (ERROR if could_not_judge else REFUSED), summary.reasons
    for text in because:
        assert re.search(text, " ".join(summary.reasons)), f"{text!r} is not among the reasons: {summary.reasons}"
    return summary


def edit_evidence(pipeline: Pipeline, asset: str, **changes) -> None:
    """Rewrite stored evidence so that it does not contradict itself."""
    table = pipeline.table(KEY, asset)
    (item,) = from_frame(table.frame())
    write_table(table, to_frame([replace(item, **changes)]))


def edit_measurement(pipeline: Pipeline, asset: str, name: str, **changes) -> None:
    """Rewrite one number of stored evidence."""
    (item,) = from_frame(pipeline.table(KEY, asset).frame())
    measured = tuple(replace(m, **changes) if m.name == name else m for m in item.measurements)
    edit_evidence(pipeline, asset, measurements=measured)


# Tables


@pytest.mark.parametrize(
    ("asset", "statement"),
    [
        ("adversary_power", "UPDATE adversary.adversary_power SET power = 0"),
        *(
            pytest.param(*edit, marks=pytest.mark.matrix)
            for edit in (
                ("removed_members", "UPDATE preparation.removed_members SET sensitive = false"),
                ("value_domains", "UPDATE generalization.value_domains SET label = 'x' WHERE quasi_identifier = 'place'"),
                ("truncated_claims", "DELETE FROM preparation.truncated_claims WHERE claim_id IN"
                 " (SELECT min(claim_id) FROM preparation.truncated_claims)"),
            )
        ),
    ],
)  # fmt: skip
@pytest.mark.matrix
def test_a_table_changed_before_the_assessments_refuses(pipeline, asset, statement):
    """Candidate and assessments are made anew and agree with what was changed; nothing was made from it by an asset."""
    pipeline.edit_store(KEY, statement)
    pipeline.run(KEY, [*CANDIDATE, *ASSESSMENTS])
    refused(pipeline, f"{asset}: its table is not the one that was materialized")


def test_codes_are_read_only_if_they_are_those_of_the_claims(pipeline):
    """They are read in place of the claims: codes that were changed, or are of other claims, are an error until made again."""
    pipeline.edit_store(KEY, "UPDATE generalization.coded_histories SET times = times + 1 WHERE member_number = 0")
    for reader in ("longitudinal_risk", "generalization_lattice"):
        summary = pipeline.run(KEY, [reader])
        assert summary.exit_code == ERROR
        assert "coded_histories: its table is not the one that was materialized" in " ".join(summary.reasons)
    pipeline.edit_store(KEY, "DROP TABLE generalization.coded_histories")
    assert "not the one that was materialized" in " ".join(pipeline.run(KEY, ["membership_disclosure"]).reasons)
    summary = pipeline.run(KEY, ["coded_histories", "longitudinal_risk"])
    assert "longitudinal_risk" in summary.rows and not summary.reasons
    pipeline.run(KEY, ["truncated_claims"])
    for reader in ("worst_classes", "chosen_generalization"):
        summary = pipeline.run(KEY, [reader])
        assert summary.exit_code == ERROR
        assert "coded_histories: it was made from an earlier truncated_claims" in " ".join(summary.reasons)


def test_codes_that_are_not_those_of_the_claims_are_refused(pipeline, monkeypatch):
    """Assessments read them, and the gate measures on the claims: one that made them wrongly is found here."""
    honest = encoding.coded_histories

    def turned_around(*given):
        first, *others = honest(*given)
        return replace(first, codes=first.codes[::-1].copy()), *others

    monkeypatch.setattr(encoding, "coded_histories", turned_around)
    summary = pipeline.run(KEY, ["release"])
    assert summary.release is None
    (reason,) = summary.reasons
    assert reason.endswith(
        "coded_histories: its codes are not those of the claims; materialize it again, and what comes after it"
    )


def test_who_shows_a_pattern_of_care_is_counted_again(pipeline, monkeypatch):
    """What is blanked follows from a stored count, and the gate counts in the claims: a count that is wrong is found there."""
    honest = preparation.counted_patterns

    def too_many(*given):
        return f"SELECT * REPLACE (n_provider_id + 1000 AS n_provider_id) FROM ({honest(*given)})"

    with monkeypatch.context() as patch:
        patch.setattr(preparation, "counted_patterns", too_many)
        pipeline.run(KEY, ["patterns_of_care", "release_claims"])
    refused(pipeline, "release_claims: the staged rows differ", "ProviderID is shown next to a pattern of care")


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param(("CREATE MACRO main.min(x) AS 100",), id="a macro in place of a function"),
        pytest.param(
            (
                "CREATE SCHEMA hidden",
                "CREATE TABLE hidden.removed AS FROM preparation.removed_members",
                "DROP TABLE preparation.removed_members",
                "CREATE VIEW preparation.removed_members AS FROM hidden.removed WHERE current_query() LIKE '%whole row%'",
            ),
            id="a view that sees who asks",
            marks=pytest.mark.matrix,
        ),
    ],
)
def test_a_store_that_may_answer_differently_to_different_readers_is_not_read(pipeline, statements):
    before = pipeline.published_bytes()
    pipeline.edit_store(KEY, *statements)
    summary = pipeline.run(KEY, ["release"])
    assert summary.exit_code == ERROR and "which this product never creates" in " ".join(summary.reasons)
    assert pipeline.published_bytes() == before


# Checks


def test_a_failed_risk_check_refuses_in_its_own_run_and_afterwards(pipeline):
    """A blocking check stops only what comes after it in its own run: without the gate, `release` alone would pass."""
    write_policy(pipeline.home.policies, changed(SMALL, neighbor_attack__given_membership={"at_most": 0.01}))
    before = pipeline.published_bytes()
    summary = pipeline.run(KEY, ["neighbor_attack", "release"])
    assert summary.release is None and pipeline.published_bytes() == before
    (failed,) = summary.failed_checks
    assert failed.startswith("neighbor_attack_given_membership_within_threshold: measured 0.")
    assert summary.exit_code == REFUSED, summary.reasons
    refused(pipeline, "neighbor_success_given_membership", "the check did not pass")


@pytest.mark.matrix
def test_members_published_elsewhere_after_the_assessments_count(pipeline):
    """Two thirds of the population are released under another delivery: who is absent from both tells more."""
    members = pipeline.table(KEY, "eligible_members").frame()["member_id"].tolist()
    publish_earlier_release(pipeline.home, members[: 2 * len(members) // 3])
    before = pipeline.published_bytes()
    summary = pipeline.run(KEY, ["release"])
    assert summary.exit_code == REFUSED and summary.release is None
    (reason,) = summary.reasons
    assert "gate: absence_posterior is not at most its threshold" in reason
    assert "in earlier releases count too, and are in small/0002;" in reason, "small/0001 holds nobody of this population"
    assert pipeline.published_bytes() == before


@pytest.mark.matrix
def test_a_check_that_fails_for_earlier_releases_names_them(pipeline):
    """The assessment finds it first: what `deid run` prints then says which releases count, and no number of members."""
    members = pipeline.table(KEY, "eligible_members").frame()["member_id"].tolist()
    publish_earlier_release(pipeline.home, members[: 2 * len(members) // 3])
    summary = pipeline.run(KEY, ["demographic_risk", "release"])
    (failed,) = (text for text in summary.failed_checks if text.startswith("absence"))
    assert failed.startswith("absence_posterior_within_threshold: measured 0.") and ", threshold 0.3; " in failed
    assert "and are in small/0002;" in failed and summary.release is None


@pytest.mark.matrix
def test_whoever_opted_out_of_all_releases_after_they_were_drawn_is_not_published(pipeline):
    """The home's list is part of the policy: everything made before is stale, and the staged files are searched."""
    crosswalk, members = pipeline.table(KEY, "pseudonym_crosswalk"), pipeline.table(KEY, "release_members")
    (one,) = crosswalk.query(
        f"SELECT original_id FROM {crosswalk.sql} WHERE kind = 'member'"
        f' AND pseudonym = (SELECT min("MemberID") FROM {members.sql})'
    )["original_id"]
    note(pipeline.home.policies, OptOutLine(one, True, "asked", "2024-01-01T00:00:00Z"))
    summary = refused(pipeline, "members who opted out are in the staged files", "removed_members: it was made under another")
    assert one not in " ".join(summary.reasons)


@pytest.mark.matrix
def test_a_name_on_the_list_that_is_spelled_otherwise_than_a_member_refuses(pipeline):
    (one,) = pipeline.table(KEY, "released_sample").query(
        f"SELECT min(member_id) AS id FROM {pipeline.table(KEY, 'released_sample').sql}"
    )["id"]
    note(pipeline.home.policies, OptOutLine(f"0{one.upper()}", True, "asked", "2024-01-01T00:00:00Z"))
    refused(pipeline, "the home's list of opt-outs: among 1 identifiers listed are some that match no delivered member")


@pytest.mark.matrix
def test_attack_1_is_judged_at_the_alpha_of_the_release(pipeline):
    """Where only the figure for any member gates: it was measured before others of the population were published."""
    (item,) = from_frame(pipeline.table(KEY, "neighbor_attack").frame())
    measured = {found.name: found.bound for found in item.measurements}
    at_most = round(2 * measured["neighbor_success"], 4)
    gate = {"at_most": at_most, "statistic": "upper_bound", "confidence": 0.99}
    own = {"trials": SMALL["neighbor_attack"]["trials"], "unconditional": gate, "given_membership": None}
    write_policy(pipeline.home.policies, changed(SMALL, neighbor_attack=own, removal__absence_posterior_at_most=0.5))
    summary = pipeline.run(
        KEY, [name for stage, names in STAGES.items() if stage not in ("intake", "release") for name in names]
    )
    assert not summary.reasons and not summary.failed_checks, summary
    members = pipeline.table(KEY, "eligible_members").frame()["member_id"].tolist()
    publish_earlier_release(pipeline.home, members[: 2 * len(members) // 3])
    before = pipeline.published_bytes()
    summary = pipeline.run(KEY, ["release"])
    assert summary.exit_code == REFUSED and summary.release is None
    (reason,) = summary.reasons
    assert "neighbor_attack/neighbor_success: with the members that other releases now contain" in reason
    assert pipeline.published_bytes() == before


@pytest.mark.matrix
def test_who_left_for_good_is_not_published_though_they_were_drawn(pipeline, monkeypatch):
    def everybody(policy, earlier, secret, delivery):
        ids = pipeline.table(KEY, "eligible_members").frame()["member_id"].tolist()
        nobody = np.empty(0, dtype=np.uint64)
        return Leavers(np.unique(tags_in_order(ids, secret)), nobody, nobody)

    monkeypatch.setattr(release, "leavers", everybody)
    refused(pipeline, "were in an earlier release and have left for good")


@pytest.mark.matrix
def test_checks_deselected_from_the_run_refuse(pipeline):
    """What was materialized without its checks was never judged, though they passed on what lay there before."""
    summary = pipeline.run(KEY, ["demographic_risk", "release"], checks=False)
    assert summary.exit_code == ERROR and summary.release is None
    reasons = " ".join(summary.reasons)
    assert "demographic_risk_within_threshold: the check judged an earlier materialization" in reasons


@pytest.mark.matrix
def test_an_event_log_without_a_check_refuses(pipeline):
    """Evidence tables alone do not suffice: the event log is the second witness."""
    key = dg.AssetKey([pipeline.policy, "longitudinal_risk"])
    pipeline.instance.wipe_assets([key])
    pipeline.run(KEY, ["longitudinal_risk"], checks=False)
    refused(pipeline, "high_risk_share_within_threshold: the check")


# Missing evidence


def test_evidence_that_is_missing_or_edited_is_named_item_by_item(pipeline):
    """Never made; its table gone; edited so that it is consistent and still passes, where the event log tells other numbers."""
    pipeline.instance.wipe_assets([dg.AssetKey([pipeline.policy, "neighbor_attack"])])
    pipeline.edit_store(KEY, "DELETE FROM assessment.neighbor_attack", "DROP TABLE assessment.demographic_risk")
    edit_measurement(pipeline, "longitudinal_risk", "high_risk_share", value=0.0001, bound=0.0002)
    refused(
        pipeline,
        "neighbor_attack: no evidence",
        "neighbor_attack: it has never been materialized",
        "demographic_risk: no evidence",
        "longitudinal_risk: its table is not the one that was materialized",
    )


@pytest.mark.matrix
def test_evidence_that_was_never_made_refuses(pipeline):
    pipeline.instance.wipe_assets([dg.AssetKey([pipeline.policy, "neighbor_attack"])])
    pipeline.edit_store(KEY, "DELETE FROM assessment.neighbor_attack")
    refused(pipeline, "neighbor_attack: no evidence", "neighbor_attack: it has never been materialized")


@pytest.mark.matrix
def test_evidence_whose_table_is_gone_refuses(pipeline):
    pipeline.edit_store(KEY, "DROP TABLE assessment.demographic_risk")
    refused(pipeline, "demographic_risk: no evidence")


# Evidence of something else


@pytest.mark.matrix
def test_evidence_of_an_earlier_candidate_refuses(pipeline):
    """The candidate was made again from another choice of members after it was judged."""
    pipeline.edit_store(KEY, "DELETE FROM generalization.suppressed_members")
    pipeline.run(KEY, CANDIDATE)
    refused(pipeline, "it judged rows other than those staged", "made from an earlier release_claims")


@pytest.mark.matrix
def test_a_policy_changed_after_the_assessment_refuses(pipeline):
    """What it asks for now, the gate measures itself, whatever was chosen before."""
    asked = {"AgeAtFirstClaim": 0.9}
    write_policy(pipeline.home.policies, changed(SMALL, recipients__recipient_class="public", detail_at_least=asked))
    refused(
        pipeline,
        "longitudinal_risk: it was measured under another policy",
        "too little detail: AgeAtFirstClaim keeps less of its information than detail_at_least requires",
    )


@pytest.mark.matrix
def test_evidence_edited_in_the_store_refuses(pipeline):
    """Edited so that it is consistent, bound to these rows, and still passes: the event log tells other numbers."""
    edit_measurement(pipeline, "neighbor_attack", "neighbor_success_given_membership", value=0.0001, bound=0.0002)
    refused(pipeline, "neighbor_attack")


@pytest.mark.matrix
def test_evidence_of_something_else_refuses(pipeline):
    """Of another delivery, of another version of the method, against another threshold, for information only."""
    edit_evidence(pipeline, "demographic_risk", partition="another-delivery")
    edit_evidence(pipeline, "neighbor_attack", method_version="0")
    edit_measurement(pipeline, "longitudinal_risk", "high_risk_share", threshold=0.5)
    edit_measurement(pipeline, "longitudinal_risk", "high_risk_share_literal", gating=False)
    refused(
        pipeline,
        "demographic_risk: it judged another delivery",
        "neighbor_attack: it was measured by another version of its method",
        "longitudinal_risk/high_risk_share: it was compared with a threshold other than",
        "longitudinal_risk/high_risk_share_literal: the policy gates on it, but it was only measured for information",
    )


# Stale inputs


@pytest.mark.matrix
def test_a_candidate_made_before_its_claims_were_taken_in_again_refuses(pipeline):
    pipeline.run(KEY, ["members", "claims", "quarantined_rows", "delivered_codes"])
    refused(pipeline, "made from an earlier claims")


# Use


@pytest.mark.matrix
def test_a_release_that_keeps_less_than_the_policy_asks_for_is_refused_as_useless(pipeline):
    """The gate measures it itself: whatever the choice made of it, and whatever the search thinks."""
    write_policy(pipeline.home.policies, changed(SMALL, detail_at_least={"AgeAtFirstClaim": 0.9}))
    refused(pipeline, "too little detail: AgeAtFirstClaim keeps less of its information than detail_at_least requires")


@pytest.mark.matrix
def test_a_class_of_which_too_many_are_at_high_risk_refuses_whatever_the_average(pipeline):
    """Without this limit the same delivery is published: the average holds. No class may have a thirtieth of it."""
    write_policy(pipeline.home.policies, changed(SMALL, risk__worst_class_share_at_most=0.0005))
    before = pipeline.published_bytes()
    summary = pipeline.run(KEY, STAGES["generalization"])
    assert summary.exit_code == REFUSED and "no generalization of this policy passes" in summary.reasons[0], summary.reasons
    (reason,) = summary.reasons
    assert "share at high risk of the worst class at 2 nodes" in reason and "The class that fails " in reason
    assert reason.endswith("risk.worst_class_share_at_most is 0.0005.")
    assert pipeline.published_bytes() == before


@pytest.mark.matrix
def test_a_release_is_published_however_coarse_where_the_policy_says_so_and_its_headline_says_what_is_missing(pipeline):
    coarse = changed(SMALL, detail_at_least={"AgeAtFirstClaim": 0.9}, publish_however_coarse=True)
    write_policy(pipeline.home.policies, coarse)
    summary = pipeline.run(KEY, [name for stage, names in STAGES.items() if stage != "intake" for name in names])
    assert summary.release is not None, summary.reasons
    (said,) = [text for text in verdict_in(summary.release / "manifest.json").remarks if "however coarse" in text]
    assert "AgeAtFirstClaim keeps" in said and "where 0.9 is asked for: little can be learned from it" in said
    assert said in unescape((summary.release / "report.html").read_text())


@pytest.mark.matrix
def test_nodes_that_keep_too_little_are_not_chosen(pipeline):
    write_policy(pipeline.home.policies, changed(SMALL, detail_at_least={"AgeAtFirstClaim": 0.9}))
    summary = pipeline.run(KEY, ["lattice_diagnosis", "passed_over_nodes", "chosen_generalization", "suppressed_members"])
    assert summary.exit_code == REFUSED and summary.release is None
    (reason,) = summary.reasons
    assert "too little detail at 2 nodes" in reason and "lower it to try them" in reason
    passed_over = pipeline.table(KEY, "passed_over_nodes").frame().set_index("node")["gate"]
    assert passed_over[["1,0", "1,1"]].tolist() == ["too little detail"] * 2, "age at its coarser level"


# A kernel that lies


@pytest.mark.matrix
def test_a_kernel_that_flags_nobody_is_found_by_the_cross_check(pipeline, monkeypatch):
    """Draws that DuckDB counts in classes of fewer than k must be flagged by the kernel, draw for draw."""
    honest = NodeComputation.measure

    def flags_nobody(self, node, stream_key, draws, exemption="once", keep_flags=False):
        found = honest(self, node, stream_key, draws, exemption, keep_flags)
        return replace(found, flagged=0, flags=np.zeros(draws, dtype=bool) if keep_flags else None)

    monkeypatch.setattr(NodeComputation, "measure", flags_nobody)
    refused(pipeline, "cross_check_disagreements")


@pytest.mark.matrix
def test_a_kernel_whose_classes_are_too_large_by_one_is_found_by_the_cross_check(pipeline, monkeypatch):
    honest = NodeComputation.drawn_classes

    def too_large(self, *args, **kwargs):
        found = honest(self, *args, **kwargs)
        return DrawnClasses(found.targets, found.sizes + ~found.exempt, found.exempt)

    monkeypatch.setattr(NodeComputation, "drawn_classes", too_large)
    refused(pipeline, "cross_check_disagreements")


@pytest.mark.matrix
def test_a_kernel_that_flags_nobody_from_the_search_on_publishes_nothing(pipeline, monkeypatch):
    """It suppresses nobody and finds no risk; the counts of the staged rows do not believe it."""
    monkeypatch.setattr(NodeComputation, "_flags_of_batch", _nobody_flagged(NodeComputation._flags_of_batch))
    before = pipeline.published_bytes()
    pipeline.run(KEY, [*STAGES["generalization"], *CANDIDATE, *ASSESSMENTS])
    assert pipeline.table(KEY, "suppressed_members").count() == 0
    refused(pipeline, "cross_check_disagreements")
    assert pipeline.published_bytes() == before


def _nobody_flagged(honest):
    def flags(self, *args):
        found, exempt = honest(self, *args)
        return np.zeros_like(found), exempt

    return flags


@pytest.mark.matrix
def test_members_released_while_the_gate_was_judging_are_not_left_out_of_its_count(pipeline, monkeypatch):
    counts = iter([0])
    monkeypatch.setattr(Workplace, "released_before", lambda *_: next(counts, 40))
    before = pipeline.published_bytes()
    summary = pipeline.run(KEY, ["release"])
    assert summary.exit_code == ERROR and "in the meantime, members of this population were released" in " ".join(
        summary.reasons
    ), summary.reasons
    assert pipeline.published_bytes() == before


@pytest.mark.matrix
def test_a_change_that_was_offered_leads_to_a_release(pipeline):
    """Too few may be suppressed: no node holds. The sections that the refusal writes, put into the policy, publish."""
    values = changed(SMALL, risk__suppression={"at_most": 0.01})
    write_policy(pipeline.home.policies, values)
    summary = pipeline.run(KEY, STAGES["generalization"])
    assert summary.exit_code == REFUSED and "refused before the search" in summary.reasons[0], summary.reasons
    summary = pipeline.run(KEY, STAGES["generalization"], tags={GO_ON_TAG: "true"})
    assert summary.exit_code == REFUSED and "changes passed every gate" in summary.reasons[0], summary.reasons
    offered = best_change(pipeline.table(KEY, "lattice_diagnosis").frame())
    write_policy(pipeline.home.policies, values | yaml.safe_load(offered["change"]))
    after = [name for stage, names in STAGES.items() if stage not in ("intake",) for name in names]
    summary = pipeline.run(KEY, after)
    assert summary.release is not None, (offered["what"], summary.reasons, summary.failed_checks)


@pytest.mark.matrix
def test_cosmetic_edits_of_the_policy_buy_no_fresh_draws(pipeline, monkeypatch):
    """Title, owners, comments, a threshold moved by a hair, columns in another order: the gate draws what it drew before."""
    drawn = []
    honest = NodeComputation.measure

    def noted(self, node, stream_key, draws, exemption="once", keep_flags=False):
        found = honest(self, node, stream_key, draws, exemption, keep_flags)
        drawn.append((stream_key, draws, exemption, found.flagged, found.exempt))
        return found

    monkeypatch.setattr(NodeComputation, "measure", noted)
    assert pipeline.run(KEY, ["release"]).release is not None
    before, drawn[:] = tuple(drawn), []
    edited = changed(
        SMALL, title="The same under another title", owners=["team:others"], description="Told otherwise.",
        risk__max_high_risk_share=SMALL["risk"]["max_high_risk_share"] + 1e-9,
        quasi_identifiers__members=SMALL["quasi_identifiers"]["members"][::-1], dimensions=SMALL["dimensions"][::-1],
    )  # fmt: skip
    write_policy(pipeline.home.policies, edited)
    file = pipeline.home.policies / "small.yaml"
    file.write_text(f"# {file.name}, with a comment\n{file.read_text()}")
    summary = pipeline.run(KEY, ["release"])
    assert summary.release is None, "the assessments judged another text of the policy"
    of_gate, of_report = before[: len(drawn)], before[len(drawn) :]
    assert tuple(drawn) == of_gate and len(of_gate) >= 4
    keys = {key for key, *_ in of_report}
    assert len(keys) == 1 and keys.isdisjoint(key for key, *_ in of_gate), "only the report of a release draws more"
