"""Old ages in more detail for groups whose population carries them."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.errors import PolicyError
from deid_assets.methods.demographics.attributes import (
    CENSUS_RACES,
    Attribute,
    CohortAttributes,
    DemographicPolicy,
    age_attribute,
    ethnicity_attribute,
    published_alternatives,
    safe_harbor,
    sex_attribute,
)
from deid_assets.methods.demographics.class_sizes import ClassCounter
from deid_assets.methods.demographics.discovery import Bar
from deid_assets.methods.demographics.local_recoding import classes_with_ages, recode_old_ages, recoded_ages
from deid_assets.methods.demographics.measures import LARGEST, TOTAL, Measure
from deid_assets.methods.demographics.population import EVENLY, cells_of, population_of
from deid_assets.methods.demographics.risk import bounded_risks, groups_by, no_riskier, risks_at
from deid_assets_tests import examples
from deid_assets_tests.methods.demographics.small_population import small_cells

FIVE_YEAR = published_alternatives()[1]
OLD_AGES = ("1 year", "5 years", "10 years", "5 years, 90+")


def cells():
    """Ages 60 to 64 and 90 to 94 of three states with many, some and few people of 90 to 119."""
    states = pd.DataFrame({"state": ["MN", "TN", "WA"], "nation": "US"}, index=["MN", "TN", "WA"])
    demographics = CohortAttributes(
        age_attribute(), ethnicity_attribute(), Attribute.from_table("geography", states), sex_attribute()
    )
    old = {"MN": 100, "TN": 4, "WA": 1}
    rows = [
        (state, sex, race, age, age, 10 if age < 90 else old[state])
        for state, sex, race, age in product(states.index, ("F", "M"), CENSUS_RACES, range(120))
    ]
    table = pd.DataFrame(rows, columns=["geography", "sex", "ethnicity", "youngest", "oldest", "people"])
    person = {"ethnicity": "white", "sex": "F"}
    cohort = pd.DataFrame([person | {"geography": s, "age": age} for s in old for age in [60, 61, 62, 90, 91, 92]])
    return cells_of(cohort, population_of(table, demographics, EVENLY))


class TestThreeStates:
    recoded = recode_old_ages(cells(), FIVE_YEAR, safe_harbor(), OLD_AGES, ("geography", "state"))

    def test_each_state_gets_the_finest_old_ages_that_it_carries(self):
        # Safe Harbor: three records of ten alike, and three of 30 times as many as are in a year of age. In bands of five
        # years, the young are among 50, which leaves .24 and more for the old.
        table = self.recoded.set_index("group")
        assert table["old_ages"].tolist() == ["1 year", "5 years", "10 years"]
        for state, people in (("MN", 100), ("TN", 4), ("WA", 1)):
            budget = 3 / 10 + 3 / (30 * people)
            risks = {"1 year": 3 / people, "5 years": 3 / (5 * people), "10 years": 3 / (10 * people)}
            risks["5 years, 90+"] = 3 / (30 * people)
            finest = next(name for name in OLD_AGES if 3 / 50 + risks[name] <= budget)
            assert table.loc[state, "old_ages"] == finest

    def test_counts(self):
        assert self.recoded["records"].tolist() == [6, 6, 6]


def test_a_group_that_carries_nothing_has_no_old_ages():
    recoded = recode_old_ages(
        cells(),
        published_alternatives()[0],
        safe_harbor(),
        ["1 year", "5 years"],
        ("geography", "state"),
        Bar((TOTAL, LARGEST)),
    )
    assert recoded["old_ages"].isna().all()


def test_the_policy_must_publish_the_groups():
    national = DemographicPolicy.of("national", FIVE_YEAR.levels | {"geography": "nation"})
    with pytest.raises(PolicyError, match="policy national does not publish geography by state"):
        recode_old_ages(cells(), national, safe_harbor(), OLD_AGES, ("geography", "state"))


def test_old_ages_must_be_listed_from_fine_to_coarse():
    with pytest.raises(PolicyError, match="from fine to coarse"):
        recode_old_ages(cells(), FIVE_YEAR, safe_harbor(), OLD_AGES[::-1], ("ethnicity", "any"))


def test_classes_must_not_straddle_the_first_old_age():
    ages = age_attribute(widths=(1, 20), tops=(None,))
    with pytest.raises(PolicyError, match="age 20 years: a class joins ages below 90 and others"):
        recoded_ages(ages.level("20 years"), ages.level("1 year"), range(120))
    joined = recoded_ages(ages.level("20 years"), ages.level("1 year"), range(120), first_old=80)
    assert joined.labels[joined.codes[79]] == "60-79" and joined.labels[joined.codes[80]] == "80"


def spanned_cells():
    """As `cells`, but the table joins the ages from 90 on in fives, so that what lies in a class is partly a guess."""
    known = cells()
    rows = [
        (state, sex, race, age, age, 10 if age < 90 else 0)
        for state, sex, race, age in product(("MN", "TN", "WA"), ("F", "M"), CENSUS_RACES, range(90))
    ]
    old = {"MN": 100, "TN": 4, "WA": 1}
    rows += [
        (state, sex, race, age, age + 4, 5 * old[state])
        for state, sex, race, age in product(old, ("F", "M"), CENSUS_RACES, range(90, 120, 5))
    ]
    table = pd.DataFrame(rows, columns=["geography", "sex", "ethnicity", "youngest", "oldest", "people"])
    person = {"ethnicity": "white", "sex": "F"}
    cohort = pd.DataFrame([person | {"geography": s, "age": age} for s in old for age in [60, 61, 62, 90, 91, 92]])
    return cells_of(cohort, population_of(table, known.demographics, EVENLY))


@settings(deadline=None, max_examples=examples.of(10))
@given(small_cells(), st.sampled_from([TOTAL, LARGEST, Measure("graduated", 4)]), st.sampled_from([None, 0.9]), st.data())
def test_every_group_is_no_riskier_in_every_state(drawn, measure, confidence, data):
    """By ethnicity, the finest level is that which passes in each state: found again, one group of one state at a time."""
    known, cohort, _ = drawn
    young = data.draw(st.sampled_from(["years", "pairs"]))
    policy = DemographicPolicy.of("P", {"age": young, "ethnicity": "two", "geography": "state", "sex": "sex"})
    reference = DemographicPolicy.of("R", {"age": "top", "ethnicity": "any", "geography": "state", "sex": "sex"})
    bar = Bar((measure,), by=("geography", "state"), confidence=confidence)
    found = recode_old_ages(known, policy, reference, ["years", "pairs"], ("ethnicity", "two"), bar, first_old=4)
    years = known.demographics.age
    kept = known.codes
    for row in found.itertuples(index=False):
        passing = []
        for name in ("years", "pairs"):
            level = recoded_ages(years.level(young), years.level(name), list(range(8)), first_old=4)
            verdicts = []
            races = known.demographics.ethnicity.level("two")
            states, labels = groups_by(known, "geography", "state")
            mine = races.codes[kept[:, 1]] == races.labels.index(row.group)
            for state in set(states[mine]):
                chosen = np.where(mine & (states == state), 1, 0)
                counter = ClassCounter(known, chosen)
                classes = counter.with_ages(level, policy.node(known.demographics))
                most = risks_at(counter.at(reference.node(known.demographics)), [measure], 2)[0, 1]
                risk = risks_at(classes, [measure], 2)[0, 1]
                if confidence is not None:
                    risk = bounded_risks(classes, [measure], 2, confidence).upper[0, 1]
                verdicts.append(no_riskier(risk, most))
            if all(verdicts):
                passing.append(name)
        assert (None if pd.isna(row.old_ages) else row.old_ages) == (passing[0] if passing else None)


def test_a_guess_is_compared_at_its_upper_bound():
    states = ("geography", "state")
    by_expected = recode_old_ages(spanned_cells(), FIVE_YEAR, safe_harbor(), OLD_AGES, states, Bar())
    by_bound = recode_old_ages(spanned_cells(), FIVE_YEAR, safe_harbor(), OLD_AGES, states, Bar(confidence=0.99))
    assert by_expected["old_ages"].iloc[0] == "1 year" and by_bound["old_ages"].iloc[0] == "5 years"


MEASURES = (TOTAL, Measure("graduated", 3), LARGEST)


@settings(max_examples=examples.of(60), deadline=None)
@given(st.data())
def test_each_state_has_the_risks_of_its_own_level(data):
    """The measured risk of a state is that of a release of everybody at the state's level, where states are published."""
    cells, *_ = data.draw(small_cells())
    demographics = cells.demographics
    states, labels = groups_by(cells, "geography", "state")
    levels = demographics.age.levels
    chosen = np.array(data.draw(st.lists(st.sampled_from(range(len(levels))), min_size=len(labels), max_size=len(labels))))
    place = data.draw(st.sampled_from(["town", "state"]))
    node = (0, 0, demographics.geography.number_of(place), 0)
    found = bounded_risks(classes_with_ages(cells, node, levels, chosen[states], states), MEASURES, len(labels), 0.99)
    for number in range(len(labels)):
        alone = bounded_risks(ClassCounter(cells, states).at((int(chosen[number]), *node[1:])), MEASURES, len(labels), 0.99)
        for own, expected in ((found.expected, alone.expected), (found.upper, alone.upper), (found.lower, alone.lower)):
            np.testing.assert_allclose(own[:, number], expected[:, number], rtol=1e-9)
