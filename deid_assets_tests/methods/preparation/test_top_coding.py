"""Top codes and the nearest-rank percentile."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.preparation.top_coding import TopCode, nearest_rank, top_code
from deid_assets_tests import examples
from deid_assets_tests.methods.small_tables import small_store


@given(st.lists(st.integers(0, 20), min_size=1, max_size=60), st.sampled_from([50, 90, 95, 99, 99.5, 100]))
def test_nearest_rank_is_the_value_at_the_rank(rows, percentile):
    values, frequencies = np.unique(rows, return_counts=True)
    rank = math.ceil(round(percentile * len(rows) / 100, 9))
    assert nearest_rank(values, frequencies, percentile) == sorted(rows)[rank - 1]


@given(st.lists(st.integers(0, 20), min_size=1, max_size=60), st.sampled_from([90, 95, 99]))
def test_at_most_the_rest_lies_above(rows, percentile):
    values, frequencies = np.unique(rows, return_counts=True)
    cap = nearest_rank(values, frequencies, percentile)
    assert sum(row > cap for row in rows) <= (100 - percentile) / 100 * len(rows) + 1e-9


def test_decimal_percentiles_are_exact():
    # 0.07 * 100 is 7.000000000000001 in binary; the 7th of 100 rows is meant.
    values = np.arange(1, 101)
    assert nearest_rank(values, np.ones(100, dtype=int), 7.0) == 7
    assert nearest_rank(values, np.ones(100, dtype=int), 0.07) == 1


def test_pay_delay_gets_the_label_162_plus_from_its_99th_percentile_on(store):
    delays = [*range(1, 163), 200, *[None] * 50]
    claims = store.table("claims", "pay_delay INTEGER", [(delay,) for delay in delays])
    found = top_code(claims, ["pay_delay"], 99)
    assert found == TopCode(162)
    assert found.label == "162+"
    rows = store.rows(f"SELECT pay_delay, {found.number('pay_delay')}, {found.text('pay_delay')} FROM {claims.sql}")
    coded = {delay: (number, text) for delay, number, text in rows}
    assert coded[161] == (161, "161")
    assert coded[162] == coded[200] == (162, "162+")
    assert coded[None] == (None, None)


def test_columns_of_one_scale_share_a_code(store):
    members = store.table("members", "y2 INTEGER, y3 INTEGER", [(i, None) for i in range(50)] + [(None, 99)] * 50)
    assert top_code(members, ["y2", "y3"], 50) == TopCode(49)


def test_a_percentile_of_0_leaves_none_apart_from_any(store):
    members = store.table("members", "days INTEGER", [(0,)] * 995 + [(3,)] * 5)
    assert top_code(members, ["days"], 99).label == "1+"


def test_nothing_to_code_when_all_values_are_missing(store):
    assert top_code(store.table("members", "days INTEGER", [(None,)]), ["days"]) is None


@settings(deadline=None, max_examples=examples.of(20))
@given(st.lists(st.one_of(st.none(), st.integers(0, 30)), min_size=1, max_size=30))
def test_number_and_text_agree(values):
    code = TopCode(10)
    with small_store() as store:
        table = store.table("t", "v INTEGER", [(value,) for value in values])
        rows = store.rows(f"SELECT {code.number('v')}, {code.text('v')} FROM {table.sql}")
    assert all(text == (None if number is None else "10+" if number == 10 else str(number)) for number, text in rows)
