"""The values that are chosen: costs by independent sums, room, and a release that holds on fresh draws."""

from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.methods.adversary.two_readings import Adversary
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.information_loss import LatticeLoss, information_kept
from deid_assets.methods.lattice.predictive_tagging import all_nodes
from deid_assets.methods.population.longitudinal_data import (
    Dimension,
    Domain,
    Histories,
    LongitudinalData,
    generalization_at,
)
from deid_assets.methods.suppression import choice
from deid_assets.methods.suppression.choice import Demand, ValueCosts, choose_suppressed_values
from deid_assets.methods.suppression.values import SuppressedValues, kept_without_values, with_not_told, with_values_not_told
from deid_assets_tests.methods.cases import OTHER_KEY
from deid_assets_tests.methods.suppression.populations import populations

K = 10


def held_claims(population):
    """Target, history and code of each value that released members have in D' before anything is suppressed."""
    targets = [person for person in population.people if person.released]
    return [(t, h, code) for t, person in enumerate(targets) for h, own in enumerate(person.held) for code in own]


@given(populations(), st.sampled_from(["raw", "normalised"]))
def test_what_suppressed_values_lose_at_every_node(population, scale):
    """log2(all values / values of the class) bits for each claim that no longer tells its value."""
    data, dimensions = population.before, population.dimensions
    loss = LatticeLoss(data, dimensions, scale)
    costs, claims = ValueCosts.of(data, loss), held_claims(population)
    attributes = max(len(loss.demographics) + len(loss.histories), 1)
    for node in all_nodes([dimension.levels - 1 for dimension in dimensions]):
        levels, total = generalization_at(data, dimensions, node).histories, 0.0
        for history, (domain, level) in enumerate(zip(data.history_domains, levels, strict=True)):
            own = [code for _, of, code in claims if of == history]
            scaled = 1.0
            if scale == "normalised":
                # The loss of the coarsest level or, if the lattice does not generalize it, of telling nothing at all.
                coarsest = domain.levels[-1].tolist() if history in loss.histories else None
                alike = (lambda a, b, to=coarsest: to[a] == to[b]) if coarsest else (lambda a, b: True)
                most = sum(log2(sum(alike(a, b) for b in own) / own.count(a)) for a in own)
                scaled = (most or sum(log2(len(own) / own.count(a)) for a in own) or 1.0) * attributes
            to = domain.levels[level].tolist()
            for target, of, code in claims:
                if of == history and (target, history, code) in population.gone:
                    total += log2(len(own) / sum(to[other] == to[code] for other in own)) / scaled
        assert costs.of_node(population.suppressed, levels) == pytest.approx(total)


@given(populations(), st.floats(0, 1))
def test_claims_and_room_are_counted_in_what_is_released(population, at_most):
    data, claims = population.before, held_claims(population)
    costs = ValueCosts.of(data, LatticeLoss(data, population.dimensions))
    suppressed = population.suppressed
    rows = zip(suppressed.targets.tolist(), suppressed.histories.tolist(), suppressed.codes.tolist(), strict=True)
    assert costs.claims(suppressed).tolist() == [claims.count(row) for row in rows]
    told = [sum(of == history for _, of, _ in claims) for history in range(len(data.held))]
    used = [sum(row in population.gone and row[1] == history for row in claims) for history in range(len(data.held))]
    assert costs.told.tolist() == told
    assert costs.room(suppressed, at_most).tolist() == [int(at_most * n) - m for n, m in zip(told, used, strict=True)]


@given(populations())
def test_the_information_kept_is_that_of_the_values_told(population):
    """Bits that claims still tell, of those that they told before; without suppressed values, that of any release."""
    data, before, claims = population.data, population.before, held_claims(population)
    for history, domain in enumerate(data.history_domains):
        own = [(target, code) for target, of, code in claims if of == history]
        codes = [code for _, code in own]
        lost = np.bincount([c for t, c in own if (t, history, c) in population.gone], minlength=domain.sizes[0])
        kept = kept_without_values(data.held[history].take(data.targets), domain, lost)
        most = sum(log2(len(own) / codes.count(code)) for code in codes)
        for level, share in enumerate(kept):
            to = domain.levels[level].tolist()
            told = [code for target, code in own if (target, history, code) not in population.gone]
            bits = sum(log2(len(own) / sum(to[other] == to[code] for other in codes)) for code in told)
            assert share == pytest.approx(bits / most if most else 1.0)
        nothing = with_values_not_told(before, SuppressedValues.none(), population.missing).held[history].take(data.targets)
        counts = (
            np.bincount(codes, minlength=before.history_domains[history].sizes[0]) if codes else np.zeros(domain.not_told, int)
        )
        found = kept_without_values(nothing, domain, np.zeros(domain.sizes[0], int))
        assert found == pytest.approx(information_kept(counts, before.history_domains[history]))


