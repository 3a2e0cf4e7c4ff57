"""The file of the journal: one signed line for each decision, each with the hash of the line before it.

It lies in the restricted store. Its head, the hash of the last line, is also kept in the folder of the keys, in every
published manifest and with the owner's witnesses, so that a journal whose end was cut off is noticed.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from deid_assets.errors import NewerHomeError, ReleaseError
from deid_assets.release.keys import SigningKey
from deid_assets.release.registry.chain import GENESIS
from deid_assets.release.registry.clock import parse_time
from deid_assets.release.registry.entries import SignedByOne
from deid_assets.store import durable
from deid_assets.store.digests import Json, canonical_json, is_digest, parse_json
from deid_assets.store.reading import REGISTRY_AT_MOST, SMALL_AT_MOST, kept_bytes, regular_bytes

HEAD_FILE = "journal.head"
HEAD_FORMAT = "deid_assets journal head 1"

NO_JOURNAL, UNSTATED, NEWEST = 1, 2, 3
"""Formats of a home: without a journal, with one that states no format, and with one that does. This code makes the newest, and
reads all of them; before anything is decided in a home without a journal, one has to be begun."""

BEGUN, COPIED, REGISTERED, OPTED_OUT, OPTED_IN, WAITS, APPROVED, ADOPTED, RETIRED, PURGED, SECRET, WITNESS, RULES, UPGRADED = (
    "begun", "copied", "registered", "opted out", "opted in", "waits", "approved", "policy adopted", "policy retired", "purged",
    "secret replaced", "witness", "rules", "upgraded",
)  # fmt: skip
FIRST = (BEGUN, COPIED)
"""With which a journal begins: that of a home, and that of a temporary copy, whose releases name the journal of the home."""
EVENTS: Mapping[str, frozenset[str]] = {
    BEGUN: frozenset({"registry", "lines", "people", "secret"}),
    COPIED: frozenset({"registry", "lines", "people", "secret"}),
    REGISTERED: frozenset({"registry", "lines", "what", "new_key"}),
    OPTED_OUT: frozenset({"person", "secret"}),
    OPTED_IN: frozenset({"person", "secret"}),
    WAITS: frozenset({"release", "record"}),
    APPROVED: frozenset({"release", "by"}),
    ADOPTED: frozenset({"policy", "record"}),
    RETIRED: frozenset({"policy"}),
    PURGED: frozenset({"policy", "delivery"}),
    SECRET: frozenset({"people", "secret"}),
    WITNESS: frozenset({"to", "listed"}),
    RULES: frozenset({"rules", "approvers", "by"}),
    UPGRADED: frozenset({"format", "version"}),
}
"""What a line of each event tells."""
_STATED = frozenset({"format", "version"})
"""What the first line tells besides, of a journal that states the home's format, and the version of the code that began it."""


@dataclass(frozen=True)
class JournalLine(SignedByOne):
    """A decision.

    Parameters
    ----------
    event
        One of `EVENTS`.
    about
        What was decided, as `EVENTS` lists it. People are keyed digests (`comparison.person_digest`).
    previous, time
        Hash of the line before it, `GENESIS` for the first; and when it was written, in ISO 8601.
    key, signature
        Raw public key of the signer, and its signature, in hexadecimal.
    """

    event: str
    about: Mapping[str, Json]

    kind: ClassVar = "journal"

    def require_signed(self) -> None:
        """Refuse a line that is not signed, or does not tell what its event has to."""
        told = EVENTS.get(self.event, frozenset())
        allowed = (told, told | _STATED) if self.event == BEGUN else (told,)
        if not told or not isinstance(self.about, Mapping) or frozenset(self.about) not in allowed:
            raise ReleaseError("does not tell what happened")
        if not self._holds(self.key, self.signature):
            raise ReleaseError("is not signed by the key that it names")


@dataclass(frozen=True)
class Journal:
    """The journal as read.

    Parameters
    ----------
    lines
        In order, up to the first invalid one.
    problem
        What is wrong with that one, with its number; None for a sound journal.
    tail
        Bytes after the last line feed: what a crash left of a line; empty otherwise.
    key
        Public key of who has to sign the next line, in hexadecimal; empty before the first.
    """

    lines: tuple[JournalLine, ...]
    problem: str | None = None
    tail: bytes = b""
    key: str = ""

    @property
    def head(self) -> str:
        """Hash of the last line; `GENESIS` if there is none."""
        return self.lines[-1].hash if self.lines else GENESIS

    def reaches(self, head: str) -> bool:
        """Whether this journal ever had this head."""
        return any(line.hash == head for line in self.lines)


@dataclass(frozen=True)
class Head:
    """A head of a journal, as it is kept outside.

    Attributes
    ----------
    journal
        Hash of the journal's first line: which journal it is.
    head, lines
        Hash of the last line, and the number of lines.
    time
        When the last line was written, in ISO 8601.
    """

    journal: str
    head: str
    lines: int
    time: str

    @classmethod
    def of(cls, journal: Journal) -> "Head":
        """The head of a journal that has begun."""
        return cls(journal.lines[0].hash, journal.head, len(journal.lines), journal.lines[-1].time)

    def to_json(self) -> bytes:
        """The content of a file that keeps it."""
        return canonical_json({"format": HEAD_FORMAT, **vars(self)})

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        """The inverse of `to_json`.

        Raises
        ------
        ReleaseError
            If it is something else.
        """
        try:
            told = parse_json(content)
            found = cls(told["journal"], told["head"], told["lines"], told["time"])
            if told["format"] != HEAD_FORMAT or not (is_digest(found.journal) and is_digest(found.head)):
                raise ValueError
        except (ReleaseError, KeyError, TypeError, ValueError):
            raise ReleaseError("it is not the head of a journal") from None
        return found


