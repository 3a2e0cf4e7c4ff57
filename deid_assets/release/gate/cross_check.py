"""Independent check of the gate: DuckDB counts some draws of the gate's stream on the staged rows.

The kernel works on arrays made from the restricted store. The SQL here reads the files that would be published and
shares no code with the kernel. Both must agree on every draw: on whether the target's own released record contains what
the adversary knows, and on the size of the class.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from deid_assets.methods.attacks.sql_class_sizes import draw_class_sizes
from deid_assets.methods.kernel.knowledge import Knowledge
from deid_assets.methods.population.longitudinal_data import LongitudinalData
from deid_assets.store.parts import Parts
from deid_assets.store.tables import Table, write_table, write_view

SCHEMA = "gate"
CROSS_CHECK = "cross_check_disagreements"
"""Measurement of the gate: draws on which the two disagree."""

DRAWS_AT_ONCE, PEOPLE_AT_ONCE = 2_000, 200_000
"""Draws and members of one query: it holds some bits for each draw and member at a time, and DuckDB cannot spill them."""


@dataclass(frozen=True, eq=False)
class CountedByQuery:
    """What DuckDB found for some draws, in the order of the stream.

    Attributes
    ----------
    sizes
        (B,) int64: members whose rows agree with the draw; -1 if no query answered.
    holds_own
        (B,) bool: the target's own rows contain everything that the adversary knows.
    """

    sizes: np.ndarray
    holds_own: np.ndarray


@dataclass(frozen=True)
class Agreement:
    """How many draws were counted by both, and on how many the two disagreed."""

    draws: int
    disagreements: int

    def __add__(self, other: "Agreement") -> "Agreement":
        return Agreement(self.draws + other.draws, self.disagreements + other.disagreements)


@dataclass(frozen=True)
class Counted:
    """A population at one generalization, as tables of the store.

    Attributes
    ----------
    members
        member_id, own_id (the same) and the demographics.
    held
        How often each member's claims contain a value, as `held_values` selects it.
    """

    members: Table
    held: Table

    def parts(self, at_most: int) -> list[str]:
        """Conditions on member_id: each member meets one of them, and about so many members meet the same."""
        parts = Parts(max(1, math.ceil(self.members.count() / at_most)), bytes(8))
        return ["true"] if parts.number == 1 else [parts.holds(part) for part in range(parts.number)]

    def of(self, people: str) -> "Counted":
        """The members who meet a condition, as views; those of the next condition replace them."""
        return Counted(
            *(
                write_view(Table(table.file, SCHEMA, f"{table.name}_of_some"), f"SELECT * FROM {table.sql} WHERE {people}")
                for table in (self.members, self.held)
            )
        )


@dataclass(frozen=True, eq=False)
class Drawn:
    """Draws of an adversary's knowledge, and whom they are about.

    Attributes
    ----------
    data
        The kernel's input; only the draws' own demographics and codes are read from it.
    knowledge
        (B,) draws, in the order of the stream.
    member_ids
        (N,) identifier of each member of the population of `data`.
    """

    data: LongitudinalData
    knowledge: Knowledge
    member_ids: np.ndarray

    @property
    def members(self) -> np.ndarray:
        """(B,) int64: the members of the draws."""
        return self.data.targets[self.knowledge.targets]


def count_by_query(
    drawn: Drawn,
    labels: Mapping[str, Sequence[str | None]],
    member_columns: Sequence[str],
    claim_columns: Sequence[str],
    population: Counted,
) -> CountedByQuery:
    """Count the classes of some draws with DuckDB.

    Parameters
    ----------
    labels
        For every quasi-identifier, the released label of each code at the node.
    member_columns, claim_columns
        Names of the quasi-identifiers, in the order of `Drawn.data`.
    population
        The population at the node.
    """
    members = drawn.members
    draws = pd.DataFrame({"draw_id": np.arange(len(members))})
    for number, column in enumerate(member_columns):
        draws[column] = np.array(list(labels[column]), dtype=object)[drawn.data.demographics[members, number]]
    draws = draws.astype(dict.fromkeys(member_columns, "str"))
    knowledge = _knowledge(drawn.knowledge, labels, claim_columns)
    sizes = _sizes(draws, knowledge, member_columns, population, population.parts(PEOPLE_AT_ONCE))
    return CountedByQuery(sizes, _holding_their_own(drawn, knowledge, population))


def hold_their_own(
    drawn: Drawn, labels: Mapping[str, Sequence[str | None]], claim_columns: Sequence[str], population: Counted
) -> np.ndarray:
    """(B,) bool: whether the target's own rows contain all the adversary's knowledge; inputs as for `count_by_query`."""
    return _holding_their_own(drawn, _knowledge(drawn.knowledge, labels, claim_columns), population)


def _holding_their_own(drawn: Drawn, knowledge: pd.DataFrame, population: Counted) -> np.ndarray:
    own = np.asarray(drawn.member_ids)[drawn.members]
    draws = pd.DataFrame({"draw_id": np.arange(len(own)), "own_id": own})
    # Nobody else is in the class of one person.
    drawn_themselves = f"member_id IN (SELECT own_id FROM {_drawn(population).sql})"
    return _sizes(draws, knowledge, ["own_id"], population, [drawn_themselves]) > 0


def _sizes(
    draws: pd.DataFrame, knowledge: pd.DataFrame, demographics: Sequence[str], population: Counted, parts: Sequence[str]
) -> np.ndarray:
    """(B,) int64: the class size of every draw, summed over parts of the population; -1 if not every query answered."""
    sizes, answers = np.zeros((2, len(draws)), dtype=np.int64)
    for first in range(0, len(draws), DRAWS_AT_ONCE):
        some = range(first, min(first + DRAWS_AT_ONCE, len(draws)))
        asked, known = _drawn(population), Table(population.members.file, SCHEMA, "knowledge")
        write_table(asked, draws[draws["draw_id"].isin(some)])
        write_table(known, knowledge[knowledge["draw_id"].isin(some)])
        for part in parts:
            own = population.of(part)
            query = draw_class_sizes(asked, known, own.members, own.held, demographics, own.members.count())
            found = own.members.query(query)
            sizes[found["draw_id"]] += found["class_size"]
            answers[found["draw_id"]] += 1
    return np.where(answers == len(parts), sizes, -1)


def compare_literal(
    counted: CountedByQuery, kernel_exempt: np.ndarray, kernel_sizes: np.ndarray, kernel_flags: np.ndarray, k: int
) -> Agreement:
    """Compare the kernel's exact sizes, exemptions and flags at one node, with the literal exemption, with DuckDB's.

    The flags come from the function whose count gates. The sizes come from another, which has no early stop.
    """
    wrong = (counted.holds_own == kernel_exempt) | (counted.sizes < 0)
    wrong |= counted.holds_own & (counted.sizes != kernel_sizes)
    wrong |= (counted.holds_own & (counted.sizes < k)) != kernel_flags
    return Agreement(len(wrong), int(np.count_nonzero(wrong)))


def compare_fixed(counted: CountedByQuery, kept_at_top: np.ndarray, kernel_flags: np.ndarray, k: int) -> Agreement:
    """Compare the kernel's flags, with the exemption decided once at the coarsest node, with DuckDB's.

    Parameters
    ----------
    kept_at_top
        (B,) bool: at the coarsest node the target's own rows contain everything that the adversary knows.
    """
    # Count the target in their own class if their own rows, at this node, do not contain the knowledge.
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


def _drawn(population: Counted) -> Table:
    return Table(population.members.file, SCHEMA, "draws")
