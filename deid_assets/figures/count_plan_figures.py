"""The figures of a plan for counts: the noise, and up to how many sites masking serves a sum better."""

from collections.abc import Mapping, Sequence

import numpy as np

from deid_assets.figures.rendering import (
    BLUE,
    DARK_ORANGE,
    GREEN,
    GREY,
    PALE,
    PURPLE,
    THRESHOLD,
    beside,
    new_figure,
    plain,
    rendered,
    styled,
)

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
