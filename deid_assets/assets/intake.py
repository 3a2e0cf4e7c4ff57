"""Intake: convert a delivery to the canonical tables, through its adapter; rows that break a rule are quarantined."""

from collections.abc import Mapping

from deid_assets.assets.step import Step
from deid_assets.assets.taking_in import Read, intake_assets
from deid_assets.policy.models import Policy
from deid_assets.reference.groups import known_codes
from deid_assets.sources.intake import Reading, read_delivery
from deid_assets.store.tables import Table

_DESCRIPTIONS = {
    "members": "One row per delivered member: the population in which risk is measured.",
    "claims": "The claims of the delivered members, in canonical form.",
    "quarantined_rows": "Rows of the delivery that break a rule, with the rule's name; restricted.",
    "delivered_codes": "How many codes of each column the delivery contains, and how many cannot be read.",
}


@intake_assets(_DESCRIPTIONS, ["source", "intake", "columns"], "6")
def intake(step: Step[Policy], tables: Mapping[str, Table]) -> Read:
    """Read the delivery, apply the row-level rules, and write the canonical tables."""
    policy = step.policy
    reading = Reading(
        step.workplace.as_delivered(policy.source),
        policy.intake.quarantine_at_most,
        policy.columns.declared,
        policy.diagnosis_codes,
    )
    log = step.context.log
    report = read_delivery(tables["members"].file, step.delivery, reading, known_codes, progress=lambda text: log.info(text))
    metadata = {name: report.metadata(name) for name in tables}
    if report.warnings:
        metadata["members"] |= {"notice": "; ".join(report.warnings)}
    return report.digest, metadata
