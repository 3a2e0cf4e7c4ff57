"""The report of a flat release, rendered from the public edition of the manifest."""

import json

import pandas as pd

from deid_assets.figures.lattice_figures import heights_figure
from deid_assets.policy.flat import FlatPolicy
from deid_assets.reports.manifest_content import content_from_manifest
from deid_assets.reports.report import FLAT_LIMITS, ReportFigure, render_report
from deid_assets.reports.retained import released_columns, retained_rows, retained_sentences


def flat_report(policy: FlatPolicy, public_edition: bytes, levels: dict[str, int], nodes: pd.DataFrame) -> bytes:
    """Render the report as one HTML file.

    Parameters
    ----------
    public_edition
        The public edition of the release's manifest, without the report itself.
    levels
        Level of every quasi-identifier.
    nodes
        The nodes that the search evaluated (`record_lattice`).
    """
    gate = next(item["measurements"] for item in json.loads(public_edition)["evidence"] if item["asset"] == "gate")
    columns = released_columns({name: (policy.hierarchy_of(name), level) for name, level in levels.items()}, gate)
    # Shares of records in small classes are exact numbers about people, and so are losses counted in records.
    # Recipients therefore see the decision against a loss that depends on levels only. The frontier stays in the UI.
    lattice = ReportFigure(
        "The lattice",
        "Every generalization that the search evaluated, by whether it is safe enough. Lines lead from the chosen node "
        "(dashed: its level) to the nodes one step finer. The mean level is over all columns, each in per cent of its "
        "highest level.",
        heights_figure(
            nodes.assign(loss=precision_of(policy, levels, nodes)), policy.node_count, "mean level [% of the highest]"
        ),
    )
    content = content_from_manifest(
        public_edition,
        f"Release under the policy {policy.name}",
        policy.title,
        retained_rows(columns, beside_heritage=False),
        figures=(lattice,),
        limits=FLAT_LIMITS,
        notes=retained_sentences(columns),
    )
    return render_report(content)


def precision_of(policy: FlatPolicy, levels: dict[str, int], nodes: pd.DataFrame) -> pd.Series:
    """The mean level of each node in per cent of the highest (methods#information-loss).

    This is the Prec loss, which does not depend on any record.
    """
    parts = [nodes[f"level_of_{name}"] / max(policy.hierarchy_of(name).levels - 1, 1) for name in levels]
    return 100 * sum(parts) / len(parts)
