"""One run at a time per policy and delivery, in one process or in many.

A DuckDB file has one writer. A process that uses a store holds a lock on a file beside it, and writes the name of its
run into that file. Steps of one run may be in processes of their own: they wait for each other. Another run is refused
at once, also between two steps, when no process holds the lock but the run has not ended.
"""

import contextlib
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
from deid_assets.store.home import Home, plain_key

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
        cls,
        home: Home,
        policy: str,
        delivery: str,
        run_id: str | None = None,
        is_over: Callable[[str], bool] | None = None,
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
