"""Policies are taken into use, and out of it, and restricted stores purged: the home's journal is told."""

from pathlib import Path

from deid_assets.automation.in_use import state_use
from deid_assets.policy.adoption import adopt
from deid_assets.policy.base import ReleasePolicy
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.release.journal.chain import ADOPTED, PURGED, RETIRED
from deid_assets.release.journal.comparison import Remembered
from deid_assets.release.keyring import secret_of
from deid_assets.release.publication.publish import Releases


def adopt_here(releases: Releases, policy: ReleasePolicy, file: Path) -> AnyPolicy:
    """`policy.adoption.adopt`, recorded in the journal unless it knows that text as the adopted one."""
    with releases.deciding() as journal:
        adopted = adopt(releases.home, policy, file)
        if Remembered.of(journal.file.read()).adopted.get(adopted.name) != adopted.hash:
            journal.note(ADOPTED, {"policy": adopted.name, "record": adopted.hash}, releases.key)
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
