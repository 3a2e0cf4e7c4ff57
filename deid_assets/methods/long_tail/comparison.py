"""Compare the ways to truncate the long tail.

They are the percentile (El Emam et al. 2012), bins (El Emam & Arbuckle 2013), and bins with the fewest claims removed
(methods#bins-of-claims).
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from deid_assets.methods.long_tail.bins import Bins, smallest_bin

COLUMNS = ("method", "claims_removed", "claims_removed_share", "members_touched", "members_touched_share", "smallest_bin")


def truncation_comparison(counts: np.ndarray, kept: Mapping[str, np.ndarray], bins: Bins) -> pd.DataFrame:
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
    >>> truncation_comparison(counts, {"percentile": np.array([1, 2, 3, 3])}, Bins(5)).values.tolist()
    [['none', 0, 0.0, 0, 0.0, 1], ['percentile', 6, 0.4, 1, 0.25, 4]]
    """
    counts = np.asarray(counts, dtype=np.int64)
    claims, members = max(int(counts.sum()), 1), max(int(np.count_nonzero(counts)), 1)
    rows = []
    for name, left in {"none": counts, **kept}.items():
        removed, touched = int((counts - left).sum()), int(np.count_nonzero(left < counts))
        rows.append((name, removed, removed / claims, touched, touched / members, smallest_bin(left, bins)))
    return pd.DataFrame(rows, columns=list(COLUMNS))
