"""What came of a run, by its events, and what follows: published, refused for privacy, or an error, and why.

Sensors report and tell refused runs, make overtaken ones again, and tag canceled ones.

The report of a refused run, wherever it was started: on the command line, in the UI, or by a schedule.

Runs that another release overtook are made again: what they judged is no longer the whole picture.

Dagster's own retries will not do: if a backfill is completed between the failure of a run and its retry, they drop the run.
They also need a setting of the instance, which is another project's own. A sensor of failed runs will not do either: Dagster
asks it once about each run, and whatever goes wrong then, the run is dropped. Here a run is due, by a tag of its own, until
the run that follows it has been started.

Alarms: a project's own function is called for runs that published nothing, once for each delivery and reason.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeGuard

import dagster as dg
from dagster import _check as check

from deid_assets import dagster_internals as internals
from deid_assets import resources
from deid_assets.assessments.earlier_releases import BECAUSE
from deid_assets.assessments.evidence import exposure_of
from deid_assets.assets.publishing import REQUIREMENTS
from deid_assets.assets.refused_report import write_refused_report
from deid_assets.assets.step import SENTENCE
from deid_assets.assets.waiting_release import WAITING
from deid_assets.checks.of_assets import REMEDY
from deid_assets.dagster_internals import SerializableErrorInfo
from deid_assets.errors import AWAITING_MARK, ERROR, PUBLISHED, REFUSED, REFUSED_MARK, DeidError, PolicyError
from deid_assets.policy.base import ReleasePolicy
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.release.registry.tries import what_is_next
from deid_assets.stages import STAGE_OF
from deid_assets.store.digests import bytes_digest
from deid_assets.store.guard import UnforeseenError, without_values
from deid_assets.store.home import Home, StoreLock

OUTCOMES = {PUBLISHED: "published", ERROR: "error", REFUSED: "refused"}
AWAITING = "awaiting approval"
CANCELED = "canceled"


_OWN_KINDS: tuple[type[DeidError], ...] = (DeidError, *DeidError.__subclasses__(), UnforeseenError)
OWN_ERRORS = {kind.__name__ for kind in _OWN_KINDS}
"""Errors whose text may be shown, because it contains no value."""


@dataclass(frozen=True)
class RunSummary:
    """The outcome of a run.

    Attributes
    ----------
    exit_code
        0: published, or staged for a person's approval. 2: refused for privacy, because a measurement is over its threshold,
        the rows break a rule of the policy, or no generalization of the policy passes. 1: anything else, such as a broken
        contract, evidence that is missing or about something else, or a delivery that changed. 1 also if both apply, because
        the numbers may then be wrong.
    rows
        Rows by asset, in the order in which they were made.
    failed_checks
        Names of failed blocking checks, with their numbers.
    reasons
        Why the run was refused or failed, in words.
    release
        Path of the release; None if nothing was published.
    waiting
        Policy and number of the release that waits for a person's approval; None if none does.
    peak_memory_gb
        The largest of the assets.
    """

    exit_code: int
    rows: dict[str, int] = field(default_factory=dict)
    failed_checks: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    release: Path | None = None
    peak_memory_gb: float = 0.0
    waiting: str | None = None

    @property
    def outcome(self) -> str:
        """The outcome in a word or two."""
        return AWAITING if self.exit_code == PUBLISHED and self.waiting else OUTCOMES[self.exit_code]


_SHOWN = {PUBLISHED: resources.RELEASED, ERROR: "\N{WARNING SIGN} error", REFUSED: f"{REFUSED_MARK}refused for privacy"}
_SHOWN_AWAITING = f"{AWAITING_MARK}{AWAITING}"


def tag_outcome(instance: dg.DagsterInstance, run_id: str, summary: RunSummary) -> None:
    """Tag a run with its outcome, so that a refusal, a crash and a cancellation look different in the list of runs."""
    run = instance.get_run_by_id(run_id)
    if run is not None and run.status == dg.DagsterRunStatus.CANCELED:
        # What it was about to say does not count, and what is out is out.
        shown = resources.RELEASED if summary.release else _SHOWN_AWAITING if summary.waiting else CANCELED
    else:
        shown = _SHOWN_AWAITING if summary.outcome == AWAITING else _SHOWN[summary.exit_code]
    instance.add_run_tags(run_id, {resources.OUTCOME_TAG: shown})


def outcome_of(events: Sequence[dg.DagsterEvent]) -> RunSummary:
    """Read the outcome of a run from its events."""
    rows: dict[str, int] = {}
    failed_checks: list[str] = []
    reasons: list[str] = []
    because: dict[dg.AssetKey, str] = {}
    drawn: list[Mapping[str, object]] = []
    release: Path | None = None
    waiting: str | None = None
    memory, refused, errors = 0.0, False, False
    for event in events:
        if event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION:
            made = event.step_materialization_data.materialization
            name, metadata = made.asset_key.path[-1], made.metadata
            if "dagster/row_count" in metadata and name in STAGE_OF:  # no published table, which is counted with the others
                rows[name] = int(_number(metadata["dagster/row_count"].value))
            if BECAUSE in metadata:
                because[made.asset_key] = str(metadata[BECAUSE].value)
            memory = max(memory, _number(metadata["peak_memory_gb"].value) if "peak_memory_gb" in metadata else 0.0)
            if "reasons" in metadata:
                reasons += _texts(metadata["reasons"].value)
            if name == "release":
                release = Path(str(metadata["release"].value))
        elif event.event_type == dg.DagsterEventType.ASSET_OBSERVATION:
            observed = event.asset_observation_data.asset_observation
            if WAITING in observed.metadata:
                waiting = str(observed.metadata[WAITING].value)
        elif event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            check = event.asset_check_evaluation_data
            if not check.passed and check.blocking:
                numbers = {key: found.value for key, found in check.metadata.items()}
                counted = because.get(check.asset_key, "") if check.check_name.startswith("absence_") else ""
                told = (_failed_check(check.check_name, numbers), counted, str(numbers.get(REMEDY, "")))
                failed_checks.append("; ".join(text for text in told if text))
                # A broken contract is an error of data or code, and so is a risk that was not measured. A risk that is
                # too high is a refusal.
                is_error = check.check_name.endswith("_keeps_contract") or not _is_number(numbers.get("measured"))
                errors |= is_error
                refused |= not is_error
                if "try" in numbers and not is_error:
                    drawn.append(numbers)
        elif event.event_type == dg.DagsterEventType.STEP_FAILURE:
            failure = event.step_failure_data
            said = failure.user_failure_data
            if said is not None and "refused" in said.metadata:
                judged = bool(said.metadata["refused"].value)
                refused |= judged
                errors |= not judged
                reasons.append(str(said.description).removeprefix(REFUSED_MARK))
            elif failure.error and failure.error.cls_name == "DagsterAssetCheckFailedError":
                continue  # the evaluation of the check already decided the outcome
            else:
                errors = True
                reasons.append(_message(event.step_key, _first_cause(failure.error)))
        elif event.event_type == dg.DagsterEventType.PIPELINE_FAILURE and not (reasons or failed_checks):
            data = event.job_failure_data
            reasons.append(_message("run", _first_cause(data.error if data else None)))
            errors = True
    if drawn and all(map(_is_by_chance, drawn)) and not errors:
        reasons.append(f"{what_is_next(int(max(_number(numbers['try']) for numbers in drawn)) + 1)}.")
    published = release is not None or waiting is not None
    code = PUBLISHED if published and not errors else REFUSED if refused and not errors else ERROR
    return RunSummary(code, rows, tuple(failed_checks), tuple(reasons), release, memory, waiting)


def _number(told: object) -> float:
    """A number of an event's metadata, which Dagster types as any value."""
    return told if isinstance(told, int | float) else float(str(told))


