"""The share at high risk in a larger population, told from the class sizes of a smaller one.

The class of a draw holds the target and each of the other N - 1 members of the population with the probability p that a
random person fits what the adversary knows. So F - 1 is about Poisson with mean (N - 1) p, and with m times that mean in a
population m times as large whose people are alike. The distribution of these means is unknown, and nothing tells a class that
would stay alone for ever from one that is just too small. Every distribution that explains the sizes observed is therefore
considered: a linear program finds the least and the largest share among them (Efron and Thisted 1976, with a range for the
share of each group of sizes in place of its value).
"""

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


def shares_in_larger(shares: np.ndarray, trials: float, k: int, times: float, confidence: float = 0.95) -> tuple[float, float]:
    """Return the least and the largest share of draws in classes smaller than k, in a larger population of like people.

    Parameters
    ----------
    shares
        (13,) float64, see `size_shares`.
    trials
        Number of independent draws that the shares are worth. It is halved until some distribution of classes explains them:
        classes that are more alike than those of random people are explained by none.
    k
        Class size below which risk is high.
    times
        How many times as large the population is.
    confidence
        Probability that the shares of all groups of sizes are within the ranges used.

    Examples
    --------
    Ten thousand people in classes of about ten, which are about twenty if there are twice as many:

    >>> shares = size_shares(1 + np.random.default_rng(1).poisson(9, 10_000))
    >>> [[round(end, 1) for end in shares_in_larger(shares, 10_000, 20, times)] for times in (1, 2, 4)]
    [[1.0, 1.0], [0.5, 0.6], [0.0, 0.0]]
    """
    explained = np.diff(stats.poisson.cdf(_LARGEST[:, None] - 1, _MEANS), axis=0, prepend=0.0)
    level = 1 - (1 - confidence) / len(_LARGEST)

    def feasible(objective: np.ndarray, number: int) -> float | None:
        ranges = np.array([wilson_interval(round(share * number), number, level) for share in shares[: len(_LARGEST)]])
        rows, limits = np.concatenate([explained, -explained]), np.concatenate([ranges[:, 1], -ranges[:, 0]])
        solved = optimize.linprog(objective, rows, limits, np.ones((1, len(_MEANS))), [shares.sum()])
        return float(solved.fun) if solved.success and solved.fun is not None else None

    number = max(1, int(trials))
    while number > 1 and feasible(np.zeros(len(_MEANS)), number) is None:
        number //= 2
    small = np.asarray(stats.poisson.cdf(k - 2, times * _MEANS))
    least, largest = feasible(small, number), feasible(-small, number)
    # What the solver leaves open is anything from 0 to 1.
    return (0.0 if least is None else min(max(least, 0.0), 1.0)), (1.0 if largest is None else min(max(-largest, 0.0), 1.0))
