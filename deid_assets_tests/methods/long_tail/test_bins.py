"""Bins of the number of claims: the book's backward algorithm, and the fewest claims removed (methods#bins-of-claims)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.long_tail.bins import (
    ClaimNumberBins,
    bin_sizes,
    smallest_bin,
    truncate_to_bins,
    truncate_to_bins_optimally,
    truncation_comparison,
    widened,
)
from deid_assets_tests import examples

SEED = bytes(range(16))
BOOK = np.repeat([33, 26, 27, 28, 29, 23, 18, 13, 8, 3], [11, 1, 1, 1, 1, 7, 20, 30, 40, 50])
"""The example of El Emam & Arbuckle 2013 (ch. 5): 11 members in [31-35], 4 in [26-30], 7 in [21-25], and large bins below."""


@st.composite
def some_bins(draw) -> ClaimNumberBins:
    width = draw(st.integers(1, 4))
    return ClaimNumberBins(width, draw(st.none() | st.integers(width + 1, 14)))


few_counts = st.lists(st.integers(0, 14), max_size=5)
many_counts = st.lists(st.integers(0, 60), max_size=80)
needed = st.integers(1, 12)


def fewest_removed(counts: np.ndarray, bins: ClaimNumberBins, m: int, down_to_none: bool = False) -> int | None:
    """By trying every assignment of members to their own or a lower bin; -1 is that of members without claims."""
    counts = counts if down_to_none else counts[counts > 0]
    first = -1 if down_to_none else 0
    choices = np.meshgrid(*(np.arange(first, own + 1) for own in bins.of(counts)), indexing="ij")
    assigned = np.stack([choice.ravel() for choice in choices], axis=1) if choices else np.empty((1, 0), dtype=np.int64)
    last = int(assigned.max(initial=first))
    sizes = np.stack([np.count_nonzero(assigned == number, axis=1) for number in range(first, last + 1)], axis=1)
    assigned = assigned[np.all((sizes == 0) | (sizes >= m), axis=1)]
    if not len(assigned):
        return None
    is_open = assigned == (-2 if bins.open_bin is None else bins.open_bin)
    return int(np.where(is_open, 0, np.maximum(0, counts - bins.highest(assigned))).sum(axis=1).min())


class TestBooksExample:
    def test_four_members_move_and_the_rest_stays(self):
        kept = truncate_to_bins(BOOK, ClaimNumberBins(5), 10, SEED)
        assert bin_sizes(kept, ClaimNumberBins(5)).tolist() == [50, 40, 30, 20, 11, 0, 11]
        assert np.array_equal(kept[BOOK > 30], BOOK[BOOK > 30]) and np.array_equal(kept[BOOK < 26], BOOK[BOOK < 26])
        assert 4 <= int((BOOK - kept).sum()) <= 36

    def test_eighteen_claims_are_removed_on_average(self):
        removed = [
            int((BOOK - truncate_to_bins(BOOK, ClaimNumberBins(5), 10, bytes([i % 256, i // 256] * 8))).sum())
            for i in range(2000)
        ]
        # Four uniform draws on five numbers: a standard deviation of 2.83 over 2,000 runs.
        assert np.mean(removed) == pytest.approx(18, abs=5 * 2.83 / 2000**0.5)

    def test_extremes_of_the_draw(self):
        """Whoever moves leaves one claim at least and nine at most: 4 to 36 of four members, and all of it occurs."""
        lost = []
        for claims in (26, 30):
            counts = np.repeat([33, claims, 23, 3], [11, 4, 7, 50])
            for number in range(200):
                kept = truncate_to_bins(counts, ClaimNumberBins(5), 10, bytes([number] * 16))
                assert np.array_equal(kept[15:], counts[15:]) and np.all((kept[11:15] >= 21) & (kept[11:15] <= 25))
                lost += (counts - kept)[11:15].tolist()
        assert (4 * min(lost), 4 * max(lost)) == (4, 36)

    def test_ten_are_enough(self):
        kept = truncate_to_bins_optimally(BOOK, ClaimNumberBins(5), 10)
        assert int((BOOK - kept).sum()) == 10
        assert bin_sizes(kept, ClaimNumberBins(5)).tolist() == [50, 40, 30, 20, 11, 0, 11]


def test_greedy_is_not_minimal():
    """Of 15, 9 and 100 members in three bins one who gives up one claim is enough (methods#bins-of-claims)."""
    counts = np.repeat([31, 29, 25], [15, 9, 100])
    greedy = truncate_to_bins(counts, ClaimNumberBins(5), 10, SEED)
    assert np.all(greedy[15:24] <= 25) and int((counts - greedy).sum()) >= 9 * 4
    assert int((counts - truncate_to_bins_optimally(counts, ClaimNumberBins(5), 10)).sum()) == 1


def test_fourteen_claims_are_in_the_bin_of_11_to_15():
    assert ClaimNumberBins(5).of(np.array([14])) == 2
    assert (ClaimNumberBins(5).lowest(np.array([2])), ClaimNumberBins(5).highest(np.array([2]))) == (11, 15)


class TestOpenBin:
    def test_500_or_more_is_one_bin(self):
        counts = np.repeat([510, 700, 1300, 480], [3, 4, 4, 20])
        bins = ClaimNumberBins(5, cap=500)
        assert np.array_equal(truncate_to_bins(counts, bins, 10, SEED), counts)
        assert np.array_equal(truncate_to_bins_optimally(counts, bins, 10), counts)

    def test_a_small_open_bin_moves_below_the_cap(self):
        counts = np.repeat([700, 480], [3, 20])
        kept = truncate_to_bins(counts, ClaimNumberBins(5, cap=500), 10, SEED)
        assert np.all(kept <= 480) and bin_sizes(kept, ClaimNumberBins(5, 500)).tolist()[-1] == 23
        optimal = truncate_to_bins_optimally(counts, ClaimNumberBins(5, cap=500), 10)
        assert sorted(optimal) == sorted([480] * 23), "three at 700 cannot be ten anywhere above"

    @given(st.integers(1, 12), st.integers(2, 60))
    def test_bins_are_contiguous_and_end_in_the_open_one(self, width, cap):
        bins = ClaimNumberBins(width, max(cap, width + 1))
        of = bins.of(np.arange(0, 80))
        assert of[0] == -1 and np.all((np.diff(of) == 0) | (np.diff(of) == 1)) and of[-1] == of[bins.cap] == bins.open_bin
        closed = np.arange(1, bins.cap)
        assert np.all((bins.lowest(of[closed]) <= closed) & (closed <= bins.highest(of[closed])))


@settings(deadline=None)
@given(many_counts, some_bins(), needed)
def test_every_bin_but_the_lowest_is_empty_or_large_enough(counts, bins, m):
    counts = np.array(counts, dtype=np.int64)
    kept = truncate_to_bins(counts, bins, m, SEED)
    sizes = bin_sizes(kept, bins)
    assert np.all((sizes[1:] == 0) | (sizes[1:] >= m))
    assert np.all(kept <= counts) and np.array_equal(kept == 0, counts == 0)


@settings(deadline=None)
@given(many_counts, some_bins(), needed)
def test_the_optimum_fills_every_bin_and_never_removes_more_than_greedy(counts, bins, m):
    counts = np.array(counts, dtype=np.int64)
    if 0 < np.count_nonzero(counts) < m:
        with pytest.raises(ValueError, match="fewer than"):
            truncate_to_bins_optimally(counts, bins, m)
        return
    kept = truncate_to_bins_optimally(counts, bins, m)
    sizes = bin_sizes(kept, bins)
    assert np.all((sizes == 0) | (sizes >= m))
    assert np.all(kept <= counts) and np.array_equal(kept == 0, counts == 0)
    greedy = truncate_to_bins(counts, bins, m, SEED)
    if smallest_bin(greedy, bins) >= m:
        assert kept.sum() >= greedy.sum()


@settings(deadline=None, max_examples=examples.of(100))
@given(few_counts, some_bins(), st.integers(1, 4))
def test_the_optimum_is_that_of_brute_force(counts, bins, m):
    counts = np.array(counts, dtype=np.int64)
    best = fewest_removed(counts, bins, m)
    if best is None:
        return
    assert int((counts - truncate_to_bins_optimally(counts, bins, m)).sum()) == best


@settings(deadline=None, max_examples=examples.of(150))
@given(st.lists(st.integers(0, 7), max_size=5), some_bins(), st.integers(1, 4))
def test_the_optimum_with_a_bin_of_members_without_claims_is_that_of_brute_force(counts, bins, m):
    counts = np.array(counts, dtype=np.int64)
    best = fewest_removed(counts, bins, m, down_to_none=True)
    if best is None:
        with pytest.raises(ValueError, match="fewer than"):
            truncate_to_bins_optimally(counts, bins, m, down_to_none=True)
        return
    kept = truncate_to_bins_optimally(counts, bins, m, down_to_none=True)
    sizes = np.bincount(bins.of(kept) + 1)
    assert np.all((sizes == 0) | (sizes >= m)) and np.all(kept <= counts)
    assert int((counts - kept).sum()) == best


def test_more_than_m_members_may_have_to_be_carried_down():
    """A bin of exactly m that one member leaves must be emptied: carrying fewer than m would not do."""
    counts = np.array([4, 8, 13, 4, 10, 3])
    assert (
        int((counts - truncate_to_bins_optimally(counts, ClaimNumberBins(3, 6), 2)).sum())
        == fewest_removed(counts, ClaimNumberBins(3, 6), 2)
        == 2
    )


@settings(deadline=None)
@given(many_counts, some_bins(), needed)
def test_widening_ends_at_bins_that_hold(counts, bins, m):
    counts = np.array(counts, dtype=np.int64)
    if 0 < np.count_nonzero(counts) < m:
        with pytest.raises(ValueError, match="no bin can have"):
            widened(counts, bins, m)
        return
    found = widened(counts, bins, m)
    assert found.width >= bins.width
    sizes = bin_sizes(truncate_to_bins(counts, found, m, SEED), found)
    assert np.all((sizes == 0) | (sizes >= m))


def test_draws_are_those_of_the_seed():
    counts = np.repeat([33, 28, 3], [9, 9, 100])
    one, same, other = (truncate_to_bins(counts, ClaimNumberBins(5), 10, seed) for seed in (SEED, SEED, bytes(16)))
    assert np.array_equal(one, same) and not np.array_equal(one, other)


def test_three_ways_side_by_side():
    percentile = np.minimum(BOOK, 29)
    ways = {"percentile": percentile, "optimal": truncate_to_bins_optimally(BOOK, ClaimNumberBins(5), 10)}
    rows = truncation_comparison(BOOK, ways, ClaimNumberBins(5)).set_index("method")
    assert rows["claims_removed"].to_dict() == {"none": 0, "percentile": 44, "optimal": 10}
    assert rows["members_touched"].to_dict() == {"none": 0, "percentile": 11, "optimal": 4}
    assert rows["smallest_bin"].to_dict() == {"none": 4, "percentile": 7, "optimal": 11}


def test_wrong_parameters_are_refused():
    for width, cap in ((0, None), (5, 5)):
        with pytest.raises(ValueError, match="width"):
            ClaimNumberBins(width, cap)
