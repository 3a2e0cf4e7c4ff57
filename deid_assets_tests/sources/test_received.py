"""What is parsed is what was digested: copies of regular files, links refused, and nothing that a file brings along run."""

import gzip
import os
from pathlib import Path

import duckdb
import pytest

from deid_assets.errors import DeliveryError
from deid_assets.sources import received
from deid_assets.sources.delivery import ClaimsMap, Delivery, MembersMap, TablesSource
from deid_assets.sources.files import OURS, staged
from deid_assets.sources.intake import Reading, read_delivery
from deid_assets_tests.sources.deliveries import claim, member, take_in, write_tables


@pytest.fixture
def folder(tmp_path) -> Path:
    return write_tables(tmp_path / "in", [member("m1")], [claim("c1")])


def unusual(folder: Path, kind: str) -> None:
    if kind == "link to a file":
        (folder / "note").symlink_to("members.csv")
    elif kind == "link to a folder":
        (folder / "note").symlink_to(folder.parent)
    elif kind == "link to nothing":
        (folder / "note").symlink_to("nowhere")
    else:
        os.mkfifo(folder / "note")


@pytest.mark.parametrize("kind", ["link to a file", "link to a folder", "link to nothing", "pipe"])
@pytest.mark.parametrize("below", [False, True])
def test_what_is_no_regular_file_is_neither_digested_nor_read(folder, kind, below):
    place = folder / "deep" if below else folder
    place.mkdir(exist_ok=True)
    unusual(place, kind)
    with pytest.raises(DeliveryError, match="note: (a symbolic link, which is not followed|not a file or folder)"):
        Delivery("a", "tables", (folder,)).digest()
    with pytest.raises(DeliveryError, match="note: "):
        take_in(folder)


@pytest.mark.parametrize("of", ["folder", "file"])
def test_a_link_given_as_the_delivery_is_refused(folder, tmp_path, of):
    link = tmp_path / "latest"
    link.symlink_to(folder if of == "folder" else folder / "members.csv")
    with pytest.raises(DeliveryError, match="latest: a symbolic link"):
        Delivery("a", "tables", (link,)).digest()


def test_a_link_put_in_the_place_of_a_listed_file_or_folder_is_not_followed(folder, tmp_path):
    (folder / "deep").mkdir()
    (folder / "deep" / "more.csv").write_text("a\n")
    files = {file.inside[-1]: file for file in Delivery("a", "tables", (folder,)).files()}
    (folder / "members.csv").rename(tmp_path / "secret")
    (folder / "members.csv").symlink_to(tmp_path / "secret")
    (folder / "deep").rename(tmp_path / "elsewhere")
    (folder / "deep").symlink_to(tmp_path / "elsewhere")
    for name in ("members.csv", "more.csv"):
        with pytest.raises(DeliveryError, match=f"{name}: unreadable file"):
            received.open_delivered(files[name])


def test_a_file_given_twice_would_count_twice(folder):
    with pytest.raises(DeliveryError, match="given twice"):
        Delivery("a", "tables", (folder, folder / "members.csv")).digest()


def test_the_digest_of_an_intake_is_that_of_the_bytes_that_were_parsed(folder, monkeypatch):
    """The file changes right after it was copied, before any parser sees it."""
    before = Delivery("a", "tables", (folder,)).digest()
    copy = received.Received.copy

    def copy_and_change(self, path):
        target = copy(self, path)
        path.write_text(path.read_text().replace("m1", "other"))
        return target

    monkeypatch.setattr(received.Received, "copy", copy_and_change)
    taken = take_in(folder)
    assert taken.report.digest == before != Delivery("a", "tables", (folder,)).digest()
    assert taken.frame("members")["member_id"].tolist() == ["m1"]


def source(file: str, table: str | None = None) -> TablesSource:
    columns = {"member_id": "id", "sex": "sex", "age": "age"}
    claims = ClaimsMap(file=file, table=table, columns={"member_id": "id", "year": "year", "specialty": "kind"})
    return TablesSource(members=MembersMap(file=file, table=table, columns=columns), claims=claims)


