"""The adversary of noisy tables: the best linear estimate of every count (methods#noisy-count-estimates).

Sums hold for the true counts, so noisy totals say something about noisy parts. Weighted least squares combines them: no
linear unbiased estimate has a smaller variance (Gauss and Markov).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse, special
from scipy.sparse.csgraph import connected_components

from deid_assets.errors import CountsError
from deid_assets.methods.counts.repeats import chance_of_exact_mean
from deid_assets.methods.counts.tables import CellName, Sum, sum_matrix

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
    label = connected_components(graph, directed=False)[1]
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
