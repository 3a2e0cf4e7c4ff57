"""Counts that may leave the restricted store: keyed Gaussian noise (Klann et al. 2018; methods#protected-counts).

A protected count is count + round(N(0, 2.5)); negative results are kept. Zeros get noise too, because a zero shown as
zero reveals absence. Descriptions of a small group (percentiles, shares) are replaced by 'T' based on the NOISY count;
based on the true count, "noisy 14 and T" would reveal a count of 1 to 10.

The noise is a function of the secret, the delivery and the cell's DEFINITION, never of its records. Publishing the same
delivery again repeats the numbers, so repetition averages nothing out; a changed delivery redraws every cell. If the
noise depended on records, an unchanged cell would repeat and a changed one would not, which would reveal withdrawals.
"""

import hashlib
import hmac
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from scipy import special

NOISE_SD = 2.5
SMALLEST_DESCRIBED = 11
TOO_SMALL = "T"

Cell = str | Mapping[str, str | int | float | bool | None]
_Shown = TypeVar("_Shown")
_FRACTION_BITS = 52  # of the uniform draw, so that its largest value is still below 1 as a double


@dataclass(frozen=True)
class CountNoise:
    """The noise of one delivery's published counts.

    Attributes
    ----------
    secret
        Secret key used only for this purpose, at least 16 bytes; not shown by repr.
    delivery
        Digest of the delivery's content.
    sd
        Standard deviation of the Gaussian, in persons; after rounding it is sqrt(sd^2 + 1/12).

    Examples
    --------
    >>> noise = CountNoise(bytes(16), delivery="sha256:00")
    >>> noise.protect("members", 1000) - 1000 == noise.protect("members", 30) - 30
    True
    """

    secret: bytes = field(repr=False)
    delivery: str
    sd: float = NOISE_SD

    def __post_init__(self) -> None:
        if len(self.secret) < 16:
            raise ValueError("the secret that keys the noise must have at least 16 bytes")
        if not self.delivery:
            raise ValueError("the delivery's digest is empty; without it, noise would repeat between deliveries")
        if not (math.isfinite(self.sd) and self.sd > 0):
            raise ValueError("the noise needs a standard deviation above 0")

    def noise(self, cell: Cell) -> int:
        """Return the noise of a cell: round(N(0, sd)), a fixed function of secret, delivery and cell.

        Parameters
        ----------
        cell
            The cell's definition: a name, or the column values that define it, in any order.
        """
        definition = cell if isinstance(cell, str) else dict(cell)
        message = json.dumps(["protected count", self.delivery, definition], sort_keys=True, allow_nan=False)
        digest = hmac.new(self.secret, message.encode(), hashlib.sha256).digest()
        return round(self.sd * standard_normal(digest))

    def protect(self, cell: Cell, count: int) -> int:
        """Return the count plus the cell's noise; may be negative.

        Raises
        ------
        ValueError
            If the count is not a non-negative integer.
        """
        if isinstance(count, bool) or count != int(count) or count < 0:
            raise ValueError("a count to protect must be a whole number of at least 0")
        return int(count) + self.noise(cell)


def standard_normal(key: bytes) -> float:
    """Return a draw of N(0, 1), a function of a secret key of at least 8 uniform bytes."""
    draw = (int.from_bytes(key[:8]) >> (64 - _FRACTION_BITS)) + 0.5
    return float(special.ndtri(draw / 2**_FRACTION_BITS))


def shown_if_large(described: _Shown, noisy_count: int, smallest: int = SMALLEST_DESCRIBED) -> _Shown | str:
    """Return the description of a cell (or its noisy count itself), or 'T' if the noisy count is below `smallest`.

    Examples
    --------
    >>> shown_if_large({"median": 4}, noisy_count=10), shown_if_large(14, noisy_count=14)
    ('T', 14)
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
