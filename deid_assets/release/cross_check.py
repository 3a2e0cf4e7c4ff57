"""The second opinion of the gate: some draws of the gate's stream, counted by DuckDB on the staged rows.

The kernel works on arrays made from the restricted store; the SQL here reads the files that would be published, shares
no code with the kernel, and must agree with it on every draw: on whether the target's own released record holds what
the adversary knows, and on the size of the class.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from deid_assets.methods.class_size_query import class_sizes_from_claims
from deid_assets.methods.knowledge import Knowledge
from deid_assets.methods.longitudinal_data import LongitudinalData
from deid_assets.store import Table, write_table

SCHEMA = "gate"

DRAWS_AT_ONCE = 500
"""Draws that one query counts: where demographics are coarse, each has very many candidates."""


@dataclass(frozen=True)
class Agreement:
    """How many draws were counted twice, and on how many the two disagreed."""

    draws: int
    disagreements: int


def cross_check(
    file_table: Table,
    data: LongitudinalData,
    drawn: Knowledge,
    kernel_sizes: np.ndarray,
    kernel_exempt: np.ndarray,
    labels: Mapping[str, Sequence[str | None]],
    member_columns: Sequence[str],
    claim_columns: Sequence[str],
    member_ids: Sequence[str],
    population: Table,
    population_claims: Table,
) -> Agreement:
    """Count the classes of some draws with DuckDB and compare them with the kernel's.

    Parameters
    ----------
    file_table
        Any table of the store file to work in; `gate.draws` and `gate.knowledge` are written beside it.
    data
        What the kernel worked on; only the draws' own demographics and codes are read from it.
    drawn
        (B,) draws, in the order of the stream.
    kernel_sizes, kernel_exempt
        (B,) int and bool: what the kernel found at the chosen node, with the literal exemption.
    labels
        For every quasi-identifier the released label of each base code at the chosen node.
    member_columns, claim_columns
        Names of the quasi-identifiers, in the order of `data`.
    member_ids
        (N,) identifier of each member of the population of `data`.
    population, population_claims
        member_id and demographics; member_id and claim values: released members as staged, the rest from the store.
    """
    members = data.targets[drawn.targets]
    draws = pd.DataFrame({"draw_id": np.arange(len(members)), "own_id": [member_ids[m] for m in members]})
    for number, column in enumerate(member_columns):
        text = np.array(list(labels[column]), dtype=object)
        draws[column] = text[data.demographics[members, number]]
    draw, history, code = drawn.facts()
    names = np.array(list(claim_columns), dtype=object)
    value = np.empty(len(draw), dtype=object)
    for number, column in enumerate(claim_columns):
        of_this = history == number
        value[of_this] = np.array(list(labels[column]), dtype=object)[code[of_this]]
    knowledge = pd.DataFrame({"draw_id": draw, "quasi_identifier": names[history], "value": value})
    knowledge = knowledge.groupby(["draw_id", "quasi_identifier", "value"]).size().rename("times").reset_index()

    draws = draws.astype({column: "str" for column in member_columns})
    counted = np.full(len(members), -1, dtype=np.int64)
    holds_own = np.zeros(len(members), dtype=bool)
    for first in range(0, len(members), DRAWS_AT_ONCE):
        some = range(first, min(first + DRAWS_AT_ONCE, len(members)))
        tables = (
            _written(file_table, "draws", draws[draws["draw_id"].isin(some)]),
            _written(file_table, "knowledge", knowledge[knowledge["draw_id"].isin(some)]),
            population,
            population_claims,
        )
        sizes = population.query(class_sizes_from_claims(*tables, member_columns, claim_columns))
        own = population.query(class_sizes_from_claims(*tables, ["own_id"], claim_columns))
        counted[sizes["draw_id"]] = sizes["class_size"]
        holds_own[own["draw_id"]] = own["class_size"] > 0
    # A draw that no query answered keeps -1, which no class size is.
    wrong = holds_own == kernel_exempt
    wrong |= ~kernel_exempt & (counted != kernel_sizes)
    return Agreement(len(members), int(np.count_nonzero(wrong)))


def _written(file_table: Table, name: str, frame: pd.DataFrame) -> Table:
    table = Table(file_table.file, SCHEMA, name)
    write_table(table, frame)
    return table
