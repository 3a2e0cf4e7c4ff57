"""Risk on random schemas: declared columns, hierarchies and missing values, from the delivered cells to the classes of draws.

The product reads a CSV delivery under a policy, groups, numbers and measures. Brute force reads the same cells in Python: who
has the same labels, and every known label at least as often.
"""

import random
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.assessments.kernel_input import PopulationTables, node_computation
from deid_assets.methods.adversary.adversary_power import power_by_quasi_identifier, value_diversity_query, values_of_members
from deid_assets.methods.kernel.knowledge import draw_knowledge
from deid_assets.methods.kernel.node_computation import NodeComputation
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
    of_events: dict[str, list[dict[str, list[str]]]]
    people: list[tuple[list[str], dict[str, list[list[str]]]]]

    @property
    def of_claims(self) -> dict[str, tuple[str, int]]:
        """Table and place of every column of events, by its name."""
        return {f"{table}_{n}": (table, n) for table, columns in self.of_events.items() for n in range(len(columns))}


@st.composite
def schemas(draw) -> Schema:
    def hierarchy() -> dict[str, list[str]]:
        coarse = {value: draw(st.sampled_from("xy")) for value in VALUES}
        return {
            value: [label, "any"][: draw(levels)]
            for levels in [st.just(draw(st.integers(0, 2)))]
            for value, label in coarse.items()
        }

    of_members = [hierarchy() for _ in range(draw(st.integers(1, 3)))]
    tables = ("claims", "fills", "results")[: draw(st.integers(1, 3))]
    of_events = {table: [hierarchy() for _ in range(draw(st.integers(1, 3 if table == "claims" else 2)))] for table in tables}

    def rows(table: str):
        columns = len(of_events[table])
        row = st.lists(LETTERS, min_size=columns, max_size=columns)
        return st.lists(row, min_size=int(table == "claims"), max_size=5)

    people = st.tuples(
        st.lists(LETTERS, min_size=len(of_members), max_size=len(of_members)),
        st.fixed_dictionaries({table: rows(table) for table in tables}),
    )
    # A table without rows would be no table of a delivery.
    drawn = draw(st.lists(people, min_size=2, max_size=9).filter(lambda all: _has_rows(all, tables)))
    return Schema(of_members, of_events, drawn)


def _has_rows(people, tables) -> bool:
    return all(any(rows[table] for _, rows in people) for table in tables)


def policy_of(schema: Schema, folder: Path, power: int = 2) -> Policy:
    """A policy whose only quasi-identifiers are the declared columns, each of which moves alone."""
    declared: dict[str, dict[str, Any]] = {"members": {}} | {table: {} for table in schema.of_events}
    listed: dict[str, list[dict[str, str]]] = {"members": [], "claims": []}
    hierarchies, dimensions = {}, []
    for table, labels in (("members", schema.of_members), *schema.of_events.items()):
        for number, values in enumerate(labels):
            name, height = f"{table}_{number}", len(next(iter(values.values())))
            # Columns of several tables may have one name in the delivery.
            declared[table][name] = {"kind": "text", "from": f"given_{number}", "meaning": "letters"}
            listed["members" if table == "members" else "claims"].append(
                {"column": name, "release_as": name.upper(), "hierarchy": name}
            )
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
    mapped = {"members": ("member_id", "sex", "age")} | dict.fromkeys(schema.of_events, ("member_id", "year"))
    tables = {table: {"file": f"{table}.csv", "columns": {name: name for name in names}} for table, names in mapped.items()}
    letters = {"without_codes": "Letters stand for nothing."}
    others = {table: tables.pop(table) | letters for table in schema.of_events if table != "claims"}
    source = {"kind": "tables", **tables} | ({"events": others} if others else {})
    return write_policy(
        folder,
        changed(
            SMALL, source=source, columns=declared, quasi_identifiers=listed, hierarchies=hierarchies, dimensions=dimensions,
            adversary={"power": power}, risk__threshold=0.33,
        ),
    )  # fmt: skip


