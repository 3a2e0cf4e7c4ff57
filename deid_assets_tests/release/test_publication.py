"""A release is published whole or not at all, once, read-only, and byte for byte the same for the same rows."""

import dataclasses
import os
import shutil
import stat
import threading

import duckdb
import pytest

from deid_assets.errors import ReleaseError
from deid_assets.release.manifest.editions import editions
from deid_assets.release.publication import publish as publication
from deid_assets.release.publication.export import write_ordered
from deid_assets.release.publication.publish import Releases
from deid_assets.release.publication.verification import verify_release
from deid_assets.release.publication.waiting import release_folders
from deid_assets.store.digests import rows_digest
from deid_assets.store.tables import Query
from deid_assets_tests.release.making import (
    CLAIMS,
    SECRET,
    describe,
    judge,
    manifest,
    protect,
    publish,
    publish_staged,
    releases_in,
    stage_certificate,
)


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def connection():
    opened = duckdb.connect()
    yield opened
    opened.close()


def test_a_release_is_published_registered_and_in_order(releases, published):
    assert published.folder == releases.folder / "heritage" / "0001"
    assert names(published.folder) == ["certificate.json", "data", "manifest.json", "manifest.sig", "report.html"]
    assert names(published.folder / "data") == ["Claims.csv", "Claims.parquet"]
    assert releases.registry.head == published.entry.hash
    assert verify_release(published.folder, releases.key.public, releases.registry.path, published.entry.hash).ok
    assert names(published.folder.parent) == ["0001"]


def test_published_files_are_read_only_and_open_to_all_restricted_ones_owner_only(releases, published):
    umask = os.umask(0o077)
    try:
        second = publish(releases, "second")
    finally:
        os.umask(umask)
    for folder in (published.folder, second.folder):
        assert {mode(path) for path in folder.rglob("*") if path.is_file()} == {0o444}
        assert {mode(folder), mode(folder / "data")} == {0o755}
    assert mode(releases.restricted) == mode(releases.restricted / "heritage") == 0o700
    assert mode(releases.restricted / "heritage" / "0001.json") == 0o600


def test_what_is_staged_is_closed_to_others_and_hidden(releases):
    with releases.stage("heritage") as staging:
        assert mode(staging.folder) == 0o700
        assert staging.folder.name.startswith(".staging-0001-")
        assert staging.folder.parent == releases.folder / "heritage"


def test_two_runs_give_the_same_bytes(tmp_path):
    made = [publish(releases_in(tmp_path / run), "same") for run in ("a", "b")]
    for name in ("Claims.csv", "Claims.parquet"):
        first, second = ((one.folder / "data" / name).read_bytes() for one in made)
        assert first == second


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_bytes_depend_neither_on_row_order_nor_on_threads(connection, tmp_path, form):
    connection.execute(
        "CREATE TABLE claims AS SELECT 'm' || hash(range) % 999 AS m, nullif(range % 3, 0) AS n, DATE '2020-01-01' "
        "+ (range % 300)::INTEGER AS d FROM range(300_000)"
    )
    written = set()
    for threads, order in ((1, "rowid"), (2, "hash(rowid)"), (4, "rowid DESC")):
        connection.execute(f"SET threads = {threads}")
        connection.execute("SET preserve_insertion_order = false")
        connection.execute(f"CREATE OR REPLACE TABLE shuffled AS SELECT * FROM claims ORDER BY {order}")
        path = tmp_path / f"{threads}.{form}"
        write_ordered(connection, "SELECT * FROM shuffled", path, ["d"])
        written.add(path.read_bytes())
    assert len(written) == 1


def test_rows_come_in_the_order_asked_for_and_ties_by_the_other_columns(releases, connection):
    with releases.stage("heritage") as staging:
        table = "SELECT * FROM (VALUES (2, 'b'), (1, 'z'), (2, 'a'), (NULL, 'c')) AS given(n, t)"
        staging.write_table(connection, "T", table, ["n"])
        assert (staging.folder / "data" / "T.csv").read_text() == "n,t\n,c\n1,z\n2,a\n2,b\n"


def test_what_is_staged_reads_back_as_its_source(releases, connection):
    table = Query(
        "SELECT NULL::VARCHAR AS a, '' AS b, 'x,\"y\nz' AS c, ? AS d, DATE '2020-02-29' AS e, 0.1::DOUBLE AS f", ("é",)
    )
    with releases.stage("heritage") as staging:
        files = staging.write_table(connection, "T", table)
        assert [file.path for file in files] == ["data/T.csv", "data/T.parquet"]
        for file in files:
            assert (file.rows, file.rows_digest) == (1, rows_digest(connection, table))
            assert rows_digest(connection, staging.reader(file.path)) == file.rows_digest
        assert staging.files == files


