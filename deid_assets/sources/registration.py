"""Deliveries of a home: registered under a key, and fetched where a URL names them.

A delivery is read several times, and its content must be the same each time: by the intake, by the gate, and by an audit years
later. What a URL names is fetched once, and the copy is the delivery; it contains personal data, and is as restricted as the
store.
"""

import shutil
from dataclasses import replace
from pathlib import Path, PurePosixPath

from deid_assets.errors import DeliveryError, ReleaseError
from deid_assets.sources.delivery import Delivery
from deid_assets.store import durable
from deid_assets.store.digests import SMALL_AT_MOST, file_digest, is_digest, regular_bytes
from deid_assets.store.home import Home, plain_key
from deid_assets.store.remote import RemoteFolder, Seen


def delivery_file(home: Home, key: str) -> Path:
    """Path of a delivery's record."""
    return home.deliveries / f"{plain_key(key)}.json"


def register_delivery(home: Home, delivery: Delivery) -> Delivery:
    """Store the record of a delivery; owner-only, because file names may reveal something about persons.

    Returns
    -------
    Delivery
        The delivery as registered. One that arrived in a watched folder keeps its marker, and stays final, if somebody names
        it as well; one that somebody named gets the marker once a watched folder has it.

    Raises
    ------
    DeliveryError
        If another delivery was registered under the key, or if the delivery contains the home or is inside it.
    """
    _require_outside(home, delivery)
    file = delivery_file(home, delivery.key)
    # Runs under other policies may register the same delivery concurrently.
    with durable.locked(home.deliveries / ".lock"):
        before = _record_in(file) if file.exists() else None
        marked = delivery
        if before is not None and delivery.complete_when is None:
            marked = replace(delivery, complete_when=_delivery_in(file).complete_when)
        if before not in (None, marked.to_json(), replace(marked, complete_when=None).to_json()):
            raise DeliveryError(
                f"a different delivery is registered as {delivery.key}: {_difference(_delivery_in(file), delivery)}; give this "
                "one another key (--key)"
            )
        if before != marked.to_json():
            durable.replace(file, marked.to_json().encode(), 0o600)
    return marked


def _difference(before: Delivery, now: Delivery) -> str:
    """In what a delivery differs from the one that is registered under its key."""
    if before.kind != now.kind:
        return f"its kind is {before.kind}, and not {now.kind}"
    if before.paths != now.paths:
        return "it has another path"
    names = sorted({*before.parameters, *now.parameters})
    differ = [name for name in names if before.parameters.get(name) != now.parameters.get(name)]
    if not differ:
        return "another file says that it is complete"
    # Parameters are options of the command line that were not given if they are missing.
    return "; ".join(
        f"--{name} was {before.parameters.get(name, 'not given')}, and is {now.parameters.get(name, 'not given')} now"
        for name in differ
    )


def _require_outside(home: Home, delivery: Delivery) -> None:
    """Refuse a delivery whose folder contains keys or restricted data: a policy chooses which of its files are read."""
    root, made_here = home.root.resolve(), home.deliveries.resolve()
    for path in (path.resolve() for path in delivery.paths):
        if made_here in path.parents:
            continue
        if path == root or root in path.parents or path in root.parents:
            raise DeliveryError(
                f"delivery {delivery.key}: its folder contains the home {home.root} with keys and restricted data, or is "
                "inside it; put the delivery into a folder of its own, or set DEID_HOME to a folder elsewhere"
            )


def registered_delivery(home: Home, key: str) -> Delivery:
    """The delivery that was registered under this key.

    Raises
    ------
    DeliveryError
        If there is none.
    """
    file = delivery_file(home, key)
    if not file.exists():
        raise DeliveryError(f"no delivery is registered as {key}; `deid run --delivery PATH` registers it")
    return _delivery_in(file)


def require_same_content(home: Home, delivery: Delivery, digest: str) -> None:
    """Remember the content of a delivery when it has been read; refuse a watched one whose content is another now.

    Parameters
    ----------
    digest
        `Delivery.digest` over the bytes that were read.

    Raises
    ------
    DeliveryError
        If the delivery arrived in a watched folder, and an earlier reading found other content.
    """
    file = _content_file(home, delivery.key)
    with durable.locked(home.deliveries / ".lock"):
        before = content_read(home, delivery.key)
        if before == digest:
            return
        if before is not None and delivery.complete_when is not None:
            raise DeliveryError(
                f"delivery {delivery.key}: its content has changed since it was first read; a delivery is final once its "
                "marker is there. Restore its files, or put the new content into a folder of its own"
            )
        durable.replace(file, digest.encode(), 0o600)


def content_read(home: Home, key: str) -> str | None:
    """The digest of a delivery's content when it was last read; None if it never was.

    Raises
    ------
    DeliveryError
        If the note of it cannot be read.
    """
    file = _content_file(home, key)
    if not file.exists():
        return None
    text = _record_in(file)
    if not is_digest(text):
        raise DeliveryError(f"deliveries/{file.name} is damaged; restore it from a backup")
    return text


def unregister(home: Home, key: str) -> None:
    """Forget a delivery: its record, and what its content was. Its own files stay where they are."""
    with durable.locked(home.deliveries / ".lock"):
        for file in (delivery_file(home, key), _content_file(home, key)):
            file.unlink(missing_ok=True)
        durable.sync(home.deliveries)


def _content_file(home: Home, key: str) -> Path:
    return home.deliveries / f"{plain_key(key)}.sha256"


def _delivery_in(file: Path) -> Delivery:
    text = _record_in(file)
    try:
        return Delivery.from_json(text)
    except DeliveryError as error:
        raise DeliveryError(f"the record deliveries/{file.name}: {error}; restore it from a backup") from None


def _record_in(file: Path) -> str:
    try:
        return regular_bytes(file, SMALL_AT_MOST).decode("utf-8", "replace")
    except ReleaseError as error:
        raise DeliveryError(f"the record deliveries/{file.name}: {error}; remove it, and register the delivery again") from None


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
