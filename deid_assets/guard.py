"""Errors that nobody foresaw must not carry a person's value into the event log.

The message of a database or conversion error quotes the value that it stumbled over, and Dagster keeps messages. So the
whole error is written into the restricted store, and what is raised in its place says where to look.
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
    """Replace any error but our own by one that names no value.

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
    except (DeidError, *let_through):
        raise
    except Exception as error:
        file = owner_only(store / "errors") / f"{what.replace('/', '-')}-{secrets.token_hex(4)}.txt"
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as details:
            details.write("".join(traceback.format_exception(error)))
        kind = type(error).__name__
    else:
        return
    unforeseen = UnforeseenError(f"{what} failed with {kind}; its details, which may quote values, are in {file}")
    # Neither shown nor kept: Dagster stores the whole chain, and the original's message may quote a value.
    unforeseen.__context__ = None
    raise unforeseen from None
