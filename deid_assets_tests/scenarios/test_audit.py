"""`deid audit`: a release is explained by everything that was recorded of it, and every contradiction is found."""

import html
import json
import re
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from deid_assets.assessments.evidence import Evidence
from deid_assets.store.digests import bytes_digest
from deid_assets_tests.reports.numbers_shown import numbers_in, without_sources
from deid_assets_tests.scenarios.command_line import ERROR, PUBLISHED, deid_here, unwrapped
from deid_assets_tests.scenarios.conftest import KEY, MEMBERS
from deid_assets_tests.scenarios.pipeline import Pipeline, change, copy_of

pytestmark = pytest.mark.matrix


@pytest.fixture(scope="module")
def home(published, tmp_path_factory) -> Iterator[Pipeline]:
    """A copy of the published home that the audits of this module look at."""
    with copy_of(published.pipeline.home.root, tmp_path_factory.mktemp("audited") / "deid") as pipeline:
        yield pipeline


@pytest.fixture(scope="module")
def audited(home) -> tuple[str, dict, str]:
    """What the command printed, and both files."""
    before = home.published_bytes()
    code, printed = deid_here(home.home.root, "audit", "small/0001")
    assert code == PUBLISHED, printed
    assert home.published_bytes() == before, "an audit publishes nothing"
    folder = home.home.store / "manifests" / "small"
    document = (folder / "0001.audit.json").read_text()
    return printed, json.loads(document), (folder / "0001.audit.html").read_text()


