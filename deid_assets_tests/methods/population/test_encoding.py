"""Tables as the kernel's arrays: equal to brute force, and the same for any order of rows and number of threads."""

import contextlib
from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deid_assets.store.tables
from deid_assets.methods.population import encoding
from deid_assets.methods.population.encoding import (
    coded_histories,
    demographic_codes,
    domains_of,
    histories,
    powers,
    released_members,
    rows_of_histories,
)
from deid_assets.methods.population.longitudinal_data import Histories
from deid_assets.store.tables import connect
from deid_assets_tests import examples
from deid_assets_tests.assets import small_release
from deid_assets_tests.methods.small_tables import small_store

COLUMNS = tuple(small_release.CLAIM_NAMES)
# A delivery holds at least one value of every column; elsewhere anything may be missing.
members = st.lists(
    st.tuples(
        st.sampled_from([30, 31, None]), st.sampled_from(["F", "M", None]), st.sampled_from([0, 3, None]),
        st.sampled_from([0, None]), st.sampled_from([0, 1]), st.booleans(),
    ),
    min_size=1, max_size=7,
)  # fmt: skip


@st.composite
def deliveries(draw):
    people = draw(members)
    claim = st.tuples(
        st.integers(0, len(people) - 1),
        st.sampled_from([1, 2, 40, None]),
        st.sampled_from([*small_release.GROUPS, None]),
        st.booleans(),
    )
    return people, [(0, 1, "AMI", True), *draw(st.lists(claim, max_size=25))]


def multisets(found, values) -> list[Counter]:
    """What each member holds, as values."""
    return [Counter(values[code] for code in found.codes[found.offsets[i] : found.offsets[i + 1]]) for i in range(len(found))]


def expected(claims, numbers, place, only_held) -> list[Counter]:
    return [
        Counter(claim[place] for claim in claims if claim[0] == i and claim[place] is not None and (claim[3] or not only_held))
        for i in numbers
    ]


@settings(deadline=None, max_examples=examples.of(10))
@given(deliveries())
def test_histories_are_those_of_brute_force(delivery):
    people, claims = delivery
    with small_store() as store:
        made = small_release.small_release(store, people, claims)
        everyone = histories(made.held, made.profiles, made.domains, COLUMNS, len(people))
        released = histories(made.known, made.profiles, made.domains, COLUMNS, len(made.released), released_only=True)
        for place, name in enumerate(COLUMNS, start=1):
            values = sorted({claim[place] for claim in claims if claim[place] is not None})
            assert multisets(everyone[place - 1], values) == expected(claims, range(len(people)), place, True), name
            assert multisets(released[place - 1], values) == expected(claims, made.released, place, False), name


def same(found: Iterable[Histories], expected: tuple[Histories, ...]) -> bool:
    """Whether all arrays and their types are the same."""
    pairs = [pair for one, other in zip(found, expected, strict=True) for pair in zip(
        (one.offsets, one.codes), (other.offsets, other.codes), strict=True
    )]  # fmt: skip
    return all(one.dtype == other.dtype and np.array_equal(one, other) for one, other in pairs)


