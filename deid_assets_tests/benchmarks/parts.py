"""What it costs to measure over parts of the population, and what a part holds: one, four and sixteen of them, on this machine.

python -m deid_assets_tests.benchmarks.parts [--members 200000] [--released 20000] [--parts 1 4 16]

The draws are made before, and sorted, so that only the members who match are counted: making the draws costs the same for any
number of parts.
"""

import argparse
from collections.abc import Callable

import numpy as np

from deid_assets.methods.kernel import engine
from deid_assets.methods.kernel.executor import Threads
from deid_assets.methods.kernel.knowledge import DRAWS_PER_BLOCK
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets_tests.benchmarks.heritage_size import CLAIMS, DIMENSIONS, MEMBERS, NODES, K, heritage_size
from deid_assets_tests.benchmarks.kernel_scale import KEY, megabytes
from deid_assets_tests.benchmarks.timing import head, least_seconds, load, machine, row
from deid_assets_tests.methods.engines import running_on

DRAWS = 16 * DRAWS_PER_BLOCK
"""All of them are kept after the first round."""
EXACT = 8 * DRAWS_PER_BLOCK
"""Draws whose exact class sizes are counted; one batch."""


def flags_of(computation: NodeComputation, name: str, node: tuple[int, ...]) -> Callable[[], np.ndarray]:
    """What measures a node with one engine, the draws made; gives (draws,) bool."""

    def measured() -> np.ndarray:
        with running_on(name):
            return computation.measure(node, KEY, DRAWS, keep_flags=True).flags

    measured()
    return measured


def sizes_of(computation: NodeComputation, name: str, node: tuple[int, ...]) -> Callable[[], np.ndarray]:
    """What counts exact sizes at a node, which no part may leave out; gives (draws,) int32."""

    def measured() -> np.ndarray:
        with running_on(name):
            return computation.drawn_classes(node, KEY, EXACT).sizes

    measured()
    return measured


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=200_000)
    parser.add_argument("--released", type=int, default=20_000)
    parser.add_argument("--parts", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--rounds", type=int, default=3, help="of which the least time counts")
    asked = parser.parse_args()
    print(f"{machine()} {asked.members:,} members, {asked.released:,} released.\n")
    data = heritage_size(asked.members, round(asked.members * CLAIMS / MEMBERS), asked.released)
    computations = {}
    head("parts", "bit-sets of all, MB", "of the largest part, MB")
    for parts in asked.parts:
        # The engine changes between rounds, and draws in the order of one are those of the other.
        computations[parts] = NodeComputation(data, DIMENSIONS, K).on(Threads(1, parts))
        sizes = [part.nbytes for part in computations[parts].index.parts]
        row(parts, megabytes(sum(sizes)), megabytes(max(sizes)))
    print(f"\nMicroseconds a draw, of {DRAWS:,} flags and of {EXACT:,} exact sizes, and the ratio to the first:\n")
    head("engine", "node", *(f"{parts} parts" for parts in asked.parts), *(f"exact, {parts} parts" for parts in asked.parts))
    for name in engine.available_engines():
        for node_name, node in NODES.items():
            cells = []
            for work, draws in ((flags_of, DRAWS), (sizes_of, EXACT)):
                found = least_seconds({str(n): work(own, name, node) for n, own in computations.items()}, asked.rounds)
                first, result = next(iter(found.values()))
                if not all(np.array_equal(result, other) for _, other in found.values()):
                    raise SystemExit("another number of parts gives another result")
                cells += [f"{spent / draws * 1e6:.2f} ({spent / first:.2f})" for spent, _ in found.values()]
            row(name, node_name, *cells)
    print(f"\n{load()}")


if __name__ == "__main__":
    main()
