"""Releases of different kinds about the same people, in one home: linked by their identifiers, or said not to be compared."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from deid_assets.errors import PUBLISHED, REFUSED
from deid_assets_tests.scenarios.command_line import deid
from deid_assets_tests.scenarios.conftest import CommandRun
from deid_assets_tests.scenarios.pipeline import Pipeline, copy_of
from deid_assets_tests.scenarios.policies import changed, write_policy
from deid_assets_tests.scenarios.test_flat_release import FLAT, WITH_PERSONS, people, write_people

pytestmark = pytest.mark.matrix

CLAIMS, TABLE = "small/0001", "flat_table/0001"


@pytest.fixture
def beside_claims(published: CommandRun, tmp_path) -> Iterator[tuple[Pipeline, list[str]]]:
    """A home with a release of claims, and the identifiers of members of its delivery."""
    with copy_of(published.pipeline.home.root, tmp_path / "deid", "flat_table") as pipeline:
        (store,) = (pipeline.home.store / "small").glob("*.duckdb")
        pipeline.policy = "small"
        members = pipeline.table(store.stem, "members").query("SELECT member_id FROM intake.members ORDER BY 1 LIMIT 600")
        pipeline.policy = "flat_table"
        yield pipeline, members["member_id"].tolist()


def of_members(folder: Path, ids: list[str]) -> Path:
    rows = [[*row[:4], one] for row, one in zip(people(), ids, strict=True)]
    return write_people(folder, rows)


def measured(pipeline: Pipeline) -> tuple[dict[str, float], dict]:
    manifest = json.loads((pipeline.home.releases / TABLE / "manifest.json").read_bytes())
    (found,) = (item for item in manifest["evidence"] if item["asset"] == "record_cross_release_risk")
    return {one["name"]: one["value"] for one in found["measurements"]}, manifest


def test_a_table_of_the_members_is_linked_with_their_claims(beside_claims, tmp_path):
    """The demographics of both, put together, single too many people out whom neither does."""
    pipeline, ids = beside_claims
    write_policy(pipeline.home.policies, WITH_PERSONS)
    pipeline.register("table", "flat", of_members(tmp_path / "table", ids))
    summary = pipeline.run("table")
    assert summary.exit_code == REFUSED and summary.release is None
    (told,) = summary.failed_checks
    assert told.startswith("linked_classes_within_threshold: measured 1, threshold 0")


def test_a_table_of_others_stands_beside_claims(beside_claims, tmp_path):
    pipeline, _ = beside_claims
    write_policy(pipeline.home.policies, WITH_PERSONS)
    pipeline.register("table", "flat", of_members(tmp_path / "table", [f"somebody else {number}" for number in range(600)]))
    assert pipeline.run("table").exit_code == PUBLISHED
    numbers, manifest = measured(pipeline)
    assert numbers["earlier_record_releases"] == 1 and numbers["record_releases_not_compared"] == 0
    assert "may only mean that identifiers are spelled otherwise" in manifest["not_compared"][CLAIMS]


def test_where_nothing_identifies_people_it_is_said_first_that_they_were_not_compared(beside_claims, tmp_path):
    pipeline, ids = beside_claims
    write_policy(pipeline.home.policies, changed(FLAT))
    pipeline.register("table", "flat", of_members(tmp_path / "table", ids))
    assert pipeline.run("table").exit_code == PUBLISHED
    numbers, manifest = measured(pipeline)
    assert numbers["releases_of_other_kinds_not_compared"] == 1
    assert "no column identifies people" in manifest["not_compared"][CLAIMS]
    said = f"Not compared with {CLAIMS}: it is of another kind, and no column identifies people here or there"
    page = (pipeline.home.releases / TABLE / "report.html").read_text()
    assert said in page and page.index(said) < page.index("<main>")
    key = tmp_path / "public.key"
    key.write_text(deid(pipeline.home.root, "key", "export")[1])
    code, printed = deid(pipeline.home.root, "verify", str(pipeline.home.releases / TABLE), "--key", str(key))
    assert code == PUBLISHED and said in " ".join(printed.split()), printed
