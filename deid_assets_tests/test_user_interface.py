"""The Dagster UI, as `deid ui` opens it: what it shows, and that Re-execute works on what `deid run` ran.

One home for all: a policy from elsewhere is run on a delivery whose files are missing, which fails; then the files are
there, and the failed run is executed again from the UI.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deid_assets.automation.ended_runs import CANCELED
from deid_assets.automation.in_use import state_use
from deid_assets.automation.instance import dagster_instance, workspace_file
from deid_assets.resources import OUTCOME_TAG, ended_in
from deid_assets.sources.synthetic.delivery import write_delivery
from deid_assets.store.home import Home, StoreLock
from deid_assets_tests.processes import wait_for
from deid_assets_tests.scenarios.command_line import ERROR, deid_here
from deid_assets_tests.scenarios.policies import SMALL, write_policy
from deid_assets_tests.stages import STAGES, STAGES_WITH_DATES
from deid_assets_tests.webserver import Ui, environment, opened

pytestmark = pytest.mark.matrix

KEY = "mended"
JOB = "release_small"


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """A home with an adopted policy, in which the first run of one from elsewhere failed: its delivery's files were missing."""
    folder = tmp_path_factory.mktemp("ui")
    (folder / "delivery").mkdir()
    write_policy(folder / "elsewhere", SMALL)
    policy, delivery = folder / "elsewhere" / "small.yaml", folder / "delivery"
    exit_code, printed = deid_here(folder / "deid", "run", "--policy", policy, "--delivery", delivery, "--key", KEY)
    assert exit_code == ERROR and "missing file" in printed, printed
    state_use(Home(folder / "deid"), "claims_dates")
    return folder / "deid"


@pytest.fixture(scope="module")
def ui(root) -> Iterator[Ui]:
    """`deid ui` on that home."""
    with opened(root) as opened_ui:
        yield opened_ui


@pytest.fixture(scope="module")
def failed_run(ui) -> str:
    """The run that failed before it was opened."""
    (run,) = ui.ask("{ runsOrError { ... on Runs { results { runId } } } }")["runsOrError"]["results"]
    return run["runId"]