COMMON, RARE = 4, 30
DOMAIN = Domain((np.arange(COMMON + RARE), np.zeros(COMMON + RARE, int)))


def planted(rare: int = RARE, blanks: int = 60, members: int = 1500):
    """Members with common values, of whom some have one that nobody else has; and claims without a value."""
    generator = np.random.default_rng(7)
    own = [generator.integers(0, COMMON, 3).tolist() for _ in range(members)]
    for number in range(rare):
        own[number].append(COMMON + number)
    values, missing = Histories.of(own), np.zeros((1, members), int)
    missing[0, -blanks:] = blanks > 0
    power = (np.full(members, 2),)
    data = LongitudinalData(np.zeros((members, 0), int), (), (values,), (DOMAIN,), np.arange(members), (values,), power)
    return NodeComputation(data, (Dimension("diagnosis", (), (0,), 2),), K), missing


def chosen_for(computation, missing, aim=0.004, at_most=0.2, allowed=lambda node: True, start=(1,)):
    loss = LatticeLoss(computation.data, computation.dimensions)
    adversary = Adversary(np.full(len(computation.data.targets), 3), 2, "nearest")
    demand = Demand(aim, at_most, 0.95, 20_000, adversary, tuple(range(len(missing))), allowed, lambda shown, node: True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "ESTIMATE_DRAWS", 20_000)
        return choose_suppressed_values(computation, missing, start, loss, demand, lambda name: (name.encode() * 16)[-16:])


def test_rare_values_are_suppressed_and_fresh_draws_then_hold():
    computation, missing = planted()
    assert computation.measure((0,), OTHER_KEY, 50_000).share > 0.008
    found = chosen_for(computation, missing)
    assert found.node == (0,) and found.share <= 0.004
    assert (found.suppressed.codes >= COMMON).all() and (found.suppressed.codes == COMMON + found.suppressed.targets).all()
    data = with_values_not_told(computation.data, found.suppressed, missing)
    shown = NodeComputation(data, computation.dimensions, K)
    assert shown.measure((0,), OTHER_KEY, 50_000).share <= 0.004
    assert found.claims.tolist() == [len(found.suppressed)] and found.told.tolist() == [len(computation.data.held[0].codes)]
    loss = LatticeLoss(computation.data, computation.dimensions)
    costs = ValueCosts.of(computation.data, loss)
    losses = [loss((level,)) + costs.of_node(found.suppressed, (level,)) for level in (0, 1)]
    assert losses[0] < losses[1]
    assert found.loss == pytest.approx(losses[0]) == pytest.approx(costs.of_node(found.suppressed, (0,)))


def test_the_same_streams_choose_the_same_values():
    one, other = (chosen_for(*planted()) for _ in range(2))
    assert one.suppressed.codes.tolist() == other.suppressed.codes.tolist() and one.share == other.share


@pytest.mark.parametrize("at_most", [0.001, 0.002, 0.004, 0.2])
def test_no_more_is_suppressed_than_may_be(at_most):
    computation, missing = planted()
    found = chosen_for(computation, missing, at_most=at_most)
    assert found.claims[0] <= at_most * found.told[0]
    assert found.node == ((0,) if at_most == 0.2 else (1,))


def test_none_if_nothing_suffices():
    """Where no value may be suppressed, and no coarser node is within the risk."""
    computation, missing = planted()
    only_fine = NodeComputation(computation.data, (), K)
    assert chosen_for(only_fine, missing, at_most=0.0, start=()) is None
    assert chosen_for(only_fine, missing, at_most=0.2, start=()) is not None


def test_without_values_that_are_missing_nobody_is_like_one_of_whom_nothing_is_told():
    computation, missing = planted(blanks=0)
    found = chosen_for(computation, missing)
    assert found.node == (1,) and len(found.suppressed) == 0


def test_a_node_that_other_gates_refuse_is_not_chosen():
    computation, missing = planted()
    assert chosen_for(computation, missing, allowed=lambda node: node != (0,)).node == (1,)


def test_repeated_values_are_suppressed_once():
    both = SuppressedValues(np.array([1, 0]), np.array([0, 0]), np.array([2, 3]))
    joined = both.and_(both).and_(SuppressedValues.none())
    assert (joined.targets.tolist(), joined.codes.tolist()) == ([0, 1], [3, 2])
    assert len(joined) == 2


def test_nothing_to_lose_is_all_kept():
    domain = with_not_told(Domain((np.zeros(1, int),)))
    assert kept_without_values(Histories.of([[1, 1]]), domain, np.zeros(2, int)).tolist() == [1.0]
    assert kept_without_values(Histories.of([[0, 1]]), domain, np.zeros(2, int)).tolist() == [1.0]
