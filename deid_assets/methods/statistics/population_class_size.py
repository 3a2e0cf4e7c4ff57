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
"""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

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
    while stats.poisson.sf(size - 1, mean) > TEST_LEVEL * -math.expm1(-mean):
        size += 1
    return size
