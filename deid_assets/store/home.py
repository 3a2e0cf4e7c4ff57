"""Where everything is that a run creates, and locks on it: `.deid/`, or the folder in DEID_HOME; releases may go elsewhere.

Releases that go elsewhere are found through a link in the home. The home therefore knows where they are, whatever the
environment of a process says.

One run at a time works on a policy's store of a delivery, in one process or in many. A DuckDB file has one writer, so a process
that uses a store holds a lock on a file beside it, and writes the name of its run into that file. Steps of one run may be in
processes of their own: they wait for each other. Another run is refused at once, also between two steps, when no process
holds the lock but the run has not ended.
"""

import contextlib
import glob
import hashlib
import json
import os
import re
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from deid_assets.errors import DeliveryError, StoreError
from deid_assets.store import durable

PUBLISHED = "DEID_PUBLISHED"

_MARK = ".lock"
"""In every folder of releases: that of a disk which is not mounted does not have it. It may say whose the folder is."""


@dataclass(frozen=True)
class Home:
    """The folders of one installation.

    `home` is the Dagster instance, `store` the restricted store, `releases` the published releases, `policies` the
    policies from elsewhere that were run here, `deliveries` what was received and from where, and `keys` the signing
    key and the secret.

    Attributes
    ----------
    root
        The folder of all of them.
    published
        The folder elsewhere to which `create` lets releases go; None: where they go already, at first into the home.
    """

    root: Path
    published: Path | None = field(default=None, compare=False)

    @classmethod
    def here(cls) -> "Home":
        """The home of this process: DEID_HOME, or `.deid` in the current folder. DEID_PUBLISHED may name where releases go.

        Raises
        ------
        StoreError
            If DEID_HOME is empty, which would make the current folder the home, or is not a folder, if the current folder
            no longer exists, if a new home would begin in another one, such as in its store, or if the releases of the home
            are not where DEID_PUBLISHED says, or missing there.
        """
        named = os.environ.get("DEID_HOME", ".deid")
        try:
            root = Path(named).absolute()
        except OSError as error:
            raise StoreError(f"the current folder cannot be used: {error.strerror}; change to another one") from None
        try:
            is_other = root.exists() and not root.is_dir()
        except OSError as error:
            raise StoreError(f"DEID_HOME cannot be used: {error.strerror}; set it to another folder") from None
        if not named.strip() or is_other:
            raise StoreError("DEID_HOME is empty, or names a file: set it to a folder, or unset it")
        elsewhere = os.environ.get(PUBLISHED)
        if elsewhere is not None and not elsewhere.strip():
            raise StoreError(f"{PUBLISHED} is empty: set it to a folder, or unset it")
        home = cls(root, None if elsewhere is None else Path(elsewhere).absolute())
        around = [] if os.path.exists(home.journal) else [path for path in root.parents if os.path.exists(cls(path).journal)]
        if around:
            raise StoreError(
                f"{root} is in the home {around[0]}, and none itself: set DEID_HOME to that home, or to a folder elsewhere"
            )
        try:
            home._require_releases()
        except OSError as error:
            raise StoreError(
                f"the home {root} cannot be used: {error.strerror}; it belongs to the user who runs releases"
            ) from None
        return home

    @property
    def dagster(self) -> Path:
        """The home of Dagster: its runs and events."""
        return self.root / "home"

    @property
    def store(self) -> Path:
        """The restricted store."""
        return self.root / "store"

    @property
    def releases(self) -> Path:
        """The folder of all releases, wherever it is."""
        link = self._link
        return link.parent / os.readlink(link) if link.is_symlink() else link

    @property
    def _link(self) -> Path:
        return self.root / "releases"

    @property
    def policies(self) -> Path:
        """The folder of policies."""
        return self.root / "policies"

    @property
    def deliveries(self) -> Path:
        """The folder of deliveries."""
        return self.root / "deliveries"

    @property
    def keys(self) -> Path:
        """The folder of the secret and the signing key."""
        return self.root / "keys"

    @property
    def restoring(self) -> Path:
        """Beside it, while a backup takes its place: what was unpacked."""
        return self.root.with_name(f".{self.root.name}.restoring")

    @property
    def replaced(self) -> list[Path]:
        """Beside it, the homes that lay in its place when backups were restored, oldest first."""
        return sorted(self.root.parent.glob(f"{glob.escape(self.root.name)}.replaced-*"))

    @property
    def journal(self) -> Path:
        """The journal of what the home decided."""
        return self.store / "journal.jsonl"

    @property
    def beside(self) -> list[Path]:
        """Other homes in the same folder, those in whose place a backup was restored among them, and in this one."""
        around = (self.root.parent, self.root)
        found = (path.parent.parent for folder in around for path in folder.glob("*/store/journal.jsonl"))
        return sorted(path for path in found if path != self.root)

    def holds(self, folder: Path) -> bool:
        """Whether a folder is in the home or in its folder of releases; links are followed."""
        return any(folder.resolve().is_relative_to(one) for one in self._own)

    def overlaps(self, folder: Path) -> bool:
        """Whether a folder is in the home or in its folder of releases, or contains one of them; links are followed."""
        return self.holds(folder) or any(one.is_relative_to(folder.resolve()) for one in self._own)

    @property
    def _own(self) -> tuple[Path, Path]:
        return self.root.resolve(), self.releases.resolve()

    def refused_report(self, policy: str, delivery: str) -> Path:
        """The report of the newest run if it was refused: in the restricted store, beside its tables."""
        return self.store / policy / f"{delivery}.refused.html"

    def create(self) -> "Home":
        """Create the folders; only their owner can access those that may contain anything about a person.

        If releases go elsewhere, only the owner can access the home at all.

        Raises
        ------
        StoreError
            If one cannot be created, is not a folder, or belongs to somebody else; if releases cannot go where they should.
        """
        folder = self.root
        try:
            folder.mkdir(parents=True, exist_ok=True)
            folder = self.published or self._link
            self._link_releases()
            self._require_releases()
            if not self._link.is_symlink():
                folder.mkdir(parents=True, exist_ok=True)
            # The event log contains exact counts, and a policy may name who opted out.
            for folder in (self.store, self.deliveries, self.keys, self.dagster, self.policies):
                durable.owner_only(folder)
        except OSError as error:
            raise StoreError(
                f"the home {self.root} cannot be used: {folder.name} is not a folder that you can write to "
                f"({error.strerror}); put the folder back, such as from a backup, or name another one with DEID_HOME"
            ) from None
        return self

    def _link_releases(self) -> None:
        """Let releases go to the folder elsewhere, unless they do already."""
        if self.published is None or self._link.is_symlink():
            return
        root, elsewhere = self.root.resolve(), self.published.resolve()
        if elsewhere == root or root in elsewhere.parents or elsewhere in root.parents:
            raise StoreError(
                f"{PUBLISHED} is in the home {self.root}, or contains it: name a folder elsewhere, which recipients may read "
                "without reaching keys and restricted data"
            )
        if self._link.is_dir() and any(path.name != _MARK for path in self._link.iterdir()):
            raise StoreError(
                f"the home {self.root} has releases of its own. Unset {PUBLISHED}; or move the content of {self._link}, hidden "
                f"files too, to {self.published}, remove the empty folder, and link it: ln -s {self.published} {self._link}"
            )
        self.published.mkdir(parents=True, exist_ok=True)
        if any(path.name != _MARK for path in self.published.iterdir()):
            raise StoreError(
                f"{PUBLISHED} is {self.published}, which is not empty: each home has a folder of its own for its releases. If "
                f"they are those of this home, link it: ln -s {self.published} {self._link}"
            )
        self._mark_as_own(self.published / _MARK)
        if self._link.is_dir():
            (self._link / _MARK).unlink(missing_ok=True)
            self._link.rmdir()
        with contextlib.suppress(FileExistsError):  # another process was faster; `_require_releases` looks where it leads
            self._link.symlink_to(self.published)
        durable.owner_only(self.root)
        durable.sync(self.root)

    def _mark_as_own(self, mark: Path) -> None:
        """Mark a folder that is still empty as this home's; another home that nothing was released in may have come before."""
        own = hashlib.sha256(bytes(self.root.resolve())).hexdigest().encode() + b"\n"
        with contextlib.suppress(FileExistsError):
            durable.create(mark, own, 0o600)
            durable.sync(mark.parent)
        if mark.read_bytes() not in (own, b""):
            raise StoreError(
                f"{PUBLISHED} is {mark.parent}, which another home has for its releases: each home has a folder of its own. If "
                f"that home is gone, remove {mark}"
            )

    def _require_releases(self) -> None:
        """Refuse a home whose releases are elsewhere than stated, or on a disk that is not there.

        With an empty folder in their place, nobody would know what was released before.
        """
        if not self._link.is_symlink():
            return
        if self.published is not None and self.releases.resolve() != self.published.resolve():
            raise StoreError(
                f"{PUBLISHED} is {self.published}, but the releases of the home {self.root} are in {self.releases}. Unset it; "
                f"or move them, and let the link {self._link} lead there"
            )
        if not (self.releases / _MARK).exists():
            raise StoreError(
                f"the releases of the home {self.root} are not in {self.releases}: mount the disk, or restore the folder from "
                f"a backup (with its file {_MARK}, which may be empty)"
            )


