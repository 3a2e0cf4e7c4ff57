"""Tables of a census are read as written, and refused if they do not add up; estimates are spread and crossed."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.errors import DeliveryError
from deid_assets.sources.census import (
    ALL_RACES,
    BANDS,
    CENSUS_2000,
    CENSUS_2000_BANDS,
    CENSUS_2000_OLDEST,
    CENSUS_2020,
    LAST_AGE,
    MODEL,
    NO_OTHER_RACE,
    RACES,
    SINGLE_YEARS,
    CensusTable,
    apportioned,
    open_age_shares,
    read_census,
    read_race_bands,
    read_single_years,
    spread,
    spread_open_ages,
    synthetic_census,
    tidied,
)
from deid_assets_tests import examples
from deid_assets_tests.public_data import public_data
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
            ("PCT012A050", 0, "", "table A: 1 cell empty or no count"),
            ("PCT012A050", 0, "12.5", "table A: 1 cell empty or no count"),
            ("PCT012B050", 1, "-1", "table B: 1 cell empty or no count"),
            ("PCT012A050", 0, "99999", "PCT012A002: 1 row whose ages do not add up to it"),
            ("PCT012A150", 0, "99999", "PCT012A106: 1 row whose ages do not add up to it"),
            ("PCT012A001", 0, "1", "PCT012A001: 1 row whose sexes do not add up to it"),
            ("STATE", 0, "99", "column STATE: 1 row whose code is no state"),
            ("STATE", 0, "53", "column STATE: 1 row of a state that occurs before"),
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
        with pytest.raises(DeliveryError, match="1 line: too few fields"):
            read_census(file, races=TWO)

    def test_a_file_that_is_gone(self, tmp_path):
        with pytest.raises(DeliveryError, match=r"census: gone\.csv: missing file"):
            read_census(tmp_path / "gone.csv", replace(CENSUS_2000, columns=BANDS), races=TWO)


def single_years_csv(path, states=("27", "53"), change=lambda rows: rows):
    rows = []
    for code in ("0", *states):
        for sex in (1, 2):
            own = [(code, sex, age, 100 + 3 * age + sex) for age in range(86)]
            rows += [*own, (code, sex, 999, sum(number for *_, number in own))]
        rows += [(code, 0, age, 203 + 6 * age) for age in range(86)]
        rows += [(code, 0, 999, sum(203 + 6 * age for age in range(86)))]
    frame = change(pd.DataFrame(rows, columns=["STATE", "SEX", "AGE", "N"]))
    frame.to_csv(path, index=False)
    return path


def race_bands_csv(path, states=("27", "53"), change=lambda rows: rows):
    races = ["american_indian_only", "asian_only", "black_only", "multiracial", "nhopi_only", "white_only"]
    rows = [
        (code, 2020, float(age), sex, race, origin, 10 + at)
        for code in states
        for age in range(0, 90, 5)
        for sex in ("female", "male")
        for at, race in enumerate(races)
        for origin in ("hispanic", "non_hispanic")
    ]
    frame = change(pd.DataFrame(rows, columns=["state_fips", "year", "age", "sex", "race", "hispanic_origin", "pop"]))
    frame.to_csv(path, index=False)
    return path


class TestModelOfTheOldest:
    @pytest.mark.parametrize("sex", ["M", "F"])
    def test_it_reproduces_the_census_at_85_and_over(self, sex):
        shares, counted = open_age_shares(sex), np.array(CENSUS_2000_OLDEST[sex])
        assert shares.sum() == pytest.approx(1) and (np.diff(shares) < 0).all()
        assert shares[:5].sum() == pytest.approx(counted[0] / counted.sum())
        assert shares[5:10].sum() == pytest.approx(counted[1] / counted.sum())
        assert shares[10:].sum() == pytest.approx(counted[2:].sum() / counted.sum())
        # The centenarians are no part of the fit.
        assert shares[15:].sum() == pytest.approx(counted[3] / counted.sum(), rel=0.25)

    def test_the_numbers_of_both_sexes_are_those_published(self):
        assert np.sum(list(CENSUS_2000_OLDEST.values()), axis=0).tolist() == [2_789_818, 1_112_531, 286_784, 50_454]

    def test_other_sexes_are_unknown(self):
        with pytest.raises(ValueError, match="M or F"):
            open_age_shares("X")

    def test_an_open_group_of_another_age_is_refused(self):
        frame = pd.DataFrame({"sex": ["M"], "age_from": [80], "age_to": [119], "people": [5]})
        with pytest.raises(DeliveryError, match="another age than 85"):
            spread_open_ages(frame)

    @settings(deadline=None, max_examples=examples.of(50))
    @given(st.lists(st.integers(0, 10_000), min_size=1, max_size=5), st.sampled_from("MF"))
    def test_totals_are_kept(self, people, sex):
        frame = pd.DataFrame({"sex": sex, "age_from": 85, "age_to": 119, "people": people, "row": range(len(people))})
        found = spread_open_ages(frame)
        assert found.groupby("row")["people"].sum().tolist() == people and (found["people"] >= 0).all()
        assert len(found) == 35 * len(people) and (found["age_from"] == found["age_to"]).all()

    @settings(deadline=None, max_examples=examples.of(50))
    @given(st.integers(0, 1000), st.lists(st.integers(1, 50), min_size=1, max_size=8))
    def test_rounding_is_off_by_less_than_one(self, total, weights):
        shares = np.array([weights]) / np.sum(weights)
        found = apportioned(np.array([total]), shares)
        assert found.sum() == total and (np.abs(found - total * shares) < 1).all()


class TestEstimates:
    def test_single_years(self, tmp_path):
        table = read_single_years(single_years_csv(tmp_path / "ages.csv"), "N")
        assert len(table.people) == 2 * 2 * 86 and set(table.people["race"]) == {ALL_RACES}
        last = table.people[table.people["age_from"] == 85]
        assert set(last["age_to"]) == {119} and sorted(set(table.people["state"])) == ["MN", "WA"]
        single = spread(table)
        assert single.total() == table.total() and single.warnings == (MODEL,) and len(single.people) == 2 * 2 * 120

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda rows: rows.drop(index=300), "rows of a state, age and sex .*: 1 missing"),
            (lambda rows: pd.concat([rows, rows.iloc[[300]]]), "0 missing, 1 twice"),
            (lambda rows: rows.assign(AGE=rows["AGE"].replace(84, 200)), "0 twice, 6 of no known age or sex"),
            (
                lambda rows: rows.assign(N=rows["N"].where(rows.index != 300, 7)),
                "1 total of both sexes and 1 total of all ages",
            ),
            (lambda rows: rows.assign(N=rows["N"].astype(str).where(rows.index != 300, "x")), "column N: 1 row"),
            (lambda rows: rows.assign(STATE=rows["STATE"].replace("53", "99")), "1 code is of no state"),
        ],
    )
    def test_single_years_that_are_not_what_they_should_be(self, tmp_path, change, message):
        with pytest.raises(DeliveryError, match=message):
            read_single_years(single_years_csv(tmp_path / "ages.csv", change=change), "N")

    def test_bands(self, tmp_path):
        table = read_race_bands(race_bands_csv(tmp_path / "bands.csv"), 2020)
        assert len(table.people) == 2 * 18 * 2 * 6 and set(table.people["race"]) == set(RACES.values()) - {RACES["F"]}
        assert table.people["people"].min() == 20, "both origins are added up"

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda rows: rows.drop(index=100), "rows of a state, age and sex .*: 1 missing"),
            (lambda rows: rows.assign(race=rows["race"].replace("asian_only", "x")), "column race: 144 rows"),
            (lambda rows: rows.assign(year=2019), "no row is of 2020"),
        ],
    )
    def test_bands_that_are_not_what_they_should_be(self, tmp_path, change, message):
        with pytest.raises(DeliveryError, match=message):
            read_race_bands(race_bands_csv(tmp_path / "bands.csv", change=change), 2020)


class TestSynthetic:
    def test_it_keeps_the_marginal_by_age_and_the_shares_of_the_bands(self, tmp_path):
        ages = read_single_years(single_years_csv(tmp_path / "ages.csv"), "N")
        made = synthetic_census(ages, read_race_bands(race_bands_csv(tmp_path / "bands.csv"), 2020))
        keys = ["state", "sex", "age_from"]
        expected = spread(ages).people.set_index(keys)["people"]
        assert made.people.groupby(keys)["people"].sum().to_dict() == expected.to_dict()
        assert made.people.loc[made.people["race"] == RACES["F"], "people"].sum() == 0 and NO_OTHER_RACE in made.warnings
        of_age = made.people[(made.people["state"] == "MN") & (made.people["sex"] == "M") & (made.people["age_from"] == 40)]
        shares = dict(zip(of_age["race"], of_age["people"] / of_age["people"].sum(), strict=True))
        assert shares[RACES["A"]] == pytest.approx(15 / 75, abs=0.005)

    def test_shares_are_needed_for_every_state(self, tmp_path):
        ages = read_single_years(single_years_csv(tmp_path / "ages.csv"), "N")
        bands = read_race_bands(race_bands_csv(tmp_path / "bands.csv", states=("27",)), 2020)
        with pytest.raises(DeliveryError, match="lack the states WA"):
            synthetic_census(ages, bands)

    @pytest.mark.matrix
    def test_of_the_public_estimates(self, tmp_path):
        everywhere = read_single_years(public_data("census", "st-est00int-agesex.csv"))
        ages = replace(everywhere, people=everywhere.people[everywhere.people["state"].isin(["MN", "WY"])])
        bands = read_race_bands(public_data("census", "pop_singlerace_state.csv"), 2020)
        made = synthetic_census(ages, bands)
        assert made.total() == ages.total() == 5_303_925 + 563_626, "Minnesota and Wyoming in the census of 2010"
        write_pct12(tmp_path / "synthetic_pct12.csv", made)
        read = read_census(tmp_path / "synthetic_pct12.csv")
        assert read.total() == made.total() and len(read.people) == 2 * 2 * 7 * 103
