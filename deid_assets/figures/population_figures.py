"""The figure of attack 3: released inpatients who are matched with people whom an adversary can name."""

from collections.abc import Mapping

from deid_assets.figures.heritage import TABLE_6
from deid_assets.figures.rendering import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, beside, new_figure, plain, rendered, styled

_PERIODS = {
    1: ("year 1", BLUE, "o"), 2: ("year 2", GREEN, "s"), 3: ("year 3", PURPLE, "^"), 0: ("all years", ORANGE, "D"),
}  # fmt: skip
_LEAST = 1e-4


@styled()
def inpatient_figure(shares: Mapping[tuple[int, tuple[str, ...]], float], at_most: float | None) -> bytes:
    """Draw the matched share of released inpatients by the number of columns compared, for every choice of them.

    Parameters
    ----------
    shares
        (period, columns) to share; period 0 is all years. Empty: the figure says so.
    at_most
        The threshold; None without one.

    Returns
    -------
    bytes
        SVG or PNG. Shares are drawn on a logarithmic axis, those below .01 % at its lower end.
    """
    figure, axes = new_figure(6.4, 4.0)
    if not shares:
        axes.text(0.5, 0.5, "no inpatient visit is released", transform=axes.transAxes, ha="center")
        axes.set_axis_off()
        return rendered(figure)
    for place, (period, (label, color, marker)) in enumerate(_PERIODS.items()):
        drawn = [(len(columns), share) for (own, columns), share in shares.items() if own == period]
        if drawn:
            offset = 0.14 * (place - 1.5)
            axes.plot(
                [count + offset for count, _ in drawn], [100 * max(share, _LEAST) for _, share in drawn], marker,
                color=color, markersize=4.5, markerfacecolor="none", label=label,
            )  # fmt: skip
    published = [100 * share for row in TABLE_6 for share in row]
    axes.plot(
        [4.42] * len(published), published, "_", color=BLACK, markersize=8, label="published (El Emam et al. 2012, Table 6)"
    )
    if at_most is not None:
        axes.axhline(100 * at_most, color=GREY, linewidth=1.2, linestyle=(0, (5, 2)))
        beside(axes, f"at most {plain(100 * at_most)}", (0.6, 100 * at_most), (0, 3), fontsize=9)
    axes.set_yscale("log")
    axes.set_ylim(100 * _LEAST * 0.8, 130)
    axes.yaxis.set_major_formatter(lambda value, _: plain(value))
    axes.set_xlim(0.5, max(len(columns) for _, columns in shares) + 0.6)
    axes.set_xlabel("columns compared, of age, sex, visits, length of stay, condition and procedure group")
    axes.set_ylabel("released inpatients matched [%]")
    axes.legend(frameon=False, loc="lower right", fontsize=8)
    return rendered(figure)
