"""Categorical Naive Bayes, and the guess that it must beat.

El Emam and Arbuckle (2013, chapter 5) predicted diagnosis codes from released fields with a Naive Bayes classifier, and
compared it with the most frequent code (methods#inference). With n(c) training cases of code c, of which n(c, v) have level v
of a field with L levels, a case with levels v_1, v_2, ... is given the code that maximizes

    log n(c) + sum over fields of log( (n(c, v) + 1) / (n(c) + L) )

which is Laplace's rule of succession for each field. This is what scikit-learn's CategoricalNB computes, and the tests hold
both to be equal. It is written out here because every policy measures it: importing scikit-learn takes longer than all the
predictions for a small release.
"""

import numpy as np

from deid_assets.methods.inference.cases import OTHER, Cases, CasesToGuess, Guesses

SCORES_AT_ONCE = 4_000_000
"""Largest number of scores (cases times codes) that is held in memory."""


def most_frequent(train: Cases, asked: CasesToGuess) -> np.ndarray:
    """Guess the most frequent code of the training cases: the baseline.

    Parameters
    ----------
    train
        Cases whose codes are known.
    asked
        The m cases to guess; only their number matters.

    Returns
    -------
    numpy.ndarray
        (m,) int32 codes; `OTHER` if no training case has a code.
    """
    occurring = _occurring(train)
    guess = int(occurring.argmax()) if occurring.any() else OTHER
    return np.full(len(asked.members), guess, dtype=np.int32)


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
    >>> int((naive_bayes(cases, asked).codes == codes).sum()), int((most_frequent(cases, asked) == codes).sum())
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
        for place, offset in enumerate(offsets[:-1]):
            scores += logs[block[:, place] + offset]
        guessed[start : start + step] = scores.argmax(axis=1)
        scores -= scores.max(axis=1, keepdims=True)
        sureness[start : start + step] = 1 / np.exp(scores, out=scores).sum(axis=1)
    return Guesses(guessed, sureness)


def _occurring(train: Cases) -> np.ndarray:
    """(count,) how often each code occurs."""
    return np.bincount(train.codes[train.codes != OTHER], minlength=train.count)
