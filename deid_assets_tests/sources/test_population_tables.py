"""Population tables from files: what is used, what is left out and counted, and what refuses."""

import os
import stat
from dataclasses import replace
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from deid_assets.errors import DeliveryError
from deid_assets.policy.rules.population_labels import table_labels
from deid_assets.policy.sections.population import TableColumn
from deid_assets.sources.files import UNSEEN
from deid_assets.sources.population_tables import TableLayout, read_population_table
from deid_assets.store.tables import Table
from deid_assets_tests.policy.policy_texts import example_policy
from deid_assets_tests.public_data import public_data

PUBLIC = example_policy()
SECRET_VALUE = "UNMISTAKABLE"


def labels_of(levels, **mapped):
    columns = {column: TableColumn(name="X", **mapped.get(column, {})) for column in levels}
    return {
        column: lambda values, column=column: table_labels(
            column, columns[column], PUBLIC.hierarchy_of(column), levels[column], values
        )
        for column in levels
    }


@pytest.fixture
def read(tmp_path):
    def made(text_or_path, layout, levels=None, at_most=0.01, **mapped):
        path = text_or_path
        if not isinstance(path, Path):
            path = tmp_path / "people.csv"
            path.write_text(text_or_path)
        target = Table(tmp_path / "store.duckdb", "scratch", "people")
        levels = levels or {"age": 2, "sex": 0}
        report = read_population_table(target, path, replace(layout, unusable_at_most=at_most), labels_of(levels, **mapped))
        return target, report

    return made


LAYOUT = TableLayout({"age": "AGE", "sex": "SEX"}, count="N")


def classes(table: Table) -> dict[tuple[str, str], int]:
    found = table.query(f"SELECT age, sex, sum(weight)::BIGINT AS n FROM {table.sql} GROUP BY ALL ORDER BY ALL")
    return {(row.age, row.sex): row.n for row in found.itertuples()}


def test_counts_add_up_in_the_classes_of_the_release(read):
    table, report = read("AGE,SEX,N\n1,F,10\n9,F,5\n85,M,7\n", LAYOUT)
    assert classes(table) == {("0-9", "F"): 15, ("80+", "M"): 7}
    assert (report.rows_read, report.rows_chosen, report.rows_used) == (3, 3, 3)
    assert stat.S_IMODE(os.stat(table.file).st_mode) == 0o600


def test_without_a_count_each_row_is_a_person(read):
    layout = TableLayout({"age": "AGE", "sex": "SEX"})
    table, _ = read("AGE,SEX\n1,F\n1,F\n", layout)
    assert classes(table) == {("0-9", "F"): 2}
    assert table.query(f"SELECT count(DISTINCT person) AS n FROM {table.sql}")["n"].iloc[0] == 2


def test_rows_of_one_person_have_one_number(read):
    layout = TableLayout({"age": "AGE", "sex": "SEX"}, person="WHO")
    table, _ = read("WHO,AGE,SEX\nb,1,F\na,1,F\nb,2,F\n", layout)
    assert table.query(f"SELECT person FROM {table.sql} ORDER BY row_key")["person"].tolist() == [2, 1, 2]


def test_rows_are_chosen_by_what_they_must_and_must_not_hold(read):
    chosen = {"only": {"STATE": ("Ohio", "Utah")}, "leave_out": {"SEX": ("0",)}}
    layout = TableLayout({"age": "AGE", "sex": "SEX"}, count="N", **chosen)
    text = "STATE,AGE,SEX,N\nOhio,1,F,1\nUtah,1,F,2\nIowa,1,F,4\nOhio,1,0,8\n,1,F,16\n"
    table, report = read(text, layout)
    assert classes(table) == {("0-9", "F"): 3}
    assert (report.rows_read, report.rows_chosen) == (5, 2)


@pytest.mark.parametrize(
    ("row", "column", "rule"),
    [
        ("x,F,1", "AGE", "not a whole number"),
        (f"1,{SECRET_VALUE},1", "SEX", "value outside the hierarchy"),
        ("1,F,-3", "N", "negative count"),
        ("1,F,2.5", "N", "not a whole number"),
        ("1,F,", "N", "not a whole number"),
        ("1,F", "-", "too few fields"),
    ],
)
def test_unusable_rows_are_counted_by_column_and_rule_and_make_classes_smaller(read, row, column, rule):
    good = "1,F,10\n" * 9
    table, report = read(f"AGE,SEX,N\n{good}{row}\n", LAYOUT, at_most=0.2)
    assert classes(table) == {("0-9", "F"): 90}
    assert dict(report.unusable) == {(column, rule): 1}
    assert report.metadata()["rows_unusable"] == [{"column": column, "rule": rule, "rows": 1}]
    with pytest.raises(DeliveryError, match=f"column {column}: 1 row: {rule}") as refused:
        read(f"AGE,SEX,N\n{good}{row}\n", LAYOUT, at_most=0.05)
    assert SECRET_VALUE not in str(refused.value) and refused.value.__cause__ is None


@pytest.mark.parametrize(("age", "at_most"), [("x", 0.5), ("3", 0.01)], ids=["unusable", "wider than a class"])
def test_a_person_with_a_row_that_is_left_out_is_left_out_whole(read, age, at_most):
    """With a part of his visits he would be one of those who have only these, and hide them."""
    layout = TableLayout({"age": "AGE", "sex": "SEX"}, person="WHO")
    table, report = read(f"WHO,AGE,SEX\nb,0,F\na,10,F\nb,{age},F\n", layout, at_most=at_most, age={"width": 8})
    assert table.query(f"SELECT DISTINCT age FROM {table.sql}")["age"].tolist() == ["10-19"]
    assert report.rows_used == 1


