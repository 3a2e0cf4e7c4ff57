"""The Dagster instance under `.deid/home`: its settings, and where the workspace file is.

Where the run history of a home is: in SQLite files of its own, or in the PostgreSQL database that DEID_STORAGE names.

A home keeps the kind of storage that it began with. Another one would not know the runs of earlier releases, and nothing would
say so.

Runs in a home's own Dagster instance: their partitions, and what is left of those whose process is gone.
"""

import contextlib
import importlib.util
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import sqlalchemy
import yaml
from sqlalchemy.engine import make_url

from deid_assets.automation.run_history import KeptStorage
from deid_assets.dagster_internals import InstanceRef
from deid_assets.errors import DeidError, StoreError
from deid_assets.home_identity import VARIABLE, require_own_history
from deid_assets.partitions import deliveries_of
from deid_assets.resources import STORE_TAG, ended_in
from deid_assets.store import durable
from deid_assets.store.home import Home, StoreLock

DRIVER = "postgresql+psycopg2"
SETTINGS = "dagster.yaml"
"""The file of an instance's settings."""

_SQLITE = "history/runs.db"
_SECONDS_KEPT, _CONNECTIONS = 3600, 20


@dataclass(frozen=True)
class Storage:
    """The storage of a home's run history.

    Attributes
    ----------
    settings
        What the instance's settings say about it; nothing for SQLite files, which are Dagster's default.
    overrides
        What `deid` says about it instead.
    """

    settings: Mapping[str, object]
    overrides: Mapping[str, object]


def storage_of(home: Home) -> Storage:
    """The storage of the home's run history.

    Raises
    ------
    StoreError
        If DEID_STORAGE is not the address of a PostgreSQL database for the driver psycopg2, the extra `postgres` is not
        installed, or the home's history is in a storage of the other kind.
    """
    if VARIABLE not in os.environ:
        if _is_postgres(home):
            raise StoreError(
                f"the run history of the home {home.root} is in a PostgreSQL database: set {VARIABLE} to its address, "
                f"{DRIVER}://USER@HOST/DATABASE"
            )
        kept = {"module": KeptStorage.__module__, "class": KeptStorage.__name__, "config": {"base_dir": str(home.dagster)}}
        return Storage({}, {"storage": {"custom": kept}})
    _require_address(os.environ[VARIABLE])
    if (home.dagster / _SQLITE).exists():
        raise StoreError(
            f"{VARIABLE} is set, but the run history of the home {home.root} is in SQLite files. Unset it; or, to begin a new "
            f"history in PostgreSQL, move {home.dagster / 'history'} away: audits of earlier releases need it"
        )
    # The settings name the variable, so that no password is in a file.
    return Storage({"storage": {"postgres": {"postgres_url": {"env": VARIABLE}}}}, {})


@contextlib.contextmanager
def opened_instance(home: Home, ref: InstanceRef) -> Iterator[dg.DagsterInstance]:
    """The instance; its connections to a database are kept, and one that does not answer is named in a sentence.

    Raises
    ------
    StoreError
        If the database does not answer, or is that of another home; the message is without its address.
    """
    if VARIABLE not in os.environ:
        with dg.DagsterInstance.from_ref(ref) as instance:
            yield instance
        return
    from dagster_postgres.utils import DagsterPostgresException

    try:
        with dg.DagsterInstance.from_ref(ref) as instance:
            # Otherwise each event opens a connection, which takes ten times as long as the event.
            instance.optimize_for_webserver(statement_timeout=0, pool_recycle=_SECONDS_KEPT, max_overflow=_CONNECTIONS)
            require_own_history(home, instance)
            yield instance
    except (DagsterPostgresException, sqlalchemy.exc.OperationalError):
        raise StoreError(
            f"the run history cannot be read or written: the PostgreSQL database in {VARIABLE} does not answer, or does not "
            "let this user in. Check the address with psql"
        ) from None


def is_in_files(home: Home) -> bool:
    """Whether the run history of a home is in files of its own."""
    return not _is_postgres(home)


def _is_postgres(home: Home) -> bool:
    try:
        settings = yaml.safe_load((home.dagster / SETTINGS).read_bytes())
    except (OSError, yaml.YAMLError):
        return False  # no settings yet, or none that can be read: they are written anew
    storage = settings.get("storage") if isinstance(settings, dict) else None
    return isinstance(storage, dict) and "postgres" in storage


def _require_address(address: str) -> None:
    try:
        url = make_url(address)
        complete = url.drivername == DRIVER and bool(url.database)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        complete = False
    if not complete:
        raise StoreError(
            f"{VARIABLE} must be like {DRIVER}://USER:PASSWORD@HOST/DATABASE. With postgresql:// alone, SQLAlchemy takes "
            "another driver, with which Dagster fails"
        )
    if importlib.util.find_spec("dagster_postgres") is None:
        raise StoreError(f"{VARIABLE} is set, but dagster-postgres is not installed: install the extra `postgres`")


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
    os.environ.setdefault("DAGSTER_EVENT_BATCH_SIZE", "1000")  # what a run plans is recorded as one batch
    try:
        ref = InstanceRef.from_dir(str(home.dagster), overrides=storage_of(home).overrides)
        with opened_instance(home, ref) as instance:
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


_SECONDS_TO_BEGIN = 300
"""A run that the UI has launched loads this package before it takes the lock of its store."""

_SECONDS_TO_LOCK = 60
"""A run that has started sets up its resources, of which one takes the lock."""


def add_partition(instance: dg.DagsterInstance, policy: str, delivery: str) -> None:
    """Make a registered delivery a partition of a policy's assets, unless it is one."""
    name = str(deliveries_of(policy).name)
    if not instance.has_dynamic_partition(name, delivery):
        instance.add_dynamic_partitions(name, [delivery])


def clean_orphans(home: Home, instance: dg.DagsterInstance, own: StoreLock) -> list[str]:
    """Mark runs as failed whose process is gone: a run killed by SIGKILL stays STARTED otherwise.

    A run is an orphan if it has not ended by the record, and nobody else holds the lock of its store. One that has not
    begun, or has just begun, may be about to take the lock of another store than `own`; after some minutes it is not.

    Parameters
    ----------
    own
        The lock that this process holds: whatever else is recorded for its store has ended, or is locked out.
    """
    statuses = dg.DagsterRunStatus
    beginning = (statuses.NOT_STARTED, statuses.STARTING)
    unfinished = dg.RunsFilter(statuses=[*beginning, statuses.STARTED, statuses.CANCELING])
    cleaned = []
    for record in instance.get_run_records(filters=unfinished):
        run = record.dagster_run
        policy, _, delivery = run.tags.get(STORE_TAG, "").partition("/")
        try:
            lock = StoreLock.of(home, policy, delivery, is_over=ended_in(instance))
        except StoreError:  # a run that somebody tagged by hand
            continue
        if lock.path != own.path:
            age = time.time() - record.update_timestamp.timestamp()
            # Trying the lock would take it from such a run.
            if age < (_SECONDS_TO_BEGIN if run.status in beginning else _SECONDS_TO_LOCK) or not lock.try_acquire():
                continue
            lock.release()
        instance.report_run_failed(run, "its process ended without a message, and nobody holds the lock of its store")
        cleaned.append(run.run_id)
    return cleaned
