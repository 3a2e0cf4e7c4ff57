"""The report of a refused run, wherever it was started: on the command line, in the UI, or by a schedule."""

from collections.abc import Sequence
from pathlib import Path

import dagster as dg

from deid_assets.assets.refused_report import write_refused_report
from deid_assets.automation.outcomes import RunSummary, outcome_of, tag_outcome
from deid_assets.automation.reactions import left_alone
from deid_assets.dagster_internals import UnresolvedAssetJobDefinition
from deid_assets.errors import REFUSED
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.resources import POLICY_TAG, STORE_TAG, Workplace, ended_in
from deid_assets.store.guard import without_values
from deid_assets.store.home import Home
from deid_assets.store.lock import StoreLock

SENSOR = "refusal_report"


def report_refusal(home: Home, policy: AnyPolicy, delivery: str, summary: RunSummary) -> Path | None:
    """Write the report of a refused run into the restricted store, replacing that of any earlier run.

    Returns
    -------
    pathlib.Path or None
        The report; None if the run was not refused, and an earlier report is removed.
    """
    if summary.exit_code != REFUSED:
        home.refused_report(policy.name, delivery).unlink(missing_ok=True)
        return None
    return write_refused_report(home, policy, delivery, tuple(summary.rows), summary.failed_checks, summary.reasons)


def report_sensor(
    workplace: Workplace, jobs: Sequence[UnresolvedAssetJobDefinition], name: str = SENSOR
) -> dg.SensorDefinition:
    """A sensor that reports each refused run of these jobs. Where no daemon runs, only `deid run` reports them."""
    home, sensor = workplace.home, name

    @dg.run_failure_sensor(
        name=sensor,
        monitored_jobs=list(jobs),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Writes the report of a refused run into the restricted store.",
    )
    def reported(context: dg.RunFailureSensorContext) -> list[dg.RunRequest] | None:
        run = context.dagster_run
        name, delivery = run.tags[POLICY_TAG], run.tags["dagster/partition"]
        with without_values("the report of the refusal", home.store):
            logs = context.instance.all_logs(run.run_id)
            summary = outcome_of([entry.dagster_event for entry in logs if entry.dagster_event is not None])
            tag_outcome(context.instance, run.run_id, summary)  # also where the next run is at work already
            if past := _past(context.instance, run):
                return left_alone(context, past)  # the next run would fail if it found the lock taken by this sensor
            lock = StoreLock.of(home, name, delivery, is_over=ended_in(context.instance))
            if not lock.try_acquire():
                return left_alone(context, "another run uses the same store, so the report would not describe this one")
            try:
                if past := _past(context.instance, run):
                    return left_alone(context, past)
                path = report_refusal(home, workplace.policies.named(name), delivery, summary)
            finally:
                lock.release()
        context.log.info(f"report of the refusal (restricted): {path}" if path else "the run failed without a refusal")
        return None

    return reported


def _past(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str | None:
    newest = newer_run(instance, run)
    told = f"run {newest} of {run.tags[STORE_TAG]} came after it, and the report is of the newest run"
    return None if newest is None else told


def newer_run(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str | None:
    """The newest run of the same policy and delivery, if that is another one: the daemon looks at a failed run later."""
    (newest, *_) = instance.get_runs(dg.RunsFilter(tags={STORE_TAG: run.tags[STORE_TAG]}), limit=1)
    return None if newest.run_id == run.run_id else newest.run_id
