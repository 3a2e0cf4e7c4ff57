"""What was removed from a home, by whom and why: a list that is only added to, in the restricted store."""

import datetime
import getpass
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from deid_assets.errors import StoreError
from deid_assets.store import durable
from deid_assets.store.home import Home

FILE = "housekeeping.jsonl"

REMOVED, PURGED = "delivery removed", "restricted store purged"


@dataclass(frozen=True)
class RemovalOfDelivery:
    """One removal.

    Attributes
    ----------
    what
        `REMOVED` or `PURGED`.
    time
        When, in ISO 8601 with its time zone.
    by
        The account on this machine.
    """

    what: str
    policy: str
    delivery: str
    reason: str
    time: str
    by: str


def utc_now() -> datetime.datetime:
    """The time, in UTC and whole seconds."""
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def account() -> str:
    """The name of the account that runs this; its number where it has no name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # the user of a container may have no name
        return f"user {os.getuid()}"


def record_removal(home: Home, what: str, policy: str, delivery: str, reason: str) -> RemovalOfDelivery:
    """Add a removal to the list, before anything is removed: a crash may leave a line too many, never one too few."""
    line = RemovalOfDelivery(what, policy, delivery, reason, utc_now().isoformat(), account())
    file = _file(home)
    with durable.locked(durable.owner_only(home.store) / f".{FILE}.lock"):
        before = file.read_bytes() if file.exists() else b""
        durable.replace(file, before + f"{json.dumps(asdict(line), sort_keys=True)}\n".encode(), 0o600)
    return line


def removals(home: Home) -> Iterator[RemovalOfDelivery]:
    """Yield what was removed, oldest first.

    Raises
    ------
    StoreError
        If the list is damaged.
    """
    file = _file(home)
    for number, line in enumerate(file.read_text().splitlines() if file.exists() else (), start=1):
        try:
            yield RemovalOfDelivery(**json.loads(line))
        except (ValueError, TypeError):
            raise StoreError(f"{file}: line {number} is damaged; restore the file from a backup") from None


def _file(home: Home) -> Path:
    return home.store / FILE
