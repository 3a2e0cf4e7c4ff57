"""Rows of inference channels: exactly the released rows, beside what they withhold."""

import random

import pytest

from deid_assets.assessments import inference_rows
from deid_assets.methods.inference.rows import (
    Channel,
    claim_rows,
    field_places,
    labels,
    member_rows,
    numbered,
    profile_counts,
    released_profiles_of,
    unlinked_rows,
)

RELEASED = '"MemberID" BIGINT, "ProviderID" BIGINT, "Place" VARCHAR, "Served" DATE, "Day" INTEGER'


def tables(store):
    rows = [(7, None, "office", "2001-01-05", 3), (7, 1, "office", "2001-01-20", 40), (7, None, "home", "2001-02-01", 59),
            (8, None, None, None, None)]  # fmt: skip
    linked = store.table("linked", f"claim_id VARCHAR, {RELEASED}", [(f"c{n}", *row) for n, row in enumerate(rows)])
    sample = store.table("sample", '"MemberID" BIGINT, position BIGINT', [(7, 0), (8, 1)])
    crosswalk = store.table(
        "crosswalk",
        "kind VARCHAR, original_id VARCHAR, pseudonym BIGINT",
        [("member", "a", 7), ("member", "b", 8), ("pcp", "a", 8)],
    )
    shown = store.table("shown", '"MemberID" BIGINT, age VARCHAR', [(7, "0-19"), (8, "0-19")])
    profiles = store.write("profiles", released_profiles_of(sample, crosswalk, f"SELECT * FROM {shown.sql}", linked, ["Place"]))
    delivered = store.table(
        "delivered", "claim_id VARCHAR, diagnosis_1 VARCHAR, provider_id VARCHAR",
        [("c0", "41001", "p"), ("c1", "41001", "q"), ("c2", "4280", "p"), ("c3", None, None)],
    )  # fmt: skip
    members = store.table("members", "member_id VARCHAR, age INTEGER", [("a", 11), ("b", 17)])
    return linked, sample, profiles, delivered, members


CHANNELS = (
    Channel("diagnosis_5", "o.diagnosis_1", 'l."Place"'),
    Channel("provider", 'CASE WHEN l."ProviderID" IS NULL THEN o.provider_id END'),
)


def test_a_member_is_described_by_what_the_release_tells(store):
    _, _, profiles, *_ = tables(store)
    found = store.rows(f"SELECT position, member_id, age, claims, usual_0 FROM {profiles.sql} ORDER BY position")
    assert found == [(0, "a", "0-19", "2", "office"), (1, "b", "0-19", "1", None)]


def test_claims_beside_what_is_withheld(store):
    linked, _, profiles, delivered, members = tables(store)
    made = store.write("made", claim_rows(linked, delivered, profiles, members, CHANNELS))
    # Fields: provider, place, month, thirty days, age, claims, usual place.
    assert store.rows(f"SELECT * FROM {made.sql}") == [
        (0, None, "office", "2001-01", 0, "0-19", "2", "office", "41001", "office", "p", ""),
        (0, 1, "office", "2001-01", 1, "0-19", "2", "office", "41001", "office", None, ""),
        (0, None, "home", "2001-02", 1, "0-19", "2", "office", "4280", "home", "p", ""),
        (1, None, None, None, None, "0-19", "1", None, None, "", None, ""),
    ]
    # Missing values are a level of their own; what is not withheld is -1.
    assert store.rows(numbered(made)) == [
        (0, 0, 2, 1, 1, 0, 1, 1, 0, 2, 0, 0), (0, 1, 2, 1, 2, 0, 1, 1, 0, 2, -1, 0), (0, 0, 1, 2, 2, 0, 1, 1, 1, 1, 0, 0),
        (1, 0, 0, 0, 0, 0, 0, 0, -1, 0, -1, 0),
    ]  # fmt: skip
    assert store.rows(labels(made, 0)) == [("",), ("home",), ("office",)]


