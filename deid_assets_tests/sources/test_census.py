"""Tables of the Census Bureau: the published layout, what adds up, and what refuses (methods#census-tables)."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from deid_assets.errors import DeliveryError
from deid_assets.sources.census import (
    BANDS,
    CENSUS_2000,
    CENSUS_2000_BANDS,
    CENSUS_2020,
    LAST_AGE,
    RACES,
    SINGLE_YEARS,
    CensusTable,
    read_census,
    tidied,
)
from deid_assets_tests.sources.census_files import write_pct12

TWO = {"A": RACES["A"], "B": RACES["B"]}


def small_people(states=("MN", "WA")):
    """People by state, sex, race and single year, with different numbers everywhere."""
    keys = pd.MultiIndex.from_product([states, ["M", "F"], list(RACES.values()), range(LAST_AGE + 1)])
    frame = keys.to_frame(index=False, name=["state", "sex", "race", "age_from"])
    people = (np.arange(len(frame)) * 7919) % 1000
    return CensusTable(tidied(frame.assign(age_to=frame["age_from"], people=people)))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "synthetic_pct12.csv"
    write_pct12(path, small_people())
    return path


def changed(path, change):
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    change(frame)
    frame.to_csv(path, index=False)
    return path


class TestLayout:
    def test_columns_are_those_of_the_technical_documentation(self):
        """001 total; male 002, ages 003 to 102, 103-105; female 106, ages 107 to 206, 207-209."""
        by_number = {column.number: column for column in SINGLE_YEARS}
        assert sorted(by_number) == list(range(2, 210))
        assert [number for number, column in by_number.items() if column.total] == [2, 106]
        for first, sex in ((3, "M"), (107, "F")):
            assert [by_number[first + age].age_from for age in range(100)] == list(range(100))
            assert {by_number[number].sex for number in range(first, first + 103)} == {sex}
            last = [by_number[first + at] for at in (100, 101, 102)]
            assert [(column.age_from, column.age_to) for column in last] == [(100, 104), (105, 109), (110, 119)]

    def test_p12_has_49_columns(self):
        assert [column.number for column in BANDS] == list(range(2, 50))
        assert [column.number for column in BANDS if column.total] == [2, 26]

    @pytest.mark.parametrize("columns", [SINGLE_YEARS, BANDS])
    def test_ages_of_each_sex_join_without_gap_or_overlap(self, columns):
        for sex in ("M", "F"):
            own = [column for column in columns if column.sex == sex and not column.total]
            assert own[0].age_from == 0 and own[-1].age_to == LAST_AGE
            assert [column.age_from for column in own[1:]] == [column.age_to + 1 for column in own[:-1]]

    def test_names(self):
        assert CENSUS_2000.name("A", 3) == "PCT012A003" and CENSUS_2000.name("", 209) == "PCT012209"
        assert CENSUS_2020.name("G", 107) == "PCT12G_107N" and CENSUS_2000_BANDS.name("A", 49) == "P012A049"


class TestReading:
    @pytest.mark.matrix
    def test_what_was_written_is_read(self, file):
        table = read_census(file)
        people = small_people().people
        assert table.total() == people["people"].sum()
        assert table.people.columns.tolist() == ["state", "sex", "race", "age_from", "age_to", "people"]
        assert table.people["people"].dtype == np.int64 and len(table.people) == 2 * 2 * 7 * 103
        single = table.people[table.people["age_to"] < 100].reset_index(drop=True)
        pd.testing.assert_frame_equal(single, people[people["age_to"] < 100].reset_index(drop=True), check_dtype=False)
        open_ages = table.people[table.people["age_from"] == 110].set_index(["state", "sex", "race"])["people"]
        expected = people[people["age_from"] >= 110].groupby(["state", "sex", "race"])["people"].sum()
        assert open_ages.to_dict() == expected.to_dict()

    def test_a_synthetic_file_says_so(self, file):
        assert read_census(file, races=TWO).warnings == ("synthetic_pct12.csv is synthetic: its numbers are not a census",)
        real = file.rename(file.with_name("pct12.csv"))
        assert read_census(real, races=TWO).warnings == ()

    def test_made_up_numbers_need_a_name_that_says_so(self, tmp_path):
        with pytest.raises(ValueError, match="begins with 'synthetic'"):
            write_pct12(tmp_path / "pct12.csv", small_people())

    def test_files_by_table(self, file, tmp_path):
        frame = pd.read_csv(file, dtype=str)
        files = {}
        for letter in TWO:
            files[letter] = tmp_path / f"pct12{letter}.csv"
            frame[["STATE", *(f"PCT012{letter}{number:03d}" for number in range(1, 210))]].to_csv(files[letter], index=False)
        both = read_census(files, races=TWO).people
        pd.testing.assert_frame_equal(both, read_census(file, races=TWO).people)
        with pytest.raises(DeliveryError, match="no file is named for the tables C, D, E, F, G"):
            read_census(files)

    @pytest.mark.matrix
    def test_everybody_of_the_table_without_races(self, file):
        table = read_census(file, races={"": "all"})
        assert table.total() == read_census(file).total() and set(table.people["race"]) == {"all"}

    def test_newer_spellings_and_rows_of_labels(self, file, tmp_path):
        frame = pd.read_csv(file, dtype=str).rename(columns={"STATE": "GEO_ID"})
        frame.columns = [
            name.replace("PCT012", "PCT12")[:-3] + f"_{name[-3:]}N" if name[:3] == "PCT" else name for name in frame
        ]
        frame["GEO_ID"] = "0400000US" + frame["GEO_ID"]
        labels = pd.DataFrame([[f"Label of {name}" for name in frame]], columns=frame.columns)
        newer = tmp_path / "synthetic_2020.csv"
        pd.concat([labels, frame]).to_csv(newer, index=False)
        pd.testing.assert_frame_equal(read_census(newer, CENSUS_2020, races=TWO).people, read_census(file, races=TWO).people)

    def test_bands(self, tmp_path):
        path = tmp_path / "synthetic_p12.csv"
        single = small_people().people
        write_pct12(path, CensusTable(single), CENSUS_2000_BANDS)
        table = read_census(path, CENSUS_2000_BANDS)
        assert table.total() == single["people"].sum() and len(table.people) == 2 * 2 * 7 * 23
        with pytest.raises(ValueError, match="wider than the columns"):
            write_pct12(path, table, CENSUS_2000)


class TestRefusals:
    @pytest.mark.matrix
    @pytest.mark.parametrize(
        ("column", "row", "value", "message"),
        [
            ("PCT012A050", 0, "", "table A: 1 cells that are empty or not counts"),
            ("PCT012A050", 0, "12.5", "table A: 1 cells that are empty or not counts"),
            ("PCT012B050", 1, "-1", "table B: 1 cells that are empty or not counts"),
            ("PCT012A050", 0, "99999", "PCT012A002: 1 rows whose ages do not add up to it"),
            ("PCT012A150", 0, "99999", "PCT012A106: 1 rows whose ages do not add up to it"),
            ("PCT012A001", 0, "1", "PCT012A001: 1 rows whose sexes do not add up to it"),
            ("STATE", 0, "99", "column STATE: 1 rows whose code is no state"),
            ("STATE", 0, "53", "column STATE: 1 rows of a state that occurs before"),
        ],
    )
    def test_tables_that_do_not_add_up(self, file, column, row, value, message):
        broken = changed(file, lambda frame: frame.__setitem__(column, frame[column].where(frame.index != row, value)))
        with pytest.raises(DeliveryError, match=message) as refused:
            read_census(broken, races=TWO)
        assert str(refused.value).startswith("census: synthetic_pct12.csv: ")

    def test_a_missing_column(self, file):
        broken = changed(file, lambda frame: frame.pop("PCT012A077"))
        with pytest.raises(DeliveryError, match="missing column PCT012A077"):
            read_census(broken, races=TWO)

    def test_a_state_that_only_some_tables_have(self, file, tmp_path):
        other = tmp_path / "synthetic_b.csv"
        write_pct12(other, small_people(("MN",)))
        with pytest.raises(DeliveryError, match="some tables lack the states WA, which others have"):
            read_census({"A": file, "B": other}, races=TWO)

    def test_tables_of_one_file_have_columns_of_their_own(self, file):
        with pytest.raises(DeliveryError, match="2 tables of one file would be read from the same columns"):
            read_census(file, replace(CENSUS_2000, spelling="PCT012A{number:03d}"), races=TWO)

    def test_lines_that_are_no_rows(self, file):
        with file.open("a") as stream:
            stream.write("06,California,1\n")
        with pytest.raises(DeliveryError, match="1 lines: too few fields"):
            read_census(file, races=TWO)

    def test_a_file_that_is_gone(self, tmp_path):
        with pytest.raises(DeliveryError, match=r"census: gone\.csv: missing file"):
            read_census(tmp_path / "gone.csv", replace(CENSUS_2000, columns=BANDS), races=TWO)
