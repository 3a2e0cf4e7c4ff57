"""What a draw costs: the kernel on each engine, against naive NumPy, pandas and DuckDB on the same draws.

    python -m deid_assets_tests.benchmarks.kernel [--effort] [--lattice] [--scaling] [--all]

Prints Markdown tables. A draw is all of the work: sampling a member's knowledge and deciding whether its class reaches
k. The others are given the knowledge and only count. What is made once for all nodes (bit-sets, and for the others
their tables) is not in the times. These are processor times on one thread unless said otherwise; ratios come from the
same rounds, in which all take turns.
"""

import argparse

import numpy as np

from deid_assets.methods.kernel import engine
from deid_assets.methods.kernel.knowledge import DRAWS_PER_BLOCK, draw_knowledge
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.population.longitudinal_data import Generalization
from deid_assets_tests.benchmarks.heritage_size import CLAIMS, DIMENSIONS, MEMBERS, NODES, K, heritage_size
from deid_assets_tests.benchmarks.kernel_others import with_duckdb, with_numpy, with_pandas
from deid_assets_tests.benchmarks.kernel_scale import KEY, effort, flags_by, lattice, scaling
from deid_assets_tests.benchmarks.timing import head, least_seconds, load, machine, row

OTHERS = {"DuckDB": with_duckdb, "naive NumPy": with_numpy, "pandas": with_pandas}
NAMES = {"numpy": "NumPy", "numba": "numba"}


def compared(computation: NodeComputation, asked: argparse.Namespace) -> None:
    """Print what a draw costs at each node by each means, having checked that all agree."""
    engines = engine.available_engines()
    draws_of = {"DuckDB": asked.duckdb, "naive NumPy": asked.naive, "pandas": asked.pandas}
    others = {name: draws for name, draws in draws_of.items() if draws}
    ratios = [f"{name} : {NAMES[faster]}" for name in others for faster in engines]
    print(f"Microseconds a draw, and ratios; {asked.draws:,} draws of the kernel:\n")
    head("node", "share at high risk", *(NAMES[name] for name in engines), *others, *ratios)
    drawn = draw_knowledge(computation.data, KEY, 0)
    for node_name, node in NODES.items():
        levels = computation.generalization(node)
        works = {name: flags_by(name, computation, levels, asked.draws) for name in engines}
        works |= {name: OTHERS[name](computation.data, levels, drawn, draws) for name, draws in others.items()}
        found = least_seconds(works, asked.rounds)
        flags = found[engines[0]][1]
        check_agreement(computation, levels, flags, {name: found[name][1] for name in (*engines[1:], *others)})
        cost = {name: spent / (others.get(name) or asked.draws) * 1e6 for name, (spent, _) in found.items()}
        cells = [f"{flags.mean():.4f}", *(f"{cost[name]:.2f}" for name in engines)]
        cells += [f"{cost[name]:,.0f}" for name in others]
        row(node_name, *cells, *(f"{cost[name] / cost[faster]:,.0f}" for name in others for faster in engines))


def check_agreement(
    computation: NodeComputation, levels: Generalization, flags: np.ndarray, others: dict[str, np.ndarray]
) -> None:
    """Stop where another engine gives other flags, or other means another side of k for a draw that is not exempt."""
    exempt = computation.drawn_classes(levels, KEY, DRAWS_PER_BLOCK, "once").exempt
    for name, counted in others.items():
        if name in engine.ENGINES:
            same = np.array_equal(flags, counted)
        else:
            kept = ~exempt[: len(counted)]
            same = np.array_equal(counted[kept] < K, flags[: len(counted)][kept])
        if not same:
            raise SystemExit(f"{name} disagrees with the kernel")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument("--claims", type=int, help="of all members together; default 23.6 for each")
    parser.add_argument("--draws", type=int, default=64 * DRAWS_PER_BLOCK, help="of the kernel, in one round")
    parser.add_argument("--rounds", type=int, default=3, help="of which the least time counts")
    parser.add_argument("--duckdb", type=int, default=2000, help="draws of DuckDB, 0 for none")
    parser.add_argument("--naive", type=int, default=20, help="draws of naive NumPy, 0 for none")
    parser.add_argument("--pandas", type=int, default=20, help="draws of pandas, 0 for none")
    parser.add_argument("--effort", action="store_true", help="also a node at the paper's full effort, and two threads")
    parser.add_argument("--lattice", action="store_true", help="also decide every node of the lattice")
    parser.add_argument("--scaling", action="store_true", help="also other numbers of members")
    parser.add_argument("--sizes", type=int, nargs="+", default=[28_250, 113_000, 452_000, 1_130_000])
    parser.add_argument("--all", action="store_true", help="all of these")
    asked = parser.parse_args()
    if not max(asked.duckdb, asked.naive, asked.pandas) <= DRAWS_PER_BLOCK <= asked.draws:
        parser.error(f"the kernel needs at least {DRAWS_PER_BLOCK} draws, the others at most as many")

    data = heritage_size(asked.members, asked.claims or round(asked.members * CLAIMS / MEMBERS))
    claims = max(len(known.codes) for known in data.known)
    print(f"{machine()} {data.members:,} members, all released; {claims:,} claims.\n")
    computation = NodeComputation(data, DIMENSIONS, K)
    compared(computation, asked)
    if asked.effort or asked.all:
        effort(computation, asked.rounds)
    if asked.lattice or asked.all:
        lattice(computation)
    if asked.scaling or asked.all:
        del computation, data
        scaling(asked.sizes, asked.draws, asked.rounds)
    print(f"\n{load()}")


if __name__ == "__main__":
    main()
