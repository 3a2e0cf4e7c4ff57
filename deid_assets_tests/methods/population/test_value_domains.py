"""Values numbered once: labels, codes, the open top class, and missing values as a class or as part of one."""

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.methods.population.encoding import COLUMNS, distinct_values, labels_query, level_maps, value_domain
from deid_assets.methods.population.longitudinal_data import Domain
from deid_assets.store.tables import Table, write_table


def domain(values, levels, with_missing=True, top_code=None, missing_labels=()) -> pd.DataFrame:
    """A domain whose levels are given as labels; codes follow the order of first appearance."""
    labels = [np.array(level, dtype=object) for level in levels]
    codes = [pd.factorize(level)[0] for level in labels]
    return value_domain("q", values, labels, codes, with_missing, top_code, missing_labels)


def label_of(frame: pd.DataFrame, value: str, level: int = 0):
    label = frame.loc[(frame["value"] == value) & (frame["level"] == level), "label"].item()
    return None if label != label else label


def code_of(frame: pd.DataFrame, value: str, level: int = 0) -> int:
    return frame.loc[(frame["value"] == value) & (frame["level"] == level), "level_code"].item()


def test_every_value_has_a_row_at_every_level():
    frame = domain([3, 5, 9], [["3", "5", "9"], ["3-5", "3-5", "9+"]])
    assert list(frame.columns) == list(COLUMNS)
    assert len(frame) == 8
    assert level_maps(frame, "q")[0].tolist() == [0, 1, 2, 3]
    assert level_maps(frame, "q")[1].tolist() == [0, 0, 1, 2]


def test_claim_level_values_have_no_class_for_missing_ones():
    frame = domain([3, 5], [["3", "5"]], with_missing=False)
    assert frame["value"].tolist() == ["3", "5"]


def test_a_missing_value_is_the_last_class_and_released_as_a_blank():
    frame = domain([3, 5], [["3", "5"], ["any", "any"]])
    assert [code_of(frame, "", level) for level in (0, 1)] == [2, 1]
    assert [label_of(frame, "", level) for level in (0, 1)] == [None, None]


def test_where_every_value_is_missing_there_is_one_class():
    frame = domain([], [[], []])
    assert [maps.tolist() for maps in level_maps(frame, "q")] == [[0], [0]]


def test_a_claim_level_column_without_any_value_still_has_a_domain():
    frame = domain([], [[], []], with_missing=False)
    assert Domain(level_maps(frame, "q")).height == 1


class TestTopCode:
    def test_the_class_of_the_top_code_is_open_upwards(self):
        values = [0, 7, 8, 9, 11]
        frame = domain(values, [["0", "7", "8", "9", "11"], ["0", "7", "8-14", "8-14", "8-14"]], top_code=11)
        assert [label_of(frame, str(v), 0) for v in values] == ["0", "7", "8", "9", "11"]
        assert [label_of(frame, str(v), 1) for v in values] == ["0", "7", "8+", "8+", "8+"]

    def test_a_class_that_is_open_already_keeps_its_label(self):
        frame = domain([0, 15], [["0", "15+"], ["0 or not enrolled", "1+"]], top_code=15)
        assert [label_of(frame, "15", level) for level in (0, 1)] == ["15+", "1+"]

    def test_a_level_that_counts_is_one_of_numbers_as_in_the_heritage_files(self):
        """There 15 days in hospital stand for 15 and more; '15+' would make the column one of texts."""
        frame = domain([0, 1, 15], [["0", "1", "15"], ["0", "1", "15+"], ["0", "1+", "1+"]], top_code=15)
        assert [label_of(frame, "15", level) for level in (0, 1, 2)] == ["15", "15", "1+"]
        assert label_of(domain([0, 1, 15], [["0", "1", "15+"]], top_code=None), "15") == "15+", "other columns keep the sign"

    def test_labels_of_other_classes_are_left_alone(self):
        frame = domain([1, 8, 11], [["1-7", "8-14", "8-14"]], top_code=11)
        assert label_of(frame, "1") == "1-7"

    def test_a_top_code_that_does_not_occur_opens_nothing(self):
        """Values are cut at the top code, so without it nothing was cut."""
        assert label_of(domain([1, 2], [["1", "2"]], top_code=9), "2") == "2"

    def test_opening_changes_no_class(self):
        levels = [["0", "8", "11"], ["0", "8-14", "8-14"]]
        one, other = domain([0, 8, 11], levels), domain([0, 8, 11], levels, top_code=11)
        assert one["level_code"].tolist() == other["level_code"].tolist()


