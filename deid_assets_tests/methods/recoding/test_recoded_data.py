"""Recoded data: matching classes are those of brute force, hierarchies nest, and equal levels change no flag."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.methods.kernel.knowledge import draw_knowledge
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.population.longitudinal_data import Dimension, Domain, generalization_at
from deid_assets.methods.recoding.recoded_data import ClassLevels, claim_level, classes_of, recoded
from deid_assets_tests.methods import oracle
from deid_assets_tests.methods.cases import KEY, cases, data_of, flat, short_blocks, toy_people

DRAWS = 64


def member_node_of(draw, dimensions):
    return tuple(draw(st.integers(0, axis.levels - 1)) if axis.demographics else 0 for axis in dimensions)


@st.composite
def recodings(draw):
    """A small case, its data, a member-level node, and levels for each class."""
    case = draw(cases())
    people, demographic_domains, history_domains, dimensions, _ = case
    data = data_of(people, demographic_domains, history_domains)
    node = member_node_of(draw, dimensions)
    classes, _ = classes_of(data, dimensions, node)
    levels = np.tile(np.array(node, dtype=np.int32), (len(classes), 1))
    for axis in claim_level(dimensions):
        levels[:, axis] = [draw(st.integers(0, dimensions[axis].levels - 1)) for _ in classes]
    return case, data, ClassLevels(node, classes, levels)


def maps_at(domains, levels):
    return [domain.levels[level].tolist() for domain, level in zip(domains, levels, strict=True)]


def drawn(data, block=0):
    """The target and its sampled base codes for each draw of a block."""
    knowledge = draw_knowledge(data, KEY, block)
    for i, target in enumerate(knowledge.targets):
        yield int(target), tuple(tuple(code for code in codes[:, i].tolist() if code >= 0) for codes in knowledge.codes)


@given(recodings(), st.data())
def test_flags_are_those_of_brute_force_with_levels_by_class(recoding, data):
    """Each draw is judged at its target's levels, and at a node of the recoded data at the larger of both."""
    (people, demographic_domains, history_domains, dimensions, k), raw, class_levels = recoding
    node = tuple(
        data.draw(st.integers(0, axis.levels - 1)) if i in claim_level(dimensions) else class_levels.member_node[i]
        for i, axis in enumerate(dimensions)
    )
    _, class_of = classes_of(raw, dimensions, class_levels.member_node)
    with short_blocks():
        computation = NodeComputation(recoded(raw, dimensions, class_levels), dimensions, k)
        flags = computation.measure(node, KEY, DRAWS, keep_flags=True).kept_flags
        knowledge = list(drawn(raw))
    top = generalization_at(raw, dimensions, tuple(axis.levels - 1 for axis in dimensions)).histories
    released = [person for person in people if person.released]
    for (target, known), flag in zip(knowledge, flags, strict=True):
        own = class_levels.levels[class_of[raw.targets[target]]]
        levels = generalization_at(raw, dimensions, tuple(np.maximum(own, node).tolist()))
        assert flag == oracle.flagged(
            people,
            released[target],
            known,
            maps_at(demographic_domains, levels.demographics),
            maps_at(history_domains, levels.histories),
            maps_at(history_domains, top),
            k,
        )


@given(recodings(), st.data())
def test_equal_levels_flag_the_same_draws_as_the_node_for_all(recoding, data):
    (_, _, _, dimensions, k), raw, class_levels = recoding
    of_all = tuple(
        data.draw(st.integers(0, axis.levels - 1)) if i in claim_level(dimensions) else class_levels.member_node[i]
        for i, axis in enumerate(dimensions)
    )
    equal = ClassLevels(class_levels.member_node, class_levels.classes, np.tile(of_all, (len(class_levels.classes), 1)))
    with short_blocks():
        by_class = NodeComputation(recoded(raw, dimensions, equal), dimensions, k)
        for_all = NodeComputation(raw, dimensions, k).measure(of_all, KEY, DRAWS, keep_flags=True)
        measured = by_class.measure(class_levels.member_node, KEY, DRAWS, keep_flags=True)
    assert np.array_equal(measured.kept_flags, for_all.kept_flags)
    assert measured.exempt == for_all.exempt


@given(recodings())
def test_a_hierarchy_of_pairs_is_as_high_as_before_and_ends_at_the_same_top(recoding):
    (_, _, history_domains, dimensions, _), raw, class_levels = recoding
    by_class = recoded(raw, dimensions, class_levels)
    _, class_of = classes_of(raw, dimensions, class_levels.member_node)
    for axis in claim_level(dimensions):
        for history in dimensions[axis].histories:
            before, after = history_domains[history], by_class.history_domains[history]
            assert after.height == before.height
            assert after.sizes[-1] == before.sizes[-1]
            old, new = raw.held[history].codes, by_class.held[history].codes
            own = class_levels.levels[np.repeat(class_of, raw.held[history].counts), axis]
            for level in range(before.height + 1):
                at = np.maximum(own, level)
                values = np.array([before.levels[of][code] for of, code in zip(at, old, strict=True)], dtype=int)
                pairs = after.levels[level][new]
                assert np.array_equal(pairs[:, None] == pairs, (at[:, None] == at) & (values[:, None] == values))


