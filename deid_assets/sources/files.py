"""Read the files of a delivery into temporary relations, as written: nothing is cast, nothing is dropped.

A row is identified by its key: file number, row of the file and line of the row in one BIGINT (`ROW_BITS`,
`LINE_BITS`).

Values are bound; if a foreign name must become SQL text, it is escaped by `quoted_foreign`. DuckDB's own messages quote
the offending line, so they are never shown and never chained. `csv_files` reads CSV files, `duckdb_files` reads DuckDB
files. All read the copies that `received` makes.
"""

import glob
import os
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pandas as pd

from deid_assets.errors import DeliveryError
from deid_assets.sources.derivations import RAW
from deid_assets.sources.received import DeliveredFile, Received
from deid_assets.store import durable
from deid_assets.store.tables import connect, quoted

LINE_BITS = 6  # a row of a file may hold up to 63 claims (45 lines of an outpatient claim)
ROW_BITS = 35  # and a file up to 34 billion rows
_MISSING_SHOWN = 5
_INTEGERS = (
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
)  # fmt: skip
# Allowed types of a cell. Bytes, lists and structures are excluded because their text form is not defined.
_PLAIN = ("VARCHAR", "ENUM", "UUID", "BOOLEAN", *_INTEGERS, "DECIMAL", "FLOAT", "DOUBLE", "DATE", "TIME", '"NULL"')


def quoted_foreign(name: str) -> str:
    """Return a foreign column or table name, which may contain any text, as a DuckDB identifier.

    Examples
    --------
    >>> quoted_foreign('the "date" of service')
    '"the ""date"" of service"'
    """
    return '"' + name.replace('"', '""') + '"'


UNSEEN = "identifier with a character that is not seen, such as a tab, or with an accent that is a character of its own"
_OTHER_BLANKS = r"\x{A0}\x{1680}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}"


def is_unseen(identifier: str) -> str:
    """SQL that is true for an identifier of which another form looks the same: with the other, it would be another person.

    It has a control or zero-width character or a blank that is no space, or a letter and its accent are two characters.
    """
    unseen = rf"'[\pC\p{{Zl}}\p{{Zp}}{_OTHER_BLANKS}]'"
    return f"(regexp_matches({identifier}, {unseen}) OR {identifier} <> nfc_normalize({identifier}))"


def are_unseen(identifiers: pd.Series) -> pd.Series:
    """Whether each of some identifiers, all texts, `is_unseen`; also if its characters are none that Unicode knows."""
    return identifiers.map(lambda one: not (one.isprintable() and unicodedata.is_normalized("NFC", one))).astype(bool)


def row_key(file_number: str, row: str) -> str:
    """SQL of a row's key from SQL of its file number and its row (from 1); a line's number (from 0) is added to it."""
    return f"(({file_number})::BIGINT << {ROW_BITS + LINE_BITS}) | (({row})::BIGINT << {LINE_BITS})"


def key_parts(key: str) -> tuple[str, str]:
    """SQL of the file number and of the row from SQL of a row's key."""
    return f"({key} >> {ROW_BITS + LINE_BITS})", f"(({key} >> {LINE_BITS}) & {(1 << ROW_BITS) - 1})"


@dataclass
class IntakeState:
    """The state of one intake on its connection before anything is judged; lost when the connection closes.

    Attributes
    ----------
    connection
        Open on the restricted store; everything here is TEMP.
    received
        The files of the delivery.
    folder
        Owner-only folder for unpacked files, removed by the caller.
    progress
        Called with a short sentence per step.
    show_folders
        Whether to show a file's folder with its name: several folders may contain files of one name.
    file_names
        The name of every file read, at its file number.
    warnings
        What the reader of the report should know about the delivery.
    """

    connection: duckdb.DuckDBPyConnection
    received: Received
    progress: Callable[[str], None]
    show_folders: bool = False
    file_names: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _lazily_read: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.connection.execute(
            "CREATE TEMP TABLE rejected_lines"
            " (source_table VARCHAR, file_number BIGINT, line BIGINT, rank BIGINT, rule VARCHAR, raw_row VARCHAR)"
        )
        self.connection.execute("CREATE TEMP TABLE delivered_files (file_number BIGINT, name VARCHAR, header_lines INTEGER)")

    def shown(self, path: Path) -> str:
        """The displayed name of a file."""
        return f"{path.parent.name}/{path.name}" if self.show_folders else path.name

    def number(self, name: str, header_lines: int = 0) -> int:
        """Register a file and return its number."""
        number = len(self.file_names)
        self.file_names.append(name)
        self.connection.execute("INSERT INTO delivered_files VALUES (?, ?, ?)", [number, name, header_lines])
        return number

    def receive(self, path: Path) -> Path:
        """Copy a delivered file and return the copy.

        Raises
        ------
        DeliveryError
            If the file is missing, empty or unreadable.
        """
        name = self.shown(path)
        self.progress(f"reading {name}")
        if path not in self.received:
            raise DeliveryError(f"{name}: missing file")
        copy = self.received.copy(path)
        if copy.stat().st_size == 0:
            raise DeliveryError(f"{name}: empty file")
        return copy

    def read_later(self, name: str, view: str) -> None:
        """Record that a file is read through a view, so that an error may occur long after the view was created."""
        self._lazily_read[view] = name

    def damaged_file(self) -> str | None:
        """The name of the first file that cannot be read to its end through its view; None if all can."""
        for view, name in self._lazily_read.items():
            try:
                # A plain count would be taken from the footer.
                self.connection.execute(f"SELECT max(hash(COLUMNS(*))) FROM {quoted(view)}").fetchall()
            except duckdb.Error:
                return name
        return None


