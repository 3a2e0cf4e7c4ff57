"""How much of what can be predicted from a delivery can be predicted from its release (methods#share-of-the-gain-kept).

Five losses of one target, of the same members and out of fold: of the best constant, of the release with its claim labels at
their coarsest level, of the release, of the delivery, and of both together. The gain is what the delivery is better than the
constant. A share of a gain says something where the difference of two losses does not: where even the delivery predicts little,
a loss of nothing is no achievement.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

SOURCES = ("constant", "coarsest", "released", "delivered", "both")
"""What a target is predicted from, in the order of the columns of losses."""
REPEATS, FOLDS = 5, 2
"""Splits into halves, each predicted by a model of the other: the 5 x 2 folds of Dietterich (1998)."""
CONFIDENCE = 0.95
"""Of two-sided intervals."""
LEAK_AT = 3.0
"""Standard errors from which release and delivery together tell more than the delivery."""
_LEAST_ROWS = 50
"""Rows in a leaf; a feature that is set in fewer rows cannot split anything."""
_CHUNK = 50
_BINNING = Lock()
"""One thread at a time: meanwhile, scikit-learn replaces the warning filters of the whole process."""


@dataclass(frozen=True)
class Target:
    """What is predicted.

    Attributes
    ----------
    name
        What it is called.
    truth
        (n,) float64: 0 or 1 of an event, or log(1 + days).
    event
        Whether it is an event. Of an event the loss is the log loss; of days, the root mean squared error.
    """

    name: str
    truth: np.ndarray
    event: bool


@dataclass(frozen=True)
class Interval:
    """A number and the ends of its two-sided interval (`CONFIDENCE`)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Gain:
    """What is predicted of a target, and how much of it the release keeps.

    Attributes
    ----------
    losses
        (5,) float64: loss by each of `SOURCES`.
    gain
        By how much the delivery is better than the best constant, as a share of the constant's loss.
    label_gain
        By how much the delivery is better than the release with claim labels at their coarsest level, as a share of the
        constant's loss.
    kept
        Share of the gain that the release keeps; None if the gain is not above 0 by its interval.
    label_kept
        Share of the label gain that the labels of the release keep; None if the label gain is not above 0 by its interval.
    leak
        By how many paired standard errors release and delivery together are better than the delivery alone; see
        `in_standard_errors`.
    """

    losses: np.ndarray
    gain: Interval
    label_gain: Interval
    kept: Interval | None
    label_kept: Interval | None
    leak: float


def share_kept(without: np.ndarray, released: np.ndarray, delivered: np.ndarray) -> np.ndarray:
    """Share of the gain from `without` to `delivered` that `released` keeps; of losses.

    Examples
    --------
    >>> round(float(share_kept(np.float64(0.5882), np.float64(0.5792), np.float64(0.5762))), 2)
    0.75
    """
    return np.asarray((without - released) / (without - delivered))


def member_losses(
    targets: Sequence[Target], features: Sequence[np.ndarray], row_member: np.ndarray, folds: np.ndarray
) -> list[np.ndarray]:
    """Of each target (m, 1 + s) sums of the losses of each member's rows, by the best constant and by each source.

    They are the mean over the repeats. Every source has the same rows and the same folds.

    Parameters
    ----------
    features
        (n, f) float of each source; for a `Gain` those of `SOURCES` after the constant. Those that `can_split` are enough.
    row_member
        (n,) int64: position of the member of each row, 0 .. m - 1.
    folds
        (r, n) int64: the fold of each row in each repeat.
    """
    splits = [(np.flatnonzero(fold != own), np.flatnonzero(fold == own)) for fold in folds for own in np.unique(fold)]
    asked = [(of, targets, *split) for split in splits for of in features]
    found = np.zeros((len(targets), len(row_member), 1 + len(features)))
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        fitted = pool.map(_fitted, *zip(*asked, strict=True))
        for train, held in splits:
            constants = [np.full(len(held), target.truth[train].mean()) for target in targets]
            for place, predicted in enumerate([constants, *(next(fitted) for _ in features)]):
                for target, numbers, losses in zip(targets, predicted, found, strict=True):
                    losses[held, place] += _loss(numbers, target, held, len(train)) / len(folds)
    finally:
        pool.shutdown(cancel_futures=True)  # of a step that is interrupted, nothing more begins
    members = int(row_member.max(initial=-1)) + 1
    return [np.stack([np.bincount(row_member, one, members) for one in losses.T], axis=1) for losses in found]


