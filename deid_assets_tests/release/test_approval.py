"""A release that waits for a person's approval is published as it was staged, or rejected; never both, and never changed."""

import os
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import pytest

from deid_assets.errors import ReleaseError
from deid_assets.methods.counts.tables import CellName
from deid_assets.policy.sections.counts import CountNoise, NoiseBudget
from deid_assets.release import keys
from deid_assets.release.counts.noise import DeliveryNoise
from deid_assets.release.counts.statement import CountStatement
from deid_assets.release.keys import SigningKey
from deid_assets.release.manifest.editions import approved_editions
from deid_assets.release.publication.approval import approve_waiting, forget_waiting, reject_waiting
from deid_assets.release.publication.verification import APPROVED, verify_release
from deid_assets.release.publication.waiting import (
    read_waiting,
    staged_editions,
    waiting_folder,
    waiting_folders,
    waiting_manifest,
)
from deid_assets.release.registry import clock
from deid_assets.release.registry.chain import Chain, Rejection
from deid_assets.release.registry.noise_charges import NoisyPublication, budget_of, is_exceeded
from deid_assets.release.registry.tries import Tried
from deid_assets.store.digests import bytes_digest, canonical_json, parse_json
from deid_assets_tests.release import crashing
from deid_assets_tests.release.making import APPROVERS, READING, SECRET, describe, publish, stage_certificate, terms, wait
from deid_assets_tests.release.test_crashes import ENVIRONMENT

ANNA, BEN = APPROVERS
SUBJECT = "5" * 64


def approved(releases, number=1, by=ANNA, reading=READING):
    return approve_waiting(releases, "heritage", number, by, lambda: reading)


def folder_of(releases, number=1):
    return waiting_folder(releases.waiting, "heritage", number)


def refused(releases, because, **how):
    """It is not published, nothing but the registry's lock and its own folder is touched, and it waits on."""
    before = releases.registry.path.read_bytes() if releases.registry.path.exists() else b""
    with pytest.raises(ReleaseError, match=because):
        approved(releases, **how)
    assert (releases.registry.path.read_bytes() if releases.registry.path.exists() else b"") == before
    assert not releases.path("heritage", how.get("number", 1)).exists() and folder_of(releases).is_dir()


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told | {"format": "deid_assets waiting release 0"},
        lambda told: told | {"terms": told["terms"] | {"of_a_later_version": 1}},
        lambda told: {name: value for name, value in told.items() if name != "terms"},
        lambda told: [told],
    ],
)
def test_a_record_of_another_version_is_one_sentence_and_can_be_rejected(releases, change):
    """Every later run of the policy reads it, and must not end with a foreign error."""
    wait(releases)
    record = folder_of(releases) / "waiting.json"
    content = canonical_json(change(parse_json(record.read_bytes())))
    record.write_bytes(content)
    (folder_of(releases) / "waiting.sig").write_bytes(releases.key.sign(content))
    refused(releases, "was written by another version of deid_assets")
    with pytest.raises(ReleaseError, match="was written by another version of deid_assets"):
        read_waiting(folder_of(releases), releases.key.public)
    assert reject_waiting(releases, "heritage", 1, ANNA, "staged by an old version").number == 1


def test_a_stray_file_among_those_that_wait_stops_no_release(releases):
    wait(releases)
    for stray in (releases.waiting / "note", releases.waiting / "heritage" / "0007"):
        stray.write_text("a file")
    assert waiting_folders(releases.waiting) == [folder_of(releases)]
    assert approved(releases).folder.is_dir()