@dataclass(frozen=True)
class SourceTable:
    """A table of a delivery.

    Parameters
    ----------
    path
        Its file.
    table
        Table of a DuckDB file.
    delimiter
        Of a CSV file.
    unnamed
        What to do if the table of a DuckDB file is not named; the message names the file.
    """

    path: Path
    table: str | None = None
    delimiter: str = ","
    unnamed: str = "name the table of the DuckDB file"


OURS = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)
"""Errors in our own SQL, which must not be attributed to a delivery whose columns are known."""


@contextmanager
def staged(
    store: Path,
    files: Callable[[], Sequence[DeliveredFile]],
    what: str,
    why: str = "",
    progress: Callable[[str], None] | None = None,
    ours: tuple[type[duckdb.Error], ...] = (),
) -> Iterator[IntakeState]:
    """Read files beside a store that only its owner can read; errors of DuckDB but `ours` say of `what` they are, and `why`."""
    folder = durable.owner_only(store.parent)
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix="unpacked-") as unpacked, connect(store) as connection:
            received = Received(files(), Path(unpacked))
            yield IntakeState(connection, received, progress or (lambda text: None))
    except ours:
        raise
    except duckdb.Error as error:
        # DuckDB's messages may quote a cell.
        raise DeliveryError(f"{what} could not be read to its end ({type(error).__name__}){why}") from None
    finally:
        if store.exists():
            os.chmod(store, 0o600)


@contextmanager
def replacing(connection: duckdb.DuckDBPyConnection, schema: str) -> Iterator[None]:
    """Replace tables of a schema in one transaction."""
    connection.execute("BEGIN")
    try:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
        yield
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


Columns = Mapping[str, str | Sequence[str]]  # name here -> their column, or their columns to be read as one list


def stage_parquet(staging: IntakeState, path: Path, view: str, columns: Mapping[str, str]) -> None:
    """Create a temporary view with `row_key` over some columns of a Parquet file.

    Raises
    ------
    DeliveryError
        If the file is missing, empty, unreadable, has no rows or lacks a column, or if a column is not of a scalar
        type.
    """
    connection = staging.connection
    name = staging.shown(path)
    # The name of the copy's folder may look like a pattern.
    copy = glob.escape(str(staging.receive(path).absolute()))
    number = staging.number(name)
    try:
        schema = connection.execute("SELECT name, num_children FROM parquet_schema(?)", [copy]).fetchall()
        rows = connection.execute("SELECT sum(num_rows) FROM parquet_file_metadata(?)", [copy]).fetchall()[0][0]
        described = connection.execute(f"DESCRIBE SELECT * FROM {_PARQUET}", [copy]).fetchall()
    except duckdb.Error:
        raise DeliveryError(f"{name}: unreadable file: not a Parquet file, damaged or encrypted") from None
    # The reader renames a duplicate column.
    present = list(_top_level(schema))
    require_columns(present, columns, name)
    require_once(present, columns, name)
    types = {row[0]: row[1] for row in described}
    _require_own_name(types, columns, name)
    require_plain(types, columns, name)
    if not rows:
        raise DeliveryError(f"{name}: no rows; deliver them, or leave the file out")
    if any(column.lower() == "file_row_number" for column in present):
        raise DeliveryError(
            f"{name}: column file_row_number has the name that is used for the row's number: rename or remove it"
        )
    selected = ", ".join(f"{quoted_foreign(theirs)} AS {quoted(ours)}" for ours, theirs in columns.items())
    variable = f"{view}_file"
    scan = _PARQUET.replace("?", f"getvariable('{variable}')")
    try:
        # A view cannot have parameters, but may read a variable.
        connection.execute(f"SET VARIABLE {quoted(variable)} = ?", [copy])
        connection.execute(
            f"CREATE TEMP VIEW {quoted(view)} AS SELECT {row_key(str(number), 'file_row_number + 1')} AS row_key,"
            f" {selected} FROM {scan}"
        )
    except duckdb.Error:
        raise DeliveryError(f"{name}: unreadable file: not a Parquet file, or damaged") from None
    staging.read_later(name, view)


# Folders above the copy add no columns.
_PARQUET = "read_parquet(?, hive_partitioning = false, filename = false, union_by_name = false)"


def _top_level(schema: Sequence[tuple[str, int | None]]) -> Iterator[str]:
    """Names of a Parquet file's columns, from its elements in depth-first order with their numbers of children."""
    inside = 0
    for name, children in schema[1:]:
        if inside == 0:
            yield name
        else:
            inside -= 1
        inside += children or 0


