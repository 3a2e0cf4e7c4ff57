"""The signing key of the registry's owner, and the secret from which every random choice is derived, by a key for each purpose.

Both are in files that only their owner can read, in a folder that only the owner can enter. Neither is ever part of a
`repr`, an error or a pickle.

Secret values that the environment gives: in a variable, in a file, or as the output of a command.

Nothing of a value is ever repeated in an error. Errors of a command are not either, because they may contain it.

A derived key depends on exactly what may change its draws, and no draw repeats another. Names of policies, deliveries and
files cost nothing to change, so no stream that judges a release depends on them.
"""

import contextlib
import hmac
import os
import secrets
import shlex
import stat
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from deid_assets.errors import ReleaseError
from deid_assets.store import durable
from deid_assets.store.digests import SMALL_AT_MOST, bytes_digest, canonical_json, regular_bytes

SECONDS = 60
"""A command that takes longer fails."""


@dataclass(frozen=True)
class Given:
    """A secret value, and where it came from in words.

    Attributes
    ----------
    value
        Its bytes, without white space around them.
    origin
        Such as "file DEID_SECRET_FILE".
    """

    value: bytes = field(repr=False)
    origin: str


def variables_of(name: str) -> tuple[str, str, str]:
    """The variables that may give a value: the value itself, a file, a command."""
    return name, f"{name}_FILE", f"{name}_COMMAND"


def given(name: str, variables: Mapping[str, str]) -> Given | None:
    """The value that the environment gives; None if it gives none.

    Parameters
    ----------
    name
        The variable with the value itself, such as "DEID_SECRET". With "_FILE" after it, it names a file; with "_COMMAND",
        a command that runs without a shell, and whose standard output is the value.
    variables
        The environment.

    Raises
    ------
    ReleaseError
        If two of the three are set, if the file or the command fails, or if everybody may read the file.
    """
    stated = [one for one in variables_of(name) if one in variables]
    if len(stated) > 1:
        raise ReleaseError(f"{' and '.join(stated)} are set: set one of them, so that there is no doubt which one counts")
    if not stated:
        return None
    (variable,) = stated
    _, file, command = variables_of(name)
    if variable == file:
        return Given(_from_file(variable, Path(variables[variable])), f"file {variable}")
    if variable == command:
        return Given(_from_command(variable, variables[variable]), f"command {variable}")
    return Given(variables[variable].strip().encode(), f"environment variable {variable}")


def _from_file(variable: str, path: Path) -> bytes:
    """The content of the file. Its group may read it: orchestrators mount secrets for a group."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISREG(mode) and mode & stat.S_IROTH:
                raise ReleaseError(
                    f"the file that {variable} names can be read by everybody (mode {stat.S_IMODE(mode):04o}): `chmod 600` it, "
                    "and replace what is in it if others have access to this machine"
                )
            return file.read().strip()
    except OSError as error:
        raise ReleaseError(f"the file that {variable} names cannot be read: {error.strerror}") from None


def _from_command(variable: str, command: str) -> bytes:
    try:
        words = shlex.split(command)
        ran = subprocess.run(words, capture_output=True, check=True, timeout=SECONDS)  # noqa: S603 - the owner's own
    except subprocess.CalledProcessError as error:
        raise ReleaseError(f"the command in {variable} ended with code {error.returncode}") from None
    except subprocess.TimeoutExpired:
        raise ReleaseError(f"the command in {variable} took over {SECONDS} seconds") from None
    except (OSError, ValueError, IndexError):
        raise ReleaseError(f"the command in {variable} cannot be run: it must be a program and its arguments") from None
    return ran.stdout.strip()


SIGNING_KEY_FILE = "signing_key.pem"
SECRET_FILE = "secret"  # noqa: S105 - the name of a file
SECRET_BYTES_AT_LEAST = 32
GENERATED = "generated file"
"""Origin of a generated secret."""
SECRET_VARIABLE = "DEID_SECRET"  # noqa: S105 - the name of a variable
SIGNING_KEY_VARIABLE = "DEID_SIGNING_KEY"
_SALT = b"deid_assets secret 1"


@dataclass(frozen=True)
class PublicKey:
    """An Ed25519 public key.

    Parameters
    ----------
    raw
        The 32 bytes of the key.
    """

    raw: bytes

    @classmethod
    def from_pem(cls, pem: bytes) -> "PublicKey":
        """Read a PEM text, such as `deid key export` writes.

        Raises
        ------
        ReleaseError
            If it is not an Ed25519 public key.
        """
        with contextlib.suppress(ValueError):
            key = serialization.load_pem_public_key(pem)
            if isinstance(key, Ed25519PublicKey):
                return cls(key.public_bytes_raw())
        raise ReleaseError("the key is not an Ed25519 public key in PEM: export it with `deid key export`")

    @classmethod
    def read(cls, path: Path) -> "PublicKey":
        """Read a PEM file."""
        try:
            pem = regular_bytes(path, SMALL_AT_MOST)
        except ReleaseError as error:
            raise ReleaseError(f"the public key {path.name}: {error}") from None
        return cls.from_pem(pem)

    @property
    def pem(self) -> bytes:
        """The key as PEM."""
        return Ed25519PublicKey.from_public_bytes(self.raw).public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the key, for reading aloud and comparing."""
        return bytes_digest(self.raw)

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether `signature` is this key's over `message`."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True


