"""The registry: the append-only list of all releases, refused tries and changes of the signing key, chained by hashes.

Every entry contains the hash of the one before it. So no entry can be changed, removed or moved without changing the
head, which is also recorded in each release's signed manifest and in the event log. An entry repeats only what the
signed manifest says, so an entry that a crash prevented can be recreated byte for byte.
"""

from dataclasses import dataclass
from pathlib import Path

from deid_assets.errors import ReleaseError
from deid_assets.release.keys import PublicKey
from deid_assets.release.registry.clock import goes_back, parse_time
from deid_assets.release.registry.entries import (
    ClockCorrection,
    Entry,
    KeyRotation,
    Line,
    NoiseCharge,
    OlderNoiseCharge,
    RefusedTry,
    Rejection,
    Withdrawal,
    line_of,
)
from deid_assets.store import durable
from deid_assets.store.reading import REGISTRY_AT_MOST, kept_bytes

GENESIS = "0" * 64
"""The previous hash in the first entry."""

__all__ = ["GENESIS", "Chain", "Entry", "Registry", "read_chain"]


@dataclass(frozen=True)
class Chain:
    """A registry file as read.

    Parameters
    ----------
    lines
        All entries in order, up to the first invalid line.
    problem
        What is wrong with that line, with its number; None for a sound chain.
    tail
        Bytes after the last line feed: what a crash left of an entry; empty otherwise.
    """

    lines: tuple[Line, ...]
    problem: str | None
    tail: bytes

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The releases, in order."""
        return tuple(line for line in self.lines if isinstance(line, Entry))

    @property
    def head(self) -> str:
        """Hash of the last entry; `GENESIS` if there is none."""
        return self.lines[-1].hash if self.lines else GENESIS

    @property
    def last_time(self) -> str | None:
        """The latest time of an entry, before which no later entry may be; None if there is none."""
        latest = None
        for line in self.lines:
            latest = _later(latest, line)
        return latest

    def find(self, policy: str, number: int) -> Entry | None:
        """The entry of a release."""
        return next((e for e in self.entries if (e.policy, e.number) == (policy, number)), None)

    @property
    def withdrawn(self) -> frozenset[tuple[str, int]]:
        """Policy and number of the releases that were withdrawn."""
        return frozenset((line.policy, line.number) for line in self.lines if isinstance(line, Withdrawal))

    @property
    def rejected(self) -> frozenset[tuple[str, int]]:
        """Policy and number of the releases that were rejected before they were published."""
        return frozenset((line.policy, line.number) for line in self.lines if isinstance(line, Rejection))

    def withdrawal_of(self, policy: str, number: int) -> Withdrawal | None:
        """The line that withdraws a release; None if it was not withdrawn."""
        lines = (line for line in self.lines if isinstance(line, Withdrawal))
        return next((line for line in lines if (line.policy, line.number) == (policy, number)), None)

    def key_after(self, position: int) -> str | None:
        """The key in force after that many lines, in hexadecimal, according to rotations; None if there are none."""
        earlier = [line.new_key for line in self.lines[:position] if isinstance(line, KeyRotation)]
        later = [line.old_key for line in self.lines[position:] if isinstance(line, KeyRotation)]
        return earlier[-1] if earlier else (later[0] or None) if later else None

    def times_that_go_back(self) -> tuple[int, ...]:
        """Numbers of the lines whose time is before that of an earlier line, or cannot be read."""
        found = []
        latest = None
        for position, line in enumerate(self.lines, start=1):
            if _goes_back(line, latest):
                found.append(position)
            latest = _later(latest, line)
        return tuple(found)


def _goes_back(line: Line, latest: str | None) -> bool:
    """Whether a line's time is before the latest earlier one, or is invalid."""
    try:
        return not isinstance(line, ClockCorrection) and goes_back(line.time, latest or line.time)
    except ReleaseError:
        return True


