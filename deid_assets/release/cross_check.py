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


@dataclass(frozen=True, eq=False)
class CountedByQuery:
    """What DuckDB found for some draws, in the order of the stream.

    Attributes
    ----------
    sizes
        (B,) int64: members whose rows agree with the draw; -1 where no query answered.
    holds_own
        (B,) bool: the target's own rows hold all that the adversary knows.
    """

    sizes: np.ndarray
    holds_own: np.ndarray


@dataclass(frozen=True)
class Agreement:
    """How many draws were counted twice, and on how many the two disagreed."""

    draws: int
    disagreements: int


def count_by_query(
    data: LongitudinalData,
    drawn: Knowledge,
    labels: Mapping[str, Sequence[str | None]],
    member_columns: Sequence[str],
    claim_columns: Sequence[str],
    member_ids: Sequence[str],
    population: Table,
    population_claims: Table,
) -> CountedByQuery:
    """Count the classes of some draws with DuckDB.

    Parameters
    ----------
    data
        What the kernel worked on; only the draws' own demographics and codes are read from it.
    drawn
        (B,) draws, in the order of the stream.
    labels
        For every quasi-identifier the released label of each base code at the node.
    member_columns, claim_columns
        Names of the quasi-identifiers, in the order of `data`.
    member_ids
        (N,) identifier of each member of the population of `data`.
    population, population_claims
        member_id, own_id (the same) and demographics; member_id and claim values, at the node.
    """
    members = data.targets[drawn.targets]
    draws = pd.DataFrame({"draw_id": np.arange(len(members)), "own_id": [member_ids[m] for m in members]})
    for number, column in enumerate(member_columns):
        draws[column] = np.array(list(labels[column]), dtype=object)[data.demographics[members, number]]
    draws = draws.astype({column: "str" for column in member_columns})
    knowledge = _knowledge(drawn, labels, claim_columns)
    sizes = np.full(len(members), -1, dtype=np.int64)
    holds_own = np.zeros(len(members), dtype=bool)
    for first in range(0, len(members), DRAWS_AT_ONCE):
        some = range(first, min(first + DRAWS_AT_ONCE, len(members)))
        tables = (
            _written(population, "draws", draws[draws["draw_id"].isin(some)]),
            _written(population, "knowledge", knowledge[knowledge["draw_id"].isin(some)]),
            population,
            population_claims,
        )
        found = population.query(class_sizes_from_claims(*tables, member_columns, claim_columns))
        own = population.query(class_sizes_from_claims(*tables, ["own_id"], claim_columns))
        sizes[found["draw_id"]] = found["class_size"]
        holds_own[own["draw_id"]] = own["class_size"] > 0
    return CountedByQuery(sizes, holds_own)


def compare(
    counted: CountedByQuery, kernel_exempt: np.ndarray, kernel_sizes: np.ndarray, kernel_flags: np.ndarray, k: int
) -> Agreement:
    """Hold the kernel's exact sizes, exemptions and flags at one node, with the literal exemption, against DuckDB's.

    The flags come from the very function whose count gates; the sizes from another, which shares no early stop with it.
    """
    wrong = (counted.holds_own == kernel_exempt) | (counted.sizes < 0)
    wrong |= counted.holds_own & (counted.sizes != kernel_sizes)
    wrong |= (counted.holds_own & (counted.sizes < k)) != kernel_flags
    return Agreement(len(wrong), int(np.count_nonzero(wrong)))


def compare_fixed(counted: CountedByQuery, kept_at_top: np.ndarray, kernel_flags: np.ndarray, k: int) -> Agreement:
    """Hold the kernel's flags with the exemption decided once, at the coarsest node, against DuckDB's.

    Parameters
    ----------
    kept_at_top
        (B,) bool: at the coarsest node the target's own rows hold all that the adversary knows.
    """
    # The target counts himself where his own rows, at this node, do not.
    sizes = counted.sizes + ~counted.holds_own
    wrong = (kept_at_top & (sizes < k)) != kernel_flags
    wrong |= counted.sizes < 0
    return Agreement(len(wrong), int(np.count_nonzero(wrong)))


def _knowledge(drawn: Knowledge, labels: Mapping[str, Sequence[str | None]], columns: Sequence[str]) -> pd.DataFrame:
    """draw_id, quasi_identifier, value, times: what each adversary knows, at the node of the labels."""
    draw, history, code = drawn.facts()
    value = np.empty(len(draw), dtype=object)
    for number, column in enumerate(columns):
        of_this = history == number
        value[of_this] = np.array(list(labels[column]), dtype=object)[code[of_this]]
    names = np.array(list(columns), dtype=object)
    facts = pd.DataFrame({"draw_id": draw, "quasi_identifier": names[history], "value": value})
    return facts.groupby(["draw_id", "quasi_identifier", "value"]).size().rename("times").reset_index()


def _written(beside: Table, name: str, frame: pd.DataFrame) -> Table:
    table = Table(beside.file, SCHEMA, name)
    write_table(table, frame)
    return table
