"""Bit-sets of facts about claims: who has a claim like a known one, and for whom an order of two values is possible.

Attack 1 asks who has certain values how often; the member index has a row of bits for each such question. It has no rows for
values linked within a claim or for the order of two claims. Each of the few facts that draws ask for gets one here, placed
before the rows of the index, so the same loops count the class.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from deid_assets.methods.attacks.claim_knowledge import OrderedPairs
from deid_assets.methods.kernel.member_index import BITS, NO_ROW, TOO_RARE, MemberIndex, aligned_words
from deid_assets.methods.population.claim_records import MISSING, ClaimRecords, claim_values

_LARGEST_KEY = 2**62
_CELLS_AT_ONCE = 1 << 25


@dataclass(frozen=True, eq=False)
class Facts:
    """Distinct facts that draws ask for.

    Attributes
    ----------
    numbers
        (A,) int64: the fact that each draw asks for; -1 for none.
    count
        Number of facts.
    members
        For each fact in turn, the members for whom it is true, possibly with repetitions.
    """

    numbers: np.ndarray
    count: int
    members: Iterator[np.ndarray]


class LikeClaims:
    """Find who has a claim that agrees with a known claim in everything known about it.

    Parameters
    ----------
    held
        Claims that the adversary can match: D2.
    known
        Claims that the adversary may know: D1, with the same codes.
    sizes
        Number of codes of each quasi-identifier.
    """

    def __init__(self, held: ClaimRecords, known: ClaimRecords, sizes: Sequence[int]):
        self._held, self._known, self._sizes = held, known, tuple(sizes)
        self._owners = held.owners.astype(np.int32)
        self._of_columns: dict[tuple[int, ...], tuple[Combinations, np.ndarray, np.ndarray]] = {}

    def facts(self, claims: np.ndarray) -> Facts:
        """Find who has a claim like each of these (A,) claims of `known`; -1 or a claim of missing values asks for nothing."""
        numbers = np.full(len(claims), -1, dtype=np.int64)
        members: list[np.ndarray] = []
        asked = np.flatnonzero(claims >= 0)
        present = self._known.codes[:, claims[asked]] != MISSING
        pattern = np.zeros(len(asked), dtype=np.int64)
        for number, there in enumerate(present):
            pattern |= there.astype(np.int64) << number
        for found in np.unique(pattern[pattern > 0]):
            draws = asked[pattern == found]
            columns = tuple(number for number in range(len(self._sizes)) if found >> number & 1)
            combinations, keys, owners = self._sorted(columns)
            asked_keys = combinations.numbers(self._known.codes[list(columns)][:, claims[draws]])
            distinct, wanted = np.unique(asked_keys, return_inverse=True)
            numbers[draws] = len(members) + wanted.reshape(-1)
            begin, end = (np.searchsorted(keys, distinct, side=side) for side in ("left", "right"))
            members += [owners[first:last] for first, last in zip(begin, end, strict=True)]
        return Facts(numbers, len(members), iter(members))

    def _sorted(self, columns: tuple[int, ...]) -> tuple["Combinations", np.ndarray, np.ndarray]:
        """Return numbers for held claims with no missing value in these columns, sorted, and the members who own the claims."""
        if columns not in self._of_columns:
            complete = np.flatnonzero(np.all(self._held.codes[list(columns)] != MISSING, axis=0))
            codes = self._held.codes[list(columns)][:, complete]
            combinations = Combinations(codes, [self._sizes[column] for column in columns])
            keys = combinations.numbers(codes)
            order = np.argsort(keys)
            self._of_columns[columns] = combinations, keys[order], self._owners[complete[order]]
        return self._of_columns[columns]


class Combinations:
    """A number for each combination of codes of several columns, in 64 bits however many combinations are possible.

    Where the numbers of so many columns would not fit, the combinations that there are get numbers anew, and all others share
    one.

    Parameters
    ----------
    codes
        (columns, C) codes of the combinations that there are.
    sizes
        Number of codes of each column.
    """

    def __init__(self, codes: np.ndarray, sizes: Sequence[int]):
        self._steps: list[tuple[int, np.ndarray | None]] = []
        possible = 1
        for column, size in enumerate(sizes):
            there = None
            if possible * int(size) > _LARGEST_KEY:
                there = np.unique(self.numbers(codes[:column]))
                possible = len(there) + 1
            self._steps.append((size, there))
            possible *= int(size)

    def numbers(self, codes: np.ndarray) -> np.ndarray:
        """Return (D,) int64: the number of each combination, of (columns, D) codes."""
        numbers = np.zeros(codes.shape[1], dtype=np.int64)
        for own, (size, there) in zip(codes, self._steps, strict=True):
            if there is not None:
                place = np.searchsorted(there, numbers)
                numbers = np.where(np.isin(numbers, there), place, len(there))
            numbers = numbers * size + own
        return numbers


class PossibleOrders:
    """Find for whom a claim with one value may precede a claim with another: by year, then by day; ties allow both.

    A released claim without a day may be anywhere in its year. The order is possible if the earliest date of a claim with
    the first value is not after the latest date of a claim with the second.
    """

    def __init__(self, held: ClaimRecords, values: int, codes: np.ndarray):
        """`codes` (C,): the quasi-identifier's values on the claims of `held`; `values`: number of codes."""
        found = claim_values(held, codes)
        earliest, latest = held.days_in_order(found.claims)
        owners = np.repeat(np.arange(len(held)), found.histories.counts)
        kind = np.int16 if latest.max(initial=0) < np.iinfo(np.int16).max else np.int32
        # Members without a value never precede or follow anything.
        self._earliest = np.full((values, len(held)), np.iinfo(kind).max, dtype=kind)
        self._latest = np.full((values, len(held)), -1, dtype=kind)
        where = found.histories.codes.astype(np.int64) * len(held) + owners
        np.minimum.at(self._earliest.reshape(-1), where, earliest.astype(kind))
        np.maximum.at(self._latest.reshape(-1), where, latest.astype(kind))

    def facts(self, pairs: OrderedPairs) -> Facts:
        """Find for whom each of these orders may be true."""
        values = len(self._earliest)
        distinct, number = np.unique(pairs.first.astype(np.int64) * values + pairs.then, return_inverse=True)
        possible = (self._earliest[pair // values] <= self._latest[pair % values] for pair in distinct)
        return Facts(number.reshape(-1), len(distinct), (np.flatnonzero(members) for members in possible))


class FactIndex:
    """A member index of one part with extra rows for facts before its own; has what the kernel's loops read from a part."""

    def __init__(self, index: MemberIndex, facts: Sequence[Facts]):
        """Fact f of the g-th `facts` is in row `first[g]` + f."""
        (self.part,) = index.parts
        self.blocks = self.part.blocks
        self.first = np.concatenate([[0], np.cumsum([own.count for own in facts], dtype=np.int64)])
        self.facts = int(self.first[-1])
        self.bits = aligned_words(self.facts * self.blocks + len(self.part.bits))
        self.bits[self.facts * self.blocks :] = self.part.bits
        octets = self.bits[: self.facts * self.blocks].view(np.uint8).reshape(self.facts, self.blocks * BITS // 8)
        step = max(1, _CELLS_AT_ONCE // (self.blocks * BITS))
        every = chain.from_iterable(own.members for own in facts)
        for first in range(0, self.facts, step):
            true = np.zeros((min(step, self.facts - first), self.blocks * BITS), dtype=bool)
            for row in true:
                row[index.position[next(every)]] = True
            octets[first : first + len(true)] = np.packbits(true, axis=1, bitorder="little")

    def rows(self, of_index: np.ndarray) -> np.ndarray:
        """Convert row numbers of the index to row numbers here; TOO_RARE and NO_ROW do not change."""
        return np.where((of_index == TOO_RARE) | (of_index == NO_ROW), of_index, of_index + np.int32(self.facts))


def all_rows_hold(bits: np.ndarray, blocks: int, position: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return (B,) bool: whether the member at `position` (B,) is in all requested rows (S, B)."""
    asked = rows != NO_ROW
    hold = ~np.any(rows == TOO_RARE, axis=0)
    word = position // 64
    for slot, there in enumerate(asked):
        draws = np.flatnonzero(there & hold)
        block, within = np.divmod(word[draws], BITS // 64)
        found = bits[rows[slot, draws].astype(np.int64) * blocks + block, within]
        hold[draws] = (found >> (position[draws] & 63).astype(np.uint64) & np.uint64(1)).astype(bool)
    return hold
