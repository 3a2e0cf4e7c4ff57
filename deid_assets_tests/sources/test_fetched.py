"""Deliveries by URL: fetched once, whole, for their owner only; and final from then on."""

import stat
from pathlib import Path

import pytest

from deid_assets.command_line.deliveries import Expired, purge
from deid_assets.errors import DeliveryError, StoreError
from deid_assets.sources import registration as fetched
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.registration import fetch, forget_fetched, register_delivery, registered_delivery
from deid_assets.store.remote import RemoteFolder
from deid_assets_tests.buckets import CREDENTIALS, needs_s3, s3_bucket
from deid_assets_tests.scenarios.command_line import ERROR, deid_here
from deid_assets_tests.scenarios.policies import SMALL, write_policy

CONTENT = {"members.csv": b"id\n1\n", "claims/part-1.csv": b"id\n1\n", "claims/part-2.csv": b"id\n2\n"}


@pytest.fixture
def delivered(tmp_path) -> Path:
    """A delivery elsewhere."""
    folder = tmp_path / "in" / "2012-04"
    for name, content in CONTENT.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_folder_is_copied_for_its_owner_only(home, delivered):
    copy = fetch(home, delivered.as_uri())
    assert copy == home.deliveries / "fetched" / "2012-04" and content(copy) == CONTENT
    assert {mode(path) for path in copy.rglob("*") if path.is_file()} == {0o600}
    assert {mode(path) for path in (copy, copy / "claims", copy.parent)} == {0o700}
    register_delivery(home, Delivery("2012-04", "tables", (copy,)))


def test_a_file_is_copied_under_its_own_name(home, delivered):
    copy = fetch(home, (delivered / "members.csv").as_uri())
    assert copy == home.deliveries / "fetched" / "members" / "members.csv" and copy.read_bytes() == CONTENT["members.csv"]
    assert content(copy.parent) == {"members.csv": CONTENT["members.csv"]}


def test_fetching_it_again_is_harmless_and_other_content_is_refused(home, delivered):
    copy = fetch(home, delivered.as_uri())
    assert fetch(home, delivered.as_uri()) == copy
    (delivered / "members.csv").write_bytes(b"id\n2\n")
    with pytest.raises(
        DeliveryError, match="is not what was fetched as 2012-04 before: a delivery is final once it was fetched"
    ):
        fetch(home, delivered.as_uri())
    assert content(copy) == CONTENT
    again = fetch(home, delivered.as_uri(), "2012-05")
    assert again.name == "2012-05" and (again / "members.csv").read_bytes() == b"id\n2\n"
    assert not list(copy.parent.glob(".making*"))


def test_the_digest_is_that_of_the_delivery_itself(home, delivered):
    copy = fetch(home, delivered.as_uri())
    assert Delivery("a", "tables", (copy,)).digest() == Delivery("a", "tables", (delivered,)).digest()


def test_one_that_changes_meanwhile_is_not_kept(home, delivered, monkeypatch):
    get = RemoteFolder.get

    def and_more(self, name, target):
        get(self, name, target)
        (delivered / "late.csv").write_bytes(b"id\n3\n")

    monkeypatch.setattr(RemoteFolder, "get", and_more)
    with pytest.raises(DeliveryError, match="changed while it was fetched; fetch it again once it is complete"):
        fetch(home, delivered.as_uri())
    assert [path.name for path in (home.deliveries / "fetched").iterdir()] == [".lock"]


def test_one_that_breaks_off_is_not_kept(home, delivered, monkeypatch):
    def breaks(self, name, target):
        raise StoreError("the disk is full")

    monkeypatch.setattr(RemoteFolder, "get", breaks)
    with pytest.raises(StoreError, match="the disk is full"):
        fetch(home, delivered.as_uri())
    assert [path.name for path in (home.deliveries / "fetched").iterdir()] == [".lock"]


def test_where_there_is_nothing_it_says_so(home, tmp_path):
    with pytest.raises(DeliveryError, match="there is no file in file:///.*/nowhere"):
        fetch(home, (tmp_path / "nowhere").as_uri())


@pytest.mark.parametrize("name", ["../outside.csv", "a//b.csv", "a/../../b.csv"])
def test_names_that_lead_elsewhere_are_counted_and_not_shown(home, delivered, monkeypatch, name):
    listed = RemoteFolder.listed
    monkeypatch.setattr(RemoteFolder, "listed", lambda self: (self, listed(self)[1] | {name: None}))
    with pytest.raises(DeliveryError, match="1 of its names cannot be names of files here") as caught:
        fetch(home, delivered.as_uri())
    assert name not in str(caught.value)


def test_the_copy_goes_with_the_last_store_of_the_delivery(home, delivered):
    copy = fetch(home, delivered.as_uri())
    register_delivery(home, Delivery("2012-04", "tables", (copy, delivered)))
    for policy in ("one", "other"):
        (home.store / policy).mkdir()
        (home.store / policy / "2012-04.duckdb").touch()
    purge(home, Expired("one", "2012-04", 9), "retention")
    assert content(copy) == CONTENT
    purge(home, Expired("other", "2012-04", 9), "retention")
    assert not copy.exists() and content(delivered) == CONTENT
    assert registered_delivery(home, "2012-04").paths == (copy, delivered)


def test_only_copies_are_forgotten(home, delivered):
    forget_fetched(home, (delivered, home.deliveries / "synthetic-1-1", home.deliveries / fetched.FOLDER))
    assert content(delivered) == CONTENT


def test_the_command_line_takes_a_url_and_registers_the_copy(home, delivered):
    write_policy(home.policies, SMALL)
    code, printed = deid_here(home.root, "delivery", "add", delivered.as_uri(), "--policy", "small", "--key", "2012-Q2")
    assert code == 0 and "2012-Q2 is registered" in printed
    assert registered_delivery(home, "2012-Q2").paths == (home.deliveries / "fetched" / "2012-Q2",)
    assert deid_here(home.root, "delivery", "remove", "2012-Q2", "--policy", "small", "--reason", "a test")[0] == 0
    assert not (home.deliveries / "fetched" / "2012-Q2").exists()
    code, printed = deid_here(home.root, "run", "--policy", "small", "--delivery", "nope://bucket/x")
    assert code == ERROR and "nope://bucket/x: Unrecognized filesystem type" in " ".join(printed.split())


@needs_s3
def test_a_delivery_is_fetched_from_object_storage(home, delivered, monkeypatch):
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with s3_bucket() as options:
        bucket = RemoteFolder.at(f"s3://bucket/in/2012-04{options}")
        for name in CONTENT:
            bucket.put(name, delivered / name)
        copy = fetch(home, f"s3://bucket/in/2012-04{options}")
        assert copy.name == "2012-04" and content(copy) == CONTENT
        file = fetch(home, f"s3://bucket/in/2012-04/members.csv{options}")
        assert file.name == "members.csv" and file.read_bytes() == CONTENT["members.csv"]
        with pytest.raises(DeliveryError, match="there is no file in s3://bucket/in/2012-05"):
            fetch(home, f"s3://bucket/in/2012-05{options}")
