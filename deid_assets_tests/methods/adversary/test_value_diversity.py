"""Simpson diversity: worked numbers, agreement of the relational and the array form, the correlation table."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.errors import StoreError
from deid_assets.methods.adversary import adversary_power
from deid_assets.methods.adversary import adversary_power as module
from deid_assets_tests import examples
from deid_assets_tests.methods.small_tables import small_store

histories = st.lists(st.lists(st.one_of(st.none(), st.integers(0, 4)), max_size=8), min_size=1, max_size=6)


def simpson_by_definition(values: list) -> float:
    counts, n = Counter(value for value in values if value is not None), sum(value is not None for value in values)
    return 0.0 if n <= 1 else 1 - sum(c * (c - 1) for c in counts.values()) / (n * (n - 1))


def arrays_of(members: list[list]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.cumsum([0, *map(len, members)])
    return offsets, np.array([-1 if v is None else v for values in members for v in values], dtype=np.int32)


def store_with(store, members: list[list], wanted: list[int] | None = None):
    claims = [(f"m{i}", v, None if v is None else f"v{v}") for i, values in enumerate(members) for v in values]
    wanted = range(len(members)) if wanted is None else wanted
    return (
        store.table("claims", "member_id VARCHAR, code INTEGER, name VARCHAR", claims),
        store.table("members", "member_id VARCHAR", [(f"m{i}",) for i in wanted]),
    )


def test_worked_example_has_simpson_8_of_30_and_diversity_22_of_30():
    ami_uti_renal = [0, 0, 0, 1, 2, 2]
    pairs = adversary_power.value_pairs(*arrays_of([ami_uti_renal]))
    assert (pairs.differing.tolist(), pairs.every.tolist()) == ([22], [30])
    diversity = pairs.diversity
    assert 1 - diversity[0] == pytest.approx(0.2667, abs=5e-5)
    assert diversity[0] == pytest.approx(0.7333, abs=5e-5)


def test_no_value_or_a_single_value_is_no_diversity():
    assert adversary_power.value_pairs(*arrays_of([[], [3], [None, 3], [None]])).diversity.tolist() == [0, 0, 0, 0]


@settings(deadline=None, max_examples=examples.of(25))
@given(histories)
def test_relational_and_array_form_agree_to_the_last_bit_and_with_the_definition(members):
    by_definition = [simpson_by_definition(values) for values in members]
    pairs = adversary_power.value_pairs(*arrays_of(members))
    from_arrays = pairs.diversity
    with small_store() as store:
        rows = store.rows(adversary_power.value_diversity_query(*store_with(store, members), ("code", "name")))
    found = {(member, name): measured for member, name, *measured in rows}
    assert len(rows) == 2 * len(members)
    for i, values in enumerate(members):
        n = sum(value is not None for value in values)
        assert found[f"m{i}", "code"] == found[f"m{i}", "name"] == [n, pairs.differing[i], from_arrays[i]]
    assert from_arrays == pytest.approx(by_definition)


@given(histories)
def test_counting_in_blocks_changes_nothing(members):
    whole = adversary_power.value_pairs(*arrays_of(members))
    before = module._CELLS_AT_ONCE
    module._CELLS_AT_ONCE = 1
    try:
        blocked = adversary_power.value_pairs(*arrays_of(members))
    finally:
        module._CELLS_AT_ONCE = before
    assert np.array_equal(whole.differing, blocked.differing)
    assert np.array_equal(whole.every, blocked.every)


def test_only_wanted_members_are_measured_and_those_without_claims_are_there(store):
    claims, members = store_with(store, [[1, 2], [1, 1], []], wanted=[1, 2])
    rows = store.rows(adversary_power.value_diversity_query(claims, members, ["code"]))
    assert sorted(rows) == [("m1", "code", 2, 0, 0.0), ("m2", "code", 0, 0, 0.0)]


def test_correlation_table_is_symmetric_over_all_members(store):
    claims, members = store_with(store, [[1, 2], [1, 1], [1, 1, 2], []])
    long = store.write("long", adversary_power.value_diversity_query(claims, members, ["code", "name"]))
    wide = long.query(adversary_power.diversity_by_member(long, ["code", "name"]))
    assert wide["member_id"].tolist() == ["m0", "m1", "m2", "m3"]
    assert wide["code"].tolist() == pytest.approx([1, 0, 2 / 3, 0])
    table = adversary_power.correlation_of(wide)
    assert table.columns.tolist() == table.index.tolist() == ["code", "name"]
    assert table.to_numpy() == pytest.approx(np.ones((2, 2)))


def test_a_constant_diversity_has_no_correlation():
    table = adversary_power.correlation_of(pd.DataFrame({"a": [0.0, 1.0], "b": [0.5, 0.5]}))
    assert table.loc["a", "a"] == pytest.approx(1)
    assert table[["b"]].isna().all().all()


def test_names_are_validated_before_they_become_sql(store):
    claims, members = store_with(store, [[1]])
    with pytest.raises(StoreError):
        adversary_power.value_diversity_query(claims, members, ["code', 'x"])
    with pytest.raises(ValueError, match="at least one"):
        adversary_power.value_diversity_query(claims, members, [])


@pytest.mark.parametrize(
    ("differing", "every", "message"),
    [
        ([1], [0], "more differing pairs"),
        ([-1], [2], "fewer than none"),
        ([0.5], [2], "whole numbers"),
        ([1], [2, 2], "same length"),
    ],
)
def test_pairs_that_can_not_be_are_refused(differing, every, message):
    with pytest.raises(ValueError, match=message):
        adversary_power.ValuePairs(np.array(differing), np.array(every))
