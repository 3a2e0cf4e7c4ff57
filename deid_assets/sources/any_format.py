"""A file whose name says its format: Parquet or DuckDB by the ending, CSV otherwise."""

from collections.abc import Mapping
from pathlib import Path

from deid_assets.errors import DeliveryError
from deid_assets.sources.csv_files import stage_csv
from deid_assets.sources.duckdb_files import stage_duckdb
from deid_assets.sources.files import Staging, stage_parquet


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
    suffix = path.name.lower()
    if suffix.endswith((".parquet", ".pq")):
        stage_parquet(staging, path, view, columns)
    elif suffix.endswith((".duckdb", ".db", ".ddb")):
        if table is None:
            raise DeliveryError(f"{path.name}: {unnamed}")
        stage_duckdb(staging, path, table, view, columns)
    else:
        stage_csv(staging, path, view, source_table, columns, delimiter)
