"""Class sizes by bit-sets: how many members share a target's demographics and hold what the adversary knows.

For each draw the rows that its knowledge needs are ANDed over the blocks of its demographic cell, the rarest row first,
and the bits left are members of its class. Draws go side by side through each step: a few blocks of every cell, then
twice as many, and a draw leaves as soon as its class is known to reach the limit or its cell is used up
(design.md 8).
"""

import numpy as np

from deid_assets.methods.longitudinal_data import Domain
from deid_assets.methods.member_index import NO_ROW, TOO_RARE, WORDS, DemographicCells, MemberIndex

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
    rows = np.full(codes.shape, NO_ROW, dtype=np.int32)
    if not rows_of.size:
        return np.where(codes >= 0, TOO_RARE, rows).astype(np.int32)
    values, occurrence, last = multiset(codes, domain, level)
    where = values * np.int32(rows_of.shape[1])
    where += occurrence
    np.copyto(rows, rows_of.ravel().take(where, mode="clip"), where=last)
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
        for earlier in range(later):
            same = values[later] == values[earlier]
            occurrence[later] += same.view(np.int8)
            last[earlier] &= ~same
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
        (B,) int32: the exact count where it is below the limit, else some number of at least the limit.
    """
    found = np.zeros(len(cell), dtype=np.int32)
    # The rarest row first: rows are numbered by rarity and NO_ROW sorts last. Each draw's rows in one piece of memory.
    rows = rows.T.copy()
    rows.sort(axis=1)
    asked = np.flatnonzero((cell != TOO_RARE) & (rows[:, 0] != TOO_RARE if rows.shape[1] else True))
    # Draws that ask for most rows first: those still active at a step are then a prefix.
    length = np.count_nonzero(rows[asked] != NO_ROW, axis=1)
    by_length = np.argsort(-length.astype(np.int16), kind="stable")
    asked, length = asked[by_length], length[by_length]
    # (S, draws), so that one step reads one line of memory; as offsets of the row's first block.
    rows = np.ascontiguousarray(rows[asked].T).astype(np.int64) * index.blocks
    next_pair, end = cells.first[cell[asked]], cells.first[cell[asked] + 1]
    live = np.arange(len(asked))
    width = 1
    while len(live):
        for piece in np.array_split(live, max(1, -(-len(live) * width // _BLOCKS_AT_ONCE))):
            found[asked[piece]] += _count_in_blocks(
                index, cells, rows[:, piece], length[piece], next_pair[piece], end[piece], width
            )
        next_pair[live] += width
        live = live[(found[asked[live]] < limit) & (next_pair[live] < end[live])]
        width *= 2
    return found


def _count_in_blocks(
    index: MemberIndex,
    cells: DemographicCells,
    rows: np.ndarray,
    length: np.ndarray,
    first: np.ndarray,
    end: np.ndarray,
    width: int,
) -> np.ndarray:
    """Members found in the next `width` blocks of each draw's cell.

    `rows` (S, B) are offsets of rows in the index, `length` (B,) how many of them count, in descending order.
    """
    pairs = first[:, None] + np.arange(width)
    pairs = np.where(pairs < end[:, None], pairs, len(cells.blocks) - 1).ravel()
    draw = np.repeat(np.arange(len(first)), width)
    blocks = cells.blocks[pairs]
    bits = cells.masks[pairs]
    buffer = np.empty_like(bits)
    active_draws = np.searchsorted(-length, -np.arange(len(rows)), side="left")
    for step, draws in enumerate(active_draws):
        if step == _ROWS_BEFORE_SIEVE and width > 1:
            left = np.flatnonzero(_any_bit(bits))
            bits, draw, blocks = bits[left], draw[left], blocks[left]
        active = int(np.searchsorted(draw, draws))
        if active == 0:
            break
        where = rows[step][draw[:active]]
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
