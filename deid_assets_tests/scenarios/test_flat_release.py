"""A flat table from its file to the gated release, and what the gate refuses of it."""

import base64
import csv
import json
import random
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

from deid_assets.assessments.assessment import CANARIES
from deid_assets.automation.ended_runs import RunSummary
from deid_assets.errors import ERROR, PUBLISHED, REFUSED
from deid_assets.methods.disclosure import attribute_disclosure
from deid_assets.methods.flat import queries
from deid_assets.methods.lattice.candidate_gates import TOO_LITTLE
from deid_assets.release.keys import SigningKey
from deid_assets.release.publication.export import write_ordered
from deid_assets.release.publication.verification import verify_release
from deid_assets.resources import OUTCOME_TAG, RELEASED
from deid_assets.sources.flat import QUARANTINED, RECORDS
from deid_assets_tests.scenarios.command_line import deid_here, unwrapped
from deid_assets_tests.scenarios.conftest import made_once
from deid_assets_tests.scenarios.pipeline import Pipeline, copy_of, pipeline_in
from deid_assets_tests.scenarios.policies import changed, write_policy
from deid_assets_tests.stages import FLAT_STAGES

KEY, K = "people", 4
QUASI_IDENTIFIERS = ("Town", "Age", "Sex")
FLAT: dict[str, Any] = {
    "policy": "flat_table",
    "kind": "flat",
    "title": "A flat table for tests",
    "description": "Town, age and sex of some people, and what they like.",
    "owners": ["team:privacy"],
    "recipients": {"recipient_class": "named researchers", "terms_of_use": "Nobody tries to identify anybody."},
    "source": {"kind": "flat", "file": "people.csv"},
    "quasi_identifiers": [
        {"column": "home town", "release_as": "Town", "hierarchy": "town"},
        {"column": "age", "release_as": "Age", "hierarchy": "age"},
        {"column": "sex", "release_as": "Sex", "hierarchy": "sex"},
    ],
    "attributes": [{"column": "likes", "release_as": "Likes"}],
    "risk": {"k": K, "max_suppressed": 0.05},
    "hierarchies": {
        "town": {
            "kind": "codes",
            "level_names": ["town", "district", "any"],
            "values": {f"town {n}": [f"district {n // 4}", "*"] for n in range(12)},
        },
        "age": {
            "kind": "codes",
            "level_names": ["years", "decade", "any"],
            "values": {str(n): [f"{n // 10}0s", "*"] for n in range(20, 70)},
        },
        "sex": {"kind": "fixed", "values": ["F", "M"]},
    },
}


def people(count: int = 600, seed: int = 1) -> list[list[str]]:
    """Rows of the table; some towns are small, and some cells are blank."""
    generator = random.Random(seed)
    return [
        [
            "" if generator.random() < 0.02 else f"town {min(int(generator.expovariate(0.4)), 11)}",
            str(generator.randint(20, 69)),
            generator.choice("FM"),
            generator.choice(["tea", "coffee", ""]),
            "never published",
        ]
        for _ in range(count)
    ]


def write_people(folder: Path, rows: list[list[str]], name: str = "people.csv") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("w", newline="") as file:
        csv.writer(file).writerows([["home town", "age", "sex", "likes", "secret"], *rows])
    return folder


def run_flat(pipeline: Pipeline, folder: Path, values: dict[str, Any] = FLAT) -> RunSummary:
    """Run everything under a policy on what was delivered in a folder."""
    write_policy(pipeline.home.policies, values)
    pipeline.register(KEY, "flat", folder)
    return pipeline.run(KEY)


def classes(rows: list[dict[str, str]]) -> Counter:
    return Counter(tuple(row[name] for name in QUASI_IDENTIFIERS) for row in rows)


