"""Gradient boosting: a stronger adversary than Naive Bayes, because it uses combinations of fields and whole profiles.

A member's profile says how many of their claims have each released label. scikit-learn's HistGradientBoostingClassifier grows
one tree for each code and iteration, so that its time is bounded here by four numbers: the codes that it may guess, the
training cases, the iterations, and the labels of profiles that it looks at (methods#inference). It is imported when it is
first used: it takes a second and 100 MB.
"""

import numpy as np

from deid_assets.methods.inference.cases import OTHER, Cases, CasesToGuess, Guesses

CODES_AT_MOST = 8
"""Codes that it may guess; rarer ones are one class that is never guessed."""
CASES_AT_MOST = 12_000
"""Training cases; more are thinned at random."""
LABELS_AT_MOST = 20
"""Labels of profiles, those whose presence goes most with the code in the training cases."""
ITERATIONS = 10
_LEAVES = 8
_RATE = 0.2
_CASES_PER_LEAF = 10
_LEVELS_AT_MOST = 255
"""The library's own limit: levels that are rarer than the 254 most frequent ones are one level."""
_CASES_PER_LEVEL = 20
"""Levels with fewer training cases are that one level, too: trees would learn each single provider by heart."""


def gradient_boosting(train: Cases, asked: CasesToGuess, profiles: np.ndarray, seed: int) -> Guesses:
    """Guess codes with gradient boosting.

    Parameters
    ----------
    train
        Cases whose codes are known.
    asked
        The cases to guess.
    profiles
        (members, labels) int: how many claims of each member have each label; a member's cases share a row. There may be no
        labels.
    seed
        Chooses the training cases if there are too many.

    Returns
    -------
    Guesses
        The only code if no other occurs; `OTHER` if none does. The sureness is the model's probability of the code, among
        all codes and the rare ones that are never guessed.

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
    number, guessable = len(asked.members), classes != OTHER
    if not guessable.any():
        return Guesses.constant(OTHER, 0.0, number)
    features, known = train.features[rows], profiles[train.members[rows]]
    varying = np.flatnonzero(features.min(axis=0) < features.max(axis=0))
    telling = telling_labels(known, codes)
    if guessable.sum() < 2 or not (len(varying) or len(telling)) or not number:
        shares = np.bincount(codes[codes != OTHER]) / len(codes)
        return Guesses.constant(int(shares.argmax()), shares.max(), number)
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    levels = [_frequent_levels(features[:, place], int(train.sizes[place])) for place in varying]
    model = HistGradientBoostingClassifier(
        learning_rate=_RATE,
        max_iter=ITERATIONS,
        max_leaf_nodes=_LEAVES,
        min_samples_leaf=_CASES_PER_LEAF,
        categorical_features=[*[True] * len(varying), *[False] * len(telling)],
        early_stopping=False,
        random_state=seed % 2**32,
    )
    # Sums of floating-point numbers depend on the number of threads, and guesses must not. This limit is each thread's own.
    with threadpool_limits(limits=1, user_api="openmp"):
        model.fit(_numbered(features, varying, levels, known[:, telling]), codes)
        own = profiles[:, telling][asked.members]
        chances = model.predict_proba(_numbered(asked.features, varying, levels, own))[:, guessable]
    return Guesses(np.asarray(classes[guessable][chances.argmax(axis=1)], dtype=np.int32), chances.max(axis=1))


def telling_labels(profiles: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The labels whose presence in a profile goes most with the code, by Pearson's chi-square; at most `LABELS_AT_MOST`.

    Parameters
    ----------
    profiles
        (n, labels) int: the profile of each training case's member.
    codes
        (n,) int.

    Returns
    -------
    numpy.ndarray
        Positions of labels, the most telling first; none that all or no profiles have.
    """
    classes, numbers = np.unique(codes, return_counts=True)
    # Counted, as whole numbers: a product of matrices takes longer, and its threads wait for those of other folds.
    present = [(profiles[codes == code] > 0).sum(axis=0, dtype=np.int32) for code in classes]
    together = np.array(present).reshape(len(classes), profiles.shape[1])
    share = together.sum(axis=0) / max(1, len(codes))
    varying = np.flatnonzero((share > 0) & (share < 1))
    expected = numbers[:, None] * share[varying]
    # Of the cells with the label, and of those without it: the same difference over (1 - share).
    squares = ((together[:, varying] - expected) ** 2 / expected).sum(axis=0) / (1 - share[varying])
    return varying[np.argsort(-squares, kind="stable")[:LABELS_AT_MOST]]


def _frequent_levels(column: np.ndarray, size: int) -> np.ndarray:
    """(size,) the number of each level for the library, those of training cases first by frequency; the rest share one."""
    counts = np.bincount(column, minlength=size)
    kept = min(_LEVELS_AT_MOST - 1, int((counts >= _CASES_PER_LEVEL).sum()))
    numbers = np.full(size, _LEVELS_AT_MOST - 1, dtype=np.int32)
    numbers[np.argsort(-counts, kind="stable")[:kept]] = np.arange(kept)
    return numbers


def _numbered(features: np.ndarray, places: np.ndarray, levels: list[np.ndarray], profiles: np.ndarray) -> np.ndarray:
    # As whole numbers: the library sorts floating-point levels, which takes longer.
    columns = [numbers[features[:, place]] for place, numbers in zip(places, levels, strict=True)]
    return np.column_stack([*columns, profiles])
