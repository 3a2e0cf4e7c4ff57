"""The registry: the append-only list of all releases, one JSON line each, chained by hashes.

Every entry holds the hash of the one before it, so that no entry can be changed, removed or moved without changing
the head, which is recorded elsewhere too: in each release's signed manifest, and in the event log. An entry says only
what the signed manifest says, so that an entry which a crash prevented can be made again, byte for byte.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from deid_assets.errors import ReleaseError
from deid_assets.release import durable
from deid_assets.release.digests import bytes_digest, canonical_json, is_digest, parse_json

GENESIS = "0" * 64
"""What the first entry names as the hash before it."""


@dataclass(frozen=True)
class Entry:
    """One release in the registry.

    Parameters
    ----------
    policy, number
        Which release.
    delivery
        Keyed digest of the key of the delivery that was released; earlier entries have the key itself.
    inputs_digest
        Keyed digest of what went in (delivery, policy, code): equal for a release that would repeat this one.
    manifest_digest
        SHA-256 of the public manifest.
    previous
        `hash` of the entry before it; `GENESIS` for the first.
    time
        When the manifest was made, as it says itself.
    """

    policy: str
    number: int
    delivery: str
    inputs_digest: str
    manifest_digest: str
    previous: str
    time: str

    @property
    def hash(self) -> str:
        """SHA-256 of everything else in the entry; what the next entry names."""
        return bytes_digest(canonical_json(asdict(self)))

    @property
    def line(self) -> bytes:
        return canonical_json(asdict(self) | {"hash": self.hash})

    @classmethod
    def from_manifest(cls, content: bytes) -> "Entry":
        """The entry of the release whose public manifest is `content`.

        Raises
        ------
        ReleaseError
            If it is not a manifest.
        """
        value = parse_json(content)
        try:
            return cls.from_json(
                {
                    "policy": value["policy"]["name"],
                    "number": value["number"],
                    "delivery": _delivery(value["delivery"]),
                    "inputs_digest": value["inputs_digest"],
                    "manifest_digest": bytes_digest(content),
                    "previous": value["registry_previous"],
                    "time": value["created"],
                }
            )
        except (TypeError, KeyError):
            raise ReleaseError("the manifest lacks fields that its registry entry needs") from None

    @classmethod
    def from_json(cls, value: Mapping) -> "Entry":
        """Read an entry's fields, `hash` not among them."""
        if set(value) != {field.name for field in fields(cls)}:
            raise ReleaseError("a registry entry has missing or unknown fields")
        texts = (value["policy"], value["delivery"], value["time"])
        digests = (value["inputs_digest"], value["manifest_digest"], value["previous"])
        number = value["number"]
        if not (all(isinstance(text, str) for text in texts) and all(map(is_digest, digests)) and type(number) is int):
            raise ReleaseError("a registry entry has a field of the wrong type")
        return cls(**value)


def _delivery(told: Mapping) -> str:
    """What stands for the delivery; earlier manifests name it by its key."""
    return told["key_digest"] if "key_digest" in told else told["key"]


@dataclass(frozen=True)
class Chain:
    """A registry file as it was read.

    Parameters
    ----------
    entries
        In order, up to the first line that is wrong.
    problem
        What is wrong with that line, by its number; None for a sound chain.
    tail
        Bytes after the last line feed: what a crash left of an entry; empty otherwise.
    """

    entries: tuple[Entry, ...]
    problem: str | None
    tail: bytes

    @property
    def head(self) -> str:
        """Hash of the last entry; `GENESIS` if there is none."""
        return self.entries[-1].hash if self.entries else GENESIS

    def find(self, policy: str, number: int) -> Entry | None:
        """The entry of a release."""
        return next((e for e in self.entries if (e.policy, e.number) == (policy, number)), None)


def read_chain(path: Path) -> Chain:
    """Read and check a registry file from its first entry to its head; a missing file is an empty registry.

    Never raises for what the file says: the problem is in the result.
    """
    content = path.read_bytes() if path.exists() else b""
    *lines, tail = content.split(b"\n")
    entries: list[Entry] = []
    used: set[tuple[str, int]] = set()
    head = GENESIS
    for position, line in enumerate(lines, start=1):
        try:
            entry = _entry(line, head)
            if (entry.policy, entry.number) in used:
                raise ReleaseError("uses the number of an earlier release")
        except ReleaseError as error:
            return Chain(tuple(entries), f"line {position} of the registry {error}", tail)
        entries.append(entry)
        used.add((entry.policy, entry.number))
        head = entry.hash
    return Chain(tuple(entries), None, tail)


def _entry(line: bytes, head: str) -> Entry:
    """Read the line, without its line feed, that follows an entry with the hash `head`.

    Raises
    ------
    ReleaseError
        Saying what is wrong with it, to be read after "the line".
    """
    try:
        value = parse_json(line)
        entry = Entry.from_json({name: part for name, part in value.items() if name != "hash"})
    except (ReleaseError, AttributeError):
        raise ReleaseError("is not a registry entry") from None
    if entry.line != line + b"\n":
        raise ReleaseError("was changed: its hash is not that of its content")
    if entry.previous != head:
        raise ReleaseError("does not follow the line before it: a line was changed, removed, added or moved")
    return entry


@dataclass(frozen=True)
class Registry:
    """The registry in its file. Whoever appends or repairs holds the lock of the releases' folder.

    Parameters
    ----------
    path
        The file; made by the first entry.
    """

    path: Path

    def chain(self) -> Chain:
        """All entries.

        Raises
        ------
        ReleaseError
            If the chain is broken.
        """
        chain = read_chain(self.path)
        if chain.problem:
            raise ReleaseError(f"{chain.problem}. Nothing is released onto a broken chain: restore it from a backup")
        return chain

    @property
    def head(self) -> str:
        """Hash of the last entry; 64 zeros while there is none."""
        return self.chain().head

    def already_released(self, policy: str, inputs_digest: str) -> Entry | None:
        """The release that had the same inputs under the same policy, if any."""
        same = (e for e in self.chain().entries if (e.policy, e.inputs_digest) == (policy, inputs_digest))
        return next(same, None)

    def append(self, entry: Entry) -> None:
        """Add an entry after the head and flush it.

        Raises
        ------
        ReleaseError
            If it does not follow the head, or its number was used.
        """
        chain = self.chain()
        if chain.tail:
            raise ReleaseError("the registry ends in a cut line: repair it first")
        if entry.previous != chain.head or chain.find(entry.policy, entry.number):
            raise ReleaseError(f"release {entry.policy}/{entry.number:04d} does not follow the head of the registry")
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            durable.write_all(descriptor, entry.line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        durable.sync(self.path.parent)

    def repair(self) -> bool:
        """Mend the last line if a crash cut it; say whether there was something to mend.

        An entry that lacks only its line feed gets it. Of any other one the piece is removed: it was never
        acknowledged, its release is in its folder or nowhere, and recovery appends the same entry again.
        """
        chain = self.chain()
        if not chain.tail:
            return False
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            try:
                _entry(chain.tail, chain.head)
                durable.write_all(descriptor, b"\n")
            except ReleaseError:
                os.ftruncate(descriptor, self.path.stat().st_size - len(chain.tail))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return True
