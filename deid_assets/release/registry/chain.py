"""The registry: the append-only list of all releases, refused tries and changes of the signing key, chained by hashes.

Every entry contains the hash of the one before it. So no entry can be changed, removed or moved without changing the
head, which is also recorded in each release's signed manifest and in the event log. An entry repeats only what the
signed manifest says, so an entry that a crash prevented can be recreated byte for byte.

A line without `kind` is a release. The other kinds say things that no manifest says, so they carry their own signatures. The
signed content includes the hash of the entry before, so the signature covers the whole registry up to there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, ClassVar, Self, TypeVar, get_args

from deid_assets.errors import ReleaseError
from deid_assets.release.keys import PublicKey, SigningKey
from deid_assets.release.registry.clock import goes_back, parse_time
from deid_assets.store import digests, durable

Digest = Annotated[str, digests.is_digest]
_LISTS = (tuple[Digest, ...], tuple[int, ...])
_CHECKS: Mapping[object, Callable[[digests.Json], bool]] = {
    str: lambda told: isinstance(told, str),
    Digest: digests.is_digest,
    int: lambda told: type(told) is int,
    bool: lambda told: type(told) is bool,
    tuple[Digest, ...]: lambda told: isinstance(told, list) and all(map(digests.is_digest, told)),
    tuple[int, ...]: lambda told: isinstance(told, list) and all(type(one) is int for one in told),
    Mapping[str, digests.Json]: lambda told: isinstance(told, dict),  # what it must hold is said by the kind that has it
}
"""What a field of an entry must be, by its type."""


@dataclass(frozen=True)
class _Line:
    """What all kinds of entries share."""

    kind: ClassVar[str | None] = None

    @property
    def content(self) -> dict[str, digests.Json]:
        """Everything in the entry except its hash."""
        told = {field.name: getattr(self, field.name) for field in fields(self)}
        return told if self.kind is None else told | {"kind": self.kind}

    @property
    def hash(self) -> str:
        """SHA-256 of everything else in the entry; the next entry contains it."""
        return digests.bytes_digest(digests.canonical_json(self.content))

    @property
    def line(self) -> bytes:
        return digests.canonical_json(self.content | {"hash": self.hash})

    @classmethod
    def from_json(cls, value: Mapping[str, digests.Json]) -> Self:
        """Read an entry's fields other than `hash` and `kind`."""
        if set(value) != {field.name for field in fields(cls)}:
            raise ReleaseError("a registry entry has missing or unknown fields")
        if not all(_CHECKS[one.type](value[one.name]) for one in fields(cls)):
            raise ReleaseError("a registry entry has a field of the wrong type")
        return cls(**{one.name: tuple(value[one.name]) if one.type in _LISTS else value[one.name] for one in fields(cls)})

    def require_signed(self) -> None:
        """Refuse an entry that lacks its signers' signatures; a release's signature is beside its manifest."""


@dataclass(frozen=True)
class Entry(_Line):
    """One release in the registry.

    Parameters
    ----------
    policy, number
        The release.
    delivery
        Keyed digest of the key of the released delivery; earlier entries have the key itself.
    inputs_digest
        Keyed digest of the inputs (delivery, policy, code): equal for a release that would repeat this one.
    manifest_digest
        SHA-256 of the public manifest.
    previous
        `hash` of the entry before it; `GENESIS` for the first.
    time
        When the manifest was made, according to itself.
    """

    policy: str
    number: int
    delivery: str
    inputs_digest: Digest
    manifest_digest: Digest
    previous: Digest
    time: str

    @classmethod
    def from_manifest(cls, content: bytes) -> "Entry":
        """The entry of the release whose public manifest is `content`.

        Raises
        ------
        ReleaseError
            If it is not a manifest.
        """
        value = digests.parse_json(content)
        try:
            return cls.from_json(
                {
                    "policy": value["policy"]["name"],
                    "number": value["number"],
                    "delivery": delivery_named(value["delivery"]),
                    "inputs_digest": value["inputs_digest"],
                    "manifest_digest": digests.bytes_digest(content),
                    "previous": value["registry_previous"],
                    "time": value["created"],
                }
            )
        except (TypeError, KeyError):
            raise ReleaseError("the manifest lacks fields that its registry entry needs") from None


@dataclass(frozen=True)
class _Signed(_Line):
    """An entry with its own signature."""

    signatures: ClassVar[tuple[str, ...]] = ()

    @property
    def statement(self) -> bytes:
        """The signed content: everything except the signatures."""
        return digests.canonical_json({name: part for name, part in self.content.items() if name not in self.signatures})

    def _holds(self, key: str, signature: str) -> bool:
        """Whether a signature, in hexadecimal like the key, is this key's over the statement."""
        try:
            return PublicKey(bytes.fromhex(key)).verifies(bytes.fromhex(signature), self.statement)
        except ValueError:
            return False


