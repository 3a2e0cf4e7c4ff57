"""Risk on random schemas: declared columns, hierarchies and missing values, from the delivered cells to the classes of draws.

The product reads a CSV delivery under a policy, groups, numbers and measures. Brute force reads the same cells in Python: who
has the same labels, and every known label at least as often.
"""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.assessments.kernel_input import PopulationTables, node_computation
from deid_assets.methods.adversary.adversary_power import power_by_quasi_identifier, value_diversity_query, values_of_members
from deid_assets.methods.kernel.knowledge import draw_knowledge
from deid_assets.methods.lattice.predictive_tagging import all_nodes
from deid_assets.methods.preparation.eligibility import distinct_codes
from deid_assets.methods.preparation.grouping import grouped_claims_query, member_profiles_query
from deid_assets.policy.domains import value_domains_of
from deid_assets.policy.models import Policy
from deid_assets.reference.groups import code_book_of
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.intake import Reading, read_delivery
from deid_assets.store.tables import Table, write_table
from deid_assets_tests import examples
from deid_assets_tests.methods.cases import KEY, short_blocks
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy

VALUES = ("a", "b", "c", "d")
DRAWS = 300
LETTERS = st.sampled_from((*VALUES, ""))


class Schema(NamedTuple):
    """Declared columns with the labels of each value above it, and the cells of each person."""

    of_members: list[dict[str, list[str]]]
    of_claims: list[dict[str, list[str]]]
    people: list[tuple[list[str], list[list[str]]]]


@st.composite
def schemas(draw) -> Schema:
    def hierarchy() -> dict[str, list[str]]:
        coarse = {value: draw(st.sampled_from("xy")) for value in VALUES}
        return {
            value: [label, "any"][: draw(levels)]
            for levels in [st.just(draw(st.integers(0, 2)))]
            for value, label in coarse.items()
        }

    of_members, of_claims = ([hierarchy() for _ in range(draw(st.integers(1, 3)))] for _ in range(2))
    rows = st.lists(LETTERS, min_size=len(of_claims), max_size=len(of_claims))
    people = st.tuples(
        st.lists(LETTERS, min_size=len(of_members), max_size=len(of_members)), st.lists(rows, min_size=1, max_size=5)
    )
    return Schema(of_members, of_claims, draw(st.lists(people, min_size=2, max_size=9)))


def policy_of(schema: Schema, folder: Path) -> Policy:
    """A policy whose only quasi-identifiers are the declared columns, each of which moves alone."""
    declared: dict[str, dict[str, Any]] = {"members": {}, "claims": {}}
    listed: dict[str, list[dict[str, str]]] = {"members": [], "claims": []}
    hierarchies, dimensions = {}, []
    for table, labels in (("members", schema.of_members), ("claims", schema.of_claims)):
        for number, values in enumerate(labels):
            name, height = f"{table[0]}_{number}", len(next(iter(values.values())))
            declared[table][name] = {"kind": "text", "from": f"{name}_given", "meaning": "letters"}
            listed[table].append({"column": name, "release_as": name.upper(), "hierarchy": name})
            hierarchies[name] = (
                {"kind": "codes", "level_names": ["value", *map(str, range(height))], "values": values}
                if height
                else {"kind": "fixed"}
            )
            if height:
                dimensions.append({"name": name, "columns": [name]})
    if not dimensions:  # a policy has one
        listed["members"].append({"column": "sex", "release_as": "Sex", "hierarchy": "sex"})
        hierarchies["sex"] = {"kind": "codes", "level_names": ["sex", "any"], "values": {"F": ["any"], "M": ["any"]}}
        dimensions.append({"name": "sex", "columns": ["sex"]})
    mapped = {"members": ("member_id", "sex", "age"), "claims": ("member_id", "year")}
    tables = {table: {"file": f"{table}.csv", "columns": {name: name for name in names}} for table, names in mapped.items()}
    source = {"kind": "tables", **tables}
    return write_policy(
        folder,
        changed(
            SMALL, source=source, columns=declared, quasi_identifiers=listed, hierarchies=hierarchies, dimensions=dimensions,
            adversary={"power": 2}, risk__threshold=0.33,
        ),
    )  # fmt: skip


