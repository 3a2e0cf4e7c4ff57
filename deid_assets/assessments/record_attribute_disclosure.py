"""What the equivalence classes of a flat release disclose about its attributes."""

from collections.abc import Callable

import pandas as pd

from deid_assets.assessments.assessment import Adversary, Assessed, Assessment, Work
from deid_assets.assessments.planted_members import label
from deid_assets.assessments.planting import PLAIN, plant, planted_store
from deid_assets.assessments.precedents import OWNERS_DECIDE
from deid_assets.assessments.sensitive_attributes import (
    attribute_classes,
    attribute_measurements,
    attribute_metadata,
    compared_with_certain,
    gates_of,
    ordered_ranks,
    report_table,
)
from deid_assets.methods.canaries.planting import Findings
from deid_assets.methods.disclosure import attribute_disclosure as attributes
from deid_assets.policy.flat import FlatPolicy
from deid_assets.store.tables import Table

NAME = "record_attribute_disclosure"


def assess(work: Work[FlatPolicy]) -> Assessed:
    """Evidence: what the class of a released record discloses about its sensitive attributes."""
    policy, records = work.policy, work.tables["release_records"]
    found = {column: attribute_disclosure_of(policy, column, records) for column in policy.sensitive_columns}
    measured = attribute_measurements(policy.attribute_disclosure, found, records.count())
    canaries = record_attributes_of_canaries(
        policy, records, lambda planted, column: attribute_disclosure_of(policy, column, planted)
    )
    return Assessed(measured, canaries, shown=attribute_metadata(found))


def attribute_disclosure_of(policy: FlatPolicy, column: str, records: Table) -> attributes.AttributeDisclosure:
    """What equivalence classes of records disclose about one attribute."""
    classes = [qi.release_as for qi in policy.quasi_identifiers]
    ordered = column in policy.attribute_disclosure.ordered
    sql = attributes.value_counts(records.sql, classes, column)
    counts = records.query(f"SELECT *, {attributes.leading_number('value')} AS number FROM ({sql})")
    ranks = ordered_ranks(counts, column) if ordered else pd.factorize(counts["value"], use_na_sentinel=False)[0]
    return attributes.single_valued(counts["class"], ranks, counts["members"], ordered)


def record_attributes_of_canaries(
    policy: FlatPolicy, like: Table, attack: Callable[[Table, str], attributes.AttributeDisclosure]
) -> Findings:
    """Whether every sensitive attribute is found to be disclosed by exactly the classes that disclose it."""
    columns = [qi.release_as for qi in policy.quasi_identifiers]
    rows = [
        {column: label(own.get(column, PLAIN), 0) for column in columns}
        | {attribute.release_as: str(value) for attribute in policy.attributes}
        for own, values in attribute_classes(columns)
        for value in values
    ]
    with planted_store() as file:
        records = plant(file, like, rows, "release_records")
        found = {column: attack(records, column) for column in policy.sensitive_columns}
    return compared_with_certain(policy.attribute_disclosure, found, dict.fromkeys(found, len(columns)))


RECORD_ATTRIBUTE_DISCLOSURE = Assessment(
    NAME,
    adversary=Adversary(
        "Somebody who knows in which class a person is, and reads what all of the class have in common.",
        "A class may disclose an attribute without identifying a record.",
        "Machanavajjhala A et al. l-Diversity. ACM TKDD 2007;1(1):3; Li N et al. t-Closeness. ICDE 2007. " + OWNERS_DECIDE,
    ),
    version="4",
    policy_sections=("attribute_disclosure", "quasi_identifiers", "attributes"),
    inputs=("release_records",),
    measure=assess,
    report_table=report_table,
    gates=gates_of(NAME),
)
