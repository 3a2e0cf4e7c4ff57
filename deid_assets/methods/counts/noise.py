"""Noisy tables of counts: what is drawn, for which cells, and what is shown (methods#noisy-counts).

The discrete Gaussian distribution is sampled exactly, in integer arithmetic. Floating-point noise does not have the
distribution that a proof of differential privacy assumes. This sampler has: it compares random whole numbers only.
"""

import hashlib
import hmac
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from math import isqrt

import numpy as np

from deid_assets.errors import CountsError
from deid_assets.methods.counts.protected_counts import NOISE_SD, noise_probability
from deid_assets.methods.counts.tables import THRESHOLD, CellName, CountTables, Sum

_STEP_OF_SCRIPT = 5
_NUMBER_OF_SCRIPT = "N"
_TAIL = 9  # standard deviations at which the noise is cut: beyond lie 2e-19 of it


class Mechanism(StrEnum):
    """How noise is drawn."""

    ROUNDED = "rounded"
    """round(N(0, sd)), as in Klann et al. (2018)."""
    DISCRETE = "discrete"
    """The discrete Gaussian: its differential privacy also holds for the numbers that a computer really draws."""
    SCRIPT = "script"
    """floor(N(0, sd)), then the sum rounded to the nearest 5: what the published SAS script does. Its mean is -.5.

    In a row with a column N that counts people, a true N of 1 to 10 masks the whole row, and one of 0 is shown. Both tell the
    truth about N, so this option is not differentially private for such tables.
    """


class Zeros(StrEnum):
    """What becomes of counts of 0."""

    NOISY = "noisy"
    SHOWN = "shown"
    """Shown as 0 and listed, so that sums know which have no noise. They tell that nobody is in the cell."""


class Claims(StrEnum):
    """What becomes of cells to which one person contributes more than 1."""

    SCALED = "scaled"
    """Their noise is that many times wider."""
    MASKED = "masked"
    DROPPED = "dropped"


