"""The share at high risk in a larger population, told from the class sizes of a smaller one.

The class of a draw holds the target and each of the other N - 1 members of the population with the probability p that a
random person fits what the adversary knows. So F - 1 is about Poisson with mean (N - 1) p, and with m times that mean in a
population m times as large whose people are alike. The distribution of these means is unknown, and nothing tells a class that
would stay alone for ever from one that is just too small. Every distribution that explains the sizes observed is therefore
considered: a linear program finds the least and the largest share among them (Efron and Thisted 1976, with a range for the
share of each group of sizes in place of its value).
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import optimize, stats

from deid_assets.methods.statistics.confidence import wilson_interval

_LARGEST = np.array([1, 2, 3, 5, 8, 13, 20, 32, 50, 80, 128, 200])
"""Largest class size of each group of sizes; one more group has no end and no range."""
LARGEST_SIZE = 200
"""Sizes above it are not told apart."""
_MEANS = np.concatenate([[0.0], np.geomspace(1e-3, 2_000, 240)])


def size_shares(sizes: np.ndarray) -> np.ndarray:
    """Return the share of draws in each group of class sizes.

    Parameters
    ----------
    sizes
        (draws,) integer: members in the class, including the target; 0 for a draw that is not at risk in any population.

    Returns
    -------
    ndarray
        (13,) float64. They add up to 1 without the draws that are not at risk.
    """
    groups = np.searchsorted(_LARGEST, sizes[sizes > 0])
    return np.bincount(groups, minlength=len(_LARGEST) + 1) / len(sizes)


def independent_trials(halves: np.ndarray, released: int) -> float:
    """Return how many independent draws tell as much about the shares of sizes as a whole population does.

    Members of a class are found together, so that n members are worth n / (1 + e) independent ones. Random halves of the
    population differ by the variance of a half. Their classes are half as large, so that e is twice what they show.

    Parameters
    ----------
    halves
        (halvings, 2, groups) float64: `size_shares` of both halves.
    released
        Number of members drawn from.

    Examples
    --------
    Halves of 500 members each that are as alike as independent draws:

    >>> small = np.random.default_rng(1).binomial(500, 0.3, size=(400, 2)) / 500
    >>> 850 < independent_trials(np.stack([small, 1 - small], axis=2), 1_000) <= 1_000
    True
    """
    mean, of_a_half = halves.mean(axis=(0, 1)), (np.diff(halves, axis=1) ** 2 / 2).mean(axis=(0, 1))
    worth = (mean * (1 - mean)).sum() / max(of_a_half.sum(), 1e-12)
    return float(released / (1 + 2 * max(0.0, released / 2 / worth - 1)))


@dataclass(frozen=True, eq=False)
class Explained:
    """Every distribution of classes that explains the shares of sizes which a population has.

    Attributes
    ----------
    shares
        (13,) float64, see `size_shares`.
    trials
        Number of independent draws that the shares are taken to be worth, so that some distribution explains them.
    """

    shares: np.ndarray
    trials: int
    confidence: float

    @classmethod
    def of(cls, shares: np.ndarray, trials: float, confidence: float = 0.95) -> "Explained":
        """Return the distributions that explain the shares, each group of sizes within its range.

        Parameters
        ----------
        shares
            (13,) float64, see `size_shares`.
        trials
            Number of independent draws that the shares are worth. It is halved until some distribution of classes explains
            them: classes that are more alike than those of random people are explained by none.
        confidence
            Probability that the shares of all groups of sizes are within the ranges used.
        """
        found = cls(shares, max(1, int(trials)), confidence)
        while found.trials > 1 and found._minimum(np.zeros(len(_MEANS))) is None:
            found = replace(found, trials=found.trials // 2)
        return found

    def least(self, k: int, times: float) -> float:
        """Return the least share of draws in classes smaller than k in a population so many times as large, of like people.

        Examples
        --------
        Ten thousand people in classes of about ten, which are about twenty if there are twice as many:

        >>> shares = size_shares(1 + np.random.default_rng(1).poisson(9, 10_000))
        >>> found = Explained.of(shares, 10_000)
        >>> [[round(end(20, times), 1) for end in (found.least, found.largest)] for times in (1, 2, 4)]
        [[1.0, 1.0], [0.5, 0.6], [0.0, 0.0]]
        """
        found = self._minimum(_smaller(k, times))
        return 0.0 if found is None else min(max(found, 0.0), 1.0)

    def largest(self, k: int, times: float) -> float:
        """Return the largest such share."""
        found = self._minimum(-_smaller(k, times))
        return 1.0 if found is None else min(max(-found, 0.0), 1.0)

    def _minimum(self, objective: np.ndarray) -> float | None:
        """Return the least mean of a number for each of `_MEANS` over the distributions; None if the solver finds none."""
        solved = optimize.linprog(objective, *self._ranges, np.ones((1, len(_MEANS))), [self.shares.sum()])
        return float(solved.fun) if solved.success and solved.fun is not None else None

    @cached_property
    def _ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and limits: the share of each group of sizes is within its range."""
        level = 1 - (1 - self.confidence) / len(_LARGEST)
        ranges = np.array(
            [wilson_interval(round(share * self.trials), self.trials, level) for share in self.shares[: len(_LARGEST)]]
        )
        explained = np.diff(stats.poisson.cdf(_LARGEST[:, None] - 1, _MEANS), axis=0, prepend=0.0)
        return np.concatenate([explained, -explained]), np.concatenate([ranges[:, 1], -ranges[:, 0]])


def _smaller(k: int, times: float) -> np.ndarray:
    """Return the probability that a class is smaller than k, by its mean now."""
    return np.asarray(stats.poisson.cdf(k - 2, times * _MEANS))
