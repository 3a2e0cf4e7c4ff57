"""What `deid run` says at the end: every gate with its numbers, what the columns still tell, where the release lies."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import dagster as dg
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from deid_assets.assets.generalization import chosen_level_names
from deid_assets.errors import DeidError
from deid_assets.guard import UnforeseenError
from deid_assets.home import Home
from deid_assets.methods.lattice_diagnosis import best_change, outcome_of_change
from deid_assets.policy.base import ReleasePolicy
from deid_assets.release.canaries import CANARIES
from deid_assets.release.cumulative_attacks import BECAUSE
from deid_assets.release.evidence import from_frame
from deid_assets.release.tries import what_is_next
from deid_assets.running_progress import Detail
from deid_assets.sources.delivery import Delivery
from deid_assets.stages import STAGE_OF, stages_of
from deid_assets.store import Table

PUBLISHED, ERROR, REFUSED = 0, 1, 2
OUTCOMES = {PUBLISHED: "published", ERROR: "error", REFUSED: "refused"}

OWN_ERRORS = {kind.__name__ for kind in (DeidError, *DeidError.__subclasses__(), UnforeseenError)}
"""Errors whose text people may read: it holds no value."""


@dataclass(frozen=True)
class RunSummary:
    """What came of a run.

    Attributes
    ----------
    exit_code
        0 published. 2 refused for privacy: what was measured is over its threshold, the rows break a rule of the policy, or
        no generalization of the policy holds. 1 anything else, such as a broken contract, evidence that is missing or of
        something else, or a delivery that changed; also where both are true, because the numbers may then be wrong.
    rows
        Rows by asset, in the order in which they were made.
    failed_checks
        Names of blocking checks that did not pass, with their numbers.
    reasons
        Why the run was refused or failed, for people.
    release
        Where the release lies; None if nothing was published.
    peak_memory_gb
        The largest of the assets.
    """

    exit_code: int
    rows: dict[str, int] = field(default_factory=dict)
    failed_checks: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    release: Path | None = None
    peak_memory_gb: float = 0.0


def outcome_of(events: Sequence[dg.DagsterEvent]) -> RunSummary:
    """Read what came of a run from its events."""
    rows: dict[str, int] = {}
    failed_checks, reasons, because, drawn = [], [], {}, []
    release, memory, refused, errors = None, 0.0, False, False
    for event in events:
        if event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION:
            made = event.step_materialization_data.materialization
            name, metadata = made.asset_key.path[-1], made.metadata
            if "dagster/row_count" in metadata:
                rows[name] = int(metadata["dagster/row_count"].value)
            if BECAUSE in metadata:
                because[made.asset_key] = str(metadata[BECAUSE].value)
            memory = max(memory, float(metadata["peak_memory_gb"].value) if "peak_memory_gb" in metadata else 0.0)
            if "reasons" in metadata:
                reasons += metadata["reasons"].value
            if name == "release":
                release = Path(str(metadata["release"].value))
        elif event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            check = event.asset_check_evaluation_data
            if not check.passed and check.blocking:
                numbers = {key: found.value for key, found in check.metadata.items()}
                counted = because.get(check.asset_key, "") if check.check_name.startswith("absence_posterior") else ""
                failed_checks.append(_failed_check(check.check_name, numbers) + (f"; {counted}" if counted else ""))
                # A contract that is broken is an error of data or code, and so is a risk that nobody measured; a risk that
                # is too high is a refusal.
                is_error = check.check_name.endswith("_keeps_contract") or not _is_number(numbers.get("measured"))
                errors |= is_error
                refused |= not is_error
                if "try" in numbers and not is_error:
                    drawn.append(numbers)
        elif event.event_type == dg.DagsterEventType.STEP_FAILURE:
            failure = event.step_failure_data
            metadata = failure.user_failure_data.metadata if failure.user_failure_data else {}
            if "refused" in metadata:
                judged = bool(metadata["refused"].value)
                refused |= judged
                errors |= not judged
                reasons.append(str(failure.user_failure_data.description))
            elif failure.error and failure.error.cls_name == "DagsterAssetCheckFailedError":
                continue  # the evaluation of the check has decided what it is
            else:
                errors = True
                reasons.append(_message(event.step_key, _first_cause(failure.error)))
        elif event.event_type == dg.DagsterEventType.PIPELINE_FAILURE and not (reasons or failed_checks):
            data = event.job_failure_data
            reasons.append(_message("run", _first_cause(data.error if data else None)))
            errors = True
    if drawn and all(map(_is_by_chance, drawn)) and not errors:
        reasons.append(f"{what_is_next(int(max(numbers['try'] for numbers in drawn)) + 1)}.")
    published = release is not None
    code = PUBLISHED if published and not errors else REFUSED if refused and not errors else ERROR
    return RunSummary(code, rows, tuple(failed_checks), tuple(reasons), release, memory)


def _failed_check(name: str, numbers: Mapping) -> str:
    """What a check measured, its bound where that is compared, and the threshold."""
    compared, value, threshold = numbers.get("measured"), numbers.get("value"), numbers.get("threshold")
    if numbers.get("statistic") != "upper_bound" or not (_is_number(compared) and _is_number(value)):
        return f"{name}: measured {_digits(compared)}, threshold {_digits(threshold)}"
    text = f"{name}: measured {_digits(value)}, upper bound {_digits(compared)}, threshold {_digits(threshold)}"
    if _is_by_chance(numbers):
        text += " (the measured number is within the threshold and its bound is not: chance may be why)"
    return text


def _is_by_chance(numbers: Mapping) -> bool:
    """Whether a failed check measured a value within its threshold, whose bound is beyond."""
    value, threshold, compared = (numbers.get(name) for name in ("value", "threshold", "measured"))
    known = numbers.get("statistic") == "upper_bound" and all(map(_is_number, (value, threshold, compared)))
    return known and value <= threshold < compared


def _digits(number: object) -> str:
    """Six digits, so that what is hardly beyond its threshold is not shown as equal to it."""
    return f"{number:.6g}" if _is_number(number) else str(number)


def _is_number(measured: object) -> bool:
    return isinstance(measured, int | float) and math.isfinite(measured)


def _first_cause(error):
    """What an error was raised from, as far back as Dagster knows: it wraps those of steps and of resources."""
    while error is not None and error.cause is not None:
        error = error.cause
    return error


def _message(step: str | None, error) -> str:
    """The message of our own errors; of any other only its kind, because its text may quote a value."""
    if error is None:
        return f"{step}: it failed; the run's log in the UI says where"
    if error.cls_name == "DagsterExecutionInterruptedError":
        return f"{step}: the run was stopped, by Ctrl-C or a signal; run again"
    if error.cls_name in OWN_ERRORS:
        return error.message.split(": ", 1)[-1].strip()
    return f"{step}: {error.cls_name}; the run's log in the UI says where (`deid ui`)"


@dataclass(frozen=True)
class Gate:
    """A gating measurement of an assessment, as the summary shows it."""

    asset: str
    measurement: str
    measured: float | None
    bound: float | None
    threshold: float | None
    passed: bool


@dataclass(frozen=True)
class Kept:
    """How finely a column is published: the level of its hierarchy, in words."""

    column: str
    level: str


def gates_of(home: Home, policy: ReleasePolicy, delivery: Delivery, summary: RunSummary) -> tuple[list[Gate], int]:
    """The gates that this run measured, and how many more measurements gate nothing."""
    gates, reported = [], 0
    for name in stages_of(policy)["assessment"]:
        if name not in summary.rows:
            continue
        for item in from_frame(_table(home, policy, delivery, name).frame()):
            for found in item.measurements:
                if found.gating:
                    gates.append(Gate(name, found.name, found.value, found.bound, found.threshold, found.passed))
                else:
                    reported += 1
    return gates, reported


def kept_levels(home: Home, policy: ReleasePolicy, delivery: Delivery, summary: RunSummary) -> list[Kept]:
    """The level of every quasi-identifier at the generalization that was chosen; empty where none was."""
    tables = {name: _table(home, policy, delivery, name) for name in summary.rows if name in STAGE_OF}
    return [Kept(column, level) for column, level in chosen_level_names(policy, tables)]


def _table(home: Home, policy: ReleasePolicy, delivery: Delivery, name: str) -> Table:
    return Table(home.store / policy.name / f"{delivery.key}.duckdb", STAGE_OF[name], name)


def summary_json(
    home: Home, policy: ReleasePolicy, delivery: Delivery, summary: RunSummary, seconds: float
) -> dict[str, object]:
    """The summary as JSON values, for `deid run --json`; a number that is not finite is null."""
    gates, _ = gates_of(home, policy, delivery, summary)
    return {
        "outcome": OUTCOMES[summary.exit_code],
        "exit_code": summary.exit_code,
        "policy": policy.name,
        "delivery": delivery.key,
        "release": None if summary.release is None else str(summary.release),
        "reasons": [text.removeprefix("refused: ") for text in summary.reasons],
        "failed_checks": list(summary.failed_checks),
        "rows": summary.rows,
        "gates": [
            {name: _finite(value) if isinstance(value, float) else value for name, value in asdict(gate).items()} for gate in gates
        ],
        "kept": [asdict(kept) for kept in kept_levels(home, policy, delivery, summary)],
        "seconds": round(seconds, 1),
        "peak_memory_gb": summary.peak_memory_gb,
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def print_summary(
    console: Console,
    home: Home,
    policy: ReleasePolicy,
    delivery: Delivery,
    summary: RunSummary,
    seconds: float,
    detail: Detail = Detail.NORMAL,
) -> None:
    """Print the summary; where little is to be said, only what came of the run and why."""
    if detail is not Detail.QUIET:
        console.print()
        _print_gates(console, *gates_of(home, policy, delivery, summary), detail)
        _print_kept(console, kept_levels(home, policy, delivery, summary))
    for text in summary.failed_checks:
        console.print(f"[bold]check failed[/bold]  {escape(text)}")
    for text in summary.reasons:
        said = text.removeprefix("refused: ")
        console.print(f"[bold]{'refused' if summary.exit_code == REFUSED else 'error'}[/bold]  {escape(said)}")
    if summary.exit_code == REFUSED and detail is not Detail.QUIET:
        _print_diagnosis(console, home, policy, delivery, summary)
    if summary.release is not None:
        console.print(f"[bold]Published[/bold]  {summary.release}")
    else:
        console.print("[bold]Nothing was published.[/bold]")
    if detail is not Detail.QUIET:
        console.print(f"{seconds:.0f} seconds, at most {summary.peak_memory_gb:.2f} GB of memory")


def _print_gates(console: Console, gates: Sequence[Gate], reported: int, detail: Detail) -> None:
    if not gates:
        return
    table = RichTable(title="Gates", title_justify="left")
    table.add_column("measurement", no_wrap=True)
    for heading in ("measured", "bound", "threshold"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    # Every assessment has a gate of this name: those that hold are one line, unless all is to be said.
    folded = [] if detail is Detail.VERBOSE else [gate for gate in gates if gate.measurement == CANARIES and gate.passed]
    for gate in gates:
        if gate not in folded:
            shown = f"{gate.measurement} {gate.asset if gate.measurement == CANARIES else ''}".strip()
            numbers = (_number(gate.measured), _number(gate.bound), _number(gate.threshold))
            table.add_row(shown, *numbers, "passed" if gate.passed else "FAILED")
    if folded:
        least = min(gate.measured for gate in folded)
        table.add_row(f"{CANARIES} ({len(folded)} assessments)", _number(least), "", _number(folded[0].threshold), "passed")
    console.print(table)
    if reported:
        console.print(f"{reported} more measurements are reported and gate nothing: see the report, or the assets in the UI.")


def _print_kept(console: Console, kept: Sequence[Kept]) -> None:
    if not kept:
        return
    table = RichTable(title="What the columns still tell", title_justify="left", min_width=32)
    for heading in ("column", "level"):
        table.add_column(heading)
    for one in kept:
        table.add_row(escape(one.column), escape(one.level))
    console.print(table)


def _print_diagnosis(console: Console, home: Home, policy: ReleasePolicy, delivery: Delivery, summary: RunSummary) -> None:
    # Where a node was chosen, something else refused, and what is wrong with the coarsest node would mislead.
    if not summary.rows.get("lattice_diagnosis") or "chosen_generalization" in summary.rows:
        return
    stored = _table(home, policy, delivery, "lattice_diagnosis")
    table = RichTable(title="Where the risk comes from, at the coarsest node", title_justify="left")
    for heading in ("", "", "share at high risk", "at most", "left out", "would pass"):
        table.add_column(heading)
    diagnosis = stored.frame()
    for row in diagnosis.itertuples():
        left_out = _number(row.suppressed) if row.would_pass else ""
        table.add_row(row.kind, row.what, _number(row.share), _number(row.threshold), left_out, outcome_of_change(row))
    console.print(table)
    best = best_change(diagnosis)
    if best is not None:
        console.print(f"The change to try first is {best['kind']} {best['what']}. Put this in the place of the policy's own sections:")
        console.print(escape(best["change"]), soft_wrap=True)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"
