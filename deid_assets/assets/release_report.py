"""The report that is published with a release: what was measured, against which thresholds, and how to verify it.

It is rendered from the public edition of the manifest, from shares of simulated draws, and from losses as in the public
certificate. It therefore cannot disclose more about people than these do: coordinates in a figure can be measured.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd

from deid_assets.assessments import demographic_risk, inference_channels, longitudinal_risk, neighbor_attack, worst_classes
from deid_assets.assessments.assessment import CANARIES
from deid_assets.assessments.column_costs import ReleaseCosts
from deid_assets.assessments.inference_channels import by_channel, inference_figure, lines
from deid_assets.assessments.inference_rows import meaning_of
from deid_assets.assessments.kernel_input import chosen_node, node_in_words, smallest_safe_class
from deid_assets.assessments.neighbor_attack import figure_limits, number_known, table_rows
from deid_assets.assessments.number_of_claims import (
    HIGH_RISK,
    RANDOM_HIGH_RISK,
    RANDOM_SINGLED_OUT,
    SINGLED_OUT,
    numbers_measured,
)
from deid_assets.errors import ReleaseError
from deid_assets.figures.figures import neighbor_attack_figure
from deid_assets.figures.heritage import exposure_comparison, heritage_comparison, population_comparison, table_7_comparison
from deid_assets.figures.lattice_figures import frontier_figure, heights_figure, lattice_figure
from deid_assets.figures.rendering import ReportTable, shown, words
from deid_assets.figures.sensitivity_figures import sensitivity_figure
from deid_assets.figures.worst_figures import column_costs_figure, value_shares_figure
from deid_assets.methods.attacks.neighbor_attack import expected_reidentified_share
from deid_assets.methods.lattice.certificate import OptimalityCertificate, rounding_step
from deid_assets.methods.lattice.predictive_tagging import lower_neighbors, node_text, parse_node, sum_of_losses
from deid_assets.policy.models import Policy
from deid_assets.reports.manifest_content import content_from_manifest
from deid_assets.reports.report import CertificateRow, ReportFigure, render_report
from deid_assets.reports.retained import levels_table, released_columns, retained_rows, retained_sentences
from deid_assets.reports.utility_content import kept_columns, measured_use, nodes_figures, nodes_table
from deid_assets.store.tables import Table

_VALUES_SHOWN = 3
"""Values of each column whose risk is drawn."""
_CELLS_AT_MOST = 500
"""Nodes of a lattice whose cells can be told apart."""

Figures = Mapping[str, tuple[float | None, float | None]]
"""Value and bound, by figure."""


def report_of(
    policy: Policy, public_edition: bytes, lattice: Table, chosen: Table, proof: OptimalityCertificate,
    costs: ReleaseCosts, dates: tuple[str, ...], rare: tuple[ReportTable | None, str],
) -> bytes:  # fmt: skip
    """Render the report as one HTML file.

    Parameters
    ----------
    public_edition
        The public edition of the release's manifest, without the report itself.
    lattice, chosen
        Every node, and the chosen one.
    proof
        The certificate of optimality.
    costs
        `costs_of_release` of what was judged.
    dates
        Information about released dates.
    rare
        `rare_labels` of the staged files.
    """
    node = chosen_node(policy, chosen)
    nodes = lattice.frame()
    nodes["chosen"] = nodes["node"] == node_text(node)
    manifest = json.loads(public_edition)
    nodes["loss"] = _public_losses(proof, manifest["attrition"], nodes["node"])
    columns = released_columns(
        {
            qi.release_as: (policy.hierarchy_of(qi.column), policy.level_of(qi.column, node))
            for qi in policy.quasi_identifiers.all
        },
        _found(manifest, "gate"),
        [column.name for column in kept_columns(measured_use(manifest)) if not column.before],
    )
    neighbors = _measured(manifest, neighbor_attack.NAME)
    attack = next((found.value for found in neighbors if found.name == neighbor_attack.UNCONDITIONAL), None)
    limit = policy.risk.max_high_risk_share
    sensitivity = table_rows(policy, _measured(manifest, neighbor_attack.SENSITIVITY))
    # If members were suppressed, the lattice's shares are those before suppression.
    held = bool((nodes["chosen"] & (nodes["decision"] == "candidate")).any())
    released = next(
        (found for found in _measured(manifest, longitudinal_risk.NAME) if found.name == longitudinal_risk.FIXED), None
    )
    after = None if held or released is None else released.value
    certificate = [*_certificate(policy, nodes, node, proof.passed_over)]
    if held and released is not None and released.value is not None:
        # The search may have decided the chosen node by another one; as released it was measured.
        certificate = [
            replace(row, share=released.value, lower=None, upper=released.bound)
            if row.chosen and math.isnan(row.share)
            else row
            for row in certificate
        ]
    elif released is not None and after is not None:
        what = f"{node_in_words(policy, node)}, without the suppressed members"
        certificate.append(CertificateRow(what, after, None, released.bound, "as released"))
    content = content_from_manifest(
        public_edition,
        f"Release under the policy {policy.name}",
        policy.title,
        retained_rows(columns),
        tuple(certificate),
        heritage_comparison(attack, limit, expected_reidentified_share(limit, policy.risk.threshold))
        + exposure_comparison(public_edition)
        + population_comparison(public_edition)
        + table_7_comparison(
            ((row, power, found["unconditional"][0]) for row, power, found in sensitivity), policy.adversary.power
        ),
        (
            _lattice(policy, nodes, limit, after, _bound(proof, manifest["attrition"])),
            ReportFigure(
                "Risk against loss",
                "Share of simulated adversaries at high risk against the information lost, for every generalization"
                + (
                    "."
                    if after is None
                    else ", for the whole sample. The arrow leads to what was released: the chosen generalization without "
                    "the members who were flagged most often."
                ),
                frontier_figure(
                    nodes, limit, loss_label="information loss [part of the largest, rounded]", without_suppressed=after
                ),
            ),
            ReportFigure(
                "Simulated neighbors",
                "How often a simulated nosey neighbor picks the right record, with bounds and thresholds.",
                neighbor_attack_figure(
                    [(found.name, found.value, found.bound, found.threshold) for found in neighbors if found.name != CANARIES]
                ),
            ),
            ReportFigure(
                "Neighbors who know more, or make errors",
                "Success of the same attack under other assumptions, by the adversary's highest power. Each is simulated "
                f"with draws of its own{_twice(policy)}. Diamonds are the numbers of the Heritage Health Prize (its Table "
                "7), whose alpha is not published. All bounds hold jointly.",
                sensitivity_figure(sensitivity, *figure_limits(policy)),
                wide=True,
            ),
            *_cost_figures(costs),
            *_worst_figures(manifest),
            *_inference_figures(manifest),
        ),
        notes=retained_sentences(columns),
    )
    limits = (*content.limits, *_number_of_claims(policy, manifest, sensitivity))
    return render_report(
        replace(
            content,
            figures=(*content.figures, *nodes_figures(manifest, levels_by_number(policy))),
            utility=(
                *content.utility,
                *(table for table in [nodes_table(manifest, partial(node_in_words, policy))] if table.rows),
            ),
            dates=(*dates, *_ordered_services(policy, manifest)),
            limits=limits,
            levels=levels_table(columns),
            rare=rare[0],
            joined=rare[1],
        )
    )


def _bound(proof: OptimalityCertificate, attrition: Sequence[dict[str, Any]]) -> str:
    """How much less a node could lose that was never measured, as the public certificate says; empty if all are listed."""
    if proof.is_listed:
        return ""
    less = min(proof.rounded(rounding_step(_released_members(attrition)), hide_counts=False).bound, 1.0)
    return (
        f" There are too many to measure all: one that was not measured may lose less by up to {less:.3g} of the largest loss."
    )


def _lattice(policy: Policy, nodes: pd.DataFrame, limit: float, after: float | None, bound: str) -> ReportFigure:
    """The lattice: every node as a cell, or those that were measured if nobody could tell so many cells apart."""
    sample = "" if after is None else " with everybody who was sampled"
    if policy.node_count <= _CELLS_AT_MOST:
        return ReportFigure(
            "The lattice",
            f"Every generalization that the policy allows, by whether it is safe enough{sample}; the chosen one is marked. "
            + levels_by_number(policy),
            lattice_figure(nodes, limit, [dimension.name for dimension in policy.dimensions], after),
            wide=True,
        )
    measured = nodes[(nodes["reached"] == "measured") | nodes["chosen"]]
    heights = [sum(parse_node(text)) for text in measured["node"]]
    return ReportFigure(
        "The lattice",
        f"The policy allows {policy.node_count:,} generalizations. Shown are the {len(measured):,} that were measured: the "
        "farther to the right, the more columns are coarse; the higher, the more information is lost. Those that are safe "
        f"enough{sample} are candidates, and the chosen one is marked. A candidate that loses less was passed over, because "
        f"another gate would refuse it.{bound}",
        heights_figure(measured.assign(height=heights), policy.node_count, "information loss [part of the largest, rounded]"),
    )


def _cost_figures(costs: ReleaseCosts) -> Iterator[ReportFigure]:
    """What each column and table adds to the share at high risk, and the share by value."""
    share, without = costs.share, costs.without
    if without:
        columns = sorted((one for one in without if one.column), key=lambda one: one.share)
        yield ReportFigure(
            "Risk by column",
            "Share of simulated adversaries at high risk who do not know a column, beside "
            f"{shown(share, 'share of draws')} of those who know all that the policy assumes: the less is left, the more it "
            "adds. Of columns that tell the same none adds much, so that each table is left out as a whole, too.",
            column_costs_figure(
                [(one.column, one.share) for one in columns],
                [(f"all of {one.table}", one.share) for one in without if not one.column],
                share,
            ),
        )
    if len(costs.values):
        riskiest = costs.values.sort_values("share", ascending=False, kind="stable").groupby("column").head(_VALUES_SHOWN)
        rows = riskiest.sort_index()
        yield ReportFigure(
            "Risk by value",
            f"Share of simulated adversaries at high risk among those about people who have a value, for the {_VALUES_SHOWN} "
            "riskiest values of each column, and the part of all adversaries at high risk that these are. A person has "
            "several values of an event's column, so that parts overlap. Values of few people are not shown.",
            value_shares_figure([(f"{row.column} {row.value}", row.share, row.part) for row in rows.itertuples()], share),
        )


def _worst_figures(manifest: dict[str, Any]) -> Iterator[ReportFigure]:
    """What the average over all draws hides, by class and by member."""
    measured = _measured(manifest, worst_classes.NAME)
    if measured:
        yield ReportFigure(
            "Risk by class",
            "Share of simulated adversaries at high risk in each class of members with the same released person-level values, "
            "the worst first, from the measured share to its upper bound. All bounds hold jointly.",
            worst_classes.class_figure(measured),
        )
        if any(found.name.startswith(worst_classes.ATTACK_OF_CLASS) for found in measured):  # not measured by earlier versions
            yield ReportFigure(
                "Attack 1 by class",
                "How often neighbors succeed who know a member of a class and that they are in the release, the worst class "
                "first, from the measured probability to its upper bound. All bounds hold jointly; no gate limits them.",
                worst_classes.attack_figure(measured),
            )
        yield ReportFigure(
            "Risk by member",
            "Of all simulated adversaries at high risk, the share that members hold whose own probability is above a number. "
            "Where the line stays high to the right, a few members carry most of the risk.",
            worst_classes.member_figure(measured),
        )


def _inference_figures(manifest: dict[str, Any]) -> Iterator[ReportFigure]:
    """What models guess of the first channel with groups, by group."""
    measured = {found.name: found.value for found in _measured(manifest, inference_channels.NAME)}
    for channel, rows in by_channel(lines(measured)).items():
        if len(rows) > 1:
            what = meaning_of(channel)
            text = (
                f"How often the {what} of a random claim is guessed in each group: by naming the most frequent one, and by "
                "models that use every released field. Where the marks lie together, the fields give nothing away."
            )
            yield ReportFigure("What can be inferred", text, inference_figure(rows), wide=True)
            return


def _number_of_claims(policy: Policy, manifest: dict[str, Any], rows: Sequence[tuple[str, int, Figures]]) -> Iterator[str]:
    """What an adversary finds who knows how many claims or other events a member has; from the public edition's numbers."""
    known = policy.measured_number_of_claims
    years = "" if known.per == "member" else " of each year"
    shares = {one.name: one.value for one in _measured(manifest, demographic_risk.NAME)}
    # Who knows the numbers of several tables knows that of each.
    listed = {*known.of} if policy.number_of_claims else set[str]()
    told = {
        " and of ".join(section.whose): shown(shares.get(name), "share of members")
        for name, section in numbers_measured(policy).items()
        if not listed.issuperset(section.of)
    }
    if told:
        yield (
            f"Nobody is assumed to know a member's number of {' or of '.join(told)}{years}. The share of released members who "
            f"share demographics and that number, to within {known.width}, with fewer than {smallest_safe_class(policy)} "
            f"members of the delivery: {'; '.join(f'{events} {share}' for events, share in told.items())}."
        )
    powers = policy.attack_sensitivity.powers
    power = policy.adversary.power if policy.adversary.power in powers else powers[0]
    found = {(row, at): cell["given_membership"][0] for row, at, cell in rows}
    by_width = "; ".join(
        f"{'exactly' if width == 1 else f'to within {width}'}: "
        f"{shown(found.get((number_known(known, width), power)), 'probability')}"
        for width in policy.attack_sensitivity.number_of_claims_widths
    )
    yield (
        f"An adversary may know demographics, up to {power} values of each quasi-identifier and also the number of released "
        f"{' and of '.join(known.whose)}{years}. The probability that they find a member known to be in the release depends on "
        f"how well they know the number: {by_width}. "
        + ("No gate limits it." if known.with_values is None else f"The gate uses bins of {known.width}.")
    )


