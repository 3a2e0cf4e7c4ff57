"""Counts of several sites: tables of text, and a page of HTML that needs nothing else, both made of the command's document."""

from collections.abc import Mapping
from typing import Any

from deid_assets.figures.rendering import plain
from deid_assets.figures.tables import ReportTable
from deid_assets.reports.report import ReportFigure, environment

_LIMITS = (
    "The uncertainty covers the noise only, which must be independent between sites.",
    "Noise serves better where the total exceeds its standard deviation, as in Figure 2 of Klann et al. (2018). That is about "
    "the total alone, not about privacy.",
    "The same people at several sites are counted several times.",
)


def tables_of(document: Mapping[str, Any]) -> tuple[ReportTable, ...]:
    """Return the tables of a document as `deid counts combine` writes it: every cell, and what masking loses."""
    cells = ReportTable(
        "cells",
        "Every cell",
        f"Sums over {document['sites']} sites, and the standard deviation of their noise.",
        (("Cell", "name"), ("Total", "number"), ("Standard deviation", "number"), ("Serves better", "name")),
        tuple(
            (
                " / ".join(row[part] for part in ("table", "row", "column")),
                "-" if row["total"] is None else f"{row['total']:,}",
                "-" if row["sd"] is None else plain(row["sd"]),
                row["serves_better"] or f"masked at {row['masked_at']} sites",
            )
            for row in document["cells"]
        ),
    )
    bias = document["selection_bias"]
    if bias is None:
        return (cells,)
    lost = ReportTable(
        "bias",
        "What masking loses",
        f"Share of the true total in counts of 1 to {bias['threshold'] - 1}, which masking hides: "
        f"{_percent(bias['lost_of_all'])} over all sites. A site's size is its largest count of people.",
        (("Largest site", "number"), ("Sites", "number"), ("Lost", "number")),
        tuple((f"{row['size_at_most']:,}", str(row["sites"]), _percent(row["lost"])) for row in bias["groups"]),
    )
    return (lost, cells)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def render_sites(document: Mapping[str, Any], figure: ReportFigure | None) -> bytes:
    """Return the page, in UTF-8; equal bytes for equal content."""
    page = environment().get_template("count_sites.html.j2")
    return page.render(document=document, tables=tables_of(document), figure=figure, limits=_LIMITS).encode(
        "utf-8", errors="replace"
    )
