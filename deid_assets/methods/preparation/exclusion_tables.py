"""Removed and remaining members compared in one long table (methods#excluded-members).

It contains Tables 1 to 4 of Multimedia Appendix 1 to El Emam et al. 2012, claims per member, and KS distances.
"""

import numpy as np
import pandas as pd

from deid_assets.methods.preparation.exclusion_comparison import (
    AGE_DECADES,
    DSFC_MONTHS,
    LENGTHS_OF_STAY,
    binned_percentages,
    claim_values,
    counts_by_text,
    kolmogorov_smirnov,
    median_claims,
    member_values,
    percentages,
)
from deid_assets.store.tables import Table

TABLES = ("sex", "days since first claim", "age", "length of stay", "claims per member", "KS distance")
"""What is compared."""


def exclusion_tables(members: Table, claims: Table, removed: Table, seed: int) -> pd.DataFrame:
    """Compare removed with remaining members.

    Parameters
    ----------
    members, claims, removed
        Canonical members and claims; member_id of removed members, once per reason.
    seed
        Seed of the bootstrap over members.

    Returns
    -------
    pandas.DataFrame
        table, value, excluded, remaining, and for distances: low, high, p_value. Percentages sum to 100 in each table;
        `claims per member` contains medians; `KS distance` rows have the distance in `excluded`.
    """
    rng = np.random.default_rng(seed)
    sex = members.query(counts_by_text(members, removed, "sex"))
    parts = [_table("sex", percentages(sex["value"].fillna("unknown").tolist(), sex["removed_count"], sex["remaining_count"]))]
    distances = []
    for name, query, bins, table in (
        ("days since first claim", claim_values(claims, members, removed, "days_since_first_claim"), DSFC_MONTHS, claims),
        ("age", member_values(members, removed, "age"), AGE_DECADES, members),
        ("length of stay", claim_values(claims, members, removed, "length_of_stay"), LENGTHS_OF_STAY, claims),
    ):
        histogram = {column: np.asarray(values) for column, values in table.arrays(query).items()}
        parts.append(_table(name, binned_percentages(histogram, bins)))
        distance = kolmogorov_smirnov(histogram, rng)
        if distance is not None:
            distances.append((name, distance.distance, distance.low, distance.high, distance.p_value))
    medians = claims.query(median_claims(claims, members, removed)).set_index("removed")["median_claims"]
    parts.append(
        pd.DataFrame(
            {
                "table": "claims per member",
                "value": "median",
                "excluded": [medians.get(True, np.nan)],
                "remaining": [medians.get(False, np.nan)],
            }
        )
    )
    found = pd.concat(parts, ignore_index=True).assign(low=np.nan, high=np.nan, p_value=np.nan)
    rows = pd.DataFrame(distances, columns=["value", "excluded", "low", "high", "p_value"])
    rows = rows.assign(table="KS distance", remaining=np.nan)[list(found.columns)]
    return pd.concat([found, rows], ignore_index=True) if len(rows) else found


def _table(name: str, table: pd.DataFrame) -> pd.DataFrame:
    renamed = table.rename(columns={"excluded_percent": "excluded", "remaining_percent": "remaining"})
    return renamed.assign(table=name)[["table", "value", "excluded", "remaining"]]