def test_a_person_without_a_name_is_unusable(read):
    layout = TableLayout({"sex": "SEX"}, person="WHO")
    _, report = read("WHO,SEX\na,F\n,F\n", layout, {"sex": 0}, at_most=0.5)
    assert dict(report.unusable) == {("WHO", "person missing"): 1}


def test_two_persons_whose_identifiers_look_alike_are_not_counted_as_two(read):
    layout = TableLayout({"sex": "SEX"}, person="WHO")
    _, report = read("WHO,SEX\na,F\na\t,F\n", layout, {"sex": 0}, at_most=0.5)
    assert dict(report.unusable) == {("WHO", UNSEEN): 1}


def test_values_wider_than_the_release_are_no_fault_but_left_out_and_told(read):
    text = "AGE,SEX,N\n79,F,1\n80,F,2\n85,F,4\n"
    table, report = read(text, LAYOUT, {"age": 0, "sex": 0}, age={"top": 85})
    assert classes(table) == {("79", "F"): 1, ("80", "F"): 2}
    assert dict(report.coarser) == {"AGE": 1} and not report.unusable
    assert report.metadata()["rows_coarser_than_the_release"] == [{"column": "AGE", "rows": 1}]


@pytest.mark.parametrize(
    ("text", "layout", "message"),
    [
        ("", LAYOUT, "people.csv: empty file"),
        ("AGE,SEX,N\n", LAYOUT, "people.csv: no rows"),
        ("AGE,N\n1,2\n", LAYOUT, r"people.csv: missing column SEX \(to be read as of_sex\)"),
        ("AGE,SEX,N\n1,F,2\n", TableLayout({"age": "AGE"}, only={"STATE": ("Ohio",)}), "missing column STATE"),
        ("AGE,SEX,N\n1,F,2\n", TableLayout({"age": "AGE"}, only={"SEX": ("M",)}), "no row has the values"),
    ],
)
def test_a_table_that_is_not_what_the_policy_says_is_refused(read, text, layout, message):
    levels = {column: {"age": 2, "sex": 0}[column] for column in layout.columns}
    with pytest.raises(DeliveryError, match=message) as refused:
        read(text, layout, levels)
    assert str(refused.value).startswith("population table: ") and refused.value.__cause__ is None


def test_a_file_that_is_gone_is_refused(read, tmp_path):
    with pytest.raises(DeliveryError, match=r"population table: gone\.csv: missing file"):
        read(tmp_path / "gone.csv", LAYOUT)


@pytest.mark.parametrize("suffix", [".parquet", ".duckdb"])
def test_parquet_and_duckdb_are_read_alike(read, tmp_path, suffix):
    path = tmp_path / f"people{suffix}"
    frame = pd.DataFrame({"AGE": [1, 85], "SEX": ["F", "M"], "N": [3, 4]})
    with duckdb.connect(str(path) if suffix == ".duckdb" else ":memory:") as connection:
        connection.register("frame", frame)
        connection.execute("CREATE TABLE people AS SELECT * FROM frame")
        if suffix == ".parquet":
            connection.execute(f"COPY people TO '{path}' (FORMAT parquet)")
    layout = TableLayout({"age": "AGE", "sex": "SEX"}, table="people" if suffix == ".duckdb" else None, count="N")
    table, _ = read(path, layout)
    assert classes(table) == {("0-9", "F"): 3, ("80+", "M"): 4}


class TestRealCensus:
    """California by age and sex: the population that El Emam et al. 2012 matched with is part of it."""

    SINGLE_YEARS = TableLayout(
        {"age": "AGE", "sex": "SEX"},
        only={"NAME": ("California",)},
        leave_out={"SEX": ("0",), "AGE": ("999",)},
        count="CENSUS2010POP",
    )
    BANDS = TableLayout({"age": "age", "sex": "sex"}, only={"state_fips": ("06",), "year": ("2020",)}, count="pop")
    SEXES = {"sex": {"values": {"1": "M", "2": "F"}}}

    def test_single_years_with_85_and_over_give_18_classes_and_everybody(self, read):
        path = public_data("census", "st-est00int-agesex.csv")
        table, report = read(path, self.SINGLE_YEARS, age={"top": 85}, **self.SEXES)
        found = classes(table)
        assert len(found) == 18 and sum(found.values()) == 37_253_956, "the total that the file itself gives"
        assert (report.rows_chosen, report.rows_used) == (172, 172) and not report.coarser

    def test_ages_by_year_are_finer_than_its_top_code(self, read):
        path = public_data("census", "st-est00int-agesex.csv")
        table, report = read(path, self.SINGLE_YEARS, {"age": 0, "sex": 0}, age={"top": 85}, **self.SEXES)
        assert len(classes(table)) == 170 and dict(report.coarser) == {"AGE": 2}

    def test_totals_left_in_by_mistake_are_refused(self, read):
        path = public_data("census", "st-est00int-agesex.csv")
        layout = TableLayout({"age": "AGE", "sex": "SEX"}, only={"NAME": ("California",)}, count="CENSUS2010POP")
        with pytest.raises(DeliveryError, match="column SEX: 87 rows: value outside the hierarchy"):
            read(path, layout, age={"top": 85}, **self.SEXES)

    def test_five_year_bands_by_race_add_up_in_the_same_classes(self, read):
        path = public_data("census", "pop_singlerace_state.csv")
        sexes = {"sex": {"values": {"male": "M", "female": "F"}}}
        table, report = read(path, self.BANDS, age={"width": 5, "top": 85}, **sexes)
        assert len(classes(table)) == 18 and 39_000_000 < sum(classes(table).values()) < 40_000_000
        assert report.rows_used == report.rows_chosen > 172
