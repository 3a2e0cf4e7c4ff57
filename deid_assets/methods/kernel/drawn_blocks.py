"""Batches of draws prepared for the bit-sets: sorted, looked up, and compared with the target's own D'.

What is computed here depends on the draw and on the level of one history, not on the whole node, so that the nodes of a
lattice share it.

The members who match are counted part by part (methods#parts). Draws are made once, where the first part is asked. Those whose
count may still change go on to other parts, with all that these need: they know nothing but their bit-sets.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from deid_assets.methods.kernel import engine
from deid_assets.methods.kernel.class_size import NO_LIMIT, multiset
from deid_assets.methods.kernel.knowledge import Knowledge, SortedTargets
from deid_assets.methods.kernel.member_index import (
    NO_ROW,
    TOO_RARE,
    Levels,
    MemberIndex,
    MemberPart,
)
from deid_assets.methods.kernel.recent import RecentStreams
from deid_assets.methods.population.longitudinal_data import LongitudinalData, truncated_targets

BYTES_KEPT = 1 << 26
"""Memory for the draws of a search that are cached between nodes."""
FEW = 2
"""Where fewer than one in so many draws are to be matched, they are taken out of their batch."""
UNDECIDED_AT_ONCE = 1 << 16
"""Draws about which another part is asked at a time: a few megabytes."""


@dataclass(frozen=True, eq=False)
class Batch:
    """One or several blocks of draws, in the order of the bit-sets.

    Attributes
    ----------
    order
        (B,) int64: position in the stream of each draw.
    knowledge
        The draws, sorted.
    truncated
        (T,) int64: positions of the draws whose target lost values to truncation.
    rows, lost
        Cached results by history and level: (P, B) int32 and (T,) bool.
    is_kept
        Whether the next node finds what is cached here.
    """

    order: np.ndarray
    knowledge: Knowledge
    truncated: np.ndarray
    rows: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)
    lost: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)
    is_kept: bool = False

    def __len__(self) -> int:
        return len(self.order)

    @property
    def nbytes(self) -> int:
        """Memory used, in bytes."""
        arrays = (self.order, self.truncated, *self.rows.copy().values(), *self.lost.copy().values())
        return self.knowledge.nbytes + sum(array.nbytes for array in arrays)

    def in_stream_order(self, column: np.ndarray) -> np.ndarray:
        """Return a column of the sorted draws in the order in which they were drawn."""
        in_order = np.empty_like(column)
        in_order[self.order] = column
        return in_order


@dataclass(frozen=True)
class Asked:
    """What is asked about each draw: how many members match what an adversary knows.

    Attributes
    ----------
    stream_key
        16 bytes, the key of the stream of draws.
    demographics
        Level of each level-1 quasi-identifier.
    scenarios
        For each adversary, the levels of the histories that they know, and those at which it is decided whether truncation
        exempts a draw.
    limit
        Counting stops when a count reaches `limit`.
    """

    stream_key: bytes
    demographics: Levels
    scenarios: tuple[tuple[Levels, Levels], ...]
    limit: int


@dataclass(frozen=True, eq=False)
class Undecided:
    """Draws whose count may change in parts that were not asked.

    Attributes
    ----------
    places
        (D,) int64: which counts of `Counted` these are, as if they were in one row.
    cell, rows
        (D,) int32 and (S, D) int32: who matches, as in `class_size.matching_members`.
    found
        (D,) int32: the count so far.
    """

    places: np.ndarray
    cell: np.ndarray
    rows: np.ndarray
    found: np.ndarray

    def __len__(self) -> int:
        return len(self.places)

    def pieces(self) -> Iterator["Undecided"]:
        """Yield them in pieces, so that what is sent to a worker at a time stays small."""
        for start in range(0, len(self), UNDECIDED_AT_ONCE):
            some = slice(start, start + UNDECIDED_AT_ONCE)
            rows = np.ascontiguousarray(self.rows[:, some])
            yield Undecided(self.places[some], self.cell[some], rows, self.found[some])

    def having(self, found: np.ndarray, limit: int) -> "Undecided":
        """Return those that have not reached the limit with these counts, (D,) int32."""
        left = np.flatnonzero(found < limit)
        return Undecided(self.places[left], self.cell[left], self.rows[:, left], found[left])


@dataclass(frozen=True, eq=False)
class Counted:
    """What one part found about a batch of draws, in the order of the stream.

    Attributes
    ----------
    sizes
        (scenarios, B) int32: the members who match, and the target if its own D' lacks what is known; at most the limit.
    exempt
        (scenarios, B) bool: whether truncation exempts the draw. Then its size is 0.
    undecided
        Draws to be counted in other parts.
    """

    sizes: np.ndarray
    exempt: np.ndarray
    undecided: Undecided


@dataclass(eq=False)
class _Stream:
    """Batches of one stream, by their blocks."""

    batches: dict[range, Batch] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        return sum(batch.nbytes for batch in self.batches.values())


class DrawnBlocks:
    """The draws of any stream over the released members of one population, some of them cached.

    It knows what all parts have in common, and is wherever a part is.

    Parameters
    ----------
    released
        The data, with the released members as its population.
    index
        The bit-sets of the whole population; only what its parts have in common is kept.
    targets
        (n,) int: the released members as rows of the whole population.
    """

    def __init__(self, released: LongitudinalData, index: MemberIndex, targets: np.ndarray):
        self.data, self._groups, self._numbers = released, index.groups, index.rows
        self._group_of = index.group_of[targets]
        self._truncated = np.zeros(len(targets), dtype=bool)
        for history in range(len(released.held)):
            self._truncated |= truncated_targets(released, history)
        self._sorted = SortedTargets(released, self._group_of)
        self._own_counts: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
        self._kept = RecentStreams(_Stream)

    def __getstate__(self) -> dict:
        # What was counted is quick to count again.
        return self.__dict__ | {"_own_counts": {}}

    def batch(self, stream_key: bytes, blocks: range, keep: bool = False) -> Batch:
        """Return some blocks of a stream, sorted by the positions of members in the bit-sets: neighbors share memory.

        `keep` caches them for the next node that asks for them, while there is room. What is looked up for a cached batch is
        cached with it; once there is no room left, it is the caller's own.
        """
        with self._kept.lock:
            stream = self._kept.of(stream_key)
            batch = None if stream is None else stream.batches.get(blocks)
            if batch is not None:
                if self._kept.nbytes < BYTES_KEPT:
                    return batch
                return replace(batch, rows=dict(batch.rows), lost=dict(batch.lost), is_kept=False)
        order, knowledge = engine.chosen().draw_in_order(self._sorted, stream_key, blocks)
        batch = Batch(order, knowledge, np.flatnonzero(self._truncated[knowledge.targets]))
        with self._kept.lock:
            stream = self._kept.with_room(stream_key, batch.nbytes, BYTES_KEPT) if keep else None
            if stream is not None:
                batch = stream.batches[blocks] = replace(batch, is_kept=True)
        return batch

    def begin(self, part: MemberPart, asked: Asked, blocks: range, known: np.ndarray | None = None) -> Counted:
        """Make some blocks of a stream, and count the members of one part who match each draw.

        `known` is given in a search, which asks for the same draws at the next node: bits of the draws, in the order of the
        stream, that need not be counted. Their sizes mean nothing.
        """
        batch = self.batch(asked.stream_key, blocks, keep=known is not None)
        cell = self._groups.cells(asked.demographics)[self._group_of[batch.knowledge.targets]]
        is_last = part.members == self._groups.members
        sizes, exempt, undecided = [], [], []
        flagged = np.zeros(len(batch), dtype=bool)
        if known is not None:
            flagged |= np.unpackbits(known, count=len(batch)).view(bool)[batch.order]
        for number, (histories, exempt_at) in enumerate(asked.scenarios):
            lost = self.lost(batch, exempt_at)
            own = np.where(lost | flagged, TOO_RARE, cell)
            found = self.matching_members(part, batch, own, histories, asked)
            small = np.flatnonzero(~lost & ~flagged & (found < asked.limit))
            # Step 4.b.ii: a target that lacks its own knowledge was not found and counts itself.
            found[small] += self.lost_by(batch, small, histories)
            if not is_last:
                small = small[(found[small] < asked.limit) & (own[small] != TOO_RARE)]
                rows = self._rows_of(batch.knowledge.take(small), histories)
                matched = np.flatnonzero(~np.any(rows == TOO_RARE, axis=0))
                small, rows = small[matched], rows[:, matched]
                undecided.append(Undecided(number * len(batch) + batch.order[small], own[small], rows, found[small]))
            elif asked.limit < NO_LIMIT:
                # It needs no second adversary who finds too few.
                flagged |= ~lost & (found < asked.limit)
            sizes.append(batch.in_stream_order(found))
            exempt.append(batch.in_stream_order(lost))
        return Counted(np.stack(sizes), np.stack(exempt), _joined(undecided))

    def go_on(self, part: MemberPart, asked: Asked, undecided: Undecided) -> np.ndarray:
        """Return (D,) int32: the members of one more part who match each draw, at most the limit."""
        cells = part.cells(asked.demographics, self._groups)
        return engine.chosen().matching_members(part, cells, undecided.cell, undecided.rows, asked.limit)

    def matching_members(self, part: MemberPart, batch: Batch, cell: np.ndarray, levels: Levels, asked: Asked) -> np.ndarray:
        """Return (B,) int32: number of a part's members in each draw's cell who match it, with histories at these levels."""
        chosen, cells = engine.chosen(), part.cells(asked.demographics, self._groups)
        there = np.flatnonzero(cell != TOO_RARE)
        if FEW * len(there) > len(cell):
            there = np.arange(len(cell))
        own, all_asked = cell[there], len(there) == len(cell)

        def asked_of(column: np.ndarray) -> np.ndarray:
            return column if all_asked else column.take(there, axis=1)

        found = np.zeros(len(cell), dtype=np.int32)
        if chosen.matching_knowledge is None:
            rows = asked_of(self.rows(batch, levels))
            found[there] = chosen.matching_members(part, cells, own, rows, asked.limit)
        else:
            codes = batch.knowledge.codes
            known = [
                (asked_of(codes[h]), self.data.history_domains[h].levels[level], self._numbers.of[h, level])
                for h, level in _kept(levels)
            ]
            found[there] = chosen.matching_knowledge(part, cells, own, known, asked.limit)
        return found

    def rows(self, batch: Batch, levels: Levels) -> np.ndarray:
        """Return (slots, B) int32: the rows needed for each draw's knowledge, with histories at these levels."""
        for key in _kept(levels):
            if key not in batch.rows:
                batch.rows[key] = self._rows_of_history(batch.knowledge, *key)
        return np.concatenate([np.zeros((0, len(batch)), np.int32), *(batch.rows[key] for key in _kept(levels))])

    def _rows_of(self, knowledge: Knowledge, levels: Levels) -> np.ndarray:
        """Return `rows` for some draws; nothing is cached."""
        nothing = np.zeros((0, len(knowledge)), np.int32)
        return np.concatenate([nothing, *(self._rows_of_history(knowledge, *key) for key in _kept(levels))])

    def _rows_of_history(self, knowledge: Knowledge, history: int, level: int) -> np.ndarray:
        domain, rows_of = self.data.history_domains[history], self._numbers.of[history, level]
        return engine.chosen().rows_for_knowledge(knowledge.codes[history], domain, level, rows_of)

    def lost(self, batch: Batch, levels: Levels) -> np.ndarray:
        """Return (B,) bool: whether part of the knowledge, at these levels, is missing from the target's own D'.

        This is step 4.b.i.2 of the appendix (methods#node-risk).
        """
        lost = np.zeros(len(batch), dtype=bool)
        for history, level in _kept(levels):
            if (history, level) not in batch.lost:
                batch.lost[history, level] = self._lost_of_history(batch.knowledge, batch.truncated, history, level)
            lost[batch.truncated] |= batch.lost[history, level]
        return lost

    def lost_by(self, batch: Batch, draws: np.ndarray, levels: Levels) -> np.ndarray:
        """Return `lost` for some draws only, given by their positions in the batch."""
        if batch.is_kept:
            return self.lost(batch, levels)[draws]
        lost = np.zeros(len(draws), dtype=bool)
        truncated = np.flatnonzero(self._truncated[batch.knowledge.targets[draws]])
        for history, level in _kept(levels):
            lost[truncated] |= self._lost_of_history(batch.knowledge, draws[truncated], history, level)
        return lost

    def _lost_of_history(self, knowledge: Knowledge, draws: np.ndarray, history: int, level: int) -> np.ndarray:
        """Return (D,) bool for some draws whose targets lost values to truncation; for all others D' equals D."""
        domain = self.data.history_domains[history]
        values, occurrence, last = multiset(knowledge.codes[history].take(draws, axis=1), domain, level)
        keys, counts = self._own(history, level)
        asked = np.flatnonzero(last)
        wanted = (knowledge.targets[draws] * np.int64(domain.sizes[level]) + values).ravel()[asked]
        held = np.zeros(len(wanted), dtype=np.int64)
        if len(keys):
            place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            held = np.where(keys[place] == wanted, counts[place], 0)
        lost = np.zeros(len(draws), dtype=bool)
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


def _joined(undecided: Sequence[Undecided]) -> Undecided:
    """Put what several adversaries leave undecided side by side."""
    slots = max((len(one.rows) for one in undecided), default=0)
    rows = [np.pad(one.rows, ((0, slots - len(one.rows)), (0, 0)), constant_values=NO_ROW) for one in undecided]
    places, cell, found = (
        np.concatenate([np.zeros(0, kind), *(getattr(one, name) for one in undecided)])
        for name, kind in (("places", np.int64), ("cell", np.int32), ("found", np.int32))
    )
    return Undecided(places, cell, np.concatenate([np.zeros((slots, 0), np.int32), *rows], axis=1), found)


def _kept(levels: Levels) -> Iterator[tuple[int, int]]:
    return ((history, level) for history, level in enumerate(levels) if level is not None)
