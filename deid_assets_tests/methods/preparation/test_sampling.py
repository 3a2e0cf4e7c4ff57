"""The random sample: keyed, reproducible, uniform, and independent of the order of the delivery."""

import hashlib
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from deid_assets.methods.preparation.sampling import members_left_out, released_sample_query, sample_size
from deid_assets_tests import examples

KEY = b"k" * 32


def drawn(store, members, size, key=KEY) -> list[str]:
    table = store.table("eligible", "member_id VARCHAR", [(member,) for member in members])
    return [row[0] for row in store.rows(released_sample_query(table, size, key))]


def test_the_sample_is_the_members_whose_keyed_hash_comes_first(store):
    members = [f"member {number}" for number in range(50)]
    keyed = sorted(members, key=lambda m: hashlib.sha256(f"{KEY.hex()}|{m}".encode()).hexdigest())
    assert drawn(store, members, 7) == sorted(keyed[:7])


def test_the_order_of_the_delivery_plays_no_part_and_the_key_does(store):
    members = [f"member {number}" for number in range(200)]
    shuffled = random.Random(1).sample(members, len(members))
    first = drawn(store, members, 20)
    assert drawn(store, shuffled, 20) == first
    assert drawn(store, members, 20, b"l" * 32) != first


def test_a_larger_sample_holds_the_smaller_one(store):
    members = [f"member {number}" for number in range(60)]
    assert set(drawn(store, members, 10)) < set(drawn(store, members, 30))


@pytest.mark.parametrize(("size", "found"), [(0, 0), (3, 3), (5, 5), (9, 5)])
def test_all_are_drawn_where_fewer_are_eligible(size, found, store):
    assert len(drawn(store, "abcde", size)) == found


def test_the_key_is_bound_and_never_in_the_text(store):
    query = released_sample_query(store.table("eligible", "member_id VARCHAR", []), 3, KEY)
    assert KEY.hex() not in query.sql


def test_members_of_any_part_of_the_delivery_are_as_likely_as_those_of_another(store):
    members = [f"{number:05}" for number in range(10_000)]
    table = store.write("eligible", "SELECT lpad(i::VARCHAR, 5, '0') AS member_id FROM range(10000) AS r(i)")
    found = [row[0] for row in store.rows(released_sample_query(table, 2_000, KEY))]
    assert set(found) <= set(members)
    tenths = [0] * 10
    for member in found:
        tenths[int(member) // 1_000] += 1
    assert stats.chisquare(tenths).pvalue > 1e-3


@given(st.integers(0, 500), st.integers(0, 500), st.none() | st.integers(1, 600), st.floats(0.001, 1, allow_nan=False))
@settings(max_examples=examples.of(60))
def test_the_size_never_exceeds_those_eligible(population, eligible, members, fraction):
    found = sample_size(population, eligible, members, fraction, KEY)
    assert 0 <= found <= eligible
    if members is not None:
        assert abs(found - min(members, eligible)) <= 60 and (found >= 1 or eligible == 0)


def test_a_fraction_is_of_the_delivered_members():
    """Removed members stay in the denominator of alpha."""
    assert abs(sample_size(1000, 600, None, 0.5, KEY) - 500) <= 60


def test_nobody_is_drawn_where_nobody_is_asked_for():
    assert sample_size(1000, 600, None, 0.0001, KEY) == 0


def test_the_size_is_random_so_that_the_number_suppressed_does_not_follow_from_the_one_asked_for():
    keys = [hashlib.sha256(str(number).encode()).digest() for number in range(2_000)]
    sizes = np.array([sample_size(200_000, 150_000, 20_000, None, key) for key in keys])
    assert abs(sizes.mean() - 20_000) < 5 * 10 / 2_000**0.5
    assert abs(sizes.std() - 10) < 1 and (sizes == 20_000).mean() < 0.07
    assert sample_size(200_000, 150_000, 20_000, None, keys[0]) == sizes[0], "the same key gives the same size"


def released(store, members, size, left_out, key=b"n" * 32) -> set[str]:
    table = store.table("eligible", "member_id VARCHAR", [(member,) for member in members])
    return {row[0] for row in store.rows(released_sample_query(table, size, KEY, left_out, key))}


class TestLeftOut:
    members = [f"member {number}" for number in range(120)]

    def test_a_sample_of_the_size_asked_for_lacks_some_of_those_who_come_first(self, store):
        first, found = set(drawn(store, self.members, 60)), released(store, self.members, 50, 10)
        assert len(found) == 50 and found < first

    def test_others_are_left_out_for_another_policy_or_delivery(self, store):
        one, other = (released(store, self.members, 50, 10, key) for key in (b"n" * 32, b"o" * 32))
        assert one != other and len(one & other) >= 40

    def test_who_comes_or_goes_moves_nobody_else_but_for_their_places(self, store):
        before = released(store, self.members, 50, 0)
        fewer = released(store, self.members[10:], 50, 0)
        more = released(store, [*self.members, *(f"new {number}" for number in range(10))], 50, 0)
        assert before - fewer == before & set(self.members[:10]), "only those who are gone are missing"
        assert all(member.startswith("new") for member in more - before), "only newcomers take a place"

    def test_the_number_is_about_twenty_where_there_is_room(self):
        keys = [hashlib.sha256(str(number).encode()).digest() for number in range(2_000)]
        numbers = np.array([members_left_out(20_000, 150_000, key) for key in keys])
        assert abs(numbers.mean() - 20) < 5 * 10 / 2_000**0.5 + 0.2 and 8.5 < numbers.std() < 10.5 and numbers.min() == 0

    @given(st.integers(0, 300), st.integers(0, 300))
    @settings(max_examples=examples.of(40))
    def test_nobody_is_left_out_whom_another_cannot_replace(self, size, eligible):
        size = min(size, eligible)
        assert 0 <= members_left_out(size, eligible, KEY) <= eligible - size
