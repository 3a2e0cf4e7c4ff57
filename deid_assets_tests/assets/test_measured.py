"""Measurements as metadata: a verdict only where there is one, and numbers that can be plotted."""

from deid_assets.assets.assessment import measured_metadata
from deid_assets_tests.release.making import measurement


def test_what_gates_nothing_is_reported_and_neither_passes_nor_fails():
    gated = measurement(name="gated", value=0.01, bound=0.02, threshold=0.05)
    failed = measurement(name="failed", value=0.06, bound=0.07, threshold=0.05)
    beside = measurement(name="beside", value=0.9, bound=0.95, threshold=0.05, gating=False)
    alone = measurement(name="alone", value=0.9, bound=None, threshold=None, statistic="value", gating=False)
    table = measured_metadata([gated, failed, beside, alone])["measurements"].value
    outcomes = {line.split(" | ")[0].strip("| "): line.split(" | ")[-1].strip("| ") for line in table.splitlines()[2:]}
    assert outcomes == {"gated": "passed", "failed": "FAILED", "beside": "reported", "alone": "reported"}
    assert "False" not in table


def test_values_are_numbers_and_gates_have_bound_and_threshold():
    gated = measurement(name="gated", value=0.01, bound=0.02, threshold=0.05)
    count = measurement(name="count", unit="members", value=7, bound=None, threshold=None, statistic="value", gating=False)
    nothing = measurement(name="nothing", value=float("nan"), bound=None, threshold=0.05)
    found = {name: entry.value for name, entry in measured_metadata([gated, count, nothing]).items()}
    del found["measurements"]
    assert found == {
        "gated": 0.01, "gated (bound)": 0.02, "gated (threshold)": 0.05, "count": 7.0, "nothing (threshold)": 0.05,
    }  # fmt: skip
    assert {type(number) for number in found.values()} == {float}
