"""The class sizes that the gate counts in DuckDB, against counting person by person."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.errors import StoreError
from deid_assets.methods.attacks.sql_class_sizes import draw_class_sizes, held_values
from deid_assets.store.tables import Table, write_view
from deid_assets_tests import examples
from deid_assets_tests.methods.small_tables import small_store

DEMOGRAPHICS = ("age", "sex")
QUASI_IDENTIFIERS = ("place", "stay")
demographics = st.tuples(st.one_of(st.none(), st.sampled_from(["0-9", "10-19"])), st.one_of(st.none(), st.sampled_from("FM")))
claim = st.tuples(st.one_of(st.none(), st.sampled_from("ab")), st.one_of(st.none(), st.integers(1, 2)))
populations = st.lists(st.tuples(demographics, st.lists(claim, max_size=5)), min_size=1, max_size=8)
knowledge_of_one = st.dictionaries(
    st.one_of(
        st.tuples(st.just("place"), st.sampled_from("abz")),
        st.tuples(st.just("stay"), st.sampled_from("12")),
        st.tuples(st.just("elsewhere"), st.just("a")),
    ),
    st.integers(1, 3),
    max_size=4,
)
draws_made = st.lists(st.tuples(demographics, knowledge_of_one), max_size=6)


def holdings(claims: list[tuple]) -> Counter:
    pairs = ((name, value) for row in claims for name, value in zip(QUASI_IDENTIFIERS, row, strict=True))
    return Counter((name, str(value)) for name, value in pairs if value is not None)


def by_person(population: list, draws: list) -> list[tuple]:
    def agrees(person: tuple, draw: tuple) -> bool:
        held = holdings(person[1])
        return person[0] == draw[0] and all(held[item] >= times for item, times in draw[1].items())

    return [(i, sum(agrees(person, draw) for person in population)) for i, draw in enumerate(draws)]


def tables_of(store, population: list, draws: list) -> dict:
    return {
        "draws": store.table(
            "draws", "draw_id INTEGER, age VARCHAR, sex VARCHAR", [(i, *draw[0]) for i, draw in enumerate(draws)]
        ),
        "knowledge": store.table(
            "knowledge",
            "draw_id INTEGER, quasi_identifier VARCHAR, value VARCHAR, times INTEGER",
            [(i, *item, times) for i, draw in enumerate(draws) for item, times in draw[1].items()],
        ),
        "members": store.table(
            "members",
            "member_id VARCHAR, age VARCHAR, sex VARCHAR",
            [(f"m{i}", *person[0]) for i, person in enumerate(population)],
        ),
        "demographics": DEMOGRAPHICS,
        "population": len(population),
    }


def claims_of(store, population: list):
    rows = [(f"m{i}", *row) for i, person in enumerate(population) for row in person[1]]
    return store.table("claims", "member_id VARCHAR, place VARCHAR, stay INTEGER", rows)


def counts_of(store, population: list):
    """What the population holds, counted person by person."""
    rows = [(f"m{i}", *item, n) for i, person in enumerate(population) for item, n in holdings(person[1]).items()]
    return store.table("counted", "member_id VARCHAR, quasi_identifier VARCHAR, value VARCHAR, n INTEGER", rows)


def held_of(store, population: list):
    """What the population holds, counted by the query."""
    claims = claims_of(store, population)
    return write_view(Table(claims.file, claims.schema, "held"), held_values(claims, QUASI_IDENTIFIERS))


@settings(deadline=None, max_examples=examples.of(25))
@given(populations, draws_made)
def test_class_sizes_are_those_counted_person_by_person(population, draws):
    # The population's own members are drawn too, so that matches are frequent.
    draws = draws + [(person[0], {item: max(1, n - 1) for item, n in holdings(person[1]).items()}) for person in population]
    expected = by_person(population, draws)
    with small_store() as store:
        tables = tables_of(store, population, draws)
        from_claims = store.rows(draw_class_sizes(**tables, held=held_of(store, population)))
        from_counts = store.rows(draw_class_sizes(**tables, held=counts_of(store, population)))
    assert from_claims == from_counts == expected


def sizes(population: list, draws: list) -> list[int]:
    with small_store() as store:
        query = draw_class_sizes(**tables_of(store, population, draws), held=held_of(store, population))
        return [size for _, size in store.rows(query)]


F40 = ("40", "F")


def test_containment_counts_times():
    # methods#node-risk: of three women of 40 with AAB, AB, AAC two hold {A, A}; as a set, all three would.
    population = [
        (F40, [("A", 1), ("A", 1), ("B", 2)]),
        (F40, [("A", 1), ("B", 2)]),
        (F40, [("A", 1), ("A", 1), ("C", 1)]),
        (("40", "M"), [("A", 1), ("A", 1)]),
    ]
    assert sizes(population, [(F40, {("place", "A"): 2}), (F40, {("place", "A"): 1})]) == [2, 3]


def test_every_known_value_must_be_held_often_enough():
    # Whichever value a query starts from, one of the last two fails on the other.
    population = [
        (F40, [("A", 1), ("A", 1)]),
        (F40, [("A", 1), ("A", 2)]),
        (F40, [("A", 1), ("B", 1)]),
    ]
    assert sizes(population, [(F40, {("place", "A"): 2, ("stay", "1"): 2})]) == [1]


def test_a_draw_without_knowledge_matches_its_cell_and_one_without_a_cell_nobody():
    population = [(F40, []), (F40, [("A", 1)]), ((None, None), [])]
    draws = [(F40, {}), ((None, None), {}), (("90", "F"), {}), (("90", "F"), {("place", "A"): 1})]
    assert sizes(population, draws) == [2, 1, 0, 0]


def test_values_known_in_two_rows_are_known_twice(store):
    population = [(F40, [("A", None)]), (F40, [("A", None), ("A", None)])]
    tables = tables_of(store, population, [(F40, {})])
    tables["knowledge"] = store.table(
        "knowledge",
        "draw_id INTEGER, quasi_identifier VARCHAR, value VARCHAR, times INTEGER",
        [(0, "place", "A", 1), (0, "place", "A", 1)],
    )
    query = draw_class_sizes(**tables, held=held_of(store, population))
    assert store.rows(query) == [(0, 1)]


def test_a_missing_value_as_knowledge_matches_nobody(store):
    population = [(F40, [(None, None)])]
    tables = tables_of(store, population, [(F40, {})])
    tables["knowledge"] = store.table(
        "knowledge",
        "draw_id INTEGER, quasi_identifier VARCHAR, value VARCHAR, times INTEGER",
        [(0, "place", None, 1)],
    )
    query = draw_class_sizes(**tables, held=held_of(store, population))
    assert store.rows(query) == [(0, 0)]


def test_the_query_shares_no_code_with_the_kernel():
    import deid_assets.methods.attacks.sql_class_sizes as module

    names = {getattr(value, "__module__", None) or getattr(value, "__name__", "") for value in vars(module).values()}
    assert not any("numpy" in str(name) or "deid_assets.methods." in str(name) for name in names - {module.__name__})


def test_names_are_validated(store):
    tables = tables_of(store, [(F40, [])], [])
    claims = claims_of(store, [])
    with pytest.raises(StoreError):
        held_values(claims, ["place' OR '1"])
    with pytest.raises(ValueError, match="quasi-identifier"):
        held_values(claims, [])
    with pytest.raises(ValueError, match="demographic"):
        draw_class_sizes(**{**tables, "demographics": ()}, held=claims)
