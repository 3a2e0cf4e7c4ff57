"""Gains are measured on members of whom nothing was learned, and their bounds hold."""

import os
import subprocess
import sys
import warnings
from functools import partial

import numpy as np
import pytest

from deid_assets.methods.inference import boosting, gain
from deid_assets.methods.inference.boosting import LABELS_AT_MOST, gradient_boosting, telling_labels
from deid_assets.methods.inference.cases import OTHER, groups_of
from deid_assets.methods.inference.gain import naive_bayes
from deid_assets_tests.methods.inference.test_naive_bayes import asked_of, cases_of

MODELS = {"naive_bayes": naive_bayes}


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


class TestGroups:
    def test_each_has_its_own_numbers_and_those_of_one_value_have_no_cases(self):
        found = list(groups_of(np.array([1, 0, 1, 1]), {"X": np.array([5, 5, 5, 9])}, np.array([7, 8, 3, 7]), np.arange(4), 9))
        assert [(group.name, group.values) for group in found] == [(0, 1), (1, 2)]
        assert found[0].cases is None
        cases = found[1].cases
        assert cases.features.ravel().tolist() == [0, 0, 1] and cases.sizes.tolist() == [2]
        assert cases.codes.tolist() == [0, 1, 0] and cases.count == 2 and cases.members.tolist() == [0, 2, 3]

    def test_rare_values_have_no_code(self):
        (group,) = groups_of(
            np.zeros(7, dtype=int), {"X": np.zeros(7, dtype=int)}, np.array([4, 1, 1, 2, 2, 2, 3]), np.arange(7), 2
        )
        assert group.values == 4 and group.cases.codes.tolist() == [OTHER, 1, 1, 0, 0, 0, OTHER]

    def test_no_rows_no_groups(self):
        empty = np.empty(0, dtype=int)
        assert list(groups_of(empty, {"X": empty}, empty, empty, 9)) == []

    def test_a_single_code_is_no_choice(self):
        with pytest.raises(ValueError, match="two codes"):
            list(groups_of(np.zeros(1), {}, np.zeros(1), np.zeros(1), 1))


def predicted(cases, folds, models) -> dict[str, gain.Outcome]:
    (found,) = gain.predictions([cases], folds, models)
    return found


