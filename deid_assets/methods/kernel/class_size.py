"""Class sizes by bit-sets: how many members share a target's demographics and match what the adversary knows.

This is step 4.b.ii of the node computation (methods#node-risk). `multiset` counts how often each generalized value is known,
`rows_for_knowledge` converts these counts into rows of the index, and `matching_members` counts who is in all of them, in one
part of the population.

For each draw, the rows that its knowledge needs are ANDed over the blocks of its demographic cell, the rarest row first; the
remaining bits are the members of its class. Draws are processed side by side: a few blocks of every cell, then twice as many,
and so on. A draw leaves as soon as its class reaches the limit or its cell is exhausted (`methods/kernel/member_index.py`).
"""

import numpy as np

from deid_assets.methods.kernel.member_index import NO_ROW, TOO_RARE, WORDS, DemographicCells, MemberPart
from deid_assets.methods.population.longitudinal_data import Domain

NO_LIMIT = np.iinfo(np.int32).max
_BLOCKS_AT_ONCE = 8192
"""Block size that fits in the second-level cache: 8192 blocks of 64 bytes."""
_ROWS_BEFORE_SIEVE = 3
"""Number of rows after which most blocks of a large cell are empty; the empty blocks are then dropped."""


def rows_for_knowledge(codes: np.ndarray, domain: Domain, level: int, rows_of: np.ndarray) -> np.ndarray:
    """Return the rows of the bit-set index that are needed for a history's knowledge.

    The j-th value of a draw requires 'at least as often as seen so far'. Only the last occurrence of a value is used; the
    others would require less.

    Parameters
    ----------
    codes
        (P, B) int: base codes of each draw in its column, padded with -1.
    rows_of
        (values at the level, most) int: row of 'at least c times' at [v, c - 1] (`RowNumbers.of`).

    Returns
    -------
    np.ndarray
        (P, B) int32: row numbers, TOO_RARE, or NO_ROW where nothing is required.

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
        Each (P, B): the generalized value (-1 if there is none), the number of equal values above it in its column (int8),
        and whether it is present and not followed by an equal value. Where `last` is true, the draw knows the value exactly
        `occurrence + 1` times.
    """
    # One extra entry, so that the code -1 finds it at the end.
    values = np.append(domain.levels[level], np.int32(-1))[codes]
    occurrence = np.zeros(codes.shape, dtype=np.int8)
    last = values >= 0
    for later in range(1, len(codes)):
        # Most draws know one value; comparisons are made only for the others.
        there = np.flatnonzero(last[later])
        for earlier in range(later):
            same = there[values[earlier, there] == values[later, there]]
            occurrence[later, same] += 1
            last[earlier, same] = False
    return values, occurrence, last


def matching_members(
    part: MemberPart,
    cells: DemographicCells,
    cell: np.ndarray,
    rows: np.ndarray,
    limit: int = NO_LIMIT,
) -> np.ndarray:
    """Count the members of each draw's cell that are in all its rows, stopping at the limit.

    Parameters
    ----------
    part, cells
        The members who are counted, and their cells.
    cell
        (B,) int: the cell of each draw; TOO_RARE counts as 0.
    rows
        (S, B) int32: the rows of each draw in its column, in any order; TOO_RARE makes the count 0.
    limit
        Counting stops when a count reaches `limit`.

    Returns
    -------
    np.ndarray
        (B,) int32: the count, or the limit if the count is larger.
    """
    found = np.zeros(len(cell), dtype=np.int32)
    rows, begin = _rarest_first(rows)
    length = np.diff(begin)
    some_too_rare = np.zeros(len(cell), dtype=bool)
    some_too_rare[length > 0] = rows[begin[:-1][length > 0]] == TOO_RARE
    asked = np.flatnonzero((cell != TOO_RARE) & ~some_too_rare)
    # Draws with most rows first, so that those still active at a step are a prefix.
    asked = asked[np.argsort(-length[asked].astype(np.int16), kind="stable")]
    begin, length = begin[asked], length[asked]
    # Convert to offsets of each row's first block.
    rows *= part.blocks
    next_pair, end = cells.first[cell[asked]], cells.first[cell[asked] + 1]
    live = np.arange(len(asked))
    width = 1
    while len(live):
        for piece in np.array_split(live, max(1, -(-len(live) * width // _BLOCKS_AT_ONCE))):
            found[asked[piece]] += _count_in_blocks(
                part, cells, rows, begin[piece], length[piece], next_pair[piece], end[piece], width
            )
        next_pair[live] += width
        live = live[(found[asked[live]] < limit) & (next_pair[live] < end[live])]
        width *= 2
    return np.minimum(found, np.int32(limit))


def _rarest_first(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort each draw's rows, the rarest first; rows are numbered by rarity.

    Parameters
    ----------
    rows
        (S, B) int32: the rows of each draw in its column.

    Returns
    -------
    rows, begin
        int64: draw d needs `rows[begin[d]:begin[d + 1]]`; NO_ROW is left out.

    Examples
    --------
    >>> rows, begin = _rarest_first(np.array([[7, NO_ROW, 4], [5, NO_ROW, NO_ROW]], dtype=np.int32))
    >>> rows.tolist(), begin.tolist()
    ([5, 7, 4], [0, 2, 2, 3])
    """
    draws = rows.shape[1]
    asked = np.flatnonzero(rows != NO_ROW)
    draw = asked % max(1, draws)
    # One sort for all: the draw in the upper half of a word and the row in the lower half, from 0 for TOO_RARE.
    keys = draw << 32
    keys += rows.ravel()[asked]
    keys -= TOO_RARE
    keys.sort()
    keys &= 0xFFFFFFFF
    keys += TOO_RARE
    return keys, np.concatenate([[0], np.cumsum(np.bincount(draw, minlength=draws))])


def _count_in_blocks(
    part: MemberPart,
    cells: DemographicCells,
    rows: np.ndarray,
    begin: np.ndarray,
    length: np.ndarray,
    first: np.ndarray,
    end: np.ndarray,
    width: int,
) -> np.ndarray:
    """Count the members found in the next `width` blocks of each draw's cell.

    `rows` are offsets of rows in the index. The rows of a draw start at `begin` (B,), and `length` (B,) is their number, in
    descending order.
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
        # mode="clip" writes directly into the buffer; every index is valid.
        np.take(part.bits, where, axis=0, out=buffer[:active], mode="clip")
        np.bitwise_and(bits[:active], buffer[:active], out=bits[:active])
    return np.bincount(draw, weights=_bit_counts(bits), minlength=len(first)).astype(np.int32)


def _any_bit(bits: np.ndarray) -> np.ndarray:
    """Return (B,) uint64, non-zero if a block has a bit; faster than any() over such a short axis."""
    some = bits[:, 0] | bits[:, 1]
    for word in range(2, WORDS):
        some |= bits[:, word]
    return some


def _bit_counts(bits: np.ndarray) -> np.ndarray:
    """Return (B,) uint64: the number of bits in each block."""
    # Eight counts of at most 64, one per byte: add bytes in pairs to 16 bits, then add the four by multiplication.
    counts = np.bitwise_count(bits).view(np.uint64).ravel()
    low = np.uint64(0x00FF00FF00FF00FF)
    pairs = (counts & low) + ((counts >> np.uint64(8)) & low)
    return (pairs * np.uint64(0x0001000100010001)) >> np.uint64(48)
