"""The search over a flat table against other means on the same task: prints tables with ratios made in one run.

    python -m deid_assets_tests.benchmarks.flat [--python INTERPRETER] [--scaling]

Adult where it is at hand (30,162 records, 12,960 nodes), else a random table of the same shape. What counts every node
is measured on some nodes drawn at random and multiplied: exhaustively it would take minutes to hours. anjana searches
by itself, and pycanon measures one table at a time; both run under the interpreter that `--python` names
(`flat_worker`). Times are processor times on one thread.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

from deid_assets.figures.rendering import percent
from deid_assets.methods.flat.classes import FlatTable
from deid_assets.methods.flat.search import FlatResult, entropy_losses, search_flat_table
from deid_assets.methods.population.longitudinal_data import Domain
from deid_assets_tests.adult import adult_table
from deid_assets_tests.benchmarks import flat_worker
from deid_assets_tests.benchmarks.timing import head, least_seconds, load, machine, row
from deid_assets_tests.public_data import FOLDER

SIZES = ((2, 1), (74, 20, 10, 5, 1), (5, 1), (7, 3, 1), (16, 8, 3, 1), (41, 5, 1), (8, 3, 1), (14, 4, 1), (2, 1))
"""Classes of each level of nine quasi-identifiers, for the random table: those of Adult."""
K = 5
SHARES = (0.04, 0.0)
RECORDS = (10_000, 30_162, 100_000, 300_000)
SOME = 12
"""Nodes on which what counts every node is measured."""


def random_table(rows: int) -> FlatTable:
    """Correlated columns of the shape of Adult."""
    generator = np.random.default_rng(1)
    common = generator.random(rows)
    codes, domains = [], []
    for sizes in SIZES:
        skewed = (0.5 * common + 0.5 * generator.random(rows)) ** 2
        codes.append(np.minimum((skewed * sizes[0]).astype(int), sizes[0] - 1))
        levels = [np.arange(sizes[0])]
        for size in sizes[1:]:
            levels.append(levels[-1] * size // (levels[-1].max() + 1))
        domains.append(Domain(tuple(levels)))
    return FlatTable(np.array(codes).T, tuple(domains))


def all_nodes(table: FlatTable) -> np.ndarray:
    """(nodes, columns) int."""
    return np.indices([height + 1 for height in table.heights]).reshape(len(table.heights), -1).T


def generalized(table: FlatTable, node: np.ndarray) -> np.ndarray:
    return np.stack([d.levels[level][c] for d, level, c in zip(table.domains, node, table.codes.T, strict=True)], axis=1)


def by_numpy(table: FlatTable, node: np.ndarray) -> int:
    counts = np.unique(generalized(table, node), axis=0, return_counts=True)[1]
    return int(counts[counts < K].sum())


def by_pandas(table: FlatTable, node: np.ndarray) -> int:
    counts = pd.DataFrame(generalized(table, node)).value_counts(sort=False).to_numpy()
    return int(counts[counts < K].sum())


def by_duckdb(table: FlatTable, node: np.ndarray, connection: duckdb.DuckDBPyConnection) -> int:
    frame = pd.DataFrame(generalized(table, node), columns=[f"c{i}" for i in range(len(node))])
    connection.register("frame", frame)
    grouped = f"SELECT count(*) AS n FROM frame GROUP BY {', '.join(frame.columns)}"
    found = connection.execute(f"SELECT coalesce(sum(n), 0) FROM ({grouped}) WHERE n < {K}").fetchall()
    return int(found[0][0])


def search(table: FlatTable, share: float) -> Callable[[], FlatResult]:
    """This search, with no class counted before."""

    def found() -> FlatResult:
        fresh = FlatTable(table.codes, table.domains)
        return search_flat_table(fresh, K, share, entropy_losses(fresh))

    return found


def loss_of(table: FlatTable, node: tuple[int, ...]) -> float:
    return float(sum(own[level] for own, level in zip(entropy_losses(table), node, strict=True)))


def compared(table: FlatTable, rounds: int, python: str) -> None:
    """Print what the best node costs by each means."""
    nodes = all_nodes(table)
    some = nodes[np.random.default_rng(2).choice(len(nodes), SOME, replace=False)]
    duckdb_here = partial(by_duckdb, connection=duckdb.connect(config={"threads": 1}))
    counting = {"naive NumPy": by_numpy, "pandas": by_pandas, "DuckDB": duckdb_here}
    ours = {share: search(table, share) for share in SHARES}
    works = ours | {name: lambda count=count: [count(table, node) for node in some] for name, count in counting.items()}
    found = least_seconds(works, rounds)
    counts = [found[name][1] for name in counting]
    if any(other != counts[0] for other in counts) or counts[0] != [table.classes_at(tuple(node)).below(K) for node in some]:
        raise SystemExit("the counts of records below k differ")
    others = by_worker(table, some, python)

    head("how", "MaxSup", "nodes counted", "loss", "time", "times ours")
    for share in SHARES:
        own, best = found[share]
        row("this search", percent(share), f"{len(best.evaluated):,}", f"{best.loss:,.1f}", f"{own:.2f} s", 1)
        for result in others.get("anjana", {}).get("found", [])[SHARES.index(share) :][:1]:
            name = f"anjana {others['anjana']['version']}"
            loss = loss_of(table, result["node"]) if result["node"] else np.inf
            worse = f"{loss:,.1f} (+{percent(loss / best.loss - 1)})"
            row(name, percent(share), "greedy", worse, f"{result['seconds']:.0f} s", f"{result['seconds'] / own:,.0f}")
    every = {name: found[name][0] for name in counting}
    if "pycanon" in others:
        every[f"pycanon {others['pycanon']['version']}"] = sum(others["pycanon"]["seconds"])
    for name, spent in every.items():
        other, own = spent * len(nodes) / SOME, found[SHARES[0]][0]
        row(f"{name}, every node", percent(SHARES[0]), f"{len(nodes):,} (from {SOME})", "the same", f"{other:,.0f} s",
            f"{other / own:,.0f}")  # fmt: skip
    for name in ("anjana", "pycanon"):
        if name not in others:
            print(f"\n{name} is not installed for {python}: not measured.")


def by_worker(table: FlatTable, some: np.ndarray, python: str) -> dict:
    """What anjana and pycanon find, and how long they take, under another interpreter."""
    task = {
        "columns": table.codes.T.tolist(),
        "levels": [[level.tolist() for level in domain.levels] for domain in table.domains],
        "k": K,
        "shares": SHARES,
        "nodes": some.tolist(),
    }
    script = str(Path(flat_worker.__file__))
    done = subprocess.run([python, script], input=json.dumps(task), stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def scaling(rounds: int, largest: int) -> None:
    """Print how the time of the search grows with the records, and with the columns."""
    tables = {records: random_table(records) for records in RECORDS if records <= largest}
    print("\nA random table of the same shape, by records, and its first columns, by their number:\n")
    head("records", "columns", "nodes", "MaxSup", "nodes counted", "time")
    for records, table in tables.items():
        scaled(table, records, rounds)
    records, table = min(tables.items())
    for columns in range(3, len(SIZES)):
        scaled(FlatTable(table.codes[:, :columns], table.domains[:columns]), records, rounds)


def scaled(table: FlatTable, records: int, rounds: int) -> None:
    """Print a row for each MaxSup."""
    found = least_seconds({share: search(table, share) for share in SHARES}, rounds)
    for share, (spent, best) in found.items():
        counted = f"{len(best.evaluated):,}"
        row(f"{records:,}", len(table.heights), f"{len(all_nodes(table)):,}", percent(share), counted, f"{spent:.2f} s")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, help="records of a random table, instead of Adult")
    parser.add_argument("--rounds", type=int, default=3, help="of which the least time counts")
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has anjana and pycanon")
    parser.add_argument("--scaling", action="store_true", help="also other numbers of records and columns")
    parser.add_argument("--largest", type=int, default=RECORDS[-1], help="records of the largest table of the scaling")
    asked = parser.parse_args()
    at_hand = not asked.rows and (FOLDER / "adult").is_dir()
    table = adult_table(FOLDER / "adult")[1] if at_hand else random_table(asked.rows or RECORDS[0])
    name = "Adult" if at_hand else "random table"
    print(f"{machine()} {name}: {table.records:,} records, {len(all_nodes(table)):,} nodes, k = {K}.\n")
    compared(table, asked.rounds, asked.python)
    if asked.scaling:
        scaling(asked.rounds, asked.largest)
    print(f"\n{load()}")


if __name__ == "__main__":
    main()
