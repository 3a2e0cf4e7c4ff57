"""Linkage simulation (methods#linkage-simulation).

A release is linked one to one with an identified file, and right links count.

The adversary sees which records and which people are alike, and nothing else. Within each class he assigns records to
people at random, nobody twice. Because true matches are known here, each attempt has a precision (right links of all
links) and a recall (right links of all released records): what one adversary gets, where marketer risk is what he can
expect.

A cautious adversary links only where the file holds one person of the class.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats


@dataclass(frozen=True)
class Linkage:
    """Outcome of the simulated attempts.

    Attributes
    ----------
    released, links
        Released records; links made in each attempt, the same in all of them.
    correct
        (trials,) right links of each attempt.
    """

    released: int
    links: int
    correct: NDArray[np.int64]

    @property
    def precision(self) -> NDArray[np.float64]:
        """(trials,) right links over links; empty where no link is made."""
        return self.correct / self.links if self.links else np.empty(0)

    @property
    def recall(self) -> NDArray[np.float64]:
        """(trials,) right links over released records; empty where nothing is released."""
        return self.correct / self.released if self.released else np.empty(0)


@dataclass(frozen=True)
class AttemptSummary:
    """Mean over attempts with its confidence interval (Student), and the range in which nine attempts of ten lie."""

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
    """Link the release with the file, again and again.

    Parameters
    ----------
    released_class
        (n,) int: class of each released record.
    file_class
        (N,) int: class of each person of the file.
    true_match
        (n,) int: position in the file of the person whose record it is; -1 where the file does not hold him.
    random
        Where the assignments come from.
    trials
        Attempts.
    only_unique
        Whether links are made only in classes of which the file holds one person.

    Raises
    ------
    ValueError
        If shapes differ, a match is no position in the file, or two records belong to one person.

    Examples
    --------
    Two are alike, one is alone, and one is not in the file: three links are made, of which one or all are right.

    >>> classes = [0, 0, 1, 2], [0, 0, 1, 3], [0, 1, 2, -1]
    >>> found = simulate_linkage(*classes, np.random.default_rng(1), trials=1000)
    >>> found.links, set(found.correct.tolist()), expected_correct(*classes)
    (3, {1, 3}, 2.0)
    """
    records, people, match = _checked(released_class, file_class, true_match)
    wanted, sizes = np.unique(people, return_counts=True)
    # Classes that only one side has make no links.
    linkable = np.intersect1d(records, wanted[sizes == 1] if only_unique else wanted)
    of_records = np.flatnonzero(np.isin(records, linkable))
    of_people = np.flatnonzero(np.isin(people, linkable))
    own_records = np.searchsorted(linkable, records[of_records])
    own_people = np.searchsorted(linkable, people[of_people])
    # In the order of the classes: a record and a person of one class and one place in it are linked.
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


def expected_correct(released_class: ArrayLike, file_class: ArrayLike, true_match: ArrayLike) -> float:
    """Return the expected number of right links: each record whose person is of its class counts 1 / max(f, F)."""
    records, people, match = _checked(released_class, file_class, true_match)
    classes, position = np.unique(np.concatenate([records, people]), return_inverse=True)
    own, theirs = position[: records.size], position[records.size :]
    larger = np.maximum(np.bincount(own, minlength=classes.size), np.bincount(theirs, minlength=classes.size))
    held = match >= 0
    alike = np.zeros(records.size, dtype=bool)
    alike[held] = theirs[match[held]] == own[held]
    return float((1 / larger[own[alike]]).sum())


def attempt_summary(shares: ArrayLike, confidence: float = 0.99) -> AttemptSummary | None:
    """Summarize precision or recall over attempts; None where there was none.

    The interval covers Monte Carlo error of the mean only.
    """
    shares = np.asarray(shares, dtype=float)
    if shares.size < 2:
        return None
    error = float(stats.t.isf((1 - confidence) / 2, shares.size - 1)) * float(shares.std(ddof=1)) / shares.size**0.5
    mean = float(shares.mean())
    least, most = np.quantile(shares, [0.05, 0.95])
    return AttemptSummary(mean, max(0.0, mean - error), min(1.0, mean + error), float(least), float(most))


def _firsts(classes: NDArray, count: int) -> NDArray[np.int64]:
    """Where each class begins once they are sorted."""
    return np.concatenate([[0], np.cumsum(np.bincount(classes, minlength=count))])[:-1]


def _shuffled(classes: NDArray, random: np.random.Generator) -> NDArray[np.int64]:
    """Positions in the order of their classes, at random within each: a shuffle, and a stable sort."""
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
