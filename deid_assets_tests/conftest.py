"""What holds for every test."""

import functools
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def kept_engines() -> Iterator[None]:
    """Dagster's event log makes a new database engine for every event, a quarter of a small run; here it keeps them.

    Nothing else changes: every event still opens and closes a connection of its own.
    """
    from dagster._core.storage.event_log.sqlite import sqlite_event_log

    make = sqlite_event_log.create_engine
    kept = functools.lru_cache(maxsize=32)(
        lambda url, pool, timeout: make(url, poolclass=pool, connect_args={"timeout": timeout})
    )

    def create_engine(url: str, *, poolclass: type, connect_args: dict):
        return kept(url, poolclass, connect_args["timeout"])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_event_log, "create_engine", create_engine)
        yield
