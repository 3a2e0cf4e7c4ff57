"""A file whose name says its format: Parquet or DuckDB by the ending, CSV otherwise."""

from collections.abc import Mapping
from pathlib import Path

from deid_assets.errors import DeliveryError
from deid_assets.sources.csv_files import csv_columns, stage_csv
from deid_assets.sources.duckdb_files import duckdb_columns, stage_duckdb
from deid_assets.sources.files import Staging, parquet_columns, stage_parquet

CSV = (".csv", ".txt", ".tsv", ".csv.gz", ".txt.gz", ".tsv.gz")
PARQUET, DUCKDB = (".parquet", ".pq"), (".duckdb", ".db", ".ddb")
"""How the names of files of each format end, in lower case."""


def stage_file(
    staging: Staging,
    path: Path,
    view: str,
    source_table: str,
    columns: Mapping[str, str],
    *,
    table: str | None,
    delimiter: str,
    unnamed: str,
) -> None:
    """Create a view of the file's columns under their names in `columns`.

    Parameters
    ----------
    source_table
        What rejected lines of a CSV file are said to belong to.
    table
        Table of a DuckDB file.
    delimiter
        Of a CSV file.
    unnamed
        What to do if the table of a DuckDB file is not named; the message names the file.

    Raises
    ------
    DeliveryError
        If the file cannot be read, lacks a column, or its table is not named.
    """
    if path.name.lower().endswith(PARQUET):
        stage_parquet(staging, path, view, columns)
    elif path.name.lower().endswith(DUCKDB):
        if table is None:
            raise DeliveryError(f"{path.name}: {unnamed}")
        stage_duckdb(staging, path, table, view, columns)
    else:
        stage_csv(staging, path, view, source_table, columns, delimiter)


def columns_of_file(staging: Staging, path: Path, *, table: str | None, delimiter: str, unnamed: str) -> dict[str, str]:
    """Return the columns of a file with their DuckDB types; parameters as in `stage_file`.

    Raises
    ------
    DeliveryError
        If the file cannot be read, or its table is not named.
    """
    if path.name.lower().endswith(PARQUET):
        return parquet_columns(staging, path)
    if not path.name.lower().endswith(DUCKDB):
        return csv_columns(staging, path, delimiter)
    if table is None:
        raise DeliveryError(f"{path.name}: {unnamed}")
    return duckdb_columns(staging, path, table)
