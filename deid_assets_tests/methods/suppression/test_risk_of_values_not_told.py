"""The risk of a release with suppressed values against brute force: no value that is not told makes a draw safe by itself."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.predictive_tagging import all_nodes
from deid_assets.methods.population.longitudinal_data import Domain, generalization_at, truncated_targets
from deid_assets.methods.suppression.values import SuppressedValues, with_not_told, with_values_not_told
from deid_assets_tests import examples
from deid_assets_tests.methods import oracle
from deid_assets_tests.methods.cases import KEY, data_of, flat, short_blocks
from deid_assets_tests.methods.engines import each_engine, running_on
from deid_assets_tests.methods.oracle import Person
from deid_assets_tests.methods.suppression.populations import Population, draws_of, multisets, populations

DRAWS = 40


def node_of(population, pick):
    return pick.choice(all_nodes([dimension.levels - 1 for dimension in population.dimensions]))


@given(populations())
def test_the_arrays_are_those_of_the_people_shown(population):
    data = population.data
    for place, person in enumerate(population.shown):
        held = [own.codes[own.offsets[place] : own.offsets[place + 1]].tolist() for own in data.held]
        assert multisets(held) == multisets(person.held)
    for target, person in enumerate(population.released):
        known = [own.codes[own.offsets[target] : own.offsets[target + 1]].tolist() for own in data.known]
        assert multisets(known) == multisets(person.known)
    for before, after in zip(population.before.history_domains, data.history_domains, strict=True):
        assert after.not_told == before.sizes[0]
        assert [level[after.not_told] for level in after.levels] == list(before.sizes)


@each_engine
@given(population=populations(), pick=st.randoms(use_true_random=False))
@settings(max_examples=examples.of(400), deadline=None)
def test_flags_classes_and_exemptions_are_those_of_brute_force(name, population, pick):
    node, data = node_of(population, pick), population.data
    levels = generalization_at(data, population.dimensions, node)
    with short_blocks(), running_on(name):
        computation = NodeComputation(data, population.dimensions, population.k)
        draws = [(who, what) for _, who, what in draws_of(data, population.released, DRAWS)]
        demographic_maps, history_maps = population.maps(levels)
        for exemption, exemption_maps in (("once", population.top_maps()), ("literal", history_maps)):
            measured = computation.measure(node, KEY, DRAWS, exemption, keep_flags=True)
            assert measured.kept_flags.tolist() == [population.flagged(*draw, levels, exemption_maps) for draw in draws]
            exempt = [population.exempt(*draw, exemption_maps) for draw in draws]
            assert measured.exempt == sum(exempt)
            classes = computation.drawn_classes(node, KEY, DRAWS, exemption)
            assert classes.exempt.tolist() == exempt
            assert classes.sizes.tolist() == [
                0 if own else oracle.class_size(population.shown, *draw, demographic_maps, history_maps)
                for draw, own in zip(draws, exempt, strict=True)
            ]


@given(population=populations(), pick=st.randoms(use_true_random=False))
@settings(max_examples=examples.of(400), deadline=None)
def test_never_laxer_than_to_forget_the_value_and_judge_the_rest(population, pick):
    """methods#suppressed-values: who reads a blank as no information at all finds no smaller class."""
    node, data = node_of(population, pick), population.data
    levels = generalization_at(data, population.dimensions, node)
    told = [
        Person(own.demographics, own.known, population.without_not_told(own.held), own.power, own.released)
        for own in population.shown
    ]
    targets = [person for person in told if person.released]
    with short_blocks():
        computation = NodeComputation(data, population.dimensions, population.k)
        for exemption, maps in (("once", population.top_maps()), ("literal", population.maps(levels)[1])):
            flags = computation.measure(node, KEY, DRAWS, exemption, keep_flags=True).kept_flags
            for (target, _, what), flag in zip(draws_of(data, population.released, DRAWS), flags, strict=True):
                rest = population.without_not_told(what)
                weaker = oracle.flagged(told, targets[target], rest, *population.maps(levels), maps, population.k)
                assert flag or not weaker


@each_engine
@given(population=populations())
@settings(max_examples=examples.of(100), deadline=None)
def test_flags_only_go_out_on_the_way_up(name, population):
    heights = [dimension.levels - 1 for dimension in population.dimensions]
    with short_blocks(), running_on(name):
        computation = NodeComputation(population.data, population.dimensions, population.k)
        flags = {node: computation.measure(node, KEY, DRAWS, keep_flags=True).kept_flags for node in all_nodes(heights)}
    for node in flags:
        for axis, height in enumerate(heights):
            if node[axis] < height:
                assert np.all(flags[node] >= flags[(*node[:axis], node[axis] + 1, *node[axis + 1 :])])


@each_engine
@given(population=populations(), pick=st.randoms(use_true_random=False))
@settings(max_examples=examples.of(200), deadline=None)
def test_each_helpful_value_makes_its_draw_safe_and_no_other_does(name, population, pick):
    """Values that others share already, as if not told of the target: the target itself is not counted."""
    node, data = node_of(population, pick), population.data
    levels = generalization_at(data, population.dimensions, node)
    demographic_maps, history_maps = population.maps(levels)
    with short_blocks(), running_on(name):
        found = NodeComputation(data, population.dimensions, population.k).helpful_values(node, KEY, DRAWS)
        draws = list(draws_of(data, population.released, DRAWS))
    tops = population.top_maps()
    flagged = [draw for draw in draws if population.flagged(*draw[1:], levels, tops)]
    assert (found.draws, found.flagged) == (DRAWS, len(flagged))
    wanted = Counter()
    for target, who, what in flagged:
        helpful = set()
        for history, (codes, domain) in enumerate(zip(what, population.history_domains, strict=True)):
            own, instead = history_maps[history], domain.sizes[0]
            for value in {own[code] for code in codes if code != instead}:
                changed = tuple(instead if own[code] == value else code for code in codes)
                tried = (*what[:history], changed, *what[history + 1 :])
                size = oracle.class_size(population.shown, who, tried, demographic_maps, history_maps)
                # A target that is not among those found counts itself in the oracle, not here.
                if size - oracle.exempt(who, tried, history_maps) >= population.k:
                    assert not population.flagged(who, tried, levels, tops)
                    helpful.add((target, history, value))
        wanted[frozenset(helpful)] += bool(helpful)
    of_draw = {}
    for draw, *value in zip(found.draw, found.targets, found.histories, found.values, strict=True):
        of_draw.setdefault(int(draw), set()).add(tuple(int(part) for part in value))
    assert all(0 <= draw < max(len(flagged), 1) for draw in of_draw)
    assert Counter(frozenset(own) for own in of_draw.values()) == +wanted


