"""Read the files of a delivery into temporary relations, as they were written: nothing is cast, nothing is dropped.

A row is known by its key: file number, row of the file and line of the row in one BIGINT (`ROW_BITS`, `LINE_BITS`).
Lines of a CSV file that are not rows (a cut last line, an unclosed quote) are kept apart in `rejected_lines`.

Values are bound and foreign column names of CSV files are turned into positions; where a foreign name must become SQL
text (Parquet, DuckDB) it goes through `quoted_foreign`. DuckDB's own messages quote the line that they complain about,
so they are never shown and never chained.
"""

import csv
import gzip
import io
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np

from deid_assets.errors import DeliveryError
from deid_assets.store import quoted

LINE_BITS = 6  # a row of a file may hold up to 63 claims (45 lines of an outpatient claim)
ROW_BITS = 35  # and a file up to 34 billion rows
_CHUNK = 1 << 24  # bytes counted at a time
_MISSING_SHOWN = 5

# What DuckDB calls a line that it cannot read -> the rule that the line breaks.
_LINE_RULES = {
    "MISSING COLUMNS": "too few fields",
    "TOO MANY COLUMNS": "too many fields",
    "UNQUOTED VALUE": "unclosed quote",
    "INVALID ENCODING": "not UTF-8",
    "LINE SIZE OVER MAXIMUM": "line too long",
}
LOST_LINE = "lost after an unclosed quote"


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


def stage_csv(staging: Staging, path: Path, table: str, source_table: str, columns: Columns, delimiter: str) -> None:
    """Read some columns of a CSV file as text into the temporary table `table`, beside `row_key`.

    Lines that are not rows go to `rejected_lines`. Blank fields are NULL.

    Raises
    ------
    DeliveryError
        If the file is missing, empty, unreadable, without rows or lacks a column.
    """
    name = staging.shown(path)
    staging.progress(f"reading {name}")
    path = _unpacked(staging, path, name)
    header = _header(path, name, delimiter)
    _require_columns(header, columns, name)
    selected = ", ".join(
        f"{_positions(header, theirs, ours, name)} AS {quoted(ours)}" for ours, theirs in columns.items()
    )
    number = staging.number(name, header_lines=1)
    types = ", ".join(f"'c{position}': 'VARCHAR'" for position in range(len(header)))
    scan = (
        "read_csv(?, auto_detect = false, header = true, delim = ?, quote = '\"', escape = '\"',"
        f" columns = {{{types}}}, store_rejects = true, rejects_table = 'reject_errors', rejects_scan = 'reject_scans')"
    )
    raw = quoted(f"{table}_text")
    try:
        arguments = [[str(path)], delimiter]
        staging.connection.execute(f"CREATE TEMP TABLE {raw} AS SELECT {selected} FROM {scan}", arguments)
        # The rows of a table written in one go are numbered in the order of the file.
        staging.connection.execute(
            f"CREATE TEMP VIEW {quoted(table)} AS SELECT {row_key(str(number), 'rowid + 1')} AS row_key, * FROM {raw}"
        )
        kept = _count(staging.connection, raw)
        rejected = _keep_rejected(staging.connection, source_table, number)
        _keep_lost(staging.connection, path, source_table, number, kept, rejected, scan, len(header), delimiter)
    except duckdb.Error:
        raise DeliveryError(f"{name}: unreadable file: not a CSV file in UTF-8, or damaged") from None
    if kept == 0 and rejected == 0:
        raise DeliveryError(f"{name}: no rows: the file has a header only")
    if not _ends_with_newline(path):
        staging.warnings.append(f"{name}: the last line has no line end: it may be cut")


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
        _require_file(path, name)
        staging.number(name)
        try:
            rows = connection.execute("SELECT sum(num_rows) FROM parquet_file_metadata(?)", [str(path)]).fetchall()
            described = connection.execute("SELECT * FROM read_parquet(?) LIMIT 0", [str(path)]).description
        except duckdb.Error:
            raise DeliveryError(f"{name}: unreadable file: not a Parquet file, or damaged") from None
        _require_columns([column[0] for column in described], columns, name)
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
    _require_file(path, file_name)
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
    _require_columns([row[0] for row in described], columns, name)
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
        rows = _count(connection, source)
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


def _count(connection: duckdb.DuckDBPyConnection, relation: str) -> int:
    return connection.execute(f"SELECT count(*) FROM {relation}").fetchall()[0][0]


def _require_file(path: Path, name: str) -> None:
    if not path.is_file():
        raise DeliveryError(f"{name}: missing file")
    try:
        size = path.stat().st_size
        path.open("rb").close()
    except OSError:
        raise DeliveryError(f"{name}: unreadable file: it may not be opened") from None
    if size == 0:
        raise DeliveryError(f"{name}: empty file")


def _require_columns(present: Iterable[str], columns: Columns, name: str) -> None:
    # Only the missing names are shown, never the present ones: the header of a file without one is a person's row.
    known, missing = set(present), []
    for ours, theirs in columns.items():
        for one in [theirs] if isinstance(theirs, str) else theirs:
            if one not in known:
                missing.append(one if one == ours else f"{one} (to be read as {ours})")
    if missing:
        more = f" and {len(missing) - _MISSING_SHOWN} more" if len(missing) > _MISSING_SHOWN else ""
        raise DeliveryError(f"{name}: missing column {', '.join(missing[:_MISSING_SHOWN])}{more}")