def tables_of(schema: Schema, policy: Policy, folder: Path) -> PopulationTables:
    """The tables that the product makes of the delivery; everybody is released, and nothing is cut."""
    lines = {"members": [",".join(["member_id", "sex", "age", *(f"given_{n}" for n in range(len(schema.of_members)))])]}
    for table, columns in schema.of_events.items():
        lines[table] = [",".join(["member_id", "year", *(f"given_{n}" for n in range(len(columns)))])]
    for number, (own, events) in enumerate(schema.people):
        lines["members"].append(",".join([f"p{number}", "F", "50", *own]))
        for table, rows in events.items():
            lines[table] += [",".join([f"p{number}", "1", *row]) for row in rows]
    for table, written in lines.items():
        (folder / f"{table}.csv").write_text("\n".join(written) + "\n")
    file = folder / "store.duckdb"
    read_delivery(file, Delivery("d", "tables", (folder,)), Reading(policy.source, 0.0, declared=policy.columns.declared), None)
    taken, delivered = Table(file, "intake", "members"), Table(file, "intake", "claims")

    def made(name: str, content) -> Table:
        table = Table(file, "made", name)
        write_table(table, content)
        return table

    book = made("book", code_book_of(delivered.query(distinct_codes(delivered)), None, False))
    none = "SELECT NULL::VARCHAR AS claim_id, NULL::VARCHAR AS charlson WHERE false"
    grouped = made("grouped", grouped_claims_query(delivered, book, none, None, policy.event_columns))
    everybody, nobody = (
        f"SELECT member_id FROM {taken.sql}",
        "SELECT NULL::VARCHAR AS member_id, 1 AS claims_truncated WHERE false",
    )
    own = sorted(policy.columns.members)
    profiles = made("profiles", member_profiles_query(taken, everybody, grouped, nobody, None, own, policy.event_tables[1:]))
    sample = made("sample", everybody)
    diversity = made("diversity", value_diversity_query(grouped, sample, tuple(policy.claim_names)))
    others = {name: policy.numbers_of_events(name) for name in policy.claim_names}
    rows = diversity.query(values_of_members(diversity, profiles, others))
    power = made("power", power_by_quasi_identifier(rows, policy.adversary.power, policy.adversary.rounding))
    domains = made("domains", value_domains_of(policy, taken, profiles, grouped))
    return PopulationTables(profiles, grouped, grouped, domains, power)


def taken_in(schema: Schema, folder: Path) -> tuple[Policy, PopulationTables]:
    """The policy of a schema, and the tables made of its delivery."""
    policy = policy_of(schema, folder)
    return policy, tables_of(schema, policy, folder)


def label(values: dict[str, list[str]], value: str, level: int) -> str:
    return value if level == 0 or not value else values[value][level - 1]


def flagged(schema: Schema, target: int, known: dict[str, list[str]], levels: dict[str, int], needed: int) -> bool:
    """Whether fewer than `needed` people have the target's labels and, of each column of claims, the known ones as often."""

    def labels_of(person: int) -> list[str]:
        own = enumerate(schema.people[person][0])
        return [label(schema.of_members[n], value, levels.get(f"members_{n}", 0)) for n, value in own]

    def has(person: int) -> bool:
        if labels_of(person) != labels_of(target):
            return False
        for name, (table, n) in schema.of_claims.items():
            level, values = levels.get(name, 0), schema.of_events[table][n]
            asked = Counter(label(values, value, level) for value in known[name])
            held = Counter(label(values, row[n], level) for row in schema.people[person][1][table] if row[n])
            if any(held[one] < times for one, times in asked.items()):
                return False
        return True

    return sum(map(has, range(len(schema.people)))) < needed