class TestPredictions:
    def test_claims_of_a_member_are_never_apart(self):
        """Each member has a field value and a code of their own: only somebody who saw the member could guess it."""
        members = np.repeat(np.arange(40), 5)
        cases = cases_of(members[:, None], members, members=members)
        found = predicted(cases, gain.member_folds(40, 4, rng()), MODELS)["naive_bayes"]
        assert not found.right.any()
        assert (naive_bayes(cases, cases.asked(members >= 0)).codes == cases.codes).all(), (
            "which the same model does, if it saw them"
        )

    def test_equals_folds_made_by_hand(self):
        generator = rng(5)
        members = generator.integers(0, 30, 200)
        cases = cases_of(generator.integers(0, 3, (200, 2)), generator.integers(0, 4, 200), members=members)
        folds = gain.member_folds(30, 3, generator)
        found = predicted(cases, folds, MODELS)["naive_bayes"]
        for fold in range(3):
            asked = folds[members] == fold
            train = cases.take(~asked)
            guess = naive_bayes(train, cases.asked(asked))
            assert (found.right[asked] == (guess.codes == cases.codes[asked])).all()
            assert (found.sureness[asked] == guess.sureness).all()
            assert (found.right_by_majority[asked] == (cases.codes[asked] == np.bincount(train.codes).argmax())).all()

    def test_groups_are_predicted_each_for_itself(self):
        generator = rng(9)
        groups = [
            cases_of(
                generator.integers(0, 3, (number, 2)),
                generator.integers(0, 3, number),
                members=generator.integers(0, 20, number),
            )
            for number in (30, 90)
        ]
        folds = gain.member_folds(20, 4, generator)
        for cases, found in zip(groups, gain.predictions(groups, folds, MODELS), strict=True):
            alone = predicted(cases, folds, MODELS)["naive_bayes"]
            assert (found["naive_bayes"].right == alone.right).all() and (found["naive_bayes"].members == cases.members).all()
        assert gain.predictions([], folds, MODELS) == []

    def test_values_without_a_code_are_never_right(self):
        cases = cases_of([[0]] * 8, [0, 0, 0, 0, OTHER, OTHER, OTHER, 1])
        found = predicted(cases, gain.member_folds(8, 2, rng()), MODELS)["naive_bayes"]
        assert not found.right[4:7].any() and not found.right_by_majority[4:7].any()

    def test_no_member_is_in_two_folds(self):
        """Whatever teaches, a model is never asked about a member of whom it has seen a claim, nor sees the code."""
        generator = rng(6)
        members = generator.integers(0, 50, 400)
        cases = cases_of(generator.integers(0, 3, (400, 2)), generator.integers(0, 4, 400), members=members)
        asked_of, times = [], []

        def watched(train, asked):
            assert not set(train.members) & set(asked.members) and not hasattr(asked, "codes")
            asked_of.extend(asked.members)
            times.append(set(asked.members))
            return naive_bayes(train, asked)

        predicted(cases, gain.member_folds(50, 5, generator), {"watched": watched})
        assert sorted(asked_of) == sorted(members) and sum(map(len, times)) == len(set(members))

    def test_guesses_do_not_depend_on_the_number_of_threads(self, monkeypatch):
        generator = rng(8)
        cases = cases_of(generator.integers(0, 6, (900, 3)), generator.integers(0, 4, 900))
        folds, profiles = gain.member_folds(900, 5, generator), generator.integers(0, 3, (900, 4)).astype(np.int32)
        models = MODELS | {"gradient_boosting": partial(gradient_boosting, profiles=profiles, seed=1)}

        def guessed(threads: int) -> dict[str, gain.Outcome]:
            monkeypatch.setattr(os, "cpu_count", lambda: threads)
            return predicted(cases, folds, models)

        filters = [*warnings.filters]
        one, four = guessed(1), guessed(4)
        assert warnings.filters == filters
        for name in models:
            assert (one[name].right == four[name].right).all() and (one[name].sureness == four[name].sureness).all()

    def test_folds_are_of_equal_size(self):
        assert sorted(np.bincount(gain.member_folds(11, 5, rng())).tolist()) == [2, 2, 2, 2, 3]


def outcome(members: int, per_member: int, right: float, by_majority: float, generator) -> gain.Outcome:
    """Cases of a member are all alike, so that they are worth one."""
    one = generator.random(members)
    return plain(
        np.repeat(np.arange(members), per_member), np.repeat(one < right, per_member), np.repeat(one < by_majority, per_member)
    )


def plain(members, right, right_by_majority) -> gain.Outcome:
    """An outcome whose guesses are all equally sure."""
    return gain.Outcome(members, right, right_by_majority, np.ones(len(members)))


def gain_of(outcome, drawn, confidence) -> gain.AccuracyGain:
    (found,) = gain.accuracy_gains([outcome], drawn, confidence)
    return found


