"""Measurements as metadata of their asset: a table to read, and numbers that the UI plots over deliveries."""

import math
from collections.abc import Sequence

import dagster as dg
import pandas as pd

from deid_assets.assessments.evidence import Measurement
from deid_assets.assets.stage_asset import markdown_table


def outcome(found: Measurement) -> str:
    """The outcome of a measurement; one that is not a gate neither passes nor fails.

    Examples
    --------
    >>> share = Measurement(
    ...     "share", "share of draws", .01, None, None, "at_most", "value", None, "m", "s", 9, None, gating=False
    ... )
    >>> outcome(share)
    'reported'
    """
    if not found.gating:
        return "reported"
    return "passed" if found.passed else "FAILED"


def measured_metadata(measured: Sequence[Measurement]) -> dict[str, dg.MetadataValue]:
    """All measurements as a table; each value as a number, and for gates also the bound and the threshold.

    Values that could not be measured, or are not finite, have no number.
    """
    table = pd.DataFrame(
        [(m.name, m.value, m.bound, m.threshold, outcome(m)) for m in measured],
        columns=["measurement", "measured", "bound", "threshold", "outcome"],
    )
    numbers = {}
    for found in measured:
        numbers[found.name] = found.value
        if found.gating:
            numbers |= {f"{found.name} (bound)": found.bound, f"{found.name} (threshold)": found.threshold}
    return {"measurements": markdown_table(table)} | {
        name: dg.MetadataValue.float(float(number))
        for name, number in numbers.items()
        if number is not None and math.isfinite(number)
    }
