"""The rows that later releases are compared with, against the rows that plain Python counts."""

from collections import Counter
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.releases import comparison
from deid_assets.methods.releases.comparison import COLUMNS, MemberTables, kept_rows
from deid_assets.release.kept_file import parquet_of, parquet_of_sorted
from deid_assets.store.tables import Table, write_table
from deid_assets_tests import examples
from deid_assets_tests.methods.releases.rows import LAYOUT
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
    dates = [(str(number), day) for number, (_, _, day, *_) in enumerate(claims) if day is not None]
    domains = [
        (name, 1, "" if value is None else str(value), label, 0, 0)
        for name, labels in CODES.items()
        for value, label in labels.items()
    ] + [("age", 0, "9", "another level", 0, 0)]
    days = store.table("days", "claim_id VARCHAR, day INTEGER", dates)
    return (
        MemberTables(
            store.table("profiles", "member_id VARCHAR, age INTEGER, released BOOLEAN",
                        [(who, age, released) for who, (age, released, _) in members.items()]),
            store.table("suppressed", "member_id VARCHAR", [(who,) for who, (_, _, out) in members.items() if out]),
            store.table("known", layout, rows),
            store.table("held", layout, [row for row, one in zip(rows, claims, strict=True) if one[-1]]),
            store.write("dates", f"SELECT claim_id, DATE '1970-01-01' + day AS service_date FROM {days.sql}"),
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
)
def test_rows_are_those_of_their_definition_in_order_in_a_file_and_in_a_table(members, claims, released_only, part):
    claims = [one for one in claims if one[0] in members]
    wanted = expected(members, claims, released_only)
    with small_store() as store, patch.object(comparison, "_PART", part):
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
        dates = store.write("dates", "SELECT n::VARCHAR AS claim_id, DATE '1970-01-01' + (n // 400)::INTEGER AS service_date"
                            " FROM range(300_000) AS t(n)")  # fmt: skip
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
        dates = store.write("dates", "SELECT n::VARCHAR AS claim_id, DATE '1970-01-01' AS service_date FROM range(10) AS t(n)")
        of = MemberTables(made.profiles, made.suppressed, claims, claims, dates, made.domains)
        levels, events = {"place": 1, "stay": 1}, {"place": "claims", "stay": "fills"}
        found = kept_rows(of, tags, {}, levels, events=events).read_all().select(["quasi_identifier", "value", "known"])
    rows = sorted((one["quasi_identifier"], one["value"] or "", one["known"]) for one in found.to_pylist())
    assert rows == [("place", "", 2), ("place", "Home", 1), ("stay", "", 6), ("stay", "2", 1)]
