"""Support scores and the truncation of the long tail (methods#long-tail)."""

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.errors import DeliveryError, StoreError
from deid_assets.methods.long_tail import truncation
from deid_assets_tests import examples
from deid_assets_tests.methods.small_tables import small_store

KEY = b"0123456789abcdef"
COLUMNS = "claim_id VARCHAR, member_id VARCHAR, year INTEGER, a VARCHAR, b INTEGER"

claims_of_members = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.integers(1, 2),
        st.one_of(st.none(), st.sampled_from("xyz")),
        st.one_of(st.none(), st.integers(0, 2)),
    ),
    min_size=1,
    max_size=30,
)


def rows_of(drawn: list[tuple]) -> list[tuple]:
    return [(f"c{i}", f"m{member}", year, a, b) for i, (member, year, a, b) in enumerate(drawn)]


def scores_by_definition(rows: list[tuple]) -> dict[str, float]:
    members = {row[1] for row in rows}
    holders = defaultdict(set)
    for _, member, _, *values in rows:
        for h, value in enumerate(values):
            holders[h, value].add(member)
    scores = {}
    for claim, _, _, *values in rows:
        supports = [len(holders[h, value]) - 1 for h, value in enumerate(values) if value is not None]
        scores[claim] = 1 - min(supports, default=len(members) - 1) / len(members)
    return scores


@settings(deadline=None, max_examples=examples.of(25))
@given(claims_of_members)
def test_scores_are_one_minus_the_least_support_over_the_members(drawn):
    rows = rows_of(drawn)
    with small_store() as store:
        found = dict(store.rows(truncation.claim_support_scores_query(store.table("claims", COLUMNS, rows), ["a", "b"])))
    assert found == pytest.approx(scores_by_definition(rows))


def test_worked_scores(store):
    # 1000 members; value r of column a is shared by 4 of them (3 others), "common" of b by 901; one value by nobody.
    rows = [(f"c{i}", f"m{i}", 1, "r" if i < 4 else "alone" if i == 999 else "s", 1 if i <= 900 else 2) for i in range(1000)]
    found = dict(store.rows(truncation.claim_support_scores_query(store.table("claims", COLUMNS, rows), ["a", "b"])))
    assert found["c0"] == pytest.approx(0.997)
    assert found["c999"] == 1
    assert found["c500"] == pytest.approx(1 - 900 / 1000)


def test_a_claim_without_any_value_has_the_least_score(store):
    rows = [("c0", "m0", 1, None, None), ("c1", "m1", 1, "x", None)]
    found = dict(store.rows(truncation.claim_support_scores_query(store.table("claims", COLUMNS, rows), ["a", "b"])))
    assert found == {"c0": 0.5, "c1": 1.0}


@pytest.mark.parametrize(("unit", "percentile", "cap"), [("member", 95, 19), ("member_year", 95, 10), ("member", 100, 20)])
def test_cap_is_the_nearest_rank_percentile_of_the_unit(unit, percentile, cap, store):
    # Members with 1..20 claims, ten of them at most in a year.
    rows = [(f"c{n}-{i}", f"m{n}", 1 + i // 10, "x", 1) for n in range(1, 21) for i in range(n)]
    assert truncation.claims_cap(store.table("claims", COLUMNS, rows), percentile, unit) == cap


def test_no_claims_are_an_error_that_says_so():
    with small_store() as store, pytest.raises(DeliveryError, match="no claims"):
        truncation.claims_cap(store.table("claims", COLUMNS, []), 95, "member")


@settings(deadline=None, max_examples=examples.of(25))
@given(claims_of_members, st.integers(1, 4), st.sampled_from(["member", "member_year"]))
def test_members_keep_their_best_supported_claims(drawn, cap, unit):
    rows = rows_of(drawn)
    with small_store() as store:
        claims = store.table("claims", COLUMNS, rows)
        scores = store.write("scores", truncation.claim_support_scores_query(claims, ["a", "b"]))
        cut = store.write("cut", truncation.cut_to_cap(claims, scores, cap, truncation.CutOrder(unit, KEY)))
        kept = store.write("kept", truncation.without(claims, [cut]))
        kept_rows = store.rows(f"SELECT * FROM {kept.sql}")
        members = store.write("members", f"SELECT DISTINCT member_id FROM {claims.sql}")
        flags = dict(store.rows(truncation.claims_truncated(members, claims, kept)))
    assert set(kept_rows) <= set(rows)
    score, kept_ids, of_unit = scores_by_definition(rows), {row[0] for row in kept_rows}, defaultdict(list)
    for row in rows:
        of_unit[row[1:2] if unit == "member" else row[1:3]].append(row[0])
    cut_members = set()
    for (member, *_), ids in of_unit.items():
        stay, cut = [i for i in ids if i in kept_ids], [i for i in ids if i not in kept_ids]
        assert len(stay) == min(cap, len(ids))
        assert not cut or max(score[i] for i in stay) <= min(score[i] for i in cut) + 1e-12
        cut_members |= {member} if cut else set()
    assert flags == {row[1]: int(row[1] in cut_members) for row in rows}


def tied(order: list[int], key: bytes, store) -> set[str]:
    rows = [(f"c{i}", "m", 1, "x", 1) for i in order]
    claims = store.table("claims", COLUMNS, rows)
    scores = store.write("scores", truncation.claim_support_scores_query(claims, ["a"]))
    cut = store.write("cut", truncation.cut_to_cap(claims, scores, 5, truncation.CutOrder("member", key)))
    return {row[0] for row in store.rows(truncation.without(claims, [cut]))}


def test_ties_depend_on_the_key_and_not_on_the_order_of_the_file(store):
    forwards, backwards = tied(list(range(40)), KEY, store), tied(list(range(40))[::-1], KEY, store)
    other_key = tied(list(range(40)), b"another key", store)
    assert forwards == backwards
    assert forwards != other_key
    assert forwards != {f"c{i}" for i in range(5)}


def test_the_key_is_bound_and_never_in_the_text(store):
    claims = store.table("claims", COLUMNS, [])
    query = truncation.cut_to_cap(claims, claims, 5, truncation.CutOrder("member", KEY))
    assert KEY.hex() not in query.sql and KEY.decode() not in query.sql
    assert query.parameters == (KEY.hex(),)


def test_a_member_without_claims_is_not_truncated(store):
    claims = store.table("claims", COLUMNS, [("c0", "m0", 1, "x", 1), ("c1", "m0", 1, "x", 1)])
    kept = store.table("kept", COLUMNS, [("c0", "m0", 1, "x", 1)])
    members = store.table("members", "member_id VARCHAR", [("m0",), ("m1",)])
    assert dict(store.rows(truncation.claims_truncated(members, claims, kept))) == {"m0": 1, "m1": 0}


def test_a_name_that_is_no_identifier_is_refused(store):
    claims = store.table("claims", COLUMNS, [])
    with pytest.raises(StoreError):
        truncation.claim_support_scores_query(claims, ["a; DROP TABLE x"])


def test_claims_that_several_cuts_list_are_left_out_and_no_others(store):
    rows = [(f"c{i}", "m0", 1, "x", i) for i in range(5)]
    claims = store.table("claims", COLUMNS, rows)
    first = store.table("first", "claim_id VARCHAR", [("c1",), ("c2",)])
    second = store.table("second", "claim_id VARCHAR", [("c2",), ("c4",)])
    assert store.rows(truncation.without(claims, [])) == rows
    assert sorted(store.rows(truncation.without(claims, [first]))) == [rows[0], rows[3], rows[4]]
    assert sorted(store.rows(truncation.without(claims, [first, second]))) == [rows[0], rows[3]]
