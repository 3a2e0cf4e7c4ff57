"""Bit-sets over the members, built once for a whole lattice: who has value v at least c times, and who is in which cell.

All bit-sets share one order of the members, sorted by their level-1 values, so that a demographic cell is one range or a few
ranges at every node. Bits are in blocks of 512, a cache line: a class is counted by ANDing a few rows over the blocks of one
cell (`class_size`).

Containment of multisets becomes AND: a member's values contain {a, a, b} if the member has a at least twice and b at least
once (methods#node-risk). One row per (history, level, v, c) therefore serves every node that uses that level.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from deid_assets.methods.population.longitudinal_data import Domain, Histories, LongitudinalData, member_value_counts

WORDS = 8
BITS = 64 * WORDS
TOO_RARE = -1
"""Used instead of a row if fewer than `least_row` members have this value that often; no row is stored."""
NO_ROW = np.iinfo(np.int32).max
"""Used instead of a row if nothing is required. It is the largest number, so that it sorts after every row."""

_CELLS_PER_CHUNK = 1 << 21
_CELL_BYTES_KEPT = 1 << 27


@dataclass(frozen=True, eq=False)
class DemographicCells:
    """The members' equivalence classes on level-1 values, at one level of each, as blocks of bits.

    Attributes
    ----------
    cell_of
        (N,) int32: each member's cell, TOO_RARE if the cell has fewer members than requested.
    first
        (cells + 1,) int64: cell c consists of the pairs first[c] .. first[c + 1] - 1.
    blocks
        (pairs + 1,) int64: the block of each pair; the last entry represents no block.
    masks
        (pairs + 1, WORDS) uint64: the members of the cell in that block; the last is empty.
    """

    cell_of: np.ndarray
    first: np.ndarray
    blocks: np.ndarray
    masks: np.ndarray

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes."""
        return self.cell_of.nbytes + self.first.nbytes + self.blocks.nbytes + self.masks.nbytes


