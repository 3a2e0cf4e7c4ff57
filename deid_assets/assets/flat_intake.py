"""Intake of a flat table, and of the population in which its classes are counted, if a policy names one."""

from collections.abc import Iterator

import dagster as dg

from deid_assets.assessments.evidence import Refusal
from deid_assets.assessments.flat_table import population_of
from deid_assets.assets.publishing import content_of
from deid_assets.assets.stage_asset import asset_metadata, guarded, own_key, stage_assets
from deid_assets.assets.taking_in import data_version_of, require_known_opt_outs
from deid_assets.errors import PolicyError
from deid_assets.policy.flat import FlatPolicy
from deid_assets.release.event_log import edited_beside
from deid_assets.resources import Policies, Workplace, sibling
from deid_assets.sources.flat import POPULATION, QUARANTINED, RECORDS, Persons, read_flat_delivery
from deid_assets.store import durable
from deid_assets.store.tables import Table

POPULATION_CONTENT = "population_content"
"""Metadata key of the records: the keyed fingerprint of the population that was taken in with them."""

_INTAKE = ["source", "intake", "population", "quasi_identifiers", "attributes", "hierarchies", "opt_outs"]


@stage_assets(
    {
        RECORDS: {
            "description": "The records of the delivery, as text, numbered in the order of the file.",
            "metadata": asset_metadata(RECORDS, _INTAKE, "1"),
            "kinds": {"duckdb"},
        },
        QUARANTINED: {
            "description": "Rows that could not be used, with the rule that they break; restricted.",
            "metadata": asset_metadata(QUARANTINED, _INTAKE, "1"),
            "kinds": {"duckdb"},
        },
    }
)
def flat_intake(context: dg.AssetExecutionContext, policies: Policies, workplace: Workplace) -> Iterator[dg.Output[object]]:
    """Read the delivered table, and the population's table if the policy names one."""
    policy = policies.of(context, FlatPolicy)
    delivery = workplace.delivery(context.partition_key)
    tables = {name: workplace.table(sibling(own_key(context), name), context.partition_key) for name in (RECORDS, QUARANTINED)}
    file = tables[RECORDS].file
    durable.owner_only(file.parent)
    with guarded(context):
        report = read_flat_delivery(
            file,
            tables[RECORDS].schema,
            delivery,
            policy.source.file,
            policy.population.file if policy.population else None,
            policy.source.table,
            policy.source.delimiter,
            {column.release_as: column.column for column in policy.columns},
            {
                qi.release_as: [str(value) for value in values]
                for qi in policy.quasi_identifiers
                if (values := policy.hierarchy(qi.hierarchy).rule.all_values()) is not None
            },
            policy.intake.quarantine_at_most,
            [
                qi.release_as
                for qi in policy.quasi_identifiers
                if policy.hierarchies[qi.hierarchy].kind == "csv" and policy.hierarchy(qi.hierarchy).levels == 1
            ],
            progress=lambda text: context.log.info(text),
            persons=persons_of(policy),
        )
        require_known_opt_outs(context, policy, workplace, report.left_out)
        version = data_version_of(context, policy, workplace, delivery, report.digest)
        population = population_of(policy, tables[RECORDS])
        # The population is not an asset of its own: its fingerprint is stored with the records, and the gate compares
        # it.
        content = {} if population is None else {POPULATION_CONTENT: content_of(population, workplace.secret())}
    for name, table in tables.items():
        beside = content if name == RECORDS else {}
        yield dg.Output(table, output_name=name, metadata=report.metadata() | beside, data_version=version)


def persons_of(policy: FlatPolicy) -> Persons | None:
    """Whose a record is; an error if somebody opted out and nothing tells which records are theirs."""
    person, opted_out = policy.source.person, policy.opt_outs.people
    if person is not None:
        return Persons(person, policy.records_per_person, opted_out)
    if opted_out.everybody:
        raise PolicyError(
            f"policy {policy.name}: people opted out of all releases of this home, and nothing tells which records are theirs: "
            "name the column that identifies a person (role direct_identifier), or release this table from a home of its own, "
            "without those who opted out"
        )
    return None


def population_refusals(context: dg.AssetExecutionContext, population: Table | None, workplace: Workplace) -> list[Refusal]:
    """Refuse if classes were counted in a population other than the one that was taken in."""
    if population is None:
        return []
    key = sibling(own_key(context), RECORDS)
    content = content_of(population, workplace.secret())
    return edited_beside(context.instance, key, context.partition_key, POPULATION_CONTENT, POPULATION, content)
