"""The figure that compares ways to cut the long tail: claims removed, and the smallest bin that is left."""

import pandas as pd

from deid_assets.figures.rendering import BLACK, BLUE, VERMILION, new_figure, plain, rendered, styled, words

_LEAST = 1e-7
"""Shares below it are drawn at the edge: the axis is logarithmic, and nothing removed has no place on it."""


@styled()
def truncation_figure(compared: pd.DataFrame, needed: int) -> bytes:
    """Draw the claims that each way removes; ways that leave a bin too small are drawn apart, as they do not protect.

    For the UI: sizes of bins are exact.

    Parameters
    ----------
    compared
        As `comparison` returns it.
    needed
        Members that a bin must hold.

    Returns
    -------
    bytes
        SVG or PNG.
    """
    figure, axes = new_figure(6.4, 1.0 + 0.5 * len(compared))
    for place, row in enumerate(compared.itertuples()):
        safe = row.smallest_bin >= needed
        removed = 100 * max(row.claims_removed_share, _LEAST)
        axes.plot([100 * _LEAST, removed], [place] * 2, color=BLUE if safe else VERMILION, linewidth=2)
        axes.plot(
            removed, place, "o" if safe else "X", markersize=8, color=BLUE if safe else VERMILION,
            markerfacecolor=BLUE if safe else "white", clip_on=False,
        )  # fmt: skip
        text = (
            f"{plain(100 * row.claims_removed_share, 2)} % of claims, of {plain(100 * row.members_touched_share, 2)} % of "
            f"members; smallest bin {row.smallest_bin}"
        )
        axes.annotate(
            text if safe else f"{text}: too small", (100 * _LEAST, place + 0.14), xytext=(4, -2),
            textcoords="offset points", va="top", fontsize=8, color=BLACK,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlim(100 * _LEAST, 100)
    axes.xaxis.set_major_formatter(lambda value, _: plain(value, 6))
    axes.set_yticks(range(len(compared)), [words(name) for name in compared["method"]])
    axes.set_ylim(len(compared) - 0.4, -0.5)
    axes.tick_params(axis="y", length=0, pad=9)
    axes.set_xlabel(f"claims removed [%]; each bin must contain {needed} members or none")
    return rendered(figure)
