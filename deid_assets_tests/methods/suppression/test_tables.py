"""Suppressed values in tables: the same data as in arrays."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.methods.candidate.released_tables import generalized_claims
from deid_assets.methods.population.encoding import domains_of, histories
from deid_assets.methods.population.longitudinal_data import LongitudinalData
from deid_assets.methods.population.value_domains import NOT_TOLD, value_domain
from deid_assets.methods.suppression.tables import (
    missing_values,
    shown_claims,
    shown_domains,
    suppressed_counts,
    suppressed_frame,
    with_missing_not_told,
)
from deid_assets.methods.suppression.values import SuppressedValues, with_values_not_told
from deid_assets_tests.methods.small_tables import small_store

COLUMNS = ("place", "stay")
STAYS = [1, 2, 3, 9]
PLACES = ["Home", "Office", "Ward"]
LABELS = {
    "stay": [["1-2", "1-2", "3", "9"], ["1-2", "1-2", "3+", "3+"], ["any"] * 4],  # the finest level joins two values already
    "place": [["home", "practice", "ward"], ["out", "out", "in"]],
}
AGES = [np.array(["10", "20"], dtype=object)]


def domains_frame() -> pd.DataFrame:
    def of(column, values, labels):
        labels = [np.array(own, dtype=object) for own in labels]
        return value_domain(column, values, labels, [pd.factorize(own)[0].astype(np.int32) for own in labels], column == "age")

    return pd.concat(
        [of("age", [10, 20], AGES), of("stay", STAYS, LABELS["stay"]), of("place", PLACES, LABELS["place"])], ignore_index=True
    )


@pytest.fixture(scope="module")
def store():
    with small_store() as made:
        yield made


@st.composite
def populations(draw):
    """Claims of each member, how many of them truncation keeps, and for which values of released members nothing is told."""
    claim = st.tuples(st.sampled_from([*PLACES, None]), st.sampled_from([*STAYS, None]))
    members = draw(st.lists(st.lists(claim, max_size=4), min_size=1, max_size=6))
    kept = [draw(st.integers(0, len(own))) for own in members]
    return members, kept, draw(st.lists(st.booleans(), min_size=40, max_size=40))


class Case:
    """One population in tables, before and after values are suppressed."""

    def __init__(self, store, drawn):
        members, kept, choices = drawn
        self.store = store
        rows = [(f"m{number}", number, number % 3 != 2) for number in range(len(members))]
        self.profiles = store.table("profiles", "member_id VARCHAR, member_number BIGINT, released BOOLEAN", rows)
        claims = [(f"{m} {c}", f"m{m}", *values) for m, own in enumerate(members) for c, values in enumerate(own)]
        definitions = "claim_id VARCHAR, member_id VARCHAR, place VARCHAR, stay INTEGER"
        self.known = store.table("known", definitions, claims)
        places = [int(one[0].split()[1]) < kept[int(one[0].split()[0])] for one in claims]
        self.held = store.table("held", definitions, [one for one, there in zip(claims, places, strict=True) if there])
        self.domains = store.write("domains", domains_frame())
        self.targets = np.array([number for _, number, released in rows if released])
        self.before = self.encoded(self.known, self.held, self.domains)
        distinct = [
            (target, history, int(code))
            for target in range(len(self.targets))
            for history, own in enumerate(self.before.known)
            for code in np.unique(own.codes[own.offsets[target] : own.offsets[target + 1]])
        ]
        gone = [value for value, chosen in zip(distinct, choices, strict=False) if chosen]
        self.suppressed = SuppressedValues(*np.array(gone, dtype=np.int64).reshape(-1, 3).T)
        names = [f"m{number}" for number in self.targets]
        self.frame = suppressed_frame(self.suppressed, COLUMNS, names, self.domains)
        self.table = store.write("suppressed", self.frame)
        types = self.held.columns()
        self.shown_domains = store.write("shown_domains", shown_domains(domains_frame(), {own: types[own] for own in COLUMNS}))
        self.shown = store.write("shown", shown_claims(self.held, self.table, COLUMNS, missing_too=True))
        self.shown_known = store.write("shown_known", shown_claims(self.known, self.table, COLUMNS, missing_too=False))
        self.missing = missing_values(self.held, self.profiles, COLUMNS, len(members))

    def encoded(self, known, held, domains) -> LongitudinalData:
        members = self.profiles.count()
        return LongitudinalData(
            np.zeros((members, 0), int),
            (),
            histories(held, self.profiles, domains, COLUMNS, members),
            domains_of(domains, COLUMNS),
            self.targets,
            histories(known, self.profiles, domains, COLUMNS, len(self.targets), released_only=True),
            (np.ones(len(self.targets), int),) * 2,
        )


def values(histories):
    return [sorted(histories.codes[a:b].tolist()) for a, b in zip(histories.offsets, histories.offsets[1:], strict=False)]


@given(populations())
def test_the_tables_hold_the_data_of_the_arrays(store, drawn):
    case = Case(store, drawn)
    arrays = with_values_not_told(case.before, case.suppressed, case.missing)
    tables = case.encoded(case.shown_known, case.shown, case.shown_domains)
    for history in range(len(COLUMNS)):
        mine, theirs = arrays.history_domains[history], tables.history_domains[history]
        assert mine.not_told == theirs.not_told == mine.sizes[0] - 1
        assert [level.tolist() for level in mine.levels] == [level.tolist() for level in theirs.levels]
        assert values(arrays.held[history]) == values(tables.held[history])
        assert values(arrays.known[history]) == values(tables.known[history])


@given(populations())
def test_claims_show_every_value_of_a_member_or_none(store, drawn):
    """Whatever the finest level joins goes together; claims of others, and of other values, stay as they are."""
    case = Case(store, drawn)
    gone = set(case.frame.itertuples(index=False, name=None))
    finest = {("stay", str(one)): {"1", "2"} if one < 3 else {str(one)} for one in STAYS}
    for member, column, value in gone:
        assert {(member, column, other) for other in finest.get((column, value), {value})} <= gone
    for before, after, known in ((case.held, case.shown, False), (case.known, case.shown_known, True)):
        pairs = f"{before.sql} AS b JOIN {after.sql} AS a USING (claim_id, member_id)"
        rows = store.rows(f"SELECT member_id, b.place, a.place, b.stay, a.stay FROM {pairs}")
        assert len(rows) == before.count() == after.count()
        for member, *both in rows:
            for column, value, shown, instead in (("place", *both[:2], NOT_TOLD), ("stay", *both[2:], -1)):
                if value is None:
                    assert shown == (None if known else instead)
                else:
                    assert shown == (instead if (member, column, str(value)) in gone else value)


@given(populations(), st.integers(0, 2), st.integers(0, 1))
def test_a_release_shows_both_kinds_with_one_label(store, drawn, stay, place):
    case = Case(store, drawn)
    labels = generalized_claims(case.shown, case.shown_domains, {"stay": stay, "place": place})
    for got_place, got_stay, is_place, is_stay in store.rows(
        f"SELECT g.place, g.stay, c.place, c.stay FROM ({labels}) AS g JOIN {case.shown.sql} AS c USING (claim_id)"
    ):
        assert got_stay == (NOT_TOLD if is_stay == -1 else LABELS["stay"][stay][STAYS.index(is_stay)])
        assert got_place == (NOT_TOLD if is_place == NOT_TOLD else LABELS["place"][place][PLACES.index(is_place)])


@given(populations())
def test_claims_that_lose_a_value_are_counted_for_released_members(store, drawn):
    case = Case(store, drawn)
    for history, column in enumerate(COLUMNS):
        counts = case.held.query(suppressed_counts(case.held, case.table, case.profiles, case.domains, column))
        found = dict(zip(counts["finest"].tolist(), counts["n"].tolist(), strict=True))
        own = case.before.held[history].take(case.targets)
        owners = np.repeat(np.arange(len(case.targets)), own.counts)
        columns = (case.suppressed.targets.tolist(), case.suppressed.histories.tolist(), case.suppressed.codes.tolist())
        gone = {(t, c) for t, h, c in zip(*columns, strict=True) if h == history}
        lost = [int(code) for owner, code in zip(owners, own.codes, strict=True) if (int(owner), int(code)) in gone]
        assert found == {code: lost.count(code) for code in set(lost)}


@given(populations())
def test_what_was_not_delivered_is_shown_without_any_suppressed_value(store, drawn):
    case = Case(store, drawn)
    nothing = store.write("nothing", case.frame.iloc[:0])
    rows = [
        sorted(map(str, store.rows(content)))
        for content in (
            with_missing_not_told(case.held, COLUMNS),
            shown_claims(case.held, nothing, COLUMNS, missing_too=True),
        )
    ]
    assert rows[0] == rows[1]


def test_values_of_others_are_not_taken_for_those_that_are_not_told():
    """The label is what encoding knows them by."""
    own = domains_frame()
    own.loc[own["label"] == "ward", "label"] = NOT_TOLD
    with pytest.raises(ValueError, match="place"):
        shown_domains(own, {"place": "VARCHAR", "stay": "INTEGER"})
