"""Draws that chose a member never judge it; and data that are not generalized are refused at any fraction."""

import numpy as np
import pytest

from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.choice import members_to_suppress
from deid_assets.methods.population.longitudinal_data import Dimension, Domain, Histories, LongitudinalData
from deid_assets.methods.statistics.confidence import wilson_interval

TAU, MAX_SUP, K = 0.05, 0.008, 20
CHOOSING, FRESH = bytes(range(16)), bytes(range(1, 17))
VALUES, CLAIMS = 200, 6


def population(members: int, released: int, seed: int = 3) -> NodeComputation:
    """Members with histories of which a few values are common and most are rare, and one hierarchy of three levels."""
    generator = np.random.default_rng(seed)
    weights = 1 / np.arange(1, VALUES + 1) ** 1.3
    counts = generator.poisson(CLAIMS, members) + 1
    codes = generator.choice(VALUES, counts.sum(), p=weights / weights.sum()).astype(np.int32)
    histories = Histories(np.concatenate([[0], np.cumsum(counts)]), codes)
    domain = Domain((np.arange(VALUES), np.arange(VALUES) // 20, np.zeros(VALUES, int)))
    targets = np.sort(generator.choice(members, released, replace=False))
    power = np.full(released, 2, dtype=np.int8)
    data = LongitudinalData(
        generator.integers(0, 4, (members, 1)),
        (Domain((np.arange(4),)),),
        (histories,),
        (domain,),
        targets,
        (histories.take(targets),),
        (power,),
    )
    return NodeComputation(data, (Dimension("condition", (), (0,), 3),), K)


def test_draws_that_chose_members_judge_them_too_kindly():
    """On the draws that flagged them nothing is left to flag; on as many fresh draws a good part comes back."""
    computation = population(20_000, 2_000)
    draws = 10_000
    flags = computation.flagged_targets((0,), CHOOSING, draws)
    chosen = members_to_suppress(flags.drawn, flags.flagged, goal=0.0)
    keep = np.ones(2_000, dtype=bool)
    keep[chosen] = False
    assert flags.flagged[keep].sum() == 0
    before = flags.flagged.sum() / draws
    fresh = computation.keeping(keep).measure((0,), FRESH, draws).share
    assert before > MAX_SUP
    assert fresh > MAX_SUP, "what looks like 0 on the choosing draws is over MaxSup on fresh ones"


def test_a_node_chosen_as_the_least_of_many_measurements_looks_better_than_it_is():
    """The least of several noisy measurements of one share lies below it, whichever draws they are from."""
    computation = population(20_000, 2_000)
    truth = computation.measure((0,), FRESH, 400_000).share
    least = min(computation.measure((0,), bytes([n]) * 16, 1_000).share for n in range(30))
    assert least < truth


@pytest.mark.parametrize("alpha", [0.02, 0.05, 0.1, 0.5])
def test_data_that_are_not_generalized_are_refused_at_any_fraction(alpha):
    """Risk is 1/F in the population: the fraction released is no lever (methods#population)."""
    members = 10_000
    computation = population(members, int(alpha * members))
    measured = computation.measure((0,), FRESH, 20_000)
    lower, _ = wilson_interval(measured.flagged, measured.draws, 0.99)
    assert lower > MAX_SUP
    assert computation.measure((2,), FRESH, 20_000).share <= MAX_SUP, "the same data, generalized to one value, pass"


def test_the_share_at_high_risk_does_not_depend_on_the_fraction():
    shares = [population(10_000, int(alpha * 10_000)).measure((0,), FRESH, 20_000).share for alpha in (0.05, 0.1, 0.5)]
    assert max(shares) - min(shares) < 0.1 * max(shares) + 0.02