class MemberIndex:
    """Bit-sets of one population for some levels of its histories.

    Parameters
    ----------
    demographics, demographic_domains, held, history_domains
        As in `LongitudinalData`.
    levels
        For each history, the levels to index.
    most
        Rows are created for 'at least c times', c = 1 .. most.
    least_row, least_cell
        Rows and cells with fewer members are not stored: to test whether a class reaches k, those with less than k - 1 or k
        members are not needed. 1 stores everything.

    Attributes
    ----------
    position
        (N,) int64: position of each member in the order of the bits.
    bits
        (rows * blocks, WORDS) uint64: row r in block b is `bits[r * blocks + b]`. Rows are numbered from the rarest.
    """

    def __init__(
        self,
        demographics: np.ndarray,
        demographic_domains: Sequence[Domain],
        held: Sequence[Histories],
        history_domains: Sequence[Domain],
        levels: Sequence[Iterable[int]],
        most: int,
        least_row: int = 1,
        least_cell: int = 1,
    ):
        self.members = len(demographics)
        self.most = most
        self.least_row = max(1, least_row)
        self.least_cell = max(1, least_cell)
        self.blocks = max(1, -(-self.members // BITS))
        self._demographics = demographics
        self._demographic_domains = tuple(demographic_domains)
        self._held = tuple(held)
        self._history_domains = tuple(history_domains)
        self._order = demographic_order(demographics, demographic_domains)
        self.position = np.empty(self.members, dtype=np.int64)
        self.position[self._order] = np.arange(self.members)
        self._cells: OrderedDict[tuple, DemographicCells] = OrderedDict()
        self._cells_lock = threading.Lock()
        self._rows = self._number_rows([(h, level) for h, chosen in enumerate(levels) for level in sorted(set(chosen))])
        self.bits = self._fill_rows()

    @classmethod
    def of(cls, data: LongitudinalData, levels: Sequence[Iterable[int]], most: int, **least: int) -> "MemberIndex":
        """Create the index of the data's population."""
        return cls(data.demographics, data.demographic_domains, data.held, data.history_domains, levels, most, **least)

    @property
    def nbytes(self) -> int:
        """Memory used, in bytes."""
        cells = sum(cells.nbytes for cells in self._cells.values())
        return self.bits.nbytes + self.position.nbytes + self._order.nbytes + cells

    def __getstate__(self) -> dict:
        # A lock cannot be sent to another process, and cells are quick to rebuild.
        return self.__dict__ | {"_cells": OrderedDict(), "_cells_lock": None}

    def __setstate__(self, state: dict) -> None:
        self.__dict__ |= state | {"_cells_lock": threading.Lock()}

    def covers(self, levels: Sequence[int | None], most: int) -> bool:
        """Whether knowledge of up to `most` values at these levels can be looked up."""
        needed = {(h, level) for h, level in enumerate(levels) if level is not None}
        return most <= self.most and needed <= self._rows.keys()

    def rows_of(self, history: int, level: int) -> np.ndarray:
        """Return (values, most) int32: the row of 'has v at least c times' at [v, c - 1], or TOO_RARE."""
        return self._rows[history, level]

    def cells(self, levels: tuple[int | None, ...]) -> DemographicCells:
        """Return the cells at these levels of the demographics (None: dropped); the most recent ones are cached."""
        with self._cells_lock:
            if levels in self._cells:
                self._cells.move_to_end(levels)
                return self._cells[levels]
        made = self._make_cells(levels)
        with self._cells_lock:
            self._cells[levels] = made
            while len(self._cells) > 1 and sum(cells.nbytes for cells in self._cells.values()) > _CELL_BYTES_KEPT:
                self._cells.popitem(last=False)
        return made

    def _chunks(self, values: int) -> Iterable[slice]:
        """Yield ranges of positions, in whole blocks, whose table of counts stays small."""
        step = max(1, _CELLS_PER_CHUNK // (max(1, values) * BITS)) * BITS
        return (slice(first, min(first + step, self.members)) for first in range(0, self.members, step))

    def _counts(self, history: int, level: int, chunk: slice) -> np.ndarray:
        """Return (values, members of the chunk) uint8: how often each member has each value, at most 255."""
        domain = self._history_domains[history]
        counts = member_value_counts(self._held[history], self._order[chunk], domain, level)
        return np.minimum(counts, 255).astype(np.uint8)

    def _number_rows(self, wanted: list[tuple[int, int]]) -> dict[tuple[int, int], np.ndarray]:
        """Count every row's members and number the stored rows, the rarest first."""
        supports = {}
        for history, level in wanted:
            values = self._history_domains[history].sizes[level]
            support = np.zeros((values, self.most), dtype=np.int64)
            for chunk in self._chunks(values):
                counts = self._counts(history, level, chunk)
                for c in range(1, min(self.most, int(counts.max(initial=0))) + 1):
                    support[:, c - 1] += np.count_nonzero(counts >= c, axis=1)
            supports[history, level] = support
        every = np.concatenate([np.zeros(0, np.int64), *(support.ravel() for support in supports.values())])
        kept = np.flatnonzero(every >= self.least_row)
        self._row_count = len(kept)
        numbers = np.full(len(every), TOO_RARE, dtype=np.int32)
        numbers[kept[np.argsort(every[kept], kind="stable")]] = np.arange(len(kept))
        ends = np.cumsum([support.size for support in supports.values()])
        return {
            key: numbers[end - support.size : end].reshape(support.shape)
            for (key, support), end in zip(supports.items(), ends, strict=True)
        }

    def _fill_rows(self) -> np.ndarray:
        bits = aligned_words(self._row_count * self.blocks)
        octets = bits.view(np.uint8).reshape(self._row_count, self.blocks * BITS // 8)
        # The last block is rarely full; bits after the last member belong to nobody.
        octets[:, self.members // 8 :] = 0
        for (history, level), numbers in self._rows.items():
            for chunk in self._chunks(numbers.shape[0]):
                counts = self._counts(history, level, chunk)
                where = slice(chunk.start // 8, -(-chunk.stop // 8))
                for c in range(1, self.most + 1):
                    values = np.flatnonzero(numbers[:, c - 1] != TOO_RARE)
                    holds = counts[values] >= c
                    octets[numbers[values, c - 1], where] = np.packbits(holds, axis=1, bitorder="little")
        return bits

    def _make_cells(self, levels: tuple[int | None, ...]) -> DemographicCells:
        code = np.zeros(self.members, dtype=np.int64)
        for column, (domain, level) in enumerate(zip(self._demographic_domains, levels, strict=True)):
            if level is not None:
                code = code * domain.sizes[level] + domain.levels[level][self._demographics[:, column]]
        # Compacting codes after every mixed-radix step would cost a sort each; one at the end is enough below 2**63.
        _, cell, size = np.unique(code, return_inverse=True, return_counts=True)
        number = np.where(size >= self.least_cell, np.cumsum(size >= self.least_cell) - 1, TOO_RARE)
        cell_of = number[cell].astype(np.int32)

        cell_at = cell_of[self._order]
        places = np.flatnonzero(cell_at != TOO_RARE)
        places = places[np.argsort(cell_at[places], kind="stable")]
        cell_at = cell_at[places]
        # One word per run of equal (cell, word), then one pair per run of equal (cell, block).
        words = _starts_of_runs(cell_at, places >> 6)
        word_bits = np.left_shift(np.uint64(1), (places & 63).astype(np.uint64))
        word_bits = np.bitwise_or.reduceat(word_bits, words) if len(words) else word_bits
        cell_at, word_at = cell_at[words], places[words] >> 6
        pairs = _starts_of_runs(cell_at, word_at // WORDS)
        pair_of_word = np.cumsum(np.isin(np.arange(len(words)), pairs, assume_unique=True)) - 1
        masks = np.zeros((len(pairs) + 1, WORDS), dtype=np.uint64)
        masks[pair_of_word, word_at % WORDS] = word_bits
        cells = int(np.count_nonzero(size >= self.least_cell))
        first = np.searchsorted(cell_at[pairs], np.arange(cells + 1))
        return DemographicCells(cell_of, first, np.append(word_at[pairs] // WORDS, 0), masks)


def demographic_order(demographics: np.ndarray, domains: Sequence[Domain]) -> np.ndarray:
    """Return (N,) int64: the members sorted by their level-1 values.

    The quasi-identifier with the fewest values comes first, and the one with the most varies fastest. Within each, values that
    merge at a low level are adjacent. A cell of the lattice is therefore one range or a few ranges.
    """
    keys = []
    for column in sorted(range(len(domains)), key=lambda column: domains[column].sizes[0]):
        domain = domains[column]
        rank = np.empty(len(domain.levels[0]), dtype=np.int64)
        rank[np.lexsort(domain.levels)] = np.arange(len(rank))
        keys.append(rank[demographics[:, column]])
    return np.lexsort(keys[::-1]) if keys else np.arange(len(demographics))


def aligned_words(blocks: int) -> np.ndarray:
    """Return (blocks, WORDS) uint64, uninitialised, each block in one cache line of 64 bytes."""
    raw = np.empty((blocks + 1) * WORDS, dtype=np.uint64)
    skip = (-raw.ctypes.data % (8 * WORDS)) // 8
    return raw[skip : skip + blocks * WORDS].reshape(blocks, WORDS)


def _starts_of_runs(*columns: np.ndarray) -> np.ndarray:
    """Return the positions at which any column differs from its previous entry."""
    if len(columns[0]) == 0:
        return np.zeros(0, dtype=np.int64)
    changed = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return np.concatenate([[0], np.flatnonzero(changed) + 1])
