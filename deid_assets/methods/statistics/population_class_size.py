"""Estimate the size of a class in the population from its size in the sample (methods#class-size).

See El Emam & Dankar 2008; Dankar & El Emam 2010.

If the delivery is the population, F is counted and gates need no estimate. These estimators are reported beside the
count, and gate only if the population is not available (a public extract of a large register). f is the size of a class
in the sample, at least 1; alpha is the sampling fraction; F is the size in the population.

==================  ================================================================================================
large_sample        F = f / alpha. Unsafe for small alpha: at alpha <= .05 every class "is" 20.
truncated_poisson   f given f >= 1 is zero-truncated Poisson with mean alpha F (El Emam & Dankar 2008).
truncated_binomial  f given f >= 1 is zero-truncated binomial (ours; better above alpha = .2, exact at alpha = 1).
posterior           1 / E[1/F given f] in the model of mu-Argus: F - f is negative binomial.
test                No estimate: f counts as F if a class of F - 1 would rarely show f or more (2008, from memory).
==================  ================================================================================================

The bounds reported with these cover the simulation error, not the uncertainty of F.

The share at high risk in a larger population can be told from the class sizes of a smaller one (methods#members-needed).

The class of a draw holds the target and each of the other N - 1 members of the population with the probability p that a
random person fits what the adversary knows. So F - 1 is about Poisson with mean (N - 1) p, and with m times that mean in a
population m times as large whose people are alike. The distribution of these means is unknown, and nothing tells a class that
would stay alone for ever from one that is just too small. Every distribution that explains the sizes observed is therefore
considered: a linear program finds the least and the largest share among them (Efron and Thisted 1976, with a range for the
share of each group of sizes in place of its value).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy import special

from deid_assets.methods.statistics.confidence import wilson_interval

Estimator = Literal["large_sample", "truncated_poisson", "truncated_binomial", "posterior", "test"]

# A Poisson estimate this far below the required F still counts as F: at alpha = .5, f = 10 gives 19.998 for F = 20.
POISSON_TOLERANCE = 0.01
TEST_LEVEL = 0.1
_ROUND_OFF = 1e-9


def _checked(f: ArrayLike, alpha: float) -> NDArray[np.float64]:
    _check_alpha(alpha)
    sizes = np.asarray(f, dtype=float)
    if not ((sizes >= 1) & (sizes == np.floor(sizes))).all():
        raise ValueError("a class size in the sample is a whole number of at least 1")
    return sizes


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha <= 1:
        raise ValueError(f"the sampling fraction is {alpha}; it must be above 0 and at most 1")


def large_sample(f: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """Return F = f / alpha, the large-sample simplification of equations 3 and 5 (methods#risk-equations)."""
    return _checked(f, alpha) / alpha


def truncated_poisson_mean(f: ArrayLike) -> NDArray[np.float64]:
    """Return the maximum-likelihood mean of a zero-truncated Poisson from one observation.

    It solves lambda / (1 - exp(-lambda)) = f, that is lambda = f + W0(-f exp(-f)); 0 for f = 1.

    Examples
    --------
    >>> truncated_poisson_mean([1, 2, 3]).round(6)
    array([0.      , 1.593624, 2.821439])
    """
    f = np.asarray(f, dtype=float)
    mean = f + special.lambertw(-f * np.exp(-f)).real
    return np.where(f <= 1, 0.0, mean)  # the branch point: W0(-1/e) = -1, where the digits are lost


def truncated_poisson(f: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """Return F = max(f, lambda / alpha), real-valued, with lambda from the zero-truncated Poisson.

    Examples
    --------
    >>> truncated_poisson([3, 4, 5], alpha=0.2).round(1)
    array([14.1, 19.6, 24.8])
    """
    sizes = _checked(f, alpha)
    return np.maximum(sizes, truncated_poisson_mean(sizes) / alpha)


def truncated_binomial(f: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """Return the whole F that maximizes log C(F, f) + F log(1 - alpha) - log(1 - (1 - alpha)^F).

    Among equally likely F, the smallest is returned, which is the cautious choice. The likelihood rises and then falls,
    and truncation at zero moves its maximum below floor(f / alpha). A bisection on the ratio of neighbors, between f and
    that value, finds it.

    Examples
    --------
    >>> truncated_binomial([1, 2, 3, 4, 5, 6], alpha=0.2)
    array([ 1.,  8., 14., 19., 24., 29.])
    """
    sizes = _checked(f, alpha)
    if alpha == 1:
        return sizes
    log_absent = math.log1p(-alpha)

    def rises_after(population: NDArray[np.float64]) -> NDArray[np.bool_]:
        ratio = np.log(population + 1) - np.log(population + 1 - sizes) + log_absent
        ratio += np.log(-np.expm1(population * log_absent)) - np.log(-np.expm1((population + 1) * log_absent))
        return ratio > 1e-12

    low = sizes.copy()
    high = np.maximum(sizes, np.floor(sizes / alpha) + 1)
    while (low < high).any():
        middle = np.floor((low + high) / 2)
        rises = rises_after(middle)
        low, high = np.where(rises & (low < high), middle + 1, low), np.where(rises, high, middle)
    return low


def posterior_risk(f: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """Return E[1/F given f], the expected probability of a correct match, in the model of mu-Argus.

    It is (alpha^f / f) 2F1(f, f; f + 1; 1 - alpha), evaluated by its Euler transform
    (alpha / f) 2F1(1, 1; f + 1; 1 - alpha), which neither overflows nor cancels.

    Examples
    --------
    >>> posterior_risk([1, 2, 3], alpha=0.1).round(6)
    array([0.255843, 0.082684, 0.046368])
    """
    sizes = _checked(f, alpha)
    return alpha / sizes * special.hyp2f1(1, 1, sizes + 1, 1 - alpha)


def estimated_class_size(f: ArrayLike, alpha: float, estimator: Estimator) -> NDArray[np.float64]:
    """Return the estimated population size of classes of size f; `test` gives no estimate and raises ValueError."""
    estimators: dict[Estimator, Callable[[ArrayLike, float], NDArray[np.float64]]] = {
        "large_sample": large_sample,
        "truncated_poisson": truncated_poisson,
        "truncated_binomial": truncated_binomial,
        "posterior": lambda sizes, fraction: 1 / posterior_risk(sizes, fraction),
    }
    if estimator not in estimators:
        raise ValueError(f"the estimator must be one of {', '.join(estimators)}")
    return estimators[estimator](f, alpha)


def minimum_sample_class_size(alpha: float, estimator: Estimator, F: int = 20) -> int:  # noqa: N803
    """Return k, the smallest class size in the sample that counts as a class of at least F in the population.

    Records in sample classes smaller than k are at high risk. For alpha = 1 the sample is the population, and k is F for
    every estimator.

    Parameters
    ----------
    alpha
        Sampling fraction, above 0, at most 1.
    estimator
        One of those in the module docstring. truncated_poisson is compared with a tolerance of .01 in F.
    F
        Required class size in the population, ceil(1 / risk threshold).

    Raises
    ------
    ValueError
        If a parameter has an invalid value.

    Examples
    --------
    >>> [minimum_sample_class_size(0.1, name) for name in ("large_sample", "truncated_poisson", "test")]
    [2, 3, 5]
    """
    _check_alpha(alpha)
    if F < 1:
        raise ValueError(f"the class size wanted in the population is {F}; it must be at least 1")
    if alpha == 1 or F == 1:
        return int(F)
    if estimator == "test":
        return _smallest_surprising(alpha * (F - 1))
    sizes = np.arange(1, F + 1)
    slack = POISSON_TOLERANCE if estimator == "truncated_poisson" else _ROUND_OFF * F
    counts_as_large = estimated_class_size(sizes, alpha, estimator) >= F - slack
    return int(sizes[np.argmax(counts_as_large)])  # f = F always counts: no estimator is below f


def _smallest_surprising(mean: float) -> int:
    """Return the smallest f with P(X >= f given X >= 1) <= TEST_LEVEL for a Poisson X of this mean."""
    size = 1
    while scipy.stats.poisson.sf(size - 1, mean) > TEST_LEVEL * -math.expm1(-mean):
        size += 1
    return size


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
        solved = scipy.optimize.linprog(objective, *self._ranges, np.ones((1, len(_MEANS))), [self.shares.sum()])
        return float(solved.fun) if solved.success and solved.fun is not None else None

    @cached_property
    def _ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and limits: the share of each group of sizes is within its range."""
        level = 1 - (1 - self.confidence) / len(_LARGEST)
        ranges = np.array(
            [wilson_interval(round(share * self.trials), self.trials, level) for share in self.shares[: len(_LARGEST)]]
        )
        explained = np.diff(scipy.stats.poisson.cdf(_LARGEST[:, None] - 1, _MEANS), axis=0, prepend=0.0)
        return np.concatenate([explained, -explained]), np.concatenate([ranges[:, 1], -ranges[:, 0]])


def _smaller(k: int, times: float) -> np.ndarray:
    """Return the probability that a class is smaller than k, by its mean now."""
    return np.asarray(scipy.stats.poisson.cdf(k - 2, times * _MEANS))
