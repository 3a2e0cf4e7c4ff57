"""Bit-sets over the members, built once for a whole lattice: who has value v at least c times, and who is in which cell.

The population consists of parts (methods#parts). Each has bit-sets of its own members, and can be on another machine. The
numbers of rows and cells are common to all parts: members are counted over all of them before a row or a cell is left out.

The bit-sets of a part share one order of its members, sorted by their level-1 values, so that a demographic cell is one range
or a few ranges at every node. Bits are in blocks of 512, a cache line: a class is counted by ANDing a few rows over the blocks
of one cell (`class_size`).

Containment of multisets becomes AND: a member's values contain {a, a, b} if the member has a at least twice and b at least
once (methods#node-risk). One row per (history, level, v, c) therefore serves every node that uses that level.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from deid_assets.methods.kernel.recent import RecentlyMade
from deid_assets.methods.population.longitudinal_data import Domain, Histories, LongitudinalData, member_value_counts

WORDS = 8
BITS = 64 * WORDS
TOO_RARE = -1
"""Used instead of a row if fewer than `least_row` members have this value that often; no row is stored."""
NO_ROW = np.iinfo(np.int32).max
"""Used instead of a row if nothing is required. It is the largest number, so that it sorts after every row."""

_CELLS_PER_CHUNK = 1 << 21
_CELL_BYTES_KEPT = 1 << 27

Levels = tuple[int | None, ...]
"""A level of each quasi-identifier; None removes it."""


class DemographicGroups:
    """Who shares all level-1 values: groups of members in the order of the bits, and the cells that groups form at a node.

    Attributes
    ----------
    members
        Size N of the population, in all parts.
    codes
        (G, d) int: base codes of the level-1 quasi-identifiers of each group.
    sizes
        (G,) int64: its members in all parts.
    """

    def __init__(self, codes: np.ndarray, sizes: np.ndarray, domains: Sequence[Domain], least_cell: int):
        self.members = int(sizes.sum())
        self.codes, self.sizes = codes, sizes
        self._domains, self._least_cell = tuple(domains), least_cell
        self._cells = RecentlyMade[Levels, np.ndarray](_CELL_BYTES_KEPT)

    @property
    def nbytes(self) -> int:
        """Memory used, in bytes."""
        return self.codes.nbytes + self.sizes.nbytes + self._cells.nbytes

    def cells(self, levels: Levels) -> np.ndarray:
        """Return (G,) int32: each group's cell at these levels, TOO_RARE if the cell has fewer members than requested."""
        return self._cells.made(levels, self._numbered)

    def _numbered(self, levels: Levels) -> np.ndarray:
        code = np.zeros(len(self.sizes), dtype=np.int64)
        for column, (domain, level) in enumerate(zip(self._domains, levels, strict=True)):
            if level is not None:
                code = code * domain.sizes[level] + domain.levels[level][self.codes[:, column]]
        # Compacting codes after every mixed-radix step would cost a sort each; one at the end is enough below 2**63.
        _, cell = np.unique(code, return_inverse=True)
        # Sums of whole numbers below 2**53 are exact.
        kept = np.bincount(cell, weights=self.sizes) >= self._least_cell
        return np.where(kept, np.cumsum(kept) - 1, TOO_RARE)[cell].astype(np.int32)


