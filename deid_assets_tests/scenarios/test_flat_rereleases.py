"""Flat releases of several deliveries about the same people, one after the other in one home."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from deid_assets.errors import ERROR, PUBLISHED, REFUSED
from deid_assets.release.cumulative import tags_in_order
from deid_assets.release.keyring import secret_of
from deid_assets.release.keys import SigningKey
from deid_assets.release.publication.verification import verify_release
from deid_assets_tests.scenarios.conftest import made_once
from deid_assets_tests.scenarios.pipeline import Pipeline, copy_of, pipeline_in
from deid_assets_tests.scenarios.policies import changed, write_policy
from deid_assets_tests.scenarios.test_flat_release import FLAT, QUASI_IDENTIFIERS, WITH_PERSONS, people, write_people
from deid_assets_tests.stages import FLAT_STAGES

pytestmark = pytest.mark.matrix

FIRST, SECOND = "flat_table/0001", "flat_table/0002"
SHIFTED = {
    "kind": "codes",
    "level_names": ["years", "shifted decade", "any"],
    "values": {str(n): [f"{(n - 5) // 10}5s", "*"] for n in range(20, 70)},
}
"""Decades that begin in the middle of those of the other policy, so that both together tell halves of decades."""


def numbered(rows: list[list[str]], first: int = 0) -> list[list[str]]:
    """The rows with an identifier of each person."""
    return [[*row[:4], f"person {number}"] for number, row in enumerate(rows, first)]


def policy(name: str = "flat_table", persons: bool = True, shifted: bool = False, **changes: Any) -> dict[str, Any]:
    """A policy with decades of one of two kinds."""
    hierarchies = {**FLAT["hierarchies"], "age": SHIFTED} if shifted else FLAT["hierarchies"]
    return changed(WITH_PERSONS if persons else FLAT, policy=name, hierarchies=hierarchies, **changes)


def run(pipeline: Pipeline, values: dict[str, Any], key: str, rows: list[list[str]]):
    """Release a delivery under a policy."""
    write_policy(pipeline.home.policies, values)
    pipeline.policy = values["policy"]
    pipeline.register(key, "flat", write_people(pipeline.home.deliveries / key, rows))
    return pipeline.run(key)


def released(pipeline: Pipeline, release: str) -> list[tuple[str, ...]]:
    with (pipeline.home.releases / release / "data" / "Records.csv").open(newline="") as file:
        return sorted(tuple(row[name] for name in QUASI_IDENTIFIERS) for row in csv.DictReader(file))


def kept(pipeline: Pipeline, release: str) -> Path:
    return pipeline.home.store / "manifests" / f"{release}.rows.parquet"


def linked_numbers(pipeline: Pipeline, release: str) -> dict[str, float]:
    manifest = json.loads((pipeline.home.releases / release / "manifest.json").read_bytes())
    (found,) = (item for item in manifest["evidence"] if item["asset"] == "record_cross_release_risk")
    return {one["name"]: one["value"] for one in found["measurements"]}


def shown_of(pipeline: Pipeline, release: str) -> dict[int, tuple[str, bool]]:
    """What a release shows of each person, by tag."""
    rows = duckdb.sql(
        f"SELECT tag, label, released FROM '{kept(pipeline, release)}' WHERE quasi_identifier = 'record'"
    ).fetchall()
    return {tag: (label, shown) for tag, label, shown in rows}


def smallest_pair(pipeline: Pipeline, first: str, second: str) -> int:
    """The smallest class under the labels of two releases, of people in both."""
    one, two = shown_of(pipeline, first), shown_of(pipeline, second)
    pairs = [(one[tag][0], two[tag][0]) for tag in one if tag in two and one[tag][1] and two[tag][1]]
    return min(map(pairs.count, set(pairs)))


@pytest.fixture(scope="module")
def first_released(tmp_path_factory) -> Path:
    """A home with a release of 600 people who can be known again."""
    with made_once(tmp_path_factory, "first_flat") as (folder, missing):
        if missing:
            with pipeline_in(folder / "deid", "flat_table") as pipeline:
                assert run(pipeline, policy(), "first", numbered(people())).exit_code == PUBLISHED
    return folder / "deid"


@pytest.fixture
def pipeline(first_released, tmp_path) -> Iterator[Pipeline]:
    """A copy of that home for one test."""
    with copy_of(first_released, tmp_path / "deid", "flat_table") as pipeline:
        yield pipeline


def test_other_levels_for_the_same_people_are_refused(pipeline):
    rows = numbered(people())
    assert shown_of(pipeline, FIRST) and linked_numbers(pipeline, FIRST)["earlier_record_releases"] == 0
    refused = run(pipeline, policy("other", shifted=True), "second", rows[:598])
    assert refused.exit_code == REFUSED and pipeline.releases == [FIRST], refused
    (told,) = [one for one in refused.failed_checks if one.startswith("linked_classes_within_threshold")]
    assert "measured 1, threshold 0; show the columns and levels of the earlier release" in told and "pinned" in told


def test_the_same_levels_are_linked_and_who_moved_alone_is_left_out(pipeline):
    rows = numbered(people())
    later = [["town 0", *row[1:]] if number % 100 == 7 else row for number, row in enumerate(rows)]
    assert run(pipeline, policy(), "second", later).exit_code == PUBLISHED
    assert smallest_pair(pipeline, FIRST, SECOND) >= 4
    numbers = linked_numbers(pipeline, SECOND)
    assert numbers["earlier_record_releases"] == 1 and numbers["releases_that_single_out_people"] == 0
    report = (pipeline.home.releases / SECOND / "report.html").read_text()
    assert "This release and earlier ones together" in report
    key = SigningKey.load_or_create(pipeline.home.keys).public
    assert verify_release(pipeline.home.releases / SECOND, key).ok
    assert not any("person 7" in path.read_text() for path in (pipeline.home.releases / SECOND / "data").glob("*.csv"))
    again = pipeline.run("second")
    assert again.exit_code == PUBLISHED and pipeline.releases == [FIRST, SECOND], "the same inputs are released once"


def test_new_people_who_would_stand_out_are_left_out(pipeline):
    rows = numbered(people())
    joined = numbered(people(3, seed=5), first=1000)
    assert run(pipeline, policy(), "second", [*rows, *joined]).exit_code == PUBLISHED
    assert released(pipeline, SECOND) == released(pipeline, FIRST), "fewer than four joined each class"


def test_a_new_person_with_a_rare_pair_of_common_records_is_left_out(fresh):
    """Otherwise the difference of both tables would be exactly this person's records."""
    source = {"kind": "flat", "file": "people.csv", "person": "secret", "records_per_person": 2}
    rows = numbered(people())
    joined = [[*rows[number][:4], "a new person"] for number in (0, 300)]
    assert run(fresh, policy(source=source), "first", rows).exit_code == PUBLISHED
    assert run(fresh, policy(source=source), "second", [*rows, *joined]).exit_code == PUBLISHED
    assert released(fresh, SECOND) == released(fresh, FIRST)