class SigningKey:
    """The Ed25519 key that signs manifests; created on first use."""

    __slots__ = ("_private",)

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private

    def __repr__(self) -> str:
        return f"<SigningKey with public fingerprint {self.public.fingerprint[:16]}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("the signing key must not be passed to other processes")

    @classmethod
    def generated(cls) -> "SigningKey":
        """A new key, not stored yet."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_pem(cls, pem: bytes, origin: str = SIGNING_KEY_FILE) -> "SigningKey":
        """Read a private key in PEM, which comes from `origin`.

        Raises
        ------
        ReleaseError
            If it is not a private key.
        """
        with contextlib.suppress(ValueError, TypeError):
            private = serialization.load_pem_private_key(pem, password=None)
            if isinstance(private, Ed25519PrivateKey):
                return cls(private)
        raise ReleaseError(f"{origin} does not contain an Ed25519 private key in PEM: restore it from a backup")

    @classmethod
    def load_or_create(cls, folder: Path) -> "SigningKey":
        """Read the key from its folder, or create it there; `keyring.signing_key_of` first checks whether it may.

        Raises
        ------
        ReleaseError
            If others than the owner may read the key, or the file does not contain one.
        """
        return cls.from_pem(_read_or_create(folder, SIGNING_KEY_FILE, lambda: cls.generated().private_pem()))

    @property
    def public(self) -> PublicKey:
        """The public key that verifies what this one signs."""
        return PublicKey(self._private.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """The 64-byte signature over `message`; the same for the same message."""
        return self._private.sign(message)

    def private_pem(self) -> bytes:
        """The private key as text; only for its file."""
        return self._private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


class Secret:
    """The one secret behind every random choice, as a source of independent keys.

    Anyone who knows a derived seed can subtract noise or reverse a sample. Only a commitment is published.

    Parameters
    ----------
    value
        At least 32 bytes, from a source with full entropy: a passphrase could be guessed from the commitment.
    origin
        Where it came from, in words: "environment", "file", "command" or "generated file".

    Raises
    ------
    ReleaseError
        If the value is too short.
    """

    __slots__ = ("_value", "origin")

    def __init__(self, value: bytes, origin: str) -> None:
        if len(value) < SECRET_BYTES_AT_LEAST:
            raise ReleaseError(
                f"the secret from the {origin} has fewer than {SECRET_BYTES_AT_LEAST} bytes: "
                "make one with `openssl rand -hex 32`"
            )
        self._value = bytes(value)
        self.origin = origin

    def __repr__(self) -> str:
        return f"<Secret from {self.origin}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("the secret must not be passed to other processes: pass what is derived from it")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value, other._value)

    # No `__hash__`: a class that says when two are equal has none of its own.

    def derive(self, purpose: str, *context: str) -> bytes:
        """A key of 32 bytes for one purpose in one context; reveals nothing about any other key.

        Parameters
        ----------
        purpose
            What the key is for, such as "gate draws".
        context
            What else it depends on, such as policy, delivery digest and release number. ("a", "bc") and ("ab", "c")
            give different keys.

        Examples
        --------
        >>> secret = Secret(b"0123456789abcdef" * 2, "environment")
        >>> secret.derive("noise", "a", "bc") == secret.derive("noise", "ab", "c")
        False
        >>> len(secret.derive("noise"))
        32
        """
        info = canonical_json([purpose, *context])
        return HKDF(algorithm=hashes.SHA256(), length=32, salt=_SALT, info=info).derive(self._value)

    def keyed_digest(self, purpose: str, *context: str) -> str:
        """`derive` in hexadecimal: a digest that may be published even if its context could be guessed.

        The plain digest of a policy that lists the members who opted out would confirm a guess of the list; this one
        does not.
        """
        return self.derive(purpose, *context).hex()

    def commitment(self) -> str:
        """64 hexadecimal digits that bind to the secret without revealing it; published in the manifest."""
        return bytes_digest(self.derive("commitment"))


def load_secret(folder: Path, environment: Mapping[str, str] | None = None) -> Secret:
    """The secret: from DEID_SECRET, the file DEID_SECRET_FILE or the command DEID_SECRET_COMMAND, else generated.

    Parameters
    ----------
    folder
        Where a generated secret is kept and found again; `keyring.secret_of` first checks whether one may be created.
    environment
        Variables to read; defaults to those of the process.

    Raises
    ------
    ReleaseError
        If two sources are set, if the one that is set fails, or if its value is too short. No other source is tried then,
        because a release under an unintended secret would not repeat its random choices.
    """
    stated = given_secret(os.environ if environment is None else environment)
    if stated is not None:
        return stated
    made = _read_or_create(folder, SECRET_FILE, lambda: secrets.token_hex(32).encode() + b"\n")
    return Secret(made.strip(), GENERATED)


def given_secret(variables: Mapping[str, str]) -> Secret | None:
    """The secret that the variables give; None if they give none."""
    stated = given(SECRET_VARIABLE, variables)
    return None if stated is None else Secret(stated.value, stated.origin)


def given_signing_key(variables: Mapping[str, str]) -> SigningKey | None:
    """The signing key that the variables give, as a private key in PEM; None if they give none.

    Raises
    ------
    ReleaseError
        If two sources are set, if the one that is set fails, or if it gives no private key.
    """
    stated = given(SIGNING_KEY_VARIABLE, variables)
    return None if stated is None else SigningKey.from_pem(stated.value, f"the {stated.origin}")


def _read_or_create(folder: Path, name: str, make: Callable[[], bytes]) -> bytes:
    """Read an owner-only file; create it the first time. Two concurrent processes get the same file."""
    durable.owner_only(folder)
    with durable.locked(folder / ".lock"):
        path = folder / name
        if not os.path.lexists(path):
            durable.replace(path, make(), 0o600)
        mode = os.lstat(path).st_mode
        if stat.S_ISREG(mode) and mode & 0o077:
            raise ReleaseError(
                f"{name} can be read by others than its owner (mode {mode & 511:04o}): find out who did, then `chmod 600` "
                "it, or make a new one"
            )
        try:
            return regular_bytes(path, SMALL_AT_MOST)
        except ReleaseError as error:
            raise ReleaseError(f"keys/{name}: {error}; restore it from a backup") from None


def pseudonym_key(secret: Secret, policy: str, delivery: str, kind: str, stable_members: bool = False) -> bytes:
    """The key of the pseudonyms of one kind: of this policy and delivery, so that two releases cannot be joined.

    With stable members, their pseudonyms are those of the policy, whatever the delivery.
    """
    if stable_members and kind == "member":
        return secret.derive("stable pseudonym", policy, kind)
    return secret.derive("pseudonym", policy, delivery, kind)


def sample_key(secret: Secret, keyed_by: str, policy: str, delivery: str) -> bytes:
    """The key of the order in which members are drawn: by member only, or also by policy and delivery."""
    return secret.derive("sample by member") if keyed_by == "member" else secret.derive("sample", policy, delivery)


def date_keys(secret: Secret, policy: str, delivery: str) -> tuple[bytes, bytes, bytes]:
    """The keys of the date draws: those for the released dates, and those of the two methods compared with them."""
    released, independent, shifted = (
        secret.derive(purpose, policy, delivery)[:16]
        for purpose in ("dates", "dates randomized independently", "dates shifted")
    )
    return released, independent, shifted


def stream_key_of(secret: Secret, taken_in: str, purpose: str, number: int = 1) -> bytes:
    """The 16-byte key of a random stream of a delivery.

    Parameters
    ----------
    taken_in
        Digest of the members and claims that were taken in.
    purpose
        Name of the stream.
    number
        Of the try: each try that draws judge has its own streams.
    """
    of_try = (purpose,) if number == 1 else (purpose, f"try {number}")
    return secret.derive("stream", taken_in, *of_try)[:16]


def gate_purpose(sampled: Sequence[str]) -> str:
    """The name of the gate's own stream for the members sampled from a delivery, in order.

    Levels, thresholds and suppressed members are deliberately excluded. Some changes of these cost almost nothing, such
    as a class for values that nobody has, or a threshold moved by a billionth, and would give fresh draws after a
    refusal. Another try, of which there are three, has other draws.
    """
    return f"gate {bytes_digest(canonical_json(list(sampled)))}"
