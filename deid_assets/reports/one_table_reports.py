"""Reports of releases of one table, flat or of a cohort, rendered from the public edition of the manifest."""

import json

import pandas as pd

from deid_assets.figures.lattice_figures import heights_figure
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.flat import FlatPolicy
from deid_assets.reports.demographics_report import LIMITS as OF_DEMOGRAPHICS
from deid_assets.reports.manifest_content import content_from_manifest
from deid_assets.reports.report import FLAT_LIMITS, LIMITS, GeneralizationRow, ReportFigure, render_report
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


_EXPECTED = (
    "Expected risks are compared, as the policy states. They take the model of how people are spread over ages that the table "
    "joins for the truth: if it is not, the release can be riskier than Safe Harbor."
)
_DATED = (
    "The policy states that {share} % of the population have such a date, and no table says so. If they are fewer, the release "
    "is riskier; Safe Harbor, which publishes years, is not."
)


def cohort_report(policy: CohortPolicy, public_edition: bytes, notes: tuple[str, ...]) -> bytes:
    """Render the report as one HTML file.

    Parameters
    ----------
    public_edition
        The public edition of the release's manifest, without the report itself.
    notes
        What readers must know of the population's table.
    """
    content = content_from_manifest(
        public_edition,
        f"Release under the policy {policy.name}",
        policy.title,
        stated_levels(policy),
        limits=caveats_of(policy),
        notes=tuple(f"Population: {note}." for note in notes),
    )
    return render_report(content)


def caveats_of(policy: CohortPolicy) -> tuple[str, ...]:
    """What the numbers of a release do not say, by what its policy compares and states."""
    adversary, bounds, upper_bound, releases = OF_DEMOGRAPHICS[:4]
    risk, date = policy.risk, policy.columns.date
    compared = {"upper_bound": upper_bound, "expected": _EXPECTED}[risk.compared] if risk.no_riskier_than else ""
    dated = "" if date is None else _DATED.format(share=f"{date.dated * 100:.4g}")
    return tuple(limit for limit in (adversary, bounds, compared, dated, releases, LIMITS[2]) if limit)


def stated_levels(policy: CohortPolicy) -> tuple[GeneralizationRow, ...]:
    """Each column of demographics and its level."""
    levels, old = policy.demographic_policy.levels, policy.demographics.old_ages
    if old is not None:
        levels["age"] += f"; from 90 on, the finest of {', '.join(old.levels)} that is no riskier, by {old.by}"
    return tuple(GeneralizationRow(column, levels[name]) for name, column in policy.demographic_columns.items())
