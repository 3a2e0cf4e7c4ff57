"""Policies from elsewhere: which files they may name, where they are kept, and that nothing else is touched."""

import contextlib
import json
import os
import stat
from pathlib import Path

import pytest

from deid_assets.errors import PolicyError
from deid_assets.policy import adoption
from deid_assets.policy.adoption import adopt
from deid_assets.policy.loading import find_policy, load_policy, policies_in, policy_called
from deid_assets.release.keys import SigningKey, load_secret
from deid_assets.store.home import Home
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy

CANARY = "CANARY-4711"
PLACES = "OFFICE;*\nHOME;*\n"


@pytest.fixture
def home(tmp_path, monkeypatch) -> Home:
    """A home with keys and a registry, as runs leave them."""
    monkeypatch.delenv("DEID_SECRET", raising=False)
    home = Home(tmp_path / "deid").create()
    SigningKey.load_or_create(home.keys)
    load_secret(home.keys)
    (home.releases / "registry.jsonl").write_text('{"number": 1}\n')
    return home


@pytest.fixture
def elsewhere(tmp_path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


def content(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def with_list(folder: Path, members: str = "m1\nm2\n", **changes) -> Path:
    """A policy file that names a list of members who opted out, beside it."""
    (folder / "opt_outs.txt").write_text(members)
    write_policy(folder, changed(SMALL, opt_outs={"file": "opt_outs.txt"}, **changes))
    return folder / f"{changes.get('policy', 'small')}.yaml"


def bring(home: Home, file: Path):
    """What `deid run --policy FILE` does before it looks at a delivery."""
    policy, found = find_policy(home, str(file))
    return policy if found is None else adopt(home, policy, found)


def naming(folder: Path, section: str, file: str) -> Path:
    """A policy file whose section names a file, whatever it is."""
    sections = {
        "opt_outs": {"opt_outs": {"file": file}},
        "hierarchies": {"hierarchies__place": {"kind": "csv", "file": file}},
        "voter_list_attack": {"voter_list_attack": {"table": {"file": file, "columns": {"sex": {"name": "SEX"}}}}},
        "inpatient_attack": {"inpatient_attack": {"table": {"file": file, "columns": {"sex": {"name": "SEX"}}}}},
    }
    path = folder / "small.yaml"
    path.write_text(json.dumps(changed(SMALL, **sections[section])))
    return path


def refused(home: Home, file: Path) -> str:
    """The policy is refused, and nothing in the home is another."""
    before = content(home.root)
    with pytest.raises(PolicyError) as caught:
        bring(home, file)
    assert content(home.root) == before
    assert caught.value.__cause__ is None
    return str(caught.value)


SECTIONS = ("opt_outs", "hierarchies", "voter_list_attack", "inpatient_attack")


@pytest.mark.parametrize("section", SECTIONS)
class TestNamesThatLeadElsewhere:
    @pytest.mark.parametrize("target", ["keys/signing_key.pem", "keys/secret", "releases/registry.jsonl"])
    def test_a_way_up(self, home, section, target):
        folder = home.root / "policies-of-mine"
        folder.mkdir()
        assert (home.root / target).exists()
        assert "must be in the folder of the policy or below it" in refused(home, naming(folder, section, f"../{target}"))

    @pytest.mark.parametrize(
        "file", ["./a.txt", "a/../b.txt", "a//b.txt", "a/", ".", "..", "a\\b.txt", "a\x00b", "a\nb", "x" * 300]
    )
    def test_a_path_that_is_not_written_plainly(self, home, elsewhere, section, file):
        (elsewhere / "a").mkdir()
        (elsewhere / "b.txt").write_text("m1\n")
        assert refused(home, naming(elsewhere, section, file))

    def test_an_absolute_path(self, home, elsewhere, section):
        (elsewhere / "list.txt").write_text("m1\n")
        assert "must be in the folder of the policy" in refused(home, naming(elsewhere, section, str(elsewhere / "list.txt")))

    def test_a_symbolic_link(self, home, elsewhere, section):
        (elsewhere / "list.txt").symlink_to(home.keys / "secret")
        assert "it is a symbolic link" in refused(home, naming(elsewhere, section, "list.txt"))

    def test_a_symbolic_link_to_a_file_beside_it(self, home, elsewhere, section):
        (elsewhere / "own.txt").write_text("m1\n")
        (elsewhere / "list.txt").symlink_to("own.txt")
        assert "it is a symbolic link" in refused(home, naming(elsewhere, section, "list.txt"))

    def test_a_folder_that_is_a_symbolic_link(self, home, elsewhere, section):
        (elsewhere / "lists").symlink_to(home.keys)
        assert "a folder on the way to it is a symbolic link" in refused(home, naming(elsewhere, section, "lists/secret"))

    def test_what_is_no_regular_file_is_not_opened(self, home, elsewhere, section):
        os.mkfifo(elsewhere / "pipe")
        (elsewhere / "folder").mkdir()
        for name in ("pipe", "folder"):
            assert "it is not a regular file" in refused(home, naming(elsewhere, section, name))
        assert "is not a folder" in refused(home, naming(elsewhere, section, "pipe/list.txt"))

    def test_a_file_that_is_too_large(self, home, elsewhere, section):
        with (elsewhere / "list.txt").open("wb") as stream:
            stream.truncate(1 << 40)
        assert "is larger than" in refused(home, naming(elsewhere, section, "list.txt"))

    def test_a_home_below_the_policys_folder(self, home, elsewhere, section):
        """Below the policy's folder lie the keys: they are no files of the policy."""
        (home.root / "list.txt").write_text("OFFICE;*\n")
        assert "home" in refused(home, naming(home.root.parent, section, "deid/list.txt"))

    def test_the_files_of_an_adopted_policy_are_nobody_elses(self, home, elsewhere, section):
        bring(home, with_list(elsewhere, policy="other"))
        (stored,) = home.policies.glob("other/content/*/opt_outs.txt")
        file = naming(home.policies, section, str(stored.relative_to(home.policies)))
        before = content(home.root)
        with pytest.raises(PolicyError, match="is in the folder of an adopted policy"):
            policies_in(home.policies).called(file.stem)
        with pytest.raises(PolicyError, match="is in the folder of an adopted policy"):
            bring(home, file)
        assert content(home.root) == before


def test_a_device_is_not_read(home, elsewhere):
    """`/dev` is reached through a link only, and a node of its own needs rights that tests may lack."""
    try:
        os.mknod(elsewhere / "zero", stat.S_IFCHR | 0o600, os.makedev(1, 5))
    except OSError:
        pytest.skip("devices cannot be made here")
    assert "it is not a regular file" in refused(home, naming(elsewhere, "opt_outs", "zero"))


def test_a_policy_that_is_a_pipe_is_not_waited_for(home, elsewhere):
    os.mkfifo(elsewhere / "mine.yaml")
    assert "it is not a regular file" in refused(home, elsewhere / "mine.yaml")


def test_a_list_of_opt_outs_is_nothing_that_is_published(home, elsewhere):
    """The rows of a hierarchy, and the digest of a table, are part of the public edition of the manifest."""
    (elsewhere / "list.csv").write_text(f"{CANARY};*\n")
    values = changed(SMALL, opt_outs={"file": "list.csv"}, hierarchies__spare={"kind": "csv", "file": "list.csv"})
    (elsewhere / "small.yaml").write_text(json.dumps(values))
    message = refused(home, elsewhere / "small.yaml")
    assert "opt_outs.file: hierarchies names the same file" in message and CANARY not in message


class TestAdoption:
    def test_text_and_files_lie_under_their_digests_for_the_owner_only(self, home, elsewhere):
        (elsewhere / "lists").mkdir()
        (elsewhere / "lists" / "places.csv").write_text(PLACES)
        values = changed(
            SMALL, hierarchies__spare={"kind": "csv", "file": "lists/places.csv"}, opt_outs={"file": "opt_outs.txt"}
        )
        (elsewhere / "opt_outs.txt").write_text("m1\n")
        read = write_policy(elsewhere, values)
        adopted = bring(home, elsewhere / "small.yaml")
        assert (adopted.hash, adopted.reading) == (read.hash, read.reading)
        assert adopted.opt_outs.all_members == ("m1",) and adopted.files == ("lists/places.csv", "opt_outs.txt")
        record = json.loads((home.policies / "small" / "adopted.json").read_text())
        assert record["files"] == read.file_digests() and record["policy"] == "small"
        assert policy_called("small", home.policies) == adopted
        for path in (home.policies / "small").rglob("*"):
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 or path.name == "content"

    def test_two_policies_that_name_one_file_have_two(self, home, tmp_path):
        for name, members in (("one", "m1\n"), ("two", "m2\n")):
            folder = tmp_path / name
            folder.mkdir()
            bring(home, with_list(folder, members, policy=name))
        listed = {name: policy_called(name, home.policies).opt_outs.all_members for name in ("one", "two")}
        assert listed == {"one": ("m1",), "two": ("m2",)}

    def test_the_originals_may_go(self, home, elsewhere):
        file = with_list(elsewhere)
        bring(home, file)
        file.unlink()
        (elsewhere / "opt_outs.txt").unlink()
        assert policies_in(home.policies)["small"].opt_outs.all_members == ("m1", "m2")

    def test_a_newer_text_or_list_replaces_the_older(self, home, elsewhere):
        bring(home, with_list(elsewhere))
        for number in range(3, 6):
            bring(home, with_list(elsewhere, f"m{number}\n"))
            assert policy_called("small", home.policies).opt_outs.all_members == (f"m{number}",)
        assert len(list((home.policies / "small" / "content").iterdir())) == 3, "the text, this list, the one before"

    def test_the_same_again_changes_nothing(self, home, elsewhere):
        file = with_list(elsewhere)
        bring(home, file)
        before = {path: path.stat().st_mtime_ns for path in (home.policies / "small").rglob("*")}
        bring(home, file)
        assert {path: path.stat().st_mtime_ns for path in (home.policies / "small").rglob("*")} == before

    def test_what_is_wrong_in_a_policy_leaves_the_adopted_one(self, home, elsewhere):
        file = with_list(elsewhere)
        bring(home, file)
        file.write_text(file.read_text().replace("threshold: 0.05", "threshold: 5"))
        assert "risk.threshold" in refused(home, file)

    @pytest.mark.parametrize("calls", range(1, 40))
    def test_a_crash_leaves_the_old_policy_or_the_new(self, home, elsewhere, monkeypatch, calls):
        """The power fails before the n-th call that changes a folder; the next adoption mends whatever was left."""
        bring(home, with_list(elsewhere, "m1\n"))
        file = with_list(elsewhere, "m2\n")
        left = [calls]

        def failing(function):
            def call(*arguments, **keywords):
                left[0] -= 1
                if left[0] <= 0:
                    raise KeyboardInterrupt
                return function(*arguments, **keywords)

            return call

        with monkeypatch.context() as patch:
            for module, name in ((os, "rename"), (os, "replace"), (os, "fsync"), (os, "mkdir"), (adoption.shutil, "rmtree")):
                patch.setattr(module, name, failing(getattr(module, name)))
            with contextlib.suppress(KeyboardInterrupt):
                bring(home, file)
        assert policy_called("small", home.policies).opt_outs.all_members in (("m1",), ("m2",))
        assert set(policies_in(home.policies)) == set(policies_in()) | {"small"}
        assert bring(home, file).opt_outs.all_members == ("m2",)
        assert not list(home.policies.glob(".adopting-*"))

    def test_a_policy_that_ships_is_not_replaced(self, home, elsewhere):
        file = with_list(elsewhere, policy="heritage")
        assert "another policy is also called heritage" in refused(home, file)

    def test_nor_is_a_yaml_file_of_the_home(self, home, elsewhere):
        write_policy(home.policies, changed(SMALL, adversary__power=2))
        assert "or remove that file" in refused(home, with_list(elsewhere))

    def test_a_yaml_file_of_the_home_is_used_as_it_is(self, home):
        file = with_list(home.policies)
        assert bring(home, file) == policy_called("small", home.policies)
        assert not (home.policies / "small").exists()

    @pytest.mark.parametrize("kind", ["folder", "file", "link"])
    def test_something_else_of_its_name_is_not_replaced(self, home, elsewhere, kind):
        place = home.policies / "small"
        if kind == "folder":
            place.mkdir()
            (place / "kept.csv").write_text("kept")
        elif kind == "file":
            place.write_text("kept")
        else:
            place.symlink_to(home.keys)
        file = with_list(elsewhere)
        with pytest.raises(PolicyError, match="is not an adopted policy"):
            bring(home, file)
        assert (home.keys / "secret").exists() and not (home.keys / "content").exists()


class TestWhatWasAdopted:
    @pytest.fixture
    def adopted(self, home, elsewhere) -> Path:
        bring(home, with_list(elsewhere))
        return home.policies / "small"

    @pytest.mark.parametrize("name", ["opt_outs.txt", "policy.yaml"])
    def test_a_changed_file_is_found_out(self, home, adopted, name):
        (file,) = adopted.glob(f"content/*/{name}")
        file.write_text(file.read_text() + " \n")
        for read in (
            lambda: policy_called("small", home.policies),
            lambda: policies_in(home.policies).called("small"),
            lambda: load_policy(adopted),
        ):
            with pytest.raises(PolicyError, match="not the one that was adopted"):
                read()

    def test_a_file_that_is_gone_or_a_link(self, home, adopted, elsewhere):
        (file,) = adopted.glob("content/*/opt_outs.txt")
        file.unlink()
        with pytest.raises(PolicyError, match="No such file"):
            policy_called("small", home.policies)
        file.symlink_to(elsewhere / "opt_outs.txt")
        with pytest.raises(PolicyError, match="symbolic link"):
            policy_called("small", home.policies)

    @pytest.mark.parametrize(
        "record", ["", "[]", "{}", "[" * 100_000, '{"format": 1, "policy": "small", "text": "../x", "files": {}}', "\udcff"]
    )
    def test_a_record_that_cannot_be_read(self, home, adopted, elsewhere, record):
        (adopted / "adopted.json").write_text(record, errors="surrogateescape")
        with pytest.raises(PolicyError, match="adopt the policy again"):
            policies_in(home.policies).called("small")
        bring(home, elsewhere / "small.yaml")
        assert "small" in policies_in(home.policies)

    def test_a_record_of_another_policy(self, home, adopted):
        adopted.rename(home.policies / "other")
        with pytest.raises(PolicyError, match="its record belongs to another policy"):
            policies_in(home.policies).called("other")

    def test_a_record_that_leaves_a_file_out(self, home, adopted):
        record = json.loads((adopted / "adopted.json").read_text())
        (adopted / "adopted.json").write_text(json.dumps(record | {"files": {}}))
        with pytest.raises(PolicyError, match="not among the files that were adopted"):
            policy_called("small", home.policies)

    def test_yaml_that_nobody_would_read_is_an_error(self, home, adopted, elsewhere):
        (home.policies / "mine").mkdir()
        (home.policies / "mine" / "policy.yaml").write_text("policy: mine\n")
        with pytest.raises(PolicyError, match="contains YAML files but no adopted policy"):
            policies_in(home.policies).called("mine")
