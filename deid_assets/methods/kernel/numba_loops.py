"""The innermost loops of the kernel, compiled by numba: the draws, and the sizes of classes.

The draws are sampled in the order of the bit-sets, with the random numbers of the stream; the result is that of
`knowledge.draw_in_order`, bit for bit. Class sizes are counted draw by draw, where NumPy goes step by step through all draws.
The results are those of `class_size`, bit for bit, and so are the steps: `_ask` converts knowledge into rows, `_collect` takes
rows that were looked up before, and `_count` ANDs them over the blocks of the cell.

Nothing runs in parallel by itself: the interpreter's lock is released, and threads come from the executor. Fast-math is off,
because positions come from a floating-point product that must not change.
"""

from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

import numba
import numpy as np

from deid_assets.methods.kernel import member_index
from deid_assets.methods.kernel.class_size import NO_LIMIT
from deid_assets.methods.kernel.knowledge import (
    Knowledge,
    SortedTargets,
    order_of,
    ranks,
    start_block,
    within_total,
)
from deid_assets.methods.kernel.member_index import DemographicCells, MemberPart
from deid_assets.methods.population.longitudinal_data import Domain

Given = ParamSpec("Given")
Found = TypeVar("Found")


def compiled(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """Compile on first use; cache the machine code beside its file, or in the user's cache, for the next process.

    The cached code is rebuilt if that file changes, but not if another file does. The compiled code therefore calls nothing in
    other files and writes out their constants.
    """
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # Neither place can be written to.
        return numba.njit(nogil=True)(function)


def draw_in_order(targets: SortedTargets, stream_key: bytes, blocks: range) -> tuple[np.ndarray, Knowledge]:
    """Compiled version of `knowledge.draw_in_order`."""
    generators, drawn = zip(*(start_block(targets.data, stream_key, block) for block in blocks), strict=True)
    places = targets.rank[np.concatenate(drawn)]
    order = order_of(places)
    places = places[order].astype(np.int32)
    # Small integer types, because what is read for every history should stay in the cache.
    block_of, small_order = (order // len(drawn[0])).astype(np.int16), order.astype(np.int32)

    turns, sampling = [], [np.zeros((len(blocks), 0), np.int64)]
    for history in targets.histories:
        turn, of_history = _turns(history.samples, places, small_order, len(blocks))
        turns.append(turn)
        sampling.append(of_history)
    # The random numbers of a block serve one history after another, and within a history one step after another.
    counts = np.concatenate(sampling, axis=1)
    begin = np.cumsum(counts).reshape(counts.shape) - counts
    uniform = np.empty(int(counts.sum()))
    of_histories = np.stack([of_history.sum(axis=1) for of_history in sampling], axis=1)[:, 1:]
    ends_of = np.cumsum(of_histories).reshape(of_histories.shape)
    for own, ends_of_block, sizes in zip(generators, ends_of, of_histories, strict=True):
        for generator, end, size in zip(own, ends_of_block, sizes, strict=True):
            generator.random(out=uniform[end - size : end])

    codes, ends = [], np.cumsum([of_history.shape[1] for of_history in sampling])
    for history, turn, first, end in zip(targets.histories, turns, ends[:-1], ends[1:], strict=True):
        sampled = np.full((end - first, len(order)), -1, history.codes.dtype)
        own = np.ascontiguousarray(begin[:, first:end])
        values = history.samples, history.offsets, history.codes
        _sample(sampled, uniform, own, turn, *values, places, small_order, block_of)
        codes.append(sampled)
    total = targets.data.knows.total
    if total is not None:
        slots = [len(own) for own in codes]
        in_stream = np.concatenate([ranks(targets.data, stream_key, block, slots) for block in blocks], axis=1)
        codes = within_total(codes, in_stream[:, order], total)
    return order, Knowledge(targets.targets[places], tuple(codes))


@compiled
def _turns(samples: np.ndarray, places: np.ndarray, order: np.ndarray, blocks: int) -> tuple[np.ndarray, np.ndarray]:
    """Return when each draw takes its random number within a step, and how many draws take one.

    `turn` (B,) int32 is in the order of the stream and counts within a block: draws that sample most come first, and draws that
    sample equally many keep their order, so that a turn is the same at every step. The second array, (blocks, P) int64, gives
    the number of draws of a block that sample at least 1, 2, .. values.
    """
    draws = len(order)
    sizes, turn = np.empty(draws, np.int16), np.empty(draws, np.int32)
    most = 0
    for at in range(draws):
        size = samples[places[at]]
        sizes[order[at]] = size
        most = max(most, size)
    sampling = np.zeros((blocks, most + 2), np.int64)
    of_block = draws // blocks
    for block in range(blocks):
        own = sampling[block]
        for draw in range(block * of_block, (block + 1) * of_block):
            own[sizes[draw]] += 1
        for size in range(most - 1, -1, -1):
            own[size] += own[size + 1]
        # Now own[s] draws sample at least s values, and those that sample exactly s begin at turn own[s + 1].
        next_turn = own[1:].copy()
        for draw in range(block * of_block, (block + 1) * of_block):
            turn[draw] = next_turn[sizes[draw]]
            next_turn[sizes[draw]] += 1
    return turn, sampling[:, 1:-1]


@compiled
def _sample(
    sampled: np.ndarray,
    uniform: np.ndarray,
    begin: np.ndarray,
    turn: np.ndarray,
    samples: np.ndarray,
    offsets: np.ndarray,
    codes: np.ndarray,
    places: np.ndarray,
    order: np.ndarray,
    block_of: np.ndarray,
) -> None:
    """Fill (P, B) codes by Floyd's algorithm, as in `knowledge.sample_positions`, draw by draw.

    `begin` (blocks, P) is where the random numbers of a block's steps begin. Where most draws do the same, code is branch-free,
    because mispredictions cost more than the work: first the first value of all draws, then all values of the few draws that
    sample more.
    """
    draws, most = len(places), begin.shape[1]
    if most == 0:
        return
    several, count = np.empty(draws, np.uint32), 0
    for at in range(draws):
        target = np.uint64(places[at])
        size = samples[target]
        there = size > 0
        number = begin[block_of[at], 0] + turn[order[at]]
        values = offsets[target + np.uint64(1)] - offsets[target]
        position = np.int64(uniform[np.uint64(number) if there else np.uint64(0)] * np.float64(values - size + 1))
        code = codes[np.uint64(offsets[target] + position) if there else np.uint64(0)]
        sampled[0, at] = code if there else -1
        several[count] = at
        count += size > 1
    picked = np.empty(most, np.int64)
    for at in several[:count]:
        target = np.uint64(places[at])
        size = samples[target]
        last = offsets[target + np.uint64(1)] - offsets[target] - size
        for step in range(size):
            number = begin[block_of[at], step] + turn[order[at]]
            position = np.int64(uniform[np.uint64(number)] * np.float64(last + 1))
            taken = False
            for earlier in range(step):
                taken |= picked[earlier] == position
            position = last if taken else position
            picked[step] = position
            sampled[step, at] = codes[np.uint64(offsets[target] + position)]
            last += 1


NO_ROW, TOO_RARE, WORDS = 2**31 - 1, -1, 8
# Written out for the cache of compiled code, see `compiled`.
assert (NO_ROW, TOO_RARE, WORDS) == (member_index.NO_ROW, member_index.TOO_RARE, member_index.WORDS)  # noqa: S101 - constants

_DRAWS_AT_ONCE = 2048
"""Number of draws whose rows are gathered and then matched: these rows fit in the second-level cache."""
_ROWS_BEFORE_LOOK = 3
"""Number of rows after which empty blocks are skipped; a test after every row would cost more."""


def rows_for_knowledge(codes: np.ndarray, domain: Domain, level: int, rows_of: np.ndarray) -> np.ndarray:
    """Compiled version of `class_size.rows_for_knowledge`."""
    return _rows(codes, domain.levels[level], rows_of)


def matching_members(
    part: MemberPart, cells: DemographicCells, cell: np.ndarray, rows: np.ndarray, limit: int = NO_LIMIT
) -> np.ndarray:
    """Compiled version of `class_size.matching_members`."""
    asked = _Asked(len(rows))
    found = np.empty(len(cell), np.int32)
    for first in range(0, len(cell), _DRAWS_AT_ONCE):
        asked.lengths[:] = 0
        _collect(rows, first, asked.rows, asked.lengths)
        _count(*_of(part, cells), cell, first, asked.rows, asked.lengths, limit, found)
    return found


def matching_knowledge(
    part: MemberPart,
    cells: DemographicCells,
    cell: np.ndarray,
    known: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]],
    limit: int = NO_LIMIT,
) -> np.ndarray:
    """As `matching_members` with the rows from `rows_for_knowledge` for all histories, without storing the rows.

    Parameters
    ----------
    known
        What `rows_for_knowledge` takes of each known history: the codes of B draws, the domain's level, and the rows of its
        values.
    """
    of_codes = []
    for codes, values, rows_of in known:
        rows_of = rows_of[values] if rows_of.size else np.full((len(values), len(codes)), TOO_RARE, np.int32)
        of_codes.append((codes, values, rows_of))
    asked = _Asked(sum(len(codes) for codes, _, _ in known))
    found = np.empty(len(cell), np.int32)
    for first in range(0, len(cell), _DRAWS_AT_ONCE):
        asked.lengths[:] = 0
        for codes, values, rows_of in of_codes:
            _ask(codes, values, rows_of, first, asked.rows, asked.lengths)
        _count(*_of(part, cells), cell, first, asked.rows, asked.lengths, limit, found)
    return found


class _Asked:
    """The rows needed for some draws: `rows[d, :lengths[d]]` for draw d; the extra column takes discarded writes."""

    def __init__(self, most: int):
        self.rows = np.empty((_DRAWS_AT_ONCE, most + 1), np.int32)
        self.lengths = np.zeros(_DRAWS_AT_ONCE, np.int64)


def _of(part: MemberPart, cells: DemographicCells) -> tuple[np.ndarray, int, np.ndarray, np.ndarray, np.ndarray]:
    return part.bits, part.blocks, cells.first, cells.blocks, cells.masks


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
