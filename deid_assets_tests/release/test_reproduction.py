"""The temporary home in which a release is made again: what it knows, what it must not hold, and what it leaves."""

import copy
import json
import os
import shutil
import stat

import duckdb
import pytest

from deid_assets.errors import PolicyError, ReleaseError
from deid_assets.policy.loading import policy_called
from deid_assets.policy.withdrawals import OptOutLine
from deid_assets.release.keyring import signing_key_of
from deid_assets.release.lineage.published import published_release
from deid_assets.release.manifest.editions import ShownPolicy, editions
from deid_assets.release.opt_outs import enter_opt_out
from deid_assets.release.reproduction import FOLDER, ComparedFile, compared_files, recall, temporary_home
from deid_assets.store import durable
from deid_assets.store.home import Home
from deid_assets_tests.release import making
from deid_assets_tests.scenarios.policies import SMALL, write_policy

GROUPS = "Inpatient Hospital;any\nOffice;any\n"


@pytest.fixture
def home(tmp_path) -> Home:
    """Three releases: one of another policy, then two of the policy `small`, which reads a hierarchy from a file."""
    home = Home(tmp_path).create()
    (home.policies / "places.csv").write_text(GROUPS)
    values = copy.deepcopy(SMALL)
    values["hierarchies"]["other"] = {"kind": "csv", "file": "places.csv"}
    values["opt_outs"] = {"members": ["member 31"], "matched_at_least": 0}
    write_policy(home.policies, values)
    releases = making.releases_in(tmp_path)
    enter_opt_out(releases, OptOutLine("member 32", True, "asked", "2026-01-01T00:00:00Z"))
    policy = policy_called("small", home.policies)
    making.publish(releases, "other inputs")
    text = ShownPolicy("small", policy.hash, json.dumps(policy.content()), json.dumps(making.POLICY))
    for inputs in ("first", "second"):
        with releases.stage("small") as staging:
            staging.write_table(duckdb.connect(), "Claims", making.CLAIMS)
            making.judge(staging, "Claims")
            making.stage_certificate(staging)
            staging.publish(
                lambda place: editions(making.manifest(place, policy=text), making.protect),
                staging.slot("delivery", making.SECRET.keyed_digest("inputs", inputs), f"2026-01-0{staging.number}T00:00:00Z"),
            )  # fmt: skip
    return home


def second(home: Home):
    return published_release(home, home.releases / "small" / "0002")


def test_the_temporary_home_is_its_owners_and_goes_whatever_happens(home):
    def work() -> None:
        with temporary_home(home) as temporary:
            assert temporary.root.is_relative_to(home.store)
            assert stat.S_IMODE(temporary.root.stat().st_mode) == 0o700
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert not (home.store / FOLDER).exists()


def test_what_a_killed_process_left_goes_with_the_next_and_a_living_one_stays(home):
    dead = home.store / FOLDER / "dead"
    (dead / "store").mkdir(parents=True)
    with temporary_home(home) as living:
        assert not dead.exists()
        with temporary_home(home) as other:
            assert living.root.is_dir() and other.root != living.root
        assert living.root.is_dir()
    assert not (home.store / FOLDER).exists()


def test_it_knows_the_releases_before_and_no_later_one_and_no_key(home, monkeypatch):
    key = signing_key_of(home)
    with temporary_home(home) as temporary:
        policy = recall(home, published_release(home, home.releases / "small" / "0001"), temporary)
        assert policy.name == "small"
        known = sorted(str(path.relative_to(temporary.releases)) for path in temporary.releases.rglob("*") if path.is_file())
        assert {path.partition("/")[0] for path in known} == {".lock", "heritage", "registry.jsonl"}
        assert {"heritage/0001/manifest.json", "heritage/0001/data/Claims.csv"} <= set(known)
        own = signing_key_of(temporary)
        assert own.public != key.public, "nothing that is made there can pass for a release"
        assert (home.keys / "signing_key.pem").read_bytes() != (temporary.keys / "signing_key.pem").read_bytes()
        assert not (temporary.keys / "secret").exists()
        monkeypatch.setenv("DEID_SECRET_FILE", str(home.keys / "secret"))  # it is not copied
        staged = making.releases_in(temporary.root)
        with staged.stage("small") as staging:
            assert staging.number == 1, "the number of the release, on which random streams depend"


