"""The report's content from the public edition of a manifest: the report cannot disclose more than the manifest does."""

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
    "high_risk_share": "Share at high risk: how often what a neighbor may know about a member matches too few members of "
    "the population.",
    "high_risk_share_with_suppressed_members": "The share at high risk if members who were left out counted in classes.",
    "high_risk_share_literal": "The share at high risk, with exemptions and adversary power computed from the generalized "
    "data.",
    "neighbor_success": "Probability that a simulated neighbor picks the right record, without knowing that it is in the "
    "release.",
    "neighbor_success_given_membership": "Probability that a simulated neighbor picks the right record, knowing that it is "
    "in the release (prosecutor risk).",
    "worst_sensitivity": "Probability that a neighbor succeeds under the worst plausible assumption.",
    "worst_sensitivity_given_membership": "Probability that a neighbor succeeds under the worst plausible assumption, "
    "knowing that the record is in the release.",
    "canaries_found": "Canaries: whether the attack finds planted members, providers or records of known risk as often as "
    "it must.",
    "number_of_claims_known_with_values": "Probability that a neighbor succeeds who knows values, the number of claims to "
    "within a bin, and that the record is in the release.",
    "number_of_claims_high_risk_share": "Released members whose demographics and number of claims, to within a bin, are "
    "shared by too few members of the population.",
    "demographic_high_risk_share": "Released members whose demographics are shared by too few members of the population.",
    "absence_posterior": "Probability that a known member who is absent from the release has a condition for which members "
    "were removed.",
    "disappearance_posterior": "Probability that a member of an earlier release who is gone from this one has such a "
    "condition.",
    "appearance_posterior": "Probability that a member of this release who is missing from an earlier one was removed from "
    "it for such a condition.",
    "newly_released_in_small_classes": "Released members who stand out among those that an earlier release does not contain.",
    "records_beyond_population": "Released records in excess of the people of the population with the same quasi-identifiers.",
    "voter_list_match": "Released members expected to be matched correctly with a list of everybody's age and sex (marketer "
    "risk).",
    "inpatient_match": "Released inpatients expected to be matched correctly with a discharge database, by all visits "
    "(marketer risk).",
    "smallest_class": "Size of the smallest equivalence class: records that share all quasi-identifiers with a released "
    "record, itself included.",
    "suppressed_share": "Records that are left out because their class is too small.",
    "small_class_share": "Released members whose demographic class is small, as estimated from the release. Where the "
    "delivery is the population, the larger of estimate and count.",
    "unique_share": "Share of the population that is unique by demographics, as estimated from the release. Where the "
    "delivery is the population, the larger of estimate and count.",
    "homogeneous_share": "Members whose whole class has the same value of a sensitive attribute, unless everybody has it; "
    "the worst attribute.",
    "least_diversity": "Different values of a sensitive attribute in the least diverse class (l-diversity); the worst "
    "attribute.",
    "greatest_distance": "Distance between the distribution of a sensitive attribute in a class and in the whole release "
    "(t-closeness); the worst attribute.",
    "greatest_presence": "Probability that a member of the delivery is in the release, given their demographics; the worst "
    "class.",
    "membership_advantage": "Advantage over a random guess at who is in the release, given demographics.",
    "provider_pattern_success": "Probability that an adversary who knows patterns of care of a provider re-identifies them.",
    "provider_all_patterns_success": "Probability that an adversary who knows all patterns of care that an identifier joins "
    "re-identifies the provider.",
    "provider_graph_success": "Probability that an adversary who knows how providers share patients re-identifies one.",
    "information_kept": "Share of the column's information that is left, rounded down. The policy sets a minimum, so that "
    "the release stays useful.",
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
        raise ReleaseError("the report is rendered only from the public edition of a manifest; this is another edition")
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
        f"Judged as try {max(item['try_number'] for item in of_draws)} of at most {TRIES_AT_MOST}. Each bound that decides "
        f"holds with confidence {' or '.join(f'{one:.6g}' for one in sorted(sure))}. The confidence that the policy states "
        "covers all tries together.",
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
        f"Class sizes in the population are estimated from the release. The share at high risk, {published:.4%}, counts only "
        "the published members, as a recipient can. If members who were sampled and then left out counted in classes, it "
        f"would be {with_suppressed:.4%}.",
    )


def _ungated_match(manifest: Mapping[str, Any]) -> list[str]:
    """What a discharge database would match: beside the verdict, because the share is high, and seldom gated."""
    return [
        f"An adversary with a discharge database is expected to match {shown(found['value'], found['unit'])} of the released "
        "inpatients correctly by all of their visits; "
        + (
            f"the policy allows {shown(found['threshold'], found['unit'])}."
            if found["gating"]
            else "no gate of the policy limits this."
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