def test_who_alone_has_another_value_is_left_out_though_the_column_was_renamed(pipeline):
    """Otherwise both tables would differ in this person's row only."""
    renamed = policy(attributes=[{"column": "drinks", "release_as": "Drinks"}])
    rows = numbered(people())
    secret = secret_of(pipeline.home)
    tags = [int(tags_in_order([row[4]], secret)[0]) for row in rows]
    drinker = next(n for n, row in enumerate(rows) if row[3] == "tea" and shown_of(pipeline, FIRST)[tags[n]][1])
    rows[drinker][3] = "coffee"
    folder = write_people(pipeline.home.deliveries / "second", rows)
    table = folder / "people.csv"
    table.write_text(table.read_text().replace("likes", "drinks", 1))
    write_policy(pipeline.home.policies, renamed)
    pipeline.register("second", "flat", folder)
    assert pipeline.run("second").exit_code == PUBLISHED
    assert not shown_of(pipeline, SECOND)[tags[drinker]][1]


def test_too_many_who_left_refuse(fresh):
    rows = numbered(people())
    values = policy(risk={"k": 20, "max_suppressed": 0.05})
    assert run(fresh, values, "first", rows).exit_code == PUBLISHED
    summary = run(fresh, values, "second", [row for number, row in enumerate(rows) if number % 15])
    (told,) = summary.failed_checks
    assert summary.exit_code == REFUSED and told.startswith("missed_people_within_threshold: measured 1") and "left" in told


def test_where_nothing_identifies_people_a_second_release_needs_a_statement(fresh):
    """At any levels, also at the same: who joined and who left would be the difference of both tables."""
    pinned = policy(persons=False, releases={"generalization": "pinned"})
    assert run(fresh, pinned, "first", people()).exit_code == PUBLISHED
    assert not kept(fresh, FIRST).read_bytes(), "whose records they are, nobody knows"
    for again in (pinned, policy("other", persons=False, shifted=True), policy("with_people", shifted=True)):
        refused = run(fresh, again, "second", numbered(people(seed=3)) if again["source"].get("person") else people(seed=3))
        (told,) = refused.failed_checks
        assert refused.exit_code == REFUSED and told.startswith("record_releases_not_compared") and "other_people" in told
    stated = changed(pinned, releases={"other_people": {"flat_table": "people of another country"}})
    assert run(fresh, stated, "third", people(2000, seed=2)).exit_code == PUBLISHED
    assert linked_numbers(fresh, SECOND)["releases_stated_to_be_of_other_people"] == 1


