"""What a draw costs: the kernel on each engine, against pandas and DuckDB on the same draws. Prints a Markdown table.

    python -m deid_assets_tests.benchmarks.kernel [--members N] [--claims N] [--draws N] [--lattice]

A draw is all of the work: sampling a member's knowledge and deciding whether its class reaches k. pandas and DuckDB are
given the knowledge and only count. Times are processor time on one thread, without what is made once for all nodes
(bit-sets, and for the others their tables), so that other work on the machine disturbs them little.
"""

import argparse
import time
import tracemalloc
from collections.abc import Callable

import duckdb
import numpy as np
import pandas as pd

from deid_assets.methods import engine
from deid_assets.methods.class_size_query import class_sizes
from deid_assets.methods.generalization_lattice import search_lattice
from deid_assets.methods.information_loss import LatticeLoss
from deid_assets.methods.knowledge import DRAWS_PER_BLOCK, Knowledge, draw_knowledge
from deid_assets.methods.longitudinal_data import Generalization, LongitudinalData
from deid_assets.methods.node_computation import NodeComputation
from deid_assets.store import Table
from deid_assets_tests.benchmarks.__main__ import machine
from deid_assets_tests.benchmarks.heritage_size import CLAIMS, DIMENSIONS, MEMBERS, NODES, K, heritage_size
from deid_assets_tests.methods.engines import running_on

KEY, WARM_UP_KEY, SEARCH_KEY = bytes(range(16)), bytes(range(1, 17)), bytes(range(2, 18))
MAX_SUP = 0.008
DRAWS_AT_MOST = 10_000_000
"""Draws of a node at most: the paper's thousand times ten thousand."""


def seconds(work: Callable[[], object]) -> tuple[float, object]:
    """Processor time of some work, and its result."""
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


def kernel(computation: NodeComputation, levels: Generalization, draws: int) -> tuple[float, np.ndarray]:
    """Microseconds a draw of the engine that is chosen, and the flags."""
    computation.measure(levels, WARM_UP_KEY, 4 * DRAWS_PER_BLOCK)
    spent, measured = seconds(lambda: computation.measure(levels, KEY, draws, keep_flags=True))
    return spent / draws * 1e6, measured.flags


def generalized_members(data: LongitudinalData, levels: Generalization) -> pd.DataFrame:
    """member_id and a column for each level-1 quasi-identifier, generalized."""
    columns = {
        f"d{i}": domain.levels[level][data.demographics[:, i]]
        for i, (domain, level) in enumerate(zip(data.demographic_domains, levels.demographics, strict=True))
    }
    return pd.DataFrame({"member_id": np.arange(data.members), **columns})


def generalized_claims(data: LongitudinalData, levels: Generalization) -> list[pd.DataFrame]:
    """For each history member_id and the value, generalized: D', missing values left out."""
    frames = []
    for held, domain, level in zip(data.held, data.history_domains, levels.histories, strict=True):
        owners = np.repeat(np.arange(data.members), held.counts)
        frames.append(pd.DataFrame({"member_id": owners, "value": domain.levels[level][held.codes]}))
    return frames


def known_values(data: LongitudinalData, levels: Generalization, drawn: Knowledge, draws: int) -> pd.DataFrame:
    """draw_id | history | value | times: the knowledge of the first draws, generalized."""
    draw, history, code = drawn.facts()
    value = np.empty_like(code)
    for h, (domain, level) in enumerate(zip(data.history_domains, levels.histories, strict=True)):
        value[history == h] = domain.levels[level][code[history == h]]
    facts = pd.DataFrame({"draw_id": draw, "history": history, "value": value})
    return facts[facts["draw_id"] < draws].value_counts(sort=False).rename("times").reset_index()


def with_pandas(data: LongitudinalData, levels: Generalization, draws: int) -> tuple[float, np.ndarray]:
    """Draw by draw: who has the same demographics and holds every value often enough."""
    members, claims = generalized_members(data, levels).set_index("member_id"), generalized_claims(data, levels)
    drawn = draw_knowledge(data, KEY, 0)
    known = known_values(data, levels, drawn, draws)

    def size(draw: int) -> int:
        target = members.loc[data.targets[drawn.targets[draw]]]
        left = members.index[(members == target).all(axis=1)]
        for fact in known[known["draw_id"] == draw].itertuples():
            held = claims[fact.history]
            times = held[(held["value"] == fact.value) & held["member_id"].isin(left)].groupby("member_id").size()
            left = times.index[times >= fact.times]
        return len(left)

    spent, sizes = seconds(lambda: [size(draw) for draw in range(draws)])
    return spent / draws * 1e6, np.array(sizes)


