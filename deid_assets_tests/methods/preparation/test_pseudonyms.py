"""Pseudonyms: keyed, irreversible, distinct, and the same for any order of the delivery."""

import hashlib
import hmac

from hypothesis import given
from hypothesis import strategies as st

from deid_assets.methods.preparation import pseudonyms as module
from deid_assets.methods.preparation.pseudonyms import DIGITS, pseudonyms

KEY = b"k" * 32
identifiers = st.lists(st.text(max_size=8), unique=True, max_size=30)


@given(identifiers, st.randoms(use_true_random=False))
def test_the_order_of_the_delivery_plays_no_part(names, random):
    shuffled = random.sample(names, len(names))
    one = pseudonyms("member", names, KEY)
    other = pseudonyms("member", shuffled, KEY)
    assert one["original_id"].tolist() == names
    assert dict(zip(one["original_id"], one["pseudonym"], strict=True)) == dict(
        zip(other["original_id"], other["pseudonym"], strict=True)
    )


@given(identifiers)
def test_they_are_distinct_and_have_fifteen_digits(names):
    found = pseudonyms("member", names, KEY)["pseudonym"]
    assert found.dtype == "int64"
    assert found.is_unique
    assert all(len(str(value)) == DIGITS == 15 for value in found)
    assert all(float(value) == value and int(float(value)) == value for value in found), "a double holds them exactly"


def test_a_pseudonym_is_the_keyed_digest_cut_to_its_digits():
    digest = hmac.new(KEY, b"a", hashlib.sha256).digest()
    expected = 10**14 + int.from_bytes(digest, "big") % (9 * 10**14)
    assert pseudonyms("member", ["a"], KEY)["pseudonym"].tolist() == [expected]


def test_another_key_gives_other_pseudonyms():
    """Deliveries and kinds have keys of their own, so that their releases cannot be joined."""
    names = [f"{number}" for number in range(50)]
    one, other = (set(pseudonyms("member", names, key)["pseudonym"]) for key in (KEY, b"l" * 32))
    assert not one & other


def test_identifiers_that_meet_are_told_apart_in_any_order(monkeypatch):
    monkeypatch.setattr(module, "_number", lambda digest: 10**14 + digest[0] % 16)
    names = list("abcdefghijklmnop")  # sixteen identifiers for sixteen numbers: nearly all of them meet
    forwards = pseudonyms("member", names, KEY).set_index("original_id")["pseudonym"].to_dict()
    backwards = pseudonyms("member", names[::-1], KEY).set_index("original_id")["pseudonym"].to_dict()
    assert sorted(forwards.values()) == list(range(10**14, 10**14 + 16))
    assert forwards == backwards


def test_no_identifier_gives_an_empty_table_with_its_columns():
    empty = pseudonyms("vendor", [], KEY)
    assert list(empty.columns) == ["kind", "original_id", "pseudonym"]
    assert len(empty) == 0
