"""Membership disclosure: how much better than chance one can tell whether a member of the population is in the release.

Delta-presence (Nergiz, Atzori & Clifton 2007): an adversary who knows the population and what a member's class is holds
him to be in the release with probability delta = f / F, released members of his class over those of the population.
Where delta differs from class to class the release tells who is likely to be in it; with removal for sensitive
conditions, being absent or present is itself sensitive (methods#absence).

The advantage is the best that a guess can gain over a coin, when a member is drawn from inside or from outside with
equal chance: (right inside + right outside - 1) = total variation between the classes of those inside and those
outside, 1/2 sum |f_j / n - (F_j - f_j) / (N - n)|; balanced accuracy is (1 + advantage) / 2.

One who knows claims as well sees classes that are too many to list. Drawn members of the release suffice: by Bayes'
rule the odds that such knowledge comes from outside rather than inside are (1 - delta) alpha / (delta (1 - alpha)), and
the advantage is the mean of what they fall short of 1.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Membership:
    """How far classes tell who is in the release.

    Attributes
    ----------
    released, population
        n and N.
    least, greatest
        Least and greatest delta of a member of the population.
    least_size, greatest_size
        Members of the population in the smallest class that has it.
    percentiles
        5th, 50th and 95th percentile of delta over members of the population.
    advantage
        Of the best guess over a coin, in [0, 1]; 0 when nobody is inside or nobody outside.
    """

    released: int
    population: int
    least: float
    greatest: float
    least_size: int
    greatest_size: int
    percentiles: tuple[float, float, float]
    advantage: float


def membership(population_size: ArrayLike, released_size: ArrayLike) -> Membership:
    """Judge demographic classes, as `demographic_class_sizes` selects them.

    Parameters
    ----------
    population_size, released_size
        (classes,) F and f: members of each class in the population, and those of them who are released.

    Raises
    ------
    ValueError
        If a class has more released members than members, or the population is empty.

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
    return Membership(
        n, N, float(delta.min()), float(delta.max()), int(F[delta == delta.min()].min()), int(F[delta == delta.max()].min()),
        _percentiles(delta, F), advantage,
    )  # fmt: skip


def _percentiles(delta: NDArray, weight: NDArray) -> tuple[float, float, float]:
    """The delta that 5, 50 and 95 per cent of the population's members do not exceed."""
    order = np.argsort(delta, kind="stable")
    cumulated = np.cumsum(weight[order])
    low, middle, high = (float(delta[order][np.searchsorted(cumulated, share * cumulated[-1])]) for share in (0.05, 0.5, 0.95))
    return low, middle, high


def shortfalls(released_size: ArrayLike, population_size: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """Return, for knowledge of drawn members of the release, by how much the odds of being outside fall short of 1.

    Their mean is the advantage of an adversary who counts the members that fit what he knows.

    Parameters
    ----------
    released_size, population_size
        (draws,) f and F: members of the release and of the population who fit; f = 0 where the target's own record does
        not, because its long tail was cut.
    alpha
        n / N.

    Raises
    ------
    ValueError
        If alpha does not lie between 0 and 1, or a draw fits more members of the release than of the population.

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
