"""A flat table from its delivery to the gated release: k-anonymity or k-map at the least loss (methods#flat-tables)."""

import dagster as dg
import pandas as pd

from deid_assets.assessments.attribute_leaks import record_leaks
from deid_assets.assessments.detail import detail_measurements, detail_refusals
from deid_assets.assessments.evidence import Evidence, Refusal
from deid_assets.assessments.flat_refusal import why_no_node_passes, why_pinned_fails
from deid_assets.assessments.flat_table import (
    LOSS_LABELS,
    blanks_in_small_classes,
    chosen_frame,
    flat_table,
    highest_levels,
    kept_by_level,
    level_losses,
    level_names_of,
    pinned_node,
    population_of,
    search,
)
from deid_assets.assessments.record_cross_release_risk import (
    earlier_of,
    linked_refusals,
    linked_to_leave_out,
    not_compared,
    people_of_records,
)
from deid_assets.assessments.record_risk import levels_of, measured_risk
from deid_assets.assessments.registry import FLAT
from deid_assets.assets.assessment import assessment_asset
from deid_assets.assets.counts import ReleasedCounts, count_assets, delivery_noise
from deid_assets.assets.flat_intake import population_refusals
from deid_assets.assets.one_table import KnownPeople, StagedCounts, made_of_the_same_inputs, released_differently, stage_table
from deid_assets.assets.published_tables import Made
from deid_assets.assets.publishing import (
    common_refusals,
    last_levels,
    publish,
    read_evidence,
    refusal,
    releases_of,
    repeat_if_overtaken,
    tell_witnesses,
    telling_changed_policies,
)
from deid_assets.assets.stage_asset import guarded, shapes_of, stage_asset
from deid_assets.figures.lattice_figures import frontier_figure, heights_figure
from deid_assets.figures.rendering import markdown_image
from deid_assets.methods.counts.tables import CellName
from deid_assets.methods.flat import queries
from deid_assets.methods.flat.search import nodes_frame
from deid_assets.methods.lattice.predictive_tagging import parse_node
from deid_assets.policy.domains import record_domains_of
from deid_assets.policy.flat import FlatPolicy
from deid_assets.release.counts.kinds import FLAT as COUNTING
from deid_assets.release.counts.noise import Plan
from deid_assets.release.flat_rows import release_query, row_refusals
from deid_assets.release.gate import judgement
from deid_assets.release.gate.cross_check import SCHEMA
from deid_assets.release.manifest.dictionary import described_records
from deid_assets.release.manifest.optimality import certificate_refusals, flat_certificate
from deid_assets.release.public_cells import shape
from deid_assets.release.published_tables import RECORDS as RECORDS_FILE
from deid_assets.release.recurring_rows import Delivered, recurring_refusals
from deid_assets.release.registry.noise_charges import NoisyPublication
from deid_assets.reports.flat_report import flat_report
from deid_assets.resources import Policies, Workplace, ended_in
from deid_assets.sources.flat import RECORDS
from deid_assets.stages import before_release, stages_of_kind
from deid_assets.store.digests import tables_digest
from deid_assets.store.tables import Table, drop_schema


@stage_asset(policy_sections=["quasi_identifiers", "hierarchies", "population"])
def record_domains(context: dg.AssetExecutionContext, records: Table, policies: Policies) -> pd.DataFrame:
    """Every value of every quasi-identifier, numbered, with its label and class at every level."""
    policy = policies.of(context, FlatPolicy)
    return record_domains_of(policy, records, population_of(policy, records))


@stage_asset(
    policy_sections=[
        "quasi_identifiers",
        "hierarchies",
        "population",
        "risk",
        "releases",
        "detail_at_least",
        "publish_however_coarse",
    ],
    version="2",
    kinds=("duckdb", "numpy"),
)
def record_lattice(
    context: dg.AssetExecutionContext, records: Table, record_domains: Table, policies: Policies, workplace: Workplace
) -> pd.DataFrame:
    """Every node that the search evaluated: loss, share of records in small classes, and whether it is chosen."""
    policy = policies.of(context, FlatPolicy)
    table = flat_table(policy, records, record_domains)
    pinned = None
    if policy.releases.generalization == "pinned":
        with guarded(context):
            pinned = pinned_node(policy, last_levels(workplace, policy))
    tops = highest_levels(policy, table, kept_by_level(policy, table, records))
    found = search(policy, table, tops, pinned)
    names = [qi.release_as for qi in policy.quasi_identifiers]
    nodes = nodes_frame(found, names, table.records)
    label = LOSS_LABELS[policy.risk.loss]
    figures = nodes.assign(lower=nodes["share"], upper=nodes["share"], reached="measured")
    context.add_output_metadata(
        {
            "nodes": policy.node_count,
            "nodes_evaluated": len(nodes),
            "threshold": policy.risk.max_suppressed,
            "k": policy.risk.k,
            "lattice": dg.MetadataValue.md(
                markdown_image(heights_figure(nodes, policy.node_count, label), "nodes by height and loss, by decision")
            ),
            "frontier": dg.MetadataValue.md(
                markdown_image(
                    frontier_figure(figures, policy.risk.max_suppressed, "records in small classes", label),
                    "loss against share of records in small classes",
                )
            ),
        }
    )
    return nodes


