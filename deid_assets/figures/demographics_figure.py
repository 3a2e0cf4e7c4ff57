"""The figure of policies on demographics: the risk that each leaves, and the detail that it keeps."""

import pandas as pd

from deid_assets.figures.rendering import BLUE, DARK_ORANGE, GREY, PALE, THRESHOLD, new_figure, plain, rendered, styled

_LEAST = 1e-6
"""Per cent; smaller risks are drawn at the edge of the logarithmic axis."""


@styled()
def risk_and_detail_figure(policies: pd.DataFrame, reference: str, kept: frozenset[str]) -> bytes:
    """Draw every policy by total risk and detail; those with a name are labelled by a number.

    Parameters
    ----------
    policies
        percent | detail | on_frontier | name, empty for most. Named policies are numbered in the order of `labels_of`.
    reference
        Name of the policy that all are compared with: a diamond and a dashed line.
    kept
        Names of policies that are no riskier: filled circles; other named policies are open squares.

    Raises
    ------
    ValueError
        If the reference is not among the policies.
    """
    if reference not in set(policies["name"]):
        raise ValueError("the figure needs the policy that all are compared with")
    figure, axes = new_figure(4.6, 4.2)
    at = policies.assign(percent=policies["percent"].clip(lower=_LEAST))
    axes.plot(at["percent"], at["detail"], ".", color=PALE, markersize=5, label="other policy", zorder=1)
    best = at[at["on_frontier"]].sort_values(["percent", "detail"])
    axes.step(best["percent"], best["detail"], where="post", color=GREY, linewidth=1, label="frontier", zorder=2)
    bar = at.loc[at["name"] == reference, "percent"].iloc[0]
    axes.axvline(bar, color=THRESHOLD, linestyle="--", linewidth=1, zorder=1)
    said: set[str] = set()
    for number, name in enumerate(labels_of(policies), start=1):
        row = at[at["name"] == name].iloc[0]
        mark, color, fill, what = (
            ("D", THRESHOLD, THRESHOLD, reference)
            if name == reference
            else ("o", BLUE, BLUE, f"no riskier than {reference}")
            if name in kept
            else ("s", DARK_ORANGE, "white", f"riskier than {reference}")
        )
        axes.plot(
            row["percent"], row["detail"], mark, color=color, markerfacecolor=fill, markersize=6, zorder=3,
            label="_" if what in said else what, linestyle="none",
        )  # fmt: skip
        said.add(what)
        axes.annotate(str(number), (row["percent"], row["detail"]), xytext=(5, 4), textcoords="offset points", fontsize=8)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: plain(value, 1))
    axes.set_xlabel("expected total risk [% of the cohort]")
    axes.set_ylabel("detail [bits per record]")
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    return rendered(figure)


def labels_of(policies: pd.DataFrame) -> tuple[str, ...]:
    """Names of the named policies by ascending risk; the first has number 1 in the figure."""
    named = policies[policies["name"] != ""].sort_values(["percent", "detail"], kind="stable")
    return tuple(dict.fromkeys(named["name"]))
