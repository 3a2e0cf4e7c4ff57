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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deid_assets_tests.benchmarks import measured_run
from deid_assets_tests.benchmarks.timing import head, machine, row

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


@dataclass(frozen=True)
class Costs:
    """What a run took: its steps, what came before, after and between them."""

    steps: tuple[Cost, ...]
    before: Cost
    between: Cost
    after: Cost

    @classmethod
    def read(cls, told: Mapping) -> "Costs":
        """From what `measured_run` writes."""
        steps = tuple(Cost(**{**step, "name": step["name"].rpartition("__")[2]}) for step in told["steps"])
        cpu, wall = told["between"]
        between = Cost("between the steps", cpu - sum(s.cpu for s in steps), wall - sum(s.wall for s in steps), 0.0)
        before = Cost("start, until the first step", *told["before"], 0.0)
        after = Cost("end, after the last step", *told["after"], 0.0)
        return cls(steps, before, between, after)

    @property
    def whole(self) -> Cost:
        """All of the run."""
        return together("**all**", [*self.steps, self.before, self.between, self.after])


def together(name: str, costs: Sequence[Cost]) -> Cost:
    """What several take, one after the other."""
    return Cost(name, sum(c.cpu for c in costs), sum(c.wall for c in costs), max((c.peak for c in costs), default=0.0))


def measured(arguments: Sequence[str], environment: Mapping[str, str]) -> Costs:
    """What `deid run` takes, in a new home and in a process of its own.

    Parameters
    ----------
    arguments
        Of `deid run`.
    environment
        Further variables: PYTHONPATH names another version of the package.

    Raises
    ------
    SystemExit
        The run ended neither with a publication nor with a refusal.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "told.json"
        command = [sys.executable, "-P", "-W", "ignore", measured_run.__file__, str(file), *arguments]
        _in_new_home(command, environment)
        return Costs.read(json.loads(file.read_text()))


def table(costs: Costs) -> list[Cost]:
    """The costs to show, the largest first: of steps, of small ones together, of start and end, and between steps."""
    large = [step for step in costs.steps if max(step.cpu, step.wall) >= SHOWN]
    small = [step for step in costs.steps if step not in large]
    rest = [together(f"{len(small)} other steps", small), costs.before, costs.between, costs.after, costs.whole]
    return [*sorted(large, key=lambda step: -step.cpu), *rest]


def _in_new_home(command: Sequence[str], further: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, **further, "DEID_HOME": home}
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
    _in_new_home(
        ["py-spy", "record", "--threads", "--rate", "50", "--format", "flamegraph", "--output", str(file), "--", *program], {}
    )
    print(f"\nFlame graph: {file}")


def main(listed: Sequence[str]) -> None:
    """Print the table, and draw the graph if it is asked for."""
    parser = argparse.ArgumentParser(prog="python -m deid_assets_tests.benchmarks profile", description=__doc__.splitlines()[0])
    parser.add_argument("--flame", type=Path, help="SVG to draw; needs py-spy, and runs once more")
    asked, arguments = parser.parse_known_args(listed)
    where = machine()
    costs = measured(arguments, {})
    print(f"{where}\n\n`{' '.join(['deid run', *arguments])}`:\n")
    head("step", "CPU, s", "time, s", "peak memory, GB")
    for cost in table(costs):
        row(cost.name, f"{cost.cpu:.1f}", f"{cost.wall:.1f}", f"{cost.peak:.2f}" if cost.peak else "")
    if asked.flame:
        flame(asked.flame, arguments)
