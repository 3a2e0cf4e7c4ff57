"""Batches of draws prepared for the bit-sets: sorted, looked up, and compared with the target's own D'.

What is computed here depends on the draw and on the level of one history, not on the whole node, so that the nodes of a
lattice share it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from deid_assets.methods.kernel import engine
from deid_assets.methods.kernel.class_size import multiset
from deid_assets.methods.kernel.knowledge import Knowledge, SortedTargets
from deid_assets.methods.kernel.member_index import DemographicCells, MemberIndex
from deid_assets.methods.population.longitudinal_data import LongitudinalData, truncated_targets

BLOCKS_KEPT = 16
"""Number of blocks cached between nodes: most nodes are decided on the first few."""


@dataclass(frozen=True, eq=False)
class Batch:
    """One or several blocks of draws, in the order of the bit-sets.

    Attributes
    ----------
    order
        (B,) int64: position in the stream of each draw.
    knowledge
        The draws, sorted.
    members
        (B,) int64: the drawn members, as rows of the population.
    truncated, of_truncated
        (T,) int64: positions of the draws whose target lost values to truncation; and these draws.
    rows, lost
        Cached results by history and level: (P, B) int32 and (T,) bool.
    """

    order: np.ndarray
    knowledge: Knowledge
    members: np.ndarray
    truncated: np.ndarray
    of_truncated: Knowledge
    rows: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)
    lost: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)

    def take(self, draws: np.ndarray) -> "Batch":
        """Return some of the draws, by their ascending positions in this batch, with what is cached of `lost`."""
        knowledge = self.knowledge.take(draws)
        chosen = np.flatnonzero(np.isin(self.truncated, draws, assume_unique=True))
        truncated = np.searchsorted(draws, self.truncated[chosen])
        lost = {key: column[chosen] for key, column in self.lost.items()}
        return Batch(
            self.order[draws], knowledge, self.members[draws], truncated, knowledge.take(truncated), rows={}, lost=lost
        )

    def in_stream_order(self, column: np.ndarray) -> np.ndarray:
        """Return a column of the sorted draws in the order in which they were drawn."""
        in_order = np.empty_like(column)
        in_order[self.order] = column
        return in_order


class DrawnBlocks:
    """The draws of any stream over one population and its bit-sets; the first requested blocks are cached."""

    def __init__(self, data: LongitudinalData, index: MemberIndex):
        self.data, self.index = data, index
        self._truncated = np.zeros(len(data.targets), dtype=bool)
        for history in range(len(data.held)):
            self._truncated |= truncated_targets(data, history)
        self._sorted = SortedTargets(data, index.position)
        self._own_counts: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
        self._kept: dict[tuple[bytes, range], Batch] = {}

    def __getstate__(self) -> dict:
        # The caches are quick to rebuild.
        return self.__dict__ | {"_own_counts": {}, "_kept": {}}

    def batch(self, stream_key: bytes, blocks: range) -> Batch:
        """Return some blocks of a stream, sorted by the positions of members in the bit-sets: neighbors share memory."""
        batch = self._kept.get((stream_key, blocks))
        if batch is None:
            order, knowledge = engine.chosen().draw_in_order(self._sorted, stream_key, blocks)
            members = self.data.targets[knowledge.targets]
            truncated = np.flatnonzero(self._truncated[knowledge.targets])
            batch = Batch(order, knowledge, members, truncated, knowledge.take(truncated))
            if sum(len(kept) for _, kept in list(self._kept)) + len(blocks) <= BLOCKS_KEPT:
                self._kept[stream_key, blocks] = batch
        return batch

    def matching_members(
        self, batch: Batch, cells: DemographicCells, cell: np.ndarray, levels: tuple[int | None, ...], limit: int
    ) -> np.ndarray:
        """Return (B,) int32: number of members of each draw's cell who match its knowledge, with histories at these levels."""
        chosen = engine.chosen()
        if chosen.matching_knowledge is None:
            return chosen.matching_members(self.index, cells, cell, self.rows(batch, levels), limit)
        domains = self.data.history_domains
        return chosen.matching_knowledge(self.index, cells, cell, batch.knowledge, domains, levels, limit)

    def rows(self, batch: Batch, levels: tuple[int | None, ...]) -> np.ndarray:
        """Return (slots, B) int32: the rows needed for each draw's knowledge, with histories at these levels."""
        parts = [np.zeros((0, len(batch.members)), dtype=np.int32)]
        for history, level in _kept_histories(levels):
            if (history, level) not in batch.rows:
                codes, domain = batch.knowledge.codes[history], self.data.history_domains[history]
                rows_of = self.index.rows_of(history, level)
                batch.rows[history, level] = engine.chosen().rows_for_knowledge(codes, domain, level, rows_of)
            parts.append(batch.rows[history, level])
        return np.concatenate(parts)

    def lost(self, batch: Batch, levels: tuple[int | None, ...]) -> np.ndarray:
        """Return (B,) bool: whether part of the knowledge, at these levels, is missing from the target's own D'.

        This is step 4.b.i.2 of the appendix (methods#node-risk).
        """
        lost = np.zeros(len(batch.members), dtype=bool)
        for history, level in _kept_histories(levels):
            if (history, level) not in batch.lost:
                batch.lost[history, level] = self._lost_of_history(batch.of_truncated, history, level)
            lost[batch.truncated] |= batch.lost[history, level]
        return lost

    def lost_by(self, batch: Batch, draws: np.ndarray, levels: tuple[int | None, ...]) -> np.ndarray:
        """Return `lost` for some draws only, given by their positions in the batch; nothing is cached."""
        lost = np.zeros(len(draws), dtype=bool)
        truncated = np.flatnonzero(self._truncated[batch.knowledge.targets[draws]])
        knowledge = batch.knowledge.take(draws[truncated])
        for history, level in _kept_histories(levels):
            lost[truncated] |= self._lost_of_history(knowledge, history, level)
        return lost

    def _lost_of_history(self, knowledge: Knowledge, history: int, level: int) -> np.ndarray:
        """Return (draws,) bool, for targets who lost values to truncation; for all others D' equals D."""
        domain = self.data.history_domains[history]
        values, occurrence, last = multiset(knowledge.codes[history], domain, level)
        keys, counts = self._own(history, level)
        asked = np.flatnonzero(last)
        wanted = (knowledge.targets * np.int64(domain.sizes[level]) + values).ravel()[asked]
        held = np.zeros(len(wanted), dtype=np.int64)
        if len(keys):
            place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            held = np.where(keys[place] == wanted, counts[place], 0)
        lost = np.zeros(len(knowledge), dtype=bool)
        lost[(asked % len(lost))[held <= occurrence.ravel()[asked]]] = True
        return lost

    def _own(self, history: int, level: int) -> tuple[np.ndarray, np.ndarray]:
        """Return what truncated targets have in D': sorted keys, target * values + value, and the count of each."""
        if (history, level) not in self._own_counts:
            domain, held = self.data.history_domains[history], self.data.held[history]
            targets = np.flatnonzero(self._truncated)
            positions, owners = held.slots(self.data.targets[targets])
            values = domain.levels[level][held.codes[positions]]
            keys = targets[owners] * np.int64(domain.sizes[level]) + values
            self._own_counts[history, level] = np.unique(keys, return_counts=True)
        return self._own_counts[history, level]


def _kept_histories(levels: tuple[int | None, ...]) -> Iterator[tuple[int, int]]:
    return ((history, level) for history, level in enumerate(levels) if level is not None)
