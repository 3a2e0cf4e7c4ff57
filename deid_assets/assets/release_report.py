"""The report that is published with a release: what was measured, against which thresholds, and how to verify it.

It is rendered from the public edition of the manifest and from shares of simulated draws, so that it cannot tell more
about people than the manifest does.
"""

from dataclasses import replace

from deid_assets.assets.generalization import chosen_node
from deid_assets.assets.sensitivity import figure_limits
from deid_assets.methods.neighbor_attack import expected_reidentified_share
from deid_assets.methods.optimal_lattice_search import lower_neighbours, node_text
from deid_assets.policy.models import Policy
from deid_assets.release import measure
from deid_assets.release.canaries import CANARIES
from deid_assets.release.evidence import Evidence
from deid_assets.release.sensitivity import ASSET, table_rows
from deid_assets.reports.figures import frontier_figure, lattice_figure, neighbor_attack_figure
from deid_assets.reports.heritage import exposure_comparison, heritage_comparison, table_7_comparison
from deid_assets.reports.heritage_population import population_comparison
from deid_assets.reports.manifest_content import content_from_manifest
from deid_assets.reports.report import CertificateRow, GeneralizationRow, ReportFigure, render_report
from deid_assets.reports.sensitivity_figures import sensitivity_figure
from deid_assets.store import Table


def report_of(
    policy: Policy, public_edition: bytes, lattice: Table, chosen: Table, evidence: tuple[Evidence, ...],
    dates: tuple[str, ...] = (),
) -> bytes:  # fmt: skip
    """Render the report as one HTML file.

    Parameters
    ----------
    public_edition
        The public edition of the release's manifest, without the report itself.
    lattice, chosen
        Every node, and the chosen one.
    evidence
        Of the assessments and the gate.
    dates
        What there is to say about released dates.
    """
    node = chosen_node(policy, chosen)
    names = [dimension.name for dimension in policy.dimensions]
    nodes = lattice.frame()
    nodes["chosen"] = nodes["node"] == node_text(node)
    levels = {}
    for qi in policy.quasi_identifiers.all:
        hierarchy = policy.hierarchy_of(qi.column)
        levels[qi.release_as] = hierarchy.level_names[policy.level_of(qi.column, node)]
    measured = {found.name: found for item in evidence for found in item.measurements}
    attack = measured.get(measure.UNCONDITIONAL)
    limit = policy.risk.max_high_risk_share
    assessed = [found for item in evidence if item.asset == ASSET for found in item.measurements]
    sensitivity = table_rows(policy, assessed)
    content = content_from_manifest(
        public_edition,
        f"Release under the policy {policy.name}",
        policy.title,
        tuple(GeneralizationRow(name, level) for name, level in levels.items()),
        tuple(_certificate(nodes, node)),
        heritage_comparison(
            levels,
            attack.value if attack else None,
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
                frontier_figure(nodes, limit),
            ),
            ReportFigure(
                "Simulated neighbours",
                "How often a simulated nosey neighbour picks the right record, with bounds and thresholds.",
                neighbor_attack_figure(
                    [
                        (found.name, found.value, found.bound, found.threshold)
                        for item in evidence
                        if item.asset == "neighbor_attack"
                        for found in item.measurements
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
    return render_report(replace(content, dates=dates))


def _certificate(nodes, node: tuple[int, ...]):
    """The chosen node and the nodes directly below it."""
    below = {node_text(lower) for lower in lower_neighbours(node)}
    for row in nodes[nodes["chosen"] | nodes["node"].isin(below)].itertuples():
        yield CertificateRow(row.node, row.share, row.lower, row.upper, row.decision, chosen=bool(row.chosen))

