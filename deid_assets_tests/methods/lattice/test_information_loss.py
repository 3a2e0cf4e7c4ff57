"""Information loss: the worked example of methods#information-loss, ten people with age and sex."""

import numpy as np
import pytest
from hypothesis import given

from deid_assets.methods.lattice import information_loss
from deid_assets.methods.lattice.predictive_tagging import all_nodes, below_or_equal, minimal_passing_nodes
from deid_assets.methods.population.longitudinal_data import Dimension, Domain
from deid_assets_tests.methods.cases import cases, data_of
from deid_assets_tests.methods.oracle import Person

AGES = [21, 22, 23, 24, 31, 32, 33, 34, 34, 35]
SEXES = "MMFFMMFFFM"
AGE_VALUES = sorted(set(AGES))
AGE = Domain((np.arange(9), np.array([age // 10 - 2 for age in AGE_VALUES]), np.zeros(9, int)))
SEX = Domain((np.arange(2), np.zeros(2, int)))
CODES = np.array([[AGE_VALUES.index(age), "FM".index(sex)] for age, sex in zip(AGES, SEXES, strict=True)])
WORKED = {
    # node: share of records in classes below 3, entropy in bits, DM*
    (0, 0): (1.0, 0, 12),
    (0, 1): (1.0, 10, 12),
    (1, 0): (0.4, 21.5098, 26),
    (1, 1): (0, 31.5098, 52),
    (2, 0): (0, 31.2193, 50),
    (2, 1): (0, 41.2193, 100),
}


def class_sizes(node):
    generalized = np.stack([AGE.levels[node[0]][CODES[:, 0]], SEX.levels[node[1]][CODES[:, 1]]])
    return np.unique(generalized, axis=1, return_counts=True)[1]


def entropy(node):
    return sum(
        information_loss.entropy_loss(np.bincount(CODES[:, column], minlength=len(domain.levels[0])), domain)[node[column]]
        for column, domain in enumerate((AGE, SEX))
    )


@pytest.mark.parametrize("node", WORKED)
def test_worked_losses(node):
    small, bits, dm_star = WORKED[node]
    sizes = class_sizes(node)
    assert sizes[sizes < 3].sum() / 10 == pytest.approx(small)
    assert entropy(node) == pytest.approx(bits, abs=5e-5)
    assert information_loss.monotone_discernibility(sizes) == dm_star


@pytest.mark.parametrize(
    ("max_sup", "minimal", "answer"),
    [(0, [(1, 1), (2, 0)], (2, 0)), (0.2, [(1, 1), (2, 0)], (2, 0)), (0.4, [(1, 0)], (1, 0))],
)
def test_worked_search(max_sup, minimal, answer):
    def passes(node):
        sizes = class_sizes(node)
        return sizes[sizes < 3].sum() / 10 <= max_sup

    found = minimal_passing_nodes((2, 1), passes)
    assert found == minimal
    assert min(found, key=entropy) == answer


def worked_data():
    people = [Person((int(age), int(sex)), (), (), ()) for age, sex in CODES]
    return data_of(people, (AGE, SEX), ())


def test_lattice_loss_in_bits_is_the_worked_example():
    dimensions = [Dimension("age", (0,), (), 3), Dimension("sex", (1,), (), 2)]
    loss = information_loss.LatticeLoss(worked_data(), dimensions, "raw")
    assert [loss(node) for node in WORKED] == pytest.approx([bits for _, bits, _ in WORKED.values()], abs=5e-5)


def test_normalised_loss_is_the_average_of_shares():
    dimensions = [Dimension("age", (0,), (), 3), Dimension("sex", (1,), (), 2)]
    loss = information_loss.LatticeLoss(worked_data(), dimensions)
    assert loss((0, 0)) == 0
    assert loss((2, 1)) == 1
    assert loss((1, 0)) == pytest.approx(21.5098 / 31.2193 / 2, abs=1e-5)


def test_claims_count_as_often_as_released_members_hold_them_after_truncation():
    domain = Domain((np.arange(2), np.zeros(2, int)))
    people = [
        Person((), ((0, 0, 1, 1),), ((0, 1),), (1,)),
        Person((), ((0,),), ((0,),), (1,)),
        Person((), ((1,) * 9,), ((1,) * 9,), (1,), released=False),
    ]
    loss = information_loss.LatticeLoss(data_of(people, (), (domain,)), [Dimension("pcg", (), (0,), 2)], "raw")
    assert loss((1,)) == pytest.approx(2 * np.log2(3 / 2) + np.log2(3))


def test_quasi_identifiers_in_no_dimension_lose_nothing():
    assert information_loss.LatticeLoss(worked_data(), [])(()) == 0


def test_unknown_scale_is_refused():
    with pytest.raises(ValueError, match="'raw' or 'normalised'"):
        information_loss.LatticeLoss(worked_data(), [], "bits")


@given(cases())
def test_loss_never_falls_on_the_way_up(case):
    people, demographic_domains, history_domains, dimensions, _ = case
    data = data_of(people, demographic_domains, history_domains)
    for scale in ("raw", "normalised"):
        loss = information_loss.LatticeLoss(data, dimensions, scale)
        found = {node: loss(node) for node in all_nodes([d.levels - 1 for d in dimensions])}
        assert all(found[low] <= found[high] + 1e-9 for low in found for high in found if below_or_equal(low, high))


@pytest.mark.parametrize("attributes", range(1, 12))
def test_everything_lost_is_exactly_1_whatever_the_number_of_attributes(attributes):
    """Nine ninths, added up one by one, are more than 1."""
    person = Person((), ((0, 1),) * attributes, ((0, 1),) * attributes, (1,) * attributes, True)
    dimensions = [Dimension(f"column {h}", (), (h,), 2) for h in range(attributes)]
    losses = information_loss.LatticeLoss(data_of([person], (), (SEX,) * attributes), dimensions).of_every_node()
    assert losses.max() == losses.flat[-1] == 1.0 and losses.min() == 0.0


def shannon(counts) -> float:
    """Shannon's entropy in bits, value by value."""
    total = sum(counts)
    return -sum(count / total * np.log2(count / total) for count in counts if count)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_kept_is_the_entropy_of_the_classes_over_that_of_the_values(seed):
    random = np.random.default_rng(seed)
    counts = random.integers(0, 9, 12)
    counts[0] = 1
    middle = np.sort(random.integers(0, 4, 12))
    domain = Domain((np.arange(12), np.unique(middle, return_inverse=True)[1], np.zeros(12, int)))
    kept = information_loss.information_kept(counts, domain)
    classes = [counts[middle == value].sum() for value in np.unique(middle)]
    if np.count_nonzero(counts) > 1:
        assert kept == pytest.approx([1, shannon(classes) / shannon(counts), 0])


def test_groups_and_top_codes_lose_what_the_delivery_had_before_them():
    """Sixteen codes of which four groups were made, and two levels above them."""
    groups = Domain((np.arange(4), np.array([0, 0, 1, 1]), np.zeros(4, int)))
    assert information_loss.information_kept(np.array([4, 4, 4, 4]), groups, delivered_bits=4.0).tolist() == [0.5, 0.25, 0.0]
    single = Domain((np.arange(1),))
    assert information_loss.information_kept(np.array([16]), single, delivered_bits=4.0).tolist() == [0.0]
    assert information_loss.information_kept(np.array([16]), single, delivered_bits=0.0).tolist() == [1.0]


def test_a_top_with_several_classes_keeps_something_and_a_single_value_has_nothing_to_lose():
    """Relative to the top, 40-year classes would have lost everything."""
    ages = Domain((np.arange(4), np.array([0, 0, 1, 1])))
    assert information_loss.information_kept(np.array([5, 5, 5, 5]), ages).tolist() == [1.0, 0.5]
    assert information_loss.information_kept(np.array([0, 7, 0, 0]), ages).tolist() == [1.0, 1.0]


def test_entropy_does_not_depend_on_the_order_of_counts():
    generator = np.random.default_rng(3)
    counts = generator.integers(0, 5_000, 2_000)
    assert len({information_loss.entropy(generator.permutation(counts)) for _ in range(20)}) == 1
