"""Attack 3's classes against brute force: people compared history by history, for every choice of columns."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.attacks.identified_file import (
    ALL_YEARS,
    COLUMNS,
    VISIT_LEVEL,
    class_numbers,
    file_class_sizes,
    key_columns,
    match_table,
    of_period,
    subsets,
    visit_histories,
)
from deid_assets.methods.attacks.marketer_risk import matched_share, missing_records
from deid_assets.store.tables import Query
from deid_assets_tests import examples
from deid_assets_tests.methods.small_tables import SmallStore, small_store

VISITS = (
    "released BOOLEAN, person BIGINT, weight BIGINT, year INTEGER, age VARCHAR, sex VARCHAR, length_of_stay VARCHAR,"
    " condition_group VARCHAR, procedure_group VARCHAR"
)


@st.composite
def visit_rows(draw):
    """Visits of a few people on both sides, with blanks; age and sex are the same in all visits of a person."""
    rows = []
    for released in (False, True):
        for person in range(draw(st.integers(1, 5))):
            own = (draw(st.sampled_from(["0-9", "80+", None])), draw(st.sampled_from(["F", "M"])))
            for _ in range(draw(st.integers(1, 3))):
                values = (["1 day", None], ["AMI", "CHF", None], ["EM", "RAD"])
                told = [draw(st.sampled_from(one)) for one in values]
                rows.append((released, person, 1, draw(st.sampled_from([1, 2, None])), *own, *told))
    return rows


def brute_force(rows, subset, period) -> tuple[list[int], list[int]]:
    """(released, people) of each class."""
    sizes = {True: Counter(), False: Counter()}
    for released, person in {(row[0], row[1]) for row in rows}:
        own = [row for row in rows if row[:2] == (released, person) and period in (ALL_YEARS, row[3])]
        if not own:
            continue
        told = dict(zip(("age", "sex"), own[0][4:6], strict=True))
        key = [told[column] for column in ("age", "sex") if column in subset]
        columns = [6 + VISIT_LEVEL.index(column) for column in VISIT_LEVEL if column in subset]
        if columns:
            key.append(tuple(sorted(tuple(str(row[place]) for place in columns) for row in own)))
        if "visits" in subset:
            key.append(len(own))
        sizes[released][tuple(key)] += 1
    classes = sorted({*sizes[True], *sizes[False]}, key=str)
    return [sizes[True][c] for c in classes], [sizes[False][c] for c in classes]


@settings(max_examples=examples.of(12), deadline=None)
@given(visit_rows())
def test_every_choice_and_period_agrees_with_brute_force(rows):
    with small_store() as store:
        visits = store.table("visits", VISITS, rows)
        histories = store.write("histories", visit_histories(visits, COLUMNS))
        found = {(row[0], tuple(row[1].split(","))): row[2:] for row in store.rows(match_table(histories, COLUMNS))}
        for period in (ALL_YEARS, 1, 2):
            for subset in subsets(COLUMNS):
                released, people = brute_force(rows, subset, period)
                if not released:
                    assert (period, key_columns(subset)) not in found
                    continue
                expected, missing, n, persons, classes = found[period, key_columns(subset)]
                assert (n, persons) == (sum(released), sum(people))
                assert classes == sum(size > 0 for size in people)
                assert missing == missing_records(released, people)
                if n:
                    assert expected / n == pytest.approx(matched_share(released, people))


@settings(max_examples=4, deadline=None)
@given(visit_rows())
def test_more_columns_never_match_less(rows):
    with small_store() as store:
        histories = store.write("histories", visit_histories(store.table("visits", VISITS, rows), COLUMNS))
        found = {(row[0], tuple(row[1].split(","))): row[2] for row in store.rows(match_table(histories, COLUMNS))}
        for subset in subsets(COLUMNS):
            for more in subsets(COLUMNS):
                if set(subset) <= set(more):
                    assert found[ALL_YEARS, key_columns(subset)] <= found[ALL_YEARS, key_columns(more)] + 1e-9


@pytest.fixture
def store(tmp_path) -> SmallStore:
    return SmallStore(tmp_path)


def visit(released, person, year=1, age="80+", sex="F", stay="1 day", condition="AMI", procedure="EM", weight=1):
    return (released, person, weight, year, age, sex, stay, condition, procedure)


def sizes(store, rows, subset, period=ALL_YEARS, columns=COLUMNS) -> list[tuple[int, int]]:
    histories = store.write("histories", visit_histories(store.table("visits", VISITS, rows), columns))
    return sorted(store.rows(file_class_sizes(of_period(histories, period), key_columns(subset))))


def test_all_visits_are_matched_with_how_often_each_occurs(store):
    """Two visits of one kind are not one visit of it."""
    rows = [visit(False, 1), visit(False, 1), visit(False, 2), visit(True, 1), visit(True, 1)]
    assert sizes(store, rows, ("condition_group",)) == [(1, 0), (1, 1)]


def test_values_of_one_visit_stay_together(store):
    rows = [
        visit(False, 1, stay="1 day", condition="AMI"), visit(False, 1, stay="2 days", condition="CHF"),
        visit(True, 1, stay="2 days", condition="AMI"), visit(True, 1, stay="1 day", condition="CHF"),
    ]  # fmt: skip
    assert sizes(store, rows, ("condition_group", "length_of_stay")) == [(0, 1), (1, 0)]
    assert sizes(store, rows, ("condition_group",)) == [(1, 1)]


def test_the_order_of_visits_does_not_count_and_their_year_does_only_within_it(store):
    rows = [
        visit(False, 1, 1, condition="AMI"), visit(False, 1, 2, condition="CHF"),
        visit(True, 1, 1, condition="CHF"), visit(True, 1, 2, condition="AMI"),
    ]  # fmt: skip
    assert sizes(store, rows, ("condition_group",)) == [(1, 1)]
    assert sizes(store, rows, ("condition_group",), period=1) == [(0, 1), (1, 0)]


def test_visits_without_a_year_make_nobody_a_second_person(store):
    """Their year is not told where days since the first service are released; over all years they are visits like others."""
    rows = [
        visit(False, 1, None), visit(False, 1, 2, condition="CHF"), visit(False, 2), visit(True, 2),
    ]  # fmt: skip
    assert sizes(store, rows, ("condition_group",)) == [(1, 0), (1, 1)]


def test_a_row_of_the_file_may_stand_for_many(store):
    assert sizes(store, [visit(False, 1, weight=500), visit(True, 1)], COLUMNS) == [(500, 1)]


def test_columns_that_are_not_known_are_not_compared(store):
    rows = [visit(False, 1, condition="AMI"), visit(True, 1, condition="CHF")]
    columns = ("age", "visits", "length_of_stay")
    assert sizes(store, rows, columns, columns=columns) == [(1, 1)]


def test_all_choices_of_six_columns():
    assert len(subsets(COLUMNS)) == 63 and len({*subsets(COLUMNS)}) == 63
    assert sum(len(subset) == 4 for subset in subsets(COLUMNS)) == 15


def test_a_record_and_its_person_have_one_class_exactly_if_they_are_alike(store):
    rows = [visit(False, 1), visit(False, 2, sex="M"), visit(True, 1), visit(True, 2)]
    histories = store.write("histories", visit_histories(store.table("visits", VISITS, rows), COLUMNS))
    found = store.rows(class_numbers(of_period(histories, ALL_YEARS), key_columns(COLUMNS)))
    assert [row[:2] for row in found] == [(False, 1), (False, 2), (True, 1), (True, 2)]
    one, two, own, other = (row[2] for row in found)
    assert one == own == other != two


@pytest.mark.matrix
def test_more_people_agree_with_brute_force(store):
    random = np.random.default_rng(5)
    rows = [
        visit(bool(side), int(person), 1 + int(person) % 3, sex="FM"[person % 2], condition=f"G{random.integers(4)}")
        for side in (0, 1) for person in random.integers(0, 60, 150)
    ]  # fmt: skip
    for subset in (("sex", "visits"), ("sex", "condition_group"), COLUMNS):
        released, people = brute_force(rows, subset, ALL_YEARS)
        assert sizes(store, rows, subset) == sorted(zip(people, released, strict=True))


def test_the_last_digit_does_not_depend_on_the_order_of_rows(store):
    generator = np.random.default_rng(4)
    people = [
        (released, person, 1, 1, str(generator.integers(90)), None, "1 day", str(generator.integers(9)), "EM")
        for released in (False, True)
        for person in range(3_000 if not released else 900)
    ]
    found = set()
    for _ in range(6):
        rows = [people[place] for place in generator.permutation(len(people))]
        columns = ", ".join(f"unnest(?::{one.split()[1]}[]) AS {one.split()[0]}" for one in VISITS.split(", "))
        visits = store.write("visits", Query(f"SELECT {columns}", tuple(map(list, zip(*rows, strict=True)))))
        histories = store.write("histories", visit_histories(visits, COLUMNS))
        found.add(tuple(store.rows(match_table(histories, COLUMNS))))
    assert len(found) == 1
