"""Days in hospital next year predicted from a year of claims, scored as in the Heritage Health Prize (methods#utility).

The score is the root mean of squared differences of log(1 + days). Every prediction is for a member whom the model has not
seen: folds are of members, so that two years of one member never help each other.

`year_features` are what a year of claims says about a member.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from deid_assets.store.tables import quoted

Model = Literal["ridge", "gradient_boosting"]

PENALTIES = 10.0 ** np.arange(-2, 7)
"""Of the ridge regression, on standardized features; generalized cross-validation chooses one."""


@dataclass(frozen=True)
class Examples:
    """Member-years to predict, and what an analyst knows about them.

    Attributes
    ----------
    member
        (n,) int64: number of the member.
    features
        (n, f) float64.
    label
        (n,) int64: class of the days in the data that the analyst has; a model is trained on classes.
    truth
        (n,) float64: log(1 + days in hospital) as delivered; it scores.
    """

    member: np.ndarray
    features: np.ndarray
    label: np.ndarray
    truth: np.ndarray


def folds_of(member: np.ndarray, folds: int, generator: np.random.Generator) -> np.ndarray:
    """(n,) int64: the fold of each row; all rows of a member are in one, and folds have equally many members."""
    members, rows = np.unique(member, return_inverse=True)
    return (generator.permutation(len(members)) % folds)[rows]


def out_of_fold(examples: Examples, fold: np.ndarray, model: Model) -> np.ndarray:
    """Predict log(1 + days) of each row by a model of the other folds.

    A class of days stands for the mean of log(1 + days) of its rows in the training folds, which its owner may publish.

    Returns
    -------
    np.ndarray
        (n,) float64, between the smallest and the largest value that the model was trained on.
    """
    predicted = np.empty(len(examples.truth))
    for own in np.unique(fold):
        held, train = fold == own, fold != own
        wanted = _by_class(examples.label[train], examples.truth[train], examples.label[train])
        fitted = _fitted(examples.features[train], wanted, examples.features[held], model)
        predicted[held] = np.clip(fitted, wanted.min(), wanted.max())
    return predicted


def class_means(label: np.ndarray, truth: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Predict log(1 + days) of each row as the mean of its class in the other folds; one class for all is the constant.

    Of all constants, the mean of log(1 + days) has the smallest score: it is the calibrated baseline.

    Parameters
    ----------
    label
        (n,) int64: class of each row.
    """
    predicted = np.empty(len(truth))
    for own in np.unique(fold):
        held, train = fold == own, fold != own
        predicted[held] = _by_class(label[train], truth[train], label[held])
    return predicted


def rmsle(predicted: np.ndarray, truth: np.ndarray) -> float:
    """The prize's score of log(1 + days); smaller is better.

    Examples
    --------
    >>> rmsle(np.log1p([0.0, 3.0]), np.log1p([0.0, 3.0])), round(rmsle(np.log1p([0.0]), np.log1p([np.e - 1])), 6)
    (0.0, 1.0)
    """
    return float(np.sqrt(np.mean((predicted - truth) ** 2)))


def resampled_differences(
    before: np.ndarray, after: np.ndarray, examples: Examples, resamples: int, generator: np.random.Generator
) -> np.ndarray:
    """(resamples,) differences of two scores, after less before, of members drawn with replacement (Efron 1979).

    Both scores use the same draws, so that what makes members hard to predict cancels out. All rows of a member are drawn
    together.

    Parameters
    ----------
    before, after
        (n,) predictions of the same rows.
    """
    _, rows = np.unique(examples.member, return_inverse=True)
    members = int(rows.max(initial=-1)) + 1
    squares = [np.bincount(rows, (predicted - examples.truth) ** 2, members) for predicted in (before, after)]
    sums = np.stack([*squares, np.bincount(rows, minlength=members)])
    drawn = np.empty((resamples, 3))
    for number in range(resamples):
        weights = np.bincount(generator.integers(members, size=members), minlength=members)
        drawn[number] = sums @ weights
    return np.asarray(np.sqrt(drawn[:, 1] / drawn[:, 2]) - np.sqrt(drawn[:, 0] / drawn[:, 2]))


