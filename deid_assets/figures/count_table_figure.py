"""The figure of a protected table: one tile per cell, which says how well its count is known."""

from collections.abc import Sequence

import numpy as np

from deid_assets.figures.rendering import BLACK, BLUE, ORANGE, PALE, new_figure, rendered, styled

ROWS_AT_MOST = 200
_NAMED_AT_MOST = 40
_LETTERED_AT_MOST = 16
_WIDTH = 3.9
_NAME_LENGTH = 18


@styled()
def tiles_figure(kinds: np.ndarray, names: tuple[Sequence[str], Sequence[str]], meanings: Sequence[tuple[str, str]]) -> bytes:
    """Draw the cells of a table as tiles; light ones are shown, dark ones are not.

    Parameters
    ----------
    kinds
        int array (rows x columns): 0 where there is no cell, else the position in `meanings` from 1. At most the first 200 rows
        are drawn.
    names
        Of rows and columns. They are left out where they would overlap.
    meanings
        Letter and text of each kind, at most three, from light to dark. Letters are drawn where there is room.

    Raises
    ------
    ValueError
        If there is no cell.
    """
    if not kinds.size:
        raise ValueError("a table without cells has no figure")
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    drawn = kinds[:ROWS_AT_MOST]
    rows, columns = drawn.shape
    height = min(max(0.16 * rows, 0.03 * rows + 1.5), 7.0)
    figure, axes = new_figure(_WIDTH, height + 1.2)
    colors = ["white", PALE, ORANGE, BLUE]
    axes.imshow(drawn, cmap=ListedColormap(colors), vmin=0, vmax=3, aspect="auto", interpolation="nearest")
    for axis, labels, turn in ((axes.yaxis, names[0], 0), (axes.xaxis, names[1], 90)):
        places = drawn.shape[0 if axis is axes.yaxis else 1]
        if places > _NAMED_AT_MOST:
            axis.set_ticks([])
            continue
        short = [one if len(one) <= _NAME_LENGTH else f"{one[: _NAME_LENGTH - 1]}…" for one in labels[:places]]
        axis.set_ticks(range(places), labels=short, rotation=turn, fontsize=7)
        axis.set_ticks(np.arange(0.5, places - 1), minor=True)
        axis.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    if rows > _NAMED_AT_MOST:
        axes.set_ylabel(f"{rows} rows" if rows == len(kinds) else f"the first {rows} of {len(kinds)} rows")
    if columns > _NAMED_AT_MOST:
        axes.set_xlabel(f"{columns} columns")
    if columns <= _LETTERED_AT_MOST and rows <= 2 * _LETTERED_AT_MOST:
        for row, column in zip(*np.nonzero(drawn > 1), strict=True):
            kind = drawn[row, column]
            ink = "white" if kind == 3 else BLACK
            axes.text(column, row, meanings[kind - 1][0], ha="center", va="center", fontsize=7, color=ink)
    patches = [Patch(facecolor=color, label=text) for color, (_, text) in zip(colors[1:], meanings, strict=False)]
    axes.legend(handles=patches, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=1, fontsize=8)
    return rendered(figure)
