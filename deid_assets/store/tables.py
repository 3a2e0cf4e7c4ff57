"""The restricted store: one DuckDB file per policy and delivery, one schema per stage, one table per asset.

Everything in it may identify a person. Only its owner can read its folder, and data leaves it only through the release.
Connections are short, because only one process at a time can open a DuckDB file.

Where the claims have the rows of several tables of events, such as fills of drugs, these are beside those of the claims, and
what they lack is blank. A blank is no knowledge, so that whatever is counted of a column is counted of its own table's rows.
Whoever counts rows counts those of one table.
"""

import contextlib
import functools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TypeAlias

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from deid_assets.errors import StoreError
from deid_assets.reference.known_columns import EVENT_TABLE
from deid_assets.store import durable

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def quoted(name: str) -> str:
    """Return `name` as a DuckDB identifier; the only place where an identifier becomes SQL text.

    Raises
    ------
    StoreError
        If the name is not letters, digits and underscores.

    Examples
    --------
    >>> quoted("claims")
    '"claims"'
    """
    if not _NAME.match(name):
        raise StoreError(
            "a table or column name may contain only letters, digits and underscores, and must not begin with a digit"
        )
    return f'"{name}"'


def literal(text: str) -> str:
    """Return text of ours, or a label of a policy's hierarchy, as an SQL literal where it cannot be bound.

    Examples
    --------
    >>> print(literal("it's"))
    'it''s'
    """
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class Query:
    """A SELECT with bound parameters: text from a delivery or a policy is bound, never written into `sql`."""

    sql: str
    parameters: tuple[object, ...] = ()


Rows: TypeAlias = str | Query | pd.DataFrame | pa.RecordBatchReader
"""Rows to write: a SELECT over tables of the same file, as text or as `Query`, a frame, or a reader of Arrow batches."""


_ROWS_OF_A_BATCH = 1_000_000


@dataclass(frozen=True)
class Table:
    """A handle on a table of the restricted store: its location, never its rows.

    `sql` is the text after FROM. Methods take handles and return a SELECT; the IO manager runs it.
    """

    file: Path
    schema: str
    name: str

    @property
    def sql(self) -> str:
        """The text after FROM."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    def query(self, sql: str, parameters: Sequence[object] = ()) -> pd.DataFrame:
        """Run a SELECT in this table's file and return its rows."""
        with connect(self.file, read_only=True) as connection:
            return connection.execute(sql, list(parameters)).fetchdf()

    def arrays(self, sql: str, parameters: Sequence[object] = ()) -> dict[str, np.ndarray]:
        """Run a SELECT in this table's file and return its columns as NumPy arrays."""
        with connect(self.file, read_only=True) as connection:
            return connection.execute(sql, list(parameters)).fetchnumpy()

    def batches(self, sql: str) -> Iterator[list[np.ndarray]]:
        """Run a SELECT in this table's file and yield the columns of some rows after others, in any order of rows.

        No value is NULL. For results that would take much memory as a whole.
        """
        with connect(self.file, read_only=True) as connection:
            for batch in connection.sql(sql).to_arrow_reader(_ROWS_OF_A_BATCH):
                yield [batch.column(number).to_numpy() for number in range(batch.num_columns)]

    def frame(self, order_by: str | None = None) -> pd.DataFrame:
        """Return the whole table; for small tables."""
        order = f" ORDER BY {quoted(order_by)}" if order_by else ""
        return self.query(f"SELECT * FROM {self.sql}{order}")

    def count(self) -> int:
        """Return the number of rows."""
        ((rows,),) = self._fetched(f"SELECT count(*) FROM {self.sql}")
        return int(rows)

    def columns(self) -> dict[str, str]:
        """Column names and DuckDB types, in order."""
        return {name: kind for name, kind, *_ in self._fetched(f"DESCRIBE {self.sql}")}

    def _fetched(self, sql: str) -> list[tuple]:
        """Rows of a SELECT; for a few of them a frame takes longer than the query."""
        with connect(self.file, read_only=True) as connection:
            return connection.execute(sql).fetchall()


def columns_of(file: Path) -> dict[Table, set[str]]:
    """Column names of every table of a store file, in one query."""
    found: dict[Table, set[str]] = {}
    with connect(file, read_only=True) as connection:
        listed = "SELECT schema_name, table_name, column_name FROM duckdb_columns() WHERE NOT internal"
        for schema, name, column in connection.execute(listed).fetchall():
            found.setdefault(Table(file, schema, name), set()).add(column)
    return found


MEMORY = "DEID_DUCKDB_GB"
"""The environment variable that says how many gigabytes DuckDB may use."""