@dataclass(frozen=True, eq=False)
class DemographicCells:
    """The cells of a part: equivalence classes on level-1 values, at one level of each, as blocks of bits.

    Attributes
    ----------
    first
        (cells + 1,) int64: cell c consists of the pairs first[c] .. first[c + 1] - 1.
    blocks
        (pairs + 1,) int64: the block of each pair; the last entry represents no block.
    masks
        (pairs + 1, WORDS) uint64: the members of the cell in that block; the last is empty.
    """

    first: np.ndarray
    blocks: np.ndarray
    masks: np.ndarray

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes."""
        return self.first.nbytes + self.blocks.nbytes + self.masks.nbytes


class MemberPart:
    """The bit-sets of some members.

    Attributes
    ----------
    number, parts
        Which part of how many this is.
    group_at
        (members,) int32: the group of each member, in the order of the bits.
    bits
        (rows * blocks, WORDS) uint64: row r in block b is `bits[r * blocks + b]`. Rows are numbered from the rarest.
    """

    def __init__(self, number: int, parts: int, group_at: np.ndarray, bits: np.ndarray):
        self.number, self.parts, self.group_at, self.bits = number, parts, group_at, bits
        self._cells = RecentlyMade[Levels, DemographicCells](_CELL_BYTES_KEPT // parts)

    @property
    def members(self) -> int:
        """Number of its members."""
        return len(self.group_at)

    @property
    def blocks(self) -> int:
        """Number of blocks of each row."""
        return blocks_of(self.members)

    @property
    def nbytes(self) -> int:
        """Memory used, in bytes."""
        return self.bits.nbytes + self.group_at.nbytes + self._cells.nbytes

    def cells(self, levels: Levels, groups: DemographicGroups) -> DemographicCells:
        """Return the cells at these levels of the demographics; the most recent ones are cached."""
        return self._cells.made(levels, lambda levels: self._of_groups(groups.cells(levels)))

    def _of_groups(self, cell_of: np.ndarray) -> DemographicCells:
        cell_at = cell_of[self.group_at]
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
        first = np.searchsorted(cell_at[pairs], np.arange(cell_of.max(initial=TOO_RARE) + 2))
        return DemographicCells(first, np.append(word_at[pairs] // WORDS, 0), masks)


@dataclass(frozen=True, eq=False)
class RowNumbers:
    """The numbers of the stored rows, common to all parts.

    Attributes
    ----------
    of
        For each history and level (values, most) int32: the row of 'has v at least c times' at [v, c - 1], or TOO_RARE.
    most
        Rows are for 'at least c times', c = 1 .. most.
    """

    of: dict[tuple[int, int], np.ndarray]
    most: int

    def covers(self, levels: Levels, most: int) -> bool:
        """Whether knowledge of up to `most` values at these levels can be looked up."""
        needed = {(h, level) for h, level in enumerate(levels) if level is not None}
        return most <= self.most and needed <= self.of.keys()


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
        Rows and cells with fewer members, in all parts, are not stored: to test whether a class reaches k, those with less than
        k - 1 or k members are not needed. 1 stores everything.
    parts
        Number of parts. Members of a cell are spread over all of them, as evenly as their number allows.

    Attributes
    ----------
    groups, rows
        The groups of members, and the numbers of rows: what all parts have in common.
    group_of
        (N,) int32: the group of each member.
    parts
        The parts, each with its bit-sets.
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
        parts: int = 1,
    ):
        order = demographic_order(demographics, demographic_domains)
        first = _starts_of_runs(np.zeros(len(order), bool), *demographics[order].T)
        sizes = np.diff(first, append=len(order))
        group_at = np.repeat(np.arange(len(first), dtype=np.int32), sizes)
        self.groups = DemographicGroups(demographics[order[first]], sizes, demographic_domains, max(1, least_cell))
        self.group_of = np.empty_like(group_at)
        self.group_of[order] = group_at
        self._members = [order[number::parts] for number in range(parts)]
        values = _HeldValues(held, history_domains, tuple(tuple(sorted(set(chosen))) for chosen in levels), most)
        self.rows = _numbered(values.supports(self._members), most, max(1, least_row))
        self.parts = tuple(
            MemberPart(number, parts, group_at[number::parts].copy(), values.bits(self.rows, members))
            for number, members in enumerate(self._members)
        )

    @classmethod
    def of(
        cls, data: LongitudinalData, levels: Sequence[Iterable[int]], parts: int, least_row: int = 1, least_cell: int = 1
    ) -> "MemberIndex":
        """Create the index of the data's population, for all that is known in any draw."""
        held = data.held, data.history_domains
        return cls(data.demographics, data.demographic_domains, *held, levels, data.most_known, least_row, least_cell, parts)

    @property
    def nbytes(self) -> int:
        """Memory used, in bytes."""
        members = sum(members.nbytes for members in self._members)
        return self.groups.nbytes + self.group_of.nbytes + members + sum(part.nbytes for part in self.parts)

    @cached_property
    def position(self) -> np.ndarray:
        """(N,) int64: position of each member in the order of the bits of its part."""
        position = np.empty(self.groups.members, dtype=np.int64)
        for members in self._members:
            position[members] = np.arange(len(members))
        return position


