"""`deid counts combine`: sums over sites, and what masking would lose of them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deid_assets.command_line.count_files import CountFile, read_counts, table_csv
from deid_assets.command_line.count_options import PlannedCounts
from deid_assets.errors import CountsError, cell_in_words, how_many
from deid_assets.figures.count_figures import selection_bias_figure
from deid_assets.methods.counts.noise import Mechanism
from deid_assets.methods.counts.sites import SelectionBias, Serves, selection_bias, sum_over_sites
from deid_assets.methods.counts.tables import CellName
from deid_assets.reports.count_reports import render_sites
from deid_assets.reports.report import ReportFigure

_GROUPS_AT_MOST = 4


def sites_document(files: Sequence[Path], planned: PlannedCounts, are_true: bool) -> dict[str, Any]:
    """Return what the command says as JSON.

    Parameters
    ----------
    files
        One of each site.
    planned
        Threshold of masking, how noise is drawn, and the noise that true counts would get.
    are_true
        Whether the counts have no noise yet.

    Raises
    ------
    CountsError
        If the files differ in their cells, or lack or have noise where they should not.
    """
    read = [read_counts(file, marks=not are_true, negative=not are_true) for file in files]
    _same_cells(read, has_noise=not are_true)
    names, threshold = read[0].cells, planned.threshold
    order = [{name: i for i, name in enumerate(file.cells)} for file in read]

    def by_site(values: Sequence[Sequence[float]]) -> np.ndarray:
        return np.array([[one[at[name]] for name in names] for one, at in zip(values, order, strict=True)], float)

    counts = by_site([[np.nan if isinstance(value, str) else value for value in file.shown] for file in read])
    masked_at = np.isnan(counts).sum(axis=0)
    persons = by_site([file.contribution for file in read])
    widths = planned.sd * persons if are_true else np.where(np.isnan(counts), 0.0, by_site([file.sd or () for file in read]))
    found = sum_over_sites(counts, widths, threshold * persons, are_true, Mechanism(planned.mechanism))
    bounds = {"hidden_at_least": found.hidden_at_least, "hidden_at_most": found.hidden_at_most}
    cells = [
        {
            **name._asdict(),
            "total": None if masked_at[i] else int(found.totals[i]),
            "sd": None if masked_at[i] else float(found.sd[i]),
            **{key: None if masked_at[i] else round(float(values[i]), 3) for key, values in bounds.items()},
            "masked_at": int(masked_at[i]),
            "serves_better": None if masked_at[i] else str(found.serves_better[i]),
        }
        for i, name in enumerate(names)
    ]
    noise, masking, undecided = (sum(one == which for one in found.serves_better) for which in Serves)
    unknown = f", {int((masked_at > 0).sum())} are masked at some site and have no sum" if masked_at.any() else ""
    bias = None
    if are_true:
        totals = {one.total for file in read for one in file.sums}
        parts = [name not in totals and (persons[:, i] == 1).all() for i, name in enumerate(names)]
        if not any(parts):
            raise CountsError("no cell counts people and is no total: what masking loses is about such cells")
        bias = _bias(counts, persons, np.array(parts), threshold)
    lost = (
        "" if bias is None or bias["lost_of_all"] is None else f" Masking loses {100 * bias['lost_of_all']:.1f} % of the total."
    )
    return {
        "outcome": "combined",
        "exit_code": 0,
        "sites": len(read),
        "threshold": threshold,
        "mechanism": planned.mechanism,
        "summary": f"{how_many(len(cells), 'cell')} of {how_many(len(read), 'site')}: noise serves {noise} better, "
        f"masking {masking}; {undecided} are undecided{unknown}.{lost}",
        "cells": cells,
        "selection_bias": bias,
    }


def _bias(counts: Any, persons: Any, parts: Any, threshold: int) -> dict[str, Any]:
    """What masking loses of the parts, by size of site: its largest count of people."""
    sizes = np.where(persons == 1, counts, 0).max(axis=1)
    found = selection_bias(counts[:, parts], sizes, threshold, min(_GROUPS_AT_MOST, len(counts)))

    def share(value: float) -> float | None:
        return float(value) if np.isfinite(value) else None

    return {
        "threshold": threshold,
        "lost_of_all": share(found.lost_of_all),
        "groups": [
            {"size_at_most": int(size), "sites": int(sites), "lost": share(lost)}
            for size, sites, lost in zip(found.size_at_most, found.sites, found.lost, strict=True)
        ],
    }


def _same_cells(read: Sequence[CountFile], has_noise: bool) -> None:
    if len(read) < 2:
        raise CountsError("a sum over sites needs the files of at least two sites")
    first = set(read[0].cells)
    for file in read:
        if missing := len(first - set(file.cells)):
            raise CountsError(
                f"{file.path}: {how_many(missing, 'cell')} of {read[0].path} missing; give every site the same cells"
            )
        if more := len(set(file.cells) - first):
            raise CountsError(
                f"{file.path}: {how_many(more, 'cell is', 'cells are')} not in {read[0].path}; give every site the same cells"
            )
        if has_noise and file.sd is None:
            raise CountsError(f"{file.path}: no column 'sd', so its noise is not known; for true counts, add --true-counts")
        if has_noise and "T" in file.shown:
            raise CountsError(f"{file.path}: column 'count': a noisy table cannot have the mark T; use H")
        if not has_noise and file.sd is not None:
            raise CountsError(f"{file.path}: it has a column 'sd', so its counts have noise: leave out --true-counts")


def printed(document: Mapping[str, Any]) -> str:
    """Return what the command prints."""
    lines = []
    for row in document["cells"]:
        name = cell_in_words(row)
        told = (
            f"masked at {how_many(row['masked_at'], 'site')}"
            if row["total"] is None
            else f"{row['total']} (sd {row['sd']:.3g})"
        )
        better = f"; {_better(row)}" if row["serves_better"] else ""
        lines.append(f"{name}: {told}{better}")
    for row in (document["selection_bias"] or {"groups": []})["groups"]:
        lost = "no counts" if row["lost"] is None else f"{100 * row['lost']:.1f} % lost by masking"
        lines.append(f"sites of up to {row['size_at_most']:,} people ({row['sites']}): {lost}")
    return "\n".join([*lines, document["summary"]])


def _better(row: Mapping[str, Any]) -> str:
    hidden = f"masking hides {row['hidden_at_least']:,.5g} to {row['hidden_at_most']:,.5g}"
    which = row["serves_better"]
    return f"{hidden}: undecided" if which == "undecided" else f"{hidden}: {which} serves better"


def files_of(document: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the files of the folder: the report, the sums as CSV, and the document."""
    rows, bias, figure = document["cells"], document["selection_bias"], None
    names = [CellName(row["table"], row["row"], row["column"]) for row in rows]
    columns: dict[str, Iterable[object]] = {
        key: [row[key] for row in rows]
        for key in ("total", "sd", "hidden_at_least", "hidden_at_most", "masked_at", "serves_better")
    }
    if bias is not None and bias["lost_of_all"] is not None:
        groups = bias["groups"]
        lost = [np.nan if row["lost"] is None else row["lost"] for row in groups]
        drawn = SelectionBias(
            np.array([row["size_at_most"] for row in groups], float),
            np.array([row["sites"] for row in groups]),
            np.array(lost),
            bias["lost_of_all"],
        )
        told = "; ".join(f"up to {row['size_at_most']:,} people: {_share(row['lost'])}" for row in groups)
        figure = ReportFigure(
            "Share of the true total that masking loses, by size of site",
            "Small sites have more small counts, so sums of masked counts lean towards large sites and the people they treat.",
            selection_bias_figure(drawn),
            alt=f"Bars: {told}; dashed line, all sites: {_share(bias['lost_of_all'])}",
        )
    return {
        "report.html": render_sites(document, figure),
        "combined.csv": table_csv(names, columns),
        "document.json": json.dumps(document, indent=1, allow_nan=False).encode(),
    }


def _share(share: float | None) -> str:
    return "no counts" if share is None else f"{100 * share:.1f} %"
