"""A plan for counts as a page of HTML that needs nothing else, made of the command's document."""

from collections.abc import Mapping
from typing import Any

from deid_assets.figures.rendering import plain
from deid_assets.figures.tables import ReportTable
from deid_assets.reports.count_sites_report import CountPage
from deid_assets.reports.report import ReportFigure
from deid_assets.wording import how_many

_LIMITS = (
    "The numbers of repeats and probabilities are about fresh noise in every answer. Noise that belongs to the cell, as "
    "`deid counts protect` and releases draw it, repeats itself, and repetition tells nothing.",
    "An average that is exact with a probability of one half is no secret. Fewer repeats than the mean number are not safe.",
    "The crossover holds where every count is small, so that masking hides the whole sum. It is about the error of the sum, "
    "not about privacy. `deid counts combine` says what masking hides of the counts of sites.",
)
_OF_TABLE = (
    "The needed threshold is for masks that hide no further cells. `deid counts protect --method mask` keeps the threshold "
    "and hides further cells instead.",
    "Where a description is missing because of the true count, readers learn that the count is small: leave it out by the "
    "noisy count. Masks hide further counts, whose descriptions must be left out, too.",
)


_SITES_SHOWN = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 25, 30, 50, 100, 200, 500, 1000)


def tables_of(document: Mapping[str, Any]) -> tuple[ReportTable, ...]:
    """Return the tables of a document as `deid counts plan` writes it."""
    number, width = "number", ("Standard deviation", "name")
    lockouts = list(dict.fromkeys(row["lockout"] for row in document["exact"]))
    chances = {(row["sd"], row["lockout"]): f"{row['chance']:.3f}" for row in document["exact"]}
    repeats = ReportTable(
        "repeats",
        "Repeats until an average is exact",
        "Mean number of answers with fresh noise after which their average is within .5 of the count: for good, or for the "
        "fifth time in a row.",
        (width, ("For good", number), ("Five in a row", number)),
        tuple(
            (
                _width(row),
                *("too many to follow" if row[key] is None else f"{row[key]:.2f}" for key in ("for_good", "in_a_row")),
            )
            for row in document["repeats"]
        ),
    )
    exact = ReportTable(
        "exact",
        "Exact after a lockout",
        "Probability that the average of so many answers with fresh noise is within .5 of the count.",
        (width, *((f"Lockout {often}", number) for often in lockouts)),
        tuple((_width(row), *(chances[row["sd"], often] for often in lockouts)) for row in document["repeats"]),
    )
    noise = ReportTable(
        "noise",
        "The noise of one count",
        "Its standard deviation as it is added, and the probability that it is 0, at most 1 or at most 2 in size.",
        (width, ("As added", number), ("0", number), ("At most 1", number), ("At most 2", number)),
        tuple(
            (_width(row), f"{row['added_sd']:.4f}", *(f"{row[key]:.4f}" for key in ("at_0", "within_1", "within_2")))
            for row in document["noise"]
        ),
    )
    averages = ReportTable(
        "averages",
        "Sites up to which masking serves better",
        f"By the average count of a site, all counts small, for noise of {_width(document)}: by the standard deviation of the "
        "Gaussian, and by that of the noise as it is added.",
        (("Average count", "name"), ("Sites", number), ("Sites, noise as added", number)),
        tuple(
            (f"{plain(row['average'])} a site", plain(row["sites"], 5), plain(row["sites_added"], 5))
            for row in document["averages"]
        ),
    )
    sites = ReportTable(
        "sites",
        "Average count up to which masking serves better",
        "By the number of sites, and the standard deviation of the sum of their noise. The document and sites.csv have every "
        "number of sites.",
        (("Sites", "name"), ("Standard deviation of the sum", number), ("Average count", number)),
        tuple(
            (how_many(row["sites"], "site"), f"{row['sd']:.2f}", f"{row['average']:.3f}")
            for row in document["sites"]
            if row["sites"] in _SITES_SHOWN or row is document["sites"][-1]
        ),
    )
    return (*_of_table(document["table"]), repeats, exact, noise, averages, sites)


def _of_table(found: Mapping[str, Any] | None) -> tuple[ReportTable, ...]:
    if found is None:
        return ()
    number, chance = "number", "Probability after noise"
    cells = ReportTable(
        "cells",
        "Cells whose percentiles and shares must be left out",
        "Small counts; and counts that noise may make small. The probability is that of the noisy count to be below the "
        "threshold, by which a release decides.",
        (("Cell", "name"), ("Small", "name"), (chance, number)),
        tuple(
            (" / ".join(row[part] for part in ("table", "row", "column")), _yes(row["is_small"]), _chance(row["chance"]))
            for row in found["cells_left_out"]
        ),
    )
    lists = ReportTable(
        "lists",
        "Lists: percentiles and cumulative shares",
        "A list with few people altogether has none, neither masked nor noisy. With masks, a list with a small count has none "
        "either: they would give it away.",
        (("List", "name"), ("Few people", "name"), ("Left out with masks", "name"), (chance, number)),
        tuple(
            (row["sum"], _yes(row["is_small"]), _yes(row["left_out_with_masks"]), _chance(row["chance"]))
            for row in found["lists"]
        ),
    )
    return (cells, lists)


def _width(row: Mapping[str, Any]) -> str:
    return f"sd {plain(row['sd'])}"


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def _chance(chance: float) -> str:
    return f"{chance:.3f}"


def render_plan(document: Mapping[str, Any], figures: tuple[ReportFigure, ...]) -> bytes:
    """Return the page, in UTF-8; equal bytes for equal content."""
    has_table = document["table"] is not None
    return CountPage(
        "A plan for counts", tuple(document["summary"].split("\n")), has_table, figures, tables_of(document),
        (*(_OF_TABLE if has_table else ()), *_LIMITS),
    ).rendered()  # fmt: skip
