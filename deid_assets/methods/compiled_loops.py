"""The innermost loops of the kernel, compiled by numba: draw by draw where NumPy goes step by step through all draws.

What each function does, takes and returns is said at its NumPy form, in `claim_sampling` and `class_size`; the results
are the same to the last bit. Nothing here runs in parallel by itself: the interpreter's lock is released, and threads
come from the executor. No fast-math: positions come from a product of floating-point numbers that must not move.
"""

from collections.abc import Callable

import numba
import numpy as np

from deid_assets.methods import member_index
from deid_assets.methods.class_size import NO_LIMIT
from deid_assets.methods.longitudinal_data import Domain, Histories
from deid_assets.methods.member_index import DemographicCells, MemberIndex

# Written out, because machine code that was kept is made again when this file changes, and not when another does.
NO_ROW, TOO_RARE, WORDS = 2**31 - 1, -1, 8
assert (NO_ROW, TOO_RARE, WORDS) == (member_index.NO_ROW, member_index.TOO_RARE, member_index.WORDS)

_DRAWS_AT_ONCE = 256
"""Draws whose rows are gathered together, so that memory is read in runs."""
_ROWS_BEFORE_LOOK = 3
"""After so many rows many blocks are empty, and the other rows are left out; to look after every row costs more."""


def _compiled(function: Callable) -> Callable:
    """Compile on first use; keep the machine code beside this file, or in the user's cache, for the next process."""
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # Neither place can be written to.
        return numba.njit(nogil=True)(function)


def sampled_codes(
    generator: np.random.Generator, known: Histories, power: np.ndarray, targets: np.ndarray
) -> np.ndarray:
    """As `claim_sampling.sampled_codes`."""
    starts, counts, order, sampling = _sizes_in_order(known.offsets, power, targets)
    # One call gives the numbers that NumPy's form takes step by step.
    uniform = generator.random(int(sampling.sum()))
    return _floyd(uniform, known.codes, starts, counts, order, sampling)


def rows_for_knowledge(codes: np.ndarray, domain: Domain, level: int, rows_of: np.ndarray) -> np.ndarray:
    """As `class_size.rows_for_knowledge`."""
    return _rows(codes, domain.levels[level], rows_of)


def matching_members(
    index: MemberIndex, cells: DemographicCells, cell: np.ndarray, rows: np.ndarray, limit: int = NO_LIMIT
) -> np.ndarray:
    """As `class_size.matching_members`."""
    return _matching(index.bits, index.blocks, cells.first, cells.blocks, cells.masks, cell, rows, limit)


@_compiled
def _sizes_in_order(offsets, power, targets):
    """Where each draw's values start, how many there are, draws from those who sample most, and how many at each step.

    The last, (P,), says how many draws sample at least 1, 2, .. values; draws who sample equally many keep their order.
    """
    draws = len(targets)
    starts, counts = np.empty(draws, np.int64), np.empty(draws, np.int64)
    sizes = np.empty(draws, np.int64)
    # Loops that do little besides waiting for memory: then the processor waits for many draws at once.
    for draw in range(draws):
        starts[draw] = offsets[targets[draw]]
        counts[draw] = offsets[targets[draw] + 1] - starts[draw]
    for draw in range(draws):
        sizes[draw] = power[targets[draw]]
    most = 0
    for draw in range(draws):
        sizes[draw] = min(sizes[draw], counts[draw])
        most = max(most, sizes[draw])
    sampling = np.zeros(most + 2, np.int64)
    for draw in range(draws):
        sampling[sizes[draw]] += 1
    for size in range(most - 1, -1, -1):
        sampling[size] += sampling[size + 1]
    # Now sampling[s] draws sample at least s values, and those who sample exactly s begin at place sampling[s + 1].
    place = sampling[1:].copy()
    order = np.empty(draws, np.uint64)
    for draw in range(draws):
        order[place[sizes[draw]]] = draw
        place[sizes[draw]] += 1
    return starts, counts, order, sampling[1:-1]


