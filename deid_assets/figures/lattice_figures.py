"""Figures of the lattice: every node by what was decided of it, nodes by height, and the choice between loss and risk.

All show a decision by shape as well as by colour, and in the same way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deid_assets.figures import rendering
from deid_assets.methods.lattice.predictive_tagging import lower_neighbors, node_text, parse_node

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_GAP = 0.6
"""Cells between two panels."""
_STAR_FROM = 10.0
"""Points that the chosen node's star is drawn for, at least: it must be found among thousands."""
_ASIDE = 0.18
"""How far nodes stand beside their height, by their decision."""
_CELL = 0.25
"""Side of a cell in inches; less where there are very many."""
_NUMBERED_FROM = 7.0
"""Points that a cell, or a panel, must have for its level's number to fit."""

_sample = partial(rendering.sample, linestyle="none")


@dataclass(frozen=True)
class _Mark:
    """How a decision looks: outline within the unit square around 0, words of the legend, colours, and a marker."""

    decision: str
    label: str
    outline: tuple[tuple[float, float], ...]
    face: str
    edge: str
    marker: str
    size: float


_SQUARE = ((-0.34, -0.34), (0.34, -0.34), (0.34, 0.34), (-0.34, 0.34))
_TRIANGLE = ((-0.34, -0.3), (0.34, -0.3), (0.0, 0.36))
_BAR = ((-0.3, -0.07), (0.3, -0.07), (0.3, 0.07), (-0.3, 0.07))
_DOT = ((-0.12, -0.12), (0.12, -0.12), (0.12, 0.12), (-0.12, 0.12))
_FRAME = ((-0.47, -0.47), (0.47, -0.47), (0.47, 0.47), (-0.47, 0.47))
_STAR = tuple(
    (float(radius * np.sin(angle)), float(radius * np.cos(angle)))
    for radius, angle in zip([0.62, 0.25] * 5, np.arange(10) * np.pi / 5, strict=True)
)
_MARKS = (
    _Mark("candidate", "candidate", _SQUARE, rendering.BLUE, rendering.BLUE, "s", 4.6),
    _Mark("not_candidate", "not a candidate", _BAR, rendering.VERMILION, rendering.VERMILION, "_", 5),
    _Mark("undecided", "undecided", _TRIANGLE, rendering.YELLOW, rendering.BLACK, "^", 7),
    _Mark("open", "not needed", _DOT, rendering.PALE, rendering.PALE, ".", 4),
)


@rendering.styled()
def lattice_figure(
    nodes: pd.DataFrame, threshold: float, dimensions: Sequence[str], without_suppressed: float | None = None
) -> bytes:
    """Draw every node of the lattice as a cell: small multiples, marked by decision.

    Dimensions alternate between rows and columns, the first outermost: of four, the first numbers the rows of panels,
    the second the columns of panels, the third and fourth the rows and columns within. Loss grows to the lower right.

    Parameters
    ----------
    nodes
        One row per node: `decision` ('candidate', 'not_candidate', 'undecided', 'open'), `reached` ('measured', ...),
        `chosen` (bool), and the level (int) of each dimension under its name.
    threshold
        MaxSup: the share of members at high risk that a candidate may have.
    dimensions
        Names of the dimensions, outermost first.
    without_suppressed
        Share at high risk of the chosen node once flagged members are left out; None where nobody was.

    Returns
    -------
    bytes
        SVG or PNG.
    """
    levels = {name: nodes[name].to_numpy(dtype=np.int64) for name in dimensions}
    sizes = {name: int(values.max()) + 1 for name, values in levels.items()}
    row_names, column_names = list(dimensions[::2]), list(dimensions[1::2])
    y, rows = _positions(row_names, levels, sizes, len(nodes))
    x, columns = _positions(column_names, levels, sizes, len(nodes))

    figure, axes, cell = _cells_figure(columns, rows)
    decisions, chosen = nodes["decision"].to_numpy(), nodes["chosen"].to_numpy(dtype=bool)
    measured = nodes["reached"].to_numpy() == "measured"
    _stamp(axes, x[measured], y[measured], _FRAME, "none", rendering.GREY, cell)
    for mark in _MARKS:
        of_mark = (decisions == mark.decision) & ~chosen
        _stamp(axes, x[of_mark], y[of_mark], mark.outline, mark.face, mark.edge, cell)
    _stamp(axes, x[chosen], y[chosen], _STAR, rendering.BLACK, "white", max(cell, _STAR_FROM))
    _number(axes, "y", row_names, sizes, rows, cell)
    _number(axes, "x", column_names, sizes, columns, cell)
    _legend(figure, decisions, chosen.any(), measured.any())
    candidates = int(np.count_nonzero(decisions == "candidate"))
    if without_suppressed is None:
        title = f"{candidates:,} of {len(nodes):,} nodes are candidates: at most {rendering.percent(threshold)} at high risk"
    else:
        title = (
            f"With the whole sample, {candidates:,} of {len(nodes):,} nodes are candidates "
            f"(at most {rendering.percent(threshold)} at\n"
            f"high risk). Without the suppressed members, the chosen node is one, with {rendering.percent(without_suppressed)}"
        )
    figure.text(0.5, 1 - 0.06 / figure.get_figheight(), title, ha="center", va="top", fontsize=10)
    return rendering.rendered(figure)


