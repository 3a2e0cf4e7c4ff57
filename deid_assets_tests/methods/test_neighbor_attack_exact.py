"""Attack 1 as the paper has it, from arrays to averages, against exact enumeration and analytic class sizes."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.attacks.neighbor_attack import neighbor_attack
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.population.longitudinal_data import Histories, LongitudinalData
from deid_assets.methods.statistics.confidence import clopper_pearson_interval, empirical_bernstein_upper_bound
from deid_assets_tests import examples
from deid_assets_tests.methods.cases import KEY, cases, data_of, flat
from deid_assets_tests.methods.oracle import class_size, every_knowledge, exempt

TRIALS = 16_000
CONFIDENCE = 1 - 1e-9
"""A right attack fails these tests once in 10**9."""


def simulated(data: LongitudinalData, alpha: float):
    """The attack as the assessment runs it on released rows: D1 is known, D2 is held, everybody is a target."""
    classes = NodeComputation(data, (), k=1).drawn_classes((), KEY, TRIALS)
    uniform = np.random.default_rng(7)

    def mean_interval(values):
        high = empirical_bernstein_upper_bound(values, 1.0, CONFIDENCE)
        return 1 - empirical_bernstein_upper_bound(1 - values, 1.0, CONFIDENCE), high

    return neighbor_attack(
        ~classes.exempt, classes.sizes, alpha, uniform.random(TRIALS), uniform.random(TRIALS), mean_interval,
        lambda hits, of: clopper_pearson_interval(hits, of, 2 * CONFIDENCE - 1),
    )  # fmt: skip


def exact_success(people, history_domains, demographic_domains) -> Fraction:
    """Every target, every knowledge he may be known by, every class: the success of who knows the target is there."""
    demographics = [range(domain.sizes[0]) for domain in demographic_domains]
    histories = [range(domain.sizes[0]) for domain in history_domains]
    total = Fraction(0)
    for target in people:
        draws = list(every_knowledge(target))
        for knowledge in draws:
            if not exempt(target, knowledge, histories):
                total += Fraction(1, class_size(people, target, knowledge, demographics, histories) * len(draws))
    return total / len(people)


@settings(max_examples=examples.of(40), deadline=None)
@given(cases(), st.sampled_from([0.05, 0.3, 1.0]))
def test_simulation_agrees_with_exact_enumeration(case, alpha):
    """The release is a population of its own: the literal procedure and both averages lie around the exact number."""
    people, demographic_domains, history_domains, _, _ = case
    people = [person for person in people if person.released]
    exact = float(exact_success(people, history_domains, demographic_domains))
    found = simulated(data_of(people, demographic_domains, history_domains), alpha)
    assert found.given_membership.low <= exact <= found.given_membership.high
    assert found.unconditional.low <= alpha * exact <= found.unconditional.high
    assert found.literal.low <= alpha * exact <= found.literal.high
    assert found.unconditional.value <= alpha


def test_simulation_agrees_with_the_analytic_class_sizes_of_many_members():
    """Everybody has two claims of which one value is known; a class is whoever has that value and the same sex."""
    generator = np.random.default_rng(11)
    members, values = 5_000, 40
    sex = generator.integers(0, 2, (members, 1))
    codes = np.minimum(generator.geometric(0.12, (members, 2)) - 1, values - 1)
    histories = Histories(np.arange(0, 2 * members + 1, 2), codes.ravel())
    power = np.ones(members, dtype=np.int8)
    data = LongitudinalData(sex, (flat(2),), (histories,), (flat(values),), np.arange(members), (histories,), (power,))
    holds = np.zeros((members, values), dtype=bool)
    holds[np.arange(members)[:, None], codes] = True
    sizes = np.stack([holds[sex[:, 0] == own].sum(axis=0) for own in (0, 1)])
    exact = (1 / sizes[sex, codes]).mean()
    found = simulated(data, alpha=0.2)
    assert found.given_membership.value == pytest.approx(exact, rel=0.1)
    assert found.given_membership.low <= exact <= found.given_membership.high
    assert found.literal.low <= 0.2 * exact <= found.literal.high


def test_knowledge_comes_from_all_claims_and_is_matched_with_the_released_ones():
    """D1 and D2: half of what is known of the only member with a cut claim is gone, and then nobody is picked."""
    known, held = Histories.of([[0, 1], [0]]), Histories.of([[0], [0]])
    data = LongitudinalData(
        np.zeros((2, 0), int), (), (held,), (flat(2),), np.arange(2), (known,), (np.ones(2, dtype=np.int8),)
    )
    found = simulated(data, alpha=1.0)
    assert found.given_membership.value == pytest.approx(0.75 / 2, abs=0.01), "three draws of four match a class of two"
