"""Intake of a cohort, and of the table of the population in which its classes are counted."""

from collections.abc import Iterator

import dagster as dg

from deid_assets.assets.stage_asset import asset_metadata, guarded, own_key, stage_assets
from deid_assets.assets.taking_in import data_version_of, require_known_opt_outs
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.resources import Policies, Workplace, sibling
from deid_assets.sources.cohort import PEOPLE, POPULATION, QUARANTINED, PopulationSource, read_cohort_delivery
from deid_assets.store import durable
from deid_assets.store.tables import write_table

_INTAKE = ["source", "intake", "columns", "population", "attributes", "opt_outs"]
_DESCRIPTIONS = {
    PEOPLE: "The people of the cohort with their demographics and attributes, numbered in the order of the file.",
    QUARANTINED: "Rows that could not be used, with the rules that they break; restricted.",
    POPULATION: "The table of the population: people by place, sex, race and ages.",
}


@stage_assets(
    {
        name: {"description": text, "metadata": asset_metadata(name, _INTAKE, "1"), "kinds": {"duckdb"}}
        for name, text in _DESCRIPTIONS.items()
    }
)
def cohort_intake(context: dg.AssetExecutionContext, policies: Policies, workplace: Workplace) -> Iterator[dg.Output[object]]:
    """Read the delivered cohort, and the population's table that the policy names."""
    policy = policies.of(context, CohortPolicy)
    delivery = workplace.delivery(context.partition_key)
    tables = {name: workplace.table(sibling(own_key(context), name), context.partition_key) for name in _DESCRIPTIONS}
    folder = durable.owner_only(tables[PEOPLE].file.parent)
    own = policy.population
    source = PopulationSource(
        own.kind,
        own.files,
        own.count,
        None if own.race_shares is None else own.race_shares.file,
        None if own.race_shares is None else own.race_shares.year,
    )
    with guarded(context):
        read = read_cohort_delivery(
            delivery,
            policy.source.file,
            policy.layout,
            source,
            folder,
            policy.intake.quarantine_at_most,
            policy.opt_outs.people,
        )
        days = {name: read.cohort.people[name].dt.date for name in policy.layout.dates}
        write_table(tables[PEOPLE], read.cohort.people.assign(**days))
        write_table(tables[QUARANTINED], read.cohort.unusable)
        write_table(tables[POPULATION], read.population.people.assign(note="; ".join(read.population.warnings)))
        require_known_opt_outs(context, policy, workplace, read.cohort.left_out)
    version = data_version_of(context, policy, workplace, delivery, read.digest)
    said = {
        PEOPLE: read.cohort.report.metadata(),
        QUARANTINED: {"rows": len(read.cohort.unusable)},
        POPULATION: {"people": read.population.total(), "warnings": list(read.population.warnings)},
    }
    for name, table in tables.items():
        yield dg.Output(table, output_name=name, metadata=said[name], data_version=version)
