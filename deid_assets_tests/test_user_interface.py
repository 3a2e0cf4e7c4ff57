"""The Dagster UI, as `deid ui` opens it: what it shows, and that Re-execute works on what `deid run` ran.

One home for all: a policy from elsewhere is run on a delivery whose files are missing, which fails; then the files are
there, and the failed run is executed again from the UI.
"""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import deid_assets
from deid_assets.automation.in_use import state_use
from deid_assets.command_line.instance import workspace_file
from deid_assets.sources.synthetic.delivery import write_delivery
from deid_assets.stages import STAGES, STAGES_WITH_DATES
from deid_assets.store.home import Home
from deid_assets_tests.processes import free_port, wait_for
from deid_assets_tests.scenarios.command_line import ERROR, deid_here
from deid_assets_tests.scenarios.policies import SMALL, write_policy

KEY = "mended"
JOB = "release_small"


@dataclass(frozen=True)
class Ui:
    """A running UI, and the run that failed before it was opened."""

    root: Path
    url: str
    failed_run: str

    def ask(self, query: str, **variables) -> dict:
        """Send a GraphQL query; an error fails the test."""
        request = urllib.request.Request(
            f"{self.url}/graphql",
            data=json.dumps({"query": query, "variables": variables}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            found = json.loads(answer.read())
        assert "errors" not in found, found["errors"]
        return found["data"]


def environment(root: Path) -> dict[str, str]:
    """What a process needs to find this home, and this package even where it is not installed."""
    package = str(Path(deid_assets.__file__).parents[1])
    homes = {"DEID_HOME": str(root), "DAGSTER_HOME": str(root / "home")}
    return {**os.environ, **homes, "PYTHONPATH": package, "PYTHONWARNINGS": "ignore"}


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
    url = f"http://127.0.0.1:{(port := free_port())}"
    with open(root / "ui.txt", "wb") as printed:
        process = subprocess.Popen(
            [sys.executable, "-m", "deid_assets", "ui", "--port", str(port)],
            env=environment(root),
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:

        def runs():
            assert process.poll() is None, (root / "ui.txt").read_text()
            try:
                answer = Ui(root, url, "").ask("{ runsOrError { ... on Runs { results { runId } } } }")
            except urllib.error.URLError:
                return None
            return answer["runsOrError"]["results"]

        yield Ui(root, url, wait_for("the UI", runs)[0]["runId"])
    finally:
        # The UI's own processes, and nobody else's: they are one process group. Whoever runs the tests in the background
        # has them ignore SIGINT.
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)


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

    def test_the_run_of_the_command_line_is_there_with_its_partition(self, ui):
        answer = ui.ask(
            """query ($run: ID!) { runOrError(runId: $run) { ... on Run {
                status jobName repositoryOrigin { repositoryName repositoryLocationName } tags { key value }
            } } }""",
            run=ui.failed_run,
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


@pytest.mark.matrix
def test_a_run_of_the_command_line_is_executed_again_from_the_ui(ui):
    write_delivery(ui.root.parent / "delivery", 600, seed=1)
    launched = ui.ask(RE_EXECUTE, run=ui.failed_run)["launchRunReexecution"]
    assert launched["__typename"] == "LaunchRunSuccess", launched
    run = launched["run"]["runId"]

    def ended():
        found = ui.ask(RUN, run=run)["runOrError"]
        return found if found["status"] in ENDED else None

    found = wait_for("the run", ended)
    tags = {tag["key"]: tag["value"] for tag in found["tags"]}
    assert found["parentRunId"] == ui.failed_run != run
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
