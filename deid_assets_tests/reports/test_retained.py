"""What is left of each column, in words and as a share, beside the published levels."""

from deid_assets.assessments.detail import kept_name
from deid_assets.figures.heritage import GENERALIZATIONS, HIERARCHIES
from deid_assets.reports.retained import classes_at, levels_table, released_columns, retained_rows, retained_sentences
from deid_assets_tests.policy.policy_texts import example_policy

POLICY = example_policy()
LEVELS = {
    "AgeAtFirstClaim": ("age", 3),
    "Sex": ("sex", 0),
    "LengthOfStay": ("length_of_stay", 5),
    "Specialty": ("specialty", 0),
}
MEASURED = [{"name": kept_name("AgeAtFirstClaim"), "value": 0.344}, {"name": kept_name("LengthOfStay"), "value": 0.0}]
COLUMNS = released_columns({name: (POLICY.hierarchy_of(column), level) for name, (column, level) in LEVELS.items()}, MEASURED)


def test_each_column_tells_level_classes_information_and_the_published_level():
    rows = {row.quasi_identifier: row for row in retained_rows(COLUMNS)}
    age = rows["AgeAtFirstClaim"]
    assert (age.level, age.classes, age.kept, age.heritage) == ("20 years", "5 of 121", "34.4 %", "10 years, 80+")
    stay = rows["LengthOfStay"]
    assert (stay.classes, stay.kept, stay.heritage) == ("1", "0 %", GENERALIZATIONS["LengthOfStay"])
    assert (rows["Sex"].classes, rows["Sex"].kept) == ("2 of 2", "not generalized")
    assert rows["Specialty"].classes == "all that occur"
    assert {row.heritage for row in retained_rows(COLUMNS, beside_heritage=False)} == {""}


def test_a_column_that_hardly_varies_keeps_nothing_that_could_be_lost():
    shown = {name: (POLICY.hierarchy_of(column), level) for name, (column, level) in LEVELS.items()}
    columns = released_columns(shown, MEASURED, alike=["LengthOfStay", "Specialty"])
    kept = {row.quasi_identifier: row.kept for row in retained_rows(columns)}
    assert kept == {
        "AgeAtFirstClaim": "34.4 %", "Sex": "not generalized", "LengthOfStay": "hardly varies", "Specialty": "hardly varies",
    }  # fmt: skip
    share, *_ = retained_sentences(columns)
    assert share.startswith(
        "AgeAtFirstClaim, the only column that varies and could be generalized, keeps 34 % of its information"
    )


def test_every_dimension_that_ended_in_one_class_is_named():
    share, nothing = retained_sentences(COLUMNS)
    assert (
        "2 columns" in share
        and "17 % of their information on average. LengthOfStay keeps the least, 0 % (level any stay)" in share
    )
    assert nothing == "One class for all, so that their values carry no information: LengthOfStay (any stay)."
    assert len(retained_sentences(COLUMNS[:2])) == 1


def test_a_class_that_a_hierarchy_has_only_one_of_from_the_start_lost_nothing():
    assert classes_at(POLICY.hierarchy_of("length_of_stay"), 0) is None
    assert classes_at(POLICY.hierarchy_of("age"), 4) == 3


def test_table_4_stands_beside_the_levels_of_the_policy():
    rows = {row[0]: row for row in levels_table(COLUMNS).rows}
    assert rows["AgeAtFirstClaim"][1] == "years → 5 years → 10 years → [20 years] → 40 years"
    assert rows["AgeAtFirstClaim"][2] == "years → 5 years, 80+ → 10 years, 80+ → 20 years, 80+"
    assert rows["LengthOfStay"][2] == HIERARCHIES["LengthOfStay"] and rows["LengthOfStay"][2].count("→") == 4
