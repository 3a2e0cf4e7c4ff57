"""What a shell offers after `deid`: policies, releases, deliveries and files, without loading what takes long."""

import os
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete

from deid_assets.command_line.main import main
from deid_assets.policy.adoption import adopt
from deid_assets.policy.loading import load_policy, shipped_policies
from deid_assets.release.keyring import signing_key_of
from deid_assets.release.publication.publish import Releases
from deid_assets.release.publication.waiting import waiting_folder
from deid_assets.store.home import Home
from deid_assets_tests.frozen_homes.opened import opened

SLOW = ("dagster", "duckdb", "numpy", "pandas", "pyarrow", "scipy", "cryptography", "pydantic", "yaml", "sqlalchemy")


@pytest.fixture
def home(tmp_path, monkeypatch) -> Home:
    made = Home(tmp_path / "deid").create()
    monkeypatch.setenv("DEID_HOME", str(made.root))
    monkeypatch.chdir(tmp_path)
    return made


def offered(*words: str) -> list[str]:
    """What is offered for the last word; "<file>" where the shell offers files."""
    found = ShellComplete(main, {}, "deid", "_DEID_COMPLETE").get_completions(list(words[:-1]), words[-1])
    return ["<file>" if one.type == "file" else one.value for one in found]


def test_policies_are_those_that_ship_and_those_of_the_home(home, tmp_path):
    shipped = [load_policy(path) for path in shipped_policies()]
    (heritage,) = (path for path in shipped_policies() if path.stem == "heritage")
    own = tmp_path / "ours.yaml"
    own.write_text(heritage.read_text().replace("policy: heritage", "policy: ours_adopted", 1))
    adopt(home, load_policy(own), own)
    (home.policies / "by_hand.yaml").write_text("policy: ours_by_hand\n")
    assert offered("run", "--policy", "") == sorted([*(one.name for one in shipped), "ours_adopted", "ours_by_hand"])
    for words in (("policy", "adopt"), ("policy", "check"), ("plan", "--policy"), ("delivery", "remove", "--policy")):
        assert offered(*words, "ours_") == ["ours_adopted", "ours_by_hand"], words


def test_releases_are_named_by_policy_and_number(home):
    for number in ("heritage/0001", "heritage/0002", "other/0001", "heritage/.making-0003"):
        (home.releases / number).mkdir(parents=True)
    for command in ("audit", "kept", "lineage", "reproduce", "determination", "verify"):
        assert offered(command, "her") == ["heritage/0001", "heritage/0002"], command
    assert offered("release", "withdraw", "") == ["heritage/0001", "heritage/0002", "other/0001"]


def test_what_waits_for_approval_is_offered_to_those_who_decide(home):
    releases = Releases(home, signing_key_of(home))
    waiting_folder(releases.waiting, "heritage", 3).mkdir(parents=True)
    assert offered("approve", "") == offered("reject", "") == ["heritage/0003"]


def test_deliveries_are_named_by_their_keys(home):
    for key in ("2012-04", "2012-05"):
        (home.deliveries / f"{key}.json").write_text("{}")
    assert offered("run", "--key", "2012") == offered("delivery", "remove", "") == ["2012-04", "2012-05"]


@pytest.mark.parametrize(
    "words", [("run", "--delivery", "in/"), ("delivery", "add", ""), ("run", "--policy", "our_"), ("audit", "release/")]
)
def test_files_are_offered_where_one_may_be_named(home, words):
    assert offered(*words) == ["<file>"]


def test_a_home_that_cannot_be_used_offers_files(home, monkeypatch):
    monkeypatch.setenv("DEID_HOME", "")
    assert offered("audit", "") == ["<file>"]


def test_completing_loads_nothing_that_takes_long(home):
    environment = {**os.environ, "_DEID_COMPLETE": "bash_complete", "COMP_WORDS": "deid run --policy her", "COMP_CWORD": "3"}
    script = "import atexit, sys; atexit.register(lambda: print(*sys.modules)); from deid_assets.__main__ import main; main()"
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    *printed, loaded = ran.stdout.splitlines()
    assert printed == ["plain,heritage", "plain,heritage_public"]
    assert not set(SLOW) & set(loaded.split())


@pytest.mark.parametrize("words", [("policy", "check", "heritage_public"), ("verify", "RELEASE"), ("key", "export")])
def test_commands_that_only_read_load_nothing_that_takes_long(home, words, tmp_path):
    if "RELEASE" in words:
        words = ("verify", str(opened("08e7dec", tmp_path / "frozen") / "releases" / "tables" / "0001"))
    script = "import atexit, sys; atexit.register(lambda: print(*sys.modules)); from deid_assets.__main__ import main; main()"
    ran = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=False)
    *printed, loaded = ran.stdout.splitlines()
    assert printed, ran.stderr
    unused = {"dagster", "matplotlib", "pandera", "ibis", "sklearn", "scipy.optimize", "scipy.signal", "scipy.stats"}
    assert not unused & set(loaded.split())
