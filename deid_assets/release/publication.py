"""Publication: releases are staged in a hidden folder, and become visible whole or not at all.

The folder of releases:

    <releases>/registry.jsonl               the registry
    <releases>/.lock                        held while a number is taken, a release published, or a crash mended
    <releases>/<policy>/0001/               a release: manifest.json, manifest.sig, certificate.json, data/, report.html
    <releases>/<policy>/.staging-0002-<x>/  a release in the making; its own lock is held by the process that makes it

The order of `Staging.publish`, under the lock: manifest and signature are written into the staged folder, everything
is flushed, the folder is verified as an auditor would verify it, and renamed; then the registry's entry is appended.
The signed manifest fixes its entry completely, and so serves as the write-ahead record: a crash before the rename
leaves a staging folder, which the next start removes; one after it leaves a whole release, whose entry the next start
appends. A number is used by one release for ever; that of a staged release which was never published is free again.
"""

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from deid_assets.errors import ReleaseError
from deid_assets.release import durable
from deid_assets.release.certificate import FILE as CERTIFICATE
from deid_assets.release.certificate import names_exact_edition
from deid_assets.release.digests import bytes_digest, columns_of, file_digest, parse_json, rows_digest
from deid_assets.release.export import FORMATS, read_back, reader, write_ordered
from deid_assets.release.keys import SigningKey
from deid_assets.release.manifest import Editions, Place, ReleasedFile
from deid_assets.release.registry import Entry, Registry
from deid_assets.release.verification import MANIFEST, SIGNATURE, verify
from deid_assets.store import Query, Table, owner_only

_POLICY = re.compile(r"[a-z][a-z0-9_]*\Z")
_NUMBER = re.compile(r"\d{4,}\Z")
_STAGING = re.compile(r"\.staging-(\d{4,})-[0-9a-f]+\Z")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
_LOCK = ".lock"


