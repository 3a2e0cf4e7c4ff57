"""Gradient boosting finds what it should, within its bounds, and the same with any number of threads."""

import subprocess
import sys

import numpy as np
import pytest

from deid_assets.methods.inference import boosting
from deid_assets.methods.inference.boosting import gradient_boosting
from deid_assets.methods.inference.cases import OTHER
from deid_assets.methods.inference.naive_bayes import naive_bayes
from deid_assets_tests.methods.inference.test_naive_bayes import cases_of

RNG = np.random.default_rng(3)


def test_it_finds_a_combination_that_naive_bayes_cannot_see():
    features = RNG.integers(0, 2, (600, 2)).astype(np.int32)
    cases = cases_of(features, features[:, 0] ^ features[:, 1])
    every = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.int32)
    assert gradient_boosting(cases, every, 1).tolist() == [0, 1, 1, 0]
    assert naive_bayes(cases, every).tolist() != [0, 1, 1, 0]


def test_it_thins_training_cases_and_still_answers_all(monkeypatch):
    monkeypatch.setattr(boosting, "CASES_AT_MOST", 50)
    features = RNG.integers(0, 3, (400, 1)).astype(np.int32)
    cases = cases_of(features, features[:, 0])
    assert gradient_boosting(cases, features, 1).tolist() == features[:, 0].tolist()


def test_it_guesses_only_frequent_codes(monkeypatch):
    monkeypatch.setattr(boosting, "CODES_AT_MOST", 2)
    features = np.repeat([0, 1, 2], [60, 50, 40])[:, None].astype(np.int32)
    assert set(gradient_boosting(cases_of(features, features[:, 0]), features, 1)) == {0, 1}


def test_more_levels_than_the_library_takes():
    levels = np.repeat(np.arange(400), 3)[:, None].astype(np.int32)
    cases = cases_of(np.concatenate([levels, levels % 2], axis=1), levels[:, 0] % 2)
    assert gradient_boosting(cases, cases.features, 1).tolist() == cases.codes.tolist()


@pytest.mark.parametrize(("codes", "guess"), [([0, 0, OTHER], 0), ([OTHER] * 3, OTHER), ([0, 0, 1], 0)])
def test_without_two_codes_or_any_varying_field_there_is_nothing_to_learn(codes, guess):
    cases = cases_of([[0]] * 3 if 1 in codes else [[0], [0], [1]], [*codes])
    assert gradient_boosting(cases, cases.features, 1).tolist() == [guess] * 3


def test_nothing_asked_is_nothing_guessed():
    features = RNG.integers(0, 2, (40, 1)).astype(np.int32)
    assert len(gradient_boosting(cases_of(features, features[:, 0]), np.empty((0, 1), dtype=np.int32), 1)) == 0


def test_the_library_is_loaded_by_nobody_who_does_not_boost():
    """It takes a second and 100 MB."""
    program = (
        "import sys, deid_assets.assessments.registry, deid_assets.command_line.main; "
        "sys.exit('sklearn' in sys.modules or 'threadpoolctl' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=False).returncode == 0
