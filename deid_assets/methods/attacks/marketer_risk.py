"""Marketer risk: the expected share of released records that are matched correctly with an identified file.

See section 6 of Multimedia Appendix 1 to El Emam et al. 2012.

An equivalence class contains the records and the people with the same values in both files: f released records, and F people in
the identified file, such as a census, a voter list or a discharge database. An adversary who assigns the records of a class to
its people at random is right with probability 1/F for each record.

Three functions answer this question; the first one decides:

* `matched_share`: the direct sum (1/n) sum f/F if the file contains every released person. People not in the file count as
  found, so that a file that is too small or wrongly mapped never looks safe.
* `expected_marketer_risk`: its expectation over all simple random samples of any size, exactly |J|/N, because
  E f_j = n F_j / N.
* `published_marketer_risk`: the closed form of equation 2 of Multimedia Appendix 1. It replaces f by alpha F in the classes
  that are not empty and is therefore too low by the factor E|S|/|J| (methods#marketer-risk). It is reported as "published
  formula" and never gates.

The linkage simulation (methods#linkage-simulation) links a release one to one with an identified file, and counts the correct
links.

The adversary sees only which records and which people have the same values. Within each equivalence class they assign records
to people at random, each person at most once. Because the true matches are known, each attempt has a precision (correct links
over links) and a recall (correct links over released records). These are outcomes for one adversary; marketer risk is the
expectation.

A cautious adversary links a record only if the file has one person in its class.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

DIRECT_TERMS = 100_000
"""Largest min(F, n) for which a logarithm is summed term by term; beyond, log-gamma is accurate enough."""


def matched_share(released_size: ArrayLike, population_size: ArrayLike) -> float:
    """Return an upper bound on the expected share of released records that are matched correctly, for any file.

    A class with F >= f counts f/F. If F < f, at least f - F of its people are not in the file and count as found; the other F
    count as one, because each is found with probability 1/F. A class that is not in the file counts as found.

    Parameters
    ----------
    released_size, population_size
        (J,) released records f_j >= 0 of each class, and people F_j >= 0 of each class in the identified file.

    Raises
    ------
    ValueError
        If nothing is released.

    Examples
    --------
    >>> matched_share([2, 2], [4, 8]), matched_share([2, 2], [4, 0]), matched_share([3, 1], [2, 4])
    (0.1875, 0.625, 0.5625)
    """
    f, population = _sizes(released_size, population_size)
    found = np.where(population >= f, f / np.maximum(population, 1), f - population + np.minimum(population, 1))
    return float(found.sum() / _released(f))


def missing_records(released_size: ArrayLike, population_size: ArrayLike) -> int:
    """Return the least number of released records that cannot be in the file: sum of max(f - F, 0)."""
    f, population = _sizes(released_size, population_size)
    return int(np.maximum(f - population, 0).sum())


def expected_marketer_risk(population_size: ArrayLike) -> float:
    """Return |J|/N, the expectation of `matched_share` over simple random samples of the file, of any size.

    Parameters
    ----------
    population_size
        (J,) people of each class in the file; empty classes do not count.

    Raises
    ------
    ValueError
        If the file is empty.

    Examples
    --------
    >>> expected_marketer_risk([1, 2, 3, 4])
    0.4
    """
    sizes = np.asarray(population_size, dtype=float)
    if sizes.sum() <= 0:
        raise ValueError("the identified file is empty")
    return float((sizes > 0).sum() / sizes.sum())


def published_marketer_risk(population_size: ArrayLike, released: int) -> float:
    """Return the closed form E|S|/N, which is too low by the factor E|S|/|J|.

    It is equation 2 of Multimedia Appendix 1 to El Emam et al. 2012.

    Parameters
    ----------
    population_size
        (J,) people of each class in the file, N in all.
    released
        Number n of records of the sample, 0 < n <= N.

    Raises
    ------
    ValueError
        If n is out of range.

    Examples
    --------
    The expectation is 0.4 whatever n is:

    >>> [round(published_marketer_risk([1, 2, 3, 4], n), 6) for n in (1, 3, 5, 9, 10)]
    [0.1, 0.2375, 0.317063, 0.39, 0.4]
    """
    sizes = np.asarray(population_size, dtype=np.int64)
    sizes, classes = np.unique(sizes[sizes > 0], return_counts=True)
    total = int((sizes * classes).sum())
    if not 0 < released <= total:
        raise ValueError("the sample must have at least one record, and not more than the file")
    present = -np.expm1(log_empty_probability(sizes, total, released))
    return float((classes * present).sum() / total)


def log_empty_probability(class_size: ArrayLike, total: int, released: int) -> NDArray[np.float64]:
    """Return the log probability that a sample of n out of N contains nobody from a class of F people.

    It is the sum over i < min(F, n) of log1p(-max(F, n) / (N - i)), which is symmetric in F and n and keeps full precision;
    four log-gamma terms lose half the digits. It is -inf if F > N - n, as the sample must then contain some of the class.

    Parameters
    ----------
    class_size
        (J,) class sizes F, each from 1 to N.
    total, released
        N and n.

    Examples
    --------
    >>> round(float(log_empty_probability([20], 30_000_000, 113_000)[0]), 12)
    -0.075475592337
    """
    sizes = np.asarray(class_size, dtype=np.int64)
    logs = np.full(sizes.shape, -np.inf)
    possible = sizes <= total - released
    short = possible & (sizes <= min(released, DIRECT_TERMS))
    if short.any():
        # One cumulative sum serves all classes no larger than the sample.
        terms = np.log1p(-released / (total - np.arange(sizes[short].max())))
        logs[short] = np.cumsum(terms)[sizes[short] - 1]
    large = possible & ~short
    if released <= DIRECT_TERMS:
        rest = total - np.arange(released)
        logs[large] = [np.log1p(-size / rest).sum() for size in sizes[large]]
    else:
        own = sizes[large].astype(float)
        logs[large] = gammaln(total - own + 1) + gammaln(total - released + 1)
        logs[large] -= gammaln(total - released - own + 1) + gammaln(total + 1.0)
    return logs


def _sizes(released_size: ArrayLike, population_size: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    f, population = np.asarray(released_size, dtype=float), np.asarray(population_size, dtype=float)
    if f.shape != population.shape or f.ndim != 1:
        raise ValueError("released_size and population_size need one shape (J,)")
    if (f < 0).any() or (population < 0).any():
        raise ValueError("a class has a negative number")
    return f, population


def _released(f: NDArray[np.float64]) -> float:
    if f.sum() <= 0:
        raise ValueError("there are no released records to take a share of")
    return float(f.sum())


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


def mean_of_attempts(shares: ArrayLike, confidence: float) -> tuple[float, float] | None:
    """Return the mean of precision or recall over attempts, and the upper end of its Student confidence interval.

    It covers only the Monte Carlo error of the mean. None for fewer than two attempts.
    """
    shares = np.asarray(shares, dtype=float)
    if shares.size < 2:
        return None
    error = float(scipy.stats.t.isf((1 - confidence) / 2, shares.size - 1)) * float(shares.std(ddof=1)) / shares.size**0.5
    mean = float(shares.mean())
    return mean, min(1.0, mean + error)


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
