"""Provider, vendor and PCP suppression against brute force (methods#provider-patterns)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.errors import StoreError
from deid_assets.methods.candidate import provider_suppression
from deid_assets.store.tables import Table, scratch_table
from deid_assets_tests import examples
from deid_assets_tests.methods.small_tables import small_store

COLUMNS = (
    "claim_id INTEGER, place VARCHAR, specialty VARCHAR, procedure_group VARCHAR, condition_group VARCHAR,"
    " provider_id VARCHAR, vendor_id VARCHAR, pcp_id VARCHAR"
)
values = st.one_of(st.none(), st.sampled_from("ab"))
identifiers = st.one_of(st.none(), st.sampled_from("pqrs"))
claims = st.lists(st.tuples(values, values, st.just("g"), values, identifiers, identifiers, identifiers), max_size=25)


def counted(reference: Table) -> Table:
    return scratch_table(reference, "counts", provider_suppression.pattern_counts(reference))


def numbered(rows: list[tuple]) -> list[tuple]:
    return [(i, *row) for i, row in enumerate(rows)]


def by_definition(released: list[tuple], reference: list[tuple], needed: int) -> list[tuple]:
    def kept(row: tuple, place: int) -> str | None:
        others = {other[place] for other in reference if other[1:5] == row[1:5]} - {None}
        return row[place] if len(others) >= needed else None

    return [(*row[:5], *(kept(row, place) for place in (5, 6, 7))) for row in released]


@settings(deadline=None, max_examples=examples.of(15))
@given(claims, claims, st.integers(1, 4))
def test_identifiers_go_where_too_few_show_the_pattern_in_the_reference(released, reference, needed):
    released, reference = numbered(released), numbered(reference)
    expected = by_definition(released, reference, needed)
    with small_store() as store:
        table = store.table("released", COLUMNS, released)
        counts = counted(store.table("reference", COLUMNS, reference))
        found = store.write("found", provider_suppression.suppress_identifiers(table, counts, needed))
        assert sorted(store.rows(f"SELECT * FROM {found.sql}")) == expected
        assert list(found.columns()) == list(table.columns())
        shares = provider_suppression.blanked_shares(table, provider_suppression.suppress_identifiers(table, counts, needed))
    for place, name in zip((5, 6, 7), provider_suppression.IDENTIFIERS, strict=True):
        before, after = (sum(row[place] is not None for row in rows) for rows in (released, expected))
        assert shares[name] == pytest.approx((before - after) / before if before else 0)


def test_each_identifier_is_judged_on_its_own(store):
    rows = [(i, "11", "Internal", "EM", "CHF", f"p{i}", f"v{i % 19}", "pcp") for i in range(20)]
    table = store.table("claims", COLUMNS, rows)
    found = store.rows(provider_suppression.suppress_identifiers(table, counted(table), needed=20))
    assert len(found) == 20
    assert {row[5] for row in found} == {f"p{i}" for i in range(20)}
    assert {row[6:] for row in found} == {(None, None)}


def test_19_providers_are_too_few(store):
    rows = [(i, None, "Internal", "EM", None, f"p{i % 19}", None, None) for i in range(200)]
    table = store.table("claims", COLUMNS, rows)
    assert {row[5] for row in store.rows(provider_suppression.suppress_identifiers(table, counted(table), needed=20))} == {None}


def test_missing_values_of_a_pattern_are_a_value_of_their_own(store):
    rows = [(0, None, "a", "g", "c", "p", None, None), (1, "11", "a", "g", "c", "q", None, None)]
    table = store.table("claims", COLUMNS, rows)
    counts = store.rows(provider_suppression.pattern_counts(table))
    assert sorted(counts, key=str) == [("c", "g", "11", "a", 1, 0, 0), ("c", "g", None, "a", 1, 0, 0)]


def test_providers_needed():
    assert provider_suppression.providers_needed() == 20
    assert provider_suppression.providers_needed(20, "large_sample", 0.2) == 4  # f = 4 -> 20
    assert provider_suppression.providers_needed(20, "truncated_poisson", 0.2) == 5  # f = 4 -> 19.6, f = 5 -> 24.8
    with pytest.raises(ValueError, match="alpha is 1"):
        provider_suppression.providers_needed(20, "counted", 0.2)


def test_wrong_parameters_are_refused(store):
    table = store.table("claims", COLUMNS, [])
    with pytest.raises(ValueError, match="at least 1"):
        provider_suppression.suppress_identifiers(table, counted(table), 0)
    with pytest.raises(StoreError):
        provider_suppression.suppress_identifiers(table, counted(table), 20, pattern=("place, 1",))
