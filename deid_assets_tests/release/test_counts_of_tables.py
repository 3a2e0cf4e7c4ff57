"""Which cells a flat table and a cohort have, and how they are protected: noise for all records of a person, and masks."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

from deid_assets.assessments.cohort_risk import Found, cohort_measurements
from deid_assets.assessments.evidence import Evidence
from deid_assets.assessments.record_risk import flat_measurements
from deid_assets.assessments.registry import noise_plan
from deid_assets.errors import CountsError
from deid_assets.methods.counts.cohort import RELEASED_PEOPLE, TOLD_BY_FILES
from deid_assets.methods.counts.published_tables import disclosed_counts, masked_tables, names_of
from deid_assets.methods.counts.tables import CellName
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.loading import policy_from
from deid_assets.release.counts.cells import counted_frame, step_rows, tables_of
from deid_assets.release.counts.kinds import FLAT
from deid_assets.release.counts.noise import DeliveryNoise, Plan
from deid_assets.release.counts.published import file_tables, planned_cells, planned_sums, published_counts, shown_of
from deid_assets.release.counts.statement import CountStatement
from deid_assets.release.manifest.public_numbers import AttritionStep, PublicNumbers
from deid_assets.release.registry.chain import Chain
from deid_assets.release.registry.noise_charges import budget_of
from deid_assets.sources.delivery import Delivery
from deid_assets.store.tables import Table, write_table
from deid_assets_tests.policy.cohort_values import cohort_values
from deid_assets_tests.release.making import SECRET
from deid_assets_tests.scenarios.policies import changed
from deid_assets_tests.scenarios.test_flat_release import FLAT as FLAT_VALUES

BY = {"Age": "decade", "Town": "district", "Likes": ["tea", "coffee"]}


def policy_with(most: int = 1, person: str | None = None, **counts) -> FlatPolicy:
    source = {"kind": "flat", "file": "people.csv", "records_per_person": most, "person": person}
    return policy_from(changed(FLAT_VALUES, source=source, counts={"protection": "noise", "characteristics": BY, **counts}))


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> Mapping[str, Table]:
    """1,000 records, of which ten are suppressed, and three rows in quarantine; towns, ages and likes are missing of some."""
    file = tmp_path_factory.mktemp("store") / "store.duckdb"
    content = {
        "records": """SELECT i AS record, CASE WHEN i > 4 THEN 'town ' || (i % 12) END AS "Town",
            (20 + i % 50)::VARCHAR AS "Age", CASE WHEN i % 2 = 0 THEN 'F' ELSE 'M' END AS "Sex",
            CASE WHEN i <= 6 THEN NULL WHEN i <= 8 THEN 'milk' ELSE 'tea' END AS "Likes" FROM range(1, 1001) AS r(i)""",
        "suppressed_records": "SELECT i AS record FROM range(1, 11) AS r(i)",
        "release_records": "SELECT 1 AS one FROM range(990)",
        "quarantined_records": "SELECT 'records' AS source_table, 'not a number' AS rule FROM range(3)",
    }
    made = {name: Table(file, "intake", name) for name in content}
    for name, sql in content.items():
        write_table(made[name], sql)
    return made


def counted(policy: FlatPolicy, tables: Mapping[str, Table]) -> pd.DataFrame:
    delivery = Delivery("one", "flat", ())
    return FLAT.counts(policy, FLAT.steps(policy, delivery, tables), tables, "rows")


def noise_of(policy, delivery: str = "delivery 1") -> DeliveryNoise:
    return DeliveryNoise.of(SECRET, delivery, policy.counts, policy.records_per_person)


def test_records_are_counted_by_step_level_and_listed_value_and_all_sums_hold(tables):
    counts = counted(policy_with(), tables)
    found = tables_of(counts)
    exact = dict(zip(found.cells, found.counts.tolist(), strict=True))
    assert {one.name for one in found.sums} == {"records", "released_records", "home town", "age", "likes"}
    steps = {name[1:]: count for name, count in exact.items() if name.table == "attrition"}
    assert steps == {
        ("delivered_records", "remaining"): 1_003, ("records", "remaining"): 1_000, ("records", "excluded"): 3,
        ("released_records", "remaining"): 990, ("released_records", "excluded"): 10,
    }  # fmt: skip
    classes = {name[1:]: count for name, count in exact.items() if name.table == "characteristics"}
    assert {(column, count) for (row, column), count in classes.items() if row == "likes"} == {
        ("tea", 992), ("coffee", 0), ("other", 2), ("unknown", 6),
    }  # fmt: skip
    assert classes["home town", "unknown"] == 4 and classes["age", "unknown"] == 0 and classes["age", "20s"] == 200
    least = dict(zip(names_of(counts), counts["least"], strict=True))
    assert least[CellName("characteristics", "likes", "tea")] == 990, "what readers of the files count"
    assert set(found.cells) & TOLD_BY_FILES == {CellName("attrition", "released_records", "remaining")}


def test_without_characteristics_every_quasi_identifier_is_counted_at_its_coarsest_level_with_classes(tables):
    counts = counted(policy_with(characteristics=None), tables)
    classes = counts[counts["table"] == "characteristics"]
    assert classes.groupby("row")["column"].agg(list).to_dict() == {
        "age": ["20s", "30s", "40s", "50s", "60s", "unknown"],
        "home town": ["district 0", "district 1", "district 2", "unknown"],
        "sex": ["F", "M", "unknown"],
    }


@pytest.mark.parametrize("most", [1, 3])
def test_noise_is_as_wide_as_all_records_of_a_person_and_costs_the_same(tables, most):
    policy = policy_with(most)
    counts, noise = counted(policy, tables), noise_of(policy)
    published = published_counts(policy, counts, noise)
    assert set(published["sd"]) == {0.0, 2.5 * most} and set(published["contribution"]) == {most}
    cells, sums = planned_cells(policy, counts, noise), planned_sums(policy, counts)
    budget = budget_of(Chain((), None, b""), policy.counts).charged(cells, sums)
    # One record is in four steps at most, the exact one left out, and in one class of each of three characteristics.
    assert budget.spent == pytest.approx(6 * 0.08, rel=1e-6)
    name = CellName("attrition", "records", "remaining")
    shape = counts.loc[(counts["row"] == "records") & (counts["column"] == "remaining"), "shape"].iloc[0]
    assert shown_of(published)[name] == noise.protect(name, shape, 1_000), "the manifest shows the same number"


@pytest.mark.parametrize(
    ("person", "said"),
    [
        (None, "The policy states that no person has more than 3 records, and nothing checks it"),
        ("patient", "The delivery identifies persons, and no person has more than 3 records in it"),
    ],
)
def test_what_is_claimed_for_people_says_on_what_it_rests(person, said):
    policy = policy_with(3, person)
    statement = CountStatement(
        policy.counts, budget_of(Chain((), None, b""), policy.counts), None, policy.records_per_person, policy.persons_checked
    ).public()
    assert statement["sd"] == 7.5 and said in statement["budget"]["meaning"]
    assert "change by at most 3 with one person" in statement["budget"]["meaning"]


def test_masks_take_the_number_of_released_records_as_known(tables):
    policy = policy_with(protection="masked", characteristics={})
    counts = counted(policy, tables)
    shown = shown_of(published_counts(policy, counts, noise_of(policy)))
    steps = {name[1:]: mark for name, mark in shown.items() if name.table == "attrition"}
    assert steps["released_records", "remaining"] == 990 and steps["released_records", "excluded"] == "T"
    assert steps["records", "remaining"] == "H", "else 1,000 less 990 would tell the ten"
    published = published_counts(policy, counts, noise_of(policy))
    assert disclosed_counts(masked_tables(published, 11), [], policy.counts.small_counts) == 0


def test_masks_are_refused_if_few_records_of_a_shown_class_were_left_out(tables):
    """Ten records of each class are left out: whoever counts the files subtracts those of a class from its number."""
    policy = policy_with(protection="masked")
    counts = counted(policy, tables)
    is_large = counts["table"].eq("characteristics") & counts["count"].gt(10)
    few = counts.assign(least=(counts["count"] - 10).where(is_large, 0))
    with pytest.raises(CountsError, match="[2-9] classes are shown of which few records were left out"):
        published_counts(policy, few, noise_of(policy))
    nobody = counts.assign(least=counts["count"].where(counts["table"] == "characteristics", 0))
    with pytest.raises(CountsError, match="4 small counts would stay too well known"):
        published_counts(policy, nobody, noise_of(policy))


def test_ordered_characteristics_have_percentiles_from_published_counts(tables):
    policy = policy_with(ordered=["Age"])
    files = file_tables(policy, published_counts(policy, counted(policy, tables), noise_of(policy)))
    assert set(files["Distributions"]["Variable"]) == {"age"} and set(files["Attrition"]["Unit"]) == {"records"}
    classes = files["Characteristics"]
    has_share = classes["CumulativeShare"].notna()
    assert set(classes.loc[has_share, "Variable"]) == {"age"} and "unknown" not in set(classes.loc[has_share, "Class"])


def cohort_counts(*classes: int) -> pd.DataFrame:
    """1,002 delivered people, of whom the classes remain and are all released."""
    people = sum(classes)
    steps = [
        AttritionStep("delivered_people", "records", 1_002, shape="s"),
        AttritionStep("cohort_people", "records", people, shape="s"),
        AttritionStep("released_people", "records", people),
    ]  # fmt: skip
    rows = [("characteristics", "age", str(at), at, count, 1, count, "s", str(at)) for at, count in enumerate(classes)]
    return counted_frame([*step_rows(steps, "rows"), *rows])


def test_of_a_cohort_the_files_tell_its_size_and_noise_is_in_the_rest():
    policy = policy_from(cohort_values(counts={"protection": "noise"}))
    counts = cohort_counts(400, 600)
    published = published_counts(policy, counts, noise_of(policy))
    exact = {name for name, sd in zip(names_of(published), published["sd"], strict=True) if sd == 0}
    assert exact == TOLD_BY_FILES & set(names_of(counts)) and RELEASED_PEOPLE in exact
    shown = shown_of(published)
    assert shown[RELEASED_PEOPLE] == 1_000 and shown[RELEASED_PEOPLE._replace(column="excluded")] == 0
    cells, sums = planned_cells(policy, counts, noise_of(policy)), planned_sums(policy, counts)
    budget = budget_of(Chain((), None, b""), policy.counts).charged(cells, sums)
    assert budget.spent == pytest.approx(2 * 0.08, rel=1e-6), "delivered, and one class or excluded"
    assert sum(np.isfinite(cell.sd) for cell in cells) == 4


def test_masks_of_a_cohort_hide_who_was_excluded_and_are_refused_for_small_classes():
    policy = policy_from(cohort_values(counts={"protection": "masked"}))
    shown = shown_of(published_counts(policy, cohort_counts(400, 600), noise_of(policy)))
    assert shown[CellName("attrition", "cohort_people", "excluded")] == "T"
    assert shown[CellName("attrition", "delivered_people", "remaining")] == "H"
    assert [mark for name, mark in shown.items() if name.table == "characteristics"] == [400, 600]
    with pytest.raises(CountsError, match="1 class holds few people, and the released files"):
        published_counts(policy, cohort_counts(993, 7), noise_of(policy))


def test_a_share_of_records_left_out_is_not_told_beside_masks_that_hide_it():
    steps = [
        AttritionStep("records", "records", 1_000),
        AttritionStep("released_records", "records", 990, "records", file="data/Records.csv"),
    ]
    suppressed = flat_measurements(policy_with(), 5, 0.01, 1_000, None)[-1]
    evidence = Evidence("record_risk", "one", "hash", "0" * 64, "1", (suppressed,))

    def told(shown: int | str) -> tuple[object, object]:
        numbers = PublicNumbers(lambda name, shape, count: count, {}, {CellName("attrition", "records", "remaining"): shown})
        (one,) = numbers.evidence(evidence, "delivery", numbers.attrition(steps))["measurements"]
        return one["value"], one["sample_size"]

    assert told("H") == told("T") == (None, None) and told(1_000) == (0.01, 1_000)


@pytest.mark.parametrize(
    ("policy", "measured", "number"),
    [
        (policy_from(FLAT_VALUES), lambda policy: flat_measurements(policy, 5, 0.1, 1_000, None), 0),
        (
            policy_from(changed(FLAT_VALUES, population={"file": "register.csv"})),
            lambda policy: flat_measurements(policy, 5, 0.1, 1_000, 0), 1,
        ),
        (policy_from(cohort_values()), lambda policy: cohort_measurements(policy, Found(0.0, 0.1, 0.2), 0.0, 100), 0),
        (
            policy_from(changed(cohort_values(), risk={"crowded_at_most": 0.1})),
            lambda policy: cohort_measurements(policy, Found(), 0.1, 100), 1,
        ),
    ],
)  # fmt: skip
def test_the_noisy_numbers_of_the_manifest_are_planned_before_the_tables_are_drawn(policy, measured, number):
    def cells(measurements) -> set[str]:
        plan = Plan(noise_of(policy))
        PublicNumbers(plan.note, {}).measurements(measurements)
        return {cell.draw for cell in plan.cells}

    planned = cells(noise_plan(policy))
    assert planned == cells(measured(policy)) and len(planned) == number
