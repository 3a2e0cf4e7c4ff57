"""Small tables in a DuckDB file, for tests of methods that return a SELECT."""

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from deid_assets.store.tables import Query, Table, connect, write_table


class SmallStore:
    """A store file in a folder of its own."""

    def __init__(self, folder: Path):
        self.file = folder / "store.duckdb"

    def table(self, name: str, columns: str, rows: Iterable[tuple]) -> Table:
        """Write rows, under column definitions such as "member_id VARCHAR, age INTEGER"."""
        table = Table(self.file, "tests", name)
        with connect(self.file) as connection:
            connection.execute("CREATE SCHEMA IF NOT EXISTS tests")
            connection.execute(f"CREATE OR REPLACE TABLE {table.sql} ({columns})")
            rows = [tuple(row) for row in rows]
            if rows:
                places = ", ".join("?" * len(rows[0]))
                connection.executemany(f"INSERT INTO {table.sql} VALUES ({places})", rows)
        return table

    def write(self, name: str, content: str | Query | pa.RecordBatchReader) -> Table:
        """Write what a method selects, as the IO manager does."""
        table = Table(self.file, "tests", name)
        write_table(table, content)
        return table

    def rows(self, content: str | Query) -> list[tuple]:
        """Return the rows that a SELECT gives."""
        query = Query(content) if isinstance(content, str) else content
        with connect(self.file) as connection:
            return connection.execute(query.sql, list(query.parameters)).fetchall()


@contextlib.contextmanager
def small_store() -> Iterator[SmallStore]:
    """Yield a store that is gone afterwards; one per hypothesis example.

    It is open all the while, as during a step of a run: to open a file takes DuckDB longer than to answer these queries.
    """
    with tempfile.TemporaryDirectory() as folder:
        store = SmallStore(Path(folder))
        with connect(store.file):
            yield store
