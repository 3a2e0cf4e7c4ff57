"""Copies of published releases, in object storage or on another disk.

A release is published in the home first, where it becomes visible by one rename. A copy never decides anything: it is made of
a release that verifies, file by file, each read back and compared, and its manifest is written last. A folder without a
manifest is no release, so that a copy is visible whole or not at all, on storage that cannot rename. The registry follows, if
the one that is there is the beginning of ours. So copies are witnesses of what the home published: before every decision, it
must know what the copies in DEID_COPY_TO know.
"""

import json
import os
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from deid_assets.errors import DeidError, ReleaseError, StoreError
from deid_assets.release.journal.chain import COPIES, JOURNAL, HomeState, Journal, Loss, cut, head_told
from deid_assets.release.keys import PublicKey
from deid_assets.release.publication.verification import MANIFEST, verify_release
from deid_assets.release.publication.waiting import REGISTRY
from deid_assets.release.registry import clock
from deid_assets.release.registry.chain import Chain, Entry, Registry
from deid_assets.store import durable
from deid_assets.store.digests import file_digest, regular_bytes
from deid_assets.store.home import Home
from deid_assets.store.remote import RemoteFolder

VARIABLE = "DEID_COPY_TO"
FILE = "copies.jsonl"
"""In the restricted store: what was copied, where and when."""
SAMPLE = 20
"""Files of copies that are read back each time."""


@dataclass(frozen=True)
class Copied:
    """A release that was copied.

    Attributes
    ----------
    release
        As policy/number.
    to
        The URL of the folder of all copies.
    manifest_digest
        Of its public manifest.
    time
        When, in ISO 8601.
    """

    release: str
    to: str
    manifest_digest: str
    time: str


def copy_releases(home: Home, key: PublicKey, url: str) -> list[Copied]:
    """Copy every release that is not there yet, unless it was withdrawn, and then the registry.

    Parameters
    ----------
    key
        The key in force: only what verifies is copied.
    url
        The folder of all copies; it has the layout of the folder of releases.

    Returns
    -------
    list of Copied
        Those that were copied now.

    Raises
    ------
    ReleaseError
        If a release does not verify, another one or another registry is there, or a copy differs from its source.
    StoreError
        If the folder cannot be read or written, or is in the home: what lies there is no copy.
    """
    target = RemoteFolder.at(url)
    local = target.local
    if local is not None and home.holds(local):
        raise StoreError(
            f"{target.address} is in the home {home.root}, so that both would be lost together: name a folder elsewhere"
        )
    with durable.locked(durable.owner_only(home.store) / f".{FILE}.lock"):
        registry = home.releases / REGISTRY
        chain = Registry(registry).chain()
        if not chain.lines:
            return []
        ours, theirs = _content(chain), target.read(REGISTRY) or b""
        if not ours.startswith(theirs):
            raise ReleaseError(_more_in(target))
        copied = [
            _copied(home, entry, key, target)
            for entry in chain.entries
            if chain.withdrawal_of(entry.policy, entry.number) is None and not _is_there(home, entry, target)
        ]
        if theirs != ours:
            target.write(REGISTRY, ours)
    return copied


def against_copies(home: Home, journal: Journal, found: HomeState) -> Iterator[Loss]:
    """What a home lacks according to the copies of its releases in DEID_COPY_TO; nothing if the variable is not set.

    The registry there must be the beginning of the home's. Of a release whose manifest the home lacks, such as one that was
    withdrawn, the manifest there says which line the journal had. Copies that cannot be read are a loss, too.
    """
    url = os.environ.get(VARIABLE)
    if url is None:
        return
    try:
        target = RemoteFolder.at(url)
        theirs = target.read(REGISTRY)
        if theirs is None and any(one.to == target.address for one in _recorded(home)):
            raise StoreError(f"the copies that were made in {target.address} are not there")
        lacking = [release for release, head in found.manifests.items() if head is None]
        manifests = {release: target.read(f"{release}/{MANIFEST}") for release in lacking}
    except DeidError as error:
        yield Loss(
            COPIES,
            f"the copies in {VARIABLE} cannot be compared: {error}; let the folder be reachable, or do without it: unset "
            f"{VARIABLE}",
        )
        return
    if not _content(found.chain).startswith(theirs or b""):
        yield Loss(JOURNAL, _more_in(target))
    for release, manifest in manifests.items():
        head = head_told(manifest or b"")
        if head and not journal.reaches(head):
            yield Loss(JOURNAL, cut(f"the manifest of release {release} in {target.address}"))