class TestWaiting:
    def test_shows_nothing_and_is_for_its_owner_only(self, releases):
        waiting = wait(releases)
        assert (waiting.name, waiting.terms.by) == ("heritage/0001", APPROVERS)
        assert list((releases.folder / "heritage").iterdir()) == [] and not releases.registry.path.exists()
        assert waiting_folders(releases.waiting) == [folder_of(releases)]
        for path in (releases.waiting, *releases.waiting.rglob("*")):
            assert not stat.S_IMODE(path.stat().st_mode) & 0o077
        assert read_waiting(folder_of(releases), releases.key.public) == waiting

    def test_its_manifest_can_be_read_before_it_is_approved(self, releases):
        wait(releases)
        shown = waiting_manifest(releases.restricted, "heritage/0001").read_bytes()
        assert shown == staged_editions(folder_of(releases)).public

    def test_its_number_is_taken(self, releases):
        wait(releases)
        assert publish(releases, "other", with_tables=False).entry.number == 2
        wait(releases, "third", created="2024-01-01T00:00:03Z")
        assert publish(releases, "fourth", with_tables=False).entry.number == 4

    def test_of_released_inputs_is_refused(self, releases):
        publish(releases, "waiting", with_tables=False)
        with pytest.raises(ReleaseError, match="the same inputs were released before"):
            wait(releases)
        assert waiting_folders(releases.waiting) == []

    def test_a_manifest_of_another_release_does_not_wait(self, releases):
        with releases.stage("heritage") as staging:
            staging.write_file("data/Members.txt", b"member 1")
            stage_certificate(staging)
            with pytest.raises(ReleaseError, match="describes a different release"):
                staging.wait(
                    lambda place: describe(replace(place, number=7)), staging.slot("2024", "a" * 64, clock.now(None)), None
                )
        assert waiting_folders(releases.waiting) == []

    def test_a_file_that_changed_after_it_was_staged_does_not_wait(self, releases):
        with releases.stage("heritage") as staging:
            staging.write_file("data/Members.txt", b"member 1")
            stage_certificate(staging)

            def changed(place):
                os.chmod(staging.folder / "data/Members.txt", 0o600)
                (staging.folder / "data/Members.txt").write_bytes(b"member 2")
                return describe(place)

            with pytest.raises(ReleaseError, match="not as it was staged: release/data/Members.txt"):
                staging.wait(changed, staging.slot("2024", "a" * 64, clock.now(None)), terms())
        assert waiting_folders(releases.waiting) == []
        assert list((releases.waiting / "heritage").iterdir()) != [], "half a copy is left, as a crash would leave it"
        releases.recover()
        assert list((releases.waiting / "heritage").iterdir()) == []


