"""Confidence bounds for shares and means estimated by simulation.

They cover Monte Carlo error only: neither the uncertainty of an estimated population class size nor the adversary's
model (methods#confidence). Say so wherever they are shown.

`scipy.stats.binomtest` is not used for the intervals: it needs milliseconds instead of microseconds, finds the bounds of
Clopper and Pearson by a search with a tolerance of 2e-12 instead of as quantiles of the Beta distribution, and accepts no
sample without trials. Quantiles are those of `scipy.special`, so that a command that only reads a policy, which is validated
with them, does not import `scipy.stats`.
"""

import math

import numpy as np
import scipy

TRIES_AT_MOST = 3
"""Maximum number of times draws may judge a release after refusals by chance, including the first."""

CERTAINTY = 0.99
"""Probability with which `range_on_fresh_trials` bounds a number."""


def confidence_of_try(confidence: float, number: int) -> float:
    """Return the confidence of one try, so that all tries together accept an unsafe release as rarely as one try would.

    Try i errs with at most 1/2^i of the error probability that the stated confidence allows; these sum to less than all of it.

    Parameters
    ----------
    confidence
        Confidence stated in the policy, for all tries together.
    number
        Number of the try; 1 for the first.

    Examples
    --------
    >>> [round(confidence_of_try(0.99, number), 6) for number in (1, 2, 3)]
    [0.995, 0.9975, 0.99875]
    """
    if number < 1:
        raise ValueError("the first try has the number 1")
    return 1 - (1 - confidence) / 2**number


def wilson_interval(hits: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the two-sided score interval of Wilson (1927) for a share.

    It is valid for a number of trials fixed in advance. At a stopping time that depends on the hits, it is only descriptive.

    Parameters
    ----------
    hits, trials
        0 <= hits <= trials. With no trials the interval is (0, 1).

    Examples
    --------
    >>> [round(bound, 4) for bound in wilson_interval(0, 100)]
    [0.0, 0.037]
    """
    _check(hits, trials, confidence)
    if trials == 0:
        return 0.0, 1.0
    z, share = -float(scipy.special.ndtri((1 - confidence) / 2)), hits / trials
    scale = 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    # With no hits or only hits the interval ends at 0 or 1 exactly; rounding must not change that.
    return (0.0 if hits == 0 else max(0.0, centre - half)), (1.0 if hits == trials else min(1.0, centre + half))


def clopper_pearson_interval(hits: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact two-sided interval of Clopper and Pearson (1934); its coverage is at least `confidence`.

    Examples
    --------
    >>> [round(bound, 4) for bound in clopper_pearson_interval(0, 100)]
    [0.0, 0.0362]
    """
    _check(hits, trials, confidence)
    tail = (1 - confidence) / 2
    lower = 0.0 if hits == 0 else float(scipy.special.betaincinv(hits, trials - hits + 1, tail))
    upper = 1.0 if hits == trials else float(scipy.special.betainccinv(hits + 1, trials - hits, tail))
    return lower, upper


def clopper_pearson_upper_bound(hits: int, trials: int, confidence: float = 0.99) -> float:
    """Return the exact one-sided upper bound of Clopper and Pearson for a share; gates compare it with a threshold.

    Examples
    --------
    >>> round(clopper_pearson_upper_bound(0, 1000, 0.99), 6)
    0.004595
    """
    _check(hits, trials, confidence)
    return 1.0 if hits == trials else float(scipy.special.betainccinv(hits + 1, trials - hits, 1 - confidence))


def empirical_bernstein_upper_bound(values: np.ndarray, value_range: float, confidence: float = 0.99) -> float:
    """Return a one-sided upper bound on the mean of independent values in [0, value_range].

    Maurer and Pontil (2009), theorem 4: mean + sqrt(2 V ln(2/delta) / n) + 7 range ln(2/delta) / (3 (n - 1)) with the
    unbiased sample variance V. It is used for means of alpha I / |class|, where Wilson's interval does not apply.

    Parameters
    ----------
    values
        (n,) float, n >= 2.
    value_range
        Largest possible value, known before the values are observed.

    Raises
    ------
    ValueError
        If there are fewer than two values, or if a value is outside the range.
    """
    values = np.asarray(values, dtype=np.float64)
    if len(values) < 2:
        raise ValueError("the bound needs at least two values")
    if not 0 < confidence < 1:
        raise ValueError("confidence must lie between 0 and 1")
    if values.min() < 0 or values.max() > value_range:
        raise ValueError("a value is outside [0, value_range]")
    mean, variance = float(values.mean()), float(values.var(ddof=1))
    return mean + _bernstein_margin(variance, len(values), value_range, confidence)


def range_on_fresh_trials(values: np.ndarray, value_range: float, trials: int, confidence: float | None) -> tuple[float, float]:
    """Predict the number that a gate compares with its threshold on fresh trials, from trials already made.

    The gate compares the empirical Bernstein bound of `trials` fresh values, or their mean. The number varies by about the
    standard error of the mean of the gate's draws, and its centre is estimated with the error of the given values. Both are
    taken as normal. The result helps to choose what the gate will judge; it decides nothing itself.

    Parameters
    ----------
    values
        (m,) float in [0, value_range], m >= 2: trials on a stream other than the gate's.
    trials
        Number of the gate's trials.
    confidence
        Confidence of the gate's bound; None if the gate compares the mean.

    Returns
    -------
    (float, float)
        The gate's number is below the upper end with probability `CERTAINTY`, at least. The lower end is the limit of the
        upper end as more values are given. If it is above the threshold, more trials will
        not help. If the upper end is within the threshold, there is room for the gate's draws.

    Examples
    --------
    >>> values = np.tile([0.0, 0.1], 5_000)
    >>> [round(float(end), 4) for end in range_on_fresh_trials(values, 1.0, 10_000, None)]
    [0.05, 0.0516]
    >>> [round(float(end), 4) for end in range_on_fresh_trials(values, 1.0, 10_000, 0.99)]
    [0.0529, 0.0545]
    """
    mean, variance = float(values.mean()), float(values.var(ddof=1))
    centre = mean if confidence is None else mean + _bernstein_margin(variance, trials, value_range, confidence)
    z, ours, theirs = -float(scipy.special.ndtri(1 - CERTAINTY)), variance / len(values), variance / trials
    return centre - z * math.sqrt(ours) + z * math.sqrt(theirs), centre + z * math.sqrt(ours + theirs)


def _bernstein_margin(variance: float, trials: int, value_range: float, confidence: float) -> float:
    log_term = math.log(2 / (1 - confidence))
    return math.sqrt(2 * variance * log_term / trials) + 7 * value_range * log_term / (3 * (trials - 1))


def _check(hits: int, trials: int, confidence: float) -> None:
    if not 0 <= hits <= trials:
        raise ValueError("hits must lie between 0 and the number of trials")
    if not 0 < confidence < 1:
        raise ValueError("confidence must lie between 0 and 1")
