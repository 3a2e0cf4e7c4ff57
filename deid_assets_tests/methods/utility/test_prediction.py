"""Predictions of members whom the model has not seen, scored as in the prize, with an interval of the loss."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.utility import prediction
from deid_assets.methods.utility.prediction import ClaimColumns, feature_matrix, year_features
from deid_assets_tests.methods.small_tables import small_store


def examples(n: int = 400, seed: int = 0, noise: float = 0.1) -> prediction.Examples:
    """Log days follow one feature; the other feature is noise."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(n, 2))
    truth = np.maximum(0.0, features[:, 0] + noise * generator.normal(size=n))
    _, label = np.unique(truth, return_inverse=True)
    return prediction.Examples(np.arange(n), features, label, truth)


class TestFolds:
    @given(st.lists(st.integers(0, 20), min_size=1, max_size=60), st.integers(2, 5))
    @settings(max_examples=30, deadline=None)
    def test_all_rows_of_a_member_are_in_one_and_folds_are_even(self, members, folds):
        member = np.array(members)
        fold = prediction.folds_of(member, folds, np.random.default_rng(0))
        own = {one: {*fold[member == one].tolist()} for one in set(members)}
        assert all(len(found) == 1 for found in own.values())
        sizes = np.bincount([next(iter(found)) for found in own.values()], minlength=folds)
        assert sizes.max() - sizes.min() <= 1

    def test_no_member_helps_to_predict_their_own_year(self):
        """Each member has two equal rows that nobody else resembles: within folds of rows, they would be known."""
        member = np.repeat(np.arange(100), 2)
        feature = np.eye(100)[member]
        truth = np.random.default_rng(1).permutation(np.linspace(0, 2, 100))[member]
        made = prediction.Examples(member, feature, np.unique(truth, return_inverse=True)[1], truth)
        fold = prediction.folds_of(member, 5, np.random.default_rng(0))
        constant = prediction.rmsle(prediction.class_means(np.zeros(200, dtype=int), truth, fold), truth)
        assert prediction.rmsle(prediction.out_of_fold(made, fold, "ridge"), truth) > 0.95 * constant


class TestModels:
    @pytest.mark.parametrize("model", ["ridge", "gradient_boosting"])
    def test_find_what_decides(self, model):
        made = examples()
        fold = prediction.folds_of(made.member, 5, np.random.default_rng(0))
        constant = prediction.rmsle(prediction.class_means(np.zeros(400, dtype=int), made.truth, fold), made.truth)
        assert prediction.rmsle(prediction.out_of_fold(made, fold, model), made.truth) < 0.6 * constant

    def test_stay_within_what_they_were_trained_on(self):
        made = examples(noise=2.0)
        fold = prediction.folds_of(made.member, 4, np.random.default_rng(0))
        found = prediction.out_of_fold(made, fold, "ridge")
        assert found.min() >= 0 and found.max() <= made.truth.max()

    def test_of_one_class_for_all_know_the_mean_only(self):
        made = examples()
        merged = prediction.Examples(made.member, made.features, np.zeros(400, dtype=int), made.truth)
        fold = prediction.folds_of(made.member, 5, np.random.default_rng(0))
        constant = prediction.class_means(np.zeros(400, dtype=int), made.truth, fold)
        assert prediction.out_of_fold(merged, fold, "ridge") == pytest.approx(constant)


def test_noise_is_not_learned_where_rows_are_few():
    """With as many features as rows, a regression without a penalty would predict worse than the mean."""
    generator = np.random.default_rng(2)
    truth = generator.exponential(size=80)
    made = prediction.Examples(np.arange(80), generator.normal(size=(80, 70)), np.arange(80), truth)
    fold = prediction.folds_of(made.member, 5, generator)
    constant = prediction.rmsle(prediction.class_means(np.zeros(80, dtype=int), truth, fold), truth)
    assert prediction.rmsle(prediction.out_of_fold(made, fold, "ridge"), truth) < 1.1 * constant


def test_class_means_are_those_of_the_other_folds():
    label, truth, fold = np.array([0, 0, 1, 1]), np.array([1.0, 3.0, 5.0, 9.0]), np.array([0, 1, 0, 1])
    assert prediction.class_means(label, truth, fold).tolist() == [3.0, 1.0, 9.0, 5.0]
    # A class that the other folds lack is predicted by the mean of all of them.
    assert prediction.class_means(np.array([0, 1]), np.array([2.0, 6.0]), np.array([0, 1])).tolist() == [6.0, 2.0]


class TestInterval:
    def test_of_equal_predictions_it_is_zero(self):
        made = examples()
        assert (prediction.resampled_differences(made.truth, made.truth, made, 200, np.random.default_rng(0)) == 0).all()

    def test_it_covers_a_real_loss_and_is_made_of_whole_members(self):
        made = examples(n=2_000)
        worse = made.truth + 0.5
        found = prediction.resampled_differences(made.truth, worse, made, 300, np.random.default_rng(0))
        assert found == pytest.approx(0.5), "every member is off by as much"

    def test_members_with_more_rows_weigh_more(self):
        """One member has 9 rows, all wrong; the other has one, right: drawn twice, the second has no loss at all."""
        member = np.array([0] * 9 + [1])
        truth = np.zeros(10)
        made = prediction.Examples(member, np.zeros((10, 1)), np.zeros(10, dtype=int), truth)
        found = prediction.resampled_differences(truth, np.r_[np.ones(9), 0.0], made, 400, np.random.default_rng(0))
        assert {*found.round(6)} == {0.0, round(float(np.sqrt(0.9)), 6), 1.0}


class TestFeatures:
    COLUMNS = ClaimColumns(("place",), ("days",), ("provider",))

    def matrix(self, rows, member, year):
        with small_store() as store:
            table = store.table("claims", "member BIGINT, year INTEGER, place VARCHAR, days INTEGER, provider VARCHAR", rows)
            found = table.arrays(year_features(f"SELECT * FROM {table.sql}", self.COLUMNS))
            return feature_matrix(found, np.array(member), np.array(year))

    def test_a_worked_year(self):
        """Two claims in A, one in B, days 1 and 3, one provider: 5 features and a member without claims."""
        rows = [(1, 1, "A", 1, "p"), (1, 1, "A", 3, "p"), (1, 1, "B", None, "p"), (2, 1, "A", 1, "p"), (1, 2, "A", 1, "p")]
        found = self.matrix(rows, [1, *range(100, 179)], [1] * 80)
        assert sorted(np.expm1(found[0]).round(6)) == [1, 1, 2, 2, 3, 3]  # B, provider, A, mean, all, largest
        assert (found[-1] == 0).all()

    def test_other_years_of_a_member_are_other_rows(self):
        rows = [(1, 1, "A", 1, "p"), (1, 2, "A", 7, "p"), (1, 2, "A", 7, "p")]
        found = np.expm1(self.matrix(rows, [1, 1, *range(100, 138)], [1, 2] * 20))
        assert found[0].max() == pytest.approx(1) and found[1].max() == pytest.approx(7)

    def test_only_the_most_frequent_values_of_few_rows_have_a_feature(self):
        rows = [(number, 1, f"place {number % 30}", None, None) for number in range(60)]
        assert self.matrix(rows, range(60), [1] * 60).shape[1] == 3 + 4, "beside all claims, mean and largest days, providers"
