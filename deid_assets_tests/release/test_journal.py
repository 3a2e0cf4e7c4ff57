"""The journal of a home: a chain of signed lines, compared with the home, and with heads that are kept elsewhere."""

import json
import os
import shutil
from pathlib import Path

import pytest

from deid_assets.errors import ReleaseError
from deid_assets.policy.withdrawals import OptOutLine, note
from deid_assets.release.journal.chain import PURGED, WAITING, Head, JournalFile, JournalLine, Remembered, person_digest
from deid_assets.release.journal.home_journal import read_head, write_head
from deid_assets.release.keyring import accept_given_secret, new_secret, secret_of, signing_key_of
from deid_assets.release.keys import SigningKey
from deid_assets.release.opt_outs import enter_opt_out
from deid_assets.release.publication.publish import Releases
from deid_assets.release.publication.waiting import RECORD
from deid_assets.release.registry.tries import Tried
from deid_assets.release.rotation import correct_clock, rotate
from deid_assets.store.digests import bytes_digest, canonical_json
from deid_assets_tests.release.making import publish, wait

KEY, OTHER = SigningKey.generated(), SigningKey.generated()
TIME = "2026-01-01T00:00:00+00:00"


def purged(number: int) -> dict[str, str]:
    return {"policy": "heritage", "delivery": f"{number:064x}"}


def of_three(folder: Path, key: SigningKey = KEY) -> JournalFile:
    file = JournalFile(folder / "journal.jsonl", folder / "journal.head")
    begun = {"registry": "0" * 64, "lines": 0, "people": [], "secret": ""}
    file.append("begun", begun, key, TIME)
    for number in range(2):
        file.append(PURGED, purged(number), key, TIME)
    return file


def opt_out(releases: Releases, person: str, listed: bool = True) -> bool:
    return enter_opt_out(releases, OptOutLine(person, listed, "asked", TIME))


def refusal(releases: Releases) -> str:
    with pytest.raises(ReleaseError) as error, releases.deciding():
        pass
    return str(error.value)


