"""An exact sampler of the discrete Gaussian distribution, in integer arithmetic (methods#noisy-counts).

Floating-point noise does not have the distribution that a proof of differential privacy assumes. This sampler has: it
compares random whole numbers only.
"""

import hashlib
import hmac
from dataclasses import dataclass, field
from fractions import Fraction
from math import isqrt


@dataclass(eq=False)
class KeyedNumbers:
    """An endless stream of uniform random whole numbers, a function of its key (HMAC-SHA256 in counter mode).

    Parameters
    ----------
    key
        At least 16 secret bytes.
    """

    key: bytes = field(repr=False)
    _block: int = 0
    _bits: int = 0
    _left: int = 0

    def __post_init__(self) -> None:
        if len(self.key) < 16:
            raise ValueError("the key of a stream must have at least 16 bytes")

    def below(self, limit: int) -> int:
        """Return a number that is uniform on 0 to `limit` - 1."""
        width = (limit - 1).bit_length()
        while True:
            while self._left < width:
                digest = hmac.new(self.key, self._block.to_bytes(8), hashlib.sha256).digest()
                self._bits = self._bits << 256 | int.from_bytes(digest)
                self._left, self._block = self._left + 256, self._block + 1
            self._left -= width
            drawn, self._bits = self._bits >> self._left, self._bits & ((1 << self._left) - 1)
            if drawn < limit:
                return drawn


def discrete_gaussian(variance: Fraction, numbers: KeyedNumbers) -> int:
    """Return a draw of the discrete Gaussian: x with probability proportional to exp(-x^2 / (2 `variance`)).

    Added to a count to which one person contributes at most 1, it is 1 / (2 `variance`)-zCDP.

    Parameters
    ----------
    variance
        Above 0; the variance of the draws is at most this, and nearly equal from 1 on.
    numbers
        Where randomness comes from.

    References
    ----------
    Canonne CL, Kamath G, Steinke T (2020). The discrete Gaussian for differential privacy. NeurIPS 33. arXiv:2004.00010,
    algorithms 1 to 3, theorem 4.

    Examples
    --------
    >>> numbers = KeyedNumbers(bytes(32))
    >>> draws = [discrete_gaussian(Fraction(25, 4), numbers) for _ in range(5)]
    >>> all(isinstance(draw, int) for draw in draws)
    True
    """
    if variance <= 0:
        raise ValueError("the variance of noise must be above 0")
    variance = Fraction(variance)
    scale = isqrt(variance.numerator // variance.denominator) + 1
    while True:
        drawn = _discrete_laplace(scale, numbers)
        if _happens_exp((abs(drawn) - variance / scale) ** 2 / (2 * variance), numbers):
            return drawn


def _discrete_laplace(scale: int, numbers: KeyedNumbers) -> int:
    """Draw x with probability proportional to exp(-|x| / scale)."""
    while True:
        fine = numbers.below(scale)
        if not _happens_exp(Fraction(fine, scale), numbers):
            continue
        coarse = 0
        while _happens_exp(Fraction(1), numbers):
            coarse += 1
        size, is_negative = fine + scale * coarse, numbers.below(2)
        if size or not is_negative:  # or 0 would have two chances
            return -size if is_negative else size


def _happens_exp(exponent: Fraction, numbers: KeyedNumbers) -> bool:
    """Return True with probability exp(-exponent)."""
    while exponent > 1:
        if not _happens_exp(Fraction(1), numbers):
            return False
        exponent -= 1
    often = 1
    while numbers.below(exponent.denominator * often) < exponent.numerator:
        often += 1
    return often % 2 == 1
