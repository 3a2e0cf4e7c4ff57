"""The sums of tables by dimensions: all that hold, and no others."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.errors import CountsError
from deid_assets.methods.counts.audit import ranges
from deid_assets.methods.counts.dimensions import (
    CrossTable,
    Dimension,
    dimension_of,
    single_cells,
    stated_cells,
    totals_of,
    unstated_totals,
    whole_groups,
)
from deid_assets.methods.counts.tables import CountTables, sum_matrix
from deid_assets_tests import examples

THRESHOLD = 4


def flat(name: str, codes: str) -> Dimension:
    return dimension_of(name, codes, "All")


@st.composite
def trees(draw, name: str, singles: int = 3) -> Dimension:
    """Up to three single codes below up to three groups, some with one child."""
    codes = [f"{name}{i}" for i in range(draw(st.integers(1, singles)))]
    groups = [f"g{i}" for i in range(draw(st.integers(0, 3)))]
    hierarchy = {code: draw(st.sampled_from([*groups, "All"])) for code in codes}
    hierarchy |= {group: draw(st.sampled_from([*groups[:i], "All"])) for i, group in enumerate(groups)}
    return dimension_of(name, codes, "All", hierarchy)


def shown_by(draw, dimensions: tuple[Dimension, ...]) -> CrossTable:
    """All single cells, and some of the others."""
    singles = list(single_cells(dimensions))
    others = [key for key in itertools.product(*((one.total, *one.parents) for one in dimensions)) if key not in set(singles)]
    kept = draw(st.lists(st.booleans(), min_size=len(others), max_size=len(others)))
    return CrossTable(dimensions, (*singles, *itertools.compress(others, kept)), "p")


@st.composite
def tables(draw) -> list[CrossTable]:
    """One table, or two that share a dimension."""
    a, b, c = (draw(trees(name)) for name in "abc")
    first = shown_by(draw, draw(st.sampled_from([(a,), (a, b)])))
    return [first, *([shown_by(draw, draw(st.sampled_from([(b,), (b, c), (c,)])))] if draw(st.booleans()) else [])]


def everything_known(given: list[CrossTable]) -> tuple[list, np.ndarray]:
    """Every cell of the dimensions, shown or not, and a basis of the counts that they may have together."""
    names = list(dict.fromkeys(table.name(key) for table in given for key in table.all_keys()))
    at, rows = {name: i for i, name in enumerate(names)}, []
    for table in given:
        for key in table.all_keys():
            for axis, dimension in enumerate(table.dimensions):
                if key[axis] in dimension.children:
                    row = np.zeros(len(names))
                    row[at[table.name(key)]] = -1
                    for child in dimension.children[key[axis]]:
                        row[at[table.name((*key[:axis], child, *key[axis + 1 :]))]] += 1
                    rows.append(row)
    _, sizes, right = np.linalg.svd(np.array(rows).reshape(-1, len(names)))
    return names, right[(sizes > 1e-9).sum() :].T


@given(tables())
@settings(max_examples=examples.of(80), deadline=None)
def test_the_stated_sums_say_all_that_holds_between_shown_cells_and_nothing_else(given):
    names, basis = everything_known(given)
    found = stated_cells(given)
    places = [names.index(name) for name in found.names]
    matrix = sum_matrix(found.names, found.sums).toarray()
    assert np.abs(matrix @ basis[places]).max(initial=0) < 1e-9  # each sum holds
    _, sizes, right = np.linalg.svd(matrix.astype(float)) if len(matrix) else (None, np.array([]), np.eye(len(places)))
    allowed = right[(sizes > 1e-9).sum() :].T[found.is_shown]
    possible = basis[np.array(places)[found.is_shown]]
    assert np.linalg.matrix_rank(allowed) == np.linalg.matrix_rank(possible)
    assert {name for name, shown in zip(found.names, found.is_shown, strict=True) if shown} == {
        table.name(key) for table in given for key in table.keys
    }


@given(st.data())
@settings(max_examples=examples.of(25), deadline=None)
def test_what_can_be_computed_is_what_all_fillings_have_in_common(data):
    """Small counts are masked, some others are left out; all tables of people are tried that look the same."""
    table = shown_by(data.draw, (data.draw(trees("a", 2)), data.draw(trees("b", 2))))
    singles = list(single_cells(table.dimensions))
    numbers = st.lists(st.integers(0, THRESHOLD + 1), min_size=len(singles), max_size=len(singles))
    truth = totals_of(table.dimensions, dict(zip(singles, data.draw(numbers), strict=True)))
    counts = np.array([truth[key] for key in table.keys])
    is_small = (counts > 0) & (counts < THRESHOLD)
    fillings = np.array(list(itertools.product(range(THRESHOLD + 2), repeat=len(singles))))
    weights = np.array(
        [
            [
                all(one in d.below[code] for one, code, d in zip(single, key, table.dimensions, strict=True))
                for single in singles
            ]
            for key in table.keys
        ]
    )
    seen = fillings @ weights.T.astype(int)
    fits = np.where(is_small, (seen > 0) & (seen < THRESHOLD), seen == counts).all(axis=1)
    stated = stated_cells([table])
    low, high = np.where(is_small, 1.0, counts), np.where(is_small, THRESHOLD - 1.0, counts)
    found = ranges(sum_matrix(stated.names, stated.sums), low, high)
    assert found.low.tolist() == seen[fits].min(axis=0).tolist()
    assert found.high.tolist() == seen[fits].max(axis=0).tolist()


@given(st.data())
@settings(max_examples=examples.of(30), deadline=None)
def test_totals_are_those_of_the_single_cells(data):
    dimensions = (data.draw(trees("a")), data.draw(trees("b")))
    counts = {key: i + 1 for i, key in enumerate(single_cells(dimensions))}
    found = totals_of(dimensions, counts)
    table = CrossTable(dimensions, tuple(found), "p")
    stated = stated_cells([table])
    CountTables(stated.names, np.array([found[key] for key in table.keys]), stated.sums)  # refuses sums that do not hold
    assert found["All", "All"] == sum(counts.values())


def test_cells_of_two_tables_that_count_the_same_people_are_one():
    by_sex, by_age = flat("sex", "FM"), flat("age", "oy")
    one = CrossTable((by_sex,), (("F",), ("M",), ("All",)), "p")
    both = CrossTable((by_age, by_sex), tuple(itertools.product("oy", "FM")), "p")
    found = stated_cells([one, both])
    assert len(found.names) == 3 + 4 and found.is_shown.all()
    assert both.name(("All", "F")) == one.name(("F",))
    assert {(len(part.parts), part.total.row) for part in found.sums} >= {(2, "sex=F"), (2, "sex=M"), (2, "all")}


def test_a_table_beside_itself_needs_no_further_totals():
    one = CrossTable((flat("age", "oy"), flat("sex", "FM")), tuple(itertools.product("oy", "FM")), "p")
    other = CrossTable(one.dimensions[::-1], tuple(key[::-1] for key in one.keys), "p")
    assert stated_cells([one, other]).sums == () and len(stated_cells([one, other]).names) == 4


def test_a_level_with_one_child_is_a_sum_with_one_part():
    tree = dimension_of("code", ["C50", "C"], "All", {"C50": "C"})
    (only,) = stated_cells([CrossTable((tree,), (("C50",), ("C",)), "p")]).sums
    assert (only.total.row, [part.row for part in only.parts]) == ("code=C", ["code=C50"])


def test_signs_in_codes_do_not_make_two_cells_one():
    names = [CrossTable((dimension_of("a", [code], "All"),), ((code,),), "p").name((code,)) for code in ("1", "1; b=2")]
    both = CrossTable((dimension_of("a", ["1"], "All"), dimension_of("b", ["2"], "All")), (("1", "2"),), "p")
    assert len({*names, both.name(("1", "2"))}) == 3


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_a_total_that_is_not_declared_is_found_wherever_it_stands_next_to_its_parts(order):
    counts = {"x": [3, 5, 7, 1], "y": [2, 8, 1, 0], "z": [4, 0, 2, 9]}
    counts["sum"] = np.sum(list(counts.values()), axis=0).tolist()
    codes = [list(counts)[i] for i in order]
    dimensions = (flat("a", codes), flat("b", "1234"))
    found = unstated_totals(dimensions, {(code, "1234"[i]): counts[code][i] for code in codes for i in range(4)})
    assert [one[:2] for one in found] == ([("a", "sum")] if codes.index("sum") in (0, 3) else [])


def test_lists_in_which_numbers_add_up_by_chance_have_no_unstated_total():
    assert unstated_totals((flat("a", "xyz"),), {("x",): 2, ("y",): 3, ("z",): 5}) == []


def test_all_or_none_of_a_group_is_found_in_shown_counts_only():
    dimensions = (flat("row", "rs"), flat("column", "FM"))
    cross = CrossTable(dimensions, tuple(totals_of(dimensions, dict.fromkeys(single_cells(dimensions), 0))), "p")
    counts = totals_of(dimensions, {("r", "F"): 20, ("r", "M"): 0, ("s", "F"): 30, ("s", "M"): 40})
    shown = {cross.name(key): count for key, count in counts.items()}
    found = {(part.row, total.row) for part, total in whole_groups([cross], shown)}
    assert found == {
        ("column=F; row=r", "row=r"),
        ("column=M; row=r", "row=r"),
        *((f"column=M; row={row}", "column=M") for row in "rs"),
    }
    for name in (cross.name(("r", "All")), cross.name(("All", "M"))):
        del shown[name]
    assert whole_groups([cross], shown) == []


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Dimension("a", "All", {"x": "y", "y": "x"}), "belongs to itself"),
        (lambda: Dimension("a", "All", {"x": "y"}), "belongs to no other"),
        (lambda: dimension_of("a", ["x", "q"], "All", {"x": "g"}), "1 code is not in its hierarchy"),
        (lambda: dimension_of("a", ["x"], "All", {"x": "y", "y": "x"}), "belongs to itself"),
        (lambda: CrossTable((flat("a", "xy"),), (("x",),), "p"), "1 cell of single codes is missing"),
        (lambda: CrossTable((flat("a", "x"),), (("x",), ("x",)), "p"), "a cell twice"),
        (lambda: CrossTable((flat("a", "x"),), (("x",), ("z",)), "p"), "do not have"),
        (lambda: CrossTable((flat("a", "x"), flat("a", "x")), (("x", "x"),), "p"), "different names"),
        (lambda: list(single_cells([flat("a", map(str, range(1000)))] * 3)), "use coarser codes"),
    ],
)
def test_what_is_no_table_is_refused(make, said):
    with pytest.raises(CountsError, match=said):
        make()