def test_a_type_that_a_format_does_not_keep_is_named(releases, connection):
    with releases.stage("heritage") as staging, pytest.raises(ReleaseError, match="T.parquet .* cast total to"):
        staging.write_table(connection, "T", "SELECT 1::HUGEINT AS total, 1 AS n")


@pytest.mark.parametrize("name", ["../escape", "a/b", ".hidden", "", "x y", "a\nb"])
def test_file_names_stay_inside(releases, connection, name):
    with releases.stage("heritage") as staging:
        with pytest.raises(ReleaseError, match="name of a released file"):
            staging.write_table(connection, name, CLAIMS)
        with pytest.raises(ReleaseError, match="name of a released file"):
            staging.write_file(name, b"")


@pytest.mark.parametrize("name", ["manifest.json", "manifest.sig"])
def test_the_manifest_is_not_for_others_to_write(releases, name):
    with releases.stage("heritage") as staging, pytest.raises(ReleaseError, match="name of a released file"):
        staging.write_file(name, b"")


def test_a_file_is_staged_once(releases, connection):
    with releases.stage("heritage") as staging:
        staging.write_table(connection, "T", CLAIMS)
        with pytest.raises(ReleaseError, match="already staged"):
            staging.write_table(connection, "T", CLAIMS)


@pytest.mark.parametrize("policy", ["..", "Heritage", "a/b", "", ".staging-0001-aa"])
def test_a_policy_names_a_folder_and_nothing_else(releases, policy):
    with pytest.raises(ReleaseError, match="policy's name"), releases.stage(policy):
        pass


def test_refusal_leaves_nothing_and_the_last_release_untouched(releases, published, connection):
    before = {path: path.read_bytes() for path in releases.folder.rglob("*") if path.is_file()}

    def refused():
        with releases.stage("heritage") as staging:
            staging.write_table(connection, "Claims", CLAIMS)
            raise RuntimeError("refused")

    with pytest.raises(RuntimeError, match="refused"):
        refused()
    assert {path: path.read_bytes() for path in releases.folder.rglob("*") if path.is_file()} == before
    assert names(releases.folder / "heritage") == ["0001"]


def tamper_content(folder):
    path = folder / "data" / "Claims.csv"
    os.chmod(path, 0o644)
    path.write_bytes(path.read_bytes().replace(b"member 1", b"member 2", 1))


def tamper_extra(folder):
    (folder / "data" / "Extra.csv").write_text("x")


def tamper_missing(folder):
    (folder / "data" / "Claims.parquet").unlink()


def tamper_link(folder):
    tamper_missing(folder)
    (folder / "data" / "Claims.parquet").symlink_to(folder / "data" / "Claims.csv")


@pytest.mark.parametrize("tamper", [tamper_content, tamper_extra, tamper_missing, tamper_link])
def test_a_staged_file_that_was_tampered_with_is_not_published(releases, connection, tamper):
    with releases.stage("heritage") as staging:
        staging.write_table(connection, "Claims", CLAIMS)
        judge(staging, "Claims")
        stage_certificate(staging)
        tamper(staging.folder)
        with pytest.raises(ReleaseError, match="nothing is published"):
            staging.publish(describe, staging.slot("2024", "b" * 64, "2024-01-01T00:00:00Z"))
    assert names(releases.folder / "heritage") == []
    assert releases.registry.chain().entries == ()


def test_a_manifest_of_another_release_is_not_signed(releases):
    def another(place):
        made = describe(place)
        return dataclasses.replace(made, public=made.public.replace(b'"number":1', b'"number":2'))

    def other_files(place):
        place = type(place)(**vars(place) | {"files": ()})
        return editions(manifest(place), protect)

    def other_restricted(place):
        made = describe(place)
        return dataclasses.replace(made, restricted=made.restricted + b" ")

    def other_members(place):
        return dataclasses.replace(describe(place), member_tags=b"")

    def other_roll(place):
        return dataclasses.replace(describe(place), roll=b"x" * 12)

    for described in (another, other_files, other_restricted, other_members, other_roll):
        with releases.stage("heritage") as staging:
            staging.write_file("data/Members.txt", b"")
            with pytest.raises(ReleaseError, match="describes a different release"):
                publish_staged(staging, described)
    assert names(releases.folder / "heritage") == []


