"""A home as one encrypted file: everything that it needs to remain the same home.

What is not in it can be made again: deliveries, and the tables that were made from them. The file is encrypted for a public
key of the owner's choice, in the format of age (https://age-encryption.org/v1), so that whoever makes backups cannot read them.

What a home keeps of its releases and rejections, compared byte by byte with what registry and manifests say of it.

Every decision is preceded by a comparison of the registry, the list of opt-outs and what waits with the journal. This one
reads every file of every release, and is made before a backup, before a restored home is used, and on request.
"""

import contextlib
import fnmatch
import os
import re
import shutil
import sqlite3
import tarfile
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyrage

from deid_assets.errors import ReleaseError, StoreError
from deid_assets.release.journal.chain import WITNESSES
from deid_assets.release.journal.home_journal import HomeJournal
from deid_assets.release.lineage.published import published_release
from deid_assets.release.publication.publish import Releases
from deid_assets.release.publication.verification import MANIFEST, TRUSTED, verify_release
from deid_assets.release.publication.waiting import LOCK, REGISTRY
from deid_assets.release.registry.chain import Chain, Registry, Rejection
from deid_assets.store import durable
from deid_assets.store.digests import bytes_digest, canonical_json, file_digest, parse_json, regular_bytes
from deid_assets.store.home import Home
from deid_assets.version import version


def incomplete(home: Home) -> Iterator[str]:
    """Say what is missing or changed, each as a sentence without a full stop.

    Later releases are compared with one that was withdrawn, too. One that was not and whose folder is gone is told by the
    journal.
    """
    chain = Registry(home.releases / REGISTRY).chain()
    for entry in chain.entries:
        folder = home.releases / entry.policy / f"{entry.number:04d}"
        if chain.withdrawal_of(entry.policy, entry.number) is not None or (folder / MANIFEST).is_file():
            exact = home.store / "manifests" / entry.policy / f"{entry.number:04d}.certificate.json"
            try:
                found = [*published_release(home, folder).problems]
                failures = verify_release(folder, None, exact_certificate=exact).failures
                found += [f"{check.name}: {check.reason}" for check in failures if check.name != TRUSTED]
            except ReleaseError as error:
                found = [str(error)]
            if found:
                yield (
                    f"release {entry.policy}/{entry.number:04d} is not as it was published: {'; '.join(found)}; put it back "
                    "from a backup, because later releases are compared with it"
                )
    for line in chain.lines:
        if isinstance(line, Rejection):
            file = home.store / "manifests" / line.policy / f"{line.number:04d}.rejected.json"
            try:
                is_there = bytes_digest(regular_bytes(file)) == line.record
            except ReleaseError:
                is_there = False
            if not is_there:
                yield (
                    f"store/manifests/{line.policy}/{file.name}, which says who rejected a release and why, is missing or was "
                    "changed: put it back from a backup"
                )


FORMAT = "deid_assets backup 1"
LISTING = "backup.json"
SNAPSHOT = ".backup"
"""Folder of the restricted store in which a snapshot is taken."""

_HOME_LEFT_OUT = (
    "releases", "home/*-wal", "home/*-shm", "home/*-journal", "home/*.lock", "keys/*.lock", "keys/.*.draft", "policies/.*.lock",
    "policies/.lock", "policies/.adopting-*", "policies/.*.draft", "store/.*", "store/*/.*.lock", "store/*/.*.draft",
    "store/*/*.lock", "store/*/.making-*", "store/*/*.duckdb", "store/*/*.duckdb.*",
)  # fmt: skip
_RELEASES_LEFT_OUT = (LOCK, "*/.staging-*")
"""What is under way, what can be made again, and in the home the releases, which may be elsewhere. The names of the files of
policies and deliveries are other people's."""
_OF_DELIVERIES = re.compile(r"deliveries/[^/]+\.(json|sha256)\Z")
"""What is registered of deliveries, and the digest of what was read."""


@dataclass(frozen=True)
class Listing:
    """What a backup has.

    Attributes
    ----------
    version
        Of the code that made it.
    created
        When, in ISO 8601.
    files
        By path: SHA-256 of every file.
    """

    version: str
    created: str
    files: Mapping[str, str]

    def to_json(self) -> bytes:
        """The content of the archive's first file."""
        return canonical_json({"format": FORMAT, "version": self.version, "created": self.created, "files": dict(self.files)})

    @classmethod
    def from_json(cls, content: bytes) -> "Listing":
        """The inverse of `to_json`.

        Raises
        ------
        ReleaseError
            If it is something else.
        """
        try:
            told = parse_json(content)
            if told["format"] != FORMAT:
                raise ValueError
            return cls(told["version"], told["created"], dict(told["files"]))
        except (ReleaseError, KeyError, TypeError, ValueError):
            raise ReleaseError(f"it has no listing of the format {FORMAT!r}; it may be of another version") from None


