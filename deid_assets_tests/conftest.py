"""What holds for every test."""

import functools
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def kept_connections() -> Iterator[None]:
    """Dagster's run history opens a new engine and connection for every event, a third of a small run; here it keeps them.

    They are closed with the instance, so that a home can be copied, damaged or opened by another process as ever. Nothing
    waits for the disk: no test asks what a power cut would leave of the run history.
    """
    from dagster import DagsterInstance
    from dagster._core.storage.event_log.sqlite import sqlite_event_log
    from dagster._core.storage.runs.sqlite import sqlite_run_storage
    from sqlalchemy import Engine, create_engine, event
    from sqlalchemy.pool import QueuePool

    engines: dict[str, Engine] = {}

    def do_not_wait(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA synchronous = OFF")

    def kept(url: str, **_: object) -> Engine:
        if url not in engines:
            engine = create_engine(url, poolclass=QueuePool, connect_args={"timeout": 30, "check_same_thread": False})
            event.listen(engine, "connect", do_not_wait)
            # Dagster disposes of an event log's engine after every event.
            engine.close, engine.dispose = engine.dispose, lambda: None
            engines[url] = engine
        return engines[url]

    dispose = DagsterInstance.dispose

    @functools.wraps(dispose)
    def dispose_of_all(instance: DagsterInstance) -> None:
        dispose(instance)
        while engines:  # another instance opens its own again when it needs them
            engines.popitem()[1].close()

    with pytest.MonkeyPatch.context() as patch:
        for module in (sqlite_event_log, sqlite_run_storage):
            patch.setattr(module, "create_engine", kept)
        patch.setattr(DagsterInstance, "dispose", dispose_of_all)
        yield
