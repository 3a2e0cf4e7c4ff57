"""The kept rows of a release as a file: what later releases are compared with, in the restricted store (methods#meet)."""

import tempfile
from pathlib import Path

from deid_assets.methods.releases.comparison import COLUMNS, ORDER
from deid_assets.store.tables import Table, connect, quoted


def parquet_of(kept: Table) -> bytes:
    """The kept rows as Parquet, sorted; the same rows give the same bytes."""
    return parquet_of_sorted(kept, f"SELECT * FROM {kept.sql} ORDER BY {', '.join(map(quoted, ORDER))}")


def parquet_of_sorted(beside: Table, kept: str) -> bytes:
    """Kept rows that a SELECT returns in their order, as Parquet.

    The file is written beside the restricted store first, where only its owner can read it.

    Parameters
    ----------
    beside
        A table of the same store.
    """
    columns = ", ".join(map(quoted, COLUMNS))
    with tempfile.TemporaryDirectory(dir=beside.file.parent, prefix=".kept-") as folder:
        file = Path(folder) / "rows.parquet"
        with connect(beside.file) as connection:
            connection.execute("SET preserve_insertion_order = true")
            connection.execute(f"COPY (SELECT {columns} FROM ({kept})) TO ? (FORMAT parquet, COMPRESSION zstd)", [str(file)])
        return file.read_bytes()
