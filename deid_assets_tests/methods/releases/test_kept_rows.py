"""The rows that later releases are compared with, against the rows that plain Python counts."""

from collections import Counter
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.disclosure.membership_changes import NOT_RELEASED, REMOVED, Roll, posterior_of_the_missing
from deid_assets.methods.releases import comparison
from deid_assets.methods.releases.comparison import (
    COLUMNS,
    MemberTables,
    compared,
    kept_rows,
    linkable_share,
    withdrawn_standing_out,
)
from deid_assets.release.kept_file import parquet_of, parquet_of_sorted
from deid_assets.store.tables import Table, write_table
from deid_assets_tests import examples
from deid_assets_tests.methods.releases.rows import LAYOUT, Shown, SmallRelease
from deid_assets_tests.methods.releases.test_meet import VALUES, releases
from deid_assets_tests.methods.small_tables import SmallStore, small_store

TAGS = {"a": 2**64 - 1, "b": 7, "c": 0, "d": 10**10}
CODES = {"age": {None: "unknown", 9: "0-9", 10: "10-19"}, "place": {"Office": "any", "Home": "any"}, "stay": {2: "2", 10: None}}
"""Label of each value; 10 comes before 2 and before 9, as texts do."""

claim = st.tuples(
    st.sampled_from([*TAGS]), st.sampled_from([None, 3]), st.sampled_from([None, -1, 0, 40]),
    st.sampled_from([None, "Office", "Home", "nowhere"]), st.sampled_from([None, 2, 10]), st.booleans(),
)  # fmt: skip
"""Member, year, day, place (one without a label), length of stay, and whether it is left after the long tail is cut."""


def tables(store: SmallStore, members: dict, claims: list) -> tuple[MemberTables, Table]:
    """Members (age, released, suppressed) and claims as a store has them."""
    layout = "claim_id VARCHAR, member_id VARCHAR, year INTEGER, place VARCHAR, stay INTEGER"
    rows = [(str(number), who, year, place, stay) for number, (who, year, _, place, stay, _) in enumerate(claims)]
    dates = [(str(number), who, day) for number, (who, _, day, *_) in enumerate(claims) if day is not None]
    domains = [
        (name, 1, "" if value is None else str(value), label, 0, 0)
        for name, labels in CODES.items()
        for value, label in labels.items()
    ] + [("age", 0, "9", "another level", 0, 0)]
    days = store.table("days", "claim_id VARCHAR, member_id VARCHAR, day INTEGER", dates)
    return (
        MemberTables(
            store.table("profiles", "member_id VARCHAR, age INTEGER, released BOOLEAN",
                        [(who, age, released) for who, (age, released, _) in members.items()]),
            store.table("suppressed", "member_id VARCHAR", [(who,) for who, (_, _, out) in members.items() if out]),
            store.table("known", layout, rows),
            store.table("held", layout, [row for row, one in zip(rows, claims, strict=True) if one[-1]]),
            store.write("dates", f"SELECT claim_id, member_id, DATE '1970-01-01' + day AS service_date FROM {days.sql}"),
            store.table("domains", "quasi_identifier VARCHAR, level INTEGER, value VARCHAR, label VARCHAR,"
                        " base_code INTEGER, level_code INTEGER", domains),
        ),
        store.table("tags", "member_id VARCHAR, tag UBIGINT", [(who, TAGS[who]) for who in members]),
    )  # fmt: skip


def expected(members: dict, claims: list, released_only: bool) -> list[tuple]:
    """The rows by their definition, in the order of a file."""
    shown = {who: released and not out for who, (_, released, out) in members.items()}
    told = [who for who in members if shown[who] or not released_only]
    rows = [
        (TAGS[who], "years", None, None if age is None else str(age), CODES["age"][age], 1, 1, shown[who])
        for who, (age, _, _) in members.items()
        if who in told
    ]
    for column, place in (("place", 3), ("stay", 4)):
        known, held = Counter(), Counter()
        for one in claims:
            day = one[2] if one[2] is not None else None if one[1] is None else -one[1]
            key = one[0], day, one[place]
            known[key] += shown.get(one[0], False)
            held[key] += one[-1]
        rows += [
            (TAGS[who], column, day, None if value is None else str(value), CODES[column].get(value), known[key], held[key],
             shown[who])
            for key in known
            for who, day, value in [key]
            if who in told and known[key] + held[key]
        ]  # fmt: skip
    last = [(row[1], row[0], row[2] is None, row[2] or 0, row[3] is None, row[3] or "") for row in rows]
    return [row for _, row in sorted(zip(last, rows, strict=True), key=lambda one: one[0])]


