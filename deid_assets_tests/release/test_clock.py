"""A clock that was set back, or far ahead, is told; times in the registry do not go back."""

import datetime
import json
from dataclasses import replace

import pytest

from deid_assets.errors import ReleaseError
from deid_assets.release.keyring import signing_key_of
from deid_assets.release.publication.publish import Releases
from deid_assets.release.publication.verification import verify_release
from deid_assets.release.registry import clock
from deid_assets.release.registry.chain import GENESIS, Entry, Registry
from deid_assets.release.rotation import correct_clock
from deid_assets.store.home import Home
from deid_assets_tests.release import making

IN_TIME = "the release is not older than what was registered before it"


def set_to(monkeypatch, text):
    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.datetime.fromisoformat(text)

    monkeypatch.setattr(clock.datetime, "datetime", Clock)


def publish_at(releases, inputs, time):
    with releases.stage("heritage") as staging:
        staging.write_file("data/Members.txt", inputs.encode())
        making.stage_certificate(staging)
        return staging.publish(making.describe, staging.slot("2024", making.SECRET.keyed_digest("inputs", inputs), time))


@pytest.mark.parametrize("shown", ["1999-12-31T23:59:59+00:00", "1970-01-01T00:00:00+00:00"])
def test_a_clock_before_this_program_was_written_is_wrong(monkeypatch, shown):
    set_to(monkeypatch, shown)
    with pytest.raises(ReleaseError, match="before this program was written: correct it"):
        clock.now(None)


def test_a_clock_before_the_registrys_newest_entry_is_wrong(monkeypatch):
    set_to(monkeypatch, "2026-06-01T00:00:00+00:00")
    assert clock.now("2026-06-01T00:30:00Z") == "2026-06-01T00:00:00+00:00", "a run at the same time"
    with pytest.raises(ReleaseError, match="newest entry is dated 2026-06-02.*deid clock correct"):
        clock.now("2026-06-02T00:00:00Z")


def test_a_clock_decades_ahead_is_wrong(monkeypatch):
    set_to(monkeypatch, "2040-06-01T00:00:00+00:00")
    assert clock.now(None)
    set_to(monkeypatch, "2099-06-01T00:00:00+00:00")
    with pytest.raises(ReleaseError, match="over twenty years after the last known time"):
        clock.now("2030-01-01T00:00:00Z")
    assert clock.now("2090-01-01T00:00:00Z")


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-01", "2026-01-01T00:00:00", None, 7])
def test_what_is_no_time_with_its_zone_is_refused(text):
    with pytest.raises(ReleaseError, match="ISO 8601"):
        clock.parse_time(text)


def test_a_release_of_an_earlier_time_is_not_published(releases):
    publish_at(releases, "first", "2030-01-01T00:00:00Z")
    before = releases.registry.path.read_bytes()
    with pytest.raises(ReleaseError, match="correct the clock, and run again"):
        publish_at(releases, "second", "2029-12-31T00:00:00Z")
    assert releases.registry.path.read_bytes() == before and not releases.path("heritage", 2).exists()
    assert publish_at(releases, "second", "2029-12-31T23:30:00Z").entry.number == 2, "a run that was begun at the same time"
    with pytest.raises(ReleaseError, match="2030-01-01T00:00:00Z"):
        publish_at(releases, "third", "2029-12-31T22:45:00Z")


def test_the_registry_takes_no_entry_of_an_earlier_time(tmp_path):
    registry = Registry(tmp_path / "registry.jsonl")
    first = Entry("heritage", 1, "2024", "a" * 64, "b" * 64, GENESIS, "2030-01-01T00:00:00Z")
    registry.append(first)
    for time in ("1999-01-01T00:00:00Z", "no time"):
        with pytest.raises(ReleaseError, match="correct the clock"):
            registry.append(replace(first, number=2, previous=first.hash, time=time))


def test_times_that_go_back_are_told_of_the_release_that_goes_back(releases, monkeypatch):
    """In a registry that was written before times were compared."""
    publish_at(releases, "first", "2030-01-01T00:00:00Z")
    with monkeypatch.context() as patch:
        patch.setattr("deid_assets.release.publication.publish.goes_back", lambda *_: False)
        patch.setattr("deid_assets.release.registry.chain._goes_back", lambda *_: False)
        publish_at(releases, "second", "1999-01-01T00:00:00Z")
    publish_at(releases, "third", "2030-02-01T00:00:00Z")
    reports = [verify_release(releases.path("heritage", n), releases.key.public, releases.registry.path) for n in (1, 2, 3)]
    assert [report.ok for report in reports] == [True, False, True]
    assert [check.name for check in reports[1].failures] == [IN_TIME]
    assert "times go back in line 2" in reports[2].text()


def test_a_clock_that_was_ahead_is_corrected_by_an_entry_that_says_so(tmp_path):
    home = Home(tmp_path).create()
    releases = Releases(home, signing_key_of(home))
    publish_at(releases, "first", "2040-01-01T00:00:00Z")
    with pytest.raises(ReleaseError, match="deid clock correct"):
        clock.now(releases.registry.chain().last_time)
    with pytest.raises(ReleaseError, match="state what happened"):
        correct_clock(home, " ")
    entry = correct_clock(home, "the clock was years ahead")
    time = clock.now(releases.registry.chain().last_time)
    second = publish_at(releases, "second", time)
    assert verify_release(second.folder, releases.key.public, releases.registry.path).ok
    forged = json.loads(entry.line) | {"reason": "another"}
    assert forged["kind"] == "clock correction"
    lines = releases.registry.path.read_bytes().splitlines(keepends=True)
    releases.registry.path.write_bytes(lines[0] + replace(entry, reason="another").line + lines[2])
    assert "signature is not valid" in verify_release(second.folder, releases.key.public, releases.registry.path).text()
