"""Errors that nobody foresaw must not carry a person's value into the event log.

The message of a database or conversion error quotes the value that it stumbled over, and Dagster keeps messages. So the
whole error is written into the restricted store, and what is raised in its place says where to look. Where nothing can be
written, the details are lost: they are never shown instead.
"""

import contextlib
import os
import secrets
import traceback
from collections.abc import Iterator
from pathlib import Path

from deid_assets.errors import DeidError
from deid_assets.store import owner_only


class UnforeseenError(DeidError):
    """An error inside the product; its details are in the restricted store."""


@contextlib.contextmanager
def without_values(what: str, store: Path, let_through: tuple[type[BaseException], ...] = ()) -> Iterator[None]:
    """Replace any error but our own by one that names no value, and cut what any error was raised from.

    Parameters
    ----------
    what
        What was being done, such as the name of an asset.
    store
        The restricted store; details go to its folder `errors`.
    let_through
        Errors that are known to hold no value.

    Raises
    ------
    UnforeseenError
        In place of whatever was raised.
    """
    try:
        yield
        return
    except (DeidError, *let_through) as error:
        raised: BaseException = error
    except Exception as error:
        raised = UnforeseenError(f"{what} failed with {_kind(error)}; {_keep(error, what, store)}")
    # Without what it was raised from: the message of an original may quote a value, and Dagster stores chains. `from None`
    # only hides the original, and `raise` adds it again, so that it is cut off afterwards.
    try:
        raise raised
    finally:
        raised.__cause__ = raised.__context__ = None


def _kind(error: Exception) -> str:
    """The kind of an error; of the system's own what it says, which names no value."""
    name = type(error).__name__
    return f"{name} ({os.strerror(error.errno)})" if isinstance(error, OSError) and error.errno else name


def _keep(error: Exception, what: str, store: Path) -> str:
    """Write an error's details into the restricted store, and say where they are; or why they could not be kept."""
    try:
        file = owner_only(store / "errors") / f"{what.replace('/', '-')}-{secrets.token_hex(4)}.txt"
        text = "".join(traceback.format_exception(error)).encode("utf-8", "backslashreplace")
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as details:
            details.write(text)
    except Exception as failure:
        return f"its details could not be kept: {_kind(failure)}"
    return f"its details, which may quote values, are in {file}"
