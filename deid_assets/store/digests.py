"""Files that somebody else may have put in place, and digests: of files, of a table's rows, of its columns, of JSON values.

All are SHA-256 in lower-case hexadecimal. They bind evidence, manifest and registry to content, so a digest must resist
an adversary who chooses the content, not only accidents.

Files are read without blocking, whatever they are: a pipe, a device, a folder, a symbolic link or an oversized file is
refused before any byte is read.
"""

import contextlib
import hashlib
import json
import math
import os
import re
import secrets
import stat
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import duckdb

from deid_assets.errors import ReleaseError
from deid_assets.store.tables import Query, Table, connect, fingerprint, quoted

MEGABYTE = 1 << 20
TEXT_AT_MOST = 64 * MEGABYTE
"""Size limit in bytes of a manifest, a certificate or another text about a release."""
REGISTRY_AT_MOST = 512 * MEGABYTE
"""Size limit in bytes of a registry: about a million releases."""
SMALL_AT_MOST = 64 * 1024
"""Size limit in bytes of a key, a secret or a signature."""

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextlib.contextmanager
def opened(path: Path) -> Iterator[tuple[BufferedReader, int]]:
    """Open a regular file for reading; yields the file and its length in bytes.

    The last part of the path must not be a symbolic link. The opened file itself is examined, not its name, so it
    cannot be swapped in between.

    Raises
    ------
    ReleaseError
        With what is there instead, or why it cannot be read; the caller puts the file's name and a colon before it.
    """
    try:
        kind = stat.S_IFMT(os.lstat(path).st_mode)
        if kind != stat.S_IFREG:  # also: to open a device may have effects of its own
            raise ReleaseError(f"it is {_KINDS.get(kind, 'no regular file')}, not a regular file")
        # Without O_NONBLOCK, open waits for a writer if the file was replaced by a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ReleaseError("it is missing") from None
    except (OSError, ValueError) as error:
        raise ReleaseError(f"it cannot be read: {_reason(error)}") from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ReleaseError("it is no regular file")
        try:
            yield file, found.st_size
        except OSError as error:
            raise ReleaseError(f"it cannot be read: {_reason(error)}") from None


def regular_bytes(path: Path, at_most: int = TEXT_AT_MOST) -> bytes:
    """The bytes of a regular file.

    Raises
    ------
    ReleaseError
        If it is not a regular file, cannot be read, or is longer than `at_most`.
    """
    with opened(path) as (file, size):
        content = b"" if size > at_most else file.read(at_most + 1)
    if size > at_most or len(content) > at_most:
        raise ReleaseError(f"it has more than the {at_most:,} bytes that such a file may have")
    return content


def kept_bytes(path: Path, name: str, at_most: int) -> bytes:
    """The bytes of a file that a home keeps; none if it is not there.

    Parameters
    ----------
    name
        What the file is, at the beginning of a sentence on it.

    Raises
    ------
    ReleaseError
        As `regular_bytes`, with what it is and how to go on.
    """
    try:
        return regular_bytes(path, at_most) if os.path.lexists(path) else b""
    except ReleaseError as error:
        raise ReleaseError(f"{name} cannot be used: {error}; put the file itself in its place, such as from a backup") from None


def regular_digest(path: Path, size: int) -> str:
    """SHA-256 of a regular file that must have this length.

    Raises
    ------
    ReleaseError
        If it is not a regular file, has another length, or cannot be read.
    """
    with opened(path) as (file, found):
        if found != size:
            raise ReleaseError("it has a different length")
        return hashlib.file_digest(file, "sha256").hexdigest()


def _reason(error: OSError | ValueError) -> str:
    """The reason without the path; the caller names the file."""
    return getattr(error, "strerror", None) or "its name is not a file name"


def printable(text: str) -> str:
    """Text that somebody else may have written, without terminal control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


Json: TypeAlias = Any
"""What a JSON text holds: nobody knows before it is looked at, and whoever reads it catches what does not fit."""

_FETCHED = 200_000  # row digests handed from DuckDB to Python at a time
_REMEMBERED_AT_MOST = 16  # digests of tables, of which one run needs one
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
# Types whose text is the same in every session and distinguishes any two values. Excluded are TIMESTAMP WITH TIME ZONE,
# whose text depends on the session, and nested types.
_SCALAR = re.compile(
    r"(BOOLEAN|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)|VARCHAR|DATE|TIME|TIMESTAMP|UUID)\Z"
)


def canonical_json(value: object) -> bytes:
    r"""Return the one JSON text of a value: sorted keys, no spaces, ASCII, a line feed at the end.

    Raises
    ------
    ReleaseError
        If the value is not JSON, including NaN and infinities.

    Examples
    --------
    >>> canonical_json({"b": 1, "a": [0.1, None]})
    b'{"a":[0.1,null],"b":1}\n'
    """
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        # Not chained, because the message of json.dumps may repeat the value.
        raise ReleaseError("a value cannot be written as JSON: use text, finite numbers, true, false, null") from None
    return text.encode() + b"\n"


def parse_json(content: bytes) -> Json:
    """Read JSON strictly: no repeated key, no NaN or infinity.

    Otherwise readers that keep the first of two equal keys, and readers that keep the last, would see different
    manifests under one signature.

    Raises
    ------
    ReleaseError
        If `content` is not such a text.
    """
    try:
        return json.loads(
            content, object_pairs_hook=_without_repeats, parse_constant=_refused_constant, parse_float=_finite_float
        )
    except (ValueError, RecursionError):
        raise ReleaseError("a text is not strict JSON: it is cut off, repeats a key, or contains NaN") from None


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("repeated key")
    return dict(pairs)


def _refused_constant(text: str) -> NoReturn:
    raise ValueError("not a finite number")


def _finite_float(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refused_constant(text)  # 1e400 is JSON


def bytes_digest(content: bytes) -> str:
    """SHA-256 of bytes.

    >>> bytes_digest(b"")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(content).hexdigest()


