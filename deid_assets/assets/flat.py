"""A flat table from its delivery to the gated release: k-anonymity or k-map at the least loss (methods#flat-tables)."""

from collections.abc import Mapping

import dagster as dg
import numpy as np
import pandas as pd

from deid_assets.assessments import measure
from deid_assets.assessments.detail import detail_measurements, detail_refusals
from deid_assets.assessments.evidence import Context, Evidence, Refusal, judge
from deid_assets.assets.certificates import certificate_refusals, flat_certificate
from deid_assets.assets.described import described_records
from deid_assets.assets.flat_attributes import attribute_leaks
from deid_assets.assets.flat_intake import population_of, population_refusals
from deid_assets.assets.flat_report import flat_report
from deid_assets.assets.public_cells import shape, shapes_of_measurements
from deid_assets.assets.publishing import Passed, common_refusals, publish, read_evidence, refusal, releases_of
from deid_assets.assets.record_risk import levels_of, measured_risk
from deid_assets.assets.stage_asset import stage_asset
from deid_assets.figures.figures import frontier_figure, heights_figure, markdown_image
from deid_assets.methods.counts.protected_counts import TOO_SMALL, CountNoise, shown_if_large
from deid_assets.methods.flat import queries
from deid_assets.methods.flat.classes import FlatTable
from deid_assets.methods.flat.search import (
    FlatResult,
    average_class_size,
    entropy_losses,
    precision_losses,
    search_flat_table,
    search_flat_table_by_classes,
)
from deid_assets.methods.lattice.certificate import rounding_step
from deid_assets.methods.lattice.information_loss import information_kept, monotone_discernibility
from deid_assets.methods.lattice.predictive_tagging import node_text, parse_node
from deid_assets.methods.population.encoding import domains_of, record_codes
from deid_assets.methods.population.value_domains import distinct_values, value_domain
from deid_assets.policy.flat import FlatPolicy
from deid_assets.release.gate import judgement
from deid_assets.release.gate.cross_check import SCHEMA
from deid_assets.release.manifest.dictionary import FILE as DICTIONARY
from deid_assets.release.manifest.dictionary import dictionary
from deid_assets.release.manifest.public_numbers import AttritionStep
from deid_assets.release.publication.publish import Staging
from deid_assets.resources import Policies, Workplace
from deid_assets.schemas.contract import violations
from deid_assets.schemas.flat import release_records_contract
from deid_assets.sources.flat import RECORDS
from deid_assets.stages import FLAT_STAGES, METHOD_VERSIONS
from deid_assets.store.digests import tables_digest
from deid_assets.store.tables import Table, connect, drop_schema


@stage_asset(policy_sections=["quasi_identifiers", "hierarchies", "population"])
def record_domains(context: dg.AssetExecutionContext, records: Table, policies: Policies) -> pd.DataFrame:
    """Every value of every quasi-identifier, numbered, with its label and class at every level."""
    return domains_frame(policies.of(context, FlatPolicy), records)


def domains_frame(policy: FlatPolicy, records: Table) -> pd.DataFrame:
    """Number the values of the records, and of the population if there is one."""
    population = population_of(policy, records)
    frames = []
    for qi in policy.quasi_identifiers:
        hierarchy = policy.hierarchy(qi.hierarchy)
        found = set(distinct_values(records, qi.release_as))
        if population is not None:
            found |= set(distinct_values(population, qi.release_as))
        values = sorted(found)
        hierarchy.check(values, qi.column)
        labels = [hierarchy.labels(values, level) for level in range(hierarchy.levels)]
        missing = [hierarchy.missing_label(level) for level in range(hierarchy.levels)]
        frames.append(
            value_domain(qi.release_as, values, labels, hierarchy.codes(values), with_missing=True, missing_labels=missing)
        )
    return pd.concat(frames, ignore_index=True)


@stage_asset(policy_sections=["quasi_identifiers", "hierarchies", "population", "risk"], kinds=("duckdb", "numpy"))
def record_lattice(
    context: dg.AssetExecutionContext, records: Table, record_domains: Table, policies: Policies
) -> pd.DataFrame:
    """Every node that the search evaluated: loss, share of records in small classes, and whether it is chosen."""
    policy = policies.of(context, FlatPolicy)
    table = flat_table(policy, records, record_domains)
    found = search(policy, table)
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