@st.composite
def knowing_less(draw, tables: list[str]) -> dict[str, Any]:
    """What of the sampled values is known: everything, at most a total, or that of one set of tables or another."""
    if draw(st.booleans()):
        return {"total": draw(st.none() | st.integers(1, 6))}
    sets = st.lists(st.sampled_from(tables), min_size=1, unique=True).map(tuple)
    return {"scenarios": tuple(draw(st.lists(sets, min_size=1, max_size=3)))}


@given(schemas(), st.data())
@settings(max_examples=examples.of(24), deadline=None)
def test_the_flags_of_every_node_are_those_of_brute_force(tmp_path_factory, schema, data):
    policy, tables = taken_in(schema, tmp_path_factory.mktemp("schema"))
    less = data.draw(knowing_less(list(schema.of_events)))
    policy = policy.model_copy(update={"adversary": policy.adversary.model_copy(update=less)})
    with short_blocks():
        computation = node_computation(policy, tables)
        targets, facts = drawn_facts(policy, tables, computation)
        for node in all_nodes([levels - 1 for levels in policy.dimension_levels]):
            levels = {dimension.name: level for dimension, level in zip(policy.dimensions, node, strict=True)}
            expected = [
                any(
                    flagged(schema, target, known_in(schema, known, scenario), levels, policy.safe_class_size)
                    for scenario in less.get("scenarios") or [tuple(schema.of_events)]
                )
                for target, known in zip(targets, facts, strict=False)
            ]
            measured = computation.measure(node, KEY, len(facts), keep_flags=True).flags
            assert np.array_equal(measured, expected), (node, schema)


def drawn_facts(
    policy: Policy, tables: PopulationTables, computation: NodeComputation
) -> tuple[list[int], list[dict[str, list[str]]]]:
    """The first draws of a stream: whom each is about, and the values that are known, by column."""
    drawn = draw_knowledge(computation.data, KEY, 0)
    texts = {}
    for name in policy.claim_names:
        rows = tables.domains.query(
            f"SELECT base_code, value FROM {tables.domains.sql} WHERE quasi_identifier = ? AND level = 0", [name]
        )
        texts[name] = dict(zip(rows["base_code"], rows["value"], strict=True))
    # Members are numbered by the order of their identifiers.
    people = sorted(range(computation.data.members), key="p{}".format)
    targets = [people[target] for target in computation.data.targets[drawn.targets].tolist()]
    facts = [
        {
            name: [texts[name][code] for code in codes[:, draw].tolist() if code >= 0]
            for name, codes in zip(policy.claim_names, drawn.codes, strict=True)
        }
        for draw in range(min(DRAWS, len(drawn)))
    ]
    return targets, facts


def test_eight_columns_of_members_and_twelve_of_two_tables_at_random_nodes(tmp_path):
    """Too many nodes to list: the flags at ten of them are those of brute force over 300 people."""
    chance = random.Random(7)

    def hierarchy() -> dict[str, list[str]]:
        return {value: [chance.choice("xy"), "any"] for value in VALUES}

    def cell() -> str:
        return chance.choice((*"aaaaab", *VALUES, ""))

    of_members = [hierarchy() for _ in range(8)]
    of_events = {"claims": [hierarchy() for _ in range(7)], "fills": [hierarchy() for _ in range(5)]}
    people = []
    for _ in range(300):
        numbers = {"claims": chance.randint(1, 6), "fills": chance.randint(0, 4)}
        events = {table: [[cell() for _ in of_events[table]] for _ in range(number)] for table, number in numbers.items()}
        people.append(([cell() for _ in of_members], events))
    policy, tables = taken_in(schema := Schema(of_members, of_events, people), tmp_path)
    with short_blocks():
        computation = node_computation(policy, tables)
        targets, facts = drawn_facts(policy, tables, computation)
        shares = []
        for coarse in range(10):  # of the finest nodes nearly everybody is flagged, and of the coarsest hardly anybody
            weights = (10 - coarse, 3, 1 + 2 * coarse)
            node = tuple(chance.choices(range(levels), weights)[0] for levels in policy.dimension_levels)
            levels = {dimension.name: level for dimension, level in zip(policy.dimensions, node, strict=True)}
            expected = [
                flagged(schema, target, known, levels, policy.safe_class_size)
                for target, known in zip(targets, facts, strict=False)
            ]
            measured = computation.measure(node, KEY, len(facts), keep_flags=True)
            assert np.array_equal(measured.flags, expected), node
            shares.append(measured.share)
    assert policy.node_count == 3**20 and not policy.lists_lattice
    assert min(shares) < 0.5 < max(shares)


