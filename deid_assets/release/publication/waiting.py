"""Releases that wait for a person's approval, and what a crash left in the folder of releases.

Those that passed the gate and wait are in the restricted store, for its owner only.

The folder of a release that waits:

    <restricted>/.waiting/<policy>/0002/waiting.json, .sig   what was staged and what it depends on, signed
    <restricted>/.waiting/<policy>/0002/release/             the files as they would be published
    <restricted>/.waiting/<policy>/0002/public.json, ...     both editions of the manifest, and what is kept beside them

The folder appears whole, by a rename. The registry decides what came of it: with an entry of its number, the release is
published; with a rejection, it is rejected; otherwise it waits. All writers hold the lock of the folder of releases.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import deid_assets
from deid_assets.assessments.registry import METHOD_VERSIONS
from deid_assets.errors import ReleaseError
from deid_assets.release.keys import PublicKey, SigningKey
from deid_assets.release.manifest.editions import Editions, Slot
from deid_assets.release.publication.verification import MANIFEST, verify_release
from deid_assets.release.registry.chain import GENESIS, Chain, Entry, KeyRotation, Line, NoiseCharge, RefusedTry, Registry
from deid_assets.release.registry.clock import parse_time
from deid_assets.release.registry.noise_charges import is_exceeded
from deid_assets.store import digests, durable

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
        entry = Entry.from_manifest(digests.regular_bytes(orphans[0] / MANIFEST))
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
        content = digests.regular_bytes(release / MANIFEST)
        named = digests.parse_json(content)["signer"]["public_key"]
    except (ReleaseError, KeyError, TypeError):
        return None
    return named if digests.bytes_digest(content) == entry.manifest_digest and digests.is_digest(named) else None


def _orphan_problem(folder: Path, chain: Chain, key: PublicKey | None) -> str | None:
    """Why a release without an entry cannot be completed; None if a crash explains it."""
    failures = verify_release(folder, key).failures
    if failures:
        return "; ".join(f"{check.name}: {check.reason}" for check in failures)
    entry = Entry.from_manifest(digests.regular_bytes(folder / MANIFEST))
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


FOLDER = ".waiting"
FILES = "release"
RECORD, SIGNATURE = "waiting.json", "waiting.sig"
_FORMAT = "deid_assets waiting release 1"
_MAKING = ".making-"
_EDITIONS = {
    "public": "public.json",
    "restricted": "restricted.json",
    "member_tags": "members",
    "roll": "roll",
    "exact_certificate": "certificate.json",
    "rows": "rows.parquet",
}
_EDITION_AT_MOST = 1_000_000_000


@dataclass(frozen=True)
class Terms:
    """Who may approve a release, how long it waits, and what it depends on.

    Attributes
    ----------
    by, within_days
        The section `approval` of its policy.
    reading
        `ReleasePolicy.reading` of the policy that judged it.
    code
        `code_in_use` when it was judged.
    subject
        `Tried.subject` of its delivery; None if no draws judged it.
    cells
        Definitions of its noisy cells (`NoisyCell.definition`).
    delivery_key
        Key of its delivery; restricted.
    event
        What the event log is to record once it is published.
    """

    by: tuple[str, ...]
    within_days: int
    reading: str
    code: str
    subject: str | None
    cells: tuple[str, ...]
    delivery_key: str
    event: Mapping[str, digests.Json]


@dataclass(frozen=True)
class Waiting:
    """A release that waits, as its signed record says.

    Attributes
    ----------
    policy, number
        The release.
    delivery, inputs_digest
        As in `Slot`.
    staged, expires
        When it passed the gate, and until when it may be approved, in ISO 8601.
    head
        Head of the registry when it was staged, after its noise was charged.
    terms
        What it depends on.
    digests
        By path in its folder: SHA-256 of every file.
    """

    policy: str
    number: int
    delivery: str
    inputs_digest: str
    staged: str
    expires: str
    head: str
    terms: Terms
    digests: Mapping[str, str]

    @property
    def name(self) -> str:
        """Policy and number."""
        return f"{self.policy}/{self.number:04d}"

    def obstacles(self, chain: Chain, now: str, reading: str) -> tuple[str, ...]:
        """Why it can no longer be approved, each as a sentence without a full stop; empty if nothing stands against it.

        Parameters
        ----------
        chain
            The registry as it is now.
        now
            The time in ISO 8601.
        reading
            `ReleasePolicy.reading` of the policy as it is now.
        """
        found = []
        if parse_time(now) > parse_time(self.expires):
            found.append(f"it waited longer than its policy allows, until {self.expires}")
        if (self.policy, self.number) in chain.rejected:
            found.append("it was rejected")
        if reading != self.terms.reading:
            found.append("its policy, or a file that the policy names, changed since it was staged")
        if self.terms.code != code_in_use():
            found.append("it was judged by another version of deid_assets, or of one of its methods")
        since = _lines_after(chain, self.head)
        if since is None:
            return (*found, "the registry is not the one under which it was staged: lines were cut off or changed")
        found += [text for line in since if (text := self._against(line))]
        if is_exceeded(chain):
            found.append("a release stated a stricter total for noisy counts since, and more than that was spent")
        return tuple(dict.fromkeys(found))

    def _against(self, line: Line) -> str:
        """Why a line that the registry got since it was staged forbids its approval; empty if it does not."""
        if isinstance(line, Entry):
            return f"{line.policy}/{line.number:04d} was published since, and it was not judged against that release"
        if isinstance(line, RefusedTry) and line.subject == self.terms.subject:
            return "another try of its delivery was refused since"
        if isinstance(line, NoiseCharge) and not set(self.terms.cells).isdisjoint(line.cells):
            return "some of its counts were drawn again since with other noise"
        return ""


def code_in_use() -> str:
    """A digest of the version of this code and of all its methods."""
    return digests.bytes_digest(digests.canonical_json({"code": deid_assets.__version__, "methods": dict(METHOD_VERSIONS)}))


def write_waiting(root: Path, staged: Path, slot: Slot, made: Editions, terms: Terms, key: SigningKey) -> Waiting:
    """Copy a staged release to where it waits; it appears whole or not at all.

    Parameters
    ----------
    root
        The folder of all releases that wait.
    staged
        The folder in which it was staged, whose files `slot` lists.
    made
        Both editions of its manifest, without an approval.

    Raises
    ------
    ReleaseError
        If a staged file changed after it was written.
    """
    parent = durable.owner_only(durable.owner_only(root) / slot.policy)
    making = parent / f"{_MAKING}{slot.number:04d}"
    making.mkdir(mode=0o700)
    for folder in (making / FILES, making / FILES / "data"):
        folder.mkdir(mode=0o700)
    for file in slot.files:
        copy_file(staged / file.path, making / FILES / file.path, 0o600)
    contents = {name: getattr(made, field) for field, name in _EDITIONS.items()}
    for name, content in contents.items():
        durable.create(making / name, content, 0o600)
    waiting = Waiting(
        slot.policy, slot.number, slot.delivery, slot.inputs_digest, slot.created,
        (parse_time(slot.created) + timedelta(days=terms.within_days)).isoformat(timespec="seconds"), slot.previous, terms,
        {f"{FILES}/{file.path}": file.sha256 for file in slot.files}
        | {name: digests.bytes_digest(content) for name, content in contents.items()},
    )  # fmt: skip
    record = digests.canonical_json({"format": _FORMAT} | asdict(waiting))
    durable.create(making / RECORD, record, 0o600)
    durable.create(making / SIGNATURE, key.sign(record), 0o600)
    for folder in (making / FILES / "data", making / FILES, making):
        durable.sync(folder)
    read_waiting(making, key.public)
    os.rename(making, parent / f"{slot.number:04d}")
    durable.sync(parent)
    return waiting


def copy_file(source: Path, target: Path, mode: int) -> None:
    """Copy a regular file and flush the copy."""
    with digests.opened(source) as (file, _), target.open("xb") as copy:
        shutil.copyfileobj(file, copy)
    os.chmod(target, mode)
    durable.sync(target)


def read_waiting(folder: Path, key: PublicKey) -> Waiting:
    """Read the record of a release that waits, and compare every file in its folder with it.

    Raises
    ------
    ReleaseError
        If the key did not sign the record, or anything is not as it was staged.
    """
    try:
        content = digests.regular_bytes(folder / RECORD)
        is_signed = key.verifies(digests.regular_bytes(folder / SIGNATURE, digests.SMALL_AT_MOST), content)
    except ReleaseError as error:
        raise ReleaseError(f"the record of the staged release cannot be read: {error}") from None
    if not is_signed:
        raise ReleaseError(
            "the record of the staged release is not signed by this home's signing key: it was changed, or the key was "
            "replaced since"
        )
    waiting = _waiting_in(digests.parse_json(content))
    changed = _changed(folder, waiting.digests)
    if changed:
        raise ReleaseError(f"not as it was staged: {', '.join(changed)}")
    return waiting


def _waiting_in(told: Any) -> Waiting:
    """A record as it was read; signed, but maybe by another version of the product."""
    try:
        if told["format"] != _FORMAT:
            raise ValueError
        of_terms = told["terms"]
        terms = Terms(**of_terms | {name: tuple(of_terms[name]) for name in ("by", "cells")})
        return Waiting(**{name: value for name, value in told.items() if name != "format"} | {"terms": terms})
    except (KeyError, TypeError, ValueError):
        problem = "the record of the staged release was written by another version of deid_assets, which states other terms"
    raise ReleaseError(problem)


def _changed(folder: Path, digests: Mapping[str, str]) -> list[str]:
    """The files of a folder that are not those of its record: changed, missing or added."""
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}
    files -= {RECORD, SIGNATURE}
    return sorted(path for path in files | set(digests) if digests.get(path) is None or digests[path] != _digest(folder / path))


def _digest(path: Path) -> str | None:
    try:
        with digests.opened(path):
            return digests.file_digest(path)
    except ReleaseError:
        return None


def staged_editions(folder: Path) -> Editions:
    """Both editions of the manifest of a release that waits, and what is kept beside them."""
    return Editions(**{field: digests.regular_bytes(folder / name, _EDITION_AT_MOST) for field, name in _EDITIONS.items()})


def waiting_manifest(restricted: Path, name: str) -> Path:
    """The public edition of the manifest of a release that waits, as `heritage/0002`, below the restricted manifests."""
    return restricted / FOLDER / name / _EDITIONS["public"]


def waiting_folder(root: Path, policy: str, number: int) -> Path:
    """Where a release waits."""
    return root / policy / f"{number:04d}"


def waiting_folders(root: Path) -> list[Path]:
    """The folders of all releases that wait, in the order of their names."""
    policies = [path for path in _folders_in(root) if POLICY.match(path.name)]
    return [path for policy in policies for path in _folders_in(policy) if NUMBER.match(path.name)]


def _folders_in(root: Path) -> list[Path]:
    """The folders in a folder, in the order of their names; a file or link among them is nobody's release."""
    found = sorted(root.iterdir()) if root.is_dir() else []
    return [path for path in found if path.is_dir() and not path.is_symlink()]


def tidy(root: Path, chain: Chain) -> None:
    """Remove what crashes left: copies that are not whole, and releases that were rejected."""
    for policy in _folders_in(root):
        for folder in _folders_in(policy):
            is_rejected = NUMBER.match(folder.name) and (policy.name, int(folder.name)) in chain.rejected
            if is_rejected or folder.name.startswith(_MAKING):
                shutil.rmtree(folder)


def waiting_numbers(root: Path, policy: str) -> Iterator[int]:
    """Numbers of the releases of a policy that wait."""
    return (int(folder.name) for folder in waiting_folders(root) if folder.parent.name == policy)


def _lines_after(chain: Chain, head: str) -> tuple[Line, ...] | None:
    """The lines that a registry got after it had this head; None if it never had it."""
    heads = [GENESIS, *(line.hash for line in chain.lines)]
    return chain.lines[heads.index(head) :] if head in heads else None
