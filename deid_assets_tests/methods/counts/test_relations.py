"""Sums that hold although nobody stated them (methods#forgotten-sums)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.counts.relations import forgotten_sums, unsummed
from deid_assets.methods.counts.tables import CellName, CountTables, Sum
from deid_assets_tests import examples
from deid_assets_tests.methods.counts.made_tables import attrition, characteristics, group, two_way


def without_sums(tables: CountTables, left: int = 0) -> CountTables:
    return CountTables(tables.cells, tables.counts, tables.sums[:left], tables.contribution)


@settings(max_examples=examples.of(30), deadline=None)
@given(st.lists(st.lists(st.integers(1, 90), min_size=3, max_size=3), min_size=2, max_size=4), st.data())
def test_every_margin_of_a_two_way_table_is_found_unless_the_stated_ones_imply_it(inner, data):
    tables = two_way(np.array(inner))
    assert not [one for one in forgotten_sums(tables) if {one.total, *one.parts} & {tables.cells[-1]}]
    missing = data.draw(st.integers(0, len(inner) + 2))  # a row or a column of people
    stated = tuple(one for i, one in enumerate(tables.sums) if i != missing)
    left = CountTables(tables.cells, tables.counts, stated)
    # Of all margins but one, the others imply it: rows and columns have the same grand total.
    assert not [one for one in forgotten_sums(left) if one.total == tables.sums[missing].total]
    found = forgotten_sums(without_sums(tables))
    assert {one.total for one in found} >= {one.total for one in tables.sums[: len(inner)]}


@pytest.mark.parametrize("stated", [attrition(), characteristics(1)])
def test_tables_that_state_their_sums_have_none_that_is_forgotten(stated):
    (cells, sums), counts = stated
    assert forgotten_sums(CountTables(cells, np.array(counts), sums)) == ()


def test_a_total_that_no_sum_names_and_a_cell_that_is_in_two_tables_are_found():
    names = tuple(CellName("sex", "all", name) for name in ("total", "F", "M", "U"))
    alone = CountTables(names, np.array([100, 50, 1, 49]))
    (found,) = forgotten_sums(alone)
    assert (found.total, set(found.parts)) == (names[0], set(names[1:]))
    again = CellName("age", "all", "total")
    both = CountTables((*names, again), np.array([100, 50, 1, 49, 100]), (Sum("sex", names[0], names[1:]),))
    (found,) = forgotten_sums(both)
    assert {found.total, *found.parts} == {names[0], again}
    assert forgotten_sums(group([40, 60])) == ()


def test_hidden_cells_in_no_sum_are_named():
    tables = group([40, 5, 60])
    other = CellName("other", "all", "people")
    hidden = np.array([False, False, True, False, True])
    assert unsummed((*tables.cells, other), hidden, tables.sums).tolist() == [4]
