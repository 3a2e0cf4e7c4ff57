"""Values pooled by support: what is pooled, that levels nest, and that shares never rise on the way up through them."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.information_loss import LatticeLoss
from deid_assets.methods.lattice.longitudinal_search import SearchRule, search_lattice
from deid_assets.methods.lattice.predictive_tagging import all_nodes, below_or_equal
from deid_assets.methods.population.longitudinal_data import Dimension, Domain, Histories, LongitudinalData
from deid_assets.methods.population.pools import Siblings, pooled_level, siblings_of
from deid_assets.store.tables import Table, write_table
from deid_assets_tests import examples
from deid_assets_tests.methods.cases import KEY, short_blocks

PARENTS = {"flu": "lungs", "asthma": "lungs", "cold": "lungs", "ulcer": "gut", "gout": "joints", "sprain": "joints"}


@st.composite
def populations(draw):
    """Who holds which of the six values: (members, values) bool."""
    members = draw(st.integers(1, 30))
    return np.array(draw(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=members, max_size=members)))


def families(holds: np.ndarray) -> list[Siblings]:
    """The siblings as the definition says, one set of members at a time."""
    found = []
    for parent in dict.fromkeys(PARENTS.values()):
        own = [(int(holds[:, i].sum()), value, i) for i, value in enumerate(PARENTS) if PARENTS[value] == parent]
        own.sort()
        together = [int(holds[:, [i for _, _, i in own[: last + 1]]].any(axis=1).sum()) for last in range(len(own))]
        found.append(Siblings(parent, tuple(v for _, v, _ in own), np.array([s for s, _, _ in own]), np.array(together)))
    return found


def test_support_is_counted_over_members_before_parents_are_asked(tmp_path):
    claims = Table(tmp_path / "store.duckdb", "preparation", "grouped_claims")
    rows = [("a", "flu"), ("a", "flu"), ("a", "cold"), ("b", "cold"), ("b", "asthma"), ("c", "gout"), ("d", None)]
    write_table(claims, pd.DataFrame(rows, columns=["member_id", "condition_group"]).astype("str"))
    lungs, gut, joints = siblings_of(claims, "condition_group", PARENTS)
    assert (lungs.values, lungs.support.tolist(), lungs.together.tolist()) == (("asthma", "flu", "cold"), [1, 1, 2], [1, 2, 2])
    assert (gut.values, gut.support.tolist(), gut.together.tolist()) == (("ulcer",), [0], [0]), "a value that nobody holds"
    assert (joints.values, joints.together.tolist()) == (("sprain", "gout"), [0, 1])


@given(populations(), st.integers(1, 30))
@settings(max_examples=examples.of(200), deadline=None)
def test_a_pool_holds_two_values_and_enough_members_or_is_the_parent(holds, members):
    found = families(holds)
    labels = pooled_level(found, members)
    for family in found:
        pools = {labels[value] for value in family.values if labels[value] != value}
        assert len(pools) <= 1
        for value, support in zip(family.values, family.support, strict=True):
            assert support >= members or labels[value] in (family.parent, f"{family.parent} (pooled)")
        pooled = [value for value in family.values if labels[value] == f"{family.parent} (pooled)"]
        if pooled:
            assert len(pooled) >= 2
            assert holds[:, [list(PARENTS).index(value) for value in pooled]].any(axis=1).sum() >= members


@given(populations(), st.lists(st.integers(1, 31), min_size=2, max_size=4, unique=True).map(sorted))
@settings(max_examples=examples.of(200), deadline=None)
def test_levels_of_rising_support_nest(holds, thresholds):
    levels = [{value: value for value in PARENTS}, *(pooled_level(families(holds), t) for t in thresholds), PARENTS]
    for lower, upper in itertools.pairwise(levels):
        assert len({(lower[value], upper[value]) for value in PARENTS}) == len(set(lower.values()))


def test_a_value_called_like_a_pool_is_refused():
    lungs = Siblings("lungs", ("flu", "cold", "lungs (pooled)"), np.array([1, 2, 9]), np.array([1, 3, 9]))
    with pytest.raises(ValueError, match="called like a pool"):
        pooled_level([lungs], 3)


def computation_of(holds: np.ndarray, seed: int, thresholds: tuple[int, ...]) -> NodeComputation:
    """Members with the values that they hold on one claim each; some claims are cut in D', and half are released."""
    generator = np.random.default_rng(seed)
    order = list(PARENTS)
    levels = [
        np.arange(6), *(_codes(pooled_level(families(holds), t), order) for t in thresholds), _codes(PARENTS, order),
        np.zeros(6, dtype=int),
    ]  # fmt: skip
    known = [np.flatnonzero(row).tolist() for row in holds]
    kept = [[value for value in row if generator.random() < 0.8] for row in known]
    targets = np.flatnonzero(generator.random(len(holds)) < 0.5)
    targets = targets if len(targets) else np.arange(len(holds))
    sex = Domain((np.arange(2), np.zeros(2, dtype=int)))
    data = LongitudinalData(
        generator.integers(0, 2, (len(holds), 1)), (sex,), (Histories.of(kept),), (Domain(tuple(levels)),), targets,
        (Histories.of([known[target] for target in targets]),), (generator.integers(1, 4, len(targets)),),
    )  # fmt: skip
    return NodeComputation(data, [Dimension("sex", (0,), (), 2), Dimension("condition", (), (0,), len(levels))], k=4)


def _codes(labels: dict[str, str], order: list[str]) -> np.ndarray:
    return np.unique([labels[value] for value in order], return_inverse=True)[1]


@given(populations(), st.integers(0, 1000), st.sampled_from([0.05, 0.3, 0.6]))
@settings(max_examples=examples.of(60), deadline=None)
def test_tagging_stays_sound_with_pooled_levels(holds, seed, threshold):
    """The same draws flag no more on the way up, and tagging finds what measuring every node finds."""
    with short_blocks():
        computation = computation_of(holds, seed, (3, 6, 12))
        heights = [dimension.levels - 1 for dimension in computation.dimensions]
        flagged = {node: computation.measure(node, KEY, 512).flagged for node in all_nodes(heights)}
        losses = LatticeLoss(computation.data, computation.dimensions).of_every_node()
        tagged, every = (
            search_lattice(computation, losses, SearchRule(KEY, threshold, draws_at_most=512), exhaustive)
            for exhaustive in (False, True)
        )
    assert all(flagged[low] >= flagged[high] for low in flagged for high in flagged if below_or_equal(low, high))
    shares = {result.node: result.share for result in every.nodes}
    for result in tagged.nodes:
        assert result.decision != "open"
        # So few draws may leave a node undecided, which is then no candidate; what they decide must be right.
        if result.decision != "undecided" and abs(shares[result.node] - threshold) > 0.2:
            assert (result.decision == "candidate") == (shares[result.node] < threshold)