class _HeldValues:
    """How often members have the values of their histories, up to `most` times."""

    def __init__(self, held: Sequence[Histories], domains: Sequence[Domain], levels: tuple[tuple[int, ...], ...], most: int):
        self._held, self._domains, self._levels, self._most = held, domains, levels, most

    def supports(self, parts: Sequence[np.ndarray]) -> dict[tuple[int, int], np.ndarray]:
        """Return (values, most) int64 for each history and level: how many members of all parts have v at least c times."""
        supports = {
            (history, level): np.zeros((self._domains[history].sizes[level], self._most), dtype=np.int64)
            for history, levels in enumerate(self._levels)
            for level in levels
        }
        for members in parts:
            for row, _, counts in self._counts(members):
                for c in range(1, min(self._most, int(counts.max(initial=0))) + 1):
                    supports[row][:, c - 1] += np.count_nonzero(counts >= c, axis=1)
        return supports

    def bits(self, rows: RowNumbers, members: np.ndarray) -> np.ndarray:
        """Return the bit-sets of these members, in their order (`MemberPart.bits`)."""
        stored = 1 + max((int(numbers.max(initial=TOO_RARE)) for numbers in rows.of.values()), default=TOO_RARE)
        bits = aligned_words(stored * blocks_of(len(members)))
        octets = bits.view(np.uint8).reshape(stored, blocks_of(len(members)) * BITS // 8)
        # The last block is rarely full; bits after the last member belong to nobody.
        octets[:, len(members) // 8 :] = 0
        for row, chunk, counts in self._counts(members):
            numbers, where = rows.of[row], slice(chunk.start // 8, -(-chunk.stop // 8))
            for c in range(1, self._most + 1):
                values = np.flatnonzero(numbers[:, c - 1] != TOO_RARE)
                holds = counts[values] >= c
                octets[numbers[values, c - 1], where] = np.packbits(holds, axis=1, bitorder="little")
        return bits

    def _counts(self, members: np.ndarray) -> Iterator[tuple[tuple[int, int], slice, np.ndarray]]:
        """Yield, for each history and level and some of these members at a time, how often each has each value.

        Claims are read for the finest level; the counts at each other are sums of those at the one below.

        Yields
        ------
        row, chunk, counts
            The history and the level, the positions of the members, and (values, members) uint8, at most 255.
        """
        for history, levels in enumerate(self._levels):
            if not levels:
                continue
            domain, finest = self._domains[history], levels[0]
            # Every value of a level is in one class of the next.
            above = [
                (level, dict(zip(domain.levels[own], domain.levels[level], strict=True))) for own, level in pairwise(levels)
            ]
            for chunk in _chunks(domain.sizes[finest], len(members)):
                counts = _at_most_255(member_value_counts(self._held[history], members[chunk], domain, finest))
                yield (history, finest), chunk, counts
                for level, class_of in above:
                    sums = np.zeros((domain.sizes[level], counts.shape[1]), dtype=np.int32)
                    for value, in_class in class_of.items():
                        sums[in_class] += counts[value]
                    counts = _at_most_255(sums)
                    yield (history, level), chunk, counts


def _at_most_255(counts: np.ndarray) -> np.ndarray:
    return np.minimum(counts, 255).astype(np.uint8)


def _chunks(values: int, members: int) -> Iterable[slice]:
    """Yield ranges of positions, in whole blocks, whose table of counts stays small."""
    step = max(1, _CELLS_PER_CHUNK // (max(1, values) * BITS)) * BITS
    return (slice(first, min(first + step, members)) for first in range(0, members, step))


def _numbered(supports: dict[tuple[int, int], np.ndarray], most: int, least_row: int) -> RowNumbers:
    """Number the rows that have enough members in all parts, the rarest first."""
    every = np.concatenate([np.zeros(0, np.int64), *(support.ravel() for support in supports.values())])
    kept = np.flatnonzero(every >= least_row)
    numbers = np.full(len(every), TOO_RARE, dtype=np.int32)
    numbers[kept[np.argsort(every[kept], kind="stable")]] = np.arange(len(kept))
    ends = np.cumsum([support.size for support in supports.values()])
    return RowNumbers(
        {
            row: numbers[end - support.size : end].reshape(support.shape)
            for (row, support), end in zip(supports.items(), ends, strict=True)
        },
        most,
    )


def blocks_of(members: int) -> int:
    """Return the number of blocks that hold the bits of so many members, at least one."""
    return max(1, -(-members // BITS))


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
