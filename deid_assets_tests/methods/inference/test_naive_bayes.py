"""Naive Bayes: the worked example, equality with scikit-learn, and brute force."""

import numpy as np
import pytest
from sklearn.naive_bayes import CategoricalNB

from deid_assets.methods.inference import gain as module
from deid_assets.methods.inference.cases import OTHER, Cases, CasesToGuess, Guesses
from deid_assets.methods.inference.gain import most_frequent, naive_bayes


def cases_of(features, codes, sizes=None, members=None) -> Cases:
    features, codes = np.asarray(features, dtype=np.int32), np.asarray(codes, dtype=np.int32)
    sizes = features.max(axis=0) + 1 if sizes is None else sizes
    return Cases(
        features, np.asarray(sizes), codes, int(codes.max()) + 1, np.arange(len(codes)) if members is None else members
    )


def asked_of(features) -> CasesToGuess:
    features = np.asarray(features, dtype=np.int32)
    return CasesToGuess(features, np.arange(len(features)))


def test_the_worked_example_of_the_methods():
    """410 six times, 411 four times; a feature that five of the six have, and none of the four."""
    codes = np.array([0] * 6 + [1] * 4)
    cases = cases_of([[1]] * 5 + [[0]] * 5, codes)
    assert (naive_bayes(cases, asked_of(cases.features)).codes == codes).mean() == 9 / 10
    assert (most_frequent(cases, asked_of(cases.features)).codes == codes).mean() == 6 / 10


@pytest.mark.parametrize("seed", range(8))
def test_it_guesses_what_the_library_guesses(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, 5)
    features = np.stack([rng.integers(0, size, 400) for size in sizes], axis=1)
    codes = rng.choice(7, 400, p=rng.dirichlet(np.ones(7)))
    train, asked = np.arange(400) < 300, np.arange(400) >= 300
    known = np.unique(codes[train])
    library = CategoricalNB(alpha=1, min_categories=sizes).fit(features[train], codes[train])
    own = naive_bayes(cases_of(features, codes, sizes).take(train), asked_of(features[asked]))
    assert set(own.codes) <= set(known)
    assert own.codes.tolist() == library.predict(features[asked]).tolist()
    assert own.sureness == pytest.approx(library.predict_proba(features[asked]).max(axis=1))


@pytest.mark.parametrize("seed", range(4))
def test_it_equals_a_direct_computation(seed):
    """One case at a time, in plain Python, from the formula of the docstring."""
    rng = np.random.default_rng(seed)
    sizes, count = [3, 1, 5], 4
    features = np.stack([rng.integers(0, size, 60) for size in sizes], axis=1)
    codes = rng.integers(-1, count, 60)
    cases = cases_of(features, codes, sizes)
    found = naive_bayes(cases, asked_of(features))
    for place in range(60):
        scores = []
        for code in range(count):
            n = sum(codes == code)
            score = float(n)
            for field, size in enumerate(sizes):
                alike = sum((codes == code) & (features[:, field] == features[place, field]))
                score *= (alike + 1) / (n + size)
            scores.append(score)
        assert found.codes[place] == int(np.argmax(scores))
        assert found.sureness[place] == pytest.approx(max(scores) / sum(scores))


def test_fields_that_are_left_out_are_not_seen():
    cases = cases_of([[0, 1], [0, 1], [1, 0], [1, 0]], [0, 0, 1, 1])
    kept = cases.with_fields(np.array([1]))
    assert kept.features.tolist() == [[1], [1], [0], [0]] and kept.sizes.tolist() == [2]
    assert naive_bayes(kept, asked_of([[1], [0]])).codes.tolist() == [0, 1]


def test_guesses_without_sureness_are_an_error():
    with pytest.raises(ValueError, match="sureness"):
        Guesses(np.zeros(2, np.int32), np.zeros(1))


def test_blocks_of_cases_change_nothing(monkeypatch):
    rng = np.random.default_rng(1)
    cases = cases_of(rng.integers(0, 4, (90, 3)), rng.integers(0, 5, 90))
    whole = naive_bayes(cases, asked_of(cases.features))
    monkeypatch.setattr(module, "SCORES_AT_ONCE", 1)
    blocks = naive_bayes(cases, asked_of(cases.features))
    assert blocks.codes.tolist() == whole.codes.tolist() and blocks.sureness.tolist() == whole.sureness.tolist()


def test_rare_codes_are_never_guessed_and_teach_nothing():
    cases = cases_of([[0]] * 3 + [[1]] * 5, [0, 0, 0, *[OTHER] * 4, 1])
    assert most_frequent(cases, asked_of(cases.features)).codes.tolist() == [0] * 8
    assert naive_bayes(cases, asked_of([[0], [1]])).codes.tolist() == [0, 1]


def test_codes_that_training_lacks_are_never_guessed():
    cases = cases_of([[0], [1], [0]], [0, 1, 2]).take(np.array([True, True, False]))
    assert set(naive_bayes(cases, asked_of([[0], [1]])).codes) <= {0, 1}


def test_nothing_is_guessed_where_nothing_is_known():
    cases = cases_of([[0], [1]], [0, OTHER]).take(np.array([False, True]))
    guesses = naive_bayes(cases, asked_of(cases.features))
    assert guesses.sureness.tolist() == [0.0]
    assert guesses.codes.tolist() == most_frequent(cases, asked_of(cases.features)).codes.tolist() == [OTHER]


@pytest.mark.parametrize(
    "changes",
    [{"codes": np.array([0])}, {"codes": np.array([0, 2])}, {"codes": np.array([0, -2])}, {"sizes": np.array([1])},
     {"members": np.array([0])}],
)  # fmt: skip
def test_cases_that_contradict_themselves_are_an_error(changes):
    given = {"features": np.array([[0], [1]]), "sizes": np.array([2]), "codes": np.array([0, 1]), "count": 2,
             "members": np.array([0, 1])}  # fmt: skip
    Cases(**given)
    with pytest.raises(ValueError, match="codes|level"):
        Cases(**given | changes)
