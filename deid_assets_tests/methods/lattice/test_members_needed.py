"""How many members a population needs: the true number is in the interval, and what cannot be told is not."""

from hashlib import blake2b

import numpy as np
import pytest

from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.members_needed import TIMES_AT_MOST, MembersNeeded, members_needed
from deid_assets.methods.population.longitudinal_data import Dimension, Histories, LongitudinalData
from deid_assets_tests.methods.cases import flat

K, LIMIT = 20, 0.05


def keys_of(seed: int):
    return lambda name: blake2b(f"{seed}: {name}".encode(), digest_size=16).digest()


def people(random: np.random.Generator, sizes: np.ndarray, extract: bool = False) -> NodeComputation:
    """Members in classes of these sizes, in random order, with one value each that nobody knows more of."""
    groups = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    values = Histories(np.arange(len(groups) + 1), np.zeros(len(groups), dtype=np.int32))
    data = LongitudinalData(
        groups[:, None], (flat(len(sizes)),), (values,), (flat(1),), np.arange(len(groups)), (values,),
        (np.ones(len(groups), dtype=int),),
    )  # fmt: skip
    return NodeComputation(data, (Dimension("group", (0,), (), 1),), K, extract=extract)


def truly_needed(shares_of_groups: np.ndarray) -> int:
    """The smallest population of which on average at most LIMIT are in classes smaller than K."""
    from scipy import stats

    for members in np.geomspace(100, 200_000, 400).astype(int):
        at_risk = stats.poisson.cdf(K - 2, shares_of_groups * (members - 1))
        if (shares_of_groups * at_risk).sum() <= LIMIT:
            return int(members)
    raise AssertionError("no such population")


@pytest.mark.matrix
@pytest.mark.parametrize("steepness", [0.0, 0.5, 1.0])
def test_the_true_number_is_in_the_interval(steepness):
    groups = np.arange(1, 401.0) ** -steepness
    groups /= groups.sum()
    truth, held = truly_needed(groups), 0
    for seed in range(5):
        random = np.random.default_rng(seed)
        found = members_needed(people(random, random.multinomial(1_000, groups)), keys_of(seed), 0, LIMIT)
        held += found.at_least <= truth <= (found.enough or np.inf)
    assert held == 5, "of an interval of 95 % that is wider than it needs to be"


def test_leaving_members_out_lowers_only_what_is_needed_at_least():
    random = np.random.default_rng(1)
    computation = people(random, random.multinomial(2_000, np.full(400, 1 / 400)))
    nobody, some = (members_needed(computation, keys_of(1), suppressed, LIMIT) for suppressed in (0.0, 0.2))
    assert some.at_least < nobody.at_least and some.enough == nobody.enough


def test_people_who_stay_alone_need_more_than_can_be_told():
    random = np.random.default_rng(2)
    alone = people(random, np.concatenate([np.ones(600, dtype=int), [600]]))
    found = members_needed(alone, keys_of(2), 0, LIMIT)
    assert found.at_least is None and found.enough is None
    assert str(found) == f"more than {TIMES_AT_MOST} times these 1,200 members, if any number would do"


@pytest.mark.parametrize("of", ["an extract", "too few members"])
def test_nothing_is_told_of(of):
    computation = people(np.random.default_rng(3), np.full(19, 20), extract=of == "an extract")
    if of == "an extract":
        computation = people(np.random.default_rng(3), np.full(100, 10), extract=True)
    assert members_needed(computation, keys_of(3), 0, LIMIT) is None


@pytest.mark.parametrize(
    ("needed", "text"),
    [
        (MembersNeeded(2_500, 5_000, 24_000), "at least 5,000 members of the same kind of people; 24,000 are enough (95 %"),
        (MembersNeeded(2_500, 2_500, None), "more than these 2,500 members of the same kind of people; how many are enough"),
        (MembersNeeded(2_500, None, None), f"more than {TIMES_AT_MOST} times these 2,500 members, if any"),
    ],
)
def test_what_a_person_is_told(needed, text):
    assert str(needed).startswith(text)
