"""Read files that somebody else may have put in place, without blocking, whatever they are.

A pipe, a device, a folder, a symbolic link or an oversized file is refused before any byte is read.
"""

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from deid_assets.errors import ReleaseError

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