_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}\Z")


def plain_key(key: str) -> str:
    """Return the key of a delivery if it is a valid file name: partitions can be added by hand, under any name.

    Raises
    ------
    DeliveryError
        If it is not a valid key.
    """
    if not _KEY.match(key) or ".." in key:
        raise DeliveryError(
            "a delivery's key may contain letters, digits, '_', '.' (not two in a row) and '-', begins with a letter or "
            "digit, and has at most 128 characters"
        )
    return key


_POLICY = re.compile(r"[a-z][a-z0-9_]*\Z")
_LONGEST_NOTE = 4096
_SECONDS_BETWEEN_TRIES = 0.05

_held: dict[tuple[Path, str], set[int]] = {}
"""Descriptors that hold the lock on a path for a run in this process; all of one run share one lock."""

_guard = threading.RLock()


def _never_over(run_id: str) -> bool:
    return False


@dataclass(frozen=True)
class Owner:
    """The run that a lock file names.

    Attributes
    ----------
    run_id
        The run that used the store last.
    between_steps
        Whether its process has let go of the lock in good order, so that other steps of the run can follow. Otherwise,
        if nobody holds the lock, the process was killed.
    """

    run_id: str
    between_steps: bool

    def to_json(self) -> str:
        """The content of a lock file."""
        return json.dumps({"run": self.run_id, "between_steps": self.between_steps})

    @classmethod
    def from_json(cls, text: str) -> "Owner | None":
        """The inverse of `to_json`; None for any other text, such as that of a file whose writer was killed."""
        with contextlib.suppress(ValueError, TypeError, KeyError):
            found = json.loads(text)
            return cls(str(found["run"]), found["between_steps"] is True)
        return None


