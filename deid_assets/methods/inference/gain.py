"""How much better a model guesses than the most frequent value, on members of whom it learned nothing.

Claims of a member resemble each other, so that a member's claims are all in one fold: a model that had seen some of them
would recognize the member. For the same reason it is members, not claims, that the bootstrap draws (methods#inference).

The simplest model is categorical Naive Bayes (`naive_bayes`).

El Emam and Arbuckle (2013, chapter 5) predicted diagnosis codes from released fields with a Naive Bayes classifier, and
compared it with the most frequent code (methods#inference). With n(c) training cases of code c, of which n(c, v) have level v
of a field with L levels, a case with levels v_1, v_2, ... is given the code that maximizes

    log n(c) + sum over fields of log( (n(c, v) + 1) / (n(c) + L) )

which is Laplace's rule of succession for each field. This is what scikit-learn's CategoricalNB computes, and the tests hold
both to be equal. It is written out here because every policy measures it: importing scikit-learn takes longer than all the
predictions for a small release.
"""

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy import special

from deid_assets.methods.inference.cases import OTHER, Cases, CasesToGuess, Guesses

SCORES_AT_ONCE = 250_000
"""Largest number of scores (cases times codes) that are made at once: a processor's cache holds them."""


def most_frequent(train: Cases, asked: CasesToGuess) -> Guesses:
    """Guess the most frequent code of the training cases: the baseline.

    Parameters
    ----------
    train
        Cases whose codes are known.
    asked
        The cases to guess; only their number matters.

    Returns
    -------
    Guesses
        All alike and without sureness; `OTHER` if no training case has a code.
    """
    occurring = _occurring(train)
    guess = int(occurring.argmax()) if occurring.any() else OTHER
    return Guesses.constant(guess, 0.0, len(asked.members))


