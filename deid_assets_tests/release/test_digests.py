"""Digests tell contents apart, and nothing else."""

import time
from collections import Counter
from hashlib import sha256
from pathlib import Path

import duckdb
import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from deid_assets.errors import ReleaseError
from deid_assets.release.keys import PublicKey
from deid_assets.release.publication.verification import verify_release
from deid_assets.store import digests
from deid_assets.store.digests import (
    canonical_json,
    columns_digest,
    combined_digest,
    file_digest,
    parse_json,
    regular_bytes,
    regular_digest,
    rows_digest,
)
from deid_assets.store.tables import Query, Table, write_table
from deid_assets_tests import examples
from deid_assets_tests.matrices.tampered_files import ODD
from deid_assets_tests.processes import WAIT

TEXT = st.one_of(st.none(), st.text('a:1 é,"\n', max_size=3))
ROWS = st.lists(st.tuples(TEXT, TEXT), max_size=5)


@pytest.fixture(scope="module")
def connection():
    opened = duckdb.connect()
    yield opened
    opened.close()


def digest_of(connection, rows):
    connection.execute("CREATE OR REPLACE TEMP TABLE judged (a VARCHAR, b VARCHAR)")
    if rows:
        connection.executemany("INSERT INTO judged VALUES (?, ?)", rows)
    return rows_digest(connection, "SELECT * FROM judged")


@settings(deadline=None, max_examples=examples.of(150))
@given(ROWS, ROWS, st.randoms())
def test_rows_digest_is_equal_exactly_for_equal_multisets_of_rows(connection, rows, others, random):
    shuffled = random.sample(rows, len(rows))
    assert digest_of(connection, rows) == digest_of(connection, shuffled)
    assert (digest_of(connection, rows) == digest_of(connection, others)) == (Counter(rows) == Counter(others))


def test_rows_digest_tells_null_from_empty_text_and_borders_between_columns(connection):
    variants = [[(None, "")], [("", None)], [("", "")], [("ab", "c")], [("a", "bc")], [("1:", "a")], [("", "1:a")]]
    assert len({digest_of(connection, rows) for rows in variants}) == len(variants)


def test_rows_digest_depends_on_names_types_and_order_of_columns(connection):
    variants = ["SELECT 1 AS a, 1 AS b", "SELECT 1 AS b, 1 AS a", "SELECT 1::BIGINT AS a, 1 AS b", "SELECT 1 AS a"]
    assert len({rows_digest(connection, variant) for variant in variants}) == len(variants)


def test_rows_digest_is_the_same_for_a_table_a_select_and_bound_values(connection, tmp_path):
    table = Table(tmp_path / "store" / "x.duckdb", "main", "numbers")
    write_table(table, "SELECT range AS n FROM range(1000) ORDER BY hash(range)")
    with duckdb.connect(str(table.file)) as store:
        assert rows_digest(store, table) == rows_digest(store, "SELECT range AS n FROM range(1000)")
        assert rows_digest(store, table) == rows_digest(store, Query("SELECT range AS n FROM range(?)", (1000,)))


@pytest.mark.matrix
def test_rows_digest_spans_many_fetches(connection):
    rows = "SELECT range % 7 AS n FROM range(450_000)"
    assert rows_digest(connection, rows) == rows_digest(connection, f"SELECT * FROM ({rows}) ORDER BY n DESC")
    assert rows_digest(connection, rows) != rows_digest(connection, f"SELECT * FROM ({rows}) LIMIT 449_999")


def test_rows_digest_is_what_its_notes_say(connection):
    """Recomputed by hand: changing the form makes all stored evidence stale."""
    columns = sha256(b'[["x","VARCHAR"],["y","INTEGER"]]\n')
    texts = [b"1:a:", "2:é1:7".encode()]
    expected = sha256(columns.digest() + b"".join(sorted(sha256(text).digest() for text in texts))).hexdigest()
    assert rows_digest(connection, "SELECT * FROM (VALUES ('é', 7), ('a', NULL)) AS given(x, y)") == expected


@pytest.mark.parametrize("column", ["[1] AS a", "TIMESTAMPTZ '2024-01-01' AS a", "{'x': 1} AS a"])
def test_columns_without_an_unambiguous_text_are_refused_by_name(connection, column):
    with pytest.raises(ReleaseError, match=r"1 of 2 columns .*\(a\)"):
        rows_digest(connection, f"SELECT {column}, 1 AS b")