@stage_asset(
    policy_sections=["quasi_identifiers", "hierarchies", "risk", "counts", "detail_at_least", "publish_however_coarse"],
    version="2",
)
def record_generalization(
    context: dg.AssetExecutionContext,
    records: Table,
    record_domains: Table,
    record_lattice: Table,
    policies: Policies,
    workplace: Workplace,
) -> pd.DataFrame:
    """The node of least loss with enough detail and few enough records in small classes: one row per quasi-identifier."""
    policy = policies.of(context, FlatPolicy)
    nodes = record_lattice.frame()
    chosen = nodes[nodes["chosen"]]
    if not len(chosen) and (nodes["decision"] == "candidate").any():
        # Only a pinned generalization passes over a node that passes.
        levels = ", ".join(f"{name}: {level}" for name, level in (last_levels(workplace, policy) or {}).items())
        raise dg.Failure(f"refused: {why_pinned_fails(policy, levels)}", metadata={"refused": True}, allow_retries=False)
    if not len(chosen):
        blanks = blanks_in_small_classes(policy, records, record_domains)
        plan = Plan(delivery_noise(policy, workplace, context.partition_key))
        cells = {
            qi.release_as: (CellName("blanks", qi.column, "records"), shape(policy, "source"), blanks[qi.release_as])
            for qi in policy.quasi_identifiers
            if qi.release_as in blanks
        }
        for cell in cells.values():
            plan.note(*cell)
        releases = releases_of(workplace)
        releases.charge(NoisyPublication(policy.counts, plan.cells, ()))
        tell_witnesses(releases)
        noisy = {name: plan.protect(*cell) for name, cell in cells.items()}
        raise dg.Failure(
            f"refused: {why_no_node_passes(policy, float(nodes['share'].min()), records.count(), noisy)}",
            metadata={"refused": True},
            allow_retries=False,
        )
    node = chosen["node"].iloc[0]
    context.add_output_metadata({"node": node, "loss": float(chosen["loss"].iloc[0])})
    return chosen_frame(policy, parse_node(node))


@stage_asset(policy_sections=["population", "risk", "source"])
def suppressed_records(
    context: dg.AssetExecutionContext,
    records: Table,
    record_domains: Table,
    record_generalization: Table,
    policies: Policies,
    workplace: Workplace,
) -> pd.DataFrame:
    """Numbers of the records that are not released (local suppression).

    Those in classes below k at the chosen node and, beside earlier releases of the same people, those of people who would stand
    out.
    """
    policy = policies.of(context, FlatPolicy)
    levels = levels_of(policy, record_generalization)
    small = records.query(queries.small_records(records, population_of(policy, records), record_domains, levels, policy.risk.k))
    earlier = workplace.earlier_of(context.partition_key)
    nobody = Table(records.file, "scratch", "small_records")
    table = people_of_records(policy, records, nobody, record_domains, levels)
    return linked_to_leave_out(policy, table, small, earlier, workplace.tags_in_order)


@stage_asset(policy_sections=["quasi_identifiers", "attributes", "formulas"])
def release_records(
    context: dg.AssetExecutionContext,
    records: Table,
    record_domains: Table,
    record_generalization: Table,
    suppressed_records: Table,
    policies: Policies,
) -> str:
    """Records as they would be published."""
    policy = policies.of(context, FlatPolicy)
    return release_query(policy, records, suppressed_records, record_domains, levels_of(policy, record_generalization))


COUNTS = count_assets(COUNTING)

ASSESSMENTS = [assessment_asset(one, "flat") for one in FLAT]


