"""What the longitudinal methods accept, and what they say about what they do not."""

from dataclasses import replace

import numpy as np
import pytest

from deid_assets.methods.population.longitudinal_data import Dimension, Domain, Histories, generalization_at, truncated_targets
from deid_assets_tests.methods.cases import data_of, flat, toy_people


def toy():
    return data_of(toy_people(), (flat(2),), (flat(3), flat(3)))


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ((), "level 0"),
        (([1, 0],), "level 0"),
        (([0, 1], [0]), "level 1 maps 1 value, level 0 has 2"),
        (([0, 1, 2], [0, 2, 2]), "without gaps"),
        # Fourteen-day bins that straddle thirty-day months, in small (methods#hierarchies).
        (([0, 1, 2, 3], [0, 0, 1, 1], [0, 1, 1, 1]), "level 2 separates values that level 1 joins"),
    ],
)
def test_a_domain_that_is_no_hierarchy_is_refused(levels, message):
    with pytest.raises(ValueError, match=message):
        Domain(tuple(np.array(level) for level in levels))


@pytest.mark.parametrize(
    ("offsets", "codes", "message"),
    [
        ([0, 2], [1], "from 0 to the number"),
        ([1, 1], [1], "from 0 to the number"),
        ([0, 2, 1, 3], [0, 0, 0], "not decrease"),
        ([0, 1], [0.5], "integers"),
    ],
)
def test_broken_histories_are_refused(offsets, codes, message):
    with pytest.raises(ValueError, match=message):
        Histories(np.array(offsets), np.array(codes))


def test_histories_of_some_members_in_any_order():
    histories = Histories.of([[1, 2], [], [3], [4, 5, 6]])
    taken = histories.take(np.array([3, 1, 0]))
    assert taken.codes.tolist() == [4, 5, 6, 1, 2]
    assert taken.offsets.tolist() == [0, 3, 3, 5]
    assert len(taken) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": np.array([0, 0, 1, 2])}, "twice"),
        ({"targets": np.array([0, 1, 2, 4])}, "rows of the population"),
        ({"demographics": np.full((4, 1), 2)}, "demographics 0: a code is outside"),
        ({"demographics": np.zeros((4, 2), int)}, "one column for each"),
        ({"held": (Histories.of([[0]] * 4),)}, "one entry for each domain"),
        ({"held": (Histories.of([[0]] * 3),) * 2}, "of 3 members, the population has 4"),
        ({"held": (Histories.of([[3]] * 4),) * 2}, "held histories 0: a code is outside"),
        ({"held": (Histories.of([[2, 2]] * 4), Histories.of([[]] * 4))}, "histories 0: 4 targets have values"),
        ({"power": (np.ones(3, int),) * 2}, "known histories and power 0"),
        ({"power": (np.full(4, -1),) * 2}, "must not be negative"),
    ],
)
def test_data_that_contradict_themselves_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(toy(), **change)


def test_the_node_and_the_dimensions_must_fit():
    dimensions = [Dimension("pcg", (), (0,), 2)]
    with pytest.raises(ValueError, match="must all have its levels"):
        generalization_at(toy(), dimensions, (0,))
    with pytest.raises(ValueError, match="levels 0 to 0, not 1"):
        generalization_at(toy(), [Dimension("pcg", (), (0,), 1)], (1,))
    with pytest.raises(ValueError, match="longer than argument 1"):
        generalization_at(toy(), [Dimension("pcg", (), (0,), 1)], (0, 0))


def test_truncated_targets_are_those_who_hold_less_than_is_known():
    held = (Histories.of([[0], [1], [], [0]]), toy().held[1])
    known = (Histories.of([[0, 0], [1], [2], [0]]), toy().known[1])
    data = replace(toy(), held=held, known=known)
    assert truncated_targets(data, 0).tolist() == [True, False, True, False]
    assert not truncated_targets(data, 1).any()


def test_most_known_is_what_a_draw_can_hold():
    assert toy().most_known == 2
    assert replace(toy(), power=(np.full(4, 9),) * 2).most_known == 3
    assert replace(toy(), power=(np.zeros(4, int),) * 2).most_known == 1


def test_a_changed_power_is_checked():
    assert toy().with_power([np.full(4, 3)] * 2).power[1].tolist() == [3, 3, 3, 3]
    with pytest.raises(ValueError, match="of the 4 targets"):
        toy().with_power([np.ones(3, int)] * 2)
    with pytest.raises(ValueError, match="one entry for each"):
        toy().with_power([np.ones(4, int)])


def test_some_targets_of_the_same_population():
    kept = toy().keeping(np.array([False, True, False, True]))
    assert kept.members == 4
    assert kept.targets.tolist() == [1, 3]
    assert kept.known[0].codes.tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="said for 3, there are 4"):
        toy().keeping(np.ones(3, dtype=bool))


def test_the_released_members_alone():
    alone = toy().keeping(np.array([False, True, False, True])).released_only()
    assert alone.members == 2
    assert alone.targets.tolist() == [0, 1]
    assert alone.demographics.tolist() == [[0], [1]]
    assert alone.held[0].codes.tolist() == [0, 1, 0]