@dataclass(frozen=True)
class Recovery:
    """What was found and mended after crashes.

    Parameters
    ----------
    removed
        Staging folders of processes that are gone, as policy/name.
    completed
        Entries appended for releases that were renamed but not registered.
    problems
        What a person must look at; nothing is published before.
    """

    removed: tuple[str, ...] = ()
    completed: tuple[Entry, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Published:
    """A release that is out: its folder, and its entry, whose `hash` is the registry's head now."""

    folder: Path
    entry: Entry


@dataclass(frozen=True)
class Releases:
    """The folder of all releases, and what is needed to add one.

    Parameters
    ----------
    folder
        Where releases lie; one file system.
    key
        Signs manifests. A release left by a crash is completed only if this key signed it.
    restricted
        Where restricted editions of manifests are kept, as <policy>/<number>.json with the tags of the released members
        as <number>.members and the exact certificate as <number>.certificate.json; in the restricted store.
    """

    folder: Path
    key: SigningKey
    restricted: Path

    @property
    def registry(self) -> Registry:
        return Registry(self.folder / "registry.jsonl")

    def path(self, policy: str, number: int) -> Path:
        """Folder of a release."""
        return self.folder / policy / f"{number:04d}"

    def recover(self) -> Recovery:
        """Mend what crashes left: a cut registry line, dead staging folders, a release without its entry.

        Raises
        ------
        ReleaseError
            If the registry's chain is broken.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._locked():
            return self._recover()

    @contextlib.contextmanager
    def stage(self, policy: str) -> "Iterator[Staging]":
        """Open a staging folder with the next number; on leaving, whatever was not published is removed.

        Raises
        ------
        ReleaseError
            If an earlier crash left what cannot be mended without a person.
        """
        if not _POLICY.match(policy):
            raise ReleaseError("a policy's name has small letters, digits and underscores, and begins with a letter")
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._locked():
            self._recover_or_refuse()
            staging = self._new_staging(policy)
        try:
            yield staging
        finally:
            staging.discard()

    def _locked(self) -> contextlib.AbstractContextManager:
        return durable.locked(self.folder / _LOCK)

    def _new_staging(self, policy: str) -> "Staging":
        """Take the next number and make its staging folder; under the lock."""
        parent = self.folder / policy
        if not parent.is_dir():
            parent.mkdir()
            durable.sync(self.folder)
        number = 1 + max(self._numbers_in_use(policy), default=0)
        folder = parent / f".staging-{number:04d}-{secrets.token_hex(4)}"
        folder.mkdir(mode=0o700)  # what is staged has not passed the gate: it is still restricted
        lock = durable.take_lock(folder / _LOCK, wait=False)
        (folder / "data").mkdir(mode=0o700)
        return Staging(self, policy, number, folder, lock)

    def _numbers_in_use(self, policy: str) -> Iterator[int]:
        """Numbers registered, published or being staged."""
        yield from (entry.number for entry in self.registry.chain().entries if entry.policy == policy)
        for path in (self.folder / policy).iterdir():
            found = _STAGING.match(path.name)
            if found or _NUMBER.match(path.name):
                yield int(found[1] if found else path.name)

    def _recover_or_refuse(self) -> None:
        problems = self._recover().problems
        if problems:
            raise ReleaseError("nothing is released before this is looked at: " + "; ".join(problems))

    def _recover(self) -> Recovery:
        self.registry.repair()
        policies = sorted(path for path in self.folder.iterdir() if _POLICY.match(path.name) and path.is_dir())
        removed = [name for policy in policies for name in _remove_dead_stagings(policy)]
        chain = self.registry.chain()
        orphans = [
            path
            for policy in policies
            for path in sorted(policy.iterdir())
            if _NUMBER.match(path.name) and not chain.find(policy.name, int(path.name))
        ]
        # One crash leaves one release without entry, for the next publication begins here. More than one, or one that
        # does not follow the head, means that somebody changed the folder or the registry.
        if len(orphans) == 1 and not self._orphan_problem(orphans[0], chain.head):
            entry = Entry.from_manifest((orphans[0] / MANIFEST).read_bytes())
            durable.sync(orphans[0].parent)
            self.registry.append(entry)
            return Recovery(tuple(removed), (entry,), ())
        problems = [
            f"release {path.parent.name}/{path.name} is not in the registry: "
            f"{self._orphan_problem(path, chain.head) or 'others are not, either'}"
            for path in orphans
        ]
        return Recovery(tuple(removed), (), tuple(problems))

    def _orphan_problem(self, folder: Path, head: str) -> str | None:
        """Why a release without entry cannot be completed; None if a crash explains it."""
        failures = verify(folder, self.key.public).failures
        if failures:
            return "; ".join(f"{check.name}: {check.reason}" for check in failures)
        entry = Entry.from_manifest((folder / MANIFEST).read_bytes())
        if self.path(entry.policy, entry.number) != folder:
            return f"its manifest says that it is {entry.policy}/{entry.number:04d}"
        return None if entry.previous == head else "its manifest does not follow the registry's head"


def _remove_dead_stagings(policy: Path) -> Iterator[str]:
    """Remove staging folders whose lock is free: their process is gone."""
    for folder in sorted(path for path in policy.iterdir() if _STAGING.match(path.name)):
        held = durable.take_lock(folder / _LOCK, wait=False)
        if held is not None:
            shutil.rmtree(folder)
            os.close(held)
            yield f"{policy.name}/{folder.name}"


class Staging:
    """A release in the making; `Releases.stage` opens it."""

    def __init__(self, releases: Releases, policy: str, number: int, folder: Path, lock: int) -> None:
        self.releases = releases
        self.policy = policy
        self.number = number
        self.folder = folder
        self._lock: int | None = lock
        self._files: list[ReleasedFile] = []
        self._readers: dict[str, Query] = {}

    def __repr__(self) -> str:
        return f"<Staging of {self.policy}/{self.number:04d}>"

    @property
    def files(self) -> tuple[ReleasedFile, ...]:
        """What was staged so far, as it was read back, ordered by path."""
        return tuple(sorted(self._files, key=lambda file: file.path))

    def write_table(
        self,
        connection: duckdb.DuckDBPyConnection,
        name: str,
        content: str | Query | Table,
        order_by: Sequence[str] = (),
        formats: Sequence[str] = FORMATS,
    ) -> tuple[ReleasedFile, ...]:
        """Write a table as data/<name>.csv and .parquet, flush it, read it back and compare it with its source.

        See `export.write_ordered` for the order of the rows, and `export.read_back` for the comparison.

        Raises
        ------
        ReleaseError
            If the file is staged already, or does not read back as its source.
        """
        columns = columns_of(connection, content)
        source = rows_digest(connection, content)
        written = []
        for form in formats:
            path = self._new_path(f"data/{name}.{form}")
            write_ordered(connection, content, path, order_by)
            rows = read_back(connection, path, columns, source)
            self._readers[f"data/{name}.{form}"] = reader(path, columns)
            written.append(self._note(path, rows, source))
        return tuple(written)

    def reader(self, path: str) -> Query:
        """SELECT that reads a staged table, such as "data/Claims.csv", with the column types of its source."""
        return self._readers[path]

    def write_file(self, name: str, content: bytes) -> ReleasedFile:
        """Add a file that is not a table: "report.html" beside the data, or "data/..." among them."""
        path = self._new_path(name)
        durable.create(path, content, 0o600)
        return self._note(path, None, None)

    def _new_path(self, relative: str) -> Path:
        path = self.folder / relative
        nested = "/" in relative.removeprefix("data/")
        if nested or relative in (MANIFEST, SIGNATURE) or not _FILE_NAME.match(path.name):
            raise ReleaseError("a released file's name has letters, digits, '.', '_', '-', and is not the manifest's")
        if path.exists():
            raise ReleaseError(f"{relative} is staged already")
        return path

    def _note(self, path: Path, rows: int | None, digest: str | None) -> ReleasedFile:
        os.chmod(path, 0o444)
        durable.sync(path)
        relative = path.relative_to(self.folder).as_posix()
        self._files.append(ReleasedFile(relative, file_digest(path), path.stat().st_size, rows, digest))
        return self._files[-1]

    def publish(
        self,
        describe: Callable[[Place], Editions],
        delivery: str,
        inputs_digest: str,
        created: str,
        repeat: bool = False,
    ) -> Published:
        """Sign, verify, publish and register the staged files.

        Parameters
        ----------
        describe
            Writes the manifest's editions for the place that the release gets; called under the lock, so briefly.
        delivery
            Keyed digest of the delivery's key.
        inputs_digest
            `Secret.keyed_digest` of everything that went in.
        created
            Time in ISO 8601.
        repeat
            Whether to publish although the same inputs were released before.

        Raises
        ------
        ReleaseError
            If no data or no certificate is staged, the same inputs were released before, a staged file was changed after it was written,
            or the editions do not describe this release; nothing is published then.
        """
        if not any(file.path.startswith("data/") for file in self._files):
            raise ReleaseError(f"{self.policy}/{self.number:04d} has no data: stage a table before publishing")
        if not any(file.path == CERTIFICATE for file in self._files):
            raise ReleaseError(f"{self.policy}/{self.number:04d} has no {CERTIFICATE}: stage it before publishing")
        with self.releases._locked():
            self.releases._recover_or_refuse()
            registry = self.releases.registry
            earlier = registry.already_released(self.policy, inputs_digest)
            if earlier and not repeat:
                raise ReleaseError(f"the same inputs were released before, as {self.policy}/{earlier.number:04d}")
            signer = self.releases.key.public.raw.hex()
            place = Place(self.policy, self.number, registry.head, signer, delivery, inputs_digest, created, self.files)
            entry = self._seal(place, describe(place))
            final = self.releases.path(self.policy, self.number)
            if final.exists():
                raise ReleaseError(f"{self.policy}/{self.number:04d} exists already")
            os.rename(self.folder, final)
            durable.sync(final.parent)
            try:
                registry.append(entry)
            except OSError as error:
                raise ReleaseError(
                    f"release {self.policy}/{self.number:04d} is published, but the registry cannot be written "
                    f"({error.strerror}): its entry is added at the next start"
                ) from None
            return Published(final, entry)

    def _seal(self, place: Place, made: Editions) -> Entry:
        """Write manifest, signature and restricted edition, make all read-only, flush, verify."""
        entry = Entry.from_manifest(made.public)
        manifest = parse_json(made.public)
        is_this_one = (
            entry == _entry_at(place, made.public)
            and manifest.get("files") == [file.to_json() for file in place.files]
            and manifest.get("restricted_edition") == bytes_digest(made.restricted)
            and parse_json(made.restricted).get("members_digest") == bytes_digest(made.member_tags)
            and names_exact_edition((self.folder / CERTIFICATE).read_bytes(), made.exact_certificate)
        )
        if not is_this_one:
            raise ReleaseError("the manifest describes another release than the one that is staged")
        owner_only(self.releases.restricted)
        restricted = owner_only(self.releases.restricted / self.policy)
        durable.replace(restricted / f"{self.number:04d}.members", made.member_tags, 0o600)
        durable.replace(restricted / f"{self.number:04d}.certificate.json", made.exact_certificate, 0o600)
        durable.replace(restricted / f"{self.number:04d}.json", made.restricted, 0o600)
        durable.create(self.folder / MANIFEST, made.public, 0o444)
        durable.create(self.folder / SIGNATURE, self.releases.key.sign(made.public), 0o444)
        # Its lock file is no part of a release. From here on the lock of the folder of releases keeps it from removal.
        (self.folder / _LOCK).unlink()
        for folder in (self.folder / "data", self.folder):
            os.chmod(folder, 0o755)
            durable.sync(folder)
        report = verify(self.folder, self.releases.key.public)
        if not report.ok:
            reasons = "; ".join(f"{check.name}: {check.reason}" for check in report.failures)
            raise ReleaseError(f"what is staged changed after it was written, nothing is published: {reasons}")
        return entry

    def discard(self) -> None:
        """Remove whatever was not published and let go of the lock; harmless after publication."""
        if self._lock is None:
            return
        with self.releases._locked():  # or another start takes the half removed folder for a dead one
            if self.folder.exists():
                shutil.rmtree(self.folder)
        os.close(self._lock)
        self._lock = None


def _entry_at(place: Place, public: bytes) -> Entry:
    """The entry of a release at this place with this manifest."""
    return Entry(
        policy=place.policy,
        number=place.number,
        delivery=place.delivery,
        inputs_digest=place.inputs_digest,
        manifest_digest=bytes_digest(public),
        previous=place.previous,
        time=place.created,
    )
