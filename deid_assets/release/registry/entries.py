"""The lines of the registry: releases, withdrawals, rejections, changes of the signing key and the clock, refused tries, noise.

Every entry contains the hash of the one before it. A line without `kind` is a release. The other kinds say things that
no manifest says, so they carry their own signatures. The signed content includes the hash of the entry before, so the
signature covers the whole registry up to there.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Annotated, ClassVar, Self

from deid_assets.errors import ReleaseError
from deid_assets.release.keys import PublicKey, SigningKey
from deid_assets.release.registry.clock import parse_time
from deid_assets.store.digests import Json, bytes_digest, canonical_json, is_digest, parse_json

Digest = Annotated[str, is_digest]
_LISTS = (tuple[Digest, ...], tuple[int, ...])
_CHECKS: Mapping[object, Callable[[Json], bool]] = {
    str: lambda told: isinstance(told, str),
    Digest: is_digest,
    int: lambda told: type(told) is int,
    bool: lambda told: type(told) is bool,
    tuple[Digest, ...]: lambda told: isinstance(told, list) and all(map(is_digest, told)),
    tuple[int, ...]: lambda told: isinstance(told, list) and all(type(one) is int for one in told),
    Mapping[str, Json]: lambda told: isinstance(told, dict),  # what it must hold is said by the kind that has it
}
"""What a field of an entry must be, by its type."""


@dataclass(frozen=True)
class _Line:
    """What all kinds of entries share."""

    kind: ClassVar[str | None] = None

    @property
    def content(self) -> dict[str, Json]:
        """Everything in the entry except its hash."""
        return asdict(self) | ({} if self.kind is None else {"kind": self.kind})

    @property
    def hash(self) -> str:
        """SHA-256 of everything else in the entry; the next entry contains it."""
        return bytes_digest(canonical_json(self.content))

    @property
    def line(self) -> bytes:
        return canonical_json(self.content | {"hash": self.hash})

    @classmethod
    def from_json(cls, value: Mapping[str, Json]) -> Self:
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
        value = parse_json(content)
        try:
            return cls.from_json(
                {
                    "policy": value["policy"]["name"],
                    "number": value["number"],
                    "delivery": delivery_named(value["delivery"]),
                    "inputs_digest": value["inputs_digest"],
                    "manifest_digest": bytes_digest(content),
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
        return canonical_json({name: part for name, part in self.content.items() if name not in self.signatures})

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
        if self.old_key == self.new_key or not (is_digest(self.old_key) or (self.lost and not self.old_key)):
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
_EVERY = (Entry, Withdrawal, Rejection, KeyRotation, ClockCorrection, RefusedTry, NoiseCharge, OlderNoiseCharge)
KINDS: dict[str | None, type[Line]] = {kind.kind: kind for kind in _EVERY}


def line_of(content: bytes) -> Line:
    """Read one line of the registry, without its line feed.

    Raises
    ------
    ReleaseError
        What is wrong with it, as a message that continues "the line".
    """
    try:
        value = parse_json(content)
        kind: type[Line] = KINDS[value["kind"]] if "kind" in value else Entry
        if kind is not Entry:
            parse_time(value["time"])
        entry = kind.from_json({name: part for name, part in value.items() if name not in ("hash", "kind")})
    except (ReleaseError, AttributeError, KeyError, TypeError):
        raise ReleaseError("is not a registry entry") from None
    if entry.line != content + b"\n":
        raise ReleaseError("was changed: its hash is not that of its content")
    entry.require_signed()
    return entry


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


def signed_correction(key: SigningKey, reason: str, previous: str, time: str) -> ClockCorrection:
    """The entry that allows the registry's times to go back to `time`."""
    return ClockCorrection(reason, previous=previous, time=time).signed(key)


def delivery_named(told: Mapping) -> str:
    """The delivery as an entry names it; earlier manifests name it by its key."""
    return told["key_digest"] if "key_digest" in told else told["key"]
