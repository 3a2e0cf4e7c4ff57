"""What holds for every test."""

import functools
import gc
import os
import sqlite3
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from deid_assets_tests import examples  # noqa: F401 - registers the profile that the command line names
from deid_assets_tests.parts import Part, measured_seconds, parts_of
from deid_assets_tests.postgres import Server, postgres_server
from deid_assets_tests.tracing import traced_or_not


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run only the part that PART names, such as 0/3, of the tests that are left by marks."""
    if "PART" not in os.environ:
        return
    part = Part(os.environ["PART"])
    of_file = parts_of((item.location[0] for item in items), part.of, measured_seconds())
    others = [item for item in items if of_file[item.location[0]] != part.number]
    items[:] = [item for item in items if of_file[item.location[0]] == part.number]
    config.hook.pytest_deselected(items=others)


def pytest_configure() -> None:
    """Each process does its linear algebra on one core: threads that wait for small products only take the others' time.

    Before NumPy is imported, which reads it once; processes that tests start do likewise.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.fixture(scope="session", autouse=True)
def history_does_not_wait() -> Iterator[None]:
    """Nothing waits for the disk: no test asks what a power cut would leave of Dagster's run history."""
    from sqlalchemy import event
    from sqlalchemy.pool import Pool

    def do_not_wait(connection: Any, _record: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous = OFF")

    event.listen(Pool, "connect", do_not_wait)
    yield
    event.remove(Pool, "connect", do_not_wait)


@pytest.fixture
def store() -> Iterator[Any]:
    """A store without a table, which is gone after the test; imported here, because it imports NumPy."""
    from deid_assets_tests.methods.small_tables import small_store

    with small_store() as made:
        yield made


@pytest.fixture
def home(tmp_path) -> Any:
    """A home in which nothing was done yet; imported here, because a module that is loaded for every test imports little."""
    from deid_assets.store.home import Home

    return Home(tmp_path / "deid").create()


@pytest.fixture(scope="session")
def postgres_of_session() -> Iterator[Server]:
    """A PostgreSQL server."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def postgres(postgres_of_session) -> Iterator[str]:
    """The address of an empty PostgreSQL database; tests that ask for it are marked `needs_postgres`."""
    with postgres_of_session.database() as address:
        yield address


@pytest.fixture(scope="session", autouse=True)
def migrations_are_read_once() -> Iterator[None]:
    """Every run has a database of its own, for which Dagster would read the same migrations twice, and each time anew."""
    from alembic.script import ScriptDirectory

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", functools.cache(ScriptDirectory.from_config))
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests stay until the end: the garbage collector does not look through them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000)  # as the command sets it


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Where branches are traced, only some tests are."""
    with traced_or_not(item.nodeid):
        return (yield)


def pytest_unconfigure() -> None:
    """Everything goes at the end, or libraries report what is left as leaks."""
    gc.unfreeze()
