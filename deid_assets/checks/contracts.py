"""Contracts between stages, as blocking asset checks: one for each table that has a contract."""

import dagster as dg

from deid_assets.partitions import deliveries
from deid_assets.resources import Policies
from deid_assets.schemas import CONTRACTS
from deid_assets.schemas.candidate import release_contracts
from deid_assets.schemas.contract import violations
from deid_assets.store import Table

RELEASE_TABLES = ("release_members", "release_claims", "release_days_in_hospital")


def contract_checks(policy: str) -> list[dg.AssetChecksDefinition]:
    """The contract checks of one policy's assets."""
    return [_contract_check(policy, name) for name in (*CONTRACTS, *RELEASE_TABLES)]


def _contract_check(policy: str, asset: str) -> dg.AssetChecksDefinition:
    # `partitions_def` matters: without it a pass for one delivery lets automation release another.
    @dg.asset_check(
        asset=dg.AssetKey([policy, asset]),
        name=f"{asset}_keeps_contract",
        description=f"Every row of {asset} keeps the contract of its columns: types, roles, allowed values, keys.",
        blocking=True,
        partitions_def=deliveries,
    )
    def keeps_contract(table: Table, policies: Policies) -> dg.AssetCheckResult:
        expected = CONTRACTS[asset] if asset in CONTRACTS else release_contracts(policies.named(policy))[asset]
        broken = violations(table, expected)
        return dg.AssetCheckResult(
            passed=not broken,
            metadata={"measured": sum(broken.values()), "threshold": 0, **{rule: rows for rule, rows in broken.items()}},
        )

    return keeps_contract
