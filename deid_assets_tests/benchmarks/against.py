"""What the steps of a run cost, as a ratio to another version of the code, both measured in turns on this machine.

python -m deid_assets_tests.benchmarks against COMMIT [--rounds 3] [--limit 1.3] [--published] [options of `deid run`]

COMMIT may be `day-before`: the newest version that is a day older than this one. Of many commits that were submitted together,
the one before says little, and a clone does not know which of them others had before.

Both versions run under this environment's packages and one secret, each run in a new home. With `--limit`, the command fails if
one of the five steps that cost most, or the whole run, costs more than that many times what it did.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deid_assets_tests.benchmarks.profile import SHOWN, Cost, Costs, measured
from deid_assets_tests.benchmarks.timing import head, machine, row
from deid_assets_tests.scenarios.policies import SMALL, write_policy

ROOT = Path(__file__).parents[2]
JUDGED = 5
"""So many steps, those that cost most and have a line of their own, are held to the limit, and the whole run."""

DAY_BEFORE, _DAY = "day-before", 86_400
Measured = Literal["cpu", "wall", "peak"]


@dataclass(frozen=True)
class Compared:
    """Least CPU seconds of all rounds, and the least peak memory in gigabytes; of the other version None without the step.

    `is_step` is whether this is a step: start, end, what is between steps, and the whole run are none.
    """

    name: str
    before: Cost | None
    now: Cost
    is_step: bool = True

    @property
    def ratio(self) -> float | None:
        """How many times the CPU seconds of the other version; None where it has nothing to compare."""
        return self.ratio_of("cpu")

    def ratio_of(self, what: Measured) -> float | None:
        """How many times what the other version took; None where it has nothing to compare."""
        before = 0.0 if self.before is None else getattr(self.before, what)
        return getattr(self.now, what) / before if before > 0 else None


def least(rounds: Sequence[Costs]) -> dict[str, Cost]:
    """The least that each step took in any round, by name; the whole run is the last."""
    listed = [[*costs.steps, *_no_steps(costs)] for costs in rounds]
    found: dict[str, Cost] = {}
    for cost in (cost for costs in listed for cost in costs):
        known = found.get(cost.name, cost)
        found[cost.name] = Cost(cost.name, *(min(getattr(known, k), getattr(cost, k)) for k in ("cpu", "wall", "peak")))
    return found


def _no_steps(costs: Costs) -> tuple[Cost, ...]:
    return costs.before, costs.between, costs.after, costs.whole


def compared(before: Sequence[Costs], now: Sequence[Costs]) -> list[Compared]:
    """The steps of today with those of the other version, the one that costs most first: the whole run."""
    old, new = least(before), least(now)
    others = {cost.name for cost in _no_steps(now[0])}
    found = (Compared(name, old.get(name), cost, name not in others) for name, cost in new.items())
    return sorted(found, key=lambda one: -one.now.cpu)


def too_dear(steps: Sequence[Compared], limit: float) -> list[str]:
    """Names of those held to the limit that cost more than that many times what they did."""
    whole, *rest = steps
    judged = [whole, *[one for one in rest if one.is_step and one.now.cpu >= SHOWN][:JUDGED]]
    return [one.name for one in judged if one.ratio is not None and one.ratio > limit]


def of_the_day_before() -> str:
    """The newest commit among those before this one that is a day older; "" if none is."""
    made = int(_git("show", "-s", "--format=%ct", "HEAD"))
    return _git("rev-list", "-1", f"--min-age={made - _DAY}", "HEAD")


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """The files of another version, in a folder of their own."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        _git("worktree", "add", "--quiet", "--detach", str(tree), commit)
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*arguments: str) -> str:
    ended = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(
            f"git {arguments[0]} failed: {ended.stderr.strip()}. Name a commit of this repository, with its history fetched."
        )
    return ended.stdout.strip()


def policy_that_publishes(folder: Path) -> Path:
    """Write a policy of the tests that publishes populations of few members, too, and return its file."""
    write_policy(folder, SMALL)
    return folder / f"{SMALL['policy']}.yaml"


def _both(one: Compared, what: Measured, form: str) -> tuple[str, str, str]:
    """What both versions took, and the ratio; empty where there is nothing to tell."""
    before, now = 0.0 if one.before is None else getattr(one.before, what), getattr(one.now, what)
    ratio = one.ratio_of(what)
    return format(before, form) if before else "", format(now, form) if now else "", "" if ratio is None else f"{ratio:.2f}"


def main(listed: Sequence[str]) -> None:
    """Print the table, and end with 1 where a limit is stated and exceeded."""
    parser = argparse.ArgumentParser(prog="python -m deid_assets_tests.benchmarks against", description=__doc__.splitlines()[0])
    parser.add_argument("commit", help=f"the other version; {DAY_BEFORE}: the newest that is a day older than this one")
    parser.add_argument("--rounds", type=int, default=3, help="each version runs so often, in turns (default 3)")
    parser.add_argument("--published", action="store_true", help="under a policy of the tests that publishes few members, too")
    parser.add_argument("--limit", type=float, help="what a step may cost, as a multiple of the other version")
    asked, arguments = parser.parse_known_args(listed)
    other = of_the_day_before() if asked.commit == DAY_BEFORE else asked.commit
    if not other:
        print("No commit is a day older than this one: there is nothing to compare with.")
        return
    commit = _git("rev-parse", "--short", f"{other}^{{commit}}")
    where = machine()
    with checked_out(commit) as tree, tempfile.TemporaryDirectory() as folder:
        policy = ["--policy", str(policy_that_publishes(Path(folder)))] if asked.published else []
        found: dict[Path, list[Costs]] = {tree: [], ROOT: []}
        for _ in range(asked.rounds):
            for version, costs in found.items():
                environment = {"PYTHONPATH": os.fspath(version), "DEID_SECRET": "a secret of benchmarks, made for them alone"}
                costs.append(measured([*policy, *arguments], environment))
    steps = compared(found[tree], found[ROOT])
    print(f"{where}\n\n`{' '.join(['deid run', *arguments])}`, the least of {asked.rounds} rounds, against {commit}:\n")
    of_both = ("CPU, s", "time, s", "peak memory, GB")
    head("step", *(f"{what}: {of}" for what in of_both for of in (commit, "now", "ratio")))
    for one in steps:
        if one.now.cpu >= SHOWN:
            row(one.name, *_both(one, "cpu", ".1f"), *_both(one, "wall", ".1f"), *_both(one, "peak", ".2f"))
    if asked.limit is not None and (names := too_dear(steps, asked.limit)):
        sys.exit(f"these cost more than {asked.limit} times what they did at {commit}: {', '.join(names).replace('*', '')}")