def with_duckdb(data: LongitudinalData, levels: Generalization, draws: int) -> tuple[float, np.ndarray]:
    """All draws in one join-and-having, on values aggregated beforehand: the query of the gate's second opinion."""
    drawn = draw_knowledge(data, KEY, 0)
    members = generalized_members(data, levels)
    asked = members.loc[data.targets[drawn.targets[:draws]]].drop(columns="member_id").assign(draw_id=np.arange(draws))
    known = known_values(data, levels, drawn, draws).rename(columns={"history": "quasi_identifier"})
    held = [
        claims.value_counts(sort=False).rename("n").reset_index().assign(quasi_identifier=h)
        for h, claims in enumerate(generalized_claims(data, levels))
    ]
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("CREATE SCHEMA benchmark")
        texts = {"value": str, "quasi_identifier": str}
        frames = {
            "members": members,
            "draws": asked,
            "knowledge": known.astype(texts),
            "held": pd.concat(held).astype(texts),
        }
        tables = {}
        for name, frame in frames.items():
            tables[name] = Table(None, "benchmark", name)
            connection.register("frame", frame)
            connection.execute(f"CREATE TABLE {tables[name].sql} AS SELECT * FROM frame")
        query = class_sizes(**tables, demographics=[name for name in members.columns if name != "member_id"])
        spent, rows = seconds(lambda: connection.execute(query).fetchall())
    return spent / draws * 1e6, np.array([size for _, size in rows])


def compared(computation: NodeComputation, asked: argparse.Namespace) -> None:
    """Print what a draw costs at each node by each means, having checked that all agree."""
    engines = engine.available_engines()
    others = [("DuckDB", with_duckdb, asked.duckdb), ("pandas", with_pandas, asked.pandas)]
    others = [other for other in others if other[2]]
    ratios = [f"{name} : {faster}" for name, _, _ in others for faster in engines]
    heads = ["node", "share at high risk", *engines, *(name for name, _, _ in others), *ratios]
    print("Microseconds a draw, and ratios:\n")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}", flush=True)
    for node_name, node in NODES.items():
        levels = computation.generalization(node)
        of_engines, flags = [], []
        for name in engines:
            with running_on(name):
                cost, flagged = kernel(computation, levels, asked.draws)
            of_engines.append(cost)
            flags.append(flagged)
        assert all(np.array_equal(flags[0], other) for other in flags), "the engines disagree"
        exempt = computation.drawn_classes(levels, KEY, DRAWS_PER_BLOCK, "once").exempt
        of_others = []
        for name, count, draws in others:
            cost, sizes = count(computation.data, levels, draws)
            kept = ~exempt[:draws]
            assert np.array_equal(sizes[kept] < K, flags[0][:draws][kept]), f"{name} disagrees"
            of_others.append(cost)
        cells = [f"{flags[0].mean():.4f}", *(f"{cost:.2f}" for cost in of_engines)]
        cells += [f"{cost:,.0f}" for cost in of_others]
        cells += [f"{other / cost:,.0f}" for other in of_others for cost in of_engines]
        print(f"| {node_name} | {' | '.join(cells)} |", flush=True)


def lattice(computation: NodeComputation) -> None:
    """Print how long all nodes take to be decided, each with its interval."""
    print("\nSeconds until every node is decided, each with an interval:\n")
    print("| engine | nodes | candidates | undecided | seconds |\n|---|---|---|---|---|", flush=True)
    loss = LatticeLoss(computation.data, computation.dimensions, "normalised")
    for name in engine.available_engines():
        with running_on(name):
            fresh = NodeComputation(computation.data, DIMENSIONS, K, computation.index)
            spent, found = seconds(
                lambda: search_lattice(fresh, loss, SEARCH_KEY, MAX_SUP, draws_at_most=DRAWS_AT_MOST)
            )
        decisions = [result.decision for result in found.nodes]
        counts = f"{decisions.count('candidate')} | {decisions.count('undecided')}"
        print(f"| {name} | {len(decisions)} | {counts} | {spent:.1f} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument("--claims", type=int, default=CLAIMS, help="of all members together")
    parser.add_argument("--draws", type=int, default=128 * DRAWS_PER_BLOCK, help="of the kernel")
    parser.add_argument("--duckdb", type=int, default=2000, help="draws of DuckDB, 0 for none")
    parser.add_argument("--pandas", type=int, default=20, help="draws of pandas, 0 for none")
    parser.add_argument("--lattice", action="store_true", help="also decide every node of the lattice")
    asked = parser.parse_args()
    if not max(asked.duckdb, asked.pandas) <= DRAWS_PER_BLOCK <= asked.draws:
        parser.error(f"the kernel needs at least {DRAWS_PER_BLOCK} draws, the others at most as many")

    data = heritage_size(asked.members, asked.claims)
    tracemalloc.start()
    made, computation = seconds(lambda: NodeComputation(data, DIMENSIONS, K))
    with running_on("numpy"):
        computation.measure(NODES["finest"], WARM_UP_KEY, 32 * DRAWS_PER_BLOCK)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    claims = max(len(known.codes) for known in data.known)
    print(f"{machine()} {data.members:,} members, {claims:,} claims, {asked.draws:,} draws.")
    index = computation.index.nbytes
    print(f"Bit-sets: {index / 1e6:.0f} MB, made in {made:.1f} s. At most {peak / 1e6:.0f} MB beside the claims.\n")
    compared(computation, asked)
    if asked.lattice:
        lattice(computation)


if __name__ == "__main__":
    main()