@given(recodings())
def test_everything_else_stays_as_it_is(recoding):
    (_, _, _, dimensions, _), raw, class_levels = recoding
    by_class = recoded(raw, dimensions, class_levels)
    assert by_class.demographics is raw.demographics and by_class.targets is raw.targets and by_class.power is raw.power
    recoded_histories = {history for axis in claim_level(dimensions) for history in dimensions[axis].histories}
    for history in set(range(len(raw.held))) - recoded_histories:
        assert by_class.held[history] is raw.held[history]


def toy():
    data = data_of(
        toy_people(), (Domain((np.arange(2), np.zeros(2, int))),), (Domain((np.arange(3), np.zeros(3, int))), flat(3))
    )
    return data, (Dimension("sex", (0,), (), 2), Dimension("diagnosis", (), (0,), 2))


def test_one_who_does_not_know_the_demographics_finds_fewer_than_there_are():
    """The man's A at its own level and the women's any are not the same value, although all four would fit."""
    data, dimensions = toy()
    levels = ClassLevels((0, 0), np.array([[0], [1]]), np.array([[0, 1], [0, 0]]))
    computation = NodeComputation(recoded(data, dimensions, levels), dimensions, k=2)
    without_sex = computation.generalization((0, 0), without_demographics=[0], without_histories=[1])
    found = computation.drawn_classes(without_sex, KEY, 200)
    men = np.flatnonzero(data.targets == 3)
    assert set(found.sizes[found.targets == men[0]].tolist()) == {1}
    assert set(found.sizes[found.targets != men[0]].tolist()) == {3}


def test_a_class_of_the_population_without_released_members_is_a_class():
    people = toy_people()
    people[3] = oracle.Person((1,), people[3].known, people[3].held, people[3].power, released=False)
    data = data_of(people, (flat(2),), (flat(3), flat(3)))
    classes, class_of = classes_of(data, (), ())
    assert classes.tolist() == [[0], [1]] and class_of.tolist() == [0, 0, 0, 1]


def test_a_dimension_of_both_kinds_stays_with_the_member_level_node():
    data, _ = toy()
    dimensions = (Dimension("sex and diagnosis", (0,), (0,), 2),)
    by_class = recoded(data, dimensions, ClassLevels((1,), np.array([[0]]), np.array([[1]])))
    assert claim_level(dimensions) == ()
    assert by_class.held[0] is data.held[0] and by_class.history_domains[0] is data.history_domains[0]


def test_without_demographics_there_is_one_class():
    data = data_of([oracle.Person((), ((0,),), ((0,),), (1,))], (), (flat(1),))
    classes, class_of = classes_of(data, (), ())
    assert classes.shape == (1, 0) and class_of.tolist() == [0]


@pytest.mark.parametrize(
    ("node", "classes", "levels", "said"),
    [
        ((0, 0), [[0], [1]], [[0, 2], [0, 0]], "diagnosis has levels 0 to 1"),
        ((0, 0), [[0], [1]], [[0, -1], [0, 0]], "diagnosis has levels 0 to 1"),
        ((0, 0), [[0], [1]], [[1, 0], [0, 0]], "sex is not claim-level"),
        ((0, 1), [[0], [1]], [[0, 1], [0, 1]], "are at level 0"),
        ((0, 0), [[0]], [[0, 0]], "not those of the population"),
        ((1, 0), [[0], [1]], [[1, 0], [1, 0]], "not those of the population"),
    ],
)
def test_levels_that_do_not_fit_the_data(node, classes, levels, said):
    data, dimensions = toy()
    with pytest.raises(ValueError, match=said):
        recoded(data, dimensions, ClassLevels(node, np.array(classes), np.array(levels)))


@pytest.mark.parametrize(
    ("classes", "levels", "said"),
    [
        ([[1], [0]], [[0, 0], [0, 0]], "in lexicographic order"),
        ([[0], [0]], [[0, 0], [0, 0]], "distinct"),
        ([[0], [1]], [[0, 0]], "one level for each dimension"),
        ([[0], [1]], [[0], [0]], "one level for each dimension"),
    ],
)
def test_levels_that_do_not_fit_together(classes, levels, said):
    with pytest.raises(ValueError, match=said):
        ClassLevels((0, 0), np.array(classes), np.array(levels))


def test_other_histories_must_be_of_the_same_claims():
    data, _ = toy()
    with pytest.raises(ValueError, match="keep the number of values"):
        data.with_histories((data.held[1], data.held[0].take(np.array([3, 2, 1, 0]))), data.history_domains, data.known)
    with pytest.raises(ValueError, match="outside its domain"):
        data.with_histories(data.held, (flat(1), flat(3)), data.known)
    with pytest.raises(ValueError, match="one entry for each domain"):
        data.with_histories(data.held[:1], data.history_domains, data.known)
