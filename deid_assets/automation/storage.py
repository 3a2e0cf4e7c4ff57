"""Where the run history of a home is: in SQLite files of its own, or in the PostgreSQL database that DEID_STORAGE names.

A home keeps the kind of storage that it began with. Another one would not know the runs of earlier releases, and nothing would
say so.
"""

import contextlib
import importlib.util
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import dagster as dg
import sqlalchemy
import yaml
from sqlalchemy.engine import make_url

from deid_assets.automation.run_history import KeptStorage
from deid_assets.dagster_internals import InstanceRef
from deid_assets.errors import StoreError
from deid_assets.home_identity import VARIABLE, require_own_history
from deid_assets.store.home import Home

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
def opened(home: Home, ref: InstanceRef) -> Iterator[dg.DagsterInstance]:
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