@dataclass
class StoreLock:
    """The lock of one store file; released when the process ends, for whatever reason.

    Attributes
    ----------
    path
        The locked file; it contains an `Owner`.
    run_id
        The run that holds it. Locks of one run in one process share it: `deid run` takes the lock before Dagster knows
        the run, and the run's steps take it again. Processes of one run wait for each other. Without a run, the lock is
        not shared.
    is_over
        Says whether the run with an id has ended. It is asked about a run that let go of the lock between two steps; by
        default such a run counts as unfinished.
    """

    path: Path
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    is_over: Callable[[str], bool] = field(default=_never_over, repr=False)
    _descriptor: int | None = None
    _found: Owner | None = None

    @classmethod
    def of(
        cls, home: Home, policy: str, delivery: str, run_id: str | None = None, is_over: Callable[[str], bool] | None = None
    ) -> "StoreLock":
        """The lock of a policy's store for a delivery.

        Raises
        ------
        StoreError
            If the policy or delivery name is invalid: nothing is created elsewhere.
        """
        if not _POLICY.match(policy):
            raise StoreError(
                "the run names a policy that cannot exist: a policy's name consists of lower-case letters, digits and '_'"
            )
        try:
            path = home.store / policy / f"{plain_key(delivery)}.lock"
        except DeliveryError as error:
            raise StoreError(str(error)) from None
        return cls(path, run_id or uuid.uuid4().hex, is_over or _never_over)

    def acquire(self) -> None:
        """Take the lock; wait while another process of the same run holds it.

        Raises
        ------
        StoreError
            If another run holds it, or has not ended.
        """
        while not self.try_acquire():
            owner = self._found
            if owner is None or owner.run_id != self.run_id:
                raise StoreError(
                    f"another run is working on the delivery {self.path.stem} under the policy {self.path.parent.name}; "
                    f"wait until it has finished{_advice(owner)}"
                )
            time.sleep(_SECONDS_BETWEEN_TRIES)

    def try_acquire(self) -> bool:
        """Take the lock if it is free or held by this run in this process; return whether it was.

        Raises
        ------
        StoreError
            If the lock cannot be created.
        """
        if self._descriptor is not None:
            return True
        with _guard:
            own = _held.get((self.path, self.run_id))
            # A copy of a descriptor holds the same lock until the last copy is closed.
            descriptor = os.dup(next(iter(own))) if own else self._take()
            if descriptor is None:
                return False
            _held.setdefault((self.path, self.run_id), set()).add(descriptor)
            self._descriptor = descriptor
        return True

    def _take(self) -> int | None:
        try:
            durable.owner_only(self.path.parent)
            # A process that finds the lock taken must read the name of its holder: names are written and read in here only.
            with durable.locked(self._beside):
                descriptor = durable.take_lock(self.path, wait=False)
                if descriptor is None:
                    self._found = _read_file(self.path)
                    return None
                self._found = _read(descriptor)
                if self._is_free(self._found):
                    _write(descriptor, Owner(self.run_id, between_steps=False).to_json())
                    return descriptor
                os.close(descriptor)
                return None
        except OSError as error:
            raise StoreError(
                f"the lock {self.path} cannot be created: {error.strerror}; it must be a plain file in a folder that you own"
            ) from None

    def _is_free(self, owner: Owner | None) -> bool:
        return owner is None or owner.run_id == self.run_id or not owner.between_steps or self.is_over(owner.run_id)

    @property
    def _beside(self) -> Path:
        return self.path.with_name(f".{self.path.name}")

    def release(self) -> None:
        """Release the lock: its run no longer needs the store. Harmless if it is not held."""
        self._let_go("")

    def pause(self) -> None:
        """Release the lock for other steps of the run, and for no other run until it has ended."""
        self._let_go(Owner(self.run_id, between_steps=True).to_json())

    def _let_go(self, note: str) -> None:
        with _guard:
            if self._descriptor is None:
                return
            own = _held.get((self.path, self.run_id), set())
            if self._descriptor in own:  # otherwise it belongs to the process that this one was forked from
                own.discard(self._descriptor)
                try:
                    if not own:
                        with durable.locked(self._beside):
                            _write(self._descriptor, note)
                finally:
                    os.close(self._descriptor)
            if not own:
                _held.pop((self.path, self.run_id), None)
            self._descriptor = None


def _advice(owner: Owner | None) -> str:
    if owner is None or not owner.between_steps:
        return ""
    return f" (run {owner.run_id} is between two steps; if its process is gone, terminate it in the UI)"


def _read_file(path: Path) -> Owner | None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        return _read(descriptor)
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> Owner | None:
    return Owner.from_json(os.pread(descriptor, _LONGEST_NOTE, 0).decode("utf-8", "replace"))


def _write(descriptor: int, note: str) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, note.encode(), 0)


def _let_go_after_fork() -> None:
    """Close inherited descriptors in a forked process; otherwise it would keep its parent's locks after the parent ends."""
    for descriptors in _held.values():
        for descriptor in descriptors:
            os.close(descriptor)
    _held.clear()


os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_guard.release)
os.register_at_fork(after_in_child=_let_go_after_fork)
