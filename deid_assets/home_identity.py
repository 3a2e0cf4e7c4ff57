"""One database of run histories belongs to one home: the home has an identity, and the database remembers it.

Two homes in one history would take each other's runs, partitions and materializations for their own. A home with SQLite files
has a history of its own by construction, and a project in which releases are embedded may have several homes: neither is asked.
"""

import contextlib
import os
import secrets
from pathlib import Path
from typing import Any

import dagster as dg
from sqlalchemy import select
from sqlalchemy.dialects import postgresql

from deid_assets.dagster_internals import KeyValueStoreTable
from deid_assets.errors import StoreError
from deid_assets.store import durable
from deid_assets.store.digests import bytes_digest
from deid_assets.store.home import Home

VARIABLE = "DEID_STORAGE"
"""The variable with the address of the PostgreSQL database of a home's run history."""
KEY = "deid/home"
"""Of Dagster's table of keys and values: the identity of the home whose history the database is."""
FILE = "identity"


def identity(home: Home) -> str:
    """The identity of a home, drawn once; a copy of the home has the same.

    Raises
    ------
    StoreError
        If its file cannot be read.
    """
    file = home.root / FILE
    with contextlib.suppress(FileExistsError):
        durable.create(file, f"{secrets.token_hex(16)}\n".encode(), 0o600)
        durable.sync(home.root)
    found = _read(file)
    if len(found) != 32:
        raise StoreError(f"{file} is not the identity of a home: restore it from a backup")
    return found


def public_name(home: Home) -> str:
    """A name of the home for others, such as catalogs: always the same, and neither its identity nor its place."""
    return bytes_digest(f"name of the home {identity(home)}".encode())[:16]


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, ValueError):
        raise StoreError(f"{file} cannot be read: restore it from a backup") from None


def require_own_history(home: Home, instance: dg.DagsterInstance) -> None:
    """Claim the PostgreSQL database of DEID_STORAGE for a home; the first home that comes has it from then on.

    Parameters
    ----------
    instance
        Of the home. If its history is elsewhere, nothing is asked.

    Raises
    ------
    StoreError
        If the database is that of another home.
    """
    runs: Any = instance.run_storage
    if VARIABLE not in os.environ or getattr(runs, "postgres_url", None) != os.environ[VARIABLE]:
        return
    own, table = identity(home), KeyValueStoreTable
    with runs.connect() as connection:
        # Of two homes that come at once, one inserts, and both read what it inserted.
        connection.execute(
            postgresql.insert(table).values(key=KEY, value=own).on_conflict_do_nothing(index_elements=[table.c.key])
        )
        (found,) = connection.execute(select(table.c.value).where(table.c.key == KEY)).one()
    if found != own:
        raise StoreError(
            f"the database in {VARIABLE} has the run history of another home than {home.root}: give each home a database of "
            f"its own; if this home is that one, restore its file {FILE} from a backup"
        )
