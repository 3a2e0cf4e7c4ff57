"""What a table of counts needs before it is protected: the numbers of a plan (methods#planning-counts)."""

from dataclasses import dataclass

import numpy as np
import scipy
from scipy import special

from deid_assets.errors import CountsError
from deid_assets.methods.counts.audit import SmallCounts, audit_tables
from deid_assets.methods.counts.noise import Mechanism, noise_distribution, noise_variance
from deid_assets.methods.counts.programs import Watch
from deid_assets.methods.counts.protected_counts import NOISE_SD
from deid_assets.methods.counts.tables import SMALL, CountTables, PublishedCounts

WIDEST_FOLLOWED = 5.0
"""Standard deviation up to which repeats are followed: the work grows with its fourth power, and takes a minute at 10."""
RUN = 5
"""Repeats in a row within .5 of the count after which an attacker takes the average for exact."""
_REACH = 6.5  # standard deviations of a sum of repeats: beyond lie 8e-11 of it
_LEFT = 1e-7  # of all attackers, who are not followed further


def repeats_for_good(sd: float = NOISE_SD, mechanism: Mechanism = Mechanism.ROUNDED) -> float:
    """Return after how many repeats, on average, the average of noisy counts is within .5 of the count and stays there.

    The expectation is computed, not simulated: backwards, from a repeat after which no average leaves.

    Parameters
    ----------
    sd
        Standard deviation of the Gaussian, above 0 and at most `WIDEST_FOLLOWED`, in persons.
    mechanism
        Rounded or discrete.

    Raises
    ------
    CountsError
        If the noise is wider, or the mechanism is the script.

    References
    ----------
    Murphy SN, Chueh HC (2002). A security architecture for query tools used to access large biomedical databases. AMIA
    Symposium, 552-556. Klann JG et al. (2018), Proposed Solution.

    Examples
    --------
    >>> [round(repeats_for_good(sd), 2) for sd in (1.33, 2.5)]
    [12.77, 43.68]
    """
    one, spread = _followed(sd, mechanism)
    last = int(np.ceil((2 * _REACH * spread) ** 2))
    # By the sum of the noise: the chance that no later average is outside, and the expected last repeat that is, or 0.
    stays = np.ones(2 * _reached(spread, last) + 1)
    ahead = np.stack([stays, np.zeros(len(stays))])
    for repeat in range(last, 0, -1):
        stays, leaves = ahead
        inside = _is_inside(len(stays), repeat)
        ahead = np.stack([np.where(inside, stays, 0.0), leaves + np.where(inside, 0.0, repeat * stays)])
        ahead = _moved(ahead, one, _reached(spread, repeat - 1))
    return 1 + float(ahead[1, 0])


def repeats_in_a_row(sd: float = NOISE_SD, mechanism: Mechanism = Mechanism.ROUNDED, run: int = RUN) -> float:
    """Return after how many repeats, on average, the average has been within .5 of the count for `run` repeats in a row.

    Parameters
    ----------
    sd, mechanism
        As in `repeats_for_good`.
    run
        How many in a row; the last of them is counted, too.

    Raises
    ------
    CountsError
        If the noise is wider, or the mechanism is the script.

    References
    ----------
    Klann JG et al. (2018), Proposed Solution, who print about 24 for 2.5.

    Examples
    --------
    >>> [round(repeats_in_a_row(sd), 2) for sd in (1.33, 2.5)]
    [12.92, 24.21]
    """
    one, spread = _followed(sd, mechanism)
    # By how many of the last averages were inside, from 0 to run - 1, and the sum of the noise: the share that goes on.
    going_on = np.eye(run, 1)
    needed, repeat = 0.0, 0
    while (left := float(going_on.sum())) > _LEFT:
        needed, repeat = needed + left, repeat + 1
        moved = _moved(going_on, one, _reached(spread, repeat))
        inside = _is_inside(moved.shape[1], repeat)
        going_on = np.vstack([np.where(inside, 0.0, moved).sum(axis=0), np.where(inside, moved[:-1], 0.0)])
    return needed


def _followed(sd: float, mechanism: Mechanism) -> tuple[np.ndarray, float]:
    """The distribution of the noise and its standard deviation."""
    if not 0 < sd <= WIDEST_FOLLOWED:
        raise CountsError(f"repeats are followed for standard deviations above 0 and up to {WIDEST_FOLLOWED:g}")
    return noise_distribution(sd, mechanism), float(np.sqrt(noise_variance(sd, mechanism)))


