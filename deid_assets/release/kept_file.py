"""The kept rows of a release as a file: what later releases are compared with, in the restricted store (methods#meet)."""

import tempfile
from pathlib import Path

from deid_assets.methods.releases.kept_rows import COLUMNS
from deid_assets.store.tables import Table, connect, quoted


def parquet_of(kept: Table) -> bytes:
    """The kept rows as Parquet; the same rows give the same bytes.

    The rows are sorted here only. The file is written beside the restricted store first, where only its owner can read it.
    """
    order = ", ".join(map(quoted, ("quasi_identifier", "tag", "service_day", "value")))
    columns = ", ".join(map(quoted, COLUMNS))
    with tempfile.TemporaryDirectory(dir=kept.file.parent, prefix=".kept-") as folder:
        file = Path(folder) / "rows.parquet"
        with connect(kept.file) as connection:
            connection.execute("SET preserve_insertion_order = true")
            connection.execute(
                f"COPY (SELECT {columns} FROM {kept.sql} ORDER BY {order}) TO ? (FORMAT parquet, COMPRESSION zstd)", [str(file)]
            )
        return file.read_bytes()
