"""A home is put back from an encrypted backup, and is the same home; nothing that is older or partial takes its place."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyrage
import pytest

from deid_assets.command_line.deciding import releases_here
from deid_assets.release.registry.tries import Tried
from deid_assets.store.home import Home
from deid_assets_tests.scenarios.command_line import ERROR, PUBLISHED, deid_here, unwrapped
from deid_assets_tests.scenarios.conftest import KEY
from deid_assets_tests.scenarios.operated import deliver_without_some
from deid_assets_tests.scenarios.pipeline import copy_of
from deid_assets_tests.scenarios.test_approval import ANNA, NAME, staged

pytestmark = pytest.mark.matrix

__all__ = ["staged"]


@pytest.fixture
def home(published, tmp_path) -> Iterator[Home]:
    """A home with a release, an opt-out and a refused try."""
    with copy_of(published.pipeline.home.root, tmp_path / "deid") as pipeline:
        assert deid_here(pipeline.home.root, "member", "opt-out", "M000000001", "--reason", "asked")[0] == PUBLISHED
        releases_here(pipeline.home).note_refused(Tried("5" * 64, "1" * 64, "2" * 64, 1), by_chance=True)
        yield pipeline.home


@pytest.fixture(scope="module")
def owner(tmp_path_factory) -> Path:
    """A private key of age."""
    file = tmp_path_factory.mktemp("owner") / "key.txt"
    file.write_text(f"# the owner's\n{pyrage.x25519.Identity.generate()}\n")
    return file


def public(owner: Path) -> str:
    return str(pyrage.x25519.Identity.from_str(owner.read_text().splitlines()[1]).to_public())


@pytest.fixture
def backup(home, owner, tmp_path) -> Path:
    file = tmp_path / "home.age"
    code, printed = deid_here(home.root, "backup", file, "--to", public(owner))
    assert code == PUBLISHED and "1 release," in printed and "DEID_SECRET, which is not in it" in unwrapped(printed), printed
    return file


def restored(home: Home, backup: Path, owner: Path) -> tuple[int, str]:
    code, printed = deid_here(home.root, "restore", backup, "--identity", owner)
    return code, unwrapped(printed)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def remembered(home: Home) -> dict[str, bytes]:
    """What the home has to remember, byte by byte."""
    folders = {"keys", "policies", "releases", "store"}
    left = (".lock", ".duckdb", ".wal", ".draft")
    found = {name: bytes for name, bytes in content(home.root).items() if name.partition("/")[0] in folders}
    return {name: bytes for name, bytes in found.items() if not name.endswith(left) and not name.startswith("store/.backup")}


class TestTheSameHome:
    def test_it_remembers_everything(self, home, backup, owner):
        before = remembered(home)
        modes = {name: (home.root / name).stat().st_mode for name in before}
        shutil.rmtree(home.root)
        code, printed = restored(home, backup, owner)
        assert code == PUBLISHED and "Compare it with `deid journal check`" in printed, printed
        assert remembered(home) == before
        assert {name: (home.root / name).stat().st_mode for name in before} == modes
        assert not list(home.store.glob("*/*.duckdb"))
        for command in (("journal", "check"), ("audit", "small/0001"), ("releases",)):
            code, printed = deid_here(home.root, *command)
            assert code == PUBLISHED, printed

    def test_a_delivery_stays_final(self, home, backup, owner):
        digest = (home.deliveries / f"{KEY}.sha256").read_bytes()
        shutil.rmtree(home.root)
        assert restored(home, backup, owner)[0] == PUBLISHED
        assert (home.deliveries / f"{KEY}.sha256").read_bytes() == digest

    def test_nobody_else_can_read_it(self, home, backup, owner, tmp_path):
        assert backup.stat().st_mode & 0o077 == 0
        assert b"M000000001" not in backup.read_bytes() and b"registry" not in backup.read_bytes()
        other = tmp_path / "other"
        other.write_text(str(pyrage.x25519.Identity.generate()))
        shutil.rmtree(home.root)
        code, printed = restored(home, backup, other)
        assert code == ERROR and "cannot be decrypted" in printed and not home.store.exists(), printed

    def test_what_lies_there_is_kept_beside_it(self, home, backup, owner):
        before = remembered(home)
        (home.policies / "opt_outs.jsonl").unlink()
        code, printed = restored(home, backup, owner)
        assert code == PUBLISHED, printed
        assert remembered(home) == before
        (kept,) = home.root.parent.glob("deid.replaced-*")
        assert str(kept) in printed and list(kept.glob("store/small/*.duckdb"))

    def test_with_a_key_of_ssh(self, home, tmp_path):
        key = tmp_path / "id"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        file = tmp_path / "ssh.age"
        assert deid_here(home.root, "backup", file, "--to", f"{key}.pub")[0] == PUBLISHED
        before = remembered(home)
        shutil.rmtree(home.root)
        assert restored(home, file, key)[0] == PUBLISHED and remembered(home) == before

    def test_a_release_that_waits_waits_on(self, staged, owner, tmp_path):
        with copy_of(staged, tmp_path / "deid", "flat_table") as pipeline:
            home, file = pipeline.home, tmp_path / "home.age"
            assert deid_here(home.root, "backup", file, "--to", public(owner))[0] == PUBLISHED
        shutil.rmtree(home.root)
        assert restored(home, file, owner)[0] == PUBLISHED
        code, printed = deid_here(home.root, "approve", NAME, "--by", ANNA)
        assert code == PUBLISHED and "Published" in printed, printed

    def test_it_releases_the_next_delivery_as_the_home_would_have(self, home, backup, owner, tmp_path):
        deliver_without_some(home.deliveries / KEY, tmp_path / "next", remainder=0)
        twin = tmp_path / "twin"
        shutil.copytree(home.root, twin, symlinks=True)
        command = ("run", "--policy", "small", "--delivery", tmp_path / "next")
        outcomes = [deid_here(twin, *command)[0]]
        shutil.rmtree(home.root)
        assert restored(home, backup, owner)[0] == PUBLISHED
        outcomes.append(deid_here(home.root, *command)[0])
        assert outcomes[0] == outcomes[1]
        made = [content(root / "releases" / "small" / "0002" / "data") for root in (home.root, twin)]
        assert made[0] == made[1]
        registries = [(root / "releases" / "registry.jsonl").read_bytes().count(b"\n") for root in (home.root, twin)]
        assert registries[0] == registries[1] > 2


class TestRefused:
    def refused(self, home: Home, said: str, backup: Path, owner: Path) -> None:
        before = remembered(home)
        code, printed = restored(home, backup, owner)
        assert code == ERROR and said in printed, printed
        assert remembered(home) == before
        assert not list(home.root.parent.glob(".*.restoring"))

    def test_an_older_one_than_the_home_in_its_place(self, home, backup, owner):
        assert deid_here(home.root, "release", "withdraw", "small/0001", "--reason", "odd")[0] == PUBLISHED
        self.refused(home, "the registry of this home has lines that the backup lacks, such as withdrawals", backup, owner)

    def test_one_from_before_an_opt_out(self, home, backup, owner):
        assert deid_here(home.root, "member", "opt-out", "somebody", "--unmatched-ok", "--reason", "asked")[0] == PUBLISHED
        self.refused(home, "this home has decided more since the backup was made, such as an opt-out", backup, owner)

    @pytest.mark.parametrize("file", ["releases/registry.jsonl", "keys/journal.head", "store/journal.jsonl"])
    def test_one_of_which_a_damaged_home_cannot_tell_whether_it_is_older(self, home, backup, owner, file, tmp_path):
        assert deid_here(home.root, "member", "opt-out", "somebody", "--unmatched-ok", "--reason", "asked")[0] == PUBLISHED
        (home.root / file).write_text("nonsense\n")
        said = "has decided more" if "journal.jsonl" in file else "cannot tell whether the backup is older"
        self.refused(home, said, backup, owner)
        os.rename(home.root, tmp_path / "away")
        assert restored(home, backup, owner)[0] == PUBLISHED

    def test_one_from_before_a_publication(self, staged, owner, tmp_path):
        with copy_of(staged, tmp_path / "deid", "flat_table") as pipeline:
            home, file = pipeline.home, tmp_path / "home.age"
            assert deid_here(home.root, "backup", file, "--to", public(owner))[0] == PUBLISHED
            assert deid_here(home.root, "approve", NAME, "--by", ANNA)[0] == PUBLISHED
            self.refused(home, f"this home has published {NAME}, the backup ends at no release", file, owner)

    def test_an_older_one_than_a_witness(self, home, owner, tmp_path):
        witness, file = tmp_path / "elsewhere" / "head", tmp_path / "witnessed.age"
        assert deid_here(home.root, "journal", "head", "--to", witness)[0] == PUBLISHED
        assert deid_here(home.root, "backup", file, "--to", public(owner))[0] == PUBLISHED
        assert deid_here(home.root, "member", "opt-out", "somebody", "--unmatched-ok", "--reason", "asked")[0] == PUBLISHED
        shutil.rmtree(home.root)
        code, printed = restored(home, file, owner)
        assert code == ERROR and f"lacks lines that the witness {witness} knows" in printed, printed
        assert not home.root.exists()

    def test_one_whose_witness_is_lost_with_the_home_unless_its_owner_says_so(self, home, owner, tmp_path):
        file = tmp_path / "witnessed.age"
        witness, another = tmp_path / "elsewhere" / "head", tmp_path / "elsewhere" / "another"
        for place in (witness, another):
            assert deid_here(home.root, "journal", "head", "--to", place)[0] == PUBLISHED
        assert deid_here(home.root, "backup", file, "--to", public(owner))[0] == PUBLISHED
        shutil.rmtree(home.root)
        witness.unlink()
        another.unlink()
        code, printed = restored(home, file, owner)
        assert code == ERROR and "with --without-witness PLACE" in unwrapped(printed) and not home.root.exists(), printed
        lost = ("--without-witness", witness)
        code, printed = deid_here(home.root, "restore", file, "--identity", owner, *lost)
        assert code == ERROR and f"the witness {another} is missing" in unwrapped(printed) and not home.root.exists(), printed
        assert f"the witness {witness}" not in unwrapped(printed), "its owner said so"
        lost += ("--without-witness", another)
        assert deid_here(home.root, "restore", file, "--identity", owner, *lost)[0] == PUBLISHED
        opt_out = ("member", "opt-out", "somebody", "--unmatched-ok", "--reason", "asked")
        code, printed = deid_here(home.root, *opt_out)
        assert code == ERROR and "journal forget" in printed, printed
        for place in (witness, another):
            assert deid_here(home.root, *opt_out)[0] == ERROR
            assert deid_here(home.root, "journal", "forget", place)[0] == PUBLISHED
        assert deid_here(home.root, *opt_out)[0] == PUBLISHED
        told = [json.loads(line) for line in (home.store / "journal.jsonl").read_text().splitlines()]
        forgotten = [line["about"]["to"] for line in told if line["event"] == "witness" and not line["about"]["listed"]]
        assert forgotten == [str(witness), str(another)], "the journal names each that its owner does without"

    def test_a_restore_that_was_interrupted_is_done_again_before_anything_is_decided(self, home, backup, owner, tmp_path):
        """Killed when the home was moved away, and the backup not yet in its place."""
        assert deid_here(home.root, "member", "opt-out", "M000000002", "--reason", "asked")[0] == PUBLISHED
        newer = tmp_path / "newer.age"
        assert deid_here(home.root, "backup", newer, "--to", public(owner))[0] == PUBLISHED
        os.rename(home.root, home.root.with_name(f"{home.root.name}.replaced-20261126T000000"))
        home.restoring.mkdir()
        for command in (("member", "opt-out", "M000000003", "--reason", "asked"), ("home", "upgrade", "--yes")):
            code, printed = deid_here(home.root, *command)
            assert code == ERROR and "`deid restore` it again" in unwrapped(printed), printed
        assert not (home.store / "journal.jsonl").exists()
        shutil.rmtree(home.root)
        code, printed = restored(home, backup, owner)
        assert code == ERROR and "has decided more since the backup was made" in printed, printed
        assert restored(home, newer, owner)[0] == PUBLISHED and not home.restoring.exists()
        assert deid_here(home.root, "member", "opt-out", "M000000003", "--reason", "asked")[0] == PUBLISHED

    def test_one_of_another_home(self, home, owner, tmp_path):
        other, file = tmp_path / "other", tmp_path / "other.age"
        assert deid_here(other, "member", "opt-out", "somebody", "--unmatched-ok", "--reason", "asked")[0] == PUBLISHED
        assert deid_here(other, "backup", file, "--to", public(owner))[0] == PUBLISHED
        self.refused(home, "this home has published small/0001, the backup ends at no release", file, owner)

    @pytest.mark.parametrize("share", [0.1, 0.9, 0.9999])
    def test_one_that_was_cut(self, home, backup, owner, share):
        whole = backup.read_bytes()
        backup.write_bytes(whole[: int(len(whole) * share)])
        self.refused(home, "the backup cannot be decrypted", backup, owner)

    def test_one_that_was_changed(self, home, backup, owner):
        whole = bytearray(backup.read_bytes())
        whole[len(whole) // 2] ^= 1
        backup.write_bytes(whole)
        self.refused(home, "the backup cannot be decrypted", backup, owner)

    def test_a_home_that_has_lost_something_is_not_backed_up(self, home, owner, tmp_path):
        (home.policies / "opt_outs.jsonl").unlink()
        code, printed = deid_here(home.root, "backup", tmp_path / "x.age", "--to", public(owner))
        assert code == ERROR and "the list of opt-outs" in unwrapped(printed), printed
        assert not list(tmp_path.glob("*x.age*"))

    @pytest.mark.parametrize(
        "lost",
        ["store/manifests/small/0001.rows.parquet", "store/manifests/small/0001.members", "releases/small/0001/report.html"],
    )
    def test_a_home_that_lacks_what_is_kept_of_a_release_is_not_backed_up(self, home, owner, tmp_path, lost):
        (home.root / lost).unlink()
        code, printed = deid_here(home.root, "backup", tmp_path / "x.age", "--to", public(owner))
        assert code == ERROR and "the home is not backed up: release small/0001 is not as it was" in unwrapped(printed), printed
        assert not list(tmp_path.glob("*x.age*")) and not (home.store / ".backup" / "home").exists()

    def test_files_that_are_in_the_home_or_exist_and_keys_that_are_none(self, home, backup, owner, tmp_path):
        for file, key, said in (
            (backup, public(owner), "exists already"),
            (home.root / "x.age", public(owner), "is in the home, with which it would be lost"),
            (tmp_path / "nowhere" / "x.age", public(owner), "cannot be written"),
            (tmp_path / "x.age", "no key", "the public key cannot be used"),
        ):
            code, printed = deid_here(home.root, "backup", file, "--to", key)
            assert code == ERROR and said in unwrapped(printed), printed
        assert not (home.store / ".backup" / "home").exists()
