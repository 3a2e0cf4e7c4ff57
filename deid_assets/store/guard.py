"""Keep values about a person in unforeseen errors out of the event log.

The message of a database or conversion error quotes the offending value, and Dagster stores messages. So the whole
error is written into the restricted store, and the error raised in its place says where to find it. If nothing can be
written, the details are lost; they are never shown instead.
"""

import contextlib
import os
import secrets
import sqlite3
import traceback
from collections.abc import Iterator
from pathlib import Path

from deid_assets.errors import DeidError
from deid_assets.interruption import received
from deid_assets.store import durable

_SQLITE = {sqlite3.SQLITE_FULL: "the disk is full", sqlite3.SQLITE_READONLY: "the folder is read-only"}


class UnforeseenError(DeidError):
    """An error inside the product; its details are in the restricted store."""


@contextlib.contextmanager
def without_values(what: str, store: Path, let_through: tuple[type[BaseException], ...] = ()) -> Iterator[None]:
    """Replace any foreign error by one that names no value, and cut the chain of every error.

    Parameters
    ----------
    what
        What was being done, such as the name of an asset.
    store
        The restricted store; details go to its folder `errors`.
    let_through
        Errors known to contain no value.

    Raises
    ------
    UnforeseenError
        In place of the original error.
    KeyboardInterrupt
        In its place if a signal asked the command to end: DuckDB and others convert that to errors of their own.
    """
    ours: tuple[type[BaseException], ...] = (DeidError, *let_through)
    try:
        yield
        return
    except ours as error:
        raised: BaseException = error if received() is None else KeyboardInterrupt()
    except Exception as error:
        raised = (
            KeyboardInterrupt()
            if received() is not None
            else UnforeseenError(f"{what} failed with {_kind(error)}; {_keep(error, what, store)}")
        )
    # Cut the chain: the message of an original error may quote a value, and Dagster stores chains. `from None` only
    # hides the original and `raise` adds it again, so it is removed afterwards.
    try:
        raise raised
    finally:
        raised.__cause__ = raised.__context__ = None


def _kind(error: BaseException) -> str:
    """The kind of an error, and what the system, SQLite or DuckDB lacks; it names no value."""
    said = _said_by_the_system(error)
    return f"{type(error).__name__} ({said})" if said else type(error).__name__


def _said_by_the_system(error: BaseException) -> str | None:
    """What is lacking, such as "No space left on device", from the error or the first in its chain that says so."""
    import duckdb  # takes long to load, and only errors need it

    from deid_assets.store.tables import MEMORY, memory_limit

    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        if isinstance(cause, duckdb.OutOfMemoryException):
            # It also says so of the disk to which it spills.
            return (
                f"DuckDB needs more than {memory_limit() / 1e9:g} GB of memory, or a disk with more room for what it spills: "
                f"{MEMORY} says how many gigabytes it may use"
            )
        if isinstance(cause, OSError) and cause.errno:
            return os.strerror(cause.errno)
        if isinstance(cause, sqlite3.Error) and getattr(cause, "sqlite_errorcode", None):
            return _SQLITE.get(cause.sqlite_errorcode & 0xFF, "the database cannot be used")
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__
    return None


def _keep(error: Exception, what: str, store: Path) -> str:
    """Write an error's details into the restricted store; return where they are, or why they could not be kept."""
    try:
        file = durable.owner_only(store / "errors") / f"{what.replace('/', '-')}-{secrets.token_hex(4)}.txt"
        text = "".join(traceback.format_exception(error)).encode("utf-8", "backslashreplace")
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as details:
            details.write(text)
    except Exception as failure:
        return f"its details could not be saved: {_kind(failure)}"
    return f"its details, which may quote values, are in {file}"