def tables_of(schema: Schema, policy: Policy, folder: Path) -> PopulationTables:
    """The tables that the product makes of the delivery; everybody is released, and nothing is cut."""
    members = [",".join(["member_id", "sex", "age", *(f"m_{n}_given" for n in range(len(schema.of_members)))])]
    claims = [",".join(["member_id", "year", *(f"c_{n}_given" for n in range(len(schema.of_claims)))])]
    for number, (own, rows) in enumerate(schema.people):
        members.append(",".join([f"p{number}", "F", "50", *own]))
        claims += [",".join([f"p{number}", "1", *row]) for row in rows]
    (folder / "members.csv").write_text("\n".join(members) + "\n")
    (folder / "claims.csv").write_text("\n".join(claims) + "\n")
    file = folder / "store.duckdb"
    read_delivery(file, Delivery("d", "tables", (folder,)), Reading(policy.source, 0.0, declared=policy.columns.declared), None)
    taken, delivered = Table(file, "intake", "members"), Table(file, "intake", "claims")

    def made(name: str, content) -> Table:
        table = Table(file, "made", name)
        write_table(table, content)
        return table

    book = made("book", code_book_of(delivered.query(distinct_codes(delivered)), None, False))
    none = "SELECT NULL::VARCHAR AS claim_id, NULL::VARCHAR AS charlson WHERE false"
    grouped = made("grouped", grouped_claims_query(delivered, book, none, None, sorted(policy.columns.claims)))
    everybody, nobody = (
        f"SELECT member_id FROM {taken.sql}",
        "SELECT NULL::VARCHAR AS member_id, 1 AS claims_truncated WHERE false",
    )
    profiles = made("profiles", member_profiles_query(taken, everybody, grouped, nobody, None, sorted(policy.columns.members)))
    sample = made("sample", everybody)
    diversity = made("diversity", value_diversity_query(grouped, sample, tuple(policy.claim_names)))
    rows = diversity.query(values_of_members(diversity, profiles))
    power = made("power", power_by_quasi_identifier(rows, policy.adversary.power, policy.adversary.rounding))
    domains = made("domains", value_domains_of(policy, taken, profiles, grouped))
    return PopulationTables(profiles, grouped, grouped, domains, power)


def label(values: dict[str, list[str]], value: str, level: int) -> str:
    return value if level == 0 or not value else values[value][level - 1]


def flagged(schema: Schema, target: int, known: list[list[str]], levels: dict[str, int], needed: int) -> bool:
    """Whether fewer than `needed` people have the target's labels and, of each column of claims, the known ones as often."""

    def labels_of(person: int) -> list[str]:
        return [label(schema.of_members[n], value, levels.get(f"m_{n}", 0)) for n, value in enumerate(schema.people[person][0])]

    def has(person: int) -> bool:
        if labels_of(person) != labels_of(target):
            return False
        for n, values in enumerate(schema.of_claims):
            level = levels.get(f"c_{n}", 0)
            asked = Counter(label(values, value, level) for value in known[n])
            held = Counter(label(values, row[n], level) for row in schema.people[person][1] if row[n])
            if any(held[one] < times for one, times in asked.items()):
                return False
        return True

    return sum(map(has, range(len(schema.people)))) < needed


@given(schemas())
@settings(max_examples=examples.of(12), deadline=None)
def test_the_flags_of_every_node_are_those_of_brute_force(tmp_path_factory, schema):
    folder = tmp_path_factory.mktemp("schema")
    policy = policy_of(schema, folder)
    tables = tables_of(schema, policy, folder)
    with short_blocks():
        computation = node_computation(policy, tables)
        drawn = draw_knowledge(computation.data, KEY, 0)
        texts = {}
        for name in policy.claim_names:
            rows = tables.domains.query(
                f"SELECT base_code, value FROM {tables.domains.sql} WHERE quasi_identifier = ? AND level = 0", [name]
            )
            texts[name] = dict(zip(rows["base_code"], rows["value"], strict=True))
        # Members are numbered by the order of their identifiers, p0 to p8.
        targets = computation.data.targets[drawn.targets].tolist()
        facts = [
            [
                [texts[name][code] for code in codes[:, draw].tolist() if code >= 0]
                for name, codes in zip(policy.claim_names, drawn.codes, strict=True)
            ]
            for draw in range(min(DRAWS, len(drawn)))
        ]
        for node in all_nodes([levels - 1 for levels in policy.dimension_levels]):
            levels = {dimension.name: level for dimension, level in zip(policy.dimensions, node, strict=True)}
            expected = [
                flagged(schema, target, known, levels, policy.safe_class_size)
                for target, known in zip(targets, facts, strict=False)
            ]
            measured = computation.measure(node, KEY, len(facts), keep_flags=True).flags
            assert np.array_equal(measured, expected), (node, schema)
