"""Figures of what a release keeps: information after every step, bits of each column, and what can still be predicted."""

from collections.abc import Sequence
from typing import Any

from deid_assets.figures.rendering import BLACK, BLUE, GREY, ORANGE, beside, name_rows, new_figure, plain, rendered, styled

_HATCHED: dict[str, Any] = {"facecolor": "white", "edgecolor": ORANGE, "hatch": "////"}


@styled()
def waterfall_figure(rows: Sequence[tuple[str, float]], axis: str) -> bytes:
    """Draw what is left after each step as a bar, and what the step took as a hatched one at its end.

    Parameters
    ----------
    rows
        (step, share left after it), in order; before the first, all is there.
    axis
        Label of the axis, in per cent.

    Returns
    -------
    bytes
        SVG or PNG.
    """
    figure, axes = new_figure(6.4, 1.0 + 0.34 * len(rows))
    before = 1.0
    for place, (_, left) in enumerate(rows):
        lost = max(before - left, 0.0)
        axes.barh(place, 100 * left, height=0.62, color=BLUE)
        axes.barh(place, 100 * lost, left=100 * left, height=0.62, color="white", edgecolor=ORANGE, hatch="////")
        text = f"{plain(100 * left)} %" + (f", less {plain(100 * lost)}" if lost > 0 else "")
        beside(axes, text, (100 * max(before, left), place), (4, 0), va="center")
        before = left
    name_rows(axes, [name for name, _ in rows], below=0.6, above=0.6)
    axes.set_xlim(0, 128)
    axes.set_xticks([0, 25, 50, 75, 100])
    axes.set_xlabel(axis)
    return rendered(figure)


@styled()
def before_and_after_figure(rows: Sequence[tuple[str, float, float]], axis: str) -> bytes:
    """Draw two numbers of each row as dots that a line joins: a square before, a circle after.

    Parameters
    ----------
    rows
        (name, before, after).
    axis
        Label of the axis.

    Returns
    -------
    bytes
        SVG or PNG.
    """
    figure, axes = new_figure(6.4, 1.1 + 0.3 * len(rows))
    places = range(len(rows))
    for place, (_, before, after) in enumerate(rows):
        axes.plot([after, before], [place, place], color=GREY, linewidth=1, zorder=3)
    axes.plot(
        [before for _, before, _ in rows], places, "s", color=ORANGE, markersize=7, label="delivered", clip_on=False, zorder=4
    )  # fmt: skip
    axes.plot(
        [after for _, _, after in rows], places, "o", color=BLUE, markersize=7, markerfacecolor="white", markeredgewidth=1.6,
        label="released", clip_on=False, zorder=5,
    )  # fmt: skip
    name_rows(axes, [name for name, _, _ in rows], pad=9)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(lambda value, _: plain(value))
    axes.set_xlabel(axis)
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return rendered(figure)


@styled()
def gain_figure(rows: Sequence[tuple[str, Sequence[tuple[float, float, float] | str]]]) -> bytes:
    """Draw two bars with intervals for each target: the share of its gain that is kept, and that of what labels add.

    Parameters
    ----------
    rows
        (target, the two shares); of a share (value, low, high), or in words why there is none.

    Returns
    -------
    bytes
        SVG or PNG.
    """
    from matplotlib.patches import Patch

    kinds: dict[str, dict[str, Any]] = {"of the gain": {"color": BLUE}, "of what labels of claims add": _HATCHED}
    figure, axes = new_figure(4.4, 1.3 + 0.72 * len(rows))
    lowest, highest = 0.0, 100.0
    for place, (_, shares) in enumerate(rows):
        for share, look, shift in zip(shares, kinds.values(), (-0.2, 0.2), strict=True):
            if isinstance(share, str):
                beside(axes, share, (0, place + shift), (4, 0), va="center")
                continue
            value, low, high = (100 * number for number in share)
            axes.barh(place + shift, value, height=0.34, **look)
            axes.errorbar(value, place + shift, xerr=[[value - low], [high - value]], color=BLACK, capsize=3, linewidth=1.2)
            lowest, highest = min(lowest, low), max(highest, high)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.axvline(100, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
    # An interval that goes far beyond none and all is cut: what it says is that nothing is known.
    axes.set_xlim(max(lowest, -50.0) - 4, min(highest, 150.0) + 4)
    name_rows(axes, [name for name, _ in rows])
    axes.set_xlabel("kept by the release [%]")
    handles = [Patch(label=label, **look) for label, look in kinds.items()]
    axes.legend(handles=handles, frameon=False, loc="lower center", bbox_to_anchor=(0.4, 1.0))
    return rendered(figure)


@styled()
def nodes_figure(rows: Sequence[tuple[str, tuple[float, float, float], bool]]) -> bytes:
    """Draw the share of the gain that releases keep at several nodes, with its interval; a filled dot is published.

    Parameters
    ----------
    rows
        (node, (value, low, high), whether it is published).

    Returns
    -------
    bytes
        SVG or PNG.
    """
    figure, axes = new_figure(4.4, 1.0 + 0.4 * len(rows))
    for place, (_, share, published) in enumerate(rows):
        value, low, high = (100 * number for number in share)
        axes.errorbar(
            value, place, xerr=[[value - low], [high - value]], fmt="o", color=BLUE, ecolor=BLACK, capsize=3, linewidth=1.2,
            markersize=7, markerfacecolor=BLUE if published else "white", markeredgewidth=1.6,
        )  # fmt: skip
    axes.axvline(100, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
    name_rows(axes, [name for name, *_ in rows])
    axes.set_xlabel("kept of the gain [%]")
    return rendered(figure)
