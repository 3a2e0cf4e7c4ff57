"""What independent repeats of one noisy count give away (methods#repeated-counts).

It is the reason for consistent noise: averages of fresh noise approach the true count.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np
from scipy import signal, special

from deid_assets.methods.counts.protected_counts import NOISE_SD, noise_probability

_TAIL = 9  # standard deviations at which the noise is cut: beyond lie 2e-19 of it
_RUN = 5
_ROUNDING_MATTERS = 20.0  # standard deviations up to here; beyond, rounding changes the chance by less than 1e-4
_GRID = 1 / 2000  # of a person, for means of draws of different widths
_CATALAN = 0.915965594177219


class Converged(StrEnum):
    """When a running average counts as converged: it is less than .5 away from the true count."""

    FOR_GOOD = "for good"
    """From a repeat on for ever; the repeats until then. What the words of Murphy and Chueh (2002) define."""
    RUN_OF_5 = "run of 5"
    """At 5 repeats in a row; the repeats until the end of that run. Reproduces the 24 of Klann et al. (2018)."""


def chance_of_exact_average(repeats: int, sd: float = NOISE_SD, rounded: bool = True) -> float:
    """Return the probability that the average of independent repeats is less than .5 away from the true count.

    Parameters
    ----------
    repeats
        Number of repeats.
    sd
        Standard deviation of the Gaussian, in persons.
    rounded
        Whether the noise is rounded to whole numbers.

    Examples
    --------
    A lockout of 10 at 1.33, and 24 repeats at 2.5, do not keep the count secret:

    >>> [round(chance_of_exact_average(*case), 3) for case in [(10, 1.33), (10, 2.5), (20, 2.5), (24, 2.5)]]
    [0.705, 0.428, 0.602, 0.649]
    """
    if not rounded:
        return float(special.erf(0.5 * np.sqrt(repeats / 2) / sd))
    total = _sum_of_rounded(sd, repeats)
    sums = np.arange(len(total)) - len(total) // 2
    return float(total[2 * np.abs(sums) < repeats].sum())


def chance_of_exact_mean(sds: Sequence[float]) -> float:
    """Return the probability that the best mean of independent draws of one count is less than .5 away from it.

    The weights are 1 / sd^2: no unbiased mean has a smaller variance. Of rounded and unrounded noise, the larger probability is
    returned.

    Parameters
    ----------
    sds
        Standard deviation of the Gaussian of each draw, above 0, in persons.

    Examples
    --------
    Ten draws at 2.5, of which five could also have been narrower or wider:

    >>> [round(chance_of_exact_mean([2.5] * 5 + [sd] * 5), 2) for sd in (1.33, 2.5, 5.0)]
    [0.66, 0.47, 0.38]
    """
    # Rounding matters only to narrow noise; leaving out wide draws is one of the adversary's choices.
    narrow = Counter(sd for sd in sds if sd <= _ROUNDING_MATTERS)
    return max(_unrounded_mean(sds), _rounded_mean(narrow) if narrow else 0.0)


def _unrounded_mean(sds: Sequence[float]) -> float:
    return float(special.erf(0.5 * np.sqrt(sum(1 / sd**2 for sd in sds) / 2)))


def _rounded_mean(draws: Mapping[float, int]) -> float:
    """At least the probability for rounded noise, by number of draws of each standard deviation."""
    if len(draws) == 1:
        ((sd, repeats),) = draws.items()
        return chance_of_exact_average(repeats, sd)
    total = sum(repeats / sd**2 for sd, repeats in draws.items())
    mean = np.ones(1)
    for sd, repeats in draws.items():
        sums = _sum_of_rounded(sd, repeats)
        reach = len(sums) // 2
        at = np.rint(np.arange(-reach, reach + 1) / (sd**2 * total) / _GRID).astype(np.int64)
        mean = signal.fftconvolve(mean, np.bincount(at - at[0], sums))
    # A point of each group is off by half a step at most: whatever may be inside counts.
    middle = (len(mean) - 1) // 2
    inside = int(np.floor(0.5 / _GRID + len(draws) / 2))
    return min(1.0, float(mean[max(0, middle - inside) : middle + inside + 1].sum()))


def _sum_of_rounded(sd: float, repeats: int) -> np.ndarray:
    """Probabilities of the sum of rounded draws, symmetric around 0."""
    reach = int(np.ceil(_TAIL * sd)) + 1
    one = np.array([noise_probability(noise, noise, sd) for noise in range(-reach, reach + 1)])
    total = np.ones(1)
    for _ in range(repeats):
        total = signal.fftconvolve(total, one) if len(total) > 500 else np.convolve(total, one)
    return total


def repeats_until_converged(
    sd: float, converged: Converged, draws: np.random.Generator, runs: int = 20_000, horizon: int = 2_000
) -> np.ndarray:
    """Simulate attackers who average fresh rounded noise; return how many repeats each needed.

    Such a number is no guarantee: with the standard deviation 2.5, a single answer is exact with probability .159.

    Parameters
    ----------
    sd
        Standard deviation of the Gaussian, in persons.
    converged
        Which definition.
    draws
        Where randomness comes from.
    runs
        Number of attackers.
    horizon
        Repeats that are simulated. An average that leaves for good only later counts as converged earlier.

    Returns
    -------
    ndarray of shape (runs,), int64
    """
    found = np.empty(runs, np.int64)
    at_once = max(1, 20_000_000 // horizon)
    number = np.arange(1, horizon + 1)
    for start in range(0, runs, at_once):
        size = min(at_once, runs - start)
        sums = np.cumsum(np.rint(draws.normal(0, sd, (size, horizon))), axis=1)
        inside = 2 * np.abs(sums) < number
        if converged is Converged.FOR_GOOD:
            found[start : start + size] = horizon - np.argmin(inside[:, ::-1], axis=1) + 1
            found[start : start + size][inside.all(axis=1)] = 1
        else:
            outside = np.cumsum(np.pad(~inside, ((0, 0), (1, 0))), axis=1)
            has_ended = outside[:, _RUN:] == outside[:, :-_RUN]
            found[start : start + size] = np.where(has_ended.any(axis=1), np.argmax(has_ended, axis=1) + _RUN, horizon)
    return found


def asymptotic_repeats(sd: float) -> float:
    """Return the mean number of repeats until an average is within .5 for good, for continuous noise and large `sd`.

    Examples
    --------
    >>> round(asymptotic_repeats(1.33), 2), round(asymptotic_repeats(2.5), 1)
    (12.96, 45.8)
    """
    return 2 * _CATALAN * (sd / 0.5) ** 2
