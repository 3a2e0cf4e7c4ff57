"""What the equivalence classes of a flat release disclose about its attributes, as evidence for the gate."""

import dagster as dg
import pandas as pd

from deid_assets.assessments import disclosure as measures
from deid_assets.assessments.canaries import canaries_measurement
from deid_assets.assessments.evidence import Evidence, to_frame
from deid_assets.assets.attribute_disclosure import attribute_metadata, ordered_ranks
from deid_assets.assets.measured import measured_metadata
from deid_assets.assets.planted_records import record_attributes_of_canaries
from deid_assets.assets.stage_asset import stage_asset
from deid_assets.methods.disclosure import attribute_disclosure as attributes
from deid_assets.policy.flat import FlatPolicy
from deid_assets.resources import Policies
from deid_assets.stages import METHOD_VERSIONS
from deid_assets.store.digests import tables_digest
from deid_assets.store.tables import Table


@stage_asset(
    policy_sections=["attribute_disclosure", "quasi_identifiers", "attributes"],
    version=METHOD_VERSIONS["record_attribute_disclosure"],
    kinds=("duckdb", "numpy"),
)
def record_attribute_disclosure(context: dg.AssetExecutionContext, release_records: Table, policies: Policies) -> pd.DataFrame:
    """Evidence: what the class of a released record discloses about its sensitive attributes."""
    policy = policies.of(context, FlatPolicy)
    found = {column: attribute_disclosure_of(policy, column, release_records) for column in policy.sensitive_columns}
    measured = measures.attribute_measurements(policy.attribute_disclosure, found, release_records.count())
    canaries = record_attributes_of_canaries(
        policy, release_records, lambda planted, column: attribute_disclosure_of(policy, column, planted)
    )
    measured += (canaries_measurement(canaries),)
    evidence = Evidence(
        "record_attribute_disclosure", context.partition_key, policy.hash, tables_digest({"release_records": release_records}),
        METHOD_VERSIONS["record_attribute_disclosure"], measured,
    )  # fmt: skip
    context.add_output_metadata(
        attribute_metadata(found) | measured_metadata(measured) | {"evidence_digest": evidence.digest()}
    )
    return to_frame([evidence])


def attribute_disclosure_of(policy: FlatPolicy, column: str, records: Table) -> attributes.AttributeDisclosure:
    """What equivalence classes of records disclose about one attribute."""
    classes = [qi.release_as for qi in policy.quasi_identifiers]
    ordered = column in policy.attribute_disclosure.ordered
    sql = attributes.value_counts(records.sql, classes, column)
    counts = records.query(f"SELECT *, {attributes.leading_number('value')} AS place FROM ({sql})")
    ranks = ordered_ranks(counts, column) if ordered else pd.factorize(counts["value"], use_na_sentinel=False)[0]
    return attributes.single_valued(counts["class"], ranks, counts["members"], ordered)
