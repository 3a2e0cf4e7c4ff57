"""Read the files of a delivery into temporary relations, as they were written: nothing is cast, nothing is dropped.

A row is known by its key: file number, row of the file and line of the row in one BIGINT (`ROW_BITS`, `LINE_BITS`).

Values are bound; where a foreign name must become SQL text it goes through `quoted_foreign`. DuckDB's own messages
quote the line that they complain about, so they are never shown and never chained. CSV files are read in `csv_files`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from deid_assets.errors import DeliveryError
from deid_assets.store import quoted

LINE_BITS = 6  # a row of a file may hold up to 63 claims (45 lines of an outpatient claim)
ROW_BITS = 35  # and a file up to 34 billion rows
_MISSING_SHOWN = 5


def quoted_foreign(name: str) -> str:
    """Return a foreign column or table name, which may hold anything, as a DuckDB identifier.

    Examples
    --------
    >>> quoted_foreign('date of "service"')
    '"date of ""service""\"'
    """
    return '"' + name.replace('"', '""') + '"'


def row_key(file_number: str, row: str, line: str = "0") -> str:
    """SQL of a row's key from SQL of its file number, its row (from 1) and its line (from 0)."""
    return f"(({file_number})::BIGINT << {ROW_BITS + LINE_BITS}) | (({row})::BIGINT << {LINE_BITS}) | ({line})"


def key_parts(key: str) -> tuple[str, str]:
    """SQL of the file number and of the row from SQL of a row's key."""
    return f"({key} >> {ROW_BITS + LINE_BITS})", f"(({key} >> {LINE_BITS}) & {(1 << ROW_BITS) - 1})"


