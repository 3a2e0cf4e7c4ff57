"""Read CSV files (plain, gzip or zip) so that every line is a row or is accounted for.

Lines that are not rows (a cut last line, an unclosed quote) are stored in the table `rejected_lines`. Column names are
converted to positions, so no text of the file or the policy becomes SQL.
"""

import csv
import glob
import gzip
import io
import lzma
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

import duckdb
import numpy as np

from deid_assets.errors import DeliveryError
from deid_assets.sources.files import Columns, IntakeState, SourceTable, count_rows, require_columns, require_once, row_key
from deid_assets.store.tables import quoted

_CHUNK = 1 << 24  # bytes read at a time
_HEADER_AT_MOST = 1 << 20  # characters of the first line

# A compressed file that expands by more is refused before it fills the disk. Claims as CSV shrink by 5 to 20.
_UNPACKED_AT_MOST = 1 << 39
_EXPANSION_AT_MOST = 200
DAMAGED_ARCHIVE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError)
"""What an archive raises that is damaged, encrypted, or packed in a way that cannot be read."""
_UNPACKED_UNJUDGED = 1 << 26  # a small file may expand by more

# DuckDB's error for a line that it cannot read -> the rule that the line breaks.
_LINE_RULES = {
    "MISSING COLUMNS": "too few fields",
    "TOO MANY COLUMNS": "too many fields",
    "UNQUOTED VALUE": "unclosed quote",
    "INVALID ENCODING": "not UTF-8",
    "LINE SIZE OVER MAXIMUM": "line too long",
}
LOST_LINE = "lost after an unclosed quote"


@dataclass(frozen=True)
class _Scan:
    """One CSV file, ready to be read as text with columns named c0, c1, ...."""

    path: Path
    width: int
    delimiter: str

    @property
    def sql(self) -> str:
        """The text after FROM, with `arguments` bound."""
        types = ", ".join(f"'c{position}': 'VARCHAR'" for position in range(self.width))
        return (
            "read_csv(?, auto_detect = false, compression = 'none', header = true, delim = ?, quote = '\"', escape = '\"',"
            f" columns = {{{types}}}, store_rejects = true,"
            " rejects_table = 'reject_errors', rejects_scan = 'reject_scans')"
        )

    @property
    def arguments(self) -> list[list[str] | str]:
        # The folder of the copy may have a name that reads as a pattern.
        return [[glob.escape(str(self.path.absolute()))], self.delimiter]


def stage_csv(staging: IntakeState, file: SourceTable, table: str, source_table: str, columns: Columns) -> None:
    """Create a temporary view with `row_key` over some columns of a CSV file, read as text.

    Lines that are not rows go to `rejected_lines`. Blank fields are NULL.

    Raises
    ------
    DeliveryError
        If the file is missing, empty, unreadable, has no rows or lacks a column.
    """
    connection = staging.connection
    name = staging.shown(file.path)
    path = _plain(staging, file.path, name)
    header = _header(path, name, file.delimiter)
    require_columns(header, columns, name)
    require_once(header, columns, name)
    selected = ", ".join(f"{_positions(header, theirs)} AS {quoted(ours)}" for ours, theirs in columns.items())
    number = staging.number(name, header_lines=1)
    scan = _Scan(path, len(header), file.delimiter)
    text = quoted(f"{table}_text")
    try:
        connection.execute(f"CREATE TEMP TABLE {text} AS SELECT {selected} FROM {scan.sql}", scan.arguments)
        # The rows of a table written in one statement are numbered in file order.
        key = row_key(str(number), "rowid + 1")
        connection.execute(f"CREATE TEMP VIEW {quoted(table)} AS SELECT {key} AS row_key, * FROM {text}")
        rows = count_rows(connection, text)
        rows += _keep_rejected(connection, source_table, number)
        rows += _keep_lost(connection, scan, source_table, number, rows)
    except duckdb.Error:
        raise DeliveryError(f"{name}: unreadable file: not a CSV file in UTF-8, or damaged") from None
    if rows == 0:
        raise DeliveryError(f"{name}: no rows: the file has only a header; deliver them, or leave the file out")
    if not _ends_with_newline(path):
        staging.warnings.append(f"{name}: the last line has no line end: the file may be cut off")


def csv_columns(staging: IntakeState, path: Path, delimiter: str) -> dict[str, str]:
    """Return the columns of a CSV file, all of them text.

    Raises
    ------
    DeliveryError
        If the file is missing, empty or unreadable.
    """
    name = staging.shown(path)
    return dict.fromkeys(_header(_plain(staging, path, name), name, delimiter), "VARCHAR")


class _Readable(Protocol):
    """An unpacked file, as far as it is used here."""

    def read(self, size: int, /) -> bytes: ...


