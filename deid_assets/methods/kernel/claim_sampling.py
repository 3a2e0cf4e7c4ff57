"""Sampling of claim values without replacement, for many draws at once (methods#node-risk).

This is step 4.b.i.1 in section 5 of Multimedia Appendix 1 to El Emam et al. 2012.
"""

from collections.abc import Iterator

import numpy as np

from deid_assets.methods.population.longitudinal_data import Histories


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
