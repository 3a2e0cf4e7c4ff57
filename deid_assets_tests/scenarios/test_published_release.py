"""A delivery is published by one command: what lies there afterwards, and what the UI knows of it."""

import base64
import csv
import html
import io
import json
import math
import re
from pathlib import Path

import dagster as dg
import duckdb
import numpy as np
import pytest
from rich.console import Console

from deid_assets.assessments.evidence import from_frame
from deid_assets.automation.ended_runs import RunSummary
from deid_assets.building import build_definitions
from deid_assets.command_line.progress import Detail, Progress
from deid_assets.command_line.summary import Task, print_summary, summary_json
from deid_assets.methods.lattice.certificate import rounding_step
from deid_assets.policy.loading import policies_in
from deid_assets.release.keys import SigningKey
from deid_assets.release.publication.verification import verify_release
from deid_assets.schemas.counts import FILES
from deid_assets.sources.registration import registered_delivery
from deid_assets.stages import STAGE_OF
from deid_assets_tests.scenarios.command_line import PUBLISHED, deid_here
from deid_assets_tests.scenarios.conftest import KEY, MEMBERS, RELEASED
from deid_assets_tests.scenarios.pipeline import copy_of
from deid_assets_tests.stages import STAGES


def svg_in(markdown: str) -> str:
    return base64.b64decode(re.search(r"data:image/svg\+xml;base64,([\w+/=]+)", markdown)[1]).decode()


COUNT_TABLES = FILES.keys() - {"Totals"}
TABLES = {"Members", "Claims", "DaysInHospital_Y2"}


@pytest.fixture(scope="module")
def manifest(published) -> dict:
    return json.loads((published.release / "manifest.json").read_text())


def test_the_command_ends_with_0_and_says_where_the_release_lies(published):
    assert published.exit_code == PUBLISHED, published.printed
    assert str(published.release) in published.printed.replace("\n", "")
    assert published.pipeline.releases == ["small/0001"]


def test_the_summary_shows_rows_gates_time_and_memory(published):
    for stated in ("members", f"{MEMBERS:,}", "longitudinal_risk", "GB of memory", "seconds"):
        assert stated in published.printed
    for gate in ("high_risk_share", "neighbor_success_given_membership", "absence_posterior"):
        row = next(line for line in published.printed.splitlines() if f" {gate} " in line)
        assert "passed" in row


def test_the_summary_says_everything_once_and_what_the_columns_still_tell(published):
    lines = [line.split() for line in published.printed.splitlines()]
    for name in (name for names in STAGES.values() for name in names):
        assert sum(name in line and "rows" in line for line in lines) == 1, name
    (canaries,) = [line for line in published.printed.splitlines() if "canaries_found" in line]
    assert f"canaries_found ({len(STAGES['assessment'])} assessments)" in canaries and "passed" in canaries
    policy = policies_in(published.pipeline.home.policies)["small"]
    shown = published.printed.split("What the columns still disclose")[1]
    for qi in policy.quasi_identifiers.all:
        (line,) = [line for line in shown.splitlines() if f" {qi.release_as} " in line]
        assert line.split("│")[2].strip() in policy.hierarchy_of(qi.column).level_names, line


def test_the_summary_is_there_as_json_and_short(published):
    home, policy = published.pipeline.home, policies_in(published.pipeline.home.policies)["small"]
    console = Console(file=io.StringIO(), width=200)
    task = Task(home, policy, registered_delivery(home, KEY), Progress(console, Detail.QUIET))
    rows = {name: 1 for names in STAGES.values() for name in names}
    summary = RunSummary(PUBLISHED, rows, release=published.release, reasons=(), peak_memory_gb=0.5)
    found = json.loads(json.dumps(summary_json(task, summary, 12.34), allow_nan=False))
    assert (found["outcome"], found["exit_code"], found["release"]) == ("published", 0, str(published.release))
    assert {gate["measurement"] for gate in found["gates"]} >= {"high_risk_share", "absence_posterior", "canaries_found"}
    assert all(gate["passed"] is True and gate["threshold"] is not None for gate in found["gates"])
    assert [one["column"] for one in found["kept"]] == [qi.release_as for qi in policy.quasi_identifiers.all]
    print_summary(task, summary, 12.34)
    remark, said = console.file.getvalue().splitlines()
    assert remark.startswith("Laxer than the reference thresholds: risk.max_high_risk_share is 0.015")
    assert said == f"Published  {published.release}"


