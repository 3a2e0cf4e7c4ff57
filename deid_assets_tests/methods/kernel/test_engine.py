"""Which engine runs, and that numba gives what NumPy gives, to the last bit."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.errors import EngineError
from deid_assets.methods.kernel import class_size, engine, knowledge
from deid_assets.methods.kernel.executor import Threads
from deid_assets.methods.kernel.knowledge import SortedTargets, joined, sample_positions
from deid_assets.methods.kernel.member_index import NO_ROW, TOO_RARE, MemberIndex
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.predictive_tagging import all_nodes
from deid_assets.methods.population.longitudinal_data import Domain, Histories, LongitudinalData
from deid_assets_tests import examples
from deid_assets_tests.methods import cases
from deid_assets_tests.methods.engines import needs_numba, running_on


@pytest.fixture
def choice(monkeypatch):
    """Ask for an engine by the environment variable."""

    def ask(value: str | None) -> engine.Engine:
        if value is None:
            monkeypatch.delenv(engine.VARIABLE, raising=False)
        else:
            monkeypatch.setenv(engine.VARIABLE, value)
        engine.chosen.cache_clear()
        return engine.chosen()

    yield ask
    engine.chosen.cache_clear()


@pytest.fixture
def no_numba(monkeypatch):
    def missing():
        raise ImportError("No module named 'numba'")

    monkeypatch.setattr(engine, "_numba_loops", missing)


def test_numpy_is_always_there(choice):
    assert engine.available_engines()[0] == "numpy"
    assert choice("numpy").name == "numpy"
    assert choice("numpy").matching_members is class_size.matching_members


@pytest.mark.parametrize("value", [None, "", "auto"])
def test_by_default_the_fastest_that_is_there(choice, value):
    assert choice(value).name == engine.available_engines()[-1]


@pytest.mark.parametrize("value", [None, "auto", "numpy"])
def test_without_numba_numpy(choice, no_numba, value):
    assert engine.available_engines() == ("numpy",)
    assert choice(value).name == "numpy"


def test_numba_asked_for_and_not_installed(choice, no_numba):
    with pytest.raises(EngineError, match="No module named 'numba'.*the extra 'fast' installs it"):
        choice("numba")


def test_no_such_engine(choice):
    with pytest.raises(EngineError, match="DEID_ENGINE is 'fortran'; it must be one of auto, numpy, numba"):
        choice("fortran")


@needs_numba
def test_the_choice_is_made_once(choice, monkeypatch):
    assert choice("numba") is engine.chosen()
    monkeypatch.setenv(engine.VARIABLE, "numpy")
    assert engine.chosen().name == "numba"


def on_both(compute):
    """What an engine computes, having compared the two."""
    results = []
    for name in ("numpy", "numba"):
        with running_on(name):
            results.append(compute())
    one, other = results
    assert len(one) == len(other)
    for of_numpy, of_numba in zip(one, other, strict=True):
        assert of_numpy.dtype == of_numba.dtype
        assert np.array_equal(of_numpy, of_numba)
    return one


def everything_of(data, dimensions, k, node, draws, executor=None):
    """Flags, exemptions, sizes and counts of one node, in both readings and with a history dropped."""
    computation = NodeComputation(data, dimensions, k)
    results = []
    for levels in (computation.generalization(node), computation.generalization(node, (), (0,))):
        for exemption in ("once", "literal"):
            measured = computation.on(executor).measure(levels, cases.KEY, draws, exemption, keep_flags=True)
            classes = computation.on(executor).drawn_classes(levels, cases.OTHER_KEY, draws, exemption)
            flags = computation.on(executor).flagged_targets(levels, cases.KEY, draws, exemption)
            results += [measured.flags, np.array([measured.flagged, measured.exempt])]
            results += [classes.targets, classes.sizes, classes.exempt, flags.drawn, flags.flagged]
    results.append(np.array(list(computation.on(executor).running_counts(node, cases.KEY, 6))))
    return results


@needs_numba
@given(case=st.one_of(cases.cases(), st.integers(0, 2**32 - 1).map(cases.rich_case)), pick=st.randoms(use_true_random=False))
@settings(max_examples=examples.of(150), deadline=None)
def test_flags_sizes_and_exemptions_are_equal(case, pick):
    people, demographic_domains, history_domains, dimensions, k = case
    node = pick.choice(all_nodes([dimension.levels - 1 for dimension in dimensions]))
    with cases.short_blocks():
        # Several batches of several blocks, the last cut short.
        on_both(lambda: everything_of(cases.data_of(people, demographic_domains, history_domains), dimensions, k, node, 1100))


@pytest.mark.matrix
@needs_numba
@pytest.mark.parametrize("k", [2, 100])
@pytest.mark.parametrize("node", [(0, 0), (1, 1)])
def test_threads_and_classes_over_many_blocks_of_bits(k, node):
    data, dimensions = cases.middling_case()
    with Threads(3) as executor:
        together = on_both(lambda: everything_of(data, dimensions, k, node, 80_000, executor))
    with running_on("numba"):
        alone = everything_of(data, dimensions, k, node, 80_000)
    assert all(np.array_equal(one, other) for one, other in zip(together, alone, strict=True))


@needs_numba
def test_a_computation_goes_on_on_the_other_engine():
    """What one process made may be measured by another, where another engine runs."""
    data, dimensions = cases.middling_case()
    with running_on("numpy"):
        computation = NodeComputation(data, dimensions, 100)
        flags = computation.measure((0, 0), cases.KEY, 20_000, keep_flags=True).flags
    with running_on("numba"):
        copy = pickle.loads(pickle.dumps(computation))
        assert np.array_equal(copy.measure((0, 0), cases.KEY, 20_000, keep_flags=True).flags, flags)


@needs_numba
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 7)), min_size=1, max_size=20),
    st.integers(0, 2**32 - 1),
    st.sampled_from([7, 99, 300, 70_000]),
    st.integers(1, 4),
    st.sampled_from([(), ("claims.a",), ("claims.a", "claims.b")]),
)
@settings(max_examples=examples.of(100), deadline=None)
def test_equal_draws_in_equal_order(sizes, seed, values, blocks, streams):
    """Codes of one, two and four bytes; whoever holds or is asked nothing; the draws of the stream, and no others."""
    generator = np.random.default_rng(seed)
    counts, powers = (np.array(column) for column in zip(*sizes, strict=True))
    known = Histories(np.concatenate([[0], np.cumsum(counts)]), generator.integers(0, values, counts.sum()))
    every = Domain((np.arange(values),))
    nothing = Histories.of([[]] * len(sizes))
    data = LongitudinalData(
        np.zeros((len(sizes), 0), int), (), (known,) * 3 + (nothing,), (every,) * 4, np.arange(len(sizes)),
        (known,) * 3 + (nothing,), (powers, np.minimum(powers, 1), powers * 0, powers), streams,
    )  # fmt: skip
    targets = SortedTargets(data, generator.permutation(len(sizes)))
    first = int(generator.integers(0, 1000))

    def draw():
        order, known_values = engine.chosen().draw_in_order(targets, cases.KEY, range(first, first + blocks))
        assert np.all(np.diff(targets.rank[known_values.targets]) >= 0)
        return [order, known_values.targets, *(codes.astype(np.int64) for codes in known_values.codes)]

    with cases.short_blocks():
        order, drawn, *codes = on_both(draw)
        in_order = joined([knowledge.draw_knowledge(data, cases.KEY, block) for block in range(first, first + blocks)])
    assert np.array_equal(in_order.targets[order], drawn)
    assert all(np.array_equal(own[:, order], sorted_) for own, sorted_ in zip(in_order.codes, codes, strict=True))


def test_more_is_sampled_only_where_there_is_more():
    known, power = Histories.of([[5, 6, 7], [], [8]]), np.array([2, 2, 2])
    generator = np.random.Generator(np.random.Philox(1))
    codes = knowledge.sampled_codes(generator, known, power, np.array([1, 0, 2, 0]))
    assert (codes >= 0).sum(axis=0).tolist() == [0, 2, 1, 2]
    assert sum(len(draws) for draws, _ in sample_positions(generator, np.array([3, 0, 1]), np.array([2, 0, 1]))) == 3


@needs_numba
@given(cases.domains(), st.integers(0, 2**32 - 1), st.integers(0, 4))
@settings(max_examples=examples.of(100), deadline=None)
def test_equal_knowledge_asks_for_equal_rows(domain, seed, slots):
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, len(domain.levels[0]), (slots, 40)).astype(np.int32)
    codes[np.arange(slots)[:, None] >= generator.integers(0, slots + 1, 40)] = -1
    level = int(generator.integers(0, domain.height + 1))
    for rows_of in (
        generator.integers(TOO_RARE, 99, (domain.sizes[level], max(1, slots))).astype(np.int32),
        np.zeros((0, slots), dtype=np.int32),
    ):
        on_both(lambda rows_of=rows_of: [engine.chosen().rows_for_knowledge(codes, domain, level, rows_of)])


@needs_numba
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 5, 40, class_size.NO_LIMIT]))
@settings(max_examples=examples.of(60), deadline=None)
def test_equal_rows_are_matched_equally_often(seed, limit):
    generator = np.random.default_rng(seed)
    members, draws = int(generator.integers(1, 6000)), int(generator.integers(0, 700))
    sex, values = Domain((np.arange(3),)), Domain((np.arange(4),))
    held = Histories.of([generator.integers(0, 4, generator.integers(0, 7)) for _ in range(members)])
    index = MemberIndex(
        generator.integers(0, 3, (members, 1)), [sex], [held], [values], [(0,)], 3, least_row=20, least_cell=900
    )
    table = np.append(index.rows.of[0, 0].ravel(), [NO_ROW, NO_ROW])
    rows = generator.choice(table, (int(generator.integers(0, 6)), draws)).astype(np.int32)
    (part,) = index.parts
    cells = part.cells((0,), index.groups)
    cell = index.groups.cells((0,))[index.group_of[generator.integers(0, members, draws)]]
    found = on_both(lambda: [engine.chosen().matching_members(part, cells, cell, rows, limit)])
    assert np.all(found[0] <= limit)


@needs_numba
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 20, class_size.NO_LIMIT]))
@settings(max_examples=examples.of(60), deadline=None)
def test_knowledge_matched_at_once_as_step_by_step(seed, limit):
    """Values known several times, rows too rare or none at all, a history left out, more draws than go at once."""
    generator = np.random.default_rng(seed)
    members, draws, most = (int(generator.integers(*few)) for few in ((1, 3000), (0, 5000), (0, 4)))
    sex, domain = Domain((np.arange(2),)), Domain((np.arange(4), np.array([0, 0, 1, 1])))
    held = [Histories.of([generator.integers(0, 4, generator.integers(0, 7)) for _ in range(members)])] * 2
    sexes, least = generator.integers(0, 2, (members, 1)), {"least_row": 20, "least_cell": 700}
    index = MemberIndex(sexes, [sex], held, [domain] * 2, [(0, 1)] * 2, most, **least)
    (part,) = index.parts
    cells = part.cells((0,), index.groups)
    cell = index.groups.cells((0,))[index.group_of[generator.integers(0, members, draws)]]
    codes = [generator.integers(0, 4, (most, draws)).astype(kind) for kind in (np.int8, np.int32)]
    for own in codes:
        own[np.arange(most)[:, None] >= generator.integers(0, most + 1, draws)] = -1
    numba, numpy = engine.named("numba"), engine.named("numpy")
    for levels in ((0, 0), (1, 0), (None, 1), (None, None)):
        rows = [
            numpy.rows_for_knowledge(own, domain, level, index.rows.of[history, level])
            for history, (own, level) in enumerate(zip(codes, levels, strict=True))
            if level is not None
        ]
        rows = np.concatenate([np.zeros((0, draws), np.int32), *rows])
        stepwise = numpy.matching_members(part, cells, cell, rows, limit)
        of_levels = [
            (own, domain.levels[level], index.rows.of[history, level])
            for history, (own, level) in enumerate(zip(codes, levels, strict=True))
            if level is not None
        ]
        at_once = numba.matching_knowledge(part, cells, cell, of_levels, limit)
        assert at_once.dtype == stepwise.dtype and np.array_equal(at_once, stepwise)
