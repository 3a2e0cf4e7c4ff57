"""Demographic class sizes in population and release."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.disclosure.demographic_classes import SIZE_EDGES, demographic_class_sizes, demographic_risk
from deid_assets_tests import examples
from deid_assets_tests.methods.small_tables import small_store

people = st.lists(
    st.tuples(st.one_of(st.none(), st.sampled_from(["0-9", "10-19"])), st.one_of(st.none(), st.sampled_from("FM"))),
    max_size=20,
)


@settings(deadline=None, max_examples=examples.of(25))
@given(people, people)
def test_classes_are_counted_on_both_sides_with_missing_as_a_value(population, released):
    with small_store() as store:
        rows = store.rows(
            demographic_class_sizes(
                store.table("population", "age VARCHAR, sex VARCHAR", population),
                store.table("released", "sex VARCHAR, age VARCHAR", [(s, a) for a, s in released]),
                ["age", "sex"],
            )
        )
    in_population, in_release = Counter(population), Counter(released)
    classes = set(population) | set(released)
    assert sorted(rows, key=str) == sorted(((*c, in_population[c], in_release[c]) for c in classes), key=str)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=12), st.integers(1, 40))
def test_summary_counts_released_members(classes, k):
    population, released = [f for f, _ in classes], [r for _, r in classes]
    risk = demographic_risk(population, released, k)
    shown = [f for f, r in classes if r > 0]
    assert risk.released == sum(released) == sum(members for _, members in risk.sizes)
    assert risk.released_below_k == sum(r for f, r in classes if f < k)
    assert risk.smallest == (min(shown) if shown else None)
    assert risk.classes == len(classes)


def test_a_class_of_k_is_not_at_high_risk():
    risk = demographic_risk([20, 19], [1, 1], k=20)
    assert risk.released_below_k == 1
    assert risk.share_below_k == 0.5


def test_sizes_are_shown_by_class_of_size():
    risk = demographic_risk([0, 1, 4, 20, 5_000_000], [1, 2, 3, 4, 5], k=20)
    assert dict(risk.sizes) == {0: 1, 1: 2, 2: 3, 5: 0, 10: 0, 20: 4, 50: 0, 100: 0, 1_000: 0, 10_000: 5}
    assert tuple(edge for edge, _ in risk.sizes) == (0, *SIZE_EDGES)


def test_a_release_without_members_has_no_smallest_class():
    risk = demographic_risk([50], [0], k=20)
    assert (risk.smallest, risk.share_below_k) == (None, 0)