class TestApproved:
    def test_is_published_as_it_was_staged_and_says_who_approved_it(self, releases):
        waiting = wait(releases)
        published = approved(releases, by=BEN)
        assert published.folder == releases.path("heritage", 1) and folder_of(releases).is_dir()
        manifest = parse_json((published.folder / "manifest.json").read_bytes())
        assert manifest["approval"] == {"by": BEN, "time": manifest["created"], "staged": waiting.staged}
        assert (published.folder / "data" / "Members.txt").read_bytes() == b"member 1"
        report = verify_release(published.folder, releases.key.public, releases.registry.path)
        assert report.ok and f"{APPROVED}: by {BEN} at {manifest['created']}" in report.text()
        restricted = parse_json((releases.restricted / "heritage" / "0001.json").read_bytes())
        assert restricted["approval"] == manifest["approval"]
        # Once more, as after a crash: the release stands, and its copy is removed.
        assert approved(releases) == published
        forget_waiting(releases, "heritage", 1)
        assert not folder_of(releases).exists()
        with pytest.raises(ReleaseError, match="heritage/0001 is published already"):
            approved(releases)

    def test_what_waits_is_not_forgotten(self, releases):
        wait(releases)
        forget_waiting(releases, "heritage", 1)
        assert folder_of(releases).is_dir()

    @pytest.mark.parametrize("by", ["Carl", "", "anna muster", "Carl\x1b[2J"])
    def test_only_by_whom_the_policy_names(self, releases, by):
        wait(releases)
        refused(releases, "its policy names Anna Muster, Ben Example", by=by)

    def test_not_after_its_time(self, releases):
        wait(releases, created="2026-01-01T00:00:00+00:00")
        refused(releases, "waited longer than its policy allows, until 2026-01-08T00:00:00")

    def test_not_after_its_policy_changed(self, releases):
        wait(releases)
        refused(releases, "its policy, or a file that the policy names, changed", reading="f" * 64)

    def test_not_by_another_version_of_the_code(self, releases):
        wait(releases, code="0" * 64)
        refused(releases, "another version of deid_assets")

    def test_not_after_the_secret_was_replaced(self, releases):
        wait(releases)
        keys.load_secret(releases.home.keys, {})
        refused(releases, "it was made under another secret")

    def test_not_after_another_release_against_which_it_was_not_judged(self, releases):
        wait(releases)
        publish(releases, "other", policy="another", with_tables=False)
        refused(releases, "another/0001 was published since")

    def test_after_a_release_against_which_it_was_judged(self, releases):
        publish(releases, "first", with_tables=False)
        wait(releases)
        assert approved(releases, number=2).entry.number == 2

    def test_not_after_another_try_of_its_delivery_was_refused(self, releases):
        wait(releases, subject=SUBJECT)
        releases.note_refused(Tried("6" * 64, "1" * 64, "2" * 64, 1), by_chance=True)
        releases.note_refused(Tried(SUBJECT, "1" * 64, "2" * 64, 1), by_chance=True)
        refused(releases, "any more: another try of its delivery was refused since. Run")

    def test_not_once_it_was_rejected(self, releases, monkeypatch):
        waiting = wait(releases)
        copy = releases.folder.parent / "copy"
        shutil.copytree(folder_of(releases), copy)
        reject_waiting(releases, "heritage", 1, ANNA, "a column is odd")
        assert waiting.obstacles(releases.registry.chain(), clock.now(None), READING) == ("it was rejected",)
        # Rejected by somebody else between the reading of the folder and the lock.
        shutil.move(copy, folder_of(releases))
        monkeypatch.setattr(type(releases), "recover_or_refuse", lambda self, despite=(): None)
        with pytest.raises(ReleaseError, match="any more: it was rejected"):
            approved(releases)
        assert not releases.path("heritage", 1).exists()

    def test_not_if_its_folder_went_away_meanwhile(self, releases):
        wait(releases)

        def gone():
            shutil.rmtree(folder_of(releases))
            return READING

        with pytest.raises(ReleaseError, match="any more: it was rejected"):
            approve_waiting(releases, "heritage", 1, ANNA, gone)
        assert not releases.path("heritage", 1).exists()

    def test_not_under_a_registry_that_lost_lines(self, releases):
        publish(releases, "first", with_tables=False)
        waiting = wait(releases)
        lost = waiting.obstacles(Chain((), None, b""), clock.now(None), READING)
        assert lost == ("the registry is not the one under which it was staged: lines were cut off or changed",)
        releases.registry.path.unlink()
        shutil.rmtree(releases.path("heritage", 1))
        with pytest.raises(ReleaseError, match="lacks the last 1 of 1 line that the home's journal knows"):
            approved(releases, number=2)

    def test_one_that_does_not_wait_cannot_be_approved(self, releases):
        releases.folder.mkdir()
        with pytest.raises(ReleaseError, match="no release heritage/0001 waits for approval; `deid approvals`"):
            approved(releases)


def flip(path):
    os.chmod(path, 0o600)
    content = bytearray(path.read_bytes() or b"x")
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