@stage_asset(policy_sections=["quasi_identifiers", "hierarchies", "risk"])
def record_generalization(
    context: dg.AssetExecutionContext,
    records: Table,
    record_domains: Table,
    record_lattice: Table,
    policies: Policies,
    workplace: Workplace,
) -> pd.DataFrame:
    """The node of least loss at which few enough records are in small classes: one row per quasi-identifier."""
    policy = policies.of(context, FlatPolicy)
    chosen = record_lattice.query(f"SELECT * FROM {record_lattice.sql} WHERE chosen")
    if not len(chosen):
        least = float(record_lattice.query(f"SELECT min(share) AS least FROM {record_lattice.sql}")["least"].iloc[0])
        raise dg.Failure(
            f"refused: even at the coarsest node {_about(least, policy.risk.max_suppressed, records.count())} in classes of "
            f"fewer than {policy.risk.k}, and at most {policy.risk.max_suppressed:g} may be suppressed: list fewer "
            "quasi-identifiers, add a coarser level to a hierarchy, or allow more "
            f"suppression{_of_blanks(context, policy, records, record_domains, workplace)}",
            metadata={"refused": True},
            allow_retries=False,
        )
    node = parse_node(chosen["node"].iloc[0])
    names = [qi.release_as for qi in policy.quasi_identifiers]
    level_names = [
        policy.hierarchy(qi.hierarchy).level_names[level] for qi, level in zip(policy.quasi_identifiers, node, strict=True)
    ]
    context.add_output_metadata({"node": chosen["node"].iloc[0], "loss": float(chosen["loss"].iloc[0])})
    return pd.DataFrame({"column": names, "level": np.array(node, dtype=np.int32), "level_name": level_names}).astype(
        {"column": "str", "level_name": "str"}
    )


@stage_asset(policy_sections=["population", "risk"])
def suppressed_records(
    context: dg.AssetExecutionContext,
    records: Table,
    record_domains: Table,
    record_generalization: Table,
    policies: Policies,
) -> str:
    """Numbers of the records in classes below k at the chosen node, which are not released (local suppression)."""
    policy = policies.of(context, FlatPolicy)
    levels = levels_of(policy, record_generalization)
    return queries.small_records(records, population_of(policy, records), record_domains, levels, policy.risk.k)


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
    return release_query(policies.of(context, FlatPolicy), records, suppressed_records, record_domains, record_generalization)