def _later(latest: str | None, line: Line) -> str | None:
    """The latest time after a line; a correction of the clock resets it to its own time."""
    try:
        found = parse_time(line.time)
    except ReleaseError:
        return latest
    corrected = latest is None or isinstance(line, ClockCorrection)
    return line.time if corrected or found > parse_time(latest) else latest


def read_chain(path: Path) -> Chain:
    """Read and check a registry file from its first entry to its head; a missing file is an empty registry.

    Never raises because of the file's content: the problem is in the result.

    Raises
    ------
    ReleaseError
        If the path is not a regular file, or the file cannot be read.
    """
    content = kept_bytes(path, f"the registry {path.name}", REGISTRY_AT_MOST)
    *texts, tail = content.split(b"\n")
    lines: list[Line] = []
    rules = _Rules()
    for position, text in enumerate(texts, start=1):
        try:
            line = _following(text, lines[-1].hash if lines else GENESIS)
            rules.require(line)
        except ReleaseError as error:
            return Chain(tuple(lines), f"line {position} of the registry {error}", tail)
        lines.append(line)
    return Chain(tuple(lines), None, tail)


class _Rules:
    """What a line must not say given the lines before it."""

    def __init__(self) -> None:
        self._used: set[tuple[str, int]] = set()
        self._withdrawn: set[tuple[str, int]] = set()
        self._rejected: set[tuple[str, int]] = set()
        self._key: str | None = None
        self._earlier_keys: set[str] = set()

    def require(self, line: Line) -> None:
        """Refuse a line that contradicts an earlier one.

        Raises
        ------
        ReleaseError
            With a message that continues "the line".
        """
        if isinstance(line, Entry):
            if (line.policy, line.number) in self._used:
                raise ReleaseError("uses the number of an earlier release")
            if (line.policy, line.number) in self._rejected:
                raise ReleaseError("uses the number of a release that was rejected")
            self._used.add((line.policy, line.number))
        elif isinstance(line, Withdrawal | Rejection | ClockCorrection | RefusedTry | NoiseCharge | OlderNoiseCharge):
            if self._key not in (None, line.key):
                raise ReleaseError("is signed by a key that was not in force")
            if isinstance(line, Withdrawal):
                self._require_withdrawable(line.policy, line.number)
            elif isinstance(line, Rejection):
                if (line.policy, line.number) in self._used | self._rejected:
                    raise ReleaseError("rejects a release that was published or rejected before it")
                self._rejected.add((line.policy, line.number))
        else:
            if self._key not in (None, line.old_key):
                raise ReleaseError("replaces a key that was not in force")
            if line.new_key in self._earlier_keys:
                raise ReleaseError("brings back a key that was replaced")
            self._earlier_keys |= {line.old_key, line.new_key}
            self._key = line.new_key

    def _require_withdrawable(self, policy: str, number: int) -> None:
        if (policy, number) not in self._used - self._withdrawn:
            raise ReleaseError("withdraws a release that is not registered before it, or that was withdrawn before")
        self._withdrawn.add((policy, number))


def _following(text: bytes, head: str) -> Line:
    """Read the line, without its line feed, that follows an entry with the hash `head`."""
    line = line_of(text)
    if line.previous != head:
        raise ReleaseError("does not follow the line before it: a line was changed, removed, added or moved")
    return line