def memory_limit() -> int:
    """Bytes that DuckDB may use before it spills: what `MEMORY` says, or what up to eight threads need.

    With more, it mostly keeps what it has read, beside the kernel's arrays; on a small machine, those need the rest.
    Processors and memory are the machine's, not a container's.

    Raises
    ------
    StoreError
        If `MEMORY` is no number of gigabytes.
    """
    asked = os.environ.get(MEMORY)
    if asked:
        with contextlib.suppress(ValueError):
            if 0.25 <= float(asked) <= 10_000:
                return int(float(asked) * 1e9)
        raise StoreError(f"{MEMORY} is {asked!r}; it must be a number of gigabytes from 0.25 to 10,000, or unset")
    of_machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(500_000_000 * max(os.cpu_count() or 1, 2), 4_000_000_000, int(0.6 * of_machine))


_connections: set[duckdb.DuckDBPyConnection] = set()


@contextlib.contextmanager
def interruptible(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Let `interrupt_queries` end queries of this connection."""
    _connections.add(connection)
    try:
        yield
    finally:
        _connections.discard(connection)


def interrupt_queries() -> None:
    """End all queries of this process; any thread may call this.

    DuckDB notices by itself that a signal was handled, but then waits for its own threads, which may take half a
    minute.
    """
    for connection in list(_connections):
        with contextlib.suppress(duckdb.Error):  # closed in the meantime
            connection.interrupt()


def _unopened(error: duckdb.Error) -> str:
    """Why a store file cannot be opened, and what to do; DuckDB reports it only as text."""
    said = str(error)
    if "not a valid DuckDB database" in said or "Is a directory" in said:
        return "is damaged, or is not a store: remove it, and run again; it is created anew from the delivery"
    if "Could not set lock" in said:
        return "is in use by another process: end that process, or wait, and run again"
    return "is in use by another process, or cannot be opened"


@functools.cache
def _draws_bars() -> bool:
    """Whether DuckDB draws progress bars in this process, as it does where Python is interactive."""
    with duckdb.connect() as connection:
        return bool(connection.execute("SELECT current_setting('enable_progress_bar')").fetchall()[0][0])


@contextlib.contextmanager
def connect(file: Path, read_only: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the store file for as short a time as possible; it is always closed, whatever happens inside."""
    try:
        # One configuration for every connection: DuckDB refuses connections with different ones.
        connection = duckdb.connect(
            str(file),
            config={
                "temp_directory": str(file.parent / "spill"),
                "memory_limit": f"{memory_limit()}B",
                # A delivered file must not be able to load external code.
                "autoload_known_extensions": False,
                "autoinstall_known_extensions": False,
                "allow_community_extensions": False,
            },
        )
    except (duckdb.IOException, duckdb.ConnectionException) as error:
        raise StoreError(f"the restricted store {file.name} {_unopened(error)}") from error
    try:
        with interruptible(connection):
            if _draws_bars():  # over the progress lines of steps
                connection.execute("SET enable_progress_bar = false")
            if read_only:
                connection.execute("BEGIN TRANSACTION READ ONLY")
            yield connection
    finally:
        connection.close()


@contextlib.contextmanager
def held_open(file: Path) -> Iterator[None]:
    """Keep the store file open during a step, so that opening connections inside costs nothing.

    No longer than a step, because DuckDB keeps what it has read in memory until the last connection is closed.
    """
    if not file.exists():
        yield
        return
    with connect(file):
        yield


_NOT_PLAIN = {
    "macros": "FROM system.main.duckdb_functions() WHERE NOT internal",
    "views": "FROM system.main.duckdb_views() WHERE NOT internal AND schema_name NOT IN ('scratch', 'gate')",
    "generated columns": "FROM system.main.duckdb_columns() WHERE NOT internal AND is_generated",
    "triggers": "FROM system.main.duckdb_triggers()",
    "types": "FROM system.main.duckdb_types() WHERE NOT internal",
}
"""Objects that the product never creates in a store, and where DuckDB lists them; qualified, because macros can shadow names.
"""


def require_plain_tables(file: Path) -> None:
    """Refuse a store with anything other than plain tables: computed objects may return different rows to different readers.

    A macro can replace a DuckDB function, and a view or a generated column can detect who reads it. A fingerprint then
    says nothing about what others read. Views that a step creates for itself are in separate schemas.

    Raises
    ------
    StoreError
        With the kinds of objects found.
    """
    with connect(file, read_only=True) as connection:
        found = [
            kind for kind, listed in _NOT_PLAIN.items() if connection.execute(f"FROM (SELECT 1 {listed}) LIMIT 1").fetchall()
        ]
    if found:
        raise StoreError(
            f"the restricted store {file.name} contains {', '.join(found)}, which this product never creates; they may "
            "answer differently to different readers. Remove the store file, and run again from the intake"
        )


def either_way(one: str, other: str) -> str:
    """Return a SELECT of the number of rows, n, that only one of two SELECTs returns.

    Equal rows are counted, plus for one and minus for the other: each SELECT runs once, and nothing is sorted.
    """
    # No column has a name with blanks: a column that is called like the mark of the sides would be taken for it.
    both = f'SELECT *, 1 AS "side of the row" FROM ({one}) UNION ALL SELECT *, -1 FROM ({other})'
    more = f'SELECT * EXCLUDE ("side of the row"), abs(sum("side of the row")) AS "more rows" FROM ({both}) GROUP BY ALL'
    return f'SELECT coalesce(sum("more rows"), 0)::BIGINT AS n FROM ({more})'


def fingerprint(table: Table, key: bytes) -> str:
    """A keyed fingerprint of a table: of its columns, and of its rows as a multiset.

    It detects any change to a table, accidental or deliberate, in well under a second for millions of rows. It is valid
    for one version of DuckDB, whose hash it sums.
    """
    columns = ",".join(f"{name} {kind}" for name, kind in table.columns().items())
    # The table's name stands for a whole row. No column has a blank in its name; such a column would be taken instead.
    found = table.query(
        "SELECT count(*)::VARCHAR || ' ' || coalesce(sum(hash(?, \"whole row\")::HUGEINT), 0)::VARCHAR AS found"
        f' FROM {table.sql} AS "whole row"',
        [key.hex()],
    )
    return blake2b(f"{columns} {found['found'].iloc[0]}".encode(), digest_size=16, key=key).hexdigest()


def write_table(table: Table, content: Rows) -> int:
    """Replace the table in one transaction and return its number of rows."""
    return write_rows(table, (content,))


def write_rows(table: Table, contents: Iterable[Rows]) -> int:
    """Replace the table in one transaction by some rows after others, and return its number of rows.

    Parameters
    ----------
    contents
        At least one, of the same columns. Each is asked for when those before it are written.
    """
    durable.owner_only(table.file.parent)
    with connect(table.file) as connection:
        connection.execute("BEGIN")
        try:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(table.schema)}")
            write = f"CREATE OR REPLACE TABLE {table.sql} AS"
            for content in contents:
                if isinstance(content, str):
                    content = Query(content)
                elif not isinstance(content, Query):
                    connection.register("content_to_write", content)
                    content = Query("SELECT * FROM content_to_write")
                connection.execute(f"{write} {content.sql}", list(content.parameters))
                write = f"INSERT INTO {table.sql}"
            rows = int(connection.execute(f"SELECT count(*) FROM {table.sql}").fetchall()[0][0])
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
    os.chmod(table.file, 0o600)
    return rows


