"""What a run's log says of how far the run and its long steps are: few lines, as each is an event."""

import contextlib
import time
from collections.abc import Sequence

import dagster as dg

from deid_assets.dagster_internals import StepEventStatus
from deid_assets.errors import DeidError
from deid_assets.forecast import LONG, Forecast, announcement, operation
from deid_assets.resources import POLICY_TAG, Workplace

_PARTITION = "dagster/partition"
_LOOKED_AT, _READ = 12, 3
"""So many of the newest runs are looked at, and of so many at most it is read what their steps took."""
_known: dict[str, Forecast] = {}
"""What was read of earlier runs, by the id of the run that is at work in this process."""
_ALIKE = 2.0
"""The delivery of an earlier run may be so many times as large or as small: what steps take is in no fixed ratio to it."""


class StepLog:
    """Says in a run's log how far a step is, every few seconds.

    Parameters
    ----------
    of
        What is counted.
    seconds
        Between two lines, at least; 0: every one is said.
    """

    def __init__(self, context: dg.AssetExecutionContext, of: str, seconds: float = LONG):
        self._context, self._of, self._seconds, self._last, self._ended = context, of, seconds, time.monotonic(), False

    def __call__(self, done: int, total: int, text: str) -> None:
        """Say how many are done, unless it was said just now."""
        # Nodes may be measured after all are decided, and every call would be a line of the log.
        ends, self._ended = done == total and not self._ended, done == total
        if ends or time.monotonic() - self._last >= self._seconds:
            self._last = time.monotonic()
            self._context.log.info(f"{done:,} of {total:,} {self._of}: {text}")


def announce(context: dg.AssetExecutionContext, workplace: Workplace) -> None:
    """Say in the run's log how far the run is, if the step that begins will be long."""
    step, run = context.op_execution_context.get_step_execution_context().step.key, context.run
    forecast = known_forecast(context.instance, workplace, run)
    if forecast.expected.get(step, 0.0) < LONG:
        return
    # Steps may have a process each: what has ended is known to the event log.
    stats = context.instance.get_run_step_stats(run.run_id)
    for one in sorted((one for one in stats if one.start_time is not None), key=lambda one: one.start_time or 0.0):
        forecast.began(one.step_key, one.start_time or 0.0)
        if one.end_time is not None:
            forecast.ended(one.step_key, one.end_time)
    forecast.began(step, time.time())
    context.log.info(announcement(forecast, step, time.time()))


def known_forecast(instance: dg.DagsterInstance, workplace: Workplace, run: dg.DagsterRun) -> Forecast:
    """`forecast_of` for the progress line and all steps of a process: earlier runs are read once."""
    known = _known.get(run.run_id)
    if known is None:
        known = forecast_of(instance, workplace, run)
        _known.clear()
        _known[run.run_id] = known
    return Forecast(known.expected, known.before)


def forecast_of(instance: dg.DagsterInstance, workplace: Workplace, run: dg.DagsterRun) -> Forecast:
    """The forecast of a run at its beginning."""
    plan = instance.get_execution_plan_snapshot(str(run.execution_plan_snapshot_id))
    steps = plan.step_keys_to_execute
    return Forecast(steps, _earlier_times(instance, workplace, run, steps))


def _earlier_times(
    instance: dg.DagsterInstance, workplace: Workplace, run: dg.DagsterRun, steps: Sequence[str]
) -> dict[str, float]:
    """What steps took in the newest runs on deliveries of about this size: of the same policy, else of another one."""
    ended = dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED])
    size, alike = _size(workplace, run), []
    for record in instance.get_run_records(filters=ended, limit=_LOOKED_AT):
        earlier = _size(workplace, record.dagster_run)
        if size is not None and earlier is not None and 1 / _ALIKE <= size / earlier <= _ALIKE:
            alike.append(record.dagster_run)
    alike.sort(key=lambda one: one.tags.get(POLICY_TAG) != run.tags.get(POLICY_TAG))
    own: dict[str, float] = {}
    others: dict[str, float] = {}
    for one in alike[:_READ]:
        for stats in instance.get_run_step_stats(one.run_id):
            if stats.status == StepEventStatus.SUCCESS and stats.start_time is not None and stats.end_time is not None:
                seconds = stats.end_time - stats.start_time
                own.setdefault(stats.step_key, seconds)
                others.setdefault(operation(stats.step_key), seconds)
        if own.keys() >= set(steps):
            break
    found = {step: own.get(step, others.get(operation(step))) for step in steps}
    return {step: seconds for step, seconds in found.items() if seconds is not None}


def _size(workplace: Workplace, run: dg.DagsterRun) -> int | None:
    """Bytes of the delivery of a run; None if they are not there (any more)."""
    with contextlib.suppress(DeidError, OSError):
        return sum(file.path.stat().st_size for file in workplace.delivery(run.tags.get(_PARTITION, "")).files()) or None
    return None