@dataclass(frozen=True)
class Registry:
    """The registry in its file. Callers that append or repair hold the lock of the folder of releases.

    Parameters
    ----------
    path
        The file; created with the first entry.
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
            raise ReleaseError(f"{chain.problem}. Nothing is released while the chain is broken: restore it from a backup")
        return chain

    @property
    def head(self) -> str:
        """Hash of the last entry; 64 zeros while there is none."""
        return self.chain().head

    def already_released(self, policy: str, inputs_digest: str) -> Entry | None:
        """The release that had the same inputs under the same policy, if any."""
        same = (e for e in self.chain().entries if (e.policy, e.inputs_digest) == (policy, inputs_digest))
        return next(same, None)

    def append(self, entry: Line) -> None:
        """Add an entry after the head and flush it.

        Raises
        ------
        ReleaseError
            If it does not follow the head, goes back in time, or reuses a number.
        """
        chain = self.chain()
        if chain.tail:
            raise ReleaseError("the registry ends in a cut line: repair it first")
        used = isinstance(entry, Entry) and (
            chain.find(entry.policy, entry.number) or (entry.policy, entry.number) in chain.rejected
        )
        if entry.previous != chain.head or used:
            what = f"release {entry.policy}/{entry.number:04d}" if isinstance(entry, Entry) else f"the {entry.kind}"
            raise ReleaseError(f"{what} does not follow the head of the registry")
        if _goes_back(entry, chain.last_time):
            raise ReleaseError(
                f"the entry's time {entry.time} is before that of the registry's newest entry, {chain.last_time}: correct "
                "the clock"
            )
        durable.append(self.path, entry.line, 0o644)

    def repair(self) -> bool:
        """Repair the last line if a crash cut it; return whether there was something to repair.

        An entry that lacks only its line feed gets it. Any other fragment is removed: it was never acknowledged, its
        release is either complete in its folder or absent, and recovery appends the same entry again.
        """
        chain = self.chain()
        if not chain.tail:
            return False
        try:
            _following(chain.tail, chain.head)
            is_whole = True
        except ReleaseError:
            is_whole = False
        durable.mend_end(self.path, len(chain.tail), is_whole)
        return True


@dataclass(frozen=True)
class Trust:
    """Whether the signer is trusted, and why or why not."""

    trusted: bool
    reason: str = ""


def trust_in(signer: PublicKey, key: PublicKey, chain: Chain | None, entry: Entry | None) -> Trust:
    """Whether a release is trusted by those who trust `key`.

    The key itself is trusted, and so is each key that a trusted one signed as its successor. A key also vouches for
    what the registry contained when it came into force: it signed the hash of the last entry, on which all earlier ones
    depend.

    Parameters
    ----------
    signer
        The signer of the release.
    chain
        The registry, up to its first invalid line; None if there is none.
    entry
        The release's entry; None if it has none.
    """
    lines = chain.lines if chain else ()
    place = next((number for number, line in enumerate(lines) if line == entry), None)
    in_force = chain.key_after(place) if chain and place is not None else None
    if in_force not in (None, signer.raw.hex()):
        return Trust(False, "the release was registered while another key was in force than the one that signed it")
    if signer == key:
        return Trust(True)
    rotations = [line for line in lines if isinstance(line, KeyRotation)]
    found = _led_to(signer.raw.hex(), key.raw.hex(), rotations)
    if found.trusted:
        return found
    if in_force and any(line.new_key == key.raw.hex() for line in lines[place:] if isinstance(line, KeyRotation)):
        return Trust(
            True,
            "an earlier key signed the release; the trusted key signed the registry, which contained this release when "
            "the key came into force",
        )
    return found


def _led_to(signer: str, key: str, rotations: list[KeyRotation]) -> Trust:
    """Whether the keys that followed the trusted one lead to the signer, each signed by its predecessor."""
    steps = 0
    for line in rotations:
        if line.old_key != key:
            continue
        if line.lost:
            return Trust(
                False,
                f"not anchored: according to the registry, the key after yours replaced it unsigned at {_shown(line.time)}, "
                f"because of {_shown(line.reason)!r}; get the publisher's current key over a channel other than the release",
            )
        key, steps = line.new_key, steps + 1
        if key == signer:
            return Trust(True, f"anchored by the registry: {steps} rotation(s) of the key, each signed by the key before")
    return Trust(False, f"another key signed, with fingerprint {PublicKey(bytes.fromhex(signer)).fingerprint}")


def _shown(text: str) -> str:
    """Text from an untrusted registry, without terminal control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
