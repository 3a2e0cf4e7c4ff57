"""The audit of a release as one document of JSON values, from which its page is made.

It is restricted: it shows exact counts of people beside the published ones, the key of the delivery, and data versions,
against which guesses of who opted out could be tested. It holds no value of a person: the policy is its public text.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from deid_assets.release.lineage.columns import DerivedColumn
from deid_assets.release.lineage.graph import Lineage
from deid_assets.release.lineage.published import PublishedRelease
from deid_assets.release.lineage.records import Evaluated, RecordedRun
from deid_assets.release.publication.verification import VerificationReport
from deid_assets.stages import REMOVED, STAGE_OF
from deid_assets.store.digests import Json

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
