"""How much better a model guesses than the most frequent value, on members of whom it learned nothing.

Claims of a member resemble each other, so that a member's claims are all in one fold: a model that had seen some of them
would recognize the member. For the same reason it is members, not claims, that the bootstrap draws (methods#inference).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from deid_assets.methods.inference.cases import OTHER, Cases, CasesToGuess, Guesses
from deid_assets.methods.inference.naive_bayes import most_frequent

Model = Callable[[Cases, CasesToGuess], Guesses]
"""Learns from cases and guesses the codes of others."""

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
        return len(np.unique(self.members))


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
    shuffled = rng.permutation(len(outcome.members))
    order = shuffled[np.argsort(-outcome.sureness[shuffled], kind="stable")]
    rows = np.sort(order[: -(-len(order) // TENTH)])
    return Outcome(outcome.members[rows], outcome.right[rows], outcome.right_by_majority[rows], outcome.sureness[rows])


def member_folds(members: int, folds: int, rng: np.random.Generator) -> np.ndarray:
    """(members,) int: the fold of each member; folds differ in size by at most one."""
    return rng.permutation(np.arange(members) % folds)


def predictions(cases: Cases, folds: np.ndarray, models: Mapping[str, Model]) -> dict[str, Outcome]:
    """Guess every case with models that learned from the members of all other folds.

    Parameters
    ----------
    folds
        The fold of every member, by position.
    models
        By name.

    Returns
    -------
    dict
        The outcome of each model, all beside the same baseline: the most frequent code of the same training cases.
    """
    own = folds[cases.members]
    guesses = {name: Guesses.constant(OTHER, 0.0, len(cases)) for name in models}
    majority = np.full(len(cases), OTHER, dtype=np.int32)
    for fold in np.unique(own):
        asked = own == fold
        train, unknown = cases.take(~asked), cases.asked(asked)
        majority[asked] = most_frequent(train, unknown)
        for name, model in models.items():
            said = model(train, unknown)
            guesses[name].codes[asked], guesses[name].sureness[asked] = said.codes, said.sureness
    known = cases.codes != OTHER
    return {
        name: Outcome(cases.members, known & (guess.codes == cases.codes), known & (majority == cases.codes), guess.sureness)
        for name, guess in guesses.items()
    }


@dataclass(frozen=True)
class AccuracyGain:
    """Accuracy of model and baseline, and the gain with its bounds.

    Attributes
    ----------
    members, cases
        On whom and on what it was measured.
    accuracy, majority
        Shares of cases that model and baseline guess.
    low, high
        Bounds of the gain, `accuracy` - `majority`, each at the confidence asked for.
    """

    members: int
    cases: int
    accuracy: float
    majority: float
    low: float
    high: float

    @property
    def gain(self) -> float:
        """How much more often the model is right."""
        return self.accuracy - self.majority


def resampled(members: int, rng: np.random.Generator) -> np.ndarray:
    """(RESAMPLES, members) uint16: how often the bootstrap draws each member; all outcomes share these draws."""
    drawn = np.empty((RESAMPLES, members), dtype=np.uint16)
    for one in drawn:
        one[:] = np.bincount(rng.integers(0, members, members), minlength=members)
    return drawn


def accuracy_gain(outcome: Outcome, drawn: np.ndarray, confidence: float) -> AccuracyGain:
    """Measure the gain of an outcome.

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
    if not len(outcome.members):
        raise ValueError("a gain needs cases")
    positions, own = np.unique(outcome.members, return_inverse=True)
    cases = np.bincount(own).astype(float)
    right, majority = (np.bincount(own, weights=found) for found in (outcome.right, outcome.right_by_majority))
    sums = np.stack([right - majority, cases], axis=1)
    parts = [drawn[start : start + _BLOCK, positions].astype(float) @ sums for start in range(0, len(drawn), _BLOCK)]
    differences, weights = np.concatenate(parts).T
    # A resample without any of the members says nothing.
    gains = differences[weights > 0] / weights[weights > 0]
    spread = float(gains.std(ddof=1)) if len(gains) > 1 else 1.0
    z = float(special.ndtri(confidence))
    effective = float(cases.sum() ** 2 / (cases**2).sum())
    shift = z**2 / (2 * effective)
    reach = shift + math.sqrt((z * spread) ** 2 + shift**2)
    accuracy, by_majority = float(outcome.right.mean()), float(outcome.right_by_majority.mean())
    gain = accuracy - by_majority
    return AccuracyGain(
        len(positions), len(own), accuracy, by_majority, max(-1.0, gain - reach), min(1.0, gain + reach)
    )  # fmt: skip


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
