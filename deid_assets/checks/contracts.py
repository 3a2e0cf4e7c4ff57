"""Contracts between stages, as blocking asset checks: one for the table of every asset."""

import dagster as dg

from deid_assets.policy.kinds import AnyPolicy
from deid_assets.resources import Keys, Workplace
from deid_assets.schemas import contracts_of
from deid_assets.schemas.contract import violations
from deid_assets.stages import stages_of
from deid_assets.store.guard import without_values
from deid_assets.store.tables import Table


def contract_check_name(asset: str) -> str:
    """The name of the check that holds an asset's table against its contract."""
    return f"{asset}_keeps_contract"


def contract_checks(policy: AnyPolicy, keys: Keys, partitions_def: dg.PartitionsDefinition) -> list[dg.AssetChecksDefinition]:
    """The contract checks of one policy's assets."""
    return [_contract_check(asset, keys, partitions_def) for assets in stages_of(policy).values() for asset in assets]


def _contract_check(asset: str, keys: Keys, partitions_def: dg.PartitionsDefinition) -> dg.AssetChecksDefinition:
    # `partitions_def` matters: without it a pass for one delivery lets automation release another.
    @dg.asset_check(
        asset=keys.asset(asset),
        name=contract_check_name(asset),
        description=f"Every row of {asset} meets the contract of its columns: types, roles, allowed values and keys.",
        blocking=True,
        partitions_def=partitions_def,
        required_resource_keys={keys.resource},
    )
    def keeps_contract(context: dg.AssetCheckExecutionContext, table: Table) -> dg.AssetCheckResult:
        workplace: Workplace = getattr(context.resources, keys.resource)
        with without_values(f"{keys.policy}/{contract_check_name(asset)}", table.file.parent.parent):
            broken = violations(table, contracts_of(workplace.named(keys.policy))[asset])
        return dg.AssetCheckResult(
            passed=not broken,
            metadata={"measured": sum(broken.values()), "threshold": 0, **broken},
        )

    return keeps_contract
