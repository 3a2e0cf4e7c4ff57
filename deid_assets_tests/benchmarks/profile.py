"""What a run costs: CPU, wall time and peak memory of every step, of its start and of what Dagster does between steps.

python -m deid_assets_tests.benchmarks profile [--flame FILE.svg] [options of `deid run`]

The flame graph is drawn by py-spy (`pip install py-spy`), which samples a second run, because sampling takes time of its own.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from deid_assets.meter import Meter, peak_memory_gb
from deid_assets_tests.benchmarks.timing import head, load, row

SHOWN = 0.5
"""Seconds of CPU or of wall time of a step that has a line of its own."""


@dataclass(frozen=True)
class Cost:
    """What a step, or all that several steps do, took.

    Attributes
    ----------
    name
        The asset, or the checks of an asset.
    cpu, wall
        Seconds; CPU is that of all threads and of ended child processes.
    peak
        Resident memory at its peak, in gigabytes.
    """

    name: str
    cpu: float
    wall: float
    peak: float


def cpu_seconds() -> float:
    """CPU time of this process and of its children that ended."""
    return sum(os.times()[:4])


class Profile:
    """Measures the steps of a run in this process, one after the other, by the events that Dagster logs."""

    def __init__(self) -> None:
        self.steps: list[Cost] = []
        self.started = self.ended = (0.0, 0.0)
        self._step = (0.0, 0.0)
        self._memory = Meter()

    def event(self, kind: str, step: str) -> None:
        """Note the start or the end of a step."""
        now = cpu_seconds(), time.perf_counter()
        if kind == "STEP_START":
            self.started = self.started if self.steps or any(self.started) else now
            self._step = now
            self._memory.start("", step)
        elif kind in ("STEP_SUCCESS", "STEP_FAILURE"):
            cpu, wall = (end - start for end, start in zip(now, self._step, strict=True))
            self.steps.append(Cost(step, cpu, wall, peak_memory_gb()))
            self.ended = now


def measured(arguments: Sequence[str], file: Path) -> None:
    """Run `deid run` in this process, and write what its steps took, whatever it ends with."""
    began = time.perf_counter()

    from dagster import DagsterInstance

    from deid_assets.command_line.main import main as deid

    profile, handle = Profile(), DagsterInstance.handle_new_event

    def noted(instance: DagsterInstance, event, **options) -> None:
        if event.is_dagster_event and event.step_key:
            profile.event(event.dagster_event.event_type_value, event.step_key)
        handle(instance, event, **options)

    DagsterInstance.handle_new_event = noted
    try:
        deid(["run", *arguments])
    finally:
        told = {
            "steps": [asdict(step) for step in profile.steps],
            "before": (profile.started[0], profile.started[1] - began),
            "after": (cpu_seconds() - profile.ended[0], time.perf_counter() - profile.ended[1]),
            "between": tuple(end - start for start, end in zip(profile.started, profile.ended, strict=True)),
        }
        file.write_text(json.dumps(told))


def table(told: dict) -> list[Cost]:
    """The costs to show, the largest first: of steps, of small ones together, of start and end, and between steps."""
    steps = [Cost(**step) for step in told["steps"]]
    large = [step for step in steps if max(step.cpu, step.wall) >= SHOWN]
    small = [step for step in steps if step not in large]
    cpu, wall = (
        told["between"][i] - sum(values) for i, values in enumerate(zip(*((s.cpu, s.wall) for s in steps), strict=True))
    )
    parts = [
        Cost(f"{len(small)} other steps", sum(s.cpu for s in small), sum(s.wall for s in small), _peak(small)),
        Cost("start, until the first step", *told["before"], 0.0),
        Cost("between the steps", cpu, wall, 0.0),
        Cost("end, after the last step", *told["after"], 0.0),
    ]
    total = [*steps, *parts[1:]]
    whole = Cost("**all**", sum(s.cpu for s in total), sum(s.wall for s in total), _peak(total))
    return [*sorted(large, key=lambda step: -step.cpu), *parts, whole]


def _peak(steps: Sequence[Cost]) -> float:
    return max((step.peak for step in steps), default=0.0)


def _in_new_home(command: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "DEID_HOME": home}
        ended = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
    if ended.returncode not in (0, 2):
        sys.exit(f"the run ended with code {ended.returncode}:\n{ended.stdout}")


def flame(file: Path, arguments: Sequence[str]) -> None:
    """Draw the flame graph of a run."""
    if shutil.which("py-spy") is None:
        sys.exit("--flame needs py-spy: pip install py-spy")
    program = [sys.executable, "-W", "ignore", "-m", "deid_assets", "run", *arguments]
    sampled = ["py-spy", "record", "--threads", "--rate", "50", "--format", "flamegraph", "--output", str(file), "--", *program]
    _in_new_home(sampled)
    print(f"\nFlame graph: {file}")


def main(listed: Sequence[str]) -> None:
    """Print the table, and draw the graph if it is asked for."""
    parser = argparse.ArgumentParser(prog="python -m deid_assets_tests.benchmarks profile", description=__doc__.splitlines()[0])
    parser.add_argument("--flame", type=Path, help="SVG to draw; needs py-spy, and runs once more")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    asked, arguments = parser.parse_known_args(listed)
    if asked.into:
        measured(arguments, asked.into)
        return

    from deid_assets_tests.benchmarks.__main__ import machine

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "told.json"
        this = [sys.executable, "-W", "ignore", "-m", "deid_assets_tests.benchmarks", "profile"]
        before = load()
        _in_new_home([*this, "--into", str(file), *arguments])
        told = json.loads(file.read_text())
    print(f"{machine()} {before}\n\n`deid run {' '.join(arguments)}`:\n".replace(" `:", "`:"))
    head("step", "CPU, s", "time, s", "peak memory, GB")
    for cost in table(told):
        row(cost.name.rpartition("__")[2], f"{cost.cpu:.1f}", f"{cost.wall:.1f}", f"{cost.peak:.2f}" if cost.peak else "")
    if asked.flame:
        flame(asked.flame, arguments)