def test_the_policy_of_the_home_is_used_while_it_is_the_same(home):
    with temporary_home(home) as temporary:
        recall(home, second(home), temporary)
        assert (temporary.policies / "small.yaml").read_bytes() == (home.policies / "small.yaml").read_bytes()
        assert (temporary.policies / "places.csv").read_text() == GROUPS


def test_a_policy_that_changed_since_is_made_again_from_the_manifest(home):
    released = policy_called("small", home.policies)
    (home.policies / "places.csv").write_text("Office;all\n")
    write_policy(home.policies, SMALL)
    with temporary_home(home) as temporary:
        again = recall(home, second(home), temporary)
        assert again.hash == released.hash != policy_called("small", home.policies).hash
        assert policy_called("small", temporary.policies).hash == released.hash


def test_who_opted_out_since_is_on_no_list_of_the_temporary_home(home):
    released = policy_called("small", home.policies)
    enter_opt_out(making.releases_in(home.root), OptOutLine("member 33", True, "asked", "2026-02-01T00:00:00Z"))
    with temporary_home(home) as temporary:
        again = recall(home, second(home), temporary)
        assert again.hash == released.hash != policy_called("small", home.policies).hash
        assert again.opt_outs.withdrawn == ("member 32",)


@pytest.mark.matrix
@pytest.mark.parametrize("text", ["{}", "[]", "no JSON", '{"hierarchies": {}}'])
def test_a_policy_that_cannot_be_made_again_is_an_error(home, text, monkeypatch):
    write_policy(home.policies, SMALL)
    published = second(home)
    published.restricted["policy"]["text"] = text
    with temporary_home(home) as temporary, pytest.raises(PolicyError, match="changed since release small/0002"):
        recall(home, published, temporary)
    assert not (home.store / FOLDER).exists()


@pytest.mark.matrix
@pytest.mark.parametrize("ending", ["json", "members"])
def test_an_earlier_release_that_is_not_known_any_more_is_an_error(home, ending):
    (home.store / "manifests" / "small" / f"0001.{ending}").unlink()
    with temporary_home(home) as temporary, pytest.raises(ReleaseError, match=r"it is not known what was released before"):
        recall(home, second(home), temporary)


def test_an_earlier_release_whose_folder_is_gone_is_an_error(home):
    shutil.rmtree(home.releases / "small" / "0001")
    with (
        temporary_home(home) as temporary,
        pytest.raises(ReleaseError, match="of the earlier release small/0001 cannot be read"),
    ):
        recall(home, second(home), temporary)


def test_files_are_copied_where_they_cannot_be_linked(home, monkeypatch):
    def two_disks(*arguments):
        raise OSError

    monkeypatch.setattr(os, "link", two_disks)
    with temporary_home(home) as temporary:
        recall(home, second(home), temporary)
        file = "small/0001/data/Claims.csv"
        assert (temporary.releases / file).read_bytes() == (home.releases / file).read_bytes()
        assert not (temporary.store / "manifests/small/0002.json").exists()


def test_a_release_that_is_not_registered_here_is_an_error(home):
    published = second(home)
    (home.releases / "registry.jsonl").unlink()
    with temporary_home(home) as temporary, pytest.raises(ReleaseError, match="no entry of release small/0002"):
        recall(home, published, temporary)


def test_every_file_is_compared_byte_by_byte(home, tmp_path):
    published, again = second(home), tmp_path / "again"
    (again / "data").mkdir(parents=True)
    for path in ("certificate.json", "data/Claims.csv"):
        (again / path).write_bytes((published.folder / path).read_bytes())
    content = (again / "data/Claims.csv").read_bytes()
    (again / "data/Claims.csv").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    (again / "data/More.csv").write_bytes(b"")
    (again / "report.html").write_bytes(b"another time")
    assert compared_files(published, again) == (
        ComparedFile("certificate.json", "equal"),
        ComparedFile("data/Claims.csv", "different"),
        ComparedFile("data/Claims.parquet", "missing"),
        ComparedFile("data/More.csv", "not published"),
    )


def test_the_lock_of_a_temporary_home_is_held(home):
    with temporary_home(home) as temporary:
        assert durable.take_lock(temporary.root / ".lock", wait=False) is None
    assert not os.path.lexists(temporary.root)