def test_a_release_without_data_is_not_published(releases):
    with releases.stage("heritage") as staging:
        staging.write_file("report.html", b"")
        with pytest.raises(ReleaseError, match="no data"):
            staging.publish(describe, staging.slot("2024", "b" * 64, "2024-01-01T00:00:00Z"))


def test_unchanged_inputs_are_not_released_again(releases, published):
    with pytest.raises(ReleaseError, match="released before, as heritage/0001"):
        publish(releases, "first")
    assert names(releases.folder / "heritage") == ["0001"]
    assert publish(releases, "second").entry.number == 2
    assert publish(releases, "first", policy="other").entry.number == 1


def test_numbers_are_never_used_again(releases, published):
    assert publish(releases, "second").entry.number == 2
    archived = releases.folder.parent / "archived"
    os.rename(releases.path("heritage", 2), archived)
    with pytest.raises(
        ReleaseError, match="the folder of release heritage/0002 is missing, or .* from a backup or from a copy"
    ):
        publish(releases, "third")
    os.rename(archived, releases.path("heritage", 2))
    assert publish(releases, "third").entry.number == 3


def test_releases_in_the_making_at_once_have_different_numbers_and_publish_in_any_order(releases):
    with releases.stage("heritage") as first, releases.stage("heritage") as second:
        assert (first.number, second.number) == (1, 2)
        assert releases.recover().removed == ()  # both are alive
        for inputs, staging in (("b", second), ("a", first)):
            staging.write_file("data/Members.txt", b"")
            stage_certificate(staging)
            staging.publish(describe, staging.slot("2024", SECRET.keyed_digest("inputs", inputs), "2024-01-01T00:00:00Z"))
    assert [entry.number for entry in releases.registry.chain().entries] == [2, 1]
    assert all(verify_release(releases.path("heritage", n), releases.key.public, releases.registry.path).ok for n in (1, 2))


