"""The report's content from the public edition of a manifest: the report cannot disclose more than the manifest does."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from deid_assets.assessments.assessment import CANARIES
from deid_assets.assessments.attribute_leaks import MEANINGS as LEAKS
from deid_assets.assessments.detail import KEPT
from deid_assets.assessments.identified_files import INPATIENT
from deid_assets.assessments.longitudinal_risk import FIXED, NAME, WITH_SUPPRESSED
from deid_assets.assessments.registry import MEANINGS
from deid_assets.errors import ReleaseError
from deid_assets.figures.rendering import ComparisonRow, ReportTable, shown, words
from deid_assets.methods.counts.cohort import CHARACTERISTICS, TOTALS
from deid_assets.methods.statistics.confidence import TRIES_AT_MOST
from deid_assets.release.adversaries import worst_numbers
from deid_assets.release.gate.cross_check import CROSS_CHECK
from deid_assets.release.verdict import verdict_of
from deid_assets.reports import report
from deid_assets.reports.determination_texts import ADVERSARIES
from deid_assets.reports.disclosure_content import disclosure_tables
from deid_assets.reports.utility_content import leaks, utility_figures, utility_tables

_OF_THE_GATE: Mapping[str, str] = {
    KEPT: "Share of the column's information that is left, rounded down. The policy sets a minimum, so that the release stays "
    "useful.",
    CROSS_CHECK: "Draws of the published files on which two programs that share no code disagree.",
}
"""What the gate's own measurements mean."""


def content_from_manifest(
    public_edition: bytes,
    title: str,
    policy_title: str,
    generalization: tuple[report.GeneralizationRow, ...] = (),
    certificate: tuple[report.CertificateRow, ...] = (),
    comparison: tuple[ComparisonRow, ...] = (),
    figures: tuple[report.ReportFigure, ...] = (),
    limits: tuple[str, ...] = report.LIMITS,
    notes: tuple[str, ...] = (),
) -> report.ReportContent:
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
    gates, verdict = tuple(gates_of(manifest)), verdict_of(manifest)
    return report.ReportContent(
        title=title,
        release_number=manifest["number"],
        policy_name=manifest["policy"]["name"],
        policy_title=policy_title,
        delivery=manifest["delivery"]["key_digest"],
        created=manifest["created"],
        recipient_class=manifest["recipients"]["recipient_class"],
        terms_of_use=manifest["recipients"]["terms_of_use"],
        verdict="published",
        remarks=verdict.remarks,
        summary=verdict.passed,
        gates=gates,
        adversaries=adversaries_of(manifest),
        generalization=generalization,
        attrition=tuple(
            report.AttritionRow(step["stage"], step["unit"], step["rows_in"], step["rows_out"], step["reason"])
            for step in manifest["attrition"]
        ),
        figures=(*figures, *utility_figures(manifest)),
        utility=utility_tables(manifest),
        certificate=certificate,
        comparison=comparison,
        disclosure=disclosure_tables(manifest),
        counts=tuple(_counts(manifest)),
        limits=(*limits, *_of_an_extract(manifest)),
        notes=(*notes, *leaks(manifest), *_ungated_match(manifest)),
        further=(*_approval(manifest), *tried(manifest), *_cost_of_noise(manifest)),
        files=tuple(manifest["files"]),
    )


def adversaries_of(manifest: Mapping[str, Any]) -> tuple[report.AdversaryRow, ...]:
    """Every adversary with the worst number, whether a gate limits it or not; the worst first."""
    policy = json.loads(manifest["policy"]["text"])
    return tuple(
        report.AdversaryRow(
            name=words(one.asset),
            who=ADVERSARIES[one.asset].who if one.asset in ADVERSARIES else "",
            measurement=words(one.measurement),
            worst=one.written(one.value, shown),
            limit=one.written(one.threshold, lambda number, unit: f"at most {shown(number, unit)}"),
            accepted=one.accepted,
            share=one.value,
            limit_share=one.threshold,
        )
        for one in worst_numbers(manifest["evidence"], policy)
    )


