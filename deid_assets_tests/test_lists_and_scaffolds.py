"""`deid releases`, `deid deliveries`, `deid policy new`, `-h` and completion, as a person uses them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from deid_assets.command_line.main import main
from deid_assets.policy.loading import load_policy, policy_by_name, shipped_policies
from deid_assets.release.keyring import signing_key_of
from deid_assets.release.publication.publish import Releases
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.registration import register_delivery
from deid_assets.store.home import Home
from deid_assets_tests.release.making import publish


@pytest.fixture
def home(tmp_path, monkeypatch) -> Home:
    made = Home(tmp_path / "deid")
    monkeypatch.setenv("DEID_HOME", str(made.root))
    monkeypatch.chdir(tmp_path)
    return made


def deid(*arguments) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def every_command(command: click.Command, path: tuple[str, ...] = ()):
    yield path
    for name, sub in getattr(command, "commands", {}).items():
        yield from every_command(sub, (*path, name))


@pytest.mark.parametrize("path", list(every_command(main)), ids=" ".join)
def test_every_command_explains_itself_with_h(path):
    code, printed = deid(*path, "-h")
    assert code == 0 and printed.startswith("Usage: ") and "-h, --help" in printed


def test_releases_and_deliveries_of_a_new_home_are_none(home):
    assert deid("releases") == (0, "Nothing has been published here.\n")
    assert deid("deliveries") == (0, "No delivery has been registered here.\n")
    assert [json.loads(deid(one, "--json")[1]) for one in ("releases", "deliveries")] == [[], []]
    assert not home.root.exists(), "looking makes nothing"


def test_releases_are_listed_with_their_delivery_and_folder(home):
    home.create()
    folder = publish(Releases(home, signing_key_of(home)), "first", with_tables=False).folder
    (found,) = json.loads(deid("releases", "--json")[1])
    assert (found["policy"], found["number"], found["delivery"], found["folder"]) == ("heritage", 1, "2024", str(folder))
    code, printed = deid("releases")
    assert code == 0 and printed == f"heritage/0001  {found['time']}\n  delivery 2024\n"
    assert deid("releases", "--paths")[1] == f"{printed}  {folder}\n"
    shutil.rmtree(home.store / "manifests")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700)
    shutil.rmtree(folder)
    code, printed = deid("releases")
    assert code == 1 and "  delivery not in this store\n  its folder is gone: restore it from a backup\n" in printed
    assert "error: the folder of release heritage/0001 is missing" in printed
    (home.releases / "registry.jsonl").write_text("nonsense\n")
    code, printed = deid("releases")
    assert code == 1 and "not a registry entry" in printed


def test_lists_of_releases_fit_a_narrow_terminal(home, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    releases = Releases(home.create(), signing_key_of(home))
    publish(releases, "first", with_tables=False)
    why = "a column was released that the contract of its recipients does not allow, and that they were asked to delete"
    releases.withdraw("heritage", 1, why)
    code, printed = deid("releases")
    lines = printed.splitlines()
    assert code == 0 and max(map(len, lines)) <= 60 and str(home.root) not in printed
    assert lines[0].startswith("heritage/0001  ") and all(line.startswith("  ") for line in lines[1:])
    assert f"withdrawn: {why}" in " ".join(printed.split())


def test_deliveries_are_listed_and_a_damaged_record_does_not_hide_the_others(home, tmp_path):
    home.create()
    for key in ("a", "b"):
        (tmp_path / key).mkdir()
        register_delivery(home, Delivery(key, "tables", (tmp_path / key,)))
    (home.store / "ours").mkdir()
    (home.store / "ours" / "a.duckdb").touch()
    (home.deliveries / "b.json").write_text("nonsense")
    code, printed = deid("deliveries")
    assert code == 0
    first, second = printed.splitlines()
    assert first == f"a  tables  {tmp_path}/a  taken in under ours"
    assert second.startswith("b  the record deliveries/b.json: this is not the record of a delivery")
    assert [one["key"] for one in json.loads(deid("deliveries", "--json")[1])] == ["a", "b"]


@pytest.mark.parametrize("like", [load_policy(path).name for path in shipped_policies()])
def test_a_new_policy_passes_its_check_under_its_own_name_title_and_owners(home, like):
    title = 'Our "claims": 2020 # of \\ one, ü'
    code, printed = deid(
        "policy", "new", "ours", "--title", title, "--owner", "team:us", "--owner", "me@example.org", "--like", like
    )
    assert code == 0 and "ours.yaml was written" in printed, printed
    made, shipped = load_policy(Path("ours.yaml")), policy_by_name(like)
    assert (made.name, made.title, made.owners, made.description) == ("ours", title, ("team:us", "me@example.org"), title)
    own = {"policy", "title", "owners", "description"}
    assert {k: v for k, v in made.content().items() if k not in own} == {
        k: v for k, v in shipped.content().items() if k not in own
    }
    code, printed = deid("policy", "check", "ours.yaml")
    assert code == 0 and title in printed


def test_the_files_of_a_copied_policy_are_copied_and_serve_the_next_copy(home, tmp_path):
    arguments = ("--title", "t", "--owner", "team:us", "--like", "claims_and_fills")
    assert deid("policy", "new", "ours", *arguments)[0] == 0
    (book,) = load_policy(Path("ours.yaml")).files
    assert deid("policy", "new", "theirs", *arguments)[0] == 0 and load_policy(Path("theirs.yaml")).files == (book,)
    Path(book).write_text("somebody's own")
    code, printed = deid("policy", "new", "others", *arguments)
    assert code == 1 and f"{book} already exists" in printed and not Path("others.yaml").exists()
    assert Path(book).read_text() == "somebody's own"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ours", "--title", "t", "--owner", "nobody"), "an owner is an e-mail address"),
        (("Our Claims", "--title", "t", "--owner", "team:us"), "a name consists of lower-case letters"),
        (("heritage", "--title", "t", "--owner", "team:us"), "a shipped policy is called heritage"),
        (("ours", "--title", "t", "--owner", "team:us", "--like", "heritage-public"), "did you mean heritage_public?"),
        (("ours", "--title", "t", "--owner", "team:us", "--output", "nowhere/x.yaml"), "nowhere/x.yaml cannot be written"),
    ],
)
def test_a_policy_that_would_not_be_valid_is_not_written(home, tmp_path, arguments, said):
    code, printed = deid("policy", "new", *arguments)
    assert code == 1 and said in printed, printed
    assert list(tmp_path.iterdir()) == []


def test_a_new_policy_replaces_no_file(home, tmp_path):
    (tmp_path / "ours.yaml").write_text("mine")
    code, printed = deid("policy", "new", "ours", "--title", "t", "--owner", "team:us")
    assert code == 1 and "already exists" in printed
    assert (tmp_path / "ours.yaml").read_text() == "mine"


@pytest.mark.matrix
@pytest.mark.parametrize(("words", "offered"), [("deid po", "policy"), ("deid policy ne", "new"), ("deid run --js", "--json")])
def test_the_shell_completes(tmp_path, words, offered):
    environment = {
        **os.environ, "_DEID_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1),
        "DEID_HOME": str(tmp_path / "deid"),
    }  # fmt: skip
    ran = subprocess.run([sys.executable, "-m", "deid_assets"], env=environment, capture_output=True, text=True, check=False)
    assert f"plain,{offered}" in ran.stdout.splitlines(), ran.stderr


def test_an_error_is_a_json_document_where_one_is_asked_for(home):
    result = CliRunner().invoke(main, ["run", "--json", "--policy", "nowhere"])
    found = json.loads(result.stdout)
    assert (result.exit_code, found["outcome"], found["exit_code"], found["release"]) == (1, "error", 1, None)
    (reason,) = found["reasons"]
    assert reason.startswith("there is no policy 'nowhere'") and reason in result.stderr
