"""Membership disclosure: how much better than chance an adversary can tell whether a member is in the release.

Delta-presence (Nergiz, Atzori & Clifton 2007): delta = f / F is the probability, for an adversary who knows the population
and a member's class, that the member is in the release. f and F are the numbers of members of the class in the release
and in the population. If delta differs between classes, the release reveals who is likely to be in it. When members are
removed for sensitive conditions, presence or absence is itself sensitive (methods#absence).

The advantage is the largest gain of a guess over a coin toss when the member is drawn from inside or outside the release
with equal probability: (correct inside + correct outside - 1). It equals the total variation distance between the class
distributions of members inside and outside, 1/2 sum |f_j / n - (F_j - f_j) / (N - n)|. Balanced accuracy is
(1 + advantage) / 2.

An adversary who also knows claims sees too many classes to list. A sample of released members is enough: by Bayes' rule
the odds that such knowledge comes from outside rather than inside the release are (1 - delta) alpha / (delta (1 - alpha)),
and the advantage is the mean shortfall of these odds below 1.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Membership:
    """How much equivalence classes reveal about who is in the release.

    Attributes
    ----------
    least, greatest
        Smallest and largest delta of a member of the population.
    percentiles
        5th, 50th and 95th percentile of delta over members of the population.
    advantage
        Gain of the best guess over a coin toss, in [0, 1]; 0 if nobody is inside or nobody is outside the release.
    """

    least: float
    greatest: float
    percentiles: tuple[float, float, float]
    advantage: float


def membership(population_size: ArrayLike, released_size: ArrayLike) -> Membership:
    """Measure membership disclosure from demographic classes, as selected by `demographic_class_sizes`.

    Parameters
    ----------
    population_size, released_size
        (classes,) F and f: members of each class in the population, and released members among them.

    Raises
    ------
    ValueError
        If a class has more released members than members, or if the population is empty.

    Examples
    --------
    >>> found = membership([10, 30], [5, 5])
    >>> found.least, found.greatest, found.advantage
    (0.16666666666666666, 0.5, 0.33333333333333337)
    """
    F = np.asarray(population_size, dtype=np.int64)  # noqa: N806
    f = np.asarray(released_size, dtype=np.int64)
    if F.shape != f.shape or (f > F).any() or (f < 0).any():
        raise ValueError("a class cannot have more released members than members of the population")
    f, F = f[F > 0], F[F > 0]  # noqa: N806
    if not F.size:
        raise ValueError("the population has no members")
    delta = f / F
    n, N = int(f.sum()), int(F.sum())  # noqa: N806
    advantage = 0.0
    if 0 < n < N:
        advantage = float(np.abs(f / n - (F - f) / (N - n)).sum() / 2)
    return Membership(float(delta.min()), float(delta.max()), _percentiles(delta, F), advantage)


def _percentiles(delta: NDArray, weight: NDArray) -> tuple[float, float, float]:
    """Return the 5th, 50th and 95th percentile of delta over the population's members."""
    order = np.argsort(delta, kind="stable")
    cumulated = np.cumsum(weight[order])
    low, middle, high = (float(delta[order][np.searchsorted(cumulated, share * cumulated[-1])]) for share in (0.05, 0.5, 0.95))
    return low, middle, high


def shortfalls(released_size: ArrayLike, population_size: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """Return how far the odds of being outside the release fall short of 1, for knowledge of sampled released members.

    The mean is the advantage of an adversary who counts the members that match their knowledge.

    Parameters
    ----------
    released_size, population_size
        (draws,) f and F: matching members of the release and of the population; f = 0 if the target's own record does not
        match because its long tail was truncated.
    alpha
        Sampling fraction n / N.

    Raises
    ------
    ValueError
        If alpha is not between 0 and 1, or if a draw matches more members of the release than of the population.

    Examples
    --------
    Who fits alone and is in the release is known to be in it; who fits as many as alpha says is not:

    >>> shortfalls([1, 1, 0], [1, 10, 5], 0.1).round(6)
    array([1., 0., 0.])
    """
    f, F = np.asarray(released_size, dtype=float), np.asarray(population_size, dtype=float)  # noqa: N806
    if not 0 < alpha < 1:
        raise ValueError(f"the sampling fraction is {alpha}; it must lie between 0 and 1")
    if (f > F).any() or (f < 0).any():
        raise ValueError("what is known cannot fit more members of the release than of the population")
    odds = np.divide((F - f) * alpha, f * (1 - alpha), out=np.ones_like(f), where=f > 0)
    return np.clip(1.0 - odds, 0.0, 1.0)
