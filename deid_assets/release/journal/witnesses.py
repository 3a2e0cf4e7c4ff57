"""Witnesses: heads of a home's journal, kept where whoever can write to the home cannot.

A witness is a small file, on another disk or in object storage. It names a line of the journal by its hash, and nobody. The
journal must have that line. So an end that was cut off, an older home that was put back, and a second home that went on by
itself are noticed as soon as somebody looks.
"""

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from deid_assets.errors import DeidError, ReleaseError
from deid_assets.release.journal.chain import Head, Journal
from deid_assets.release.journal.comparison import JOURNAL, WITNESSES, Loss, cut
from deid_assets.store import durable
from deid_assets.store.home import Home
from deid_assets.store.reading import SMALL_AT_MOST, regular_bytes
from deid_assets.store.remote import RemoteFolder

VARIABLE = "DEID_WITNESS"
"""Names one more witness, a file or URL, in the environment: nobody who can only write to the home can change it."""


def given_witness(home: Home) -> list[str]:
    """The witness that the environment names, if it names one.

    Raises
    ------
    ReleaseError
        If the variable is empty, or names a place in the home, or one that depends on the current folder.
    """
    named = os.environ.get(VARIABLE)
    if named is not None and not named.strip():
        raise ReleaseError(f"{VARIABLE} is empty: set it to a file or URL, or unset it")
    if named is not None and "://" not in named and not os.path.isabs(named):
        raise ReleaseError(f"{VARIABLE} is {named}, which is another file in every folder: name the file by its whole path")
    return [] if named is None else [outside(home, named)]


def place_of(named: str) -> str:
    """A witness as it is recorded: a URL as it is, a file by its whole path."""
    return named if "://" in named else str(Path(named).absolute())


def outside(home: Home, named: str) -> str:
    """`place_of` a new witness.

    Raises
    ------
    ReleaseError
        If it is in the home, with which it would be put back.
    """
    local = Path(named) if "://" not in named else RemoteFolder.at(named).local if named.startswith("file:") else None
    if local is not None and home.holds(local):
        raise ReleaseError(f"{named} is in the home, whose loss it could not show: name a file or URL elsewhere")
    return place_of(named)


def read_head(place: str) -> Head | None:
    """The head at a witness; None if there is none yet.

    Raises
    ------
    ReleaseError, StoreError
        If it cannot be read, or is something else.
    """
    try:
        if "://" in place:
            folder, name = _split(place)
            content = RemoteFolder.at(folder).read(name)
        else:
            content = regular_bytes(Path(place), SMALL_AT_MOST) if os.path.lexists(place) else None
        return None if content is None else Head.from_json(content)
    except ReleaseError as error:
        raise ReleaseError(f"the witness {place} cannot be read: {error}") from None


def told_head(place: str, recorded: Collection[str]) -> Head | None:
    """The head at a witness; None if there is none yet, which only one that the journal does not know may say.

    Raises
    ------
    ReleaseError, StoreError
        As `read_head`, or if it is missing although the journal knows it.
    """
    known = read_head(place)
    if known is None and place in recorded:
        raise ReleaseError(f"the witness {place} is missing")
    return known


def write_head(place: str, journal: Journal) -> None:
    """Write the head of a journal to a witness, which must not know of lines that the journal lacks.

    Raises
    ------
    ReleaseError, StoreError
        If it does, or it cannot be read or written.
    """
    known = read_head(place)
    if known is not None and not journal.reaches(known.head):
        raise ReleaseError(cut(f"the witness {place}"))
    content = Head.of(journal).to_json()
    if "://" in place:
        folder, name = _split(place)
        RemoteFolder.at(folder).write(name, content)
        return
    path = Path(place)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        durable.replace(path, content, 0o644)
    except OSError as error:
        raise ReleaseError(f"the witness {place} cannot be written: {error.strerror}") from None


def against_witnesses(journal: Journal, recorded: Collection[str], given: Collection[str]) -> Iterator[Loss]:
    """What the journal lacks according to its witnesses.

    Parameters
    ----------
    recorded
        Witnesses that the journal knows. One that is gone, or cannot be read, is a loss, too.
    given
        Further ones, which need not have a head yet.
    """
    for place in dict.fromkeys([*recorded, *given]):
        try:
            known = told_head(place, recorded)
        except DeidError as error:
            ways = [f"`deid journal forget {place}`"] * (place in recorded) + [f"unset {VARIABLE}"] * (place in given)
            text = f"{error}; put it back, or do without it from now on: {', and '.join(ways)}"
            yield Loss(WITNESSES, text, place)
            continue
        if known is not None and not journal.reaches(known.head):
            yield Loss(JOURNAL, cut(f"the witness {place}"))


def _split(url: str) -> tuple[str, str]:
    folder, _, name = url.rpartition("/")
    if not name or folder.endswith("/"):
        raise ReleaseError("it is no file: name one, such as s3://bucket/journal.head")
    return folder, name
