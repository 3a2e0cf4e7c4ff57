"""Numbers of claims that are known together: one table of all members, or one for each year.

An adversary who knows the number of claims per year knows a table of each year, so bins are made and counted in every table
by itself (methods#bins-of-claims).
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from deid_assets.methods.long_tail.bins import (
    ClaimNumberBins,
    smallest_bin,
    truncate_to_bins,
    truncate_to_bins_optimally,
    widened,
)

Units = Mapping[str, np.ndarray]
"""member_id, year if claims are counted per year, and claims, as `claims_of_units` reads them."""


def tables_of(units: Units) -> Iterator[np.ndarray]:
    """Yield (n,) bool for each table: the units in it."""
    if "year" not in units:
        yield np.ones(len(units["member_id"]), dtype=bool)
        return
    for year in np.unique(units["year"]):
        yield np.asarray(units["year"]) == year


def too_small_tables(units: Units, m: int) -> tuple[int, int]:
    """Return the number of tables with some units, but fewer than m, and the number of all tables."""
    tables = list(tables_of(units))
    return sum(0 < int(np.count_nonzero(table)) < m for table in tables), len(tables)


def widened_in_every_table(units: Units, counts: np.ndarray, bins: ClaimNumberBins, m: int) -> ClaimNumberBins:
    """Return the narrowest bins, at least this wide, that leave the lowest bin of every table large enough."""
    tables = list(tables_of(units))
    while any((wider := widened(counts[table], bins, m)) != bins for table in tables):
        bins = wider
    return bins


def cut_backward(units: Units, counts: np.ndarray, bins: ClaimNumberBins, m: int, seed: bytes) -> np.ndarray:
    """Return (n,) int64: the claims that each unit keeps by the backward algorithm, `truncate_to_bins`.

    Parameters
    ----------
    seed
        16 bytes, from which each table gets a separate seed.
    """
    kept = counts.copy()
    for number, table in enumerate(tables_of(units)):
        kept[table] = truncate_to_bins(counts[table], bins, m, bytes([seed[0] ^ number]) + seed[1:])
    return kept


def cut_optimally(units: Units, counts: np.ndarray, bins: ClaimNumberBins, m: int) -> np.ndarray:
    """Return (n,) int64: the claims that each unit keeps with the fewest claims removed, `truncate_to_bins_optimally`."""
    kept = counts.copy()
    for table in tables_of(units):
        kept[table] = truncate_to_bins_optimally(counts[table], bins, m)
    return kept


def without_small_lowest_bins(units: Units, kept: np.ndarray, bins: ClaimNumberBins, m: int) -> np.ndarray:
    """Return (n,) int64: no claims for the units in the lowest bin of a table if it has fewer than m of them.

    Examples
    --------
    >>> units = {"member_id": np.array(["a", "b", "c"])}
    >>> without_small_lowest_bins(units, np.array([2, 7, 8]), ClaimNumberBins(5), 2).tolist()
    [0, 7, 8]
    """
    kept = kept.copy()
    for table in tables_of(units):
        lowest = table & (bins.of(kept) == 0)
        if 0 < np.count_nonzero(lowest) < m:
            kept[lowest] = 0
    return kept


def smallest_bin_of_all(units: Units, counts: np.ndarray, bins: ClaimNumberBins) -> int:
    """Return the number of units in the smallest nonempty bin of any table; 0 if there are no units.

    Examples
    --------
    In year 2 one member is alone in the bin of 6 to 10:

    >>> units = {"member_id": np.array(["a", "b", "a", "b", "c"]), "year": np.array([1, 1, 2, 2, 2])}
    >>> smallest_bin_of_all(units, np.array([7, 8, 1, 2, 9]), ClaimNumberBins(5))
    1
    """
    return min((smallest_bin(counts[table], bins) for table in tables_of(units)), default=0)


def members_by_claims(units: Units, counts: np.ndarray) -> np.ndarray:
    """Return (m, 2) int64: number of claims of a member, and members with that number."""
    _, member = np.unique(units["member_id"], return_inverse=True)
    claims, members = np.unique(np.bincount(member, weights=counts).astype(np.int64), return_counts=True)
    return np.stack([claims, members], axis=1)


def units_that_lose_claims(units: Units, counts: np.ndarray, kept: np.ndarray) -> pd.DataFrame:
    """Return the units that lose claims, with `kept`, the number of claims that stay: the input of `cut_to_kept`."""
    cut = kept < counts
    columns = {name: np.asarray(values)[cut] for name, values in units.items() if name != "claims"}
    return pd.DataFrame(columns | {"kept": kept[cut]}).astype({"member_id": "str"})
