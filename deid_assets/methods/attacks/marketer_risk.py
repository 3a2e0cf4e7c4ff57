"""Marketer risk: the share of released records that are matched correctly with an identified file.

See section 6 of Multimedia Appendix 1 to El Emam et al. 2012.

A class holds the records and the people who are alike in what both files tell: f released records, F people in the
identified file, who may be a census, a voter list or a discharge database. Whoever assigns the records of a class to
its people at random is right with probability 1/F for each record.

Four numbers for one question, of which the first decides:

* `matched_share`: the sum over what was released, f/F, where the file holds every released person; whom it lacks
  counts as found, so that a file that is too small or wrongly mapped never looks safe.
* `marketer_risk`: the direct sum (1/n) sum f/F, for a sample that is known to be part of the file.
* `expected_marketer_risk`: its expectation over all simple random samples of any size, |J|/N exactly, because
  E f_j = n F_j / N.
* `published_marketer_risk`: the closed form of equation 2 of Multimedia Appendix 1. It puts alpha F for f in the classes that
  are not empty, and is therefore too low by the factor E|S|/|J| (methods#marketer-risk). Reported as "published formula"; it
  never gates.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

DIRECT_TERMS = 100_000
"""min(F, n) up to which a logarithm is summed term by term; beyond, log-gammas lose nothing that counts."""


def marketer_risk(released_size: ArrayLike, population_size: ArrayLike) -> float:
    """Return (1/n) sum f_j / F_j over the classes of a sample that is part of the file.

    Parameters
    ----------
    released_size
        (J,) released records of each class, f_j >= 0.
    population_size
        (J,) people of the class in the identified file, F_j >= f_j.

    Raises
    ------
    ValueError
        If nothing is released, or a class holds more released records than people.

    Examples
    --------
    >>> round(marketer_risk([1, 0, 2, 2], [1, 2, 3, 4]), 6)
    0.433333
    """
    f, population = _sizes(released_size, population_size)
    if (f > population).any():
        raise ValueError("a class holds more released records than people: the release is no part of this file")
    shown = f > 0
    return float((f[shown] / population[shown]).sum() / _released(f))


def matched_share(released_size: ArrayLike, population_size: ArrayLike) -> float:
    """Return an upper bound of the expected share of released records that are matched correctly, for any file.

    Where F >= f the class counts f/F. Where F < f at least f - F of its people are not in the file: they count as
    found, and the F others as one, since each is found with probability 1/F. A class that the file lacks counts as
    found.

    Parameters
    ----------
    released_size, population_size
        (J,) as for `marketer_risk`, with F_j >= 0 of any size.

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
    """Return how many released records cannot be in the file, at least: sum of max(f - F, 0)."""
    f, population = _sizes(released_size, population_size)
    return int(np.maximum(f - population, 0).sum())


def expected_marketer_risk(population_size: ArrayLike) -> float:
    """Return |J|/N, the expectation of `marketer_risk` over simple random samples of any size.

    Parameters
    ----------
    population_size
        (J,) people of each class in the file; classes of nobody do not count.

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
        Records of the sample, 0 < n <= N.

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
        raise ValueError("the sample must hold at least one record, and not more than the file")
    present = -np.expm1(log_empty_probability(sizes, total, released))
    return float((classes * present).sum() / total)


def log_empty_probability(class_size: ArrayLike, total: int, released: int) -> NDArray[np.float64]:
    """Return the logarithm of the probability that a sample of n of N holds nobody of a class of F.

    The sum over i < min(F, n) of log1p(-max(F, n) / (N - i)), which is symmetric in F and n and keeps all digits; four
    bare log-gammas lose half of them. -inf where F > N - n: some of the class must be in the sample.

    Parameters
    ----------
    class_size
        (J,) F, each from 1 to N.
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
        # One running sum serves all classes that are no larger than the sample.
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
        raise ValueError("a class holds a negative number")
    return f, population


def _released(f: NDArray[np.float64]) -> float:
    if f.sum() <= 0:
        raise ValueError("there are no released records to take a share of")
    return float(f.sum())
