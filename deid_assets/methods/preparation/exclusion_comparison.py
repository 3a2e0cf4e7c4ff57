"""Compare removed with remaining members, in one long table: how much removal changes the data.

The comparison follows Tables 1 to 4 of Multimedia Appendix 1 to El Emam et al. 2012.

Sex and age are compared over members; days since the first claim and length of stay over claims with known values; the
number of claims by its median. The two-sample Kolmogorov-Smirnov distance between removed and remaining comes with a
bootstrap over MEMBERS. Claims of one member are similar, so a p-value that treats claims as independent, as the appendix
prints, is meaningless (methods#excluded-members).

The bootstrap is a Poisson bootstrap: in each replicate, each member with all their claims counts Poisson(1) times. This equals
drawing members with replacement except for the fixed total, and reduces to one product of weights and per-member histograms.
The distance is computed on the values themselves; the printed tables bin them afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray
from scipy import sparse

from deid_assets.errors import how_many
from deid_assets.store.tables import Table, quoted

CONFIDENCE = 0.99
"""Confidence of the interval of a Kolmogorov-Smirnov distance."""

_MEMBERS_AT_ONCE = 16_384


@cache
def _poisson() -> np.ndarray:
    """Lookup table for Poisson(1): 2^16 equally likely entries; its mean and variance are accurate to 1e-4."""
    return np.asarray(scipy.stats.poisson.ppf((np.arange(2**16) + 0.5) / 2**16, 1).astype(np.uint8))


@dataclass(frozen=True)
class TableBins:
    """Bins of a table: ascending lower edges, the last bin open-ended; values below the first edge are in no bin."""

    lower: tuple[int, ...]
    labels: tuple[str, ...]


AGE_DECADES = TableBins(tuple(range(0, 90, 10)), (*(f"{a}-{a + 9}" for a in range(0, 80, 10)), "80+"))
# Months are 28-day blocks with twelve labels, the last open-ended (methods#hierarchies).
DSFC_MONTHS = TableBins(tuple(range(0, 336, 28)), tuple(f"{m}-{m + 1} month{'s' * (m > 0)}" for m in range(12)))
# A stay that begins and ends on the same day, of length 0 in some deliveries, counts as one day.
LENGTHS_OF_STAY = TableBins(
    (0, 2, 3, 4, 5, 6, 7, 15, 29, 57, 85, 183),
    ("1 day", "2 days", "3 days", "4 days", "5 days", "6 days",
     "1-2 weeks", "2-4 weeks", "4-8 weeks", "8-12 weeks", "12-26 weeks", "26+ weeks"),
)  # fmt: skip


@dataclass(frozen=True)
class KolmogorovSmirnov:
    """Largest difference between two distribution functions, with bounds from a bootstrap over members.

    Attributes
    ----------
    distance
        sup |F_removed - F_remaining|.
    low, high
        Interval at the stated confidence: distance -/+ the quantile of the replicates' sup of the recentred difference. It is
        valid, because |D - true D| is at most that sup, and slightly conservative.
    p_value
        Of the hypothesis that the distributions are equal: share of replicates whose recentred sup reaches the distance,
        with one added to numerator and denominator; at least 1 / (replicates + 1).
    """

    distance: float
    low: float
    high: float
    p_value: float


def counts_by_text(members: Table, removed: Table, column: str) -> str:
    """SELECT value | removed_count | remaining_count of a text column over members, such as sex (Table 1)."""
    return f"""
        SELECT m.{quoted(column)} AS value, count(r.member_id) AS removed_count,
               count(*) - count(r.member_id) AS remaining_count
        FROM {members.sql} m LEFT JOIN {_distinct(removed)} r ON m.member_id = r.member_id
        GROUP BY ALL ORDER BY value"""


def member_values(members: Table, removed: Table, column: str) -> str:
    """SELECT the histogram of each member's own integer value, such as age: one row per member with a value.

    Returns
    -------
    str
        SELECT of member INTEGER (0 .. members - 1) | removed BOOLEAN | value INTEGER | n INTEGER (1).
    """
    return f"""
        {_numbered(members, removed)}
        SELECT m.member, m.removed, v.{quoted(column)}::INTEGER AS value, 1::INTEGER AS n
        FROM numbered m JOIN {members.sql} v ON m.member_id = v.member_id
        WHERE v.{quoted(column)} IS NOT NULL ORDER BY ALL"""


def claim_values(claims: Table, members: Table, removed: Table, column: str) -> str:
    """SELECT each member's histogram of an integer column of their claims; as `member_values`, but n counts claims."""
    return f"""
        {_numbered(members, removed)}
        SELECT m.member, m.removed, c.value, c.n FROM numbered m JOIN (
            SELECT member_id, {quoted(column)}::INTEGER AS value, count(*)::INTEGER AS n
            FROM {claims.sql} WHERE {quoted(column)} IS NOT NULL GROUP BY ALL) c ON m.member_id = c.member_id
        ORDER BY ALL"""


def median_claims(claims: Table, members: Table, removed: Table) -> str:
    """SELECT removed BOOLEAN | members | median_claims, over members with a claim."""
    return f"""
        {_numbered(members, removed)}
        SELECT m.removed, count(*) AS members, median(c.n)::DOUBLE AS median_claims
        FROM numbered m JOIN (SELECT member_id, count(*) AS n FROM {claims.sql} GROUP BY member_id) c
          ON m.member_id = c.member_id
        GROUP BY m.removed ORDER BY m.removed"""


