"""The keys of one home: which are in force, and what to do if one is missing. `rotation` replaces the signing key.

A key or secret is created silently only if nothing has been released yet. After that, a missing one is a refusal: a new
signing key would break verification for every recipient, and a new secret would change pseudonyms, noise and sample.
"""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from deid_assets.errors import ReleaseError
from deid_assets.release import keys
from deid_assets.release.publication.verification import MANIFEST
from deid_assets.release.publication.waiting import LOCK, REGISTRY, release_folders, signer_in_force
from deid_assets.release.registry.chain import Chain, KeyRotation, Registry
from deid_assets.store import durable
from deid_assets.store.digests import SMALL_AT_MOST, parse_json, regular_bytes
from deid_assets.store.home import Home

NEXT_KEY_FILE = "signing_key.next.pem"
ACCEPTED_FILE = "secret.accepted"
"""Commitment to the secret that `new_secret` made, known before anything is released under it."""


def signing_key_of(home: Home) -> keys.SigningKey:
    """The signing key in force.

    It comes from DEID_SIGNING_KEY, the file DEID_SIGNING_KEY_FILE or the command DEID_SIGNING_KEY_COMMAND, as PEM; else from
    the folder keys, where it is created only if nothing was signed yet.

    Raises
    ------
    ReleaseError
        If it is missing although something was released, is not the one in force, or can be read by others than its
        owner, if its source fails or two are set, or if the registry's chain is broken.
    """
    with locked_keys(home):
        chain = settled(home)
        return key_in_force(home, chain)


def public_key_of(home: Home) -> keys.PublicKey | None:
    """The public key of the signing key that a home has, without writing or locking anything; None if it has none.

    It need not be the one in force, which is for those who compare it with a signature to find.

    Raises
    ------
    ReleaseError
        If the environment names a source of the key that fails.
    """
    given = keys.given_signing_key(os.environ)
    if given is not None:
        return given.public
    kept = public_of(home, keys.SIGNING_KEY_FILE)
    return None if kept is None else keys.PublicKey(bytes.fromhex(kept))


def secret_of(home: Home, environment: Mapping[str, str] | None = None) -> keys.Secret:
    """The secret, see `load_secret`; generated only if nothing has been released yet.

    Raises
    ------
    ReleaseError
        If there is none although something was released, or its source fails.
    """
    given = keys.given_secret(os.environ if environment is None else environment)
    if given is not None:
        return given
    if not os.path.lexists(home.keys / keys.SECRET_FILE) and has_released(home):
        raise ReleaseError(
            "the secret is missing: no variable DEID_SECRET, DEID_SECRET_FILE or DEID_SECRET_COMMAND is set, and the folder "
            "keys contains none, although there are releases or refused tries. Set the variable that you used before, or "
            "restore keys/secret from a backup. With another secret, pseudonyms, noise and sample change, and everybody who "
            "was released before counts as a different person; to continue like that, make one with `deid key new-secret`"
        )
    return keys.load_secret(home.keys, {})


def secret_at_hand(home: Home) -> keys.Secret | None:
    """The secret that the environment or the folder keys holds; None if neither does. None is made."""
    given = keys.given_secret(os.environ)
    return given if given is not None or not os.path.lexists(home.keys / keys.SECRET_FILE) else keys.load_secret(home.keys, {})


def require_secret_of_releases(home: Home, secret: keys.Secret) -> None:
    """Refuse a generated secret that none of the existing releases used: it was replaced.

    Raises
    ------
    ReleaseError
        If it is neither the secret of a release nor one that `new_secret` made.
    """
    if secret.origin != keys.GENERATED:
        return
    commitments = [_commitment_of(release) for release in reversed(release_folders(home.releases))]
    known = [one for one in commitments if one is not None]
    accepted = accepted_commitment(home)
    if accepted is not None:
        known.append(accepted)
    if known and secret.commitment() not in known:
        raise ReleaseError(
            "keys/secret is not a secret under which anything was released here, although there are releases. Restore it "
            "from a backup, or set the variable DEID_SECRET, DEID_SECRET_FILE or DEID_SECRET_COMMAND that you used before. "
            "With another secret, pseudonyms, noise and sample change; to continue like that, remove keys/secret, and make "
            "one with `deid key new-secret`"
        )


def accepted_commitment(home: Home) -> str | None:
    """The commitment to the secret that was made or accepted on request; None if there was no occasion to."""
    accepted = home.keys / ACCEPTED_FILE
    if not os.path.lexists(accepted):
        return None
    return regular_bytes(accepted, SMALL_AT_MOST).decode(errors="replace").strip()