@pytest.mark.parametrize("persons", [True, False])
def test_a_statement_is_refused_if_what_was_delivered_recurs(fresh, persons):
    """Published rows are too coarse to recur alone; delivered ones are not."""
    assert run(fresh, policy(persons=persons), "first", numbered(people())).exit_code == PUBLISHED
    stated = policy(persons=persons, releases={"other_people": {"flat_table": "These people live in another town."}})
    again = run(fresh, stated, "again", numbered(people(), first=5_000))
    (told,) = again.reasons
    assert again.exit_code == REFUSED and "more occur once there, too, than is expected of others" in told
    assert run(fresh, stated, "others", numbered(people(seed=9), first=9_000)).exit_code == PUBLISHED


def test_nobody_gets_round_a_refusal_without_the_person_or_with_other_identifiers(pipeline):
    rows = numbered(people())
    respelled = [[*row[:4], row[4].upper()] for row in rows]
    for key, values, delivered in [
        ("without", policy(persons=False), rows[1:]),
        ("respelled", policy(), respelled[1:]),
    ]:
        refused = run(pipeline, values, key, delivered)
        (told,) = refused.failed_checks
        assert refused.exit_code == REFUSED and told.startswith("record_releases_not_compared")
    assert pipeline.releases == [FIRST]


def test_kept_rows_that_were_changed_are_an_error(pipeline):
    rows = numbered(people())
    kept(pipeline, FIRST).write_bytes(b"changed")
    summary = run(pipeline, policy(), "second", rows[:590])
    assert summary.exit_code == ERROR and "restore it" in " ".join(summary.reasons)
    assert pipeline.releases == [FIRST]


def test_evidence_that_knows_an_earlier_release_less_refuses(fresh):
    rows = numbered(people())
    write_policy(fresh.home.policies, policy())
    fresh.register("second", "flat", write_people(fresh.home.deliveries / "second", rows))
    fresh.run("second", [name for name in fresh.every_asset if name != "release"])
    assert run(fresh, policy("other", shifted=True), "first", rows[:580]).exit_code == PUBLISHED
    fresh.policy = "flat_table"
    summary = fresh.run("second", ["release"])
    assert summary.exit_code == ERROR and "measured beside other earlier releases" in " ".join(summary.reasons)


@pytest.mark.parametrize("loss", ["entropy", "discernibility"])
def test_pinned_levels_are_used_again_though_others_would_lose_less(fresh, loss):
    """Ten times as many people would pass at finer levels."""
    pinned = {"releases": {"generalization": "pinned"}, "risk": {"k": 4, "max_suppressed": 0.05, "loss": loss}}
    rows = numbered(people())
    assert run(fresh, policy(**pinned), "first", rows).exit_code == PUBLISHED
    more = [*rows, *numbered(people(6000, seed=4), first=600)]
    assert run(fresh, policy(**pinned), "second", more).exit_code == PUBLISHED
    manifests = fresh.home.store / "manifests"
    levels = [json.loads((manifests / f"{name}.json").read_bytes())["generalization"] for name in (FIRST, SECOND)]
    assert levels[0] == levels[1] and smallest_pair(fresh, FIRST, SECOND) >= 4
    key = SigningKey.load_or_create(fresh.home.keys).public
    exact = manifests / f"{SECOND}.certificate.json"
    report = verify_release(fresh.home.releases / SECOND, key, exact_certificate=exact)
    assert report.ok, report.text()
    assert json.loads(exact.read_bytes())["passed_over"], "others lose less"
    few = run(fresh, policy(**pinned), "third", rows[:40])
    assert few.exit_code == REFUSED and "the generalization is pinned" in " ".join(few.reasons)


def test_the_log_says_which_tables_of_its_own_delivery_a_release_was_made_from(fresh):
    """Also while another delivery is at work: Dagster by itself notes the newest table, whichever delivery it is of."""
    rows = numbered(people())
    write_policy(fresh.home.policies, policy())
    for key in ("first", "second"):
        fresh.register(key, "flat", write_people(fresh.home.deliveries / key, rows))
    begun = [*FLAT_STAGES["intake"], *FLAT_STAGES["generalization"]]
    rest = [name for stage, names in FLAT_STAGES.items() if stage not in ("intake", "generalization") for name in names]
    for key in ("first", "second"):
        assert not fresh.run(key, begun).failed_checks
    summary = fresh.run("first", rest)
    assert summary.exit_code == PUBLISHED, summary
