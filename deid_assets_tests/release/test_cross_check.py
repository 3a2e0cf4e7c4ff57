"""The second opinion agrees with the kernel draw for draw, and notices everything that differs."""

from dataclasses import dataclass

import numpy as np
import pytest

from deid_assets.methods.attacks.sql_class_sizes import held_values
from deid_assets.methods.kernel.knowledge import draw_knowledge
from deid_assets.methods.kernel.node_computation import DrawnClasses, NodeComputation
from deid_assets.methods.population.longitudinal_data import Dimension, LongitudinalData
from deid_assets.release.gate import cross_check
from deid_assets.release.gate.cross_check import Counted, CountedByQuery, Drawn, compare_fixed, compare_literal, count_by_query
from deid_assets.store.tables import Table, write_view
from deid_assets_tests.methods.cases import KEY, data_of, flat, rich_case
from deid_assets_tests.methods.oracle import Person
from deid_assets_tests.methods.small_tables import SmallStore

DRAWS = 400


@dataclass
class Opinions:
    """What the kernel found for some draws, and the same population as tables."""

    store: SmallStore
    data: LongitudinalData
    k: int
    literal: DrawnClasses
    literal_flags: np.ndarray
    once: DrawnClasses
    once_flags: np.ndarray
    labels: dict
    members: list[dict]
    claims: list[dict]

    @classmethod
    def of(cls, store: SmallStore, people, demographic_domains, history_domains, dimensions, node, k=3, missing=None):
        """`missing` is the base code of the first demographic that stands for a missing value."""
        data = data_of(people, demographic_domains, history_domains)
        computation = NodeComputation(data, dimensions, k)
        levels = computation.generalization(node)
        labels = {}
        kinds = (("d", demographic_domains, levels.demographics), ("h", history_domains, levels.histories))
        for kind, domains, chosen in kinds:
            for number, (domain, level) in enumerate(zip(domains, chosen, strict=True)):
                labels[f"{kind}{number}"] = [f"{kind}{number} class {code}" for code in domain.levels[level]]
        if missing is not None:
            labels["d0"][missing] = None
        rows, claims = [], []
        for number, person in enumerate(people):
            name = f"m{number}"
            own = {f"d{i}": labels[f"d{i}"][code] for i, code in enumerate(person.demographics)}
            rows.append({"member_id": name, "own_id": name, **own})
            for h, values in enumerate(person.held):
                claims += [{"member_id": name, f"h{h}": labels[f"h{h}"][value]} for value in values]
        found = []
        for exemption in ("literal", "once"):
            found.append(computation.drawn_classes(node, KEY, DRAWS, exemption=exemption))
            found.append(computation.measure(node, KEY, DRAWS, exemption=exemption, keep_flags=True).flags)
        return cls(store, data, k, *found, labels, rows, claims)

    def table(self, name: str, columns: list[str], rows: list[dict]) -> Table:
        kinds = ", ".join(f"{column} VARCHAR" for column in columns)
        return self.store.table(name, kinds, [tuple(row.get(column) for column in columns) for row in rows])

    def counted(self) -> CountedByQuery:
        """The draws of the stream, counted in the tables as they are now."""
        demographics = [name for name in self.labels if name.startswith("d")]
        histories = [name for name in self.labels if name.startswith("h")]
        claims = self.table("population_claims", ["member_id", *histories], self.claims)
        held = write_view(Table(claims.file, claims.schema, "held"), held_values(claims, histories))
        ids = np.array([f"m{number}" for number in range(self.data.members)], dtype=object)
        drawn = Drawn(self.data, draw_knowledge(self.data, KEY, 0).take(np.arange(DRAWS)), ids)
        population = Counted(self.table("population", ["member_id", "own_id", *demographics], self.members), held)
        return count_by_query(drawn, self.labels, demographics, histories, population)

    def disagreements(self, sizes=None, exempt=None, flags=None) -> int:
        """Of the kernel's literal reading, some of it changed, with the tables."""
        agreement = compare_literal(
            self.counted(),
            self.literal.exempt if exempt is None else exempt,
            self.literal.sizes if sizes is None else sizes,
            self.literal_flags if flags is None else flags,
            self.k,
        )
        assert agreement.draws == DRAWS
        return agreement.disagreements

    def disagreements_of_the_search(self, flags=None) -> int:
        """Of the reading in which exemptions are decided once."""
        counted, flags = self.counted(), self.once_flags if flags is None else flags
        return compare_fixed(counted, ~self.once.exempt, flags, self.k).disagreements