def _unpacked(staging: Staging, path: Path, name: str) -> Path:
    """Unpack a zip file that holds one CSV file; return any other file as it is."""
    _require_file(path, name)
    if path.suffix.lower() != ".zip":
        return path
    try:
        with zipfile.ZipFile(path) as archive:
            inside = [entry for entry in archive.infolist() if entry.filename.lower().endswith(".csv")]
            if len(inside) != 1:
                raise DeliveryError(f"{name}: holds {len(inside)} CSV files, and must hold one")
            # The name inside the archive is not trusted to be a path.
            unpacked = staging.folder / f"{len(staging.file_names)}" / path.with_suffix(".csv").name
            unpacked.parent.mkdir()
            with archive.open(inside[0]) as source, unpacked.open("wb") as target:
                shutil.copyfileobj(source, target, _CHUNK)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError):
        raise DeliveryError(f"{name}: unreadable file: not a zip file, damaged, or encrypted") from None
    _require_file(unpacked, name)
    return unpacked


def _open(path: Path) -> io.BufferedIOBase:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")


def _header(path: Path, name: str, delimiter: str) -> list[str]:
    """Column names of the first line."""
    try:
        with closing(_open(path)) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
            return next(csv.reader(text, delimiter=delimiter), [])
    except (UnicodeDecodeError, csv.Error, OSError, EOFError, zlib.error):
        raise DeliveryError(f"{name}: unreadable file: the first line is not a header in UTF-8") from None


def _positions(header: list[str], theirs: str | Sequence[str], ours: str, name: str) -> str:
    """SQL of one of their columns, or of a list of several, by position."""
    if not isinstance(theirs, str):
        return "[" + ", ".join(_positions(header, one, ours, name) for one in theirs) + "]"
    if header.count(theirs) > 1:
        raise DeliveryError(f"{name}: column {theirs} (to be read as {ours}) is there twice")
    return f"c{header.index(theirs)}"


def _keep_rejected(connection: duckdb.DuckDBPyConnection, source_table: str, number: int) -> int:
    """Move the last scan's rejected lines to `rejected_lines` and return how many there are."""
    rules = "map(" + repr(list(_LINE_RULES)) + ", " + repr(list(_LINE_RULES.values())) + ")"
    # One line may be rejected more than once; its first fault names it.
    connection.execute(
        f"""
        INSERT INTO rejected_lines
        SELECT ?, ?, line, row_number() OVER (ORDER BY line), rule, raw_row
        FROM (
            SELECT
                line,
                arg_min(coalesce({rules}[error_type::VARCHAR], 'unreadable line'), byte_position) AS rule,
                trim(any_value(csv_line), chr(10) || chr(13)) AS raw_row
            FROM reject_errors
            GROUP BY line
        )
        """,
        [source_table, number],
    )
    connection.execute("DROP TABLE reject_errors")
    connection.execute("DROP TABLE reject_scans")
    return connection.execute("SELECT count(*) FROM rejected_lines WHERE file_number = ?", [number]).fetchall()[0][0]


def _keep_lost(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    source_table: str,
    number: int,
    kept: int,
    rejected: int,
    scan: str,
    width: int,
    delimiter: str,
) -> None:
    """Account for lines that DuckDB passed over without a word: what an unclosed quote swallows.

    The lines of the file must be the header, the rows and the rejected lines. Where they are more, line breaks inside
    quoted values are counted by reading the file again; what then is unexplained was lost, and is rejected.
    """
    unexplained = _filled_lines(path) - 1 - kept - rejected
    if unexplained <= 0:
        return
    broken = " + ".join(
        rf"coalesce(len(regexp_extract_all(replace(c{position}, chr(13), ''), '\n+')), 0)" for position in range(width)
    )
    inside = connection.execute(f"SELECT coalesce(sum({broken}), 0)::BIGINT FROM {scan}", [[str(path)], delimiter])
    lost = unexplained - inside.fetchall()[0][0]
    connection.execute("DROP TABLE reject_errors")
    connection.execute("DROP TABLE reject_scans")
    if lost > 0:
        connection.execute(
            "INSERT INTO rejected_lines SELECT ?, ?, NULL, NULL, ?, NULL FROM range(?)",
            [source_table, number, LOST_LINE, lost],
        )


def _filled_lines(path: Path) -> int:
    """Number of lines that are not blank."""
    lines, last = 0, b"\n"
    with closing(_open(path)) as stream:
        while chunk := stream.read(_CHUNK):
            chunk = last + chunk.replace(b"\r", b"")
            ends = np.frombuffer(chunk, dtype=np.uint8) == ord("\n")
            lines += int(np.count_nonzero(ends[1:] & ~ends[:-1]))
            last = chunk[-1:]
    return lines + (last != b"\n")


def _ends_with_newline(path: Path) -> bool:
    if path.suffix.lower() == ".gz":
        return True  # the last byte of a packed file says nothing
    with path.open("rb") as stream:
        stream.seek(-1, io.SEEK_END)
        return stream.read(1) in b"\r\n"
