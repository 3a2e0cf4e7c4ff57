"""Crash recovery in the folder of releases; the caller holds the folder's lock."""

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deid_assets.errors import ReleaseError
from deid_assets.release.keys import PublicKey
from deid_assets.release.publication.verification import MANIFEST, verify_release
from deid_assets.release.registry.chain import Chain, Registry
from deid_assets.release.registry.entries import Entry, KeyRotation
from deid_assets.store import durable
from deid_assets.store.digests import bytes_digest, is_digest, parse_json
from deid_assets.store.reading import regular_bytes

POLICY = re.compile(r"[a-z][a-z0-9_]*\Z")
NUMBER = re.compile(r"\d{4,}\Z")
STAGING = re.compile(r"\.staging-(\d{4,})-[0-9a-f]+\Z")
LOCK = ".lock"
REGISTRY = "registry.jsonl"


@dataclass(frozen=True)
class Recovery:
    """What was found and repaired after crashes.

    Parameters
    ----------
    removed
        Staging folders of processes that have ended, as policy/name.
    completed
        Entries appended for releases that were renamed but not registered.
    problems
        What a person must look at; nothing is published until then.
    """

    removed: tuple[str, ...] = ()
    completed: tuple[Entry, ...] = ()
    problems: tuple[str, ...] = ()


def recovered(folder: Path, key: PublicKey | None) -> Recovery:
    """Repair a cut registry line, remove dead staging folders, and register a release whose entry is missing.

    Parameters
    ----------
    folder
        The folder of releases.
    key
        The key in force, which must have signed a release whose entry is missing; None if unknown.

    Raises
    ------
    ReleaseError
        If the registry's chain is broken.
    """
    registry = Registry(folder / REGISTRY)
    registry.repair()
    policies = sorted(path for path in folder.iterdir() if POLICY.match(path.name) and path.is_dir())
    removed = [name for policy in policies for name in _remove_dead_stagings(policy)]
    chain = registry.chain()
    orphans = [path for path in release_folders(folder) if not chain.find(path.parent.name, int(path.name))]
    # One crash leaves at most one release without an entry, because the next publication starts with recovery. More
    # than one, or one that does not follow the head, means that somebody changed the folder or the registry.
    if len(orphans) == 1 and not _orphan_problem(orphans[0], chain, key):
        entry = Entry.from_manifest(regular_bytes(orphans[0] / MANIFEST))
        durable.sync(orphans[0].parent)
        registry.append(entry)
        return Recovery(tuple(removed), (entry,), ())
    problems = [
        f"release {path.parent.name}/{path.name} is not in the registry: "
        f"{_orphan_problem(path, chain, key) or 'others are not, either'}"
        for path in orphans
    ]
    return Recovery(tuple(removed), (), tuple(problems))


def release_folders(folder: Path) -> list[Path]:
    """Folders of releases, whether registered or not."""
    if not folder.is_dir():
        return []
    policies = sorted(path for path in folder.iterdir() if POLICY.match(path.name) and path.is_dir())
    return [path for policy in policies for path in sorted(policy.iterdir()) if NUMBER.match(path.name)]


def signer_in_force(folder: Path, chain: Chain) -> str | None:
    """The public key in hexadecimal that has to sign the next release; None if it cannot be determined.

    It is named by the newest rotation, or by the manifest of a release since then, as registered.
    """
    for line in reversed(chain.lines):
        if isinstance(line, KeyRotation):
            return line.new_key
        if isinstance(line, Entry) and (named := _signer_of(folder / line.policy / f"{line.number:04d}", line)):
            return named
    return None


def _signer_of(release: Path, entry: Entry) -> str | None:
    """The signer of a registered release according to its manifest; None if the manifest is not the registered one."""
    try:
        content = regular_bytes(release / MANIFEST)
        named = parse_json(content)["signer"]["public_key"]
    except (ReleaseError, KeyError, TypeError):
        return None
    return named if bytes_digest(content) == entry.manifest_digest and is_digest(named) else None


def _orphan_problem(folder: Path, chain: Chain, key: PublicKey | None) -> str | None:
    """Why a release without an entry cannot be completed; None if a crash explains it."""
    failures = verify_release(folder, key).failures
    if failures:
        return "; ".join(f"{check.name}: {check.reason}" for check in failures)
    entry = Entry.from_manifest(regular_bytes(folder / MANIFEST))
    if (entry.policy, f"{entry.number:04d}") != (folder.parent.name, folder.name):
        return f"its manifest says that it is {entry.policy}/{entry.number:04d}"
    return None if entry.previous == chain.head else "its manifest does not follow the registry's head"


def _remove_dead_stagings(policy: Path) -> Iterator[str]:
    """Remove staging folders whose lock is free: their process has ended."""
    for folder in sorted(path for path in policy.iterdir() if STAGING.match(path.name)):
        held = durable.take_lock(folder / LOCK, wait=False)
        if held is not None:
            shutil.rmtree(folder)
            os.close(held)
            yield f"{policy.name}/{folder.name}"
