"""Counts that are published with a flat table, and with a cohort: protected, charged, audited, and read again by the gate."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deid_assets.errors import ERROR, PUBLISHED, REFUSED
from deid_assets.methods.counts.cohort import TOLD_BY_FILES
from deid_assets.methods.counts.estimates import ConsistentNoise
from deid_assets.methods.counts.published_tables import names_of
from deid_assets.release.keys import SigningKey
from deid_assets.release.publication.verification import verify_release
from deid_assets.stages import stages_of
from deid_assets_tests.scenarios import test_cohort_release as cohort
from deid_assets_tests.scenarios import test_flat_release as flat
from deid_assets_tests.scenarios.conftest import made_once
from deid_assets_tests.scenarios.pipeline import Pipeline, copy_of, pipeline_in
from deid_assets_tests.scenarios.policies import changed, write_policy
from deid_assets_tests.scenarios.test_published_counts import charges, spend

KEY = "rows"


@dataclass(frozen=True)
class Kind:
    """One kind of policy, with a delivery of 600 or 400 people."""

    name: str
    policy: dict[str, Any]
    file: str
    remaining: tuple[str, ...]
    variables: dict[str, int]


FLAT = Kind(
    "flat",
    changed(
        flat.FLAT,
        source={"kind": "flat", "file": "people.csv", "person": "secret", "records_per_person": 2},
        counts={
            "protection": "noise", "ordered": ["Age"],
            "characteristics": {"Age": "decade", "Sex": "as it is", "Likes": ["tea", "coffee"]},
        },
    ),
    "Records",
    ("delivered_records", "records", "released_records"),
    {"age": 6, "sex": 3, "likes": 4},
)  # fmt: skip
COHORT = Kind(
    "cohort",
    cohort.with_level(
        columns__person__release_as="Person",
        attributes=[{"column": "likes", "release_as": "Likes"}],
        intake={"quarantine_at_most": 0.05},
        counts={
            "protection": "noise",
            "characteristics": {"Age": "10 years, 90+", "Sex": "sex", "Place": "state", "Likes": ["tea"]},
        },
    ),
    "People",
    ("delivered_people", "cohort_people", "released_people"),
    {"age": 10, "sex": 2, "geography": 2, "likes": 3},
)  # fmt: skip


def deliver(kind: Kind, folder: Path) -> Path:
    """Two records of each person in the flat table; two rows that cannot be used."""
    if kind is FLAT:
        rows = [[*row[:-1], f"person {number // 2}"] for number, row in enumerate(flat.people())]
        return flat.write_people(folder, [*rows, *[["town 1", "200", "F", "tea", "nobody"]] * 2])
    unusable = [{**one, "person": f"unusable {one['person']}", "sex": "?"} for one in cohort.people(2)]
    return cohort.deliver(folder, [*cohort.people(), *unusable])


@pytest.fixture(
    scope="session", params=[pytest.param(FLAT, id="flat"), pytest.param(COHORT, id="cohort", marks=pytest.mark.matrix)]
)
def prepared(request, tmp_path_factory) -> tuple[Kind, Path]:
    """A home with everything done but the release."""
    kind = request.param
    with made_once(tmp_path_factory, f"counts_{kind.name}") as (folder, missing):
        if missing:
            with pipeline_in(folder / "deid", kind.policy["policy"]) as pipeline:
                write_policy(pipeline.home.policies, kind.policy)
                pipeline.register(KEY, kind.name, deliver(kind, folder / "in"))
                pipeline.prepare(KEY)
    return kind, folder / "deid"


@pytest.fixture
def kind(prepared) -> Kind:
    return prepared[0]


@pytest.fixture
def pipeline(prepared, tmp_path) -> Iterator[Pipeline]:
    """A copy of the prepared home for one test, to do harm in."""
    with copy_of(prepared[1], tmp_path / "deid", prepared[0].policy["policy"]) as pipeline:
        yield pipeline


def refused(pipeline: Pipeline, because: str, exit_code: int = REFUSED) -> None:
    summary = pipeline.run(KEY, ["release"])
    assert summary.exit_code == exit_code and summary.release is None, summary
    assert because in " ".join(summary.reasons), summary.reasons
    assert not pipeline.releases


@pytest.mark.matrix
def test_the_files_the_manifest_and_the_report_show_the_same_protected_counts(pipeline, kind):
    summary = pipeline.run(KEY, ["release"])
    assert summary.exit_code == PUBLISHED, summary
    data = summary.release / "data"
    steps, classes, percentiles = (
        pd.read_csv(data / f"{name}.csv") for name in ("Attrition", "Characteristics", "Distributions")
    )
    exact = pipeline.table(KEY, "cohort_counts").frame()
    assert steps["Stage"].drop_duplicates().tolist() == list(kind.remaining) and set(steps["Unit"]) == {"records"}
    assert classes.groupby("Variable").size().to_dict() == kind.variables
    rows = len(pd.read_csv(data / f"{kind.file}.csv"))
    released = steps[(steps["Stage"] == kind.remaining[-1]) & (steps["Counted"] == "remaining")]
    assert released[["Count", "SD"]].to_numpy().tolist() == [[rows, 0.0]], "the files tell it anyway"

    shown = {("attrition", row.Stage, row.Counted): (row.Count, row.SD) for row in steps.itertuples()}
    shown |= {("characteristics", row.Variable, row.Class): (row.Count, row.SD) for row in classes.itertuples()}
    most = kind.policy["source"].get("records_per_person", 1)
    told = {tuple(name) for name in TOLD_BY_FILES}
    noise = []
    for name, count in zip(names_of(exact), exact["count"], strict=True):
        assert shown[name][1] == (0.0 if name in told else 2.5 * most), name
        noise.append(shown[name][0] - count)
        assert name not in told or noise[-1] == 0, name
    assert len(shown) == len(exact) and np.std(noise) > most

    manifest = json.loads((summary.release / "manifest.json").read_text())
    assert {step["stage"]: step["rows_out"] for step in manifest["attrition"]} == {
        stage: count for (table, stage, counted), (count, _) in shown.items() if (table, counted) == ("attrition", "remaining")
    }
    cells = {(cell["table"], cell["row"], cell["column"]): cell["shown"] for cell in manifest["counts"]["cells"]}
    assert cells == {name: count for name, (count, _) in shown.items()} and manifest["counts"]["sd"] == 2.5 * most
    assert [item["asset"] for item in manifest["evidence"]][-2:] == ["count_disclosure_audit", "gate"]
    dictionary = json.loads((data / "dictionary.json").read_text())["tables"]
    assert set(dictionary) == {kind.file, "Attrition", "Characteristics", "Distributions"}
    assert set(percentiles["Variable"]) == {"age"} and percentiles["Class"].notna().all()
    page = (summary.release / "report.html").read_text()
    assert "What the records are" in page and "guesses that right with a probability of at most" in page
    assert ("The delivery identifies persons, and no person has more than 2 records" in page) == (kind is FLAT)

    (charge,) = charges(pipeline)
    assert manifest["counts"]["budget"]["spent_rho"] == charge.billionths / 1e9
    summary = pipeline.run(KEY, ["release"])
    assert summary.exit_code == PUBLISHED and charges(pipeline) == [charge], "the same delivery repeats its numbers at no cost"

    key = SigningKey.load_or_create(pipeline.home.keys).public
    assert verify_release(data.parent, key, pipeline.registry.path).ok
    file = data / "Characteristics.csv"
    content = file.read_text().splitlines()
    content[1] = content[1].replace(",", ",1", 2)
    file.chmod(0o600)
    file.write_text("\n".join(content) + "\n")
    assert not verify_release(data.parent, key, pipeline.registry.path).ok


def test_counts_that_were_changed_in_the_store_are_refused(pipeline):
    pipeline.edit_store(KEY, "UPDATE counts.published_counts SET count = count + 1 WHERE \"row\" = 'age'")
    refused(pipeline, "Characteristics: the staged counts are not the protected counts of this delivery", ERROR)


@pytest.mark.matrix
def test_a_spent_budget_refuses_before_a_number_is_drawn(pipeline, monkeypatch):
    spend(pipeline, 49.95)
    monkeypatch.setattr(ConsistentNoise, "draw", lambda *args: pytest.fail("a number was drawn"))
    refused(pipeline, "refused by the budget of noise: these counts cost")


@pytest.mark.matrix
def test_masks_hide_how_few_were_left_out_from_who_counts_the_released_rows(pipeline, kind):
    """Of a flat table, they would subtract the rows of a class; of a cohort, a number before the last step."""
    summary = pipeline.run(KEY, [*masked(pipeline, kind, {"Sex": "as it is"} if kind is FLAT else {"Sex": "sex"}), "release"])
    if kind is FLAT:
        assert summary.exit_code == REFUSED and summary.release is None, summary
        assert "classes are shown of which few records were left out" in " ".join(summary.reasons)
        return
    assert summary.exit_code == PUBLISHED, summary
    steps = pd.read_csv(summary.release / "data/Attrition.csv")
    before, left_out = kind.remaining[:2]
    marks = {(row.Stage, row.Counted): row.Mark for row in steps.itertuples()}
    assert marks[left_out, "excluded"] == "T" and marks[before, "remaining"] == "H" and steps["SD"].isna().all()
    manifest = json.loads((summary.release / "manifest.json").read_text())
    assert manifest["counts"]["tables"] == "masked"
    assert {step["stage"]: step["rows_out"] for step in manifest["attrition"]}[before] == "H"


@pytest.mark.matrix
def test_small_classes_are_refused_where_the_files_tell_them(pipeline, kind):
    """Of a cohort, everybody is in its files, and of this flat table all but two: who counts them knows nearly every class."""
    fine = {"Town": "town", "Age": "years"} if kind is FLAT else {"Age": "1 year, 90+"}
    summary = pipeline.run(KEY, [*masked(pipeline, kind, fine), "release"])
    assert summary.exit_code == REFUSED and summary.release is None, summary
    to_a_reader = "small counts would stay too well known to a reader of this program, whatever is hidden"
    of_everybody = "classes hold few people, and the released files, which leave nobody out"
    assert (to_a_reader if kind is FLAT else of_everybody) in " ".join(summary.reasons)


def masked(pipeline: Pipeline, kind: Kind, characteristics: dict[str, Any]) -> list[str]:
    """Ask for masked tables; return the assets that have to be made again."""
    values = changed(kind.policy, counts={"protection": "masked", "characteristics": characteristics})
    stages = stages_of(write_policy(pipeline.home.policies, values))
    return [name for stage, names in stages.items() if stage not in ("intake", "release") for name in names]