def can_split(features: np.ndarray) -> np.ndarray:
    """(n, f') float32: the features in which at least `_LEAST_ROWS` rows differ from the median, each once.

    Of any other, one side of every split has fewer rows than a leaf, and of equal features the first one splits. So leaving
    the others out changes no model, and saves time.
    """
    numbers = np.asarray(features, dtype=np.float32)
    differs = (numbers != np.median(numbers, axis=0)).sum(axis=0) >= _LEAST_ROWS
    first = {numbers[:, place].tobytes(): place for place in reversed(np.flatnonzero(differs).tolist())}
    return numbers[:, sorted(first.values())]


def resampled_sums(sums: np.ndarray, resamples: int, generator: np.random.Generator) -> np.ndarray:
    """(resamples, c) sums over members drawn with replacement (Efron 1979); all columns have the same draws.

    Parameters
    ----------
    sums
        (m, c) float64: what each member adds.
    """
    members = len(sums)
    drawn = np.empty((resamples, sums.shape[1]))
    for start in range(0, resamples, _CHUNK):
        size = min(_CHUNK, resamples - start)
        chosen = generator.integers(members, size=(size, members)) + members * np.arange(size)[:, None]
        times = np.bincount(chosen.ravel(), minlength=size * members).reshape(size, members)
        drawn[start : start + size] = times.astype(np.float64) @ sums
    return drawn


