"""Class sizes by bit-sets: how many members share a target's demographics and hold what the adversary knows.

This is step 4.b.ii of the node computation (methods#node-risk). `multiset` counts how often each generalized value is known,
`rows_for_knowledge` turns 'known so often' into rows of the index, `matching_members` counts who has them all.

For each draw the rows that its knowledge needs are ANDed over the blocks of its demographic cell, the rarest row first,
and the bits left are members of its class. Draws go side by side through each step: a few blocks of every cell, then
twice as many, and a draw leaves as soon as its class is known to reach the limit or its cell is used up
(`methods/kernel/member_index.py`).
"""

import numpy as np

from deid_assets.methods.kernel.member_index import NO_ROW, TOO_RARE, WORDS, DemographicCells, MemberIndex
from deid_assets.methods.population.longitudinal_data import Domain

NO_LIMIT = np.iinfo(np.int32).max
_BLOCKS_AT_ONCE = 8192
"""Work in pieces that stay in the second-level cache: 8192 blocks of 64 bytes."""
_ROWS_BEFORE_SIEVE = 3
"""After so many rows most blocks of a large cell are empty, and are left out of the rest."""


def rows_for_knowledge(codes: np.ndarray, domain: Domain, level: int, rows_of: np.ndarray) -> np.ndarray:
    """The rows of the bit-set index that a history's knowledge asks for.

    The j-th value of a draw asks for 'at least as often as seen so far'; only the last occurrence of a value counts,
    the others would ask for less.

    Parameters
    ----------
    codes
        (P, B) int: base codes of each draw down its column, -1 behind the last.
    rows_of
        (values at the level, most) int: row of 'at least c times' at [v, c - 1] (`MemberIndex.rows_of`).

    Returns
    -------
    np.ndarray
        (P, B) int32: row numbers, TOO_RARE, or NO_ROW where nothing is asked.

    Examples
    --------
    >>> yes_no = Domain((np.arange(2),))
    >>> rows = rows_for_knowledge(np.array([[0], [1], [0]]), yes_no, 0, np.array([[10, 11, 12], [20, 21, 22]]))
    >>> rows[:, 0].tolist() == [NO_ROW, 20, 11]
    True
    """
    if not rows_of.size:
        return np.where(codes >= 0, TOO_RARE, NO_ROW).astype(np.int32)
    values, occurrence, last = multiset(codes, domain, level)
    rows = np.full(codes.shape, NO_ROW, dtype=np.int32)
    asked = np.flatnonzero(last)
    rows.ravel()[asked] = rows_of[values.ravel()[asked], occurrence.ravel()[asked]]
    return rows


