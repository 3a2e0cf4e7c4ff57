"""How the signing key is replaced, and the clock of the registry corrected; both are recorded in the registry.

A rotation is in force once its entry is in the registry. Before that, the new private key is stored beside the old one;
afterwards it replaces the old private key. Public keys stay in the registry. If a process dies in between, either the
old key is in force, or the new one with its entry; the next process removes or moves the file.
"""

import os
from collections.abc import Collection
from dataclasses import dataclass

from deid_assets.errors import ReleaseError
from deid_assets.release.journal.chain import NOT_BEGUN, OTHER_SECRET
from deid_assets.release.journal.home_journal import HomeJournal
from deid_assets.release.keyring import NEXT_KEY_FILE, has_signed, key_in_force, locked_keys, public_of, settled
from deid_assets.release.keys import SIGNING_KEY_FILE, SIGNING_KEY_VARIABLE, PublicKey, SigningKey, given_signing_key
from deid_assets.release.publication.waiting import REGISTRY, recovered, signer_in_force
from deid_assets.release.registry import clock
from deid_assets.release.registry.chain import Chain, ClockCorrection, KeyRotation, Registry, signed_rotation
from deid_assets.store import durable
from deid_assets.store.home import Home


@dataclass(frozen=True)
class Rotated:
    """A rotation that is in force: its entry in the registry, and the new public key."""

    entry: KeyRotation
    key: PublicKey


def rotate(home: Home, lost: str | None = None, despite: Collection[str] = ()) -> Rotated:
    """Replace the signing key by a new one, and record it in the registry.

    Parameters
    ----------
    lost
        Why the old key does not sign the new one: it was lost or stolen. None if it signs. A lost key may be replaced before
        the home begins its journal, which takes a key, and before a new secret is told.
    despite
        What else may be missing where a key is lost (`Loss.what`): in a temporary copy of a home, its journal.

    Raises
    ------
    ReleaseError
        If the old key should sign but is missing or not in force, if nothing was ever signed, if the home has lost what it
        decided, or if a crash left something that needs manual attention first.
    """
    if lost is not None and not lost.strip():
        raise ReleaseError("state why the old key is lost: the reason is recorded in the registry for all recipients")
    if given_signing_key(os.environ) is not None:
        raise ReleaseError(
            f"the signing key comes from {SIGNING_KEY_VARIABLE}, its file or its command, where a new one cannot be put. Unset "
            f"the variable, save the key as keys/{SIGNING_KEY_FILE} (mode 600), rotate, and move the new key back"
        )
    with locked_keys(home):
        chain = settled(home)
        if not os.path.lexists(home.keys / SIGNING_KEY_FILE) and not has_signed(home):
            raise ReleaseError("there is no signing key yet; the first release or `deid key export` creates one")
        old = key_in_force(home, chain) if lost is None else _lost_key(home, chain)
        problems = recovered(home.releases, old.public if isinstance(old, SigningKey) else old).problems
        if problems:
            raise ReleaseError(
                f"the key is not rotated until this is resolved: {'; '.join(problems)}. Restore what is missing from a "
                "backup, or move the folder of that release away"
            )
        journal = HomeJournal(home)
        if isinstance(old, SigningKey):
            journal.catch_up(old)
        else:
            journal.settle(despite=(NOT_BEGUN, OTHER_SECRET, *despite))
        is_kept = not any(loss.what in (NOT_BEGUN, *despite) for loss in journal.missing())
        registry = Registry(home.releases / REGISTRY)
        chain = registry.chain()
        new = SigningKey.generated()
        entry = signed_rotation(old, new, (lost or "").strip(), chain.head, clock.now(chain.last_time))
        durable.replace(home.keys / NEXT_KEY_FILE, new.private_pem(), 0o600)
        registry.append(entry)
        settled(home)
        if is_kept:
            journal.record(new)
    return Rotated(entry, new.public)


def correct_clock(home: Home, reason: str) -> ClockCorrection:
    """Record that earlier registry entries were made while the clock was ahead, so that later ones may go back in time.

    Raises
    ------
    ReleaseError
        If no reason is given, or if the clock cannot be right even without those entries.
    """
    if not reason.strip():
        raise ReleaseError("state what happened to the clock: the reason is recorded in the registry for all recipients")
    with locked_keys(home):
        chain = settled(home)
        key = key_in_force(home, chain)
        entry = ClockCorrection(reason.strip(), previous=chain.head, time=clock.now(None)).signed(key)
        journal = HomeJournal(home)
        journal.catch_up(key)
        Registry(home.releases / REGISTRY).append(entry)
        journal.record(key)
    return entry


def _lost_key(home: Home, chain: Chain) -> PublicKey | None:
    """The public key whose loss is recorded: from the registry, or else from the file."""
    named = signer_in_force(home.releases, chain) or public_of(home, SIGNING_KEY_FILE)
    return PublicKey(bytes.fromhex(named)) if named else None