def test_members_beside_what_is_withheld(store):
    _, _, profiles, _, members = tables(store)
    made = store.write("made", member_rows(profiles, members, [Channel("age", "m.age", "p.age", of_members=True)]))
    assert store.rows(f"SELECT * FROM {made.sql}") == [
        (0, "0-19", "2", "office", "11", "0-19"), (1, "0-19", "1", None, "17", "0-19")
    ]  # fmt: skip


def test_profiles_count_the_claims_of_each_label(store):
    """In all, then by place, month and thirty days; a blank is no label."""
    linked, sample, *_ = tables(store)
    assert field_places(linked, {"Served", "ProviderID"}) == [0, 2]
    # Labels: number of claims; home, office; January, February; days from 0, from 30.
    assert store.rows(profile_counts(linked, sample, ["Place", "Served", "Day"])) == [
        (0, 0, 3), (0, 1, 1), (0, 2, 2), (0, 3, 2), (0, 4, 1), (0, 5, 1), (0, 6, 2), (1, 0, 1)
    ]  # fmt: skip


@pytest.mark.parametrize("most", [4, 100])
def test_profiles_equal_counting_by_hand(store, monkeypatch, most):
    rng = random.Random(most)
    monkeypatch.setattr(inference_rows, "LABELS_AT_MOST", most)
    rows = [(f"c{n}", rng.randrange(12), rng.randrange(3), rng.choice("abc"), rng.choice(["x", "y", None])) for n in range(80)]
    linked = store.table("linked", 'claim_id VARCHAR, "MemberID" BIGINT, "PCP" BIGINT, "One" VARCHAR, "Other" VARCHAR', rows)
    sample = store.table("sample", '"MemberID" BIGINT, position BIGINT', [(member, 11 - member) for member in range(12)])
    found = inference_rows.profiles_of(linked, sample)
    labels = [("claims", None), *(("One", value) for value in "abc"), *(("Other", value) for value in "xy")]
    places = {"One": 3, "Other": 4}

    def count(member: int, column: str, value: str | None) -> int:
        return sum(claim[1] == member and (column == "claims" or claim[places[column]] == value) for claim in rows)

    by_hand = [[count(11 - position, *label) for label in labels] for position in range(12)]
    have = [sum(own[place] > 0 for own in by_hand) for place in range(len(labels))]
    kept = sorted(sorted(range(len(labels)), key=lambda place: -have[place])[:most])
    assert found.tolist() == [[own[place] for place in kept] for own in by_hand]


@pytest.mark.parametrize(
    ("released", "differing"),
    [
        ([(7, None, "office", None, 1), (7, None, "office", None, 1), (9, 1, "of others", None, 1)], 0),
        ([(7, None, "office", None, 1)], 1),
        ([(7, None, "office", None, 1), (7, 5, "office", None, 1)], 2),
    ],
)
def test_rows_that_are_not_exactly_the_released_ones_are_counted(store, released, differing):
    linked = store.table(
        "linked", f"claim_id VARCHAR, {RELEASED}", [("x", 7, None, "office", None, 1), ("y", 7, None, "office", None, 1)]
    )
    sample = store.table("sample", '"MemberID" BIGINT, position BIGINT', [(7, 0)])
    assert store.rows(unlinked_rows(linked, store.table("released", RELEASED, released), sample)) == [(differing,)]


@pytest.mark.parametrize("name", ["N", "more", "side"])
def test_a_released_column_may_have_any_name(store, name):
    columns = f'"MemberID" BIGINT, "{name}" BIGINT'
    linked, sample = store.table("linked", columns, [(7, 0)]), store.table("sample", '"MemberID" BIGINT', [(7,)])
    released = store.table("released", columns, [(7, 0), (7, 0), (7, 1)])
    assert store.rows(unlinked_rows(linked, released, sample)) == [(2,)]