def naive_bayes(train: Cases, asked: CasesToGuess) -> Guesses:
    """Guess codes with categorical Naive Bayes.

    Parameters
    ----------
    train
        Cases whose codes are known. Codes that do not occur among them are never guessed.
    asked
        The cases to guess.

    Returns
    -------
    Guesses
        Of equal scores, the smaller code; `OTHER`, with sureness 0, if no training case has a code. The sureness is the
        posterior probability, exp(score of the guess) / sum over codes of exp(score).

    References
    ----------
    Maron ME (1961). Automatic indexing: an experimental inquiry. J ACM 8(3):404-417.

    Examples
    --------
    Six cases of code 0, five of which have the feature, and four of code 1 without it: nine of ten are guessed.

    >>> feature = np.array([[1]] * 5 + [[0]] * 5)
    >>> codes = np.array([0] * 6 + [1] * 4, dtype=np.int32)
    >>> cases, all_of_them = Cases(feature, np.array([2]), codes, 2, np.arange(10)), np.arange(10)
    >>> asked = cases.asked(all_of_them)
    >>> int((naive_bayes(cases, asked).codes == codes).sum()), int((most_frequent(cases, asked).codes == codes).sum())
    (9, 6)
    """
    occurring = _occurring(train)
    if not occurring.any():
        return Guesses.constant(OTHER, 0.0, len(asked.members))
    known = train.codes != OTHER
    offsets = np.concatenate([[0], np.cumsum(train.sizes)])
    cells = (train.features[known] + offsets[:-1]) * train.count + train.codes[known][:, None]
    counts = np.bincount(cells.ravel(), minlength=offsets[-1] * train.count).reshape(offsets[-1], train.count)
    # (levels, codes): a level's row lies together in memory, as it is looked up.
    logs = np.log((counts + 1) / (occurring + np.repeat(train.sizes, train.sizes)[:, None]))
    with np.errstate(divide="ignore"):
        prior = np.log(occurring / occurring.sum())
    number = len(asked.members)
    guessed, sureness = np.empty(number, dtype=np.int32), np.empty(number)
    step = max(1, SCORES_AT_ONCE // train.count)
    for start in range(0, number, step):
        block = asked.features[start : start + step]
        scores = np.repeat(prior[None, :], len(block), axis=0)
        for level in (block + offsets[:-1]).T:
            scores += logs.take(level, axis=0)
        guessed[start : start + step] = scores.argmax(axis=1)
        scores -= scores.max(axis=1, keepdims=True)
        sureness[start : start + step] = 1 / np.exp(scores, out=scores).sum(axis=1)
    return Guesses(guessed, sureness)


def _occurring(train: Cases) -> np.ndarray:
    """(count,) how often each code occurs."""
    return np.bincount(train.codes[train.codes != OTHER], minlength=train.count)


Model = Callable[[Cases, CasesToGuess], Guesses]
"""Learns from cases and guesses the codes of others."""

_BASELINE = "most frequent"
TENTH = 10
RESAMPLES = 1_000
_BLOCK = 50
"""Resamples that are held in memory at once."""


@dataclass(frozen=True)
class Outcome:
    """Which guesses were right, of the model and of the baseline, on the same cases.

    Attributes
    ----------
    members
        (n,) int: position of each case's member among the members sampled.
    right, right_by_majority
        (n,) bool.
    sureness
        (n,) float: the probability that the model itself gives to its guess.
    """

    members: np.ndarray
    right: np.ndarray
    right_by_majority: np.ndarray
    sureness: np.ndarray

    @property
    def people(self) -> int:
        """How many members the cases are about."""
        return int(np.count_nonzero(np.bincount(self.members)))


def pooled(outcomes: Sequence[Outcome]) -> Outcome:
    """Several groups taken together."""
    names = ("members", "right", "right_by_majority", "sureness")
    return Outcome(*(np.concatenate([getattr(one, name) for one in outcomes]) for name in names))


def surest_tenth(outcome: Outcome, rng: np.random.Generator) -> Outcome:
    """The tenth of an outcome's cases, rounded up, of whose guesses the model is surest; of equally sure ones, at random.

    Examples
    --------
    >>> of = np.arange(20)
    >>> surest_tenth(Outcome(of, of > 17, of < 0, of / 20), np.random.default_rng(1)).members.tolist()
    [18, 19]
    """
    shuffled, tenth = rng.permutation(len(outcome.members)), -(-len(outcome.members) // TENTH)
    least = np.partition(outcome.sureness, -tenth)[-tenth]
    surer = np.flatnonzero(outcome.sureness > least)
    as_sure = shuffled[outcome.sureness[shuffled] == least][: tenth - len(surer)]
    rows = np.sort(np.concatenate([surer, as_sure]))
    return Outcome(outcome.members[rows], outcome.right[rows], outcome.right_by_majority[rows], outcome.sureness[rows])


def member_folds(members: int, folds: int, rng: np.random.Generator) -> np.ndarray:
    """(members,) int: the fold of each member; folds differ in size by at most one."""
    return rng.permutation(np.arange(members) % folds)


def predictions(groups: Sequence[Cases], folds: np.ndarray, models: Mapping[str, Model]) -> list[dict[str, Outcome]]:
    """Guess every case of each group with models that learned from the group's members of all other folds.

    Parameters
    ----------
    folds
        The fold of every member, by position.
    models
        By name.

    Returns
    -------
    list of dict
        The outcome of each model, all beside the same baseline: the most frequent code of the same training cases.
    """
    asking = {_BASELINE: most_frequent, **models}
    guesses = [{name: Guesses.constant(OTHER, 0.0, len(cases)) for name in asking} for cases in groups]

    def guess(cases: Cases, found: Mapping[str, Guesses], fold: int) -> None:
        asked = folds[cases.members] == fold
        train, unknown = cases.take(~asked), cases.asked(asked)
        for name, model in asking.items():
            said = model(train, unknown)
            found[name].codes[asked], found[name].sureness[asked] = said.codes, said.sureness

    parts = [(cases, own, fold) for cases, own in zip(groups, guesses, strict=True) for fold in np.unique(folds[cases.members])]
    # scikit-learn replaces the warning filters of the whole process for a while; two threads would leave each other's.
    with warnings.catch_warnings(), ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(guess, *zip(*parts, strict=True)))
    return [_outcomes(cases, own) for cases, own in zip(groups, guesses, strict=True)]


def _outcomes(cases: Cases, guesses: Mapping[str, Guesses]) -> dict[str, Outcome]:
    right = {name: (cases.codes != OTHER) & (said.codes == cases.codes) for name, said in guesses.items()}
    by_majority = right.pop(_BASELINE)
    return {name: Outcome(cases.members, own, by_majority, guesses[name].sureness) for name, own in right.items()}


@dataclass(frozen=True)
class AccuracyGain:
    """How much more often the model is right than the baseline, and its bounds, each at the confidence asked for."""

    gain: float
    low: float
    high: float


def resampled(members: int, rng: np.random.Generator) -> np.ndarray:
    """(RESAMPLES, members) uint16: how often the bootstrap draws each member; all outcomes share these draws."""
    drawn = np.empty((RESAMPLES, members), dtype=np.uint16)
    for one in drawn:
        one[:] = np.bincount(rng.integers(0, members, members), minlength=members)
    return drawn


def accuracy_gains(outcomes: Sequence[Outcome], drawn: np.ndarray, confidence: float) -> list[AccuracyGain]:
    """Measure the gain of each outcome.

    The standard error s is that of the paired bootstrap over members (Efron and Tibshirani 1993). Where few members show a
    difference, it is too small: a bootstrap of members without any difference finds no variation at all, however few they
    are. So each bound has the reach that Wilson's interval has for a share, z^2 / 2m + sqrt(z^2 s^2 + (z^2 / 2m)^2), with m
    the effective number of members (Kish 1965), (sum of cases)^2 / sum of (cases of a member)^2. Of many members, the reach
    is z s.

    Parameters
    ----------
    drawn
        Result of `resampled` for the members sampled.
    confidence
        Of each bound, between .5 and 1.

    Raises
    ------
    ValueError
        If there are no cases.

    References
    ----------
    Efron B, Tibshirani RJ (1993). An introduction to the bootstrap. Chapman & Hall. Wilson EB (1927), J Am Stat Assoc
    22:209-212. Kish L (1965). Survey sampling. Wiley.
    """
    if not all(len(one.members) for one in outcomes):
        raise ValueError("a gain needs cases")
    members = drawn.shape[1]
    cases = [np.bincount(one.members, minlength=members).astype(float) for one in outcomes]
    better = [
        np.bincount(one.members, weights=one.right.astype(float) - one.right_by_majority, minlength=members) for one in outcomes
    ]
    # Whole numbers: their sums are exact, in any order.
    sums = np.stack([*better, *cases], axis=1)
    parts = [drawn[start : start + _BLOCK].astype(float) @ sums for start in range(0, len(drawn), _BLOCK)]
    differences, weights = np.split(np.concatenate(parts).T, 2)
    return [_gain(*of, confidence) for of in zip(outcomes, cases, differences, weights, strict=True)]


def _gain(outcome: Outcome, cases: np.ndarray, differences: np.ndarray, weights: np.ndarray, confidence: float) -> AccuracyGain:
    """The gain of an outcome from the cases of each member, and the differences and cases of each resample."""
    # A resample without any of the members says nothing.
    gains = differences[weights > 0] / weights[weights > 0]
    spread = float(gains.std(ddof=1)) if len(gains) > 1 else 1.0
    z = float(special.ndtri(confidence))
    effective = float(cases.sum() ** 2 / (cases**2).sum())
    shift = z**2 / (2 * effective)
    reach = shift + math.sqrt((z * spread) ** 2 + shift**2)
    gain = float(outcome.right.mean()) - float(outcome.right_by_majority.mean())
    return AccuracyGain(gain, max(-1.0, gain - reach), min(1.0, gain + reach))


def confidence_of_each(confidence: float, comparisons: int) -> float:
    """Confidence of one bound with which all of them hold together (Bonferroni)."""
    return 1 - (1 - confidence) / max(1, comparisons)


def trials(outcomes: Sequence[Outcome], number: int, rng: np.random.Generator) -> tuple[float, ...]:
    """Shares of right guesses in random trials: a case is drawn, and every model guesses it.

    A number of few members, such as the share of a group's claims with its most frequent code, would count people. The share
    in `number` trials is known to within a standard deviation of sqrt(p (1 - p) / number), which is not.

    Parameters
    ----------
    outcomes
        Of several models on the same cases.

    Returns
    -------
    tuple of float
        Of the baseline, then of each model.
    """
    rows = rng.integers(0, len(outcomes[0].members), number)
    shares = [outcomes[0].right_by_majority[rows].mean(), *(one.right[rows].mean() for one in outcomes)]
    return tuple(float(share) for share in shares)
