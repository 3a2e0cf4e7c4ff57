"""One figure for what was measured under several names: dots on a line for each, such as before and after."""

import math
from collections.abc import Sequence

from deid_assets.figures.rendering import BLUE, GREEN, GREY, ORANGE, VERMILION, name_rows, new_figure, plain, rendered, styled

MARKS = ((ORANGE, "s"), (BLUE, "o"), (VERMILION, "D"), (GREEN, "^"))
"""Colour and shape of each series: shapes differ for those who do not see colours."""


@styled()
def dots_figure(rows: Sequence[tuple[str, Sequence[float | None]]], series: Sequence[str], axis: str) -> bytes:
    """Draw shares as dots, one line for each row.

    Parameters
    ----------
    rows
        (name, one share for each series); None or NaN is not drawn.
    series
        Names of the series; at most four.
    axis
        Label of the axis, in per cent.

    Returns
    -------
    bytes
        SVG or PNG.
    """
    figure, axes = new_figure(6.4, 1.1 + 0.32 * len(rows))
    for place in range(len(rows)):
        axes.axhline(place, color=GREY, linewidth=0.4)
    for number, (name, (color, marker)) in enumerate(zip(series, MARKS, strict=False)):
        drawn = [
            (100 * share, place)
            for place, (_, shares) in enumerate(rows)
            if (share := shares[number]) is not None and math.isfinite(share)
        ]
        axes.plot(
            [share for share, _ in drawn], [place for _, place in drawn], marker, color=color, label=name, markersize=7,
            markerfacecolor="white" if number else color, markeredgewidth=1.6, clip_on=False, zorder=4 + number,
        )  # fmt: skip
    name_rows(axes, [name for name, _ in rows])
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(lambda value, _: plain(value))
    axes.set_xlabel(axis)
    if len(series) > 1:
        axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(series))
    return rendered(figure)
