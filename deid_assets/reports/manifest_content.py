"""The report's content from the public edition of a manifest: the report cannot tell more than the manifest does."""

import json
from collections.abc import Mapping
from typing import Any

from deid_assets.assessments import measure
from deid_assets.assessments.attribute_leaks import MEANINGS as LEAKS
from deid_assets.assessments.canaries import CANARIES
from deid_assets.assessments.measure import FIXED, WITH_SUPPRESSED
from deid_assets.errors import ReleaseError
from deid_assets.methods.statistics.confidence import TRIES_AT_MOST
from deid_assets.reports.disclosure_content import disclosure_tables
from deid_assets.reports.numbers import shown
from deid_assets.reports.rendering import words
from deid_assets.reports.report import (
    LIMITS,
    AttritionRow,
    CertificateRow,
    ComparisonRow,
    FileRow,
    Gate,
    GeneralizationRow,
    ReportContent,
    ReportFigure,
)

MEANINGS: Mapping[str, str] = {
    "high_risk_share": "Of what neighbours may know about a member, how much fits too few members of the population.",
    "high_risk_share_with_suppressed_members": "The share at high risk if members who were left out counted as alike.",
    "high_risk_share_literal": "The same, with exemptions and the adversary's power taken from the generalized data.",
    "neighbor_success": "How often a simulated neighbour who is not sure that it is there picks the right record.",
    "neighbor_success_given_membership": "How often a simulated neighbour who knows that it is there does.",
    "worst_sensitivity": "How often a neighbour succeeds under the worst assumption held to be plausible.",
    "worst_sensitivity_given_membership": "The same for one who knows that the record is there.",
    "canaries_found": "Planted members, providers or records of known risk that the attack found as often as it must.",
    "number_of_claims_known_with_values": "How often a neighbour succeeds who knows values and, to within a bin, the number of "
    "claims, and that the record is there.",
    "number_of_claims_high_risk_share": "Released members whose demographics and number of claims, to within a bin, too few "
    "members of the population share.",
    "demographic_high_risk_share": "Released members whose demographics too few members of the population share.",
    "absence_posterior": "How surely a known member who is absent has a condition for which members were removed.",
    "disappearance_posterior": "How surely a member who is in an earlier release and gone from this one has such a condition.",
    "appearance_posterior": "How surely a member who is not in an earlier release was removed from it for such a condition.",
    "newly_released_in_small_classes": "Released members who stand out among those whom an earlier release lacks.",
    "records_beyond_population": "Released records of which the population has no one alike left: it must hold them all.",
    "voter_list_match": "Released members whom a list of everybody's age and sex is expected to match rightly.",
    "inpatient_match": "Released inpatients whom a discharge database is expected to match rightly, by all visits.",
    "smallest_class": "Records that share all quasi-identifiers with a released record, its own among them.",
    "suppressed_share": "Records that were left out because too few are like them.",
    "small_class_share": "Released members whose demographic class is small, as estimated from the release; where the "
    "delivery is the population, the larger of this and the count.",
    "unique_share": "Share of the population that its demographics make unique, as estimated from the release; where the "
    "delivery is the population, the larger of this and the count.",
    "homogeneous_share": "Members whose whole class has one value of a sensitive attribute, which not everybody has; "
    "the worst attribute.",
    "least_diversity": "Values of a sensitive attribute in the least diverse class; the worst attribute.",
    "greatest_distance": "How far a class is distributed from the whole in a sensitive attribute; the worst of all.",
    "greatest_presence": "How surely demographics tell that a member of the delivery is in the release; the worst class.",
    "membership_advantage": "What knowing demographics gains over a coin in guessing who is in the release.",
    "provider_pattern_success": "How often who knows patterns of care of a provider recognizes him.",
    "provider_all_patterns_success": "How often who knows all patterns of care that an identifier joins recognizes a provider.",
    "provider_graph_success": "How often who knows how providers share patients recognizes one.",
    "information_kept": "Share of the column's information that is left; rounded down. The policy asks for it, "
    "so that a release is of use.",
    "cross_check_disagreements": "Draws of the published files on which two programs that share no code disagree.",
}
"""What the measurements mean, for people."""


