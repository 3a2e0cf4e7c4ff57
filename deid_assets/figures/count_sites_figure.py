"""The figure of the selection bias of masking: the share of the true total that each size of site loses."""

import numpy as np

from deid_assets.figures.rendering import BLUE, THRESHOLD, new_figure, rendered, styled
from deid_assets.methods.counts.sites import SelectionBias
from deid_assets.wording import how_many


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
