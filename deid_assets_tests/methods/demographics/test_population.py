"""Population tables that cannot be right are refused; a cohort that does not fit is refused or counted."""

import numpy as np
import pandas as pd
import pytest

from deid_assets.errors import DeliveryError
from deid_assets.methods.demographics.population import EVENLY, CohortWarnings, GompertzSurvival, cells_of, population_of
from deid_assets_tests.methods.demographics.small_population import AGES, ROWS, SPANS, small_demographics, table_of

TABLE = table_of(range(1, ROWS + 1))
PERSON = {"age": 5, "ethnicity": "x", "geography": "a1", "sex": "F"}


def population(table=TABLE, open_ages=EVENLY):
    return population_of(table, small_demographics(), open_ages)


def changed(**values):
    table = TABLE.astype({"people": float, "youngest": float})
    for column, value in values.items():
        table[column] = table[column].astype(object)
        table.loc[[3, 7], column] = value
    return table


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (TABLE.drop(columns=["sex", "people"]), "no column sex, people"),
        (TABLE.iloc[:0], "it has no rows"),
        (changed(people=-1), "2 rows have no whole number of 0 or more in column people"),
        (changed(people=1.5), "2 rows have no whole number"),
        (changed(people=None), "2 rows have no whole number"),
        (changed(people="many"), "2 rows have no whole number"),
        (changed(youngest=9), "2 rows have ages outside 0 to 7"),
        (changed(oldest=2), "2 rows have ages outside 0 to 7, or an end before the start"),
        (changed(sex="X"), "2 rows have a sex that is none of its 2 values"),
        (changed(geography="c1"), "2 rows have a geography that is none of its 4 values"),
        (changed(youngest=5), "2 groups .* without ages between 0 and 7"),
        (changed(youngest=3), "2 groups .* with an age twice"),
        (changed(oldest=6), "2 groups .* without ages"),
        (pd.concat([TABLE, TABLE.iloc[[4]]]), "1 group .* with an age twice"),
        (TABLE.drop(index=[0, 9]), "2 groups .* without ages"),
        (TABLE[(TABLE["sex"] != "M") | (TABLE["geography"] != "b2")], "3 groups .* without rows; give them rows with 0 people"),
    ],
)
def test_tables_that_cannot_be_right(table, message):
    with pytest.raises(DeliveryError, match=message):
        population(table)


def test_the_order_of_rows_changes_nothing():
    shuffled = population(TABLE.sample(frac=1, random_state=1))
    ours = population()
    for name in ("groups", "youngest", "span", "people", "shares"):
        np.testing.assert_array_equal(getattr(shuffled, name), getattr(ours, name))


def test_only_open_classes_follow_the_model_of_old_ages():
    halves = population(open_ages=GompertzSurvival(np.log(2), 0)).shares
    assert halves[0].tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
    assert halves[2].tolist() == [0, 0, 0.5, 0.5, 0, 0, 0, 0]
    assert halves[3] == pytest.approx([0, 0, 0, 0, 8 / 15, 4 / 15, 2 / 15, 1 / 15])


class TestCohort:
    def test_the_rest_of_a_row_are_those_who_are_not_in_the_cohort(self):
        cells = cells_of(pd.DataFrame([PERSON, PERSON | {"age": 7}, PERSON | {"age": 0, "ethnicity": "z"}]), population())
        gone = cells.population.people - cells.rest
        assert gone.sum() == 3 and sorted(gone[gone > 0]) == [1, 2] and not cells.warnings

    def test_a_cohort_larger_than_its_row_is_counted(self):
        people = [0 if number == 3 else 1 for number in range(ROWS)]  # the fourth row: a1, F, x, ages 4 and over
        cohort = pd.DataFrame([PERSON, PERSON | {"age": 6}, *[PERSON | {"age": 1}] * 3, PERSON | {"sex": "M"}])
        cells = cells_of(cohort, population(table_of(people)))
        assert cells.warnings == CohortWarnings(crowded_rows=2, crowded_records=5, empty_rows=1, empty_records=2)
        assert cells.warnings and cells.rest.min() == 0

    @pytest.mark.parametrize(
        ("cohort", "message"),
        [
            (pd.DataFrame([PERSON]).iloc[:0], "it has no records"),
            (pd.DataFrame([PERSON]).drop(columns=["age", "sex"]), "no column age, sex"),
            (pd.DataFrame([PERSON, PERSON | {"geography": "CA"}] * 3), "column geography: 3 records$"),
            (pd.DataFrame([PERSON | {"age": 8}, PERSON | {"age": 5.5}, PERSON | {"sex": None}]),
             "age: 2 records; .* sex: 1 record$"),
        ],
    )  # fmt: skip
    def test_cohorts_that_are_refused(self, cohort, message):
        with pytest.raises(DeliveryError, match=message) as refused:
            cells_of(cohort, population())
        assert "CA" not in str(refused.value)

    def test_dates_must_be_values_too(self):
        demographics = small_demographics(dated=True)
        with pytest.raises(DeliveryError, match="column visit: 1 record$"):
            cells_of(pd.DataFrame([PERSON | {"visit": 5, "birth": 1}]), population_of(TABLE, demographics, EVENLY))

    def test_spans_and_ages_are_those_of_the_fixture(self):
        assert len(SPANS) * 24 == ROWS and len(AGES) == 8
