"""Policies are taken into use, and out of it, and restricted stores purged: the home's journal is told."""

from pathlib import Path

from deid_assets.automation.in_use import retired_in, state_use
from deid_assets.policy.adoption import adopt
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.release.home_rules import require_allowed
from deid_assets.release.journal.chain import ADOPTED, PURGED, RETIRED
from deid_assets.release.journal.comparison import Remembered
from deid_assets.release.keyring import secret_of
from deid_assets.release.publication.publish import Releases


def adopt_here(releases: Releases, policy: AnyPolicy, file: Path | None, **changed: object) -> AnyPolicy:
    """Take a policy into use, recorded in the journal unless it knows that text as the adopted one.

    Parameters
    ----------
    file
        Where it was read if it is from elsewhere: then `policy.adoption.adopt` keeps it in the home.
    changed
        What is stated about its use (`in_use.state_use`).

    Raises
    ------
    PolicyError
        If the policy may not be used (`home_rules.require_allowed`), or cannot be adopted.
    """
    with releases.deciding() as journal:
        require_allowed(releases.home, policy)
        adopted = policy.without_withdrawn(()) if file is None else adopt(releases.home, policy, file)
        known, is_retired = Remembered.of(journal.file.read()), adopted.name in retired_in(releases.home)
        if known.adopted.get(adopted.name) != adopted.hash or adopted.name in known.retired:
            journal.note(ADOPTED, {"policy": adopted.name, "record": adopted.hash}, releases.key)
        if changed or is_retired:
            state_use(releases.home, adopted.name, **changed | {"retired": False})
    return adopted


def retire_here(releases: Releases, policy: str) -> None:
    """Take a policy out of use, recorded in the journal."""
    with releases.deciding() as journal:
        state_use(releases.home, policy, retired=True)
        journal.note(RETIRED, {"policy": policy}, releases.key)


def note_purge(releases: Releases, policy: str, delivery: str) -> None:
    """Record in the journal that a restricted store is removed; a delivery's key may derive from a person's name."""
    digest = secret_of(releases.home).keyed_digest("purged delivery", policy, delivery)
    with releases.deciding() as journal:
        journal.note(PURGED, {"policy": policy, "delivery": digest}, releases.key)
