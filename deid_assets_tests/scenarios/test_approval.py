"""A policy that requires a person's approval: what passes the gate waits, and is published or rejected by a person."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from deid_assets.assets.waiting_release import WAITING
from deid_assets.automation.deliveries import due_for
from deid_assets.automation.ended_runs import AWAITING
from deid_assets.building import build_definitions
from deid_assets.errors import ERROR, PUBLISHED
from deid_assets.policy.loading import policy_called
from deid_assets.resources import OUTCOME_TAG
from deid_assets.sources.registration import registered_delivery
from deid_assets.store.home import Home
from deid_assets_tests.lineage_endpoint import listening
from deid_assets_tests.scenarios.command_line import deid_here
from deid_assets_tests.scenarios.conftest import MEMBERS, made_once
from deid_assets_tests.scenarios.pipeline import Pipeline, copy_of, pipeline_in
from deid_assets_tests.scenarios.policies import SMALL, write_policy
from deid_assets_tests.scenarios.test_flat_release import FLAT, KEY, people, write_people

ANNA, BEN = "Anna Muster", "Ben Example"
POLICY = FLAT | {"approval": {"by": [ANNA, BEN], "within_days": 7}}
NAME = "flat_table/0001"
TABLE = dg.AssetKey(["flat_table", "published", "Records"])


@pytest.fixture(scope="module")
def staged(tmp_path_factory) -> Path:
    """A home in which a release waits."""
    with made_once(tmp_path_factory, "staged") as (folder, missing):
        if missing:
            with pipeline_in(folder / "deid", "flat_table") as pipeline:
                write_policy(pipeline.home.policies, POLICY)
                delivered = write_people(folder / KEY, people())
            code, printed = deid_here(
                folder / "deid", "run", "--policy", "flat_table", "--delivery", delivered, "--key", KEY, "--json"
            )
            (folder / "said.json").write_text(json.dumps([code, printed]))
    return folder / "deid"


@pytest.fixture
def pipeline(staged, tmp_path) -> Iterator[Pipeline]:
    with copy_of(staged, tmp_path / "deid", "flat_table") as pipeline:
        yield pipeline


def outcome_tag(pipeline: Pipeline) -> str:
    (run,) = pipeline.instance.get_runs()
    return run.tags[OUTCOME_TAG]


@pytest.mark.matrix
def test_its_store_is_not_purged_before_a_person_decided(pipeline):
    root, store = pipeline.home.root, pipeline.store_file(KEY)
    assert deid_here(root, "policy", "adopt", "flat_table", "--retention", 30)[0] == PUBLISHED
    os.utime(store, (1, 1))
    code, printed = deid_here(root, "purge", "--yes")
    assert code == PUBLISHED and f"kept: release {NAME} of it waits for approval (--with-waiting" in printed and store.exists()
    code, printed = deid_here(root, "purge", "--yes", "--with-waiting")
    assert code == PUBLISHED and not store.exists(), printed


def test_nor_is_it_purged_while_what_waits_cannot_be_read(pipeline):
    root, store = pipeline.home.root, pipeline.store_file(KEY)
    assert deid_here(root, "policy", "adopt", "flat_table", "--retention", 30)[0] == PUBLISHED
    os.utime(store, (1, 1))
    (waiting_files(pipeline).parent / "waiting.json").write_text("{}")
    code, printed = deid_here(root, "purge", "--yes")
    assert f"kept: release {NAME} of it waits for approval" in printed and store.exists(), (code, printed)


def waiting_files(pipeline: Pipeline) -> Path:
    return pipeline.home.store / "manifests" / ".waiting" / "flat_table" / "0001" / "release"


def test_a_staged_release_is_seen_by_nobody_and_its_run_succeeded(pipeline, staged):
    code, printed = json.loads((staged.parent / "said.json").read_text())
    told = json.loads(printed[printed.index("{") :])
    assert code == PUBLISHED and told["outcome"] == AWAITING and told["waiting"] == NAME and told["release"] is None, printed
    (run,) = pipeline.instance.get_runs()
    assert run.is_success and run.tags[OUTCOME_TAG].endswith(AWAITING)
    assert pipeline.releases == [] and not pipeline.registry.chain().entries
    assert pipeline.materialization_or_none("release", KEY) is None
    assert pipeline.instance.get_latest_materialization_event(TABLE) is None
    key = dg.AssetKey(["flat_table", "release"])
    specs = {spec.key: spec for asset in build_definitions(["flat_table"], pipeline.home).assets for spec in asset.specs}
    assert specs[key].metadata["may_approve"] == f"{ANNA}, {BEN}"
    (observed,) = pipeline.instance.fetch_observations(key, limit=5).records
    shown = observed.event_log_entry.asset_observation
    assert shown.metadata[WAITING].value == NAME and "awaiting approval" in shown.description
    folder = waiting_files(pipeline)
    assert (folder / "data" / "Records.csv").is_file() and (folder / "report.html").is_file()
    for path in (folder.parent, *folder.parent.rglob("*")):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, f"{path} can be read by others"


def test_the_same_delivery_is_not_judged_twice_while_its_release_waits(pipeline):
    folder = registered_delivery(pipeline.home, KEY).paths[0]
    code, printed = deid_here(pipeline.home.root, "run", "--policy", "flat_table", "--delivery", folder, "--key", KEY)
    assert code == PUBLISHED and NAME in printed and "Awaiting approval" in printed, printed


@pytest.mark.matrix
def test_an_approved_release_verifies_and_its_audit_is_in_order(pipeline, tmp_path):
    root = pipeline.home.root
    code, printed = deid_here(root, "approvals")
    assert code == PUBLISHED and NAME in printed and ANNA in printed and "cannot" not in printed, printed
    code, printed = deid_here(root, "approve", NAME, "--by", "Carl Other")
    assert code == ERROR and "its policy names" in printed and pipeline.releases == []
    code, printed = deid_here(root, "approve", NAME, "--by", BEN)
    assert code == PUBLISHED and pipeline.releases == [NAME], printed
    assert outcome_tag(pipeline) == "published" and not waiting_files(pipeline).exists()
    made = pipeline.instance.get_latest_materialization_event(TABLE).asset_materialization
    assert made.partition == KEY and made.metadata["path"].value == str(root / "releases" / NAME / "data" / "Records.parquet")
    assert made.metadata["dagster/column_lineage"].value.deps_by_column
    deid_here(root, "key", "export", "--output", tmp_path / "public.pem")
    code, printed = deid_here(root, "verify", root / "releases" / NAME, "--key", tmp_path / "public.pem")
    assert code == PUBLISHED and f"approved as its policy requires: by {BEN} at " in printed, printed
    code, printed = deid_here(root, "audit", NAME)
    assert code == PUBLISHED and f"release {NAME} is in order" in printed, printed
    code, printed = deid_here(root, "releases")
    assert f"approved by {BEN}" in printed
    code, printed = deid_here(root, "determination", NAME, "--output", tmp_path)
    assert code == PUBLISHED and BEN in (tmp_path / "flat_table-0001-determination.md").read_text()
    code, printed = deid_here(root, "reproduce", "-q", NAME)
    assert code == PUBLISHED and "all files are equal" in printed, printed
    code, printed = deid_here(root, "approve", NAME, "--by", BEN)
    assert code == ERROR and "published already" in printed


@pytest.mark.matrix
def test_an_approved_release_is_told_to_a_lineage_endpoint_once(pipeline, monkeypatch):
    with listening() as (url, endpoint):
        monkeypatch.setenv("OPENLINEAGE_URL", url)
        assert pipeline.run(KEY, ["release"]).waiting == NAME and endpoint.got == [], "nothing is published yet"
        code, printed = deid_here(pipeline.home.root, "approve", NAME, "--by", BEN)
    assert code == PUBLISHED and "Lineage was sent to the endpoint." in printed, printed
    ((_, _, event),) = endpoint.got
    assert event["job"]["name"] == "flat_table/release"


def test_a_rejected_release_is_gone_and_the_policy_runs_again(pipeline):
    root = pipeline.home.root
    due = due_for(pipeline.home, policy_called("flat_table", pipeline.home.policies), KEY)
    assert not due.is_due and "awaits approval" in due.reason
    code, printed = deid_here(root, "delivery", "remove", KEY, "--policy", "flat_table", "--reason", "a wrong file")
    assert code == ERROR and f"release {NAME} waits for approval" in printed, printed
    code, printed = deid_here(root, "reject", NAME, "--by", ANNA, "--reason", "a column is odd")
    assert code == PUBLISHED and f"{NAME} is rejected" in printed, printed
    assert outcome_tag(pipeline) == "rejected" and pipeline.releases == [] and not waiting_files(pipeline).parent.exists()
    assert pipeline.registry.chain().rejected == {("flat_table", 1)}
    record = json.loads((root / "store" / "manifests" / "flat_table" / "0001.rejected.json").read_text())
    assert (record["by"], record["reason"]) == (ANNA, "a column is odd")
    code, printed = deid_here(root, "approvals")
    assert code == PUBLISHED and "No release waits" in printed
    assert due_for(pipeline.home, policy_called("flat_table", pipeline.home.policies), KEY).is_due


def test_what_was_changed_cannot_be_approved_and_is_listed_with_the_reason(pipeline):
    root, file = pipeline.home.root, waiting_files(pipeline) / "data" / "Records.csv"
    file.write_bytes(file.read_bytes().replace(b"tea", b"ale", 1))
    code, printed = deid_here(root, "approve", NAME, "--by", ANNA)
    assert code == ERROR and "not as it was staged: release/data/Records.csv" in printed and pipeline.releases == []
    _, listed = deid_here(root, "approvals", "--json")
    (told,) = json.loads(listed)
    assert told["policy"] == "flat_table" and "not as it was staged" in told["problems"][0]
    code, _ = deid_here(root, "reject", NAME, "--by", ANNA, "--reason", "somebody changed it")
    assert code == PUBLISHED and not file.exists()


def test_a_changed_policy_stands_against_approval(pipeline):
    write_policy(pipeline.home.policies, POLICY | {"title": "Another title"})
    code, printed = deid_here(pipeline.home.root, "approve", NAME, "--by", ANNA)
    assert code == ERROR and "changed since it was staged" in printed and pipeline.releases == []
    code, printed = deid_here(pipeline.home.root, "approvals")
    assert "cannot be approved: its policy, or a file that the policy names, changed" in printed


def test_an_approval_that_was_interrupted_is_completed_by_approving_again(pipeline, monkeypatch):
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    root = pipeline.home.root
    with monkeypatch.context() as patch:
        patch.setattr("deid_assets.automation.approvals.record_published", killed)
        deid_here(root, "approve", NAME, "--by", ANNA)
    assert pipeline.releases == [NAME] and pipeline.materialization_or_none("release", KEY) is None
    _, printed = deid_here(root, "approvals")
    assert "it is published already" in printed
    code, printed = deid_here(root, "approve", NAME, "--by", BEN)
    assert code == PUBLISHED, printed
    made = pipeline.materialization("release", KEY)
    assert made.metadata["approved_by"].value == ANNA, "who approved it first is in the manifest"
    code, printed = deid_here(root, "audit", NAME)
    assert code == PUBLISHED and "is in order" in printed, printed


def test_a_release_whose_run_is_unknown_is_recorded_without_it(pipeline):
    (run,) = pipeline.instance.get_runs()
    pipeline.instance.delete_run(run.run_id)
    code, printed = deid_here(pipeline.home.root, "approve", NAME, "--by", ANNA)
    assert code == PUBLISHED, printed
    assert pipeline.materialization("release", KEY).metadata["number"].value == 1


@pytest.mark.parametrize("command", [("approve",), ("reject", "--reason", "odd")])
def test_a_release_has_a_policy_and_a_number(pipeline, command):
    code, printed = deid_here(pipeline.home.root, *command, "flat_table", "--by", ANNA)
    assert code == ERROR and "named by its policy and number" in printed


@pytest.mark.matrix
def test_a_longitudinal_release_waits_and_is_approved(tmp_path):
    """That what was approved is made again is tested above, of a flat table."""
    root = tmp_path / "deid"
    write_policy(Home(root).create().policies, SMALL | {"approval": {"by": [ANNA], "within_days": 7}})
    code, printed = deid_here(root, "run", "--policy", "small", "--members", MEMBERS, "--json")
    assert code == PUBLISHED and '"waiting": "small/0001"' in printed, printed
    assert not list((root / "releases" / "small").iterdir())
    code, printed = deid_here(root, "approve", "small/0001", "--by", ANNA)
    assert code == PUBLISHED, printed
    code, printed = deid_here(root, "audit", "small/0001")
    assert code == PUBLISHED and "is in order" in printed, printed
