"""Protected tables of counts: a page of HTML that needs nothing else, made of what is published."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deid_assets.figures.count_table_figure import tiles_figure
from deid_assets.figures.tables import ReportTable
from deid_assets.methods.counts.dimensions import CrossTable
from deid_assets.methods.counts.tables import HIDDEN, SMALL
from deid_assets.reports.report import ReportFigure, environment

_CELLS_AT_MOST = 600
_NARROW, _WIDE = 0.05, 0.2
_LIMITS = (
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
    limits = _LIMITS if document["method"] == "noise" else (*_LIMITS, *_OF_MASKS)
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
