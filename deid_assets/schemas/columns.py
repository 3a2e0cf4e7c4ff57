"""Contracts with the columns that a policy declares: they pass from the intake to the search as they were taken in."""

from collections.abc import Mapping

from pandera.ibis import DataFrameSchema

from deid_assets.policy.models import Policy
from deid_assets.schemas.contract import quasi_identifier
from deid_assets.schemas.intake import CODES_OF_DECLARED

TABLES = {
    "members": ("members", "member_profiles"),
    "claims": ("claims", "eligible_claims", "grouped_claims", "truncated_claims", "dated_claims", "known_claims"),
}
"""Assets that have the declared columns of members, and of claims."""


def with_declared(contracts: Mapping[str, DataFrameSchema], policy: Policy) -> dict[str, DataFrameSchema]:
    """Add the declared columns of a policy to the contracts of the tables that have them."""
    found = dict(contracts)
    for kind, assets in TABLES.items():
        columns = {
            name: quasi_identifier(declared.meaning, declared.limits, declared.values)
            for name, declared in getattr(policy.columns, kind).items()
        }
        found |= {asset: found[asset].add_columns(columns) for asset in assets if columns and asset in found}
    if policy.columns.declared.coded:
        found |= {
            asset: found[asset].add_columns(CODES_OF_DECLARED) for asset in ("claims", "eligible_claims") if asset in found
        }
    return found
