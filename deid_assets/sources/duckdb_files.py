"""Read a delivered DuckDB file without running any code in it.

Views, macros and generated columns are programs by the author of the file; one of them could read any file of this
host. So the file is attached read-only to a separate connection, which cannot access other files, load extensions or
change settings, and only base tables are read. Their rows are then copied to the connection of the intake.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from deid_assets.errors import DeliveryError
from deid_assets.sources.files import IntakeState, count_rows, named, quoted_foreign, require_columns, require_plain, row_key
from deid_assets.store.tables import interruptible, quoted

_DATABASE = "delivered"
_ROWS_AT_A_TIME = 100_000
# Arrow has no such types; as text they keep every digit.
_AS_TEXT = ("HUGEINT", "UHUGEINT", "UUID", "ENUM")
_NO_TABLES = {
    "a view": "SELECT 1 FROM system.main.duckdb_views() WHERE database_name = ? AND schema_name = ? AND lower(view_name) = ?",
    "a macro": "SELECT 1 FROM system.main.duckdb_functions()"
    " WHERE database_name = ? AND schema_name = ? AND lower(function_name) = ?",
}  # fmt: skip


def stage_duckdb(staging: IntakeState, path: Path, theirs: str, view: str, columns: Mapping[str, str]) -> None:
    """Create a temporary view with `row_key` over columns of a base table (`table` or `schema.table`) of a DuckDB file.

    Raises
    ------
    DeliveryError
        If the file is missing, empty, unreadable or has a write-ahead log beside it; if the table is missing, not a
        base table, unreadable or without rows; or if a column is missing, computed, or not of a scalar type.
    """
    file_name = staging.shown(path)
    name = f"{file_name}:{theirs}"
    copy = staging.receive(path)
    _require_no_log(path, file_name)
    with _opened(copy, file_name) as delivered:
        types = _columns_of(delivered, theirs, columns, name)
        number = staging.number(name)
        select = _select(theirs, {quoted(ours): own for ours, own in columns.items()}, types)
        rows = quoted(f"{view}_rows")
        try:
            _copy(delivered, select, staging.connection, rows)
        except (duckdb.Error, pa.ArrowException, OSError):
            raise DeliveryError(f"{name}: unreadable table: the file is damaged") from None
    if count_rows(staging.connection, rows) == 0:
        raise DeliveryError(f"{name}: no rows; deliver them, or leave the table out")
    # The rows of a table written in one statement are numbered in file order.
    staging.connection.execute(
        f"CREATE TEMP VIEW {quoted(view)} AS SELECT {row_key(str(number), 'rowid + 1')} AS row_key, * FROM {rows}"
    )


def copy_to_parquet(path: Path, theirs: str, target: Path) -> None:
    """Write a base table (`table` or `schema.table`) of a DuckDB file into a new Parquet file, in the order of its rows.

    Raises
    ------
    DeliveryError
        If the file is unreadable or in use, or the table is missing, not a base table, or contains computed columns.
    """
    name = f"{path.name}:{theirs}"
    _require_no_log(path, path.name)
    with _opened(path, path.name) as delivered:
        every = {column: column for column in _columns_of(delivered, theirs, {}, name)}
        types = _columns_of(delivered, theirs, every, name)
        select = _select(theirs, {quoted_foreign(column): column for column in every}, types)
        try:
            rows = delivered.sql(select).to_arrow_reader(_ROWS_AT_A_TIME)
            with pq.ParquetWriter(target, rows.schema) as writer:
                for batch in rows:
                    writer.write_batch(batch)
        except (duckdb.Error, pa.ArrowException, OSError):
            raise DeliveryError(f"{name}: unreadable table: the file is damaged, or there is no space for a copy") from None


def duckdb_columns(staging: IntakeState, path: Path, theirs: str) -> dict[str, str]:
    """Return the columns of a base table of a DuckDB file with their types.

    Raises
    ------
    DeliveryError
        If the file is missing, empty or unreadable, or the table is missing or not a base table.
    """
    name = staging.shown(path)
    with _opened(staging.receive(path), name) as delivered:
        return _columns_of(delivered, theirs, {}, f"{name}:{theirs}")


def duckdb_tables(staging: IntakeState, path: Path) -> list[str]:
    """Return the names (`table`, or `schema.table`) of the base tables of a DuckDB file.

    Raises
    ------
    DeliveryError
        If the file is missing, empty or unreadable.
    """
    name = staging.shown(path)
    with _opened(staging.receive(path), name) as delivered:
        found = delivered.execute(
            "SELECT schema_name, table_name FROM system.main.duckdb_tables() WHERE database_name = ? ORDER BY ALL", [_DATABASE]
        ).fetchall()
    return [table if schema == "main" else f"{schema}.{table}" for schema, table in found]


def _require_no_log(path: Path, name: str) -> None:
    log = path.with_name(f"{path.name}.wal")
    try:
        log.lstat()
    except OSError:
        return
    raise DeliveryError(
        f"{name}: {log.name} is next to it, so the file lacks what was written last, or is in use: close the database, which "
        "merges the log, and deliver it again"
    )


@contextmanager
def _opened(copy: Path, name: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that can access this file, and nothing else on this host."""
    delivered = duckdb.connect(
        config={
            "autoload_known_extensions": False,
            "autoinstall_known_extensions": False,
            "allow_community_extensions": False,
            "temp_directory": str(copy.with_name(f"{copy.name}_spill")),
        }
    )
    try:
        with interruptible(delivered):
            try:
                delivered.execute(f"ATTACH ? AS {_DATABASE} (READ_ONLY, TYPE duckdb)", [str(copy)])
            except duckdb.Error:
                raise DeliveryError(
                    f"{name}: unreadable file: not a DuckDB file, damaged, encrypted, or written by a newer version of DuckDB"
                ) from None
            delivered.execute("SET enable_progress_bar = false")
            delivered.execute("SET enable_external_access = false")
            delivered.execute("SET lock_configuration = true")
            yield delivered
    finally:
        delivered.close()


