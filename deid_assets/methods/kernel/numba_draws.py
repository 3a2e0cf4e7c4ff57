"""The draws, compiled by numba: they sample in the order of the bit-sets, with the random numbers of the stream.

The result is that of `sorted_draws.draw_in_order`, bit for bit.
"""

import numpy as np

from deid_assets.methods.kernel.knowledge import Knowledge, start_block
from deid_assets.methods.kernel.numba_support import compiled
from deid_assets.methods.kernel.sorted_draws import SortedTargets, order_of


def draw_in_order(targets: SortedTargets, stream_key: bytes, blocks: range) -> tuple[np.ndarray, Knowledge]:
    """Compiled version of `sorted_draws.draw_in_order`."""
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