def _approval(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Where the approval is stated; the report is made before it is given."""
    if "approval" not in json.loads(manifest["policy"]["text"]):
        return ()
    return (
        "The policy requires that a person approves a release before it is published: the signed manifest states who, and "
        "when.",
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
        found["name"]: number_of(found["value"])
        for item in manifest["evidence"]
        if item["asset"] == NAME
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
        if found["name"] == INPATIENT and isinstance(found["value"], int | float)
    ]


def _cost_of_noise(manifest: Mapping[str, Any]) -> list[str]:
    """What the noisy counts of all releases disclose together."""
    told = manifest.get("counts")
    if told is None:
        return []
    budget = told["budget"]
    return [f"{budget['meaning']} At most {budget['at_most_rho']:.4g} of zCDP may be spent."]


def _counts(manifest: Mapping[str, Any]) -> Iterator[ReportTable]:
    """Who the eligible members are, or what the records are, as published beside the data; and what is summed over them."""
    told = manifest.get("counts", {})
    cells = {table: [cell for cell in told.get("cells", ()) if cell["table"] == table] for table in (CHARACTERISTICS, TOTALS)}
    unit = "members" if any(step["unit"] == "members" for step in manifest["attrition"]) else "records"
    if cells[CHARACTERISTICS]:
        text = (
            f"Small counts are masked: T counts fewer {unit} than the threshold, H any number."
            if told["tables"] == "masked"
            else f"Every count has noise with a standard deviation of {told['sd']:g}, so that small ones may be negative."
        )
        yield ReportTable(
            "characteristics",
            "Who the eligible members are" if unit == "members" else "What the records are",
            f"{text} The files Attrition, Characteristics and Distributions hold these and all other counts of the run.",
            (("Characteristic", "name"), ("Class", "name"), (unit.capitalize(), "number")),
            tuple((words(cell["row"]), cell["column"], shown(cell["shown"], unit)) for cell in cells[CHARACTERISTICS]),
        )
    if cells[TOTALS]:
        yield ReportTable(
            "totals",
            "What the eligible members have together",
            "Sums of columns that need not be released. The noise is as many times wider than that of a count as one member may"
            " have at most; the file Totals says how wide.",
            (("Total", "name"), ("Class", "name"), ("Sum", "number")),
            tuple((words(cell["row"]), cell["column"], shown(cell["shown"], "")) for cell in cells[TOTALS]),
        )


def gates_of(manifest: Mapping[str, Any]) -> list[report.ReportedGate]:
    """The gating measurements; the gate's own are marked, because an assessment measured the same before."""
    return [
        report.ReportedGate(
            name=f"{words(found['name'])}{_of(item['asset'], found['name'])}",
            meaning=meaning_of(found),
            measured=number_of(found["value"]),
            bound=number_of(found["bound"]),
            threshold=number_of(found["threshold"]),
            passed=found["passed"] is True,
            unit=found["unit"],
            comparison=found["comparison"],
            group=_group(found["name"]),
            noisy=found.get("protected") is True and isinstance(found["value"], int | float),
        )
        for item in manifest["evidence"]
        for found in item["measurements"]
        if found["gating"]
    ]


def _group(name: str) -> str:
    """Which gates of many alike one belongs to."""
    return "canaries" if name == CANARIES else "columns" if name.rpartition("/")[0] and name.rpartition("/")[2] in LEAKS else ""


def meaning_of(found: Mapping[str, Any]) -> str:
    """What a measurement means; one of a column, "column/what", means the same for every column."""
    name = found["name"]
    return (
        MEANINGS.get(name)
        or _OF_THE_GATE.get(name.rpartition("/")[2])
        or LEAKS.get(name.rpartition("/")[2])
        or f"See {found['section']}."
    )


def _of(asset: str, name: str) -> str:
    """Whose measurement it is, where several assessments have one of this name."""
    return " (on the published files)" if asset == "gate" else f" ({words(asset)})" if name == CANARIES else ""


def number_of(value: float | int | str | None) -> float | int | str | None:
    """A number of the manifest's JSON, which writes what is not finite as a word."""
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value
