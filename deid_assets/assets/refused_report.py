"""The report of a refused run: what was measured, which gate refused, and what carries the risk.

It contains exact numbers about people. It is therefore stored in the restricted store, beside the tables it was made
from, for its owner only. Nothing in it is ever published.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from deid_assets.assessments.absence import absent_members, figures_by_class, table_by_class
from deid_assets.assessments.evidence import from_frame
from deid_assets.assessments.kernel_input import Candidate, chosen_level_names, chosen_node, node_in_words
from deid_assets.assets.release_report import levels_by_number
from deid_assets.figures.lattice_figures import frontier_figure, heights_figure, lattice_figure
from deid_assets.figures.rendering import ReportTable, shown, words
from deid_assets.methods.lattice.diagnosis import outcome_of_change
from deid_assets.methods.lattice.predictive_tagging import node_text
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.release.keyring import secret_of
from deid_assets.release.known_people import unmatched_notes
from deid_assets.release.registry import clock
from deid_assets.reports.disclosure_content import disclosure_tables
from deid_assets.reports.manifest_content import gates_of, tried
from deid_assets.reports.report import FLAT_LIMITS, LIMITS, GeneralizationRow, ReportContent, ReportFigure, render_report
from deid_assets.resources import Workplace
from deid_assets.stages import STAGE_OF, stages_of
from deid_assets.store import durable
from deid_assets.store.home import Home
from deid_assets.store.tables import Table

RESTRICTED = (
    "Restricted: this report contains exact numbers about people, for those who answer for the delivery. It must not leave "
    "the restricted store."
)


def write_refused_report(home: Home, policy: AnyPolicy, delivery: str, made: Sequence[str], reasons: Sequence[str]) -> Path:
    """Write the report of a refused run, replacing that of an earlier one.

    Parameters
    ----------
    home
        Its restricted store has the tables, and receives the report.
    delivery
        Key of the delivery.
    made
        Assets that the run made; tables of earlier runs are not reported.
    reasons
        Why nothing was published.

    Returns
    -------
    pathlib.Path
        The report; readable by its owner only.
    """
    tables = {name: Table(home.store / policy.name / f"{delivery}.duckdb", STAGE_OF[name], name) for name in made}
    evidence = [
        item.to_json()
        for name in stages_of(policy)["assessment"]
        if name in tables
        for item in from_frame(tables[name].frame())
    ]
    manifest = {"evidence": evidence}
    content = ReportContent(
        title=f"Refused under the policy {policy.name}",
        release_number=None,
        policy_name=policy.name,
        policy_title=policy.title,
        delivery=delivery,
        created=clock.now(None),
        recipient_class=policy.recipients.recipient_class,
        terms_of_use=policy.recipients.terms_of_use,
        verdict="refused",
        summary="Nothing was published.",
        # Nothing is hidden here: a value without a number was not measured.
        gates=tuple(replace(gate, measured=math.nan) if gate.measured is None else gate for gate in gates_of(manifest)),
        generalization=tuple(GeneralizationRow(column, level) for column, level in chosen_level_names(policy, tables)),
        figures=tuple(_figures(home, policy, tables)),
        disclosure=disclosure_tables(manifest),
        limits=LIMITS[:2] if policy.has_events else FLAT_LIMITS,
        notes=(RESTRICTED, *tried(manifest), *unmatched_notes(policy, delivery, home, secret_of(home))),
        reasons=tuple(reasons),
        diagnosis=_diagnosis(tables),
    )
    path = home.refused_report(policy.name, delivery)
    durable.replace(path, render_report(content), 0o600)
    return path


def _figures(home: Home, policy: AnyPolicy, tables: dict[str, Table]) -> Iterator[ReportFigure]:
    """The lattice, as far as it was searched, and what absence would disclose by class."""
    yield from _lattice(policy, tables)
    if policy.has_events and "demographic_risk" in tables and policy.removal.removes_members:
        workplace = Workplace(str(home.root))
        found = absent_members(Candidate.of(policy, tables), workplace.ever_released(), workplace.tags_in_order)
        for number, (text, image) in enumerate(figures_by_class(policy, table_by_class(found)), start=1):
            yield ReportFigure(f"Absence by demographic class ({number})", f"{text}.", image, wide=True)


def _lattice(policy: AnyPolicy, tables: dict[str, Table]) -> Iterator[ReportFigure]:
    """The lattice, as far as it was searched."""
    if policy.has_events and "generalization_lattice" in tables:
        nodes = tables["generalization_lattice"].frame()
        there = "chosen_generalization" in tables
        chosen = chosen_node(policy, tables["chosen_generalization"]) if there else None
        nodes["chosen"] = nodes["node"] == (node_text(chosen) if chosen else "")
        limit, names = policy.risk.max_high_risk_share, [dimension.name for dimension in policy.dimensions]
        mark = f" The chosen one is {node_in_words(policy, chosen)}." if chosen else " No node passes."
        yield (
            ReportFigure(
                "The lattice",
                f"Every generalization that the policy allows, for the whole sample.{mark} {levels_by_number(policy)}",
                lattice_figure(nodes, limit, names),
                wide=True,
            )
            if policy.lists_lattice
            else ReportFigure(
                "The lattice",
                f"Every generalization that the search measured, for the whole sample.{mark}",
                heights_figure(nodes[(nodes["reached"] == "measured") | nodes["chosen"]], policy.node_count),
            )
        )
        yield ReportFigure(
            "Risk against loss",
            "Share of simulated adversaries at high risk against the information lost, for the whole sample.",
            frontier_figure(nodes, limit),
        )
    elif policy.kind == "flat" and "record_lattice" in tables:
        nodes = tables["record_lattice"].frame()
        yield ReportFigure(
            "The lattice", "Every generalization that the search evaluated.", heights_figure(nodes, policy.node_count)
        )


def _diagnosis(tables: dict[str, Table]) -> ReportTable | None:
    """What carries the risk at the coarsest node, if no node passes."""
    if "lattice_diagnosis" not in tables or "chosen_generalization" in tables:
        return None
    rows = tables["lattice_diagnosis"].frame()
    if not len(rows):
        return None
    return ReportTable(
        "diagnosis",
        "Where the risk comes from",
        "The share at high risk at the coarsest generalization, before suppression, for the policy as it is and with "
        'changes. Rows without a result in "Would pass" were measured to locate the risk, and not tried. For a change that '
        'passed, "Left out" shows the share of the sampled members who were left out.',
        (("Change", "name"), ("Share", "number"), ("At most", "number"), ("Left out", "number"), ("Would pass", "name")),
        tuple(
            (
                f"{row.kind} {words(row.what)}".strip(),
                shown(row.share, "share of draws"),
                shown(row.threshold, "share of draws"),
                shown(row.suppressed, "share of members") if row.would_pass else "",
                outcome_of_change(row),
            )
            for row in rows.itertuples()
        ),
    )
