"""Figures about counts: the noise of a plan, what masking loses, and how well the cells of a protected table are known."""

from collections.abc import Mapping, Sequence

import numpy as np

from deid_assets.errors import how_many
from deid_assets.figures.rendering import (
    BLACK,
    BLUE,
    DARK_ORANGE,
    GREEN,
    GREY,
    ORANGE,
    PALE,
    PURPLE,
    THRESHOLD,
    beside,
    new_figure,
    plain,
    rendered,
    styled,
)
from deid_assets.methods.counts.sites import SelectionBias

_LINES = ((BLUE, "o"), (DARK_ORANGE, "s"), (GREEN, "^"), (PURPLE, "D"))
_SHOWN = 3.5  # standard deviations: beyond lie 5e-4 of the noise


@styled()
def noise_figure(noise: Mapping[float, np.ndarray]) -> bytes:
    """Draw the probability of every value of the noise.

    Parameters
    ----------
    noise
        By standard deviation: as `noise_distribution` returns it.
    """
    from matplotlib.ticker import MaxNLocator

    figure, axes = new_figure(3.9, 3.0)
    for i, (sd, chances) in enumerate(noise.items()):
        color, mark = _LINES[i % len(_LINES)]
        middle = len(chances) // 2
        reach = min(middle, int(np.ceil(_SHOWN * sd)))
        at = np.arange(-reach, reach + 1)
        axes.plot(at, chances[middle + at], f"{mark}-", color=color, markersize=4, linewidth=1, label=f"sd {plain(sd)}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("noise added to a count")
    axes.set_ylabel("probability")
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return rendered(figure)


@styled()
def crossover_figure(averages: Sequence[float], sites: int, sd: float) -> bytes:
    """Draw sums over sites beside the standard deviation of their noise, by the number of sites.

    Parameters
    ----------
    averages
        Average counts of a site: one straight line each.
    sites
        Largest number of sites.
    sd
        Standard deviation of the noise of one count, as it is added.
    """
    figure, axes = new_figure(3.9, 3.4)
    at = np.linspace(0, sites, 200)
    top = 2.2 * sd * np.sqrt(sites)
    axes.fill_between(at, sd * np.sqrt(at), color=PALE, linewidth=0, label="masking serves better")
    axes.plot(at, sd * np.sqrt(at), color=THRESHOLD, linestyle="--", linewidth=1, label="sd of the noise of the sum")
    for i, average in enumerate(averages):
        color, mark = _LINES[i % len(_LINES)]
        end = min(float(sites), 0.97 * top / average)
        axes.plot([0, end], [0, average * end], color=color, linewidth=1.2)
        if (crossing := (sd / average) ** 2) <= end:
            axes.plot(crossing, average * crossing, mark, color=color, markersize=5)
        beside(axes, plain(average), (end, average * end), (3, -2), color=GREY)
    axes.set_xlim(0, 1.08 * sites)
    axes.set_ylim(0, top)
    axes.set_xlabel("sites")
    axes.set_ylabel("persons")
    axes.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return rendered(figure)


@styled()
def selection_bias_figure(bias: SelectionBias) -> bytes:
    """Draw the share of the true total that masking hides, by size of site; the dashed line is that of all sites.

    Raises
    ------
    ValueError
        If there is nothing that could be lost.
    """
    if not np.isfinite(bias.lost_of_all):
        raise ValueError("all counts are 0: masking hides nothing of them")
    places = np.arange(len(bias.lost))
    figure, axes = new_figure(3.7, 1.2 + 0.45 * len(places))
    percent = np.nan_to_num(100 * bias.lost)
    axes.barh(places, percent, color=BLUE, height=0.6)
    for place, value, known in zip(places, percent, np.isfinite(bias.lost), strict=True):
        told = f"{value:.1f} %" if known else "no counts"
        axes.annotate(told, (value, place), xytext=(6, 0), textcoords="offset points", va="center")
    axes.axvline(100 * bias.lost_of_all, color=THRESHOLD, linestyle="--", linewidth=1, label="all sites")
    axes.set_yticks(places, site_group_names(bias))
    axes.invert_yaxis()
    axes.set_xlim(0, 125)
    axes.set_xticks([0, 25, 50, 75, 100])
    axes.set_xlabel("share of the true total that is lost [%]")
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return rendered(figure)


def site_group_names(bias: SelectionBias) -> tuple[str, ...]:
    """What the groups of sites are called, the smallest sites first."""
    return tuple(
        f"up to {size:,.0f} people\n({how_many(int(number), 'site')})"
        for size, number in zip(bias.size_at_most, bias.sites, strict=True)
    )


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