@dataclass(frozen=True)
class SignedByOne(_Signed):
    """An entry that one key signs: `key` is the raw public key of the signer, in hexadecimal like the `signature`.

    `previous` and `time` are as in a release, and `said` is what the entry records, in words.
    """

    previous: Digest = field(kw_only=True)
    time: str = field(kw_only=True)
    key: Digest = field(default="", kw_only=True)
    signature: str = field(default="", kw_only=True)

    signatures: ClassVar = ("signature",)
    said: ClassVar[str]

    @property
    def is_sound(self) -> bool:
        """Whether the entry records something that can be, apart from its signature."""
        return True

    def require_signed(self) -> None:
        """Refuse an entry that records what cannot be, or that its key did not sign."""
        if not (self.is_sound and self._holds(self.key, self.signature)):
            raise ReleaseError(f"records {self.said}, but its signature is not valid")

    def signed(self, key: SigningKey) -> Self:
        """The entry with this key and its signature."""
        draft = replace(self, key=key.public.raw.hex(), signature="")
        return replace(draft, signature=key.sign(draft.statement).hex())


@dataclass(frozen=True)
class KeyRotation(_Signed):
    """The signing key was replaced.

    Parameters
    ----------
    old_key, new_key
        Raw public keys in hexadecimal; the old one is empty if it is no longer known.
    reason
        Why the old key did not sign the new one: it was lost or stolen. Empty if it signed.
    previous, time
        As in a release.
    signature
        The old key's, in hexadecimal; empty if it did not sign.
    countersignature
        The new key's: proves that the key exists, and vouches for the registry as its owner found it.
    """

    old_key: str
    new_key: Digest
    reason: str
    previous: Digest
    time: str
    signature: str = ""
    countersignature: str = ""

    kind: ClassVar = "key rotation"
    signatures: ClassVar = ("signature", "countersignature")

    @property
    def lost(self) -> bool:
        """Whether the old key did not sign, and so does not lead to the new one."""
        return not self.signature

    def require_signed(self) -> None:
        """Refuse a rotation that is not signed by the new key, and by the old one unless its loss is recorded."""
        old_signed = self._holds(self.old_key, self.signature) if self.signature else bool(self.reason.strip())
        if not (old_signed and self._holds(self.new_key, self.countersignature)):
            raise ReleaseError("records a new signing key, but its signatures are not valid")
        if self.old_key == self.new_key or not (digests.is_digest(self.old_key) or (self.lost and not self.old_key)):
            raise ReleaseError("records a new signing key, but not which one it replaces")


@dataclass(frozen=True)
class ClockCorrection(SignedByOne):
    """Earlier entries were made while the clock was ahead: the next ones may go back to this time.

    Parameters
    ----------
    reason
        What happened, in words.
    previous, time, key, signature
        As in `SignedByOne`.
    """

    reason: str

    kind: ClassVar = "clock correction"
    said: ClassVar = "a correction of the clock"

    @property
    def is_sound(self) -> bool:
        """Whether it has a reason."""
        return bool(self.reason.strip())


@dataclass(frozen=True)
class RefusedTry(SignedByOne):
    """A generalization that was refused by a measurement based on random draws.

    It names nobody, no policy and no measured number. Keyed digests identify what was refused; anyone who has the
    secret can recompute them.

    Parameters
    ----------
    subject
        Keyed digest of the members and claims that were taken in.
    sample
        Keyed digest of the approximate sample size and of its key; `tries.Sample`.
    node
        Keyed digest of the generalization; `tries.Partitions.digest`.
    number
        The number of the try; 1 for the first.
    by_chance
        Whether every failed measurement was within its threshold, and only its bound was not.
    previous, time, key, signature
        As in `SignedByOne`.
    """

    subject: Digest
    sample: Digest
    node: Digest
    number: int
    by_chance: bool

    kind: ClassVar = "refused try"
    said: ClassVar = "a refused try"

    @property
    def is_sound(self) -> bool:
        """Whether its count starts at 1."""
        return self.number >= 1


@dataclass(frozen=True)
class NoiseCharge(SignedByOne):
    """What the noisy counts of a release cost that were not published before, and how wide their noise is.

    It comes before the release: a crash between the two leaves a cost without a release, never a release without its cost.
    Definitions of cells are public. Only the owner of the secret can recompute draws. A line without cells records that a
    release stated a stricter total than those before it (methods#budget-of-noise).

    Parameters
    ----------
    cells, draws
        As in `budget.Charge`.
    millionths
        Standard deviation of the noise of each draw, in millionths, rounded down.
    billionths
        The cost in billionths of zCDP, rounded up.
    total_billionths
        The total that the policy of the release states, in billionths of zCDP, rounded down. No later release may exceed it.
    previous, time, key, signature
        As in `SignedByOne`.
    """

    cells: tuple[Digest, ...]
    draws: tuple[Digest, ...]
    millionths: tuple[int, ...]
    billionths: int
    total_billionths: int

    kind: ClassVar = "noisy counts"
    said: ClassVar = "a cost of noise"

    def require_signed(self) -> None:
        """Refuse a line that is not signed, or that does not say what its cost is for."""
        is_charged = self.billionths > 0 if self.draws else self.billionths == 0
        if not (len(self.cells) == len(self.draws) == len(self.millionths) and is_charged):
            raise ReleaseError("records a cost of noise, but not of which counts")
        if self.total_billionths < 1 or min(self.millionths, default=1) < 1:
            raise ReleaseError("records a cost of noise, but not how wide the noise is, or not what it may cost")
        super().require_signed()


