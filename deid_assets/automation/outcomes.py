"""The outcome of a run, read from its events: published, refused for privacy, or an error, and why."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

import dagster as dg

from deid_assets.assessments.earlier_releases import BECAUSE
from deid_assets.assets.waiting_release import WAITING
from deid_assets.checks.risk import REMEDY
from deid_assets.errors import AWAITING_MARK, ERROR, PUBLISHED, REFUSED, REFUSED_MARK, DeidError
from deid_assets.release.registry.tries import what_is_next
from deid_assets.resources import OUTCOME_TAG, RELEASED
from deid_assets.stages import STAGE_OF
from deid_assets.store.guard import UnforeseenError

if TYPE_CHECKING:
    from dagster_shared.error import SerializableErrorInfo

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


_SHOWN = {PUBLISHED: RELEASED, ERROR: "\N{WARNING SIGN} error", REFUSED: f"{REFUSED_MARK}refused for privacy"}
_SHOWN_AWAITING = f"{AWAITING_MARK}{AWAITING}"


def tag_outcome(instance: dg.DagsterInstance, run_id: str, summary: RunSummary) -> None:
    """Tag a run with its outcome, so that a refusal, a crash and a cancellation look different in the list of runs."""
    run = instance.get_run_by_id(run_id)
    if run is not None and run.status == dg.DagsterRunStatus.CANCELED:
        # What it was about to say does not count, and what is out is out.
        shown = RELEASED if summary.release else _SHOWN_AWAITING if summary.waiting else CANCELED
    else:
        shown = _SHOWN_AWAITING if summary.outcome == AWAITING else _SHOWN[summary.exit_code]
    instance.add_run_tags(run_id, {OUTCOME_TAG: shown})


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


def _first_cause(error: "SerializableErrorInfo | None") -> "SerializableErrorInfo | None":
    """The root cause of an error, as far back as Dagster knows: it wraps errors of steps and resources."""
    while error is not None and error.cause is not None:
        error = error.cause
    return error


def _message(step: str | None, error: "SerializableErrorInfo | None") -> str:
    """The message of our own errors; for others only their kind, because their text may quote a value."""
    if error is None:
        return f"{step}: failed; see the run's log in the UI"
    if error.cls_name == "DagsterExecutionInterruptedError":
        return f"{step}: the run was interrupted by Ctrl-C or a signal; run again"
    if error.cls_name in OWN_ERRORS:
        return error.message.split(": ", 1)[-1].strip()
    return f"{step}: {error.cls_name}; see the run's log in the UI (`deid ui`)"