def _place(theirs: str) -> tuple[str, str]:
    """Schema and name of a table that is given as `table` or `schema.table`."""
    schema, _, table = theirs.rpartition(".")
    return schema or "main", table


def _columns_of(delivered: duckdb.DuckDBPyConnection, theirs: str, columns: Mapping[str, str], name: str) -> dict[str, str]:
    """Types of the columns of a base table; those to be read must have scalar types and must not be computed."""
    schema, table = _place(theirs)
    place = [_DATABASE, schema, table.lower()]
    listed = delivered.execute(
        "SELECT 1 FROM system.main.duckdb_tables() WHERE database_name = ? AND schema_name = ? AND lower(table_name) = ?", place
    ).fetchall()
    if not listed:
        for kind, query in _NO_TABLES.items():
            if delivered.execute(query, place).fetchall():
                raise DeliveryError(
                    f"{name}: {kind}, which is not run: write its rows into a table (CREATE TABLE ... AS), and name that table"
                )
        raise DeliveryError(f"{name}: missing table")
    described = delivered.execute(
        "SELECT column_name, data_type, is_generated FROM system.main.duckdb_columns()"
        " WHERE database_name = ? AND schema_name = ? AND lower(table_name) = ?",
        place,
    ).fetchall()
    require_columns([column for column, _, _ in described], columns, name)
    generated = {column for column, _, is_generated in described if is_generated}
    for ours, own in columns.items():
        if own in generated:
            raise DeliveryError(
                f"{name}: column {named(own, ours)} is generated, and nothing is computed here: write its values"
            )
    types = {column: kind for column, kind, _ in described}
    require_plain(types, columns, name)
    return types


def _select(theirs: str, columns: Mapping[str, str], types: Mapping[str, str]) -> str:
    """SELECT columns of a delivered table, by the SQL of their new names; what Arrow lacks a type for as text."""
    selected = ", ".join(
        f"{quoted_foreign(own)}{'::VARCHAR' if types[own].startswith(_AS_TEXT) else ''} AS {ours}"
        for ours, own in columns.items()
    )
    return f"SELECT {selected} FROM {'.'.join((_DATABASE, *map(quoted_foreign, _place(theirs))))}"


def _copy(delivered: duckdb.DuckDBPyConnection, select: str, connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """Write the rows of a SELECT on one connection into a temporary table of the other, keeping their order."""
    connection.register("rows_of_delivered_file", delivered.sql(select).to_arrow_reader(_ROWS_AT_A_TIME))
    try:
        connection.execute(f"CREATE TEMP TABLE {table} AS SELECT * FROM rows_of_delivered_file")
    finally:
        connection.unregister("rows_of_delivered_file")
