"""The report that is published with a release: what was measured, against which thresholds, and how to verify it.

It is rendered from the public edition of the manifest, from shares of simulated draws, and from losses as the public
certificate has them, so that it cannot tell more about people than these do: coordinates in a figure can be measured.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from deid_assets.assets.encoded import smallest_safe_class
from deid_assets.assets.generalization import chosen_node
from deid_assets.assets.sensitivity import figure_limits
from deid_assets.methods.neighbor_attack import expected_reidentified_share
from deid_assets.methods.optimal_lattice_search import lower_neighbours, node_text, parse_node
from deid_assets.methods.optimality_certificate import OptimalityCertificate
from deid_assets.policy.models import Policy
from deid_assets.release import measure
from deid_assets.release.canaries import CANARIES
from deid_assets.release.certificate import rounding_step
from deid_assets.release.sensitivity import ASSET, number_known, table_rows
from deid_assets.reports.figures import frontier_figure, lattice_figure, neighbor_attack_figure
from deid_assets.reports.heritage import exposure_comparison, heritage_comparison, table_7_comparison
from deid_assets.reports.heritage_population import population_comparison
from deid_assets.reports.manifest_content import content_from_manifest
from deid_assets.reports.numbers import shown
from deid_assets.reports.report import CertificateRow, GeneralizationRow, ReportFigure, render_report
from deid_assets.reports.sensitivity_figures import sensitivity_figure
from deid_assets.store import Table


def report_of(
    policy: Policy, public_edition: bytes, lattice: Table, chosen: Table, proof: OptimalityCertificate,
    dates: tuple[str, ...] = (),
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
    dates
        What there is to say about released dates.
    """
    node = chosen_node(policy, chosen)
    names = [dimension.name for dimension in policy.dimensions]
    nodes = lattice.frame()
    nodes["chosen"] = nodes["node"] == node_text(node)
    manifest = json.loads(public_edition)
    nodes["loss"] = _public_losses(proof, manifest["attrition"], nodes["node"])
    levels = {}
    for qi in policy.quasi_identifiers.all:
        hierarchy = policy.hierarchy_of(qi.column)
        levels[qi.release_as] = hierarchy.level_names[policy.level_of(qi.column, node)]
    neighbors = _measured(manifest, "neighbor_attack")
    attack = next((found.value for found in neighbors if found.name == measure.UNCONDITIONAL), None)
    limit = policy.risk.max_high_risk_share
    sensitivity = table_rows(policy, _measured(manifest, ASSET))
    content = content_from_manifest(
        public_edition,
        f"Release under the policy {policy.name}",
        policy.title,
        tuple(GeneralizationRow(name, level) for name, level in levels.items()),
        tuple(_certificate(nodes, node)),
        heritage_comparison(
            levels,
            attack,
            limit,
            expected_reidentified_share(limit, policy.risk.threshold),
        )
        + exposure_comparison(public_edition)
        + population_comparison(public_edition)
        + table_7_comparison((row, power, found["unconditional"][0]) for row, power, found in sensitivity),
        (
            ReportFigure(
                "The lattice",
                "Every generalization that the policy allows, by whether it is safe enough; the chosen one is marked.",
                lattice_figure(nodes, limit, names),
            ),
            ReportFigure(
                "Risk against loss",
                "Share of simulated adversaries at high risk against the information lost, for every generalization.",
                frontier_figure(nodes, limit, loss_label="information loss [part of the largest, rounded]"),
            ),
            ReportFigure(
                "Simulated neighbours",
                "How often a simulated nosey neighbour picks the right record, with bounds and thresholds.",
                neighbor_attack_figure(
                    [
                        (found.name, found.value, found.bound, found.threshold)
                        for found in neighbors
                        if found.name != CANARIES
                    ]
                ),
            ),
            ReportFigure(
                "Neighbours who know more, or err",
                "The same attack under other assumptions, by the greatest power of the adversary; diamonds are the Heritage "
                "Health Prize's own numbers (its Table 7), whose alpha is not published. All bounds hold together.",
                sensitivity_figure(sensitivity, *figure_limits(policy)),
            ),
        ),
    )
    limits = (*content.limits, *_number_of_claims(policy, manifest, sensitivity))
    return render_report(replace(content, dates=dates, limits=limits))


def _number_of_claims(policy: Policy, manifest: dict, rows: Sequence[tuple]) -> Iterator[str]:
    """What one finds who knows how many claims a member has; from the public edition's numbers."""
    known = policy.measured_number_of_claims
    alone = next((one.value for one in _measured(manifest, "demographic_risk") if one.name == measure.NUMBERED), None)
    if policy.number_of_claims is None:
        yield (
            "The number of claims is not taken to be known. Of the released members "
            f"{shown(alone, 'share of members')} share demographics and the number of claims, to within {known.width}, with fewer "
            f"than {smallest_safe_class(policy)} members of the delivery."
        )
    powers = policy.attack_sensitivity.powers
    power = policy.adversary.power if policy.adversary.power in powers else powers[0]
    found = {(row, at): cell["given_membership"][0] for row, at, cell in rows}
    by_width = "; ".join(
        f"{'exactly' if width == 1 else f'to within {width}'}: {shown(found.get((number_known(width), power)), 'probability')}"
        for width in policy.attack_sensitivity.number_of_claims_widths
    )
    yield (
        f"One who knows demographics, up to {power} values of each quasi-identifier and the number of released claims "
        f"{'' if known.per == 'member' else 'of each year '}as well finds a member known to be in the release with this "
        f"probability, by how well the number is known: {by_width}. "
        + ("Nothing gates on it." if known.with_values is None else f"The gate is on bins of {known.width}.")
    )


def _certificate(nodes, node: tuple[int, ...]):
    """The chosen node and the nodes directly below it."""
    below = {node_text(lower) for lower in lower_neighbours(node)}
    for row in nodes[nodes["chosen"] | nodes["node"].isin(below)].itertuples():
        yield CertificateRow(row.node, row.share, row.lower, row.upper, row.decision, chosen=bool(row.chosen))


@dataclass(frozen=True)
class _Shown:
    """A measurement as the public edition shows it."""

    name: str
    value: float | None
    bound: float | None
    threshold: float | None


def _measured(manifest: dict, asset: str) -> list[_Shown]:
    """What an assessment measured, as published."""
    return [
        _Shown(found["name"], *(_finite(found[field]) for field in ("value", "bound", "threshold")))
        for item in manifest["evidence"]
        if item["asset"] == asset
        for found in item["measurements"]
    ]


def _finite(number: float | str | None) -> float | None:
    """A number of the public edition; none where it shows a word instead."""
    return number if isinstance(number, int | float) and math.isfinite(number) else None


def _public_losses(proof: OptimalityCertificate, attrition: Sequence[dict], nodes: Sequence[str]) -> list[float]:
    """The losses of nodes as the public certificate tells them: exact ones are functions of the delivered rows."""
    released = next(step["rows_out"] for step in reversed(attrition) if step["unit"] == "members")
    losses = proof.rounded(rounding_step(released), hide_counts=False).losses
    return [math.fsum(own[level] for own, level in zip(losses, parse_node(node), strict=True)) for node in nodes]
