"""What each released value costs, on random schemas: by brute force over the same draws."""

import random
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.assessments import column_costs
from deid_assets.assessments.kernel_input import POPULATION, node_computation, smallest_safe_class
from deid_assets.methods.lattice.predictive_tagging import Node, all_nodes
from deid_assets.store.tables import Table, write_table
from deid_assets_tests import examples
from deid_assets_tests.assessments.test_random_schemas import VALUES, Schema, drawn_facts, flagged, label, schemas, taken_in
from deid_assets_tests.methods.cases import KEY, short_blocks

DRAWS = 64
TABLES = ("claims", "fills")


def people_by_value(schema: Schema, levels: dict[str, int]) -> dict[str, dict[str, set[int]]]:
    """Who has each value at its released level, by released name of the column."""
    found: dict[str, dict[str, set[int]]] = {}
    for person, (own, events) in enumerate(schema.people):
        cells = [(f"members_{n}", schema.of_members[n], value or "blank") for n, value in enumerate(own)]
        for name, (table, n) in schema.of_claims.items():
            cells += [(name, schema.of_events[table][n], row[n]) for row in events[table] if row[n]]
        for name, hierarchy, value in cells:
            shown = value if value == "blank" else label(hierarchy, value, levels.get(name, 0))
            found.setdefault(name.upper(), {}).setdefault(shown, set()).add(person)
    return found


@given(schemas(), st.data())
@settings(max_examples=examples.of(8), deadline=None)
def test_the_share_and_the_part_of_each_value_are_those_of_brute_force(tmp_path_factory, schema, data):
    folder = tmp_path_factory.mktemp("schema")
    costs_are_those_of_brute_force(
        schema, folder, data.draw(st.integers(1, 5)), lambda nodes: data.draw(st.sampled_from(nodes))
    )


def test_of_people_some_of_whom_are_at_risk(tmp_path):
    chance = random.Random(5)
    hierarchy = {value: ["x" if value in "ab" else "y", "any"] for value in VALUES}
    people = [
        (
            [chance.choice("aaab")],
            {table: [[chance.choice("aaaabbcd")] for _ in range(chance.randint(1, 3))] for table in TABLES},
        )
        for _ in range(60)
    ]
    values = costs_are_those_of_brute_force(
        Schema([hierarchy], {table: [hierarchy] for table in TABLES}, people), tmp_path, 5, min
    )
    assert values["share"].between(0.01, 0.99).sum() > 3 and values["part"].between(0.01, 0.99).sum() > 3


def costs_are_those_of_brute_force(
    schema: Schema, folder: Path, few: int, choose: Callable[[list[Node]], Node]
) -> pd.DataFrame:
    """Compare what each value costs at a node, if values of fewer people are not named; return the product's."""
    policy, tables = taken_in(schema, folder)
    demographics = policy.demographics.model_copy(update={"class_size_at_least": few})
    policy = policy.model_copy(update={"demographics": demographics})
    node = choose(sorted(all_nodes([levels - 1 for levels in policy.dimension_levels])))
    levels = {dimension.name: level for dimension, level in zip(policy.dimensions, node, strict=True)}
    chosen = Table(folder / "store.duckdb", "made", "chosen")
    named = [
        (one.name, level, policy.hierarchy_of(one.columns[0]).level_names[level])
        for one, level in zip(policy.dimensions, node, strict=True)
    ]
    write_table(chosen, pd.DataFrame(named, columns=["dimension", "level", "level_name"]))
    given_tables = dict(
        zip(POPULATION, (tables.profiles, tables.known, tables.held, tables.domains, tables.power), strict=True),
        chosen_generalization=chosen,
    )
    with short_blocks(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_costs, "DRAWS", DRAWS)
        patch.setattr(column_costs, "DRAWS_OF_VALUES", DRAWS)
        values = column_costs.costs_of_claims(policy, given_tables, KEY).values
        computation = node_computation(policy, tables)

        def at_risk(of) -> list[tuple[int, bool]]:
            targets, facts = drawn_facts(policy, tables, of)
            pairs = zip(targets, facts, strict=False)
            return [(who, flagged(schema, who, known, levels, policy.safe_class_size)) for who, known in pairs]

        everybody = at_risk(computation)
        found = {(row.column, row.value): row for row in values.itertuples()}
        having = people_by_value(schema, levels)
        expected = {
            (column, value): who
            for column, by_value in having.items()
            for value, who in by_value.items()
            if len(who) >= smallest_safe_class(policy)
        }
        assert {key for key in found if key[0] != "Sex"} == expected.keys(), "and values of fewer people are not named"
        for key, who in expected.items():
            drawn = [flag for person, flag in everybody if person in who]
            assert found[key].share == pytest.approx(sum(drawn) / len(drawn)), key
            part = sum(drawn) / max(1, sum(flag for _, flag in everybody))
            hidden = {value for value, who in having[key[0]].items() if who} - {
                value for column, value in expected if column == key[0]
            }
            # What part all values but one are would tell that of the last.
            told = float("nan") if hidden and key[0].startswith("MEMBERS") else part
            assert found[key].part == pytest.approx(told, nan_ok=True), key
        for column, rows in values.groupby("column"):
            if column.startswith("MEMBERS"):
                assert rows["share"].is_monotonic_decreasing
            elif column != "Sex":
                assert [len(having[column][value]) for value in rows["value"]] == sorted(
                    len(having[column][value]) for value in rows["value"]
                ), "of events the rarest first"
    return values
