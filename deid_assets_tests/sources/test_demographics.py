"""Cohorts and population tables in the words of the methods: nobody is lost, races are joined, and holes refuse."""

import pandas as pd
import pytest

from deid_assets.errors import DeliveryError
from deid_assets.methods.demographics.population import EVENLY, FROM_85, population_of
from deid_assets.sources.census import ALL_RACES, LAST_AGE, RACES, read_census
from deid_assets.sources.demographics import cells_of_cohort, demographics_of, population_table, race_names
from deid_assets_tests.sources.census_files import write_pct12
from deid_assets_tests.sources.test_census import small_people

THREE = ["White", "Black", "Other"]
SPANS = [(0, 84), (85, LAST_AGE)]


def table(spans=SPANS, races=(ALL_RACES,), places=({"state": "MN"},), people=50):
    rows = [
        {**place, "sex": sex, "race": race, "age_from": first, "age_to": last, "people": people}
        for place in places
        for sex in "FM"
        for race in races
        for first, last in spans
    ]
    return pd.DataFrame(rows)


@pytest.mark.matrix
@pytest.mark.parametrize("races", [tuple(RACES.values()), THREE, ()])
def test_a_published_table_keeps_all_its_people(tmp_path, races):
    path = tmp_path / "synthetic_pct12.csv"
    write_pct12(path, small_people())
    people = read_census(path).people
    names = race_names(races)
    made = population_table(people, names)
    keys = ["geography", "sex", "ethnicity", "youngest"]
    expected = people.assign(geography=people["state"], ethnicity=people["race"].map(names), youngest=people["age_from"])
    assert made.set_index(keys)["people"].to_dict() == expected.groupby(keys)["people"].sum().to_dict()
    assert made.loc[made["oldest"].isna(), "youngest"].unique().tolist() == [110], "only the last class is open"
    known = population_of(made, demographics_of(people, names), EVENLY)
    assert known.people.sum() == people["people"].sum()


def test_races_of_the_census_become_white_black_and_other():
    seven, three = race_names(RACES.values()), race_names(THREE)
    assert list(dict.fromkeys(three.values())) == ["white", "black", "other"]
    assert {race for race, name in three.items() if name == "other"} == {*RACES.values(), "Other"} - {"White", "Black"}
    for names in (seven, three):
        ethnicity = demographics_of(table(), names).ethnicity
        level = ethnicity.level("AA/WH/OT")
        joined = pd.Series(ethnicity.values).groupby(level.codes).agg(set).tolist()
        assert joined == [{"white"}, {"black"}, set(names.values()) - {"white", "black"}]
    assert set(race_names([]).values()) == {ALL_RACES}


@pytest.mark.parametrize("races", [["Asian", "Other"], ["Hispanic"], ["White", "unknown"]])
def test_other_races_are_refused(races):
    with pytest.raises(DeliveryError, match="must be those of the census"):
        race_names(races)


def test_a_hole_of_one_race_is_not_hidden_by_the_others():
    people = table(races=tuple(RACES.values()))
    holed = people.drop(people.index[(people["race"] == "Asian") & (people["sex"] == "F") & (people["age_from"] == 85)])
    with pytest.raises(DeliveryError, match="1 group of a place, sex and age without a race"):
        population_table(holed, race_names(THREE))
    for race, said in (
        ("Asian", "1 group of a place"),
        ("White", "1 group of geography, sex and ethnicity with an age twice"),
    ):
        twice = pd.concat([people, people[people["race"] == race].iloc[:1]])
        with pytest.raises(DeliveryError, match=said):
            cells_of_cohort(cohort(race=["White", "Other"]), twice, THREE)


def test_a_table_without_races_needs_a_cohort_without_them():
    with pytest.raises(DeliveryError, match="4 rows are of no race"):
        population_table(table(), race_names(THREE))


def cohort(**changed):
    return pd.DataFrame({"age": [40, 86], "sex": ["F", "M"], "state": ["MN", "MN"]} | changed)


def test_an_open_class_is_spread_by_the_model_of_its_first_age():
    cells, said = cells_of_cohort(cohort(), table())
    spans = cells.population.shares
    assert len(said) == 1 and "85 and over" in said[0]
    assert spans[-1, 85:] == pytest.approx(FROM_85.shares(LAST_AGE - 84))
    single = [(age, age) for age in range(110)]
    cells, said = cells_of_cohort(cohort(), table([*single, (110, LAST_AGE)]))
    assert said == () and cells.population.shares[-1, 110:] == pytest.approx([0.1] * 10)
    with pytest.raises(DeliveryError, match="open classes of ages begin at 65"):
        cells_of_cohort(cohort(), table([(0, 64), (65, LAST_AGE)]))


def test_places_that_the_table_lacks_are_counted():
    with pytest.raises(DeliveryError, match="1 record is of a state that the population table does not have") as said:
        cells_of_cohort(cohort(state=["MN", "WY"]), table())
    assert "WY" not in str(said.value)


def test_zip_codes_counties_and_states_are_levels():
    places = (
        {"state": "MN", "county": "Polk", "zip": "56701"},
        {"state": "MN", "county": "Polk", "zip": "56716"},
        {"state": "WI", "county": "Polk", "zip": "54001"},
        {"state": "NY", "county": "Kings", "zip": "11201"},
    )
    people = table(places=places)
    cells, _ = cells_of_cohort(cohort(county=["Polk", "Polk"], zip=["56716", "56701"]), people)
    geography = cells.demographics.geography
    assert [len(geography.level(name).labels) for name in ("zip5", "zip3", "county", "state", "region", "withheld")] == [
        4, 3, 3, 3, 2, 1,
    ]  # fmt: skip
    assert not geography.refines[geography.number_of("region"), geography.number_of("state")]
    with pytest.raises(DeliveryError, match="by county, zip"):
        cells_of_cohort(cohort(), people)
    with pytest.raises(DeliveryError, match="1 record is of a state or county or zip"):
        cells_of_cohort(cohort(county=["Polk", "Kings"], zip=["56716", "56701"]), people)