class TestMissingJoins:
    def test_missing_values_take_label_and_class_of_the_class_that_they_join(self):
        levels = [["0", "1"], ["0 or not enrolled", "1+"]]
        frame = domain([0, 4], levels, missing_labels=[None, "0 or not enrolled"])
        assert (label_of(frame, "", 0), code_of(frame, "", 0)) == (None, 2)
        assert (label_of(frame, "", 1), code_of(frame, "", 1)) == ("0 or not enrolled", code_of(frame, "0", 1))

    def test_where_nobody_has_the_value_they_stand_alone_under_its_label(self):
        frame = domain([4], [["1+"]], missing_labels=["0 or not enrolled"])
        assert (label_of(frame, ""), code_of(frame, "")) == ("0 or not enrolled", 1)

    def test_they_join_a_class_that_the_top_code_opens(self):
        frame = domain([0, 8, 11], [["0", "8-14", "8-14"]], top_code=11, missing_labels=["8-14"])
        assert (label_of(frame, ""), code_of(frame, "")) == ("8+", code_of(frame, "11"))


def test_values_that_are_one_at_the_finest_level_are_one_to_the_kernel():
    frame = domain([0, 1, 2], [["1 day", "1 day", "2 days"], ["any", "any", "any"]], with_missing=False)
    assert frame["base_code"].tolist() == [0, 1, 2] * 2
    assert [codes.tolist() for codes in level_maps(frame, "q")] == [[0, 1], [0, 0]]
    Domain(level_maps(frame, "q"))


@given(
    st.lists(st.integers(0, 40), unique=True, min_size=1, max_size=12).map(sorted),
    st.integers(1, 9),
    st.booleans(),
    st.booleans(),
)
def test_labels_and_codes_say_the_same(values, width, with_missing, joins):
    """What the kernel counts and what the release shows are one partition of the values."""
    fine, coarse = [str(v) for v in values], [f"from {v // width * width}" for v in values]
    joined = coarse[0] if joins else None
    frame = domain(values, [fine, coarse], with_missing, top_code=max(values), missing_labels=[None, joined])
    for _, rows in frame.groupby("level"):
        labels = ["" if label != label else label for label in rows["label"]]
        pairs = set(zip(labels, rows["level_code"], strict=True))
        assert len(pairs) == len(set(labels)) == rows["level_code"].nunique()
    Domain(level_maps(frame, "q"))


class TestInTheStore:
    def test_distinct_values_ascend_and_missing_ones_are_left_out(self, store):
        table = store.table("t", "a INTEGER, b VARCHAR", [(10, "x"), (9, None), (None, None), (10, "B")])
        assert distinct_values(table, "a") == [9, 10]
        assert distinct_values(table, "b") == ["B", "x"]

    def test_labels_come_in_the_type_of_the_column_and_missing_as_null(self, store):
        frame = domain([9, 10], [["9", "10"], ["9-10", "9-10"]])
        table = Table(store.file, "tests", "domains")
        write_table(table, frame)
        found = store.rows(labels_query(table, "q", 1, "INTEGER") + " ORDER BY base_code")
        assert found == [(9, "9-10", 0, 0), (10, "9-10", 1, 0), (None, None, 2, 1)]

    def test_a_domain_of_missing_values_only_keeps_its_types(self, store):
        table = Table(store.file, "tests", "domains")
        write_table(table, domain([], [[]]))
        kinds = table.columns()
        assert kinds["label"] == kinds["value"] == kinds["quasi_identifier"] == "VARCHAR"
        assert kinds["base_code"] == kinds["level"] == kinds["level_code"] == "INTEGER"