def _ordered_services(policy: Policy, manifest: dict[str, Any]) -> Iterator[str]:
    """What an adversary finds who knows three consecutive services; from the public edition's numbers."""
    found = {one.name: shown(one.value, "share of members") for one in _measured(manifest, demographic_risk.NAME)}
    if HIGH_RISK in found:
        yield (
            "An adversary may know demographics, one claim of each of three consecutive days with services, their order, and "
            f"the bins of the intervals between them. By their most dangerous three {found[HIGH_RISK]} of the released members "
            f"are among fewer than {smallest_safe_class(policy)} members of the delivery, and {found[SINGLED_OUT]} are alone; "
            f"by a random three, {found[RANDOM_HIGH_RISK]} and {found[RANDOM_SINGLED_OUT]}. "
            + ("No gate limits it." if policy.dates_section.ordered_services_at_most is None else "The first share is a gate.")
        )


def _certificate(
    policy: Policy, nodes: pd.DataFrame, node: tuple[int, ...], passed_over: Mapping[tuple[int, ...], str]
) -> Iterator[CertificateRow]:
    """The chosen node by all of its levels, and the nodes directly below it by the one that differs.

    Of a candidate that was passed over, the decision says why.
    """
    below = {node_text(lower) for lower in lower_neighbors(node)}
    for row in nodes[nodes["chosen"] | nodes["node"].isin(below)].itertuples():
        what = node_in_words(policy, node) if row.chosen else _finer(policy, parse_node(row.node), node)
        gate = passed_over.get(parse_node(row.node)) if row.decision == "candidate" else None
        decision = row.decision if gate is None else f"fails: {gate}"
        yield CertificateRow(what, row.share, row.lower, row.upper, decision, chosen=bool(row.chosen))