def _reached(spread: float, repeats: int) -> int:
    """The largest sum of the noise of so many repeats that is followed."""
    return int(np.ceil(_REACH * spread * np.sqrt(repeats)))


def _is_inside(sums: int, repeat: int) -> np.ndarray:
    """Whether the average is within .5, for each of an odd number of sums around 0."""
    return 2 * np.abs(np.arange(sums) - sums // 2) < repeat


def _moved(by_sum: np.ndarray, one: np.ndarray, reach: int) -> np.ndarray:
    """The same after one more repeat, for sums from -reach to reach or as far as there are any."""
    moved = np.asarray(scipy.signal.oaconvolve(by_sum, one[None], axes=1))
    middle = moved.shape[1] // 2
    return moved[:, max(0, middle - reach) : middle + reach + 1]


def needed_threshold(tables: CountTables, rule: SmallCounts, watch: Watch | None = None) -> int | None:
    """Return the lowest threshold with which masking by threshold alone protects the small counts: no other cell is hidden.

    A higher threshold hides more, and tells less of what is hidden, so the lowest one is found by bisection.

    Parameters
    ----------
    tables
        True counts, with all sums.
    rule
        Which counts are small, and how many possible values they keep. Its threshold is the lowest that is tried.
    watch
        How long it may take; by default without a limit.

    Returns
    -------
    int or None
        None if time was over. It tells how large a count must be hidden, so it belongs where the true counts are kept.

    References
    ----------
    Klann JG et al. (2018), Advantages over Thresholding: 99 for Table 1. For Table 2 they print 99,999, but a count is hidden
    only if it is below the threshold.

    Examples
    --------
    >>> from deid_assets.methods.counts.tables import CellName, Sum
    >>> total, women, men = (CellName("sex", "all", name) for name in ("total", "F", "M"))
    >>> tables = CountTables((total, women, men), np.array([100, 98, 2]), (Sum("sex", total, (women, men)),))
    >>> needed_threshold(tables, SmallCounts())
    99
    """
    watch = watch or Watch()
    small = rule.is_small(tables.counts, tables.contribution)

    def protects(threshold: int) -> bool:
        hidden = (tables.counts >= rule.smallest()) & (tables.counts < threshold * tables.contribution)
        shown = [SMALL if one else int(count) for one, count in zip(hidden, tables.counts, strict=True)]
        published = PublishedCounts.of_marks(
            (tables.cells, tables.sums), shown, tables.contribution, threshold, rule.smallest()
        )
        return not small[audit_tables(published, rule, watch).disclosed()].any()

    # Multiples of the true counts fulfil the sums, too: below this threshold are as many as are asked for.
    too_low, enough = rule.threshold - 1, max(rule.threshold, rule.values * int(tables.counts.max(initial=0)) + 1)
    while enough - too_low > 1:
        middle = (too_low + enough) // 2
        too_low, enough = (too_low, middle) if protects(middle) else (middle, enough)
        if not watch.left:
            return None
    return enough


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Whose percentiles, shares and other descriptions must be left out, for each of some counts.

    Attributes
    ----------
    is_small
        bool array: whether the count is small, so that it must not be described.
    chance
        float64 array: probability that the description is left out where the noisy count decides, as in a release.
    """

    is_small: np.ndarray
    chance: np.ndarray


def left_out(counts: np.ndarray, limits: np.ndarray, variance: np.ndarray) -> LeftOut:
    """Return which counts are too small to be described, by themselves and after noise.

    The noisy count should decide: judged by the true one, a description that is missing tells that the count is small.

    Parameters
    ----------
    counts
        True counts: of cells, or of lists that are described as a whole.
    limits
        Counts from 1 to less than this are small.
    variance
        Of the noise of each count; of a list, the sum over its cells.

    References
    ----------
    Klann JG et al. (2018), Results, step 2.

    Examples
    --------
    >>> found = left_out(np.array([0, 4, 12, 90]), np.full(4, 11), np.full(4, 6.33))
    >>> found.is_small.tolist(), found.chance.round(2).tolist()
    ([False, True, False, False], [1.0, 1.0, 0.28, 0.0])
    """
    return LeftOut((counts > 0) & (counts < limits), special.ndtr((limits - 0.5 - counts) / np.sqrt(variance)))
