"""One run at a time for each policy and delivery: a file lock that is held for the whole run.

A DuckDB file has one writer; without the lock a second run of the same delivery dies in its middle.
"""

import fcntl
import os
import re
from dataclasses import dataclass
from pathlib import Path

from deid_assets.errors import DeliveryError, StoreError
from deid_assets.home import Home
from deid_assets.sources.delivery import plain_key
from deid_assets.store import owner_only

_POLICY = re.compile(r"[a-z][a-z0-9_]*\Z")


@dataclass
class StoreLock:
    """The lock of one store file; released when the process ends, however it ends."""

    path: Path
    _descriptor: int | None = None

    @classmethod
    def of(cls, home: Home, policy: str, delivery: str) -> "StoreLock":
        """The lock of a policy's store of a delivery.

        Raises
        ------
        StoreError
            If no policy or no delivery can be called so: nothing is made elsewhere.
        """
        if not _POLICY.match(policy):
            raise StoreError("no policy can be called as the run says: its name holds lower-case letters, digits and '_'")
        try:
            return cls(home.store / policy / f"{plain_key(delivery)}.lock")
        except DeliveryError as error:
            raise StoreError(str(error)) from None

    def acquire(self) -> None:
        """Take the lock.

        Raises
        ------
        StoreError
            If another process holds it.
        """
        if not self.try_acquire():
            raise StoreError(
                f"another run is working on the delivery {self.path.stem} under the policy {self.path.parent.name}; "
                "wait until it has ended"
            )

    def try_acquire(self) -> bool:
        """Take the lock if it is free, and say whether it was."""
        owner_only(self.path.parent)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Let go of the lock; harmless when it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
