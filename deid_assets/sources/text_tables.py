"""A file whose name says its format: Parquet or DuckDB by the ending, CSV otherwise.

A small table from a file, as text, in memory: what the readers of populations and cohorts begin with.

The file is copied and staged as every delivered file is, in a folder of the caller's choice that is removed afterwards.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from deid_assets.errors import DeliveryError, how_many
from deid_assets.sources.csv_files import csv_columns, stage_csv
from deid_assets.sources.duckdb_files import duckdb_columns, stage_duckdb
from deid_assets.sources.files import (
    IntakeState,
    SourceTable,
    count_rows,
    naming_damaged_files,
    parquet_columns,
    stage_parquet,
    staged,
)
from deid_assets.sources.received import delivered_files
from deid_assets.store import durable
from deid_assets.store.tables import quoted

CSV = (".csv", ".txt", ".tsv", ".csv.gz", ".txt.gz", ".tsv.gz")
PARQUET, DUCKDB = (".parquet", ".pq"), (".duckdb", ".db", ".ddb")
"""How the names of files of each format end, in lower case."""
BESIDE_FILES = "._"
"""How the names of files begin that macOS writes beside others: they hold attributes of these, and no table."""


def stage_file(staging: IntakeState, file: SourceTable, view: str, source_table: str, columns: Mapping[str, str]) -> None:
    """Create a view of the file's columns under their names in `columns`.

    Parameters
    ----------
    source_table
        What rejected lines of a CSV file are said to belong to.

    Raises
    ------
    DeliveryError
        If the file cannot be read, lacks a column, or its table is not named.
    """
    if file.path.name.lower().endswith(PARQUET):
        stage_parquet(staging, file.path, view, columns)
    elif file.path.name.lower().endswith(DUCKDB):
        stage_duckdb(staging, file.path, _named(staging, file), view, columns)
    else:
        stage_csv(staging, file, view, source_table, columns)


def _named(staging: IntakeState, file: SourceTable) -> str:
    if file.table is None:
        raise DeliveryError(f"{staging.shown(file.path)}: {file.unnamed}")
    return file.table


def columns_of_file(staging: IntakeState, file: SourceTable) -> dict[str, str]:
    """Return the columns of a file with their DuckDB types.

    Raises
    ------
    DeliveryError
        If the file cannot be read, or its table is not named.
    """
    if file.path.name.lower().endswith(PARQUET):
        return parquet_columns(staging, file.path)
    if not file.path.name.lower().endswith(DUCKDB):
        return csv_columns(staging, file.path, file.delimiter)
    return duckdb_columns(staging, file.path, _named(staging, file))


def read_text_table(
    file: SourceTable, columns: Mapping[str, str], folder: Path | None = None, what: str = "table"
) -> pd.DataFrame:
    """Read columns of a CSV (plain, gzip or zip), Parquet or DuckDB file as trimmed text, in file order.

    Parameters
    ----------
    columns
        Name in the result to column of the file.
    folder
        Where the copies lie while the file is read: for rows of persons, in the restricted store. The system's folder for
        temporary files if None.
    what
        How messages begin.

    Returns
    -------
    pandas.DataFrame
        The columns as text; missing where the cell is empty.

    Raises
    ------
    DeliveryError
        If the file is missing, empty, unreadable, has no rows or lines that are not rows, or lacks a column.
    """
    with _staged(file.path, folder, what) as staging:
        stage_file(staging, file, "rows_read", "rows", columns)
        if count_rows(staging.connection, "rejected_lines"):
            rules = staging.connection.execute("SELECT rule, count(*) FROM rejected_lines GROUP BY 1 ORDER BY 1").fetchall()
            listed = "; ".join(f"{how_many(rows, 'line')}: {rule}" for rule, rows in rules)
            raise DeliveryError(f"{file.path.name}: {listed}")
        text = ", ".join(f"{quoted(name)}::VARCHAR AS {quoted(name)}" for name in columns)
        # Sorted and trimmed here: for hundreds of columns, DuckDB takes seconds to plan it.
        frame = staging.connection.execute(f"SELECT row_key, {text} FROM rows_read").fetchdf()
        frame = frame.sort_values("row_key", ignore_index=True).drop(columns="row_key").astype("str")
        return frame.apply(lambda cells: cells.str.strip()).replace("", None)


def text_columns(file: SourceTable, folder: Path | None = None, what: str = "table") -> dict[str, str]:
    """Return the columns of a file with their DuckDB types, in file order; parameters and errors as in `read_text_table`."""
    with _staged(file.path, folder, what) as staging:
        return columns_of_file(staging, file)


@contextmanager
def _staged(path: Path, folder: Path | None, what: str) -> Iterator[IntakeState]:
    """A staging area for one file; errors begin with `what`, and never quote a cell."""
    inside = None if folder is None else durable.owner_only(folder)
    try:
        with (
            tempfile.TemporaryDirectory(dir=inside, prefix="reading-") as name,
            staged(Path(name) / "staging.duckdb", lambda: delivered_files((path,)), path.name) as staging,
            naming_damaged_files(staging),
        ):
            yield staging
    except DeliveryError as error:
        raise DeliveryError(f"{what}: {error}") from None
