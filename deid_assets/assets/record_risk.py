"""Class sizes of a flat release, as evidence for the gate, which measures the staged rows again."""

import dagster as dg
import pandas as pd

from deid_assets.assessments import measure
from deid_assets.assessments.canaries import canaries_measurement
from deid_assets.assessments.evidence import Evidence, Measurement, to_frame
from deid_assets.assessments.flat_table import population_of
from deid_assets.assets.measured import measured_metadata
from deid_assets.assets.planted_records import records_of_canaries
from deid_assets.assets.stage_asset import stage_asset
from deid_assets.methods.flat import queries
from deid_assets.policy.flat import FlatPolicy
from deid_assets.resources import Policies
from deid_assets.stages import METHOD_VERSIONS
from deid_assets.store.digests import tables_digest
from deid_assets.store.tables import Table


@stage_asset(policy_sections=["population", "risk"], version=METHOD_VERSIONS["record_risk"])
def record_risk(
    context: dg.AssetExecutionContext,
    records: Table,
    record_domains: Table,
    record_generalization: Table,
    release_records: Table,
    policies: Policies,
) -> pd.DataFrame:
    """Evidence: the size of the smallest class of the candidate release, and the share of records left out."""
    policy = policies.of(context, FlatPolicy)
    levels = levels_of(policy, record_generalization)
    measured = measured_risk(policy, release_records, records, record_domains, levels)
    canaries = records_of_canaries(
        levels,
        {"records": records, "record_domains": record_domains, "release_records": release_records},
        population_of(policy, records),
        lambda planted: measured_risk(
            policy, planted["release_records"], planted["records"], planted["record_domains"], levels
        ),
    )
    measured += (canaries_measurement(canaries),)
    evidence = Evidence(
        "record_risk", context.partition_key, policy.hash, tables_digest({"release_records": release_records}),
        METHOD_VERSIONS["record_risk"], measured,
    )  # fmt: skip
    context.add_output_metadata(measured_metadata(measured) | {"evidence_digest": evidence.digest()})
    return to_frame([evidence])


def levels_of(policy: FlatPolicy, chosen: Table) -> dict[str, int]:
    """The level of every quasi-identifier in the release."""
    levels = chosen.frame().set_index("column")["level"]
    return {qi.release_as: int(levels[qi.release_as]) for qi in policy.quasi_identifiers}


def measured_risk(
    policy: FlatPolicy, released: Table, records: Table, domains: Table, levels: dict[str, int]
) -> tuple[Measurement, ...]:
    """The smallest class of the given rows, counted in them or in the population, and the share of suppressed records."""
    population = population_of(policy, records)
    hiding = released.sql if population is None else f"({queries.generalized_records(population, domains, levels)})"
    sized = queries.class_sizes(released.sql, hiding, list(levels))
    found = released.query(f"SELECT min(class_size) AS smallest, count(*) AS n FROM ({sized})").iloc[0]
    delivered, n = records.count(), int(found["n"])
    smallest = int(found["smallest"]) if n else None
    beyond = None
    if population is not None:
        # A population that lacks the records hides nobody, however large its classes are.
        classes = queries.classes_beyond(released.sql, hiding, list(levels))
        beyond = int(released.query(f"SELECT coalesce(sum(beyond), 0) AS n FROM ({classes})")["n"].iloc[0])
    return measure.flat_measurements(policy, smallest, (delivered - n) / delivered, delivered, beyond)
