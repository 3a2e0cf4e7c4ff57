"""What the adversary knows: draws of a target and some of its claim values (methods#node-risk, steps 4.a and 4.b.i.1).

A draw is a released member, chosen with replacement, and for each history h a sample without replacement of min(p_ih, N_ih)
of the member's values in D. Draws come in blocks. Block b of a stream depends only on the stream's key and b, so every node
of a lattice sees the same draws, and the number and order of workers do not matter. Search, suppression and gate use three
streams with three keys (methods#random-streams).

Claim values are sampled without replacement, for many draws at once. This is step 4.b.i.1 in section 5 of Multimedia Appendix
1 to El Emam et al. 2012.

`draw_in_order` gives blocks of draws in the order of the bit-sets, so that neighboring draws need the same memory. The stream
determines the order of draws and the use of each random number; the same draws are only reordered.
"""

import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from deid_assets.methods.population.longitudinal_data import Histories, LongitudinalData


def sampled_codes(generator: np.random.Generator, known: Histories, power: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Sample min(p, N) of its target's values of one history, for each draw.

    Parameters
    ----------
    generator
        Uses one random number per sampled value: first for all draws that sample at least one, ordered from those that
        sample most to those that sample least, then for all that sample a second one, and so on.
    known
        The values of all n targets in D.
    power
        (n,) int: p_ih.
    targets
        (B,) int64: the target of each draw.

    Returns
    -------
    np.ndarray
        (P, B) int32: base codes of each draw in its column, padded with -1.
    """
    starts = known.offsets[targets]
    counts = known.offsets[targets + 1] - starts
    sizes = np.minimum(power[targets], counts)
    sampled = np.full((int(sizes.max(initial=0)), len(targets)), -1, dtype=np.int32)
    for slot, (draws, positions) in enumerate(sample_positions(generator, counts, sizes)):
        sampled[slot, draws] = known.codes[starts[draws] + positions]
    return sampled


def sample_positions(
    generator: np.random.Generator, counts: np.ndarray, sizes: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Sample without replacement, for many draws at once, with Floyd's algorithm (Bentley and Floyd 1987).

    For j = N - m .. N - 1: take t uniform in 0..j, or j itself if t was taken before. Every m-subset of the N positions is
    equally likely, and m random numbers suffice.

    Parameters
    ----------
    counts, sizes
        (B,) int: N and m of each draw, 0 <= m <= N, m < 2**15.

    Yields
    ------
    draws, positions
        For the first, second, .. position: the draws that have one, and their positions; both int64.
    """
    # Draws that sample most come first, so that those still sampling at a step are a prefix.
    order = np.argsort(-sizes.astype(np.int16), kind="stable")
    counts, sizes = counts[order], sizes[order].astype(np.int64)
    most = int(sizes[0]) if len(sizes) else 0
    picked = np.empty((most, len(sizes)), dtype=np.int64)
    for step in range(most):
        active = int(np.searchsorted(-sizes, -step))
        last = counts[:active] - sizes[:active] + step
        # 53 random bits times at most 2**31: never rounds up to last + 1, and the bias is below 2**-22.
        chosen = (generator.random(active) * (last + 1)).astype(np.int64)
        taken = np.any(picked[:step, :active] == chosen, axis=0)
        picked[step, :active] = np.where(taken, last, chosen)
        yield order[:active], picked[step, :active]


DRAWS_PER_BLOCK = 8192
"""Part of the definition of a stream: changing it changes the draws."""


@dataclass(frozen=True, eq=False)
class Knowledge:
    """A block of draws, in the order in which they were drawn.

    Attributes
    ----------
    targets
        (B,) int64: the drawn targets, as rows of `LongitudinalData.targets`.
    codes
        For each history (P_h, B) int: the sampled base codes of each draw in its column, padded with -1.
    """

    targets: np.ndarray
    codes: tuple[np.ndarray, ...]

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def nbytes(self) -> int:
        """Memory used, in bytes."""
        return self.targets.nbytes + sum(codes.nbytes for codes in self.codes)

    def take(self, draws: np.ndarray) -> "Knowledge":
        """Return some of the draws, in that order."""
        return Knowledge(self.targets[draws], tuple(codes.take(draws, axis=1) for codes in self.codes))

    def of(self, histories: Sequence[int]) -> "Knowledge":
        """Return what is known of some histories only; nothing is of the others."""
        nothing = np.full((0, len(self)), -1, dtype=np.int32)
        return Knowledge(self.targets, tuple(own if h in histories else nothing for h, own in enumerate(self.codes)))

    def facts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return every known value as a row (draw, history, base code), for checks of the kernel by other means."""
        columns = []
        for history, codes in enumerate(self.codes):
            draw, slot = np.nonzero(codes.T >= 0)
            columns.append((draw, np.full(len(draw), history), codes[slot, draw]))
        if not columns:
            return (np.zeros(0, np.int64),) * 3
        draws, histories, values = (np.concatenate(column) for column in zip(*columns, strict=True))
        return draws, histories, values


def joined(blocks: Sequence[Knowledge]) -> Knowledge:
    """Concatenate several blocks of draws.

    Examples
    --------
    >>> few, more = Knowledge(np.array([5]), (np.array([[1]]),)), Knowledge(np.array([6]), (np.array([[2], [3]]),))
    >>> joined([few, more]).codes[0].tolist()
    [[1, 2], [-1, 3]]
    """
    if len(blocks) == 1:
        return blocks[0]
    codes = []
    for parts in zip(*(block.codes for block in blocks), strict=True):
        together = np.full((max(len(part) for part in parts), sum(part.shape[1] for part in parts)), -1, np.int32)
        ends = np.cumsum([part.shape[1] for part in parts])
        for part, end in zip(parts, ends, strict=True):
            together[: len(part), end - part.shape[1] : end] = part
        codes.append(together)
    return Knowledge(np.concatenate([block.targets for block in blocks]), tuple(codes))


def draw_knowledge(data: LongitudinalData, stream_key: bytes, block: int) -> Knowledge:
    """Draw one block of `DRAWS_PER_BLOCK` draws: members with replacement, and the known values of each.

    Parameters
    ----------
    stream_key
        16 secret bytes, derived by the caller for one purpose.
    block
        Block number, from 0.

    Raises
    ------
    ValueError
        If there is no target to draw.
    """
    generators, targets = start_block(data, stream_key, block)
    codes = [
        sampled_codes(generator, known, power, targets)
        for generator, known, power in zip(generators, data.known, data.power, strict=True)
    ]
    if data.knows.total is not None:
        codes = within_total(codes, ranks(data, stream_key, block, [len(own) for own in codes]), data.knows.total)
    return Knowledge(targets, tuple(codes))


def ranks(data: LongitudinalData, stream_key: bytes, block: int, slots: Sequence[int]) -> np.ndarray:
    """Draw the rank of every value that a block's draws may sample: of a total, those of the lowest ranks are known.

    The numbers are those of a stream of their own, by history and slot. So what is known of a draw depends on no node, a larger
    total keeps what a smaller one kept, and one more history changes no rank of the others.

    Parameters
    ----------
    slots
        Number of values that each history samples at most.

    Returns
    -------
    np.ndarray
        (sum of slots, B) float64 in [0, 1), history after history, in the order of the stream.
    """
    shared = range(len(data.known) - len(data.streams))
    names = (*map(str, shared), *data.streams)
    generators = (_generator(own_key(stream_key, f"rank of {name}"), block) for name in names)
    # Slot after slot, so that a rank does not depend on how many values others sample.
    drawn = [one.random((number, DRAWS_PER_BLOCK)) for one, number in zip(generators, slots, strict=True)]
    return np.concatenate([np.empty((0, DRAWS_PER_BLOCK)), *drawn])


def within_total(codes: Sequence[np.ndarray], ranks: np.ndarray, total: int) -> list[np.ndarray]:
    """Keep at most `total` values of each draw, those of the lowest ranks.

    Parameters
    ----------
    codes
        For each history (P_h, B) int, padded with -1.
    ranks
        (sum of P_h, B) float: the rank of each.

    Returns
    -------
    list of np.ndarray
        In the same shapes; what is kept of a draw comes first, and the rest is -1.

    Examples
    --------
    Two values of one history, one of another, and two of them known:

    >>> codes = [np.array([[7], [3]]), np.array([[5]])]
    >>> [own[:, 0].tolist() for own in within_total(codes, np.array([[0.9], [0.1], [0.5]]), 2)]
    [[3, -1], [5]]
    """
    if len(ranks) <= total:
        return list(codes)
    there = np.concatenate([own >= 0 for own in codes])
    sampled = np.where(there, ranks, np.inf)
    known = there & (sampled <= np.partition(sampled, total - 1, axis=0)[total - 1])
    kept, end = [], 0
    for own in codes:
        first, end = end, end + len(own)
        values = np.where(known[first:end], own, own.dtype.type(-1))
        kept.append(np.take_along_axis(values, np.argsort(values < 0, axis=0, kind="stable"), axis=0))
    return kept


def start_block(data: LongitudinalData, stream_key: bytes, block: int) -> tuple[list[np.random.Generator], np.ndarray]:
    """Draw a block's targets, (B,) int64, and return the generator of each history, which then samples what is known.

    The histories without a stream of their own share the generator that drew the targets, one after another. Parameters and
    errors are those of `draw_knowledge`.
    """
    if len(data.targets) == 0:
        raise ValueError("there is no released member to draw")
    generator = _generator(stream_key, block)
    own = [_generator(own_key(stream_key, name), block) for name in data.streams]
    generators = [generator] * (len(data.known) - len(own)) + own
    return generators, generator.integers(0, len(data.targets), DRAWS_PER_BLOCK)


def _generator(key: bytes, block: int) -> np.random.Generator:
    # The block's number is the highest word of Philox's counter; a block uses far fewer than 2**192 numbers.
    words = np.frombuffer(key, dtype="<u8").astype(np.uint64)
    return np.random.Generator(np.random.Philox(key=words, counter=[0, 0, 0, block]))


def own_key(stream_key: bytes, name: str) -> bytes:
    """Return the 16-byte key of a history's own random numbers within a stream."""
    return hashlib.blake2b(name.encode(), key=stream_key, digest_size=16).digest()


def targets_of(data: LongitudinalData, stream_key: bytes, blocks: Iterable[int]) -> np.ndarray:
    """Return (B,) int64: the targets of some blocks of a stream, in its order."""
    return np.concatenate([start_block(data, stream_key, block)[1] for block in blocks])


def draws_of_targets(data: LongitudinalData, stream_key: bytes, draws: int) -> np.ndarray:
    """Return (draws,) int64: the first targets of a stream, in its order."""
    return targets_of(data, stream_key, range(-(-draws // DRAWS_PER_BLOCK)))[:draws]


class SortedTargets:
    """The released members in the order of the bit-sets.

    Parameters
    ----------
    position
        (N,) int: where each member of the population is in that order; whoever shares a position stays in the order of targets.

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