@_compiled
def _floyd(uniform, codes, starts, counts, order, sampling):
    """(P, B) int32: Floyd's algorithm, one step for all draws that are still sampling, then the next."""
    most, draws = len(sampling), len(order)
    sampled = np.full((most, draws), -1, np.int32)
    picked = np.empty((most, draws), np.int64)
    where = np.empty(draws, np.uint64)
    # The number of values that a draw samples in the end: known for the whole prefix before its last step.
    sizes = np.zeros(draws, np.int64)
    for active in sampling:
        sizes[:active] += 1
    taken_numbers = 0
    for step in range(most):
        for place in range(sampling[step]):
            draw = order[place]
            last = counts[draw] - sizes[place] + step
            position = np.int64(uniform[taken_numbers] * np.float64(last + 1))
            taken_numbers += 1
            for earlier in range(step):
                if picked[earlier, place] == position:
                    position = last
                    break
            picked[step, place] = position
            where[place] = starts[draw] + position
        for place in range(sampling[step]):
            sampled[step, order[place]] = codes[where[place]]
    return sampled


@_compiled
def _rows(codes, level, rows_of):
    """(P, B) int32: for each value known, at its last occurrence, the row of 'holds it so often'."""
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


@_compiled
def _matching(bits, blocks, first, block_of_pair, masks, cell, rows, limit):
    """(B,) int32: the count of each draw, at most the limit."""
    slots, draws = rows.shape
    found = np.zeros(len(cell), np.int32)
    wanted = np.empty((_DRAWS_AT_ONCE, slots + 1), np.int32)
    rarest_first = np.empty(slots, np.int64)
    lengths = np.empty(_DRAWS_AT_ONCE, np.int64)
    left = np.empty(WORDS, np.uint64)
    for start in range(0, draws, _DRAWS_AT_ONCE):
        stop = min(start + _DRAWS_AT_ONCE, draws)
        lengths[:] = 0
        for slot in range(slots):
            for draw in range(start, stop):
                # Written without asking: what is not wanted is overwritten by the next.
                wanted[draw - start, lengths[draw - start]] = rows[slot, draw]
                lengths[draw - start] += rows[slot, draw] != NO_ROW
        for draw in range(start, stop):
            own = rarest_first[: lengths[draw - start]]
            some_too_rare = _sort(wanted[draw - start, : len(own)], own)
            if cell[draw] == TOO_RARE or some_too_rare:
                continue
            own *= blocks
            count = 0
            for pair in range(first[cell[draw]], first[cell[draw] + 1]):
                block = block_of_pair[pair]
                for word in range(WORDS):
                    left[word] = masks[pair, word]
                for row in own[:_ROWS_BEFORE_LOOK]:
                    for word in range(WORDS):
                        left[word] &= bits[row + block, word]
                some = np.uint64(0)
                for word in range(WORDS):
                    some |= left[word]
                if some == 0:
                    continue
                for row in own[_ROWS_BEFORE_LOOK:]:
                    for word in range(WORDS):
                        left[word] &= bits[row + block, word]
                for word in range(WORDS):
                    count += _bit_count(left[word])
                if count >= limit:
                    count = limit
                    break
            found[draw] = count
    return found


@_compiled
def _sort(rows, in_order):
    """Put a few rows in order, the rarest first, and tell whether one is too rare to be there.

    Counting the rows that come before takes no decision that the processor could guess wrong: faster than moving them.
    """
    some_too_rare = False
    for place in range(len(rows)):
        row = rows[place]
        before = 0
        for other in range(place):
            before += rows[other] <= row
        for other in range(place + 1, len(rows)):
            before += rows[other] < row
        in_order[before] = row
        some_too_rare |= row == TOO_RARE
    return some_too_rare


@_compiled
def _bit_count(word):
    """The number of bits of a uint64; the compiler knows this sum as one instruction."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))
