"""What a home remembers, and somebody who can write to it wants forgotten: nothing is decided until it is back."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from deid_assets.command_line.deciding import releases_here
from deid_assets.release.journal.chain import JournalFile
from deid_assets.release.keys import SigningKey
from deid_assets.release.registry.chain import Registry
from deid_assets.release.registry.tries import Tried
from deid_assets.store.home import Home
from deid_assets_tests.scenarios.command_line import ERROR, PUBLISHED, deid_here, unwrapped
from deid_assets_tests.scenarios.pipeline import Pipeline, copy_of
from deid_assets_tests.scenarios.policies import changed, write_policy
from deid_assets_tests.scenarios.test_approval import ANNA, NAME, staged
from deid_assets_tests.scenarios.test_flat_release import FLAT, people, write_people

__all__ = ["staged"]

RECIPIENT = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
"""A public key of age."""
PEOPLE = ("M000000001", "M000000002", "M000000003")


@pytest.fixture
def home(published, tmp_path) -> Iterator[Home]:
    """A home with a release, of which three people opted out since."""
    with copy_of(published.pipeline.home.root, tmp_path / "deid") as pipeline:
        for person in PEOPLE:
            code, printed = deid_here(pipeline.home.root, "member", "opt-out", person, "--reason", "asked in a letter")
            assert code == PUBLISHED, printed
        yield pipeline.home


def next_run(home: Home) -> tuple[object, ...]:
    """The run of another delivery."""
    if (home.policies / "small.yaml").exists():
        return "run", "--policy", "small", "--members", "3000", "--seed", "2"
    return "run", "--policy", "flat_table", "--delivery", write_people(home.root.with_name("next"), people())


def journal_of(home: Home) -> Path:
    return home.store / "journal.jsonl"


def cut(file: Path, lines: int) -> None:
    """Remove the last lines of a file."""
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-lines]))


def refused(home: Home, said: str, *command: object) -> str:
    """Run a command that has to end with an error that says so, and publish nothing; by default a run of the next delivery."""
    before = sorted(home.releases.glob("*/[0-9]*"))
    code, printed = deid_here(home.root, *(command or next_run(home)))
    assert code == ERROR and said in unwrapped(printed), printed
    assert sorted(home.releases.glob("*/[0-9]*")) == before
    assert not any(person in printed for person in PEOPLE), "what is missing is counted, and nobody is named"
    return unwrapped(printed)


def in_order(home: Home) -> None:
    code, printed = deid_here(home.root, "journal", "check")
    assert code == PUBLISHED and "In order" in printed, printed


class TestOptOuts:
    def lost(self, home: Home, missing: int) -> None:
        known = ("member", "opt-out", "M000000004", "--reason", "asked")
        said = f"lacks {missing} of 3 people who opted out of all releases according to the home's journal: put the file back"
        refused(home, said)
        refused(home, said, "release", "withdraw", "small/0001", "--reason", "asked")
        refused(home, said, "member", "opt-in", "somebody", "--reason", "misspelled")
        refused(home, said, *known)
        refused(home, said, "policy", "adopt", "small")
        refused(home, said, "key", "rotate")
        refused(home, said, "clock", "correct", "--reason", "it was ahead")
        refused(home, said, "journal", "check")
        refused(home, said, "releases")
        refused(home, said, "audit", "small/0001")

    @pytest.mark.matrix
    def test_a_list_that_was_deleted(self, home):
        (home.policies / "opt_outs.jsonl").unlink()
        self.lost(home, 3)

    @pytest.mark.matrix
    def test_a_list_that_was_cut(self, home):
        cut(home.policies / "opt_outs.jsonl", 2)
        self.lost(home, 2)

    @pytest.mark.matrix
    def test_a_person_taken_off_by_hand(self, home):
        with open(home.policies / "opt_outs.jsonl", "a") as file:
            line = {"member_id": PEOPLE[1], "listed": False, "reason": "none", "time": "2026-01-01T00:00:00+00:00"}
            file.write(json.dumps(line) + "\n")
        self.lost(home, 1)

    def test_a_list_that_was_put_back(self, home):
        file = home.policies / "opt_outs.jsonl"
        whole = file.read_bytes()
        file.unlink()
        refused(home, "lacks 3 of 3 people")
        file.write_bytes(whole)
        in_order(home)

    @pytest.mark.matrix
    def test_people_who_were_lost_can_be_entered_again(self, home):
        cut(home.policies / "opt_outs.jsonl", 2)
        for person in PEOPLE[1:]:
            assert deid_here(home.root, "member", "opt-out", person, "--reason", "again")[0] == PUBLISHED
        in_order(home)

    @pytest.mark.matrix
    def test_a_list_whose_last_line_a_crash_cut_goes_on(self, home):
        file = home.policies / "opt_outs.jsonl"
        whole = file.read_bytes()
        for left in (whole[:-1], whole + b'{"listed": true, "memb'):
            file.write_bytes(left)
            in_order(home)
            assert deid_here(home.root, "member", "opt-out", "M000000004", "--reason", "asked")[0] == PUBLISHED
            assert file.read_bytes().startswith(whole) and file.read_bytes().count(b"\n") == 4
            in_order(home)
            assert deid_here(home.root, "member", "opt-in", "M000000004", "--reason", "misspelled")[0] == PUBLISHED

    @pytest.mark.matrix
    @pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
    def test_a_list_that_is_no_file(self, home, tmp_path, kind):
        file = home.policies / "opt_outs.jsonl"
        os.rename(file, tmp_path / "elsewhere")
        if kind == "link":
            file.symlink_to(tmp_path / "elsewhere")
        elif kind == "pipe":
            os.mkfifo(file)
        else:
            file.mkdir()
        for command in (("journal", "check"), ("member", "opt-out", PEOPLE[0], "--reason", "again")):
            refused(home, "the list of opt-outs, opt_outs.jsonl beside the policies of the home, is damaged", *command)

    def test_whoever_is_taken_off_by_the_command_is_not_missed(self, home):
        code, printed = deid_here(home.root, "member", "opt-in", PEOPLE[0], "--reason", "misspelled")
        assert code == PUBLISHED, printed
        in_order(home)

    def test_another_secret_cannot_compare_them(self, home, monkeypatch):
        monkeypatch.setenv("DEID_SECRET", "another secret, which is long enough for everybody")
        said = "cannot be compared with the home's journal, because the secret is not the one"
        refused(home, said)
        refused(home, said, "member", "opt-out", "somebody", "--unmatched-ok", "--reason", "asked")
        assert deid_here(home.root, "key", "new-secret")[0] == PUBLISHED
        assert deid_here(home.root, "member", "opt-out", "somebody", "--unmatched-ok", "--reason", "asked")[0] == PUBLISHED
        in_order(home)
        (home.policies / "opt_outs.jsonl").unlink()
        refused(home, "lacks 4 of 4 people")

    def test_the_journal_names_nobody(self, home):
        assert not any(person.encode() in journal_of(home).read_bytes() for person in PEOPLE)


class TestWhoIsKnown:
    """An opt-out that matches nobody leaves nobody out."""

    @pytest.mark.matrix
    @pytest.mark.parametrize(
        ("person", "said"),
        [
            ("somebody", "no person of any delivery here has this identifier"),
            ("m000000004", "one differs only in case"),
            ("M 000000004", "one differs only in case"),
            ("\u041c000000004", "invisible characters or script"),
            ("M00000000\u0664", "invisible characters or script"),
        ],
    )
    def test_nothing_is_written_of_somebody_whom_no_delivery_has(self, home, person, said):
        files = (home.policies / "opt_outs.jsonl", journal_of(home))
        before = [file.read_bytes() for file in files]
        code, printed = deid_here(home.root, "member", "opt-out", person, "--reason", "asked")
        assert code == ERROR and said in unwrapped(printed) and "--unmatched-ok" in printed, printed
        assert [file.read_bytes() for file in files] == before

    def test_it_is_written_when_that_was_expected(self, home):
        code, printed = deid_here(home.root, "member", "opt-out", "somebody", "--unmatched-ok", "--reason", "asked")
        assert code == PUBLISHED and "Note: no person of any delivery" in unwrapped(printed), printed

    def test_whoever_was_delivered_with_a_release_is_known_without_the_store(self, home):
        for file in home.store.glob("small/*.duckdb"):
            file.unlink()
        assert deid_here(home.root, "member", "opt-out", "M000000005", "--reason", "asked")[0] == PUBLISHED
        assert deid_here(home.root, "member", "opt-out", "somebody", "--reason", "asked")[0] == ERROR

    @pytest.mark.matrix
    def test_in_a_home_without_deliveries_it_is_compared_with_the_first(self, tmp_path):
        home = Home(tmp_path / "deid").create()
        write_policy(home.policies, changed(FLAT, source={"kind": "flat", "file": "people.csv", "person": "secret"}))
        code, printed = deid_here(home.root, "member", "opt-out", "person 7", "--reason", "asked")
        assert code == PUBLISHED and "compared with the first one that does" in unwrapped(printed), printed
        assert deid_here(home.root, "member", "opt-out", "somebody", "--reason", "asked")[0] == PUBLISHED
        rows = [[*row[:4], f"person {number}"] for number, row in enumerate(people())]
        delivery = write_people(tmp_path / "in", rows)
        code, printed = deid_here(home.root, "run", "--policy", "flat_table", "--delivery", delivery)
        assert code == PUBLISHED, printed
        assert "quarantined_records 1 rows" in unwrapped(printed), "the one whom it has is left out"
        said = "1 of 2 identifiers on the home's list are those of no person of any delivery here"
        assert said in unwrapped(printed) and "somebody" not in printed


@pytest.mark.parametrize("file", ["releases/registry.jsonl", "store/rules.yaml"])
def test_a_link_or_folder_in_the_place_of_a_file_is_named_with_a_remedy(tmp_path, file):
    home = Home(tmp_path / "deid").create()
    path = home.root / file
    for put in (path.mkdir, lambda: path.symlink_to(tmp_path / "nowhere")):
        put()
        code, printed = deid_here(home.root, "member", "opt-out", "somebody", "--reason", "asked")
        assert code == ERROR and path.name in printed and "put the file itself in its place" in unwrapped(printed), printed
        path.rmdir() if path.is_dir() else path.unlink()


class TestRegistry:
    @pytest.mark.matrix
    def test_a_withdrawal_that_was_cut(self, home):
        assert deid_here(home.root, "release", "withdraw", "small/0001", "--reason", "a column is odd")[0] == PUBLISHED
        cut(home.releases / "registry.jsonl", 1)
        said = "lacks the last 1 of 3 lines that the home's journal knows"
        key = home.root / "key.pem"
        assert deid_here(home.root, "key", "export", "--output", key)[0] == PUBLISHED
        refused(home, said, "verify", home.releases / "small" / "0001", "--key", key)
        refused(home, said, "audit", "small/0001")
        refused(home, said, "releases")
        refused(home, said)

    def test_refused_tries_that_were_cut(self, published, tmp_path):
        with copy_of(published.pipeline.home.root, tmp_path / "deid") as pipeline:
            for digit in "abc":
                releases_here(pipeline.home).note_refused(Tried("5" * 64, digit * 64, "2" * 64, 1), by_chance=True)
            cut(pipeline.home.releases / "registry.jsonl", 3)
            refused(pipeline.home, "lacks the last 3 of 5 lines that the home's journal knows")

    def test_a_rejection_that_was_cut_and_its_folder_put_back(self, staged, tmp_path):
        with copy_of(staged, tmp_path / "deid", "flat_table") as pipeline:
            home = pipeline.home
            waiting = home.store / "manifests" / ".waiting" / "flat_table"
            shutil.copytree(waiting, tmp_path / "kept")
            assert deid_here(home.root, "reject", NAME, "--by", ANNA, "--reason", "a column is odd")[0] == PUBLISHED
            cut(home.releases / "registry.jsonl", 1)
            shutil.copytree(tmp_path / "kept", waiting, dirs_exist_ok=True)
            refused(home, "such as withdrawals, rejections or refused tries", "approve", NAME, "--by", ANNA)
            refused(home, "such as withdrawals, rejections or refused tries", "approvals")

    def test_a_registry_that_was_replaced(self, home):
        file = home.releases / "registry.jsonl"
        file.write_bytes(b"")
        shutil.rmtree(home.releases / "small")
        refused(home, "lacks the last 2 of 2 lines that the home's journal knows")


class TestFolders:
    def test_a_release_that_was_removed_can_be_withdrawn_and_is_put_back(self, home, tmp_path):
        shutil.move(home.releases / "small" / "0001", tmp_path / "elsewhere")
        refused(home, "the folder of release small/0001 is missing")
        assert deid_here(home.root, "release", "withdraw", "small/0001", "--reason", "its files are lost")[0] == PUBLISHED
        refused(home, "because later releases are compared with it", "journal", "check")
        refused(
            home, "restore it, and the folder of the release, from a backup", "member", "opt-out", "m4", "--reason", "asked"
        )
        shutil.move(tmp_path / "elsewhere", home.releases / "small" / "0001")
        in_order(home)

    def test_what_is_kept_of_a_withdrawn_release_is_missed(self, home, tmp_path):
        """Else a backup would be made of a home that can be compared with nothing, in the place of a good one."""
        assert deid_here(home.root, "release", "withdraw", "small/0001", "--reason", "a column is odd")[0] == PUBLISHED
        in_order(home)
        (home.store / "manifests" / "small" / "0001.rows.parquet").unlink()
        refused(home, "release small/0001 is not as it was published", "journal", "check")
        refused(home, "the home is not backed up: release small/0001", "backup", tmp_path / "b.age", "--to", RECIPIENT)

    def test_a_waiting_release_that_was_removed_can_be_rejected(self, staged, tmp_path):
        with copy_of(staged, tmp_path / "deid", "flat_table") as pipeline:
            home = pipeline.home
            shutil.rmtree(home.store / "manifests" / ".waiting" / "flat_table" / "0001")
            refused(home, f"release {NAME} waits for approval according to the journal", "approvals")
            refused(home, f"release {NAME} waits for approval according to the journal", "approve", NAME, "--by", ANNA)
            assert deid_here(home.root, "reject", NAME, "--by", ANNA, "--reason", "its files are lost")[0] == PUBLISHED
            in_order(home)


class TestKept:
    """What later releases are compared with, and who rejected what."""

    @pytest.mark.matrix
    @pytest.mark.parametrize("name", ["0001.json", "0001.members", "0001.roll", "0001.rows.parquet", "0001.certificate.json"])
    @pytest.mark.parametrize("harm", ["removed", "changed"])
    def test_what_is_kept_of_a_release(self, home, name, harm):
        file = home.store / "manifests" / "small" / name
        assert file.exists()
        file.unlink() if harm == "removed" else file.write_bytes(file.read_bytes()[:-3] + b"abc")
        refused(home, "release small/0001 is not as it was published", "journal", "check")

    def test_a_file_of_a_release(self, home):
        file = next((home.releases / "small" / "0001" / "data").glob("*.csv"))
        file.unlink()
        refused(home, "release small/0001 is not as it was published", "journal", "check")

    def test_why_a_release_was_rejected(self, staged, tmp_path):
        with copy_of(staged, tmp_path / "deid", "flat_table") as pipeline:
            home = pipeline.home
            assert deid_here(home.root, "reject", NAME, "--by", ANNA, "--reason", "a column is odd")[0] == PUBLISHED
            in_order(home)
            (home.store / "manifests" / "flat_table" / "0001.rejected.json").unlink()
            refused(home, "which says who rejected a release and why, is missing or was changed", "journal", "check")


class TestPolicies:
    def test_a_policy_that_was_retired_stays_so(self, home):
        stated = home.policies / "in_use.json"
        before = stated.read_bytes() if stated.exists() else None
        assert deid_here(home.root, "policy", "retire", "small")[0] == PUBLISHED
        stated.unlink() if before is None else stated.write_bytes(before)
        refused(home, "small is not in use", "policy", "retire", "small")
        assert deid_here(home.root, "policy", "adopt", "small")[0] == PUBLISHED
        assert deid_here(home.root, "policy", "retire", "small")[0] == PUBLISHED

    def test_a_purge_leaves_the_chain_as_it_is_and_names_no_delivery(self, home):
        assert deid_here(home.root, "policy", "adopt", "small", "--retention", "30")[0] == PUBLISHED
        before = journal_of(home).read_bytes()
        (store,) = home.store.glob("small/*.duckdb")
        os.utime(store, (1, 1))
        assert deid_here(home.root, "purge", "--yes")[0] == PUBLISHED and not store.exists()
        after = journal_of(home).read_bytes()
        assert after.startswith(before) and json.loads(after.splitlines()[-1])["event"] == "purged"
        assert store.stem.encode() not in after
        in_order(home)

    def test_taking_one_into_use_is_in_the_journal(self, home):
        assert deid_here(home.root, "policy", "adopt", "small", "--retention", "30")[0] == PUBLISHED
        last = json.loads(journal_of(home).read_text().splitlines()[-1])
        assert last["event"] == "policy adopted" and last["about"]["policy"] == "small"


class TestJournal:
    def test_one_that_was_deleted(self, home):
        journal_of(home).unlink()
        refused(home, "it is gone: its head is named by keys/journal.head, the manifest of release small/0001")
        refused(home, "this home had a journal, and it is gone", "home", "upgrade", "--yes")

    def test_one_that_was_deleted_with_the_head_beside_the_keys(self, home):
        journal_of(home).unlink()
        (home.keys / "journal.head").unlink()
        refused(home, "it is gone: its head is named by the manifest of release small/0001")
        refused(home, "it is gone: its head is named by the manifest of release small/0001", "home", "upgrade", "--yes")

    def test_only_the_event_log_is_left(self, home):
        shutil.rmtree(home.releases / "small")
        (home.releases / "registry.jsonl").unlink()
        journal_of(home).unlink()
        (home.keys / "journal.head").unlink()
        refused(home, "it is gone: its head is named by the event log", "home", "upgrade", "--yes")

    @pytest.mark.matrix
    @pytest.mark.parametrize("lines", [1, 2, 3])
    def test_one_that_was_cut(self, home, lines):
        """With the list of opt-outs cut to agree with it."""
        cut(journal_of(home), lines)
        cut(home.policies / "opt_outs.jsonl", min(lines, 2))
        refused(home, "lacks lines that keys/journal.head knows: its end was cut off")

    def test_one_with_a_line_that_was_changed_removed_or_added(self, home):
        whole = journal_of(home).read_bytes()
        lines = whole.splitlines(keepends=True)
        for harmed in (
            b"".join([*lines[:-2], lines[-1]]),
            b"".join([*lines[:-2], lines[-1], lines[-2]]),
            b"".join([*lines, lines[-1]]),
            whole.replace(b"opted out", b"opted in", 1),
            b"nonsense\n" + whole,
        ):
            journal_of(home).write_bytes(harmed)
            refused(home, "of the home's journal")
        journal_of(home).write_bytes(whole)
        in_order(home)

    def test_one_of_another_home(self, home, published, tmp_path):
        other = Home(tmp_path / "other").create()
        assert deid_here(other.root, "member", "opt-out", "somebody", "--unmatched-ok", "--reason", "asked")[0] == PUBLISHED
        shutil.copy(journal_of(other), journal_of(home))
        refused(home, "is signed by another key than this home's")
        shutil.copy(other.keys / "journal.head", home.keys / "journal.head")
        refused(home, "is signed by another key than this home's")
        refused(home, "lacks lines that the manifest of release small/0001 knows", "journal", "check")

    def test_one_that_was_begun_anew_by_somebody_without_the_key(self, home):
        """As of now, so that it agrees with the registry and the list, and without the event log."""
        chain = Registry(home.releases / "registry.jsonl").chain()
        for file in (journal_of(home), home.keys / "journal.head", home.policies / "opt_outs.jsonl"):
            file.unlink()
        shutil.rmtree(home.dagster)
        about = {"registry": chain.head, "lines": len(chain.lines), "people": [], "secret": ""}
        file = JournalFile(journal_of(home), home.keys / "journal.head")
        file.append("begun", about, SigningKey.generated(), "2026-01-01T00:00:00+00:00")
        for command in (
            ("journal", "check"),
            ("releases",),
            ("member", "opt-out", PEOPLE[0], "--reason", "asked"),
            next_run(home),
        ):
            refused(home, "is signed by another key than this home's", *command)

    @pytest.mark.matrix
    def test_an_older_one_than_the_registry(self, home):
        older = {
            file: file.read_bytes() for file in (journal_of(home), home.keys / "journal.head", home.policies / "opt_outs.jsonl")
        }
        assert deid_here(home.root, "member", "opt-out", "M000000004", "--reason", "asked")[0] == PUBLISHED
        for _ in range(2):
            assert deid_here(home.root, "clock", "correct", "--reason", "it was ahead")[0] == PUBLISHED
        for file, content in older.items():
            file.write_bytes(content)
        refused(home, "was not told of 2 lines of the registry, and a crash explains only one: an older journal was put back")

    def test_a_cut_last_line_is_what_a_crash_leaves(self, home):
        whole = journal_of(home).read_bytes()
        journal_of(home).write_bytes(whole + b'{"about": {"pers')
        assert deid_here(home.root, "member", "opt-out", PEOPLE[0], "--reason", "again")[0] == PUBLISHED
        assert journal_of(home).read_bytes() == whole


class TestWitness:
    """A home that is put back as a whole agrees with itself; only what lies elsewhere tells."""

    @pytest.fixture
    def witness(self, home, tmp_path) -> Path:
        file = tmp_path / "elsewhere" / "journal.head"
        code, printed = deid_here(home.root, "journal", "head", "--to", file)
        assert code == PUBLISHED and json.loads(printed) == json.loads(file.read_text())
        return file

    @pytest.fixture
    def older(self, home, witness, tmp_path) -> Path:
        """A copy of the home before somebody else opted out."""
        copy = tmp_path / "older"
        shutil.copytree(home.root, copy, symlinks=True)
        assert deid_here(home.root, "member", "opt-out", "somebody", "--unmatched-ok", "--reason", "asked")[0] == PUBLISHED
        return copy

    def put_back(self, home: Home, older: Path) -> None:
        shutil.rmtree(home.root)
        shutil.move(older, home.root)

    @pytest.mark.matrix
    def test_an_older_home_that_was_put_back(self, home, witness, older):
        self.put_back(home, older)
        refused(home, f"lacks lines that the witness {witness} knows")
        refused(home, f"lacks lines that the witness {witness} knows", "journal", "check")
        refused(home, f"lacks lines that the witness {witness} knows", "journal", "forget", witness)

    def test_one_without_its_witness(self, home, witness, older):
        self.put_back(home, older)
        witness.unlink()
        refused(home, f"the witness {witness} is missing; put it back, or do without it")
        assert deid_here(home.root, "journal", "forget", witness)[0] == PUBLISHED
        in_order(home)

    @pytest.mark.matrix
    def test_one_that_only_the_environment_names(self, home, witness, older, monkeypatch, tmp_path):
        elsewhere = tmp_path / "kept.head"
        shutil.copy(witness, elsewhere)
        witness.write_bytes((older / "keys" / "journal.head").read_bytes())
        self.put_back(home, older)
        in_order(home)  # undetected: home and witness were both put back
        refused(home, f"lacks lines that {elsewhere} knows", "journal", "check", "--head", elsewhere)
        monkeypatch.setenv("DEID_WITNESS", str(elsewhere))
        refused(home, f"lacks lines that the witness {elsewhere} knows")

    @pytest.mark.matrix
    def test_two_homes_at_once(self, home, witness, older):
        second = Home(older)
        refused(
            second,
            f"lacks lines that the witness {witness} knows",
            "member",
            "opt-out",
            "else",
            "--unmatched-ok",
            "--reason",
            "asked",
        )
        assert deid_here(home.root, "member", "opt-out", "else", "--unmatched-ok", "--reason", "asked")[0] == PUBLISHED

    @pytest.mark.matrix
    def test_it_follows_every_decision(self, home, witness):
        for command in (
            ("member", "opt-out", "somebody", "--unmatched-ok", "--reason", "asked"),
            ("member", "opt-in", "somebody", "--reason", "misspelled"),
            ("policy", "retire", "small"),
            ("key", "rotate"),
            ("clock", "correct", "--reason", "it was ahead"),
            ("release", "withdraw", "small/0001", "--reason", "a column is odd"),
        ):
            before = witness.read_bytes()
            code, printed = deid_here(home.root, *command)
            assert code == PUBLISHED, printed
            assert witness.read_bytes() != before, command
        in_order(home)

    def test_none_in_the_home_itself(self, home):
        refused(home, "is in the home, whose loss it could not show", "journal", "head", "--to", home.root / "head")

    def test_one_that_cannot_be_written_is_said(self, home):
        code, printed = deid_here(home.root, "journal", "head", "--to", Path("/proc/none/journal.head"))
        assert code == ERROR and "cannot be written" in unwrapped(printed), printed


class TestNewHome:
    """A home that was renamed is not there, and whoever decides begins another."""

    OPT_OUT = ("member", "opt-out", "somebody", "--unmatched-ok", "--reason", "asked")

    def test_it_is_said_that_one_was_begun_and_what_lies_beside_it(self, tmp_path):
        home = tmp_path / "deid"
        code, printed = deid_here(home, *self.OPT_OUT)
        assert code == PUBLISHED and "new home" not in printed
        os.rename(home, tmp_path / "deid.replaced-20261126T000000")
        for name in ("deid", "typo"):
            code, printed = deid_here(tmp_path / name, *self.OPT_OUT)
            assert code == PUBLISHED and f"note: a new home was begun in {tmp_path / name}; it knows of" in unwrapped(printed)
            assert "deid.replaced-20261126T000000: if one of these is your home" in unwrapped(printed)
            assert "new home" not in deid_here(tmp_path / name, *self.OPT_OUT)[1]
        code, printed = deid_here(tmp_path, *self.OPT_OUT)
        assert code == PUBLISHED and f"{tmp_path.name}/deid, {tmp_path.name}/deid.replaced" in unwrapped(printed)

    def test_nothing_is_said_where_nothing_is_decided(self, tmp_path):
        code, printed = deid_here(tmp_path / "deid", "releases")
        assert code == PUBLISHED and "new home" not in printed

    def test_one_in_which_nothing_was_decided_is_not_called_in_order(self, tmp_path):
        code, printed = deid_here(tmp_path / "typo", "journal", "check")
        assert code == ERROR and f"nothing was decided in {tmp_path / 'typo'}" in unwrapped(printed)


class TestUpgrade:
    @pytest.fixture
    def before_journals(self, staged, tmp_path) -> Iterator[Pipeline]:
        """A home as an earlier version left it: a release waits, and two people opted out."""
        with copy_of(staged, tmp_path / "deid", "flat_table") as pipeline:
            for person in PEOPLE[:2]:
                assert deid_here(pipeline.home.root, "member", "opt-out", person, "--reason", "asked")[0] == PUBLISHED
            journal_of(pipeline.home).unlink()
            (pipeline.home.keys / "journal.head").unlink()
            yield pipeline

    def test_nothing_is_decided_before_it(self, before_journals):
        said = "this home has no journal of what it decided: begin one with `deid home upgrade`"
        home = before_journals.home
        for command in (
            next_run(home),
            ("approve", NAME, "--by", ANNA),
            ("reject", NAME, "--by", ANNA, "--reason", "odd"),
            ("member", "opt-out", "somebody", "--unmatched-ok", "--reason", "asked"),
        ):
            refused(home, said, *command)

    def test_it_begins_with_the_home_as_it_is(self, before_journals):
        home = before_journals.home
        code, printed = deid_here(home.root, "home", "upgrade", "--yes")
        assert code == PUBLISHED and "2 people who opted out, and 1 release that waits" in unwrapped(printed), printed
        in_order(home)
        (home.policies / "opt_outs.jsonl").unlink()
        refused(home, "lacks 2 of 2 people")

    def test_it_asks(self, before_journals):
        code, _ = deid_here(before_journals.home.root, "home", "upgrade")
        assert code == ERROR and not journal_of(before_journals.home).exists()

    def test_a_home_that_has_one_is_up_to_date(self, home):
        before = journal_of(home).read_bytes()
        code, printed = deid_here(home.root, "home", "upgrade", "--yes")
        assert code == PUBLISHED and "up to date" in printed and journal_of(home).read_bytes() == before


def test_every_kind_of_decision_is_in_the_journal(staged, tmp_path):
    with copy_of(staged, tmp_path / "deid", "flat_table") as pipeline:
        home = pipeline.home

        def decide(*command: object) -> None:
            code, printed = deid_here(home.root, *command)
            assert code == PUBLISHED, printed

        decide("approve", NAME, "--by", ANNA)
        decide("release", "withdraw", NAME, "--reason", "a column is odd")
        decide("member", "opt-out", "somebody", "--unmatched-ok", "--reason", "asked")
        decide("member", "opt-in", "somebody", "--reason", "misspelled")
        decide("policy", "retire", "flat_table")
        lines = [json.loads(line) for line in journal_of(home).read_text().splitlines()]
        events = [line["event"] for line in lines]
        assert events[0] == "begun" and events.count("begun") == 1
        for event in ("waits", "approved", "registered", "opted out", "opted in", "policy retired"):
            assert event in events
        told = [what for line in lines if line["event"] == "registered" for what in line["about"]["what"]]
        assert {f"release {NAME}", f"withdrawal {NAME}"} <= set(told)
        in_order(home)
