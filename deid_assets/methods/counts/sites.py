"""Counts of several sites: sums of noisy counts, and what masking loses (methods#sums-over-sites)."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy import special

from deid_assets.errors import CountsError
from deid_assets.methods.counts.noise import Mechanism, noise_variance
from deid_assets.methods.counts.protected_counts import NOISE_SD
from deid_assets.methods.counts.tables import THRESHOLD

CONFIDENCE = 0.95
"""Of each of the two bounds of what masking hides."""
_Z = float(special.ndtri(CONFIDENCE))


class Serves(StrEnum):
    """Which of two protections makes the smaller error in a sum over sites."""

    NOISE = "noise"
    MASKING = "masking"
    UNDECIDED = "undecided"
    """It depends on what else masking hides, or on counts that the noise hides."""


@dataclass(frozen=True, eq=False)
class SumOverSites:
    """Sums of counts that have noise, or would get it.

    Attributes
    ----------
    totals
        float64 array, one per cell; nan where a site masks the cell.
    sd
        float64 array: standard deviations of the totals' noise, as it is added; nan where a site masks the cell.
    hidden_at_least, hidden_at_most
        float64 arrays: how much of the true total masking hides, in the small counts alone and with all that it may have to
        hide to protect them. Exact of true counts, otherwise bounds of `CONFIDENCE` each.
    serves_better
        A tuple with one `Serves` per cell; None where a site masks the cell.
    """

    totals: np.ndarray
    sd: np.ndarray
    hidden_at_least: np.ndarray
    hidden_at_most: np.ndarray
    serves_better: tuple[Serves | None, ...]


def sum_over_sites(
    counts: np.ndarray,
    sd: np.ndarray | float = NOISE_SD,
    limits: np.ndarray | float = THRESHOLD,
    is_true: bool = False,
    mechanism: Mechanism = Mechanism.ROUNDED,
) -> SumOverSites:
    """Return the sums of independent noisy counts with their uncertainty, and whether noise or masking serves them better.

    Masking errs by what it hides, noise by its standard deviation. What masking hides is at least the small counts, and at
    most all counts of the sites that have a small one anywhere. Noise serves better if even the small counts are more than the
    standard deviation; masking does if all of it is not. Where every count is small, that is the crossover of Klann et al.

    Noisy counts do not decide by themselves: a count is known up to its noise, and the bounds include that. Counts on either
    side of the threshold are taken for equally likely. Negative counts must be kept: without them sums are too high.

    Parameters
    ----------
    counts
        Noisy counts, sites x cells; true or expected ones if `is_true`; nan where a site masks the cell.
    sd
        Standard deviation of the Gaussian that the noise is made of, of the same shape or one number; 0 for counts without
        noise.
    limits
        Counts from 1 to less than this are small, of the same shape or one number.
    is_true
        Whether the counts have no noise yet.
    mechanism
        How the noise is drawn: rounded or discrete.

    References
    ----------
    Klann JG et al. (2018), Proposed Solution and Figure 2.

    Examples
    --------
    >>> noisy = np.array([[3, 40, 4], [-1, 30, 9], [1, 50, 6], [2, 20, 7]])
    >>> found = sum_over_sites(noisy)
    >>> found.totals.tolist(), found.sd.round(2).tolist(), [str(which) for which in found.serves_better]
    ([5.0, 140.0, 26.0], [5.03, 5.03, 5.03], ['undecided', 'undecided', 'noise'])

    Six sites with one person each, and seven:

    >>> [str(*sum_over_sites(np.ones((sites, 1)), is_true=True).serves_better) for sites in (6, 7)]
    ['masking', 'noise']
    """
    counts = np.asarray(counts, float)
    variance = np.broadcast_to(noise_variance(sd, mechanism), counts.shape)
    limit = np.broadcast_to(np.asarray(limits, float), counts.shape)
    width = np.sqrt(np.where(np.isnan(counts), np.nan, variance).sum(axis=0))
    unknown = np.zeros(counts.shape) if is_true else variance
    mean, spread = _small_part(counts, unknown, limit)
    least = np.maximum(0.0, mean.sum(axis=0) - _Z * np.sqrt(spread.sum(axis=0)))
    may_hide = _may_be_small(counts, unknown, limit).any(axis=1)
    error = np.sqrt(unknown[may_hide].sum(axis=0))
    most = np.maximum(0.0, counts[may_hide].sum(axis=0) + _Z * error)
    totals = counts.sum(axis=0)
    names = np.select([np.isnan(totals), least > width, most <= width], ["", Serves.NOISE, Serves.MASKING], Serves.UNDECIDED)
    least, most = np.where(np.isnan(totals), np.nan, [least, most])
    return SumOverSites(totals, width, least, most, tuple(Serves(name) if name else None for name in names.tolist()))


def _small_part(counts: np.ndarray, variance: np.ndarray, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Expectation and variance of each count where it is small, and 0 where it is not, given what is shown of it.

    All true counts are as likely beforehand, negative ones included: cut at 0, every site without anybody would add to the sum.
    """
    sd, end = np.sqrt(variance), limit - 0.5
    with np.errstate(divide="ignore", invalid="ignore"):
        place = (end - counts) / sd
        below, density = special.ndtr(place), np.exp(-(place**2) / 2) / np.sqrt(2 * np.pi)
    first = counts * below - sd * density
    second = (counts**2 + variance) * below - sd * (counts + end) * density
    small = np.where(counts < limit, counts, 0.0)
    exact = variance == 0
    return np.where(exact, small, first), np.where(exact, 0.0, np.maximum(second - first**2, 0.0))