class TestTampered:
    @pytest.mark.parametrize(
        "file",
        [
            "release/data/Members.txt", "release/report.html", "release/certificate.json", "public.json", "restricted.json",
            "members", "roll", "certificate.json", "rows.parquet",
        ],
    )  # fmt: skip
    def test_a_changed_or_missing_file_is_found(self, releases, file):
        wait(releases)
        flip(folder_of(releases) / file)
        refused(releases, f"heritage/0001 cannot be approved: not as it was staged: {file}")
        (folder_of(releases) / file).unlink()
        refused(releases, f"not as it was staged: {file}")

    def test_a_file_or_link_that_was_added_is_found(self, releases):
        wait(releases)
        (folder_of(releases) / "release" / "data" / "More.csv").write_text("member 2")
        refused(releases, "not as it was staged: release/data/More.csv")
        (folder_of(releases) / "release" / "data" / "More.csv").unlink()
        target = folder_of(releases) / "release" / "data" / "Members.txt"
        target.rename(releases.folder.parent / "elsewhere")
        target.symlink_to(releases.folder.parent / "elsewhere")
        refused(releases, "not as it was staged: release/data/Members.txt")

    @pytest.mark.parametrize("file", ["waiting.json", "waiting.sig"])
    def test_a_changed_record_is_found(self, releases, file):
        wait(releases)
        flip(folder_of(releases) / file)
        refused(releases, "is not signed by this home's signing key")
        (folder_of(releases) / file).unlink()
        refused(releases, "the record of the staged release cannot be read: it is missing")

    def test_a_record_that_another_key_signed_is_found(self, releases, tmp_path):
        wait(releases)
        content = (folder_of(releases) / "waiting.json").read_bytes()
        (folder_of(releases) / "waiting.sig").write_bytes(SigningKey.load_or_create(tmp_path / "other").sign(content))
        refused(releases, "is not signed by this home's signing key")

    def test_a_folder_under_another_number_is_found(self, releases):
        wait(releases)
        folder_of(releases).rename(folder_of(releases, 2))
        with pytest.raises(ReleaseError, match="heritage/0002 holds the staged release heritage/0001"):
            approved(releases, number=2)

    def test_a_file_that_changes_while_it_is_copied_is_found(self, releases, monkeypatch):
        wait(releases)
        monkeypatch.setattr("deid_assets.release.publication.approval._read", lambda of, folder: read_then_flip(of, folder))
        with pytest.raises(ReleaseError, match="staged files changed after they were written, nothing is published"):
            approved(releases)
        assert not releases.path("heritage", 1).exists()


def read_then_flip(releases, folder):
    waiting = read_waiting(folder, releases.key.public)
    flip(folder / "release" / "data" / "Members.txt")
    return waiting


class TestRejected:
    def test_is_recorded_and_removed_and_its_number_stays_taken(self, releases):
        wait(releases)
        line = reject_waiting(releases, "heritage", 1, "Carl", "a column is odd")
        assert releases.registry.chain().lines == (line,) and not folder_of(releases).exists()
        record = (releases.restricted / "heritage" / "0001.rejected.json").read_bytes()
        told = parse_json(record)
        assert (told["by"], told["reason"], told["release"]) == ("Carl", "a column is odd", "heritage/0001")
        assert bytes_digest(record) == line.record
        assert b"Carl" not in releases.registry.path.read_bytes() and b"odd" not in releases.registry.path.read_bytes()
        with pytest.raises(ReleaseError, match="heritage/0001 was rejected"):
            approved(releases)
        assert wait(releases).number == 2

    def test_even_if_it_was_tampered_with(self, releases):
        wait(releases)
        flip(folder_of(releases) / "waiting.json")
        reject_waiting(releases, "heritage", 1, ANNA, "somebody changed it")
        assert releases.registry.chain().rejected == {("heritage", 1)}

    @pytest.mark.parametrize(("by", "reason"), [(" ", "odd"), (ANNA, "")])
    def test_needs_a_name_and_a_reason(self, releases, by, reason):
        wait(releases)
        with pytest.raises(ReleaseError, match="needs a name and a reason"):
            reject_waiting(releases, "heritage", 1, by, reason)
        assert folder_of(releases).is_dir() and not releases.registry.path.exists()

    def test_not_once_it_is_published(self, releases):
        wait(releases)
        approved(releases)
        with pytest.raises(ReleaseError, match="is published; `deid release withdraw`"):
            reject_waiting(releases, "heritage", 1, ANNA, "too late")
        assert verify_release(releases.path("heritage", 1), releases.key.public, releases.registry.path).ok

    def test_what_a_crash_left_of_it_is_removed_at_the_next_start(self, releases):
        wait(releases)
        copy = releases.folder.parent / "copy"
        shutil.copytree(folder_of(releases), copy)
        reject_waiting(releases, "heritage", 1, ANNA, "a column is odd")
        shutil.copytree(copy, folder_of(releases))
        releases.recover()
        assert not folder_of(releases).exists()


def rejection(releases, number=1, **changes):
    chain = releases.registry.chain()
    fields = {"record": "a" * 64, "previous": chain.head, "time": "2024-01-01T00:00:09Z"}
    return Rejection("heritage", number, **fields | changes).signed(releases.key)


