"""Runs that another release overtook are made again: what they judged is no longer the whole picture.

Dagster's own retries will not do: if a backfill is completed between the failure of a run and its retry, they drop the run.
They also need a setting of the instance, which is another project's own.
"""

from collections.abc import Mapping

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.execution.backfill import BulkActionStatus
from dagster._core.storage.tags import BACKFILL_ID_TAG

from deid_assets.resources import REPETITION_TAG, overtaken_policy

SENSOR = "overtaken_runs"
STOPPED = (BulkActionStatus.CANCELING, BulkActionStatus.CANCELED, BulkActionStatus.FAILING, BulkActionStatus.FAILED)
"""What a backfill is whose runs nobody wants any more."""


def repeat_sensor(jobs: Mapping[str, UnresolvedAssetJobDefinition], name: str = SENSOR) -> dg.SensorDefinition:
    """A sensor that requests the whole job once more for each run that says it was overtaken, in whichever job that was.

    Parameters
    ----------
    jobs
        The main job of each policy, by the policy's name.
    """

    @dg.run_failure_sensor(
        name=name,
        request_jobs=list(jobs.values()),
        minimum_interval_seconds=10,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Makes a release again that was judged before another one came.",
    )
    def repeated(context: dg.RunFailureSensorContext) -> dg.RunRequest | dg.SkipReason:
        run = context.dagster_run
        job = jobs.get(overtaken_policy(run) or "")
        if job is None:
            return dg.SkipReason(f"no other release overtook run {run.run_id}")
        backfill = run.tags.get(BACKFILL_ID_TAG)
        if backfill is not None and _is_stopped(context.instance, backfill):
            return dg.SkipReason(f"run {run.run_id} belongs to the backfill {backfill}, which was stopped")
        tags = {REPETITION_TAG: str(int(run.tags.get(REPETITION_TAG, "0")) + 1)}
        if backfill is not None:  # so that stopping it also stops this one, and the UI shows them together
            tags[BACKFILL_ID_TAG] = backfill
        return dg.RunRequest(run_key=run.run_id, job_name=job.name, partition_key=run.tags["dagster/partition"], tags=tags)

    return repeated


def _is_stopped(instance: dg.DagsterInstance, backfill: str) -> bool:
    found = instance.get_backfill(backfill)
    return found is None or found.status in STOPPED