def _may_be_small(counts: np.ndarray, variance: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Whether a count may be small, with `CONFIDENCE` for all of them together; a masked one may."""
    reach = special.ndtri(1 - (1 - CONFIDENCE) / max(2, counts.size)) * np.sqrt(variance)
    is_zero = (variance == 0) & (counts == 0)
    return np.isnan(counts) | ((counts - reach < limit) & ~is_zero)


def sites_at_crossover(average: float, sd: float) -> float:
    """Return up to how many sites masking serves a sum better, where all counts are small.

    Then masking hides the whole sum, which grows with the sites; the noise grows with their square root.

    Parameters
    ----------
    average
        Average count of a site, above 0, in persons.
    sd
        Standard deviation of the noise of one count, in persons.

    References
    ----------
    Klann JG et al. (2018), Figure 2.

    Examples
    --------
    >>> [sites_at_crossover(average, 2.5) for average in (0.5, 1, 2, 2.5)]
    [25.0, 6.25, 1.5625, 1.0]
    """
    return (sd / average) ** 2


@dataclass(frozen=True, eq=False)
class SelectionBias:
    """What masking loses, by the size of the sites.

    Attributes
    ----------
    size_at_most
        float64 array: largest size of the sites in each group, in people.
    sites
        int64 array: number of sites in each group.
    lost
        float64 array: share of the group's true counts that masking hides, from 0 to 1; nan if all are 0.
    lost_of_all
        The same over all sites.
    """

    size_at_most: np.ndarray
    sites: np.ndarray
    lost: np.ndarray
    lost_of_all: float


def selection_bias(counts: np.ndarray, sizes: np.ndarray, threshold: int = THRESHOLD, groups: int = 4) -> SelectionBias:
    """Return how much of the true total masking hides, for groups of sites of similar size.

    Masked counts are missing from sums, and small sites have more of them: sums lean towards large sites and the people
    they treat.

    Parameters
    ----------
    counts
        True counts, sites x cells.
    sizes
        Number of people of each site.
    threshold
        Counts from 1 to one less are masked.
    groups
        Number of groups of about the same number of sites, at most the number of sites.

    References
    ----------
    Klann JG et al. (2018), Advantages over Thresholding.

    Examples
    --------
    >>> found = selection_bias(np.array([[4, 8], [40, 80]]), np.array([50, 500]), groups=2)
    >>> found.lost.tolist(), round(found.lost_of_all, 3)
    ([1.0, 0.0], 0.091)
    """
    if not 1 <= groups <= len(sizes):
        raise CountsError(f"{len(sizes)} sites cannot make {groups} groups")
    order = np.argsort(sizes, kind="stable")
    true = counts.sum(axis=1)
    hidden = np.where(counts < threshold, counts, 0).sum(axis=1)
    parts = np.array_split(order, groups)
    with np.errstate(invalid="ignore"):
        lost = np.array([np.divide(hidden[part].sum(), true[part].sum()) for part in parts])
        of_all = float(np.divide(hidden.sum(), true.sum()))
    return SelectionBias(
        np.array([sizes[part].max() for part in parts], float), np.array([len(part) for part in parts]), lost, of_all
    )