class TestRegistry:
    @pytest.mark.parametrize("number", [1, 2])
    def test_a_published_or_rejected_number_cannot_be_rejected(self, releases, number):
        publish(releases, "first", with_tables=False)
        releases.registry.append(rejection(releases, 2))
        line = rejection(releases, number)
        releases.registry.path.write_bytes(releases.registry.path.read_bytes() + line.line)
        with pytest.raises(ReleaseError, match="rejects a release that was published or rejected before it"):
            releases.registry.chain()

    def test_what_was_rejected_is_not_rejected_again(self, releases):
        wait(releases)
        reject_waiting(releases, "heritage", 1, ANNA, "a column is odd")
        with pytest.raises(ReleaseError, match="release heritage/0001 was rejected"):
            reject_waiting(releases, "heritage", 1, ANNA, "a column is odd")

    def test_a_rejected_number_cannot_be_published(self, releases):
        releases.folder.mkdir()
        with releases.deciding():
            releases.append(rejection(releases))
        entry = publish(releases, "first", with_tables=False).entry
        assert entry.number == 2
        again = replace(entry, number=1, previous=releases.registry.head)
        with pytest.raises(ReleaseError, match="does not follow the head"):
            releases.registry.append(again)
        releases.registry.path.write_bytes(releases.registry.path.read_bytes() + again.line)
        with pytest.raises(ReleaseError, match="uses the number of a release that was rejected"):
            releases.registry.chain()

    def test_a_rejection_needs_its_signature(self, releases):
        releases.folder.mkdir()
        line = rejection(releases)
        with pytest.raises(ReleaseError, match="rejected release, but its signature is not valid"):
            replace(line, number=2).require_signed()


SECTION = CountNoise()
NAMES = tuple(CellName("sex", "members", column) for column in ("F", "M"))


def noise_of(delivery, section=SECTION, names=NAMES):
    noise = DeliveryNoise.of(SECRET, delivery, section)
    return NoisyPublication(section, tuple(noise.cell(name, "") for name in names), ())


class TestNoise:
    def waiting(self, releases, delivery="first"):
        noise = noise_of(delivery)
        told = {"counts": CountStatement(SECTION, noise.budget_after(Chain((), None, b"")))}
        return wait(releases, delivery, noise=noise, told=told, cells=tuple(cell.definition for cell in noise.cells))

    def spent(self, releases):
        return budget_of(releases.registry.chain(), SECTION).spent

    def test_is_charged_when_it_is_staged_and_once(self, releases):
        self.waiting(releases)
        before = self.spent(releases)
        assert before > 0 and not releases.registry.chain().entries
        entry = approved(releases).entry
        assert self.spent(releases) == before and entry.previous == releases.registry.chain().lines[0].hash

    def test_stays_charged_after_a_rejection(self, releases):
        self.waiting(releases)
        before = self.spent(releases)
        reject_waiting(releases, "heritage", 1, ANNA, "odd")
        assert self.spent(releases) == before > 0

    def test_the_same_counts_drawn_again_since_forbid_it(self, releases):
        self.waiting(releases)
        releases.charge(noise_of("second", names=(CellName("age", "members", "old"),)))
        chain = releases.registry.chain()
        waiting = read_waiting(folder_of(releases), releases.key.public)
        assert waiting.obstacles(chain, clock.now(None), READING) == ()
        releases.charge(noise_of("second"))
        refused(releases, "some of its counts were drawn again since")

    def test_a_stricter_total_than_what_was_spent_forbids_it(self, releases):
        self.waiting(releases)
        assert not is_exceeded(releases.registry.chain())
        strict = replace_total(self.spent(releases) / 2)
        releases.charge(noise_of("first", strict, names=NAMES))
        assert is_exceeded(releases.registry.chain())
        refused(releases, "stricter total for noisy counts")


def replace_total(total):
    return CountNoise(budget=NoiseBudget(rho=total))


