"""Expected risk in classes whose size is partly random (methods#demographics-population).

A class holds g = c + X_1 + X_2 + .. people: c are certain, and X_i is binomial, because each of R_i people is in the class with
probability p_i. Expectations are sums over the distribution of g, not values at its mean: 1/g is convex, and 1/E[g] is too
small.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from deid_assets.methods.demographics.measures import Measure

_TAIL = 37.0
LEFT_OUT = 2 * np.exp(-_TAIL)
"""Sums leave out tails of at most this probability for each part, by Bernstein's inequality."""

_ELEMENTS = 1 << 14
"""Probabilities of a block, few enough for the cache of a processor."""

_NEVER = 1e-300
"""Takes the place of the ratio to an impossible number of people."""


@dataclass(frozen=True, eq=False)
class ClassSizes:
    """Sizes of classes.

    Attributes
    ----------
    certain
        (classes,) int: people who are in the class for certain, at least 1.
    rest
        (parts, classes) int: numbers R of people who may be in the class.
    share
        (parts, classes) float: their probability p of being in it.
    """

    certain: np.ndarray
    rest: np.ndarray
    share: np.ndarray


def plug_in(sizes: ClassSizes, measures: Sequence[Measure]) -> np.ndarray:
    """Return (measures, classes) float: the risk of a record in a class of exactly the expected size.

    Examples
    --------
    >>> two_known = ClassSizes(np.array([2]), np.array([[10]]), np.array([[0.2]]))
    >>> plug_in(two_known, [Measure("total")]).tolist()
    [[0.25]]
    """
    means = sizes.certain + np.sum(sizes.rest * sizes.share, axis=0)
    return np.stack([measure.of(means) for measure in measures])


def reciprocal_at_most(sizes: ClassSizes) -> np.ndarray:
    """Return (classes,) float: an upper bound of the expected 1/g, without a sum; exact where one person is certain.

    With Y = 1 / (1 + X), whose expectation for a binomial X has a closed form, 1 / (c + X) = Y / (1 + (c - 1) Y) is concave
    in Y. Of several parts only the largest is used: the others make g larger.

    References
    ----------
    Chao MT, Strawderman WE (1972). Negative moments of positive random variables. J Am Stat Assoc 67:429-431.

    Examples
    --------
    >>> two_known = ClassSizes(np.array([2]), np.array([[10]]), np.array([[0.2]]))
    >>> round(float(reciprocal_at_most(two_known)[0]), 4)
    0.2935
    """
    if not len(sizes.rest):
        return 1.0 / sizes.certain
    largest, classes = np.argmax(sizes.rest * sizes.share, axis=0), np.arange(len(sizes.certain))
    trials, share = sizes.rest[largest, classes] + 1, np.maximum(sizes.share[largest, classes], _NEVER)
    alone = np.minimum(-np.expm1(trials * np.log1p(-share)) / (trials * share), 1.0)
    return np.where(sizes.rest[largest, classes] > 0, alone / (1 + (sizes.certain - 1) * alone), 1.0 / sizes.certain)


def expected(sizes: ClassSizes, measures: Sequence[Measure]) -> tuple[np.ndarray, np.ndarray]:
    """Return the expected risk of a record in each class, and its variance.

    Returns
    -------
    (np.ndarray, np.ndarray)
        (measures, classes) float each.

    Examples
    --------
    >>> two_known = ClassSizes(np.array([2]), np.array([[10]]), np.array([[0.2]]))
    >>> round(float(expected(two_known, [Measure("total")])[0][0, 0]), 4)
    0.2782
    """
    first = np.stack([measure.of(sizes.certain.astype(np.float64)) for measure in measures])
    second = first**2
    parts = np.count_nonzero(sizes.rest * sizes.share, axis=0)
    single = np.flatnonzero(parts == 1)
    which = np.argmax(sizes.rest[:, single] * sizes.share[:, single] > 0, axis=0) if len(single) else single
    blocks = _binomials(sizes.rest[which, single], sizes.share[which, single]) if len(single) else iter(())
    for chosen, low, probability in blocks:
        _add_up(first, second, measures, single[chosen], sizes.certain[single[chosen]] + low, probability)
    for number in np.flatnonzero(parts > 1):
        low, probability = _sum_of_binomials(sizes.rest[:, number], sizes.share[:, number])
        chosen = np.array([number])
        _add_up(first, second, measures, chosen, sizes.certain[chosen] + low, probability[np.newaxis])
    return first, np.maximum(second - first**2, 0.0)


def _add_up(
    first: np.ndarray,
    second: np.ndarray,
    measures: Sequence[Measure],
    classes: np.ndarray,
    least: np.ndarray,
    probability: np.ndarray,
) -> None:
    """Write the first two moments for classes whose sizes are least, least + 1, .. with these probabilities."""
    sizes = (least[:, np.newaxis] + np.arange(probability.shape[1])).astype(np.float64)
    for number, measure in enumerate(measures):
        risk = measure.of(sizes)
        weighted = probability * risk
        first[number, classes] = weighted.sum(axis=1)
        second[number, classes] = np.sum(weighted * risk, axis=1)


def _binomials(rest: np.ndarray, share: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield blocks of binomial distributions: their positions, their least values, and (n, width) probabilities."""
    mean = rest * share
    reach = _TAIL / 3 + np.sqrt(_TAIL**2 / 9 + 2 * _TAIL * mean * (1 - share))
    low = np.maximum(np.floor(mean - reach), 0).astype(np.int64)
    high = np.minimum(np.ceil(mean + reach), rest).astype(np.int64)
    width = high - low + 1
    order = np.argsort(width, kind="stable")
    first = 0
    while first < len(order):
        # Rows of a block are as wide as its last; widths ascend, so that little is computed in vain.
        fits = width[order[first:]] * np.arange(1, len(order) - first + 1) <= _ELEMENTS
        chosen = order[first : first + max(1, int(np.argmin(fits)) if not fits.all() else len(fits))]
        yield chosen, low[chosen], _probabilities(rest[chosen], share[chosen], low[chosen], int(width[chosen[-1]]))
        first += len(chosen)


def _probabilities(rest: np.ndarray, share: np.ndarray, low: np.ndarray, width: int) -> np.ndarray:
    """Return (n, width) float: the binomial probabilities of low, low + 1, ..; 0 above R."""
    values = low[:, np.newaxis] + np.arange(width, dtype=np.float64)
    # Neighboring probabilities have the ratio (R - x + 1) p / (x (1 - p)). It is multiplied up in logarithms, because ratios
    # of large numbers of people overflow; in place, because this is where the time goes.
    steps = (rest + 1)[:, np.newaxis] - values
    np.divide(steps, np.maximum(values, 1.0, out=values), out=steps)
    steps *= (share / (1 - share))[:, np.newaxis]
    steps[:, 0] = 1.0
    np.log(np.maximum(steps, _NEVER, out=steps), out=steps)
    np.cumsum(steps, axis=1, out=steps)
    steps -= steps.max(axis=1, keepdims=True)
    np.exp(steps, out=steps)
    steps /= steps.sum(axis=1, keepdims=True)
    return steps


def _sum_of_binomials(rest: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least value of a sum of independent binomial numbers, (1,), and the probabilities from there on."""
    there = np.flatnonzero(rest * share > 0)
    blocks = [next(_binomials(rest[[part]], share[[part]])) for part in there]
    return np.sum([low for _, low, _ in blocks], axis=0), reduce(np.convolve, [only[0] for _, _, only in blocks])
