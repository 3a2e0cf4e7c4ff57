"""Deliveries that a URL names: they are fetched once, and the copy is the delivery.

A delivery is read several times, and its content must be the same each time: by the intake, by the gate, and by an audit years
later. The copy contains personal data, and is as restricted as the store.
"""

import shutil
from pathlib import Path, PurePosixPath

from deid_assets.errors import DeliveryError
from deid_assets.store import durable
from deid_assets.store.digests import file_digest
from deid_assets.store.home import Home, plain_key
from deid_assets.store.remote import RemoteFolder, Seen

FOLDER = "fetched"
"""In the folder of deliveries."""


def fetch(home: Home, url: str, name: str | None = None) -> Path:
    """Copy what a URL names into the home; return the folder or file of the copy.

    Parameters
    ----------
    url
        A folder or a file, such as s3://bucket/in/2012-04.
    name
        Name of the copy; default: the last part of the URL.

    Raises
    ------
    DeliveryError
        If there is nothing, it changes meanwhile, a name cannot be that of a file here, or something else was fetched under
        the name before: a delivery is final once it was fetched.
    StoreError
        If it cannot be read.
    """
    source, files = RemoteFolder.at(url).listed()
    if not files:
        raise DeliveryError(f"there is no file in {source.address}")
    _require_plain_names(source, files)
    last = PurePosixPath(RemoteFolder.at(url).address.partition("://")[2]).name
    single = list(files) == [last]
    called = plain_key(name or (PurePosixPath(last).stem if single else last))
    folder = durable.owner_only(durable.owner_only(home.deliveries) / FOLDER)
    target = folder / called
    with durable.locked(folder / ".lock"):
        making = folder / f".making-{called}"
        shutil.rmtree(making, ignore_errors=True)  # half fetched by a process that was killed
        try:
            _get(source, files, durable.owner_only(making))
            if RemoteFolder.at(url).listed()[1] != files:
                raise DeliveryError(f"{source.address} changed while it was fetched; fetch it again once it is complete")
            _keep(making, target, source)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return target / last if single else target


def forget_fetched(home: Home, paths: tuple[Path, ...]) -> None:
    """Remove the copies among these paths; files of others stay where they are."""
    folder = home.deliveries / FOLDER
    for path in paths:
        if folder in path.parents:
            shutil.rmtree(folder / path.relative_to(folder).parts[0], ignore_errors=True)


def _require_plain_names(source: RemoteFolder, files: dict[str, Seen]) -> None:
    odd = sum(any(part in ("", ".", "..") for part in name.split("/")) for name in files)
    if odd:
        raise DeliveryError(
            f"{source.address}: {odd} of its names cannot be names of files here; they have empty parts or '..'"
        )


def _get(source: RemoteFolder, files: dict[str, Seen], making: Path) -> None:
    for name in sorted(files):
        target = making / name
        durable.owner_only(target.parent)
        source.get(name, target)


def _keep(making: Path, target: Path, source: RemoteFolder) -> None:
    if not target.exists():
        making.rename(target)
        durable.sync(target.parent)
    elif _digests(making) != _digests(target):
        raise DeliveryError(
            f"{source.address} is not what was fetched as {target.name} before: a delivery is final once it was fetched. Put "
            "new content into a folder of its own, or give this delivery another key (--key)"
        )


def _digests(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): file_digest(path) for path in folder.rglob("*") if path.is_file()}