def scratch_table(beside: Table, name: str, content: Rows) -> Table:
    """Write a table that one computation needs into the scratch schema of another table's file, and return its handle."""
    made = Table(beside.file, "scratch", name)
    write_table(made, content)
    return made


def write_view(view: Table, sql: str) -> Table:
    """Replace a view over tables of the same file, and return its handle; a view takes no space."""
    with connect(view.file) as connection:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(view.schema)}")
        connection.execute(f"CREATE OR REPLACE VIEW {view.sql} AS {sql}")
    return view


def drop_schema(file: Path, schema: str) -> None:
    """Remove a schema and its content; for tables that only one computation needed."""
    with connect(file) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {quoted(schema)} CASCADE")


ALL_EVENTS = "all_events"
"""The rows of all tables of events together, where those of one table could be named."""


def number_of(table: str) -> str:
    """Name of the column of members with the number of their rows of a table of events beside the claims."""
    return f"number_of_{table}"


def events_file(table: str) -> str:
    """Name of the file of a table of events in a release.

    Examples
    --------
    >>> events_file("claims"), events_file("lab_results")
    ('Claims', 'LabResults')
    """
    return "".join(part.capitalize() for part in table.split("_"))


def is_of(claims: Table, table: str = "claims", alias: str = "") -> str:
    """SQL that is true for the rows of one table of events; every row is, where there is only one table, and of `ALL_EVENTS`.

    Parameters
    ----------
    alias
        Name of the claims in the query, and a point; empty if no other relation has the column.
    """
    several = table != ALL_EVENTS and EVENT_TABLE in claims.columns()
    return f"{alias}{EVENT_TABLE} = {literal(table)}" if several else "true"


def rows_of(claims: Table, table: str = "claims") -> Table:
    """The rows of one table of events, as a view in the scratch schema; the claims themselves where these are all of them."""
    if table == ALL_EVENTS or EVENT_TABLE not in claims.columns():
        return claims
    return write_view(
        Table(claims.file, "scratch", f"{claims.name}_of_{table}"), f"SELECT * FROM {claims.sql} WHERE {is_of(claims, table)}"
    )