@rendering.styled()
def heights_figure(nodes: pd.DataFrame, every: int, loss_label: str = "information loss") -> bytes:
    """Draw the nodes that a search looked at, of a lattice with too many dimensions for cells: loss against height.

    Nodes of a height stand in two columns, those that failed on the left and candidates on the right. Lines lead from
    the chosen node to those directly below it. The dashed line is its loss: a candidate below would be a better one.

    Parameters
    ----------
    nodes
        One row per node: `node` ('1,0,2'), `height`, `loss`, `decision`, `chosen`.
    every
        Nodes of the whole lattice.
    loss_label
        Name of the loss, with its unit if it has one.

    Returns
    -------
    bytes
        SVG or PNG.
    """
    height, y = nodes["height"].to_numpy(dtype=float), nodes["loss"].to_numpy(dtype=float)
    decisions, chosen = nodes["decision"].to_numpy(), nodes["chosen"].to_numpy(dtype=bool)
    x = height + np.where(decisions == "candidate", _ASIDE, -_ASIDE)
    x[chosen] = height[chosen]

    figure, axes = rendering.new_figure(6.4, 4.2)
    _plot_nodes(axes, x, y, decisions, chosen)
    if chosen.any():
        below = _directly_below(nodes["node"].tolist(), nodes["node"][chosen].iloc[0])
        star = (x[chosen][0], y[chosen][0])
        lines = [(star, lower) for lower in zip(x[below], y[below], strict=True)]
        _add_lines(axes, lines, colors=rendering.BLACK, linewidths=0.8, zorder=4)
        axes.axhline(y[chosen][0], color=rendering.THRESHOLD, linewidth=1.2, linestyle=(0, (5, 2)), zorder=1)
    axes.locator_params("x", integer=True)
    axes.yaxis.set_major_formatter(lambda value, _: rendering.plain(value))
    axes.set_xlabel("height: levels above the finest node")
    axes.set_ylabel(loss_label)
    candidates = int(np.count_nonzero(decisions == "candidate"))
    axes.set_title(f"{len(nodes):,} of {every:,} nodes evaluated, {candidates:,} are candidates")
    _legend(figure, decisions, chosen.any(), False, outside=True)
    return rendering.rendered(figure)


@rendering.styled()
def frontier_figure(
    nodes: pd.DataFrame,
    threshold: float,
    risk_label: str = "members at high risk",
    loss_label: str = "information loss",
    without_suppressed: float | None = None,
) -> bytes:
    """Draw what less risk costs: the share at high risk against the loss of every node whose share was measured.

    The share is on a logarithmic axis with a band for zero below it. The stepped line is the least share that a loss
    buys, and so the least loss for each MaxSup, as far as the search measured; whiskers are the intervals. A chosen node
    that was not measured stands at the upper bound of its share.

    Parameters
    ----------
    nodes
        One row per node: `loss`, `share`, `lower`, `upper`, `decision`, `reached`, `chosen`.
    threshold
        MaxSup.
    risk_label, loss_label
        What the share is of, and the name of the loss, with its unit if it has one.
    without_suppressed
        Share of the chosen node once flagged members are left out, drawn as the star with an arrow from the share before,
        which then is a hollow one; None where nobody was left out.

    Returns
    -------
    bytes
        SVG or PNG.
    """
    nodes = nodes.assign(share=nodes["share"].where(~nodes["chosen"].astype(bool), nodes["share"].fillna(nodes["upper"])))
    nodes = nodes[nodes["share"].notna()]
    loss, share, lower, upper = (nodes[name].to_numpy(dtype=float) for name in ("loss", "share", "lower", "upper"))
    decisions, chosen = nodes["decision"].to_numpy(), nodes["chosen"].to_numpy(dtype=bool)
    measured = nodes["reached"].to_numpy() == "measured"
    positive = np.append(share, [threshold, without_suppressed or threshold])
    smallest = 10 ** np.floor(np.log10(positive[positive > 0].min(initial=1)))
    zero = smallest / 4  # where zeros are drawn: on the logarithmic axis there is no place for them

    figure, axes = rendering.new_figure(4.2, 4.4)
    axes.set_yscale("log")
    ends = [np.column_stack([loss, np.maximum(bound, zero)])[measured] for bound in (lower, upper)]
    _add_lines(axes, list(np.stack(ends, axis=1)), colors=rendering.PALE, linewidths=1.0, zorder=1)
    shown = np.maximum(share, zero)
    order = np.lexsort((shown, loss))
    axes.step(loss[order], np.minimum.accumulate(shown[order]), where="post", color=rendering.GREY, linewidth=1, zorder=3.5)
    suppressed = without_suppressed is not None and bool(chosen.any())
    _plot_nodes(axes, loss, shown, decisions, chosen, hollow=suppressed)
    if suppressed:
        at, before, after = loss[chosen][0], shown[chosen][0], max(without_suppressed, zero)
        arrow = {"arrowstyle": "-|>", "color": rendering.BLACK, "linewidth": 1.2}
        axes.annotate("", (at, after), (at, before), zorder=4.5, arrowprops=arrow)
        axes.plot(at, after, "*", markersize=15, color=rendering.BLACK, markeredgecolor="white", zorder=5)
    limit = max(threshold, zero)
    axes.axhline(limit, color=rendering.THRESHOLD, linewidth=1.6, linestyle=(0, (5, 2)), zorder=2)
    text, at_the_edge = f"at most {rendering.percent(threshold)}", ("axes fraction", "data")
    rendering.beside(axes, text, (1, limit), (-2, 3), xycoords=at_the_edge, ha="right", va="bottom")
    _share_axis(axes, smallest, zero, bool((positive <= 0).any()), float(max(upper.max(), limit)))
    axes.set_xlabel(loss_label)
    axes.set_ylabel(f"{risk_label} [%]")
    _legend(figure, decisions, chosen.any(), False, outside=True, frontier=True, suppressed=suppressed)
    return rendering.rendered(figure)


