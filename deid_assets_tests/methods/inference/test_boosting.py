"""Gradient boosting finds what it should, within its bounds, and the same with any number of threads."""

import subprocess
import sys

import numpy as np
import pytest

from deid_assets.methods.inference import boosting
from deid_assets.methods.inference.boosting import LABELS_AT_MOST, gradient_boosting, telling_labels
from deid_assets.methods.inference.cases import OTHER
from deid_assets.methods.inference.gain import naive_bayes
from deid_assets_tests.methods.inference.test_naive_bayes import asked_of, cases_of

RNG = np.random.default_rng(3)


def boosted(cases, features):
    """The codes guessed without profiles."""
    return gradient_boosting(cases, asked_of(features), np.empty((len(cases), 0), dtype=np.int32), 1).codes


def test_it_finds_a_combination_that_naive_bayes_cannot_see():
    features = RNG.integers(0, 2, (600, 2)).astype(np.int32)
    cases = cases_of(features, features[:, 0] ^ features[:, 1])
    every = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.int32)
    assert boosted(cases, every).tolist() == [0, 1, 1, 0]
    assert naive_bayes(cases, asked_of(every)).codes.tolist() != [0, 1, 1, 0]


def test_it_thins_training_cases_and_still_answers_all(monkeypatch):
    monkeypatch.setattr(boosting, "CASES_AT_MOST", 120)
    features = RNG.integers(0, 3, (400, 1)).astype(np.int32)
    cases = cases_of(features, features[:, 0])
    assert boosted(cases, features).tolist() == features[:, 0].tolist()


def test_it_guesses_only_frequent_codes(monkeypatch):
    monkeypatch.setattr(boosting, "CODES_AT_MOST", 2)
    features = np.repeat([0, 1, 2], [60, 50, 40])[:, None].astype(np.int32)
    assert set(boosted(cases_of(features, features[:, 0]), features)) == {0, 1}


def test_more_levels_than_the_library_takes():
    levels = np.repeat(np.arange(400), 30)[:, None].astype(np.int32)
    cases = cases_of(np.concatenate([levels, levels % 2], axis=1), levels[:, 0] % 2)
    assert boosted(cases, cases.features).tolist() == cases.codes.tolist()


@pytest.mark.parametrize(("codes", "guess"), [([0, 0, OTHER], 0), ([OTHER] * 3, OTHER), ([0, 0, 1], 0)])
def test_without_two_codes_or_any_varying_field_there_is_nothing_to_learn(codes, guess):
    cases = cases_of([[0]] * 3 if 1 in codes else [[0], [0], [1]], [*codes])
    assert boosted(cases, cases.features).tolist() == [guess] * 3


def test_a_label_of_the_members_other_claims_tells_the_code():
    """No field of the claim itself does."""
    members = np.repeat(np.arange(300), 2)
    profiles = RNG.integers(0, 2, (300, 5)).astype(np.int32)
    profiles[:, 3] *= 4
    cases = cases_of(RNG.integers(0, 3, (600, 1)), profiles[members, 3] // 4, members=members)
    found = gradient_boosting(cases, cases.asked(members >= 0), profiles, 1)
    assert (found.codes == cases.codes).all() and (found.sureness > 0.8).all()
    assert (boosted(cases, cases.features) == cases.codes).mean() < 0.7


def test_it_is_as_sure_as_it_is_right():
    field = RNG.integers(0, 2, 4_000)
    right = RNG.random(4_000) < np.where(field == 1, 0.9, 0.6)
    cases = cases_of(field[:, None], np.where(right, field, 1 - field))
    found = gradient_boosting(cases, asked_of([[0], [1]]), np.empty((4_000, 0), dtype=np.int32), 1)
    assert found.codes.tolist() == [0, 1] and found.sureness == pytest.approx([0.6, 0.9], abs=0.05)


def test_telling_labels_are_those_of_the_library():
    from scipy.stats import chi2_contingency

    profiles, codes = RNG.integers(0, 3, (200, 30)).astype(np.int32), RNG.integers(-1, 3, 200)
    profiles[:, 7], profiles[:, 8] = 0, 1
    statistics = {
        label: chi2_contingency(
            [
                [np.sum((codes == code) & ((profiles[:, label] > 0) == there)) for there in (False, True)]
                for code in range(-1, 3)
            ],
            correction=False,
        )[0]
        for label in range(30)
        if label not in (7, 8)
    }
    expected = sorted(statistics, key=lambda label: -statistics[label])[:LABELS_AT_MOST]
    assert telling_labels(profiles, codes).tolist() == expected
    assert telling_labels(np.empty((0, 3)), np.empty(0)).tolist() == []


def test_levels_that_few_training_cases_have_are_one():
    """Trees must not learn each provider by heart: levels of one case each, with codes at random."""
    codes = RNG.integers(0, 2, 400)
    cases = cases_of(np.arange(400)[:, None], codes)
    assert len(set(boosted(cases, cases.features))) == 1


def test_nothing_asked_is_nothing_guessed():
    features = RNG.integers(0, 2, (40, 1)).astype(np.int32)
    assert len(boosted(cases_of(features, features[:, 0]), np.empty((0, 1)))) == 0


def test_the_library_is_loaded_by_nobody_who_does_not_boost():
    """It takes a second and 100 MB."""
    program = (
        "import sys, deid_assets.assessments.registry, deid_assets.command_line.main; "
        "sys.exit('sklearn' in sys.modules or 'threadpoolctl' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=False).returncode == 0