@stage_asset(
    policy_sections=["recipients", "risk", "attributes", "reviewed_attributes", "detail_at_least"],
    kinds=("duckdb", "parquet", "csv"),
    op_name="flat_release",
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
    record_risk: Table,
    record_attribute_disclosure: Table,
    policies: Policies,
    workplace: Workplace,
) -> pd.DataFrame:
    """The published table: staged, measured again, judged, and renamed into place. Or a refusal with its reasons."""
    policy = policies.of(context, FlatPolicy)
    releases = releases_of(workplace)
    with releases.stage(policy.name) as staging:
        try:
            staged = _stage(staging, release_records)
            digest = tables_digest({"release_records": staged})
            evidence, refusals = read_evidence((record_risk, record_attribute_disclosure))
            refusals += common_refusals(context, policy, workplace, records.file, evidence, (RECORDS,))
            refusals += population_refusals(context, population_of(policy, records), workplace)
            expected = release_query(policy, records, suppressed_records, record_domains, record_generalization)
            refusals += _row_refusals(policy, staged, expected)
            bound_to = Context(
                context.partition_key, policy.hash, dict.fromkeys(FLAT_STAGES["assessment"], digest), METHOD_VERSIONS
            )
            refusals += judge(evidence, measure.required_of_flat(policy), bound_to)
            levels = levels_of(policy, record_generalization)
            measured = measured_risk(policy, staged, records, record_domains, levels)
            refusals += judgement.measurement_refusals("gate", measured)
            leaks, leaking = attribute_leaks(policy, staged, records, suppressed_records, record_domains, record_generalization)
            refusals += leaking
            chosen, table = (
                tuple(levels[qi.release_as] for qi in policy.quasi_identifiers),
                flat_table(policy, records, record_domains),
            )
            detail = detail_measurements(kept_information(policy, table, levels), policy.detail_at_least, staged.count())
            refusals += detail_refusals(detail)
            proof = flat_certificate(policy, record_lattice, chosen, records.count(), level_losses(policy, table))
            refusals += [*certificate_refusals(proof), *staging.refusals()]
            if refusals:
                raise refusal(refusals)
            staging.write_json(DICTIONARY, dictionary(described_records(policy, levels, staged)))
            every = (*evidence, Evidence("gate", context.partition_key, policy.hash, digest, "2", (*measured, *detail, *leaks)))
            usable = shape(policy, "source", "quasi_identifiers", "attributes", "hierarchies")
            attrition = (
                AttritionStep(
                    "delivered_records",
                    "records",
                    records.count() + _rejected(quarantined_records),
                    shape=shape(policy, "source"),
                ),
                AttritionStep("records", "records", records.count(), "delivered_records", "rows in quarantine", shape=usable),
                AttritionStep("released_records", "records", staged.count(), "records", "classes below k", "data/Records.csv"),
            )
            passed = Passed(
                every,
                attrition,
                proof,
                counts_people=True,
                shapes=shapes_of_measurements(policy, workplace.delivery(context.partition_key), levels),
                report=lambda public: flat_report(policy, public, levels, record_lattice.frame()),
                # Records have no identifier by which releases could be compared.
                still_so=lambda: True,
                member_tags=b"",
                roll=b"",
                removal_digest="",
                tried=None,
            )
            return publish(context, policy, workplace, releases, staging, passed)
        finally:
            drop_schema(records.file, SCHEMA)


def flat_table(policy: FlatPolicy, records: Table, domains: Table) -> FlatTable:
    """The records, and the population if there is one, as input of the search."""
    names = [qi.release_as for qi in policy.quasi_identifiers]
    population = population_of(policy, records)
    return FlatTable(
        record_codes(records, domains, names),
        domains_of(domains, names),
        None if population is None else record_codes(population, domains, names),
    )


LEVEL_LOSSES = {"entropy": entropy_losses, "precision": precision_losses}
CLASS_LOSSES = {
    "average_class_size": average_class_size,
    "discernibility": lambda classes: monotone_discernibility(classes.released),
}
"""Losses that depend on the levels of a node only, and those that depend on its classes."""

LOSS_LABELS = {
    "entropy": "non-uniform entropy [bits]",
    "precision": "loss of precision (Prec)",
    "average_class_size": "records of a class, on average",
    "discernibility": "discernibility (DM*) [records²]",
}


def level_losses(policy: FlatPolicy, table: FlatTable) -> tuple[np.ndarray, ...] | None:
    """For each quasi-identifier, the loss at each of its levels; None if the loss depends on classes."""
    kind = policy.risk.loss
    return LEVEL_LOSSES[kind](table) if kind in LEVEL_LOSSES else None


def kept_information(policy: FlatPolicy, table: FlatTable, levels: Mapping[str, int]) -> dict[str, float]:
    """The share of information that each generalized column keeps at its level, over the delivered records."""
    places = {qi.release_as: place for place, qi in enumerate(policy.quasi_identifiers)}
    return {
        name: float(
            information_kept(
                np.bincount(table.codes[:, places[name]], minlength=table.domains[places[name]].sizes[0]),
                table.domains[places[name]],
            )[levels[name]]
        )
        for name in policy.generalized
    }


def search(policy: FlatPolicy, table: FlatTable) -> FlatResult:
    """The best node, and every evaluated node."""
    risk = policy.risk
    losses = level_losses(policy, table)
    if losses is not None:
        return search_flat_table(table, risk.k, risk.max_suppressed, losses)
    return search_flat_table_by_classes(table, risk.k, risk.max_suppressed, CLASS_LOSSES[risk.loss])


