"""`deid cost`: what each column and table of a policy adds to the risk of a delivery, and what others could keep without it.

It publishes nothing, and its draws judge nothing.
"""

import time
from collections.abc import Mapping

import numpy as np
from rich.markup import escape
from rich.table import Table as RichTable

from deid_assets import interruption
from deid_assets.assessments.column_costs import (
    OF_CLAIMS,
    OF_PEOPLE,
    OF_RECORDS,
    Costs,
    costs_of_claims,
    costs_of_people,
    costs_of_records,
)
from deid_assets.command_line.plan import assets_until, made
from deid_assets.command_line.summary import Task
from deid_assets.errors import PUBLISHED, how_many
from deid_assets.policy.kinds import Kind
from deid_assets.release.keyring import secret_of
from deid_assets.release.keys import stream_key_of
from deid_assets.store.home import StoreLock

_LAST: Mapping[Kind, str] = {"longitudinal": "suppressed_members", "flat": "record_generalization", "cohort": "policy_risks"}


def cost(task: Task, lock: StoreLock) -> int:
    """Make a policy's assets up to the choice and print what each column costs there; return the exit code, as of a plan."""
    started, policy, console = time.monotonic(), task.policy, task.progress.console
    code = made(task, lock, assets_until(policy, _LAST[policy.kind]))
    if interruption.received() is not None:
        return code
    if code == PUBLISHED:
        if policy.kind == "cohort":
            costs = costs_of_people(policy, {name: task.table(name) for name in OF_PEOPLE})
        elif policy.kind == "flat":
            costs = costs_of_records(policy, {name: task.table(name) for name in OF_RECORDS})
        else:
            stream_key = stream_key_of(secret_of(task.home), "", "column costs")
            costs = costs_of_claims(policy, {name: task.table(name) for name in OF_CLAIMS}, stream_key)
        console.print(costs_table(costs))
        console.print(
            f"At these levels {costs.share:.4f} of {costs.among} are {costs.what}, before anybody is suppressed. "
            f"Others get finer one at a time, up to {costs.limit:.4f}. `deid run` judges more than this share."
        )
        if len(costs.values):
            console.print(values_table(costs))
    console.print(how_many(round(time.monotonic() - started), "second"))
    return code


def values_table(costs: Costs) -> RichTable:
    """The share at high risk by value of each column, to be printed."""
    title = f"The share {costs.what} among people with each value, and the part of all {costs.what} that is about them"
    table = RichTable(title=title, title_justify="left")
    table.add_column("column", no_wrap=True)
    table.add_column("value")
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("part", justify="right", no_wrap=True)
    for row in costs.values.itertuples():
        part = "" if np.isnan(row.part) else f"{row.part:.2f}"
        table.add_row(escape(row.column), escape(row.value), f"{row.share:.4f}", part)
    return table


def costs_table(costs: Costs) -> RichTable:
    """The costs of columns and tables, to be printed."""
    table = RichTable(title=f"What each column adds to the share {costs.what}, and what it would buy", title_justify="left")
    table.add_column("column", no_wrap=True)
    table.add_column("level")
    table.add_column("adds", justify="right", no_wrap=True)
    table.add_column("left out, finer can be")
    table.add_column("coarser", justify="right", no_wrap=True)
    table.add_column("then finer can be")
    for row in costs.frame.itertuples():
        table.add_row(
            escape(row.column or f"all of {row.table}"),
            escape(costs.levels.get(row.column, "")),
            f"{row.adds:.4f}",
            escape(", ".join(row.finer_without)) or "none",
            "" if np.isnan(row.coarser) else f"{row.coarser:.4f}",
            escape(", ".join(row.finer_if_coarser)) or ("" if np.isnan(row.coarser) else "none"),
        )
    return table