def _texts(told: object) -> list[str]:
    """A list of texts in an event's metadata."""
    return [str(text) for text in told] if isinstance(told, list | tuple) else [str(told)]


def _failed_check(name: str, numbers: Mapping[str, object]) -> str:
    """What a check measured, its bound if that is compared, and the threshold."""
    compared, value, threshold = numbers.get("measured"), numbers.get("value"), numbers.get("threshold")
    if numbers.get("statistic") != "upper_bound" or not (_is_number(compared) and _is_number(value)):
        return f"{name}: measured {_digits(compared)}, threshold {_digits(threshold)}"
    text = f"{name}: measured {_digits(value)}, upper bound {_digits(compared)}, threshold {_digits(threshold)}"
    if _is_by_chance(numbers):
        text += " (the measured number is within the threshold, but its bound is not: this may be chance)"
    return text


def _is_by_chance(numbers: Mapping[str, object]) -> bool:
    """Whether a failed check measured a value within its threshold, but a bound beyond it."""
    value, threshold, compared = (numbers.get(name) for name in ("value", "threshold", "measured"))
    if numbers.get("statistic") != "upper_bound":
        return False
    return _is_number(value) and _is_number(threshold) and _is_number(compared) and value <= threshold < compared


def _digits(number: object) -> str:
    """Format to six digits, so that a number barely beyond its threshold is not shown as equal to it."""
    return f"{number:.6g}" if _is_number(number) else str(number)


