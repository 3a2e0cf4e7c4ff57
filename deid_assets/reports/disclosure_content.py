"""The report's tables of what was measured beyond who is who, from the public edition of a manifest."""

import json
from collections.abc import Mapping
from typing import Any

from deid_assets.assessments import disclosure as measures
from deid_assets.methods.disclosure import leak_limits as leaks
from deid_assets.reports.numbers import shown, shown_bound
from deid_assets.reports.rendering import words
from deid_assets.reports.report import ReportTable

Found = Mapping[str, Mapping[str, Any]]
"""Measurements of the manifest by their names."""

_KNOWLEDGE = {
    "one_pattern": "one pattern of care",
    "some_patterns": "several patterns",
    "all_patterns": "all patterns shown",
    "shared_patients": "shared patients",
}
_KINDS = {"provider": "ProviderID", "vendor": "Vendor", "pcp": "PCP"}
_UNIQUE = {
    "unique_share_zayatz": "Zayatz",
    "unique_share_pitman": "Pitman",
    "unique_share_pitman_at_boundary": "Pitman (at the edge of its range: the best fit lies outside)",
    "unique_share_slide_negative_binomial": "slide negative binomial",
    "unique_share_rule": "decision rule",
}


def disclosure_tables(manifest: Mapping[str, Any]) -> tuple[ReportTable, ...]:
    """The tables for whatever of it was measured; none for what was not."""
    tables = []
    for asset, table in (
        ("population_estimates", _population),
        ("attribute_disclosure", _attributes),
        ("record_attribute_disclosure", _attributes),
        ("membership_disclosure", _membership),
        ("provider_graph_attack", _providers),
    ):
        measured = (item["measurements"] for item in manifest["evidence"] if item["asset"] == asset)
        tables += [table({found["name"]: found for found in measurements}) for measurements in measured]
    tables.append(_published_as_they_are(manifest))
    return tuple(table for table in tables if table.rows)


def _published_as_they_are(manifest: Mapping[str, Any]) -> ReportTable:
    """What the gate measured of such columns on the published files, and the reasons of those that were reviewed."""
    found = {one["name"]: one for item in manifest["evidence"] if item["asset"] == "gate" for one in item["measurements"]}
    names = [name.removesuffix(f"/{leaks.REFINEMENT}") for name in found if name.endswith(f"/{leaks.REFINEMENT}")]
    reasons = json.loads(manifest["policy"]["text"]).get("reviewed_attributes", {}) if names else {}
    shown_of = (
        leaks.SINGLED_OUT,
        leaks.REFINEMENT,
        leaks.SURE,
        leaks.MADE_OF,
        leaks.IDENTIFIERS,
        leaks.FORMATS,
        leaks.RARE_NAMES,
    )
    limits = [f"at most {shown(leaks.LIMITS[name], 'share of members')}" for name in shown_of]
    rows = tuple(
        (name, *(_told(found, f"{name}/{one}") for one in shown_of), reasons.get(name, "not reviewed: within the limits"))
        for name in names
    )
    return ReportTable(
        "published_as_they_are",
        "Columns published as they are",
        "Measured on the published files. Each measurement can refuse the release, unless a person has reviewed the column. "
        "Singled out: people whose value is shared by too few others. Refinement: how much better a quasi-identifier can be "
        "guessed, at a finer level than it is released at, with the column than without it (Goodman and Kruskal's lambda). "
        "For sure: the share of it that the column determines with certainty. Made of: how much better the column can be "
        "guessed from a quasi-identifier at a finer level. Identifiers: values that look like direct identifiers. Forms of "
        "identifiers: values of a form that ordinary numbers have as well. Rare names: rare values that may be names, as a "
        "share of all rare values.",
        (("Column", "name"), ("Singled out", "number"), ("Refinement", "number"), ("For sure", "number"), ("Made of", "number"),
         ("Identifiers", "number"), ("Forms of identifiers", "number"), ("Rare names", "number"),
         ("Published because", "name")),
        (*rows, ("Limit", *limits, "")) if rows else (),
    )  # fmt: skip


