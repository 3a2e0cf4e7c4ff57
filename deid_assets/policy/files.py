"""Files that a policy names: lists of members who opted out, hierarchies as CSV, tables of people.

Each is a regular file below the policy's own folder. No name may lead out of the folder, and no part of the path may be
a symbolic link. Otherwise a policy from elsewhere could choose which files of this host are read, copied and published.
Messages name the file and count lines; they never quote one.
"""

import csv
import hashlib
import io
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deid_assets.errors import how_many

LARGEST_TEXT = 64_000_000
"""Size limit in bytes of a list or a hierarchy, which are kept in memory."""

LARGEST_TABLE = 64_000_000_000
"""Size limit in bytes of a table of people, which is read from disk."""

_DIGESTS: dict[tuple[int, ...], str] = {}
"""Digests of files as last read: every asset reads its policy again, and tables may be large."""

RECORD = "adopted.json"
"""The record in the folder of an adopted policy; its files are private to their owner."""

_LONGEST_NAME = 255
_CHUNK = 1 << 22
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Without O_NONBLOCK, opening a named pipe blocks until somebody writes to it.
_OPEN_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True)
class Folder:
    """Where the files of a policy are.

    Attributes
    ----------
    path
        The folder; `None` for a policy without a folder.
    stored
        For an adopted policy: the SHA-256 of every file that it names. `stored_name` gives the location of such a file.
    """

    path: Path | None
    stored: Mapping[str, str] | None = None

    @contextmanager
    def opened(self, file: str, at_most: int = LARGEST_TEXT) -> Iterator[io.BufferedReader]:
        """Open a file that the policy names.

        Raises
        ------
        ValueError
            If the name leads elsewhere, or if its target is not a regular file below the folder or is too large.
        """
        parts = parts_of(file)
        if self.path is None:
            raise ValueError(f"file {file} cannot be found: this policy is not in a folder")
        if self.stored is not None:
            if file not in self.stored:
                raise ValueError(f"file {file} is not among the files that were adopted with the policy")
            parts = parts_of(stored_name(self.stored[file], file))
        with opened_below(self.path, parts, file, at_most) as stream:
            yield stream

    def read(self, file: str) -> tuple[bytes, str]:
        """Return the content of a file that the policy names, and its SHA-256.

        Raises
        ------
        ValueError
            As for `opened`, and if an adopted file has changed since it was adopted.
        """
        with self.opened(file) as stream:
            content = stream.read(LARGEST_TEXT + 1)
        if len(content) > LARGEST_TEXT:
            raise _too_large(file, LARGEST_TEXT)
        return content, self._verified(file, hashlib.sha256(content).hexdigest())

    def digest(self, file: str, anew: bool = False) -> str:
        """Return the SHA-256 of a file that the policy names.

        Parameters
        ----------
        anew
            Whether to read it again in any case; otherwise only if the file or its modification times have changed.

        Raises
        ------
        ValueError
            As for `read`.
        """
        with self.opened(file, LARGEST_TABLE) as stream:
            state = os.fstat(stream.fileno())
            # The inode change time cannot be set back, unlike the modification time of the content.
            key = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
            if anew or key not in _DIGESTS:
                _DIGESTS[key] = hashlib.file_digest(stream, "sha256").hexdigest()
            return self._verified(file, _DIGESTS[key])

    def copy(self, file: str, target: Path) -> str:
        """Copy a file that the policy names to a new file that only its owner can read; return the SHA-256 of the copy.

        Raises
        ------
        ValueError
            As for `read`.
        """
        digest = hashlib.sha256()
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as copied, self.opened(file, LARGEST_TABLE) as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
                copied.write(chunk)
            copied.flush()
            os.fsync(copied.fileno())
        return self._verified(file, digest.hexdigest())

    def _verified(self, file: str, digest: str) -> str:
        if self.stored is not None and digest != self.stored[file]:
            raise ValueError(f"file {file} is not the one that was adopted with the policy: it has changed")
        return digest


def stored_name(digest: str, file: str) -> str:
    """Path at which an adopted policy keeps a file: a folder named after the content, and the file's own base name.

    >>> stored_name("ab12", "lists/voters.csv")
    'content/ab12/voters.csv'
    """
    return f"content/{digest}/{parts_of(file)[-1]}"


def parts_of(file: str) -> tuple[str, ...]:
    """Return the folders and the base name of a relative path.

    Raises
    ------
    ValueError
        If the path is absolute, leads upwards, or is not in normal form.
    """
    if not file.isprintable() or "\\" in file or any(len(part.encode()) > _LONGEST_NAME for part in file.split("/")):
        raise ValueError("a file name consists of printable characters without backslash, at most 255 bytes between slashes")
    parts = tuple(file.split("/"))
    if any(part in ("", ".", "..") for part in parts):
        raise ValueError(
            f"file {file} must be in the folder of the policy or below it: write its path without a leading slash, '.' and '..'"
        )
    return parts


