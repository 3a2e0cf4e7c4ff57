"""The audit of a release as one document of JSON values, from which its page is made.

It is restricted: it shows exact counts of people beside the published ones, the key of the delivery, and data versions,
against which guesses of who opted out could be tested. It holds no value of a person: the policy is its public text.

Where the event log lacks what a manifest says, or contradicts it; every answer is a sentence.

The log and the manifest were written by different programs at different times. Somebody who changes one of them, or the
registry, has to change all of them alike.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from deid_assets.assessments.evidence import Evidence, Measurement
from deid_assets.errors import ReleaseError
from deid_assets.release.lineage.columns import DerivedColumn
from deid_assets.release.lineage.graph import Evaluated, Lineage, RecordedRelease, RecordedRun
from deid_assets.release.lineage.published import PublishedRelease
from deid_assets.release.publication.verification import VerificationReport
from deid_assets.stages import REMOVED, STAGE_OF
from deid_assets.store.digests import Json, bytes_digest, canonical_json

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


FORMAT = "deid_assets audit 1"
RESTRICTED = (
    "RESTRICTED: exact counts of people and data versions that are not published. Keep this document in the restricted store."
)
OUTSIDE = "upstream"
"""The stage of an asset that is not the product's own."""


@dataclass(frozen=True)
class Audited:
    """What was found about a release.

    Attributes
    ----------
    release
        Its manifests.
    verified
        What `deid verify` says.
    lineage, checks, run
        From the event log; None and empty if it has no record of the release.
    runs_before
        Earlier runs of the same policy and delivery, which were refused or failed, or made another release.
    columns
        What each published column derives from.
    problems
        What is wrong, each as a sentence; empty for a release in order.
    opt_outs
        How many people on the lists of opt-outs that were applied match nobody, each as a sentence.
    """

    release: PublishedRelease
    verified: VerificationReport
    lineage: Lineage | None
    checks: Sequence[Evaluated]
    run: RecordedRun | None
    runs_before: Sequence[RecordedRun]
    columns: Sequence[DerivedColumn]
    problems: Sequence[str]
    opt_outs: Sequence[str] = ()


NOT_LOOKED_AT = (
    "An audit compares the release, its manifests, the registry, the journal, the adopted policy and the event log with each "
    "other. It does not look at the files of the delivery, the restricted store that the release was made from, other "
    "releases, records that Dagster writes and does not read, or whether what a person reviewed and approved was right; and it "
    "trusts the code that it runs."
)
"""What an audit that finds nothing wrong leaves open."""


def audit_document(found: Audited) -> dict[str, Json]:
    """Everything that the audit says, as JSON values; `restricted` comes first."""
    public, restricted = found.release.public, found.release.restricted
    told = public if restricted is None else restricted
    policy = json.loads(public["policy"]["text"])
    return {
        "restricted": RESTRICTED,
        "format": FORMAT,
        "release": found.release.name,
        "created": public["created"],
        "approval": public.get("approval"),
        "in_order": not found.problems,
        "problems": list(found.problems),
        "opt_outs": list(found.opt_outs),
        "not_looked_at": NOT_LOOKED_AT,
        "verification": [asdict(check) for check in found.verified.checks],
        "delivery": dict(told["delivery"]),
        "policy": {"name": found.release.policy, "title": policy.get("title", ""), "hash": public["policy"]["hash"]},
        "recipients": dict(public["recipients"]),
        "code": {"version": public["code_version"], "packages": dict(public["packages"])},
        "run": None if found.run is None else asdict(found.run),
        "runs_before": [_run_before(run, found.checks) for run in found.runs_before],
        "files": list(public["files"]),
        "assets": [] if found.lineage is None else _assets(found.lineage),
        "checks": [] if found.lineage is None else _checks(found.lineage, found.checks),
        "measurements": [
            {"assessment": item["asset"], **measured} for item in told["evidence"] for measured in item["measurements"]
        ],
        "removed": _removed(told["attrition"], public["attrition"]),
        "columns": [asdict(column) for column in found.columns],
        "policy_text": public["policy"]["text"],
    }


def document_bytes(document: Mapping[str, Json]) -> bytes:
    """The document as JSON in UTF-8; its first line says that it is restricted."""
    return json.dumps(document, indent=1, allow_nan=False).replace("{\n ", "{", 1).encode() + b"\n"


def _assets(lineage: Lineage) -> list[dict[str, Json]]:
    """Every materialization behind the release, in the order of the log, with the versions of what it was made from."""
    every = sorted([*lineage.before.values(), lineage.release], key=lambda made: made.event)
    return [
        {
            "asset": made.asset,
            "stage": _stage(made.name) if made.asset.rpartition("/")[0] == lineage.prefix else OUTSIDE,
            "event": made.event,
            "made": made.made,
            "run": made.run,
            "data_version": made.data_version,
            "code_version": made.code_version,
            "inputs": [
                {
                    "asset": asset,
                    "event": event,
                    "data_version": lineage.before[asset].data_version if asset in lineage.before else None,
                }
                for asset, event in sorted(made.inputs.items())
            ],
        }
        for made in every
    ]


def _stage(name: str) -> str:
    """The stage of an asset of the product; the asset of a whole stage is called like it."""
    return (STAGE_OF | REMOVED).get(name, name if name in STAGE_OF.values() else OUTSIDE)


def _checks(lineage: Lineage, evaluations: Iterable[Evaluated]) -> list[dict[str, Json]]:
    """The evaluations of exactly these materializations."""
    events = {(made.asset, made.event) for made in (*lineage.before.values(), lineage.release)}
    return [asdict(one) for one in evaluations if (one.asset, one.event) in events]


def _run_before(run: RecordedRun, evaluations: Iterable[Evaluated]) -> dict[str, Json]:
    """An earlier run, and the checks that failed in it."""
    failed = [asdict(one) for one in evaluations if one.run == run.run and not one.passed]
    return {**asdict(run), "failed_checks": failed}


def _removed(exact: Iterable[Mapping[str, Json]], shown: Iterable[Mapping[str, Json]]) -> list[dict[str, Json]]:
    """Every step with its rows in and out, how many it removed and why, and what was published of it."""
    published = {step["stage"]: step["rows_out"] for step in shown}
    return [
        {
            "stage": step["stage"],
            "unit": step["unit"],
            "rows_in": step["rows_in"],
            "rows_out": step["rows_out"],
            "removed": _difference(step["rows_in"], step["rows_out"]),
            "reason": step["reason"],
            "published_rows_out": published.get(step["stage"]),
        }
        for step in exact
    ]


def _difference(rows_in: Json, rows_out: Json) -> int | None:
    return rows_in - rows_out if isinstance(rows_in, int) and isinstance(rows_out, int) else None
