"""Homes that earlier commits made: every command reads them, and the next delivery is published, or refused with what helps."""

import json
from collections.abc import Iterator

import pytest
import yaml

from deid_assets.errors import ERROR
from deid_assets.release.journal.chain import NEWEST, NO_JOURNAL, UNSTATED, JournalLine
from deid_assets.release.journal.home_journal import HomeJournal
from deid_assets.release.keyring import signing_key_of
from deid_assets.store.home import Home
from deid_assets.version import version
from deid_assets_tests.frozen_homes.deliveries import CLAIMS, FLAT, write_more_claims, write_people
from deid_assets_tests.frozen_homes.opened import SECRET, opened
from deid_assets_tests.scenarios.command_line import PUBLISHED, REFUSED, deid_here, unwrapped

FORMATS = {"9d62f76": NO_JOURNAL, "08e7dec": NO_JOURNAL, "810c2f7": UNSTATED}
"""The commits that made the homes, and their formats."""
FIRST, *LATER = FORMATS
RELEASES = (f"{FLAT}/0001", f"{CLAIMS}/0001")
NO_DICTIONARY = "has no data dictionary, because the version that made it, deid_assets 0.1.0, wrote none"


@pytest.fixture(scope="module", autouse=True)
def its_secret() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEID_SECRET", SECRET)
        yield


@pytest.fixture(scope="module", params=FORMATS)
def upgraded(request, tmp_path_factory) -> tuple[str, Home]:
    """A home that was upgraded, to look at, and the commit that made it."""
    root = opened(request.param, tmp_path_factory.mktemp("frozen"))
    exit_code, printed = deid_here(root, "home", "upgrade", "--yes")
    assert exit_code == PUBLISHED, printed
    return request.param, Home(root)


def with_policy(home: Home, name: str, **sections) -> None:
    """Change sections of a policy's file; in the oldest form of claims, a renamed key too."""
    file = home.policies / f"{name}.yaml"
    values = yaml.safe_load(file.read_text()) | sections
    if "first_year" in values["source"]:
        values["source"]["years"] = {"first": values["source"].pop("first_year")}
    file.write_text(yaml.safe_dump(values, sort_keys=False))


class TestBeforeItIsUpgraded:
    @pytest.fixture(params=[name for name, number in FORMATS.items() if number == NO_JOURNAL])
    def home(self, request, tmp_path) -> Home:
        return Home(opened(request.param, tmp_path))

    def test_one_line_says_that_it_is_needed(self, home):
        assert HomeJournal(home).format == NO_JOURNAL
        exit_code, printed = deid_here(home.root, "releases")
        assert exit_code == ERROR and printed.count("deid home upgrade") == 1, printed
        assert "which brings it from format 1 to 3" in unwrapped(printed), printed

    def test_no_question_is_answered_for_the_owner(self, home):
        before = sorted(path.relative_to(home.root) for path in home.root.rglob("*") if "home" not in path.parts[-3:])
        exit_code, printed = deid_here(home.root, "home", "upgrade")
        assert exit_code == ERROR and "Bring the home from format 1 to 3?" in printed, printed
        assert HomeJournal(home).format == NO_JOURNAL and not list(home.root.parent.glob("*.before-upgrade-*"))
        assert set(before) <= {path.relative_to(home.root) for path in home.root.rglob("*")}


class TestUpgrade:
    def test_the_journal_states_the_format_and_the_version(self, upgraded):
        _, home = upgraded
        line = HomeJournal(home).file.read().lines[0 if FORMATS[upgraded[0]] == NO_JOURNAL else -1]
        assert (line.about["format"], line.about["version"]) == (NEWEST, version())
        assert HomeJournal(home).format == NEWEST

    def test_the_home_is_kept_as_it_was(self, upgraded):
        commit, home = upgraded
        (kept,) = home.root.parent.glob("deid.before-upgrade-*")
        assert HomeJournal(Home(kept)).format == FORMATS[commit]
        assert (kept / "releases" / "registry.jsonl").read_bytes() == (home.releases / "registry.jsonl").read_bytes()
        assert (kept / "keys" / "signing_key.pem").read_bytes() == (home.keys / "signing_key.pem").read_bytes()
        assert kept.stat().st_mode & 0o077 == 0

    def test_it_is_not_done_twice(self, upgraded):
        _, home = upgraded
        lines = len(HomeJournal(home).file.read().lines)
        exit_code, printed = deid_here(home.root, "home", "upgrade")
        assert exit_code == PUBLISHED and "up to date: it has format 3" in printed, printed
        assert len(HomeJournal(home).file.read().lines) == lines

    def test_a_copy_that_cannot_be_made_stops_it(self, tmp_path):
        home = Home(opened(FIRST, tmp_path))
        (home.root.parent / ".deid.before-upgrade").write_text("in the way")
        exit_code, printed = deid_here(home.root, "home", "upgrade", "--yes")
        assert exit_code == ERROR and "nothing was upgraded" in unwrapped(printed), printed
        assert HomeJournal(home).format == NO_JOURNAL


def test_a_home_of_a_later_format_is_refused_with_the_version_that_is_needed(tmp_path):
    home = Home(opened("810c2f7", tmp_path))
    deid_here(home.root, "home", "upgrade", "--yes")
    text = home.journal.read_text()
    assert f'"format":{NEWEST}' in text
    *lines, last = text.splitlines()
    about = json.loads(last)
    assert about["event"] == "upgraded"
    for command in (("releases",), ("journal", "check"), ("home", "upgrade")):
        later = _signed_again(home, lines, about["about"] | {"format": NEWEST + 1, "version": "9.9.9"})
        home.journal.write_text(later)
        exit_code, printed = deid_here(home.root, *command)
        assert exit_code == ERROR and f"this home has format {NEWEST + 1}, of deid_assets 9.9.9" in unwrapped(printed), printed


