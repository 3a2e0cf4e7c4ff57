"""The report's tables of what was measured beyond who is who, from the public edition of a manifest."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from deid_assets.assessments.registry import ASSESSMENTS
from deid_assets.figures.rendering import NOT_SHOWN, ReportTable, shown, written
from deid_assets.methods.disclosure import leak_limits as leaks

_NOTHING = ("", NOT_SHOWN, "not measured")


def disclosure_tables(manifest: Mapping[str, Any]) -> tuple[ReportTable, ...]:
    """The tables for whatever of it was measured; none for what was not.

    Rows in which no number may be shown, or none could be measured, are left out.
    """
    tables = []
    for name, assessment in ASSESSMENTS.items():
        if assessment.report_table is None:
            continue
        measured = (item["measurements"] for item in manifest["evidence"] if item["asset"] == name)
        tables += [
            _with_numbers(assessment.report_table({found["name"]: found for found in measurements}))
            for measurements in measured
        ]
    tables.append(_published_as_they_are(manifest))
    return tuple(table for table in tables if table.rows)


def _with_numbers(table: ReportTable) -> ReportTable:
    """A table without the rows that show no number."""
    numbers = [place for place, (_, kind) in enumerate(table.columns) if kind == "number"]
    return replace(table, rows=tuple(row for row in table.rows if any(row[place] not in _NOTHING for place in numbers)))


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
    limits = [shown(leaks.LIMITS[name], "share of members") for name in shown_of]
    rows = tuple(
        (name, *(written(found, f"{name}/{one}") for one in shown_of), reasons.get(name, "not reviewed: within the limits"))
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
        (*rows, ("Limit (at most)", *limits, "")) if rows else (),
    )  # fmt: skip
