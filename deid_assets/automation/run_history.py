"""The run history of `deid run`: Dagster's own files and tables, on connections that are kept until the instance closes.

Dagster opens an engine and a connection for every event, which took up to two fifths of a small run. The files stay what
Dagster's own storage reads and writes: the UI and another process see each event as soon as it is recorded.
"""

import contextlib
import functools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.pool import QueuePool

from deid_assets import dagster_internals as internals


class Engines:
    """One engine for each file; its connections stay open for the next event."""

    def __init__(self) -> None:
        self._of_file: dict[str, Engine] = {}

    def of(self, address: str) -> Engine:
        """Return the engine of a file, made on first use."""
        if address not in self._of_file:
            self._of_file[address] = create_engine(
                address,
                poolclass=QueuePool,
                # A connection serves one thread at a time, but not always the same one: Dagster's watcher reads, too.
                connect_args={"timeout": internals.SQLITE_BUSY_TIMEOUT_SECONDS, "check_same_thread": False},
            )
        return self._of_file[address]

    def close(self) -> None:
        """Close all connections, which writes what is in the files' logs into the files."""
        while self._of_file:
            self._of_file.popitem()[1].dispose()


class KeptEventLog(internals.SqliteEventLogStorage):
    """Dagster's event log, a file for each run and one for all of them."""

    def __init__(self, base_dir: str, inst_data: Any = None) -> None:
        self._engines = Engines()
        self._has_table = functools.cache(super().has_table)  # asked for before almost every query of an asset
        self._known_partitions: set[tuple[str, str]] = set()
        self._lock = threading.RLock()  # a batch has it until all its events are stored
        self._in_batch: dict[str, Connection] = {}
        super().__init__(base_dir, inst_data)

    @contextlib.contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._lock:
            if shard in self._in_batch:
                yield self._in_batch[shard]
                return
            engine = self._engines.of(self.conn_string_for_shard(shard))
            if shard not in self._initialized_dbs:
                self._initdb(engine)
                self._initialized_dbs.add(shard)
            with engine.begin() as connection:
                yield connection

    def store_event_batch(self, events: Sequence[dg.EventLogEntry]) -> None:
        """Store events in one transaction for each file, all or none; what a run plans would take as many as it has checks."""
        with self._lock, contextlib.ExitStack() as transactions:
            transactions.callback(self._in_batch.clear)
            for shard in (internals.INDEX_SHARD_NAME, *{event.run_id for event in events}):
                self._in_batch[shard] = transactions.enter_context(self._connect(shard))
            super().store_event_batch(events)

    def has_table(self, table_name: str) -> bool:
        """Whether the file of all runs has a table. Tables come with Dagster's version, never while an instance is open."""
        return self._has_table(table_name)

    def has_dynamic_partition(self, partitions_def_name: str, partition_key: str) -> bool:
        """Whether a delivery has a partition. Dagster asks at each step and each input; a yes stays one during a run."""
        partition = (partitions_def_name, partition_key)
        if partition not in self._known_partitions and super().has_dynamic_partition(*partition):
            self._known_partitions.add(partition)
        return partition in self._known_partitions

    def delete_dynamic_partition(self, partitions_def_name: str, partition_key: str) -> None:
        """Delete a partition."""
        self._known_partitions.discard((partitions_def_name, partition_key))
        super().delete_dynamic_partition(partitions_def_name, partition_key)

    def dispose(self) -> None:
        """Close the connections with the instance."""
        super().dispose()
        self._engines.close()


class KeptRuns(internals.SqliteRunStorage):
    """Dagster's table of runs."""

    def __init__(self, conn_string: str, inst_data: Any = None) -> None:
        self._engines = Engines()
        super().__init__(conn_string, inst_data)

    @contextlib.contextmanager
    def connect(self) -> Iterator[Connection]:
        """Begin a transaction."""
        with self._engines.of(self._conn_string).begin() as connection:
            yield connection

    def dispose(self) -> None:
        """Close the connections with the instance."""
        super().dispose()
        self._engines.close()


class KeptStorage(internals.DagsterSqliteStorage):
    """Dagster's storage with both, and its own one of schedules; the same files in the same places."""

    def __init__(self, base_dir: str, inst_data: Any = None) -> None:
        self.base_dir, self._inst_data = base_dir, inst_data
        self._schedule_storage = internals.SqliteScheduleStorage.from_local(internals._schedule_directory(base_dir))
        self._run_storage = KeptRuns.from_local(internals._runs_directory(base_dir))
        self._event_log_storage = KeptEventLog(internals._event_logs_directory(base_dir))
        # Its own would open Dagster's storages of the same files.
        super(internals.DagsterSqliteStorage, self).__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> "KeptStorage":
        """Make it from the settings of an instance."""
        return cls.from_local(inst_data=inst_data, **config_value)
