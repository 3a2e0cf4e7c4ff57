"""Nothing that a node or a suppression reaches is better than what is said to be the best; what is proven is counted."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice import reachable_risk
from deid_assets.methods.lattice.candidate_gates import ATTACK, FACTOR, Absence, OtherGates
from deid_assets.methods.population.longitudinal_data import Dimension, Domain, Histories, LongitudinalData
from deid_assets_tests import examples

KEY, OTHER = b"what is foreseen", b"the search's own"
AGES = Domain((np.arange(6), np.arange(6) // 2, np.arange(6) // 4))
PLACES = Domain((np.arange(5), np.array([0, 0, 1, 1, 2]), np.array([0, 0, 0, 0, 1])))
DIMENSIONS = (Dimension("age", (0,), (), 3), Dimension("place", (), (0,), 3))
NODES = list(product(range(3), range(3)))


def population(seed: int, members: int = 60, released: int = 20, cut: bool = True) -> LongitudinalData:
    """Members of six ages with up to four places, of which truncation may take some."""
    random = np.random.default_rng(seed)
    known = [random.choice(5, random.integers(1, 5), p=[0.5, 0.2, 0.15, 0.1, 0.05]).tolist() for _ in range(members)]
    held = [places[: random.integers(1, len(places) + 1)] if cut else places for places in known]
    targets = np.sort(random.choice(members, released, replace=False))
    ages = random.choice(6, members, p=[0.3, 0.3, 0.2, 0.1, 0.05, 0.05])
    return LongitudinalData(
        ages[:, None], (AGES,), (Histories.of(held),), (PLACES,), targets,
        (Histories.of([known[target] for target in targets]),), (np.full(released, 2),),
    )  # fmt: skip


def gates_of(data: LongitudinalData, least: int = 8) -> OtherGates:
    return OtherGates(
        data, DIMENSIONS, data.demographics, data.targets, class_size_at_least=least, max_high_risk_share=0.1,
        success_at_most=0.3, trials=2_048, confidence=None, stream_key=OTHER,
    )  # fmt: skip


@settings(max_examples=examples.of(25), deadline=None)
@given(st.lists(st.floats(0, 1), min_size=3, max_size=8), st.data())
def test_no_choice_of_whom_to_leave_out_has_a_lower_mean(values, data):
    left_out = data.draw(st.integers(0, len(values) - 1))
    least = reachable_risk.least_without(sum(values), len(values), left_out)
    for leaving in range(left_out + 1):
        for gone in combinations(range(len(values)), leaving):
            rest = [value for number, value in enumerate(values) if number not in gone]
            assert least <= sum(rest) / len(rest) + 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_no_node_and_no_suppression_has_fewer_members_in_small_demographic_classes(seed):
    gates = gates_of(population(seed))
    for left_out in (0, 2):
        reach = reachable_risk.reach_of_demographics(gates, left_out)
        assert reach.proven and reach.least <= reach.measured
        found = []
        for node, gone in product(NODES, combinations(range(20), left_out)):
            suppressed = np.isin(np.arange(20), gone)
            found.append(gates.small_class_share(node, suppressed))
        assert min(found) >= reach.least - 1e-12
        if left_out == 0:
            assert min(found) == reach.least


@pytest.mark.parametrize("seed", range(4))
def test_no_node_has_a_smaller_share_at_high_risk(seed):
    computation = NodeComputation(population(seed), DIMENSIONS, k=12)
    reach = reachable_risk.reach_of_high_risk(computation, KEY, 0, 0.05, draws=16_384)
    shares = [computation.measure(node, KEY, 16_384).share for node in NODES]
    assert reach.measured == min(shares), "on the same draws the share does not rise on the way up"
    assert reach.least <= reach.measured and not reach.proven
    few = reachable_risk.reach_of_high_risk(computation, KEY, 3, 0.05, draws=16_384)
    fresh = computation.flagged_targets((2, 2), OTHER, 40_000)
    worst = np.argsort(-fresh.flagged / np.maximum(fresh.drawn, 1))[:3]
    rest = computation.keeping(~np.isin(np.arange(20), worst)).measure((2, 2), OTHER, 40_000)
    assert few.least <= rest.share


@pytest.mark.parametrize("seed", range(4))
def test_no_neighbor_is_surer_to_fail_than_is_said(seed):
    """Draw by draw: neither larger classes nor knowledge lost to truncation make any node better."""
    gates = gates_of(population(seed))
    surest = gates.surest_successes(KEY, 2_048)
    nobody = np.zeros(20, dtype=bool)
    for node in NODES:
        classes = gates._release(ATTACK, nobody).drawn_classes(node, KEY, 2_048)
        assert (surest <= np.where(classes.exempt, 0, 1 / np.maximum(classes.sizes, 1)) + 1e-12).all()
    reach = reachable_risk.reach_of_attack(gates, KEY, 0, 0.01)
    assert reach.ruled_out and not reach.proven and reach.least <= reach.measured


def test_a_population_smaller_than_a_safe_class_can_not_pass():
    data = population(1, members=30, released=10)
    assert reachable_risk.reach_of_demographics(gates_of(data, least=31), left_out=2).ruled_out
    computation = NodeComputation(data, DIMENSIONS, k=31)
    reach = reachable_risk.reach_of_high_risk(computation, KEY, 0, 0.008)
    assert reach.ruled_out and reach.measured == pytest.approx(1 - computation.measure((2, 2), KEY, 131_072).exempt / 131_072)


def test_what_absence_tells_falls_with_those_left_out_only():
    none, some = (reachable_risk.reach_of_absence(100, 900, 90, left_out, 0.1).least for left_out in (0, 20))
    assert some < none == pytest.approx(0.1 / (0.1 + 0.9 * 0.9))
    assert reachable_risk.reach_of_absence(0, 900, 900, 0, 0.1).least == 0
    assert (
        reachable_risk.reach_of_absence(100, 900, 90, 20, 0.1).ruled_out
        and not reachable_risk.reach_of_absence(100, 900, 90, 20, 0.11).ruled_out
    )


def gates_with_absence(seed: int, factor_at_most: float) -> OtherGates:
    """Nine in ten are eligible, all of the sample among them; one in ten was released before."""
    data = population(seed)
    random = np.random.default_rng(100 + seed)
    eligible = random.random(60) < 0.9
    eligible[data.targets] = True
    return replace(gates_of(data), absence=Absence(factor_at_most, eligible, random.random(60) < 0.1))


@pytest.mark.parametrize("seed", range(2))
def test_no_node_and_no_suppression_has_a_smaller_factor_of_absence(seed):
    gates = gates_with_absence(seed, 1.5)
    for left_out in (0, 2):
        reach = reachable_risk.reach_of_factor(gates, left_out)
        assert reach.proven and reach.gate == FACTOR and reach.least <= reach.measured
        largest = {
            (node, gone): min(gates.absent(node, np.isin(np.arange(20), gone)).largest, 1e9)
            for leaving in range(left_out + 1)
            for node, gone in product(NODES, combinations(range(20), leaving))
        }
        assert min(largest.values()) == pytest.approx(reach.least)
        for at_most in sorted({*largest.values()})[:6]:
            limited = replace(gates, absence=replace(gates.absence, factor_at_most=at_most + 1e-9))
            for node in NODES:
                best = min(found for (own, _), found in largest.items() if own == node)
                assert limited.absence_however_suppressed(node, left_out / 20) == (best > at_most + 1e-9)
            assert (limited.failing_everywhere(left_out / 20) == FACTOR) == (reach.least > at_most + 1e-9) or (
                limited.small_classes_however_suppressed((2, 2), left_out / 20)
            )


def test_a_node_that_tells_too_much_by_absence_fails_and_one_without_a_limit_does_not():
    gates = replace(gates_with_absence(0, 1.0001), max_high_risk_share=1.0, success_at_most=None)
    nobody = np.zeros(20, dtype=bool)
    assert gates.failing((2, 2), nobody) == gates.failing_however_suppressed((2, 2), 0.1) == FACTOR
    assert gates.excess((2, 2)) > 0
    free = replace(gates, absence=None)
    assert free.failing((2, 2), nobody) is None and free.failing_everywhere(0.0) is None and free.excess((2, 2)) == 0
    with pytest.raises(ValueError, match="absence is not judged"):
        free.absent((2, 2), nobody)


@pytest.mark.parametrize("seed", range(6))
def test_only_those_in_excess_are_left_out_by_chance_and_nobody_who_was_released_before(seed):
    """No fewer would do: with any one of them the factor of their class is above the limit."""
    gates = gates_with_absence(seed, 1.6)
    for node in NODES:
        left_out = gates.in_excess(node, KEY)
        assert not (left_out & gates.absence.before[gates.sampled]).any()
        assert np.array_equal(left_out, gates.in_excess(node, KEY))
        hopeless = gates.absence_however_suppressed(node, 1.0)
        assert (gates.absent(node, left_out).largest > 1.6) == hopeless
        for one in np.flatnonzero(left_out) if not hopeless else ():
            fewer = left_out.copy()
            fewer[one] = False
            assert gates.absent(node, fewer).largest > 1.6


def test_every_member_of_a_class_in_excess_is_as_likely_to_be_left_out():
    gates = gates_with_absence(3, 1.2)
    top = (2, 2)
    keys = [bytes([number % 256, number // 256]) * 8 for number in range(2_000)]
    found = np.array([gates.in_excess(top, key) for key in keys])
    new = ~gates.absence.before[gates.sampled]
    _, class_of = np.unique(np.stack(gates._demographics(top), axis=1)[gates.sampled], axis=0, return_inverse=True)
    assert 0 < found[0].sum() < new.sum()
    for number in np.unique(class_of):
        own = new & (class_of.reshape(-1) == number)
        share = found[0][own].mean()
        assert (found[:, own].mean(axis=1) == share).all()
        assert abs(found[:, own].mean(axis=0) - share).max() <= 5 * np.sqrt(share * (1 - share) / len(keys))
    assert not replace(gates, absence=None).in_excess(top, KEY).any()
