"""Runs that were canceled in the UI, or by a signal to their process, say so in the list of runs.

The process of a canceled run has no say in its end: the daemon tags it. `deid run` tags its own runs.
"""

from collections.abc import Sequence

import dagster as dg

from deid_assets.automation.outcomes import outcome_of, tag_outcome
from deid_assets.automation.reactions import left_alone
from deid_assets.dagster_internals import UnresolvedAssetJobDefinition
from deid_assets.resources import OUTCOME_TAG

SENSOR = "canceled_runs"


def canceled_sensor(jobs: Sequence[UnresolvedAssetJobDefinition], name: str = SENSOR) -> dg.SensorDefinition:
    """A sensor that tags each canceled run of these jobs with what came of it."""

    @dg.run_status_sensor(
        run_status=dg.DagsterRunStatus.CANCELED,
        name=name,
        monitored_jobs=list(jobs),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Tags canceled runs with their outcome.",
    )
    def canceled(context: dg.RunStatusSensorContext) -> list[dg.RunRequest] | None:
        run = context.instance.get_run_by_id(context.dagster_run.run_id)
        if run is None:
            return left_alone(context, "the run was deleted")
        # A run that is made again in the UI begins with the tags of the one before.
        if OUTCOME_TAG in run.tags and run.parent_run_id is None:
            return left_alone(context, f"the run says already what came of it: {run.tags[OUTCOME_TAG]}")
        logs = context.instance.all_logs(run.run_id)
        tag_outcome(
            context.instance,
            run.run_id,
            outcome_of([entry.dagster_event for entry in logs if entry.dagster_event is not None]),
        )
        return None

    return canceled
