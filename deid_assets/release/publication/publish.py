"""Publication: releases are staged in a hidden folder, and become visible whole or not at all.

The folder of releases:

    <releases>/registry.jsonl               the registry
    <releases>/.lock                        held while a number is taken, a release published, or a crash repaired
    <releases>/<policy>/0001/               a release: manifest.json, manifest.sig, certificate.json, data/, report.html
    <releases>/<policy>/.staging-0002-<x>/  a release in the making; the process that makes it holds its lock

`Staging.publish` proceeds as follows, under the lock. It charges the noise of the public numbers to the budget: a crash
afterwards leaves a cost without a release, never a release without its cost. It writes manifest and signature into the
staged folder, flushes everything, verifies the folder as an auditor would, and renames it; then it appends the
registry's entry. The signed manifest determines its entry completely, and so serves as the write-ahead record. A crash
before the rename leaves a staging folder, which the next start removes. A crash after it leaves a whole release, whose
entry the next start appends. A number belongs to one release for ever; the number of a staged release that was never
published is free again.

If its policy requires a person's approval, a release is not published there and then. `Staging.wait` charges its noise,
and copies it to where it waits in the restricted store (`waiting`); `approval` publishes it from there, or rejects it.
"""

import contextlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb

from deid_assets.assessments.evidence import Refusal
from deid_assets.errors import ReleaseError
from deid_assets.release.gate.proof import StagedTable, oddities, table_refusals
from deid_assets.release.journal.chain import FOLDERS
from deid_assets.release.journal.home_journal import HomeJournal
from deid_assets.release.keys import SigningKey
from deid_assets.release.manifest.certificate import FILE as CERTIFICATE
from deid_assets.release.manifest.certificate import names_exact_edition
from deid_assets.release.manifest.editions import Editions, ReleasedFile, Slot
from deid_assets.release.publication import waiting as waiting_releases
from deid_assets.release.publication.export import FORMATS, read_back, reader, write_both
from deid_assets.release.publication.verification import MANIFEST, SIGNATURE, verify_release
from deid_assets.release.registry import clock
from deid_assets.release.registry.chain import Entry, Line, Registry, Withdrawal
from deid_assets.release.registry.clock import goes_back
from deid_assets.release.registry.noise_charges import NoisyPublication
from deid_assets.release.registry.tries import Tried, is_recorded
from deid_assets.store import durable
from deid_assets.store.digests import bytes_digest, canonical_json, column_types, file_digest, parse_json, rows_digest
from deid_assets.store.home import Home
from deid_assets.store.tables import Query, Table, write_table

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")


@dataclass(frozen=True)
class Published:
    """A published release: its folder, and its entry, whose `hash` is now the registry's head."""

    folder: Path
    entry: Entry