def unite(staging: IntakeState, view: str, parts: Sequence[str], file: str, columns: Mapping[str, str]) -> None:
    """Create a temporary view over the relations of several files of one table, which have the same columns.

    Raises
    ------
    DeliveryError
        If a column has different types in two files: a conversion could change what identifies a person.
    """
    types: dict[str, str] = {}
    for part in parts:
        for column, kind, *_ in staging.connection.execute(f"DESCRIBE {quoted(part)}").fetchall():
            family = "a whole number" if kind in _INTEGERS else kind.partition("(")[0]
            if types.setdefault(column, family) != family:
                raise DeliveryError(
                    f"{file}: column {named(columns.get(column, column), column)} is {types[column]} in one of its"
                    f" {len(parts)} files and {family} in another: write them with the same types"
                )
    united = " UNION ALL ".join(f"SELECT * FROM {quoted(part)}" for part in parts)
    staging.connection.execute(f"CREATE TEMP VIEW {quoted(view)} AS {united}")


@contextmanager
def naming_damaged_files(staging: IntakeState) -> Iterator[None]:
    """Name the damaged file if DuckDB fails on a deferred read.

    Raises
    ------
    DeliveryError
        In place of a DuckDB error, if a file cannot be read to its end.
    """
    try:
        yield
    except duckdb.Error:
        damaged = staging.damaged_file()
        if damaged is None:
            raise
        raise DeliveryError(f"{damaged}: unreadable file: damaged, so it cannot be read to its end") from None


def count_rows(connection: duckdb.DuckDBPyConnection, relation: str) -> int:
    """Rows of a relation, given as SQL."""
    return int(connection.execute(f"SELECT count(*) FROM {relation}").fetchall()[0][0])


def named(theirs: str, ours: str) -> str:
    """Name a delivered column, and what it is read as unless that is its own name or made from it.

    Examples
    --------
    >>> named("day", "service_date")
    'day (to be read as service_date)'
    >>> named("ZIP code", "given_ZIP_code_95c87fe32d58da52")
    'ZIP code'
    """
    return theirs if theirs == ours or ours.startswith(RAW) else f"{theirs} (to be read as {ours})"


def require_columns(present: Iterable[str], columns: Columns, name: str) -> None:
    """Raise DeliveryError unless all required columns are present."""
    # Only missing names are shown, never the present ones: without a header, the first line is a person's row.
    known = set(present)
    missing = [
        named(one, ours)
        for ours, theirs in columns.items()
        for one in ([theirs] if isinstance(theirs, str) else theirs)
        if one not in known
    ]
    if missing:
        more = f" and {len(missing) - _MISSING_SHOWN} more" if len(missing) > _MISSING_SHOWN else ""
        raise DeliveryError(f"{name}: missing column {', '.join(missing[:_MISSING_SHOWN])}{more}")


def require_once(present: Sequence[str], columns: Columns, name: str) -> None:
    """Raise DeliveryError if a required column is present more than once."""
    for ours, theirs in columns.items():
        for one in [theirs] if isinstance(theirs, str) else theirs:
            if present.count(one) > 1:
                raise DeliveryError(f"{name}: column {named(one, ours)} occurs twice")


def _require_own_name(types: Mapping[str, str], columns: Mapping[str, str], name: str) -> None:
    """Raise DeliveryError if the reader renamed a required column because an earlier name differs only in case."""
    for ours, theirs in columns.items():
        if theirs not in types:
            raise DeliveryError(f"{name}: column {named(theirs, ours)} occurs in upper and lower case: rename one")


def is_plain(kind: str) -> bool:
    """Whether cells of a DuckDB type are text, numbers, booleans, dates or times."""
    family = kind.partition("(")[0]
    return not kind.endswith("]") and (family in _PLAIN or family.startswith("TIMESTAMP"))


def parquet_columns(staging: IntakeState, path: Path) -> dict[str, str]:
    """Return the columns of a Parquet file with their types.

    Raises
    ------
    DeliveryError
        If the file is missing, empty or unreadable.
    """
    copy = glob.escape(str(staging.receive(path).absolute()))
    try:
        described = staging.connection.execute(f"DESCRIBE SELECT * FROM {_PARQUET}", [copy]).fetchall()
    except duckdb.Error:
        raise DeliveryError(f"{staging.shown(path)}: unreadable file: not a Parquet file, damaged or encrypted") from None
    return {row[0]: row[1] for row in described}


def require_plain(types: Mapping[str, str], columns: Mapping[str, str], name: str) -> None:
    """Raise DeliveryError unless all required columns contain text, numbers, booleans, dates or times."""
    for ours, theirs in columns.items():
        kind = types.get(theirs, "")
        if not is_plain(kind):
            # A type may list values, as an enumeration does, so only its family is shown.
            shown = "LIST" if kind.endswith("]") else kind.partition("(")[0]
            raise DeliveryError(
                f"{name}: column {named(theirs, ours)} has the type {shown}: it must contain text, numbers or dates"
            )
