"""`deid counts plan`: what noise, lockout and threshold a table of counts needs. Needs no home."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from deid_assets.command_line.count_files import CountFile, read_counts
from deid_assets.command_line.count_options import PlannedMasks, PlannedNoise, StatedSums
from deid_assets.errors import CountsError, cell_in_words, how_many
from deid_assets.figures.count_figures import crossover_figure, noise_figure
from deid_assets.methods.counts.audit import SmallCounts
from deid_assets.methods.counts.cohort import cumulative_shares
from deid_assets.methods.counts.estimates import chance_of_exact_average
from deid_assets.methods.counts.noise import Mechanism, noise_distribution, noise_variance
from deid_assets.methods.counts.planning import WIDEST_FOLLOWED, left_out, needed_threshold, repeats_for_good, repeats_in_a_row
from deid_assets.methods.counts.programs import Watch
from deid_assets.methods.counts.sites import sites_at_crossover
from deid_assets.reports.count_reports import render_plan
from deid_assets.reports.report import ReportFigure

_AVERAGES = (0.5, 1.0, 2.0, 2.5)
_CHANCE_SAID = 0.001
RESTRICTED = "Made of true counts, the needed threshold and what is left out included: keep this where they are kept."


def plan_document(file: Path | None, sums: StatedSums, noise: PlannedNoise, masks: PlannedMasks) -> dict[str, Any]:
    """Return what the command says as JSON."""
    table = None if file is None else _of_table(_read(file, sums), noise, masks)
    return _plan(noise, masks.threshold, table)


def _read(file: Path, sums: StatedSums) -> CountFile:
    read = read_counts(file, sums.sums_file)
    if read.sd is not None:
        raise CountsError(f"{file}: it has a column 'sd', so its counts have noise; a plan needs the true counts")
    if not sums.no_sums and not read.sums:
        raise CountsError(
            f"{file}: no sums are stated, and without them every threshold seems enough. State which cells add up to which "
            "total in a column 'sums' or with --sums; if truly none do, say --no-sums"
        )
    return read


def _plan(noise: PlannedNoise, threshold: int, table: dict[str, Any] | None) -> dict[str, Any]:
    """The document."""
    how, widths, planned = Mechanism(noise.mechanism), tuple(dict.fromkeys(noise.sd)), noise.sd[0]
    added = {sd: float(np.sqrt(noise_variance(sd, how))) for sd in widths}
    repeats = [
        {
            "sd": sd,
            "for_good": round(repeats_for_good(sd, how), 2) if sd <= WIDEST_FOLLOWED else None,
            "in_a_row": round(repeats_in_a_row(sd, how), 2) if sd <= WIDEST_FOLLOWED else None,
        }
        for sd in widths
    ]
    exact = [
        {"sd": sd, "lockout": often, "chance": round(chance_of_exact_average(often, sd, mechanism=how), 3)}
        for sd in widths
        for often in dict.fromkeys(noise.lockout)
    ]
    averages = [one for one in _AVERAGES if one < threshold]
    document = {
        "outcome": "planned",
        "exit_code": 0,
        "sd": planned,
        "mechanism": noise.mechanism,
        "threshold": threshold,
        "repeats": repeats,
        "exact": exact,
        "noise": [_noise_row(sd, added[sd], noise_distribution(sd, how)) for sd in widths],
        "averages": [
            {
                "average": one,
                "sites": round(sites_at_crossover(one, planned), 4),
                "sites_added": round(sites_at_crossover(one, added[planned]), 4),
            }
            for one in averages
        ],
        "sites": [
            {"sites": x, "sd": round(added[planned] * x**0.5, 4), "average": round(added[planned] / x**0.5, 4)}
            for x in range(1, noise.sites + 1)
        ],
        "table": table,
        "restricted": table is not None,
    }
    return document | {"summary": _summary(document)}


def _noise_row(sd: float, added: float, chances: np.ndarray) -> dict[str, float]:
    middle = len(chances) // 2
    within = {f"within_{n}": round(float(chances[middle - n : middle + n + 1].sum()), 4) for n in (1, 2)}
    return {"sd": sd, "added_sd": round(added, 4), "at_0": round(float(chances[middle]), 4), **within}


def _of_table(read: CountFile, noise: PlannedNoise, masks: PlannedMasks) -> dict[str, Any]:
    """What true counts need: the threshold of masking alone, and whose descriptions are left out."""
    tables = read.tables
    counts, persons = tables.counts, tables.contribution
    rule = SmallCounts(masks.threshold, masks.values)
    needed = needed_threshold(tables, rule, Watch(masks.seconds))
    variance = noise_variance(noise.sd[0] * persons, Mechanism(noise.mechanism))
    cells = left_out(counts, rule.threshold * persons, variance)
    at = {name: i for i, name in enumerate(tables.cells)}
    lists = []
    for one in tables.sums:
        total, parts = at[one.total], [at[part] for part in one.parts]
        whole = left_out(counts[[total]], np.array([rule.threshold * persons[total]]), np.array([variance[parts].sum()]))
        masked = cumulative_shares([None if cells.is_small[i] else int(counts[i]) for i in parts])
        lists.append(
            {
                "sum": one.name,
                "is_small": bool(whole.is_small[0]),
                "left_out_with_masks": bool(whole.is_small[0]) or None in masked,
                "chance": round(float(whole.chance[0]), 4),
            }
        )
    told = np.flatnonzero(cells.is_small | (cells.chance >= _CHANCE_SAID))
    return {
        "cells": len(tables.cells),
        "small": int(cells.is_small.sum()),
        "needed_threshold": needed,
        "hidden_by_it": None if needed is None else int(((counts > 0) & (counts < needed * persons)).sum()),
        "cells_left_out": [
            {**tables.cells[i]._asdict(), "is_small": bool(cells.is_small[i]), "chance": round(float(cells.chance[i]), 4)}
            for i in told
        ],
        "lists": lists,
    }


def _summary(document: Mapping[str, Any]) -> str:
    sd, one = document["sd"], document["repeats"][0]
    first = next(row for row in document["exact"] if row["sd"] == sd)
    lines = [
        f"Noise of standard deviation {sd:g}, {document['mechanism']}: the average of {first['lockout']} answers with fresh "
        f"noise is exact with probability {first['chance']:.3f}"
        + ("." if one["for_good"] is None else f", and stays exact after {one['for_good']:.2f} on average.")
    ]
    found = document["table"]
    if found is not None:
        needed = (
            "the threshold that masking alone needs was not found in time"
            if found["needed_threshold"] is None
            else f"masking alone needs the threshold {found['needed_threshold']:,}, which hides {found['hidden_by_it']} of them"
        )
        lists = sum(row["left_out_with_masks"] for row in found["lists"])
        lines.append(
            f"{how_many(found['cells'], 'cell')}, {found['small']} of them small, whose percentiles and shares must be left "
            f"out; {needed}. With masks, {lists} of {len(found['lists'])} lists have no percentiles or cumulative shares."
        )
    return "\n".join(lines)


def printed(document: Mapping[str, Any]) -> str:
    """Return what the command prints."""
    lines = []
    for row in document["repeats"]:
        known = row["for_good"] is not None
        told = f"{row['for_good']:.2f} for good, {row['in_a_row']:.2f} for five in a row" if known else "too many to follow"
        lines.append(f"repeats until an average is exact, sd {row['sd']:g}: {told}")
    lines += [
        f"exact after a lockout of {row['lockout']}, sd {row['sd']:g}: probability {row['chance']:.3f}"
        for row in document["exact"]
    ]
    lines += [
        f"sites up to which masking serves better at an average count of {row['average']:g}: {row['sites']:g} "
        f"({row['sites_added']:.4g} by the noise that is added)"
        for row in document["averages"]
    ]
    if (found := document["table"]) is not None:
        for row in found["cells_left_out"]:
            why = "a small count" if row["is_small"] else "not small"
            name = cell_in_words(row)
            lines.append(f"left out: {name}: {why}, below the threshold after noise with probability {row['chance']:.3f}")
        for row in found["lists"]:
            masks = "left out" if row["left_out_with_masks"] else "possible"
            lines.append(f"list {row['sum']}: with masks {masks}; left out after noise with probability {row['chance']:.3f}")
    return "\n".join([*lines, document["summary"], *([RESTRICTED] if document["restricted"] else [])])


def files_of(document: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the files of the folder: the report, tables as CSV, and the document."""
    drawn = {row["sd"]: noise_distribution(row["sd"], Mechanism(document["mechanism"])) for row in document["noise"]}
    averages, largest = [row["average"] for row in document["averages"]], len(document["sites"])
    crossings = ", ".join(f"{row['average']:g}: {row['sites']:g} sites" for row in document["averages"])
    figures = (
        ReportFigure(
            "Sums over sites, and their noise",
            "Each line is the sum of counts of so many persons a site. In the grey area the noise is larger than the sum, and "
            "masking serves better where all counts are small; marks are where the line leaves it.",
            crossover_figure(averages, largest, document["noise"][0]["added_sd"]),
            alt=f"Masking serves better up to, by average count of a site, {crossings}",
        ),
        ReportFigure(
            "The noise of one count",
            "Probability of every value that is added.",
            noise_figure(drawn),
            alt="; ".join(f"standard deviation {row['sd']:g}: 0 with {row['at_0']:.4f}" for row in document["noise"]),
        ),
    )
    rows = [
        {"sd": sd, "noise": int(value), "probability": float(f"{chance:.6g}")}
        for sd, chances in drawn.items()
        for value, chance in zip(np.arange(len(chances)) - len(chances) // 2, chances, strict=True)
    ]
    tables = {name: document[name] for name in ("repeats", "exact", "averages", "sites")} | {"noise": rows}
    if document["table"] is not None:
        tables |= {name: document["table"][name] for name in ("cells_left_out", "lists")}
    return {
        "report.html": render_plan(document, figures),
        **{
            name + ".csv": pd.DataFrame(rows, dtype=object).to_csv(index=False).encode()
            for name, rows in tables.items()
            if rows
        },
        "document.json": json.dumps(document, indent=1, allow_nan=False).encode(),
    }