def content_from_manifest(
    public_edition: bytes,
    title: str,
    policy_title: str,
    generalization: tuple[GeneralizationRow, ...] = (),
    certificate: tuple[CertificateRow, ...] = (),
    comparison: tuple[ComparisonRow, ...] = (),
    figures: tuple[ReportFigure, ...] = (),
    limits: tuple[str, ...] = LIMITS,
    notes: tuple[str, ...] = (),
) -> ReportContent:
    """Fill the report from a published manifest and from what a manifest does not hold.

    Parameters
    ----------
    public_edition
        The public edition of the manifest, as published.
    title, policy_title
        Headings.
    generalization, certificate, comparison, figures, limits, notes
        The other sections, and what stands beside the verdict; their numbers must be public, too.

    Raises
    ------
    ReleaseError
        If this is not a public edition, or a gate in it did not pass.
    """
    manifest = json.loads(public_edition)
    if manifest.get("edition") != "public":
        raise ReleaseError("the report is rendered from the public edition of a manifest only; this is another one")
    gates = tuple(gates_of(manifest))
    return ReportContent(
        title=title,
        release_number=manifest["number"],
        policy_name=manifest["policy"]["name"],
        policy_title=policy_title,
        delivery=manifest["delivery"]["key_digest"],
        created=manifest["created"],
        recipient_class=manifest["recipients"]["recipient_class"],
        terms_of_use=manifest["recipients"]["terms_of_use"],
        verdict="published",
        summary=f"All {len(gates)} measurements that could refuse this release are within their thresholds.",
        gates=gates,
        generalization=generalization,
        attrition=tuple(
            AttritionRow(step["stage"], step["unit"], step["rows_in"], step["rows_out"], step["reason"])
            for step in manifest["attrition"]
        ),
        figures=figures,
        certificate=certificate,
        comparison=comparison,
        disclosure=disclosure_tables(manifest),
        limits=(*limits, *_of_an_extract(manifest)),
        notes=(*notes, *tried(manifest), *_ungated_match(manifest)),
        files=tuple(FileRow(file["path"], file["sha256"], file["bytes"], file["rows"]) for file in manifest["files"]),
    )


def tried(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """In which try the release was judged by draws, and how surely their bounds hold; empty where nothing was drawn."""
    of_draws = [item for item in manifest["evidence"] if item.get("try_number") is not None]
    if not of_draws:
        return ()
    sure = {
        found["confidence"]
        for item in of_draws
        for found in item["measurements"]
        if found["gating"] and found["confidence"] is not None
    }
    return (
        f"Judged as try {max(item['try_number'] for item in of_draws)} of at most {TRIES_AT_MOST}: each bound that decides "
        f"holds with confidence {' or '.join(f'{one:.6g}' for one in sorted(sure))}. What the policy states is the confidence "
        "of all tries together.",
    )


def _of_an_extract(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Which members the classes of an extract are counted among, with both numbers; empty for a whole population."""
    shares = {
        found["name"]: _number(found["value"])
        for item in manifest["evidence"]
        if item["asset"] == "longitudinal_risk"
        for found in item["measurements"]
    }
    published, with_suppressed = shares.get(FIXED), shares.get(WITH_SUPPRESSED)
    if not (isinstance(published, float | int) and isinstance(with_suppressed, float | int)):
        return ()
    return (
        f"Classes of the population are estimated from those of the release. The share at high risk, {published:.4%}, counts "
        f"the published members alone, as a recipient can; it would be {with_suppressed:.4%} if members who were sampled and "
        "then left out counted as alike.",
    )


def _ungated_match(manifest: Mapping[str, Any]) -> list[str]:
    """What a discharge database would match: beside the verdict, because the share is high, and seldom gated."""
    return [
        f"Whoever holds a discharge database is expected to match {shown(found['value'], found['unit'])} of the released "
        "inpatients by all of their visits; "
        + (
            f"the policy allows {shown(found['threshold'], found['unit'])}."
            if found["gating"]
            else "no gate of the policy holds that down."
        )
        for item in manifest["evidence"]
        for found in item["measurements"]
        if found["name"] == measure.INPATIENT and isinstance(found["value"], int | float)
    ]


def gates_of(manifest: Mapping[str, Any]) -> list[Gate]:
    """The gating measurements; the gate's own are marked, because an assessment measured the same before."""
    return [
        Gate(
            name=f"{words(found['name'])}{_of(item['asset'], found['name'])}",
            meaning=_meaning(found),
            measured=_number(found["value"]),
            bound=_number(found["bound"]),
            threshold=_number(found["threshold"]),
            passed=found["passed"] is True,
            unit=found["unit"],
            comparison=found["comparison"],
            group=_group(found["name"]),
        )
        for item in manifest["evidence"]
        for found in item["measurements"]
        if found["gating"]
    ]


def _group(name: str) -> str:
    """Which gates of many alike one belongs to."""
    return "canaries" if name == CANARIES else "columns" if name.rpartition("/")[0] and name.rpartition("/")[2] in LEAKS else ""


def _meaning(found: Mapping[str, Any]) -> str:
    """What a measurement means; one of a column, "column/what", means the same for every column."""
    name = found["name"]
    return (
        MEANINGS.get(name)
        or MEANINGS.get(name.rpartition("/")[2])
        or LEAKS.get(name.rpartition("/")[2])
        or f"See {found['section']}."
    )


def _of(asset: str, name: str) -> str:
    """Whose measurement it is, where several assessments have one of this name."""
    return " (on the published files)" if asset == "gate" else f" ({words(asset)})" if name == CANARIES else ""


def _number(value: float | int | str | None) -> float | int | str | None:
    """A number of the manifest's JSON, which writes what is not finite as a word."""
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value
