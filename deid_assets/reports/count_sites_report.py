"""Counts of several sites: tables of text, and a page of HTML that needs nothing else, both made of the command's document."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deid_assets.figures.rendering import plain
from deid_assets.figures.tables import ReportTable
from deid_assets.reports.report import ReportFigure, environment

_LIMITS = (
    "The uncertainty covers the noise only, which must be independent between sites.",
    "Noise serves better where the small counts alone, which masking hides, are more than the standard deviation; masking "
    "does where all that it may have to hide is not. Where all counts are small, that is Figure 2 of Klann et al. (2018). It "
    "is about the error of the total, not about privacy.",
    "Of noisy counts, what masking hides is known within bounds of 95 % each.",
    "The same people at several sites are counted several times.",
)


def tables_of(document: Mapping[str, Any]) -> tuple[ReportTable, ...]:
    """Return the tables of a document as `deid counts combine` writes it: every cell, and what masking loses."""
    cells = ReportTable(
        "cells",
        "Every cell",
        f"Sums over {document['sites']} sites, the standard deviation of their noise, and how much of them masking hides with "
        f"the threshold {document['threshold']}: the small counts alone, and all that may have to be hidden with them.",
        (
            ("Cell", "name"),
            ("Total", "number"),
            ("Standard deviation", "number"),
            ("Masking hides at least", "number"),
            ("At most", "number"),
            ("Serves better", "name"),
        ),
        tuple(
            (
                " / ".join(row[part] for part in ("table", "row", "column")),
                "-" if row["total"] is None else f"{row['total']:,}",
                *("-" if row[key] is None else plain(row[key]) for key in ("sd", "hidden_at_least", "hidden_at_most")),
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
    page = CountPage(
        "Counts of several sites", (document["summary"],), document["selection_bias"] is not None,
        () if figure is None else (figure,), tables_of(document), _LIMITS,
    )  # fmt: skip
    return page.rendered()


@dataclass(frozen=True)
class CountPage:
    """A page about counts: what is said first, whether it is made of true counts, figures, tables and limits."""

    title: str
    summary: tuple[str, ...]
    is_restricted: bool
    figures: tuple[ReportFigure, ...]
    tables: tuple[ReportTable, ...]
    limits: tuple[str, ...]

    def rendered(self) -> bytes:
        """The page, in UTF-8; equal bytes for equal content."""
        return environment().get_template("counts.html.j2").render(page=self).encode("utf-8", errors="replace")
