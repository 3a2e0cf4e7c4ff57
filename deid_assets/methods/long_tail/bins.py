"""The binned number of claims as a quasi-identifier, and backward truncation of bins (methods#bins-of-claims).

Both are from El Emam & Arbuckle 2013, ch. 5.

An adversary who knows approximately how many claims a member has knows a bin of numbers, [1-5], [6-10] and so on. If a bin
is not empty but has fewer than m = ceil(1 / risk) members, claims are removed until each of them is in the next lower bin:

    from the highest bin down to the second: if 0 < members < m, each member gets a new number of claims, drawn uniformly
    from the next lower bin, and counts there from now on.

This cannot repair the lowest bin. `optimal_bins` minimizes the number of removed claims instead.

The ways to truncate the long tail are compared: the percentile (El Emam et al. 2012), bins (El Emam & Arbuckle 2013), and bins
with the fewest claims removed.

**Fewest claims removed.** The backward algorithm of El Emam & Arbuckle 2013 is not minimal. With 15, 9 and 100 members in three
bins it moves the nine members and removes dozens of claims, although it is enough that one of the fifteen gives up one claim.
Here members in descending order of their claims are divided into groups of at least m, each of which shares a bin; a member
above the group's bin keeps as many claims as that bin allows. An exchange argument shows that some optimum has this form. The
lowest bin is repaired too, by members who move down into it.

Bins are processed from the highest to the lowest. The only state is the number of members carried down, and 2 m - 2 is always
enough: of more, the m with the most claims could form a group further up, and the others would still fill the bin below. The
work is about 4 m * m per bin, whatever the number of members.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from deid_assets.methods.statistics.streams import philox_of


@dataclass(frozen=True)
class ClaimNumberBins:
    """Bins of the number of claims: [1-w], [w+1-2w], ..., optionally with an open-ended last bin, such as "500 or more".

    Parameters
    ----------
    width
        Width of a bin, at least 1.
    cap
        Lower edge of the open-ended bin, above `width`; the bin below ends at cap - 1. None: no bin is open-ended.

    Raises
    ------
    ValueError
        If the width is below 1, or if the cap is not above it.

    Examples
    --------
    >>> ClaimNumberBins(5).of(np.array([1, 5, 6, 14, 31])).tolist()
    [0, 0, 1, 2, 6]
    >>> bins = ClaimNumberBins(5, cap=500)
    >>> bins.of(np.array([495, 496, 499, 500, 1300])).tolist()
    [98, 99, 99, 100, 100]
    >>> bins.lowest(np.array([99, 100])).tolist(), bins.highest(np.array([98, 99])).tolist()
    ([496, 500], [495, 499])
    """

    width: int
    cap: int | None = None

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ValueError(f"bins have a width of {self.width}; it is at least 1")
        if self.cap is not None and self.cap <= self.width:
            raise ValueError(f"the open bin begins at {self.cap}; it begins above the first bin of width {self.width}")

    @property
    def open_bin(self) -> int | None:
        """Index of the open-ended bin; None if there is none."""
        return None if self.cap is None else -(-(self.cap - 1) // self.width)

    def of(self, counts: np.ndarray) -> np.ndarray:
        """Return (n,) int64: the bin of each number of claims, from 0; -1 for no claims."""
        counts = np.asarray(counts, dtype=np.int64)
        found = (counts + self.width - 1) // self.width - 1
        open_bin = self.open_bin
        return found if self.cap is None or open_bin is None else np.where(counts >= self.cap, open_bin, found)

    def lowest(self, bins: ArrayLike) -> np.ndarray:
        """Return the lowest number of claims of each bin."""
        lowest = np.asarray(bins, dtype=np.int64) * self.width + 1
        return lowest if self.cap is None else np.where(np.asarray(bins) == self.open_bin, self.cap, lowest)

    def highest(self, bins: ArrayLike) -> np.ndarray:
        """Return the highest number of claims of each bin that is not open-ended."""
        highest = (np.asarray(bins, dtype=np.int64) + 1) * self.width
        return highest if self.cap is None else np.minimum(highest, self.cap - 1)


def bin_sizes(counts: np.ndarray, bins: ClaimNumberBins) -> np.ndarray:
    """Return (b,) int64: members in each bin up to the highest that occurs; members without claims are in none."""
    found = bins.of(counts)
    return np.bincount(found[found >= 0])


def smallest_bin(counts: np.ndarray, bins: ClaimNumberBins) -> int:
    """Return the number of members in the smallest non-empty bin; 0 if nobody has claims."""
    sizes = bin_sizes(counts, bins)
    return int(sizes[sizes > 0].min(initial=np.iinfo(np.int64).max)) if sizes.any() else 0


def truncate_to_bins(counts: np.ndarray, bins: ClaimNumberBins, m: int, seed: bytes) -> np.ndarray:
    """Return how many claims each member keeps, by the backward algorithm of El Emam & Arbuckle 2013.

    Parameters
    ----------
    counts
        (n,) integers: claims of each member, in an order that does not change between runs. A count of 0 stays 0.
    bins
        The bins.
    m
        Smallest number of members of a non-empty bin; at least 1.
    seed
        16 bytes: the key of the counter-based generator that draws the new numbers.

    Returns
    -------
    numpy.ndarray
        (n,) int64, at most `counts`. Every bin except the lowest is empty or has at least m members. The caller must check
        the lowest, because no truncation can change it.

    Examples
    --------
    The book's example: 11 members in [31-35] stay; 4 in [26-30] move to [21-25], which then holds 11.

    >>> counts = np.repeat([33, 28, 23, 18, 13, 8, 3], [11, 4, 7, 20, 30, 40, 50])
    >>> kept = truncate_to_bins(counts, ClaimNumberBins(5), 10, bytes(16))
    >>> bin_sizes(kept, ClaimNumberBins(5)).tolist()
    [50, 40, 30, 20, 11, 0, 11]
    """
    generator = philox_of(seed)
    kept = np.array(counts, dtype=np.int64)
    sizes = bin_sizes(kept, bins)
    # Positions of members by bin; a bin grows if the one above it is too small.
    order = np.argsort(bins.of(kept), kind="stable")
    order = order[np.count_nonzero(kept <= 0) :]
    members = np.split(order, np.cumsum(sizes)[:-1])
    for number in range(len(sizes) - 1, 0, -1):
        if 0 < len(members[number]) < m:
            moved = members[number]
            low, high = int(bins.lowest(number - 1)), int(bins.highest(number - 1))
            kept[moved] = generator.integers(low, high, size=len(moved), endpoint=True)
            members[number - 1] = np.sort(np.concatenate([members[number - 1], moved]))
    return kept


def widened(counts: np.ndarray, bins: ClaimNumberBins, m: int) -> ClaimNumberBins:
    """Return the narrowest bins, at least this wide, with which the backward algorithm leaves the lowest bin large enough.

    The bin in which a member ends does not depend on the random draws, so one seed is enough.

    Parameters
    ----------
    counts, bins, m
        As in `truncate_to_bins`.

    Raises
    ------
    ValueError
        If fewer than m members have claims, so that no width helps.
    """
    with_claims = np.count_nonzero(np.asarray(counts) > 0)
    if 0 < with_claims < m:
        raise ValueError(f"fewer than {m} members have claims, so that no bin can have {m}")
    while True:
        sizes = bin_sizes(truncate_to_bins(counts, bins, m, bytes(16)), bins)
        if not len(sizes) or sizes[0] == 0 or sizes[0] >= m:
            return bins
        # If the bins reach the cap, there is one bin and an open-ended one; wider bins need no cap.
        cap = bins.cap if bins.cap is not None and bins.width + 1 < bins.cap else None
        bins = ClaimNumberBins(bins.width + 1, cap)


COLUMNS = ("method", "claims_removed", "claims_removed_share", "members_touched", "members_touched_share", "smallest_bin")


def truncation_comparison(counts: np.ndarray, kept: Mapping[str, np.ndarray], bins: ClaimNumberBins) -> pd.DataFrame:
    """Compare how much each method removes, and the size of the smallest bin of the number of claims that it leaves.

    Parameters
    ----------
    counts
        (n,) integers: claims of each member, or of each member and year.
    kept
        For each method, by name, (n,) integers: the claims that it leaves.
    bins
        Bins in which the number of claims is known.

    Returns
    -------
    pandas.DataFrame
        `COLUMNS`, one row per method, preceded by one for no truncation ("none"). Shares are of all claims, and of all
        members (or member-years) with claims.

    Examples
    --------
    >>> counts = np.array([1, 2, 3, 9])
    >>> truncation_comparison(counts, {"percentile": np.array([1, 2, 3, 3])}, ClaimNumberBins(5)).values.tolist()
    [['none', 0, 0.0, 0, 0.0, 1], ['percentile', 6, 0.4, 1, 0.25, 4]]
    """
    counts = np.asarray(counts, dtype=np.int64)
    claims, members = max(int(counts.sum()), 1), max(int(np.count_nonzero(counts)), 1)
    rows = []
    for name, left in {"none": counts, **kept}.items():
        removed, touched = int((counts - left).sum()), int(np.count_nonzero(left < counts))
        rows.append((name, removed, removed / claims, touched, touched / members, smallest_bin(left, bins)))
    return pd.DataFrame(rows, columns=list(COLUMNS))


_NEVER = np.iinfo(np.int64).max // 4


def truncate_to_bins_optimally(counts: np.ndarray, bins: ClaimNumberBins, m: int, down_to_none: bool = False) -> np.ndarray:
    """Return how many claims each member keeps, so that bins are empty or have m members, with the fewest claims removed.

    Parameters
    ----------
    counts
        (n,) integers: claims of each member. A count of 0 stays 0.
    bins
        The bins.
    m
        Smallest number of members of a non-empty bin; at least 1.
    down_to_none
        Whether members without claims form an additional lowest bin, which must be empty or have m members as well;
        members may then lose all their claims. Otherwise everybody with claims keeps at least one.

    Returns
    -------
    numpy.ndarray
        (n,) int64, at most `counts`. Among equal optima, the one that moves members last; among members with equal numbers,
        the later ones in `counts` move.

    Raises
    ------
    ValueError
        If fewer than m members have claims (with `down_to_none`: if there are fewer than m members).

    Examples
    --------
    >>> counts = np.repeat([31, 26, 21], [15, 9, 100])
    >>> int((counts - truncate_to_bins_optimally(counts, ClaimNumberBins(5), 10)).sum())
    1
    """
    counts = np.asarray(counts, dtype=np.int64)
    kept = counts.copy()
    order = np.argsort(-counts, kind="stable")
    order = order[: np.count_nonzero(counts > 0)]
    without = len(counts) - len(order) if down_to_none else None
    if 0 < len(order) + (without or 0) < m:
        raise ValueError(f"fewer than {m} members have claims, so that no bin can have {m}")
    if len(order) == 0:
        return kept
    descending = counts[order]
    sizes = np.bincount(bins.of(descending))[::-1]  # from the highest bin down
    carried = _best_carries(descending, sizes, bins, m, without)
    # `carried` members of the bins above move below each boundary: bin i is filled by a run of members in order.
    ends = np.cumsum(sizes) - carried
    starts = np.concatenate([[0], ends[:-1]])
    of_bin = np.arange(len(sizes) - 1, -1, -1)
    stay, none_left = np.split(order, [ends[-1]])
    own_bin = np.repeat(of_bin, ends - starts)
    own = counts[stay]
    kept[stay] = np.where(own_bin == bins.open_bin, own, np.minimum(own, bins.highest(own_bin)))
    kept[none_left] = 0
    return kept


def _best_carries(descending: np.ndarray, sizes: np.ndarray, bins: ClaimNumberBins, m: int, without: int | None) -> np.ndarray:
    """Return (b,) int64: number of members carried down out of each bin, from the highest on.

    It is 0 for the lowest bin, unless `without` members without claims form a bin below it.
    """
    last = len(sizes) - 1
    ends = np.cumsum(sizes)
    states = 2 * m - 1
    carries = np.arange(states)
    cost = np.full(states, _NEVER, dtype=np.int64)
    cost[0] = 0
    chosen_from = np.zeros((len(sizes), states), dtype=np.int64)
    for place, own in enumerate(sizes):
        number = last - place
        below = int(bins.highest(number - 1)) if number else 0
        crossing = 0 if bins.open_bin == number else int(bins.highest(number)) - below
        # Claims lost by the r members of this bin with the fewest claims when they move to the next lower bin.
        few = descending[ends[place] - min(own, states - 1) : ends[place]][::-1]
        lost = np.concatenate([[0], np.cumsum(few - below)])
        moved = np.full((states, states), _NEVER, dtype=np.int64)  # [carried in, carried out]
        # At least m stay: those carried in, and all but the r own members with the fewest claims.
        stay = carries[:, None] + own - np.arange(len(lost))[None, :] >= m
        moved[:, : len(lost)] = np.where(stay, lost[None, :], _NEVER)
        # Nobody stays: those carried in cross the whole bin, and all own members go with them.
        passing = carries[: max(0, states - own)]
        if len(passing):
            moved[passing, passing + own] = np.minimum(moved[passing, passing + own], lost[own] + passing * crossing)
        if number == 0:
            left = np.zeros(states, dtype=bool)
            left[0] = True
            if without is not None:
                left = (without + carries == 0) | (without + carries >= m)
            moved[:, ~left] = _NEVER
        total = np.minimum(cost[:, None] + moved, _NEVER)
        chosen_from[place] = np.argmin(total, axis=0)
        cost = total[chosen_from[place], carries]
    found = np.zeros(len(sizes), dtype=np.int64)
    found[last] = np.argmin(cost)
    for place in range(last, 0, -1):
        found[place - 1] = chosen_from[place, found[place]]
    return found