@settings(deadline=None, max_examples=examples.of(10))
@given(deliveries(), st.randoms(use_true_random=False))
def test_histories_made_of_their_rows_in_any_order_are_those_of_the_claims(delivery, random):
    people, claims = delivery
    with small_store() as store:
        made = small_release.small_release(store, people, claims)
        targets, everybody = released_members(made.profiles), np.arange(len(people))
        known = histories(made.known, made.profiles, made.domains, COLUMNS, len(targets), released_only=True)
        held = histories(made.held, made.profiles, made.domains, COLUMNS, len(people))
        among_released = histories(made.held, made.profiles, made.domains, COLUMNS, len(targets), released_only=True)
        rows = store.write("rows", rows_of_histories(COLUMNS, known, held, targets))
        in_any_order = store.write("shuffled", f"SELECT * FROM {rows.sql} ORDER BY hash(rowid + {random.randrange(99)})")
        for coded in (rows, in_any_order):
            assert same(coded_histories(coded, COLUMNS, False, targets), known)
            assert same(coded_histories(coded, COLUMNS, True, everybody), held)
            assert same(coded_histories(coded, COLUMNS, True, targets), among_released)
            assert same(coded_histories(coded, COLUMNS[::-1], True, everybody), held[::-1])
        assert {row[:4] for row in store.rows(f"SELECT * FROM {rows.sql}")} == {
            (column, is_held, numbers[i], code)
            for is_held, of, numbers in ((False, known, targets.tolist()), (True, held, everybody.tolist()))
            for column, one in zip(COLUMNS, of, strict=True)
            for i in range(len(one))
            for code in one.codes[one.offsets[i] : one.offsets[i + 1]].tolist()
        }
        assert store.rows(f"SELECT count(*) FROM (SELECT DISTINCT COLUMNS(* EXCLUDE times) FROM {rows.sql})") == store.rows(
            f"SELECT count(*) FROM {rows.sql}"
        )


def test_codes_of_large_domains_keep_their_number(store):
    codes = Histories(np.array([0, 2, 2, 5]), np.array([7, 40_000, 0, 40_000, 40_000], dtype=np.int32))
    rows = store.write("rows", rows_of_histories(("a",), (codes,), (codes,), np.arange(3)))
    assert same(coded_histories(rows, ("a",), True, np.arange(3)), (codes,))
    assert store.rows(f"SELECT member_number, code, times FROM {rows.sql} WHERE held ORDER BY ALL") == [
        (0, 7, 1), (0, 40_000, 1), (2, 0, 1), (2, 40_000, 2),
    ]  # fmt: skip


@settings(deadline=None, max_examples=examples.of(8))
@given(deliveries())
def test_demographics_are_numbered_and_a_missing_value_is_the_last_number(delivery):
    people, claims = delivery
    with small_store() as store:
        made = small_release.small_release(store, people, claims)
        people = made.members
        codes = demographic_codes(made.profiles, made.domains, small_release.MEMBER_COLUMNS)
        targets = released_members(made.profiles)
    for place in range(len(small_release.MEMBER_COLUMNS)):
        values = sorted({person[place] for person in people if person[place] is not None})
        assert codes[:, place].tolist() == [
            len(values) if person[place] is None else values.index(person[place]) for person in people
        ]
    assert codes.dtype == np.int32
    assert targets.tolist() == made.released


def test_powers_stand_in_the_order_of_the_released_members(store):
    made = small_release.small_release(store, *small_release.random_rows(3))
    found = powers(made.power, made.profiles, COLUMNS)
    table = {(member, name): power for member, name, power in store.rows(f"SELECT * FROM {made.power.sql}")}
    for name, values in zip(COLUMNS, found, strict=True):
        assert values.tolist() == [table[f"m{i:03}", name] for i in made.released]


def test_the_order_of_claims_and_members_in_their_tables_plays_no_part():
    people, claims = small_release.random_rows(4)
    shuffled = [claims[i] for i in np.random.default_rng(5).permutation(len(claims))]
    found = []
    for order in (claims, shuffled):
        with small_store() as store:
            made = small_release.small_release(store, people, order)
            backwards = store.write("backwards", f"SELECT * FROM {made.profiles.sql} ORDER BY member_number DESC")
            for profiles in (made.profiles, backwards):
                arrays = [demographic_codes(profiles, made.domains, small_release.MEMBER_COLUMNS), released_members(profiles)]
                for table, count, only in ((made.held, len(people), False), (made.known, len(made.released), True)):
                    for one in histories(table, profiles, made.domains, COLUMNS, count, only):
                        arrays += [one.offsets, one.codes]
                found.append([array.tolist() for array in arrays])
    assert all(arrays == found[0] for arrays in found)


