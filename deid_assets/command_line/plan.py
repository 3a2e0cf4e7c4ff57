"""`deid plan`: what cannot pass, said before the search: with this population, sample and policy.

A plan rules out; it never says that something will pass. It publishes nothing, and its draws judge nothing.
"""

import time
from collections.abc import Collection, Mapping

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from deid_assets import interruption
from deid_assets.assessments.membership_changes import forecast
from deid_assets.automation.instance import clean_orphans, dagster_instance, prepare_dagster_home
from deid_assets.command_line.run import execute
from deid_assets.command_line.summary import Task
from deid_assets.dagster_internals import capture_interrupts
from deid_assets.errors import PUBLISHED, REFUSED, how_many
from deid_assets.policy.kinds import AnyPolicy, Kind
from deid_assets.policy.models import Policy, smallest_at_least
from deid_assets.resources import Workplace
from deid_assets.sources.delivery import Delivery
from deid_assets.stages import STAGE_OF, stages_of
from deid_assets.store.home import Home, StoreLock
from deid_assets.store.tables import Table, columns_of, interrupt_queries

REACHABLE = "reachable_risk"
_LAST: Mapping[Kind, str] = {"longitudinal": REACHABLE, "flat": "record_generalization", "cohort": "cohort_risk"}


def planned_assets(policy: AnyPolicy) -> tuple[str, ...]:
    """What a plan makes: everything up to the foresight of a longitudinal policy, or to the choice of a flat one.

    The choice of a flat policy is quick, and so are the candidate of a cohort's policy and its risk.
    """
    return assets_until(policy, _LAST[policy.kind])


def assets_until(policy: AnyPolicy, last: str) -> tuple[str, ...]:
    """The assets of a policy up to one of them, which is among them."""
    names = [name for stage in stages_of(policy).values() for name in stage]
    return tuple(names[: names.index(last) + 1])


def plan(task: Task, lock: StoreLock) -> int:
    """Make what a plan needs and print what cannot pass; return the exit code.

    It is 0 where nothing proves that the policy cannot pass, else 2 or 1 as for a run.
    """
    started, policy, console = time.monotonic(), task.policy, task.progress.console
    code = made(task, lock, planned_assets(policy))
    if interruption.received() is not None:
        return code
    if policy.has_events:
        _print_size(console, task, policy)
    if code == PUBLISHED and policy.has_events:
        code = _print_reach(console, task.table(REACHABLE))
        _print_rotation(console, task.home, policy, task.delivery)
    if code == PUBLISHED:
        console.print("This is no guarantee: only `deid run` searches, attacks and judges, on other draws and with more gates.")
    console.print(how_many(round(time.monotonic() - started), "second"))
    return code


def made(task: Task, lock: StoreLock, assets: Collection[str]) -> int:
    """Make some assets of a policy and print what cannot pass; the exit code is 0 if they were made, else as for a run."""
    prepare_dagster_home(task.home)
    with dagster_instance(task.home) as instance:
        clean_orphans(task.home, instance, lock)
        with interruption.watched(interrupt_queries), capture_interrupts():
            summary = execute(instance, task, lock.run_id, assets)
    if interruption.received() is not None:
        return interruption.say()
    console = task.progress.console
    console.print()
    for text in (*summary.failed_checks, *summary.reasons):
        console.print(f"[bold]cannot pass[/bold]  {escape(text.removeprefix('refused: '))}")
    return summary.exit_code if summary.reasons or summary.failed_checks else PUBLISHED


def _print_reach(console: Console, stored: Table) -> int:
    """Print the least of each gate; the exit code is that of a refusal where counts prove that one fails."""
    table = RichTable(title="Lowest risk that any generalization of this policy can reach", title_justify="left")
    table.add_column("gate")
    for heading in ("coarsest node", "lower bound, any node", "limit"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    code = PUBLISHED
    for row in stored.frame().itertuples():
        verdict = ("cannot pass" if row.proven else "unlikely to pass") if row.ruled_out else "not ruled out"
        code = REFUSED if row.ruled_out and row.proven else code
        table.add_row(row.gate, *(f"{number:.4f}" for number in (row.measured, row.least, row.limit)), verdict)
    console.print(table)
    return code


def _print_size(console: Console, task: Task, policy: Policy) -> None:
    """Print how many people there are, where a release of so few cannot pass: who is known to be in it is one of them."""
    gate, members = policy.neighbor_attack.given_membership, task.table("members")
    if gate is None or not members.file.exists() or members not in columns_of(members.file):
        return
    delivered = members.count()
    drawn = policy.sample.members or round((policy.sample.fraction or 0) * delivered)
    needed = smallest_at_least(1 / gate.at_most)
    if drawn < needed:
        console.print(
            f"[bold]cannot pass[/bold]  the delivery has {delivered:,} members, of whom about {drawn:,} would be released: "
            f"who is known to be in the release is one of them, and the policy allows one of {needed:,} (neighbor_attack."
            "given_membership). What helps: more members."
        )


def _print_rotation(console: Console, home: Home, policy: Policy, delivery: Delivery) -> None:
    """Print what later releases with rotation will disclose and cost; nothing without it."""
    if policy.rotation is None:
        return
    workplace, file = Workplace(root=str(home.root)), home.store / policy.name / f"{delivery.key}.duckdb"
    own, eligible = (
        workplace.member_tags(table, f"SELECT member_id FROM {table.sql}")
        for table in (Table(file, STAGE_OF[name], name) for name in ("released_sample", "eligible_members"))
    )
    console.print(escape(forecast(policy, own, eligible, workplace.ever_released())))