def _plain(staging: IntakeState, path: Path, name: str) -> Path:
    """The CSV file itself: the copy of the delivered file, decompressed if it is a gzip or zip file."""
    copy = staging.receive(path)
    unpackers: dict[str, Callable[[Path, str], AbstractContextManager[_Readable]]] = {".gz": _open_gzip, ".zip": _open_zip}
    unpack = unpackers.get(path.suffix.lower())
    if unpack is None:
        return copy
    # The name inside an archive is not trusted as a path.
    unpacked = copy.with_name(f"{copy.name}_unpacked")
    if unpacked.exists():
        return unpacked
    at_most = min(_UNPACKED_AT_MOST, max(_UNPACKED_UNJUDGED, _EXPANSION_AT_MOST * copy.stat().st_size))
    try:
        with unpack(copy, name) as source, unpacked.open("xb") as target:
            while chunk := source.read(_CHUNK):
                at_most -= len(chunk)
                if at_most < 0:
                    raise DeliveryError(f"{name}: unreadable file: far larger when unpacked than a table would be")
                target.write(chunk)
    except (*DAMAGED_ARCHIVE, OSError):
        unpacked.unlink(missing_ok=True)
        raise DeliveryError(
            f"{name}: unreadable file: not a {path.suffix.lower()[1:]} file, damaged, encrypted, or too large for the disk"
        ) from None
    if unpacked.stat().st_size == 0:
        raise DeliveryError(f"{name}: empty file")
    return unpacked


def _open_gzip(path: Path, name: str) -> gzip.GzipFile:
    return gzip.open(path, "rb")


@contextmanager
def _open_zip(path: Path, name: str) -> Iterator[IO[bytes]]:
    """The one CSV file of a zip file."""
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            inside = PurePosixPath(entry.filename.replace("\\", "/"))
            if stat.S_ISLNK(entry.external_attr >> 16) or inside.is_absolute() or ".." in inside.parts:
                raise DeliveryError(f"{name}: contains a link, or a file that would be outside the folder: pack it again")
        tables = [entry for entry in archive.infolist() if entry.filename.lower().endswith(".csv")]
        if len(tables) != 1:
            told = "unpack it, and name the folder with its tables"
            raise DeliveryError(f"{name}: contains {len(tables)} CSV files, but must contain one: {told}")
        with archive.open(tables[0]) as source:
            yield source


def _header(path: Path, name: str, delimiter: str) -> list[str]:
    """Column names from the first line, whatever later lines contain."""
    try:
        # The wrapper decodes ahead: a byte that is not UTF-8 is kept as it is until the first line is known.
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
            # A file without line ends would be read whole.
            lines = iter(lambda: text.readline(_HEADER_AT_MOST), "")
            header = next(csv.reader(lines, delimiter=delimiter), [])
        "".join(header).encode()
        return header
    except (UnicodeEncodeError, csv.Error, OSError):
        raise DeliveryError(f"{name}: unreadable file: the first line is not a header in UTF-8") from None


def _positions(header: list[str], theirs: str | Sequence[str]) -> str:
    """SQL of one of their columns, or of a list of several, by position."""
    if not isinstance(theirs, str):
        return "[" + ", ".join(_positions(header, one) for one in theirs) + "]"
    return f"c{header.index(theirs)}"


def _keep_rejected(connection: duckdb.DuckDBPyConnection, source_table: str, number: int) -> int:
    """Move the last scan's rejected lines to `rejected_lines` and return how many there are."""
    rules = f"map({list(_LINE_RULES)!r}, {list(_LINE_RULES.values())!r})"
    # A line may be rejected more than once; its first error names it.
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
    _drop_rejects(connection)
    found = connection.execute("SELECT count(*) FROM rejected_lines WHERE file_number = ?", [number])
    return int(found.fetchall()[0][0])


def _keep_lost(connection: duckdb.DuckDBPyConnection, scan: _Scan, source_table: str, number: int, accounted: int) -> int:
    """Account for lines that an unclosed quote swallows and DuckDB skips silently; return how many.

    The lines of the file must be the header and the `accounted` rows and rejected lines. If there are more, the file is
    read again to count line breaks inside quoted values; any lines still unexplained were lost.
    """
    unexplained = _filled_lines(scan.path) - 1 - accounted
    if unexplained <= 0:
        return 0
    breaks = " + ".join(
        rf"coalesce(len(regexp_extract_all(replace(c{position}, chr(13), ''), '\n+')), 0)" for position in range(scan.width)
    )
    inside = connection.execute(f"SELECT coalesce(sum({breaks}), 0)::BIGINT FROM {scan.sql}", scan.arguments)
    lost = max(0, unexplained - int(inside.fetchall()[0][0]))
    _drop_rejects(connection)
    connection.execute(
        "INSERT INTO rejected_lines SELECT ?, ?, NULL, NULL, ?, NULL FROM range(?)",
        [source_table, number, LOST_LINE, lost],
    )
    return lost


def _drop_rejects(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("DROP TABLE reject_errors")
    connection.execute("DROP TABLE reject_scans")


def _filled_lines(path: Path) -> int:
    """Number of lines that are not blank."""
    lines, last = 0, b"\n"
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            chunk = last + chunk.replace(b"\r", b"")
            ends = np.frombuffer(chunk, dtype=np.uint8) == ord("\n")
            lines += int(np.count_nonzero(ends[1:] & ~ends[:-1]))
            last = chunk[-1:]
    return lines + (last != b"\n")


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as stream:
        stream.seek(-1, io.SEEK_END)
        return stream.read(1) in b"\r\n"
