"""Whole runs of `deid run`, each in a new home: prints tables of README and docs, with the machine they were made on.

python -m deid_assets_tests.benchmarks [--large]
python -m deid_assets_tests.benchmarks --populations heritage_public 5000 20000 200000
python -m deid_assets_tests.benchmarks profile --flame flame.svg --members 20000
python -m deid_assets_tests.benchmarks against COMMIT --members 20000
python -m deid_assets_tests.benchmarks broad
python -m deid_assets_tests.benchmarks sizes --sizes 5000 20000 200000
python -m deid_assets_tests.benchmarks all
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from deid_assets_tests.benchmarks import against, broad, page, profile, sizes
from deid_assets_tests.benchmarks.timing import head, machine, row
from deid_assets_tests.stages import STAGES

OUTCOMES = {0: "published", 2: "refused", 1: "error"}

_GATE = re.compile(r"^│ (\w+) +│ +(\S*) +│ +(\S*) +│ +(\S*) +│ (\w+)")
_REACH = re.compile(r"^│ ([a-z ]+?) +│ +([\d.]+) │ +([\d.]+) │ +([\d.]+) │ ([a-z ]+?) +│")
_ROWS = re.compile(r"^ +(?:[a-z]+ +)?(\w+) +([\d,]+) rows(?: +([\d.]+) s)?")


@dataclass(frozen=True)
class Run:
    """What one run printed: exit code, wall time in seconds, peak memory in GB, rows and seconds by asset, gates by name.

    And the public manifest of what it published, or None.
    """

    exit_code: int
    seconds: float
    peak_gb: float
    rows: dict[str, str]
    seconds_of: dict[str, float]
    gates: dict[str, tuple[str, ...]]
    manifest: dict | None

    @property
    def outcome(self) -> str:
        return OUTCOMES[self.exit_code]

    def gate(self, name: str) -> str:
        """The number that is compared with the threshold: the bound, where there is one."""
        if name not in self.gates:
            return ""
        measured, bound, _, verdict = self.gates[name]
        value = f"{float(bound or measured):.4f}"
        return f"**{value}**" if verdict == "FAILED" else value


def run(*arguments: str) -> Run:
    """Run `deid run` with these arguments in a home of its own."""
    with tempfile.TemporaryDirectory() as home:
        started = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "deid_assets", "run", *arguments],
            env={**os.environ, "DEID_HOME": home},
            stdout=subprocess.PIPE,
            text=True,
        )
        printed = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - started
        manifests = [json.loads(path.read_text()) for path in Path(home).glob("releases/*/*/manifest.json")]
    lines = printed.splitlines()
    gates = [found.groups() for line in lines if (found := _GATE.match(line))]
    rows = [found.groups() for line in lines if (found := _ROWS.match(line))]
    return Run(
        process.returncode,
        seconds,
        used.ru_maxrss / 1e6,
        {name: count for name, count, _ in rows},
        {name: float(spent or 0) for name, _, spent in rows},
        {name: rest for name, *rest in gates},
        manifests[0] if manifests else None,
    )


def reach(policy: str, members: int, released: int) -> list[tuple[str, ...]]:
    """What `deid plan` prints of each gate: name, risk at the coarsest node, lower bound, limit, verdict."""
    asked = ("--policy", policy, "--members", str(members), "--release", str(released))
    with tempfile.TemporaryDirectory() as home:
        planned = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "deid_assets", "plan", *asked],
            env={**os.environ, "DEID_HOME": home},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    reached = [found.groups() for line in planned.stdout.splitlines() if (found := _REACH.match(line))]
    if not reached:
        sys.exit(f"`deid plan` ended with code {planned.returncode} and printed no table for {members:,} members")
    return reached


def populations_table(policy: str, sizes: list[int]) -> None:
    """The risk at the coarsest node for synthetic populations of which a tenth is released, as `deid plan` prints it.

    And how `deid run` ends where nothing is ruled out.
    """
    for number, members in enumerate(sizes):
        released = members // 10
        reached = reach(policy, members, released)
        if number == 0:
            gates = (f"{gate} (limit {limit})" for gate, _, _, limit, _ in reached)
            head("policy", "members", "released", *gates, "`deid plan`", "`deid run`")
        ruled_out = [f"{verdict}: {gate}" for gate, *_, verdict in reached if verdict != "not ruled out"]
        asked = ("--policy", policy, "--members", str(members), "--release", str(released))
        outcome = "" if ruled_out else run(*asked).outcome
        measured = (found for _, found, *_ in reached)
        row(policy, f"{members:,}", f"{released:,}", *measured, "; ".join(ruled_out) or "not ruled out", outcome)


def synthetic_table(large: bool) -> None:
    """Time and memory of the default run, and of a large one."""
    head("command", "claims", "outcome", "time", "of it search", "of it attacks", "peak memory")
    sizes = [[], ["--members", "1130000", "--release", "113000"]]
    for arguments in sizes[: 2 if large else 1]:
        made = run(*arguments)
        command = " ".join(["deid run", *arguments])
        search, attacks = (
            sum(made.seconds_of.get(asset, 0.0) for stage in stages for asset in STAGES[stage])
            for stages in (["generalization"], ["assessment"])
        )
        times = (f"{seconds:.0f} s" for seconds in (made.seconds, search, attacks))
        row(f"`{command}`", made.rows.get("claims", ""), made.outcome, *times, f"{made.peak_gb:.1f} GB")


def main() -> None:
    """Print the tables."""
    commands = {"profile": profile.main, "against": against.main, "sizes": sizes.main, "broad": broad.main, "all": page.main}
    if command := commands.get("".join(sys.argv[1:2])):
        command(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="also 1,130,000 members, which takes about ten minutes")
    parser.add_argument(
        "--populations",
        nargs="+",
        metavar=("POLICY", "MEMBERS"),
        help="only this: what sizes of populations pass with a policy",
    )
    asked = parser.parse_args()
    print(f"{machine()}\n", flush=True)
    if asked.populations:
        policy, *members = asked.populations
        populations_table(policy, [int(size) for size in members])
        return
    synthetic_table(asked.large)


if __name__ == "__main__":
    main()