@settings(max_examples=examples.of(25), deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([*TAGS]), st.tuples(st.sampled_from([None, 9, 10]), st.booleans(), st.booleans()), min_size=1
    ),
    st.lists(claim, max_size=12),
    st.booleans(),
    st.sampled_from([1, 3, comparison._PART]),
    st.sampled_from([1, 2, comparison._PEOPLE_AT_ONCE]),
)
def test_rows_are_those_of_their_definition_in_order_in_a_file_and_in_a_table(members, claims, released_only, part, people):
    claims = [one for one in claims if one[0] in members]
    wanted = expected(members, claims, released_only)
    at_a_time = patch.multiple(comparison, _PART=part, _PEOPLE_AT_ONCE=people)
    with small_store() as store, at_a_time:
        made = tables(store, members, claims)

        def kept():
            return kept_rows(*made, {"age": 1}, {"stay": 1, "place": 1}, released_only, {"age": "years"})

        whole = store.file.parent / "kept.parquet"
        content = parquet_of_sorted(kept())
        whole.write_bytes(content)
        assert store.rows(f"SELECT {', '.join(COLUMNS)} FROM read_parquet('{whole}')") == wanted
        assert content == parquet_of_sorted(kept()), "the same rows give the same bytes"
        table = Table(store.file, "tests", "kept")
        assert write_table(table, kept()) == len(wanted)
        assert store.rows(f"FROM {table.sql}") == wanted
        assert ", ".join(f"{name} {kind}" for name, kind in table.columns().items()) == LAYOUT
        shuffled = store.write("shuffled", f"FROM {table.sql} ORDER BY hash(tag, value, known)")
        whole.write_bytes(parquet_of(shuffled))
        assert store.rows(f"FROM read_parquet('{whole}')") == wanted
        assert dict(columns(store, whole)) == table.columns()


def columns(store: SmallStore, file) -> list[tuple]:
    return [row[:2] for row in store.rows(f"DESCRIBE FROM read_parquet('{file}')")]


def test_many_claims_are_counted_across_parts_and_groups_of_rows():
    """Four members have 100 claims each on 750 days, of which half are cut, and every third is of the home."""
    with small_store() as store:
        made, tags = tables(store, dict.fromkeys(TAGS, (9, True, False)), [])
        layout = "SELECT n::VARCHAR AS claim_id, ['a', 'b', 'c', 'd'][n % 4 + 1] AS member_id, 2 AS year"
        values = "if(n % 3 = 0, 'Home', 'Office') AS place, NULL::INTEGER AS stay FROM range(300_000) AS t(n)"
        known = store.write("known", f"{layout}, {values}")
        held = store.write("held", f"{layout}, {values} WHERE n % 400 >= 200")
        day = "DATE '1970-01-01' + (n // 400)::INTEGER AS service_date"
        dates = store.write("dates", f"SELECT claim_id, member_id, {day} FROM ({layout}, n FROM range(300_000) AS t(n))")
        of = MemberTables(made.profiles, made.suppressed, known, held, dates, made.domains)
        found = kept_rows(of, tags, {}, {"place": 1}).read_all()
    numbers = np.arange(300_000)
    who, day, home = numbers % 4, numbers // 400, numbers % 3 == 0
    key = (np.array([*TAGS.values()], dtype=np.uint64).argsort().argsort()[who] * 750 + day) * 2 + ~home
    assert found["known"].to_numpy().tolist() == np.bincount(key).tolist()
    assert found["held"].to_numpy().tolist() == np.bincount(key, numbers % 400 >= 200).astype(int).tolist()
    assert found["service_day"].to_numpy().tolist() == np.tile(np.repeat(np.arange(750), 2), 4).tolist()
    assert found["tag"].to_pylist() == [tag for tag in sorted(TAGS.values()) for _ in range(1500)]
    assert found["value"].to_pylist() == ["Home", "Office"] * 3000


def test_rows_of_another_table_of_events_tell_nothing_of_a_column():
    """Not even a blank: how many blanks there are is how many events of the column's own table have none."""
    with small_store() as store:
        made, tags = tables(store, {"a": (9, True, False)}, [])
        layout = "SELECT n::VARCHAR AS claim_id, 'a' AS member_id, 2 AS year"
        own = "if(n < 3, 'claims', 'fills') AS event_table, if(n = 0, 'Home', NULL) AS place, if(n = 3, 2, NULL) AS stay"
        claims = store.write("events", f"{layout}, {own} FROM range(10) AS t(n)")
        dates = store.write("dates", f"{layout}, DATE '1970-01-01' AS service_date FROM range(10) AS t(n)")
        of = MemberTables(made.profiles, made.suppressed, claims, claims, dates, made.domains)
        levels, events = {"place": 1, "stay": 1}, {"place": "claims", "stay": "fills"}
        found = kept_rows(of, tags, {}, levels, events=events).read_all().select(["quasi_identifier", "value", "known"])
    rows = sorted((one["quasi_identifier"], one["value"] or "", one["known"]) for one in found.to_pylist())
    assert rows == [("place", "", 2), ("place", "Home", 1), ("stay", "", 6), ("stay", "2", 1)]


def released(release):
    return {tag for tag, member in release.members.items() if member.released}


def values_of(member, what):
    found = Counter()
    for column, day, value, known, held in member.claims:
        if value is not None:
            found[column, day, value] += known if what == "known" else held
    return found


