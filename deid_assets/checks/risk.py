"""Risk thresholds: one measurement of the evidence is compared with the policy's threshold."""

from collections.abc import Iterable
from typing import Any

import dagster as dg

from deid_assets.assessments.assessment import Gate
from deid_assets.assessments.evidence import Evidence

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