def _plot_nodes(
    axes: "Axes", x: np.ndarray, y: np.ndarray, decisions: np.ndarray, chosen: NDArray[np.bool_], hollow: bool = False
) -> None:
    """Nodes as marks by decision, undecided ones above the others, the chosen one as a star above all."""
    for mark in _MARKS:
        of_mark = (decisions == mark.decision) & ~chosen
        axes.plot(
            x[of_mark], y[of_mark], mark.marker, markersize=mark.size, markerfacecolor=mark.face, linestyle="none",
            markeredgecolor=mark.edge if mark.marker != "s" else "white",
            markeredgewidth=1.4 if mark.marker == "_" else 0.4, zorder=4 if mark.marker == "^" else 3,
        )  # fmt: skip
    face, edge = ("white", rendering.BLACK) if hollow else (rendering.BLACK, "white")
    axes.plot(x[chosen], y[chosen], "*", markersize=15, color=face, markeredgecolor=edge, zorder=5)


def _positions(
    names: Sequence[str], levels: dict[str, NDArray[np.int64]], sizes: dict[str, int], nodes: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where nodes lie along an axis, (nodes,), and every place along it, (cells,): levels nested, panels apart."""
    at, cells, extent, gap = np.zeros(nodes), np.zeros(1), 1.0, 0.0
    for name in reversed(names):
        stride = extent + gap
        at = at + levels[name] * stride
        cells = (np.arange(sizes[name])[:, None] * stride + cells).ravel()
        extent = cells[-1] + 1
        gap = gap + _GAP
    return at, cells


def _cells_figure(columns: NDArray[np.float64], rows: NDArray[np.float64]) -> "tuple[Figure, Axes, float]":
    """A figure whose axes hold square cells at these places, rows downwards, and the side of a cell in points."""
    from matplotlib.figure import Figure

    across, down = columns[-1] + 1, rows[-1] + 1
    cell = min(_CELL, 8.5 / max(across, down))
    left, right, bottom, top = 0.6, 0.6, 0.75, 0.85
    width, height = max(across * cell + left + right, 5.4), down * cell + bottom + top
    figure = Figure(figsize=(width, height), facecolor="white")
    place = ((width - across * cell) / 2 / width, bottom / height, across * cell / width, down * cell / height)
    axes = figure.add_axes(place, frameon=False)
    axes.set_xlim(-0.5, columns[-1] + 0.5)
    axes.set_ylim(rows[-1] + 0.5, -0.5)
    return figure, axes, 72 * cell


def _stamp(
    axes: "Axes", x: np.ndarray, y: np.ndarray, outline: Sequence[tuple[float, float]], face: str, edge: str, cell: float
) -> None:
    """Draw one outline, in units of cells, at many places; as a marker, which an SVG defines once."""
    from matplotlib.path import Path as Outline

    if len(x):
        largest = max(abs(number) for point in outline for number in point)
        axes.plot(
            x, y, linestyle="none", marker=Outline([*outline, outline[0]], closed=True), markersize=2 * largest * cell,
            markerfacecolor=face, markeredgecolor=edge, markeredgewidth=0.6, clip_on=False,
        )  # fmt: skip


def _number(
    axes: "Axes", axis: str, names: Sequence[str], sizes: dict[str, int], cells: NDArray[np.float64], cell: float
) -> None:
    """Number the levels along an axis: cells by the innermost dimension, panels by the next, the rest in the label."""
    of_axis = axes.xaxis if axis == "x" else axes.yaxis
    of_axis.set_tick_params(length=0, pad=1)
    if not names:
        of_axis.set_ticks([])
        return
    inner = sizes[names[-1]]
    _number_places(of_axis, cells, inner, cell, fontsize=7)
    of_axis.set_label_text(f"level of {rendering.words(names[-1])}")
    if len(names) > 1:
        panels = cells.reshape(-1, inner).mean(axis=1)
        other = axes.secondary_xaxis("top") if axis == "x" else axes.secondary_yaxis("right")
        other.spines[:].set_visible(False)
        other_axis = other.xaxis if axis == "x" else other.yaxis
        other_axis.set_tick_params(length=0, pad=1)
        _number_places(other_axis, panels, sizes[names[-2]], cell * inner, fontsize=9, fontweight="bold")
        other_axis.set_label_text(f"level of {' > '.join(rendering.words(name) for name in names[:-1])}", fontweight="bold")


def _number_places(of_axis: "Axis", places: NDArray[np.float64], levels: int, points: float, **look: Any) -> None:
    """Number the level at each of these places, from 0 again after so many levels; none if a number does not fit into it."""
    shown = places if points >= _NUMBERED_FROM else places[:0]
    of_axis.set_ticks(shown, [str(place % levels) for place in range(len(shown))], **look)


def _share_axis(axes: "Axes", smallest: float, zero: float, with_zero: bool, largest: float) -> None:
    """Ticks in per cent at powers of ten, and one for zero where there are zeros."""
    top = 10 ** np.ceil(np.log10(largest))
    powers = 10.0 ** np.arange(round(np.log10(smallest)), round(np.log10(top)) + 1)
    ticks = [*([zero] if with_zero else []), *powers]
    axes.set_yticks(ticks, [*(["0"] if with_zero else []), *(rendering.plain(100 * power) for power in powers)])
    axes.minorticks_off()
    axes.set_ylim((zero / 1.6) if with_zero else smallest, min(top, largest * 2))
    if with_zero:
        axes.axhline(smallest / 2, color=rendering.PALE, linewidth=0.8, zorder=0)


def _directly_below(nodes: Sequence[str], node: str) -> NDArray[np.bool_]:
    """(nodes,) bool: which of them are one level finer than a node in one dimension."""
    below = {node_text(lower) for lower in lower_neighbors(parse_node(node))}
    return np.array([name in below for name in nodes])


def _legend(
    figure: "Figure",
    decisions: np.ndarray,
    chosen: bool,
    framed: bool,
    outside: bool = False,
    frontier: bool = False,
    suppressed: bool = False,
) -> None:
    """What the marks mean, of those that occur; as many in a row as fit."""
    handles = [
        _sample(
            mark.label, marker=mark.marker, markersize=7, markerfacecolor=mark.face, markeredgecolor=mark.edge,
            markeredgewidth=2 if mark.marker == "_" else 0.5,
        )
        for mark in _MARKS
        if (decisions == mark.decision).any()
    ]  # fmt: skip
    if framed:
        handles.append(_sample("measured", marker="s", markersize=9, markerfacecolor="none", markeredgecolor=rendering.GREY))
    if suppressed:
        handles.append(
            _sample("chosen, all members", marker="*", markersize=12, color="white", markeredgecolor=rendering.BLACK)
        )
    if chosen:
        label = "chosen, without suppressed members" if suppressed else "chosen"
        handles.append(_sample(label, marker="*", markersize=12, color=rendering.BLACK, markeredgecolor="white"))
    if frontier:
        handles.append(_sample("lowest share", linestyle="-", color=rendering.GREY, linewidth=1))
    place: Literal["outside lower center", "lower center"] = "outside lower center" if outside else "lower center"
    in_a_row = min(len(handles), 2) if frontier else len(handles)
    figure.legend(handles=handles, loc=place, ncols=in_a_row, frameon=False, fontsize=8, handletextpad=0.3)


def _add_lines(axes: "Axes", lines: Sequence[Any], **look: Any) -> None:
    """Draw many lines as one collection."""
    from matplotlib.collections import LineCollection

    axes.add_collection(LineCollection(lines, **look))
