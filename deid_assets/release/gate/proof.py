"""Proof that the staged files contain exactly the rows that were judged.

The judged rows are written a second time, and the bytes must equal those of the staged files. So no file can contain
anything that no judged row has: an appended row, metadata, statistics or dictionary pages of other rows, or an
informative row order. Then a second library reads CSV and Parquet as recipients do, and compares them value by value.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

import duckdb
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as arrow_parquet

from deid_assets.assessments.evidence import Refusal
from deid_assets.errors import ReleaseError
from deid_assets.methods.candidate.spreadsheet_text import broken_rules_sql
from deid_assets.release.publication.export import FORMATS, write_both
from deid_assets.store.digests import column_types, opened_digest, rows_digest
from deid_assets.store.tables import Table, connect, quoted

_ROWS = 65_536  # compared at a time
_FEW = 11


@dataclass(frozen=True)
class StagedTable:
    """A table of a release, and the rows that were judged for it.

    Parameters
    ----------
    name
        Name of its files: data/<name>.csv and data/<name>.parquet.
    columns
        Names and DuckDB types, in order.
    order_by
        Columns by which its rows are ordered first.
    digests
        Form to the SHA-256 in the manifest.
    rows
        The `rows_digest` in the manifest.
    judged
        The CSV file, read back; None until it has been read.
    """

    name: str
    columns: Mapping[str, str]
    order_by: tuple[str, ...]
    digests: Mapping[str, str]
    rows: str
    judged: Table | None = None


def table_refusals(data: Path, again: Path, table: StagedTable) -> list[Refusal]:
    """Return what is wrong with the two files of a table; no file is trusted, whoever wrote it.

    Parameters
    ----------
    data
        The folder of the staged files.
    again
        An empty folder for the second copy.
    table
        The staged table.

    Returns
    -------
    list of Refusal
        Rules `unjudged_file`, `changed_file`, `unequal_formats` and `unsafe_text`; empty if nothing is wrong.
    """
    if table.judged is None:
        return [_refusal("unjudged_file", f"data/{table.name}.csv", "was staged, but was not read back and judged")]
    try:
        with connect(table.judged.file) as connection:
            found = _unsafe_texts(connection, table.name, table.judged)
            if rows_digest(connection, table.judged) != table.rows:
                found.append(_refusal("changed_file", f"data/{table.name}.csv", "does not contain the rows that were staged"))
            write_both(connection, table.judged, again, table.name, table.order_by)
        return _file_refusals(data, again, table) + found
    except (duckdb.Error, pa.ArrowException, OSError, ReleaseError) as error:
        # Messages of these libraries may quote a line of the file.
        kind = type(error).__name__
    return [_refusal("changed_file", f"data/{table.name}.csv", f"or its Parquet file cannot be read back ({kind})")]


def _file_refusals(data: Path, again: Path, table: StagedTable) -> list[Refusal]:
    with opened_file(data / f"{table.name}.csv") as csv, opened_file(data / f"{table.name}.parquet") as parquet:
        found = []
        for form, file in zip(FORMATS, (csv, parquet), strict=True):
            path, digest = f"data/{table.name}.{form}", opened_digest(file)
            if digest != table.digests[form]:
                found.append(_refusal("changed_file", path, "was changed after it was written"))
            with opened_file(again / f"{table.name}.{form}") as second:
                if opened_digest(second) != digest:
                    text = (
                        "is not what the judged rows give, byte for byte: rows, their order, or something next to them differ"
                    )
                    found.append(_refusal("changed_file", path, text))
        if not found and not same_rows(csv, parquet):
            text = "and its Parquet file do not contain equal values of equal types in the same order"
            found.append(_refusal("unequal_formats", f"data/{table.name}.csv", text))
    return found


def opened_file(path: Path) -> BufferedReader:
    """Open a regular file; never follows a link or blocks on a pipe.

    Raises
    ------
    ReleaseError
        If it is not a regular file.
    OSError
        If it cannot be opened.
    """
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ReleaseError(f"{path.name} is not a regular file")
    return file


def same_rows(csv: BinaryIO, parquet: BinaryIO) -> bool:
    """Whether a CSV and a Parquet file contain the same columns and rows, in order, as pyarrow reads them.

    A blank in the CSV file is a missing value; `""` is an empty text.
    """
    csv.seek(0)
    stored = arrow_parquet.ParquetFile(parquet)
    types = {column.name: column.type for column in stored.schema_arrow}
    if len(types) != len(stored.schema_arrow) or stored.metadata.metadata:
        return False
    texts = arrow_csv.open_csv(
        csv,
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=arrow_csv.ConvertOptions(
            column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    if texts.schema.names != list(types) or texts.schema.types != list(types.values()):
        return False
    return _equal(_filled(texts), _filled(stored.iter_batches(_ROWS)))


def _filled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch for batch in batches if len(batch))


def _equal(left: Iterator[pa.RecordBatch], right: Iterator[pa.RecordBatch]) -> bool:
    """Whether two streams contain the same rows in the same order, regardless of how they are split into batches."""
    one, other = next(left, None), next(right, None)
    while one is not None and other is not None:
        rows = min(len(one), len(other))
        if not all(a.equals(b) for a, b in zip(one[:rows].columns, other[:rows].columns, strict=True)):
            return False
        one = one[rows:] if len(one) > rows else next(left, None)
        other = other[rows:] if len(other) > rows else next(right, None)
    return one is None and other is None


def _unsafe_texts(connection: duckdb.DuckDBPyConnection, table: str, judged: Table) -> list[Refusal]:
    """Text that another program would execute or hide, by column and rule."""
    found = []
    for name, kind in column_types(connection, judged).items():
        if kind != "VARCHAR":
            continue
        rules = broken_rules_sql("text")
        (counts,) = connection.execute(
            f"""SELECT {", ".join(f"coalesce(sum(cells) FILTER ({broken}), 0)" for broken in rules.values())}
                FROM (SELECT {quoted(name)} AS text, count(*) AS cells FROM {judged.sql} GROUP BY ALL)"""
        ).fetchall()
        for rule, cells in zip(rules, counts, strict=True):
            if cells:
                text = (
                    f"column {name}, {_about(int(cells))}: {rule}; "
                    "change the texts in the delivery, or the labels in the policy"
                )
                found.append(_refusal("unsafe_text", f"data/{table}", text, float(cells)))
    return found


_CELLS = "cells of people"  # not those of a published table of counts, whose number anybody may know


def _about(cells: int) -> str:
    """A number of cells, as precisely as it may be disclosed: each cell belongs to a person.

    Examples
    --------
    >>> _about(1), _about(14), _about(12_345)
    ('fewer than 11 cells', 'about 10 cells', 'about 12,000 cells')
    """
    return f"fewer than {_FEW} cells" if cells < _FEW else f"about {round(cells, 2 - max(len(str(cells)), 3)):,} cells"


def _refusal(rule: str, path: str, text: str, cells: float | None = None) -> Refusal:
    return Refusal(
        rule, path, cells, None if cells is None else 0.0, f"{path} {text}" if cells is None else f"{path}: {text}", _CELLS
    )


def oddities(folder: Path) -> list[str]:
    """Return what files and folders have besides content: a second name, another owner, extended attributes.

    A hard link elsewhere could change a file after it was signed. Attributes are copied with a file, and no digest
    covers them.

    Returns
    -------
    list of str
        Path below the folder, and what was found.
    """
    found = []
    for path in sorted([folder, *folder.rglob("*")]):
        status, name = path.lstat(), path.relative_to(folder).as_posix()
        if stat.S_ISREG(status.st_mode) and status.st_nlink != 1:
            found.append(f"{name} has {status.st_nlink} names (hard links)")
        if status.st_uid != os.geteuid():
            found.append(f"{name} belongs to another user")
        # Others, such as access control attributes, belong to the file system.
        if any(attribute.startswith("user.") for attribute in os.listxattr(path, follow_symlinks=False)):
            found.append(f"{name} has extended attributes")
    return found
