"""What the steps of a run cost by the number of members, the exponent with which each grows, and the peak memory.

python -m deid_assets_tests.benchmarks sizes [--sizes 5000 20000 ...] [--share .1] [--published] [--estimate 50000000] ...

Other options are those of `deid run`. The exponent is the slope of log CPU seconds over log members, by least squares: 1 grows
as the members do. An estimate goes on from the two largest runs that came to the end, by how the work of the steps divides.
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deid_assets.figures.rendering import (
    BLACK,
    BLUE,
    DARK_ORANGE,
    GREEN,
    PURPLE,
    SKY,
    VERMILION,
    new_figure,
    rendered,
    styled,
)
from deid_assets.stages import WORK_OF
from deid_assets_tests.benchmarks.against import policy_that_publishes
from deid_assets_tests.benchmarks.page import PAGE
from deid_assets_tests.benchmarks.profile import SHOWN, Costs, measured
from deid_assets_tests.benchmarks.timing import head, machine, row

FIGURE = PAGE.parent / "images" / "cost-by-members.svg"
_LOOKS = (("s", BLUE), ("^", DARK_ORANGE), ("D", GREEN), ("v", VERMILION), ("P", PURPLE), ("X", SKY))
"""Mark and colour of the steps in the figure, which differ without colour, too; the whole run has a line of its own."""


@dataclass(frozen=True)
class Growth:
    """CPU seconds of a step by number of members, in ascending order; only of runs that had the step."""

    name: str
    cpu: Mapping[int, float]

    @property
    def exponent(self) -> float | None:
        """With which power of the members the seconds grow; None of fewer than two sizes."""
        taken = [(size, cpu) for size, cpu in self.cpu.items() if cpu > 0]
        if len(taken) < 2:
            return None
        return float(np.polyfit(*np.log(np.array(taken)).T, 1)[0])

    @property
    def told(self) -> str:
        """The exponent as it is printed; empty if there is none."""
        return "" if self.exponent is None else f"{round(self.exponent, 2) + 0.0:.2f}"


def growths(costs: Mapping[int, Costs]) -> list[Growth]:
    """The steps that cost enough of the largest run to be shown, the whole run first, then those that cost most.

    A run that was refused before the last step of the largest one tells its steps, and nothing of the whole.
    """
    last = costs[max(costs)].steps[-1].name

    def told(of: Costs) -> dict[str, float]:
        rest = (of.whole, of.between, of.after) if last in [step.name for step in of.steps] else ()
        return {one.name: one.cpu for one in (*of.steps, of.before, *rest)}

    by_size = {size: told(of) for size, of in sorted(costs.items())}
    largest = by_size[max(by_size)]
    shown = sorted((name for name, cpu in largest.items() if cpu >= SHOWN), key=lambda name: -largest[name])
    return [Growth(name, {size: own[name] for size, own in by_size.items() if name in own}) for name in shown]


def estimated(grown: Sequence[Growth], members: int) -> list[tuple[Growth, float]]:
    """What runs would take of more members, in hours of CPU, by how the work of the steps divides, in the order of the largest.

    Each kind of work grows on as it did between the two largest runs that came to the end.
    """
    sizes = sorted(grown[0].cpu)[-2:]
    if len(sizes) < 2:
        raise SystemExit("an estimate needs two runs that come to the end: name larger --sizes")
    by_work: dict[str, dict[int, float]] = {}
    for step in grown[1:]:
        cpu = by_work.setdefault(_work_of(step.name), dict.fromkeys(sizes, 0.0))
        for size in sizes:
            cpu[size] += step.cpu.get(size, 0.0)
    kinds = sorted((Growth(name, cpu) for name, cpu in by_work.items()), key=lambda kind: -kind.cpu[sizes[-1]])
    more = members / sizes[-1]
    return [(kind, kind.cpu[sizes[-1]] / 3600 * more ** (1 if kind.exponent is None else kind.exponent)) for kind in kinds]


def _work_of(step: str) -> str:
    """How the work of a step divides; steps of several assets by one of them."""
    asset = {"intake": "claims", "generalization_choice": "chosen_generalization"}.get(step, step)
    return WORK_OF[asset].label if asset in WORK_OF else "checks, start and end"


@styled()
def figure(grown: Sequence[Growth]) -> bytes:
    """Draw the CPU seconds of the whole run and of the steps that cost most over the members, both axes in logarithms."""
    drawing, axes = new_figure(6.4, 3.6)
    for one, (mark, color) in zip(grown, (("o", BLACK), *_LOOKS), strict=False):
        axes.plot(
            [*one.cpu], [*one.cpu.values()], marker=mark, color=color, markersize=5, label=f"{one.name.strip('*')}: {one.told}",
            linewidth=2.2 if color == BLACK else 1.4,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    sizes = sorted({size for one in grown for size in one.cpu})
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel("members")
    axes.set_ylabel("CPU seconds")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, title="exponent")
    return rendered(drawing)


def main(listed: Sequence[str]) -> None:
    """Print the table, and write the figure."""
    parser = argparse.ArgumentParser(prog="python -m deid_assets_tests.benchmarks sizes", description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[5_000, 20_000, 200_000], help="numbers of members")
    parser.add_argument("--published", action="store_true", help="under a policy of the tests that publishes few members, too")
    parser.add_argument("--share", type=float, help="share of the members to release (default: as many as the policy says)")
    parser.add_argument("--estimate", type=int, metavar="MEMBERS", help="also estimate what a run of so many members takes")
    parser.add_argument("--figure", type=Path, default=FIGURE, help=f"SVG to write (default {FIGURE.name} of the docs)")
    asked, arguments = parser.parse_known_args(listed)
    sizes, where = sorted(set(asked.sizes)), machine()
    with tempfile.TemporaryDirectory() as folder:
        policy = ["--policy", str(policy_that_publishes(Path(folder)))] if asked.published else []
        runs = {size: ["--members", str(size), *policy, *arguments] for size in sizes}
        if asked.share:
            runs = {size: [*run, "--release", str(max(1, round(asked.share * size)))] for size, run in runs.items()}
        costs = {size: measured(run, {}) for size, run in runs.items()}
    grown = growths(costs)
    asked.figure.write_bytes(figure(grown))
    print(f"{where}\n\nCPU seconds by number of members, and the exponent:\n")
    head("step", *(f"{size:,}" for size in sizes), "exponent")
    for one in grown:
        taken = (f"{one.cpu[size]:.1f}" if size in one.cpu else "" for size in sizes)
        row(one.name, *taken, one.told)
    row("*time, s*", *(f"{costs[size].whole.wall:.0f}" for size in sizes), "")
    row("*peak memory, GB*", *(f"{costs[size].whole.peak:.2f}" for size in sizes), "")
    if asked.estimate:
        print(f"\nEstimated for {asked.estimate:,} members, from the two largest runs:\n")
        head("work", *(f"{size:,}, CPU s" for size in sorted(grown[0].cpu)[-2:]), "exponent", f"{asked.estimate:,}, CPU hours")
        for kind, hours in estimated(grown, asked.estimate):
            row(kind.name, *(f"{cpu:.0f}" for cpu in kind.cpu.values()), kind.told, f"{hours:.1f}")
    if asked.figure == FIGURE:
        print(f"\n![CPU seconds of the steps that cost most, over the number of members](images/{FIGURE.name})")