def released_rows(home_root: Path, policy: str = "flat_table") -> list[dict[str, str]]:
    with (home_root / "releases" / policy / "0001" / "data" / "Records.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """A home with everything of a delivery done but its release."""
    with made_once(tmp_path_factory, "flat") as (folder, missing):
        if missing:
            prepare(folder / "deid")
    return folder / "deid"


def prepare(root: Path) -> None:
    with pipeline_in(root, "flat_table") as pipeline:
        write_policy(pipeline.home.policies, FLAT)
        pipeline.register(KEY, "flat", write_people(pipeline.home.deliveries / KEY, people()))
        pipeline.prepare(KEY)
        assert pipeline.table(KEY, "suppressed_records").count() > 0, "the scenarios need suppressed records"


@pytest.fixture
def pipeline(prepared, tmp_path) -> Iterator[Pipeline]:
    """A copy of the prepared home for one test, to do harm in."""
    with copy_of(prepared, tmp_path / "deid", "flat_table") as pipeline:
        yield pipeline


def exact_of(pipeline: Pipeline) -> Path:
    """The exact certificate of the first release, in the restricted store."""
    return pipeline.home.store / "manifests" / "flat_table" / "0001.certificate.json"


def svg_of(text: str) -> str:
    """The figure inside Markdown or an attribute."""
    return base64.b64decode(re.search(r"data:image/svg\+xml;base64,([\w+/=]+)", text)[1]).decode()


def refused(pipeline: Pipeline, because: str, code: int = REFUSED) -> RunSummary:
    """Nothing is published; the code is that of an error where something kept the gate from judging."""
    summary = pipeline.run(KEY, ["release"])
    assert summary.exit_code == code and summary.release is None, summary
    assert because in " ".join(summary.reasons), summary.reasons
    assert not list(pipeline.home.releases.glob("*/0*"))
    return summary


@pytest.fixture(scope="module")
def released(prepared, tmp_path_factory):
    with copy_of(prepared, tmp_path_factory.mktemp("published") / "deid", "flat_table") as pipeline:
        summary = pipeline.run(KEY, ["release"])
        assert summary.exit_code == PUBLISHED, summary
        yield pipeline, released_rows(pipeline.home.root)


@pytest.mark.matrix
class TestBrokenAttacks:
    """What finds no risk because it is broken does not find the canaries: the check fails, and so does the gate."""

    def refused_for(self, pipeline: Pipeline, asset: str) -> None:
        summary = pipeline.run(KEY, [asset, "release"])
        assert summary.exit_code == REFUSED and summary.release is None
        (failed,) = summary.failed_checks
        assert failed.startswith(f"{asset}_canaries_within_threshold: measured 0."), failed
        refused(pipeline, because=f"{asset}/{CANARIES}")

    def test_classes_that_overlook_a_column_are_refused(self, pipeline, monkeypatch):
        honest = queries.class_sizes
        monkeypatch.setattr(queries, "class_sizes", lambda rows, hiding, names: honest(rows, hiding, names[1:]))
        self.refused_for(pipeline, "record_risk")

    def test_attributes_of_which_nothing_is_told_are_refused(self, pipeline, monkeypatch):
        honest = attribute_disclosure.single_valued

        def nothing(*of):
            return replace(honest(*of), homogeneous_members=0)

        monkeypatch.setattr(attribute_disclosure, "single_valued", nothing)
        self.refused_for(pipeline, "record_attribute_disclosure")


class TestPublished:
    @pytest.mark.matrix
    def test_it_is_audited_drafted_and_made_again(self, released, tmp_path):
        root = released[0].home.root
        code, printed = deid_here(root, "audit", "flat_table/0001")
        assert code == PUBLISHED and "release flat_table/0001 is in order" in printed, printed
        document = json.loads((root / "store/manifests/flat_table/0001.audit.json").read_text())
        origins = {one["column"]: one["delivered"] for one in document["columns"]}
        assert origins == {"Town": ["home town"], "Age": ["age"], "Sex": ["sex"], "Likes": ["likes"]}
        code, printed = deid_here(root, "determination", "flat_table/0001", "--output", tmp_path)
        assert (
            code == PUBLISHED and "among the delivered records" in (tmp_path / "flat_table-0001-determination.md").read_text()
        )
        code, printed = deid_here(root, "reproduce", "-q", "flat_table/0001")
        assert code == PUBLISHED and "all files are equal" in printed, printed

    def test_every_record_is_like_at_least_k(self, released):
        _, rows = released
        assert min(classes(rows).values()) >= K

    def test_few_enough_are_left_out_and_the_others_are_all_there(self, released):
        _, rows = released
        assert 570 <= len(rows) < 600
        assert set(rows[0]) == {*QUASI_IDENTIFIERS, "Likes"}, "columns that are not listed anywhere are not published"

    def test_records_are_those_of_the_delivery_generalized_at_one_level_each(self, released):
        pipeline, rows = released
        levels = pipeline.table(KEY, "record_generalization").frame().set_index("column")["level"].to_dict()
        hierarchies = {name: FLAT["hierarchies"][name.lower()] for name in QUASI_IDENTIFIERS}

        def label(name: str, value: str) -> str:
            values = hierarchies[name].get("values", {})
            return value if not value or levels[name] == 0 else values[value][levels[name] - 1]

        expected = Counter(
            (*(label(n, v) for n, v in zip(QUASI_IDENTIFIERS, row[:3], strict=True)), row[3]) for row in people()
        )
        rows_expected = [dict(zip(QUASI_IDENTIFIERS, k[:3], strict=True)) for k in expected.elements()]
        small = {key for key, n in classes(rows_expected).items() if n < K}
        kept = Counter({key: n for key, n in expected.items() if key[:3] not in small})
        assert Counter((*(row[n] for n in QUASI_IDENTIFIERS), row["Likes"]) for row in rows) == kept

    def test_lattice_and_frontier_are_in_the_ui_and_decisions_alone_in_the_report(self, released):
        pipeline, _ = released
        shown = pipeline.materialization("record_lattice", KEY).metadata
        lattice, frontier = (svg_of(shown[name].value) for name in ("lattice", "frontier"))
        assert "chosen" in lattice and "non-uniform entropy [bits]" in lattice
        assert "records in small classes [%]" in frontier
        report = (pipeline.home.releases / "flat_table" / "0001" / "report.html").read_text()
        (public,) = re.findall(r'<img src="([^"]+)"', report)
        assert "mean level [% of the highest]" in svg_of(public)
        assert "entropy" not in svg_of(public) and "small classes" not in svg_of(public)

    def test_it_verifies_offline(self, released):
        pipeline, _ = released
        folder = pipeline.home.releases / "flat_table" / "0001"
        key = SigningKey.load_or_create(pipeline.home.keys).public
        report = verify_release(folder, key, pipeline.home.releases / "registry.jsonl", exact_certificate=exact_of(pipeline))
        assert report.ok, report.text()

    def test_the_certificate_tells_no_count_of_people(self, released):
        pipeline, _ = released
        told = json.loads((pipeline.home.releases / "flat_table" / "0001" / "certificate.json").read_bytes())
        exact = json.loads(exact_of(pipeline).read_bytes())
        assert exact["failed"] and all(node["of"] == 600 for node in exact["failed"])
        assert all(node["flagged"] is None and node["of"] is None for node in told["failed"])
        assert told["rounded_down_to"] * 600 >= 25

    def test_the_public_manifest_has_no_exact_count_of_what_was_left_out(self, released):
        pipeline, rows = released
        manifest = json.loads((pipeline.home.releases / "flat_table" / "0001" / "manifest.json").read_bytes())
        (before, last), counts = manifest["attrition"][-2:], manifest["counts"]
        assert before["protected"] and not last["protected"] and counts["budget"]["spent_rho"] > 0
        (left_out,) = (
            measured["value"]
            for item in manifest["evidence"]
            for measured in item["measurements"]
            if measured["name"] == "suppressed_share" and item["asset"] == "gate"
        )
        assert left_out == (before["rows_out"] - len(rows)) / before["rows_out"], "made of a noisy count, as exact as that"

    def test_what_is_left_of_each_column_is_measured_shown_and_described(self, released):
        pipeline, rows = released
        folder = pipeline.home.releases / "flat_table" / "0001"
        gate = next(item for item in json.loads((folder / "manifest.json").read_bytes())["evidence"] if item["asset"] == "gate")
        kept = {m["name"]: m["value"] for m in gate["measurements"] if m["name"].endswith("/information_kept")}
        assert set(kept) == {"Town/information_kept", "Age/information_kept"} and all(
            0 <= share <= 1 for share in kept.values()
        )
        report = (folder / "report.html").read_text()
        assert "What is left of each column" in report and "Heritage" not in report
        tables = json.loads((folder / "data" / "dictionary.json").read_bytes())["tables"]
        told = {column["name"]: column for column in tables["Records"]["columns"]}
        assert list(told) == list(rows[0])
        assert all(set(told[name]["labels"]) == {row[name] for row in rows} - {""} for name in QUASI_IDENTIFIERS)
        assert "labels" not in told["Likes"], "values of attributes are not listed"


class TestDetail:
    """Without it the best generalization has districts and decades."""

    UPSTREAM = (*FLAT_STAGES["generalization"], *FLAT_STAGES["candidate"], *FLAT_STAGES["counts"], *FLAT_STAGES["assessment"])

    @pytest.mark.matrix
    def test_the_search_takes_the_best_node_that_keeps_what_the_policy_requires(self, pipeline):
        write_policy(pipeline.home.policies, changed(FLAT, detail_at_least={"Town": 0.9}))
        summary = pipeline.run(KEY, [*self.UPSTREAM, "release"])
        assert summary.exit_code == PUBLISHED, summary
        levels = pipeline.table(KEY, "record_generalization").frame().set_index("column")["level"].to_dict()
        assert levels == {"Town": 0, "Age": 2, "Sex": 0}
        folder = pipeline.home.releases / "flat_table" / "0001"
        passed = json.loads((folder / "certificate.json").read_bytes())["passed_over"]
        assert passed and {found["gate"] for found in passed} == {TOO_LITTLE}
        key = SigningKey.load_or_create(pipeline.home.keys).public
        report = verify_release(folder, key, pipeline.home.releases / "registry.jsonl", exact_certificate=exact_of(pipeline))
        assert report.ok, report.text()

    def test_where_no_such_node_passes_the_refusal_says_so(self, pipeline):
        write_policy(pipeline.home.policies, changed(FLAT, detail_at_least={"Town": 0.9, "Age": 0.9}))
        summary = pipeline.run(KEY, ["record_lattice", "record_generalization"])
        assert summary.exit_code == REFUSED and summary.release is None
        assert "the coarsest node that keeps what detail_at_least requires" in " ".join(summary.reasons)


class TestGate:
    """Each begins where all checks have passed; then something is changed and `release` is materialized alone."""

    def test_a_release_that_keeps_less_than_the_policy_asks_for(self, pipeline):
        write_policy(pipeline.home.policies, changed(FLAT, detail_at_least={"Town": 0.999}))
        refused(pipeline, "too little detail: Town keeps less of its information")

    def test_a_record_slipped_back_in(self, pipeline):
        pipeline.edit_store(KEY, "INSERT INTO candidate.release_records SELECT 'town 11', '20', 'F', 'tea' FROM range(1)")
        refused(pipeline, "the staged rows differ from those that the restricted store gives")

    @pytest.mark.matrix
    def test_a_candidate_and_evidence_made_of_edited_hierarchies(self, pipeline):
        pipeline.edit_store(KEY, "UPDATE generalization.record_domains SET label = 'x' WHERE quasi_identifier = 'Town'")
        pipeline.run(KEY, ["suppressed_records", "release_records", "record_risk"])
        refused(pipeline, "record_domains: its table is not the one that was materialized", ERROR)

    @pytest.mark.matrix
    def test_members_of_small_classes_who_are_not_suppressed(self, pipeline):
        pipeline.edit_store(KEY, "DELETE FROM generalization.suppressed_records")
        summary = pipeline.run(KEY, ["release_records", "record_risk"])
        assert summary.exit_code == REFUSED
        assert any(text.startswith("smallest_class_within_threshold") for text in summary.failed_checks)
        refused(pipeline, "gate: smallest_class is not at least its threshold")

    @pytest.mark.matrix
    def test_a_policy_changed_after_the_assessment(self, pipeline):
        write_policy(pipeline.home.policies, changed(FLAT, risk={"k": K + 1, "max_suppressed": 0.05}))
        refused(pipeline, "record_risk: it was measured under another policy")

    def test_a_file_changed_after_it_was_taken_in(self, pipeline):
        file = pipeline.home.deliveries / KEY / "people.csv"
        file.write_bytes(file.read_bytes() + b"town 1,20,F,tea,x\n")
        refused(pipeline, "the delivery's files changed after they were taken in", ERROR)

    @pytest.mark.matrix
    def test_a_staged_file_that_was_tampered_with(self, pipeline, monkeypatch):
        def tampering(connection, content, path, order_by=()):
            write_ordered(connection, content, path, order_by)
            if path.suffix == ".csv":
                path.write_bytes(path.read_bytes() + b"town 11,20,F,tea\n")

        monkeypatch.setattr("deid_assets.release.publication.export.write_ordered", tampering)
        summary = pipeline.run(KEY, ["release"])
        assert summary.exit_code == ERROR and summary.release is None
        assert "does not read back" in " ".join(summary.reasons)

    @pytest.mark.matrix
    def test_evidence_that_was_never_made(self, pipeline):
        pipeline.edit_store(KEY, "DROP TABLE assessment.record_risk")
        refused(pipeline, "record_risk: the stored evidence cannot be read", ERROR)


SAMPLED = changed(FLAT, source={"kind": "flat", "file": "sample.csv"}, population={"file": "people.csv"})


def with_population(folder: Path, rows: list[list[str]]) -> Path:
    """Deliver these rows beside a table of the population."""
    write_people(folder, people())
    return write_people(folder, rows, "sample.csv")


@pytest.mark.matrix
def test_classes_are_counted_in_the_population_where_there_is_one(fresh, tmp_path):
    """k-map: 60 of 600 people are released; each is like at least k of the 600, and few are like k of the 60."""
    folder = with_population(tmp_path / "in", people()[:60])
    summary = run_flat(fresh, folder, SAMPLED)
    assert summary.exit_code == PUBLISHED, summary
    rows = released_rows(fresh.home.root)
    assert 57 <= len(rows) <= 60
    assert min(classes(rows).values()) < K, "or the population would make no difference"


@pytest.mark.matrix
def test_a_population_that_lacks_the_records_hides_nobody(fresh, tmp_path):
    folder = with_population(tmp_path / "in", people(300, seed=2) * 3)
    summary = run_flat(fresh, folder, SAMPLED)
    assert summary.exit_code == REFUSED
    assert "population_holds_the_records" in " ".join([*summary.reasons, *summary.failed_checks])


@pytest.mark.matrix
def test_a_population_that_was_edited_refuses(fresh, tmp_path):
    """Whoever makes the classes of the population larger makes everybody look safe."""
    folder = with_population(tmp_path / "in", people()[:60])
    write_policy(fresh.home.policies, SAMPLED)
    fresh.register(KEY, "flat", folder)
    fresh.run(KEY, [RECORDS, QUARANTINED])
    fresh.edit_store(KEY, "INSERT INTO intake.population_records SELECT p.* FROM intake.population_records AS p, range(20)")
    rest = [name for stage, names in FLAT_STAGES.items() if stage != "intake" for name in names]
    summary = fresh.run(KEY, rest)
    assert summary.exit_code in (ERROR, REFUSED) and summary.release is None
    assert "population_records: its table is not the one that was taken in" in " ".join(summary.reasons)


def test_a_delivery_of_one_file_reads_no_other(fresh, tmp_path):
    """Its digest covers that file alone: what lies beside it could be changed, and the release would be called unchanged."""
    folder = with_population(tmp_path / "in", people()[:60])
    summary = run_flat(fresh, folder / "sample.csv", SAMPLED)
    assert summary.exit_code == ERROR and summary.release is None
    assert "deliver the folder that contains both" in " ".join(summary.reasons)


def likes_by_class(rows: list[dict[str, str]]) -> dict[tuple, Counter]:
    found: dict[tuple, Counter] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in QUASI_IDENTIFIERS), Counter())[row["Likes"]] += 1
    return found


@pytest.mark.matrix
def test_limits_on_attribute_disclosure_gate(pipeline):
    """Limits that the release keeps publish it; one that it breaks is refused by its check, with the number counted."""
    kept = {"homogeneous_share_at_most": 0.3, "l_at_least": 1.5, "l_kind": "entropy", "t_at_most": 0.4999}
    write_policy(pipeline.home.policies, changed(FLAT, attribute_disclosure=kept))
    summary = pipeline.run(KEY, [*FLAT_STAGES["assessment"], "release"])
    rows = released_rows(pipeline.home.root) if summary.exit_code == PUBLISHED else []
    assert rows, summary
    public = json.loads((pipeline.home.releases / "flat_table" / "0001" / "manifest.json").read_text())
    (item,) = [one for one in public["evidence"] if one["asset"] == "record_attribute_disclosure"]
    gating = [one["name"] for one in item["measurements"] if one["gating"]]
    assert gating == ["homogeneous_share", "least_diversity", "greatest_distance", "canaries_found"]

    by_class, whole = likes_by_class(rows), Counter(row["Likes"] for row in rows)
    far = max(sum(abs(own[like] / own.total() - whole[like] / len(rows)) for like in whole) / 2 for own in by_class.values())
    write_policy(pipeline.home.policies, changed(FLAT, attribute_disclosure={"t_at_most": far - 1e-6, "l_at_least": 3.0}))
    summary = pipeline.run(KEY, [*FLAT_STAGES["assessment"], "release"])
    assert summary.exit_code == REFUSED and summary.release is None
    fewest = min(len(own) for own in by_class.values())
    failed = dict(text.split(": measured ") for text in summary.failed_checks)
    assert float(failed["record_attribute_disclosure_closeness_within_threshold"].split(",")[0]) == pytest.approx(far)
    diversity = failed.get("record_attribute_disclosure_diversity_within_threshold")
    assert (fewest >= 3) == (diversity is None) and (diversity is None or float(diversity.split(",")[0]) == fewest)


@pytest.mark.matrix
def test_where_even_the_coarsest_node_fails_the_run_is_refused_with_what_to_change(tmp_path):
    folder = write_people(tmp_path / "in", people(6))
    (tmp_path / "policies").mkdir()
    file = tmp_path / "policies" / "p.yaml"
    file.write_text(yaml.safe_dump(FLAT, sort_keys=False))
    code, printed = deid_here(tmp_path / "deid", "run", "--policy", file, "--delivery", folder)
    assert code == REFUSED and "Nothing was published." in printed
    (report,) = (tmp_path / "deid" / "store" / "flat_table").glob("*.refused.html")
    assert report.stat().st_mode & 0o777 == 0o600, "it holds exact numbers"
    told = report.read_text()
    assert "Why it was refused" in told and "even at the coarsest node too many records" in told
    assert "Restricted" in told and "How to verify" not in told
    assert not [path for path in (tmp_path / "deid" / "releases").rglob("*") if path.suffix == ".html"]
    # Of six records a share that is rounded to what 25 people make would read 0.
    assert "even at the coarsest node too many records are in classes of fewer than 4" in unwrapped(printed)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        pytest.param(lambda folder: (folder / "people.csv").unlink(), "people.csv: missing file", marks=pytest.mark.matrix),
        pytest.param(lambda folder: write_people(folder, []), "no rows", marks=pytest.mark.matrix),
        (lambda folder: write_people(folder, [[*row[:1], "QZVALUE", *row[2:]] for row in people()]),
         "column age: 600 rows: value outside the hierarchy"),
        pytest.param(
            lambda folder: shutil.copyfile(__file__, folder / "people.csv"), "missing column", marks=pytest.mark.matrix
        ),
    ],
)  # fmt: skip
def test_a_broken_delivery_is_an_error_that_names_no_value(fresh, tmp_path, spoil, message):
    folder = write_people(tmp_path / "in", people())
    spoil(folder)
    summary = run_flat(fresh, folder)
    reasons = " ".join(summary.reasons)
    assert summary.exit_code == ERROR and message in reasons, summary
    assert "QZVALUE" not in reasons


@pytest.mark.matrix
def test_a_few_values_that_no_hierarchy_covers_go_to_quarantine(fresh, tmp_path):
    rows = people()
    rows[7][0] = "a town unheard of"
    summary = run_flat(fresh, write_people(tmp_path / "in", rows))
    assert summary.exit_code == PUBLISHED and summary.rows["records"] == 599
    (row,) = fresh.table(KEY, "quarantined_records").frame().itertuples()
    assert (row.source_file, row.source_row, row.source_column) == ("people.csv", 9, "home town")


WITH_PERSONS = changed(FLAT, source={"kind": "flat", "file": "people.csv", "person": "secret"})


@pytest.mark.matrix
def test_people_who_opted_out_are_left_out_and_the_same_delivery_is_not_released_again_without_others(fresh, tmp_path):
    """The difference of both releases would be their records. A later delivery is released without them."""
    rows = [[*row[:4], f"person {number}"] for number, row in enumerate(people())]
    root = fresh.home.root
    write_policy(fresh.home.policies, WITH_PERSONS)
    fresh.register(KEY, "flat", write_people(tmp_path / "in", rows))
    assert deid_here(root, "member", "opt-out", "person 7", "--reason", "asked")[0] == PUBLISHED
    summary = fresh.run(KEY)
    assert summary.exit_code == PUBLISHED and summary.rows["records"] == 599, summary
    (run,) = fresh.instance.get_runs()
    assert run.tags[OUTCOME_TAG] == RELEASED, "the release itself says so, whoever started the run"
    manifest = json.loads((fresh.home.store / "manifests" / "flat_table" / "0001.json").read_bytes())
    steps = {step["stage"]: (step["rows_out"], step["reason"]) for step in manifest["attrition"]}
    assert steps["delivered_records"][0] == 600 and steps["records_after_opt_outs"] == (599, "opted out")
    assert steps["records"][0] == 599
    assert deid_here(root, "member", "opt-out", "person 8", "--reason", "asked")[0] == PUBLISHED
    again = fresh.run(KEY)
    assert again.exit_code == REFUSED and "published this delivery before somebody opted out" in " ".join(again.reasons)
    fresh.register("later", "flat", write_people(tmp_path / "later", [*rows, [*people(1, seed=9)[0][:4], "person 601"]]))
    later = fresh.run("later")
    assert later.exit_code == PUBLISHED and later.rows["records"] == 599, later


@pytest.mark.matrix
def test_an_empty_text_is_a_missing_value_whatever_the_format(fresh, tmp_path):
    folder = write_people(tmp_path / "in", people())
    with duckdb.connect() as connection:
        connection.execute(
            f"""COPY (SELECT coalesce("home town", '') AS "home town", age, sex, likes FROM
                read_csv('{folder}/people.csv', all_varchar = true)) TO '{folder}/people.parquet'"""
        )
    assert run_flat(fresh, folder, changed(FLAT, source={"kind": "flat", "file": "people.parquet"})).exit_code == PUBLISHED
    assert fresh.table(KEY, "records").frame()["Town"].isna().sum() == sum(not row[0] for row in people())


@pytest.mark.matrix
@pytest.mark.parametrize("loss", ["precision", "discernibility", "average_class_size"])
def test_other_losses_choose_a_node_that_passes_too(fresh, tmp_path, loss):
    values = changed(FLAT, risk={"k": K, "max_suppressed": 0.05, "loss": loss})
    assert run_flat(fresh, write_people(tmp_path / "in", people()), values).exit_code == PUBLISHED
    assert min(classes(released_rows(fresh.home.root)).values()) >= K
    key = SigningKey.load_or_create(fresh.home.keys).public
    report = verify_release(fresh.home.releases / "flat_table" / "0001", key, exact_certificate=exact_of(fresh))
    assert report.ok, report.text()
