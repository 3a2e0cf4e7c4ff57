"""What the steps of a default run take, for `deid_assets.forecast.TYPICAL`, and what would have been forecast during the run.

python -m deid_assets_tests.benchmarks.step_times

Other work on the machine is taken out of the times: while four wanted to run on two processors, a second counts half.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from deid_assets.automation.instance import dagster_instance
from deid_assets.forecast import SYNTHETIC_DELIVERY, Forecast, operation
from deid_assets.sources.synthetic.delivery import write_delivery
from deid_assets.store.home import Home
from deid_assets_tests.benchmarks.timing import head, machine, row

NAMED = 1.0
"""Seconds of a step that TYPICAL names."""
ASKED_AT = (30, 60, 120, 180, 240, 300)
"""Seconds after the first step began."""

Times = Mapping[str, tuple[float, float]]
"""By step: when it began and ended, in seconds of the clock."""


class Alone:
    """How many seconds work would have taken alone on the machine, by who could run meanwhile."""

    def __init__(self) -> None:
        self._at, self._spent, self._over = [time.time()], [0.0], threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> "Alone":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._over.wait(0.25):
            status = Path("/proc/stat").read_text().split()
            running = int(status[status.index("procs_running") + 1]) - 1  # without this reader
            self.add(time.time(), running)

    def add(self, at: float, running: int) -> None:
        """So many could run since the last sample."""
        share = min(1.0, (os.cpu_count() or 1) / max(running, 1))
        self._spent.append(self._spent[-1] + (at - self._at[-1]) * share)
        self._at.append(at)

    def seconds(self, began: float, ended: float) -> float:
        """Seconds between two points in time."""
        return float(np.diff(np.interp([began, ended], self._at, self._spent))[0])


def times_of(home: Path) -> Times:
    """The times of the steps of the newest run of a home."""
    with dagster_instance(Home(home)) as instance:
        (record,) = instance.get_run_records(limit=1)
        stats = instance.get_run_step_stats(record.dagster_run.run_id)
    return {one.step_key: (one.start_time, one.end_time) for one in stats if one.start_time and one.end_time}


def forecast_at(times: Times, at: float, made: float, before: Mapping[str, float]) -> float | None:
    """Seconds that a forecast would have said were left at a point in time; `made` is what the delivery took to make."""
    told = Forecast(times, before)
    told.worked(SYNTHETIC_DELIVERY, made)
    for step, (began, ended) in sorted(times.items(), key=lambda one: one[1]):
        if began <= at:
            told.began(step, began)
        if ended <= at:
            told.ended(step, ended)
    return told.remaining(at)


def typical(times: Times, alone: Alone) -> None:
    """Print the steps that TYPICAL names, and what the others take."""
    took = {operation(step): alone.seconds(*both) for step, both in times.items()}
    for name, seconds in took.items():
        if seconds >= NAMED:
            print(f'    "{name}": {seconds:.1f},')
    others = [seconds for seconds in took.values() if seconds < NAMED]
    print(f"\n{len(others)} other steps: {sum(others) / len(others):.2f} s on average\n")


def foretold(times: Times, made: float) -> None:
    """Print what was left during the run, and what would have been said: in a new home, and with this run as an earlier one."""
    first, last = min(began for began, _ in times.values()), max(ended for _, ended in times.values())
    head("seconds since the first step began", "seconds left", "foretold in a new home", "foretold after such a run")
    for at in (at for at in ASKED_AT if at < last - first):
        sources = {}, {step: ended - began for step, (began, ended) in times.items()}
        left = [forecast_at(times, first + at, made, before) for before in sources]
        row(at, f"{last - first - at:.0f}", *("" if one is None else f"{one:.0f}" for one in left))


def main() -> None:
    """Print both."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    command = [sys.executable, "-W", "ignore", "-m", "deid_assets", "run"]
    with tempfile.TemporaryDirectory() as folder, Alone() as alone:
        began = time.time()
        write_delivery(Path(folder) / "delivery", 200_000, 1)
        ended = time.time()
        home = Path(folder) / "home"
        subprocess.run(command, env={**os.environ, "DEID_HOME": str(home)}, stdout=sys.stderr, check=False)
        times = times_of(home)
    print(f'{machine()}\n\n    "{SYNTHETIC_DELIVERY}": {alone.seconds(began, ended):.1f},')
    typical(times, alone)
    foretold(times, ended - began)


if __name__ == "__main__":
    main()
