"""`deid delivery add` and `remove`, `deid purge`: which deliveries a policy has, and what is kept of them."""

import datetime
import shutil
from dataclasses import dataclass

from deid_assets.assets.publishing import releases_of
from deid_assets.automation.approvals import awaiting
from deid_assets.automation.housekeeping import PURGED, REMOVED, record_removal, utc_now
from deid_assets.automation.in_use import adopt_here, note_purge, uses_in
from deid_assets.automation.instance import add_partition, dagster_instance, prepare_dagster_home
from deid_assets.command_line.listing import delivery_of
from deid_assets.command_line.options import Asked
from deid_assets.command_line.run import requested_delivery
from deid_assets.errors import DeliveryError, StoreError
from deid_assets.partitions import deliveries_of
from deid_assets.policy.kinds import require_runnable
from deid_assets.policy.loading import find_policy
from deid_assets.release.registry.chain import Registry
from deid_assets.resources import Workplace
from deid_assets.sources.registration import delivery_file, forget_fetched, register_delivery, registered_delivery, unregister
from deid_assets.store.home import Home, StoreLock


def add_delivery(home: Home, asked: Asked) -> str:
    """Register a delivery for a policy without running anything; return its key.

    Raises
    ------
    DeliveryError
        If a path is missing, or another delivery has the key.
    PolicyError
        If there is no such policy.
    """
    policy, file = find_policy(home, asked.policy)
    require_runnable(policy)
    if not asked.named:
        raise DeliveryError("name the folder or file of the delivery")
    delivery = requested_delivery(home, policy, asked)
    if file is not None:
        adopt_here(releases_of(Workplace(str(home.root))), policy, file)
    register_delivery(home, delivery)
    prepare_dagster_home(home)
    with dagster_instance(home) as instance:
        add_partition(instance, policy.name, delivery.key)
    return delivery.key


def remove_delivery(home: Home, policy_name: str, key: str, reason: str) -> None:
    """Remove a delivery that was not released from a policy: its partition, its restricted store, its refused report.

    Its own files stay where they are; a copy that was fetched from a URL goes. What the registry knows of it stays: refused
    tries, and noise that was charged.

    Raises
    ------
    DeliveryError
        If the delivery is not one of the policy's, was released under it, or a release of it waits for approval.
    StoreError
        If a run is at work on it.
    """
    policy, _ = find_policy(home, policy_name)
    partitions = str(deliveries_of(policy.name).name)
    released = [number for number, of in _released(home, policy.name) if of in (key, None)]
    if released:
        raise DeliveryError(
            f"delivery {key} was released as {policy.name}/{released[0]:04d}, or that release does not say of which delivery "
            "it is: a release stays accountable. `deid purge` removes restricted stores past their retention"
        )
    for one in awaiting(releases_of(Workplace(str(home.root))), lambda _: policy.reading):
        if one.policy == policy.name and one.delivery in (key, None):
            raise DeliveryError(
                f"release {one.policy}/{one.number:04d} waits for approval, and is of delivery {key}, or cannot be read: "
                "reject it with `deid reject` first"
            )
    prepare_dagster_home(home)
    with dagster_instance(home) as instance:
        if not instance.has_dynamic_partition(partitions, key):
            raise DeliveryError(f"policy {policy.name} has no delivery {key}; `deid deliveries` lists them")
        lock = StoreLock.of(home, policy.name, key)
        lock.acquire()
        try:
            record_removal(home, REMOVED, policy.name, key, reason)
            _remove_store(home, policy.name, key)
            instance.delete_dynamic_partition(partitions, key)
        finally:
            lock.release()
    if _forgotten(home, key):
        unregister(home, key)


@dataclass(frozen=True)
class Expired:
    """A restricted store past its retention.

    Attributes
    ----------
    policy, delivery, days
        Whose it is, and how old.
    waits
        The release of it that waits for approval, whose judge may want to look into the store; None if none does. A release
        that waits and cannot be read may be of any delivery.
    """

    policy: str
    delivery: str
    days: int
    waits: str | None = None


def expired_stores(home: Home) -> list[Expired]:
    """The restricted stores that were last written longer ago than their policy's retention.

    Raises
    ------
    StoreError
        If no policy has a retention.
    """
    kept = {name: use.retention_days for name, use in uses_in(home).items() if use.retention_days is not None}
    if not kept:
        raise StoreError("no policy has a retention; state one with `deid policy adopt NAME --retention DAYS`")
    waiting = awaiting(releases_of(Workplace(str(home.root))), lambda _: "")
    found = []
    for name, days in sorted(kept.items()):
        for file in sorted((home.store / name).glob("*.duckdb")):
            age = utc_now() - datetime.datetime.fromtimestamp(file.stat().st_mtime, datetime.UTC)
            if age > datetime.timedelta(days=days):
                # One that cannot be read may be of any delivery.
                waits = [one for one in waiting if one.policy == name and one.delivery in (file.stem, None)]
                release = f"{name}/{waits[0].number:04d}" if waits else None
                found.append(Expired(name, file.stem, age.days, release))
    return found


def purge(home: Home, expired: Expired, reason: str) -> None:
    """Remove a restricted store with the crosswalk in it, and record it; manifests and releases stay.

    Raises
    ------
    StoreError
        If a run is at work on it.
    """
    lock = StoreLock.of(home, expired.policy, expired.delivery)
    lock.acquire()
    try:
        note_purge(releases_of(Workplace(str(home.root))), expired.policy, expired.delivery)
        record_removal(home, PURGED, expired.policy, expired.delivery, reason)
        _forgotten(home, expired.delivery, but_of=expired.policy)
        _remove_store(home, expired.policy, expired.delivery)
    finally:
        lock.release()


def _forgotten(home: Home, key: str, but_of: str = "") -> bool:
    """Whether no policy, but this one, has a store of a delivery any more; then its copy goes, if it was fetched from a URL."""
    if any(file.parent.name != but_of for file in home.store.glob(f"*/{key}.duckdb")):
        return False
    if delivery_file(home, key).exists():
        forget_fetched(home, registered_delivery(home, key).paths)
    return True


def _remove_store(home: Home, policy: str, delivery: str) -> None:
    """Remove a store and what was made beside it; last the file by which it is found, so that a crash leaves nothing behind."""
    for key in (home.store / policy).glob(f"{delivery}.expert-review-*.json"):
        key.unlink(missing_ok=True)
    copied = home.deliveries / policy / delivery  # of upstream assets
    if copied.is_dir():
        shutil.rmtree(copied)
    for ending in ("refused.html", "duckdb.wal", "duckdb"):
        (home.store / policy / f"{delivery}.{ending}").unlink(missing_ok=True)


def _released(home: Home, policy: str) -> list[tuple[int, str | None]]:
    """The policy's releases, each with the key of its delivery; None where the restricted manifest does not say."""
    entries = Registry(home.releases / "registry.jsonl").chain().entries
    return [(entry.number, delivery_of(home, entry)) for entry in entries if entry.policy == policy]