def delivered_database(folder: Path, *statements: str) -> Path:
    folder.mkdir()
    with duckdb.connect(str(folder / "d.duckdb")) as connection:
        for statement in statements:
            connection.execute(statement)
    return folder


def read(folder: Path, options: TablesSource):
    store = folder.parent / "store" / "s.duckdb"
    return read_delivery(store, Delivery("a", "tables", (folder,)), Reading(options, 1.0), None)


ROW = "SELECT 'p' AS id, 'F' AS sex, 3 AS age, 1 AS year, 'x' AS kind"


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["CREATE VIEW t AS SELECT *, content AS kind FROM (SELECT * EXCLUDE kind FROM ({row})), read_text('{secret}')"],
         "a view"),
        (["CREATE MACRO t() AS TABLE {row}"], "a macro"),
        (["CREATE TABLE t (id TEXT, sex TEXT, age INT, year INT, kind TEXT AS (upper(id)))",
          "INSERT INTO t VALUES ('p', 'F', 3, 1)"], "column kind .* is generated"),
        (["CREATE TABLE t AS SELECT * REPLACE ([kind] AS kind) FROM ({row})"], "column kind .* has the type LIST"),
        (["CREATE TABLE t AS SELECT * REPLACE ('x'::BLOB AS kind) FROM ({row})"], "column kind .* has the type BLOB"),
        (["CREATE TABLE u AS {row}"], "missing table"),
    ],
)  # fmt: skip
def test_only_base_tables_of_plain_values_are_read_from_a_database(tmp_path, statements, message):
    (tmp_path / "secret").write_text("UNMISTAKABLE")
    made = [statement.format(row=ROW, secret=tmp_path / "secret") for statement in statements]
    folder = delivered_database(tmp_path / "in", *made)
    with pytest.raises(DeliveryError, match=message) as refused:
        read(folder, source("d.duckdb", "t"))
    assert "UNMISTAKABLE" not in str(refused.value)
    assert b"UNMISTAKABLE" not in (tmp_path / "store" / "s.duckdb").read_bytes()


def test_macros_of_a_database_stand_in_for_nothing(tmp_path):
    folder = delivered_database(
        tmp_path / "in", f"CREATE TABLE t AS {ROW}", "CREATE MACRO trim(x) AS 'mine'", "CREATE MACRO lower(x) AS 'mine'"
    )
    assert read(folder, source("d.duckdb", "t")).rows_kept == {"members": 1, "claims": 1}


def test_a_log_beside_a_database_is_refused(tmp_path):
    folder = delivered_database(tmp_path / "in", f"CREATE TABLE t AS {ROW}")
    (folder / "d.duckdb.wal").write_bytes(b"written last")
    with pytest.raises(DeliveryError, match="d\\.duckdb\\.wal is next to it"):
        read(folder, source("d.duckdb", "t"))


@pytest.mark.matrix
def test_the_rows_of_a_database_keep_their_order(tmp_path):
    wide = (
        "SELECT (range * 7919) % 300_000 AS id, 'F' AS sex, 3 AS age, 9 AS year, 'x' AS kind, -1 AS rowid FROM range(300_000)"
    )
    folder = delivered_database(tmp_path / "in", f"CREATE TABLE t AS {wide}")
    read(folder, source("d.duckdb", "t"))
    with duckdb.connect(str(tmp_path / "store" / "s.duckdb")) as connection:
        listed = connection.execute("SELECT source_row, raw_row FROM intake.quarantined_rows ORDER BY 1 LIMIT 3").fetchall()
    assert [row for row, _ in listed] == [1, 2, 3]
    assert '"member_id":0,' in str(listed[0]) and '"member_id":7919,' in str(listed[1])