def crowded(store, seed: int) -> Opinions:
    """A crowded random case with at least one demographic."""
    people, demographic_domains, history_domains, dimensions, k = rich_case(seed)
    assert demographic_domains, "the second opinion counts within demographic cells"
    node = tuple(dimension.levels // 2 for dimension in dimensions)
    return Opinions.of(store, people, demographic_domains, history_domains, dimensions, node, k)


@pytest.mark.parametrize("seed", [0, 2, 5, 7, 12, 13])
def test_the_two_agree_on_random_populations(store, seed):
    opinions = crowded(store, seed)
    assert opinions.disagreements() == 0
    assert opinions.disagreements_of_the_search() == 0


@pytest.mark.parametrize(("draws", "people"), [(150, 200_000), (2_000, 5), (150, 1)])
def test_many_draws_and_many_people_are_counted_in_several_queries(store, monkeypatch, draws, people):
    opinions = crowded(store, 2)
    at_once = opinions.counted()
    assert at_once.sizes.max() > 0 and at_once.holds_own.any()
    monkeypatch.setattr(cross_check, "DRAWS_AT_ONCE", draws)
    monkeypatch.setattr(cross_check, "PEOPLE_AT_ONCE", people)
    in_parts = opinions.counted()
    assert np.array_equal(at_once.sizes, in_parts.sizes)
    assert np.array_equal(at_once.holds_own, in_parts.holds_own)


def simple(store, **changes) -> Opinions:
    """Eight members of two cells, one history of three values; one of them was truncated."""
    histories = [(0, 0, 1), (0, 0), (0, 1), (2,), (0, 0, 1), (1, 1), (0, 2), (0,)]
    people = [
        Person((number % 2,), (values,), (values if number else values[:2],), (2,)) for number, values in enumerate(histories)
    ]
    domains = (flat(2),), (flat(3),)
    return Opinions.of(store, people, *domains, [Dimension("history", (), (0,), 1)], (0,), **changes)


class TestDifferences:
    def test_none(self, store):
        opinions = simple(store)
        assert opinions.literal.exempt.any() and not opinions.literal.exempt.all()
        assert opinions.disagreements() == 0

    def test_a_size_that_is_off_by_one(self, store):
        opinions = simple(store)
        sizes = opinions.literal.sizes.copy()
        wrong = np.flatnonzero(~opinions.literal.exempt)[:3]
        sizes[wrong] += 1
        assert opinions.disagreements(sizes=sizes) == 3

    def test_an_exemption_that_is_flipped(self, store):
        opinions = simple(store)
        for draw in (np.flatnonzero(opinions.literal.exempt)[0], np.flatnonzero(~opinions.literal.exempt)[0]):
            exempt = opinions.literal.exempt.copy()
            exempt[draw] = ~exempt[draw]
            assert opinions.disagreements(exempt=exempt) == 1

    def test_a_flag_that_is_flipped(self, store):
        opinions = simple(store)
        flags = opinions.literal_flags.copy()
        flags[:2] = ~flags[:2]
        assert opinions.disagreements(flags=flags) == 2
        flags = opinions.once_flags.copy()
        flags[5] = ~flags[5]
        assert opinions.disagreements_of_the_search(flags) == 1

    def test_a_draw_that_no_query_answered(self, store):
        opinions = simple(store)
        for draw in (np.flatnonzero(opinions.literal.exempt)[0], np.flatnonzero(~opinions.literal.exempt)[0]):
            counted = opinions.counted()
            counted.sizes[draw], counted.holds_own[draw] = -1, False
            literal = opinions.literal
            found = compare_literal(counted, literal.exempt, literal.sizes, opinions.literal_flags, opinions.k)
            assert found.disagreements == 1
            once = compare_fixed(counted, ~opinions.once.exempt, opinions.once_flags, opinions.k)
            assert once.disagreements >= 1

    def test_a_member_that_moved_to_another_cell(self, store):
        opinions = simple(store)
        opinions.members[2]["d0"] = opinions.members[1]["d0"]
        assert opinions.disagreements() > 0

    def test_a_member_that_is_gone_from_the_population(self, store):
        opinions = simple(store)
        del opinions.members[4]
        assert opinions.disagreements() > 0

    def test_a_member_that_occurs_twice(self, store):
        opinions = simple(store)
        opinions.members.append({**opinions.members[4], "member_id": "twin", "own_id": "twin"})
        opinions.claims += [{**claim, "member_id": "twin"} for claim in opinions.claims if claim["member_id"] == "m4"]
        assert opinions.disagreements() > 0

    def test_one_claim_less(self, store):
        opinions = simple(store)
        opinions.claims.remove({"member_id": "m4", "h0": "h0 class 0"})
        assert opinions.disagreements() > 0

    def test_one_claim_more(self, store):
        opinions = simple(store)
        opinions.claims.append({"member_id": "m3", "h0": "h0 class 0"})
        opinions.claims.append({"member_id": "m3", "h0": "h0 class 0"})
        assert opinions.disagreements() > 0

    def test_a_value_that_was_generalized_otherwise(self, store):
        opinions = simple(store)
        changed = next(claim for claim in opinions.claims if claim["member_id"] == "m4")
        changed["h0"] = "something else"
        assert opinions.disagreements() > 0

    def test_claims_without_values_change_nothing(self, store):
        opinions = simple(store)
        opinions.claims += [{"member_id": f"m{number}"} for number in range(8)]
        assert opinions.disagreements() == 0


def test_missing_demographics_are_a_class_of_their_own(store):
    opinions = simple(store, missing=1)
    assert {row["d0"] for row in opinions.members} == {"d0 class 0", None}
    assert opinions.disagreements() == 0
    opinions.members[1]["d0"] = "d0 class 0"
    assert opinions.disagreements() > 0


def test_demographics_that_are_missing_in_every_draw(store):
    people = [Person((1 if number < 4 else 0,), ((0,),), ((0,),), (1,), number < 4) for number in range(8)]
    opinions = Opinions.of(store, people, (flat(2),), (flat(1),), [Dimension("h", (), (0,), 1)], (0,), missing=1)
    assert opinions.disagreements() == 0
