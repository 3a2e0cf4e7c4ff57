"""What a year of claims says about a member, as features of a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deid_assets.store.tables import quoted

MOST_VALUES, ROWS_PER_VALUE = 60, 20
"""Most values of a column that have a feature each, the most frequent ones; and rows that there must be for each of them."""

_YEARS = 8
"""More than the years of a delivery."""


@dataclass(frozen=True)
class ClaimColumns:
    """The columns of the claims that features are made of.

    Attributes
    ----------
    values
        Columns whose values are counted.
    ranks
        Columns of numbers, of which mean and largest are taken.
    identifiers
        Columns whose distinct values are counted.
    """

    values: Sequence[str]
    ranks: Sequence[str]
    identifiers: Sequence[str]


def year_features(claims: str, columns: ClaimColumns) -> str:
    """SELECT member, year, feature (number of the column, in the order of `columns`), value (a hash), x.

    One row for each member, year and value of a column with the number of claims, and for mean and largest number, for
    distinct identifiers, and for all claims.

    Parameters
    ----------
    claims
        A SELECT of member, year and the columns.
    """
    parts = ["SELECT member, year, 0 AS feature, 0::UBIGINT AS value, count(*)::DOUBLE AS x FROM claims_of_years GROUP BY ALL"]
    number = 1
    for column in columns.values:
        parts.append(
            f"SELECT member, year, {number}, hash(coalesce({quoted(column)}::VARCHAR, '')), count(*)::DOUBLE"
            " FROM claims_of_years GROUP BY ALL"
        )
        number += 1
    aggregates = [f"{kind}({quoted(column)})" for column in columns.ranks for kind in ("avg", "max")]
    aggregates += [f"count(DISTINCT {quoted(column)})" for column in columns.identifiers]
    for aggregate in aggregates:
        parts.append(f"SELECT member, year, {number}, 0::UBIGINT, ({aggregate})::DOUBLE FROM claims_of_years GROUP BY ALL")
        number += 1
    return f"WITH claims_of_years AS MATERIALIZED ({claims}) {' UNION ALL '.join(parts)}"


def feature_matrix(found: Mapping[str, np.ndarray], member: np.ndarray, year: np.ndarray) -> np.ndarray:
    """(n, f) float64: a row of features for each member and year; zero where a year has no claims.

    Numbers of claims are as log(1 + number). Of a column with many values, the most frequent ones have features.

    Parameters
    ----------
    found
        Arrays of `year_features`.
    member, year
        (n,) the rows wanted.
    """
    wanted_keys, found_keys = (row_keys(*pair) for pair in ((member, year), (found["member"], found["year"])))
    order = np.argsort(wanted_keys, kind="stable")
    nearest = order[np.minimum(np.searchsorted(wanted_keys, found_keys, sorter=order), len(order) - 1)]
    rows = np.where(wanted_keys[nearest] == found_keys, nearest, -1)
    x = np.ma.filled(np.ma.asarray(found["x"], dtype=np.float64), np.nan)
    keys, of_key = np.unique(
        np.stack([found["feature"].astype(np.uint64), found["value"]], axis=1), axis=0, return_inverse=True
    )
    of_key = of_key.reshape(-1)
    totals = np.bincount(of_key, np.nan_to_num(x), len(keys))
    kept, most = np.zeros(len(keys), dtype=bool), max(1, min(MOST_VALUES, len(member) // ROWS_PER_VALUE))
    for feature in np.unique(keys[:, 0]):
        own = np.flatnonzero(keys[:, 0] == feature)
        kept[own[np.lexsort((keys[own, 1], -totals[own]))[:most]]] = True
    place = np.cumsum(kept) - 1
    wanted = (rows >= 0) & kept[of_key] & ~np.isnan(x)
    matrix = np.zeros((len(member), int(kept.sum())))
    matrix[rows[wanted], place[of_key[wanted]]] = np.log1p(np.maximum(x[wanted], 0.0))
    return matrix


def row_keys(member: np.ndarray, year: np.ndarray) -> np.ndarray:
    """(n,) int64: a number for each member and year."""
    return np.asarray(member.astype(np.int64) * _YEARS + year.astype(np.int64))