def known_in(schema: Schema, known: dict[str, list[str]], tables: tuple[str, ...]) -> dict[str, list[str]]:
    """What is known of some tables only."""
    return {name: values if schema.of_claims[name][0] in tables else [] for name, values in known.items()}


def power_of_one(events: list[int], values: list[list[str]], most: int) -> list[float]:
    """The adversary's power over each person before it is rounded, from their events and values of one column."""
    mean = sum(events) / len(events)
    spread = (sum((one - mean) ** 2 for one in events) / (len(events) - 1)) ** 0.5
    ratios: list[float] = []
    for number, own in zip(events, values, strict=True):
        pairs = len(own) * (len(own) - 1)
        differing = pairs - sum(times * (times - 1) for times in Counter(own).values())
        ratios.append(min(number, mean + 2 * spread) * pairs / differing if differing else 0.0)
    return [(most - 1) * ratio / max(ratios) + 1 if ratio else most for ratio in ratios]


@given(schemas())
@settings(max_examples=examples.of(12), deadline=None)
def test_power_is_that_of_the_events_of_the_columns_own_table(tmp_path_factory, schema):
    policy, tables = taken_in(schema, tmp_path_factory.mktemp("schema"))
    for name, (table, n) in schema.of_claims.items():
        found = tables.power.query(
            f"SELECT power FROM {tables.power.sql} WHERE quasi_identifier = ? ORDER BY member_id", [name]
        )["power"]
        rows = [events[table] for _, events in schema.people]
        values = [[row[n] for row in own if row[n]] for own in rows]
        exact = power_of_one([len(own) for own in rows], values, policy.adversary.power)
        assert np.abs(found.to_numpy() - exact).max() <= 0.5 + 1e-9, (name, schema)


@pytest.mark.parametrize(
    ("tables", "less", "share"),
    [
        (("claims",), {}, 0.125),
        (("claims", "fills"), {}, 0.1875),
        (("claims", "fills"), {"total": 1}, 0.0625),
        (("claims", "fills"), {"scenarios": (("claims",), ("fills",))}, 0.125),
        (("claims", "fills"), {"scenarios": (("fills",),)}, 0),
    ],
)
def test_the_worked_example_of_a_second_table(tmp_path, tables, less, share):
    """Conditions and drugs of four people alike, of each of whom one value per column is known."""
    of_people = [("AAB", "x"), ("AB", "xy"), ("AC", "y"), ("B", "")]
    people = [(["a"], dict(zip(tables, ([[value] for value in events] for events in own), strict=False))) for own in of_people]
    values = {"claims": {"A": [], "B": [], "C": []}, "fills": {"x": [], "y": []}}
    schema = Schema([{"a": []}], {table: [values[table]] for table in tables}, people)
    policy = policy_of(schema, tmp_path, power=1)
    # A class of two would be safe, which no policy may say.
    adversary, risk = policy.adversary.model_copy(update=less), policy.risk.model_copy(update={"threshold": 0.5})
    policy = policy.model_copy(update={"risk": risk, "adversary": adversary})
    node = (0,) * len(policy.dimensions)
    draws = 200_000
    found = node_computation(policy, tables_of(schema, policy, tmp_path)).measure(node, KEY, draws).share
    assert abs(found - share) <= 5 * (share / draws) ** 0.5