@dataclass
class Staging:
    """What one intake builds up on its connection before anything is judged; gone when the connection closes.

    Attributes
    ----------
    connection
        Open on the restricted store; everything here is TEMP.
    folder
        Owner-only folder for unpacked files, removed by the caller.
    progress
        Called with a short sentence per step.
    show_folders
        Whether a file is named together with its folder: several folders may hold files of one name.
    file_names
        The name of every file read, at its file number.
    warnings
        What the reader of the report should know about the delivery.
    """

    connection: duckdb.DuckDBPyConnection
    folder: Path
    progress: Callable[[str], None]
    show_folders: bool = False
    file_names: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _attached: dict[Path, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.connection.execute(
            "CREATE TEMP TABLE rejected_lines"
            " (source_table VARCHAR, file_number BIGINT, line BIGINT, rank BIGINT, rule VARCHAR, raw_row VARCHAR)"
        )
        self.connection.execute(
            "CREATE TEMP TABLE delivered_files (file_number BIGINT, name VARCHAR, header_lines INTEGER)"
        )

    def shown(self, path: Path) -> str:
        """The name of a file for people."""
        return f"{path.parent.name}/{path.name}" if self.show_folders else path.name

    def number(self, name: str, header_lines: int = 0) -> int:
        """Register a file and return its number."""
        number = len(self.file_names)
        self.file_names.append(name)
        self.connection.execute("INSERT INTO delivered_files VALUES (?, ?, ?)", [number, name, header_lines])
        return number

    def attach(self, path: Path) -> str:
        """Attach a DuckDB file, once however many of its tables are read, and return its quoted name."""
        if path not in self._attached:
            name = quoted(f"delivered_database_{len(self._attached)}")
            self.connection.execute(f"ATTACH ? AS {name} (READ_ONLY)", [str(path)])
            self._attached[path] = name
        return self._attached[path]


Columns = Mapping[str, str | Sequence[str]]  # name here -> their column, or their columns to be read as one list


def stage_parquet(staging: Staging, paths: Sequence[Path], view: str, columns: Mapping[str, str]) -> None:
    """Lay a temporary view with `row_key` over some columns of Parquet files of one schema.

    Raises
    ------
    DeliveryError
        If a file is missing, unreadable, without rows or lacks a column.
    """
    connection = staging.connection
    first = len(staging.file_names)
    for path in paths:
        name = staging.shown(path)
        staging.progress(f"reading {name}")
        require_file(path, name)
        staging.number(name)
        try:
            rows = connection.execute("SELECT sum(num_rows) FROM parquet_file_metadata(?)", [str(path)]).fetchall()
            described = connection.execute("SELECT * FROM read_parquet(?) LIMIT 0", [str(path)]).description
        except duckdb.Error:
            raise DeliveryError(f"{name}: unreadable file: not a Parquet file, or damaged") from None
        require_columns([column[0] for column in described], columns, name)
        if not rows[0][0]:
            raise DeliveryError(f"{name}: no rows")
    variable = quoted(f"{view}_files")
    connection.execute(f"SET VARIABLE {variable} = ?", [[str(path) for path in paths]])
    selected = ", ".join(f"{quoted_foreign(theirs)} AS {quoted(ours)}" for ours, theirs in columns.items())
    key = row_key(f"file_index + {first}", "file_row_number + 1")
    try:
        connection.execute(
            f"CREATE TEMP VIEW {quoted(view)} AS SELECT {key} AS row_key, {selected}"
            f" FROM read_parquet(getvariable('{view}_files'))"
        )
    except duckdb.Error:
        raise DeliveryError(f"{staging.shown(paths[0])} and {len(paths) - 1} other files: columns differ") from None


def stage_duckdb(staging: Staging, path: Path, theirs: str, view: str, columns: Mapping[str, str]) -> None:
    """Lay a temporary view with `row_key` over some columns of a table (`table` or `schema.table`) of a DuckDB file.

    Raises
    ------
    DeliveryError
        If the file or the table is missing, unreadable, without rows or lacks a column.
    """
    connection = staging.connection
    file_name = staging.shown(path)
    staging.progress(f"reading {file_name}")
    require_file(path, file_name)
    try:
        database = staging.attach(path)
    except duckdb.Error:
        raise DeliveryError(f"{file_name}: unreadable file: not a DuckDB file, or in use by another process") from None
    schema, _, table = theirs.rpartition(".")
    source = f"{database}.{quoted_foreign(schema or 'main')}.{quoted_foreign(table)}"
    name = f"{file_name}:{theirs}"
    try:
        described = connection.execute(f"DESCRIBE {source}").fetchall()
    except duckdb.Error:
        raise DeliveryError(f"{name}: missing table") from None
    require_columns([row[0] for row in described], columns, name)
    number = staging.number(name)
    selected = ", ".join(f"{quoted_foreign(column)} AS {quoted(ours)}" for ours, column in columns.items())
    try:
        # A view has no row numbers of its own, and may order its rows anew each time: it is read once.
        if not _has_rowid(connection, source):
            connection.execute(f"CREATE TEMP TABLE {quoted(f'{view}_rows')} AS SELECT {selected} FROM {source}")
            source, selected = quoted(f"{view}_rows"), "*"
        connection.execute(
            f"CREATE TEMP VIEW {quoted(view)} AS"
            f" SELECT {row_key(str(number), 'rowid + 1')} AS row_key, {selected} FROM {source}"
        )
        rows = count_rows(connection, source)
    except duckdb.Error:
        raise DeliveryError(f"{name}: unreadable table") from None
    if rows == 0:
        raise DeliveryError(f"{name}: no rows")


def _has_rowid(connection: duckdb.DuckDBPyConnection, source: str) -> bool:
    try:
        connection.execute(f"SELECT rowid FROM {source} LIMIT 0").fetchall()
    except duckdb.Error:
        return False
    return True


def count_rows(connection: duckdb.DuckDBPyConnection, relation: str) -> int:
    """Rows of a relation, given as SQL."""
    return connection.execute(f"SELECT count(*) FROM {relation}").fetchall()[0][0]


def require_file(path: Path, name: str) -> None:
    """Raise DeliveryError unless the file is there, may be opened and holds something."""
    if not path.is_file():
        raise DeliveryError(f"{name}: missing file")
    try:
        size = path.stat().st_size
        path.open("rb").close()
    except OSError:
        raise DeliveryError(f"{name}: unreadable file: it may not be opened") from None
    if size == 0:
        raise DeliveryError(f"{name}: empty file")


def require_columns(present: Iterable[str], columns: Columns, name: str) -> None:
    """Raise DeliveryError unless all columns that are to be read are present."""
    # Only the missing names are shown, never the present ones: the header of a file without one is a person's row.
    known, missing = set(present), []
    for ours, theirs in columns.items():
        for one in [theirs] if isinstance(theirs, str) else theirs:
            if one not in known:
                missing.append(one if one == ours else f"{one} (to be read as {ours})")
    if missing:
        more = f" and {len(missing) - _MISSING_SHOWN} more" if len(missing) > _MISSING_SHOWN else ""
        raise DeliveryError(f"{name}: missing column {', '.join(missing[:_MISSING_SHOWN])}{more}")