def _commitment_of(release: Path) -> str | None:
    """The commitment to the secret of a release; None if its manifest has none."""
    try:
        return parse_json(regular_bytes(release / MANIFEST))["secret_commitment"]
    except (ReleaseError, KeyError, TypeError):
        return None


def new_secret(home: Home) -> keys.Secret:
    """Create a secret although there are releases; an existing one is kept.

    Raises
    ------
    ReleaseError
        If there is a secret already.
    """
    if os.path.lexists(home.keys / keys.SECRET_FILE):
        raise ReleaseError("there is already a generated secret in the folder keys; it is kept")
    made = keys.load_secret(home.keys, {})
    _accept(home, made)
    return made


def accept_given_secret(home: Home) -> bool:
    """Accept the secret that the environment gives as the new one of a home; return whether it gives one."""
    given = keys.given_secret(os.environ)
    if given is not None:
        _accept(home, given)
    return given is not None


def _accept(home: Home, secret: keys.Secret) -> None:
    with durable.locked(durable.owner_only(home.keys) / ".lock"):
        durable.replace(home.keys / ACCEPTED_FILE, secret.commitment().encode() + b"\n", 0o600)


def has_released(home: Home) -> bool:
    """Whether there is any trace of a release or of a refused one.

    Traces are the registry, a folder of a release, or a restricted manifest.
    """
    registry = home.releases / REGISTRY
    with contextlib.suppress(FileNotFoundError):
        if os.lstat(registry).st_size or registry.is_symlink() or not registry.is_file():
            return True
    return bool(release_folders(home.releases)) or any((home.store / "manifests").glob("*/[0-9]*.json"))


def has_signed(home: Home) -> bool:
    """Whether the signing key was used: there is a trace of a release, or a journal."""
    return has_released(home) or os.path.lexists(home.journal)


def locked_keys(home: Home) -> contextlib.AbstractContextManager:
    """Hold the lock of the folder of releases, so that nobody publishes or rotates meanwhile."""
    home.releases.mkdir(parents=True, exist_ok=True)
    return durable.locked(home.releases / LOCK)


def settled(home: Home) -> Chain:
    """Finish or undo a rotation whose process died; return the registry's chain."""
    registry = Registry(home.releases / REGISTRY)
    registry.repair()
    chain = registry.chain()
    prepared = home.keys / NEXT_KEY_FILE
    if os.path.lexists(prepared):
        rotations = [line for line in chain.lines if isinstance(line, KeyRotation)]
        if rotations and rotations[-1].new_key == public_of(home, NEXT_KEY_FILE):
            os.rename(prepared, home.keys / keys.SIGNING_KEY_FILE)
        else:
            prepared.unlink()
        durable.sync(home.keys)
    return chain


def key_in_force(home: Home, chain: Chain) -> keys.SigningKey:
    """The signing key, which has to be the one in force; the caller holds `locked_keys`.

    Raises
    ------
    ReleaseError
        If it is missing, or another one.
    """
    given = keys.given_signing_key(os.environ)
    key = _kept_key(home) if given is None else given
    if signer_in_force(home.releases, chain) not in (None, key.public.raw.hex()):
        named = f"keys/{keys.SIGNING_KEY_FILE}" if given is None else f"the key that {keys.SIGNING_KEY_VARIABLE} gives"
        raise ReleaseError(
            f"{named} is not the signing key in force: another key signed the newest release, or the registry names another. "
            'Restore it from a backup; if there is none, record the loss: `deid key rotate --lost "REASON"`'
        )
    return key


def _kept_key(home: Home) -> keys.SigningKey:
    """The signing key in the folder keys; made there only if nothing was signed yet."""
    if not os.path.lexists(home.keys / keys.SIGNING_KEY_FILE) and has_signed(home):
        raise ReleaseError(
            f"the signing key keys/{keys.SIGNING_KEY_FILE} is missing, although there are releases, refused tries or a "
            "journal; a new one would break verification for every recipient. Restore it from a backup; if there is none, "
            'record the loss: `deid key rotate --lost "REASON"`'
        )
    return keys.SigningKey.load_or_create(home.keys)


def public_of(home: Home, name: str) -> str | None:
    """The public key of a private key in a file, in hexadecimal; None if the file has no key."""
    with contextlib.suppress(ReleaseError):
        return keys.SigningKey.from_pem(regular_bytes(home.keys / name, SMALL_AT_MOST)).public.raw.hex()
    return None