def _told(found: Found, name: str) -> str:
    """A measurement's value as text, with its bound if it has one."""
    if name not in found:
        return ""
    one = found[name]
    text = shown(one["value"], one["unit"])
    return (
        f"{text} (up to {shown_bound(one['bound'], one['unit'])})"
        if one["bound"] is not None and one["value"] is not None
        else text
    )


def _population(found: Found) -> ReportTable:
    rows = [
        (f"in small classes: {words(name.removeprefix('demographics/small_class_share_'))}", _told(found, name))
        for name in found
        if name.startswith("demographics/small_class_share_")
    ]
    if measures.COUNTED in found:
        rows.append(("in small classes: counted in the delivery", _told(found, measures.COUNTED)))
    rows += [(f"unique in the population: {label}", _told(found, name)) for name, label in _UNIQUE.items() if name in found]
    if "counted_uniques" in found:
        rows.append(("members unique in the delivery: counted", _told(found, "counted_uniques")))
    return ReportTable(
        "population",
        "Class sizes estimated from the release",
        "Share of released members whose demographic class in the population is small, by each estimator, and estimated "
        "share of the population that is unique. Where the delivery is the population, both are also counted in it, and a "
        "limit applies to the larger of count and estimate. The Safe Harbor rule leaves about 0.04 % unique.",
        (("Share of members", "name"), ("Measured", "number")),
        tuple(rows),
    )


def _attributes(found: Found) -> ReportTable:
    names = [name.removesuffix("/distinct_l") for name in found if name.endswith("/distinct_l")]
    columns = ("homogeneous_share", "distinct_l", "entropy_l", "t", "mean_t")
    return ReportTable(
        "attributes",
        "What a class discloses about sensitive attributes",
        "Homogeneous: share of members whose whole class has the same value. l: number of different values in the least "
        "diverse class. Entropy l: exp of the entropy in the least diverse class. t: distance between the distribution in a "
        "class and in the whole release, at most and on average; small classes are far from the whole by chance alone. If "
        "members have several values of an attribute, l counts sets of values, and is 1 where a class has a value in common; "
        "the other measures use single values. What the whole release shares is not disclosed by a class: such a value does "
        "not count, and an attribute that is the same for everybody has no l.",
        (
            ("Attribute", "name"),
            ("Homogeneous", "number"),
            ("l", "number"),
            ("Entropy l", "number"),
            ("t", "number"),
            ("Mean t", "number"),
        ),
        tuple((name, *(_told(found, f"{name}/{column}") for column in columns)) for name in names),
    )


def _membership(found: Found) -> ReportTable:
    rows = (
        ("highest probability that a member is in the release, from demographics", measures.PRESENCE),
        ("lowest probability that a member is in the release, from demographics", "least_presence"),
        ("advantage over a random guess, from demographics", measures.ADVANTAGE),
        ("advantage over a random guess, from demographics and claims", measures.ADVANTAGE_CLAIMS),
    )
    return ReportTable(
        "membership",
        "Who is in the release",
        "How well an adversary can infer whether a member of the delivery is in the release (membership disclosure). An "
        "advantage of 0 is a random guess, 100 % is certainty. It does not measure which record belongs to whom.",
        (("Inference", "name"), ("Measured", "number")),
        tuple((label, _told(found, name)) for label, name in rows if name in found),
    )


def _providers(found: Found) -> ReportTable:
    rows = []
    for kind, label in _KINDS.items():
        for knowledge, known in _KNOWLEDGE.items():
            cells = [
                _told(found, f"{kind}_{when}/{measure}_{knowledge}")
                for measure in ("small_share", "success")
                for when in (measures.BEFORE, measures.AFTER)
            ]
            if any(cells):
                rows.append((f"{label}: {known}", *cells))
    return ReportTable(
        "providers",
        "Re-identification of providers",
        "Share of providers that too few others resemble, and expected share of providers that are re-identified, before and "
        "after identifiers are suppressed. Patterns of care are compared within the whole delivery, shared patients within "
        "the release.",
        (("Identifier and knowledge", "name"), ("Too few alike, before", "number"), ("after", "number"),
         ("Re-identified, before", "number"), ("after", "number")),
        tuple(rows),
    )  # fmt: skip
