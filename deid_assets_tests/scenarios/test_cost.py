"""`deid cost` says what each column adds to the risk and what others could keep without it, and publishes nothing."""

import re
from pathlib import Path
from typing import Any

import pytest

from deid_assets_tests.policy.cohort_values import cohort_values
from deid_assets_tests.scenarios.command_line import PUBLISHED, REFUSED, deid_here, unwrapped
from deid_assets_tests.scenarios.fills_delivery import FILLS, TABLE_OF_DRUGS, delivery_with_fills
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy
from deid_assets_tests.scenarios.test_cohort_release import deliver, population
from deid_assets_tests.scenarios.test_flat_release import FLAT, write_people
from deid_assets_tests.scenarios.test_plan import nothing_is_published

ALIKE = [["town 0", str(age), sex, "tea", "x"] for age in (30, 31, 40) for sex in "FM" for _ in range(10)]
RARE = [["town 1", "30", "F", "tea", "x"], ["town 1", "31", "F", "tea", "x"], ["town 5", "40", "M", "tea", "x"]]
"""Three people of 63, alone in their classes: the first two share a district with everybody, and the third nobody."""


def rows_of(printed: str, cells: int) -> list[list[str]]:
    """The rows of printed tables with so many columns."""
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in printed.splitlines() if line.startswith("│")]
    return [row for row in rows if len(row) == cells]


def costs(printed: str) -> dict[str, list[str]]:
    """The cells of the printed table behind each column's name."""
    return {row[0]: row[1:] for row in rows_of(printed, 6)}


def asked(folder: Path, **changes: object) -> tuple[object, ...]:
    write_policy(folder, changed(FLAT, **changes))
    return ("cost", folder / "flat_table.yaml", "--delivery", write_people(folder / "in", ALIKE + RARE))


def test_each_column_of_a_flat_table(tmp_path):
    """At the finest node three of 63 records are in classes below 4. Without towns nobody is, and without age the same three.

    One level coarser, towns are districts, and only the third is alone.
    """
    code, printed = deid_here(tmp_path / "deid", *asked(tmp_path))
    assert code == PUBLISHED and nothing_is_published(tmp_path / "deid"), printed
    assert costs(printed) == {
        "Town": ["town", "0.0476", "none", "0.0159", "none"],
        "Age": ["years", "0.0000", "none", "0.0476", "none"],
        "Sex": ["as it is", "0.0000", "none", "", ""],
    }
    assert "0.0476 of 63 records are at high risk" in unwrapped(printed)
    assert not re.search("town [0-9]|district [0-9]", printed)


def test_what_leaving_a_column_out_would_buy(tmp_path):
    """Where nobody may be alone, towns and ages are not released. Without sex, decades would be: of 42 and of 21."""
    code, printed = deid_here(tmp_path / "deid", *asked(tmp_path, risk={"k": 21, "max_suppressed": 0.0}))
    found = costs(printed)
    assert code == PUBLISHED, printed
    assert found["Sex"][1:3] == ["0.0000", "Age"] and found["Town"][1:3] == ["0.0000", "none"]


def test_what_does_not_pass_is_refused_as_by_a_plan(tmp_path):
    code, printed = deid_here(tmp_path / "deid", *asked(tmp_path, risk={"k": 100, "max_suppressed": 0.0}))
    assert code == REFUSED and "cannot pass" in printed and "adds" not in printed, printed


WOMEN = [{"person": f"patient {n}", "age": 30, "sex": "F", "race": "White", "state": "WA", "likes": "tea"} for n in range(12)]


