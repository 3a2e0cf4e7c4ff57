"""Class sizes, compiled by numba: draw by draw, where NumPy goes step by step through all draws.

The results are those of `class_size`, bit for bit, and so are the steps: `_ask` converts knowledge into rows, `_collect` takes
rows that were looked up before, and `_count` ANDs them over the blocks of the cell.
"""

from collections.abc import Sequence

import numpy as np

from deid_assets.methods.kernel import member_index
from deid_assets.methods.kernel.class_size import NO_LIMIT
from deid_assets.methods.kernel.knowledge import Knowledge
from deid_assets.methods.kernel.member_index import DemographicCells, MemberIndex
from deid_assets.methods.kernel.numba_support import compiled
from deid_assets.methods.population.longitudinal_data import Domain

NO_ROW, TOO_RARE, WORDS = 2**31 - 1, -1, 8
# Written out for the cache of compiled code, see `numba_support.compiled`.
assert (NO_ROW, TOO_RARE, WORDS) == (member_index.NO_ROW, member_index.TOO_RARE, member_index.WORDS)  # noqa: S101 - constants

_DRAWS_AT_ONCE = 2048
"""Number of draws whose rows are gathered and then matched: these rows fit in the second-level cache."""
_ROWS_BEFORE_LOOK = 3
"""Number of rows after which empty blocks are skipped; a test after every row would cost more."""


def rows_for_knowledge(codes: np.ndarray, domain: Domain, level: int, rows_of: np.ndarray) -> np.ndarray:
    """Compiled version of `class_size.rows_for_knowledge`."""
    return _rows(codes, domain.levels[level], rows_of)


def matching_members(
    index: MemberIndex, cells: DemographicCells, cell: np.ndarray, rows: np.ndarray, limit: int = NO_LIMIT
) -> np.ndarray:
    """Compiled version of `class_size.matching_members`."""
    asked = _Asked(len(rows))
    found = np.empty(len(cell), np.int32)
    for first in range(0, len(cell), _DRAWS_AT_ONCE):
        asked.lengths[:] = 0
        _collect(rows, first, asked.rows, asked.lengths)
        _count(*_of(index, cells), cell, first, asked.rows, asked.lengths, limit, found)
    return found


def matching_knowledge(
    index: MemberIndex,
    cells: DemographicCells,
    cell: np.ndarray,
    knowledge: Knowledge,
    domains: Sequence[Domain],
    levels: tuple[int | None, ...],
    limit: int = NO_LIMIT,
) -> np.ndarray:
    """As `matching_members` with the rows from `rows_for_knowledge` for all histories, without storing the rows.

    Parameters
    ----------
    knowledge
        B draws.
    domains, levels
        For each history; a level of None leaves the history out.
    """
    known = []
    for history, (codes, domain, level) in enumerate(zip(knowledge.codes, domains, levels, strict=True)):
        if level is not None:
            values, rows_of = domain.levels[level], index.rows_of(history, level)
            rows_of = rows_of[values] if rows_of.size else np.full((len(values), len(codes)), TOO_RARE, np.int32)
            known.append((codes, values, rows_of))
    asked = _Asked(sum(len(codes) for codes, _, _ in known))
    found = np.empty(len(cell), np.int32)
    for first in range(0, len(cell), _DRAWS_AT_ONCE):
        asked.lengths[:] = 0
        for codes, values, rows_of in known:
            _ask(codes, values, rows_of, first, asked.rows, asked.lengths)
        _count(*_of(index, cells), cell, first, asked.rows, asked.lengths, limit, found)
    return found


class _Asked:
    """The rows needed for some draws: `rows[d, :lengths[d]]` for draw d; the extra column takes discarded writes."""

    def __init__(self, most: int):
        self.rows = np.empty((_DRAWS_AT_ONCE, most + 1), np.int32)
        self.lengths = np.zeros(_DRAWS_AT_ONCE, np.int64)


def _of(index: MemberIndex, cells: DemographicCells) -> tuple[np.ndarray, int, np.ndarray, np.ndarray, np.ndarray]:
    return index.bits, index.blocks, cells.first, cells.blocks, cells.masks


@compiled
def _rows(codes: np.ndarray, level: np.ndarray, rows_of: np.ndarray) -> np.ndarray:
    """Return (P, B) int32: for each known value, at its last occurrence, the row of 'has it that often'."""
    slots, draws = codes.shape
    rows = np.full((slots, draws), NO_ROW, np.int32)
    for slot in range(slots):
        for draw in range(draws):
            if codes[slot, draw] < 0:
                continue
            if rows_of.size == 0:
                rows[slot, draw] = TOO_RARE
                continue
            value = level[codes[slot, draw]]
            times = 1
            for earlier in range(slot):
                if level[codes[earlier, draw]] == value:
                    times += 1
                    rows[earlier, draw] = NO_ROW
            rows[slot, draw] = rows_of[value, times - 1]
    return rows


