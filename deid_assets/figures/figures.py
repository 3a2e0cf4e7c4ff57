"""The figures of the Dagster UI and of the report.

Every function returns SVG or PNG (see `rendering`) and draws what it is given. The UI may show exact aggregates; a
figure that is published must be given protected counts (methods#protected-counts), because coordinates in a vector drawing
can be measured. Two safeguards hold in any case: nothing is drawn of fewer than 11 members, and shares of members are
drawn at two significant digits.
"""

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from deid_assets.figures.rendering import (
    BLACK,
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
    words,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMALLEST = 11
"""Members that a mark must stand for, at least (Klann et al. 2018; methods#protected-counts)."""


@styled()
def claims_per_member_figure(counts_before: ArrayLike, counts_after: ArrayLike, cap: float | None = None) -> bytes:
    """Draw the long tail and its cut: the share of members with at least so many claims, before and after.

    A survival curve on two logarithmic axes needs no bins, so that a merged tail looks no higher than it is (El Emam & Arbuckle
    2013, Figure 5-1 shows the same data as a histogram).

    Parameters
    ----------
    counts_before, counts_after
        (values, 2): number of claims, and members with so many. Values below 1 are not drawn, but belong to the whole.
    cap
        Claims that are kept at most, marked by a line; None if there is no single one.

    Returns
    -------
    bytes
        SVG or PNG.
    """
    figure, axes = new_figure(6.0, 3.8)
    curves = [_survival(counts) for counts in (counts_before, counts_after)]
    # Where the cut changes nothing the curves coincide: the earlier one is the wider, and lies below.
    styles = (("before the cut", ORANGE, 4.5, "-", "o"), ("after", BLUE, 1.6, (0, (3, 1)), "s"))
    for (claims, share), (label, color, line_width, line, marker) in zip(curves, styles, strict=True):
        axes.plot(
            claims, 100 * share, drawstyle="steps-pre", color=color, linewidth=line_width, linestyle=line, label=label,
            marker=marker, markersize=line_width + 3, markevery=[-1] if len(claims) else None,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    if cap is not None:
        axes.axvline(cap, color=GREY, linewidth=1, linestyle=":")
        beside(axes, f"cut at {plain(cap, 6)}", (cap, 1), (3, -2), xycoords=("data", "axes fraction"), va="top")
    drawn = np.concatenate([share for _, share in curves])
    if not drawn.size:
        axes.text(0.5, 0.5, f"fewer than {SMALLEST} members", transform=axes.transAxes, ha="center")
    lowest = 10 ** math.floor(math.log10(100 * drawn.min())) if drawn.size else 1.0
    furthest = max((claims[-1] for claims, _ in curves if len(claims)), default=10.0)
    axes.set_ylim(lowest, 130)
    axes.set_xlim(0.9, max(furthest, cap or 1, 10) * 1.3)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: plain(value, 6))
        axis.set_minor_formatter(lambda value, _: "")
    axes.set_xlabel("claims of a member")
    axes.set_ylabel("members with at least this many [%]")
    axes.legend(frameon=False, loc="lower left")
    return rendered(figure)


@styled()
def class_size_figure(edges_and_members: Sequence[tuple[int, int]], k: int) -> bytes:
    """Draw how large the demographic classes are that released members are in.

    Parameters
    ----------
    edges_and_members
        (lower edge, released members whose class has a population size from there to the next edge), ascending.
    k
        Class size that is safe; classes below it are at high risk and drawn apart. A bar that spans k is at risk.

    Returns
    -------
    bytes
        SVG or PNG.
    """
    edges = [int(edge) for edge, _ in edges_and_members]
    members = np.array([max(0, count) for _, count in edges_and_members], dtype=float)
    whole = members.sum()
    uppers: list[float] = [*(edge - 1 for edge in edges[1:]), math.inf]
    bars = _merged(list(zip(edges, uppers, members.tolist(), strict=True)), k)

    figure, axes = new_figure(6.0, 1.2 + 0.34 * max(len(bars), 2))
    safe_from = sum(low < k for low, _, _ in bars)
    for place, (_, _, count) in enumerate(bars):
        at_risk = place < safe_from
        shown = 100 * _coarse(count / whole) if count >= SMALLEST else 0.0
        axes.barh(
            place, shown, height=0.7, color="white" if at_risk else BLUE, edgecolor=VERMILION if at_risk else BLUE,
            hatch="////" if at_risk else None,
        )  # fmt: skip
        few = "none" if count == 0 else f"fewer than {SMALLEST} members"
        text = f"{plain(shown, 2)} %" if count >= SMALLEST else few
        beside(axes, text, (shown, place), (4, 0), va="center")
    axes.axhline(safe_from - 0.5, color=BLACK, linewidth=1.2, linestyle=(0, (5, 2)))
    beside(
        axes, f"at high risk below k = {k}", (1, safe_from - 0.5), (0, 3), xycoords=("axes fraction", "data"),
        ha="right", fontsize=9, fontweight="bold",
    )  # fmt: skip
    name_rows(axes, [_range_text(low, high) for low, high, _ in bars], below=0.6, above=0.9)
    axes.set_xlim(0, axes.get_xlim()[1] * 1.18 if whole else 1)
    axes.set_xlabel("released members [%]")
    axes.set_ylabel("class size in\nthe population")
    return rendered(figure)


@styled()
def neighbor_attack_figure(rows: Sequence[tuple[str, float | None, float | None, float | None]]) -> bytes:
    """Draw what an attack achieved: the measured value (dot), its upper bound (whisker) and the threshold (upright).

    Parameters
    ----------
    rows
        (name, value, bound, threshold) for each gate; shares or probabilities. None or NaN: not measured, no bound,
        no threshold.

    Returns
    -------
    bytes
        SVG or PNG.
    """
    figure, axes = new_figure(4.2, 1.0 + 0.6 * len(rows))
    numbers = [100 * number for _, *of_gate in rows for number in of_gate if _known(number)]
    axes.set_xlim(0, 1.25 * max(numbers, default=1.0) or 1.0)
    for place, (_, value, bound, threshold) in enumerate(rows):
        _gate(axes, place, *(100 * number if _known(number) else None for number in (value, bound, threshold)))
    names = [textwrap.fill(words(name), 22, break_long_words=False, break_on_hyphens=False) for name, *_ in rows]
    name_rows(axes, names, above=0.6)
    axes.xaxis.set_major_formatter(lambda value, _: plain(value))
    axes.set_xlabel("probability [%]")
    return rendered(figure)


def _gate(axes: "Axes", place: int, value: float | None, bound: float | None, threshold: float | None) -> None:
    """One row of the dot-and-whisker figure, in per cent."""
    judged = value if bound is None else bound
    passed = threshold is None or (judged is not None and judged <= threshold)
    color = BLUE if passed else VERMILION
    if threshold is not None:
        axes.plot([threshold] * 2, [place - 0.3, place + 0.14], color=THRESHOLD, linewidth=2.2, solid_capstyle="butt")
        beside(axes, f"at most {plain(threshold)}", (threshold, place - 0.3), (0, 1), ha="center", va="bottom")
    if value is None:
        beside(axes, "not measured", (0, place), (4, 0), va="center")
        return
    if bound is not None:
        axes.plot([value, bound], [place] * 2, color=color, linewidth=2)
        axes.plot([bound] * 2, [place - 0.13, place + 0.13], color=color, linewidth=2)
    axes.plot(
        value, place, "o" if passed else "X", markersize=8, color=color, markerfacecolor=color if passed else "white",
        clip_on=False, zorder=4,
    )  # fmt: skip
    text = plain(value) + ("" if bound is None else f" (up to {plain(bound)})") + ("" if passed else ": fails")
    beside(axes, text, (value, place + 0.16), (0, -2), va="top")


def _survival(counts: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Numbers of claims, and the share of members with at least so many; each step stands for SMALLEST or more."""
    table = np.asarray(counts, dtype=float)
    if table.size == 0:
        return np.empty(0), np.empty(0)
    table = table[np.argsort(table[:, 0])]
    claims, members = table[:, 0], np.maximum(table[:, 1], 0)  # noisy counts may be negative
    at_least = members[::-1].cumsum()[::-1]
    kept, next_above = [], 0.0
    for place in range(len(claims) - 1, -1, -1):
        if claims[place] >= 1 and at_least[place] - next_above >= SMALLEST:
            kept.append(place)
            next_above = at_least[place]
    kept.reverse()
    while kept and 0 < at_least[0] - at_least[kept[0]] < SMALLEST:  # what the first step leaves out of 100 % is a step
        kept.pop(0)
    return claims[kept], np.array([_coarse(share) for share in at_least[kept] / (at_least[0] or 1)])


def _merged(bars: list[tuple[int, float, float]], k: int) -> list[tuple[int, float, float]]:
    """Merge neighboring bars (low, high, members) until each stands for none or for SMALLEST; never across k."""
    merged: list[tuple[int, float, float]] = []
    for low, high, count in bars:
        if merged:
            before_low, _, before = merged[-1]
            same_side = (before_low < k) == (low < k)
            if same_side and (0 < before < SMALLEST or 0 < count < SMALLEST or before == count == 0):
                merged[-1] = (before_low, high, before + count)
                continue
        merged.append((low, high, count))
    return merged


def _range_text(low: int, high: float) -> str:
    if high == math.inf:
        return f"{low:,} or more"
    return f"{low:,}" if high <= low else f"{low:,} to {int(high):,}"


def _coarse(share: float) -> float:
    """Two significant digits: a drawing must not disclose more than its labels do."""
    return float(f"{share:.1e}")


def _known(number: float | None) -> TypeGuard[float]:
    return number is not None and math.isfinite(number)


@styled()
def date_error_figure(errors: ArrayLike) -> bytes:
    """Draw the share of dates that are at most so many days off, in whole weeks, with median and 95th percentile.

    Parameters
    ----------
    errors
        (n,) days between released and delivered date, not negative.

    Returns
    -------
    bytes
        SVG or PNG. The curve ends where fewer than 11 dates are further off.
    """
    found = np.sort(np.asarray(errors, dtype=float))
    figure, axes = new_figure(6.0, 3.4)
    if len(found) < SMALLEST:
        axes.text(0.5, 0.5, f"fewer than {SMALLEST} dates", transform=axes.transAxes, ha="center")
        return rendered(figure)
    weeks = np.arange(0, 7 * np.ceil(found[-SMALLEST] / 7) + 1, 7)
    axes.plot(weeks, 100 * np.searchsorted(found, weeks, side="right") / len(found), color=BLUE, marker="o", markersize=4)
    for share, name in ((0.5, "median"), (0.95, "95 %")):
        days = 7 * np.ceil(found[int(np.ceil(share * len(found))) - 1] / 7)
        axes.axvline(days, color=BLACK, linewidth=1, linestyle=":")
        beside(axes, f"{name}: {plain(days, 4)} days", (days, 3), (3, 0), rotation=90)
    axes.set_ylim(0, 104)
    axes.set_xlim(left=0)
    axes.set_xlabel("days between delivered and released date, at most")
    axes.set_ylabel("dates of service [%]")
    return rendered(figure)


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
        beside(axes, text if safe else f"{text}: too small", (100 * _LEAST, place + 0.14), (4, -2), va="top", color=BLACK)
    axes.set_xscale("log")
    axes.set_xlim(100 * _LEAST, 100)
    axes.xaxis.set_major_formatter(lambda value, _: plain(value, 6))
    name_rows(axes, [words(name) for name in compared["method"]], below=0.6, pad=9)
    axes.set_xlabel(f"claims removed [%]; each bin must contain {needed} members or none")
    return rendered(figure)
