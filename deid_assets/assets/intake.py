"""Intake: convert a delivery to the canonical tables, through its adapter; rows that break a rule are quarantined."""

from collections.abc import Iterator

import dagster as dg

from deid_assets.assets.stage_asset import asset_metadata, guarded, own_key, stage_assets
from deid_assets.assets.taking_in import data_version_of
from deid_assets.policy.models import Policy
from deid_assets.reference.groups import known_codes
from deid_assets.resources import Policies, Workplace, sibling
from deid_assets.sources.intake import read_delivery
from deid_assets.store import durable

_SECTIONS = ["source", "intake", "columns"]


@stage_assets(
    {
        name: {"description": text, "metadata": asset_metadata(name, _SECTIONS, "6"), "kinds": {"duckdb"}}
        for name, text in (
            ("members", "One row per delivered member: the population in which risk is measured."),
            ("claims", "The claims of the delivered members, in canonical form."),
            ("quarantined_rows", "Rows of the delivery that break a rule, with the rule's name; restricted."),
            ("delivered_codes", "How many codes of each column the delivery contains, and how many cannot be read."),
        )
    }
)
def intake(context: dg.AssetExecutionContext, policies: Policies, workplace: Workplace) -> Iterator[dg.Output[object]]:
    """Read the delivery, apply the row-level rules, and write the canonical tables."""
    policy = policies.of(context, Policy)
    delivery = workplace.delivery(context.partition_key)
    tables = {
        name: workplace.table(sibling(own_key(context), name), context.partition_key)
        for name in ("members", "claims", "quarantined_rows", "delivered_codes")
    }
    file = tables["members"].file
    durable.owner_only(file.parent)
    with guarded(context):
        report = read_delivery(
            file,
            delivery,
            workplace.as_delivered(policy.source),
            policy.intake.quarantine_at_most,
            known_codes,
            progress=lambda text: context.log.info(text),
            declared=policy.columns.declared,
            diagnosis_codes=policy.diagnosis_codes,
        )
        version = data_version_of(context, policy, workplace, delivery, report.digest)
    notice = {"members": {"notice": "; ".join(report.warnings)}} if report.warnings else {}
    for name, table in tables.items():
        metadata = report.metadata(name) | notice.get(name, {})
        yield dg.Output(table, output_name=name, metadata=metadata, data_version=version)