@contextmanager
def opened_below(folder: Path, parts: tuple[str, ...], shown: str, at_most: int) -> Iterator[io.BufferedReader]:
    """Open a regular file below a folder, following descriptors all the way: a swap between check and read has no effect.

    Raises
    ------
    ValueError
        If it does not exist, is not a regular file, is behind a symbolic link, may not be read, or is too large.
    """
    try:
        descriptor = _open_below(folder, parts)
    except OSError as error:
        reason = error.strerror or "it cannot be read"
        raise ValueError(f"file {shown}, looked for beside the policy: {reason}") from None
    except _Refused as refused:
        raise ValueError(f"file {shown}: {refused}") from None
    with os.fdopen(descriptor, "rb") as stream:
        if os.fstat(descriptor).st_size > at_most:
            raise _too_large(shown, at_most)
        yield stream


class _Refused(Exception):
    """Why a file is not opened."""


def _open_below(folder: Path, parts: tuple[str, ...]) -> int:
    above = os.open(folder, _OPEN_FOLDER)
    try:
        for part in parts[:-1]:
            _require(stat.S_ISDIR, part, above, "a folder on the way to it")
            below = os.open(part, _OPEN_FOLDER | os.O_NOFOLLOW, dir_fd=above)
            os.close(above)
            above = below
            if RECORD in os.listdir(above):
                raise _Refused("it is in the folder of an adopted policy; put a copy next to yours")
        # Checked before the file is opened, because opening a device may have effects, and again on what was opened.
        _require(stat.S_ISREG, parts[-1], above, "it")
        descriptor = os.open(parts[-1], _OPEN_FILE | os.O_NOFOLLOW, dir_fd=above)
    finally:
        os.close(above)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _Refused("it is not a regular file")
    return descriptor


def _require(is_kind: Callable[[int], bool], part: str, above: int, what: str) -> None:
    mode = os.stat(part, dir_fd=above, follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        raise _Refused(f"{what} is a symbolic link, which could lead anywhere; put the file itself below the policy's folder")
    if not is_kind(mode):
        raise _Refused(f"{what} is not a {'folder' if is_kind is stat.S_ISDIR else 'regular file'}")


def _too_large(shown: str, at_most: int) -> ValueError:
    return ValueError(f"file {shown} is larger than {at_most:,} bytes")


def read_plain(path: Path, at_most: int) -> bytes:
    """Return the content of a policy file, reached by any path; never blocks on a pipe or a device.

    Raises
    ------
    OSError
        If it does not exist or may not be read.
    ValueError
        If it is not a regular file, or is too large.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError("it is not a regular file")
    with os.fdopen(os.open(path, _OPEN_FILE), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise ValueError("it is not a regular file")
        content = stream.read(at_most + 1)
    if len(content) > at_most:
        raise ValueError(f"it is larger than {at_most:,} bytes")
    return content


def read_text(folder: Folder | None, file: str) -> tuple[str, str]:
    """Return the text of a file that a policy names, and its SHA-256.

    Raises
    ------
    ValueError
        If it does not exist, is not readable, or is not UTF-8. (Pydantic adds the field; the loader adds file and
        line.)
    """
    content, digest = (folder or Folder(None)).read(file)
    try:
        return content.decode("utf-8-sig"), digest
    except UnicodeDecodeError:
        raise ValueError(f"file {file} is not UTF-8 text") from None


def read_member_ids(folder: Folder | None, file: str) -> tuple[tuple[str, ...], str]:
    """Return the identifiers in a file (one per line, blank lines skipped) and the file's SHA-256."""
    text, digest = read_text(folder, file)
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line), digest


def read_rows(folder: Folder | None, file: str) -> tuple[tuple[tuple[str, ...], ...], str]:
    """Return the rows of a hierarchy in ARX's format, and the file's SHA-256.

    There is no header. Each row is a value and its labels, separated by semicolons.

    Raises
    ------
    ValueError
        If the file is empty, its rows differ in the number of columns, or the separator is not a semicolon.
    """
    text, digest = read_text(folder, file)
    try:
        lines = csv.reader(io.StringIO(text), delimiter=";", strict=True)
        rows = [tuple(row) for row in lines if row]
    except csv.Error:
        raise ValueError(f"file {file} is not CSV: a quote is open or misplaced") from None
    if not rows:
        raise ValueError(f"file {file} is empty")
    columns = len(rows[0])
    ragged = [number for number, row in enumerate(rows, start=1) if len(row) != columns]
    if ragged:
        raise ValueError(
            f"file {file}: {how_many(len(ragged), 'row does', 'rows do')} not have {how_many(columns, 'column')} as the first "
            f"row has (the first is row {ragged[0]}); every value needs a label at every level"
        )
    others = [sign for sign in (",", "\t", "|") if all(sign in row[0] for row in rows)] if columns == 1 else []
    if others:
        shown = "tab" if others[0] == "\t" else f"'{others[0]}'"
        raise ValueError(
            f"file {file} has one column, and a {shown} in each of its {len(rows)} rows: the labels of a value are separated "
            "by semicolons, as ARX writes them"
        )
    return tuple(rows), digest