# Backup


def back_up(releases: Releases, to: Path, recipient: str, created: str, is_recorded: Callable[[], bool]) -> Listing:
    """Write an encrypted backup of a home, which must have lost nothing; runs may go on meanwhile.

    Parameters
    ----------
    to
        The file, which must not exist, outside of the home.
    recipient
        Public key of age or SSH.
    is_recorded
        Whether the event log has a record of each release; asked under the lock, until it has or a minute has passed.

    Raises
    ------
    ReleaseError
        If the home has lost something, or the key is none.
    StoreError
        If the file exists or cannot be written, or a file of the home cannot be read.
    """
    encrypted_for = _recipient(recipient)
    if to.resolve().is_relative_to(releases.home.root.resolve()):
        raise StoreError(f"{to} is in the home, with which it would be lost: name a file elsewhere")
    if os.path.lexists(to):
        raise StoreError(f"{to} exists already: name another file")
    partial = to.with_name(f".{to.name}.partial")
    try:
        with _snapshot(releases, is_recorded) as folder:
            _require_whole(Home(folder), "the home is not backed up", with_witnesses=False)
            listing = Listing(version(), created, {name: file_digest(folder / name) for name in _files_below(folder)})
            durable.create(folder / LISTING, listing.to_json(), 0o600)
            with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as target:
                _pack(folder, [LISTING, *listing.files], target, encrypted_for)
                os.fsync(target.fileno())
        os.rename(partial, to)
        durable.sync(to.absolute().parent)
    except OSError as error:
        raise StoreError(f"the backup cannot be written to {to}: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)
    return listing


@contextlib.contextmanager
def _snapshot(releases: Releases, is_recorded: Callable[[], bool]) -> Iterator[Path]:
    """A copy of the home at one moment, in which nothing is decided; removed at the end."""
    home, folder = releases.home, durable.owner_only(releases.home.store / SNAPSHOT)
    with durable.locked(folder / LOCK):
        for left in folder.iterdir():
            if left.name != LOCK:
                shutil.rmtree(left)
        copy = durable.owner_only(folder / "home")
        try:
            for attempt in range(61):
                with releases.deciding():
                    # A release that was just published is recorded in the event log some moments later.
                    if attempt == 60 or is_recorded():
                        _copy_home(home, copy)
                        break
                threading.Event().wait(1)
            yield copy
        finally:
            shutil.rmtree(copy)


def _copy_home(home: Home, to: Path) -> None:
    for name in _files_below(home.root, _HOME_LEFT_OUT):
        if name.startswith("deliveries/") and not _OF_DELIVERIES.match(name):
            continue
        _copy(home.root / name, to / name, may_link=name.startswith("store/manifests/"))
    for name in _files_below(home.releases, _RELEASES_LEFT_OUT):
        _copy(home.releases / name, to / "releases" / name, may_link=name != REGISTRY)


def _copy(source: Path, target: Path, may_link: bool) -> None:
    """Copy a file; one that never changes is only given another name, where both are on one disk."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if source.suffix == ".db":
        with contextlib.closing(sqlite3.connect(source)) as original, contextlib.closing(sqlite3.connect(target)) as copy:
            original.backup(copy)
        return
    if may_link and not source.is_symlink():
        with contextlib.suppress(OSError):
            os.link(source, target)
            return
    shutil.copy2(source, target)


def _files_below(folder: Path, left_out: Iterable[str] = ()) -> list[str]:
    """Paths of all files, in order, without those that match a pattern and without what is in folders that do.

    Raises
    ------
    StoreError
        If another folder is a link: what is in it would be left out without a word.
    """

    def is_left_out(name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in left_out)

    found = []
    for parent, folders, files in os.walk(folder):
        below = Path(parent).relative_to(folder)
        names = {kind: [(below / name).as_posix() for name in sorted(kinds)] for kind, kinds in (("d", folders), ("f", files))}
        taken = [name for name in names["d"] if not is_left_out(name)]
        for name in taken:
            if (folder / name).is_symlink():
                raise StoreError(
                    f"{folder / name} is a link to another folder, whose files would not be copied: put the folder itself in "
                    "its place"
                )
        folders[:] = [Path(name).name for name in taken]
        found += [name for name in names["f"] if not is_left_out(name)]
    return sorted(found)


def _pack(folder: Path, names: list[str], target: BinaryIO, recipient: object) -> None:
    def write(pipe: BinaryIO) -> None:
        with tarfile.open(fileobj=pipe, mode="w|") as archive:
            for name in names:
                archive.add(folder / name, name, recursive=False)

    with _piped(write) as source:
        pyrage.encrypt_io(source, target, [recipient])


def keep_copy(home: Home, time: str) -> Path:
    """Copy everything that a home needs to remain the same home to a folder beside it, not encrypted; return the folder.

    Called under the lock of the folder of releases. The copy appears whole or not at all.

    Parameters
    ----------
    time
        Part of the folder's name.

    Raises
    ------
    StoreError
        If it cannot be written.
    """
    to = home.root.with_name(f"{home.root.name}.before-upgrade-{time}")
    draft = home.root.with_name(f".{home.root.name}.before-upgrade")
    try:
        shutil.rmtree(draft, ignore_errors=True)
        _copy_home(home, durable.owner_only(draft))
        os.rename(draft, to)
        durable.sync(to.parent)
    except OSError as error:
        raise StoreError(f"the home cannot be copied to {to}: {error.strerror or error}; nothing was upgraded") from None
    return to


# Restore

_WITHOUT_WITNESS = (
    ". Where the home and a witness are both lost, name each that is lost with --without-witness PLACE, and then forget it in "
    "the restored home, whose journal records that; nothing shows then that this backup is the newest"
)


def restore_home(
    file: Path, identity: bytes, home: Home, told: Iterable[str], time: str, without: Collection[str] = ()
) -> tuple[Listing, Path | None]:
    """Put a home back from a backup; a home that lies there is kept beside it.

    Parameters
    ----------
    identity
        The private key: a file of age, or an OpenSSH private key.
    told
        Heads of the journal that the event log of the home in its place names.
    time
        Part of the name under which a home in its place is kept.
    without
        Which witnesses may be missing; one that is there is compared all the same.

    Returns
    -------
    Listing, Path or None
        What the backup has; where the home is that was there, None if there was none.

    Raises
    ------
    ReleaseError
        If the backup is damaged or partial, or older than the home in its place or than a witness.
    """
    root = home.root
    if home.published is not None or (root / "releases").is_symlink():
        raise StoreError(
            "the releases of this home go to another folder: restore into a new home with DEID_PUBLISHED unset, and move the "
            "restored folder `releases` there afterwards, as the page on deployment says"
        )
    draft = home.restoring
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True, mode=0o700)
    try:
        listing = _unpack(file, _identity(identity), draft)
        restored = Home(draft)
        _require_whole(restored, "the backup is not restored", with_witnesses=True, without=without)
        for replaced in home.replaced[-1:]:  # one that a restore moved away, and was interrupted, knows what it knew
            require_not_behind(restored, Home(replaced), ())
        kept = None
        if root.is_dir() and any(root.iterdir()):
            kept = root.with_name(f"{root.name}.replaced-{time}")
            home.releases.mkdir(parents=True, exist_ok=True)
            with durable.locked(home.releases / LOCK):  # nobody decides anything there meanwhile
                require_not_behind(restored, home, told)
                os.rename(root, kept)
                os.rename(draft, root)
        else:
            if root.is_dir():
                root.rmdir()
            os.rename(draft, root)
        durable.sync(root.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return listing, kept


def _require_whole(home: Home, otherwise: str, with_witnesses: bool, without: Collection[str] = ()) -> None:
    """Refuse a home that lacks anything that its journal, registry or manifests know, but the witnesses that may be missing."""
    journal = HomeJournal(home)
    if not journal.file.read().lines:
        raise ReleaseError(f"{otherwise}: it has no journal of what the home decided")
    losses = [loss for loss in journal.missing(with_witnesses) if loss.what != WITNESSES or loss.witness not in without]
    missing = [*(loss.text for loss in losses), *incomplete(home)]
    if missing:
        lost = any(loss.what == WITNESSES for loss in losses)
        raise ReleaseError(f"{otherwise}: {'; '.join(missing)}{_WITHOUT_WITNESS if lost else ''}")


def require_not_behind(restored: Home, present: Home, told: Iterable[str]) -> None:
    """Refuse to replace a home that knows more than the backup.

    Raises
    ------
    ReleaseError
        If it does, is another home, or cannot tell.
    """
    backup = HomeJournal(restored).file.read()
    known = Registry(restored.releases / REGISTRY).chain()
    try:
        chain = Registry(present.releases / REGISTRY).chain()
        named = [*HomeJournal(present).heads(), *told]
    except ReleaseError as error:
        raise ReleaseError(
            f"the backup is not restored: what lies in its place cannot tell whether the backup is older ({error}). If you "
            f"know that it is the newest, move {present.root} away, and restore again"
        ) from None
    if [line.hash for line in chain.lines] != [line.hash for line in known.lines[: len(chain.lines)]]:
        raise ReleaseError(f"the backup is not restored: {_in_words(chain, known)}")
    if not all(backup.reaches(head) for head in named):
        raise ReleaseError(
            "the backup is not restored: this home has decided more since the backup was made, such as an opt-out, an approval "
            "or the adoption of a policy, or it is another home; make a backup of it, or restore a newer one"
        )


def _in_words(present: Chain, backup: Chain) -> str:
    """What a registry has that a backup lacks."""
    known = {line.hash for line in backup.lines}
    more = [f"{entry.policy}/{entry.number:04d}" for entry in present.entries if entry.hash not in known]
    last = [f"{entry.policy}/{entry.number:04d}" for entry in backup.entries]
    if more:
        return f"this home has published {more[-1]}, the backup ends at {last[-1] if last else 'no release'}"
    return "the registry of this home has lines that the backup lacks, such as withdrawals, rejections or refused tries"


def _unpack(file: Path, identity: object, into: Path) -> Listing:
    """Decrypt and extract; every file must be as it is listed.

    Raises
    ------
    ReleaseError
        If the key is another one, or the backup was cut or changed.
    """
    try:
        with open(file, "rb") as source:
            _extract(source, identity, into)
    except OSError as error:
        raise StoreError(f"the backup {file} cannot be read: {error.strerror or error}") from None
    try:
        listing = Listing.from_json(regular_bytes(into / LISTING, 1_000_000_000))
    except ReleaseError as error:
        raise ReleaseError(f"the backup {file} cannot be used: {error}") from None
    (into / LISTING).unlink()
    found = {name: file_digest(into / name) for name in _files_below(into)}
    if found != dict(listing.files):
        wrong = sorted(set(found.items()) ^ set(listing.files.items()))
        raise ReleaseError(f"the backup {file} is not whole: {len({name for name, _ in wrong}):,} files are missing or changed")
    return listing


def _extract(source: BinaryIO, identity: object, into: Path) -> None:
    failed: list[Exception] = []

    def write(pipe: BinaryIO) -> None:
        try:
            pyrage.decrypt_io(source, pipe, [identity])
        except Exception as error:
            failed.append(error)

    try:
        with _piped(write) as pipe, tarfile.open(fileobj=pipe, mode="r|") as archive:
            for member in archive:
                archive.extract(member, into, filter="data")
                if member.isfile():
                    os.chmod(into / member.name, member.mode & 0o777)
    except tarfile.TarError:
        failed.append(ReleaseError("no archive"))
    if failed:
        raise ReleaseError(
            "the backup cannot be decrypted: the private key does not belong to the public key that it was made for, or the "
            "file was cut or changed"
        )


# Both


@contextlib.contextmanager
def _piped(write: Callable[[BinaryIO], None]) -> Iterator[BinaryIO]:
    """The reading end of a pipe, into which a thread writes; what goes wrong there is raised at the end."""
    reading, writing = os.pipe()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            with open(writing, "wb") as pipe:
                write(pipe)
        except BrokenPipeError:
            pass  # the reader has ended, and says why
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        with open(reading, "rb") as pipe:
            yield pipe
    finally:
        thread.join()
    if failed:
        raise failed[0]


def _recipient(text: str) -> object:
    """A public key of age or SSH.

    Raises
    ------
    ReleaseError
        If it is neither.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for kind in (pyrage.x25519.Recipient, pyrage.ssh.Recipient):
        with contextlib.suppress(pyrage.RecipientError):
            if len(lines) == 1:
                return kind.from_str(lines[0])
    raise ReleaseError(
        "the public key cannot be used: name one of age (age1...) or SSH (ssh-ed25519 ..., ssh-rsa ...), or a file that has it"
    )


def _identity(content: bytes) -> object:
    with contextlib.suppress(pyrage.IdentityError, UnicodeDecodeError, StopIteration):
        text = content.decode()
        return pyrage.x25519.Identity.from_str(next(line for line in text.splitlines() if line.startswith("AGE-SECRET-KEY-")))
    with contextlib.suppress(pyrage.IdentityError):
        return pyrage.ssh.Identity.from_buffer(content)
    raise ReleaseError("the private key cannot be used: name a file of age (AGE-SECRET-KEY-...), or an OpenSSH private key")