def _finer(policy: Policy, lower: tuple[int, ...], node: tuple[int, ...]) -> str:
    """What a node directly below another has in its place, such as "age: 5 years instead of 10 years"."""
    (place,) = (place for place, (one, other) in enumerate(zip(lower, node, strict=True)) if one != other)
    dimension = policy.dimensions[place]
    names = policy.hierarchy_of(dimension.columns[0]).level_names
    return f"{words(dimension.name)}: {names[lower[place]]} instead of {names[node[place]]}"


def _twice(policy: Policy) -> str:
    """A note that one cell of the analysis repeats the simulation of the gating attack, if so."""
    power, section = policy.adversary.power, policy.attack_sensitivity
    if "original" not in section.variants or power not in section.powers:
        return ""
    return f": original, {power}, repeats the attack of the figure above, and may differ from it by chance"


def levels_by_number(policy: Policy) -> str:
    """The meaning of the level numbers in the figure."""
    lists = (
        f"{words(dimension.name)}: "
        + ", ".join(f"{number} = {name}" for number, name in enumerate(policy.hierarchy_of(dimension.columns[0]).level_names))
        for dimension in policy.dimensions
    )
    return f"Levels of {'; '.join(lists)}."


@dataclass(frozen=True)
class _Shown:
    """A measurement as the public edition shows it."""

    name: str
    value: float | None
    bound: float | None
    threshold: float | None


