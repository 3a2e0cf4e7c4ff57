"""Runs that another release overtook are made again: what they judged is no longer the whole picture.

Dagster's own retries will not do: if a backfill is completed between the failure of a run and its retry, they drop the run.
They also need a setting of the instance, which is another project's own. A sensor of failed runs will not do either: Dagster
asks it once about each run, and whatever goes wrong then, the run is dropped. Here a run is due, by a tag of its own, until
the run that follows it has been started.
"""

from collections.abc import Iterator, Mapping

import dagster as dg
from dagster import _check as check

from deid_assets.dagster_internals import (
    BACKFILL_ID_TAG,
    PARTITION_NAME_TAG,
    RUN_KEY_TAG,
    BulkActionStatus,
    DagsterUnknownPartitionError,
    UnresolvedAssetJobDefinition,
    partition_loading_context,
)
from deid_assets.resources import AGAIN_DUE, REPETITION_TAG, again_tag, overtaken_policies

SENSOR = "overtaken_runs"


def repeat_sensor(jobs: Mapping[str, UnresolvedAssetJobDefinition], name: str = SENSOR) -> dg.SensorDefinition:
    """A sensor that requests the whole job once more for each run that says it was overtaken, in whichever job that was.

    Parameters
    ----------
    jobs
        The main job of each policy, by the policy's name.
    """

    @dg.sensor(
        name=name,
        jobs=list(jobs.values()),
        minimum_interval_seconds=10,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Makes a release again that was judged before another one came.",
    )
    def repeated(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        requests = []
        for policy, job in jobs.items():
            for run in _due(context, policy):
                settled = _follower(context.instance, run, job.name) or _why_not(context, run, job.name)
                if settled is None:
                    requests.append(_request(context.instance, run, job.name))
                else:
                    context.instance.add_run_tags(run.run_id, {again_tag(policy): settled})
        return dg.SensorResult(requests, skip_reason=None if requests else "no release is due")

    return repeated


def _due(context: dg.SensorEvaluationContext, policy: str) -> Iterator[dg.DagsterRun]:
    """Runs of this code location that failed because another release came meanwhile, and have no follower yet."""
    own = context.code_location_origin
    due = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE], tags={again_tag(policy): AGAIN_DUE})
    for run in reversed(context.instance.get_runs(due)):
        origin = run.remote_job_origin.repository_origin.code_location_origin if run.remote_job_origin else None
        is_here = (origin and origin.location_name) == (own and own.location_name)
        if is_here and policy in overtaken_policies(run):
            yield run


def _run_key(run: dg.DagsterRun, job: str) -> str:
    """Dagster makes one run of each key, whatever becomes of a tick of the sensor."""
    return f"{run.run_id}:{job}"


def _follower(instance: dg.DagsterInstance, run: dg.DagsterRun, job: str) -> str | None:
    """The run that makes the release again. One that was made but never started is requested until it is."""
    made = instance.get_runs(dg.RunsFilter(job_name=job, tags={RUN_KEY_TAG: _run_key(run, job)}))
    return next((one.run_id for one in made if one.status != dg.DagsterRunStatus.NOT_STARTED), None)


def _why_not(context: dg.SensorEvaluationContext, run: dg.DagsterRun, job: str) -> str | None:
    """Why nobody wants the release any more."""
    backfill = context.instance.get_backfill(run.tags[BACKFILL_ID_TAG]) if BACKFILL_ID_TAG in run.tags else None
    if backfill is not None and backfill.status in (BulkActionStatus.CANCELING, BulkActionStatus.CANCELED):
        return "no: its backfill was canceled"
    repository = check.not_none(context.repository_def)
    # Dagster would refuse all requests of the tick together.
    with partition_loading_context(dynamic_partitions_store=context.instance) as loading:
        try:
            repository.get_job(job).validate_partition_key(run.tags[PARTITION_NAME_TAG], None, loading)
        except DagsterUnknownPartitionError:
            return "no: its delivery was removed"
    return None


def _request(instance: dg.DagsterInstance, run: dg.DagsterRun, job: str) -> dg.RunRequest:
    tags = {REPETITION_TAG: str(int(run.tags.get(REPETITION_TAG, "0")) + 1)}
    backfill = instance.get_backfill(run.tags[BACKFILL_ID_TAG]) if BACKFILL_ID_TAG in run.tags else None
    # So that canceling it also stops this one, and the UI shows them together. Dagster cancels all runs of one that fails.
    if backfill is not None and backfill.status not in (BulkActionStatus.FAILING, BulkActionStatus.FAILED):
        tags[BACKFILL_ID_TAG] = backfill.backfill_id
    return dg.RunRequest(run_key=_run_key(run, job), job_name=job, partition_key=run.tags[PARTITION_NAME_TAG], tags=tags)
