"""The noise of a count that may leave the restricted store, and what is shown beside it (methods#protected-counts).

A protected count is count + round(N(0, 2.5)); negative results are kept (Klann et al. 2018). Zeros get noise too, because a
zero shown as zero reveals absence. Descriptions of a small group (percentiles, shares) are replaced by 'T' based on the NOISY
count; based on the true count, "noisy 14 and T" would reveal a count of 1 to 10. `consistent` draws the noise.
"""

from typing import TypeVar

from scipy import special

NOISE_SD = 2.5
SMALLEST_DESCRIBED = 11
TOO_SMALL = "T"

_Shown = TypeVar("_Shown")
_FRACTION_BITS = 52  # of the uniform draw, so that its largest value is still below 1 as a double


def standard_normal(key: bytes) -> float:
    """Return a draw of N(0, 1), a function of a secret key of at least 8 uniform bytes."""
    draw = (int.from_bytes(key[:8]) >> (64 - _FRACTION_BITS)) + 0.5
    return float(special.ndtri(draw / 2**_FRACTION_BITS))


def shown_if_large(described: _Shown, noisy_count: int, smallest: int = SMALLEST_DESCRIBED) -> _Shown | str:
    """Return the description of a cell, or 'T' if the noisy count is below `smallest`. The count itself stays visible.

    Examples
    --------
    >>> shown_if_large({"median": 4}, noisy_count=10), shown_if_large(0.5, noisy_count=14)
    ('T', 0.5)
    """
    return described if noisy_count >= smallest else TOO_SMALL


def noise_probability(at_least: float, at_most: float, sd: float = NOISE_SD) -> float:
    """Return P(at_least <= noise <= at_most) for the rounded Gaussian; the limits are integers or infinite.

    Examples
    --------
    The noise is 0 (at most 1, at most 2 in size) with probability

    >>> [round(noise_probability(-n, n), 4) for n in (0, 1, 2)]
    [0.1585, 0.4515, 0.6827]
    """
    return float(special.ndtr((at_most + 0.5) / sd) - special.ndtr((at_least - 0.5) / sd))
