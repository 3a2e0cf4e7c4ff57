"""Tamperings with a release, its registry, its store and its keys, one after the other: each must be found."""

import datetime
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deid_assets.release.keyring import signing_key_of
from deid_assets.release.keys import SigningKey
from deid_assets.release.publication.publish import Releases
from deid_assets.release.rotation import rotate
from deid_assets.stages import STAGE_OF
from deid_assets_tests.matrices import tampered_files, tampered_stores
from deid_assets_tests.matrices.table import Matrix, Outcome
from deid_assets_tests.matrices.tampered_files import Copy
from deid_assets_tests.matrices.tampered_stores import KEY
from deid_assets_tests.release import making
from deid_assets_tests.scenarios.pipeline import copy_of, pipeline_in, publish_earlier_release
from deid_assets_tests.scenarios.policies import SMALL, write_policy
from deid_assets_tests.stages import STAGES

MEMBERS = 3_000
SECRET = b"a secret of the scenarios, of more than 32 bytes"
SECONDS = 60
"""Who takes longer to answer hangs."""

FOUND, IN_ORDER = "found", "in order"
TOLD_AT_MOST = 100


def outcomes(folder: Path) -> Iterator[Outcome]:
    """Prepare a home with releases once, and do each harm to a copy."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("DEID_SECRET", "DEID_SECRET_FILE", "DEID_SECRET_COMMAND"):
            patch.delenv(name, raising=False)
        prepared = prepare(folder / "prepared")
        yield from of_files(prepared, folder)
        yield from of_stores(prepared, folder)


def prepare(root: Path) -> Path:
    """A home with an earlier release, and all of a delivery done but its release."""
    with pipeline_in(root) as pipeline:
        secret = pipeline.home.keys / "secret"
        secret.write_bytes(SECRET)
        secret.chmod(0o600)
        write_policy(pipeline.home.policies, SMALL)
        publish_earlier_release(pipeline.home, ["member 1", "member 2"])
        pipeline.synthetic(KEY, MEMBERS, seed=1)
        summary = pipeline.run(KEY, [name for name in pipeline.every_asset if STAGE_OF[name] != "release"])
        assert not summary.reasons and not summary.failed_checks, summary
    return root


# Published files


def of_files(prepared: Path, folder: Path) -> Iterator[Outcome]:
    """Harm to what is published, found by verification."""
    original = publish(prepared, folder / "published")
    manifest = json.loads(original.manifest.read_bytes())
    names = sorted(str(path.relative_to(original.release)) for path in original.release.rglob("*") if path.is_file())
    public, exact = (json.loads(path.read_bytes()) for path in (original.release / "certificate.json", original.exact))
    cases = [
        *tampered_files.file_cases(names),
        *tampered_files.folder_cases(),
        *tampered_files.manifest_cases(manifest),
        *tampered_files.certificate_cases(public, exact),
        *tampered_files.registry_cases(original.registry.read_bytes().splitlines(keepends=True)),
        *tampered_files.key_cases(),
    ]
    yield tried("published files: nothing changed", IN_ORDER, original.failures)
    for name, harm in cases:
        with removed_afterwards(folder / "copy") as here:
            copy = copied(original, here)
            before = fingerprint_of(here)
            harm(copy)
            changed = fingerprint_of(here) != before
            yield tried(name, FOUND, copy.failures) if changed else Outcome(name, FOUND, "nothing was changed", False)


def publish(prepared: Path, to: Path) -> Copy:
    """Release what was prepared, rotate the key, and release once more; returns what an auditor of the first one has."""
    with copy_of(prepared, to / "deid") as pipeline:
        home = pipeline.home
        old = SigningKey.from_pem((home.keys / "signing_key.pem").read_bytes())
        summary = pipeline.run(KEY, ["release"])
        assert summary.release is not None, summary
        rotate(home)
        releases = Releases(home, signing_key_of(home))
        with releases.stage("small") as staging:
            staging.write_file("data/Members.txt", b"")
            making.stage_certificate(staging)
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            staging.publish(
                making.describe, staging.slot("another-delivery", making.SECRET.keyed_digest("inputs", "later"), now)
            )
        given = to / "given"
        given.mkdir()
        (given / "key.pem").write_bytes(old.public.pem)
        shutil.copy(home.store / "manifests" / "small" / "0002.certificate.json", given / "exact.json")
        shutil.copytree(home.releases, given / "releases")
        return Copy(given / "releases", 2, given / "key.pem", releases.registry.head, given / "exact.json", old)


def copied(original: Copy, to: Path) -> Copy:
    shutil.copytree(original.folder.parent, to)
    for path in to.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return Copy(to / "releases", original.number, to / "key.pem", original.head, to / "exact.json", original.signing)


# What lies behind


def of_stores(prepared: Path, folder: Path) -> Iterator[Outcome]:
    """Harm to store, evidence, event log, policies and keys, found by the gate or the next start."""
    with pipeline_in(prepared) as pipeline:
        tables = tuple(name for name in pipeline.every_asset if STAGE_OF[name] != "release")
        evidence = [name for name in tables if name in STAGES["assessment"]]
        cases = [
            *tampered_stores.table_cases(pipeline, tables),
            *tampered_stores.evidence_cases(pipeline, evidence),
            *tampered_stores.event_log_cases(tables),
            *tampered_stores.policy_cases(pipeline.policy),
            *tampered_stores.delivery_cases(sorted(path.name for path in (pipeline.home.deliveries / KEY).iterdir())),
            *tampered_stores.start_cases([f"store/manifests/small/0001.{kind}" for kind in ("json", "members")]),
            *tampered_stores.run_cases(),
        ]
    for find in (tampered_stores.by_the_gate, tampered_stores.by_the_next_start):
        yield harmed(prepared, folder, f"{find.__name__}: nothing changed".replace("_", " "), IN_ORDER, lambda _: None, find)
    for case in cases:
        yield harmed(prepared, folder, case.name, FOUND, case.harm, case.find)


def harmed(prepared: Path, folder: Path, name: str, expected: str, harm: Callable, find: Callable) -> Outcome:
    """Do one harm to a copy of the home and look for it."""
    with removed_afterwards(folder / "copy") as here, copy_of(prepared, here / "deid") as pipeline:
        harm(pipeline)
        return tried(name, expected, lambda: find(pipeline))


# One case


def tried(name: str, expected: str, find: Callable[[], list[str]]) -> Outcome:
    """Look for a harm, and give up after a while."""
    try:
        with at_most(SECONDS):
            found = find()
    except TimeoutError:
        return Outcome(name, expected, f"no answer in {SECONDS} seconds", False)
    except Exception as error:  # an answer that is none: its text may hold anything
        return Outcome(name, expected, f"an unforeseen {type(error).__name__}", False)
    first = " ".join(found[0].split())[:TOLD_AT_MOST] if found else ""
    seen = f"found {len(found)}: {first}" if found else "nothing found"
    return Outcome(name, expected, seen, bool(found) is (expected == FOUND))


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise TimeoutError after some seconds, also out of a system call that waits."""

    def over(*_) -> None:
        raise TimeoutError

    earlier = signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, earlier)


@contextmanager
def removed_afterwards(path: Path) -> Iterator[Path]:
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def fingerprint_of(folder: Path) -> list[tuple]:
    """Names, kinds, lengths, links and small files' bytes of all that lies in a folder."""
    found = []
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        small = path.is_file() and not path.is_symlink() and state.st_size < 1 << 24
        found.append(
            (str(path), state.st_mode, state.st_size, state.st_nlink, path.read_bytes() if small else os.path.islink(path))
        )
    return found


TAMPERING = Matrix("tampering", "Whatever is changed in a release, its registry, its store or its keys is found", 215, outcomes)