@dataclass(frozen=True)
class Releases:
    """The folder of all releases of a home, and what is needed to add one.

    Parameters
    ----------
    home
        Whose releases they are.
    key
        Signs manifests. A release left by a crash is completed only if this key signed it.
    """

    home: Home
    key: SigningKey

    @property
    def folder(self) -> Path:
        """Where releases are stored; one file system."""
        return self.home.releases

    @property
    def restricted(self) -> Path:
        """Folder in the restricted store for restricted editions of manifests, as <policy>/<number>.json.

        Beside each are the tags of the released members as <number>.members, the roll of its delivery as <number>.roll, what
        later releases are compared with as <number>.rows.parquet, and the exact certificate as <number>.certificate.json.
        """
        return self.home.store / "manifests"

    @property
    def journal(self) -> HomeJournal:
        """What the home decided; compared with the home before each decision, and told of it."""
        return HomeJournal(self.home)

    @property
    def registry(self) -> Registry:
        """The registry of all releases."""
        return Registry(self.folder / waiting_releases.REGISTRY)

    def path(self, policy: str, number: int) -> Path:
        """Folder of a release."""
        return self.folder / policy / f"{number:04d}"

    @contextlib.contextmanager
    def deciding(self, despite: Iterable[str] = ()) -> Iterator[HomeJournal]:
        """Hold the lock, with what crashes left repaired and the home compared with its journal; see `recover_or_refuse`.

        Yields
        ------
        HomeJournal
            To be told what is decided.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.locked():
            self.recover_or_refuse(despite)
            yield self.journal

    def recover(self) -> waiting_releases.Recovery:
        """Repair what crashes left: a cut registry line, dead staging folders, a release without its entry.

        Raises
        ------
        ReleaseError
            If the registry's chain is broken.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.locked():
            return self._recover()

    @contextlib.contextmanager
    def stage(self, policy: str, number: int | None = None) -> "Iterator[Staging]":
        """Open a staging folder; on exit, remove whatever was not published.

        Parameters
        ----------
        number
            Number of the release; None for the next one that is free.

        Raises
        ------
        ReleaseError
            If an earlier crash left something that only a person can repair.
        """
        if not waiting_releases.POLICY.match(policy):
            raise ReleaseError(
                "a policy's name consists of lower-case letters, digits and underscores, and begins with a letter"
            )
        with self.deciding():
            staging = self._new_staging(policy, number)
        try:
            yield staging
        finally:
            staging.discard()

    def note_refused(self, tried: Tried, by_chance: bool) -> None:
        """Add a refused try to the registry, flushed, unless it is there already; before the refusal is reported.

        Raises
        ------
        ReleaseError
            If the registry cannot be extended; then nothing that was measured may be disclosed.
        """
        with self.deciding():  # a release that a crash left without its entry follows the current head
            chain = self.registry.chain()
            if not is_recorded(chain, tried, by_chance):
                line = tried.refused(by_chance, chain.head, clock.now(chain.last_time))
                self.append(line.signed(self.key))

    def withdraw(self, policy: str, number: int, reason: str) -> Withdrawal:
        """Add the withdrawal of a release to the registry, flushed; nothing is deleted.

        Raises
        ------
        ReleaseError
            If there is no such release, it was withdrawn before, or there is no reason.
        """
        with self.deciding(despite=[FOLDERS]):
            chain = self.registry.chain()
            name = f"{policy}/{number:04d}"
            if chain.find(policy, number) is None:
                raise ReleaseError(f"there is no release {name} in the registry; `deid releases` lists them")
            earlier = chain.withdrawal_of(policy, number)
            if earlier is not None:
                raise ReleaseError(f"release {name} was withdrawn before, at {earlier.time}")
            if not reason.strip():
                raise ReleaseError("a withdrawal needs a reason, which is recorded in the registry")
            line = Withdrawal(policy, number, reason, previous=chain.head, time=clock.now(chain.last_time)).signed(self.key)
            self.append(line)
            return line

    def charge(self, noise: NoisyPublication) -> None:
        """Charge noisy numbers that are told outside a release, such as in a refusal; before they are drawn.

        Raises
        ------
        CountsError
            If the budget of noise does not cover them.
        """
        with self.deciding():
            self._append_charge(noise, clock.now(self.registry.chain().last_time))

    def _append_charge(self, noise: NoisyPublication, time: str) -> None:
        """Add the cost of draws that were not published before to the registry, flushed; the caller holds the lock."""
        line = noise.charge(self.registry.chain(), time)
        if line is not None:
            self.append(line.signed(self.key))

    def append(self, line: Line) -> None:
        """Add a line to the registry, and tell the journal of it; the caller holds the lock, and has compared the two."""
        self.registry.append(line)
        self.journal.record(self.key)

    @property
    def waiting(self) -> Path:
        """The folder of releases that wait for a person's approval; restricted."""
        return self.restricted / waiting_releases.FOLDER

    def locked(self) -> contextlib.AbstractContextManager:
        """Hold the lock of the folder of releases."""
        return durable.locked(self.folder / waiting_releases.LOCK)

    def _new_staging(self, policy: str, number: int | None) -> "Staging":
        """Create the staging folder of a number, or of the next one that is free; the caller holds the lock."""
        parent = self.folder / policy
        if not parent.is_dir():
            parent.mkdir()
            durable.sync(self.folder)
        number = number or 1 + max(self._numbers_in_use(policy), default=0)
        folder = parent / f".staging-{number:04d}-{secrets.token_hex(4)}"
        folder.mkdir(mode=0o700)  # what is staged has not passed the gate: it is still restricted
        lock = durable.take_lock(folder / waiting_releases.LOCK, wait=False)
        if lock is None:
            raise ReleaseError(f"another process holds the lock of {folder}, which was made just now")
        (folder / "data").mkdir(mode=0o700)
        return Staging(self, policy, number, folder, lock)

    def _numbers_in_use(self, policy: str) -> Iterator[int]:
        """Numbers that are registered, published, being staged, waiting or rejected."""
        chain = self.registry.chain()
        yield from (entry.number for entry in chain.entries if entry.policy == policy)
        yield from (number for of_policy, number in chain.rejected if of_policy == policy)
        yield from waiting_releases.waiting_numbers(self.waiting, policy)
        for path in (self.folder / policy).iterdir():
            found = waiting_releases.STAGING.match(path.name)
            if found or waiting_releases.NUMBER.match(path.name):
                yield int(found[1] if found else path.name)

    def recover_or_refuse(self, despite: Iterable[str] = ()) -> None:
        """Repair what crashes left; the caller holds the lock.

        Parameters
        ----------
        despite
            What the home may have lost (`journal.chain.Loss.what`): the caller is about to put it right.

        Raises
        ------
        ReleaseError
            If only a person can repair it, the key is not the one in force, or the home has lost what it decided.
        """
        self._mend()
        self.journal.catch_up(self.key, despite)

    def begin_journal(self, told_elsewhere: Iterable[str]) -> None:
        """Begin the journal of a home that decided something before it had one; `HomeJournal.begin`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.locked():
            self._mend()
            self.journal.begin(self.key, told_elsewhere)

    def _mend(self) -> None:
        problems = self._recover().problems
        if problems:
            raise ReleaseError(
                f"nothing is released until this is resolved: {'; '.join(problems)}. Put the registry (registry.jsonl of the "
                "releases) back from a backup, or move away the folder that is no release of this home"
            )
        in_force = waiting_releases.signer_in_force(self.folder, self.registry.chain())
        if in_force not in (None, self.key.public.raw.hex()):
            raise ReleaseError(
                "the signing key is not the one in force: it was rotated in the meantime, or replaced by hand; run again, "
                "and if the error persists, restore keys from a backup or see `deid key rotate`"
            )

    def _recover(self) -> waiting_releases.Recovery:
        recovery = waiting_releases.recovered(self.folder, self.key.public)
        waiting_releases.tidy(self.waiting, self.registry.chain())
        return recovery


class Staging:
    """A release in the making; `Releases.stage` opens it."""

    def __init__(self, releases: Releases, policy: str, number: int, folder: Path, lock: int) -> None:
        self.releases = releases
        self.policy = policy
        self.number = number
        self.folder = folder
        self._lock = lock
        self._files: list[ReleasedFile] = []
        self._tables: dict[str, StagedTable] = {}
        self._proven = False

    @property
    def files(self) -> tuple[ReleasedFile, ...]:
        """The files staged so far, as read back, ordered by path."""
        return tuple(sorted(self._files, key=lambda file: file.path))

    def write_table(
        self, connection: duckdb.DuckDBPyConnection, name: str, content: str | Query | Table, order_by: Sequence[str] = ()
    ) -> tuple[ReleasedFile, ...]:
        """Write a table as data/<name>.csv and .parquet, flush both, read them back and compare them with their source.

        See `export.write_ordered` for the order of the rows, and `export.read_back` for the comparison.

        Raises
        ------
        ReleaseError
            If a file is staged already, or differs from its source when read back.
        """
        paths = {form: self._new_path(f"data/{name}.{form}") for form in FORMATS}
        self._proven = False
        columns, source = column_types(connection, content), rows_digest(connection, content)

        def write_and_read() -> dict[str, int]:
            write_both(connection, content, self.folder / "data", name, order_by)
            return {form: read_back(connection, path, columns, source) for form, path in paths.items()}

        rows = _without_quotes(f"data/{name} does not read back as the table that was written", write_and_read)
        written = {form: self._note(path, file_digest(path), rows[form], source) for form, path in paths.items()}
        digests = {form: file.sha256 for form, file in written.items()}
        self._tables[name] = StagedTable(name, columns, tuple(order_by), digests, source)
        return tuple(written.values())

    def reader(self, path: str) -> Query:
        """SELECT that reads a staged table, such as "data/Claims.csv", with the column types of its source."""
        return reader(self.folder / path, self._tables[Path(path).stem].columns)

    def read_into(self, name: str, table: Table) -> None:
        """Read data/<name>.csv into a table of the restricted store, where it is judged on behalf of both files.

        Raises
        ------
        ReleaseError
            If the file cannot be read.
        """
        self._proven = False
        read = self.reader(f"data/{name}.csv")
        _without_quotes(f"data/{name}.csv cannot be read back", lambda: write_table(table, read))
        self._tables[name] = replace(self._tables[name], judged=table)

    def refusals(self) -> tuple[Refusal, ...]:
        """Return what is wrong with the staged files; nothing is published unless this was called and returned nothing.

        See `proof.table_refusals`.
        """
        again = self.folder / ".again"  # removed with the staging folder if this process ends first
        again.mkdir(mode=0o700)
        try:
            found = [one for table in self._tables.values() for one in table_refusals(self.folder / "data", again, table)]
        finally:
            shutil.rmtree(again)
        self._proven = not found
        return tuple(found)

    def write_file(self, name: str, content: bytes) -> ReleasedFile:
        """Add a file that is not a table: "report.html" beside the data, or "data/..." among them.

        The manifest contains the digest of `content`; sealing the release checks that the file matches it.
        """
        path = self._new_path(name)
        if path.suffix.lower().removeprefix(".") in FORMATS:
            raise ReleaseError(f"{name} is a table: stage it as one, so that it is judged")
        durable.create(path, content, 0o600)
        return self._note(path, bytes_digest(content), None, None)

    def write_json(self, name: str, value: object) -> ReleasedFile:
        """Add a JSON file with the value `value`, formatted for people too.

        Raises
        ------
        ReleaseError
            If the value is not JSON, such as NaN, or differs when read back.
        """
        canonical = canonical_json(value)
        content = json.dumps(value, indent=1, sort_keys=True).encode() + b"\n"
        if canonical_json(parse_json(content)) != canonical:
            raise ReleaseError(f"{name} does not read back as what was written: a key is not text, or occurs twice")
        return self.write_file(name, content)

    def _new_path(self, relative: str) -> Path:
        path = self.folder / relative
        nested = "/" in relative.removeprefix("data/")
        if nested or relative in (MANIFEST, SIGNATURE) or not _FILE_NAME.match(path.name):
            raise ReleaseError(
                "the name of a released file consists of letters, digits, '.', '_', '-', and is not the manifest's"
            )
        if path.exists():
            raise ReleaseError(f"{relative} is already staged")
        return path

    def _note(self, path: Path, sha256: str, rows: int | None, digest: str | None) -> ReleasedFile:
        os.chmod(path, 0o444)
        durable.sync(path)
        relative = path.relative_to(self.folder).as_posix()
        self._files.append(ReleasedFile(relative, sha256, path.stat().st_size, rows, digest))
        return self._files[-1]

    def take(self, folder: Path, files: Sequence[ReleasedFile]) -> None:
        """Copy the files of a release that waited; sealing the release checks that they are those in its manifest.

        Parameters
        ----------
        folder
            Where they are.
        files
            As its manifest lists them.
        """
        for file in files:
            waiting_releases.copy_file(folder / file.path, self.folder / file.path, 0o444)
        self._files = list(files)

    def slot(self, delivery: str, inputs_digest: str, created: str) -> Slot:
        """Where the release would be placed now; under the lock, where it is placed.

        Parameters
        ----------
        delivery
            Keyed digest of the delivery's key.
        inputs_digest
            `Secret.keyed_digest` of all inputs.
        created
            Time in ISO 8601.
        """
        registry, journal, signer = self.releases.registry, self.releases.journal, self.releases.key.public.raw.hex()
        return Slot(self.policy, self.number, registry.head, signer, delivery, inputs_digest, created, self.files, journal.head)

    def publish(
        self, describe: Callable[[Slot], Editions], draft: Slot, noise: NoisyPublication | None = None, charged: bool = False
    ) -> Published:
        """Sign, verify, publish and register the staged files.

        Parameters
        ----------
        describe
            Writes the manifest's editions for the slot that the release gets. Called under the lock, so it must be
            brief.
        draft
            Of what delivery and inputs the release is made, and when: `slot` before the lock.
        noise
            The noisy numbers of the release, which are charged to the budget; None if it has none.
        charged
            Whether it has noisy numbers that were charged before, when it began to wait.

        Raises
        ------
        ReleaseError
            If no data or no certificate is staged, the same inputs were released before, a staged file changed after it
            was written, or the editions do not describe this release. Nothing is published then.
        CountsError
            If the budget of noise does not cover the release. Nothing is charged or published then.
        """
        self._require_complete()
        with self.releases.locked():
            slot = self._placed(draft, noise)
            entry = self._seal(slot, describe(slot), charged or noise is not None)
            final = self.releases.path(self.policy, self.number)
            if final.exists():
                raise ReleaseError(f"{self.policy}/{self.number:04d} already exists")
            os.rename(self.folder, final)
            durable.sync(final.parent)
            try:
                self.releases.append(entry)
            except OSError as error:
                raise ReleaseError(
                    f"release {self.policy}/{self.number:04d} is published, but the registry or the home's journal cannot be "
                    f"written ({error.strerror}): its entry is added at the next start"
                ) from None
            return Published(final, entry)

    def wait(
        self,
        describe: Callable[[Slot], Editions],
        draft: Slot,
        terms: waiting_releases.Terms,
        noise: NoisyPublication | None = None,
    ) -> waiting_releases.Waiting:
        """Charge the noise of the staged files, and put them where a person decides about them; nothing becomes visible.

        Parameters
        ----------
        describe, draft, noise
            As for `publish`; the manifest states no approval yet.
        terms
            Who may approve the release, and what it depends on.

        Raises
        ------
        ReleaseError, CountsError
            As `publish`. Nothing waits then.
        """
        self._require_complete()
        with self.releases.locked():
            slot = self._placed(draft, noise)
            made = describe(slot)
            self._require_described(slot, made, noise is not None)
            durable.owner_only(self.releases.restricted)
            waiting = waiting_releases.write_waiting(self.releases.waiting, self.folder, slot, made, terms, self.releases.key)
            self.releases.journal.record(self.releases.key)
            return waiting

    def _require_complete(self) -> None:
        """Refuse to publish without data, without a certificate, or without a judgement of the tables."""
        if not any(file.path.startswith("data/") for file in self._files):
            raise ReleaseError(f"{self.policy}/{self.number:04d} has no data: stage a table before publishing")
        if not any(file.path == CERTIFICATE for file in self._files):
            raise ReleaseError(f"{self.policy}/{self.number:04d} has no {CERTIFICATE}: stage it before publishing")
        if self._tables and not self._proven:
            raise ReleaseError(f"{self.policy}/{self.number:04d}: the staged tables were not judged, or they were refused")

    def _placed(self, draft: Slot, noise: NoisyPublication | None) -> Slot:
        """Charge the noise, and return where the release is placed; the caller holds the lock."""
        self.releases.recover_or_refuse()
        registry = self.releases.registry
        earlier = registry.already_released(self.policy, draft.inputs_digest)
        if earlier:
            raise ReleaseError(f"the same inputs were released before, as {self.policy}/{earlier.number:04d}")
        last = registry.chain().last_time
        if last and goes_back(draft.created, last):
            raise ReleaseError(
                f"the release was started at {draft.created}, before the registry's newest entry of {last}: correct the clock, "
                "and run again"
            )
        if noise is not None:
            self.releases._append_charge(noise, draft.created)
        return self.slot(draft.delivery, draft.inputs_digest, draft.created)

    def _require_described(self, slot: Slot, made: Editions, with_noise: bool) -> Entry:
        """Return the entry of the release that its manifest describes.

        Raises
        ------
        ReleaseError
            If that is not the one that is staged.
        """
        entry = Entry.from_manifest(made.public)
        manifest = parse_json(made.public)
        is_this_one = (
            entry == _entry_at(slot, made.public)
            and ("counts" in manifest) == with_noise
            and manifest.get("files") == [file.to_json() for file in slot.files]
            and manifest.get("restricted_edition") == bytes_digest(made.restricted)
            and parse_json(made.restricted).get("members_digest") == bytes_digest(made.member_tags)
            and parse_json(made.restricted).get("roll_digest") == (bytes_digest(made.roll) if made.roll else None)
            and parse_json(made.restricted).get("rows_digest") == (bytes_digest(made.rows) if made.rows else None)
            and names_exact_edition((self.folder / CERTIFICATE).read_bytes(), made.exact_certificate)
        )
        if not is_this_one:
            raise ReleaseError("the manifest describes a different release from the one that is staged")
        return entry

    def _seal(self, slot: Slot, made: Editions, with_noise: bool) -> Entry:
        """Write the manifest, the signature and the restricted edition, make everything read-only, flush and verify."""
        entry = self._require_described(slot, made, with_noise)
        durable.owner_only(self.releases.restricted)
        restricted = durable.owner_only(self.releases.restricted / self.policy)
        for name, content in (
            ("members", made.member_tags), ("roll", made.roll), ("rows.parquet", made.rows),
            ("certificate.json", made.exact_certificate), ("json", made.restricted),
        ):  # fmt: skip
            durable.replace(restricted / f"{self.number:04d}.{name}", content, 0o600)
        durable.create(self.folder / MANIFEST, made.public, 0o444)
        durable.create(self.folder / SIGNATURE, self.releases.key.sign(made.public), 0o444)
        # Its lock file is not part of a release. From here on, the lock of the folder of releases protects it from
        # removal.
        (self.folder / waiting_releases.LOCK).unlink()
        for folder in (self.folder / "data", self.folder):
            os.chmod(folder, 0o755)  # noqa: S103 - a release is for others to read
            durable.sync(folder)
        reasons = [f"{check.name}: {check.reason}" for check in verify_release(self.folder, self.releases.key.public).failures]
        # Verify the files on disk. They must also be those just made, not another release that the same key signed.
        if (self.folder / MANIFEST).read_bytes() != made.public:
            reasons.append(f"{MANIFEST} is not the one that was created")
        reasons += oddities(self.folder)
        if reasons:
            raise ReleaseError(f"staged files changed after they were written, nothing is published: {'; '.join(reasons)}")
        return entry

    def discard(self) -> None:
        """Remove whatever was not published and release the lock; `Releases.stage` calls it once."""
        with self.releases.locked():  # otherwise another start takes the half-removed folder for a dead one
            if self.folder.exists():
                shutil.rmtree(self.folder)
        os.close(self._lock)


def _without_quotes(problem: str, work: Callable[[], Any]) -> Any:
    """Run DuckDB work and raise errors without their cause, because DuckDB's messages may quote a line of a file."""
    try:
        return work()
    except duckdb.Error as error:
        kind = type(error).__name__
    raise ReleaseError(f"{problem} ({kind})")


def _entry_at(slot: Slot, public: bytes) -> Entry:
    """The entry of a release in this slot with this manifest."""
    return Entry(
        policy=slot.policy,
        number=slot.number,
        delivery=slot.delivery,
        inputs_digest=slot.inputs_digest,
        manifest_digest=bytes_digest(public),
        previous=slot.previous,
        time=slot.created,
    )