@stage_asset(
    policy_sections=[
        "recipients",
        "risk",
        "attributes",
        "counts",
        "reviewed_attributes",
        "detail_at_least",
        "publish_however_coarse",
        "releases",
    ],
    kinds=("duckdb", "parquet", "csv"),
    of_kind="flat",
    stages=before_release(stages_of_kind("flat")),
)
def release(
    context: dg.AssetExecutionContext,
    records: Table,
    quarantined_records: Table,
    record_domains: Table,
    record_lattice: Table,
    record_generalization: Table,
    suppressed_records: Table,
    release_records: Table,
    published_counts: Table,
    record_risk: Table,
    record_attribute_disclosure: Table,
    record_cross_release_risk: Table,
    count_disclosure_audit: Table,
    policies: Policies,
    workplace: Workplace,
) -> Made | None:
    """The published table: staged, measured again, judged, and renamed into place. Or a refusal with its reasons."""
    policy = policies.of(context, FlatPolicy)
    releases = releases_of(workplace)
    with releases.stage(policy.name) as staging, telling_changed_policies(context, policy, workplace):
        try:
            staged = stage_table(staging, RECORDS_FILE, release_records, [column.release_as for column in policy.columns])
            digest = tables_digest({"release_records": staged})
            counted_in = (records, quarantined_records, record_generalization, suppressed_records, release_records)
            counts = ReleasedCounts.of(policy, workplace, context.partition_key, {table.name: table for table in counted_in})
            of_counts = StagedCounts.of(counts, staging, published_counts)
            evidence, refusals = read_evidence(
                (record_risk, record_attribute_disclosure, record_cross_release_risk, count_disclosure_audit)
            )
            refusals += of_counts.refusals
            refusals += common_refusals(context, policy, workplace, records.file, evidence, (RECORDS,))
            refusals += population_refusals(context, population_of(policy, records), workplace)
            levels = levels_of(policy, record_generalization)
            expected = release_query(policy, records, suppressed_records, record_domains, levels)
            refusals += row_refusals(policy, staged, expected)
            refusals += judgement.evidence_refusals(policy, context.partition_key, evidence, digest)
            measured = (*measured_risk(policy, staged, records, record_domains, levels), *of_counts.measured)
            refusals += judgement.measurement_refusals("gate", measured)
            leaks, leaking = record_leaks(policy, staged, records, suppressed_records, record_domains, record_generalization)
            refusals += leaking
            chosen, table = (
                tuple(levels[qi.release_as] for qi in policy.quasi_identifiers),
                flat_table(policy, records, record_domains),
            )
            by_level = kept_by_level(policy, table, records)
            kept = {name: float(shares[levels[name]]) for name, shares in by_level.items()}
            detail = detail_measurements(kept, policy.detail_at_least, staged.count(), policy.publish_however_coarse)
            refusals += detail_refusals(detail)
            losses, tops = level_losses(policy, table), highest_levels(policy, table, by_level)
            proof = flat_certificate(policy, record_lattice, chosen, records.count(), losses, tops)
            table_of_people = people_of_records(policy, records, suppressed_records, record_domains, levels)
            released = table_of_people.released_tags(workplace.tags_in_order)
            level_names = level_names_of(policy, levels)

            def beside_earlier_releases() -> list[Refusal]:
                known, same = (
                    workplace.earlier_of(context.partition_key),
                    made_of_the_same_inputs(context, policy, workplace),
                )
                linked = linked_refusals(policy, evidence, known, released, same)
                recurring = recurring_refusals(
                    policy.releases,
                    staged,
                    workplace.home.releases,
                    earlier_of(policy, known, released).of_others,
                    None,
                    Delivered(records, workplace.stores_of_releases(), context.run.run_id, ended_in(context.instance)),
                )
                return [*released_differently(context, policy, workplace), *linked, *recurring]

            refusals += [*certificate_refusals(proof), *beside_earlier_releases(), *staging.refusals()]
            if refusals:
                repeat_if_overtaken(context, refusals)
                raise refusal(refusals)
            of_counts.write_dictionary(staging, described_records(policy, levels, staged))
            every = (*evidence, Evidence("gate", context.partition_key, policy.hash, digest, "3", (*measured, *detail, *leaks)))
            passed = of_counts.passed(
                every,
                proof,
                shapes_of(policy, workplace.delivery(context.partition_key), levels),
                lambda public: flat_report(policy, public, levels, record_lattice.frame()),
                lambda: not beside_earlier_releases(),
                KnownPeople.of(table_of_people, released, workplace.tags_in_order),
                level_names,
                not_compared(policy, workplace.earlier_of(context.partition_key), released),
            )
            return publish(context, policy, workplace, releases, staging, passed)
        finally:
            drop_schema(records.file, SCHEMA)
            drop_schema(records.file, "scratch")
