"""The Dagster instance under `.deid/home`: its settings, and where the workspace file is."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import sqlalchemy
import yaml

from deid_assets.automation.storage import SETTINGS, opened, storage_of
from deid_assets.dagster_internals import InstanceRef
from deid_assets.errors import DeidError, StoreError
from deid_assets.partitions import deliveries_of
from deid_assets.store import durable
from deid_assets.store.home import Home

_PACKAGE = Path(__file__).parent.parent


def prepare_dagster_home(home: Home) -> None:
    """Put the instance's settings into its folder. Without DAGSTER_HOME the history would be lost on exit.

    Raises
    ------
    StoreError
        If something else lies in their place, or DEID_STORAGE does not fit the home.
    """
    durable.owner_only(home.dagster)
    file, settings = home.dagster / SETTINGS, _settings(home)
    if file.exists() and not file.is_file():
        raise StoreError(f"{file} is not a file; remove it and run again: it will be created anew")
    with durable.locked(home.dagster / ".lock"):
        if not file.exists() or file.read_bytes() != settings:
            durable.replace(file, settings, 0o600)


@contextlib.contextmanager
def dagster_instance(home: Home) -> Iterator[dg.DagsterInstance]:
    """The instance of this home; connections to its history are kept until it closes.

    Raises
    ------
    StoreError
        If a file of its history is damaged, or no file of Dagster's; if its database does not answer, or is that of another
        home.
    """
    try:
        ref = InstanceRef.from_dir(str(home.dagster), overrides=storage_of(home).overrides)
        with opened(home, ref) as instance:
            _move_partitions(home, instance)
            yield instance
    except (sqlite3.DatabaseError, sqlalchemy.exc.DBAPIError) as error:
        code = getattr(getattr(error, "orig", error), "sqlite_errorcode", None)
        if code is None or code & 0xFF not in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise
        raise StoreError(
            f"the run history in {home.dagster} is damaged: one of its files is not a database. Move that folder away, or "
            "restore it from a backup, and run again; releases and their registry do not depend on it"
        ) from None


_SHARED_PARTITIONS = "deliveries"
"""The partitions of all policies, in homes of earlier versions of the product."""


def _move_partitions(home: Home, instance: dg.DagsterInstance) -> None:
    """Give each policy the deliveries that it took in as partitions of its own; earlier versions had one set for all."""
    shared = instance.get_dynamic_partitions(_SHARED_PARTITIONS)
    if not shared:
        return
    for folder in sorted(path for path in home.store.iterdir() if path.is_dir()):
        name = str(deliveries_of(folder.name).name)
        own = set(instance.get_dynamic_partitions(name))
        found = [key for key in shared if (folder / f"{key}.duckdb").exists() and key not in own]
        if found:
            instance.add_dynamic_partitions(name, found)
    for key in shared:
        instance.delete_dynamic_partition(_SHARED_PARTITIONS, key)


def _settings(home: Home) -> bytes:
    """The shipped settings, and where the run history is if that is not in files."""
    stated = storage_of(home).settings
    added = yaml.safe_dump(dict(stated)).encode() if stated else b""
    return _shipped(SETTINGS).read_bytes() + added


def workspace_file() -> Path:
    """The workspace file: that of the checkout, or the copy in the installed package."""
    return _shipped("workspace.yaml")


def _shipped(name: str) -> Path:
    for folder in (_PACKAGE.parent, _PACKAGE):
        if (folder / name).exists():
            return folder / name
    raise DeidError(f"{name} is missing from this installation; install deid_assets again")
