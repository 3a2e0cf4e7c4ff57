"""Single steps of search and kernel under pytest-benchmark, to compare two versions of the code.

    pytest --dist no deid_assets_tests/benchmarks/bench_methods.py --benchmark-autosave
    pytest --dist no deid_assets_tests/benchmarks/bench_methods.py --benchmark-compare

The extra `benchmark` installs it; it measures nothing where tests go to several processes. The test command does not
collect this file, whose name is no test's. What docs/benchmarks.md shows is printed by the modules `kernel` and `flat` beside
it, in which all take turns and are held to agree.
"""

from collections.abc import Iterator

import numpy as np
import pytest

from deid_assets.methods.flat.classes import FlatTable
from deid_assets.methods.flat.search import entropy_losses, search_flat_table
from deid_assets.methods.kernel import engine
from deid_assets.methods.kernel.knowledge import DRAWS_PER_BLOCK, draw_knowledge
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets_tests.benchmarks.flat import K as FLAT_K
from deid_assets_tests.benchmarks.flat import random_table
from deid_assets_tests.benchmarks.heritage_size import DIMENSIONS, NODES, K, heritage_size
from deid_assets_tests.benchmarks.kernel_scale import KEY, WARM_UP, WARM_UP_KEY, keeping_no_draws
from deid_assets_tests.methods.engines import each_engine, running_on

EIGHT_BLOCKS = 8 * DRAWS_PER_BLOCK


@pytest.fixture(scope="module")
def computation() -> Iterator[NodeComputation]:
    made = NodeComputation(heritage_size(), DIMENSIONS, K)
    with keeping_no_draws():
        made.measure(NODES["finest"], WARM_UP_KEY, WARM_UP)
        yield made


@pytest.fixture(scope="module")
def table() -> FlatTable:
    return random_table(30_162)


def test_bit_sets(benchmark, computation):
    benchmark.pedantic(NodeComputation, (computation.data, DIMENSIONS, K), rounds=3)


@each_engine
def test_drawing_knowledge(benchmark, computation, name):
    with running_on(name):
        benchmark(draw_knowledge, computation.data, KEY, 0)


@each_engine
@pytest.mark.parametrize("node", NODES)
def test_matching_members(benchmark, computation, name, node):
    levels, draws, index = computation.generalization(NODES[node]), computation._matching.draws, computation.index
    (part,) = index.parts
    with running_on(name):
        batch = draws.batch(KEY, range(8))
        cells, rows = part.cells(levels.demographics, index.groups), draws.rows(batch, levels.histories)
        cell = index.groups.cells(levels.demographics)[index.group_of[computation.data.targets[batch.knowledge.targets]]]
        benchmark(lambda: engine.chosen().matching_members(part, cells, cell, rows, K))


@each_engine
@pytest.mark.parametrize("node", NODES)
def test_measuring_a_node(benchmark, computation, name, node):
    with running_on(name):
        benchmark(computation.measure, NODES[node], KEY, EIGHT_BLOCKS)


@pytest.mark.parametrize("share", [0.04, 0.0])
def test_searching_a_flat_table(benchmark, table, share):
    def search():
        fresh = FlatTable(table.codes, table.domains)
        return search_flat_table(fresh, FLAT_K, share, entropy_losses(fresh))

    assert benchmark(search).node is not None


def test_rolling_a_class_table_up(benchmark, table):
    node = tuple(np.minimum(1, table.heights))

    def fresh():
        return (FlatTable(table.codes, table.domains),), {}

    classes = benchmark.pedantic(lambda one: one.classes_at(node), setup=fresh, rounds=20)
    assert classes.released.sum() == table.records