def test_how_many_members_are_read_at_a_time_plays_no_part(monkeypatch, store):
    made = small_release.small_release(store, *small_release.random_rows(6))
    everybody, released = len(made.members), len(made.released)
    found = []
    for at_once in (everybody, 1, 7):
        monkeypatch.setattr(encoding, "_MEMBERS_AT_ONCE", at_once)
        held = histories(made.held, made.profiles, made.domains, COLUMNS, everybody)
        found.append((*held, *histories(made.known, made.profiles, made.domains, COLUMNS, released, released_only=True)))
    assert found[0][0].codes.any()
    assert same(found[1], found[0])
    assert same(found[2], found[0])


def test_the_number_of_threads_plays_no_part(monkeypatch):
    """Several row groups, so that DuckDB does return rows in another order."""
    found = []
    with small_store() as store:
        made = small_release.small_release(store, *small_release.random_rows(6))
        many = store.write(
            "many",
            f"""SELECT 'm' || lpad((i * 7919 % {len(made.members)})::VARCHAR, 3, '0') AS member_id,
                       CASE WHEN i % 5 > 1 THEN 1 + i % 3 END::INTEGER AS length_of_stay,
                       CASE i % 4 WHEN 0 THEN 'AMI' WHEN 1 THEN 'CHF' END AS condition_group
                FROM range(300000) AS r(i)""",
        )
        for threads in (1, 4):

            @contextlib.contextmanager
            def with_threads(file, read_only=False, threads=threads):
                with connect(file, read_only) as connection:
                    connection.execute(f"SET threads = {threads}")
                    yield connection

            monkeypatch.setattr(deid_assets.store.tables, "connect", with_threads)
            found.append(histories(many, made.profiles, made.domains, COLUMNS, len(made.members)))
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one.offsets, other.offsets)
        assert np.array_equal(one.codes, other.codes)


class TestDomainsOfAnotherDelivery:
    """A value without a number is refused: it would silently count as no knowledge. The message shows no value."""

    def test_claim_values(self, store):
        made = small_release.small_release(store, *small_release.random_rows(7))
        later = store.table(
            "later", "member_id VARCHAR, length_of_stay INTEGER, condition_group VARCHAR",
            [("m000", 4711, "AMI"), ("m000", None, "AMI"), ("m001", 4711, None)],
        )  # fmt: skip
        with pytest.raises(ValueError, match="2 values of length_of_stay without a class") as caught:
            histories(later, made.profiles, made.domains, COLUMNS, len(made.members))
        assert "4711" not in str(caught.value)

    def test_demographics(self, store):
        made = small_release.small_release(store, *small_release.random_rows(7))
        other = store.write("other", f"SELECT * REPLACE (97 AS age) FROM {made.profiles.sql}")
        with pytest.raises(ValueError, match=f"{len(made.members)} values have no class") as caught:
            demographic_codes(other, made.domains, small_release.MEMBER_COLUMNS)
        assert "97" not in str(caught.value).replace(str(len(made.members)), "")

    def test_claims_of_members_who_were_not_delivered_are_nobodys(self, store):
        made = small_release.small_release(store, *small_release.random_rows(8))
        strangers = store.write("strangers", f"SELECT * REPLACE ('nobody' AS member_id) FROM {made.held.sql}")
        found = histories(strangers, made.profiles, made.domains, COLUMNS, len(made.members))
        assert all(len(one.codes) == 0 and len(one) == len(made.members) for one in found)


def test_the_domains_are_those_of_the_table(store):
    made = small_release.small_release(
        store, [(30, "F", 0, None, 0, True), (31, None, 1, None, 0, True)], [(0, 1, "AMI", True)]
    )
    age, sex, _, year_3, _ = domains_of(made.domains, small_release.MEMBER_COLUMNS)
    assert [level.tolist() for level in age.levels] == [[0, 1, 2], [0, 0, 1]]
    assert sex.sizes == (2, 2)
    assert year_3.sizes == (1, 1), "a column that is missing throughout has one class"