def _measured(manifest: dict[str, Any], asset: str) -> list[_Shown]:
    """The published measurement of an assessment."""
    return [
        _Shown(found["name"], *(_finite(found[field]) for field in ("value", "bound", "threshold")))
        for found in _found(manifest, asset)
    ]


def _found(manifest: dict[str, Any], asset: str) -> list[dict[str, Any]]:
    """The limits of the manifest."""
    return [found for item in manifest["evidence"] if item["asset"] == asset for found in item["measurements"]]


def _finite(number: float | str | None) -> float | None:
    """A number of the public edition; None if it shows a word instead."""
    return number if isinstance(number, int | float) and math.isfinite(number) else None


def _public_losses(proof: OptimalityCertificate, attrition: Sequence[dict[str, Any]], nodes: Sequence[str]) -> list[float]:
    """The losses of nodes as in the public certificate; exact ones are functions of the delivered rows."""
    losses = proof.rounded(rounding_step(_released_members(attrition)), hide_counts=False).losses
    if losses is None:
        raise ReleaseError("the certificate of optimality contains no losses, so the report cannot show them")
    return [sum_of_losses(losses, parse_node(node)) for node in nodes]


def _released_members(attrition: Sequence[dict[str, Any]]) -> int:
    """Number of released members."""
    return next(step["rows_out"] for step in reversed(attrition) if step["unit"] == "members")
