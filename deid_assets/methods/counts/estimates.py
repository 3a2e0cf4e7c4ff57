"""The adversary of noisy tables: the best linear estimate of every count (methods#noisy-count-estimates).

Sums hold for the true counts, so noisy totals say something about noisy parts. Weighted least squares combines them: no
linear unbiased estimate has a smaller variance (Gauss and Markov).

What independent repeats of one noisy count give away (methods#repeated-counts) is the reason for consistent noise: averages of
fresh noise approach the true count.

Consistent noise is one draw per cell, delivery, shape and mechanism, keyed by a secret (methods#noisy-counts).

The same cell of the same delivery has the same noise in every table and every release, so that repetition averages nothing
out. A changed delivery redraws every cell. The noise never depends on the records of a cell: otherwise an unchanged cell
would repeat and a changed one would not, which tells whether somebody was withdrawn.

The key includes mechanism and standard deviation. One draw scaled to two widths would be two equations with two unknowns,
and give the exact count.
"""

import hashlib
import hmac
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

import numpy as np
import scipy
from scipy import sparse, special

from deid_assets.errors import CountsError
from deid_assets.methods.counts.noise import KeyedNumbers, Mechanism, discrete_gaussian, noise_distribution
from deid_assets.methods.counts.protected_counts import NOISE_SD, standard_normal
from deid_assets.methods.counts.tables import CellName, Sum, sum_matrix

_ROUNDING_MATTERS = 20.0  # standard deviations up to here; beyond, rounding changes the chance by less than 1e-4
_GRID = 1 / 2000  # of a person, for means of draws of different widths


def chance_of_exact_average(
    repeats: int, sd: float = NOISE_SD, rounded: bool = True, mechanism: Mechanism = Mechanism.ROUNDED
) -> float:
    """Return the probability that the average of independent repeats is less than .5 away from the true count.

    Parameters
    ----------
    repeats
        Number of repeats.
    sd
        Standard deviation of the Gaussian, in persons.
    rounded
        Whether the noise is whole numbers.
    mechanism
        How whole numbers are drawn: rounded or discrete.

    Examples
    --------
    A lockout of 10 at 1.33, and 24 repeats at 2.5, do not keep the count secret:

    >>> [round(chance_of_exact_average(*case), 3) for case in [(10, 1.33), (10, 2.5), (20, 2.5), (24, 2.5)]]
    [0.705, 0.428, 0.602, 0.649]
    """
    if not rounded:
        return float(special.erf(0.5 * np.sqrt(repeats / 2) / sd))
    total = _sum_of_draws(noise_distribution(sd, mechanism), repeats)
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
        sums = _sum_of_draws(noise_distribution(sd), repeats)
        reach = len(sums) // 2
        at = np.rint(np.arange(-reach, reach + 1) / (sd**2 * total) / _GRID).astype(np.int64)
        mean = _convolved(mean, np.bincount(at - at[0], sums))
    # A point of each group is off by half a step at most: whatever may be inside counts.
    middle = (len(mean) - 1) // 2
    inside = int(np.floor(0.5 / _GRID + len(draws) / 2))
    return min(1.0, float(mean[max(0, middle - inside) : middle + inside + 1].sum()))


def _sum_of_draws(one: np.ndarray, repeats: int) -> np.ndarray:
    """Probabilities of the sum of so many draws, symmetric around 0, given those of one."""
    total = np.ones(1)
    for _ in range(repeats):
        total = _convolved(total, one) if len(total) > 500 else np.convolve(total, one)
    return total


