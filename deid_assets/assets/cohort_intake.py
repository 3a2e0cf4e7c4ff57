"""Intake of a cohort, and of the table of the population in which its classes are counted."""

from collections.abc import Mapping
from pathlib import Path

from deid_assets.assets.step import Step
from deid_assets.assets.taking_in import Read, intake_assets, require_known_opt_outs
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.sources.cohort import PEOPLE, POPULATION, QUARANTINED, read_cohort_delivery
from deid_assets.store.tables import Table, write_table

_DESCRIPTIONS = {
    PEOPLE: "The people of the cohort with their demographics and attributes, numbered in the order of the file.",
    QUARANTINED: "Rows that could not be used, with the rules that they break; restricted.",
    POPULATION: "The table of the population: people by place, sex, race and ages.",
}


@intake_assets(_DESCRIPTIONS, ["source", "intake", "columns", "population", "attributes", "opt_outs"], "1")
def cohort_intake(step: Step[CohortPolicy], tables: Mapping[str, Table]) -> Read:
    """Read the delivered cohort, and the population's table that the policy names."""
    policy, store = step.policy, tables[PEOPLE].file.parent
    read = read_cohort_delivery(step.delivery, policy.layout, policy.population.below(Path()), store, policy.opt_outs.people)
    days = {name: read.cohort.people[name].dt.date for name in policy.layout.dates}
    write_table(tables[PEOPLE], read.cohort.people.assign(**days))
    write_table(tables[QUARANTINED], read.cohort.unusable)
    write_table(tables[POPULATION], read.population.people.assign(note="; ".join(read.population.warnings)))
    require_known_opt_outs(step, read.cohort.left_out)
    return read.digest, {
        PEOPLE: read.cohort.report.metadata(),
        QUARANTINED: {"rows": len(read.cohort.unusable)},
        POPULATION: {"people": read.population.total(), "warnings": list(read.population.warnings)},
    }