def test_columns_digest_follows_names_types_and_order():
    variants = [{"a": "DATE", "b": "DATE"}, {"b": "DATE", "a": "DATE"}, {"a": "DATE", "b": "TIME"}]
    assert len({columns_digest(variant) for variant in variants}) == 3
    assert columns_digest([("a", "DATE"), ("b", "DATE")]) == columns_digest(variants[0])


def test_combined_digest_ignores_order_and_keeps_names():
    assert combined_digest({"x": "1", "y": "2"}) == combined_digest({"y": "2", "x": "1"})
    assert combined_digest({"x": "1", "y": "2"}) != combined_digest({"x": "2", "y": "1"})


def test_file_digest_is_sha256(tmp_path):
    (tmp_path / "abc").write_bytes(b"abc")
    assert file_digest(tmp_path / "abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.parametrize("text", [b'{"a":1,"a":2}', b"[NaN]", b"[1e999]", b"[", b"\xff", b"[" * 100_000])
def test_strict_json_refuses_what_readers_may_understand_differently(text):
    with pytest.raises(ReleaseError):
        parse_json(text)


def test_canonical_json_refuses_what_json_has_no_word_for_and_does_not_repeat_it():
    for value in (float("nan"), {"a": object()}, {"secret-value": b"secret-value"}):
        with pytest.raises(ReleaseError) as caught:
            canonical_json(value)
        assert "secret-value" not in str(caught.value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_canonical_json_reads_back(value):
    assert parse_json(canonical_json(value)) == value
    assert canonical_json(parse_json(canonical_json(value))) == canonical_json(value)


def test_tables_are_digested_once_until_they_change(tmp_path, monkeypatch):
    table = Table(tmp_path / "store.duckdb", "candidate", "release_members")
    write_table(table, "SELECT range AS a FROM range(5)")
    counted = []
    honest = digests.tables_digest
    monkeypatch.setattr(digests, "tables_digest", lambda tables: counted.append(1) or honest(tables))
    first = digests.tables_digest_once({"members": table})
    write_table(table, "SELECT 4 - range AS a FROM range(5)")
    assert digests.tables_digest_once({"members": table}) == first == honest({"members": table}) and len(counted) == 1
    for other in ("SELECT range AS a FROM range(6)", "SELECT range AS b FROM range(5)", "SELECT range::INT AS a FROM range(5)"):
        write_table(table, other)
        assert digests.tables_digest_once({"members": table}) == honest({"members": table}) != first
    assert len(counted) == 4


NOT_FILES = (
    "removed",
    "a symbolic link to the same bytes",
    "a link to a device",
    "a pipe",
    "a folder",
    "a socket",
    "four terabytes",
)


@pytest.mark.parametrize("what", NOT_FILES)
@pytest.mark.parametrize(
    "name", ["registry", "manifest.json", "manifest.sig", "certificate.json", "report.html", "data/Claims.csv", "exact"]
)
def test_an_answer_at_once_whatever_lies_there(releases, published, tmp_path, name, what):
    exact = tmp_path / "a" / "b" / "exact.json"
    exact.parent.mkdir(parents=True)
    exact.write_bytes((releases.restricted / "heritage" / "0001.certificate.json").read_bytes())
    path = {"registry": releases.registry.path, "exact": exact}.get(name, published.folder / name)
    assert verify_release(published.folder, releases.key.public, releases.registry.path, None, exact).ok
    ODD[what](path)
    began = time.monotonic()
    assert not verify_release(published.folder, releases.key.public, releases.registry.path, None, exact).ok
    assert time.monotonic() - began < WAIT


@pytest.mark.parametrize("what", NOT_FILES)
def test_the_same_for_the_public_key(releases, tmp_path, what):
    path = tmp_path / "a" / "b" / "key.pem"
    path.parent.mkdir(parents=True)
    path.write_bytes(releases.key.public.pem)
    assert PublicKey.read(path) == releases.key.public
    ODD[what](path)
    with pytest.raises(ReleaseError, match="the public key key.pem: it "):
        PublicKey.read(path)


def test_devices_are_not_opened():
    with pytest.raises(ReleaseError, match="a device"):
        regular_bytes(Path("/dev/zero"))


def test_lengths_are_compared_before_a_byte_is_read(tmp_path):
    (tmp_path / "file").write_bytes(b"12345")
    assert regular_bytes(tmp_path / "file", 5) == b"12345"
    for act in (lambda: regular_bytes(tmp_path / "file", 4), lambda: regular_digest(tmp_path / "file", 4)):
        with pytest.raises(ReleaseError, match="more than the 4 bytes|a different length"):
            act()
