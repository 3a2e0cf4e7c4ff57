"""Shares of a gain beside calculations by hand and by loops, the leak test, and silence where nothing can be predicted."""

import math

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from deid_assets.methods.utility import gains
from deid_assets.methods.utility.prediction import folds_of

ROWS = 2_000


def folds(members: np.ndarray, seed: int = 3) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.stack([folds_of(members, gains.FOLDS, generator) for _ in range(gains.REPEATS)])


def measured(truth: np.ndarray, coarsest, released, delivered, event: bool = True) -> gains.Gain:
    """One row for each member."""
    member, target = np.arange(len(truth)), gains.Target("target", truth, event)
    features = (coarsest, released, delivered, np.hstack([delivered, released]))
    (sums,), rows = gains.member_losses([target], features, member, folds(member)), np.ones(len(truth))
    drawn = gains.resampled_sums(np.column_stack([sums, rows]), 400, np.random.default_rng(4))
    return gains.gain_of(
        gains.mean_losses(target, sums.sum(axis=0), rows.sum()), gains.mean_losses(target, drawn[:, :5], drawn[:, 5])
    )


def planted(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(n,) events that depend on two features, (n, 2); and (n, 1) of ones."""
    generator = np.random.default_rng(seed)
    features = generator.integers(3, size=(ROWS, 2)).astype(np.float64)
    chance = 1 / (1 + np.exp(3 - 1.2 * features.sum(axis=1)))
    return (generator.random(ROWS) < chance).astype(np.float64), features, np.ones((ROWS, 1))


class TestShares:
    def test_a_worked_example(self):
        assert gains.share_kept(np.array([0.5882]), np.array([0.5792]), np.array([0.5762])) == pytest.approx(0.75, abs=1e-9)

    def test_of_given_losses_every_number_is_that_of_a_calculation_by_hand(self):
        """Constant .6, coarsest .58, released .55, delivered .5, both .49; the draws vary around them."""
        losses = np.array([0.6, 0.58, 0.55, 0.5, 0.49])
        noise = np.random.default_rng(1).normal(0, 0.004, size=(999, 5))
        drawn = losses + noise
        found = gains.gain_of(losses, drawn)
        assert found.gain.value == pytest.approx(0.1 / 0.6) and found.label_gain.value == pytest.approx(0.08 / 0.6)
        assert found.kept.value == pytest.approx(0.5) and found.label_kept.value == pytest.approx(0.375)
        shares = sorted((one[0] - one[2]) / (one[0] - one[3]) for one in drawn)
        assert (found.kept.low, found.kept.high) == (shares[24], shares[974]), "the 2.5th and 97.5th percentile of 999"
        of_labels = sorted((one[1] - one[2]) / (one[1] - one[3]) for one in drawn)
        assert (found.label_kept.low, found.label_kept.high) == (of_labels[24], of_labels[974])
        differences = [one[3] - one[4] for one in drawn]
        mean = math.fsum(differences) / 999
        error = math.sqrt(math.fsum((one - mean) ** 2 for one in differences) / 998)
        assert found.leak == pytest.approx(0.01 / error)

    @pytest.mark.parametrize(
        ("losses", "silent"),
        [
            ([0.6, 0.6, 0.6, 0.598, 0.6], ("kept", "label_kept")),
            ([0.6, 0.5, 0.5, 0.499, 0.5], ("label_kept",)),
            ([0.6, 0.58, 0.55, 0.5, 0.5], ()),
        ],
        ids=["nothing is predicted", "labels add nothing", "both say something"],
    )
    def test_silent_where_the_whole_is_not_above_0_by_its_interval(self, losses, silent):
        noise = np.random.default_rng(2).normal(0, 0.004, size=(999, 5))
        found = gains.gain_of(np.array(losses), np.array(losses) + noise)
        assert [name for name in ("kept", "label_kept") if getattr(found, name) is None] == list(silent)


class TestLosses:
    def test_are_those_of_a_loop_over_repeats_folds_and_rows(self, monkeypatch):
        """A model that predicts the mean of the training rows with an equal first feature."""

        def means(features, targets, train, asked):
            alike = [features[train, 0] == one for one in features[asked, 0]]
            return [np.array([target.truth[train][own].mean() for own in alike]) for target in targets]

        monkeypatch.setattr(gains, "_fitted", means)
        monkeypatch.setattr(gains, "can_split", lambda features: features)
        generator = np.random.default_rng(5)
        member = np.repeat(np.arange(20), 2)
        features = [generator.integers(2, size=(40, 1)).astype(float) for _ in range(4)]
        fold = folds(member)
        targets = [gains.Target("target", generator.integers(2, size=40).astype(float), event) for event in (True, False)]
        for target, found in zip(targets, gains.member_losses(targets, features, member, fold), strict=True):
            truth, event = target.truth, target.event
            wanted = np.zeros((20, 5))
            for repeat in range(gains.REPEATS):
                for row in range(40):
                    train = [other for other in range(40) if fold[repeat, other] != fold[repeat, row]]
                    sure = 0.5 / len(train)
                    for place in range(5):
                        alike = [
                            truth[other]
                            for other in train
                            if place == 0 or features[place - 1][other, 0] == features[place - 1][row, 0]
                        ]
                        mean = sum(alike) / len(alike)
                        right = mean if truth[row] else 1 - mean
                        loss = -math.log(min(max(right, sure), 1 - sure)) if event else (mean - truth[row]) ** 2
                        wanted[member[row], place] += loss / gains.REPEATS
            assert found == pytest.approx(wanted)

    def test_all_sources_are_fitted_on_the_same_rows(self, monkeypatch):
        seen = []

        def fitted(features, targets, train, asked):
            seen.append((train.tolist(), asked.tolist()))
            return [np.full(len(asked), 0.5) for _ in targets]

        monkeypatch.setattr(gains, "_fitted", fitted)
        member = np.repeat(np.arange(30), 2)
        gains.member_losses([gains.Target("target", np.ones(60), event=True)], [np.zeros((60, 1))] * 4, member, folds(member))
        assert len(seen) == 4 * gains.REPEATS * gains.FOLDS
        seen.sort()
        for place in range(0, len(seen), 4):
            assert all(one == seen[place] for one in seen[place : place + 4])
            train, asked = seen[place]
            assert not set(member[train]) & set(member[asked]), "no member helps to predict their own row"

    def test_of_days_the_loss_is_the_root_of_the_mean_square_and_of_an_event_the_mean(self):
        sums, rows = np.array([[8.0] * 5, [2.0] * 5]), np.array([2.0, 2.0])
        assert gains.mean_losses(gains.Target("days", np.zeros(1), event=False), sums, rows)[:, 0].tolist() == [2.0, 1.0]
        assert gains.mean_losses(gains.Target("event", np.zeros(1), event=True), sums, rows)[:, 0].tolist() == [4.0, 1.0]

    def test_a_model_of_few_rows_is_never_certain(self):
        target = gains.Target("event", np.array([1.0, 0.0]), event=True)
        found = gains._loss(np.array([0.0, 1.0]), target, np.array([0, 1]), 100)
        assert found == pytest.approx([-math.log(0.005)] * 2)

    def test_features_that_cannot_split_are_left_out_and_change_nothing(self):
        truth, features, _ = planted()
        few = (np.arange(ROWS) < 49).astype(float)[:, None]
        enough = (np.arange(ROWS) < 50).astype(float)[:, None]
        wide = np.hstack([few, features, enough, np.ones((ROWS, 1))])
        assert gains.can_split(wide).tolist() == np.hstack([features, enough]).tolist()
        train, asked, target = np.arange(0, ROWS, 2), np.arange(1, ROWS, 2), gains.Target("event", truth, event=True)
        found, without = (gains._fitted(of, [target], train, asked)[0] for of in (wide, gains.can_split(wide)))
        assert found == pytest.approx(without)

    def test_targets_share_bins_and_are_predicted_as_each_alone(self, monkeypatch):
        binned, bin_data = [], HistGradientBoostingRegressor._bin_data

        def noted(model, *given, **named):
            binned.append(model)
            return bin_data(model, *given, **named)

        truth, features, _ = planted()
        numbers = features + np.random.default_rng(6).random(features.shape)
        targets = [gains.Target("event", truth, event=True), gains.Target("days", numbers.sum(axis=1), event=False)]
        rows = np.arange(0, ROWS, 2), np.arange(1, ROWS, 2)
        for kind in (HistGradientBoostingClassifier, HistGradientBoostingRegressor):
            monkeypatch.setattr(kind, "_bin_data", noted)
        together = gains._fitted(numbers, targets, *rows)
        assert len(binned) == 1
        for target, found in zip(targets, together, strict=True):
            (alone,) = gains._fitted(numbers, [target], *rows)
            assert (found == alone).all() and len(np.unique(found)) > 2

    @pytest.mark.parametrize(("truth", "wide"), [(np.zeros(100), 1), (np.arange(100.0) % 2, 0)])
    def test_without_two_outcomes_or_a_feature_the_constant_is_predicted(self, truth, wide):
        (found,) = gains._fitted(
            np.random.default_rng(0).normal(size=(100, wide)),
            [gains.Target("event", truth, event=True)],
            np.arange(50),
            np.arange(50, 100),
        )
        assert (found == truth[:50].mean()).all()


class TestDraws:
    def test_are_of_whole_members_and_the_same_for_every_column(self):
        sums = np.column_stack([np.arange(7.0), 2 * np.arange(7.0), np.ones(7)])
        found = gains.resampled_sums(sums, 130, np.random.default_rng(0))
        assert found.shape == (130, 3) and (found[:, 2] == 7).all() and (found[:, 1] == 2 * found[:, 0]).all()

    def test_their_spread_is_that_of_the_mean(self):
        values = np.random.default_rng(1).normal(size=500)
        found = gains.resampled_sums(values[:, None], 4_000, np.random.default_rng(2))[:, 0] / 500
        assert found.mean() == pytest.approx(values.mean(), abs=0.005)
        assert found.std() == pytest.approx(values.std() / math.sqrt(500), rel=0.05)


class TestGains:
    def test_what_is_released_as_delivered_keeps_everything(self):
        truth, features, nothing = planted()
        found = measured(truth, nothing, features, features)
        assert (found.kept.value, found.kept.low, found.kept.high) == (1, 1, 1)
        assert found.label_kept.value == 1 and found.leak == 0 and found.gain.low > 0

    def test_what_says_nothing_keeps_nothing(self):
        truth, features, nothing = planted()
        found = measured(truth, nothing, nothing, features)
        assert found.kept.low <= 0 <= found.kept.high and abs(found.kept.value) < 0.02 and found.label_kept.value == 0

    def test_one_of_two_equal_features_keeps_about_half(self):
        truth, features, nothing = planted()
        found = measured(truth, nothing, features[:, :1], features)
        assert 0.3 < found.kept.low < found.kept.value < found.kept.high < 0.7

    def test_of_chance_nothing_is_said(self):
        _, features, nothing = planted()
        found = measured(np.random.default_rng(9).integers(2, size=ROWS).astype(float), nothing, features, features)
        assert found.kept is None and found.label_kept is None

    def test_days_are_predicted_too(self):
        _, features, nothing = planted()
        days = np.log1p(features[:, 0] + np.random.default_rng(6).integers(3, size=ROWS))
        found = measured(days, nothing, features[:, :1], features, event=False)
        assert found.kept.value > 0.9 and found.losses[0] == pytest.approx(days.std(), rel=0.01)


class TestLeak:
    def test_an_outcome_that_a_label_was_made_from_is_found(self):
        """Labels of a claim are right about the next year for one member in ten; the others have one of their own."""
        truth, features, nothing = planted()
        told = np.random.default_rng(7).random(ROWS) < 0.1
        label = np.where(told, truth, 2.0)[:, None]
        found = measured(truth, nothing, np.hstack([features, label]), features)
        assert found.leak > 3

    def test_a_release_that_is_better_than_a_delivery_full_of_useless_columns_is_none(self):
        truth, features, nothing = planted()
        useless = np.random.default_rng(8).normal(size=(ROWS, 100))
        found = measured(truth, nothing, features, np.hstack([features, useless]))
        constant, _, released, delivered, both = found.losses
        assert released < delivered < constant, "the model learns from chance"
        assert found.leak < 3 and both > released

    def test_classes_of_delivered_values_are_none(self):
        truth, features, nothing = planted()
        found = measured(truth, nothing, (features > 1).astype(float), features)
        assert found.leak < 3


def test_the_sources_are_told_apart_by_their_place():
    assert gains.SOURCES == ("constant", "coarsest", "released", "delivered", "both")


class TestSharesOfAllGains:
    """Of three releases, for two targets that are predicted and one that is not."""

    @staticmethod
    def losses(seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
        generator = np.random.default_rng(seed)
        told = []
        for whole, gain in ((0.6, 0.1), (2.0, 0.5), (0.3, 0.0)):
            kept = generator.random(3)
            losses = np.array([whole, whole - gain, *(whole - gain * kept)])
            told.append((losses, losses + generator.normal(0, 0.02 * whole, size=(199, 5))))
        return told

    @pytest.mark.parametrize("seed", range(4))
    def test_they_are_those_of_loops(self, seed):
        told = self.losses(seed)
        predicted = [
            (losses, drawn)
            for losses, drawn in told
            if sorted((one[0] - one[1]) / one[0] for one in drawn)[int(0.025 * 198)] > 0
        ]
        assert len(predicted) == 2, "the third target is not predicted"

        def share(of, place: int) -> float:
            return sum((one[0] - one[2 + place]) / one[0] for one in of) / sum((one[0] - one[1]) / one[0] for one in of)

        found = gains.shares_of_all_gains(told)
        for place, one in enumerate(found):
            drawn = sorted(share([drawn[number] for _, drawn in predicted], place) for number in range(199))
            assert one.value == pytest.approx(share([losses for losses, _ in predicted], place))
            assert one.low == pytest.approx(drawn[4], abs=1e-9) and one.high == pytest.approx(drawn[194], abs=1e-9)

    def test_there_is_none_where_nothing_is_predicted(self):
        assert gains.shares_of_all_gains(self.losses(0)[2:]) == ()