class TestChain:
    def test_lines_are_read_as_they_were_appended(self, tmp_path):
        journal = of_three(tmp_path).read()
        assert [line.event for line in journal.lines] == ["begun", "purged", "purged"]
        assert journal.problem is None and journal.tail == b"" and journal.reaches(journal.lines[0].hash)
        assert not journal.reaches("f" * 64)

    def test_the_head_is_kept_beside_it(self, tmp_path):
        file = of_three(tmp_path)
        assert file.kept_head() == Head.of(file.read()) and file.kept_head().lines == 3

    def test_no_byte_can_change(self, tmp_path):
        file = of_three(tmp_path)
        whole = file.path.read_bytes()
        for position in range(len(whole)):
            file.path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
            found = file.read()
            assert found.problem or found.tail, f"byte {position}"

    @pytest.mark.parametrize("order", [(0, 2), (1, 2), (0, 2, 1), (0, 1, 1, 2), (2,), (0, 1, 2, 0)])
    def test_no_line_can_be_removed_moved_or_added(self, tmp_path, order):
        file = of_three(tmp_path)
        lines = file.path.read_bytes().splitlines(keepends=True)
        file.path.write_bytes(b"".join(lines[position] for position in order))
        assert file.read().problem is not None
        with pytest.raises(ReleaseError, match="home's journal"):
            file.append(PURGED, purged(3), KEY, TIME)

    def test_another_key_signs_nothing(self, tmp_path):
        file = of_three(tmp_path)
        said = "line 4 of the home's journal is signed by a key that was not in force"
        before = file.path.read_bytes()
        with pytest.raises(ReleaseError, match=said):
            file.append(PURGED, purged(3), OTHER, TIME)
        assert file.path.read_bytes() == before
        line = JournalLine(PURGED, purged(3), previous=file.read().head, time=TIME).signed(OTHER)
        file.path.write_bytes(before + line.line)
        assert said in file.read().problem

    @pytest.mark.parametrize(
        ("event", "about"), [("unheard of", {}), (PURGED, {"policy": "heritage"}), (PURGED, purged(1) | {"name": "somebody"})]
    )
    def test_a_line_tells_what_its_event_needs_and_no_more(self, tmp_path, event, about):
        with pytest.raises(ReleaseError, match="does not tell what happened"):
            of_three(tmp_path).append(event, about, KEY, TIME)

    def test_a_line_that_tells_of_nothing_in_particular_is_none(self, tmp_path):
        file = of_three(tmp_path)
        first, *others = file.path.read_bytes().splitlines(keepends=True)
        told = {name: part for name, part in json.loads(first).items() if name != "hash"} | {"about": "something"}
        file.path.write_bytes(canonical_json(told | {"hash": bytes_digest(canonical_json(told))}) + b"\n" + b"".join(others))
        assert "is not a line of a journal" in file.read().problem

    @pytest.mark.matrix
    def test_a_crash_at_any_byte_is_mended(self, tmp_path):
        file = of_three(tmp_path)
        before, head = file.path.read_bytes(), file.head_path.read_bytes()
        file.append(PURGED, purged(3), KEY, TIME)
        whole = file.path.read_bytes()
        for length in range(len(before), len(whole) + 1):
            file.path.write_bytes(whole[:length])
            file.head_path.write_bytes(head)
            file.repair()
            assert file.path.read_bytes() == (whole if length >= len(whole) - 1 else before), "a line without its end gets it"
            assert file.kept_head() == Head.of(file.read())

    def test_a_crash_after_the_first_line_is_mended(self, tmp_path):
        file = JournalFile(tmp_path / "journal.jsonl", tmp_path / "journal.head")
        file.append("begun", {"registry": "0" * 64, "lines": 0, "people": [], "secret": ""}, KEY, TIME)
        file.head_path.unlink()
        file.repair()
        assert file.kept_head() == Head.of(file.read())

    def test_what_is_left_of_a_line_that_was_told_stays(self, tmp_path):
        file = of_three(tmp_path)
        left = file.path.read_bytes()[:-9]
        file.path.write_bytes(left)
        file.repair()
        assert file.path.read_bytes() == left and not file.read().reaches(file.kept_head().head)

    def test_repair_leaves_a_broken_journal_and_a_foreign_head_as_they_are(self, tmp_path):
        file = of_three(tmp_path)
        content = file.path.read_bytes() + b"nonsense\n"
        file.path.write_bytes(content)
        file.repair()
        assert file.path.read_bytes() == content
        file.head_path.write_text("nonsense")
        with pytest.raises(ReleaseError, match=r"keys/journal.head: it is not the head of a journal; put it back"):
            file.kept_head()

    def test_a_link_is_no_journal(self, tmp_path):
        file = of_three(tmp_path)
        os.rename(file.path, tmp_path / "elsewhere")
        file.path.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(
            ReleaseError, match=r"\(store/journal.jsonl\) cannot be used: .* link.*; put the file itself in its place"
        ):
            file.read()


