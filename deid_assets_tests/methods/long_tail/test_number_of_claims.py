"""The number of claims as a quasi-identifier: bins safe within classes, alone and year by year."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.long_tail.bins import ClaimNumberBins
from deid_assets.methods.long_tail.number_of_claims import truncate_within_classes

KEY = bytes(range(16))

members = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 25), st.integers(0, 25)), min_size=1, max_size=80)


def classes_by_definition(classes, counts, width) -> Counter:
    return Counter((int(c), *(-(-int(n) // width) for n in row)) for c, row in zip(classes, counts, strict=True))


@settings(deadline=None)
@given(members, st.integers(1, 6), st.integers(1, 6))
def test_every_bin_of_every_class_is_empty_or_large_enough(drawn, width, m):
    classes, counts = np.array([d[0] for d in drawn]), np.array([d[1:2] for d in drawn])
    kept = truncate_within_classes(counts, classes, width, m, KEY)
    assert (kept <= counts).all() and np.array_equal(kept == 0, counts == 0)
    with_claims = Counter(classes[counts[:, 0] > 0].tolist())
    for (own, bin_, *_), size in classes_by_definition(classes, kept, width).items():
        if bin_ and with_claims[own] >= m:
            assert size >= m


@settings(deadline=None)
@given(members, st.integers(1, 6), st.integers(1, 6))
def test_vectors_of_yearly_bins_are_safe_together(drawn, width, m):
    classes, counts = np.array([d[0] for d in drawn]), np.array([d[1:] for d in drawn])
    kept = truncate_within_classes(counts, classes, width, m, KEY)
    assert (kept <= counts).all()
    there = Counter(classes.tolist())
    for (own, *_), size in classes_by_definition(classes, kept, width).items():
        if there[own] >= m:
            assert size >= m


@settings(deadline=None)
@given(members, st.integers(1, 6), st.integers(1, 6), st.integers(1, 3))
def test_what_is_safe_stays_safe_when_classes_merge_and_bins_nest(drawn, width, m, times):
    """Coarser demographics, and bins whose width is a multiple: every class is a union of safe ones."""
    classes, counts = np.array([d[0] for d in drawn]), np.array([d[1:] for d in drawn])
    if min(Counter(classes.tolist()).values()) < m:
        return
    kept = truncate_within_classes(counts, classes, width, m, KEY)
    assert min(classes_by_definition(classes // 2, kept, width * times).values()) >= m


def test_truncating_again_at_a_coarser_node_is_not_monotone():
    """At width 10 nobody has to lose a claim, and then five members stand alone at width 5.

    So claims are cut once, at one reference, and never anew for each node.
    """
    counts = np.repeat([38, 33, 28, 23, 3], [20, 5, 15, 20, 40])[:, None]
    one_class = np.zeros(len(counts), dtype=int)
    fine = truncate_within_classes(counts, one_class, 5, 20, KEY)
    again = truncate_within_classes(counts, one_class, 10, 20, KEY)
    assert min(classes_by_definition(one_class, fine, 10).values()) >= 20, "one truncation, read at a coarser width"
    assert min(classes_by_definition(one_class, again, 5).values()) < 20, "another truncation has other classes"


def test_who_loses_claims_does_not_depend_on_the_order():
    counts = np.full((30, 1), 7)
    counts[:12] = 12  # twelve are too few for a bin of twenty: they go down, or eight come up: nobody comes up
    kept = truncate_within_classes(counts, np.zeros(30, dtype=int), 5, 20, KEY)
    assert kept.max() <= 10
    tied = np.repeat([[12], [8]], [25, 15], axis=0)  # five of the twenty-five with 12 go down to join fifteen
    first, second = (truncate_within_classes(tied, np.zeros(40, dtype=int), 5, 20, key) for key in (KEY, bytes(16)))
    assert (first == 10).sum() == (second == 10).sum() == 5
    assert not np.array_equal(first, second)
    assert np.array_equal(first, truncate_within_classes(tied, np.zeros(40, dtype=int), 5, 20, KEY))


def test_a_class_too_small_for_any_bin_is_left_to_its_demographics():
    counts = np.array([[3], [9], [4]])
    assert truncate_within_classes(counts, np.zeros(3, dtype=int), 5, 20, KEY).tolist() == counts.tolist()


def test_a_member_may_lose_a_whole_year_but_a_single_count_keeps_one_claim():
    yearly = np.array([[2, 0]] * 30 + [[2, 3]] * 5)
    kept = truncate_within_classes(yearly, np.zeros(35, dtype=int), 5, 20, KEY)
    assert kept[:, 1].max() == 0 and (kept[:, 0] == 2).all()


def test_bins_beyond_int_pairs_do_not_collide():
    """If the second member fell into the class of the others, they would lose a claim in the second year."""
    counts = np.array([[10**6, 3], [1, 2], [10**6, 3]])
    kept = truncate_within_classes(counts, np.array([0, 10**6, 0]), 1, 2, KEY)
    assert kept.tolist() == counts.tolist()


@pytest.mark.parametrize(
    ("counts", "classes", "key", "message"),
    [
        (np.zeros(3), np.zeros(3), KEY, "shapes"),
        (np.zeros((3, 1)), np.zeros(2), KEY, "shapes"),
        (np.zeros((3, 1)), np.zeros(3), b"", "16"),
    ],
)
def test_wrong_input_is_refused(counts, classes, key, message):
    with pytest.raises(ValueError, match=message):
        truncate_within_classes(counts, classes, 5, 20, key)


def test_the_bins_are_those_of_the_long_tail():
    assert ClaimNumberBins(5).of(np.array([0, 1, 5, 6])).tolist() == [-1, 0, 0, 1]
