"""Intake of a flat table, and of the population in which its classes are counted, if a policy names one."""

from collections.abc import Mapping

from deid_assets.assessments.evidence import Refusal
from deid_assets.assessments.flat_table import population_of
from deid_assets.assets.publishing import content_of
from deid_assets.assets.step import Step
from deid_assets.assets.taking_in import Read, intake_assets, require_known_opt_outs
from deid_assets.errors import PolicyError
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.release.event_log import edited_beside
from deid_assets.sources.flat import POPULATION, QUARANTINED, RECORDS, FlatLayout, Persons, read_flat_delivery
from deid_assets.store.tables import Table

POPULATION_CONTENT = "population_content"
"""Metadata key of the records: the keyed fingerprint of the population that was taken in with them."""

_DESCRIPTIONS = {
    RECORDS: "The records of the delivery, as text, numbered in the order of the file.",
    QUARANTINED: "Rows that could not be used, with the rule that they break; restricted.",
}


@intake_assets(
    _DESCRIPTIONS, ["source", "intake", "population", "quasi_identifiers", "attributes", "hierarchies", "opt_outs"], "1"
)
def flat_intake(step: Step[FlatPolicy], tables: Mapping[str, Table]) -> Read:
    """Read the delivered table, and the population's table if the policy names one."""
    policy, records = step.policy, tables[RECORDS]
    layout = FlatLayout(
        {column.release_as: column.column for column in policy.columns},
        {
            qi.release_as: [str(value) for value in values]
            for qi in policy.quasi_identifiers
            if (values := policy.hierarchy(qi.hierarchy).rule.all_values()) is not None
        },
        policy.source.file,
        policy.population.file if policy.population else None,
        policy.source.table,
        policy.source.delimiter,
        policy.intake.quarantine_at_most,
        [
            qi.release_as
            for qi in policy.quasi_identifiers
            if policy.hierarchies[qi.hierarchy].kind == "csv" and policy.hierarchy(qi.hierarchy).levels == 1
        ],
        persons_of(policy),
    )
    report = read_flat_delivery(records, step.delivery, layout, progress=lambda text: step.context.log.info(text))
    require_known_opt_outs(step, report.left_out)
    population = population_of(policy, records)
    # The population is not an asset of its own: its fingerprint is stored with the records, and the gate compares it.
    content = {} if population is None else {POPULATION_CONTENT: content_of(population, step.secret)}
    return report.digest, {RECORDS: report.metadata() | content, QUARANTINED: report.metadata()}


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


def population_refusals(step: Step[AnyPolicy], population: Table | None) -> list[Refusal]:
    """Refuse if classes were counted in a population other than the one that was taken in."""
    if population is None:
        return []
    key = step.sibling(RECORDS)
    content = content_of(population, step.secret)
    return edited_beside(step.instance, key, step.key, POPULATION_CONTENT, POPULATION, content)
