"""What `deid run` says at the end: every gate with its numbers, what the columns still disclose, where the release lies."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from deid_assets.assessments.assessment import CANARIES
from deid_assets.assessments.evidence import from_frame
from deid_assets.assessments.kernel_input import chosen_level_names
from deid_assets.automation.ended_runs import RunSummary
from deid_assets.command_line.progress import Detail, Progress
from deid_assets.errors import REFUSED, how_many
from deid_assets.methods.lattice.diagnosis import best_change, outcome_of_change
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.release.keyring import secret_of
from deid_assets.release.known_people import unmatched_notes
from deid_assets.release.publication.verification import MANIFEST
from deid_assets.release.publication.waiting import waiting_manifest
from deid_assets.release.verdict import verdict_in
from deid_assets.sources.delivery import Delivery
from deid_assets.stages import STAGE_OF, asset_of, stages_of
from deid_assets.store.home import Home
from deid_assets.store.tables import Table


@dataclass(frozen=True)
class Task:
    """A policy that is run on a delivery of a home.

    Attributes
    ----------
    home, policy, delivery
        What is run on what, and where.
    progress
        Where it is said what is going on, and how much of it.
    go_on
        Whether to search although no generalization can pass.
    """

    home: Home
    policy: AnyPolicy
    delivery: Delivery
    progress: Progress
    go_on: bool = False

    def table(self, name: str) -> Table:
        """A table of the restricted store, by its asset, or by what its claims are."""
        name = asset_of(self.policy, name)
        return Table(self.home.store / self.policy.name / f"{self.delivery.key}.duckdb", STAGE_OF[name], name)

    def unmatched(self) -> tuple[str, ...]:
        """Who of the opt-outs is not in the delivery, in words."""
        return tuple(unmatched_notes(self.policy, self.delivery.key, self.home, secret_of(self.home)))


@dataclass(frozen=True)
class MeasuredGate:
    """A gating measurement of an assessment, as the summary shows it."""

    asset: str
    measurement: str
    measured: float | None
    bound: float | None
    threshold: float | None
    passed: bool


@dataclass(frozen=True)
class ColumnLevel:
    """How finely a column is published: the level of its hierarchy, in words."""

    column: str
    level: str


def gates_of(task: Task, summary: RunSummary) -> tuple[list[MeasuredGate], int]:
    """The gates that this run measured, and how many more measurements gate nothing."""
    gates, reported = [], 0
    for name in stages_of(task.policy)["assessment"]:
        if name not in summary.rows:
            continue
        for item in from_frame(task.table(name).frame()):
            for found in item.measurements:
                if found.gating:
                    gates.append(MeasuredGate(name, found.name, found.value, found.bound, found.threshold, found.passed))
                else:
                    reported += 1
    return gates, reported


def kept_levels(task: Task, summary: RunSummary) -> list[ColumnLevel]:
    """The level of every quasi-identifier at the generalization that was chosen; empty where none was."""
    tables = {name: task.table(name) for name in summary.rows if name in STAGE_OF}
    return [ColumnLevel(column, level) for column, level in chosen_level_names(task.policy, tables)]


def summary_json(task: Task, summary: RunSummary, seconds: float) -> dict[str, object]:
    """The summary as JSON values, for `deid run --json`; a number that is not finite is null."""
    gates, _ = gates_of(task, summary)
    return {
        "outcome": summary.outcome,
        "exit_code": summary.exit_code,
        "policy": task.policy.name,
        "delivery": task.delivery.key,
        "release": None if summary.release is None else str(summary.release),
        "waiting": summary.waiting,
        "verdict": list(verdict_sentences(task.home, summary.release, summary.waiting)),
        "reasons": [text.removeprefix("refused: ") for text in summary.reasons],
        "failed_checks": list(summary.failed_checks),
        "opt_outs": list(task.unmatched()),
        "rows": summary.rows,
        "gates": [
            {name: _finite(value) if isinstance(value, float) else value for name, value in asdict(gate).items()}
            for gate in gates
        ],
        "kept": [asdict(kept) for kept in kept_levels(task, summary)],
        "seconds": round(seconds, 1),
        "peak_memory_gb": summary.peak_memory_gb,
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def print_summary(task: Task, summary: RunSummary, seconds: float) -> None:
    """Print the summary; where little is to be said, only what came of the run and why."""
    console, detail = task.progress.console, task.progress.detail
    if detail is not Detail.QUIET:
        console.print()
        _print_gates(console, *gates_of(task, summary), detail)
        _print_kept(console, kept_levels(task, summary))
    errors = Console(stderr=True, highlight=False, width=console.width)
    for text in summary.failed_checks:
        errors.print(f"[bold]check failed[/bold]  {escape(text)}")
    for text in summary.reasons:
        label = "refused" if summary.exit_code == REFUSED else "error"
        said = text.removeprefix("refused: ").removeprefix(f"{label} ")
        errors.print(f"[bold]{label}[/bold]  {escape(said)}")
    if summary.exit_code == REFUSED and detail is not Detail.QUIET:
        _print_diagnosis(console, task, summary)
    # What a person overruled is said even where little is to be said.
    for sentence in verdict_sentences(task.home, summary.release, summary.waiting, detail is Detail.QUIET):
        console.print(escape(sentence), soft_wrap=True)
    if summary.release is not None:
        console.print(f"[bold]Published[/bold]  {escape(str(summary.release))}", soft_wrap=True)
    elif summary.waiting is not None:
        console.print(
            f"[bold]Awaiting approval[/bold]  {summary.waiting}: nothing is visible before "
            f"`deid approve {summary.waiting} --by NAME`; `deid approvals` shows where its files are",
            soft_wrap=True,
        )
    else:
        console.print("[bold]Nothing was published.[/bold]")
    for text in task.unmatched():
        console.print(text, soft_wrap=True)
    if detail is not Detail.QUIET:
        console.print(f"{how_many(round(seconds), 'second')}, at most {summary.peak_memory_gb:.2f} GB of memory")


def verdict_sentences(home: Home, release: Path | None, waiting: str | None, only_remarks: bool = False) -> tuple[str, ...]:
    """What passed and what a person overruled, of what was published or waits for approval; none where neither was made."""
    if release is not None:
        verdict = verdict_in(release / MANIFEST)
    else:
        verdict = None if waiting is None else verdict_in(waiting_manifest(home.store / "manifests", waiting))
    return () if verdict is None else verdict.remarks if only_remarks else verdict.sentences


def _print_gates(console: Console, gates: Sequence[MeasuredGate], reported: int, detail: Detail) -> None:
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
        least = min((gate.measured for gate in folded if gate.measured is not None), default=None)
        table.add_row(f"{CANARIES} ({len(folded)} assessments)", _number(least), "", _number(folded[0].threshold), "passed")
    console.print(table)
    if reported:
        console.print(
            f"{how_many(reported, 'more measurement is', 'more measurements are')} only reported, and no gate: see the report, "
            "or the assets in the UI."
        )


def _print_kept(console: Console, kept: Sequence[ColumnLevel]) -> None:
    if not kept:
        return
    table = RichTable("column", "level", title="What the columns still disclose", title_justify="left", min_width=32)
    for one in kept:
        table.add_row(escape(one.column), escape(one.level))
    console.print(table)


def _print_diagnosis(console: Console, task: Task, summary: RunSummary) -> None:
    # Where a node was chosen, something else refused, and what is wrong with the coarsest node would mislead.
    if not summary.rows.get("lattice_diagnosis") or "chosen_generalization" in summary.rows:
        return
    stored = task.table("lattice_diagnosis")
    headings = ("", "", "share at high risk", "at most", "left out", "would pass")
    table = RichTable(*headings, title="Where the risk comes from, at the coarsest node", title_justify="left")
    diagnosis = stored.frame()
    for row in diagnosis.itertuples():
        left_out = _number(row.suppressed) if row.would_pass else ""
        table.add_row(row.kind, row.what, _number(row.share), _number(row.threshold), left_out, outcome_of_change(row))
    console.print(table)
    best = best_change(diagnosis)
    if best is not None:
        console.print(
            f"Try this change first: {best['kind']} {best['what']}. Replace the corresponding sections of the policy with:"
        )
        console.print(escape(best["change"]), soft_wrap=True)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"
