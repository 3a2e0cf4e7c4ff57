"""One run at a time per policy and delivery: a file lock held for the whole run.

A DuckDB file has one writer; without the lock, a second run of the same delivery would fail halfway.
"""

import os
import re
import threading
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from deid_assets.errors import DeliveryError, StoreError
from deid_assets.store import durable
from deid_assets.store.home import Home, plain_key
from deid_assets.store.tables import owner_only

_POLICY = re.compile(r"[a-z][a-z0-9_]*\Z")

_held: dict[tuple[Path, str], set[int]] = {}
"""Descriptors that hold the lock on a path for a run in this process; all of one run share one lock."""

_guard = threading.RLock()


@dataclass
class StoreLock:
    """The lock of one store file; released when the process ends, for whatever reason.

    Attributes
    ----------
    path
        The locked file.
    run_id
        The run that holds it. Locks of one run in one process share it: `deid run` takes the lock before Dagster knows
        the run, and the run's steps take it again. Without a run, the lock is not shared.
    """

    path: Path
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    _descriptor: int | None = None

    @classmethod
    def of(cls, home: Home, policy: str, delivery: str, run_id: str | None = None) -> "StoreLock":
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
        return cls(path) if run_id is None else cls(path, run_id)

    def acquire(self) -> None:
        """Take the lock.

        Raises
        ------
        StoreError
            If another run holds it.
        """
        if not self.try_acquire():
            raise StoreError(
                f"another run is working on the delivery {self.path.stem} under the policy {self.path.parent.name}; wait "
                "until it has finished"
            )

    def try_acquire(self) -> bool:
        """Take the lock if it is free or held by this run; return whether it was.

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
            owner_only(self.path.parent)
            return durable.take_lock(self.path, wait=False)
        except OSError as error:
            raise StoreError(
                f"the lock {self.path} cannot be created: {error.strerror}; it must be a plain file in a folder that you own"
            ) from None

    def release(self) -> None:
        """Release the lock; harmless if it is not held."""
        with _guard:
            if self._descriptor is None:
                return
            own = _held.get((self.path, self.run_id), set())
            if self._descriptor in own:  # otherwise it belongs to the process that this one was forked from
                own.discard(self._descriptor)
                os.close(self._descriptor)
            if not own:
                _held.pop((self.path, self.run_id), None)
            self._descriptor = None


def _let_go_after_fork() -> None:
    """Close inherited descriptors in a forked process; otherwise it would keep its parent's locks after the parent ends."""
    for descriptors in _held.values():
        for descriptor in descriptors:
            os.close(descriptor)
    _held.clear()


os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_guard.release)
os.register_at_fork(after_in_child=_let_go_after_fork)
