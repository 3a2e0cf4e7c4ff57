"""Deliveries that a project's automation releases: each refused one has one run, one alarm, and a sentence that says why.

The daemon looks once a minute by its clock: automation, backfills, the queue and all sensors are evaluated as often.
"""

import datetime
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.test_utils import InProcessTestWorkspaceLoadTarget, freeze_time
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._daemon.asset_daemon import AssetDaemon
from dagster._daemon.backfill import execute_backfill_iteration
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import QueuedRunCoordinatorDaemon
from dagster._daemon.sensor import execute_sensor_iteration

from deid_assets_tests.scenarios.pipeline import QUIET
from deid_assets_tests.scenarios.tables_delivery import TABLES, good_tables

pytestmark = pytest.mark.matrix

LOG = logging.getLogger("deid_assets_tests.automated_project")
MODULE = "deid_assets_tests.scenarios.automated_project"
SETTINGS = """
telemetry: {enabled: false}
run_launcher: {module: dagster._core.launcher.sync_in_memory_run_launcher, class: SyncInMemoryRunLauncher}
"""
KEYS = ("2012-04", "2012-05", "2012-06")
MINUTES = 5


class Automated:
    """The daemon of the project: automation, backfills, the queue and sensors, a minute later at each tick."""

    def __init__(self, workspace: WorkspaceProcessContext) -> None:
        self.workspace = workspace
        self._at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=30)
        self._automation = AssetDaemon(workspace.instance.get_auto_materialize_settings(), pre_sensor_interval_seconds=0)
        self._queue = QueuedRunCoordinatorDaemon(interval_seconds=1)

    def minute(self) -> None:
        self._at += datetime.timedelta(minutes=1)
        with freeze_time(self._at):
            self._automation._run_iteration_impl(
                self.workspace, threadpool_executor=None, amp_tick_futures={}, debug_crash_flags={}
            )
        _all(execute_backfill_iteration(self.workspace, LOG))
        while self.workspace.instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED])):
            _all(self._queue.run_iteration(self.workspace))
        _all(execute_backfill_iteration(self.workspace, LOG))
        with freeze_time(self._at):
            _all(execute_sensor_iteration(self.workspace, LOG, None, None))


def _all(iteration: Iterator[object]) -> None:
    for found in iteration:
        assert not hasattr(found, "message"), found


@pytest.fixture
def automated(tmp_path, monkeypatch) -> Iterator[Automated]:
    monkeypatch.setenv("DEID_HOME", str(tmp_path / "deid"))
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    (tmp_path / "dagster").mkdir()
    (tmp_path / "dagster" / "dagster.yaml").write_text(SETTINGS)
    origin = InProcessCodeLocationOrigin(LoadableTargetOrigin(executable_path=sys.executable, module_name=MODULE), "theirs")
    with (
        dg.DagsterInstance.from_config(str(tmp_path / "dagster")) as instance,
        WorkspaceProcessContext(instance, InProcessTestWorkspaceLoadTarget(origin)) as workspace,
    ):
        yield Automated(workspace)


def refused(automated: Automated) -> list[str]:
    """The delivery of each run that failed."""
    failed = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE])
    return sorted(run.tags["dagster/partition"] for run in automated.workspace.instance.get_runs(failed))


def told(tmp_path: Path) -> list[str]:
    return sorted((tmp_path / "alarms.txt").read_text().splitlines())


def delivered(automated: Automated, tmp_path: Path, *keys: str) -> None:
    """Register deliveries and write their tables. Ten members are too few for a release."""
    automated.workspace.instance.add_dynamic_partitions(f"deliveries_of_{TABLES['policy']}", list(keys))
    for key in keys:
        good_tables(tmp_path / "wh" / key)


def test_each_refused_delivery_has_one_run_and_one_alarm_with_the_reason(automated, tmp_path: Path):
    from deid_assets_tests.scenarios.automated_project import bills, people

    instance = automated.workspace.instance
    automated.minute()
    delivered(automated, tmp_path, *KEYS)
    for key in KEYS:
        dg.materialize([people, bills], instance=instance, partition_key=key, run_config=QUIET)
    for _ in range(1 + MINUTES):
        automated.minute()
    assert refused(automated) == list(KEYS), "a refused delivery is not requested again"
    alarms = told(tmp_path)
    assert [alarm.partition(":")[0] for alarm in alarms] == [f"{TABLES['policy']}, delivery {key}, is refused" for key in KEYS]
    why = r"is refused: no generalization of this policy can pass \(failed gates: .+, at most \d\.\d{4}\); .+ says what helps"
    assert all(re.search(why, alarm) for alarm in alarms), alarms
    # What changed is released again; the same reason is not told twice.
    dg.materialize([people, bills], instance=instance, partition_key=KEYS[0], run_config=QUIET)
    for _ in range(1 + MINUTES):
        automated.minute()
    assert refused(automated) == [KEYS[0], *KEYS]
    assert told(tmp_path) == alarms


def test_what_was_refused_when_somebody_started_it_is_not_requested_again(automated, tmp_path: Path):
    """Automation waits for the tables of a new delivery; they are made with the release, in one run, as in the UI."""
    from deid_assets_tests.scenarios.automated_project import defs

    automated.minute()
    delivered(automated, tmp_path, KEYS[0])
    automated.minute()
    everything = defs.resolve_implicit_global_asset_job_def()
    selected = list(defs.resolve_asset_graph().materializable_asset_keys)
    everything.execute_in_process(QUIET, automated.workspace.instance, KEYS[0], asset_selection=selected, raise_on_error=False)
    for _ in range(1 + MINUTES):
        automated.minute()
    assert refused(automated) == [KEYS[0]]