def _is_number(measured: object) -> TypeGuard[float]:
    return isinstance(measured, int | float) and math.isfinite(measured)


def _first_cause(error: SerializableErrorInfo | None) -> SerializableErrorInfo | None:
    """The root cause of an error, as far back as Dagster knows: it wraps errors of steps and resources."""
    while error is not None and error.cause is not None:
        error = error.cause
    return error


def _message(step: str | None, error: SerializableErrorInfo | None) -> str:
    """The message of our own errors; for others only their kind, because their text may quote a value."""
    if error is None:
        return f"{step}: failed; see the run's log in the UI"
    if error.cls_name == "DagsterExecutionInterruptedError":
        return f"{step}: the run was interrupted by Ctrl-C or a signal; run again"
    if error.cls_name in OWN_ERRORS:
        return error.message.split(": ", 1)[-1].strip()
    return f"{step}: {error.cls_name}; see the run's log in the UI (`deid ui`)"


def left_alone(context: dg.RunStatusSensorContext, why: str) -> list[dg.RunRequest]:
    """Nothing, with the reason in the tick's log.

    A tick looks at several runs. Dagster fails one that has a `SkipReason` after the reaction to another run, forgets how
    far it came, and asks about both again, at every tick: an alarm would be given without end.
    """
    context.log.info(why)
    return []


def _events_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[dg.DagsterEvent]:
    return [entry.dagster_event for entry in instance.all_logs(run.run_id) if entry.dagster_event is not None]


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
    failed = (f"The check failed: {text}" for text in summary.failed_checks)
    reasons = (*failed, *(text.removeprefix("refused: ") for text in summary.reasons))
    return write_refused_report(home, policy, delivery, tuple(summary.rows), reasons)


def report_sensor(
    workplace: resources.Workplace, jobs: Sequence[internals.UnresolvedAssetJobDefinition], name: str = "refusal_report"
) -> dg.SensorDefinition:
    """A sensor that reports each refused run of these jobs. Where no daemon runs, only `deid run` reports them."""
    home = workplace.home

    @dg.run_failure_sensor(
        name=name,
        monitored_jobs=list(jobs),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Writes the report of a refused run into the restricted store.",
    )
    def reported(context: dg.RunFailureSensorContext) -> list[dg.RunRequest] | None:
        run = context.dagster_run
        policy, delivery = run.tags[resources.POLICY_TAG], run.tags["dagster/partition"]
        with without_values("the report of the refusal", home.store):
            summary = outcome_of(_events_of(context.instance, run))
            tag_outcome(context.instance, run.run_id, summary)  # also where the next run is at work already
            if past := _past(context.instance, run):
                return left_alone(context, past)  # the next run would fail if it found the lock taken by this sensor
            lock = StoreLock.of(home, policy, delivery, is_over=resources.ended_in(context.instance))
            if not lock.try_acquire():
                return left_alone(context, "another run uses the same store, so the report would not describe this one")
            try:
                if past := _past(context.instance, run):
                    return left_alone(context, past)
                path = report_refusal(home, workplace.named(policy), delivery, summary)
            finally:
                lock.release()
        context.log.info(f"report of the refusal (restricted): {path}" if path else "the run failed without a refusal")
        return None

    return reported