def nodes_frame(found: FlatResult, names: list[str], records: int) -> pd.DataFrame:
    """Every evaluated node as a row."""
    rows = [
        {
            "node": node_text(node),
            **{f"level_of_{name}": level for name, level in zip(names, node, strict=True)},
            "height": sum(node),
            "loss": float(found.losses[node]),
            "share": below / records,
            "decision": "candidate" if below <= found.allowed else "not_candidate",
            "chosen": node == found.node,
        }
        for node, below in found.evaluated.items()
    ]
    return pd.DataFrame(rows).astype({"node": "str", "decision": "str"})


def release_query(policy: FlatPolicy, records: Table, suppressed: Table, domains: Table, chosen: Table) -> str:
    """SELECT the rows to be published from the restricted store."""
    others = [column.release_as for column in policy.attributes]
    neutralize = policy.formulas == "neutralize"
    return queries.released_records(records, suppressed, domains, levels_of(policy, chosen), others, neutralize)


def _of_blanks(
    context: dg.AssetExecutionContext, policy: FlatPolicy, records: Table, domains: Table, workplace: Workplace
) -> str:
    """Which columns keep records in small classes at the coarsest node because they are blank; blanks join no class there.

    The number of blanks is a protected count.
    """
    tops = {qi.release_as: policy.hierarchy_of(qi.release_as).levels - 1 for qi in policy.quasi_identifiers}
    alone = queries.small_records(records, population_of(policy, records), domains, tops, policy.risk.k)
    own = [name for name, top in tops.items() if policy.hierarchy_of(name).missing_label(top) is None]
    blanks = queries.blanks(records, own)
    held_up = [name for name, count in blanks.items() if count and queries.blanks(records, [name], among=alone)[name]]
    if not held_up:
        return ""
    delivery = workplace.delivery(context.partition_key)
    noise = CountNoise(workplace.secret().derive("protected counts"), delivery.digest())
    counted = []
    for qi in policy.quasi_identifiers:
        if qi.release_as in held_up:
            cell = {"cell": f"blanks/{qi.column}", "shape": shape(policy, "source")}
            noisy = noise.protect(cell, blanks[qi.release_as])
            shown = shown_if_large(f"about {noisy:,}", noisy)
            counted.append(f"{qi.column} ({'few' if shown == TOO_SMALL else shown})")
    return (
        f". In the columns {', '.join(counted)} blanks are classes of their own, also at the coarsest level: set "
        "`missing_joins: LEVEL` in the hierarchy, where LEVEL is a single class such as *, to put them into that class"
    )


def _about(share: float, threshold: float, records: int) -> str:
    """A share of records above the threshold, as precisely as it may be disclosed: rounded, or omitted.

    Examples
    --------
    >>> _about(0.0312, 0.01, 5_000), _about(0.0312, 0.01, 40), _about(0.0012, 0.001, 5_000)
    ('a share of about 0.03 of the records is', 'too many records are', 'too many records are')
    """
    step = rounding_step(records)
    told = round(share / step) * step
    return f"a share of about {told:.3g} of the records is" if step <= 0.1 and told > threshold else "too many records are"


def _stage(staging: Staging, candidate: Table) -> Table:
    """Write the files, and read them back into the scratch schema."""
    with connect(candidate.file) as connection:
        staging.write_table(connection, "Records", candidate)
    staged = Table(candidate.file, SCHEMA, "staged_release_records")
    staging.read_into("Records", staged)
    return staged


def _row_refusals(policy: FlatPolicy, staged: Table, expected: str) -> list[Refusal]:
    """Check the staged rows against their contract and the restricted store."""
    found = []
    for rule, rows in violations(staged, release_records_contract(policy)).items():
        text = f"release_records: the staged rows break the contract, {rule}"
        found.append(Refusal("broken_contract", "release_records", float(rows), 0.0, text, "rows"))
    rows = int(staged.query(judgement.either_way(f"SELECT * FROM {staged.sql}", f"SELECT * FROM ({expected})"))["n"].iloc[0])
    if rows:
        text = "release_records: the staged rows differ from those that the restricted store gives"
        found.append(Refusal("inconsistent_rows", "release_records", float(rows), 0.0, text, "rows"))
    return found


def _rejected(quarantined: Table) -> int:
    return int(quarantined.query(f"SELECT count(*) AS n FROM {quarantined.sql} WHERE source_table = '{RECORDS}'")["n"].iloc[0])
