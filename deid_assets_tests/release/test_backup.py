"""A backup is of one moment, whatever is published meanwhile."""

import threading
from pathlib import Path

import pyrage
import pytest

from deid_assets.errors import StoreError
from deid_assets.release.backup import back_up, restore_home
from deid_assets.release.publication.publish import Releases
from deid_assets.store.home import Home
from deid_assets_tests.release.making import publish, releases_in

OWNER = pyrage.x25519.Identity.generate()


def backed_up(releases: Releases, to: Path, is_recorded=lambda: True) -> None:
    back_up(releases, to, str(OWNER.to_public()), "2026-01-01T00:00:00+00:00", is_recorded)


def put_back(file: Path, root: Path) -> Releases:
    restore_home(file, str(OWNER).encode(), Home(root), [], "20260101T000000")
    return releases_in(root)


def test_releases_are_published_while_a_backup_is_made(tmp_path):
    releases = releases_in(tmp_path / "home")
    publish(releases, "0", with_tables=False)
    is_over = threading.Event()

    def publishing() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            publish(releases_in(tmp_path / "home"), str(number), with_tables=False)

    other = threading.Thread(target=publishing)
    other.start()
    try:
        for turn in range(5):
            backed_up(releases, tmp_path / f"{turn}.age")
    finally:
        is_over.set()
        other.join()
    before = 0
    for turn in range(5):
        found = put_back(tmp_path / f"{turn}.age", tmp_path / f"restored-{turn}")
        assert found.journal.missing() == [] and found.recover().problems == ()
        assert before <= len(found.registry.chain().entries) <= len(releases.registry.chain().entries)
        before = len(found.registry.chain().entries)


def test_no_name_of_a_policy_or_of_its_files_is_left_out(tmp_path):
    releases = releases_in(tmp_path / "home")
    for policy in ("releases", "home", "store"):
        publish(releases, policy, policy=policy, with_tables=False)
    of_policies = ("x.tmp", "x.lock", "x-journal", "x-wal", "x.draft", "content/x.duckdb", "content/.staging-1/x.lock")
    names = [*(f"policies/{name}" for name in of_policies), "deliveries/2024.json", "deliveries/2024.sha256"]
    for name in names:
        file = releases.home.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    backed_up(releases, tmp_path / "x.age")
    found = put_back(tmp_path / "x.age", tmp_path / "restored")
    assert [(found.home.root / name).read_text() for name in names] == names
    assert all(found.path(entry.policy, entry.number).is_dir() for entry in found.registry.chain().entries)


@pytest.mark.parametrize("name", ["deliveries", "policies", "home"])
def test_a_folder_on_another_disk_is_not_left_out_without_a_word(tmp_path, name):
    releases = releases_in(tmp_path / "home")
    publish(releases, "0", with_tables=False)
    folder = releases.home.create().root / name
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match=f"{name} is a link to another folder, whose files would not be copied"):
        backed_up(releases, tmp_path / "x.age")
    assert not (tmp_path / "x.age").exists()


def test_a_release_that_the_event_log_does_not_know_yet_is_waited_for(tmp_path):
    releases, asked = releases_in(tmp_path / "home"), []
    publish(releases, "0", with_tables=False)
    backed_up(releases, tmp_path / "x.age", lambda: asked.append(1) or len(asked) > 1)
    assert len(asked) == 2
    assert len(put_back(tmp_path / "x.age", tmp_path / "restored").registry.chain().entries) == 1


def test_what_a_killed_backup_left_is_removed(tmp_path):
    releases = releases_in(tmp_path / "home")
    publish(releases, "0", with_tables=False)
    left = releases.home.store / ".backup" / "home" / "keys"
    left.mkdir(parents=True)
    backed_up(releases, tmp_path / "x.age")
    assert not left.parent.exists()