def _past(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str | None:
    newest = newer_run(instance, run)
    told = f"run {newest} of {run.tags[resources.STORE_TAG]} came after it, and the report is of the newest run"
    return None if newest is None else told


def newer_run(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str | None:
    """The newest run of the same policy and delivery, if that is another one: the daemon looks at a failed run later."""
    (newest, *_) = instance.get_runs(dg.RunsFilter(tags={resources.STORE_TAG: run.tags[resources.STORE_TAG]}), limit=1)
    return None if newest.run_id == run.run_id else newest.run_id


def repeat_sensor(
    jobs: Mapping[str, internals.UnresolvedAssetJobDefinition], name: str = "overtaken_runs"
) -> dg.SensorDefinition:
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
                    context.instance.add_run_tags(run.run_id, {resources.again_tag(policy): settled})
        return dg.SensorResult(requests, skip_reason=None if requests else "no release is due")

    return repeated


def _due(context: dg.SensorEvaluationContext, policy: str) -> Iterator[dg.DagsterRun]:
    """Runs of this code location that failed because another release came meanwhile, and have no follower yet."""
    own = context.code_location_origin
    due = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE], tags={resources.again_tag(policy): resources.AGAIN_DUE})
    for run in reversed(context.instance.get_runs(due)):
        origin = run.remote_job_origin.repository_origin.code_location_origin if run.remote_job_origin else None
        is_here = (origin and origin.location_name) == (own and own.location_name)
        if is_here and policy in resources.overtaken_policies(run):
            yield run


def _run_key(run: dg.DagsterRun, job: str) -> str:
    """Dagster makes one run of each key, whatever becomes of a tick of the sensor."""
    return f"{run.run_id}:{job}"


def _follower(instance: dg.DagsterInstance, run: dg.DagsterRun, job: str) -> str | None:
    """The run that makes the release again. One that was made but never started is requested until it is."""
    made = instance.get_runs(dg.RunsFilter(job_name=job, tags={internals.RUN_KEY_TAG: _run_key(run, job)}))
    return next((one.run_id for one in made if one.status != dg.DagsterRunStatus.NOT_STARTED), None)


def _why_not(context: dg.SensorEvaluationContext, run: dg.DagsterRun, job: str) -> str | None:
    """Why nobody wants the release any more."""
    backfill = (
        context.instance.get_backfill(run.tags[internals.BACKFILL_ID_TAG]) if internals.BACKFILL_ID_TAG in run.tags else None
    )
    if backfill is not None and backfill.status in (internals.BulkActionStatus.CANCELING, internals.BulkActionStatus.CANCELED):
        return "no: its backfill was canceled"
    repository = check.not_none(context.repository_def)
    # Dagster would refuse all requests of the tick together.
    with internals.partition_loading_context(dynamic_partitions_store=context.instance) as loading:
        try:
            repository.get_job(job).validate_partition_key(run.tags[internals.PARTITION_NAME_TAG], None, loading)
        except internals.DagsterUnknownPartitionError:
            return "no: its delivery was removed"
    return None