@dataclass(frozen=True)
class JournalFile:
    """The journal in its file. Whoever appends or repairs holds the lock of the folder of releases.

    Parameters
    ----------
    path
        The file.
    head_path
        Where its head is kept, too.
    """

    path: Path
    head_path: Path

    def read(self) -> Journal:
        """All lines, each compared with the one before it; a missing file is a journal that has not begun.

        Raises
        ------
        ReleaseError
            If it is not a regular file, or cannot be read.
        NewerHomeError
            If it states a format that this code does not know.
        """
        content = kept_bytes(self.path, "the home's journal (store/journal.jsonl)", REGISTRY_AT_MOST)
        *texts, tail = content.split(b"\n")
        lines: list[JournalLine] = []
        key = ""
        for position, text in enumerate(texts, start=1):
            try:
                line = _line_of(text)
                key = _key_after(line, lines, key)
            except NewerHomeError:
                raise
            except ReleaseError as error:
                return Journal(tuple(lines), f"line {position} of the home's journal {error}", tail, key)
            lines.append(line)
        return Journal(tuple(lines), None, tail, key)

    def kept_head(self) -> Head | None:
        """The head that is kept beside the keys; None if there is none.

        Raises
        ------
        ReleaseError
            If the file is not a head.
        """
        if not os.path.lexists(self.head_path):
            return None
        try:
            return Head.from_json(regular_bytes(self.head_path, SMALL_AT_MOST))
        except ReleaseError as error:
            raise ReleaseError(f"keys/{HEAD_FILE}: {error}; put it back from a backup") from None

    def repair(self) -> None:
        """Mend what a crash left: a cut last line, which nobody was told of, or a kept head that is behind.

        A line that lacks only its line feed gets it. Any other fragment is removed, unless the kept head knows a line that is
        not there: then somebody was told of it, and what is left of it stays.
        """
        journal, kept = self.read(), self.kept_head()
        if journal.problem:
            return
        if journal.tail:
            try:
                _key_after(_line_of(journal.tail), list(journal.lines), journal.key)
                is_whole = True
            except ReleaseError:
                is_whole = False
            if not is_whole and kept is not None and not journal.reaches(kept.head):
                return
            durable.mend_end(self.path, len(journal.tail), is_whole)
            journal = self.read()
        # Of the first line, whose head was never kept, or of a later one.
        behind = (kept is None and len(journal.lines) == 1) or (
            kept and kept.head != journal.head and journal.reaches(kept.head)
        )
        if journal.lines and behind:
            self._keep_head(journal)

    def append(self, event: str, about: Mapping[str, Json], key: SigningKey, time: str) -> JournalLine:
        """Add a line, flushed, and keep the new head.

        Raises
        ------
        ReleaseError
            If the journal is broken, or another key has to sign the line.
        """
        journal = self.read()
        if journal.problem or journal.tail:
            raise ReleaseError(journal.problem or "the home's journal ends in a cut line")
        line = JournalLine(event, dict(about), previous=journal.head, time=time).signed(key)
        line.require_signed()
        try:
            _key_after(line, list(journal.lines), journal.key)
        except ReleaseError as error:
            raise ReleaseError(f"line {len(journal.lines) + 1} of the home's journal {error}") from None
        durable.append(self.path, line.line, 0o600)
        self._keep_head(Journal((*journal.lines, line)))
        return line

    def _keep_head(self, journal: Journal) -> None:
        durable.replace(self.head_path, Head.of(journal).to_json(), 0o600)


def _line_of(text: bytes) -> JournalLine:
    try:
        value = parse_json(text)
        if value["kind"] != JournalLine.kind:
            raise ValueError
        parse_time(value["time"])
        line = JournalLine.from_json({name: part for name, part in value.items() if name not in ("hash", "kind")})
    except (ReleaseError, AttributeError, KeyError, TypeError, ValueError):
        raise ReleaseError("is not a line of a journal") from None
    if line.line != text + b"\n":
        raise ReleaseError("was changed: its hash is not that of its content")
    if line.event in (BEGUN, UPGRADED):
        _require_known(line)
    line.require_signed()
    return line


def _require_known(line: JournalLine) -> None:
    """Refuse a home of a later format, whose journal may tell what this code does not understand."""
    stated = line.about.get("format", UNSTATED)
    if isinstance(stated, int) and stated > NEWEST:
        raise NewerHomeError(
            f"this home has format {stated}, of deid_assets {line.about.get('version')}; this version knows formats up to "
            f"{NEWEST}: install that version or a later one"
        )


def _key_after(line: JournalLine, before: list[JournalLine], key: str) -> str:
    """The key that has to sign the line after this one; this one has to be in its place, and signed by the key in force.

    The line that tells of a new key is signed by the new one: the registry, with which it is compared, has the signatures of
    both. Of several rotations that one line tells, it names the last.
    """
    if line.previous != (before[-1].hash if before else GENESIS):
        raise ReleaseError("does not follow the line before it: a line was changed, removed, added or moved")
    if (line.event in FIRST) != (not before):
        raise ReleaseError("begins the journal a second time" if before else "does not begin the journal")
    successor = str(line.about.get("new_key") or "") if line.event == REGISTERED else ""
    if key and line.key not in (key, successor):
        raise ReleaseError("is signed by a key that was not in force")
    return successor or line.key
