"""The figure of the sensitivity analysis: attack 1 by what is known and by power, beside Table 7 of El Emam et al. 2012."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from deid_assets.figures import rendering
from deid_assets.figures.heritage import TABLE_7

Found = tuple[float | None, float | None]
Row = tuple[str, int, Mapping[str, Found]]
_MARKS = {
    "unconditional": ("o", rendering.BLUE, "any member"),
    "given_membership": ("s", rendering.DARK_ORANGE, "member known to be in the release"),
}


def sensitivity_figure(
    rows: Sequence[Row], unconditional_at_most: float | None = None, given_membership_at_most: float | None = None
) -> bytes:
    """Draw both figures of every cell with their joint upper bounds, the article's numbers, and the thresholds.

    Parameters
    ----------
    rows
        (name of the assumption, power, {figure: (value, bound)}), probabilities; `attack_sensitivity.table_rows`.
    """
    cells = tuple((name, power, *(found[figure] for figure in _MARKS)) for name, power, found in rows)
    return _drawn(cells, unconditional_at_most, given_membership_at_most)


# The assessment draws it for the Dagster UI, and the release for its report, mostly in one process. The largest figure of all.
@functools.lru_cache(maxsize=4)
@rendering.styled()
def _drawn(
    rows: tuple[tuple[str, int, Found, Found], ...], unconditional_at_most: float | None, given_membership_at_most: float | None
) -> bytes:
    figure, axes = rendering.new_figure(7.0, 1.3 + 0.24 * len(rows))
    limits = {"unconditional": unconditional_at_most, "given_membership": given_membership_at_most}
    names: list[str] = []
    for place, (name, power, *found_of) in enumerate(rows):
        found = dict(zip(_MARKS, found_of, strict=True))
        if not names or rows[place - 1][0] != name:
            axes.axhline(place - 0.5, color=rendering.PALE, linewidth=0.8)
        names.append(f"{rendering.words(name)}, {power}" if not place or rows[place - 1][0] != name else f"{power}")
        for figure_name, (mark, color, _) in _MARKS.items():
            value, bound = found[figure_name]
            if value is None:
                continue
            limit = limits[figure_name]
            failed = limit is not None and (bound if bound is not None else value) > limit
            axes.plot([100 * value, 100 * (value if bound is None else bound)], [place] * 2, color=color, linewidth=1.6)
            axes.plot(
                100 * value, place, mark, markersize=5, color=rendering.VERMILION if failed else color,
                markerfacecolor="white" if failed else color, zorder=4,
            )  # fmt: skip
        if power in TABLE_7.get(name, {}):
            s0 = 100 * TABLE_7[name][power]
            axes.plot(s0, place, "D", markersize=5, color=rendering.BLACK, markerfacecolor="none", zorder=5)
        values = (found[of][0] for of in _MARKS)
        numbers = ["not measured" if value is None else rendering.plain(100 * value, 2) for value in values]
        at_the_edge: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center", "color": rendering.GREY}
        rendering.beside(axes, " / ".join(numbers), (1, place), (4, 0), **at_the_edge)
    for figure_name, limit in limits.items():
        if limit is not None:
            axes.axvline(100 * limit, color=rendering.THRESHOLD, linewidth=1.2, linestyle=(0, (4, 2)))
            text = f"at most {rendering.plain(100 * limit)}: {_MARKS[figure_name][2]}"
            upright: dict[str, Any] = {"rotation": 90, "ha": "right", "va": "bottom", "fontsize": 7.5}
            rendering.beside(axes, text, (100 * limit, len(rows) - 0.6), (-2, 0), **upright)
    rendering.name_rows(axes, names, labelsize=8)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(lambda value, _: rendering.plain(value))
    axes.set_xlabel("success of a neighbor [%]: measured, joint upper bound; rows by power")
    handles = [
        rendering.sample(label, marker=mark, color=color, linewidth=1.6, markersize=5) for mark, color, label in _MARKS.values()
    ]
    handles.append(
        rendering.sample(
            "El Emam et al. 2012, any member", marker="D", color=rendering.BLACK, markerfacecolor="none",
            linestyle="none", markersize=5,
        )
    )  # fmt: skip
    figure.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False, fontsize=8)
    return rendering.rendered(figure)
