"""A home that was operated before policies became one model of the data: what it holds keeps its meaning."""

import json
import re
import shutil
from collections.abc import Iterator

import pytest
import yaml

from deid_assets.errors import ERROR
from deid_assets.release.keys import SigningKey
from deid_assets.release.publication.verification import verify
from deid_assets.store.home import Home
from deid_assets_tests.frozen_homes.deliveries import PEOPLE
from deid_assets_tests.frozen_homes.make_operated import NAME, OPTED_OUT, SECOND_PERSON, given, numbered
from deid_assets_tests.frozen_homes.opened import SECRET, opened
from deid_assets_tests.scenarios.command_line import PUBLISHED, deid_here, unwrapped
from deid_assets_tests.scenarios.test_flat_release import people, write_people

pytestmark = pytest.mark.matrix
RELEASES = ("small/0001", "pinned/0001", "cohort/0001")


@pytest.fixture(scope="module")
def frozen(tmp_path_factory) -> Iterator[Home]:
    """The home, brought to the format of today."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEID_SECRET", SECRET)
        root = opened(NAME, tmp_path_factory.mktemp("operated"))
        exit_code, printed = deid_here(root, "home", "upgrade", "--yes")
        assert exit_code == PUBLISHED, printed
        yield Home(root)


@pytest.fixture
def home(frozen, tmp_path) -> Home:
    """A copy of it."""
    shutil.copytree(frozen.root, tmp_path / "deid", symlinks=True)
    return Home(tmp_path / "deid")


def manifest_of(home: Home, release: str) -> dict:
    return json.loads((home.releases / release / "manifest.json").read_text())


def charges(home: Home) -> list[str]:
    """The lines of the registry about noise that was paid for."""
    return [line for line in (home.releases / "registry.jsonl").read_text().splitlines() if '"noisy counts"' in line]


@pytest.mark.parametrize("release", RELEASES)
def test_its_releases_verify_and_pass_an_audit(frozen, release):
    key = SigningKey.load_or_create(frozen.keys).public
    assert verify(frozen.releases / release, key, frozen.releases / "registry.jsonl").ok
    exit_code, printed = deid_here(frozen.root, "audit", release)
    assert exit_code == PUBLISHED and f"release {release} is in order" in printed, printed


@pytest.mark.parametrize("policy", ["small", "cohort"])
def test_the_same_delivery_again_repeats_every_noisy_count_and_charges_nothing(home, tmp_path, policy):
    """Under another title: the very same policy would publish nothing, because nothing changed."""
    paid, file = charges(home), home.policies / f"{policy}.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"title": "The same, once more"}, sort_keys=False))
    exit_code, printed = deid_here(
        home.root, "run", "--policy", policy, *given(tmp_path / "given")[policy], "--key", f"{policy}-1"
    )
    assert exit_code == PUBLISHED, printed
    first, second = (manifest_of(home, f"{policy}/{number}") for number in ("0001", "0002"))
    assert second["counts"] == first["counts"] and second["attrition"] == first["attrition"]
    for path in sorted((home.releases / policy / "0001" / "data").glob("*.csv")):
        assert path.read_bytes() == (home.releases / policy / "0002" / "data" / path.name).read_bytes(), path.name
    assert charges(home) == paid


def test_the_pin_holds_and_the_next_delivery_is_compared_without_those_who_opted_out(home, tmp_path):
    delivery = write_people(tmp_path / "next", numbered([*people(PEOPLE), *people(4 * PEOPLE, 2)]))
    exit_code, printed = deid_here(home.root, "run", "--policy", "pinned", "--delivery", delivery, "--key", "pinned-2")
    assert exit_code == PUBLISHED, printed
    first, second = (
        json.loads((home.store / "manifests" / "pinned" / f"{number}.json").read_text())["generalization"]
        for number in ("0001", "0002")
    )
    assert second == first
    (linked,) = (
        measured["value"]
        for item in manifest_of(home, "pinned/0002")["evidence"]
        if item["asset"] == "record_cross_release_risk"
        for measured in item["measurements"]
        if measured["name"] == "record_releases_not_compared"
    )
    assert linked == 0 and not manifest_of(home, "pinned/0002")["not_compared"]
    for person in OPTED_OUT:
        exit_code, printed = deid_here(home.root, "member", "where", person)
        assert exit_code == PUBLISHED and "pinned/0001" in printed and "pinned/0002" not in printed, printed


def test_the_release_that_waits_is_judged_anew_by_this_version_and_approved(home, tmp_path, monkeypatch):
    monkeypatch.setattr("deid_assets.release.registry.clock.now", lambda last: "2026-12-24T00:00:00+00:00")  # in its time
    exit_code, printed = deid_here(home.root, "approvals")
    assert exit_code == PUBLISHED and "waits/0001" in printed, printed
    exit_code, printed = deid_here(home.root, "approve", "waits/0001", "--by", SECOND_PERSON)
    assert exit_code == ERROR and "Run the policy again on its delivery, and reject this release" in unwrapped(printed), printed
    reason = "Judged by another version, see the next release."
    exit_code, printed = deid_here(home.root, "reject", "waits/0001", "--by", SECOND_PERSON, "--reason", reason)
    assert exit_code == PUBLISHED, printed
    exit_code, printed = deid_here(
        home.root, "run", "--policy", "waits", *given(tmp_path / "given")["waits"], "--key", "waits-1"
    )
    assert exit_code == PUBLISHED and "Awaiting approval" in printed, printed
    (again,) = set(re.findall(r"waits/\d{4}", deid_here(home.root, "approvals")[1]))
    exit_code, printed = deid_here(home.root, "approve", again, "--by", SECOND_PERSON)
    assert exit_code == PUBLISHED and (home.releases / again / "manifest.json").exists(), printed
