"""The search over a flat table against counting every node: prints a table with ratios made in one run.

    python -m deid_assets_tests.benchmarks.flat [--rows N]

Adult where it is at hand (30,162 records, 12,960 nodes), else a random table of the same shape. What counts every node is
measured on some nodes drawn at random and multiplied: exhaustively it would take minutes to hours.
"""

import argparse
import time
from collections.abc import Callable

import duckdb
import numpy as np
import pandas as pd

from deid_assets.methods.flat_search import entropy_losses, search_flat_table
from deid_assets.methods.flat_table import FlatTable
from deid_assets.methods.longitudinal_data import Domain
from deid_assets_tests.adult import adult_table
from deid_assets_tests.benchmarks.__main__ import machine
from deid_assets_tests.public_data import FOLDER

SIZES = ((2, 1), (74, 20, 10, 5, 1), (5, 1), (7, 3, 1), (16, 8, 3, 1), (41, 5, 1), (8, 3, 1), (14, 4, 1), (2, 1))
"""Classes of each level of nine quasi-identifiers, for the random table."""


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


def seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def generalized(table: FlatTable, node: np.ndarray) -> np.ndarray:
    return np.stack([d.levels[level][c] for d, level, c in zip(table.domains, node, table.codes.T, strict=True)], axis=1)


def by_numpy(table: FlatTable, node: np.ndarray) -> int:
    counts = np.unique(generalized(table, node), axis=0, return_counts=True)[1]
    return int(counts[counts < 5].sum())


def by_pandas(table: FlatTable, node: np.ndarray) -> int:
    counts = pd.DataFrame(generalized(table, node)).value_counts(sort=False).to_numpy()
    return int(counts[counts < 5].sum())


def by_duckdb(connection: duckdb.DuckDBPyConnection, table: FlatTable, node: np.ndarray) -> int:
    frame = pd.DataFrame(generalized(table, node), columns=[f"c{i}" for i in range(len(node))])
    connection.register("frame", frame)
    found = connection.execute("SELECT coalesce(sum(n), 0) FROM (SELECT count(*) AS n FROM frame GROUP BY ALL) WHERE n < 5")
    return int(found.fetchall()[0][0])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, help="records of a random table, instead of Adult")
    asked = parser.parse_args()
    at_hand = not asked.rows and (FOLDER / "adult").is_dir()
    table = adult_table(FOLDER / "adult")[1] if at_hand else None
    name = "Adult" if table is not None else "random table"
    table = table if table is not None else random_table(asked.rows or 30_162)
    all_nodes = np.indices([height + 1 for height in table.heights]).reshape(len(table.heights), -1).T
    some = all_nodes[np.random.default_rng(2).choice(len(all_nodes), 12, replace=False)]
    print(f"{machine()} {name}: {table.records:,} records, {len(all_nodes):,} nodes, k = 5.\n")
    print("| how | MaxSup | nodes counted | time | times ours |\n|---|---|---|---|---|")
    connection = duckdb.connect()
    for share in (0.04, 0.0):
        fresh = [FlatTable(table.codes, table.domains) for _ in range(3)]
        found = [None]

        def ours(one, share=share, found=found):
            found[0] = search_flat_table(one, 5, share, entropy_losses(one))

        own = min(seconds(lambda one=one: ours(one)) for one in fresh)
        print(f"| this search | {share:.0%} | {len(found[0].evaluated):,} | {own:.2f} s | 1 |")
        if share:
            for how, count in (("naive NumPy", by_numpy), ("pandas", by_pandas)):
                other = seconds(lambda count=count: [count(table, node) for node in some]) * len(all_nodes) / len(some)
                print(f"| {how}, every node | {share:.0%} | {len(all_nodes):,} (from 12) | {other:.0f} s | {other / own:.0f} |")
            other = seconds(lambda: [by_duckdb(connection, table, node) for node in some]) * len(all_nodes) / len(some)
            print(f"| DuckDB, every node | {share:.0%} | {len(all_nodes):,} (from 12) | {other:.0f} s | {other / own:.0f} |")


if __name__ == "__main__":
    main()