def _request(instance: dg.DagsterInstance, run: dg.DagsterRun, job: str) -> dg.RunRequest:
    tags = {resources.REPETITION_TAG: str(int(run.tags.get(resources.REPETITION_TAG, "0")) + 1)}
    backfill = instance.get_backfill(run.tags[internals.BACKFILL_ID_TAG]) if internals.BACKFILL_ID_TAG in run.tags else None
    # So that canceling it also stops this one, and the UI shows them together. Dagster cancels all runs of one that fails.
    if backfill is not None and backfill.status not in (internals.BulkActionStatus.FAILING, internals.BulkActionStatus.FAILED):
        tags[internals.BACKFILL_ID_TAG] = backfill.backfill_id
    return dg.RunRequest(
        run_key=_run_key(run, job), job_name=job, partition_key=run.tags[internals.PARTITION_NAME_TAG], tags=tags
    )


def canceled_sensor(jobs: Sequence[internals.UnresolvedAssetJobDefinition], name: str = "canceled_runs") -> dg.SensorDefinition:
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
        if resources.OUTCOME_TAG in run.tags and run.parent_run_id is None:
            return left_alone(context, f"the run says already what came of it: {run.tags[resources.OUTCOME_TAG]}")
        tag_outcome(context.instance, run.run_id, outcome_of(_events_of(context.instance, run)))
        return None

    return canceled


ALARM = "refusal_alarm"


@dataclass(frozen=True)
class Unfulfilled:
    """What a refused release did not fulfil.

    Attributes
    ----------
    name
        A check, or a rule of the gate and what it was applied to.
    measured
        The number that was compared; None if there is none, or if it counts people.
    threshold
        What it was compared with; None as above.
    text
        What is wrong, in words that name no number of people.
    remedy
        What to do about it; empty if the text says so, or if nothing general can be said.
    """

    name: str
    measured: float | None = None
    threshold: float | None = None
    text: str = ""
    remedy: str = ""

    @property
    def sentence(self) -> str:
        """What was not fulfilled, with its numbers and the remedy, without a full stop."""
        said = self.text.rstrip(".") or self.name
        if self.measured is not None and self.threshold is not None:
            limit = "at most" if self.measured > self.threshold else "at least"
            said += f": {self.measured:.6g}, {limit} {self.threshold:.6g}"
        return said + (f"; {self.remedy.rstrip('.')}" if self.remedy else "")


@dataclass(frozen=True)
class UnpublishedRun:
    """A run that published nothing. It says nothing about a person: no value of a delivery, and no number of people.

    Attributes
    ----------
    policy
        Name of the policy.
    delivery
        Key of the delivery, which is the partition; None for a run without a partition.
    run_id
        The run in Dagster.
    outcome
        "refused": privacy is not protected well enough. "error": anything else.
    unfulfilled
        What was not fulfilled; empty for most errors.
    """

    policy: str
    delivery: str | None
    run_id: str
    outcome: Literal["refused", "error"]
    unfulfilled: tuple[Unfulfilled, ...]

    @property
    def sentence(self) -> str:
        """What came of the run and why, such as "small, delivery 2012-04, is refused: ..."."""
        of = self.policy if self.delivery is None else f"{self.policy}, delivery {self.delivery},"
        why = "; ".join(one.sentence for one in self.unfulfilled) or f"the log of run {self.run_id} says why"
        return f"{of} {'is refused' if self.outcome == 'refused' else 'failed'}: {why}."

    @property
    def reason(self) -> str:
        """A digest of policy, delivery, outcome and what was not fulfilled: equal for runs that would be told alike."""
        return bytes_digest(repr((self.policy, self.delivery, self.outcome, self.unfulfilled)).encode())[:16]


