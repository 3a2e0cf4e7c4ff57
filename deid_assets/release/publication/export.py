"""Tables as files that are byte for byte the same for the same rows, and read back before use."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb

from deid_assets.errors import ReleaseError
from deid_assets.store.digests import as_query, column_types, rows_digest
from deid_assets.store.tables import Query, Table, quoted

FORMATS = ("csv", "parquet")
_ROW_GROUP = 122_880  # DuckDB's own, stated so that a new default does not change published bytes


def write_ordered(
    connection: duckdb.DuckDBPyConnection, content: str | Query | Table, path: Path, order_by: Sequence[str] = ()
) -> None:
    """Write a table as CSV or Parquet, depending on the suffix of `path`.

    Rows are ordered by `order_by`, then by all other columns, so that the bytes depend neither on the storage order of
    the rows nor on the number of threads. They do depend on DuckDB's version, which a Parquet file names. In CSV a
    missing value is blank and an empty text is `""`.

    Raises
    ------
    ReleaseError
        If the suffix is neither .csv nor .parquet.
    """
    query = as_query(content)
    columns = dict.fromkeys([*order_by, *column_types(connection, content)])
    order = ", ".join(f"{quoted(column)} ASC NULLS FIRST" for column in columns)
    connection.execute("SET preserve_insertion_order = true")
    ordered = connection.sql(f"SELECT * FROM ({query.sql}) AS released ORDER BY {order}", params=list(query.parameters) or None)
    if path.suffix == ".parquet":
        ordered.write_parquet(str(path), compression="zstd", row_group_size=_ROW_GROUP)
    elif path.suffix == ".csv":
        ordered.write_csv(str(path), header=True, sep=",", quotechar='"', escapechar='"', na_rep="")
    else:
        raise ReleaseError(f"tables are released as csv or parquet, not as {path.suffix}")


def write_both(
    connection: duckdb.DuckDBPyConnection, content: str | Query | Table, folder: Path, name: str, order_by: Sequence[str] = ()
) -> None:
    """Write a table as <name>.csv, and the rows of that file as <name>.parquet.

    DuckDB marks a Parquet column as required if its source's statistics have no missing value, and a source may contain
    rows that are not released. A CSV file has no statistics, so the output depends on the released rows only.
    """
    csv = folder / f"{name}.csv"
    write_ordered(connection, content, csv, order_by)
    write_ordered(connection, reader(csv, column_types(connection, content)), csv.with_suffix(".parquet"), order_by)


def reader(path: Path, columns: Mapping[str, str]) -> Query:
    """A SELECT that reads a file of `write_ordered`: CSV with the given types, Parquet with its own.

    Parameters
    ----------
    columns
        Column names and DuckDB types of the table that was written.
    """
    if path.suffix == ".parquet":
        return Query("SELECT * FROM read_parquet(?)", (str(path),))
    return Query(
        "SELECT * FROM read_csv(?, columns = ?, header = true, auto_detect = false, delim = ',', quote = '\"', "
        "escape = '\"', nullstr = '', allow_quoted_nulls = false)",
        (str(path), dict(columns)),
    )


def read_back(connection: duckdb.DuckDBPyConnection, path: Path, columns: Mapping[str, str], digest: str) -> int:
    """Compare a written file with its source table, and return its number of rows.

    Parameters
    ----------
    columns, digest
        Columns and `rows_digest` of the table.

    Raises
    ------
    ReleaseError
        If they differ, for example because the format does not support a type (HUGEINT becomes DOUBLE in Parquet).
    """
    read = reader(path, columns)
    found = column_types(connection, read)
    changed = [name for name, kind in columns.items() if found.get(name) != kind]
    if changed or rows_digest(connection, read) != digest:
        hint = f": cast {', '.join(changed)} to a type that the format preserves" if changed else ""
        raise ReleaseError(f"{path.name} does not read back as the table that was written{hint}")
    return connection.execute(f"SELECT count(*) FROM ({read.sql}) AS written", list(read.parameters)).fetchall()[0][0]
