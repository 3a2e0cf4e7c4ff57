"""What the steps of a default run take, for `deid_assets.forecast.TYPICAL`, and what would have been forecast during the run.

python -m deid_assets_tests.benchmarks.step_times [HOME]

Without HOME it makes a default run in a new home. With it, it reads the newest run of that home.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from deid_assets.automation.instance import dagster_instance
from deid_assets.forecast import TYPICAL, Forecast, operation
from deid_assets.store.home import Home
from deid_assets_tests.benchmarks.__main__ import machine
from deid_assets_tests.benchmarks.timing import head, load, row

NAMED = 0.5
"""Seconds of a step that TYPICAL names."""
ASKED_AT = (30, 60, 120, 180, 240, 300)
"""Seconds after the first step began."""

Times = Mapping[str, tuple[float, float]]
"""By step: when it began and ended, in seconds after the first step began."""


def times_of(home: Path) -> Times:
    """The times of the steps of the newest run of a home."""
    with dagster_instance(Home(home)) as instance:
        (record,) = instance.get_run_records(limit=1)
        stats = instance.get_run_step_stats(record.dagster_run.run_id)
    first = min(one.start_time for one in stats if one.start_time is not None)
    return {one.step_key: (one.start_time - first, one.end_time - first) for one in stats if one.end_time is not None}


def forecast_at(times: Times, at: float, before: Mapping[str, float]) -> float | None:
    """Seconds that a forecast would have said were left at some point of a run."""
    told = Forecast(times, before)
    for step, (began, ended) in sorted(times.items(), key=lambda one: one[1]):
        if began <= at:
            told.began(step, began)
        if ended <= at:
            told.ended(step, ended)
    return told.remaining(at)


def main() -> None:
    """Print both."""
    if len(sys.argv) > 1:
        times = times_of(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as home:
            command = [sys.executable, "-W", "ignore", "-m", "deid_assets", "run"]
            subprocess.run(command, env={**os.environ, "DEID_HOME": home}, stdout=sys.stderr, check=False)
            times = times_of(Path(home))
    print(f"{machine()} {load()}\n")
    took = {operation(step): ended - began for step, (began, ended) in times.items()}
    for name, seconds in took.items():
        if seconds >= NAMED:
            print(f'    "{name}": {seconds:.1f},')
    others = [seconds for seconds in took.values() if seconds < NAMED]
    print(f"\n{len(others)} other steps: {sum(others) / len(others):.2f} s on average\n")
    last = max(ended for _, ended in times.values())
    sources = {"typical times": {}, "the times of this run": {step: ended - began for step, (began, ended) in times.items()}}
    head("seconds since the first step began", "left in truth", *(f"left, by {name}" for name in sources))
    for at in (at for at in ASKED_AT if at < last):
        found = (forecast_at(times, at, before) for before in sources.values())
        row(at, f"{last - at:.0f}", *("" if left is None else f"{left:.0f}" for left in found))
    print(f"\nTYPICAL names {len(TYPICAL)} steps.")


if __name__ == "__main__":
    main()
