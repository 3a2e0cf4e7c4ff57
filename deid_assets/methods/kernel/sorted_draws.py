"""Blocks of draws in the order of the bit-sets, so that neighboring draws need the same memory.

A stream determines the order of draws and the use of each random number (`knowledge`); here the same draws
are only reordered.
"""

import functools
from dataclasses import dataclass

import numpy as np

from deid_assets.methods.kernel.knowledge import Knowledge, draw_knowledge, joined
from deid_assets.methods.population.longitudinal_data import LongitudinalData


class SortedTargets:
    """The released members in the order of the bit-sets.

    Parameters
    ----------
    position
        (N,) int64: position of each member of the population (`MemberIndex.position`).

    Attributes
    ----------
    targets
        (n,) int64: rows of `LongitudinalData.targets`, sorted by their position.
    rank
        (n,) int64: rank of each target among them.
    """

    def __init__(self, data: LongitudinalData, position: np.ndarray):
        self.data, self._position = data, position
        self.targets = np.argsort(position[data.targets], kind="stable")
        self.rank = np.empty(len(self.targets), dtype=np.int64)
        self.rank[self.targets] = np.arange(len(self.targets))

    def __reduce__(self) -> tuple:
        # Sorting is repeated where it is needed.
        return SortedTargets, (self.data, self._position)

    @functools.cached_property
    def histories(self) -> tuple["SortedHistory", ...]:
        """D in this order: a copy, made when an engine first needs it."""
        histories = []
        for known, power in zip(self.data.known, self.data.power, strict=True):
            known = known.take(self.targets)
            samples = np.minimum(power[self.targets], known.counts)
            histories.append(SortedHistory(*(_small(column) for column in (known.offsets, known.codes, samples))))
        return tuple(histories)


@dataclass(frozen=True, eq=False)
class SortedHistory:
    """The known values of one history, with targets in the order of the bit-sets; small integer types save memory.

    Attributes
    ----------
    offsets, codes
        As in `Histories`.
    samples
        (n,) int: number of values that a draw of this target samples, min(p, N).
    """

    offsets: np.ndarray
    codes: np.ndarray
    samples: np.ndarray


def draw_in_order(targets: SortedTargets, stream_key: bytes, blocks: range) -> tuple[np.ndarray, Knowledge]:
    """Return some blocks of a stream, sorted.

    Returns
    -------
    order
        (B,) int64: position of each draw, counted from the first of these blocks.
    knowledge
        The draws, in that order.
    """
    drawn = joined([draw_knowledge(targets.data, stream_key, block) for block in blocks])
    order = order_of(targets.rank[drawn.targets])
    return order, drawn.take(order)


def order_of(places: np.ndarray) -> np.ndarray:
    """Return (B,) int64: the draws ordered by the places of their targets; ties keep their order.

    Examples
    --------
    >>> order_of(np.array([7, 2, 7, 0])).tolist()
    [3, 1, 0, 2]
    """
    # Place and draw in one word: sorting words is several times faster than an argsort.
    bits = len(places).bit_length()
    words = places << bits | np.arange(len(places))
    words.sort()
    return words & ((1 << bits) - 1)


def _small(numbers: np.ndarray) -> np.ndarray:
    """Return the same non-negative numbers in the smallest signed type that can hold them."""
    largest = numbers.max(initial=0)
    kinds = (np.int8, np.int16, np.int32, np.int64)
    return numbers.astype(next(kind for kind in kinds if largest <= np.iinfo(kind).max))
