"""Contracts with the columns that a policy declares: they pass from the intake to the search as they were taken in."""

from collections.abc import Mapping

import ibis.expr.datatypes as dt
from pandera.ibis import Check, Column, DataFrameSchema

from deid_assets.policy.models import Policy
from deid_assets.policy.sections.columns import DeclaredColumn
from deid_assets.schemas.contract import Role, column, within

TABLES = {
    "members": ("members", "member_profiles"),
    "claims": ("claims", "eligible_claims", "grouped_claims", "truncated_claims", "dated_claims", "known_claims"),
}
"""Assets that have the declared columns of members, and of claims."""


def with_declared(contracts: Mapping[str, DataFrameSchema], policy: Policy) -> dict[str, DataFrameSchema]:
    """Add the declared columns of a policy to the contracts of the tables that have them."""
    found = dict(contracts)
    for kind, assets in TABLES.items():
        columns = {name: _column(declared) for name, declared in getattr(policy.columns, kind).items()}
        found |= {asset: found[asset].add_columns(columns) for asset in assets if columns and asset in found}
    return found


def _column(declared: DeclaredColumn) -> Column:
    """One declared column: its type, and the values that its declaration leaves."""
    if declared.limits is not None:
        return column(dt.int32, Role.QUASI_IDENTIFIER, declared.meaning, within(*declared.limits), nullable=True)
    values = declared.values
    rules = [] if values is None else [Check.isin(sorted(values), error=f"one of the {len(values)} declared values")]
    return column(dt.string, Role.QUASI_IDENTIFIER, declared.meaning, rules, nullable=True)
