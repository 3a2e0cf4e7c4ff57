"""A missing key is never replaced without a word, and a rotation is in force or not, whatever happens in between."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from deid_assets.errors import ReleaseError
from deid_assets.release.journal.home_journal import HomeJournal
from deid_assets.release.keyring import NEXT_KEY_FILE, new_secret, secret_of, signing_key_of
from deid_assets.release.keys import PublicKey, Secret, SigningKey
from deid_assets.release.publication import publish as publication
from deid_assets.release.publication.publish import Releases
from deid_assets.release.publication.verification import verify_release
from deid_assets.release.registry.chain import KeyRotation, read_chain, signed_rotation
from deid_assets.release.rotation import rotate
from deid_assets.store.home import Home
from deid_assets_tests.processes import WAIT
from deid_assets_tests.release import making
from deid_assets_tests.release.crashing import CRASHED, ENDED, run_until
from deid_assets_tests.release.making import publish

TRUSTED = "the signer is trusted"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def home(tmp_path) -> Home:
    """A home with one release."""
    made = Home(tmp_path / "deid").create()
    publish(releases_of(made), "first", with_tables=False)
    return made


def releases_of(home: Home) -> Releases:
    return Releases(home, signing_key_of(home))


def checked(home: Home, number: int, key: PublicKey):
    return verify_release(home.releases / "heritage" / f"{number:04d}", key, home.releases / "registry.jsonl")


def trust(home: Home, number: int, key: PublicKey):
    (found,) = [check for check in checked(home, number, key).checks if check.name == TRUSTED]
    return found


def publish_now(home: Home, inputs: str):
    """Publish after a rotation, whose time is that of the clock."""
    releases = releases_of(home)
    with releases.stage("heritage") as staging:
        staging.write_file("data/Members.txt", inputs.encode())
        making.stage_certificate(staging)
        digest = making.SECRET.keyed_digest("inputs", inputs)
        return staging.publish(making.describe, staging.slot("2024", digest, "2040-01-01T00:00:00Z"))


# What is missing


def test_a_home_without_releases_makes_its_keys(tmp_path):
    home = Home(tmp_path).create()
    assert signing_key_of(home).public == signing_key_of(home).public
    assert secret_of(home, {}) == secret_of(home, {})


@pytest.mark.parametrize("remains", ["everything", "registry", "folder", "manifest"])
def test_a_missing_key_or_secret_is_refused_while_anything_tells_of_a_release(home, remains):
    secret_of(home, {"DEID_SECRET": "x" * 40})
    if remains in ("folder", "manifest"):
        (home.releases / "registry.jsonl").unlink()
    if remains in ("registry", "manifest"):
        shutil.rmtree(home.releases / "heritage")
    if remains in ("registry", "folder"):
        shutil.rmtree(home.store / "manifests")
    (home.keys / "signing_key.pem").unlink()
    for _ in range(2):
        with pytest.raises(ReleaseError, match="Restore it from a backup.*deid key rotate --lost"):
            signing_key_of(home)
        with pytest.raises(ReleaseError, match="restore keys/secret from a backup.*deid key new-secret"):
            secret_of(home, {})
    assert not {"signing_key.pem", "secret"} & {path.name for path in home.keys.iterdir()}
    assert secret_of(home, {"DEID_SECRET": "x" * 40}) == Secret(b"x" * 40, "test")
    assert new_secret(home) == secret_of(home, {})
    with pytest.raises(ReleaseError, match="it is kept"):
        new_secret(home)


def test_a_key_put_in_the_place_of_the_one_in_force_is_refused(home, tmp_path):
    SigningKey.load_or_create(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "signing_key.pem", home.keys / "signing_key.pem")
    with pytest.raises(ReleaseError, match="is not the signing key in force"):
        signing_key_of(home)
    with pytest.raises(ReleaseError, match="is not the signing key in force"):
        rotate(home)


@pytest.mark.parametrize("name", ["signing_key.pem", "secret"])
@pytest.mark.parametrize(
    "make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)], ids=["pipe", "folder", "link"]
)
def test_what_is_no_file_in_the_place_of_a_key_is_refused_at_once(tmp_path, name, make):
    home = Home(tmp_path).create()
    make(home.keys / name)
    with pytest.raises(ReleaseError, match=f"{name}: it is a"):
        signing_key_of(home) if name == "signing_key.pem" else secret_of(home, {})


def variables(monkeypatch, home: Home) -> bytes:
    """Let a variable give the signing key, which leaves the home."""
    pem = (home.keys / "signing_key.pem").read_bytes()
    (home.keys / "signing_key.pem").unlink()
    monkeypatch.setenv("DEID_SIGNING_KEY", pem.decode())
    return pem


def test_a_signing_key_from_the_environment_is_never_stored(home, monkeypatch):
    before = signing_key_of(home).public
    variables(monkeypatch, home)
    assert signing_key_of(home).public == before
    publish_now(home, "second")
    assert checked(home, 2, before).ok
    assert not (home.keys / "signing_key.pem").exists()


def test_another_signing_key_from_the_environment_is_refused(home, monkeypatch):
    monkeypatch.setenv("DEID_SIGNING_KEY", SigningKey.generated().private_pem().decode())
    with pytest.raises(ReleaseError, match="the key that DEID_SIGNING_KEY gives is not the signing key in force"):
        signing_key_of(home)


@pytest.mark.parametrize("lost", [None, "stolen"])
def test_a_key_from_the_environment_is_rotated_in_its_folder(home, monkeypatch, lost):
    before = (home.releases / "registry.jsonl").read_bytes()
    pem = variables(monkeypatch, home)
    with pytest.raises(ReleaseError, match="Unset the variable, save the key as keys/signing_key.pem .mode 600., rotate"):
        rotate(home, lost)
    assert (home.releases / "registry.jsonl").read_bytes() == before
    monkeypatch.delenv("DEID_SIGNING_KEY")
    (home.keys / "signing_key.pem").write_bytes(pem)
    (home.keys / "signing_key.pem").chmod(0o600)
    rotated = rotate(home, lost)
    variables(monkeypatch, home)
    assert signing_key_of(home).public == rotated.key


# Rotation


def test_the_old_key_leads_to_the_new_one_and_the_new_one_vouches_for_what_was_registered_before(home):
    old = signing_key_of(home).public
    rotated = rotate(home)
    assert signing_key_of(home).public == rotated.key != old
    publish_now(home, "second")
    for number in (1, 2):
        for key in (old, rotated.key):
            assert checked(home, number, key).ok, checked(home, number, key).text()
    assert "1 rotation(s)" in trust(home, 2, old).reason
    assert "signed the registry, which contained this release" in trust(home, 1, rotated.key).reason
    assert not verify_release(home.releases / "heritage" / "0002", old).ok, "without the registry nothing leads to the new key"


def test_several_rotations_lead_on(home):
    keys = [signing_key_of(home).public, rotate(home).key, rotate(home).key]
    publish_now(home, "second")
    assert all(checked(home, number, key).ok for number in (1, 2) for key in keys)
    assert "2 rotation(s)" in trust(home, 2, keys[0]).reason


@pytest.mark.parametrize("there", [False, True], ids=["gone", "stolen"])
def test_a_lost_key_is_recorded_and_does_not_lead_to_the_new_one(home, there):
    old = signing_key_of(home).public
    if not there:
        (home.keys / "signing_key.pem").unlink()
    for reason in ("", " "):
        with pytest.raises(ReleaseError, match="state why"):
            rotate(home, reason)
    rotated = rotate(home, "the disk broke")
    assert rotated.entry.old_key == old.raw.hex() and rotated.entry.lost
    publish_now(home, "second")
    assert checked(home, 1, old).ok and checked(home, 1, rotated.key).ok and checked(home, 2, rotated.key).ok
    report = checked(home, 2, old)
    assert not report.ok
    assert "not anchored" in trust(home, 2, old).reason and "the disk broke" in trust(home, 2, old).reason


def test_a_release_signed_by_the_key_that_was_replaced_is_not_trusted(home):
    old = SigningKey.from_pem((home.keys / "signing_key.pem").read_bytes())
    rotate(home)
    with pytest.raises(ReleaseError, match="rotated in the meantime"):
        publish(Releases(home, old), "second", with_tables=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publication.waiting_releases, "signer_in_force", lambda *_: None)
        patch.setattr(publication, "goes_back", lambda *_: False)
        patch.setattr("deid_assets.release.registry.chain._goes_back", lambda *_: False)
        for told in ("catch_up", "record", "note"):  # the home's journal takes no line of the old key either
            patch.setattr(HomeJournal, told, lambda *_, **__: None)
        publish(Releases(home, old), "second", with_tables=False)
    found = trust(home, 2, old.public)
    assert found.outcome == "failed" and "another key was in force" in found.reason


def test_an_old_registry_without_rotations_is_read_as_before(home):
    line = (home.releases / "registry.jsonl").read_bytes()
    assert b'"kind"' not in line and checked(home, 1, signing_key_of(home).public).ok


def test_nobody_else_can_add_a_rotation(home, tmp_path):
    registry = releases_of(home).registry
    thief, old = SigningKey.generated(), signing_key_of(home).public
    before = registry.path.read_bytes()

    def problem_with(entry: KeyRotation) -> str:
        registry.path.write_bytes(before + entry.line)
        found = registry_problem(registry.path)
        registry.path.write_bytes(before)
        return found

    entry = signed_rotation(thief, SigningKey.generated(), "", registry.head, "2026-02-01T00:00:00Z")
    forged = KeyRotation(old.raw.hex(), entry.new_key, "", entry.previous, entry.time, entry.signature, entry.countersignature)
    assert "signatures are not valid" in problem_with(forged)
    unsigned = signed_rotation(old, thief, "lost", registry.head, entry.time)
    assert problem_with(unsigned) == ""  # it can be claimed, and then leads nowhere from the old key
    for changes in ({"reason": ""}, {"countersignature": ""}, {"time": "2026-02-02T00:00:00Z"}, {"old_key": ""}):
        assert problem_with(replace(unsigned, **changes)), changes


def registry_problem(path) -> str:
    return read_chain(path).problem or ""


def test_there_is_nothing_to_rotate_before_the_first_key(tmp_path):
    with pytest.raises(ReleaseError, match="no signing key yet"):
        rotate(Home(tmp_path).create(), "lost")


def test_the_release_of_a_crash_is_registered_before_the_rotation(home):
    """Also where its key is lost: the registry tells which key must have signed it."""
    registry = home.releases / "registry.jsonl"
    publish(releases_of(home), "second", with_tables=False)
    whole = registry.read_bytes()
    for lost in (None, "the disk broke"):
        copy = Home(home.root.with_name(f"copy {lost}"))
        shutil.copytree(home.root, copy.root)
        (copy.releases / "registry.jsonl").write_bytes(whole.splitlines(keepends=True)[0])
        if lost:
            (copy.keys / "signing_key.pem").unlink()
        rotate(copy, lost)
        assert (copy.releases / "registry.jsonl").read_bytes().startswith(whole)
        assert checked(copy, 2, signing_key_of(copy).public).ok


def test_a_folder_that_no_crash_explains_stops_the_rotation(home):
    (home.releases / "heritage" / "0007").mkdir()
    with pytest.raises(ReleaseError, match="0007 is not in the registry.*move the folder"):
        rotate(home)


# Crashes


def crash_rotations(root: Path) -> None:
    """Kill a rotation before each of its system calls; print what was in force afterwards, or what is wrong."""
    made = Home(root / "prepared").create()
    publish(releases_of(made), "first", with_tables=False)
    old = signing_key_of(made).public
    for lost in (None, "lost"):
        for crash_at in range(1, 1_000):
            home = Home(root / f"{lost} {crash_at}")
            shutil.copytree(made.root, home.root)
            if lost:
                (home.keys / "signing_key.pem").unlink()
            outcome = run_until(lambda home=home, lost=lost: rotate(home, lost), crash_at)
            print(lost, crash_at, state_after(home, old, bool(lost)), flush=True)
            if outcome == ENDED:
                break
            assert outcome == CRASHED


def state_after(home: Home, old: PublicKey, lost: bool) -> str:
    try:
        key = signing_key_of(home).public
    except ReleaseError:
        if not lost:
            return "the old key is gone"
        rotate(home, "lost")  # it was not in force: it can be recorded again
        key = None
    rotations = [line for line in releases_of(home).registry.chain().lines if isinstance(line, KeyRotation)]
    if key is not None and [line.new_key for line in rotations] != ([] if key == old else [key.raw.hex()]):
        return "key and registry do not belong together"
    if (home.keys / NEXT_KEY_FILE).exists():
        return "the next key was left"
    publish_now(home, "second")
    if not all(checked(home, number, signing_key_of(home).public).ok for number in (1, 2)):
        return "a release is not in order"
    return "old" if key in (old, None) else "new"


@pytest.mark.matrix
def test_a_crash_at_any_system_call_leaves_the_old_key_or_the_new_one_with_its_entry(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys; from pathlib import Path; from {__name__} import crash_rotations; "
         "crash_rotations(Path(sys.argv[1]))", str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, timeout=WAIT,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    for lost in ("None", "lost"):
        states = [line.split()[2:] for line in ran.stdout.splitlines() if line.startswith(f"{lost} ")]
        assert sorted(states, reverse=True) == states and len(states) > 8, ran.stdout
        assert {" ".join(state) for state in states} == {"old", "new"}, ran.stdout
