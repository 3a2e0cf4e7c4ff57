"""Contracts between stages: each row of an asset's table meets what is declared of its columns."""

import dagster as dg
from pandera.ibis import DataFrameSchema

from deid_assets.schemas.contract import violations
from deid_assets.store.tables import Table


def contract_check_name(asset: str) -> str:
    """The name of the check that holds an asset's table against its contract."""
    return f"{asset}_keeps_contract"


def keeps_contract(table: Table, contract: DataFrameSchema) -> dg.AssetCheckResult:
    """Hold a table against its contract; what breaks it is counted by column and rule."""
    broken = violations(table, contract)
    numbers = {"measured": sum(broken.values()), "threshold": 0, **broken}
    return dg.AssetCheckResult(passed=not broken, check_name=contract_check_name(table.name), metadata=numbers)