@compiled
def _ask(
    codes: np.ndarray, values: np.ndarray, rows_of: np.ndarray, first: int, asked: np.ndarray, lengths: np.ndarray
) -> None:
    """Add the rows needed for one history's knowledge; `rows_of` (base codes, most) is indexed by base code.

    Every occurrence of a value adds a row, not only the last: a member who has a value twice also has it once, and an extra
    row costs less than removing the previous one.
    """
    slots = len(codes)
    draws = min(len(lengths), codes.shape[1] - first)
    known, there = np.empty((slots, draws), np.int32), np.empty(draws, np.int64)
    for slot in range(slots):
        count = 0
        for draw in range(draws):
            there[count] = draw
            count += codes[slot, first + draw] >= 0
        for draw in there[:count]:
            code = codes[slot, first + draw]
            known[slot, draw] = values[code]
            times = 0
            for earlier in range(slot):
                times += known[earlier, draw] == known[slot, draw]
            asked[draw, lengths[draw]] = rows_of[code, times]
            lengths[draw] += 1


@compiled
def _collect(rows: np.ndarray, first: int, asked: np.ndarray, lengths: np.ndarray) -> None:
    """Add the rows of all slots (S, B)."""
    for slot in range(len(rows)):
        for draw in range(min(len(lengths), rows.shape[1] - first)):
            # Written unconditionally: an unwanted value is overwritten by the next.
            asked[draw, lengths[draw]] = rows[slot, first + draw]
            lengths[draw] += rows[slot, first + draw] != NO_ROW


@compiled
def _count(
    bits: np.ndarray,
    blocks: int,
    first_pair: np.ndarray,
    block_of_pair: np.ndarray,
    masks: np.ndarray,
    cell: np.ndarray,
    first: int,
    asked: np.ndarray,
    lengths: np.ndarray,
    limit: int,
    found: np.ndarray,
) -> None:
    """Write the count of each of these draws, capped at the limit."""
    in_order = np.empty(asked.shape[1] + _ROWS_BEFORE_LOOK, np.int64)
    left = np.empty(WORDS, np.uint64)
    for draw in range(min(len(lengths), len(cell) - first)):
        own_cell, count = cell[first + draw], 0
        found[first + draw] = 0
        if own_cell == TOO_RARE or _rarest_first(asked[draw, : lengths[draw]], in_order) == TOO_RARE:
            continue
        own = in_order[: lengths[draw]]
        own *= blocks
        for pair in range(first_pair[own_cell], first_pair[own_cell + 1]):
            block = block_of_pair[pair]
            for word in range(WORDS):
                left[word] = masks[pair, word]
            for row in own[:_ROWS_BEFORE_LOOK]:
                for word in range(WORDS):
                    left[word] &= bits[np.uint64(row + block), word]
            some = np.uint64(0)
            for word in range(WORDS):
                some |= left[word]
            if some == 0:
                continue
            for row in own[_ROWS_BEFORE_LOOK:]:
                for word in range(WORDS):
                    left[word] &= bits[np.uint64(row + block), word]
            for word in range(WORDS):
                count += int(_bit_count(left[word]))
            if count >= limit:
                count = limit
                break
        found[first + draw] = count


@compiled
def _rarest_first(rows: np.ndarray, in_order: np.ndarray) -> np.int64:
    """Put the three rarest rows first, sorted, and the others after them in any order; return the rarest row, or NO_ROW.

    Each row passes the three rarest so far and replaces one of them, or is passed on: there is no branch for the processor to
    mispredict. The first three replace no actual row.
    """
    rarest = second = third = np.int64(NO_ROW)
    behind = _ROWS_BEFORE_LOOK
    for row in rows:
        out = np.int64(row)
        rarest, out = min(rarest, out), max(rarest, out)
        second, out = min(second, out), max(second, out)
        third, out = min(third, out), max(third, out)
        in_order[behind] = out
        behind += out != NO_ROW
    in_order[0], in_order[1], in_order[2] = rarest, second, third
    return rarest


@compiled
def _bit_count(word: np.uint64) -> np.int64:
    """Return the number of bits of a uint64; the compiler recognizes this sum as one instruction."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))
