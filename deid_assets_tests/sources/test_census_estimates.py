"""Estimates by state, the model of the oldest ages, and the synthetic PCT12 made of them (methods#census-tables)."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.errors import DeliveryError
from deid_assets.sources.census import (
    ALL_RACES,
    CENSUS_2000_OLDEST,
    MODEL,
    NO_OTHER_RACE,
    RACES,
    apportioned,
    open_age_shares,
    read_census,
    read_race_bands,
    read_single_years,
    spread,
    spread_open_ages,
    synthetic_census,
)
from deid_assets_tests import examples
from deid_assets_tests.public_data import public_data
from deid_assets_tests.sources.census_files import write_pct12


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
            (lambda rows: rows.drop(index=300), "1 rows of a state, age and sex .* are missing"),
            (lambda rows: pd.concat([rows, rows.iloc[[300]]]), "1 occur twice"),
            (lambda rows: rows.assign(AGE=rows["AGE"].replace(84, 200)), "6 are of no known age or sex"),
            (
                lambda rows: rows.assign(N=rows["N"].where(rows.index != 300, 7)),
                "1 totals of both sexes and 1 totals of all ages",
            ),
            (lambda rows: rows.assign(N=rows["N"].astype(str).where(rows.index != 300, "x")), "column N: 1 rows"),
            (lambda rows: rows.assign(STATE=rows["STATE"].replace("53", "99")), "1 codes are of no state"),
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
            (lambda rows: rows.drop(index=100), "1 rows of a state, age and sex"),
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
