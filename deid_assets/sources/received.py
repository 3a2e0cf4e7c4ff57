"""The files of a delivery as received: exactly the digested bytes are parsed, and nothing else on this host.

No link is followed, and only regular files are opened. A file is copied before it is parsed, and digested during the
copy, so a later change of the file affects neither. The copy has a name of our own, so that no reader interprets a
delivered name as a pattern, an address or a format.
"""

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from deid_assets.errors import DeliveryError

_UNSHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
CHUNK = 1 << 20  # bytes read at a time
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Without O_NONBLOCK, opening a pipe would block until somebody writes to it.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class DeliveredFile:
    """A regular file of a delivery.

    Attributes
    ----------
    name
        Name in the delivery: the folder's own name and the path below it; for messages and for the digest.
    root
        Folder that contains the delivery's file or folder.
    inside
        Folders and name of the file below `root`; none of them may be a link.
    """

    name: str
    root: Path
    inside: tuple[str, ...]

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self.root.joinpath(*self.inside)


def delivered_files(paths: Sequence[Path]) -> list[DeliveredFile]:
    """List every file of a delivery.

    Raises
    ------
    DeliveryError
        If a path does not exist or is given twice, if a folder cannot be read, or if anything is neither a regular file
        nor a folder.
    """
    found: list[DeliveredFile] = []
    for path in paths:
        try:
            kind = path.lstat().st_mode
        except OSError:
            raise DeliveryError(f"{path.name}: missing file or folder") from None
        _require_plain_name(path.name, path.parent.name)
        _require_file_or_folder(path.name, kind)
        if stat.S_ISDIR(kind):
            found += _files_below(path.parent, (path.name,), path.resolve().name)
        else:
            found.append(DeliveredFile(path.name, path.parent, (path.name,)))
    # One folder has many paths: in/../in is in.
    if len({file.path.resolve() for file in found}) < len(found):
        raise DeliveryError("a file of the delivery is given twice: its rows would count twice")
    return found


def _files_below(root: Path, inside: tuple[str, ...], name: str) -> Iterator[DeliveredFile]:
    try:
        with os.scandir(root.joinpath(*inside)) as listed:
            entries = sorted((entry.name, entry.stat(follow_symlinks=False).st_mode) for entry in listed)
    except OSError:
        raise DeliveryError(f"{name}: unreadable folder: it cannot be opened, or changed while it was read") from None
    for own, kind in entries:
        _require_plain_name(own, name)
        below = f"{name}/{own}"
        _require_file_or_folder(below, kind)
        if stat.S_ISDIR(kind):
            yield from _files_below(root, (*inside, own), below)
        else:
            yield DeliveredFile(below, root, (*inside, own))


def _require_file_or_folder(name: str, kind: int) -> None:
    if stat.S_ISLNK(kind):
        raise DeliveryError(f"{name}: a symbolic link, which is not followed: put the file or folder itself there")
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
        raise DeliveryError(f"{name}: not a file or folder, but a pipe, a socket or a device: remove it")


def _require_plain_name(name: str, folder: str) -> None:
    """Raise DeliveryError for a name that cannot be shown in a message."""
    if _UNSHOWN.search(name):
        raise DeliveryError(
            f"{'the delivery' if _UNSHOWN.search(folder) else folder}: contains a file or folder whose name is not UTF-8, or "
            "has line breaks or other control characters: rename it"
        )


def open_delivered(file: DeliveredFile) -> BinaryIO:
    """Open a delivered file without following links, at its place or in the folders above.

    Raises
    ------
    DeliveryError
        If it no longer exists, may not be opened, or is no longer a regular file.
    """
    try:
        folder = os.open(file.root, _FOLDER)
        try:
            for part in file.inside[:-1]:
                inner = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
                os.close(folder)
                folder = inner
            descriptor = os.open(file.inside[-1], _FILE, dir_fd=folder)
        finally:
            os.close(folder)
    except OSError:
        raise DeliveryError(f"{file.name}: unreadable file: it cannot be opened, or is gone") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise DeliveryError(f"{file.name}: unreadable file: it is no longer a regular file")
    return os.fdopen(descriptor, "rb", buffering=0)


def digest_of_contents(contents: Iterable[tuple[str, bytes]]) -> str:
    """SHA-256 over names and digests of contents, in hexadecimal, independent of their order."""
    whole = hashlib.sha256()
    for name, content in sorted(contents):
        encoded = name.encode("utf-8", "surrogateescape")
        whole.update(len(encoded).to_bytes(8, "big") + encoded + content)
    return whole.hexdigest()


def content_digest(file: DeliveredFile, also: Callable[[bytes], object] = lambda chunk: None) -> bytes:
    """SHA-256 of a file's content; each digested chunk is passed to `also`.

    Raises
    ------
    DeliveryError
        If the file cannot be read.
    """
    content = hashlib.sha256()
    with open_delivered(file) as stream:
        while chunk := _read(stream, file.name):
            content.update(chunk)
            also(chunk)
    return content.digest()


def _read(stream: BinaryIO, name: str) -> bytes:
    try:
        return stream.read(CHUNK)
    except OSError:
        raise DeliveryError(f"{name}: unreadable file: it cannot be read to its end") from None


class Received:
    """Copies of delivered files, made on request, and the digest of exactly what was copied.

    Parameters
    ----------
    files
        The files of the delivery; no other is copied.
    folder
        Owner-only folder for the copies, removed by the caller.
    """

    def __init__(self, files: Iterable[DeliveredFile], folder: Path) -> None:
        self._files = {file.path: file for file in files}
        self._folder = folder
        self._copies: dict[Path, Path] = {}
        self._digests: dict[Path, bytes] = {}

    def __contains__(self, path: Path) -> bool:
        return path in self._files

    def copy(self, path: Path) -> Path:
        """Copy a file, once for all requests, and return the path of the copy.

        Raises
        ------
        DeliveryError
            If the file cannot be read, or if there is no space for the copy.
        """
        if path not in self._copies:
            file = self._files[path]
            target = self._folder / f"received_{len(self._copies)}"
            with target.open("xb") as stream:
                self._digests[path] = content_digest(file, lambda chunk: _write(stream, chunk, file.name))
            self._copies[path] = target
        return self._copies[path]

    def digest(self) -> str:
        """The delivery's digest: over the copies as parsed, and over the files that were not requested."""
        return digest_of_contents(
            (file.name, self._digests.get(path) or content_digest(file)) for path, file in self._files.items()
        )

    def digest_of(self, path: Path) -> str:
        """SHA-256 of one file as it was copied, in hexadecimal."""
        self.copy(path)
        return self._digests[path].hex()


def _write(stream: BinaryIO, chunk: bytes, name: str) -> None:
    try:
        stream.write(chunk)
    except OSError:
        raise DeliveryError(f"{name}: no space to copy it into the restricted store") from None
