"""Pages about counts, each HTML that needs nothing else: of a plan, of several sites, and of protected tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deid_assets.errors import cell_in_words, how_many
from deid_assets.figures.count_figures import tiles_figure
from deid_assets.figures.rendering import ReportTable, plain
from deid_assets.methods.counts.dimensions import CrossTable
from deid_assets.methods.counts.tables import HIDDEN, SMALL
from deid_assets.reports.report import ReportFigure, environment

_LIMITS_OF_SITES = (
    "The uncertainty covers the noise only, which must be independent between sites.",
    "Noise serves better where the small counts alone, which masking hides, are more than the standard deviation; masking "
    "does where all that it may have to hide is not. Where all counts are small, that is Figure 2 of Klann et al. (2018). It "
    "is about the error of the total, not about privacy.",
    "Of noisy counts, what masking hides is known within bounds of 95 % each.",
    "The same people at several sites are counted several times.",
)


def tables_of_sites(document: Mapping[str, Any]) -> tuple[ReportTable, ...]:
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
                cell_in_words(row),
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
        () if figure is None else (figure,), tables_of_sites(document), _LIMITS_OF_SITES,
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


_CELLS_AT_MOST = 600
_NARROW, _WIDE = 0.05, 0.2
_LIMITS_OF_TABLE = (
    "What can be computed follows from the sums that dimensions, totals and hierarchies state. Whoever knows another total, or "
    "another table of the same people, knows more: protect all tables of the same people together.",
    "Counts about large groups disclose too, if all or none of a group have something in common.",
)
_OF_MASKS = (
    "Exact counts of two tables can be subtracted. Do not publish a changed table of the same people in this way again.",
)


@dataclass(frozen=True, eq=False)
class ProtectedTable:
    """A table as it is published.

    Attributes
    ----------
    name
        Of its file.
    cross
        Dimensions and cells.
    shown
        The count, T or H of every cell.
    sd
        Standard deviation of the noise in every cell; None where counts are masked.
    """

    name: str
    cross: CrossTable
    shown: tuple[int | str, ...]
    sd: tuple[float, ...] | None


def render_table(document: Mapping[str, Any], tables: Sequence[ProtectedTable], marks: tuple[str, str]) -> bytes:
    """Return the page, in UTF-8; equal bytes for equal content.

    Parameters
    ----------
    document
        What `deid counts table` says.
    tables
        What is published.
    marks
        What small and other hidden counts are written as.
    """
    page = environment().get_template("count_table.html.j2")
    limits = _LIMITS_OF_TABLE if document["method"] == "noise" else (*_LIMITS_OF_TABLE, *_OF_MASKS)
    parts = [(one.name, _figure(one, marks), _cells(one, marks)) for one in tables]
    return page.render(document=document, parts=parts, marks=marks, limits=limits).encode("utf-8", errors="replace")


def _figure(table: ProtectedTable, marks: tuple[str, str]) -> ReportFigure:
    small, hidden = (mark or "blank" for mark in marks)
    if table.sd is None:
        kinds = np.array([{SMALL: 3, HIDDEN: 2}.get(str(one), 1) for one in table.shown])
        meanings: tuple[tuple[str, str], ...] = (
            ("", "shown"),
            ("H", f"hidden, any number ({hidden})"),
            ("T", f"small ({small})"),
        )
        caption = "Which counts are shown. Those that are hidden without being small protect the small ones."
    else:
        counts = np.array([0 if isinstance(one, str) else one for one in table.shown], float)
        width = np.array(table.sd) / np.maximum(np.abs(counts), 1)
        kinds = 1 + (width > _NARROW) + (width > _WIDE)
        texts = f"up to {_NARROW:.0%} of the count", f"up to {_WIDE:.0%}", "more"
        meanings = tuple(zip(("", "+", "×"), (f"noise: {text}" for text in texts), strict=True))
        caption = "How wide the noise is, as its standard deviation over the noisy count."
    rows, columns, grid = _grid(table, kinds.tolist())
    numbers = [f"{text}: {int((kinds == i).sum())}" for i, (_, text) in enumerate(meanings, 1)]
    image = tiles_figure(np.array(grid), (rows, columns), meanings)
    return ReportFigure(f"Cells of {table.name}", caption, image, alt=f"Tiles; {'; '.join(numbers)} cells")


def _cells(table: ProtectedTable, marks: tuple[str, str]) -> ReportTable | None:
    """The table itself, if it is small enough to be read."""
    if len(table.shown) > _CELLS_AT_MOST:
        return None
    texts = {SMALL: marks[0] or "(blank)", HIDDEN: marks[1] or "(blank)"}
    rows, columns, grid = _grid(table, [texts[one] if isinstance(one, str) else f"{one:,}" for one in table.shown], "")
    names = [one.name for one in table.cross.dimensions]
    heading = " / ".join(names[:-1]) or "Table"
    return ReportTable(
        f"cells-{table.name}",
        table.name,
        f"Columns: {names[-1]}.",
        ((heading, "name"), *((column, "number") for column in columns)),
        tuple((name, *row) for name, row in zip(rows, grid, strict=True)),
    )


def _grid(table: ProtectedTable, values: Sequence[Any], missing: Any = 0) -> tuple[list[str], list[str], list[list[Any]]]:
    """Names of rows and columns, and a value per cell: the last dimension is in the columns."""
    by_key = dict(zip(table.cross.keys, values, strict=True))
    rows, columns = dict.fromkeys(key[:-1] for key in by_key), dict.fromkeys(key[-1] for key in by_key)
    grid = [[by_key.get((*row, column), missing) for column in columns] for row in rows]
    return [" / ".join(row) or "all" for row in rows], list(columns), grid


_LIMITS_OF_PLAN = (
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


def tables_of_plan(document: Mapping[str, Any]) -> tuple[ReportTable, ...]:
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
        tuple((cell_in_words(row), _yes(row["is_small"]), _chance(row["chance"])) for row in found["cells_left_out"]),
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
        "A plan for counts", tuple(document["summary"].split("\n")), has_table, figures, tables_of_plan(document),
        (*(_OF_TABLE if has_table else ()), *_LIMITS_OF_PLAN),
    ).rendered()  # fmt: skip