class TestBounds:
    def test_accuracy_is_weighted_by_cases(self):
        found = gain_of(
            plain(np.array([0, 0, 0, 1]), np.array([1, 1, 0, 1], bool), np.array([0, 1, 0, 0], bool)),
            gain.resampled(2, rng()),
            0.9,
        )
        assert found.gain == 0.5

    def test_spread_is_that_of_members_and_not_of_claims(self):
        drawn = gain.resampled(2_000, rng())
        found = gain_of(outcome(2_000, 30, 0.7, 0.4, rng(1)), drawn, 0.975)
        assert found.high - found.gain == pytest.approx(1.96 * np.sqrt(0.3 * 0.7 / 2_000), rel=0.1)
        assert found.gain - found.low == pytest.approx(found.high - found.gain)

    def test_nobody_who_shows_a_difference_is_no_proof_that_there_is_none(self):
        same = plain(np.arange(20), np.ones(20, bool), np.ones(20, bool))
        found = gain_of(same, gain.resampled(20, rng()), 0.995)
        z = 2.5758
        assert found.gain == 0 and found.high == pytest.approx(z**2 / 20, abs=1e-4) and found.low == -found.high

    def test_one_member_with_many_claims_is_one_member(self):
        members = np.concatenate([np.zeros(1_000, dtype=int), np.arange(1, 11)])
        same = plain(members, np.ones(1_010, bool), np.zeros(1_010, bool))
        assert gain_of(same, gain.resampled(11, rng()), 0.99).low < 0.2

    @pytest.mark.parametrize("true", [0.0, 0.01, 0.02, 0.2])
    def test_they_hold_as_often_as_they_say(self, true):
        generator, drawn = rng(7), gain.resampled(300, rng())
        found = [gain_of(outcome(300, 3, 0.5 + true, 0.5, generator), drawn, 0.95) for _ in range(150)]
        assert np.mean([one.high >= true for one in found]) > 0.91
        assert np.mean([one.low <= true for one in found]) > 0.91

    def test_each_of_several_is_what_it_is_alone(self):
        generator, drawn = rng(3), gain.resampled(90, rng())
        several = [outcome(members, 2, 0.6, 0.4, generator) for members in (90, 20, 50)]
        assert gain.accuracy_gains(several, drawn, 0.9) == [gain_of(one, drawn, 0.9) for one in several]

    def test_many_hold_together(self):
        assert gain.confidence_of_each(0.99, 45) == pytest.approx(1 - 0.01 / 45)
        assert gain.confidence_of_each(0.99, 0) == 0.99

    def test_without_cases_there_is_no_gain(self):
        nothing = np.empty(0, dtype=bool)
        with pytest.raises(ValueError, match="needs cases"):
            gain_of(plain(np.empty(0, dtype=int), nothing, nothing), gain.resampled(3, rng()), 0.9)


def test_groups_taken_together_keep_every_case():
    one, other = outcome(3, 2, 1.0, 0.0, rng()), outcome(4, 1, 0.0, 1.0, rng())
    both = gain.pooled([one, other])
    assert len(both.members) == 10 and both.right.sum() == 6 and both.right_by_majority.sum() == 4 and both.people == 4


def test_trials_guess_the_same_drawn_cases():
    one = plain(np.arange(1_000), np.arange(1_000) < 700, np.arange(1_000) < 400)
    by_majority, right = gain.trials([one], 500, rng())
    assert abs(right - 0.7) < 0.07 and abs(by_majority - 0.4) < 0.07 and (right * 500).is_integer()
    assert right != 0.7 or by_majority != 0.4, "not the exact shares"
    assert gain.trials([one, one], 500, rng()) == (by_majority, right, right)


class TestSurestTenth:
    @pytest.mark.parametrize("cases", [1, 10, 11, 95, 400])
    def test_equals_sorting_by_hand(self, cases):
        generator = rng(cases)
        own = gain.Outcome(
            generator.integers(0, 30, cases), generator.random(cases) < 0.4, generator.random(cases) < 0.2,
            generator.permutation(cases) / cases,
        )  # fmt: skip
        by_hand = sorted(zip(own.sureness.tolist(), own.right.tolist(), own.members.tolist(), strict=True), reverse=True)
        by_hand = by_hand[: (cases + 9) // 10]
        found = gain.surest_tenth(own, rng())
        assert sorted(zip(found.sureness, found.right, found.members, strict=True), reverse=True) == by_hand

    def test_equally_sure_ones_are_drawn_at_random(self):
        """Their order in the tables, such as that of members, must not choose."""
        own = gain.Outcome(np.arange(1_000), np.arange(1_000) < 100, np.zeros(1_000, bool), np.full(1_000, 0.5))
        shares = [gain.surest_tenth(own, rng(seed)).right.mean() for seed in range(50)]
        assert np.mean(shares) == pytest.approx(0.1, abs=0.02)

    def test_a_model_that_knows_when_it_is_right(self):
        generator = rng(2)
        sure = generator.random(20_000)
        right = generator.random(20_000) < sure
        found = gain.surest_tenth(gain.Outcome(np.arange(20_000), right, right, sure), rng())
        assert found.right.mean() == pytest.approx(0.95, abs=0.02) and right.mean() == pytest.approx(0.5, abs=0.02)


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
