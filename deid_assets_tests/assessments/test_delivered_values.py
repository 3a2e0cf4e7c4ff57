"""How many bits a delivered value has: by the counts of values alone, whatever the order of rows."""

import pytest

from deid_assets.assessments.delivered_values import entropies

VALUES = {"v": ("v", "true"), "of_some": ("v", "i % 2 = 0"), "of_none": ("v", "false")}


def test_the_last_digit_does_not_depend_on_the_order_of_rows(store):
    rows = "SELECT i, (hash(i) % 997 * (hash(i + 7) % 13))::VARCHAR AS v FROM range(20000) AS r(i)"
    found = set()
    for seed in range(8):
        table = store.write("delivered", f"SELECT * FROM ({rows}) ORDER BY hash(i, {seed})")
        found.add(tuple(entropies(table, table.sql, VALUES).items()))
    assert len(found) == 1
    ((exact,),) = store.rows(f"SELECT entropy(v) FROM {table.sql}")
    assert dict(*found)["v"] == pytest.approx(exact, rel=1e-12) and exact > 5


def test_a_missing_value_is_one_value_and_where_none_counts_there_are_no_bits(store):
    table = store.table("delivered", "i INTEGER, v VARCHAR", [(0, "a"), (1, "a"), (2, None), (3, None)])
    assert entropies(table, table.sql, VALUES) == {"v": 1.0, "of_some": 1.0, "of_none": 0.0}
    assert entropies(table, table.sql, {}) == {}