def _content(chain: Chain) -> bytes:
    return b"".join(line.line for line in chain.lines)


def _more_in(target: RemoteFolder) -> str:
    return (
        f"the registry in {target.address} is not the beginning of this home's: it is another home's, was changed, or is newer "
        "(this home was put back as it was before). Put the newest home back from a backup, or name a folder of this home's own"
    )


def read_copies_back(home: Home, url: str, at_most: int = SAMPLE) -> tuple[int, int]:
    """Read a random sample of the files of all copies back, and compare them with the releases.

    Returns
    -------
    tuple of int
        Files that were read back, and files of copies that there are.

    Raises
    ------
    ReleaseError
        If one is not as it was published.
    StoreError
        If it cannot be read.
    """
    target, chain = RemoteFolder.at(url), Registry(home.releases / REGISTRY).chain()
    files = [
        (f"{entry.policy}/{entry.number:04d}/{path.relative_to(_folder(home, entry)).as_posix()}", path)
        for entry in chain.entries
        if _folder(home, entry).is_dir() and _is_there(home, entry, target)
        for path in sorted(_folder(home, entry).rglob("*"))
        if path.is_file()
    ]
    chosen = random.SystemRandom().sample(files, min(at_most, len(files)))
    for name, path in chosen:
        if not target.has(name) or target.digest(name) != file_digest(path):
            raise ReleaseError(
                f"{target.address}/{name} is missing or is not what was published: somebody changed the copy. Find out who, "
                "move its folder away, and copy the release again"
            )
    return len(chosen), len(files)


def copy_published(home: Home, key: PublicKey) -> dict[str, str]:
    """Copy what was just published to the folder in DEID_COPY_TO, and what is missing there; return what to say of it.

    The release is published, whatever comes of this: what is missing is copied after the next release.
    """
    url = os.environ.get(VARIABLE)
    if url is None:
        return {}
    try:
        copy_releases(home, key, url)
        return {"copied_to": RemoteFolder.at(url).address}
    except DeidError as error:
        return {"notice": f"The release is published, but was not copied; `deid release copy` tries again: {error}"}


def _folder(home: Home, entry: Entry) -> Path:
    return home.releases / entry.policy / f"{entry.number:04d}"


def _is_there(home: Home, entry: Entry, target: RemoteFolder) -> bool:
    """Whether the release was copied before.

    Raises
    ------
    ReleaseError
        If another release has its place.
    """
    theirs = target.read(f"{entry.policy}/{entry.number:04d}/{MANIFEST}")
    if theirs is None:
        return False
    if theirs != regular_bytes(_folder(home, entry) / MANIFEST):
        raise ReleaseError(
            f"another release than this home's is in {target.address}/{entry.policy}/{entry.number:04d}: releases never "
            "change. Find out who wrote it"
        )
    return True


def _copied(home: Home, entry: Entry, key: PublicKey, target: RemoteFolder) -> Copied:
    name, folder = f"{entry.policy}/{entry.number:04d}", _folder(home, entry)
    found = verify_release(folder, key, home.releases / REGISTRY)
    if not found.ok:
        raise ReleaseError(f"release {name} is not copied, because it does not verify:\n{found.text()}")
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    # The manifest last: without it, nothing that is there is a release.
    for path in (*files, folder / MANIFEST):
        there = f"{name}/{path.relative_to(folder).as_posix()}"
        target.put(there, path)
        if target.digest(there) != file_digest(path):
            raise ReleaseError(f"{target.address}/{there} is not what was written there; nothing more is copied")
    done = Copied(name, target.address, entry.manifest_digest, clock.now(None))
    _record(home, done)
    return done


def _recorded(home: Home) -> list[Copied]:
    file = home.store / FILE
    try:
        return [Copied(**json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []
    except (OSError, TypeError, ValueError):
        raise StoreError(f"store/{FILE}, which says what was copied, is damaged: put it back from a backup") from None


def _record(home: Home, done: Copied) -> None:
    file = home.store / FILE
    before = file.read_bytes() if file.exists() else b""
    durable.replace(file, before + f"{json.dumps(asdict(done), sort_keys=True)}\n".encode(), 0o600)