def refusal_sensor(
    policies: Iterable[ReleasePolicy | str], on_refusal: Callable[[UnpublishedRun], object], *, name: str = ALARM
) -> dg.SensorDefinition:
    """A sensor that calls a function for every failed run of some policies, whatever started the run.

    Each run is reported once, unless another release overtook it and the sensor `overtaken_runs` makes it again. A refusal is
    not reported if the one reported last of this policy and delivery had the same reason. A function that raises shows as a
    failed tick of the sensor, and is not called again for this run. What Dagster has not recorded as a failure of a run, such
    as one that was canceled, is not reported.

    Parameters
    ----------
    policies
        Policies, or their names.
    on_refusal
        Called with an `UnpublishedRun`; what it returns is ignored.
    name
        Of the sensor. Two sensors in one project need two names.

    Raises
    ------
    PolicyError
        If no policy is named: such a sensor would never report anything.
    """
    names = frozenset(one if isinstance(one, str) else one.name for one in policies)
    if not names:
        raise PolicyError("refusal_sensor: name at least one policy, otherwise nothing would be reported")

    @dg.run_failure_sensor(
        name=name,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Reports refused and failed runs of {', '.join(sorted(names))}.",
    )
    def alarm(context: dg.RunFailureSensorContext) -> list[dg.RunRequest] | None:
        run = context.dagster_run
        events = _events_of(context.instance, run)
        policy = _policy_of(events, names, resources.overtaken_policies(run))
        if policy is None:
            return left_alone(context, f"run {run.run_id} is of none of these policies, or is made again after another release")
        outcome: Literal["refused", "error"] = "refused" if outcome_of(events).exit_code == REFUSED else "error"
        told = UnpublishedRun(policy, run.tags.get("dagster/partition"), run.run_id, outcome, unfulfilled_in(events))
        of, reason = f"deid/{name}/of", f"deid/{name}/reason"
        before = context.instance.get_runs(dg.RunsFilter(tags={of: f"{policy}/{told.delivery}"}), limit=1)
        if outcome == "refused" and before and before[0].tags[reason] == told.reason:
            return left_alone(context, f"the same was reported of run {before[0].run_id}: {told.sentence}")
        on_refusal(told)
        context.instance.add_run_tags(run.run_id, {of: f"{policy}/{told.delivery}", reason: told.reason})
        return None

    return alarm


def _policy_of(events: Sequence[dg.DagsterEvent], names: frozenset[str], again: frozenset[str]) -> str | None:
    """The policy whose assets a run was to make; if there are several, one that failed and is not made again."""
    planned = [
        resources.policy_name(event.asset_key)
        for event in events
        if event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED
        and event.asset_key is not None
        and len(event.asset_key.path) > 1
    ]
    own = [policy for policy in planned if policy in names - again]
    failed = [str(event.step_key) for event in events if event.event_type == dg.DagsterEventType.STEP_FAILURE]
    known = next((policy for policy in own if any(policy in step.split("__") for step in failed)), None)
    # A run without a failed step failed as a whole; one that is made again failed because of that.
    return known if known is not None or again else next(iter(own), None)


def unfulfilled_in(events: Iterable[dg.DagsterEvent]) -> tuple[Unfulfilled, ...]:
    """What failed checks and refusals of the gate name, in the order of the events, each once."""
    found: list[Unfulfilled] = []
    for event in events:
        if event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            check = event.asset_check_evaluation_data
            if not check.passed and check.blocking:
                told: dict[str, Any] = {key: value.value for key, value in check.metadata.items()}
                numbers = {} if exposure_of(str(told.get("unit"))).counts_people else told
                compared = numbers.get("measured"), numbers.get("threshold")
                text = f"the check {check.check_name} failed"
                found.append(Unfulfilled(check.check_name, *compared, text, str(told.get(REMEDY, ""))))
        elif event.event_type == dg.DagsterEventType.STEP_FAILURE:
            failure = event.step_failure_data.user_failure_data
            if failure is not None and REQUIREMENTS in failure.metadata:
                requirements: Any = failure.metadata[REQUIREMENTS].value
                found += [Unfulfilled(**one) for one in requirements]
            elif failure is not None and "refused" in failure.metadata:
                step, said = str(event.step_key).split("__")[-1], failure.metadata.get(SENTENCE)
                unsaid = f"the step {step} refused; the report in the restricted store says why"
                found.append(Unfulfilled(step, text=unsaid if said is None else str(said.value)))
    return tuple(dict.fromkeys(found))
