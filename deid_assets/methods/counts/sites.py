"""Counts of several sites: sums of noisy counts, and what masking loses (methods#sums-over-sites)."""

from dataclasses import dataclass

import numpy as np

from deid_assets.errors import CountsError
from deid_assets.methods.counts.protected_counts import NOISE_SD
from deid_assets.methods.counts.tables import THRESHOLD


@dataclass(frozen=True, eq=False)
class SumOverSites:
    """Sums of noisy counts.

    Attributes
    ----------
    totals
        float64 array, one per cell.
    sd
        float64 array: standard deviations of the totals' noise.
    noise_serves
        bool array: whether the total exceeds its standard deviation, so that noise serves better than masking.
    """

    totals: np.ndarray
    sd: np.ndarray
    noise_serves: np.ndarray


def sum_over_sites(counts: np.ndarray, sd: np.ndarray | float = NOISE_SD) -> SumOverSites:
    """Return the sums of independent noisy counts with their uncertainty.

    Negative counts must be kept: without them sums are too high.

    Parameters
    ----------
    counts
        Noisy counts, sites x cells.
    sd
        Standard deviation of the noise, of the same shape or one number; 0 for zeros without noise.

    References
    ----------
    Klann JG et al. (2018), Proposed Solution and Figure 2.

    Examples
    --------
    >>> found = sum_over_sites(np.array([[3, 40], [-1, 30], [1, 50], [2, 20]]))
    >>> found.totals.tolist(), found.sd.tolist(), found.noise_serves.tolist()
    ([5.0, 140.0], [5.0, 5.0], [False, True])
    """
    totals = np.asarray(counts, float).sum(axis=0)
    width = np.sqrt((np.broadcast_to(np.asarray(sd, float), np.shape(counts)) ** 2).sum(axis=0))
    return SumOverSites(totals, width, totals > width)


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
