"""The kept rows of a release as a file: what later releases are compared with, in the restricted store (methods#meet)."""

from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq

from deid_assets.methods.releases.comparison import COLUMNS, ORDER
from deid_assets.store.tables import Table, connect, quoted

_TEXTS = ["quasi_identifier", "value", "label"]
_ROWS = 1 << 18


def parquet_of(kept: Table) -> bytes:
    """The kept rows of a table as Parquet, sorted; the same rows give the same bytes."""
    columns, order = (", ".join(map(quoted, names)) for names in (COLUMNS, ORDER))
    with connect(kept.file) as connection:
        rows = connection.sql(f"SELECT {columns} FROM {kept.sql} ORDER BY {order}")
        return parquet_of_sorted(rows.to_arrow_reader(_ROWS))


def parquet_of_sorted(kept: pa.RecordBatchReader) -> bytes:
    """Kept rows that come in their order, as Parquet; a group of rows for each batch."""
    file = BytesIO()  # of its bytes, no copy is made
    # Without the schema of Arrow, every reader finds text, not dictionaries.
    with (
        pq.ParquetWriter(file, kept.schema, compression="zstd", use_dictionary=_TEXTS, store_schema=False) as writer,
        ThreadPoolExecutor(1) as aside,
    ):
        # The next batch is made while one is compressed; no more are held in memory.
        written = aside.submit(lambda: None)
        for batch in kept:
            written.result()
            written = aside.submit(writer.write_batch, batch)
        written.result()
    return file.getvalue()
