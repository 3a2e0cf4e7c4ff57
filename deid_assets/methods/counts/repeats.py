"""What independent repeats of one noisy count give away (methods#repeated-counts).

It is the reason for consistent noise: averages of fresh noise approach the true count.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import signal, special

from deid_assets.methods.counts.protected_counts import NOISE_SD, noise_probability

_TAIL = 9  # standard deviations at which the noise is cut: beyond lie 2e-19 of it
_ROUNDING_MATTERS = 20.0  # standard deviations up to here; beyond, rounding changes the chance by less than 1e-4
_GRID = 1 / 2000  # of a person, for means of draws of different widths


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
    unrounded = float(special.erf(0.5 * np.sqrt(sum(1 / sd**2 for sd in sds) / 2)))
    return max(unrounded, _rounded_mean(narrow) if narrow else 0.0)


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