@pytest.mark.matrix
def test_many_publish_at_once(releases):
    failed = []

    def run(worker):
        try:
            for turn in range(3):
                publish(releases, f"{worker} {turn}", policy="ab"[worker % 2], with_tables=False)
        except Exception as error:  # told by the assertion below
            failed.append(error)

    threads = [threading.Thread(target=run, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    entries = releases.registry.chain().entries
    assert len(entries) == 18
    for policy in "ab":
        assert len({entry.number for entry in entries if entry.policy == policy}) == 9
        assert all(name.isdigit() for name in names(releases.folder / policy))
    for entry in entries:
        assert verify_release(releases.path(entry.policy, entry.number), releases.key.public, releases.registry.path).ok


def test_without_a_certificate_nothing_is_published(releases):
    with releases.stage("heritage") as staging:
        staging.write_file("data/Members.txt", b"")
        with pytest.raises(ReleaseError, match="has no certificate.json"):
            staging.publish(describe, staging.slot("2024", "b" * 64, "2024-01-01T00:00:00Z"))


def test_the_same_inputs_at_once_are_released_once(releases):
    with releases.stage("heritage") as first, releases.stage("heritage") as second:
        for staging in (first, second):
            staging.write_file("data/Members.txt", b"")
            stage_certificate(staging)
        first.publish(describe, first.slot("2024", "b" * 64, "2024-01-01T00:00:00Z"))
        with pytest.raises(ReleaseError, match="released before"):
            second.publish(describe, second.slot("2024", "b" * 64, "2024-01-01T00:00:00Z"))


def test_nothing_is_released_onto_a_broken_registry(releases, published):
    path = releases.registry.path
    path.write_bytes(path.read_bytes().replace(b"2024-01-01", b"2024-01-02"))
    with pytest.raises(ReleaseError, match="line 1 of the registry"):
        publish(releases, "second")
    assert names(releases.folder / "heritage") == ["0001"]


def test_a_folder_that_no_crash_explains_is_reported_and_not_registered(releases, published):
    planted = releases.path("heritage", 7)
    planted.mkdir()
    recovery = releases.recover()
    assert recovery.completed == () and "heritage/0007 is not in the registry" in recovery.problems[0]
    with pytest.raises(ReleaseError, match="resolved: release heritage/0007"):
        publish(releases, "second")


def test_a_release_signed_by_another_key_is_not_registered(releases, published, tmp_path):
    foreign = releases_in(tmp_path / "foreign")
    publish(foreign, "first")
    foreign_second = publish(foreign, "second")
    os.rename(foreign_second.folder, releases.path("heritage", 2))
    [problem] = releases.recover().problems
    assert "another key signed" in problem


def test_recovery_registers_one_release_at_most(releases, published):
    publish(releases, "second")
    whole = releases.registry.path.read_bytes()
    releases.registry.path.write_bytes(whole.splitlines(keepends=True)[0])
    assert [entry.number for entry in releases.recover().completed] == [2]
    assert releases.registry.path.read_bytes() == whole
    releases.registry.path.unlink()
    assert len(releases.recover().problems) == 2


def test_a_registry_that_cannot_be_written_is_told_and_mended_at_the_next_start(releases, monkeypatch):
    def full(self, entry):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("deid_assets.release.registry.chain.Registry.append", full)
        with pytest.raises(ReleaseError, match="at the next start"):
            publish(releases, "first")
    [completed] = releases.recover().completed
    assert verify_release(releases.path("heritage", completed.number), releases.key.public, releases.registry.path).ok


def test_what_else_lies_in_the_folder_of_a_policy_takes_no_number(releases, published):
    (published.folder.parent / "notes.txt").write_text("made by hand")
    assert publish(releases, "second").entry.number == 2


def test_a_staging_folder_whose_lock_somebody_else_takes_is_not_used(releases, monkeypatch):
    take_lock = publication.durable.take_lock
    monkeypatch.setattr(publication.durable, "take_lock", lambda path, wait: take_lock(path, wait) if wait else None)
    with pytest.raises(ReleaseError, match="another process holds the lock"), releases.stage("heritage"):
        pass


def stage_text(staging):
    staging.write_file("data/Members.txt", b"")
    stage_certificate(staging)


def test_a_release_that_began_before_the_newest_entry_is_not_published(releases, published):
    with releases.stage("heritage") as staging:
        stage_text(staging)
        with pytest.raises(ReleaseError, match="before the registry's newest entry of 2024-01-01T00:00:01Z: correct the clock"):
            staging.publish(describe, staging.slot("2024", "b" * 64, "2023-12-31T00:00:00Z"))
    assert names(releases.folder / "heritage") == ["0001"]


def test_a_folder_that_appears_in_the_place_of_a_release_is_not_overwritten(releases):
    def describe_while_somebody_makes_a_folder(place):
        releases.path("heritage", 1).mkdir()
        return describe(place)

    with releases.stage("heritage") as staging:
        stage_text(staging)
        with pytest.raises(ReleaseError, match="heritage/0001 already exists"):
            staging.publish(describe_while_somebody_makes_a_folder, staging.slot("2024", "b" * 64, "2024-01-01T00:00:00Z"))
    assert list(releases.path("heritage", 1).iterdir()) == []
    assert releases.registry.chain().entries == ()


def test_another_release_of_the_same_key_does_not_take_the_place_of_a_staged_one(releases, published, monkeypatch):
    """It verifies as a release does, but it is not the one that was just made."""

    def swapped(folder, key):
        for path in sorted(folder.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        shutil.copytree(published.folder, folder, dirs_exist_ok=True)
        return verify_release(folder, key)

    monkeypatch.setattr(publication, "verify_release", swapped)
    with releases.stage("heritage") as staging:
        stage_text(staging)
        with pytest.raises(ReleaseError, match=r"nothing is published: manifest\.json is not the one that was created$"):
            staging.publish(describe, staging.slot("2024", "b" * 64, "2024-01-01T00:00:00Z"))
    assert names(releases.folder / "heritage") == ["0001"]


def test_a_release_moved_to_another_policy_is_not_registered_there(releases, published):
    releases.registry.path.unlink()
    (releases.folder / "other").mkdir()
    os.rename(published.folder, releases.path("other", 1))
    [problem] = releases.recover().problems
    assert problem == "release other/0001 is not in the registry: its manifest says that it is heritage/0001"


def test_tables_are_written_as_csv_or_parquet(connection, tmp_path):
    with pytest.raises(ReleaseError, match=r"as csv or parquet, not as \.json"):
        write_ordered(connection, CLAIMS, tmp_path / "Claims.json")
    assert list(tmp_path.iterdir()) == []


def test_releases_show_no_key(releases):
    assert isinstance(releases, Releases)
    pem = (releases.folder.parent / "keys" / "signing_key.pem").read_text().splitlines()[1]
    assert pem not in repr(releases)


def test_a_home_without_releases_has_no_folders_of_them(tmp_path):
    assert release_folders(tmp_path / "releases") == []