def resampled_losses(
    sums: Sequence[tuple[Target, np.ndarray]], row_member: np.ndarray, resamples: int, generator: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Losses of each target, (s,), and of members drawn with replacement, (resamples, s); all targets have the same draws.

    Parameters
    ----------
    sums
        Targets with their (m, s) sums of the losses of each member.
    row_member
        (n,) int64: position of the member of each row.
    """
    rows = np.bincount(row_member).astype(np.float64)
    drawn = resampled_sums(np.column_stack([*(own for _, own in sums), rows]), resamples, generator)
    found, start = [], 0
    for target, own in sums:
        end = start + own.shape[1]
        found.append((mean_losses(target, own.sum(axis=0), rows.sum()), mean_losses(target, drawn[:, start:end], drawn[:, -1])))
        start = end
    return found


def gain_of(losses: np.ndarray, drawn: np.ndarray) -> Gain:
    """What is gained and kept, with the intervals and the paired standard error of resampled losses.

    Parameters
    ----------
    losses
        (5,) float64, by each of `SOURCES`.
    drawn
        (resamples, 5) float64: the same of members drawn with replacement.
    """
    constant, coarsest, released, delivered, both = losses
    constants, coarse, shown, whole, joined = drawn.T
    gain = _interval((constant - delivered) / constant, (constants - whole) / constants)
    label_gain = _interval((coarsest - delivered) / constant, (coarse - whole) / constants)
    kept = label_kept = None
    if gain.low > 0:
        kept = _interval(share_kept(constant, released, delivered), _positive(constants, shown, whole))
    if label_gain.low > 0:
        label_kept = _interval(share_kept(coarsest, released, delivered), _positive(coarse, shown, whole))
    return Gain(losses, gain, label_gain, kept, label_kept, in_standard_errors(delivered - both, whole - joined))


def shares_of_all_gains(losses: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[Interval, ...]:
    """Share of the gain of all targets together that each of some releases keeps.

    A target's gain is a part of the loss of its best constant, so that targets of other units add up, and one that is hardly
    predicted hardly counts. Targets whose gain is not above 0 by its interval do not count at all.

    Parameters
    ----------
    losses
        Of each target: (2 + k,) float64, by the best constant, the delivery and each of the k releases; and (resamples, 2 + k)
        of members drawn with replacement, the same for all targets.

    Returns
    -------
    tuple of Interval
        Of each release; empty if the delivery predicts no target.

    Examples
    --------
    >>> of_days, of_group = np.array([1.0, 0.9, 0.95, 1.0]), np.array([0.5, 0.4, 0.4, 0.45])
    >>> found = shares_of_all_gains([(one, one[None].repeat(9, axis=0)) for one in (of_days, of_group)])
    >>> [round(share.value, 3) for share in found]
    [0.833, 0.333]
    """
    # By how much each source after the first is better than the first, as a part of its loss; of draws, too.
    wholes = [((own[0] - own[1:]) / own[0], (drawn[:, :1] - drawn[:, 1:]) / drawn[:, :1]) for own, drawn in losses]
    counted = [own for own in wholes if _interval(own[0][0], own[1][:, 0]).low > 0]
    if not counted:
        return ()
    values = np.sum([value for value, _ in counted], axis=0)
    drawn = np.sum([several for _, several in counted], axis=0)
    drawn = drawn[drawn[:, 0] > 0]
    shares, of_draws = values[1:] / values[0], drawn[:, 1:] / drawn[:, :1]
    return tuple(_interval(float(share), own) for share, own in zip(shares, of_draws.T, strict=True))


def in_standard_errors(difference: float, drawn: np.ndarray) -> float:
    """A paired difference in standard errors, of the differences of members drawn with replacement; 0 if none ever differs."""
    error = float(np.std(drawn, ddof=1))
    return float(difference) / error if error > 0 else 0.0


def _positive(without: np.ndarray, released: np.ndarray, delivered: np.ndarray) -> np.ndarray:
    """The shares of the draws in which there is a gain; at most one in forty has none, or the share would not be asked for."""
    some = without > delivered
    return share_kept(without[some], released[some], delivered[some])


def _interval(value: float | np.ndarray, drawn: np.ndarray) -> Interval:
    """The percentile interval of Efron (1979), which contains the value."""
    tail = (1 - CONFIDENCE) / 2
    low = float(np.quantile(drawn, tail, method="lower"))
    high = float(np.quantile(drawn, 1 - tail, method="higher"))
    return Interval(float(value), min(low, float(value)), max(high, float(value)))


def mean_losses(target: Target, sums: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Loss of a target from sums over rows: the mean of an event, the root of the mean of days.

    Parameters
    ----------
    sums
        (..., s) float64.
    rows
        (...,) float64: how many rows were summed.
    """
    means = sums / np.asarray(rows)[..., None]
    return np.asarray(means if target.event else np.sqrt(means))


def _fitted(features: np.ndarray, targets: Sequence[Target], train: np.ndarray, asked: np.ndarray) -> list[np.ndarray]:
    """Of each target (m,) predictions by gradient boosting (Friedman 2001): probabilities of an event, or log(1 + days)."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    known, unknown = (features[rows].astype(np.float64) for rows in (train, asked))
    bins: list = []

    def predicted(target: Target) -> np.ndarray:
        wanted = target.truth[train]
        if wanted.min() == wanted.max() or not features.shape[1]:
            return np.full(len(asked), wanted.mean())
        kind = HistGradientBoostingClassifier if target.event else HistGradientBoostingRegressor
        model = kind(
            learning_rate=0.15, max_iter=24, max_leaf_nodes=8, min_samples_leaf=_LEAST_ROWS, l2_regularization=1.0, max_bins=32,
            early_stopping=False, random_state=0,
        )  # fmt: skip
        _share_bins(model, bins)
        model.fit(known, wanted)
        return np.asarray(model.predict_proba(unknown)[:, 1] if target.event else model.predict(unknown))

    # On one thread: threads that wait for each other on a busy machine take thirty times as long.
    with threadpool_limits(1, user_api="openmp"):
        return [predicted(target) for target in targets]


def _share_bins(model: Any, bins: list) -> None:
    """Let a model take the bins of the first that was fitted on the same rows: to find them takes half of the time of a fit.

    scikit-learn has no public way to share them. If a later version no longer asks `_bin_data`, each model finds its own, which
    are the same.
    """
    found: Any = getattr(model, "_bin_data", None)

    def shared(*given: Any, **named: Any) -> np.ndarray:
        with _BINNING:
            if not bins:
                bins.append((found(*given, **named), model._bin_mapper))
        binned, model._bin_mapper = bins[0]
        return np.asarray(binned)

    model._bin_data = shared


def _loss(predicted: np.ndarray, target: Target, rows: np.ndarray, trained_on: int) -> np.ndarray:
    """(m,) loss of each prediction: the negative logarithm of the probability of what happened, or the squared error.

    No model of n rows is surer of an event than half a row in n.
    """
    truth = target.truth[rows]
    if not target.event:
        return np.asarray((predicted - truth) ** 2)
    sure = np.clip(predicted, 0.5 / trained_on, 1 - 0.5 / trained_on)
    return np.asarray(-np.log(np.where(truth > 0, sure, 1 - sure)))