def costs_of_cohort(folder: Path, **changes: Any) -> tuple[dict[str, list[str]], str]:
    """Of twelve women of 30 in one of two states, where each sex, race and year of age below 85 has 20 people in each state."""
    write_policy(folder, cohort_values(**changes))
    delivery = deliver(folder / "in", cohort=WOMEN, table=[row | {"people": row["people"] // 10} for row in population()])
    code, printed = deid_here(folder / "deid", "cost", folder / "cohort.yaml", "--delivery", delivery)
    assert code == PUBLISHED and nothing_is_published(folder / "deid"), printed
    return costs(printed), unwrapped(printed)


def test_each_column_of_a_cohort_beside_its_population(tmp_path):
    """Each is one of 20 people; of 40 without the sex or the state, of 60 without the race, of 1,748 without the age."""
    found, printed = costs_of_cohort(tmp_path)
    assert "0.0500 of 12 people are expected to be re-identified" in printed and "up to 0.0500" in printed
    assert {name: row[1] for name, row in found.items()} == {
        "Age": "0.0494", "Race": "0.0333", "Sex": "0.0250", "Place": "0.0250",
    }  # fmt: skip
    assert not re.search("patient [0-9]|White", printed)


def test_what_a_coarser_column_of_a_cohort_would_buy(tmp_path):
    """In bands of five years each is one of 100, and could be told the year: of 20, as under Safe Harbor."""
    levels = {"age": "5 years, 90+", "ethnicity": "AA/WH/OT", "geography": "state", "sex": "sex"}
    found, _ = costs_of_cohort(tmp_path, demographics={"levels": levels})
    assert found == {
        "Age": ["5 years, 90+", "0.0094", "none", "0.0050", "none"],
        "Race": ["any", "0.0067", "Age", "0.0033", "Age"],
        "Place": ["state", "0.0050", "Age", "0.0050", "Age"],
        "Sex": ["sex", "0.0050", "Age", "0.0050", "Age"],
    }


def costs_of_events(printed: str, values: dict[str, Any]) -> dict[str, float]:
    """What each column and table adds, by its name; each column of the policy has a row, and so has each table."""
    found = {name: cells for name, cells in costs(printed).items() if name}  # a row may go on in a second line
    names = {one["release_as"] for level in values["quasi_identifiers"].values() for one in level}
    tables = ("members", "claims", *values["source"].get("events", ()))
    assert set(found) == {*names, *(f"all of {table}" for table in tables)}
    return {name: float(cells[1]) for name, cells in found.items()}


@pytest.mark.matrix
def test_columns_and_tables_of_claims(tmp_path):
    """Each has its row, and so has all of each table."""
    write_policy(tmp_path, SMALL)
    code, printed = deid_here(tmp_path / "deid", "cost", tmp_path / "small.yaml", "--members", 3_000)
    assert code == PUBLISHED and nothing_is_published(tmp_path / "deid"), printed
    adds = costs_of_events(printed, SMALL)
    tables = {name for name in adds if name.startswith("all of")}
    assert max(adds[table] for table in tables) >= max(adds[name] for name in adds.keys() - tables) > 0
    values = rows_of(printed, 4)
    by_sex = {value: float(share) for name, value, share, _ in values if name == "Sex"}
    parts = {name: sum(float(part) for one, _, _, part in values if one == name) for name in ("Sex", "PlaceSvc")}
    assert parts["Sex"] == pytest.approx(1, abs=0.01) and parts["PlaceSvc"] > 1, "people have claims at several places"
    overall = re.search(r"At these levels ([0-9.]+) of", unwrapped(printed))
    assert set(by_sex) == {"F", "M"} and [*by_sex.values()] == sorted(by_sex.values(), reverse=True), printed
    assert overall and min(by_sex.values()) - 0.005 <= float(overall[1]) <= max(by_sex.values()) + 0.005, "they average to all"


@pytest.mark.matrix
def test_columns_of_another_table_of_events_are_its_own(tmp_path):
    """A table with one column costs what the column costs, and claims what their only column costs."""
    tables = delivery_with_fills(tmp_path, 3_000)
    (tmp_path / "drugs.csv").write_text(TABLE_OF_DRUGS)
    write_policy(tmp_path, FILLS)
    code, printed = deid_here(tmp_path / "deid", "cost", tmp_path / "fills.yaml", "--delivery", tables)
    assert code == PUBLISHED and nothing_is_published(tmp_path / "deid"), printed
    adds = costs_of_events(printed, FILLS)
    assert adds["all of fills"] == adds["DrugGroup"] > 0 and adds["all of claims"] == adds["PlaceSvc"]