def test_risk_figures_are_numbers_of_the_assessments_which_the_ui_plots_over_deliveries(published):
    for name in STAGES["assessment"]:
        shown = published.pipeline.materialization(name, KEY).metadata
        (evidence,) = from_frame(published.pipeline.table(KEY, name).frame())
        for found in evidence.measurements:
            if found.value is not None and math.isfinite(found.value):
                assert isinstance(shown[found.name], dg.FloatMetadataValue) and shown[found.name].value == found.value, (
                    found.name
                )
        assert "False" not in shown["measurements"].value and "| passed |" in shown["measurements"].value, name


def test_files_are_csv_and_parquet_with_the_same_rows(published):
    data = published.release / "data"
    for name in TABLES:
        both = duckdb.sql(
            f"SELECT (SELECT count(*) FROM (SELECT COLUMNS(*)::VARCHAR FROM '{data}/{name}.parquet' EXCEPT ALL"
            f"        SELECT * FROM read_csv('{data}/{name}.csv', all_varchar = true, nullstr = ''))) AS missing,"
            f"       (SELECT count(*) FROM '{data}/{name}.parquet') AS rows"
        ).fetchall()
        assert both[0][0] == 0 and both[0][1] > 0, name


def test_columns_are_those_of_the_heritage_files(published):
    headers = {}
    for name in TABLES:
        with (published.release / "data" / f"{name}.csv").open() as file:
            headers[name] = next(csv.reader(file))
    assert headers["Members"] == ["MemberID", "AgeAtFirstClaim", "Sex"]
    assert headers["DaysInHospital_Y2"] == ["MemberID", "DaysInHospital"]
    assert headers["Claims"] == [
        "MemberID", "ProviderID", "Vendor", "PCP", "Year", "PlaceSvc", "PayDelay", "CharlsonIndex", "SupLOS",
    ]  # fmt: skip