def is_digest(text: object) -> bool:
    """Whether `text` is 64 lower-case hexadecimal digits."""
    return isinstance(text, str) and bool(_DIGEST.match(text))


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, read in pieces."""
    with open(path, "rb") as file:
        return opened_digest(file)


def opened_digest(file: BufferedReader) -> str:
    """SHA-256 of all bytes of an open file, from its beginning; leaves the file at its end."""
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()


def tables_digest(tables: Mapping[str, Table]) -> str:
    """The combined digest of the rows of several tables of one store, in any order, by the given names."""
    (file,) = {table.file for table in tables.values()}
    with connect(file) as connection:
        return combined_digest({name: rows_digest(connection, table) for name, table in tables.items()})


_FINGERPRINT_KEY = secrets.token_bytes(32)
_remembered: OrderedDict[tuple[tuple[str, Table, str], ...], str] = OrderedDict()


def tables_digest_once(tables: Mapping[str, Table]) -> str:
    """`tables_digest`, computed once in this process for tables that have not changed.

    Every assessment of a run judges the same rows. A fingerprint under a key of this process, which takes a tenth of
    the time, shows whether they are the same.
    """
    key = tuple((name, table, fingerprint(table, _FINGERPRINT_KEY)) for name, table in sorted(tables.items()))
    if key not in _remembered:
        _remembered[key] = tables_digest(tables)
        while len(_remembered) > _REMEMBERED_AT_MOST:
            _remembered.popitem(last=False)
    return _remembered[key]


def combined_digest(digests: Mapping[str, str]) -> str:
    """One digest of several named ones in any order, for tables that one assessment judged together."""
    return bytes_digest(canonical_json(dict(digests)))


def columns_digest(columns: Mapping[str, str] | Sequence[tuple[str, str]]) -> str:
    """Digest of a column list: names and DuckDB types, in their order.

    Parameters
    ----------
    columns
        Name to type, as `Table.columns` returns them, or pairs of name and type.
    """
    pairs = columns.items() if isinstance(columns, Mapping) else columns
    return bytes_digest(canonical_json([[name, kind] for name, kind in pairs]))


def as_query(content: str | Query | Table) -> Query:
    """A SELECT for a table handle, a SELECT text or a query with bound values."""
    if isinstance(content, Table):
        return Query(f"SELECT * FROM {content.sql}")
    return content if isinstance(content, Query) else Query(content)


def column_types(connection: duckdb.DuckDBPyConnection, content: str | Query | Table) -> dict[str, str]:
    """Column names and DuckDB types of a SELECT, in order."""
    query = as_query(content)
    return {row[0]: row[1] for row in connection.execute(f"DESCRIBE {query.sql}", list(query.parameters)).fetchall()}


def rows_digest(connection: duckdb.DuckDBPyConnection, content: str | Query | Table) -> str:
    """Digest of the rows of a table or SELECT, as a multiset, and of its columns.

    The same rows give the same digest whatever their order, and whether in a table, a Parquet or a CSV file. A row
    added, removed, duplicated or changed gives another.

    Parameters
    ----------
    connection
        An open connection that can run the SELECT.
    content
        A table handle, a SELECT text, or a query with bound values. Columns must be scalar, and not timestamps with
        time zone.

    Returns
    -------
    str
        64 hexadecimal digits.

    Raises
    ------
    ReleaseError
        If there is no column, or one whose type has no unambiguous text.

    Notes
    -----
    Each row becomes a text with exactly one reading (per value its length in bytes, a colon and its text; a colon alone
    for NULL). The SHA-256 of these texts are sorted, and the digest is the SHA-256 of the column digest followed by the
    sorted list. Finding two multisets of rows with one digest means finding a collision of SHA-256. Sums or exclusive
    ors of row digests would avoid the sort, but at 128 bits the generalized birthday attack (Wagner 2002, 2 to the
    power 2 sqrt(128)) breaks them within seconds if rows may be chosen.

    The sort runs in DuckDB, out of core: ten million rows of fourteen columns take about seven seconds on two cores.
    """
    columns = column_types(connection, content)
    refused = [name for name, kind in columns.items() if not _SCALAR.match(kind)]
    if refused or not columns:
        raise ReleaseError(
            f"rows cannot be digested: {len(refused)} of {len(columns)} columns have a type without an unambiguous text "
            f"({', '.join(refused)}): cast them to a scalar type without time zone"
        )
    query = as_query(content)
    digest = hashlib.sha256(bytes.fromhex(columns_digest(columns)))
    ordered = connection.sql(
        f"SELECT sha256({_row_text(columns)}) AS digest FROM ({query.sql}) AS judged ORDER BY digest",
        params=list(query.parameters),
    )
    for batch in ordered.to_arrow_reader(_FETCHED):
        # The texts of a batch lie one after the other: no text is made a value of Python's.
        texts = batch.column(0).buffers()[2]
        digest.update(bytes.fromhex(texts.to_pybytes().decode("ascii")))
    return digest.hexdigest()


def _row_text(columns: Mapping[str, str]) -> str:
    """SQL of one row's text. `concat` skips NULL, so a NULL value leaves its colon alone."""
    texts = (f"CAST({quoted(name)} AS VARCHAR)" for name in columns)
    return "concat(" + ", ".join(f"strlen({text}), ':', {text}" for text in texts) + ")"
