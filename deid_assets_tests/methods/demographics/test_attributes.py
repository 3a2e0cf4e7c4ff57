"""Levels of attributes: which refines which, and the standard ones."""

import datetime
from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest

from deid_assets.errors import PolicyError
from deid_assets.methods.demographics.attributes import (
    Attribute,
    CohortAttributes,
    Level,
    age_attribute,
    birthday_attribute,
    date_attribute,
    ethnicity_attribute,
    sex_attribute,
)
from deid_assets.methods.demographics.population import EVENLY, FROM_85, GompertzSurvival
from deid_assets_tests.methods.demographics.small_population import attribute, small_demographics


def refines(own, finer, coarser):
    return bool(own.refines[own.number_of(finer), own.number_of(coarser)])


class TestRefinement:
    ages = age_attribute(oldest=119)

    @pytest.mark.parametrize(
        ("finer", "coarser", "does"),
        [
            ("1 year", "5 years", True),
            ("5 years", "10 years", True),
            ("5 years", "10 years, 90+", True),
            ("10 years", "5 years", False),
            ("1 year, 90+", "10 years", False),  # ten years tell 90-99 from 100-109
            ("1 year, 90+", "10 years, 90+", True),
        ],
    )
    def test_ages(self, finer, coarser, does):
        assert refines(self.ages, finer, coarser) is does

    def test_weeks_do_not_nest_in_months(self):
        days = date_attribute("admission", datetime.date(2008, 1, 1), datetime.date(2009, 12, 31), 0.5)
        assert refines(days, "day", "week") and refines(days, "week", "withheld") and not refines(days, "week", "month")
        assert not refines(days, "week", "year")
        assert refines(days, "month", "quarter") and refines(days, "quarter", "year")

    def test_the_year_of_a_birthday_is_told_by_the_age(self):
        births = birthday_attribute()
        assert births.number_of("withheld") == births.number_of("year") == len(births.levels) - 1

    def test_chains_have_every_level_once(self):
        for own in (self.ages, *small_demographics().attributes):
            assert sorted(level for chain in own.chains for level in chain) == list(range(len(own.levels)))
            assert all(own.refines[low, high] for chain in own.chains for low, high in pairwise(chain))


def test_levels_that_join_the_same_values_are_one_level_with_two_names():
    place = attribute("geography", ["98101", "98501"], zip3=["981", "985"], county=["King", "Thurston"], state=["WA", "WA"])
    assert [level.name for level in place.levels] == ["zip3", "state"]
    assert place.number_of("county") == place.number_of("zip3") == 0


def test_a_level_that_does_not_exist():
    with pytest.raises(PolicyError, match="sex has no level 'gender'; its levels are: sex, withheld"):
        sex_attribute(withheld=True).level("gender")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Level("gap", np.array([0, 2]), ("a", "b")),
        lambda: Level.of("blank", ["a", None]),
        lambda: Attribute("sex", pd.Index(["F", "F"]), (Level.of("sex", ["F", "F"]),)),
        lambda: Attribute("sex", pd.Index(["F", "M"]), ()),
        lambda: Attribute("sex", pd.Index(["F", "M"]), (Level.of("a", ["F", "M"]), Level.of("b", ["1", "2"]))),
        lambda: date_attribute("admission", datetime.date(2008, 1, 2), datetime.date(2008, 1, 1), 1.0),
        lambda: date_attribute("admission", datetime.date(2008, 1, 1), datetime.date(2008, 1, 2), 0.0),
        lambda: CohortAttributes(age_attribute(), ethnicity_attribute(), sex_attribute(), sex_attribute()),
        lambda: CohortAttributes(
            attribute("age", [1, 3], y=["1", "3"]), ethnicity_attribute(), sex_attribute(), sex_attribute()
        ),
    ],
)
def test_attributes_that_mean_nothing(wrong):
    with pytest.raises(ValueError):  # noqa: PT011
        wrong()


class TestStandardLevels:
    def test_safe_harbor_publishes_89_but_not_90(self):
        level = age_attribute().level("1 year, 90+")
        assert [level.labels[level.codes[age]] for age in (0, 89, 90, 119)] == ["0", "89", "90+", "90+"]

    def test_bands_end_where_the_top_code_starts(self):
        level = age_attribute(widths=(20,), tops=(90,)).levels[0]
        assert level.labels == ("0-19", "20-39", "40-59", "60-79", "80-89", "90+")

    def test_seven_races_in_three_groups(self):
        race = ethnicity_attribute()
        grouped = race.level("AA/WH/OT")
        assert len(race.values) == 7 and np.bincount(grouped.codes).tolist() == [1, 1, 5]

    def test_shares_of_dates(self):
        days = date_attribute("admission", datetime.date(2008, 1, 1), datetime.date(2008, 12, 31), 0.3)
        share = {name: np.bincount(days.level(name).codes, weights=days.shares) for name in ("day", "quarter", "year")}
        assert share["day"][[0, -1]] == pytest.approx([0.3 / 366, 0.7])
        assert share["quarter"] == pytest.approx([0.3 * 91 / 366, 0.3 * 91 / 366, 0.3 * 92 / 366, 0.3 * 92 / 366, 0.7])
        assert [level.name for level in days.levels if not level.distinguishes] == ["year"]
        assert days.level("year").labels == ("2008", "no date")

    def test_birthdays_are_spread_over_four_years(self):
        births = birthday_attribute()
        assert births.shares.sum() == pytest.approx(1) and len(births.values) == 366
        assert births.shares[births.codes_of(pd.Series(["02-28", "02-29"]))] == pytest.approx([4 / 1461, 1 / 1461])


class TestOldAges:
    def test_the_fit_to_the_census_of_2000(self):
        # Census 2000, United States: ages 85-89, 90-94, 95-99, 100 and over; together 4,239,587 people.
        counted = np.array([2_789_818, 1_112_531, 286_784, 50_454])
        assert counted.sum() == 4_239_587
        bands = np.split(FROM_85.shares(35), [5, 10, 15])
        assert [band.sum() for band in bands] == pytest.approx(list(counted / counted.sum()), abs=0.006)

    @pytest.mark.parametrize(("model", "years"), list(product([EVENLY, FROM_85, GompertzSurvival(0.2, 0)], [1, 10, 35])))
    def test_shares_add_up_and_never_rise(self, model, years):
        shares = model.shares(years)
        assert shares.sum() == pytest.approx(1) and np.all(np.diff(shares) <= 0)

    def test_constant_hazard_is_a_geometric_law(self):
        shares = GompertzSurvival(np.log(2), 0).shares(3)
        assert shares == pytest.approx([4 / 7, 2 / 7, 1 / 7])
