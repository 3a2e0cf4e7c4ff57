"""Linkage simulation (methods#linkage-simulation).

A release is linked one to one with an identified file, and the correct links are counted.

The adversary sees only which records and which people have the same values. Within each equivalence class they assign records
to people at random, each person at most once. Because the true matches are known, each attempt has a precision (correct links
over links) and a recall (correct links over released records). These are outcomes for one adversary; marketer risk is the
expectation.

A cautious adversary links a record only if the file has one person in its class.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats


@dataclass(frozen=True)
class Linkage:
    """Results of the simulated attempts.

    Attributes
    ----------
    released, links
        Number of released records; number of links per attempt, the same in all attempts.
    correct
        (trials,) number of correct links of each attempt.
    """

    released: int
    links: int
    correct: NDArray[np.int64]

    @property
    def precision(self) -> NDArray[np.float64]:
        """(trials,) correct links over links; empty if there are no links."""
        return self.correct / self.links if self.links else np.empty(0)

    @property
    def recall(self) -> NDArray[np.float64]:
        """(trials,) correct links over released records; empty if nothing is released."""
        return self.correct / self.released if self.released else np.empty(0)


@dataclass(frozen=True)
class AttemptSummary:
    """Mean over attempts with its Student confidence interval, and the range of the central 90 % of attempts."""

    mean: float
    low: float
    high: float
    least: float
    most: float


def simulate_linkage(
    released_class: ArrayLike,
    file_class: ArrayLike,
    true_match: ArrayLike,
    random: np.random.Generator,
    trials: int,
    only_unique: bool = False,
) -> Linkage:
    """Simulate attempts to link the release with the file.

    Parameters
    ----------
    released_class
        (n,) int: class of each released record.
    file_class
        (N,) int: class of each person in the file.
    true_match
        (n,) int: position in the file of the person the record belongs to; -1 if the person is not in the file.
    random
        Generator of the random assignments.
    trials
        Number of attempts.
    only_unique
        Whether to link only in classes with exactly one person in the file.

    Raises
    ------
    ValueError
        If shapes differ, a match is not a position in the file, or two records belong to one person.

    Examples
    --------
    Two are alike, one is alone, and one is not in the file: three links are made, of which one or all are right.

    >>> classes = [0, 0, 1, 2], [0, 0, 1, 3], [0, 1, 2, -1]
    >>> found = simulate_linkage(*classes, np.random.default_rng(1), trials=1000)
    >>> found.links, set(found.correct.tolist())
    (3, {1, 3})
    """
    records, people, match = _checked(released_class, file_class, true_match)
    wanted, sizes = np.unique(people, return_counts=True)
    # Classes on one side only make no links.
    linkable = np.intersect1d(records, wanted[sizes == 1] if only_unique else wanted)
    of_records = np.flatnonzero(np.isin(records, linkable))
    of_people = np.flatnonzero(np.isin(people, linkable))
    own_records = np.searchsorted(linkable, records[of_records])
    own_people = np.searchsorted(linkable, people[of_people])
    # Both sides are sorted by class; the record and the person at the same place of a class are linked.
    class_of = np.sort(own_records)
    place = np.arange(class_of.size) - _firsts(own_records, linkable.size)[class_of]
    linked = place < np.bincount(own_people, minlength=linkable.size)[class_of]
    partner = (_firsts(own_people, linkable.size)[class_of] + place)[linked]
    correct = np.empty(trials, dtype=np.int64)
    for trial in range(trials):
        records_order = of_records[_shuffled(own_records, random)][linked]
        people_order = of_people[_shuffled(own_people, random)][partner]
        correct[trial] = np.count_nonzero(match[records_order] == people_order)
    return Linkage(records.size, int(linked.sum()), correct)


def attempt_summary(shares: ArrayLike, confidence: float = 0.99) -> AttemptSummary | None:
    """Summarize precision or recall over attempts; None for fewer than two attempts.

    The interval covers only the Monte Carlo error of the mean.
    """
    shares = np.asarray(shares, dtype=float)
    if shares.size < 2:
        return None
    error = float(stats.t.isf((1 - confidence) / 2, shares.size - 1)) * float(shares.std(ddof=1)) / shares.size**0.5
    mean = float(shares.mean())
    least, most = np.quantile(shares, [0.05, 0.95])
    return AttemptSummary(mean, max(0.0, mean - error), min(1.0, mean + error), float(least), float(most))


def _firsts(classes: NDArray, count: int) -> NDArray[np.int64]:
    """Return where each class begins after sorting."""
    return np.concatenate([[0], np.cumsum(np.bincount(classes, minlength=count))])[:-1]


def _shuffled(classes: NDArray, random: np.random.Generator) -> NDArray[np.int64]:
    """Return positions sorted by class and shuffled within each: a shuffle, then a stable sort."""
    order = random.permutation(classes.size)
    return order[np.argsort(classes[order], kind="stable")]


def _checked(released_class: ArrayLike, file_class: ArrayLike, true_match: ArrayLike) -> tuple[NDArray, NDArray, NDArray]:
    records, people = np.asarray(released_class, dtype=np.int64), np.asarray(file_class, dtype=np.int64)
    match = np.asarray(true_match, dtype=np.int64)
    if records.ndim != 1 or people.ndim != 1 or match.shape != records.shape:
        raise ValueError("released_class and true_match need one shape (n,), file_class (N,)")
    held = match[match >= 0]
    if (match < -1).any() or (held >= people.size).any():
        raise ValueError("true_match must be a position in the file, or -1")
    if np.unique(held).size != held.size:
        raise ValueError("two released records belong to one person")
    return records, people, match