class TestHome:
    def test_a_new_home_begins_one_with_its_first_decision(self, releases):
        assert releases.journal.missing() == [] and not releases.journal.file.path.exists()
        publish(releases, "first", with_tables=False)
        assert [line.event for line in releases.journal.file.read().lines] == ["begun", "registered"]
        assert releases.journal.missing() == []

    def test_manifests_name_its_head(self, releases):
        publish(releases, "first", with_tables=False)
        head = releases.journal.head
        folder = publish(releases, "second", with_tables=False).folder
        assert json.loads((folder / "manifest.json").read_bytes())["journal_head"] == head

    def test_a_manifest_knows_lines_that_were_cut(self, releases):
        opt_out(releases, "m0")
        publish(releases, "first", with_tables=False)
        file = releases.journal.file
        before, head = file.path.read_bytes(), file.head_path.read_bytes()
        opt_out(releases, "m1")
        publish(releases, "second", with_tables=False)
        file.path.write_bytes(before)
        file.head_path.write_bytes(head)
        assert "lacks lines that the manifest of release heritage/0002 knows" in refusal(releases)

    def test_it_is_told_of_what_a_crash_left_untold(self, releases):
        opt_out(releases, "m1")
        note(releases.home.policies, OptOutLine("m2", True, "asked", TIME))
        with releases.deciding() as journal:
            known = Remembered.of(journal.file.read())
        secret = secret_of(releases.home)
        assert known.listed == {person_digest(secret, "m1"), person_digest(secret, "m2")}

    def test_an_opt_in_that_a_crash_left_untold_keeps_the_person_out(self, releases, monkeypatch):
        opt_out(releases, "m1")

        def fails(*_):
            raise OSError("no space")

        with monkeypatch.context() as patch:
            patch.setattr("deid_assets.release.opt_outs.note", fails)
            with pytest.raises(OSError, match="no space"):
                opt_out(releases, "m1", listed=False)
        with releases.deciding() as journal:
            assert len(Remembered.of(journal.file.read()).listed) == 1
        assert opt_out(releases, "m1", listed=False)
        assert not Remembered.of(releases.journal.file.read()).listed

    def test_it_follows_the_keys(self, releases):
        opt_out(releases, "m0")
        publish(releases, "first", with_tables=False)
        home = releases.home
        for lost in (None, "it was stolen", None):
            rotate(home, lost)
        again = Releases(home, signing_key_of(home))
        correct_clock(home, "it was ahead")
        opt_out(again, "m1")
        assert again.journal.missing() == [] and again.journal.file.read().problem is None

    def test_a_rotation_that_a_crash_left_untold_is_told_by_the_new_key(self, releases, monkeypatch):
        publish(releases, "first", with_tables=False)
        with monkeypatch.context() as patch:
            patch.setattr("deid_assets.release.journal.home_journal.HomeJournal.record", lambda *_: None)
            rotate(releases.home)
            rotate(releases.home, "it was stolen")
        again = Releases(releases.home, signing_key_of(releases.home))
        with again.deciding():
            pass
        told = again.journal.file.read().lines[-1].about
        assert told["what"] == ["key rotation", "key rotation"] and told["new_key"] == again.key.public.raw.hex()
        assert again.journal.missing() == []

    def test_a_key_can_be_recorded_as_lost_before_a_journal_begins(self, releases):
        releases.note_refused(Tried("5" * 64, "1" * 64, "2" * 64, 1), by_chance=True)
        releases.journal.file.path.unlink()
        releases.journal.file.head_path.unlink()
        os.rename(releases.home.keys / "signing_key.pem", releases.home.root / "elsewhere")
        rotate(releases.home, "the disk broke")
        assert not releases.journal.file.path.exists()
        again = Releases(releases.home, signing_key_of(releases.home))
        again.begin_journal([])
        assert again.journal.missing() == []

    def test_a_key_that_signed_only_the_journal_is_missed_and_can_be_recorded_as_lost(self, releases):
        opt_out(releases, "m1")
        os.rename(releases.home.keys / "signing_key.pem", releases.home.root / "elsewhere")
        with pytest.raises(ReleaseError, match="is missing, although"):
            signing_key_of(releases.home)
        rotate(releases.home, "the disk broke")
        again = Releases(releases.home, signing_key_of(releases.home))
        opt_out(again, "m2")
        assert again.journal.missing() == [] and len(Remembered.of(again.journal.file.read()).listed) == 2

    @pytest.mark.parametrize("lost", [None, "it was stolen"])
    def test_no_key_is_replaced_while_the_journal_is_gone(self, releases, lost):
        publish(releases, "first", with_tables=False)
        releases.journal.file.path.unlink()
        before = releases.registry.path.read_bytes()
        for decide in (lambda: rotate(releases.home, lost), lambda: correct_clock(releases.home, "it was ahead")):
            with pytest.raises(ReleaseError, match="this home had a journal, and it is gone"):
                decide()
        assert releases.registry.path.read_bytes() == before

    def test_one_that_somebody_else_signed_is_none(self, releases):
        """Begun anew as of now, so that it agrees with everything else."""
        opt_out(releases, "m1")
        publish(releases, "first", with_tables=False)
        publish(releases, "second", with_tables=False)
        file, chain = releases.journal.file, releases.registry.chain()
        (releases.home.policies / "opt_outs.jsonl").unlink()
        for event, key, said in (
            ("copied", OTHER, "is signed by another key than this home's"),
            ("begun", OTHER, "is signed by another key than this home's"),
            ("begun", releases.key, "lacks lines that the manifest of release heritage/0001 knows"),
        ):
            file.path.unlink()
            file.head_path.unlink()
            about = {"registry": chain.head, "lines": len(chain.lines), "people": [], "secret": ""}
            file.append(event, about, key, TIME)
            assert said in refusal(releases), event
            assert any(said in loss.text for loss in releases.journal.missing()), event

    def test_an_older_one_is_noticed_by_the_registry(self, releases):
        opt_out(releases, "m1")
        file, people = releases.journal.file, releases.home.policies / "opt_outs.jsonl"
        older = {path: path.read_bytes() for path in (file.path, file.head_path, people)}
        opt_out(releases, "m2")
        for digit in "12":
            releases.note_refused(Tried("5" * 64, digit * 64, "2" * 64, 1), by_chance=True)
        for path, content in older.items():
            path.write_bytes(content)
        assert "was not told of 2 lines of the registry, and a crash explains only one" in refusal(releases)

    def test_an_older_one_is_noticed_by_rotations_of_the_key(self, releases):
        opt_out(releases, "m0")
        publish(releases, "first", with_tables=False)
        file, people = releases.journal.file, releases.home.policies / "opt_outs.jsonl"
        older = {path: path.read_bytes() for path in (file.path, file.head_path, people)}
        opt_out(releases, "m1")
        for _ in range(2):
            rotate(releases.home)
        for path, content in older.items():
            path.write_bytes(content)
        again = Releases(releases.home, signing_key_of(releases.home))
        assert "was not told of 2 lines of the registry, and a crash explains only one" in refusal(again)

    def test_what_waits_must_be_there_as_it_was_staged(self, releases):
        waiting = wait(releases)
        record = releases.waiting / "heritage" / "0001" / RECORD
        assert record.is_file() and waiting.name == "heritage/0001"
        os.chmod(record, 0o600)
        record.write_bytes(record.read_bytes() + b" ")
        assert "release heritage/0001 waits for approval according to the journal" in refusal(releases)
        record.unlink()
        assert "release heritage/0001 waits for approval according to the journal" in refusal(releases)

    def test_what_was_not_staged_here_is_not_recorded_as_waiting(self, releases):
        wait(releases)
        of_policy = releases.waiting / "heritage"
        shutil.copytree(of_policy / "0001", of_policy / "0002")
        (of_policy / "0003").mkdir()
        (of_policy / "0003" / RECORD).write_text("{}")
        with releases.deciding() as journal:
            assert set(Remembered.of(journal.file.read()).waiting) == {"heritage/0001"}
        record = of_policy / "0001" / RECORD
        record.chmod(0o600)
        record.write_text("{}")
        with releases.deciding(despite=[WAITING]):
            pass
        assert "release heritage/0001 waits for approval according to the journal" in refusal(releases), "still"

    def test_an_earlier_version_s_home_begins_one_when_a_person_says_so(self, releases):
        wait(releases)
        releases.journal.file.path.unlink()
        releases.journal.file.head_path.unlink()
        assert "this home has no journal" in refusal(releases)
        releases.begin_journal([])
        assert releases.journal.missing() == []
        with pytest.raises(ReleaseError, match="has begun already"):
            releases.begin_journal([])

    def test_not_where_anything_names_a_head(self, releases):
        wait(releases)
        releases.journal.file.path.unlink()
        with pytest.raises(ReleaseError, match="named by keys/journal.head"):
            releases.begin_journal([])
        releases.journal.file.head_path.unlink()
        with pytest.raises(ReleaseError, match="named by the event log"):
            releases.begin_journal(["the event log"])

    def test_a_new_secret_restates_who_opted_out(self, releases, monkeypatch):
        opt_out(releases, "m1")
        monkeypatch.setenv("DEID_SECRET", "another secret, which is long enough for everybody")
        assert "the secret is not the one under which it was written" in refusal(releases)
        assert accept_given_secret(releases.home)
        with releases.deciding() as journal:
            assert Remembered.of(journal.file.read()).listed == {person_digest(secret_of(releases.home), "m1")}

    def test_a_generated_secret_that_was_replaced_is_made_anew_as_the_refusal_says(self, releases):
        opt_out(releases, "m1")
        secret = releases.home.keys / "secret"
        secret.write_text("a secret of somebody else, which is long enough")
        assert "remove keys/secret, and make a new one with `deid key new-secret`" in refusal(releases)
        secret.unlink()
        new_secret(releases.home)
        opt_out(releases, "m2")
        assert releases.journal.missing() == [] and len(Remembered.of(releases.journal.file.read()).listed) == 2

    def test_a_new_secret_forgets_nobody(self, releases, monkeypatch):
        opt_out(releases, "m1")
        (releases.home.policies / "opt_outs.jsonl").unlink()
        monkeypatch.setenv("DEID_SECRET", "another secret, which is long enough for everybody")
        assert accept_given_secret(releases.home)
        assert "has 0 people, and the home's journal has 1" in refusal(releases)