@dataclass(frozen=True)
class OlderNoiseCharge(SignedByOne):
    """A cost of noise as earlier versions of the product recorded it: without the width of the noise and without the total.

    Its digests of cells cover what classes were called, so they do not tell which cells of today they are.

    Parameters
    ----------
    cells, draws, billionths, previous, time, key, signature
        As in `NoiseCharge`.
    """

    cells: tuple[Digest, ...]
    draws: tuple[Digest, ...]
    billionths: int

    kind: ClassVar = "noise charge"
    said: ClassVar = "a cost of noise"

    def require_signed(self) -> None:
        """Refuse a line that is not signed, or that charges nothing."""
        if not (self.draws and len(self.cells) == len(self.draws) and self.billionths > 0):
            raise ReleaseError("records a cost of noise, but not of which counts")
        super().require_signed()


@dataclass(frozen=True)
class Withdrawal(SignedByOne):
    """A release was withdrawn: recipients are asked not to use it any more. Its folder and its entry stay.

    What was published cannot be made unknown, so a withdrawn release still counts wherever earlier releases do.

    Parameters
    ----------
    policy, number
        The release.
    reason
        Why, in words that may be published.
    previous, time, key, signature
        As in `SignedByOne`.
    """

    policy: str
    number: int
    reason: str

    kind: ClassVar = "withdrawal"
    said: ClassVar = "a withdrawal"

    @property
    def is_sound(self) -> bool:
        """Whether it has a reason."""
        return bool(self.reason.strip())


@dataclass(frozen=True)
class Rejection(SignedByOne):
    """A release that passed the gate was not approved, and was never published.

    Who rejected it and why is in the restricted store: it may say something about people.

    Parameters
    ----------
    policy, number
        The release; no other one gets its number.
    record
        SHA-256 of the restricted record.
    previous, time, key, signature
        As in `SignedByOne`.
    """

    policy: str
    number: int
    record: Digest

    kind: ClassVar = "rejected release"
    said: ClassVar = "a rejected release"


Line = Entry | Withdrawal | Rejection | KeyRotation | ClockCorrection | RefusedTry | NoiseCharge | OlderNoiseCharge
KINDS: dict[str | None, type[Line]] = {kind.kind: kind for kind in get_args(Line)}


Kind = TypeVar("Kind", bound=_Line)


def line_of(content: bytes, kinds: Mapping[str | None, type[Kind]], what: str) -> Kind:
    """Read one line of a registry or a journal, without its line feed.

    Parameters
    ----------
    kinds
        The kinds of lines, by name; None: one that names no kind.
    what
        What such a line is called.

    Raises
    ------
    ReleaseError
        What is wrong with it, as a message that continues "the line".
    """
    try:
        value = digests.parse_json(content)
        kind = kinds[value.get("kind")]
        if kind.kind is not None:
            parse_time(value["time"])
        line = kind.from_json({name: part for name, part in value.items() if name not in ("hash", "kind")})
    except (ReleaseError, AttributeError, KeyError, TypeError):
        raise ReleaseError(f"is not {what}") from None
    if line.line != content + b"\n":
        raise ReleaseError("was changed: its hash is not that of its content")
    line.require_signed()
    return line


def signed_rotation(old: SigningKey | PublicKey | None, new: SigningKey, reason: str, previous: str, time: str) -> KeyRotation:
    """The entry that replaces the old key by a new one.

    Parameters
    ----------
    old
        Signs if it is a signing key; otherwise its loss is recorded. None if it is unknown.
    reason
        Why it is lost; empty if the old key signs.
    """
    signer = old if isinstance(old, SigningKey) else None
    public = old.public if isinstance(old, SigningKey) else old
    draft = KeyRotation(public.raw.hex() if public else "", new.public.raw.hex(), "" if signer else reason, previous, time)
    return KeyRotation(
        draft.old_key, draft.new_key, draft.reason, previous, time,
        signer.sign(draft.statement).hex() if signer else "", new.sign(draft.statement).hex(),
    )  # fmt: skip


def delivery_named(told: Mapping) -> str:
    """The delivery as an entry names it; earlier manifests name it by its key."""
    return told["key_digest"] if "key_digest" in told else told["key"]


GENESIS = "0" * 64
"""The previous hash in the first entry."""


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
    content = digests.kept_bytes(path, f"the registry {path.name}", digests.REGISTRY_AT_MOST)
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
    line = line_of(text, KINDS, "a registry entry")
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
                f"not anchored: according to the registry, the key after yours replaced it unsigned at "
                f"{digests.printable(line.time)}, because of {digests.printable(line.reason)!r}; get the publisher's current "
                "key over a channel other than the release",
            )
        key, steps = line.new_key, steps + 1
        if key == signer:
            return Trust(True, f"anchored by the registry: {steps} rotation(s) of the key, each signed by the key before")
    return Trust(False, f"another key signed, with fingerprint {PublicKey(bytes.fromhex(signer)).fingerprint}")