@pytest.mark.parametrize("name", ["claims?.csv", "claims*.csv", "claims[ab].csv", "claimshttp:x.csv"])
def test_a_name_is_no_pattern(folder, name):
    (folder / "claims.csv").rename(folder / name)
    (folder / "claimsa.csv.bak").write_text("claim_id\nno claim\n")
    (folder / "claimsX.csv.bak").write_text("claim_id\nno claim\n")
    options = take_in.__defaults__[0]
    pattern = options.model_copy(update={"claims": options.claims.model_copy(update={"file": "claims*.csv"})})
    assert take_in(folder, pattern).report.rows_kept == {"members": 1, "claims": 1}


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content[:-6] + b"xx" + content[-4:],
        lambda content: content[:-1] + b"x",
        lambda content: content[:-9],
        lambda content: content + b"more",
        gzip.decompress,
    ],
    ids=["checksum", "length", "cut", "tail", "not packed"],
)
def test_a_damaged_gzip_file_is_named(folder, change):
    packed = gzip.compress((folder / "claims.csv").read_bytes())
    (folder / "claims.csv").unlink()
    (folder / "claims.csv.gz").write_bytes(change(packed))
    options = take_in.__defaults__[0]
    options = options.model_copy(update={"claims": options.claims.model_copy(update={"file": "claims.csv.gz"})})
    with pytest.raises(DeliveryError, match=r"claims\.csv\.gz: unreadable file: not a gz file, damaged"):
        take_in(folder, options)


@pytest.mark.parametrize("word", ["epoch", "infinity", "-infinity"])
def test_words_are_no_dates(tmp_path, word):
    """DuckDB takes them for 1900-01-01, whatever the format."""
    folder = write_tables(tmp_path / "in", [member("m1", age="", birth_date=word)], [claim("c1", paid_date=word)])
    assert {(count.table, count.rule) for count in take_in(folder).report.quarantined} == {
        ("members", "unparseable date"), ("claims", "unparseable date"),
    }  # fmt: skip


def test_a_folder_given_by_two_paths_would_count_twice(folder):
    with pytest.raises(DeliveryError, match="given twice"):
        Delivery("a", "tables", (folder, folder / ".." / folder.name)).digest()


@pytest.mark.parametrize("name", [b"caf\xe9.csv", b"two\nlines.csv"])
def test_a_name_that_cannot_be_shown_is_refused_before_anything_is_read(folder, name):
    (folder / os.fsdecode(name)).write_text("a\n")
    with pytest.raises(DeliveryError, match="^in: contains a file or folder whose name is not UTF-8") as raised:
        take_in(folder)
    str(raised.value).encode()


def test_any_other_name_is_none_of_our_business(folder):
    (folder / "Bildschirmfoto um 10.00\u202fUhr é.png").write_bytes(b"x")
    assert take_in(folder).report.rows_kept["claims"] == 1


class TestStaged:
    """Errors while files are read beside a store."""

    def test_of_duckdb_say_which_delivery_and_nothing_of_its_content(self, tmp_path):
        with pytest.raises(DeliveryError) as found, staged(tmp_path / "store.duckdb", list, "delivery k", ": why") as staging:
            staging.connection.execute("SELECT 'a value of somebody'::DATE")
        assert str(found.value) == "delivery k could not be read to its end (ConversionException): why"
        assert found.value.__cause__ is None

    def test_in_sql_of_ours_are_not_those_of_a_delivery_where_its_columns_are_known(self, tmp_path):
        with pytest.raises(DeliveryError, match="BinderException"), staged(tmp_path / "one.duckdb", list, "k") as staging:
            staging.connection.execute("SELECT nowhere")
        with pytest.raises(duckdb.BinderException), staged(tmp_path / "two.duckdb", list, "k", ours=OURS) as staging:
            staging.connection.execute("SELECT nowhere")

    def test_leave_no_copies_and_a_store_that_only_its_owner_can_read(self, tmp_path):
        store = tmp_path / "store.duckdb"
        with pytest.raises(DeliveryError), staged(store, list, "k") as staging:
            staging.connection.execute("CREATE TABLE made AS SELECT 1 AS one; SELECT nowhere")
        assert [path.name for path in tmp_path.iterdir()] == ["store.duckdb"] and store.stat().st_mode & 0o777 == 0o600
