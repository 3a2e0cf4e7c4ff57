"""Removed beside remaining members: tables, medians and the Kolmogorov-Smirnov distance with its bootstrap."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from deid_assets.methods.preparation import exclusion_comparison
from deid_assets_tests import examples

MEMBERS = [("m0", "F", 5), ("m1", "M", 95), ("m2", "M", None), ("m3", None, 30), ("m4", "F", 31)]
REMOVED = [("m1", "hiv"), ("m1", "abuse"), ("m3", "hiv")]
CLAIMS = [
    ("m0", 0), ("m0", 0), ("m0", 40), ("m1", 3), ("m1", None), ("m2", None), ("m3", 400), ("m3", 1), ("m3", 1),
]  # fmt: skip


def tables_of(store) -> dict:
    return {
        "members": store.table("members", "member_id VARCHAR, sex VARCHAR, age INTEGER", MEMBERS),
        "removed": store.table("removed", "member_id VARCHAR, reason VARCHAR", REMOVED),
    }


def histogram(members: list[tuple[bool, list[int]]]) -> dict[str, np.ndarray]:
    rows = [
        (i, removed, value, values.count(value)) for i, (removed, values) in enumerate(members) for value in sorted(set(values))
    ]
    columns = zip(*rows, strict=True) if rows else [[]] * 4
    kinds = (np.int32, bool, np.int32, np.int32)
    names = ("member", "removed", "value", "n")
    return {n: np.array(c, dtype=k) for n, c, k in zip(names, columns, kinds, strict=True)}


def clustered(rng: np.random.Generator, members: int, removed: bool, claims: int, shift: int = 0) -> list:
    """Members whose claims all have one value: a hundred claims say no more than one."""
    return [(removed, [int(rng.integers(0, 20)) + shift] * claims) for _ in range(members)]


def test_counts_by_text_counts_each_member_once_whatever_the_reasons(store):
    rows = store.rows(exclusion_comparison.counts_by_text(**tables_of(store), column="sex"))
    assert sorted(rows, key=str) == [("F", 0, 2), ("M", 1, 1), (None, 1, 0)]


def test_member_values_are_known_values_of_numbered_members(store):
    rows = store.rows(exclusion_comparison.member_values(**tables_of(store), column="age"))
    assert rows == [(0, False, 5, 1), (1, True, 95, 1), (3, True, 30, 1), (4, False, 31, 1)]


def test_claim_values_count_claims_and_medians_take_members_with_claims(store):
    claims = store.table("claims", "member_id VARCHAR, day INTEGER", CLAIMS)
    rows = store.rows(exclusion_comparison.claim_values(claims, **tables_of(store), column="day"))
    medians = store.rows(exclusion_comparison.median_claims(claims, **tables_of(store)))
    assert rows == [(0, False, 0, 2), (0, False, 40, 1), (1, True, 3, 1), (3, True, 1, 2), (3, True, 400, 1)]
    assert medians == [(False, 2, 2.0), (True, 2, 2.5)]


def test_percentages_add_up_to_100_on_each_side():
    table = exclusion_comparison.percentages(["Male", "Female"], np.array([4871, 5129]), np.array([4641, 5359]))
    assert table["excluded_percent"].tolist() == pytest.approx([48.71, 51.29])
    assert table["remaining_percent"].sum() == pytest.approx(100)
    assert exclusion_comparison.percentages(["Male"], np.array([0]), np.array([3]))["excluded_percent"].tolist() == [0]


def test_bins_of_the_appendix():
    assert (
        exclusion_comparison.AGE_DECADES.labels[0],
        exclusion_comparison.AGE_DECADES.labels[-1],
        len(exclusion_comparison.AGE_DECADES.labels),
    ) == ("0-9", "80+", 9)
    assert (
        exclusion_comparison.DSFC_MONTHS.labels[0],
        exclusion_comparison.DSFC_MONTHS.labels[11],
        len(exclusion_comparison.DSFC_MONTHS.labels),
    ) == ("0-1 month", "11-12 months", 12)
    assert len(exclusion_comparison.LENGTHS_OF_STAY.labels) == 12


@pytest.mark.parametrize(
    ("bins", "value", "label"),
    [
        (exclusion_comparison.AGE_DECADES, 79, "70-79"),
        (exclusion_comparison.AGE_DECADES, 120, "80+"),
        (exclusion_comparison.DSFC_MONTHS, 27, "0-1 month"),
        (exclusion_comparison.DSFC_MONTHS, 28, "1-2 months"),
        (exclusion_comparison.DSFC_MONTHS, 365, "11-12 months"),
        (exclusion_comparison.LENGTHS_OF_STAY, 6, "6 days"),
        (exclusion_comparison.LENGTHS_OF_STAY, 7, "1-2 weeks"),
        (exclusion_comparison.LENGTHS_OF_STAY, 14, "1-2 weeks"),
        (exclusion_comparison.LENGTHS_OF_STAY, 15, "2-4 weeks"),
        (exclusion_comparison.LENGTHS_OF_STAY, 28, "2-4 weeks"),
        (exclusion_comparison.LENGTHS_OF_STAY, 182, "12-26 weeks"),
        (exclusion_comparison.LENGTHS_OF_STAY, 183, "26+ weeks"),
    ],
)
def test_values_fall_into_their_bin(bins, value, label):
    table = exclusion_comparison.binned_percentages(histogram([(True, [value, value])]), bins).set_index("value")
    assert table.loc[label, "excluded_percent"] == 100


def test_a_value_below_the_bins_is_refused_and_not_shown():
    with pytest.raises(ValueError, match="1 histogram row lies below") as raised:
        exclusion_comparison.binned_percentages(histogram([(True, [-77])]), exclusion_comparison.AGE_DECADES)
    assert "77" not in str(raised.value)


groups = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=5), min_size=1, max_size=6)


@settings(deadline=None, max_examples=examples.of(40))
@given(groups, groups)
def test_distance_is_that_of_scipy(removed, remaining):
    members = [(True, values) for values in removed] + [(False, values) for values in remaining]
    found = exclusion_comparison.kolmogorov_smirnov(histogram(members), np.random.default_rng(0), replicates=9)
    expected = stats.ks_2samp([*chain.from_iterable(removed)], [*chain.from_iterable(remaining)]).statistic
    assert found.distance == pytest.approx(expected)
    assert found.low <= found.distance <= found.high


def test_claims_of_one_member_count_as_one_observation():
    rng = np.random.default_rng(5)
    members = clustered(rng, 60, True, claims=100) + clustered(rng, 60, False, claims=100)
    found = exclusion_comparison.kolmogorov_smirnov(histogram(members), np.random.default_rng(1))
    values = [np.repeat([v[0] for r, v in members if r is side], 100) for side in (True, False)]
    assert stats.ks_2samp(*values).pvalue < 1e-10  # claims as if independent
    assert found.p_value > 0.05


def test_a_real_difference_is_found():
    rng = np.random.default_rng(6)
    members = clustered(rng, 300, True, claims=3, shift=5) + clustered(rng, 600, False, claims=3)
    found = exclusion_comparison.kolmogorov_smirnov(histogram(members), np.random.default_rng(1))
    assert found.p_value == pytest.approx(1 / 1000)
    assert found.low > 0.1
    assert found.low <= 0.25 <= found.high  # 5 of 20 values


def test_equal_distributions_are_rejected_about_as_often_as_asked():
    rejected = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        members = clustered(rng, 80, True, claims=2) + clustered(rng, 120, False, claims=2)
        rejected += exclusion_comparison.kolmogorov_smirnov(histogram(members), rng, replicates=199).p_value <= 0.1
    assert rejected <= 20


def test_the_same_generator_gives_the_same_result():
    members = [(i % 3 == 0, [i % 7, i % 5]) for i in range(50)]
    first, second = (exclusion_comparison.kolmogorov_smirnov(histogram(members), np.random.default_rng(4)) for _ in range(2))
    assert first == second


def test_nothing_to_compare():
    assert exclusion_comparison.kolmogorov_smirnov(histogram([(True, [1])]), np.random.default_rng(0)) is None
    assert exclusion_comparison.kolmogorov_smirnov(histogram([]), np.random.default_rng(0)) is None


def test_one_member_on_a_side_supports_no_conclusion():
    members = [(True, [9, 9])] + [(False, [i % 3]) for i in range(50)]
    found = exclusion_comparison.kolmogorov_smirnov(histogram(members), np.random.default_rng(0))
    assert found.distance == 1
    assert found.low == 0 and found.high == 1 and found.p_value > 0.3