def _distinct(removed: Table) -> str:
    """Return distinct removed members, who may be listed once per reason."""
    return f"(SELECT DISTINCT member_id FROM {removed.sql})"


def _numbered(members: Table, removed: Table) -> str:
    return f"""
        WITH numbered AS (
            SELECT m.member_id, (row_number() OVER (ORDER BY m.member_id) - 1)::INTEGER AS member,
                   r.member_id IS NOT NULL AS removed
            FROM {members.sql} m LEFT JOIN {_distinct(removed)} r ON m.member_id = r.member_id)"""


def percentages(labels: Sequence[str], removed_counts: NDArray, remaining_counts: NDArray) -> pd.DataFrame:
    """Return one of Tables 1-4: value | excluded_percent | remaining_percent; each column sums to 100.

    A group without members has 0 everywhere.

    Examples
    --------
    >>> percentages(["Male", "Female"], np.array([1, 3]), np.array([1, 1]))["excluded_percent"].tolist()
    [25.0, 75.0]
    """
    table = {"value": list(labels)}
    for name, counts in (("excluded_percent", removed_counts), ("remaining_percent", remaining_counts)):
        counts = np.asarray(counts, dtype=float)
        table[name] = 100 * counts / max(counts.sum(), 1)
    return pd.DataFrame(table)


def binned_percentages(histogram: dict[str, NDArray], bins: TableBins) -> pd.DataFrame:
    """Return one of Tables 2-4 from the columns of `member_values` or `claim_values`.

    Raises
    ------
    ValueError
        If a value is below the first bin; the message does not show it.
    """
    value, removed, n = (np.asarray(histogram[name]) for name in ("value", "removed", "n"))
    place = np.searchsorted(bins.lower, value, side="right") - 1
    below = int((place < 0).sum())
    if below:
        raise ValueError(
            f"{how_many(below, 'histogram row lies', 'histogram rows lie')} below the first bin, which begins at "
            f"{bins.lower[0]}"
        )
    counts = [np.bincount(place[side], weights=n[side], minlength=len(bins.lower)) for side in (removed, ~removed)]
    return percentages(bins.labels, *counts)


def kolmogorov_smirnov(
    histogram: dict[str, NDArray],
    rng: np.random.Generator,
    replicates: int = 999,
) -> KolmogorovSmirnov | None:
    """Compare the values of removed and remaining members by resampling members.

    Parameters
    ----------
    histogram
        Columns of `member_values` or `claim_values`: member (rows,) int, removed (rows,) bool, value (rows,) int, n (rows,)
        int, number of claims of that member with that value. Rows must be in the order of the SELECT, because the order of
        members decides their weights, and so the last digits.
    rng
        Source of the weights; the same state gives the same result.
    replicates
        Number of bootstrap replicates.

    Returns
    -------
    KolmogorovSmirnov or None
        None if one of the two groups has no values, so that nothing can be compared.

    Notes
    -----
    A replicate in which a group has no members is uninformative and counts as the largest deviation, 1.
    """
    member, n = np.asarray(histogram["member"]), np.asarray(histogram["n"])
    removed = np.asarray(histogram["removed"], dtype=bool)
    if removed.all() or not removed.any():
        return None
    values, place = np.unique(np.asarray(histogram["value"]), return_inverse=True)
    functions, resampled = [], []
    for side in (removed, ~removed):
        per_member = _per_member(member[side], place[side], n[side], len(values))
        functions.append(_distribution_function(np.asarray(per_member.sum(axis=0)).reshape(1, -1))[0])
        resampled.append(_distribution_function(_poisson_bootstrap(per_member, rng, replicates)))
    difference = functions[0] - functions[1]
    distance = float(np.abs(difference).max())
    deviation = np.abs(resampled[0] - resampled[1] - difference).max(axis=1)
    deviation = np.where(np.isnan(deviation), 1.0, deviation)
    reach = float(np.quantile(deviation, CONFIDENCE, method="higher"))
    return KolmogorovSmirnov(
        distance=distance,
        low=max(0.0, distance - reach),
        high=min(1.0, distance + reach),
        p_value=float((1 + (deviation >= distance).sum()) / (replicates + 1)),
    )


def _per_member(member: NDArray, place: NDArray, n: NDArray, width: int) -> sparse.csr_array:
    """Return (members, values) counts; members without a value are left out because they change no distribution."""
    _, row = np.unique(member, return_inverse=True)
    return sparse.csr_array(sparse.coo_array((n.astype(float), (row, place)), shape=(row.max() + 1, width)))


def _poisson_bootstrap(per_member: sparse.csr_array, rng: np.random.Generator, replicates: int) -> NDArray[np.float64]:
    """Return (replicates, values) counts in which each member counts Poisson(1) times."""
    total = np.zeros((replicates, per_member.shape[1]))
    for first in range(0, per_member.shape[0], _MEMBERS_AT_ONCE):
        some = per_member[first : first + _MEMBERS_AT_ONCE]
        weights = _poisson()[rng.integers(0, 2**16, size=(some.shape[0], replicates), dtype=np.uint16)]
        # Sums of integer products are exact, so neither order nor number of threads matters.
        total += (some.T @ weights.astype(float)).T
    return total


def _distribution_function(counts: NDArray) -> NDArray[np.float64]:
    """Return the cumulative shares of each row; NaN for an empty row."""
    cumulated = counts.cumsum(axis=1)
    with np.errstate(invalid="ignore"):
        return cumulated / cumulated[:, -1:]


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