@given(populations())
def test_targets_of_whom_an_exemption_or_a_lost_value_must_be_asked(population):
    data = population.data
    for history, domain in enumerate(population.history_domains):
        instead = domain.sizes[0]
        wanted = []
        for person in population.released:
            known, held = Counter(person.known[history]), Counter(person.held[history])
            suppressed = known.pop(instead, 0)
            held.pop(instead, 0)
            wanted.append(bool(suppressed) or known != held)
        assert truncated_targets(data, history).tolist() == wanted


def test_blanks_do_not_hide_a_rare_value_that_is_told():
    """methods#values-pooled-by-support: counted as matches, fifty blanks would make a class of 51 of the only one."""
    rare, common = 1, 0
    people = [Person((), ((common,),), ((common,),), (1,)) for _ in range(950)]
    people += [Person((), ((),), ((),), (1,)) for _ in range(50)]
    people[0] = Person((), ((rare,),), ((rare,),), (1,))
    missing = np.array([[0] * 950 + [1] * 50])
    population = Population.of((people, (), (flat(2),), (), 20), [], missing)
    classes = NodeComputation(population.data, (), 20).drawn_classes((), KEY, 20_000)
    assert set(classes.sizes[classes.targets == 0].tolist()) == {1}
    assert set(classes.sizes[(classes.targets > 0) & (classes.targets < 950)].tolist()) == {949}


def test_a_suppressed_value_is_looked_for_among_blanks_and_the_target_counts_itself():
    rare, common = 1, 0
    people = [Person((), ((common,),), ((common,),), (1,)) for _ in range(5)]
    people[0] = Person((), ((rare,),), ((rare,),), (1,))
    for blanks in range(4):
        missing = np.array([[0] * (5 - blanks) + [1] * blanks])
        population = Population.of((people, (), (flat(2),), (), 3), [(0, 0, rare)], missing)
        computation = NodeComputation(population.data, (), 3)
        classes = computation.drawn_classes((), KEY, 1000)
        assert set(classes.sizes[classes.targets == 0].tolist()) == {1 + blanks}
        assert bool(computation.flagged_targets((), KEY, 1000).flagged[0]) == (1 + blanks < 3)


@pytest.mark.parametrize("exemption", ["once", "literal"])
def test_a_suppressed_value_that_truncation_took_exempts_nobody(exemption):
    """Else a value that no released claim has could be 'suppressed' at no loss, and the draws that know it would be safe."""
    rare, common = 1, 0
    people = [Person((), ((common, rare),), ((common,),), (1,)), *[Person((), ((common,),), ((common,),), (1,))] * 3]
    population = Population.of((people, (), (flat(2),), (), 2), [(0, 0, rare)], np.zeros((1, 4), int))
    computation = NodeComputation(population.data, (), 2)
    classes = computation.drawn_classes((), KEY, 1000, exemption)
    of_rare = np.array([what == ((2,),) for _, _, what in draws_of(population.data, population.released, 1000)])
    assert of_rare.any()
    assert set(classes.sizes[of_rare].tolist()) == {1}
    assert computation.measure((), KEY, 1000, exemption, keep_flags=True).kept_flags.tolist() == of_rare.tolist()


def test_of_nothing_suppressed_only_what_is_missing_is_further():
    people = [Person((), ((0,),), ((0,),), (1,))]
    data = data_of(people, (), (flat(1),))
    shown = with_values_not_told(data, SuppressedValues.none(), np.array([[2]]))
    assert shown.held[0].codes.tolist() == [0, 1, 1] and shown.known[0].codes.tolist() == [0]


def test_data_that_have_values_not_told_already_are_refused():
    data = data_of([Person((), ((0,),), ((0,),), (1,))], (), (flat(1),))
    shown = with_values_not_told(data, SuppressedValues.none(), np.array([[0]]))
    with pytest.raises(ValueError, match="already have values that are not told"):
        with_values_not_told(shown, SuppressedValues.none(), np.array([[0]]))
    with pytest.raises(ValueError, match="for each history and member"):
        with_values_not_told(data, SuppressedValues.none(), np.zeros((2, 1), int))


def test_a_value_not_told_is_its_own_class_at_every_level():
    domain = with_not_told(Domain((np.arange(3), np.array([0, 0, 1]), np.zeros(3, int))))
    assert [level.tolist() for level in domain.levels] == [[0, 1, 2, 3], [0, 0, 1, 2], [0, 0, 0, 1]]


def test_without_leaves_out_one_value_of_each_member():
    for codes in product(range(2), repeat=3):
        data = data_of([Person((), (codes,), (codes,), (1,))] * 2, (), (flat(2),))
        assert data.held[0].without(1).counts.tolist() == [codes.count(0)] * 2
