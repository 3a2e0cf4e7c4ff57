"""The figure of how far released dates are from the delivered ones."""

import numpy as np
from numpy.typing import ArrayLike

from deid_assets.figures.figures import SMALLEST
from deid_assets.figures.rendering import BLACK, BLUE, new_figure, plain, rendered, styled


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
        axes.annotate(
            f"{name}: {plain(days, 4)} days", (days, 3), xytext=(3, 0), textcoords="offset points", fontsize=8, rotation=90,
        )  # fmt: skip
    axes.set_ylim(0, 104)
    axes.set_xlim(left=0)
    axes.set_xlabel("days between delivered and released date, at most")
    axes.set_ylabel("dates of service [%]")
    return rendered(figure)
