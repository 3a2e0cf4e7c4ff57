"""Blocks of draws in the order of the bit-sets, so that neighbouring draws ask for the same memory.

A stream says in which order draws come and which random number serves what (`knowledge`, `claim_sampling`); here the
same draws are only put into another order.
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
        (N,) int64: where each member of the population stands (`MemberIndex.position`).

    Attributes
    ----------
    targets
        (n,) int64: rows of `LongitudinalData.targets`, sorted by their position.
    place
        (n,) int64: where each target stands among them.
    """

    def __init__(self, data: LongitudinalData, position: np.ndarray):
        self.data, self._position = data, position
        self.targets = np.argsort(position[data.targets], kind="stable")
        self.place = np.empty(len(self.targets), dtype=np.int64)
        self.place[self.targets] = np.arange(len(self.targets))

    def __reduce__(self) -> tuple:
        # What is sorted is sorted again where it is needed.
        return SortedTargets, (self.data, self._position)

    @functools.cached_property
    def histories(self) -> tuple["SortedHistory", ...]:
        """D in this order: a copy, made when an engine first asks for it."""
        histories = []
        for known, power in zip(self.data.known, self.data.power, strict=True):
            known = known.take(self.targets)
            samples = np.minimum(power[self.targets], known.counts)
            histories.append(SortedHistory(*(_small(column) for column in (known.offsets, known.codes, samples))))
        return tuple(histories)


@dataclass(frozen=True, eq=False)
class SortedHistory:
    """The known values of one history, targets in the order of the bit-sets; small integers, for memory is what costs.

    Attributes
    ----------
    offsets, codes
        As in `Histories`.
    samples
        (n,) int: how many values a draw of this target samples, min(p, N).
    """

    offsets: np.ndarray
    codes: np.ndarray
    samples: np.ndarray


def draw_in_order(targets: SortedTargets, stream_key: bytes, blocks: range) -> tuple[np.ndarray, Knowledge]:
    """Some blocks of a stream, sorted.

    Returns
    -------
    order
        (B,) int64: which draw stands here, counted from the first of these blocks.
    knowledge
        The draws, in that order.
    """
    drawn = joined([draw_knowledge(targets.data, stream_key, block) for block in blocks])
    order = order_of(targets.place[drawn.targets])
    return order, drawn.take(order)


def order_of(places: np.ndarray) -> np.ndarray:
    """(B,) int64: which draws stand first, second, .., by the places of their targets; equal ones keep their order.

    Examples
    --------
    >>> order_of(np.array([7, 2, 7, 0])).tolist()
    [3, 1, 0, 2]
    """
    # Place and draw in one word: sorting words is several times faster than finding out how to sort them.
    bits = len(places).bit_length()
    words = places << bits | np.arange(len(places))
    words.sort()
    return words & ((1 << bits) - 1)


def _small(numbers: np.ndarray) -> np.ndarray:
    """The same numbers, none of them negative, in the smallest signed type that has room for them."""
    largest = numbers.max(initial=0)
    kinds = (np.int8, np.int16, np.int32, np.int64)
    return numbers.astype(next(kind for kind in kinds if largest <= np.iinfo(kind).max))
