"""Dagster's daemon in this process: its sensors, schedules, queue of runs and states of freshness, on the instance of a home.

`deid ui` starts the same in processes of their own, where a sensor waits a minute and a schedule a week.
"""

import datetime
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg
import pytest
from dagster._core.definitions.freshness import FreshnessState
from dagster._core.instance.ref import InstanceRef
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.scheduler.instigation import InstigatorTick, InstigatorType
from dagster._core.test_utils import InProcessTestWorkspaceLoadTarget, freeze_time
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._daemon.freshness import FreshnessDaemon
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import QueuedRunCoordinatorDaemon
from dagster._daemon.sensor import execute_sensor_iteration
from dagster._scheduler.scheduler import launch_scheduled_runs

from deid_assets.automation.deliveries import INTERVAL_SECONDS
from deid_assets.automation.instance import prepare_dagster_home
from deid_assets.command_line.run import LOCATION, MODULE
from deid_assets.store.home import Home

LOG = logging.getLogger("deid_assets_tests.daemon")
WEEK = datetime.timedelta(days=7)
_LAUNCHER = {"module": "dagster._core.launcher.sync_in_memory_run_launcher", "class": "SyncInMemoryRunLauncher"}


class Daemon:
    """The daemon of a home's instance, and its clock.

    Runs that are requested are executed in this process, or stay in the queue. Ticks happen at times that are past, so that a
    daemon that is started afterwards goes on from there.
    """

    def __init__(self, home: Home, executes: bool = True) -> None:
        self.home, self._executes = home.create(), executes
        prepare_dagster_home(self.home)
        now = datetime.datetime.now(datetime.UTC)
        self._sensors_at = now - datetime.timedelta(minutes=30)
        self._schedules_at = now - 6 * WEEK
        with self._workspace() as workspace:
            self._schedules(workspace)  # from now on they tick

    def sensors(self) -> None:
        """Evaluate every sensor once, and execute the runs that are requested."""
        self._sensors_at += datetime.timedelta(seconds=INTERVAL_SECONDS + 1)
        with self._workspace() as workspace:
            with freeze_time(self._sensors_at):
                _all(execute_sensor_iteration(workspace, LOG, None, None))
            self._execute(workspace)

    def schedules(self) -> None:
        """Let a week go by, evaluate every schedule that is due, and execute the runs that are requested."""
        self._schedules_at += WEEK
        with self._workspace() as workspace:
            self._schedules(workspace)
            self._execute(workspace)

    def freshness(self, asset: dg.AssetKey, later: datetime.timedelta) -> FreshnessState:
        """What the daemon says of the freshness of an asset when so much time has gone by."""
        with self._workspace() as workspace:
            with freeze_time(datetime.datetime.now(datetime.UTC) + later):
                _all(FreshnessDaemon().run_iteration(workspace))
            (record,) = workspace.instance.event_log_storage.get_freshness_state_records([asset]).values()
            return record.freshness_state

    @contextmanager
    def instance(self) -> Iterator[dg.DagsterInstance]:
        """The instance of the home."""
        with self._workspace() as workspace:
            yield workspace.instance

    def ticks(self, name: str) -> list[InstigatorTick]:
        """Every tick of a sensor or schedule, oldest first."""
        with self.instance() as instance:
            kinds = (InstigatorType.SENSOR, InstigatorType.SCHEDULE)
            states = [one for kind in kinds for one in instance.all_instigator_state(instigator_type=kind)]
            (state,) = (one for one in states if one.name == name)
            return list(reversed(instance.get_ticks(state.instigator_origin_id, state.selector_id)))

    def _schedules(self, workspace: WorkspaceProcessContext) -> None:
        _all(launch_scheduled_runs(workspace, LOG, self._schedules_at, {}))

    def _execute(self, workspace: WorkspaceProcessContext) -> None:
        """Execute what is queued, one run after the other."""
        if not self._executes:
            return
        queue = QueuedRunCoordinatorDaemon(interval_seconds=1)
        while workspace.instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED])):
            _all(queue.run_iteration(workspace))

    @contextmanager
    def _workspace(self) -> Iterator[WorkspaceProcessContext]:
        """The code location, loaded anew, and the home's instance; runs are executed in this process."""
        target = LoadableTargetOrigin(executable_path=sys.executable, module_name=MODULE, working_directory=os.getcwd())
        origin = InProcessCodeLocationOrigin(target, location_name=LOCATION)
        ref = InstanceRef.from_dir(str(self.home.dagster), overrides={"run_launcher": _LAUNCHER})
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DEID_HOME", str(self.home.root))
            patch.delitem(sys.modules, MODULE, raising=False)
            with (
                dg.DagsterInstance.from_ref(ref) as instance,
                WorkspaceProcessContext(instance, InProcessTestWorkspaceLoadTarget(origin)) as workspace,
            ):
                yield workspace


def _all(iteration: Iterator[object]) -> None:
    """Go through an iteration of a daemon; a failure of it is raised."""
    for found in iteration:
        if found is not None and not hasattr(found, "next_iteration_timestamp"):
            raise AssertionError(str(found))
