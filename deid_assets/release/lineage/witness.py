"""Where the event log lacks what a manifest says, or contradicts it; every answer is a sentence.

The log and the manifest were written by different programs at different times. Somebody who changes one of them, or the
registry, has to change all of them alike.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from deid_assets.assessments.evidence import Evidence, Measurement
from deid_assets.errors import ReleaseError
from deid_assets.release.lineage.graph import Lineage
from deid_assets.release.lineage.records import Evaluated, RecordedRelease
from deid_assets.store.digests import bytes_digest, canonical_json

GATE = "gate"
"""Evidence of the release itself: it measured the staged files, and has no asset of its own."""


def lineage_problems(lineage: Lineage, told: Mapping[str, str], keyed: Callable[[str, str], str] | None) -> list[str]:
    """Compare the data version of every asset with what the manifest says of it.

    Parameters
    ----------
    told
        The manifest's lineage: name of an asset to the keyed digest of its data version.
    keyed
        Makes that digest from name and version; None if the secret of the release is not the one of this home.
    """
    found = [
        f"the event log has no materialization of {made}'s input {source} from which it was made"
        for made, source in lineage.lost
    ]
    found += [f"{asset}: the assets of this release were made from two versions of it" for asset in lineage.differing]
    if keyed is None:
        return [
            *found,
            "the release was made with another secret than that of this home, so that the data versions in its manifest cannot "
            "be compared with the event log",
        ]
    for name, digest in sorted(told.items()):
        made = lineage.named(name)
        if made is None:
            found.append(f"the manifest names {name}, but the event log has no materialization of it before the release")
        elif made.data_version is None or keyed(name, made.data_version) != digest:
            found.append(f"{name}: the manifest states another data version than the event log")
    own = {made.name for asset, made in lineage.before.items() if asset.rpartition("/")[0] == lineage.prefix}
    found += [f"{name}: the release was made from it, but the manifest does not name it" for name in sorted(own - set(told))]
    return found


def delivery_problems(lineage: Lineage, key: str, version: str) -> list[str]:
    """Compare the delivery that was taken in with the one that the manifest names.

    Parameters
    ----------
    key
        Key of the delivery.
    version
        Data version of the intake of a delivery with the digest in the manifest.
    """
    found = []
    if lineage.release.partition != key:
        found.append("the event log records the release under another delivery than the manifest")
    if version not in {made.data_version for made in lineage.before.values()}:
        found.append("no asset of the event log was made from a delivery with the digest in the manifest")
    return found


def evidence_problems(lineage: Lineage, digests: Mapping[str, str]) -> list[str]:
    """Compare each assessment's measurements in the manifest with the digest that its asset left in the log.

    Parameters
    ----------
    digests
        `evidence_digests` of the manifest.
    """
    found = []
    for asset, digest in digests.items():
        if asset == GATE:
            continue
        made = lineage.named(asset)
        if made is None or made.evidence_digest is None:
            found.append(f"{asset}: the event log has no record of what it measured")
        elif made.evidence_digest != digest:
            found.append(f"{asset}: the manifest states other measurements than the event log recorded")
    return found


def evidence_digests(manifest: Mapping[str, Any]) -> dict[str, str]:
    """By asset: digest of its evidence as the restricted edition of a manifest has it, whichever version wrote it."""
    return {item["asset"]: bytes_digest(canonical_json(item)) for item in manifest["evidence"]}


def check_problems(lineage: Lineage, evaluations: Iterable[Evaluated], evidence: Iterable[Evidence]) -> list[str]:
    """Report checks that failed, and gates of the manifest that no check of the log compared with the same threshold."""
    events = {made.event: made for made in lineage.before.values()}
    of_release = [one for one in evaluations if one.event in events and events[one.event].asset == one.asset]
    found = [
        f"{one.asset}: the event log says that its check {one.check} did not pass"
        for one in of_release
        if one.blocking and not one.passed
    ]
    by_asset: dict[str, list[Evaluated]] = {}
    for one in of_release:
        by_asset.setdefault(one.asset, []).append(one)
    for item in evidence:
        own = by_asset.get(f"{lineage.prefix}/{item.asset}", [])
        found += [
            f"{item.asset}/{measured.name}: no check of the event log compared this number with this threshold and passed"
            for measured in item.measurements
            if item.asset != GATE and measured.gating and not any(_is_of(one, measured) for one in own)
        ]
    return found


def contract_problems(lineage: Lineage, evaluations: Iterable[Evaluated], contracts: Mapping[str, str]) -> list[str]:
    """Report tables of a release of which the log does not say that they keep their contract.

    Parameters
    ----------
    contracts
        Name of each asset that the manifest names, to the name of the check that holds its table against its contract.
    """
    passed = {(one.asset, one.check, one.event) for one in evaluations if one.passed}
    tables = [(made, check) for name, check in sorted(contracts.items()) if (made := lineage.named(name)) is not None]
    lacking = [f"{made.asset}/{check}" for made, check in tables if (made.asset, check, made.event) not in passed]
    if not lacking:
        return []
    return [f"the event log does not say that these tables of the release keep their contract: {', '.join(lacking)}"]


def _is_of(one: Evaluated, measured: Measurement) -> bool:
    return one.passed and one.gating and _same(one.measured, measured.compared) and _same(one.threshold, measured.threshold)


def _same(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and math.isclose(one, other, rel_tol=1e-12, abs_tol=0.0)


def registry_problems(recorded: Iterable[RecordedRelease], hashes: Sequence[str]) -> list[str]:
    """Report heads of the registry that the event log recorded and the registry no longer contains."""
    known = set(hashes)
    lacking = sorted({f"{one.made.asset} {one.number:04d}" for one in recorded if one.head not in known})
    return [
        f"the registry lacks the entry that the event log recorded with {name}: it was cut off or changed" for name in lacking
    ]


def evidence_in(manifest: Mapping[str, Any]) -> tuple[Evidence, ...]:
    """The evidence in the restricted edition of a manifest; before tries were counted, none named a try.

    Raises
    ------
    ReleaseError
        If it is not evidence.
    """
    try:
        return tuple(Evidence.from_json({"try_number": None} | item) for item in manifest["evidence"])
    except (KeyError, TypeError):
        raise ReleaseError("the restricted edition of the manifest contains no evidence that can be read") from None