@dataclass(frozen=True)
class NoiseRule:
    """How counts become noisy.

    Attributes
    ----------
    sd
        Standard deviation of the noise, in persons.
    mechanism, zeros, claims
        See there.
    """

    sd: float = NOISE_SD
    mechanism: Mechanism = Mechanism.ROUNDED
    zeros: Zeros = Zeros.NOISY
    claims: Claims = Claims.SCALED

    def __post_init__(self) -> None:
        if not (math.isfinite(self.sd) and self.sd > 0):
            raise CountsError("the noise needs a standard deviation above 0")


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Noisy tables.

    Attributes
    ----------
    cells
        Names of the cells that are shown or masked.
    counts
        int64 array, negative ones kept; 0 where `masked`.
    sd
        float64 array: standard deviation of the noise in each cell; 0 for zeros without noise, the reference that sums need,
        and infinite where the cell is masked.
    sums
        Those of cells that were not dropped. Noisy counts do not obey them.
    contribution
        int64 array, as in `CountTables`.
    dropped
        Names of the cells that are not published at all.
    """

    cells: tuple[CellName, ...]
    counts: np.ndarray
    sd: np.ndarray
    sums: tuple[Sum, ...]
    contribution: np.ndarray
    dropped: tuple[CellName, ...]

    @property
    def masked(self) -> np.ndarray:
        """Whether a cell is masked, a bool array."""
        return np.isinf(self.sd)


Draw = Callable[[CellName, float], int]
"""The noise of a cell at a standard deviation, such as `consistent.ConsistentNoise.draw`."""


def add_noise(tables: CountTables, rule: NoiseRule, draw: Draw) -> NoisyCounts:
    """Return tables with noise in every cell.

    Parameters
    ----------
    tables
        True counts.
    rule
        How.
    draw
        Gives the noise of a cell.

    References
    ----------
    Klann JG et al. (2018), Proposed Solution and Table 3.

    Examples
    --------
    >>> names = CellName("sex", "F", "people"), CellName("sex", "F", "claims")
    >>> tables = CountTables(names, np.array([7, 90]), contribution=np.array([1, 100]))
    >>> noisy = add_noise(tables, NoiseRule(), lambda cell, sd: round(sd))
    >>> noisy.counts.tolist(), noisy.sd.tolist()
    ([9, 340], [2.5, 250.0])
    """
    of_claims = tables.contribution > 1
    in_low_row, is_zero_number = (
        _by_number(tables) if rule.mechanism is Mechanism.SCRIPT else np.zeros((2, len(of_claims)), bool)
    )
    kept = np.flatnonzero(~of_claims) if rule.claims is Claims.DROPPED else np.arange(len(tables.cells))
    names = tuple(tables.cells[i] for i in kept)
    sd = rule.sd * tables.contribution[kept].astype(float)
    if rule.claims is Claims.MASKED:
        sd[of_claims[kept]] = np.inf
    if rule.zeros is Zeros.SHOWN:
        sd[(tables.counts[kept] == 0) & np.isfinite(sd)] = 0.0
    sd[in_low_row[kept]] = np.inf
    sd[is_zero_number[kept] & np.isfinite(sd)] = 0.0
    is_noisy = np.isfinite(sd) & (sd > 0)
    noise = np.array([draw(name, width) if noisy else 0 for name, width, noisy in zip(names, sd, is_noisy, strict=True)])
    counts = np.where(np.isinf(sd), 0, tables.counts[kept] + noise.astype(np.int64))
    if rule.mechanism is Mechanism.SCRIPT:
        counts = np.where(is_noisy, nearest_step(counts), counts)
    dropped = set(tables.cells) - set(names)
    sums = tuple(one for one in tables.sums if dropped.isdisjoint((one.total, *one.parts)))
    in_order = tuple(name for name in tables.cells if name in dropped)
    return NoisyCounts(names, counts, sd, sums, tables.contribution[kept], in_order)


def _by_number(tables: CountTables) -> np.ndarray:
    """Cells of rows whose N is small, and cells that are an N of 0."""
    number = {
        (name.table, name.row): int(count)
        for name, count in zip(tables.cells, tables.counts, strict=True)
        if name.column == _NUMBER_OF_SCRIPT
    }
    of_row = np.array([number.get((name.table, name.row), -1) for name in tables.cells])
    is_number = np.array([name.column == _NUMBER_OF_SCRIPT for name in tables.cells], bool)
    return np.array([(of_row > 0) & (of_row < THRESHOLD), is_number & (of_row == 0)])


def nearest_step(counts: np.ndarray, step: int = _STEP_OF_SCRIPT) -> np.ndarray:
    """Return whole numbers rounded to the nearest multiple of an odd step.

    Examples
    --------
    >>> nearest_step(np.array([-3, -2, 2, 3, 7])).tolist()
    [-5, 0, 0, 5, 5]
    """
    return step * ((counts + step // 2) // step)


def noise_distribution(sd: float = NOISE_SD, mechanism: Mechanism = Mechanism.ROUNDED) -> np.ndarray:
    """Return the probability of every value of the noise, symmetric around 0: of -n, ..., 0, ..., n.

    Parameters
    ----------
    sd
        Standard deviation of the Gaussian, above 0, in persons.
    mechanism
        Rounded or discrete. The script's noise depends on the count, and has no distribution of its own.

    Raises
    ------
    CountsError
        For the script.

    References
    ----------
    Klann JG et al. (2018), Figure 1.

    Examples
    --------
    Noise of 0 to 3, and the variance of each:

    >>> for mechanism in (Mechanism.ROUNDED, Mechanism.DISCRETE):
    ...     found = noise_distribution(2.5, mechanism)
    ...     middle = len(found) // 2
    ...     print(found[middle : middle + 4].round(4), (found @ (np.arange(len(found)) - middle) ** 2).round(4))
    [0.1585 0.1465 0.1156 0.0779] 6.3333
    [0.1596 0.1473 0.1159 0.0777] 6.25
    """
    reach = math.ceil(_TAIL * sd) + 1
    if mechanism is Mechanism.ROUNDED:
        return np.array([noise_probability(noise, noise, sd) for noise in range(-reach, reach + 1)])
    if mechanism is Mechanism.DISCRETE:
        weights = np.exp(-((np.arange(-reach, reach + 1) / sd) ** 2) / 2)
        return weights / weights.sum()
    raise CountsError("the noise of the script depends on the count: only rounded and discrete noise have a distribution")


def noise_variance(sd: np.ndarray | float, mechanism: Mechanism = Mechanism.ROUNDED) -> np.ndarray:
    """Return the variance of the noise that is added: not that of the Gaussian before it is rounded.

    It is sd^2 + 1/12 of the rounded Gaussian and sd^2 of the discrete one, both to six digits from a standard deviation of 1
    on. That of narrower noise is summed up.

    Parameters
    ----------
    sd
        Standard deviation of the Gaussian, of any shape, at least 0; 0 is no noise.
    mechanism
        Rounded or discrete.

    Raises
    ------
    CountsError
        For the script.

    Examples
    --------
    >>> noise_variance(np.array([0.0, 0.2, 1.33, 2.5])).round(4).tolist()
    [0.0, 0.0124, 1.8522, 6.3333]
    """
    widths = np.asarray(sd, float)
    found = widths**2 + (1 / 12 if mechanism is Mechanism.ROUNDED else 0.0)
    for narrow in np.unique(widths[widths < 1]):
        probabilities = noise_distribution(narrow, mechanism) if narrow else np.ones(1)
        values = np.arange(len(probabilities)) - len(probabilities) // 2
        found = np.where(widths == narrow, probabilities @ values**2, found)
    return found


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
