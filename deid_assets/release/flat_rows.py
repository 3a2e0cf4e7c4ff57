"""The rows of a flat release under a policy, as a SELECT from the restricted store, and whether the staged rows equal them."""

from collections.abc import Mapping

from deid_assets.assessments.evidence import Refusal
from deid_assets.methods.flat import queries
from deid_assets.policy.flat import FlatPolicy
from deid_assets.release.gate.judgement import rows_either_way
from deid_assets.schemas.contract import violations
from deid_assets.schemas.flat import release_records_contract
from deid_assets.store.tables import Table


def release_query(policy: FlatPolicy, records: Table, suppressed: Table, domains: Table, levels: Mapping[str, int]) -> str:
    """SELECT the rows to be published from the restricted store."""
    others = [column.release_as for column in policy.attributes]
    neutralize = policy.formulas == "neutralize"
    return queries.released_records(records, suppressed, domains, levels, others, neutralize)


def row_refusals(policy: FlatPolicy, staged: Table, expected: str) -> list[Refusal]:
    """Check the staged rows against their contract and the restricted store."""
    found = []
    for rule, rows in violations(staged, release_records_contract(policy)).items():
        text = f"release_records: the staged rows break the contract, {rule}"
        found.append(Refusal("broken_contract", "release_records", float(rows), 0.0, text, "rows"))
    rows = rows_either_way(staged, expected)
    if rows:
        text = "release_records: the staged rows differ from those that the restricted store gives"
        found.append(Refusal("inconsistent_rows", "release_records", float(rows), 0.0, text, "rows"))
    return found
