"""What lies in a home: the releases that its registry lists, and the deliveries that were registered."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from deid_assets.errors import DeidError
from deid_assets.release.publication.verification import MANIFEST
from deid_assets.release.registry.chain import Chain, Entry, Registry
from deid_assets.release.verdict import verdict_in
from deid_assets.sources.registration import registered_delivery
from deid_assets.store.digests import parse_json, regular_bytes
from deid_assets.store.home import Home

_RESTRICTED_AT_MOST = 100_000_000


@dataclass(frozen=True)
class ListedRelease:
    """A release as the registry lists it.

    Attributes
    ----------
    delivery
        The key of its delivery; None where the restricted store does not say, because it was removed or is another one.
    folder
        Where it lies; None if it is not there any more.
    withdrawn
        Why it was withdrawn; None if it was not.
    approved_by
        Who approved it, according to its manifest; None if its policy requires nobody to, or it is not there any more.
    remarks
        What a person overruled, what was not compared, and where its policy is lax; empty if it is not there any more.
    """

    policy: str
    number: int
    time: str
    delivery: str | None
    folder: str | None
    withdrawn: str | None = None
    approved_by: str | None = None
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class ListedDelivery:
    """A delivery that was registered; or why its record cannot be read.

    Attributes
    ----------
    policies
        Under which it was taken in: their restricted stores are there.
    """

    key: str
    kind: str | None
    paths: tuple[str, ...]
    policies: tuple[str, ...]
    problem: str | None = None


def listed_releases(home: Home) -> list[ListedRelease]:
    """All releases, oldest first.

    Raises
    ------
    ReleaseError
        If the registry's chain is broken.
    """
    chain = Registry(home.releases / "registry.jsonl").chain()
    return [_listed(home, chain, entry) for entry in chain.entries]


def _listed(home: Home, chain: Chain, entry: Entry) -> ListedRelease:
    folder = home.releases / entry.policy / f"{entry.number:04d}"
    is_there = (folder / MANIFEST).is_file()
    line = chain.withdrawal_of(entry.policy, entry.number)
    return ListedRelease(
        entry.policy,
        entry.number,
        entry.time,
        delivery_of(home, entry),
        str(folder) if is_there else None,
        None if line is None else line.reason,
        _approved_by(folder / MANIFEST),
        _remarks(folder / MANIFEST),
    )


def _remarks(manifest: Path) -> tuple[str, ...]:
    verdict = verdict_in(manifest)
    return () if verdict is None else verdict.remarks


def _approved_by(manifest: Path) -> str | None:
    with contextlib.suppress(DeidError, KeyError, TypeError):
        return str(parse_json(regular_bytes(manifest))["approval"]["by"])
    return None


def delivery_of(home: Home, entry: Entry) -> str | None:
    """The key of a release's delivery; None where the restricted store does not say."""
    file = home.store / "manifests" / entry.policy / f"{entry.number:04d}.json"
    with contextlib.suppress(DeidError, OSError):
        manifest = parse_json(regular_bytes(file, _RESTRICTED_AT_MOST))
        delivery = manifest.get("delivery") if isinstance(manifest, dict) else None
        return str(delivery["key"]) if isinstance(delivery, dict) and "key" in delivery else None
    return None


def listed_deliveries(home: Home) -> list[ListedDelivery]:
    """All deliveries that were registered, in the order of their keys."""
    return [_delivery(home, file) for file in sorted(home.deliveries.glob("*.json"))]


def _delivery(home: Home, file: Path) -> ListedDelivery:
    key = file.stem
    policies = tuple(sorted(store.parent.name for store in home.store.glob(f"*/{key}.duckdb")))
    try:
        found = registered_delivery(home, key)
    except DeidError as error:
        return ListedDelivery(key, None, (), policies, str(error))
    return ListedDelivery(key, found.kind, tuple(map(str, found.paths)), policies)