def _convolved(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """What `scipy.signal.fftconvolve` returns, to the last bit; to import that module takes longer than small tables."""
    length = len(one) + len(other) - 1
    size = scipy.fft.next_fast_len(length, real=True)
    return np.asarray(scipy.fft.irfft(scipy.fft.rfft(one, size) * scipy.fft.rfft(other, size), size)[:length])


CHANCE_AT_MOST = 0.5
"""By default, an adversary's best guess of a count must not be more likely right than wrong."""
_RANK, _WIDE = 1e-10, 1e8


@dataclass(frozen=True, eq=False)
class EstimateAudit:
    """How well an adversary can estimate every count of noisy tables.

    Attributes
    ----------
    cells
        Names.
    estimates
        float64 array: the best linear estimate.
    sd
        float64 array: its standard deviation; 0 where the sums give the count, infinite where nothing does.
    variance_factors
        float64 array: its variance over that of the noise in the cell alone. Of a masked cell 0 if the sums give an estimate,
        else nan; nan where the count is exact.
    chances
        float64 array: probability that an adversary names the count, at most: that the estimate is less than .5 away from it
        or, with a single publication, that the noise is 0. 1 for exact counts.
    """

    cells: tuple[CellName, ...]
    estimates: np.ndarray
    sd: np.ndarray
    variance_factors: np.ndarray
    chances: np.ndarray

    def disclosed(self, at_most: float = CHANCE_AT_MOST) -> np.ndarray:
        """Positions of the noisy and masked cells whose count is named with a higher probability."""
        return np.flatnonzero((self.chances > at_most) & ~np.isnan(self.variance_factors))


def estimate_audit(
    cells: Sequence[CellName], sums: Sequence[Sum], counts: np.ndarray, sd: np.ndarray, repeats: int = 1
) -> EstimateAudit:
    """Estimate every count of noisy tables as an adversary would.

    Parameters
    ----------
    cells, sums
        Names, and the sums that hold for the true counts.
    counts
        Noisy counts; where there are several repeats, their mean.
    sd
        Standard deviation of the Gaussian in each cell before rounding: 0 where the count is exact, infinite where it is
        masked.
    repeats
        Number of publications with independent noise that the adversary averages.

    Raises
    ------
    CountsError
        If exact counts contradict a sum.

    References
    ----------
    Aitken AC (1936). On least squares and linear combinations of observations. Proc R Soc Edinb 55:42-48.
    doi:10.1017/S0370164600014346

    Examples
    --------
    Two parts and their total:

    >>> names = tuple(CellName("sex", "all", name) for name in ("total", "F", "M"))
    >>> sums = [Sum("sex", names[0], names[1:])]
    >>> found = estimate_audit(names, sums, np.array([101, 98, 5]), np.full(3, 2.5))
    >>> found.variance_factors.round(3).tolist(), found.estimates.round(2).tolist()
    ([0.667, 0.667, 0.667], [101.67, 97.33, 4.33])
    """
    matrix = sum_matrix(cells, sums)
    # The rounding adds 1/12 to the variance of a Gaussian with more than one person's width.
    variance = np.where(sd > 0, (sd**2 + 1 / 12) / repeats, 0.0)
    rounding = np.where(np.isfinite(sd) & (sd > 0), (1 / 12) / (sd**2 + 1 / 12), 0.0)
    estimates, left = counts.astype(float), variance.copy()
    for inside, rows in _components(matrix):
        part = matrix[rows][:, inside].toarray().astype(float)
        estimates[inside], left[inside] = _adjusted(part, estimates[inside], variance[inside])
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = np.where(variance > 0, left / variance, np.nan)
        # Without the variance of the rounding, which an average of repeats rounds away again.
        chances = np.where(left > 0, special.erf(0.5 / np.sqrt(2 * left * np.where(variance > 0, 1 - rounding, 1.0))), 1.0)
    if repeats == 1:
        chances = np.maximum(chances, np.where(np.isfinite(sd), _chance_of_no_noise(sd), 0.0))
    return EstimateAudit(tuple(cells), estimates, np.sqrt(left), factors, chances)


def chances_of_repeated_cells(cells: Sequence[CellName], sums: Sequence[Sum], draws: Sequence[Sequence[float]]) -> np.ndarray:
    """Return the probability with which an adversary names each count who combines all draws of all cells with the sums.

    Parameters
    ----------
    cells, sums
        Names, and the sums that hold for the true counts.
    draws
        Standard deviations of all independent draws of each cell, maybe of different widths; of an exact count 0, of a count
        that is not shown none.

    Returns
    -------
    ndarray of shape (cells,), float64
        The larger one of two: that the best linear estimate is less than .5 away, for noise that is not rounded; and that the
        best mean of the cell's own draws is, for rounded noise, or that a single draw is 0. 1 for exact counts.

    Examples
    --------
    >>> names = (CellName("sex", "F", "people"),)
    >>> [chances_of_repeated_cells(names, [], [sds]).round(2).tolist() for sds in ([2.5], [2.5] * 10, [2.5] + [1.5] * 9)]
    [[0.16], [0.47], [0.69]]
    """
    exact = np.array([min(one, default=1.0) == 0 for one in draws], bool)
    precision = np.array([sum(1 / sd**2 for sd in one) if not known else 1.0 for one, known in zip(draws, exact, strict=True)])
    variance = np.where(exact, 0.0, np.divide(1.0, precision, out=np.full(len(draws), np.inf), where=precision > 0))
    left = variance.copy()
    matrix = sum_matrix(cells, sums)
    for inside, rows in _components(matrix):
        part = matrix[rows][:, inside].toarray().astype(float)
        _, left[inside] = _adjusted(part, np.zeros(len(inside)), variance[inside])
    with np.errstate(divide="ignore"):
        chances = np.where(left > 0, special.erf(0.5 / np.sqrt(2 * left)), 1.0)
    alone = {one: _chance_alone(one) for one in {tuple(one) for one in draws}}
    return np.maximum(chances, [alone[tuple(one)] for one in draws])


def _chance_alone(sds: tuple[float, ...]) -> float:
    """The chance of the draws of one cell without its sums."""
    if not sds or min(sds) == 0:
        return float(len(sds) > 0)
    return max(chance_of_exact_mean(sds), float(_chance_of_no_noise(np.array(sds)).max()))


def _chance_of_no_noise(sd: np.ndarray) -> np.ndarray:
    """Probability that the discrete Gaussian is 0; that of the rounded one is smaller."""
    away = np.arange(1, 40)
    weight = np.exp(-(away**2) / (2 * np.minimum(np.maximum(sd, 1e-3), 4.0)[:, None] ** 2)).sum(axis=1)
    return np.where(sd > 4, 1 / (np.sqrt(2 * np.pi) * np.maximum(sd, 1.0)), 1 / (1 + 2 * weight))


def _components(matrix: sparse.csr_array) -> list[tuple[np.ndarray, np.ndarray]]:
    """Cells and sums of every connected component with a sum."""
    links = matrix.tocoo()
    sums, cells = links.shape
    graph = sparse.coo_array((np.ones(links.nnz), (links.row, links.col + sums)), shape=(sums + cells, sums + cells))
    label = scipy.sparse.csgraph.connected_components(graph, directed=False)[1]
    return [(np.flatnonzero(label[sums:] == one), np.flatnonzero(label[:sums] == one)) for one in np.unique(label[:sums])]


def _adjusted(matrix: np.ndarray, counts: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Best linear estimates given `matrix` @ x = 0, and their variances."""
    unknown = np.isinf(variance)
    widest = variance[~unknown].max(initial=1.0)
    # A masked cell is a count with very wide noise; what stays that wide is not known.
    variance = np.where(unknown, _WIDE * widest, variance)
    scaled = matrix * np.sqrt(variance)
    left_vectors, size, right = np.linalg.svd(scaled, full_matrices=False)
    is_used = size > _RANK * size.max(initial=0.0)
    misfit = matrix @ counts
    used = left_vectors[:, is_used]
    if np.abs(misfit - used @ (used.T @ misfit)).max(initial=0.0) > 1e-6 * (1 + np.abs(counts).max(initial=0.0)):
        raise CountsError("counts without noise contradict a sum")
    correction = np.sqrt(variance) * (right[is_used].T @ ((used.T @ misfit) / size[is_used]))
    leverage = (right[is_used] ** 2).sum(axis=0)
    left = variance * np.clip(1 - leverage, 0.0, 1.0)
    return counts - correction, np.where(left > np.sqrt(_WIDE) * widest, np.inf, left)


SECRET_BYTES_AT_LEAST = 16


@dataclass(frozen=True)
class ConsistentNoise:
    """The noise of all tables that one policy makes of one delivery.

    Attributes
    ----------
    secret
        Key used for this purpose only, at least 16 bytes; not shown by repr.
    delivery
        Digest of the delivery's content.
    shape
        What of the policy shapes the counts: its sections by name, or a digest of them. Two policies with other sections
        have independent noise.
    mechanism
        How noise is drawn.

    Examples
    --------
    >>> noise = ConsistentNoise(bytes(32), "sha256:1", {"removal": "a"})
    >>> cell = CellName("age", "40-49", "people")
    >>> noise.draw(cell, 2.5) == ConsistentNoise(bytes(32), "sha256:1", {"removal": "a"}).draw(cell, 2.5)
    True
    """

    secret: bytes = field(repr=False)
    delivery: str
    shape: Mapping[str, object] | str
    mechanism: Mechanism = Mechanism.ROUNDED

    def __post_init__(self) -> None:
        if len(self.secret) < SECRET_BYTES_AT_LEAST:
            raise CountsError(f"the secret that keys the noise must have at least {SECRET_BYTES_AT_LEAST} bytes")
        if not self.delivery:
            raise CountsError("the delivery's digest is empty; without it, noise would repeat between deliveries")

    @property
    def identity(self) -> str:
        """What these draws are, in hexadecimal: equal for noise that repeats, and it tells nothing about the secret."""
        return self._keyed("identity").hex()

    def draw(self, cell: CellName, sd: float) -> int:
        """Return the noise of a cell at a standard deviation.

        Parameters
        ----------
        cell
            Its canonical definition.
        sd
            In what the cell counts; a decimal number is taken as it is written.
        """
        key = self._keyed("cell", list(cell), repr(float(sd)))
        if self.mechanism is Mechanism.DISCRETE:
            return discrete_gaussian(Fraction(repr(float(sd))) ** 2, KeyedNumbers(key))
        drawn = sd * standard_normal(key)
        return floor(drawn) if self.mechanism is Mechanism.SCRIPT else round(drawn)

    def _keyed(self, *what: object) -> bytes:
        shape = self.shape if isinstance(self.shape, str) else dict(self.shape)
        message = json.dumps(
            ["consistent noise", self.delivery, shape, self.mechanism.value, *what], sort_keys=True, allow_nan=False
        )
        return hmac.new(self.secret, message.encode(), hashlib.sha256).digest()
