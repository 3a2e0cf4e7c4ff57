"""Recoding by class in tables: the same data as in arrays, and the same information kept as a node for all keeps."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.methods.candidate.released_tables import generalized_claims
from deid_assets.methods.lattice.information_loss import information_kept as kept_for_all
from deid_assets.methods.population.encoding import demographic_codes, domains_of, histories
from deid_assets.methods.population.longitudinal_data import Dimension, LongitudinalData
from deid_assets.methods.population.value_domains import CLASS, value_domain
from deid_assets.methods.recoding.class_tables import (
    class_domains,
    classed_claims,
    finest_values,
    information_kept,
    levels_of_classes,
    member_classes,
)
from deid_assets.methods.recoding.recoded_data import ClassLevels, classes_of, recoded
from deid_assets_tests.methods.small_tables import small_store

AXES = (Dimension("age", (0,), (), 2), Dimension("stay", (), (0,), 3))
STAYS = [1, 2, 3, 9]
AGES = [np.array(["10", "20"], dtype=object), np.array(["any", "any"], dtype=object)]
LABELS = [
    np.array(["1-2", "1-2", "3", "9"], dtype=object),  # the finest level joins two values already
    np.array(["1-2", "1-2", "3+", "3+"], dtype=object),
    np.array(["any"] * 4, dtype=object),
]


def domains_frame() -> pd.DataFrame:
    def codes(labels):
        return [pd.factorize(own)[0].astype(np.int32) for own in labels]

    return pd.concat(
        [value_domain("age", [10, 20], AGES, codes(AGES), True), value_domain("stay", STAYS, LABELS, codes(LABELS), False)],
        ignore_index=True,
    )


@pytest.fixture(scope="module")
def store():
    with small_store() as made:
        yield made


@st.composite
def people(draw):
    """Ages, stays of each member's claims, and the member-level node with a level of stays for each class."""
    members = draw(st.lists(st.tuples(st.sampled_from([10, 20, None]), st.lists(st.sampled_from([*STAYS, None]), max_size=4)),
                            min_size=1, max_size=8))  # fmt: skip
    return members, draw(st.integers(0, 1)), draw(st.lists(st.integers(0, 2), min_size=3, max_size=3))


class Case:
    """One population in tables, and the levels of its classes."""

    def __init__(self, store, drawn):
        members, age_level, levels = drawn
        self.store, self.node = store, (age_level, 0)
        rows = [(f"m{number}", number, age, number % 3 != 2) for number, (age, _) in enumerate(members)]
        self.profiles = store.table("profiles", "member_id VARCHAR, member_number BIGINT, age INTEGER, released BOOLEAN", rows)
        claims = [(f"{m} {c}", f"m{m}", stay) for m, (_, stays) in enumerate(members) for c, stay in enumerate(stays)]
        self.claims = store.table("claims", "claim_id VARCHAR, member_id VARCHAR, stay INTEGER", claims)
        self.domains = store.write("domains", domains_frame())
        self.data = self.encoded(self.claims, self.domains)
        self.classes, self.class_of = classes_of(self.data, AXES, self.node)
        own = [(age_level, levels[number]) for number in range(len(self.classes))]
        self.levels = ClassLevels(self.node, self.classes, np.array(own, dtype=np.int32))
        frame = pd.DataFrame(
            {CLASS: range(len(self.classes)), "age": self.classes[:, 0], "stay": self.levels.levels[:, 1]}
        ).astype("int32")
        self.by_class = store.write("by_class", class_domains(self.domains.frame(), frame, ["stay"]))
        classes = member_classes(self.profiles, self.domains, store.write("levels", frame), {"age": age_level})
        self.classed = store.write("classed", classed_claims(self.claims, classes))

    def encoded(self, claims, domains) -> LongitudinalData:
        targets = np.flatnonzero([number % 3 != 2 for number in range(self.profiles.count())])
        held = histories(claims, self.profiles, domains, ["stay"], self.profiles.count())
        known = tuple(own.take(targets) for own in held)
        codes = demographic_codes(self.profiles, domains, ["age"])
        ages, stays = (domains_of(domains, [column]) for column in ("age", "stay"))
        return LongitudinalData(codes, ages, held, stays, targets, known, (np.ones(len(targets), int),))


@given(people())
def test_the_tables_hold_the_recoded_data(store, drawn):
    """Two values of claims are alike at a level of the tables exactly if they are alike in the arrays."""
    case = Case(store, drawn)
    arrays, tables = recoded(case.data, AXES, case.levels), case.encoded(case.classed, case.by_class)
    assert np.array_equal(arrays.demographics, tables.demographics)
    assert np.array_equal(arrays.held[0].offsets, tables.held[0].offsets)
    assert arrays.history_domains[0].height == tables.history_domains[0].height
    for level in range(arrays.history_domains[0].height + 1):
        pairs = {
            (a, b)
            for member in range(arrays.members)
            for a, b in zip(at(arrays, member, level), at(tables, member, level), strict=True)
        }
        assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def at(data, member, level):
    """The classes of a member's values at a level; both number them by the delivered values."""
    codes = data.held[0].codes[data.held[0].offsets[member] : data.held[0].offsets[member + 1]]
    return sorted(data.history_domains[0].levels[level][codes].tolist())


@given(people())
def test_labels_are_those_of_the_class(store, drawn):
    case = Case(store, drawn)
    labels = generalized_claims(case.classed, case.by_class, {"stay": 0})
    both = f"({labels}) AS g JOIN {case.classed.sql} AS c USING (claim_id)"
    for label, stay, number in store.rows(f"SELECT g.stay, c.stay, c.{CLASS} FROM {both}"):
        assert label == (None if stay is None else LABELS[case.levels.levels[number, 1]][STAYS.index(stay)])


@given(people())
def test_the_levels_of_classes_are_read_back(store, drawn):
    case = Case(store, drawn)
    for level in range(3):
        found = levels_of_classes(case.by_class.frame(), {"age": 0, "stay": level})
        assert found["shown_level"].tolist() == [max(level, own) for own in case.levels.levels[:, 1]]


@given(people(), st.integers(0, 2))
def test_equal_levels_keep_what_a_node_for_all_keeps(store, drawn, level):
    members, age_level, _ = drawn
    case = Case(store, (members, age_level, [level] * 3))
    counts = case.classed.query(finest_values(case.classed, case.profiles, case.by_class, "stay"))
    domain = case.by_class.frame()
    kept = information_kept(domain[domain["quasi_identifier"] == "stay"], counts)
    released = case.data.held[0].take(case.data.targets)
    expected = kept_for_all(np.bincount(released.codes, minlength=3), case.data.history_domains[0])
    assert kept == pytest.approx([expected[max(level, own)] for own in range(3)])
