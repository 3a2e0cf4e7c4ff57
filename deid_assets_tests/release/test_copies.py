"""Copies of releases elsewhere: what verifies, whole or not at all, and never over something else."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from deid_assets.command_line.deciding import missing_in
from deid_assets.errors import ReleaseError, StoreError
from deid_assets.policy.withdrawals import OptOutLine
from deid_assets.release.journal.chain import Head
from deid_assets.release.keyring import signing_key_of
from deid_assets.release.opt_outs import enter_opt_out
from deid_assets.release.publication.copies import copy_published, copy_releases, read_copies_back
from deid_assets.release.publication.publish import Releases
from deid_assets.release.publication.verification import verify_release
from deid_assets.release.rotation import rotate
from deid_assets.store.home import Home
from deid_assets.store.remote import RemoteFolder
from deid_assets_tests.buckets import CREDENTIALS, needs_s3, s3_bucket
from deid_assets_tests.release.making import publish
from deid_assets_tests.scenarios.command_line import deid_here, unwrapped


@pytest.fixture
def home(tmp_path) -> Home:
    """A home with two releases."""
    made = Home(tmp_path / "deid").create()
    for inputs in ("first", "second"):
        publish(releases_of(made), inputs, with_tables=False)
    return made


@pytest.fixture
def there(tmp_path) -> Path:
    return tmp_path / "there"


def releases_of(home: Home) -> Releases:
    return Releases(home, signing_key_of(home))


def copy(home: Home, url: str) -> list[str]:
    return [one.release for one in copy_releases(home, signing_key_of(home).public, url)]


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def published(home: Home) -> dict[str, bytes]:
    return {name: found for name, found in content(home.releases).items() if not name.startswith(".")}


def test_a_copy_is_the_same_folder_and_verifies_offline(home, there):
    assert copy(home, there.as_uri()) == ["heritage/0001", "heritage/0002"]
    assert content(there) == published(home)
    for number in ("0001", "0002"):
        assert verify_release(there / "heritage" / number, signing_key_of(home).public, there / "registry.jsonl").ok


@pytest.mark.parametrize("folder", ["releases", "store/copies", "."])
def test_nothing_is_copied_into_the_home_itself(home, folder):
    with pytest.raises(StoreError, match="is in the home .*, so that both would be lost together: name a folder elsewhere"):
        copy_releases(home, signing_key_of(home).public, (home.root / folder).as_uri())


@pytest.mark.parametrize("harm", ["changed", "gone"])
def test_copies_are_read_back_later_and_one_that_was_changed_is_noticed(home, there, harm):
    copy(home, there.as_uri())
    files = [path for path in (there / "heritage").rglob("*") if path.is_file()]
    assert read_copies_back(home, there.as_uri()) == (min(20, len(files)), len(files))
    assert read_copies_back(home, there.as_uri(), 1) == (1, len(files))
    victim = next(path for path in files if path.name != "manifest.json")
    victim.unlink()
    if harm == "changed":
        victim.write_text("something else")
    with pytest.raises(ReleaseError, match="is missing or is not what was published"):
        read_copies_back(home, there.as_uri(), len(files))


def test_what_is_there_is_not_copied_again_and_every_copy_is_recorded(home, there):
    copy(home, there.as_uri())
    publish(releases_of(home), "third", with_tables=False)
    assert copy(home, there.as_uri()) == ["heritage/0003"]
    assert copy(home, there.as_uri()) == []
    assert content(there) == published(home)
    lines = [json.loads(line) for line in (home.store / "copies.jsonl").read_text().splitlines()]
    assert [line["release"] for line in lines] == ["heritage/0001", "heritage/0002", "heritage/0003"]
    assert {line["to"] for line in lines} == {there.as_uri()}


def test_the_manifest_is_written_after_everything_else_and_the_registry_after_it(home, there, monkeypatch):
    written = []
    put, write = RemoteFolder.put, RemoteFolder.write
    monkeypatch.setattr(RemoteFolder, "put", lambda self, name, source: (written.append(name), put(self, name, source))[1])
    monkeypatch.setattr(RemoteFolder, "write", lambda self, name, bytes: (written.append(name), write(self, name, bytes))[1])
    copy(home, there.as_uri())
    files = len(written) // 2
    assert written[-1] == "registry.jsonl" and len(written) == 2 * files + 1 and files > 3
    assert [name for name in written if name.endswith("manifest.json")] == [written[files - 1], written[2 * files - 1]]


@pytest.mark.parametrize("after", range(0, 10, 2))
def test_a_copy_that_breaks_off_is_no_release_and_is_finished_later(home, there, monkeypatch, after):
    put, left = RemoteFolder.put, [after]

    def breaks(self, name, source):
        if not left[0]:
            raise StoreError("the disk is full")
        left[0] -= 1
        put(self, name, source)

    with monkeypatch.context() as patch:
        patch.setattr(RemoteFolder, "put", breaks)
        with pytest.raises(StoreError, match="the disk is full"):
            copy(home, there.as_uri())
    key = signing_key_of(home).public
    for release in there.glob("heritage/*"):
        whole = (release / "manifest.json").exists()
        assert verify_release(release, key).ok == whole
    assert not (there / "registry.jsonl").exists()
    copy(home, there.as_uri())
    assert content(there) == published(home)


def test_a_copy_that_reads_back_differently_is_an_error_and_has_no_manifest(home, there, monkeypatch):
    put = RemoteFolder.put

    def damaged(self, name, source):
        put(self, name, source)
        if name.endswith("report.html"):
            (there / name).write_bytes(b"something else")

    monkeypatch.setattr(RemoteFolder, "put", damaged)
    with pytest.raises(ReleaseError, match="heritage/0001/report.html is not what was written there"):
        copy(home, there.as_uri())
    assert not list(there.rglob("manifest.json"))


def test_a_release_that_does_not_verify_is_not_copied(home, there):
    report = home.releases / "heritage" / "0001" / "report.html"
    report.chmod(0o644)
    report.write_bytes(b"changed")
    with pytest.raises(ReleaseError, match="heritage/0001 is not copied, because it does not verify"):
        copy(home, there.as_uri())
    assert not there.exists()


def test_another_release_in_its_place_is_never_replaced(home, there):
    copy(home, there.as_uri())
    (there / "heritage" / "0002" / "manifest.json").write_bytes(b"{}")
    with pytest.raises(ReleaseError, match="another release than this home's is in .*heritage/0002: releases never change"):
        copy(home, there.as_uri())
    assert (there / "heritage" / "0002" / "manifest.json").read_bytes() == b"{}"


def test_copies_of_two_homes_do_not_mix(home, there, tmp_path):
    copy(home, there.as_uri())
    before = content(there)
    other = Home(tmp_path / "other").create()
    publish(releases_of(other), "another", policy="other", with_tables=False)
    with pytest.raises(ReleaseError, match="the registry in .* is not the beginning of this home's"):
        copy(other, there.as_uri())
    assert content(there) == before


def test_a_registry_that_was_cut_here_is_found_out(home, there):
    copy(home, there.as_uri())
    registry = home.releases / "registry.jsonl"
    registry.write_bytes(registry.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(ReleaseError, match="is another home's, was changed, or is newer"):
        copy(home, there.as_uri())


class TestBeforeADecision:
    """What the copies in DEID_COPY_TO know, the home must know, too."""

    @pytest.fixture(autouse=True)
    def copied(self, home, there, monkeypatch):
        monkeypatch.setenv("DEID_SECRET", "a secret of tests, which is long enough")
        opt_out(home, "m1")
        publish(releases_of(home), "third", with_tables=False)
        copy(home, there.as_uri())
        monkeypatch.setenv("DEID_COPY_TO", there.as_uri())
        assert missing_in(home) == []

    def refused(self, home: Home, said: str) -> None:
        before = content(home.root)
        with pytest.raises(ReleaseError, match=said):
            publish(releases_of(home), "fourth", with_tables=False)
        assert content(home.root) == before and any(re.search(said, text) for text in missing_in(home))

    def test_a_home_that_was_cut_back_everywhere_is_refused(self, home):
        cut_back(home, lines=3, registered=2)
        shutil.rmtree(home.releases / "heritage" / "0003")
        self.refused(home, "the registry in .*there is not the beginning of this home's: .* is newer")

    def test_a_cut_journal_is_known_to_the_manifest_of_a_copy(self, home):
        """The release was withdrawn, so that nobody misses its folder."""
        releases_of(home).withdraw("heritage", 3, "a mistake")
        cut_back(home, lines=3)
        shutil.rmtree(home.releases / "heritage" / "0003")
        self.refused(home, "lacks lines that the manifest of release heritage/0003 in .*there knows")

    def test_a_withdrawn_release_whose_folder_is_gone_is_no_loss(self, home):
        releases_of(home).withdraw("heritage", 3, "a mistake")
        shutil.rmtree(home.releases / "heritage" / "0003")
        assert missing_in(home) == []

    def test_a_damaged_list_of_copies_is_no_yes(self, home, there):
        there.rename(there.with_name("moved"))
        (home.store / "copies.jsonl").write_text("{")
        self.refused(home, "cannot be compared: store/copies.jsonl, which says what was copied, is damaged")

    def test_a_home_that_begins_anew_is_refused(self, home, tmp_path):
        os.rename(home.root, tmp_path / "renamed")
        home.create()
        before = content(home.root)
        for command in (("member", "opt-out", "m2", "--reason", "asked", "--unmatched-ok"), ("home", "upgrade", "--yes")):
            code, printed = deid_here(home.root, *command)
            assert code == 1 and "is not the beginning of this home's" in unwrapped(printed), printed
        assert {name for name in content(home.root) if name.startswith(("store", "policies"))} <= set(before)

    def test_copies_that_cannot_be_read_are_no_yes(self, home, there, monkeypatch):
        there.rename(there.with_name("moved"))
        self.refused(home, "the copies that were made in .*there are not there")
        (there / "registry.jsonl").mkdir(parents=True)
        self.refused(home, "the copies in DEID_COPY_TO cannot be compared: .*there cannot be read")
        monkeypatch.setenv("DEID_COPY_TO", "nowhere")
        self.refused(home, "the copies in DEID_COPY_TO cannot be compared: .*it must be like s3://bucket/folder")
        monkeypatch.delenv("DEID_COPY_TO")
        assert missing_in(home) == []

    @pytest.mark.parametrize("written", ["{}", "{}/", "file://{}/below/.."])
    def test_copies_that_are_gone_are_missed_however_their_folder_is_written(self, home, there, monkeypatch, written):
        there.rename(there.with_name("moved"))
        monkeypatch.setenv("DEID_COPY_TO", written.format(there))
        self.refused(home, f"the copies that were made in {there.as_uri()} are not there")

    def test_copies_of_another_home_are_found_out(self, home, tmp_path):
        other = Home(tmp_path / "other").create()
        with pytest.raises(ReleaseError, match="is not the beginning of this home's"):
            publish(releases_of(other), "another", policy="other", with_tables=False)
        assert not other.releases.joinpath("registry.jsonl").exists()


def opt_out(home: Home, member: str) -> None:
    assert enter_opt_out(releases_of(home), OptOutLine(member, True, "asked", "2026-11-26T10:00:00+00:00"))


def cut_back(home: Home, lines: int, registered: int | None = None) -> None:
    """Cut the journal back to some lines, its kept head, too, and the opt-outs that it then lacks; and the registry."""
    file = home.store / "journal.jsonl"
    kept = file.read_bytes().splitlines(keepends=True)[:lines]
    file.write_bytes(b"".join(kept))
    (home.keys / "journal.head").write_bytes(Head.of(releases_of(home).journal.file.read()).to_json())
    (home.policies / "opt_outs.jsonl").unlink()
    registry = home.releases / "registry.jsonl"
    registry.write_bytes(b"".join(registry.read_bytes().splitlines(keepends=True)[:registered]))


def test_where_nothing_was_released_nothing_is_copied(tmp_path, there):
    assert copy(Home(tmp_path / "empty").create(), there.as_uri()) == [] and not there.exists()


def test_withdrawn_releases_are_not_copied_and_their_withdrawal_is(home, there, monkeypatch):
    monkeypatch.setenv("DEID_COPY_TO", there.as_uri())
    code, printed = deid_here(home.root, "release", "withdraw", "heritage/0002", "--reason", "a mistake")
    assert code == 0 and there.as_uri() in printed
    assert not (there / "heritage" / "0002").exists() and (there / "heritage" / "0001" / "manifest.json").exists()
    assert (there / "registry.jsonl").read_bytes() == (home.releases / "registry.jsonl").read_bytes()


def test_the_command_says_what_it_copied(home, there, monkeypatch):
    monkeypatch.delenv("DEID_COPY_TO", raising=False)
    assert deid_here(home.root, "release", "copy")[0] == 64
    code, printed = deid_here(home.root, "release", "copy", "--to", there.as_uri())
    assert code == 0 and f"heritage/0001 copied to {there.as_uri()}" in " ".join(printed.split())
    assert "Every release was there already." in deid_here(home.root, "release", "copy", "--to", there.as_uri())[1]


def test_after_publication_a_copy_that_fails_is_said_and_takes_nothing_back(home, there, monkeypatch):
    key = signing_key_of(home).public
    monkeypatch.delenv("DEID_COPY_TO", raising=False)
    assert copy_published(home, key) == {}
    there.write_text("a file")
    monkeypatch.setenv("DEID_COPY_TO", (there / "below").as_uri())
    said = copy_published(home, key)
    assert set(said) == {"notice"} and "is published, but was not copied; `deid release copy` tries again" in said["notice"]
    there.unlink()
    assert copy_published(home, key) == {"copied_to": (there / "below").as_uri()}


def test_after_a_rotation_earlier_releases_are_copied_too(home, there):
    rotate(home)
    assert copy(home, there.as_uri()) == ["heritage/0001", "heritage/0002"]


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:secret-of-tests@bucket/x",
        "s3://key:secret/of-tests@bucket/x",
        "s3://key:secret#of-tests@bucket/x",
        "s3://key:secret?of-tests@bucket/x",
        "key:secret-of-tests@bucket/x",
        "http://example/x",
        "nowhere",
        "s3://bucket/x?secret-of-tests=y",
    ],
)
def test_a_url_of_another_kind_or_with_credentials_is_refused_and_not_shown(home, url):
    with pytest.raises(StoreError, match="it must be like s3://bucket/folder|has credentials in it") as caught:
        copy(home, url)
    assert "of-tests@" not in str(caught.value) and "key:" not in str(caught.value)
    assert not (home.store / "copies.jsonl").exists()


@needs_s3
class TestObjectStorage:
    @pytest.fixture
    def url(self, monkeypatch) -> Iterator[str]:
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        with s3_bucket() as options:
            yield f"s3://bucket/releases{options}"

    def test_a_copy_is_the_same_files_and_its_credentials_are_nowhere(self, home, url):
        assert copy(home, url) == ["heritage/0001", "heritage/0002"] and copy(home, url) == []
        bucket = RemoteFolder.at(url)
        assert {name: bucket.read(name) for name in bucket.names()} == published(home)
        assert "endpoint" not in (home.store / "copies.jsonl").read_text()

    def test_a_bucket_that_is_not_there_is_one_sentence(self, home, url):
        with pytest.raises(StoreError, match="s3://missing/releases cannot be") as caught:
            copy(home, url.replace("s3://bucket", "s3://missing"))
        assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in str(caught.value)
