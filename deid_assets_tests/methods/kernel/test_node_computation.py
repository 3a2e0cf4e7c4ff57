"""The kernel against brute force, draw for draw, and the worked numbers of methods#node-risk."""

import pickle
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.kernel import drawn_blocks, knowledge, known_flags, node_computation
from deid_assets.methods.kernel.executor import Threads
from deid_assets.methods.kernel.knowledge import draw_knowledge
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.predictive_tagging import all_nodes, below_or_equal
from deid_assets.methods.population.longitudinal_data import (
    EVERYTHING,
    Dimension,
    Domain,
    Knows,
    generalization_at,
    top_node,
)
from deid_assets_tests import examples
from deid_assets_tests.methods import cases, oracle
from deid_assets_tests.methods.engines import each_engine, running_on
from deid_assets_tests.methods.oracle import Person

STREAMS = [cases.KEY, cases.OTHER_KEY]
TOY_DOMAINS = (cases.flat(2),), (cases.flat(3), cases.flat(3))


def maps(domains, levels):
    return [None if level is None else domain.levels[level].tolist() for domain, level in zip(domains, levels, strict=True)]


def draws_of(data, people, count):
    """The first draws of the test's stream as (person, knowledge) for the oracle."""
    released = [person for person in people if person.released]
    for start in range(0, count, knowledge.DRAWS_PER_BLOCK):
        block = draw_knowledge(data, cases.KEY, start // knowledge.DRAWS_PER_BLOCK)
        for draw in range(min(len(block), count - start)):
            sampled = tuple(tuple(code for code in codes[:, draw].tolist() if code >= 0) for codes in block.codes)
            yield released[block.targets[draw]], sampled


@each_engine
@given(case=st.one_of(cases.cases(), st.integers(0, 2**32 - 1).map(cases.rich_case)), pick=st.randoms(use_true_random=False))
@settings(max_examples=examples.of(400), deadline=None)
def test_kernel_agrees_with_brute_force_draw_for_draw(name, case, pick):
    people, demographic_domains, history_domains, dimensions, k = case
    data = cases.data_of(people, demographic_domains, history_domains)
    with cases.short_blocks(), cases.small_parts(pick.choice([1, 2, 4, 99])), running_on(name):
        computation = NodeComputation(data, dimensions, k)
        count = 40
        draws = list(draws_of(data, people, count))
        top = generalization_at(data, dimensions, top_node(dimensions))
        for node in pick.sample(all_nodes([d.levels - 1 for d in dimensions]), 1):
            without = {
                "without_demographics": [i for i in range(len(demographic_domains)) if pick.random() < 0.1],
                "without_histories": [h for h in range(len(history_domains)) if pick.random() < 0.1],
            }
            levels = computation.generalization(node, **without)
            demographic_maps = maps(demographic_domains, levels.demographics)
            history_maps = maps(history_domains, levels.histories)
            tops = [None if here is None else top for here, top in zip(levels.histories, top.histories, strict=True)]
            for exemption, exemption_maps in (("once", maps(history_domains, tops)), ("literal", history_maps)):
                measured = computation.measure(levels, cases.KEY, count, exemption, keep_flags=True)
                wanted = [
                    oracle.flagged(people, who, what, demographic_maps, history_maps, exemption_maps, k) for who, what in draws
                ]
                assert measured.flags.tolist() == wanted
                exempt = [oracle.exempt(who, what, exemption_maps) for who, what in draws]
                assert measured.exempt == sum(exempt)

                classes = computation.drawn_classes(levels, cases.KEY, count, exemption)
                sizes = [
                    0 if gone else oracle.class_size(people, who, what, demographic_maps, history_maps)
                    for (who, what), gone in zip(draws, exempt, strict=True)
                ]
                assert classes.sizes.tolist() == sizes
                assert classes.exempt.tolist() == exempt


@st.composite
def knowing_less(draw, histories: int) -> Knows:
    """At most a total, or one set of histories or another."""
    if draw(st.booleans()):
        return Knows(total=draw(st.integers(1, 6)))
    some = st.lists(st.integers(0, histories - 1), min_size=1, unique=True).map(lambda own: tuple(sorted(own)))
    return Knows(tuple(draw(st.lists(some, min_size=1, max_size=3))))


@each_engine
@given(case=st.one_of(cases.cases(), st.integers(0, 2**32 - 1).map(cases.rich_case)), data=st.data())
@settings(max_examples=examples.of(200), deadline=None)
def test_who_knows_less_agrees_with_brute_force_draw_for_draw(name, case, data):
    people, demographic_domains, history_domains, dimensions, k = case
    knows = data.draw(knowing_less(len(history_domains)))
    node = data.draw(st.sampled_from(all_nodes([d.levels - 1 for d in dimensions])))
    everything = cases.data_of(people, demographic_domains, history_domains)
    members = data.draw(st.sampled_from([1, 2, 4, 99]))
    with cases.short_blocks(), cases.small_parts(members), running_on(name):
        computation = NodeComputation(everything, dimensions, k).known_as(knows)
        count = 40
        draws = list(draws_of(computation.data, people, count))
        levels, top = computation.generalization(node), computation.top
        demographic_maps, history_maps = maps(demographic_domains, levels.demographics), maps(history_domains, levels.histories)
        for exemption, exemption_maps in (("once", maps(history_domains, top.histories)), ("literal", history_maps)):
            flags, sizes, exempt = [], [], []
            for who, what in draws:
                of_each = [
                    tuple(own if h in scenario else () for h, own in enumerate(what))
                    for scenario in knows.each(len(history_domains))
                ]
                left = [known for known in of_each if not oracle.exempt(who, known, exemption_maps)]
                flagged = (
                    oracle.flagged(people, who, known, demographic_maps, history_maps, exemption_maps, k) for known in left
                )
                flags.append(any(flagged))
                found = (oracle.class_size(people, who, known, demographic_maps, history_maps) for known in left)
                sizes.append(min(found, default=0))
                exempt.append(not left)
            assert computation.measure(levels, cases.KEY, count, exemption, keep_flags=True).flags.tolist() == flags
            classes = computation.drawn_classes(levels, cases.KEY, count, exemption)
            assert classes.sizes.tolist() == sizes and classes.exempt.tolist() == exempt
        # Who knows everything is measured on the same draws, and whoever knows a scenario finds nobody that they do not.
        assert computation.known_as(EVERYTHING).measure(node, cases.KEY, count).flagged == (
            NodeComputation(everything, dimensions, k).measure(node, cases.KEY, count).flagged
        )


@given(case=st.one_of(cases.cases(), st.integers(0, 2**32 - 1).map(cases.rich_case)), less=st.data())
@settings(max_examples=examples.of(120), deadline=None)
def test_flags_never_appear_on_the_way_up(case, less):
    people, demographic_domains, history_domains, dimensions, k = case
    data = cases.data_of(people, demographic_domains, history_domains)
    data = data.known_as(less.draw(st.just(EVERYTHING) | knowing_less(len(history_domains))))
    with cases.short_blocks():
        computation = NodeComputation(data, dimensions, k)
        flags = {
            node: computation.measure(node, cases.KEY, 64, keep_flags=True).flags
            for node in all_nodes([dimension.levels - 1 for dimension in dimensions])
        }
    for lower, upper in ((a, b) for a in flags for b in flags if below_or_equal(a, b)):
        assert not np.any(flags[upper] & ~flags[lower])


def changes(search: NodeComputation) -> list[tuple[NodeComputation, Callable[[NodeComputation], NodeComputation]]]:
    """A search, and what is made from it; each with what makes the same of another computation."""
    keep = np.arange(len(search.data.targets)) % 3 != 1
    power = [np.full(len(keep), 2, dtype=np.int8) for _ in search.data.power]
    ways = (
        lambda one: one,
        lambda one: one.keeping(keep),
        lambda one: one.with_power(power),
        lambda one: one.known_as(Knows(total=1)),
    )
    return [(way(search), way) for way in ways]


@each_engine
@given(case=st.one_of(cases.cases(), st.integers(0, 2**32 - 1).map(cases.rich_case)), data=st.data())
@settings(max_examples=examples.of(200), deadline=None)
def test_flags_on_a_lattice_are_those_of_a_node_measured_alone(name, case, data):
    people, demographic_domains, history_domains, dimensions, k = case
    given_data = cases.data_of(people, demographic_domains, history_domains)
    given_data = given_data.known_as(data.draw(st.just(EVERYTHING) | knowing_less(len(history_domains))))
    nodes = data.draw(st.lists(st.sampled_from(all_nodes([d.levels - 1 for d in dimensions])), min_size=1, max_size=8))
    short = cases.small_parts(data.draw(st.sampled_from([1, 4, 99])))
    with cases.short_blocks(), short, running_on(name), Threads(2) as executor, pytest.MonkeyPatch.context() as patch:
        patch.setattr(known_flags, "BYTES_KEPT", data.draw(st.sampled_from([0, 16, 64, 1 << 20])))
        patch.setattr(known_flags, "NEAREST", data.draw(st.sampled_from([1, 2, 8])))
        search = NodeComputation(given_data, dimensions, k).on(executor).for_search()
        for node in nodes:
            on_lattice, change = data.draw(st.sampled_from(changes(search)))
            stream, exemption = data.draw(st.tuples(st.sampled_from(STREAMS), st.sampled_from(["once", "once", "literal"])))
            levels = on_lattice.generalization(node, *data.draw(st.sampled_from([(), ((), [0]), ([0], ())])))
            blocks = data.draw(st.integers(1, 5))
            alone = change(NodeComputation(given_data, dimensions, k).on(executor))
            whole = alone.measure(node, stream, 64 * blocks, keep_flags=True)
            counts = list(on_lattice.running_counts(node, stream, blocks))
            by_block = whole.flags.reshape(blocks, 64).sum(axis=1)
            assert [flagged for flagged, _, _ in counts] == np.cumsum(by_block).tolist()
            assert counts[-1] == (whole.flagged, whole.exempt, whole.draws)
            draws = data.draw(st.integers(1, 64 * blocks))
            measured = alone.measure(levels, stream, draws, exemption, keep_flags=True)
            targets = alone.data, stream, range(-(-draws // 64))
            found = on_lattice.flagged_targets(levels, stream, draws, exemption)
            wanted = np.bincount(knowledge.targets_of(*targets)[:draws][measured.flags], minlength=len(alone.data.targets))
            assert found.flagged.tolist() == wanted.tolist()


def test_who_gates_is_told_nothing():
    """Wrong flags of another node mislead a search, and no measurement besides."""
    search, alone = middling_computation().for_search(), middling_computation()
    draws, everybody = knowledge.DRAWS_PER_BLOCK, np.ones(knowledge.DRAWS_PER_BLOCK, dtype=bool)
    search._known.learn(cases.KEY, (1, 1, 0), range(1), everybody)
    assert next(search.running_counts((0, 0), cases.KEY, 1))[0] == draws
    assert search.flagged_targets((0, 0), cases.KEY, draws).flagged.sum() == draws
    for exemption in ("once", "literal"):
        measured, wanted = (one.measure((0, 0), cases.KEY, draws, exemption, keep_flags=True) for one in (search, alone))
        assert np.array_equal(measured.flags, wanted.flags) and not wanted.flags.all()
        classes, wanted = (one.drawn_classes((0, 0), cases.KEY, draws, exemption) for one in (search, alone))
        assert np.array_equal(classes.sizes, wanted.sizes)
    keep = np.ones(len(search.data.targets), dtype=bool)
    keep[0] = False
    for change in (lambda one: one.keeping(keep), lambda one: one.with_power([np.full(len(keep), 2, np.int8)] * 2)):
        found, wanted = (change(one).flagged_targets((0, 0), cases.KEY, draws).flagged for one in (search, alone))
        assert np.array_equal(found, wanted)


def test_a_search_matches_only_draws_whose_flag_no_node_told(monkeypatch):
    search, asked = middling_computation().for_search(), []
    begin = drawn_blocks.DrawnBlocks.begin

    def noted(self, part, what, blocks, known):
        asked.append(int(np.unpackbits(~known).sum()))
        return begin(self, part, what, blocks, known)

    monkeypatch.setattr(drawn_blocks.DrawnBlocks, "begin", noted)
    flagged = {node: next(search.running_counts(node, cases.KEY, 1))[0] for node in [(0, 0), (1, 1), (0, 1), (0, 0)]}
    draws = knowledge.DRAWS_PER_BLOCK
    assert asked[:2] == [draws, flagged[0, 0]], "what is flagged at the finest node may not be at the coarsest"
    assert asked[2:] == [flagged[0, 0] - flagged[1, 1], 0]


def test_toy_flag_probabilities_by_enumeration():
    people = cases.toy_people()
    demographic_maps, history_maps = [[0, 1]], [[0, 1, 2], [0, 1, 2]]
    found = [oracle.flag_probability(people, person, demographic_maps, history_maps, history_maps, k=2) for person in people]
    assert found == [Fraction(1, 9), 0, Fraction(2, 3), 1]
    assert sum(found) / 4 == Fraction(4, 9)


def test_toy_flag_probabilities_by_draws():
    computation = NodeComputation(cases.data_of(cases.toy_people(), *TOY_DOMAINS), [], k=2)
    flags = computation.flagged_targets((), cases.KEY, 200_000)
    assert flags.flagged / flags.drawn == pytest.approx([1 / 9, 0, 2 / 3, 1], abs=0.008)
    # 4/9 (methods#node-risk), with a standard error of .0011.
    measured = computation.measure((), cases.KEY, 200_000)
    assert measured.share == pytest.approx(4 / 9, abs=0.005)
    assert measured.flagged == flags.flagged.sum()
    assert flags.drawn.sum() == 200_000


def test_class_of_two_equal_values_is_counted_as_a_multiset():
    people = cases.toy_people()
    # {A, A} among the women of 40: two hold A twice; all three hold A.
    assert oracle.class_size(people, people[0], ((0, 0), ()), [[0, 1]], [[0, 1, 2]] * 2) == 2
    computation = NodeComputation(cases.data_of(people, *TOY_DOMAINS), [], k=2)
    classes = computation.drawn_classes((), cases.KEY, 2000)
    block = draw_knowledge(computation.data, cases.KEY, 0)
    two_a = np.all(block.codes[0][:2] == 0, axis=0)[:2000] & (classes.targets != 3)
    los_one = (block.codes[1][0] == 1)[:2000]
    assert set(classes.sizes[two_a & los_one]) == {2}


def test_power_recomputed_on_generalized_data_is_not_monotone():
    # methods#node-risk: four values of one condition. Diverse, p = 3; generalized they are alike, p = 5.
    domain = Domain((np.arange(4), np.zeros(4, int)))
    histories = [(0, 1, 2, 3), (0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]
    people = [Person((), (values,), (values,), (3,), number == 0) for number, values in enumerate(histories)]
    computation = NodeComputation(cases.data_of(people, (), (domain,)), [Dimension("diagnosis", (), (0,), 2)], k=2)
    at_base = computation.measure((0,), cases.KEY, 1000).share
    assert at_base == 0
    assert computation.measure((1,), cases.KEY, 1000).share == 0
    recomputed = computation.with_power([np.array([5], dtype=np.int8)])
    assert recomputed.measure((1,), cases.KEY, 1000).share == 1
    assert computation.measure((1,), cases.KEY, 1000).share == 0


def test_value_level_exemption_is_not_monotone_and_the_fixed_one_is():
    # Counterexample (ii): A2 is truncated away; generalized to A it is there again, and unique.
    domain = Domain((np.arange(3), np.array([0, 0, 1])))
    a1, a2, b = 0, 1, 2
    people = [Person((), ((a1, a2),), ((a1,),), (1,), True), Person((), ((b,),), ((b,),), (1,), False)]
    data = cases.data_of(people, (), (domain,))
    computation = NodeComputation(data, [Dimension("diagnosis", (), (0,), 2)], k=2)
    sampled_a2 = draw_knowledge(data, cases.KEY, 0).codes[0][0, :1000] == a2
    literal = computation.measure((0,), cases.KEY, 1000, "literal", keep_flags=True)
    assert not literal.flags[sampled_a2].any()
    assert computation.measure((1,), cases.KEY, 1000, "literal").share == 1
    # Decided at the top, no draw is exempt; at the fine node the target counts itself, alone.
    assert computation.measure((0,), cases.KEY, 1000, "once").share == 1
    assert computation.measure((1,), cases.KEY, 1000, "once").share == 1


def test_a_target_that_lacks_its_own_knowledge_counts_itself():
    # A2 is truncated away, yet not exempt at the top, where A1 stands for it. One other member holds A2: a class of two.
    domain = Domain((np.arange(2), np.zeros(2, int)))
    a1, a2 = 0, 1
    people = [Person((), ((a1, a2),), ((a1,),), (1,)), Person((), ((a2,),), ((a2,),), (1,), False)]
    data = cases.data_of(people, (), (domain,))
    dimensions = [Dimension("diagnosis", (), (0,), 2)]
    sampled_a2 = draw_knowledge(data, cases.KEY, 0).codes[0][0, :1000] == a2
    assert set(NodeComputation(data, dimensions, 2).drawn_classes((0,), cases.KEY, 1000, "once").sizes[sampled_a2]) == {2}
    for k, flagged in ((2, False), (3, True)):
        measured = NodeComputation(data, dimensions, k).measure((0,), cases.KEY, 1000, keep_flags=True)
        assert set(measured.flags[sampled_a2]) == {flagged}


def middling_computation(k=100):
    data, dimensions = cases.middling_case()
    return NodeComputation(data, dimensions, k)


@pytest.mark.parametrize("k", [2, 20, 150])
@pytest.mark.parametrize("exemption", ["once", "literal"])
@each_engine
def test_stopping_at_k_flags_what_the_full_count_flags(name, k, exemption):
    computation = middling_computation(k)
    for node in [(0, 0), (1, 0), (0, 1), (1, 1)]:
        with running_on(name):
            measured = computation.measure(node, cases.KEY, 8192, exemption, keep_flags=True)
            classes = computation.drawn_classes(node, cases.KEY, 8192, exemption)
        assert np.array_equal(measured.flags, ~classes.exempt & (classes.sizes < k))
    assert 0 < measured.exempt < measured.draws


def test_results_do_not_depend_on_the_executor():
    computation = middling_computation()
    draws = 5 * knowledge.DRAWS_PER_BLOCK + 17
    alone = computation.measure((0, 0), cases.KEY, draws, keep_flags=True)
    with Threads(3) as executor:
        together = computation.on(executor).measure((0, 0), cases.KEY, draws, keep_flags=True)
        running = list(computation.on(executor).running_counts((0, 0), cases.KEY, 5))
        targets = computation.on(executor).flagged_targets((0, 0), cases.KEY, draws)
    assert np.array_equal(alone.flags, together.flags)
    assert running == list(computation.running_counts((0, 0), cases.KEY, 5))
    assert np.array_equal(targets.flagged, computation.flagged_targets((0, 0), cases.KEY, draws).flagged)


@each_engine
@pytest.mark.parametrize("room", [0, 1 << 18, 1 << 20, 1 << 30])
def test_results_do_not_depend_on_what_is_kept(monkeypatch, name, room):
    with running_on(name):
        first = {key: middling_computation().flagged_targets((0, 0), key, 50_000).flagged for key in STREAMS}
        monkeypatch.setattr(drawn_blocks, "BYTES_KEPT", room)
        computation = middling_computation()
        for key in (*STREAMS, *STREAMS):
            assert np.array_equal(computation.for_search().flagged_targets((0, 0), key, 50_000).flagged, first[key])


def test_draws_are_kept_until_there_is_no_room_and_make_room_for_other_streams(monkeypatch):
    computation = middling_computation()
    draws, blocks = computation._matching.draws, [range(first, first + 1) for first in range(3)]
    monkeypatch.setattr(
        drawn_blocks, "BYTES_KEPT", 2 * middling_computation()._matching.draws.batch(cases.KEY, blocks[0]).nbytes
    )

    def kept(key: bytes) -> list[bool]:
        stream = draws._kept.of(key)
        return [stream is not None and one in stream.batches for one in blocks]

    assert not draws.batch(cases.KEY, blocks[0]).is_kept and kept(cases.KEY) == [False] * 3
    for one in blocks:
        draws.batch(cases.KEY, one, keep=True)
    assert kept(cases.KEY) == [True, True, False]
    draws.batch(cases.OTHER_KEY, blocks[0], keep=True)
    assert (kept(cases.KEY), kept(cases.OTHER_KEY)) == ([False] * 3, [True, False, False])
    assert pickle.loads(pickle.dumps(draws))._kept.nbytes == 0 < draws._kept.nbytes


def test_rows_are_kept_with_a_batch_only_where_there_is_room(monkeypatch):
    draws = middling_computation()._matching.draws
    batch = draws.batch(cases.KEY, range(1), keep=True)
    levels = tuple(0 for _ in draws.data.history_domains)
    before = batch.nbytes
    found = draws.rows(batch, levels)
    assert batch.nbytes == before + found.nbytes
    monkeypatch.setattr(drawn_blocks, "BYTES_KEPT", batch.nbytes)
    coarser = (1, *levels[1:])
    assert draws.rows(draws.batch(cases.KEY, range(1)), coarser).shape == found.shape
    assert draws.batch(cases.KEY, range(1)).nbytes == before + found.nbytes


@pytest.mark.parametrize("together", [1, 3])
def test_results_do_not_depend_on_how_many_blocks_are_measured_together(monkeypatch, together):
    eight = middling_computation().measure((0, 0), cases.KEY, 60_000, keep_flags=True)
    monkeypatch.setattr(node_computation, "BLOCKS_AT_ONCE", together)
    other = middling_computation().measure((0, 0), cases.KEY, 60_000, keep_flags=True)
    assert np.array_equal(eight.flags, other.flags)
    assert eight.exempt == other.exempt


def test_first_draws_of_a_longer_measurement_are_the_shorter_one():
    computation = middling_computation()
    longer = computation.measure((0, 0), cases.KEY, 9000, keep_flags=True)
    shorter = computation.measure((0, 0), cases.KEY, 700, keep_flags=True)
    assert np.array_equal(longer.flags[:700], shorter.flags)


def test_streams_are_different_draws():
    computation = middling_computation()
    one = computation.measure((0, 0), cases.KEY, 8192, keep_flags=True).flags
    assert not np.array_equal(one, computation.measure((0, 0), cases.OTHER_KEY, 8192, keep_flags=True).flags)


def test_a_computation_travels_to_another_process():
    computation = middling_computation()
    before = computation.measure((0, 0), cases.KEY, 8192).flagged
    assert pickle.loads(pickle.dumps(computation)).measure((0, 0), cases.KEY, 8192).flagged == before


def test_suppressed_members_leave_the_release_but_not_the_population():
    computation = middling_computation()
    before = computation.measure((0, 0), cases.OTHER_KEY, 50_000).share
    flags = computation.flagged_targets((0, 0), cases.KEY, 8192)
    remaining = computation.keeping(flags.flagged == 0)
    assert remaining.index is computation.index
    assert remaining.data.members == computation.data.members
    assert len(remaining.data.targets) == np.count_nonzero(flags.flagged == 0)
    # None of the draws that chose them would be flagged any more; fresh draws tell the truth (methods#suppression).
    assert 0 < remaining.measure((0, 0), cases.OTHER_KEY, 50_000).share < before


def test_released_members_as_the_population():
    computation = middling_computation()
    released = NodeComputation(computation.data.released_only(), computation.dimensions, 20)
    inner = released.drawn_classes((0, 0), cases.KEY, 5000)
    outer = computation.drawn_classes((0, 0), cases.KEY, 5000)
    assert np.array_equal(inner.targets, outer.targets)
    assert np.all(inner.sizes <= outer.sizes)


@pytest.mark.parametrize("k", [0, -1])
def test_k_must_be_positive(k):
    with pytest.raises(ValueError, match="k must be at least 1"):
        NodeComputation(cases.data_of(cases.toy_people(), *TOY_DOMAINS), [], k)


def test_unknown_exemption_is_refused():
    with pytest.raises(ValueError, match="'once' or 'literal'"):
        NodeComputation(cases.data_of(cases.toy_people(), *TOY_DOMAINS), [], 2).measure((), cases.KEY, 10, "both")
