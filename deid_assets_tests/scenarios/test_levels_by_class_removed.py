"""A home in which an earlier version published levels by class: it is read as before, and its next release has one level."""

import json
import shutil

import pytest

from deid_assets.policy.loading import load_policy
from deid_assets.store.home import Home
from deid_assets_tests.frozen_homes.make_levels_by_class import BY_CLASS, BY_COLUMN, MEMBERS, NAME
from deid_assets_tests.frozen_homes.opened import SECRET, opened
from deid_assets_tests.scenarios.command_line import ERROR, PUBLISHED, deid_here, unwrapped
from deid_assets_tests.scenarios.pipeline import pipeline_in, verified
from deid_assets_tests.scenarios.policies import write_policy

RELEASE = "small/0001"
RELEASED = "M000000006"
"""A member of the synthetic delivery who is in the release."""

REMOVED = "recoding: by_class was removed"


@pytest.fixture(scope="module", autouse=True)
def its_secret():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEID_SECRET", SECRET)
        yield


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """To look at, not to change."""
    return opened(NAME, tmp_path_factory.mktemp(NAME))


@pytest.fixture
def home(unpacked, tmp_path):
    """A copy for one test."""
    return Home(shutil.copytree(unpacked, tmp_path / "deid"))


def said(home, *arguments):
    """What a command prints that must succeed."""
    exit_code, printed = deid_here(home.root, *arguments)
    assert exit_code == PUBLISHED, printed
    return unwrapped(printed)


def files_of(home):
    """What is in a home, without locks."""
    return {path: path.read_bytes() for path in home.root.rglob("*") if path.is_file() and path.suffix != ".lock"
            and path.name != ".lock"}  # fmt: skip


def test_the_release_is_listed_audited_and_verified(home):
    assert f"{RELEASE} 20" in said(home, "releases")
    assert f"release {RELEASE} is in order" in said(home, "audit", RELEASE)
    with pipeline_in(home.root) as pipeline:
        exit_code, printed = verified(pipeline)
    assert exit_code == PUBLISHED and "what the certificate says of them is not checked" in printed


def test_the_audit_knows_the_stage_of_what_was_made_by_class(home):
    said(home, "audit", RELEASE)
    told = json.loads((home.store / "manifests" / f"{RELEASE}.audit.json").read_text())
    stages = {one["asset"]: one["stage"] for one in told["assets"]}
    assert stages["small/class_levels"] == stages["small/classed_claims"] == "generalization"


def test_what_it_keeps_and_where_it_comes_from_is_told(home, tmp_path):
    assert "PlaceSvc │ by class (1 of 3)" in said(home, "kept", RELEASE)
    said(home, "lineage", RELEASE)
    said(home, "determination", RELEASE, "--output", tmp_path)
    assert (tmp_path / "small-0001-determination.html").is_file()


def test_its_policy_is_listed_and_its_members_are_found(home):
    assert "* small" in said(home, "policy", "list")
    assert load_policy(home.policies / "small").content()["recoding"] == "by_class"
    said(home, "deliveries")
    assert "holds this person" in said(home, "member", "where", RELEASED)


def test_it_can_be_withdrawn(home):
    said(home, "release", "withdraw", RELEASE, "--reason", "levels by class tell of days in hospital")
    assert "withdrawn" in said(home, "releases")


@pytest.mark.parametrize(
    "asked",
    [
        ("run", "--policy", "small", "--members", MEMBERS),
        ("plan", "--policy", "small", "--members", MEMBERS),
        ("policy", "check", "small"),
        ("policy", "adopt", "small"),
        ("reproduce", RELEASE),
    ],
    ids=lambda asked: " ".join(map(str, asked[:2])),
)
def test_what_would_make_something_new_is_refused_in_one_sentence(home, asked):
    before = files_of(home)
    exit_code, printed = deid_here(home.root, *asked)
    assert exit_code == ERROR and REMOVED in unwrapped(printed) and "risk.suppression" in unwrapped(printed)
    assert files_of(home) == before, "nothing was registered, and nothing made"


def test_a_policy_file_with_it_is_not_adopted(tmp_path):
    write_policy(tmp_path, BY_CLASS)
    home = Home(tmp_path / "deid")
    for asked in (("run", "--members", MEMBERS, "--policy"), ("policy", "adopt"), ("policy", "check")):
        exit_code, printed = deid_here(home.root, *asked, tmp_path / "small.yaml")
        assert exit_code == ERROR and REMOVED in unwrapped(printed)
    assert not (home.policies / "small").exists()


@pytest.mark.matrix
def test_a_run_from_the_user_interface_is_refused_before_the_first_table(home):
    """Sensors and schedules start the same job."""
    with pipeline_in(home.root) as pipeline:
        pipeline.synthetic("later", 60, seed=1)
        summary = pipeline.run("later")
    assert summary.exit_code == ERROR and summary.release is None and not summary.rows
    assert REMOVED in " ".join(summary.reasons)


@pytest.mark.matrix
def test_the_next_release_has_one_level_for_all_and_is_compared_with_it(home, tmp_path):
    """Its kept rows have labels of several levels in one column; the same people are delivered again."""
    write_policy(tmp_path / "new", BY_COLUMN)
    exit_code, printed = deid_here(home.root, "run", "--policy", tmp_path / "new" / "small.yaml", "--members", MEMBERS)
    assert exit_code == PUBLISHED, printed
    assert load_policy(home.policies / "small").content()["recoding"] == "by_column"
    with pipeline_in(home.root) as pipeline:
        compared = pipeline.table(f"synthetic-{MEMBERS}-1", "cross_release_risk").frame()
    assert len(compared)
    for release in (RELEASE, "small/0002"):
        assert f"release {release} is in order" in said(home, "audit", release)