def test_the_dictionary_describes_every_column_with_the_labels_that_occur(published, manifest):
    told = json.loads((published.release / "data" / "dictionary.json").read_bytes())
    assert "data/dictionary.json" in {file["path"] for file in manifest["files"]}, "its digest is signed"
    assert set(told["tables"]) == TABLES | COUNT_TABLES
    for name, described in told["tables"].items():
        with (published.release / "data" / f"{name}.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert [column["name"] for column in described["columns"]] == list(rows[0])
        for column in described["columns"]:
            assert column["meaning"] and column["type"] and column["role"]
            if "labels" in column:
                assert set(column["labels"]) == {row[column["name"]] for row in rows} - {""}, column["name"]


def test_what_is_left_of_each_column_is_what_its_values_tell(published, manifest):
    """Entropy of the released labels over that of the ages of the released members, rounded down."""
    gate = next(item for item in manifest["evidence"] if item["asset"] == "gate")
    told = {m["name"]: m["value"] for m in gate["measurements"] if m["name"].endswith("/information_kept")}
    assert set(told) == {"AgeAtFirstClaim/information_kept", "DaysInHospital_Y2/information_kept"}
    pipeline = published.pipeline
    profiles = pipeline.table(KEY, "member_profiles")
    suppressed = pipeline.table(KEY, "suppressed_members").sql
    ages = profiles.query(
        f"SELECT age FROM {profiles.sql} WHERE released AND member_id NOT IN (SELECT member_id FROM {suppressed})"
    )["age"]
    labels = duckdb.sql(
        f"SELECT AgeAtFirstClaim FROM read_csv('{published.release}/data/Members.csv', all_varchar = true)"
    ).df()

    def entropy(values) -> float:
        shares = values.value_counts(normalize=True, dropna=False)
        return float(-(shares * np.log2(shares)).sum())

    exact = entropy(labels["AgeAtFirstClaim"]) / entropy(ages)
    step = rounding_step(len(labels))
    assert exact - step <= told["AgeAtFirstClaim/information_kept"] <= exact

    released = f"SELECT member_id FROM {profiles.sql} WHERE released AND member_id NOT IN (SELECT member_id FROM {suppressed})"
    members = pipeline.table(KEY, "members")
    delivered = members.query(f"SELECT days_in_hospital_y2 AS days FROM {members.sql} WHERE member_id IN ({released})")["days"]
    stays = duckdb.sql(
        f"SELECT d.DaysInHospital AS label FROM read_csv('{published.release}/data/Members.csv', all_varchar = true)"
        f" LEFT JOIN read_csv('{published.release}/data/DaysInHospital_Y2.csv', all_varchar = true) AS d USING (MemberID)"
    ).df()["label"]
    exact = entropy(stays) / entropy(delivered)
    assert exact - step <= told["DaysInHospital_Y2/information_kept"] <= exact < 1, "days above the top code are one label"


def test_the_why_ledger_ends_at_the_released_rows_and_the_report_says_what_is_kept(published, manifest):
    """The assessment counted the release again; here the files are counted."""
    ledger = published.pipeline.table(KEY, "why_ledger").frame()
    ends = ledger.sort_values("place").groupby(["source_table", "source_column"]).tail(1)
    rows = {row.source_table: row.remaining for row in ends.itertuples() if row.source_column == ""}
    files = {file["path"]: file["rows"] for file in manifest["files"]}
    assert rows == {"members": files["data/Members.csv"], "claims": files["data/Claims.csv"]}
    first = ledger[ledger["step"] == "delivered"].set_index(["source_table", "source_column"])["remaining"]
    sums = ledger.groupby(["source_table", "source_column"])[["lost", "filled"]].sum()
    last = ends.set_index(["source_table", "source_column"])["remaining"]
    assert (first - sums["lost"] + sums["filled"] - last).tolist() == [0] * len(first)
    report = (published.release / "report.html").read_text(encoding="utf-8")
    assert "What the release is good for" in report and "Why something is missing" in report
    exit_code, printed = deid_here(published.pipeline.home.root, "kept", "small/0001")
    assert exit_code == 0 and "AgeAtFirstClaim" in printed and "withheld" in printed


def test_the_report_tells_before_and_after_suppression_and_what_no_gate_holds(published):
    text = html.unescape((published.release / "report.html").read_text())
    assert "What is left of each column" in text and "% of their information on average" in text
    assert "of the released inpatients correctly by all of their visits; no gate of the policy limits this." in text
    assert "age: 20 years; days in hospital: none or any, without the suppressed members" in text
    figures = " ".join(base64.b64decode(found).decode() for found in re.findall(r"image/svg\+xml;base64,([\w+/=]+)", text))
    assert "With the whole sample, 0 of 4 nodes are candidates" in figures
    assert "chosen, all members" in figures and "chosen, without suppressed members" in figures
    assert "Risk by column" in text and all(name in figures for name in ("AgeAtFirstClaim", "all of members", "all of claims"))
    assert "Risk by value" in text and "AgeAtFirstClaim 0-19" in figures
    assert "Levels to choose from (Table 4)" in text
    assert not (published.pipeline.home.store / "small" / f"{KEY}.refused.html").exists()


def test_what_can_be_inferred_is_measured_on_the_released_rows(published, manifest):
    """Diagnoses are not released, so that they are predicted in all claims together; numbers about people stay inside."""
    (public,) = [item["measurements"] for item in manifest["evidence"] if item["asset"] == "inference_channels"]
    found = {one["name"]: one for one in public}
    assert found["canaries_found"]["value"] == 1
    for digits in (3, 5):
        assert found[f"diagnosis_{digits}/groups"]["value"] == 1
        shares = [found[f"diagnosis_{digits}/all groups/{name}"]["value"] for name in ("most_frequent", "naive_bayes")]
        assert all(0 < share < 1 for share in shares)
    assert found["largest_inference_gain"]["value"] is None and found["largest_inference_gain"]["gating"] is False
    exact = from_frame(published.pipeline.table(KEY, "inference_channels").frame())[0].measurements
    (largest,) = [one for one in exact if one.name == "largest_inference_gain"]
    assert -1 < largest.value < largest.bound <= 1
    text = html.unescape((published.release / "report.html").read_text())
    assert "What can be inferred" in text and "three-digit diagnosis code" in text


def test_only_what_the_policy_lists_is_published(published):
    """Days in hospital of year 3 are no quasi-identifier of this policy, and so are not released."""
    rows = duckdb.sql(
        f"SELECT count(*) FROM read_csv('{published.release}/data/*Y3.csv', all_varchar = true)"
        if list(published.release.glob("data/*Y3.csv"))
        else "SELECT 0"
    ).fetchall()[0][0]
    assert rows == 0


def test_no_original_identifier_is_published(published):
    store = published.pipeline.table(KEY, "pseudonym_crosswalk")
    originals = set(store.frame()["original_id"])
    for name in TABLES:
        with (published.release / "data" / f"{name}.csv").open() as file:
            assert not originals & {cell for row in csv.reader(file) for cell in row}


def test_members_sampled_and_not_suppressed_are_those_released(published):
    pipeline = published.pipeline
    suppressed = pipeline.table(KEY, "suppressed_members").count()
    released = duckdb.sql(f"SELECT count(*), count(DISTINCT MemberID) FROM '{published.release}/data/Members.csv'")
    sampled = pipeline.table(KEY, "released_sample").count()
    assert abs(sampled - RELEASED) <= 60 and 0 < suppressed <= 0.1 * sampled
    assert released.fetchall() == [(sampled - suppressed, sampled - suppressed)]


def test_release_verifies_offline_with_the_exported_key(published, tmp_path):
    root = published.pipeline.home.root
    code, _ = deid_here(root, "key", "export", "--output", tmp_path / "key.pem")
    assert code == 0
    code, printed = deid_here(root, "verify", published.release, "--key", tmp_path / "key.pem")
    assert code == 0 and "is in order" in printed and "NOT" not in printed
    code, printed = deid_here(root, "verify", published.release)
    assert code == 0 and "is in order by the key of this home" in printed
    code, printed = deid_here(tmp_path / "elsewhere", "verify", published.release)
    assert code == 1 and "unanchored" in printed, "a signature proves nothing without a trusted key"


def test_the_certificate_rules_out_every_node_that_would_lose_less(published, tmp_path):
    root = published.pipeline.home.root
    deid_here(root, "key", "export", "--output", tmp_path / "key.pem")
    exact = root / "store" / "manifests" / published.release.parent.name / "0001.certificate.json"
    code, printed = deid_here(root, "verify", published.release, "--key", tmp_path / "key.pem", "--certificate", exact)
    assert code == 0 and "the exact edition of the certificate holds" in printed, printed
    told = json.loads((published.release / "certificate.json").read_bytes())
    nodes = published.pipeline.table(KEY, "generalization_lattice").frame().set_index("node")
    chosen = ",".join(map(str, told["chosen"]["node"]))
    below = [",".join(map(str, node["node"])) for node in told["directly_below"]]
    handled = [tuple(node["node"]) for node in told["passed_over"]]
    tops = [node["node"] for node in told["failed"]]
    for node, loss in nodes["loss"].items():
        levels = [int(level) for level in node.split(",")]
        ruled_out = any(all(a <= b for a, b in zip(levels, top, strict=True)) for top in tops)
        assert ruled_out or tuple(levels) in handled or loss >= nodes.loc[chosen, "loss"] - 1e-12
    assert [node["flagged"] for node in told["directly_below"]] == nodes.loc[below, "flagged"].tolist()


def test_a_changed_byte_is_found(published, tmp_path):
    with copy_of(published.pipeline.home.root, tmp_path / "deid") as pipeline:
        key = SigningKey.load_or_create(pipeline.home.keys).public
        file = pipeline.home.releases / "small" / "0001" / "data" / "Claims.csv"
        file.chmod(0o644)
        file.write_bytes(file.read_bytes().replace(b",Y1,", b",Y2,", 1))
        report = verify_release(file.parent.parent, key)
        assert not report.ok and "Claims.csv" in report.text()


def test_the_manifest_names_files_policy_code_evidence_and_lineage(published, manifest):
    expected = {f"data/{name}.{ending}" for name in (*TABLES, *COUNT_TABLES) for ending in ("csv", "parquet")}
    assert {entry["path"] for entry in manifest["files"]} >= expected
    text = json.dumps(manifest)
    for stated in ("named researchers", "Nobody tries to identify anybody.", "dagster", "duckdb"):
        assert stated in text
    measured = {m["name"] for item in manifest["evidence"] for m in item["measurements"]}
    assert {"high_risk_share", "high_risk_share_literal", "neighbor_success", "cross_check_disagreements"} <= measured
    assert "release_claims" in text and "truncated_claims" in text, "the lineage names the inputs' data versions"


def test_the_public_manifest_holds_no_exact_count_of_members(published, manifest):
    """methods#protected-counts: no exact count leaves the restricted store; what is released can be counted by anyone."""
    removed = published.pipeline.table(KEY, "removed_members")
    exact = int(removed.query(f"SELECT count(DISTINCT member_id) AS n FROM {removed.sql}")["n"].iloc[0])
    shown = [step for step in manifest["attrition"] if step["stage"] == "members_not_removed"]
    assert len(shown) == 1 and shown[0]["rows_out"] != MEMBERS - exact


def test_the_registry_has_one_entry_whose_head_is_in_the_event_log(published):
    chain = published.pipeline.registry.chain()
    (entry,) = chain.entries
    assert (entry.policy, entry.number) == ("small", 1) and re.fullmatch("[0-9a-f]{16}", entry.delivery)
    metadata = published.pipeline.materialization("release", KEY).metadata
    assert metadata["registry_head"].value == chain.head
    # The home of the run was another: `published` is a copy of it.
    assert Path(metadata["release"].value).parts[-3:] == published.release.parts[-3:]


def test_every_asset_has_its_key_group_owners_and_code_version(published):
    pipeline = published.pipeline
    graph = build_definitions(home=pipeline.home).resolve_asset_graph()
    for name in pipeline.every_asset:
        node = graph.get(dg.AssetKey(["small", name]))
        assert node.group_name == f"small/{STAGE_OF[name]}"
        assert list(node.owners) == ["team:privacy"]
        assert node.code_version and node.description and node.kinds
        assert node.partitions_def is not None


def test_every_materialization_tells_rows_columns_lineage_time_and_memory(published):
    pipeline = published.pipeline
    for name in pipeline.every_asset:
        metadata = pipeline.materialization(name, KEY).metadata
        for key in ("dagster/row_count", "dagster/column_schema", "peak_memory_gb"):
            assert key in metadata, f"{name} lacks {key}"
    seconds = [n for n in pipeline.every_asset if "seconds" not in pipeline.materialization(n, KEY).metadata]
    # The outputs that a multi-asset yields after its first share that one's time.
    late = {
        "claims",
        "quarantined_rows",
        "delivered_codes",
        "passed_over_nodes",
        "compared_nodes",
        "chosen_generalization",
        "suppressed_members",
    }
    assert set(seconds) <= late


def test_the_lattice_in_the_ui_marks_the_node_of_the_release_where_it_was_chosen(published):
    searched, chosen = (
        published.pipeline.materialization(name, KEY).metadata for name in ("generalization_lattice", "chosen_generalization")
    )
    for figure in ("lattice", "frontier"):
        marked = [">chosen" in svg_in(shown[figure].value) for shown in (searched, chosen)]
        assert marked == [False, True], figure


def test_columns_have_roles_and_a_lineage_of_columns(published):
    metadata = published.pipeline.materialization("release_claims", KEY).metadata
    schema = {column.name: column for column in metadata["dagster/column_schema"].schema.columns}
    assert schema["MemberID"].tags["role"] == "pseudonym"
    assert schema["PlaceSvc"].tags["role"] == "quasi-identifier"
    assert schema["CharlsonIndex"].tags["role"] == "sensitive_attribute"
    lineage = published.pipeline.materialization("truncated_claims", KEY).metadata["dagster/column_lineage"].lineage
    (origin,) = [d for d in lineage.deps_by_column["place"] if d.asset_key.path[-1] == "grouped_claims"]
    assert origin.column_name == "place"


def test_released_columns_have_a_lineage_although_their_names_change(published):
    metadata = published.pipeline.materialization("release_claims", KEY).metadata
    lineage = metadata["dagster/column_lineage"].lineage.deps_by_column
    assert "PlaceSvc" in lineage, "PlaceSvc comes from truncated_claims.place through its hierarchy"
    assert "MemberID" in lineage


def test_every_check_measured_and_compared(published):
    instance = published.pipeline.instance
    runs = instance.get_run_records(limit=1)
    records = instance.get_records_for_run(
        runs[0].dagster_run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION
    ).records
    evaluations = [record.event_log_entry.dagster_event.event_specific_data for record in records]
    assert evaluations and [found.check_name for found in evaluations if not (found.passed and found.blocking)] == []
    gating = [found for found in evaluations if "gating" not in found.metadata or found.metadata["gating"].value]
    assert all({"measured", "threshold"} <= set(found.metadata) for found in gating)
    assert all("threshold" not in found.metadata for found in evaluations if found not in gating)


def test_the_run_can_be_executed_again_from_the_ui(published):
    """Without both origins the UI's Re-execute fails."""
    (record,) = published.pipeline.instance.get_run_records()
    run = record.dagster_run
    assert run.remote_job_origin is not None and run.job_code_origin is not None
    assert run.tags["dagster/partition"] == KEY and run.tags["deid/store"] == f"small/{KEY}"