def _signed_again(home: Home, lines: list[str], about: dict) -> str:
    """The journal with another last line, as the later version would sign it."""
    last = json.loads(lines[-1])
    line = JournalLine("upgraded", about, previous=last["hash"], time=last["time"]).signed(signing_key_of(home))
    return "\n".join(lines) + "\n" + line.line.decode()


@pytest.mark.matrix
class TestReleases:
    @pytest.mark.parametrize("name", RELEASES)
    def test_are_verified_audited_and_drafted(self, upgraded, name, tmp_path):
        _, home = upgraded
        deid_here(home.root, "key", "export", "--output", tmp_path / "key.pem")
        exit_code, printed = deid_here(home.root, "verify", home.releases / name, "--key", tmp_path / "key.pem")
        assert exit_code == PUBLISHED and f"release {name} is in order" in printed, printed
        exit_code, printed = deid_here(home.root, "audit", name)
        assert exit_code == PUBLISHED and f"release {name} is in order" in printed, printed
        exit_code, printed = deid_here(home.root, "determination", name, "--output", tmp_path / "draft")
        assert exit_code == PUBLISHED, printed
        assert "deid_assets 0.1.0" in (tmp_path / "draft" / f"{name.replace('/', '-')}-determination.md").read_text()

    @pytest.mark.parametrize("name", RELEASES)
    def test_what_they_do_not_hold_is_said(self, upgraded, name):
        commit, home = upgraded
        for command in ("audit", "kept", "lineage"):
            exit_code, printed = deid_here(home.root, command, name)
            assert exit_code == PUBLISHED and (NO_DICTIONARY in unwrapped(printed)) == (commit == FIRST), printed
        event = json.loads((home.store / "manifests" / f"{name}.openlineage.json").read_text())
        fields = [one for output in event["outputs"] for one in output["facets"]["schema"]["fields"]]
        assert event["outputs"] and bool(fields) == (commit != FIRST)

    def test_are_listed_and_nothing_is_missing(self, upgraded):
        _, home = upgraded
        exit_code, printed = deid_here(home.root, "releases")
        assert exit_code == PUBLISHED and all(name in printed for name in RELEASES), printed
        for command in (("journal", "check"), ("deliveries",), ("approvals",), ("member", "where", "nobody")):
            exit_code, printed = deid_here(home.root, *command)
            assert exit_code == PUBLISHED, printed


def test_a_policy_of_an_earlier_version_stops_itself_and_no_other(upgraded):
    commit, home = upgraded
    exit_code, printed = deid_here(home.root, "policy", "list")
    assert exit_code == PUBLISHED and f"* {FLAT}" in printed and "heritage_public" in printed, printed
    is_old = commit == FIRST
    assert (f"! {CLAIMS}" in printed) == is_old and (f"* {CLAIMS}" in printed) != is_old, printed
    assert (
        "source.first_year: this key of earlier versions is gone; write years: {first: ...}" in unwrapped(printed)
    ) == is_old


@pytest.mark.matrix
class TestNextDelivery:
    @pytest.fixture(params=FORMATS)
    def home(self, request, tmp_path) -> Home:
        root = opened(request.param, tmp_path)
        assert deid_here(root, "home", "upgrade", "--yes")[0] == PUBLISHED
        return Home(root)

    def test_of_a_flat_table_is_refused_until_its_people_are_stated_to_be_others(self, home, tmp_path):
        run = ("run", "--policy", FLAT, "--delivery", write_people(tmp_path / "others", seed=2), "--key", "next")
        exit_code, printed = deid_here(home.root, *run)
        said = unwrapped(printed)
        assert exit_code == REFUSED and f"{FLAT}/0001" in said and "no column identifies people of this policy" in said, printed
        assert "state it with the reason in releases.other_people of the policy" in said, printed
        with_policy(home, FLAT, releases={"other_people": {FLAT: "This table has the people of another town."}})
        exit_code, printed = deid_here(home.root, *run)
        assert exit_code == PUBLISHED and f"Not compared with {FLAT}/0001: the policy states" in unwrapped(printed), printed

    def test_of_claims_is_published_beside_a_release_that_kept_its_rows_or_without_its_members(self, home, tmp_path):
        with_policy(home, CLAIMS)
        kept_rows = (home.store / "manifests" / CLAIMS / "0001.rows.parquet").exists()
        # Without the members of the first release, too few would be left of the delivery unless many joined.
        delivery = write_more_claims(tmp_path / "more", 200 if kept_rows else 4_000)
        run = ("run", "--policy", CLAIMS, "--delivery", delivery, "--key", "next")
        exit_code, printed = deid_here(home.root, *run)
        if not kept_rows:
            said = unwrapped(printed)
            assert exit_code == REFUSED and f"{CLAIMS}/0001 has members of this release" in said and "kept no rows" in said, (
                printed
            )
            assert "name it, with the reason, in releases.left_out of the policy" in said, printed
            with_policy(home, CLAIMS, releases={"left_out": {f"{CLAIMS}/0001": "Its version kept no rows to compare with."}})
            exit_code, printed = deid_here(home.root, *run)
        assert exit_code == PUBLISHED, printed
        manifest = json.loads((home.releases / CLAIMS / "0002" / "manifest.json").read_text())
        assert manifest["code_version"] == version() != "0.1.0"
