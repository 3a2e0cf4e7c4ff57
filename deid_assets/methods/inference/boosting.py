"""Gradient boosting: a stronger adversary than Naive Bayes, because it uses combinations of fields.

scikit-learn's HistGradientBoostingClassifier grows one tree for each code and iteration, so that its time is bounded here by
three numbers: the codes that it may guess, the training cases, and the iterations (methods#inference). It is imported when it
is first used: it takes a second and 100 MB.
"""

import numpy as np

from deid_assets.methods.inference.cases import OTHER, Cases

CODES_AT_MOST = 8
"""Codes that it may guess; rarer ones are one class that is never guessed."""
CASES_AT_MOST = 4_000
"""Training cases; more are thinned at random."""
ITERATIONS = 20
_LEAVES = 8
_RATE = 0.1
_CASES_PER_LEAF = 10
_LEVELS_AT_MOST = 255
"""The library's own limit: levels that are rarer than the 254 most frequent ones are one level."""


def gradient_boosting(train: Cases, asked: np.ndarray, seed: int) -> np.ndarray:
    """Guess codes with gradient boosting.

    Parameters
    ----------
    train
        Cases whose codes are known.
    asked
        (m, f) int32 fields of the cases to guess, numbered as those of `train`.
    seed
        Chooses the training cases if there are too many.

    Returns
    -------
    numpy.ndarray
        (m,) int32 codes; the only one if no other occurs; `OTHER` if none does.

    References
    ----------
    Friedman JH (2001). Greedy function approximation: a gradient boosting machine. Annals of Statistics 29(5):1189-1232.
    Ke G et al. (2017). LightGBM: a highly efficient gradient boosting decision tree. NeurIPS 30.
    """
    rows = np.arange(len(train))
    if len(rows) > CASES_AT_MOST:
        rows = np.sort(np.random.default_rng(seed).choice(rows, CASES_AT_MOST, replace=False))
    codes = np.where(train.codes[rows] < CODES_AT_MOST, train.codes[rows], OTHER)
    classes = np.unique(codes)
    if len(classes) < 2 or len(classes[classes != OTHER]) < 2:
        only = classes[classes != OTHER]
        return np.full(len(asked), only[0] if len(only) else OTHER, dtype=np.int32)
    varying = np.flatnonzero(train.features[rows].min(axis=0) < train.features[rows].max(axis=0))
    if not len(varying):
        return np.full(len(asked), int(np.bincount(codes[codes != OTHER]).argmax()), dtype=np.int32)
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    levels = [_frequent_levels(train.features[rows, place], int(train.sizes[place])) for place in varying]
    model = HistGradientBoostingClassifier(
        learning_rate=_RATE,
        max_iter=ITERATIONS,
        max_leaf_nodes=_LEAVES,
        min_samples_leaf=_CASES_PER_LEAF,
        categorical_features=list(range(len(varying))),
        early_stopping=False,
        random_state=seed % 2**32,
    )
    # Sums of floating-point numbers depend on the number of threads, and guesses must not.
    with threadpool_limits(limits=1):
        model.fit(_numbered(train.features[rows], varying, levels), codes)
        chances = model.predict_proba(_numbered(asked, varying, levels)) if len(asked) else np.empty((0, len(classes)))
    guessable = classes != OTHER
    return np.asarray(classes[guessable][chances[:, guessable].argmax(axis=1)], dtype=np.int32)


def _frequent_levels(column: np.ndarray, size: int) -> np.ndarray:
    """(size,) the number of each level for the library, those of training cases first by frequency; the rest share one."""
    ranked = np.argsort(-np.bincount(column, minlength=size), kind="stable")
    numbers = np.full(size, _LEVELS_AT_MOST - 1)
    numbers[ranked[: _LEVELS_AT_MOST - 1]] = np.arange(min(size, _LEVELS_AT_MOST - 1))
    return numbers


def _numbered(features: np.ndarray, places: np.ndarray, levels: list[np.ndarray]) -> np.ndarray:
    columns = [numbers[features[:, place]] for place, numbers in zip(places, levels, strict=True)]
    return np.stack(columns, axis=1).astype(float)
