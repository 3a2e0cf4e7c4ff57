"""The checks of each asset: its contract, and the risk thresholds that its evidence has to keep. All of them block.

One step judges an asset, with a result for each check: some executors start a process for each step, which takes longer than a
check.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import dagster as dg
from pandera.ibis import DataFrameSchema

from deid_assets.assessments.assessment import Gate
from deid_assets.assessments.evidence import Evidence, from_frame
from deid_assets.assessments.registry import gates_of
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.resources import Keys, Workplace
from deid_assets.schemas import contracts_of
from deid_assets.schemas.contract import violations
from deid_assets.stages import stages_of
from deid_assets.store.guard import without_values
from deid_assets.store.tables import Table

STEP_ENDING = "_checks"
"""How the name of the step ends that judges an asset; before it stands the asset's."""


def asset_checks(policy: AnyPolicy, keys: Keys, partitions_def: dg.PartitionsDefinition) -> list[dg.AssetChecksDefinition]:
    """The checks of one policy: for each asset a contract, and one for each number of an assessment that could refuse."""
    gates: dict[str, list[Gate[Any]]] = defaultdict(list)
    for asset, gate in gates_of(policy):
        gates[asset].append(gate)
    return [_checks_of(asset, gates[asset], keys, partitions_def) for assets in stages_of(policy).values() for asset in assets]


def _checks_of(
    asset: str, gates: list[Gate[Any]], keys: Keys, partitions_def: dg.PartitionsDefinition
) -> dg.AssetChecksDefinition:
    key, contract = keys.asset(asset), contract_check_name(asset)
    statements = {gate.check: gate.statement for gate in gates} | {
        contract: f"Every row of {asset} meets the contract of its columns: types, roles, allowed values and keys."
    }

    @dg.multi_asset_check(
        name=f"{key.to_python_identifier()}{STEP_ENDING}",
        # `partitions_def` matters: without it a pass for one delivery lets automation release another.
        specs=[
            dg.AssetCheckSpec(name, asset=key, description=text, blocking=True, partitions_def=partitions_def)
            for name, text in statements.items()
        ],
        ins={"table": key},
        can_subset=True,
        required_resource_keys={keys.resource},
    )
    def judged(context: dg.AssetCheckExecutionContext, table: Table) -> Iterator[dg.AssetCheckResult]:
        asked = {check.name for check in context.selected_asset_check_keys}
        asked_gates = [gate for gate in gates if gate.check in asked]
        workplace: Workplace = getattr(context.resources, keys.resource)
        reading = partial(without_values, f"{keys.policy}/{asset}{STEP_ENDING}", table.file.parent.parent)
        if contract in asked:
            with reading():
                found = keeps_contract(table, contracts_of(workplace.named(keys.policy))[asset])
            yield found
        if asked_gates:
            with reading():
                evidence = from_frame(table.frame())
            yield from (within_threshold(evidence, gate) for gate in asked_gates)

    return judged


def contract_check_name(asset: str) -> str:
    """The name of the check that holds an asset's table against its contract."""
    return f"{asset}_keeps_contract"


def keeps_contract(table: Table, contract: DataFrameSchema) -> dg.AssetCheckResult:
    """Hold a table against its contract; what breaks it is counted by column and rule."""
    broken = violations(table, contract)
    numbers = {"measured": sum(broken.values()), "threshold": 0, **broken}
    return dg.AssetCheckResult(passed=not broken, check_name=contract_check_name(table.name), metadata=numbers)


REMEDY = "remedy"
"""Metadata key of a failed check: what to do."""


def within_threshold(evidence: Iterable[Evidence], gate: Gate[Any]) -> dg.AssetCheckResult:
    """Compare the measurement of a gate with its threshold; what was not measured does not pass."""
    measured = [(m, item.try_number) for item in evidence for m in item.measurements if m.name == gate.measurement]
    if len(measured) != 1:
        return dg.AssetCheckResult(passed=False, check_name=gate.check, description=f"{gate.measurement} was not measured")
    found, try_number = measured[0]
    numbers = {"measured": found.compared, "value": found.value, "threshold": found.threshold}
    of_draws = {"try": try_number} if try_number is not None and found.confidence is not None else {}
    return dg.AssetCheckResult(
        # What the policy does not gate on is shown and passes; what it gates on passes only below its threshold.
        passed=found.passed or not found.gating,
        check_name=gate.check,
        description=None if found.gating else "Only reported: the policy sets no limit, so nothing is judged.",
        metadata={
            **{name: float(number) for name, number in numbers.items() if number is not None},
            **{"statistic": found.statistic, "gating": found.gating, "section": found.section},
            "unit": found.unit,
            **of_draws,
            **({} if found.passed or not gate.remedy else {REMEDY: gate.remedy}),
        },
    )
