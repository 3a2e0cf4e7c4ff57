"""Figures of what an average over draws hides: the share at high risk by class, whose flags they are, and by which column."""

from collections.abc import Sequence
from math import isnan
from textwrap import shorten

from deid_assets.figures.rendering import (
    BLUE,
    GREY,
    ORANGE,
    THRESHOLD,
    VERMILION,
    beside,
    name_rows,
    new_figure,
    plain,
    rendered,
    styled,
)

_LONGEST = 56
"""Characters of a name that fit above a bar."""
_WIDTH, _HEIGHT = 4.4, 2.9
"""Inches: narrow, so that the text stays legible on a phone, where a figure is scaled to the screen."""


@styled()
def class_shares_figure(classes: Sequence[tuple[float | None, float | None]], limit: float | None, axis: str) -> bytes:
    """Draw a share of each class with its upper bound, the worst first, and the limit.

    Parameters
    ----------
    classes
        (share, bound) of each class; None is not drawn.
    limit
        The policy's limit of the bounds; None for none. Classes above it are drawn hollow.
    axis
        What the share is, in per cent.

    Returns
    -------
    bytes
        SVG or PNG.
    """
    from matplotlib.ticker import MaxNLocator

    figure, axes = new_figure(_WIDTH, _HEIGHT)
    for place, (share, bound) in enumerate(classes, start=1):
        if share is None:
            continue
        top = share if bound is None else bound
        failed = limit is not None and top > limit
        color = VERMILION if failed else BLUE
        axes.plot([place, place], [100 * share, 100 * top], color=color, linewidth=1.4)
        axes.plot(place, 100 * share, "D" if failed else "o", markersize=4.5, color=color,
                  markerfacecolor="white" if failed else color, zorder=4)  # fmt: skip
    if limit is not None:
        axes.axhline(100 * limit, color=THRESHOLD, linewidth=1.2, linestyle=(0, (4, 2)))
        beside(axes, f"at most {plain(100 * limit)}", (1, 100 * limit), (0, 3), xycoords=("axes fraction", "data"), ha="right")
    axes.set_ylim(bottom=0)
    axes.set_xlim(0.3, len(classes) + 0.7)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(lambda value, _: plain(value))
    axes.set_xlabel("classes, the worst first")
    axes.set_ylabel(axis)
    return rendered(figure)


@styled()
def member_flags_figure(rows: Sequence[tuple[float, float | None]]) -> bytes:
    """Draw the share of all flags that members hold whose own probability is above a number.

    Parameters
    ----------
    rows
        (own probability, share of all flags), with ascending probabilities; None is not drawn.

    Returns
    -------
    bytes
        SVG or PNG.
    """
    figure, axes = new_figure(_WIDTH, _HEIGHT)
    drawn = [(100 * own, 100 * share) for own, share in rows if share is not None]
    axes.plot([own for own, _ in drawn], [share for _, share in drawn], "o-", color=BLUE, linewidth=1.6, markersize=4.5)
    for own, share in drawn:
        beside(axes, plain(share, 2), (own, share), (0, 6), ha="center")
    axes.axvline(50, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
    axes.set_ylim(0, 108)
    axes.set_xlim(0, 100)
    axes.set_xlabel("own probability of a member is above [%]")
    axes.set_ylabel("share of all draws at high risk [%]")
    return rendered(figure)


@styled()
def value_shares_figure(rows: Sequence[tuple[str, float, float]], share: float) -> bytes:
    """Draw the share at high risk among draws about people who have each value.

    Parameters
    ----------
    rows
        (column and value, share, part of all draws at high risk or NaN).
    share
        The share among all draws, as a line.

    Returns
    -------
    bytes
        SVG or PNG.
    """
    # Values have long names, which stand above their bars.
    figure, axes = new_figure(_WIDTH, 0.9 + 0.4 * len(rows))
    longest = max(share, *(own for _, own, _ in rows))
    for place, (name, own, part) in enumerate(rows):
        axes.barh(place, 100 * own, height=0.4, color=BLUE)
        beside(axes, shorten(name, _LONGEST, placeholder=" …"), (0, place - 0.2), (2, 2))
        of_all = "" if isnan(part) else f"; {100 * part:.0f} % of all"
        beside(axes, f"{plain(100 * own, 2)} %{of_all}", (100 * own, place), (4, 0), va="center")
    axes.axvline(100 * share, color=GREY, linewidth=1.2, linestyle=(0, (4, 2)), zorder=0)
    axes.set_yticks([])
    axes.set_ylim(len(rows) - 0.6, -0.8)
    axes.set_xlim(0, 150 * longest or 1)
    axes.set_xlabel(f"draws at high risk [%]; of all draws: {plain(100 * share, 2)}")
    return rendered(figure)


@styled()
def column_costs_figure(columns: Sequence[tuple[str, float]], tables: Sequence[tuple[str, float]], share: float) -> bytes:
    """Draw the share at high risk that is left without each column, and below, hatched, without each table.

    Parameters
    ----------
    columns, tables
        (name, share without it).
    share
        The share with all of them, as a line.

    Returns
    -------
    bytes
        SVG or PNG.
    """
    rows = [*columns, *tables]
    figure, axes = new_figure(_WIDTH, 0.9 + 0.26 * len(rows))
    longest = max(share, *(left for _, left in rows))
    for place, (_, left) in enumerate(rows):
        if place >= len(columns):
            axes.barh(place, 100 * left, height=0.62, color="white", edgecolor=ORANGE, hatch="////")
        else:
            axes.barh(place, 100 * left, height=0.62, color=BLUE)
        beside(axes, plain(100 * left, 2), (100 * left, place), (4, 0), va="center")
    axes.axvline(100 * share, color=GREY, linewidth=1.2, linestyle=(0, (4, 2)))
    name_rows(axes, [name for name, _ in rows])
    axes.set_xlim(0, 125 * longest or 1)
    axes.set_xlabel(f"draws at high risk without it [%]; with all: {plain(100 * share, 2)}")
    return rendered(figure)
