"""Risk thresholds as blocking asset checks: each compares one measurement of the evidence with the policy's threshold."""

from typing import Any

import dagster as dg

from deid_assets.assessments.assessment import Gate
from deid_assets.assessments.evidence import from_frame
from deid_assets.assessments.registry import gates_of
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.resources import Keys
from deid_assets.store.guard import without_values
from deid_assets.store.tables import Table

REMEDY = "remedy"
"""Metadata key of a failed check: what to do."""


def risk_checks(policy: AnyPolicy, keys: Keys, partitions_def: dg.PartitionsDefinition) -> list[dg.AssetChecksDefinition]:
    """The checks of one policy: one for each number of an assessment that could refuse a release."""
    return [_risk_check(asset, gate, keys, partitions_def) for asset, gate in gates_of(policy)]


def _risk_check(asset: str, gate: Gate[Any], keys: Keys, partitions_def: dg.PartitionsDefinition) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=keys.asset(asset),
        name=gate.check,
        description=gate.statement,
        blocking=True,
        partitions_def=partitions_def,
    )
    def within_threshold(evidence: Table) -> dg.AssetCheckResult:
        with without_values(f"{keys.policy}/{gate.check}", evidence.file.parent.parent):
            stored = from_frame(evidence.frame())
        measured = [(m, item.try_number) for item in stored for m in item.measurements if m.name == gate.measurement]
        if len(measured) != 1:
            return dg.AssetCheckResult(passed=False, description=f"{gate.measurement} was not measured")
        found, try_number = measured[0]
        numbers = {"measured": found.compared, "value": found.value, "threshold": found.threshold}
        of_draws = {"try": try_number} if try_number is not None and found.confidence is not None else {}
        return dg.AssetCheckResult(
            # What the policy does not gate on is shown and passes; what it gates on passes only below its threshold.
            passed=found.passed or not found.gating,
            description=None if found.gating else "Only reported: the policy sets no limit, so nothing is judged.",
            metadata={
                **{name: float(number) for name, number in numbers.items() if number is not None},
                **{"statistic": found.statistic, "gating": found.gating, "section": found.section},
                "unit": found.unit,
                **of_draws,
                **({} if found.passed or not gate.remedy else {REMEDY: gate.remedy}),
            },
        )

    return within_threshold
