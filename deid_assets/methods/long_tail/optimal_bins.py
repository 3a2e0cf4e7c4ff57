"""Bins of the number of claims with the fewest claims removed (methods#bins-of-claims).

The backward algorithm of El Emam & Arbuckle 2013 is not minimal. With 15, 9 and 100 members in three bins it moves the nine
members and removes dozens of claims, although it is enough that one of the fifteen gives up one claim. Here members in
descending order of their claims are divided into groups of at least m, each of which shares a bin; a member above the group's
bin keeps as many claims as that bin allows. An exchange argument shows that some optimum has this form. The lowest bin is
repaired too, by members who move down into it.

Bins are processed from the highest to the lowest. The only state is the number of members carried down, and 2 m - 2 is always
enough: of more, the m with the most claims could form a group further up, and the others would still fill the bin below. The
work is about 4 m * m per bin, whatever the number of members.
"""

import numpy as np

from deid_assets.methods.long_tail.bins import ClaimNumberBins

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
        If m is below 1, or if fewer than m members have claims (with `down_to_none`: if there are fewer than m members).

    Examples
    --------
    >>> counts = np.repeat([31, 26, 21], [15, 9, 100])
    >>> int((counts - truncate_to_bins_optimally(counts, ClaimNumberBins(5), 10)).sum())
    1
    """
    if m < 1:
        raise ValueError(f"a bin of at least {m} members protects nobody")
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
