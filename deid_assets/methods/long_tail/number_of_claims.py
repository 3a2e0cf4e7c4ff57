"""The number of claims as a member-level quasi-identifier: bins that an adversary may know, made safe by truncation.

A recipient of a release sees how many claims each member has, and a neighbor may know approximately how many there are. El
Emam and Arbuckle (Anonymizing Health Data, 2013, ch. 5) assume that the number is known to within a range of five, and require
that it be treated as a quasi-identifier. It is generalized to bins [1, w], [w + 1, 2 w] and so on, of equal width. If too few
members share a bin, claims are removed until its members are in a bin that enough share. This is done within each
demographic class, because the same adversary knows age and sex.

If the year of a claim is known, the quasi-identifier is the vector of yearly numbers. Bins that are safe in each year are not
safe jointly. Members are therefore truncated year by year, each time among those who share demographics and the bins of earlier
years. A year without claims is a bin of its own. So it is with the numbers of several tables of events, and with that of
another table than the claims, of which a released member may have no row.

Classes and bins only merge when demographics become coarser, so what is safe at one demographic node is safe at every node
above it.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from deid_assets.methods.long_tail.bins import ClaimNumberBins, truncate_to_bins_optimally
from deid_assets.methods.statistics.streams import philox_of
from deid_assets.store.tables import quoted


def truncate_within_classes(
    counts: NDArray[np.integer], classes: NDArray[np.integer], width: int, m: int, key: bytes, none_is_told: bool = False
) -> NDArray[np.int64]:
    """Return how many claims each member keeps, so that every bin of every class is empty or has at least m members.

    The fewest claims are removed in each class, column by column. If fewer than m members share a class, truncation does not
    help and they keep all claims: their demographics alone are too rare.

    Parameters
    ----------
    counts
        (n, y) integers: claims of each member of the population, in total (y = 1), or in each of y years or tables.
    classes
        (n,) integers: demographic class of each member.
    width
        Bin width of the number of claims, at least 1.
    m
        Smallest number of members of a non-empty bin.
    key
        16 bytes. It decides which of several members with equal numbers lose claims; their order never does.
    none_is_told
        Whether having none is a bin like any other; with several columns it always is.

    Returns
    -------
    numpy.ndarray
        (n, y) int64, at most `counts`. If none is a bin, a member may be left without any; else nobody with claims loses
        all of them.

    Raises
    ------
    ValueError
        If the arrays do not fit together, m is below 1, or the key does not have 16 bytes.

    Examples
    --------
    Of 20 women with 3 claims and 19 with 7, the 19 keep 5, so that all 39 are in the bin [1, 5]; 20 men stay.

    >>> counts = np.repeat([[3], [7], [7]], [20, 19, 20], axis=0)
    >>> kept = truncate_within_classes(counts, np.repeat([0, 1], [39, 20]), width=5, m=20, key=bytes(16))
    >>> np.unique(kept[:39]).tolist(), np.unique(kept[39:]).tolist()
    ([3, 5], [7])
    """
    counts, classes = np.asarray(counts, dtype=np.int64), np.asarray(classes)
    if counts.ndim != 2 or classes.shape != counts.shape[:1]:
        raise ValueError(f"counts and classes need shapes (n, y) and (n,), not {counts.shape} and {classes.shape}")
    if len(key) != 16:
        raise ValueError(f"the key has {len(key)} bytes instead of 16")
    bins, with_none = ClaimNumberBins(width), none_is_told or counts.shape[1] > 1
    generator = philox_of(key)
    shuffled = generator.permutation(len(counts))
    kept, known = counts[shuffled], classes[shuffled]
    for year in range(counts.shape[1]):
        for members in _members_of(known):
            own = kept[members, year]
            there = len(own) if with_none else np.count_nonzero(own)
            if there >= m and _smallest_bin(bins, own if with_none else own[own > 0]) < m:
                kept[members, year] = truncate_to_bins_optimally(own, bins, m, down_to_none=with_none)
        known = _joined(known, bins.of(kept[:, year]))
    found = np.empty_like(kept)
    found[shuffled] = kept
    return found


def with_bins(members: str, member: str, events: str, width: int, counted: Mapping[str, str]) -> str:
    """SELECT every column of the members, and for each number of events the bin that it is in, 0 for none.

    Parameters
    ----------
    members
        SQL to put after FROM for the members, whose identifier is the column `member`.
    events
        SQL to put after FROM for their events: `member`, and what the conditions name.
    width
        Bin width of the numbers.
    counted
        Name of each column of bins, and SQL that is true for the events that count in it.

    Examples
    --------
    >>> import duckdb
    >>> members = "(SELECT unnest(['a', 'b']) AS id)"
    >>> events = "(SELECT 'a' AS id, unnest([1, 1, 2]) AS year)"
    >>> bins = with_bins(members, "id", events, 2, {"first": "year = 1", "both": "true"})
    >>> sorted(duckdb.sql(bins).fetchall())
    [('a', 1, 2), ('b', 0, 0)]
    """
    counts = ", ".join(
        f"(count(*) FILTER ({condition}) + {int(width) - 1}) // {int(width)} AS {quoted(name)}"
        for name, condition in counted.items()
    )
    bins = ", ".join(f"coalesce(b.{quoted(name)}, 0) AS {quoted(name)}" for name in counted)
    return f"""
        SELECT m.*, {bins} FROM {members} AS m
        LEFT JOIN (SELECT {quoted(member)}, {counts} FROM {events} GROUP BY ALL) AS b USING ({quoted(member)})"""


def _smallest_bin(bins: ClaimNumberBins, own: NDArray[np.int64]) -> int:
    """Members in the smallest bin that is not empty; where it is large enough, nothing has to be removed."""
    return int(np.unique(bins.of(own), return_counts=True)[1].min())


def _joined(one: NDArray[np.integer], other: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return (n,) int64: one number for each pair of values."""
    other = other - other.min(initial=0)
    pairs = one.astype(np.int64) * (int(other.max(initial=0)) + 1) + other
    return np.unique(pairs, return_inverse=True)[1].reshape(-1)


def _members_of(classes: NDArray[np.integer]) -> Iterator[NDArray[np.int64]]:
    """Yield the positions of the members of each class."""
    order = np.argsort(classes, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(classes[order])) + 1) if len(order) else ()
