"""Homogeneity, l-diversity and t-closeness, against brute force over members."""

import math
from collections import Counter
from itertools import groupby

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.disclosure import attribute_disclosure
from deid_assets.methods.disclosure.attribute_disclosure import (
    class_value_counts,
    held_counts,
    leading_number,
    sets_of_values,
    several_valued,
    single_valued,
)
from deid_assets_tests import examples
from deid_assets_tests.methods.small_tables import SmallStore, small_store

members = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=40)
"""(class, value) of each member."""


def counted(people):
    pairs = Counter(people)
    numbers = {name: number for number, name in enumerate(sorted({group for group, _ in people}))}
    return tuple(zip(*((numbers[group], value, count) for (group, value), count in sorted(pairs.items())), strict=True))


def shares(values, all_values) -> list[float]:
    return [values.count(value) / len(values) for value in all_values]


def earth_mover(p, q, distance) -> float:
    """By linear programming, which knows nothing of closed forms."""
    from scipy.optimize import linprog

    n = len(p)
    cost = [distance(i, j) for i in range(n) for j in range(n)]
    rows = [[float(k // n == i) for k in range(n * n)] for i in range(n)]
    columns = [[float(k % n == j) for k in range(n * n)] for j in range(n)]
    return linprog(cost, A_eq=rows + columns, b_eq=[*p, *q], bounds=(0, None)).fun


class TestSingleValued:
    @given(members, st.booleans())
    @settings(max_examples=examples.of(40), deadline=None)
    def test_it_agrees_with_brute_force(self, people, ordered):
        found = single_valued(*counted(people), ordered=ordered)
        classes = {name: [v for g, v in people if g == name] for name in {g for g, _ in people}}
        everything = range(max(v for _, v in people) + 1)
        whole = shares([v for _, v in people], everything)
        steps = max(len(everything) - 1, 1)
        far = {
            name: earth_mover(
                shares(values, everything),
                whole,
                (lambda i, j: abs(i - j) / steps) if ordered else (lambda i, j: float(i != j)),
            )
            for name, values in classes.items()
        }
        entropies = [-sum(p * math.log(p) for p in shares(values, everything) if p > 0) for values in classes.values()]
        if len({value for _, value in people}) == 1:
            assert found.tells_nothing and found.least_entropy is None and found.homogeneous_members == 0
        else:
            assert found.homogeneous_members == sum(len(v) for v in classes.values() if len(set(v)) == 1)
            assert found.least_distinct == min(len(set(v)) for v in classes.values())
            assert found.least_entropy == pytest.approx(math.exp(min(entropies)))
        assert found.greatest_distance == pytest.approx(max(far.values()), abs=1e-9)
        assert found.mean_distance == pytest.approx(sum(far[g] for g, _ in people) / len(people), abs=1e-9)
        assert (found.classes, found.members) == (len(classes), len(people))

    def test_the_salaries_of_li_et_al(self):
        """t-closeness paper, section 5: {3k,4k,5k} and {6k,8k,11k} of nine salaries: .375 and .167."""
        salaries = [3, 4, 5, 6, 11, 8, 7, 9, 10]
        order = sorted(salaries)
        low = single_valued([0] * 3 + [1] * 6, [order.index(s) for s in (3, 4, 5, 6, 7, 8, 9, 10, 11)], [1] * 9, ordered=True)
        assert low.greatest_distance == pytest.approx(0.375)
        middle = [6, 8, 11]
        rest = [s for s in salaries if s not in middle]
        found = single_valued([0] * 3 + [1] * 6, [order.index(s) for s in middle + rest], [1] * 9, ordered=True)
        assert found.greatest_distance == pytest.approx(1 / 6)

    def test_nobody_is_nothing(self):
        found = single_valued([], [], [])
        assert found.homogeneous_share is found.least_distinct is found.greatest_distance is None

    @given(members)
    @settings(max_examples=examples.of(25))
    def test_the_distance_does_not_depend_on_how_much_is_in_memory(self, people):
        whole = single_valued(*counted(people))
        patch = pytest.MonkeyPatch()
        try:
            patch.setattr(attribute_disclosure, "CELLS_AT_ONCE", 1)
            assert single_valued(*counted(people)) == whole
        finally:
            patch.undo()


@st.composite
def people_with_sets(draw):
    groups = draw(st.lists(st.integers(0, 2), min_size=1, max_size=15))
    return [(group, draw(st.sets(st.sampled_from("abc")))) for group in groups]


class TestSeveralValued:
    @given(people_with_sets())
    @settings(max_examples=examples.of(25), deadline=None)
    def test_from_tables_it_agrees_with_brute_force(self, people):
        with small_store() as store:
            table = store.table("people", "who INTEGER, kind VARCHAR", [(n, f"k{g}") for n, (g, _) in enumerate(people)])
            rows = [(n, v) for n, (_, own) in enumerate(people) for v in [*own, *own]] + [(0, None)]
            held = store.table("held", "who INTEGER, value VARCHAR", rows)
            sets = table.query(sets_of_values(table.sql, "who", ["kind"], held.sql, "value"))
            some = table.query(held_counts(table.sql, "who", ["kind"], held.sql, "value"))
        sizes = sets.groupby("class")["members"].sum().to_numpy()
        of_sets = single_valued(sets["class"], pd.factorize(sets["value"])[0], sets["members"])
        found = several_valued(sizes, some["class"], pd.factorize(some["value"])[0], some["members"], of_sets)
        classes = [[own for _, own in of] for _, of in groupby(sorted(people, key=lambda one: one[0]), key=lambda one: one[0])]

        def share(value, sets_held):
            return sum(value in own for own in sets_held) / len(sets_held)

        everybody = [own for _, own in people]
        far = [max((abs(share(v, c) - share(v, everybody)) for v in "abc"), default=0) for c in classes]
        # What everybody has is told by the release, and not by a class.
        in_common = [set.intersection(*map(set, c)) - set.intersection(*map(set, everybody)) for c in classes]
        assert found.homogeneous_members == sum(len(c) for c, own in zip(classes, in_common, strict=True) if own)
        if len({frozenset(own) for own in everybody}) == 1:
            assert found.tells_nothing and found.least_entropy is None
        else:
            of_sets = [Counter(frozenset(own) for own in c) for c in classes]
            spread = [math.prod((n / c.total()) ** (-n / c.total()) for n in c.values()) for c in of_sets]
            known = list(zip(of_sets, spread, in_common, strict=True))
            assert found.least_distinct == min(1 if own else len(c) for c, _, own in known)
            assert found.least_entropy == pytest.approx(min(1 if own else e for _, e, own in known))
        assert found.greatest_distance == pytest.approx(max(far), abs=1e-12)
        assert found.mean_distance == pytest.approx(sum(f * len(c) for f, c in zip(far, classes, strict=True)) / len(people))

    def test_a_class_with_a_value_in_common_has_an_l_of_1_whatever_else_they_have(self):
        """All of the first class hold value 0, and three sets of values are among them."""
        sets = single_valued([0, 0, 0, 1, 1], [0, 1, 2, 1, 2], [10, 10, 10, 5, 5])
        found = several_valued([30, 10], [0, 0, 0, 1, 1], [0, 1, 2, 1, 2], [30, 10, 10, 5, 5], sets)
        assert (sets.least_distinct, found.least_distinct, found.least_entropy, found.homogeneous_members) == (2, 1, 1.0, 30)

    def test_a_value_that_the_whole_release_has_is_told_by_no_class(self):
        sets = single_valued([0, 0, 1, 1], [0, 1, 0, 1], [20, 10, 10, 20])
        found = several_valued([30, 30], [0, 0, 1, 1], [0, 1, 0, 1], [30, 10, 30, 20], sets)
        assert (found.homogeneous_members, found.least_distinct) == (0, 2)
        same = several_valued([30, 30], [0, 1], [0, 0], [30, 30], single_valued([0, 1], [0, 0], [30, 30]))
        assert same.tells_nothing and same.homogeneous_share == 0 and same.greatest_distance == 0

    def test_a_class_in_which_all_lack_a_value_is_not_homogeneous(self):
        found = several_valued([2, 2], [0, 0], [0, 1], [1, 1], single_valued([0, 0, 1], [0, 1, 2], [1, 1, 2]))
        assert found.homogeneous_members == 0 and found.least_distinct == 1


def test_classes_and_values_are_counted_with_what_is_missing(tmp_path):
    store = SmallStore(tmp_path)
    rows = [("F", None, "1+"), ("F", None, None), ("F", None, None), (None, 3, "0")]
    table = store.table("people", "sex VARCHAR, age INTEGER, days VARCHAR", rows)
    found = sorted(store.rows(class_value_counts(table.sql, ["sex", "age"], "days")), key=str)
    assert sorted((value, count) for _, value, count in found if value) == [("0", 1), ("1+", 1)]
    assert [count for _, value, count in found if value is None] == [2]
    assert len({group for group, *_ in found}) == 2
    assert store.rows(class_value_counts(table.sql, [], "days")) and {
        g for g, *_ in store.rows(class_value_counts(table.sql, [], "days"))
    } == {0}


@pytest.mark.parametrize(
    ("label", "number"), [("15+", 15), ("1-2", 1), ("0 or not enrolled", 0), (" 12.5", 12.5), ("-3", -3), ("none", None)]
)
def test_the_number_that_a_label_begins_with(tmp_path, label, number):
    store = SmallStore(tmp_path)
    table = store.table("labels", "value VARCHAR", [(label,)])
    assert store.rows(f"SELECT {leading_number('value')} FROM {table.sql}") == [(number,)]


def test_chance_alone_moves_small_classes():
    """The module says .11 for shares of a half among 20: the spread of a binomial share."""
    assert np.sqrt(0.5 * 0.5 / 20) == pytest.approx(0.11, abs=0.005)
