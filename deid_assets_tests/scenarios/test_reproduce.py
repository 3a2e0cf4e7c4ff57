"""`deid reproduce`: a release is made again in a place that nobody sees, and its bytes are compared."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from deid_assets.automation.ended_runs import RunSummary
from deid_assets.command_line import run as reproduce
from deid_assets.errors import REFUSED
from deid_assets.release.keyring import secret_of
from deid_assets.store.home import Home
from deid_assets.version import version
from deid_assets_tests.scenarios.command_line import ERROR, PUBLISHED, deid_here, unwrapped
from deid_assets_tests.scenarios.conftest import KEY


def everything(home: Home) -> dict[str, str]:
    """Every file of a home with its digest; locks are none."""
    return {
        str(path.relative_to(home.root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(home.root.rglob("*"))
        if path.is_file() and not path.name.endswith(".lock")
    }


def copying(home: Home, change=lambda folder: None):
    """An execution that finds what the command prepared, and copies the release instead of making it."""

    def execute(instance, task, run_id):
        temporary = Home.here()
        assert temporary.root.is_relative_to(home.store / ".reproducing")
        assert (task.policy.name, task.delivery.key) == ("small", KEY)
        assert secret_of(temporary).commitment() == secret_of(home).commitment()
        assert not (temporary.keys / "secret").exists()
        made = temporary.releases / "small" / "0001"
        shutil.copytree(home.releases / "small" / "0001", made)
        change(made)
        return RunSummary(PUBLISHED, release=made)

    return execute


def test_equal_files_are_told_and_nothing_is_left_or_changed(home, monkeypatch):
    monkeypatch.setattr(reproduce, "execute", copying(home.home))
    before = everything(home.home)
    code, printed = deid_here(home.home.root, "reproduce", "small/0001")
    assert code == PUBLISHED, printed
    assert "release small/0001 is reproduced: all files are equal" in printed
    assert "equal         data/Claims.csv" in printed and "report.html" not in printed
    assert everything(home.home) == before


def test_a_generated_secret_is_used_where_it_lies(home, monkeypatch):
    monkeypatch.delenv("DEID_SECRET")
    root = home.home
    (root.keys / "secret").write_text("a secret of the scenarios, of more than 32 bytes\n")
    (root.keys / "secret").chmod(0o600)
    monkeypatch.setattr(reproduce, "execute", copying(root))
    code, printed = deid_here(root.root, "reproduce", "small/0001")
    assert code == PUBLISHED, printed


def changed_byte(folder: Path) -> None:
    file = folder / "data" / "Claims.csv"
    file.chmod(0o644)
    file.write_bytes(file.read_bytes().replace(b",Y1,", b",Y2,", 1))


def test_a_different_byte_is_told_by_file(home, monkeypatch):
    monkeypatch.setattr(reproduce, "execute", copying(home.home, changed_byte))
    code, printed = deid_here(home.home.root, "reproduce", "small/0001")
    assert code == ERROR
    assert "different     data/Claims.csv" in printed and "equal         data/Claims.parquet" in printed
    assert "is NOT reproduced: 13 of 14 files are equal" in printed


def test_a_refusal_says_why_and_compares_nothing(home, monkeypatch):
    refused = RunSummary(REFUSED, reasons=("refused by the gate for 1 reason",), failed_checks=("neighbor_attack",))
    monkeypatch.setattr(reproduce, "execute", lambda *arguments: refused)
    code, printed = deid_here(home.home.root, "reproduce", "small/0001")
    assert code == ERROR and "problem: refused by the gate" in printed and "problem: neighbor_attack" in printed
    assert "0 of 0 files are equal" in printed and not (home.home.store / ".reproducing").exists()


def test_another_version_is_told(home, monkeypatch):
    monkeypatch.setattr(reproduce, "execute", copying(home.home))
    monkeypatch.setattr(reproduce.deid_assets, "__version__", "99")
    monkeypatch.setattr(reproduce, "package_versions", lambda: {"duckdb": "1.0"})
    _, printed = deid_here(home.home.root, "reproduce", "small/0001")
    assert f"other version: deid_assets {version()} then, 99 now" in printed and "other version: duckdb 2" in printed


def _other_secret(home: Home, monkeypatch) -> None:
    monkeypatch.setenv("DEID_SECRET", "another secret of the scenarios, as long as it takes")


def _changed_delivery(home: Home, monkeypatch) -> None:
    with (home.deliveries / KEY / "members.parquet").open("ab") as file:
        file.write(b" ")


def _lost_delivery(home: Home, monkeypatch) -> None:
    (home.deliveries / f"{KEY}.json").unlink()


def _lost_manifest(home: Home, monkeypatch) -> None:
    (home.store / "manifests" / "small" / "0001.json").unlink()


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (_other_secret, "was made with another secret than that of this home"),
        (_changed_delivery, "its files are not those from which release small/0001 was made"),
        (_lost_delivery, f"no delivery is registered as {KEY}"),
        (_lost_manifest, "the restricted edition of the manifest, store/manifests/small/0001.json, cannot be read"),
    ],
)
def test_what_is_needed_and_missing_is_an_error_before_anything_runs(home, monkeypatch, harm, sentence):
    def never(*arguments):
        raise AssertionError("nothing may run")

    monkeypatch.setattr(reproduce, "execute", never)
    harm(home.home, monkeypatch)
    code, printed = deid_here(home.home.root, "reproduce", "small/0001")
    assert code == ERROR and sentence in unwrapped(printed)
    assert not (home.home.store / ".reproducing").exists()


@pytest.mark.matrix
def test_a_release_is_made_again_with_the_same_bytes(home):
    before = everything(home.home)
    code, printed = deid_here(home.home.root, "reproduce", "--quiet", "small/0001")
    assert code == PUBLISHED and "all files are equal" in printed, printed
    assert everything(home.home) == before


@pytest.mark.matrix
def test_a_release_after_another_is_made_again_with_what_was_known_then(pipeline):
    """The home holds an earlier release; that of the pipeline is the second, and counts its members."""
    assert pipeline.run(KEY, ["release"]).exit_code == PUBLISHED
    assert pipeline.releases == ["small/0001", "small/0002"]
    before = everything(pipeline.home)
    code, printed = deid_here(pipeline.home.root, "reproduce", "-q", "small/0002")
    assert code == PUBLISHED and "all files are equal" in printed, printed
    after = everything(pipeline.home)
    assert after == before
    assert len(json.loads((pipeline.home.releases / "small/0002/manifest.json").read_bytes())["files"]) > 10