class TestWitnesses:
    @pytest.mark.parametrize("remote", [False, True])
    def test_a_head_is_written_and_read_again(self, tmp_path, remote):
        journal = of_three(tmp_path).read()
        place = f"{'file://' if remote else ''}{tmp_path}/elsewhere/journal.head"
        (tmp_path / "elsewhere").mkdir()
        assert read_head(place) is None
        write_head(place, journal)
        assert read_head(place) == Head.of(journal)

    def test_one_of_another_journal_is_not_overwritten(self, tmp_path):
        journal = of_three(tmp_path).read()
        place = str(tmp_path / "journal.head.elsewhere")
        write_head(place, journal)
        (tmp_path / "second").mkdir()
        other = of_three(tmp_path / "second", OTHER).read()
        with pytest.raises(ReleaseError, match="lacks lines that the witness"):
            write_head(place, other)
        assert read_head(place) == Head.of(journal)

    def test_something_else_is_no_head(self, tmp_path):
        place = tmp_path / "x"
        place.write_text("{}")
        with pytest.raises(ReleaseError, match="is not the head of a journal"):
            read_head(str(place))

    @pytest.mark.parametrize("url", ["file:///", "s3://bucket/"])
    def test_a_folder_is_no_witness(self, url):
        with pytest.raises(ReleaseError, match="is no file: name one"):
            read_head(url)

    def test_the_environment_s_is_recorded_and_an_empty_name_is_an_error(self, releases, tmp_path, monkeypatch):
        place = tmp_path.with_name(f"{tmp_path.name}.head")
        monkeypatch.setenv("DEID_WITNESS", str(place))
        publish(releases, "first", with_tables=False)
        assert Remembered.of(releases.journal.file.read()).witnesses == [str(place)]
        assert releases.journal.tell_witnesses() == {}
        assert read_head(str(place)) == Head.of(releases.journal.file.read())
        monkeypatch.setenv("DEID_WITNESS", " ")
        with pytest.raises(ReleaseError, match="DEID_WITNESS is empty"):
            publish(releases, "second", with_tables=False)
        own = releases.home.keys / "own.head"
        for named in (str(own), own.as_uri()):
            monkeypatch.setenv("DEID_WITNESS", named)
            with pytest.raises(ReleaseError, match="is in the home, whose loss it could not show"):
                publish(releases, "second", with_tables=False)
        monkeypatch.setenv("DEID_WITNESS", "journal.head")
        with pytest.raises(ReleaseError, match="is another file in every folder: name the file by its whole path"):
            publish(releases, "second", with_tables=False)

    def test_one_that_cannot_be_written_is_said(self, releases, tmp_path):
        place = tmp_path / "elsewhere" / "journal.head"
        with releases.deciding() as journal:
            journal.add_witness(str(place), releases.key)
        place.unlink()
        place.mkdir()
        assert str(place) in releases.journal.tell_witnesses()["witness"]

    def test_one_that_is_not_known_cannot_be_forgotten(self, releases):
        with releases.deciding() as journal, pytest.raises(ReleaseError, match="the journal has no witness x; .*: none"):
            journal.forget_witness("x", releases.key)
