"""A small table from a file, as text, in memory: what the readers of populations and cohorts begin with.

The file is copied and staged as every delivered file is, in a folder of the caller's choice that is removed afterwards.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pandas as pd

from deid_assets.errors import DeliveryError
from deid_assets.sources.any_format import columns_of_file, stage_file
from deid_assets.sources.files import Staging, count_rows, naming_damaged_files
from deid_assets.sources.received import Received, delivered_files
from deid_assets.store import durable
from deid_assets.store.tables import connect, quoted

_UNNAMED = "name the table of the DuckDB file"


def read_text_table(
    path: Path,
    columns: Mapping[str, str],
    *,
    table: str | None = None,
    delimiter: str = ",",
    folder: Path | None = None,
    what: str = "table",
) -> pd.DataFrame:
    """Read columns of a CSV (plain, gzip or zip), Parquet or DuckDB file as trimmed text, in file order.

    Parameters
    ----------
    columns
        Name in the result to column of the file.
    table
        Table of a DuckDB file.
    delimiter
        Of a CSV file.
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
    with _staged(path, folder, what) as staging:
        return _read(staging, path, columns, table, delimiter)


@contextmanager
def _staged(path: Path, folder: Path | None, what: str) -> Iterator[Staging]:
    """A staging area for one file; errors begin with `what`, and never quote a cell."""
    inside = None if folder is None else durable.owner_only(folder)
    try:
        with tempfile.TemporaryDirectory(dir=inside, prefix="reading-") as name:
            staged = Path(name)
            with connect(staged / "staging.duckdb") as connection:
                staging = Staging(connection, Received(delivered_files((path,)), staged), staged, lambda text: None)
                with naming_damaged_files(staging):
                    yield staging
    except DeliveryError as error:
        raise DeliveryError(f"{what}: {error}") from None
    except duckdb.Error as error:
        # DuckDB's messages may quote a cell.
        raise DeliveryError(f"{what}: {path.name} could not be read to its end ({type(error).__name__})") from None


def columns_of(
    path: Path, *, table: str | None = None, delimiter: str = ",", folder: Path | None = None, what: str = "table"
) -> dict[str, str]:
    """Return the columns of a file with their DuckDB types, in file order; parameters and errors as in `read_text_table`."""
    with _staged(path, folder, what) as staging:
        return columns_of_file(staging, path, table=table, delimiter=delimiter, unnamed=_UNNAMED)


def _read(staging: Staging, path: Path, columns: Mapping[str, str], table: str | None, delimiter: str) -> pd.DataFrame:
    stage_file(
        staging, path, "rows_read", "rows", columns,
        table=table, delimiter=delimiter, unnamed=_UNNAMED,
    )  # fmt: skip
    rejected = count_rows(staging.connection, "rejected_lines")
    if rejected:
        rules = staging.connection.execute("SELECT rule, count(*) FROM rejected_lines GROUP BY 1 ORDER BY 1").fetchall()
        raise DeliveryError(f"{path.name}: {'; '.join(f'{rows:,} lines: {rule}' for rule, rows in rules)}")
    text = ", ".join(f"{quoted(name)}::VARCHAR AS {quoted(name)}" for name in columns)
    # Sorted and trimmed here: for hundreds of columns, DuckDB takes seconds to plan it.
    frame = staging.connection.execute(f"SELECT row_key, {text} FROM rows_read").fetchdf()
    frame = frame.sort_values("row_key", ignore_index=True).drop(columns="row_key").astype("str")
    return frame.apply(lambda cells: cells.str.strip()).replace("", None)
