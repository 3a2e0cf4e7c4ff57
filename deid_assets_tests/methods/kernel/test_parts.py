"""The population in parts: what is measured is what one part gives, and brute force, whatever the parts and their order."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.attacks.worst_classes import classes_of_members, flagged_by_class, success_by_class
from deid_assets.methods.kernel.executor import Threads, parts_by_size
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.predictive_tagging import all_nodes
from deid_assets.methods.population.longitudinal_data import Knows
from deid_assets_tests import examples
from deid_assets_tests.methods import cases
from deid_assets_tests.methods.engines import each_engine, running_on

MANY = (1, 2, 3, 4, 7, 16)
ANY_CASE = st.one_of(cases.cases(), st.integers(0, 2**32 - 1).map(cases.rich_case))


def in_parts(data, dimensions, k: int, parts: int) -> NodeComputation:
    """A computation over so many parts, which goes on alone."""
    with Threads(1, parts) as threads:
        computation = NodeComputation(data, dimensions, k).on(threads)
        assert len(computation.index.parts) == parts
    return computation


def everything(computation: NodeComputation, node, draws: int) -> list:
    """Flags, exemptions, exact sizes, running counts, and flags by member, in both readings."""
    found = []
    with Threads(1, len(computation.index.parts)) as threads:
        computation = computation.on(threads)
        for exemption in ("once", "literal"):
            measured = computation.measure(node, cases.KEY, draws, exemption, keep_flags=True)
            classes = computation.drawn_classes(node, cases.OTHER_KEY, draws, exemption)
            targets = computation.flagged_targets(node, cases.KEY, draws, exemption)
            arrays = (measured.flags, classes.targets, classes.sizes, classes.exempt, targets.drawn, targets.flagged)
            found += [measured.flagged, measured.exempt, *((own.dtype.str, own.tobytes()) for own in arrays)]
        return found + list(computation.running_counts(node, cases.KEY, 6))


@each_engine
@given(case=ANY_CASE, parts=st.sampled_from(MANY), data=st.data())
@settings(max_examples=examples.of(200), deadline=None)
def test_any_number_of_parts_gives_what_one_gives(name, case, parts, data):
    """Most have more parts than members: some parts are empty, and all are smaller than a block of bits."""
    people, demographic_domains, history_domains, dimensions, k = case
    node = data.draw(st.sampled_from(all_nodes([dimension.levels - 1 for dimension in dimensions])))
    population = cases.data_of(people, demographic_domains, history_domains)
    histories = st.sets(st.integers(0, len(history_domains) - 1), min_size=1).map(sorted).map(tuple)
    scenarios = data.draw(st.lists(histories, max_size=3).map(tuple))
    population = population.known_as(Knows(scenarios, data.draw(st.sampled_from([None, 1, 3]))))
    with cases.short_blocks(), running_on(name):
        one, several = (in_parts(population, dimensions, k, number) for number in (1, parts))
        assert everything(several, node, 150) == everything(one, node, 150)


@each_engine
@pytest.mark.parametrize("parts", MANY[1:])
@pytest.mark.parametrize("k", [2, 100])
def test_so_do_parts_of_several_blocks(name, parts, k):
    data, dimensions = cases.middling_case()
    with running_on(name):
        one, several = (in_parts(data, dimensions, k, number) for number in (1, parts))
        for node in ((0, 0), (1, 1)):
            assert everything(several, node, 20_001) == everything(one, node, 20_001)


@each_engine
@given(seed=st.integers(0, 2**32 - 1), parts=st.sampled_from(MANY[1:]))
@settings(max_examples=examples.of(20), deadline=None)
def test_neither_the_order_of_parts_nor_the_part_that_is_asked_first_matters(name, seed, parts):
    data, dimensions = cases.middling_case(600)
    with cases.short_blocks(), running_on(name):
        one, shuffled = (in_parts(data, dimensions, 20, number) for number in (1, parts))
        index = copy.copy(shuffled.index)
        order = np.random.default_rng(seed).permutation(parts)
        index.parts = tuple(shuffled.index.parts[number] for number in order)
        shuffled = shuffled._of(data, index)
        measured = [own.on(None).measure((0, 0), cases.KEY, 900, keep_flags=True) for own in (one, shuffled)]
        assert shuffled.index is index and np.array_equal(*(own.flags for own in measured))
        assert measured[0].flagged > 0


@pytest.mark.parametrize("parts", MANY[1:])
def test_so_are_computations_made_from_it(parts):
    data, dimensions = cases.middling_case()
    keep = np.arange(len(data.targets)) % 3 > 0
    power = [np.minimum(own, 2) for own in data.power]
    for make in (
        lambda whole: whole.keeping(keep),
        lambda whole: whole.with_power(power),
        lambda whole: whole.known_as(Knows(((0,), (1,)))),
        lambda whole: whole.keeping(keep, suppressed_count=False),
        lambda whole: pickle.loads(pickle.dumps(whole)),
    ):
        one, several = (make(in_parts(data, dimensions, 100, number)) for number in (1, parts))
        assert everything(several, (0, 1), 9_001) == everything(one, (0, 1), 9_001)


class Watched(Threads):
    """Notes which parts are asked what."""

    def __init__(self, parts: int):
        super().__init__(1, parts)
        self.asked: list[tuple[str, int]] = []

    def answers(self, method, parts, *given):
        self.asked += [(method.__name__, part.number) for part in parts]
        return super().answers(method, parts, *given)


def test_a_draw_leaves_as_soon_as_its_class_is_large_enough():
    data, dimensions = cases.middling_case()
    with Watched(4) as threads:
        computation = NodeComputation(data, dimensions, 100).on(threads)
        alike = computation.generalization((1, 1), without_histories=(0, 1))
        computation.measure(alike, cases.KEY, 9_000)
        assert threads.asked == [("begin", 0)], "any part has 100 of 2,500 members who are all alike"
        computation.measure((0, 0), cases.KEY, 9_000)
        assert threads.asked[1:] == [("begin", 0), ("go_on", 1), ("go_on", 2), ("go_on", 3)]


def test_exact_sizes_ask_every_part():
    data, dimensions = cases.middling_case()
    with Watched(4) as threads:
        NodeComputation(data, dimensions, 2).on(threads).drawn_classes((1, 1), cases.KEY, 9_000)
        assert threads.asked == [("begin", 0), ("go_on", 1), ("go_on", 2), ("go_on", 3)]


def test_batches_begin_at_parts_in_turn():
    data, dimensions = cases.middling_case()
    with running_on("numpy"), Watched(3) as threads:
        NodeComputation(data, dimensions, 5).on(threads).measure((0, 0), cases.KEY, 8_192 * 8 * 7)
    assert [part for method, part in threads.asked if method == "begin"] == [0, 1, 2, 0, 1, 2, 0]


def test_worst_classes_are_those_of_one_part():
    data, dimensions = cases.middling_case()
    worst = []
    for parts in MANY:
        with Threads(1, parts) as threads:
            computation = NodeComputation(data, dimensions, 100).on(threads)
            classes = classes_of_members(computation, (0, 0))
            draws = np.full(len(classes), 20_000)
            flagged = flagged_by_class(computation, (0, 0), classes, draws, cases.KEY)
            successes = success_by_class(computation, (0, 0), classes, 9_000, cases.OTHER_KEY)
            worst.append((classes.of_target.tolist(), flagged.tolist(), successes.tolist()))
    assert sum(worst[0][1]) > 0
    assert worst == worst[:1] * len(MANY)


def test_rows_and_cells_are_left_out_by_the_members_of_all_parts():
    data, dimensions = cases.middling_case()
    one, several = (in_parts(data, dimensions, 100, parts).index for parts in (1, 16))
    assert one.rows.of.keys() == several.rows.of.keys()
    assert all(np.array_equal(own, several.rows.of[key]) for key, own in one.rows.of.items())
    assert np.array_equal(one.groups.cells((0,)), several.groups.cells((0,)))
    for row in range(len(one.parts[0].bits) // one.parts[0].blocks):
        of_parts = [part.bits[row * part.blocks : (row + 1) * part.blocks] for part in several.parts]
        whole = one.parts[0].bits[row * one.parts[0].blocks : (row + 1) * one.parts[0].blocks]
        assert sum(int(np.bitwise_count(own).sum()) for own in of_parts) == int(np.bitwise_count(whole).sum())


def test_a_part_for_each_quarter_of_a_million_members_where_they_are_apart():
    assert [parts_by_size(members) for members in (0, 1, 499_999, 500_000, 749_999, 5_000_000)] == [1, 1, 1, 2, 2, 20]
    data, dimensions = cases.middling_case()
    computation = NodeComputation(data, dimensions, 5)
    assert len(computation.index.parts) == 1
    with Threads(1) as here, Threads(1, 5) as asked:
        assert [len(computation.on(threads).index.parts) for threads in (here, asked)] == [1, 5]