def _by_class(label: np.ndarray, truth: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """The mean of a class for each class asked for; of a class that does not occur, the mean of all."""
    size = int(max(label.max(initial=0), asked.max(initial=0))) + 1
    numbers, sums = np.bincount(label, minlength=size), np.bincount(label, truth, size)
    means = np.where(numbers > 0, sums / np.maximum(numbers, 1), truth.mean())
    return np.asarray(means[asked])


def _fitted(features: np.ndarray, wanted: np.ndarray, asked: np.ndarray, model: Model) -> np.ndarray:
    from threadpoolctl import threadpool_limits

    if model == "gradient_boosting":
        # Imported here: it takes a second, and the ridge regression does without.
        from sklearn.ensemble import HistGradientBoostingRegressor

        boosted = HistGradientBoostingRegressor(
            learning_rate=0.06, max_iter=150, max_leaf_nodes=15, min_samples_leaf=50, l2_regularization=1.0,
            early_stopping=False, random_state=0,
        )  # fmt: skip
        # On one thread: threads that wait for each other on a busy machine take thirty times as long.
        with threadpool_limits(1, user_api="openmp"):
            return np.asarray(boosted.fit(features, wanted).predict(asked))
    middle, scale = features.mean(axis=0), features.std(axis=0)
    scale[scale == 0] = 1.0
    known, unknown = (features - middle) / scale, (asked - middle) / scale
    # For the same reason: a decomposition of so few columns is over before they have met.
    with threadpool_limits(1, user_api="blas"):
        return np.asarray(unknown @ _ridge(known, wanted - wanted.mean()) + wanted.mean())


def _ridge(features: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """(f,) coefficients; the penalty has the least error of generalized cross-validation (Golub, Heath & Wahba 1979)."""
    values, vectors = np.linalg.eigh(features.T @ features)
    values, product = np.maximum(values, 0.0), vectors.T @ (features.T @ wanted)
    rows, total = len(wanted), float(wanted @ wanted)
    best, chosen = math.inf, np.zeros_like(product)
    for penalty in PENALTIES:
        shrunk = product / (values + penalty)
        residual = total - 2 * float(shrunk @ product) + float(shrunk @ (values * shrunk))
        free = rows - float((values / (values + penalty)).sum())
        # With nearly as many coefficients as rows, what is left of the errors says nothing.
        error = residual / free**2 if free >= rows / 2 else math.inf
        if error < best:
            best, chosen = error, shrunk
    return np.asarray(vectors @ chosen)


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
    of_value, values = pd.factorize(found["value"], sort=True)
    keys, size = found["feature"].astype(np.int64) * len(values) + of_value, max(1, len(values))
    totals, there = np.bincount(keys, np.nan_to_num(x)), np.bincount(keys) > 0
    kept, most = np.zeros(len(totals), dtype=bool), max(1, min(MOST_VALUES, len(member) // ROWS_PER_VALUE))
    for start in range(0, len(totals), size):
        own = start + np.flatnonzero(there[start : start + size])
        kept[own[np.argsort(-totals[own], kind="stable")[:most]]] = True
    place = np.cumsum(kept) - 1
    wanted = (rows >= 0) & kept[keys] & ~np.isnan(x)
    matrix = np.zeros((len(member), int(kept.sum())))
    matrix[rows[wanted], place[keys[wanted]]] = np.log1p(np.maximum(x[wanted], 0.0))
    return matrix


def row_keys(member: np.ndarray, year: np.ndarray) -> np.ndarray:
    """(n,) int64: a number for each member and year."""
    return np.asarray(member.astype(np.int64) * _YEARS + year.astype(np.int64))
