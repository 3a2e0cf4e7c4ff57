"""The chosen node in the appendix's own reading: power and exemption at the node itself (methods#node-risk)."""

from itertools import permutations

import numpy as np
import pytest

from deid_assets.methods.adversary.adversary_power import ValuePairs, power_of
from deid_assets.methods.adversary.two_readings import Adversary, BothReadings, both_readings, literal_power
from deid_assets.methods.kernel.node_computation import NodeComputation, NodeMeasurement
from deid_assets.methods.population.longitudinal_data import Dimension, Domain, Histories, LongitudinalData
from deid_assets.methods.statistics.confidence import clopper_pearson_upper_bound
from deid_assets_tests.methods.cases import KEY, data_of, rich_case

DRAWS = 3_000


def pairs_of(members) -> ValuePairs:
    """Ordered pairs of each member's values by their definition."""
    differing = [sum(one != other for one, other in permutations(values, 2)) for values in members]
    return ValuePairs.of_values(np.array(differing), np.array([len(values) for values in members]))


def test_power_is_computed_on_the_values_as_generalized():
    """methods#node-risk: four values a1..a4 are diverse until one level joins them."""
    domain = Domain((np.arange(5), np.array([0, 0, 0, 0, 1])))
    values = Histories.of([[0, 1, 2, 3], [0, 0, 0, 4], [4, 4, 0, 0]])
    data = LongitudinalData(np.zeros((3, 0), int), (), (values,), (domain,), np.arange(3), (values,), (np.ones(3, int),))
    computation = NodeComputation(data, [Dimension("h", (), (0,), 2)], k=2)
    adversary = Adversary(np.array([4, 4, 4]), 5, "nearest")
    fine, coarse = literal_power(computation, (0,), adversary)[0], literal_power(computation, (1,), adversary)[0]
    assert fine.tolist() == power_of(adversary.claims, ValuePairs(np.array([12, 6, 8]), np.full(3, 12)), 5, "nearest").tolist()
    assert coarse.tolist() == power_of(adversary.claims, ValuePairs(np.array([0, 6, 8]), np.full(3, 12)), 5, "nearest").tolist()
    assert coarse[0] == 5 > fine[0]


@pytest.mark.parametrize("seed", range(4))
def test_both_readings_are_measured_on_the_same_stream(seed):
    people, demographic_domains, history_domains, dimensions, k = rich_case(seed)
    data = data_of(people, demographic_domains, history_domains)
    computation = NodeComputation(data, dimensions, k)
    node = tuple(dimension.levels // 2 for dimension in dimensions)
    claims = np.array([len(person.known[0]) + 1 for person in people if person.released])
    adversary = Adversary(claims, 3, "ceiling")

    levels = computation.generalization(node).histories
    released = [person for person in people if person.released]
    for history, (found, level) in enumerate(zip(literal_power(computation, node, adversary), levels, strict=True)):
        to = history_domains[history].levels[level]
        pairs = pairs_of([[to[value] for value in person.known[history]] for person in released])
        assert found.tolist() == power_of(claims, pairs, 3, "ceiling").tolist()

    readings = both_readings(computation, node, adversary, KEY, DRAWS)
    assert readings.fixed.flagged == computation.measure(node, KEY, DRAWS).flagged
    repowered = NodeComputation(data.with_power(literal_power(computation, node, adversary)), dimensions, k)
    literal = repowered.measure(node, KEY, DRAWS, exemption="literal")
    assert (readings.literal.flagged, readings.literal.exempt) == (literal.flagged, literal.exempt)


def test_the_larger_upper_bound_counts():
    low, high = NodeMeasurement(3, 0, 1_000), NodeMeasurement(9, 0, 1_000)
    expected = clopper_pearson_upper_bound(9, 1_000, 0.99)
    assert BothReadings(low, high).upper_bound(0.99) == BothReadings(high, low).upper_bound(0.99) == expected


def test_an_adversary_of_some_targets_knows_the_claims_of_those():
    some = Adversary(np.array([5, 6, 7]), 5, "floor").of(np.array([True, False, True]))
    assert (some.claims.tolist(), some.power, some.rounding) == ([5, 7], 5, "floor")


@pytest.mark.parametrize(("fixed", "literal"), [(10, 40), (40, 10)])
def test_the_larger_reading_decides(fixed, literal):
    readings = BothReadings(NodeMeasurement(fixed, 0, 1000), NodeMeasurement(literal, 0, 1000))
    assert readings.share == 0.04
    assert readings.upper_bound(0.9) == clopper_pearson_upper_bound(40, 1000, 0.9) < 0.06
    assert readings.hold(0.06, 0.9, 0.7) and not readings.hold(0.06, 0.9, 0.6), "the share is within the aim of MaxSup or not"
    assert not readings.hold(0.045, 0.9, 1.0), "the bound is not within MaxSup"