def test_the_audit_is_restricted_and_says_so_on_its_first_line(home, audited):
    printed, document, page = audited
    folder = home.home.store / "manifests" / "small"
    for file in (folder / "0001.audit.json", folder / "0001.audit.html"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert "RESTRICTED: exact counts of people" in file.read_text().splitlines()[0]
    assert "release small/0001 is in order" in printed and "(restricted)" in printed
    assert next(iter(document)) == "restricted" and document["in_order"] is True and document["problems"] == []
    assert 'http-equiv="Content-Security-Policy"' in page and "<script" not in page and "http://www.w3.org" not in page


def test_every_asset_with_its_inputs_and_data_versions_is_in_the_graph(home, audited):
    _, document, page = audited
    assert {asset["asset"] for asset in document["assets"]} == {f"small/{name}" for name in (*home.every_asset, *home.stages)}
    by_asset = {asset["asset"]: asset for asset in document["assets"]}
    for name in ("release_claims", "neighbor_attack", "release"):
        tags = home.materialization(name, KEY).tags
        for one in by_asset[f"small/{name}"]["inputs"]:
            assert str(one["event"]) == tags[f"dagster/input_event_pointer/{one['asset']}"]
            assert one["data_version"] == by_asset[one["asset"]]["data_version"]
    assert document["run"]["tags"]["dagster/partition"] == KEY == document["delivery"]["key"]
    assert "data:image/svg+xml;base64," in page and "release claims" in page


def test_every_check_and_gate_is_shown_with_its_number_and_threshold(home, audited):
    _, document, page = audited
    names = {(one["asset"], one["check"]) for one in document["checks"]}
    assert names == {
        (key.asset_key.to_user_string(), key.name) for key in home._definitions().resolve_asset_graph().asset_check_keys
    }
    assert all(one["passed"] for one in document["checks"])
    # So few members may teach a model nothing; then it has no loss, and no limit is set that would refuse this.
    assert {one["check"] for one in document["checks"] if one["measured"] is None} <= {"score_loss_within_threshold"}
    manifest = json.loads((home.home.store / "manifests" / "small" / "0001.json").read_bytes())
    gating = [m for item in manifest["evidence"] for m in item["measurements"] if m["gating"]]
    shown = html.unescape(page)
    assert gating and all(m["name"] in shown for m in gating)


def test_what_was_removed_is_counted_exactly_beside_what_was_published(home, audited):
    _, document, _ = audited
    steps = {step["stage"]: step for step in document["removed"]}
    assert steps["delivered_members"]["rows_out"] == MEMBERS
    suppressed = home.table(KEY, "suppressed_members").count()
    assert steps["released_members"]["removed"] == suppressed > 0
    public = json.loads((home.home.releases / "small" / "0001" / "manifest.json").read_bytes())
    for step in public["attrition"]:
        assert steps[step["stage"]]["published_rows_out"] == step["rows_out"]


def test_published_columns_are_traced_to_the_delivery(audited):
    _, document, _ = audited
    columns = {(one["table"], one["column"]): one for one in document["columns"]}
    assert columns["Claims", "PlaceSvc"]["steps"] == [
        "release_claims.PlaceSvc", "truncated_claims.place", "grouped_claims.place", "eligible_claims.place", "claims.place",
    ]  # fmt: skip
    assert columns["Members", "AgeAtFirstClaim"]["delivered"] == ["members.age"]
    assert "pseudonym_crosswalk.pseudonym" in columns["Claims", "ProviderID"]["steps"]
    assert columns["Attrition", "Count"]["candidate"] == "published_counts"


def test_the_audit_names_no_person(home, audited):
    _, document, page = audited
    originals = set(home.table(KEY, "pseudonym_crosswalk").frame()["original_id"].astype(str))
    pseudonyms = set(home.table(KEY, "pseudonym_crosswalk").frame()["pseudonym"].astype(str))
    words = set(re.findall(r"[\w.-]+", json.dumps(document) + page))
    long = {one for one in originals | pseudonyms if len(one) > 5}
    assert len(long) > 1_000 and not long & words


def _edit_log(root: Path, old: str, new: str) -> None:
    """Replace a text in every event of the log, in all of its files."""
    changed = 0
    for file in (root / "home" / "history" / "runs").glob("*.db"):
        with sqlite3.connect(file) as connection:
            changed += connection.execute(
                "UPDATE event_logs SET event = replace(event, ?, ?) WHERE instr(event, ?)", [old, new, old]
            ).rowcount
    assert changed


def _data_version(root: Path, _pipeline: Pipeline) -> None:
    version = _pipeline.materialization("release_claims", KEY).tags["dagster/data_version"]
    _edit_log(root, version, "0" * len(version))


def _measured(root: Path, pipeline: Pipeline) -> None:
    digest = pipeline.materialization("neighbor_attack", KEY).metadata["evidence_digest"].value
    _edit_log(root, digest, "0" * len(digest))


def _edit_file(root: Path, file: str, kind: str, old: str, new: str) -> None:
    """Replace a text in the events of a kind in one of the two files of a run's history."""
    folder = root / "home" / "history" / "runs"
    (of_run,) = (path for path in folder.glob("*.db") if path.name != "index.db")
    with sqlite3.connect(folder / "index.db" if file == "index" else of_run) as connection:
        changed = connection.execute(
            "UPDATE event_logs SET event = replace(event, ?, ?) WHERE dagster_event_type = ? AND instr(event, ?)",
            [old, new, kind, old],
        ).rowcount
    assert changed


def _delete_check(root: Path, where: str) -> None:
    """Delete what is known of a contract from the log of the run, by asset, or everywhere."""
    folder, asked = root / "home" / "history" / "runs", ["%release_claims_keeps_contract%"]
    removed = 0
    for file in folder.glob("*.db"):
        with sqlite3.connect(file) as connection:
            if where in ("by asset", "everywhere"):
                removed += connection.execute("DELETE FROM asset_check_executions WHERE check_name LIKE ?", asked).rowcount
            if where == "everywhere" or (where == "run" and file.name != "index.db"):
                removed += connection.execute(
                    "DELETE FROM event_logs WHERE dagster_event_type LIKE 'ASSET_CHECK_EVALUATION%' AND event LIKE ?", asked
                ).rowcount
    assert removed


def _other_policy(root: Path) -> None:
    """An adopted policy whose text and record were changed alike."""
    folder = root / "policies" / "small"
    (text,) = (folder / "content").glob("*/policy.yaml")
    content = text.read_bytes().replace(b"threshold: 0.05", b"threshold: 0.06")
    digest, record = bytes_digest(content), folder / "adopted.json"
    (folder / "content" / digest).mkdir()
    (folder / "content" / digest / text.name).write_bytes(content)
    record.write_text(record.read_text().replace(text.parent.name, digest))


def _cut_registry(root: Path, _pipeline: Pipeline) -> None:
    file = root / "releases" / "registry.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))


def _forget(root: Path, _pipeline: Pipeline) -> None:
    shutil.rmtree(root / "home" / "history")


def _restricted(root: Path, _pipeline: Pipeline) -> None:
    file = root / "store" / "manifests" / "small" / "0001.json"
    manifest = json.loads(file.read_bytes())
    assert Evidence.from_json(manifest["evidence"][0])
    change(file, b'"rows_out":3000', b'"rows_out":3001')


HARM = {
    "a byte of a file": (
        lambda root, _: change(root / "releases/small/0001/data/Claims.csv", b",Y1,", b",Y2,"),
        "data/Claims.csv is as listed: it was changed",
    ),
    "a byte of the manifest": (
        lambda root, _: change(root / "releases/small/0001/manifest.json", b"named researchers", b"namex researchers"),
        "manifest and signature do not belong together",
    ),
    "a byte of the registry": (
        lambda root, _: change(root / "releases/registry.jsonl", b'"policy":"small"', b'"policy":"smell"'),
        "was changed: its hash is not that of its content",
    ),
    "the end of the registry": (_cut_registry, "the registry contains this release: it has no entry"),
    "the restricted edition": (_restricted, "is not the restricted edition that the published manifest names"),
    "the rows that later releases are compared with are gone": (
        lambda root, _: (root / "store/manifests/small/0001.rows.parquet").unlink(),
        "0001.rows.parquet is not the file that the restricted edition of the manifest names: it was changed or is gone",
    ),
    "the rows that later releases are compared with are others": (
        lambda root, _: change(root / "store/manifests/small/0001.rows.parquet", b"PAR1", b"RAP1"),
        "0001.rows.parquet is not the file that the restricted edition of the manifest names: it was changed or is gone",
    ),
    "materializations in the log of the run": (
        lambda root, _: _edit_file(root, "run", "ASSET_MATERIALIZATION", "row_count", "row_coumt"),
        "the two records differ, or one is gone, for small/",
    ),
    "materializations by asset": (
        lambda root, _: _edit_file(root, "index", "ASSET_MATERIALIZATION", "row_count", "row_coumt"),
        "the two records differ, or one is gone, for small/",
    ),
    "checks in the log of the run": (
        lambda root, _: _edit_file(root, "run", "ASSET_CHECK_EVALUATION", "measured", "meazured"),
        "the two records differ, or one is gone, for small/",
    ),
    "a contract is gone from the log of the run": (
        lambda root, _: _delete_check(root, "run"),
        "does not say that these tables of the release keep their contract: small/release_claims/release_claims_keeps_contract",
    ),
    "a contract is gone by asset": (
        lambda root, _: _delete_check(root, "by asset"),
        "one is gone, for small/release_claims/release_claims_keeps_contract",
    ),
    "a contract is gone everywhere": (
        lambda root, _: _delete_check(root, "everywhere"),
        "does not say that these tables of the release keep their contract: small/release_claims/release_claims_keeps_contract",
    ),
    "the event log is gone": (_forget, "the event log has no materialization of this release"),
    "another data version in the log": (_data_version, "release_claims: the manifest states another data version"),
    "another measurement in the log": (_measured, "neighbor_attack: the manifest states other measurements"),
}


@pytest.fixture
def root(published, tmp_path) -> Path:
    """A copy of the published home for one test, to do harm in."""
    return shutil.copytree(published.pipeline.home.root, tmp_path / "deid")


@pytest.mark.parametrize("harm", HARM)
def test_harm_is_found_and_told(root, published, harm):
    do, sentence = HARM[harm]
    do(root, published.pipeline)
    code, printed = deid_here(root, "audit", "small/0001")
    assert code == ERROR and sentence in unwrapped(printed), printed
    if "problem:" in printed:
        assert "release small/0001 is NOT in order" in printed
        document = json.loads((root / "store/manifests/small/0001.audit.json").read_text())
        assert not document["in_order"] and any(sentence in problem for problem in document["problems"])


def test_an_adopted_policy_that_was_changed_is_named(root, tmp_path):
    policy = shutil.move(root / "policies" / "small.yaml", tmp_path / "small.yaml")
    assert deid_here(root, "policy", "adopt", policy)[0] == PUBLISHED
    code, printed = deid_here(root, "audit", "small/0001")
    assert code == PUBLISHED and "release small/0001 is in order" in printed, printed
    _other_policy(root)
    code, printed = deid_here(root, "audit", "small/0001")
    assert code == ERROR and "the adopted policy small (policies/small) is not the one that the home's journal knows" in printed
    next((root / "policies" / "small" / "content").glob("*/policy.yaml")).write_text("policy: small")
    code, printed = deid_here(root, "audit", "small/0001")
    assert code == ERROR and "policy.yaml is not the one that was adopted with the policy" in printed, printed


def test_another_secret_confirms_nothing(root, monkeypatch):
    monkeypatch.setenv("DEID_SECRET", "another secret of the scenarios, as long as it takes")
    code, printed = deid_here(root, "audit", "small/0001")
    assert code == ERROR and "made with another secret" in printed


def test_another_key_is_not_trusted(root, tmp_path):
    code, _ = deid_here(tmp_path / "other", "key", "export", "--output", tmp_path / "other.pem")
    assert code == 0
    code, printed = deid_here(root, "audit", root / "releases/small/0001", "--key", tmp_path / "other.pem")
    assert code == ERROR and "the signer is trusted" in printed


def test_a_home_without_releases_says_so(tmp_path):
    code, printed = deid_here(tmp_path / "deid", "audit", "small/0001")
    assert code == ERROR and "nothing was released in the home" in printed


def test_the_determination_of_a_release_is_drafted_from_its_public_manifest(home, tmp_path):
    before = home.published_bytes()
    code, printed = deid_here(home.home.root, "determination", "small/0001", "--output", tmp_path, "--expires", "2027-06-30")
    assert code == PUBLISHED, printed
    page = (tmp_path / "small-0001-determination.html").read_bytes()
    public = (home.home.releases / "small" / "0001" / "manifest.json").read_text()
    shown = without_sources(page)
    found = numbers_in(shown)
    assert len(found) > 20 and found <= numbers_in(public), found - numbers_in(public)
    assert "neighbor success given membership" in shown and b"2027-06-30" in page
    assert home.published_bytes() == before
    code, printed = deid_here(home.home.root, "determination", "small/0001", "--output", tmp_path)
    assert code == ERROR and "is there already" in printed, "somebody may have written on in it"
    code, printed = deid_here(home.home.root, "determination", "small/0001", "--output", home.home.releases / "drafts")
    assert code == ERROR and "the folder of releases contains releases only" in unwrapped(printed)
    code, printed = deid_here(home.home.root, "determination", "small/0001", "--output", "/proc/nowhere")
    assert code == ERROR and "cannot be written" in printed


def test_nothing_is_drafted_of_a_release_that_is_not_in_order(root, tmp_path):
    change(root / "releases/small/0001/data/Claims.csv", b",Y1,", b",Y2,")
    code, printed = deid_here(root, "determination", "small/0001", "--output", tmp_path / "out")
    assert code == ERROR and "nothing is drafted of a release that is not in order" in printed
    assert not (tmp_path / "out").exists()
