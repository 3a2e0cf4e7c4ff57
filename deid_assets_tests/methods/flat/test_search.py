"""Flat tables against the worked example of methods#information-loss, the Adult table, and exhaustive search on small ones."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.flat import search
from deid_assets.methods.flat.classes import FlatTable
from deid_assets.methods.lattice import certificate as certificates
from deid_assets.methods.lattice.certificate import (
    Criterion,
    MeasuredNode,
    OptimalityCertificate,
    failed_antichain,
    no_better_nodes,
)
from deid_assets.methods.lattice.information_loss import monotone_discernibility
from deid_assets.methods.lattice.predictive_tagging import lower_neighbors, sums_of_losses
from deid_assets.methods.population.longitudinal_data import Domain
from deid_assets_tests import examples
from deid_assets_tests.adult import adult_table
from deid_assets_tests.public_data import public_data

AGES = [21, 22, 23, 24, 31, 32, 33, 34, 34, 35]
SEXES = [0, 0, 1, 1, 0, 0, 1, 1, 1, 0]


def worked_example() -> FlatTable:
    """methods#information-loss: ages exact, by decade, any; sex exact, any."""
    values = sorted(set(AGES))
    age = Domain((np.arange(len(values)), np.array([v // 10 - 2 for v in values]), np.zeros(len(values), int)))
    sex = Domain((np.arange(2), np.zeros(2, int)))
    return FlatTable(np.array([[values.index(a), s] for a, s in zip(AGES, SEXES, strict=True)]), (age, sex))


class TestWorkedExample:
    @pytest.mark.parametrize(
        ("node", "small", "entropy", "dm_star"),
        [
            ((0, 0), 1.0, 0.0, 12), ((0, 1), 1.0, 10.0, 12), ((1, 0), 0.4, 21.5098, 26),
            ((1, 1), 0.0, 31.5098, 52), ((2, 0), 0.0, 31.2193, 50), ((2, 1), 0.0, 41.2193, 100),
        ],
    )  # fmt: skip
    def test_every_node(self, node, small, entropy, dm_star):
        table = worked_example()
        classes = table.classes_at(node)
        assert classes.below(3) / table.records == small
        assert sum(own[level] for own, level in zip(search.entropy_losses(table), node, strict=True)) == pytest.approx(
            entropy, abs=5e-5
        )
        assert monotone_discernibility(classes.released) == dm_star

    @pytest.mark.parametrize(("max_suppressed", "node"), [(0.0, (2, 0)), (0.2, (2, 0)), (0.4, (1, 0))])
    def test_the_answer(self, max_suppressed, node):
        table = worked_example()
        assert search.search_flat_table(table, 3, max_suppressed, search.entropy_losses(table)).node == node

    def test_where_even_the_top_fails_there_is_none(self):
        table = worked_example()
        found = search.search_flat_table(table, 11, 0.0, search.entropy_losses(table))
        assert (found.node, found.loss) == (None, math.inf)
        assert search.search_flat_table_by_classes(table, 11, 0.0, search.average_class_size).node is None


@pytest.fixture(scope="module")
def adult() -> tuple[list[str], FlatTable]:
    return adult_table(public_data("adult"))


class TestAdult:
    def test_its_lattice(self, adult):
        names, table = adult
        assert table.records == 30_162
        assert math.prod(height + 1 for height in table.heights) == 12_960

    @pytest.mark.parametrize(
        ("k", "max_suppressed", "loss", "levels"),
        [
            (5, 0.04, 255559.8545573, "1 0 1 1 3 2 2 0 1"),
            (100, 0.0, 453196.8932459, "0 4 1 1 3 2 2 1 1"),
        ],
    )
    def test_the_published_optimum(self, adult, k, max_suppressed, loss, levels):
        names, table = adult
        found = search.search_flat_table(table, k, max_suppressed, search.entropy_losses(table))
        order = [
            "sex",
            "age",
            "race",
            "marital-status",
            "education",
            "native-country",
            "workclass",
            "occupation",
            "salary-class",
        ]
        assert dict(zip(names, found.node, strict=True)) == dict(zip(order, map(int, levels.split()), strict=True))
        assert found.loss == pytest.approx(loss, abs=5e-8)
        assert found.evaluated[found.node] <= found.allowed == int(max_suppressed * 30_162)

    def test_nodes_that_failed_prove_it(self, adult):
        """Every node of less loss lies below one that was looked at and failed."""
        _, table = adult
        losses = search.entropy_losses(table)
        found = search.search_flat_table(table, 5, 0.04, losses)
        failed = np.array([node for node, below in found.evaluated.items() if below > found.allowed])
        levels = np.indices([height + 1 for height in table.heights]).reshape(len(losses), -1).T
        loss = sum(own[levels[:, i]] for i, own in enumerate(losses))
        for node in levels[loss < found.loss]:
            assert (node <= failed).all(axis=1).any()

    @pytest.mark.matrix
    def test_losses_of_classes_are_the_least_of_all_nodes_that_pass(self, adult):
        """Against every node of the lattice, of which few are evaluated."""
        _, table = adult
        nodes = nodes_of(table)
        classes = [table.classes_at(node) for node in nodes]
        for loss in CLASS_LOSSES:
            every = np.array([loss(own) for own in classes])
            for k, max_suppressed in itertools.product((2, 5, 100), (0.0, 0.01, 0.04)):
                below = np.array([own.below(k) for own in classes])
                fresh = FlatTable(table.codes, table.domains)
                found = search.search_flat_table_by_classes(fresh, k, max_suppressed, loss)
                assert len(found.evaluated) < 3_500
                assert found.loss == every[below <= found.allowed].min()
                assert certificate(table, found, max_suppressed).problems() == []


@st.composite
def tables(draw, population: bool = False) -> FlatTable:
    """A small table with two to four columns of hierarchies that nest."""
    domains = []
    for _ in range(draw(st.integers(2, 4))):
        size = draw(st.integers(1, 5))
        levels = [np.arange(size)]
        while draw(st.booleans()) and len(levels) < 4:
            classes = levels[-1].max() + 1
            lift = np.array([draw(st.integers(0, 3)) for _ in range(classes)])
            levels.append(np.unique(lift, return_inverse=True)[1][levels[-1]])
        domains.append(Domain(tuple(levels)))
    row = st.tuples(*(st.integers(0, domain.sizes[0] - 1) for domain in domains))
    rows = draw(st.lists(row, min_size=1, max_size=25))
    others = draw(st.lists(row, max_size=25)) if population else None
    return FlatTable(np.array(rows), tuple(domains), None if others is None else np.array([*rows, *others]))


def everyone(table: FlatTable) -> np.ndarray:
    return table.codes if table.population is None else np.concatenate([table.codes, table.population])


def generalized(table: FlatTable, rows: np.ndarray, node) -> list[tuple]:
    return [
        tuple(int(domain.levels[level][code]) for domain, level, code in zip(table.domains, node, row, strict=True))
        for row in rows
    ]


def below_k(table: FlatTable, node, k: int) -> int:
    """Counted record by record."""
    hiding = generalized(table, table.codes if table.population is None else table.population, node)
    return sum(hiding.count(values) < k for values in generalized(table, table.codes, node))


def nodes_of(table: FlatTable):
    return list(itertools.product(*(range(height + 1) for height in table.heights)))


@given(st.one_of(tables(), tables(population=True)), st.integers(1, 6), st.data())
def test_records_below_k_are_those_counted_one_by_one_in_whatever_order_nodes_are_asked(table, k, data):
    for node in data.draw(st.permutations(nodes_of(table)))[:12]:
        assert table.classes_at(node).below(k) == below_k(table, node, k)
        classes = table.classes_at(node)
        assert classes.released.sum() == table.records
        assert len(set(zip(*(word.tolist() for word in classes.words), strict=True))) == len(classes)
        assert len(classes) == len(set(generalized(table, everyone(table), node)))


@given(st.one_of(tables(), tables(population=True)), st.integers(1, 6), st.sampled_from([0.0, 0.1, 0.3, 0.5]))
def test_the_optimum_is_that_of_exhaustive_search(table, k, max_suppressed):
    for losses in (search.entropy_losses(table), search.precision_losses(table)):
        passing = [node for node in nodes_of(table) if below_k(table, node, k) <= max_suppressed * table.records + 1e-9]
        found = search.search_flat_table(table, k, max_suppressed, losses)

        def loss_of(node, losses=losses):
            return sum(own[level] for own, level in zip(losses, node, strict=True))

        if not passing:
            assert found.node is None
        else:
            least = min(map(loss_of, passing))
            ties = [node for node in passing if math.isclose(loss_of(node), least, rel_tol=1e-11, abs_tol=1e-11)]
            assert found.node == min(ties, key=lambda node: (sum(node), node))
            assert found.loss == loss_of(found.node)
            assert found.evaluated[found.node] == below_k(table, found.node, k)


CLASS_LOSSES = [search.average_class_size, lambda classes: monotone_discernibility(classes.released)]


@settings(max_examples=examples.of(300), deadline=None)
@given(
    st.one_of(tables(), tables(population=True)),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.1, 0.3]),
    st.sampled_from([1, 2, 99]),
)
def test_of_a_lattice_that_is_not_listed_the_optimum_is_found_or_bounded(table, k, max_suppressed, evaluated):
    losses, tops = search.precision_losses(table), table.heights
    listed = search.search_flat_table(table, k, max_suppressed, losses)
    with pytest.MonkeyPatch.context() as patched:
        for module in (search, certificates):
            patched.setattr(module, "LISTED_AT_MOST", 0)
        patched.setattr(search, "EVALUATED_AT_MOST", evaluated)
        found = search.search_flat_table(table, k, max_suppressed, losses, tops)
        assert (found.node is None) == (listed.node is None)
        assert found.evaluated == {node: below_k(table, node, k) for node in found.evaluated}
        if found.node is None or listed.node is None:
            return
        assert found.evaluated[found.node] <= found.allowed and found.loss >= listed.loss - 1e-9
        if evaluated == 99:
            assert found.loss == pytest.approx(listed.loss)
        measured = {node: MeasuredNode(node, n / table.records, n, table.records) for node, n in found.evaluated.items()}
        criterion = Criterion("counted", max_suppressed)
        proof = OptimalityCertificate(
            dimensions=tuple(f"c{place}" for place in range(len(table.heights))), heights=table.heights,
            losses=tuple(tuple(own.tolist()) for own in losses), step=0.0, criterion=criterion,
            chosen=found.node, chosen_loss=found.loss,
            failed=failed_antichain([one for one in measured.values() if criterion.fails(one)]),
            neighbors=tuple(measured[below] for below in lower_neighbors(found.node)),
        ).with_rest()  # fmt: skip
        assert proof.problems() == []
        assert found.loss - proof.gap <= listed.loss + 1e-9, "the optimum lies within the gap"
        assert evaluated < 99 or proof.gap == pytest.approx(0, abs=1e-9)


@settings(max_examples=examples.of(100), deadline=None)
@given(st.one_of(tables(), tables(population=True)), st.integers(1, 6), st.sampled_from([0.0, 0.1, 0.2, 0.5]))
def test_losses_of_classes_too(table, k, max_suppressed):
    for loss in CLASS_LOSSES:
        found = search.search_flat_table_by_classes(table, k, max_suppressed, loss)
        passing = [node for node in nodes_of(table) if below_k(table, node, k) <= max_suppressed * table.records + 1e-9]
        if not passing:
            assert found.node is None
        else:
            best = min(passing, key=lambda node: (loss(table.classes_at(node)), sum(node), node))
            assert found.loss == loss(table.classes_at(best)) and found.node == best
            assert found.evaluated[found.node] == below_k(table, best, k)
        assert found.losses == {node: loss(table.classes_at(node)) for node in found.evaluated}
        assert found.evaluated == {node: below_k(table, node, k) for node in found.evaluated}


@settings(max_examples=examples.of(100), deadline=None)
@given(st.one_of(tables(), tables(population=True)), st.integers(1, 6), st.sampled_from([0.0, 0.2, 0.5]), st.data())
def test_of_the_levels_that_may_be_chosen_the_optimum_is_that_of_exhaustive_search(table, k, max_suppressed, data):
    tops = tuple(data.draw(st.integers(0, height)) for height in table.heights)
    useful = [node for node in nodes_of(table) if all(level <= top for level, top in zip(node, tops, strict=True))]
    passing = [node for node in useful if below_k(table, node, k) <= max_suppressed * table.records + 1e-9]
    losses = search.entropy_losses(table)
    by_levels = search.search_flat_table(table, k, max_suppressed, losses, tops)
    by_classes = search.search_flat_table_by_classes(table, k, max_suppressed, search.average_class_size, tops)
    for found in (by_levels, by_classes):
        assert set(found.evaluated) <= set(useful) and (found.node is None) is not bool(passing)
    if passing:
        least = min(sum(own[level] for own, level in zip(losses, node, strict=True)) for node in passing)
        assert by_levels.node in passing and by_levels.loss == pytest.approx(least)
        assert by_classes.loss == min(search.average_class_size(table.classes_at(node)) for node in passing)


@settings(max_examples=examples.of(200), deadline=None)
@given(st.one_of(tables(), tables(population=True)), st.integers(1, 6), st.sampled_from([0.0, 0.1, 0.2, 0.5]))
def test_what_was_looked_at_proves_the_optimum(table, k, max_suppressed):
    for loss in CLASS_LOSSES:
        found = search.search_flat_table_by_classes(table, k, max_suppressed, loss)
        if found.node is not None:
            assert certificate(table, found, max_suppressed).problems() == []


@settings(max_examples=examples.of(100), deadline=None)
@given(st.one_of(tables(), tables(population=True)), st.integers(1, 6), st.sampled_from([0.0, 0.2, 0.5]), st.data())
def test_a_pinned_node_is_chosen_if_it_passes_whatever_others_lose(table, k, max_suppressed, data):
    node = data.draw(st.sampled_from(list(nodes_of(table))))
    searched = search.search_flat_table_by_classes(table, k, max_suppressed, search.average_class_size)
    found = search.pinned_result(searched, table, k, node, lambda _, classes: search.average_class_size(classes))
    passes = below_k(table, node, k) <= max_suppressed * table.records + 1e-9
    assert (found.node, found.loss) == (
        (node, search.average_class_size(table.classes_at(node))) if passes else (None, math.inf)
    )
    assert set(found.evaluated) == {*searched.evaluated, node, *lower_neighbors(node)}
    assert found.evaluated == {own: below_k(table, own, k) for own in found.evaluated}
    assert found.losses == {own: search.average_class_size(table.classes_at(own)) for own in found.evaluated}


def certificate(table: FlatTable, found: search.FlatResult, max_suppressed: float) -> OptimalityCertificate:
    measured = {
        node: MeasuredNode(node, below / table.records, below, table.records) for node, below in found.evaluated.items()
    }
    criterion = Criterion("counted", max_suppressed)
    return OptimalityCertificate(
        dimensions=tuple(f"column {number}" for number in range(len(table.heights))),
        heights=table.heights,
        losses=None,
        step=0.0,
        criterion=criterion,
        chosen=found.node,
        chosen_loss=found.loss,
        failed=failed_antichain([own for own in measured.values() if criterion.fails(own)]),
        no_better=no_better_nodes(found.losses, found.node),
        neighbors=tuple(measured[below] for below in lower_neighbors(found.node)),
    ).with_rest()


def test_sums_that_differ_by_rounding_only_are_ties_and_go_to_the_lower_node():
    """2/2 + 3/4 and 1/1 + 1/2 + 1/4 are the same Prec; as sums of floating-point numbers the higher node loses less."""
    levels = [np.arange(8), np.arange(8) // 2, np.arange(8) // 4, np.zeros(8, int)]
    domains = tuple(Domain((np.arange(8), *levels[4 - height :])) for height in (1, 2, 4))
    table = FlatTable(np.zeros((1, 3), int), domains)
    losses = search.precision_losses(table)
    wanted = {(0, 2, 3), (1, 1, 1)}
    sums = [sum(own[level] for own, level in zip(losses, node, strict=True)) for node in sorted(wanted)]
    assert sums[0] < sums[1] and math.isclose(*sums)
    ranks = search._ranks(sums_of_losses(losses))
    assert ranks[0, 2, 3] == ranks[1, 1, 1] and ranks[1, 1, 1] < ranks[1, 2, 1]


def test_more_columns_than_a_64_bit_key_holds():
    generator = np.random.default_rng(3)
    codes = generator.integers(0, 1_000, (40, 9))
    codes[20:] = codes[:20]
    table = FlatTable(codes, tuple(Domain((np.arange(1_000), np.zeros(1_000, int))) for _ in range(9)))
    assert len(table.bottom) == 20 and table.bottom.below(3) == 40 and table.bottom.below(2) == 0


def test_what_does_not_fit_is_refused():
    table = worked_example()
    with pytest.raises(ValueError, match="one number for each level"):
        search.search_flat_table(table, 2, 0.0, [np.zeros(2), np.zeros(2)])
    with pytest.raises(ValueError, match="must not fall"):
        search.search_flat_table(table, 2, 0.0, [np.array([0, 1, 0.5]), np.zeros(2)])
