"""Files that survive a crash, and locks that do not.

A file or folder counts as written once its content and its folder's entry have been flushed. The kernel releases a lock
when its process ends, for whatever reason.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, overload

from deid_assets.errors import StoreError


def owner_only(folder: Path) -> Path:
    """Create the folder, accessible only to its owner, and return it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.chmod(folder, 0o700)
    return folder


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's entries, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, content: bytes) -> None:
    """Write every byte: one call of `os.write` may write fewer."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def create(path: Path, content: bytes, mode: int) -> None:
    """Write a new file and flush it; the caller flushes its folder.

    Raises
    ------
    FileExistsError
        If the path exists, even as a dangling link.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        os.fchmod(descriptor, mode)  # the mode given to os.open is cut by the umask
        write_all(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append(path: Path, content: bytes, mode: int) -> None:
    """Add bytes to the end of a file, which is created if there is none, and flush them."""
    with _at_end(path, os.O_CREAT, mode) as descriptor:
        write_all(descriptor, content)
    sync(path.parent)


def mend_end(path: Path, tail: int, is_whole: bool) -> None:
    """End the last line of a file, if only its end is missing; otherwise remove the `tail` bytes that it has."""
    with _at_end(path) as descriptor:
        if is_whole:
            write_all(descriptor, b"\n")
        else:
            os.ftruncate(descriptor, path.stat().st_size - tail)


@contextlib.contextmanager
def _at_end(path: Path, flags: int = 0, mode: int = 0o600) -> Iterator[int]:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | flags, mode)
    try:
        yield descriptor
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(path: Path, content: bytes, mode: int) -> None:
    """Replace a path by a file: afterwards, or after a crash, the path has either the old or the new content.

    Two processes must not replace one path at the same time: callers hold a lock.
    """
    draft = path.with_name(f".{path.name}.draft")
    draft.unlink(missing_ok=True)
    create(draft, content, mode)
    os.rename(draft, path)
    sync(path.parent)


@overload
def take_lock(path: Path, wait: Literal[True]) -> int: ...


@overload
def take_lock(path: Path, wait: bool) -> int | None: ...


def take_lock(path: Path, wait: bool) -> int | None:
    """Take the exclusive lock on a file, which is created if missing.

    Parameters
    ----------
    wait
        Whether to wait for the lock instead of returning at once.

    Returns
    -------
    int or None
        A descriptor that holds the lock until `os.close`; None if another process holds it and `wait` is false.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            # flock, not lockf: a POSIX lock is lost as soon as its process closes any descriptor of the file.
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if _is_at(path, descriptor):
                return descriptor
            os.close(descriptor)  # while this waited, another file took its place: a backup was restored here
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the exclusive lock on a file, waiting for it if necessary. Not re-entrant.

    Raises
    ------
    StoreError
        If the lock cannot be created.
    """
    try:
        descriptor = take_lock(path, wait=True)
    except OSError as error:
        raise StoreError(
            f"the lock {path} cannot be created: {error.strerror}; it must be a plain file in a folder that you own: remove "
            "what is there"
        ) from None
    try:
        yield
    finally:
        os.close(descriptor)
