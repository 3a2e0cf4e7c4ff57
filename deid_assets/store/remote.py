"""Folders that a URL names: on a disk (`file://`) or in object storage (`s3://`, `gs://`, `abfs://`), through pyarrow.

Credentials come from the environment, as the provider's own tools read them, never from the URL.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from deid_assets.errors import StoreError

_OBJECT_STORES = ("s3", "gcs", "abfs")
_CHUNK = 8_000_000


@dataclass(frozen=True)
class Seen:
    """A file as it was listed: its bytes, and when it was written, in nanoseconds."""

    size: int
    written: int


@dataclass(frozen=True)
class RemoteFolder:
    """A folder that a URL names.

    Attributes
    ----------
    address
        The URL without its options.
    files
        The file system, as seen from the folder.
    """

    address: str
    files: fs.FileSystem = field(repr=False)

    @classmethod
    def at(cls, url: str) -> "RemoteFolder":
        """The folder of this URL; it need not exist.

        Raises
        ------
        StoreError
            If this is no URL of a kind that pyarrow knows, or it has credentials in it.
        """
        try:
            parts = urlsplit(url)
        except ValueError:
            raise StoreError("the URL cannot be read; it must be like s3://bucket/folder or file:///folder") from None
        # Anywhere: a slash in a secret, which should be %2F, ends the part in which parsers look for it.
        if "@" in url and (parts.scheme != "file" or "@" in parts.netloc):
            raise StoreError(
                "the URL has credentials in it, which would be stored and shown: let the environment give them (such as "
                "AWS_ACCESS_KEY_ID, or a role). An @ that belongs to a name is written %40"
            )
        address = f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")
        try:
            found, path = fs.FileSystem.from_uri(url)
            if isinstance(found, fs.LocalFileSystem):  # however it is written, with or without file://
                address = Path(os.path.normpath(path)).as_uri()
        except (pa.ArrowException, OSError, ValueError) as error:
            raise StoreError(f"{address}: {_first_line(error)}; it must be like s3://bucket/folder or file:///folder") from None
        return cls(address, fs.SubTreeFileSystem(path, found))

    @property
    def local(self) -> Path | None:
        """The folder, if it is on a disk of this machine."""
        return Path(self.files.base_path) if isinstance(self.files.base_fs, fs.LocalFileSystem) else None

    def names(self) -> dict[str, Seen]:
        """Every file in it and below, by its path in it."""
        with self._told("listed"):
            found = self.files.get_file_info(fs.FileSelector("", recursive=True, allow_not_found=True))
            return {one.path: Seen(one.size, one.mtime_ns or 0) for one in found if one.type == fs.FileType.File}

    def listed(self) -> tuple["RemoteFolder", dict[str, Seen]]:
        """The folder with its files; if the URL names one file, the folder that it is in, with that file alone."""
        around, path = self.files.base_fs, PurePosixPath(self.files.base_path)
        with self._told("listed"):
            own = around.get_file_info(str(path))
            if own.type != fs.FileType.File:
                return self, self.names()
            folder = RemoteFolder(self.address.rpartition("/")[0], fs.SubTreeFileSystem(str(path.parent), around))
            return folder, {path.name: Seen(own.size, own.mtime_ns or 0)}

    def read(self, name: str) -> bytes | None:
        """The content of a small file; None if it does not exist."""
        with self._told("read"):
            if self.files.get_file_info(name).type == fs.FileType.NotFound:
                return None
            with self.files.open_input_stream(name) as stream:
                return stream.read()

    def has(self, name: str) -> bool:
        """Whether a file is there."""
        with self._told("read"):
            return bool(self.files.get_file_info(name).type == fs.FileType.File)

    def digest(self, name: str) -> str:
        """SHA-256 of a file, read back from where it is."""
        found = hashlib.sha256()
        with self._told("read"), self.files.open_input_stream(name) as stream:
            while chunk := stream.read(_CHUNK):
                found.update(chunk)
        return found.hexdigest()

    def write(self, name: str, content: bytes) -> None:
        """Write a small file, which is there whole or not at all."""
        with self._told("written"), self._writing(name) as stream:
            stream.write(content)

    def put(self, name: str, source: Path) -> None:
        """Copy a file of this machine there; it is there whole or not at all."""
        with self._told("written"), source.open("rb") as read, self._writing(name) as stream:
            shutil.copyfileobj(read, stream, _CHUNK)

    def get(self, name: str, target: Path) -> None:
        """Copy a file from there to this machine, where it must not exist."""
        with self._told("read"), self.files.open_input_stream(name) as stream, target.open("xb") as written:
            target.chmod(0o600)
            shutil.copyfileobj(stream, written, _CHUNK)

    @contextlib.contextmanager
    def _writing(self, name: str) -> Iterator[pa.NativeFile]:
        """An object appears once it is complete; a file of a disk gets its name then."""
        if self.files.base_fs.type_name in _OBJECT_STORES:
            with self.files.open_output_stream(name) as stream:
                yield stream
            return
        path = PurePosixPath(name)
        draft = str(path.with_name(f".{path.name}.draft"))
        self.files.create_dir(str(path.parent), recursive=True)
        with self.files.open_output_stream(draft) as stream:
            yield stream
        self.files.move(draft, name)

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Say in a sentence what could not be done."""
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            raise StoreError(f"{self.address} cannot be {what}: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