def test_definitions_are_valid(root):
    command = [sys.executable, "-m", "dagster", "definitions", "validate", "-w", str(workspace_file())]
    found = subprocess.run(command, env=environment(root), capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


NODES = """{ assetNodes {
    assetKey { path } groupName description owners { ... on TeamAssetOwner { team } } kinds isPartitioned jobNames
    assetChecksOrError { ... on AssetChecks { checks { name blocking description } } }
    partitionDefinition { name }
    metadataEntries { __typename label }
} }"""


@pytest.fixture(scope="module")
def nodes(ui) -> dict[tuple[str, str], dict]:
    """Every asset that the UI shows, by policy and name."""
    return {tuple(node["assetKey"]["path"]): node for node in ui.ask(NODES)["assetNodes"]}


class TestWhatTheUiShows:
    POLICIES = ("heritage_public", "claims_dates", "small")

    def test_every_asset_of_every_policy_in_use_in_the_group_of_its_stage(self, nodes):
        groups = {key: node["groupName"] for key, node in nodes.items()}
        published = {key: group for key, group in groups.items() if key[1] == "published"}
        assert {key: group for key, group in groups.items() if key not in published} == {
            (policy, asset): f"{policy}/{stage}"
            for policy in self.POLICIES
            for stage, assets in (STAGES_WITH_DATES if policy == "claims_dates" else STAGES).items()
            for asset in {*assets, stage}
        }
        assert published and all(group == f"{key[0]}/release" for key, group in published.items())

    def test_every_asset_says_what_it_is_whose_it_is_and_of_what_kind(self, nodes):
        for key, node in nodes.items():
            assert node["description"] and node["kinds"], key
            assert node["owners"] == [{"team": "privacy"}], key
            assert node["partitionDefinition"]["name"] == f"deliveries_of_{key[0]}", key
            assert f"release_{key[0]}" in node["jobNames"], key

    def test_checks_block(self, nodes):
        checks = {
            (*key, check["name"]): check
            for key, node in nodes.items()
            for check in node["assetChecksOrError"].get("checks", [])
        }
        small = {name for policy, _, name in checks if policy == "small"}
        assert {"claims_keeps_contract", "neighbor_attack_risk_within_threshold"} <= small
        assert all(check["blocking"] and check["description"] for check in checks.values())

    def test_the_run_of_the_command_line_is_there_with_its_partition(self, ui, failed_run):
        answer = ui.ask(
            """query ($run: ID!) { runOrError(runId: $run) { ... on Run {
                status jobName repositoryOrigin { repositoryName repositoryLocationName } tags { key value }
            } } }""",
            run=failed_run,
        )["runOrError"]
        tags = {tag["key"]: tag["value"] for tag in answer["tags"]}
        assert (answer["status"], answer["jobName"]) == ("FAILURE", JOB)
        assert (tags["dagster/partition"], tags["deid/store"]) == (KEY, f"small/{KEY}")
        assert answer["repositoryOrigin"]["repositoryLocationName"] == "deid_assets"

    def test_the_delivery_is_a_partition_of_the_job(self, ui):
        answer = ui.ask(
            """{ partitionSetsOrError(
                repositorySelector: {repositoryName: "__repository__", repositoryLocationName: "deid_assets"}
                pipelineName: "release_small") { ... on PartitionSets { results { partitionsOrError {
                    ... on Partitions { results { name } } } } } } }"""
        )
        (found,) = answer["partitionSetsOrError"]["results"]
        assert [partition["name"] for partition in found["partitionsOrError"]["results"]] == [KEY]


RE_EXECUTE = """mutation ($run: String!) {
    launchRunReexecution(reexecutionParams: {parentRunId: $run, strategy: ALL_STEPS}) {
        __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message }
    } }"""
RUN = """query ($run: ID!) { runOrError(runId: $run) { ... on Run {
    status parentRunId tags { key value }
    assetMaterializations { assetKey { path } partition } stepStats { stepKey status }
} } }"""
ENDED = ("SUCCESS", "FAILURE", "CANCELED")


TERMINATE = """mutation ($run: String!) { terminateRun(runId: $run) {
    __typename ... on TerminateRunFailure { message } ... on PythonError { message } } }"""


def executed_again(ui: Ui, failed_run: str) -> str:
    """The run that the UI starts in place of the one that failed, now that the delivery is there."""
    write_delivery(ui.root.parent / "delivery", 600, seed=1)
    launched = ui.ask(RE_EXECUTE, run=failed_run)["launchRunReexecution"]
    assert launched["__typename"] == "LaunchRunSuccess", launched
    return launched["run"]["runId"]


def test_a_run_that_is_canceled_in_the_ui_is_tagged_canceled_and_leaves_nothing_behind(ui, failed_run):
    run = executed_again(ui, failed_run)

    def seen() -> dict:
        return ui.ask(RUN, run=run)["runOrError"]

    wait_for("the first table", lambda: seen()["assetMaterializations"])
    assert ui.ask(TERMINATE, run=run)["terminateRun"]["__typename"] == "TerminateRunSuccess"
    found = wait_for("the run", lambda: found if (found := seen())["status"] in ENDED else None)
    assert found["status"] == "CANCELED"
    # The daemon's sensor tags it a little later.
    wait_for("the tag", lambda: {"key": OUTCOME_TAG, "value": CANCELED} in seen()["tags"], seen=lambda: seen()["tags"])
    home = Home(ui.root)
    assert [path for path in home.releases.rglob("*") if path.is_file() and "small" in path.parts] == []
    with dagster_instance(home) as instance:
        lock = StoreLock.of(home, "small", KEY, is_over=ended_in(instance))
        assert lock.try_acquire(), "and its store is free for the next run"
        lock.release()


def test_a_run_of_the_command_line_is_executed_again_from_the_ui(ui, failed_run):
    run = executed_again(ui, failed_run)

    def ended():
        found = ui.ask(RUN, run=run)["runOrError"]
        return found if found["status"] in ENDED else None

    found = wait_for("the run", ended)
    tags = {tag["key"]: tag["value"] for tag in found["tags"]}
    assert found["parentRunId"] == failed_run != run
    assert (tags["dagster/partition"], tags["deid/store"], tags["deid/policy"]) == (KEY, f"small/{KEY}", "small")
    made = {(*event["assetKey"]["path"], event["partition"]) for event in found["assetMaterializations"]}
    # 600 members are too few for a release: the run does what it did not get to before, and is refused.
    wanted = [*STAGES["intake"], *STAGES["preparation"], *STAGES["adversary"]]
    assert {("small", asset, KEY) for asset in wanted} <= made
    store = Home(ui.root).store / "small"
    assert (store / f"{KEY}.duckdb").exists()
    # The daemon's sensor writes it a little later.
    report = wait_for("the report of the refusal", lambda: next(store.glob("*.refused.html"), None))
    assert "Refused under the policy small" in report.read_text()