class TestVerified:
    """What a manifest of a policy with approval must state; signed by the right key, so that nothing else is wrong."""

    def report(self, releases, change=lambda told: None):
        wait(releases)
        staged = staged_editions(folder_of(releases))
        folder = approved(releases).folder
        manifest = parse_json((folder / "manifest.json").read_bytes())
        assert staged.public != canonical_json(manifest)
        change(manifest)
        for name, content in (("manifest.json", canonical_json(manifest)), ("manifest.sig", None)):
            os.chmod(folder / name, 0o600)
            (folder / name).write_bytes(content or releases.key.sign(canonical_json(manifest)))
        return verify_release(folder, releases.key.public)

    def test_an_unchanged_one_is_in_order(self, releases):
        assert self.report(releases).ok

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            (lambda told: told.pop("approval"), "requires a person's approval, and the manifest states none"),
            (lambda told: told["approval"].update(by="Carl"), "does not name the person"),
            (lambda told: told["approval"].pop("by"), "does not state who approved it, and when"),
            (lambda told: told["approval"].update(time=7), "does not state who approved it, and when"),
            (lambda told: told.update(approval=[]), "does not state who approved it, and when"),
            (lambda told: told["approval"].update(staged="2024-01-01T00:00:00Z"), "within the time"),
            (lambda told: told["approval"].update(staged="2099-01-01T00:00:00Z"), "within the time"),
            (lambda told: told.update(created="2026-01-01T00:00:00Z"), "made at another time"),
            (lambda told: told["policy"].update(text=without_approval(told)), "its policy requires none"),
            (lambda told: told["policy"].update(text=within(told, 10**12)), "does not state who approved it"),
            (lambda told: told["policy"].update(text="[]"), "does not contain its policy"),
        ],
    )
    def test_a_missing_or_another_approval_fails(self, releases, change, says):
        (failed,) = [check for check in self.report(releases, change).failures if check.name == APPROVED]
        assert says in failed.reason

    def test_a_changed_name_breaks_the_signature(self, releases):
        wait(releases)
        folder = approved(releases).folder
        os.chmod(folder / "manifest.json", 0o600)
        content = (folder / "manifest.json").read_bytes()
        (folder / "manifest.json").write_bytes(content.replace(ANNA.encode(), BEN.encode().ljust(len(ANNA), b"_")[: len(ANNA)]))
        assert "the signature is valid" in [check.name for check in verify_release(folder, releases.key.public).failures]

    def test_a_release_that_goes_round_the_approval_is_not_published(self, releases):
        wait(releases)
        staged = staged_editions(folder_of(releases))
        with releases.stage("heritage", 1) as staging:
            staging.write_file("data/Members.txt", b"member 1")
            staging.write_file("report.html", b"<p>report</p>")
            stage_certificate(staging)
            created = clock.now(None)

            def round_it(place):
                made = approved_editions(staged, place, {})
                public = parse_json(made.public)
                restricted = parse_json(made.restricted)
                public.pop("approval"), restricted.pop("approval")
                public["restricted_edition"] = bytes_digest(canonical_json(restricted))
                return replace(made, public=canonical_json(public), restricted=canonical_json(restricted))

            with pytest.raises(ReleaseError, match="requires a person's approval, and the manifest states none"):
                staging.publish(round_it, staging.slot("2024", SECRET.keyed_digest("inputs", "waiting"), created))
        assert not releases.path("heritage", 1).exists()


def without_approval(told):
    policy = parse_json(told["policy"]["text"].encode())
    return canonical_json({name: part for name, part in policy.items() if name != "approval"}).decode()


def within(told, days):
    policy = parse_json(told["policy"]["text"].encode())
    policy["approval"]["within_days"] = days
    return canonical_json(policy).decode()


@pytest.mark.matrix
def test_a_crash_at_any_system_call_leaves_it_waiting_published_or_rejected(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-m", crashing.__name__, str(tmp_path), "decisions"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
    )
    assert ran.returncode == 0, ran.stderr
    said = [line.split(maxsplit=2) for line in ran.stdout.splitlines()]
    for action, states in (
        ("wait", {"nothing", "waiting"}),
        ("approve", {"waiting", "published"}),
        ("reject", {"waiting", "rejected"}),
    ):
        found = [state for name, _, state in said if name == action]
        assert set(found) == states, (found, ran.stderr[-500:])
        assert len(found) > 20, "too few system calls were seen"
        turns = sum(one != other for one, other in pairwise(found))
        assert turns == 1, "there is one moment from which on the decision stands"