@settings(max_examples=examples.of(20), deadline=None)
@given(releases())
def test_what_is_hidden_and_who_changed_are_those_of_brute_force(made):
    earlier, later = made[0], made[-1]
    with small_store() as store:
        a, b = earlier.table(store, "a"), later.table(store, "b")
        found, standing = compared(a, b), withdrawn_standing_out(a, b, 2)
    both = released(earlier) & released(later)
    by_earlier = by_later = shown = 0
    for tag in both:
        (known_a, held_a), (known_b, held_b) = (
            (values_of(release.members[tag], "known"), values_of(release.members[tag], "held")) for release in (earlier, later)
        )
        for value in set(known_a) & set(known_b):
            in_both = min(held_a[value], held_b[value])
            shown += max(held_a[value], held_b[value])
            by_earlier += max(min(known_a[value], held_b[value]) - in_both, 0)
            by_later += max(min(known_b[value], held_a[value]) - in_both, 0)
    assert (found.members, found.added, found.withdrawn) == (
        len(both), len(released(later) - released(earlier)), len(released(earlier) - released(later))
    )  # fmt: skip
    assert (found.values, found.hidden_by_earlier, found.hidden_by_later) == (shown, by_earlier, by_later)
    assert found.hidden_share == (by_earlier + by_later) / max(shown, 1)

    def like(tag):
        return [own for own in earlier.members if earlier.members[own].demographics == earlier.members[tag].demographics]

    few = [
        tag for tag in released(earlier) - released(later)
        if len(like(tag)) >= 2 > sum(own not in released(later) for own in like(tag))
    ]  # fmt: skip
    assert standing == len(few)


def joined(releases, column):
    """The coarsest classes of the labels that two releases show, as one letter for each value that both have."""
    first, second = releases
    seen = [{v for m in r.members.values() for c, _, v, *_ in m.claims if c == column} for r in releases]
    both = [value for value in (*VALUES, None) if value in seen[0] and value in seen[1]]
    groups = {value: {value} for value in both}
    for _ in both:
        for one in both:
            for other in both:
                same = any(r.label(column, one) == r.label(column, other) for r in releases)
                if same:
                    groups[one] = groups[other] = groups[one] | groups[other]
    names = {}
    for number, release in enumerate(releases):
        for value in both:
            names[number, release.label(column, value)] = min(map(str, groups[value]))
    return names


@settings(max_examples=examples.of(20), deadline=None)
@given(releases())
def test_the_share_of_linkable_records_is_that_of_brute_force(made):
    pair = (made[0], made[-1])
    columns = [
        column for column in ("place", "group")
        if {v for m in pair[0].members.values() for c, _, v, *_ in m.claims if c == column}
        & {v for m in pair[1].members.values() for c, _, v, *_ in m.claims if c == column}
    ]  # fmt: skip
    ages = {a.demographics["age"] for a in pair[0].members.values()} & {b.demographics["age"] for b in pair[1].members.values()}
    names = {column: joined(pair, column) for column in columns}

    def record(number, member):
        found = Counter()
        for column, _, value, _, held in member.claims:
            if column in names:
                found[column, names[column].get((number, pair[number].label(column, value)))] += held
        age = member.demographics["age"]
        return frozenset((+found).items()), (age if age in ages else None) if ages else "not compared"

    others = Counter(record(1, m) for m in pair[1].members.values() if m.released)
    own = [record(0, m) for m in pair[0].members.values() if m.released]
    expected = sum(others[one] == 1 for one in own) / max(len(own), 1)
    with small_store() as store:
        assert linkable_share(pair[0].table(store, "a"), pair[1].table(store, "b")) == pytest.approx(expected)


def test_long_histories_are_linked_whatever_each_release_joins(store):
    """The two releases join different places, yet how often each pair occurs is unique."""

    def visits(labels):
        return SmallRelease(
            {tag: Shown({"age": "x"}, (("place", 1, "v", tag, tag), ("place", 1, "u", 9, 9))) for tag in range(1, 9)},
            {"place": labels},
        )  # fmt: skip

    one, two = visits({"v": "v", "u": "u"}).table(store, "a"), visits({"v": "v or w", "u": "u"}).table(store, "b")
    assert linkable_share(one, two) == 1
    alone = visits({"v": "any", "u": "any"}).table(store, "c")
    assert linkable_share(one, alone) == 1, "the numbers of claims tell them apart"


@pytest.mark.parametrize(("left", "expected"), [(0, 0.57), (0.1, 0.20)])
def test_worked_numbers_of_the_disappearance(left, expected):
    """.03 newly sensitive, .023 suppressed: beyond a bound of .15, whether nobody left or a tenth did."""
    members = np.arange(10_000, dtype=np.uint64)
    earlier = Roll(members, np.zeros(10_000, dtype=np.int32))
    classes = np.zeros(10_000, dtype=np.int32)
    classes[:300], classes[300:530] = REMOVED, NOT_RELEASED
    there = np.ones(10_000, dtype=bool)
    there[530 : 530 + round(left * 10_000)] = False
    posterior = posterior_of_the_missing(earlier, Roll(members[there], classes[there]))
    assert round(posterior, 2) == expected and posterior > 0.15
