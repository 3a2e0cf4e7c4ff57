"""The kernel at full size: a node at the paper's effort, two threads, the whole lattice, other numbers of members."""

import tracemalloc
from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest.mock import patch

import numpy as np

from deid_assets.methods.kernel import drawn_blocks, engine
from deid_assets.methods.kernel.executor import Threads
from deid_assets.methods.kernel.knowledge import DRAWS_PER_BLOCK
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.information_loss import LatticeLoss
from deid_assets.methods.lattice.longitudinal_search import LatticeSearch, SearchRule, search_lattice
from deid_assets.methods.population.longitudinal_data import Generalization, LongitudinalData
from deid_assets_tests.benchmarks.heritage_size import (
    CLAIMS,
    DIMENSIONS,
    MEMBERS,
    NODES,
    K,
    heritage_size,
    size_in_bytes,
)
from deid_assets_tests.benchmarks.timing import head, least_seconds, processor_seconds, row, wall_seconds
from deid_assets_tests.methods.engines import running_on

KEY, WARM_UP_KEY, SEARCH_KEY = bytes(range(16)), bytes(range(1, 17)), bytes(range(2, 18))
MAX_SUP = 0.008
FULL_EFFORT = 1_000 * 10_000
"""Draws of a node at most: the paper's thousand times ten thousand."""
NEAR = 1.004
"""MaxSup over the share of a node just below it: within half a per cent."""
WARM_UP = 16 * DRAWS_PER_BLOCK
BORDER = NODES["next to MaxSup"]
ALONE = (4, 3, 2, 1)
"""A node whose share no other node comes near to."""


def keeping_no_draws() -> AbstractContextManager:
    """Each round makes its draws again."""
    return patch.object(drawn_blocks, "BYTES_KEPT", 0)


def flags_by(name: str, computation: NodeComputation, levels: Generalization, draws: int) -> Callable[[], np.ndarray]:
    """What measures a node with one engine, warmed up; gives (draws,) bool."""

    def measured(key: bytes = KEY, draws: int = draws) -> np.ndarray:
        with running_on(name), keeping_no_draws():
            return computation.measure(levels, key, draws, keep_flags=True).flags

    measured(WARM_UP_KEY, WARM_UP)
    return measured


def effort(computation: NodeComputation, rounds: int) -> None:
    """Print how long one node takes at full effort, and how much sooner two threads are done."""
    print(f"\nOne node at full effort, {FULL_EFFORT:,} draws, and on a tenth of them two threads against one:\n")
    head("engine", "processor seconds", "microseconds a draw", "two threads : one, time that passes")
    with Threads(2) as two:
        for name in engine.available_engines():
            with running_on(name), keeping_no_draws():
                computation.measure(BORDER, WARM_UP_KEY, WARM_UP)
                spent, _ = processor_seconds(lambda: computation.measure(BORDER, SEARCH_KEY, FULL_EFFORT))
                works = {
                    "one": lambda: computation.measure(BORDER, KEY, FULL_EFFORT // 10).flagged,
                    "two": lambda: computation.on(two).measure(BORDER, KEY, FULL_EFFORT // 10).flagged,
                }
                found = least_seconds(works, rounds, wall_seconds)
            if found["one"][1] != found["two"][1]:
                raise SystemExit("two threads give another result than one")
            ratio = found["two"][0] / found["one"][0]
            row(name, f"{spent:.1f}", f"{spent / FULL_EFFORT * 1e6:.2f}", f"{ratio:.2f}")


def lattice(computation: NodeComputation) -> None:
    """Print how long all nodes take to be decided: far from MaxSup, and with one within half a per cent of it."""
    print("\nProcessor seconds until every node is decided, each with an interval:\n")
    head("engine", "MaxSup", "nearest node", "its draws", "nodes", "candidates", "undecided", "seconds")
    share = computation.measure(ALONE, SEARCH_KEY, FULL_EFFORT).share
    for threshold in (MAX_SUP, NEAR * share):
        for name in engine.available_engines():
            with running_on(name):
                spent, found = processor_seconds(lambda threshold=threshold: searched(computation, threshold))
            measured = [node for node in found.nodes if node.reached == "measured"]
            nearest = min(measured, key=lambda node: abs(node.share / threshold - 1))
            decisions = [node.decision for node in found.nodes]
            row(
                name, f"{threshold:.5f}", f"{nearest.share / threshold - 1:+.1%}", f"{nearest.draws:,}", len(decisions),
                decisions.count("candidate"), decisions.count("undecided"), f"{spent:.1f}",
            )  # fmt: skip


def searched(computation: NodeComputation, threshold: float) -> LatticeSearch:
    """The search over the whole lattice, with the bit-sets made and no draw at hand."""
    fresh = computation.with_power(computation.data.power)
    losses = LatticeLoss(fresh.data, DIMENSIONS, "normalised").of_every_node()
    return search_lattice(fresh, losses, SearchRule(SEARCH_KEY, threshold, draws_at_most=FULL_EFFORT))


def scaling(sizes: list[int], draws: int, rounds: int) -> None:
    """Print memory and the cost of a draw for other numbers of members; all sizes take turns."""
    print("\nOther numbers of members:\n")
    head("members", "claims", "claims, MB", "beside the claims at most, MB", "bit-sets, MB", "made in, s")
    computations = {}
    for members in sorted({*sizes, MEMBERS}):
        data = heritage_size(members, round(members * CLAIMS / MEMBERS))
        computations[members], beside, made = measured_memory(data)
        claims = max(len(known.codes) for known in data.known)
        bit_sets = computations[members].index.nbytes
        sizes_in_mb = (megabytes(size) for size in (size_in_bytes(data), beside, bit_sets))
        row(f"{members:,}", f"{claims:,}", *sizes_in_mb, f"{made:.1f}")

    engines = engine.available_engines()
    print(f"\nMicroseconds a draw, and times that of {MEMBERS:,} members:\n")
    head("node", "members", "share at high risk", *(cell for name in engines for cell in (name, "times")))
    for node_name, node in NODES.items():
        works = {
            (name, members): flags_by(name, computation, computation.generalization(node), draws)
            for members, computation in computations.items()
            for name in engines
        }
        found = least_seconds(works, rounds)
        for members in computations:
            cells = [f"{found[engines[0], members][1].mean():.4f}"]
            for name in engines:
                spent = found[name, members][0]
                cells += [f"{spent / draws * 1e6:.2f}", f"{spent / found[name, MEMBERS][0]:.2f}"]
            row(node_name, f"{members:,}", *cells)


def measured_memory(data: LongitudinalData) -> tuple[NodeComputation, int, float]:
    """The node computation, the most bytes held beside the data while it is made and used, and seconds to make it."""
    tracemalloc.start()
    made, computation = processor_seconds(lambda: _with_bit_sets(data))
    with running_on("numpy"):
        for node in NODES.values():
            computation.measure(node, WARM_UP_KEY, 2 * WARM_UP)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return computation, peak, made


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f}"


def _with_bit_sets(data: LongitudinalData) -> NodeComputation:
    """The computation, its bit-sets made; by itself it makes them when they are needed."""
    computation = NodeComputation(data, DIMENSIONS, K)
    assert computation.index.nbytes
    return computation