def multiset(codes: np.ndarray, domain: Domain, level: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Generalize sampled values and count them.

    Returns
    -------
    values, occurrence, last
        Each (P, B): the generalized value (-1 where there is none), how many equal values stand above it in its column
        (int8), and whether it is there and no equal value follows: where `last`, the draw knows the value exactly
        `occurrence + 1` times.
    """
    # One entry more than the domain: the code -1 finds it from the end.
    values = np.append(domain.levels[level], np.int32(-1))[codes]
    occurrence = np.zeros(codes.shape, dtype=np.int8)
    last = values >= 0
    for later in range(1, len(codes)):
        # Most draws know one value: the comparisons are made for the others only.
        there = np.flatnonzero(last[later])
        for earlier in range(later):
            same = there[values[earlier, there] == values[later, there]]
            occurrence[later, same] += 1
            last[earlier, same] = False
    return values, occurrence, last


def matching_members(
    index: MemberIndex,
    cells: DemographicCells,
    cell: np.ndarray,
    rows: np.ndarray,
    limit: int = NO_LIMIT,
) -> np.ndarray:
    """Count the members of each draw's cell that hold all its rows, stopping at the limit.

    Parameters
    ----------
    cell
        (B,) int: the cell of each draw; TOO_RARE counts as 0.
    rows
        (S, B) int32: the rows of each draw down its column, in any order; TOO_RARE makes the count 0.
    limit
        A count of at least `limit` is not pursued further.

    Returns
    -------
    np.ndarray
        (B,) int32: the count, or the limit where the count is larger.
    """
    found = np.zeros(len(cell), dtype=np.int32)
    rows, begin = _rarest_first(rows)
    length = np.diff(begin)
    some_too_rare = np.zeros(len(cell), dtype=bool)
    some_too_rare[length > 0] = rows[begin[:-1][length > 0]] == TOO_RARE
    asked = np.flatnonzero((cell != TOO_RARE) & ~some_too_rare)
    # Draws that ask for most rows first: those still active at a step are then a prefix.
    asked = asked[np.argsort(-length[asked].astype(np.int16), kind="stable")]
    begin, length = begin[asked], length[asked]
    # As offsets of the row's first block.
    rows *= index.blocks
    next_pair, end = cells.first[cell[asked]], cells.first[cell[asked] + 1]
    live = np.arange(len(asked))
    width = 1
    while len(live):
        for piece in np.array_split(live, max(1, -(-len(live) * width // _BLOCKS_AT_ONCE))):
            found[asked[piece]] += _count_in_blocks(
                index, cells, rows, begin[piece], length[piece], next_pair[piece], end[piece], width
            )
        next_pair[live] += width
        live = live[(found[asked[live]] < limit) & (next_pair[live] < end[live])]
        width *= 2
    return np.minimum(found, np.int32(limit))


def _rarest_first(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort each draw's rows, the rarest first: rows are numbered by rarity.

    Parameters
    ----------
    rows
        (S, B) int32: the rows of each draw down its column.

    Returns
    -------
    rows, begin
        int64: draw d asks for `rows[begin[d]:begin[d + 1]]`; NO_ROW is left out.

    Examples
    --------
    >>> rows, begin = _rarest_first(np.array([[7, NO_ROW, 4], [5, NO_ROW, NO_ROW]], dtype=np.int32))
    >>> rows.tolist(), begin.tolist()
    ([5, 7, 4], [0, 2, 2, 3])
    """
    draws = rows.shape[1]
    asked = np.flatnonzero(rows != NO_ROW)
    draw = asked % max(1, draws)
    # One sort for all: the draw in the upper half of a word, the row below it, from 0 for TOO_RARE.
    keys = draw << 32
    keys += rows.ravel()[asked]
    keys -= TOO_RARE
    keys.sort()
    keys &= 0xFFFFFFFF
    keys += TOO_RARE
    return keys, np.concatenate([[0], np.cumsum(np.bincount(draw, minlength=draws))])


def _count_in_blocks(
    index: MemberIndex,
    cells: DemographicCells,
    rows: np.ndarray,
    begin: np.ndarray,
    length: np.ndarray,
    first: np.ndarray,
    end: np.ndarray,
    width: int,
) -> np.ndarray:
    """Members found in the next `width` blocks of each draw's cell.

    `rows` are offsets of rows in the index, of which those of a draw start at `begin` (B,), `length` (B,) of them, in
    descending order of length.
    """
    pairs = first[:, None] + np.arange(width)
    pairs = np.where(pairs < end[:, None], pairs, len(cells.blocks) - 1).ravel()
    draw = np.repeat(np.arange(len(first)), width)
    blocks = cells.blocks[pairs]
    bits = cells.masks[pairs]
    buffer = np.empty_like(bits)
    active_draws = np.searchsorted(-length, -np.arange(length.max(initial=0)), side="left")
    for step, draws in enumerate(active_draws):
        if step == _ROWS_BEFORE_SIEVE and width > 1:
            left = np.flatnonzero(_any_bit(bits))
            bits, draw, blocks = bits[left], draw[left], blocks[left]
        active = int(np.searchsorted(draw, draws))
        if active == 0:
            break
        where = rows[begin[:draws] + step][draw[:active]]
        where += blocks[:active]
        # mode="clip" writes into the buffer directly; every index is valid.
        np.take(index.bits, where, axis=0, out=buffer[:active], mode="clip")
        np.bitwise_and(bits[:active], buffer[:active], out=bits[:active])
    return np.bincount(draw, weights=_bit_counts(bits), minlength=len(first)).astype(np.int32)


def _any_bit(bits: np.ndarray) -> np.ndarray:
    """(B,) uint64, not zero where a block has a bit; faster than any() over so short an axis."""
    some = bits[:, 0] | bits[:, 1]
    for word in range(2, WORDS):
        some |= bits[:, word]
    return some


def _bit_counts(bits: np.ndarray) -> np.ndarray:
    """(B,) uint64: the number of bits of each block."""
    # Eight counts of at most 64, one per byte: add bytes in pairs to 16 bits, then add the four by multiplication.
    counts = np.bitwise_count(bits).view(np.uint64).ravel()
    low = np.uint64(0x00FF00FF00FF00FF)
    pairs = (counts & low) + ((counts >> np.uint64(8)) & low)
    return (pairs * np.uint64(0x0001000100010001)) >> np.uint64(48)
