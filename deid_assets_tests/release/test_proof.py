"""Every staged file is the judged rows and nothing else: whatever was done to it, nothing is published."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deid_assets.assets import publishing
from deid_assets.errors import ReleaseError
from deid_assets.methods.candidate.spreadsheet_text import RULES, broken_rules
from deid_assets.release.gate import proof
from deid_assets.release.gate.proof import oddities, same_rows
from deid_assets.release.publication import publish
from deid_assets.release.publication.export import read_back, write_both
from deid_assets.store.digests import bytes_digest
from deid_assets.store.tables import Table
from deid_assets_tests.release.making import describe, judge, publish_staged, stage_certificate

ROWS = """
    SELECT 'm' || (range % 40) AS MemberID, CASE range % 3 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE 'x' END AS Text,
           (range % 5)::INTEGER AS Number FROM range(300)"""


@pytest.fixture
def connection():
    with duckdb.connect() as opened:
        yield opened


def rewritten(change: Callable[[pa.Table], pa.Table], **options) -> Callable[[Path], None]:
    """Write data/T.parquet again, with another library, after a change."""

    def tamper(data: Path) -> None:
        path = data / "T.parquet"
        table = change(pq.read_table(path))
        pq.write_table(table, path, compression="zstd", **options)

    return tamper


def by_duckdb(sql: str, options: str = "") -> Callable[[Path], None]:
    """Write data/T.parquet again with DuckDB; `sql` selects from rows."""

    def tamper(data: Path) -> None:
        path = data / "T.parquet"
        with duckdb.connect() as connection:
            connection.execute("CREATE TABLE rows AS SELECT * FROM read_parquet(?)", [str(path)])
            connection.execute(f"COPY ({sql}) TO '{path}' (FORMAT parquet, COMPRESSION zstd{options})")

    return tamper


def csv_bytes(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def tamper(data: Path) -> None:
        path = data / "T.csv"
        path.write_bytes(change(path.read_bytes()))

    return tamper


def first_cell(table: pa.Table) -> pa.Table:
    cells = table["Number"].to_pylist()
    return table.set_column(2, "Number", pa.array([cells[0] + 1, *cells[1:]], pa.int32()))


def blanks_as_empty(table: pa.Table) -> pa.Table:
    return table.set_column(1, "Text", pa.array([cell or "" for cell in table["Text"].to_pylist()]))


ORDER = "ORDER BY MemberID NULLS FIRST, Text NULLS FIRST, Number NULLS FIRST"
PARQUET = {
    "a cell": rewritten(first_cell),
    "a column more": rewritten(lambda table: table.append_column("Secret", pa.array(["person"] * len(table)))),
    "a column less": rewritten(lambda table: table.drop_columns("Number")),
    "columns in another order": rewritten(lambda table: table.select(["Text", "MemberID", "Number"])),
    "a row more": rewritten(lambda table: pa.concat_tables([table, table.slice(0, 1)])),
    "row groups": rewritten(lambda table: table, row_group_size=100),
    "metadata": rewritten(lambda table: table.replace_schema_metadata({"note": "person 17"})),
    "another type": rewritten(lambda table: table.set_column(2, "Number", table["Number"].cast(pa.int64()))),
    "empty texts for missing ones": rewritten(blanks_as_empty),
    "rows in another order": rewritten(lambda table: table.take(list(reversed(range(len(table)))))),
    "the same rows by another writer": rewritten(lambda table: table),
    "required columns": by_duckdb(f"SELECT * FROM rows {ORDER}"),
    "metadata by the same writer": by_duckdb(f"SELECT * FROM rows {ORDER}", ", KV_METADATA {note: 'person 17'}"),
    "a dictionary of values that no row has": by_duckdb(
        f"SELECT MemberID, Text::ENUM('', 'x', 'person 17') AS Text, Number FROM rows {ORDER}"
    ),
    "no Parquet file": lambda data: (data / "T.parquet").write_bytes(b"PAR1"),
}
CSV = {
    "a row appended": csv_bytes(lambda content: content + b"zz,x,1\n"),
    "a row appended that is there": csv_bytes(lambda content: content + content.splitlines(keepends=True)[-1]),
    "an empty line": csv_bytes(lambda content: content + b"\n"),
    "a comment": csv_bytes(lambda content: content + b"# person 17\n"),
    "bytes after the last row": csv_bytes(lambda content: content + b"\0"),
    "no last line end": csv_bytes(lambda content: content[:-1]),
    "other line ends": csv_bytes(lambda content: content.replace(b"\n", b"\r\n")),
    "a byte order mark": csv_bytes(lambda content: b"\xef\xbb\xbf" + content),
    "another header": csv_bytes(lambda content: content.replace(b"MemberID", b"=1+1", 1)),
    "needless quotes": csv_bytes(lambda content: content.replace(b"x", b'"x"', 1)),
    "not UTF-8": csv_bytes(lambda content: content.replace(b"x", b"\xff", 1)),
    "a blank for an empty text": csv_bytes(lambda content: content.replace(b'""', b"", 1)),
    "rows in another order": csv_bytes(
        lambda content: b"".join([*content.splitlines(True)[:1], *reversed(content.splitlines(True)[1:])])
    ),
    "a row of too many cells": csv_bytes(lambda content: content + b"m1,x,1,person 17\n"),
}


def swapped_after_comparison(monkeypatch, suffix: str, tamper: Callable[[Path], None]) -> None:
    """Change a file when it was written and compared, and before its digest is taken."""

    def compared(connection, path, columns, digest):
        rows = read_back(connection, path, columns, digest)
        if path.suffix == suffix:
            tamper(path.parent)
        return rows

    monkeypatch.setattr(publish, "read_back", compared)


@pytest.mark.parametrize(("suffix", "attack"), [(".parquet", name) for name in PARQUET] + [(".csv", name) for name in CSV])
def test_a_file_that_was_swapped_after_it_was_compared_refuses(releases, connection, monkeypatch, suffix, attack):
    swapped_after_comparison(monkeypatch, suffix, (PARQUET if suffix == ".parquet" else CSV)[attack])
    with releases.stage("heritage") as staging:
        staging.write_table(connection, "T", ROWS, ["MemberID"])
        try:
            staging.read_into("T", Table(releases.folder.parent / "store.duckdb", "scratch", "t"))
            found, original = " ".join(refusal.text for refusal in staging.refusals()), None
        except ReleaseError as error:
            found, original = str(error), error.__context__
        assert original is None
        assert "data/T." in found and "person" not in found and "\n" not in found, found
        with pytest.raises(ReleaseError, match="not judged, or they were refused"):
            publish_staged(staging)
    assert list(releases.folder.glob("*/0*")) == []


def replaced_by(make: Callable[[Path], None]) -> Callable[[Path], None]:
    """Put something else in the place of a file."""

    def tamper(path: Path) -> None:
        path.unlink()
        make(path)

    return tamper


AFTERWARDS = {
    "a byte": (lambda path: path.write_bytes(b"?" + path.read_bytes()[1:]), "was changed after it was written"),
    "it is gone": (Path.unlink, r"cannot be read back \(FileNotFoundError\)"),
    "a link to the same bytes": (
        replaced_by(lambda path: path.symlink_to(path.with_suffix(".kept"))), r"cannot be read back \(OSError\)"
    ),
    "a pipe": (replaced_by(os.mkfifo), r"cannot be read back \(ReleaseError\)"),
    "a folder": (replaced_by(Path.mkdir), r"cannot be read back \(IsADirectoryError|ReleaseError\)"),
}  # fmt: skip


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("attack", AFTERWARDS)
def test_a_file_that_was_changed_after_it_was_judged_refuses(releases, connection, form, attack):
    tamper, message = AFTERWARDS[attack]
    with releases.stage("heritage") as staging:
        staging.write_table(connection, "T", ROWS)
        staging.read_into("T", Table(releases.folder.parent / "store.duckdb", "scratch", "t"))
        path = staging.folder / "data" / f"T.{form}"
        path.chmod(0o600)
        path.with_suffix(".kept").write_bytes(path.read_bytes())
        tamper(path)
        found = staging.refusals()
        assert {refusal.rule for refusal in found} == {"changed_file"}
        assert re.search(message, found[0].text), found


def test_a_table_that_two_libraries_read_differently_refuses(releases, connection):
    """Not a number equals nothing, so that nothing proves that both files have it in the same place."""
    with releases.stage("heritage") as staging:
        staging.write_table(connection, "T", "SELECT unnest([1.5, 'nan'::DOUBLE]) AS n")
        staging.read_into("T", Table(releases.folder.parent / "store.duckdb", "scratch", "t"))
        assert [(refusal.rule, refusal.name) for refusal in staging.refusals()] == [("unequal_formats", "data/T.csv")]


@pytest.mark.parametrize(
    "stored",
    [
        pa.table({"a": ["x"]}).replace_schema_metadata({"note": "person 17"}),
        pa.Table.from_arrays([pa.array(["x"]), pa.array(["x"])], names=["a", "a"]),
        pa.table({"b": ["x"]}),
        pa.table({"a": ["x"], "b": ["x"]}),
        pa.table({"a": ["x", "x"]}),
    ],
    ids=["metadata", "a name twice", "another name", "a column more", "a row more"],
)
def test_files_of_other_columns_or_rows_are_not_the_same(tmp_path, stored):
    csv, parquet = tmp_path / "T.csv", tmp_path / "T.parquet"
    csv.write_bytes(b"a\nx\n")
    pq.write_table(pa.table({"a": ["x"]}), parquet, store_schema=False)
    assert same_rows(csv.open("rb"), parquet.open("rb"))
    pq.write_table(stored, parquet, store_schema=stored.schema.metadata is not None)
    assert not same_rows(csv.open("rb"), parquet.open("rb"))


def test_files_of_another_user_are_found(tmp_path, monkeypatch):
    (tmp_path / "T.csv").write_bytes(b"a\n")
    assert oddities(tmp_path) == []
    monkeypatch.setattr(proof.os, "geteuid", lambda user=os.geteuid(): user + 1)
    assert oddities(tmp_path) == [". belongs to another user", "T.csv belongs to another user"]


def test_what_is_not_tampered_with_is_proven_and_published(releases, connection):
    with releases.stage("heritage") as staging:
        staging.write_table(connection, "T", ROWS, ["MemberID"])
        judge(staging, "T")
        publish_staged(staging)
    folder = releases.path("heritage", 1)
    assert sorted(path.name for path in (folder / "data").iterdir()) == ["T.csv", "T.parquet"]
    assert not list(folder.glob(".*"))


def test_a_table_that_nobody_judged_is_not_published(releases, connection):
    with releases.stage("heritage") as staging:
        staging.write_table(connection, "T", ROWS)
        assert [refusal.rule for refusal in staging.refusals()] == ["unjudged_file"]
        with pytest.raises(ReleaseError, match="not judged"):
            publish_staged(staging)


def test_a_table_staged_after_the_judgement_is_not_published(releases, connection):
    with releases.stage("heritage") as staging:
        staging.write_table(connection, "T", ROWS)
        judge(staging, "T")
        staging.write_table(connection, "Later", ROWS)
        with pytest.raises(ReleaseError, match="not judged"):
            publish_staged(staging)


def test_judged_rows_that_were_edited_since_are_not_those_of_the_files(releases, connection):
    judged = Table(releases.folder.parent / "store.duckdb", "scratch", "t")
    with releases.stage("heritage") as staging:
        staging.write_table(connection, "T", ROWS)
        staging.read_into("T", judged)
        with duckdb.connect(judged.file) as store:
            store.execute("UPDATE scratch.t SET Number = Number + 1 WHERE rowid = 0")
        assert {refusal.rule for refusal in staging.refusals()} == {"changed_file"}


@pytest.mark.parametrize("form", ["csv", "PARQUET"])
def test_a_table_does_not_come_as_a_file(releases, form):
    with releases.stage("heritage") as staging, pytest.raises(ReleaseError, match="stage it as one"):
        staging.write_file(f"data/T.{form}", b"a\n1\n")


ODD = {
    "a hidden file": lambda folder: (folder / "data" / ".x").write_text("x"),
    "a folder": lambda folder: (folder / "data" / "more").mkdir(),
    "a folder beside the data": lambda folder: (folder / "more").mkdir(),
    "a second name": lambda folder: os.link(folder / "data" / "T.csv", folder.parent.parent.parent / "kept.csv"),
    "an attribute": lambda folder: os.setxattr(folder / "data" / "T.csv", "user.note", b"person 17"),
    "an attribute of the folder": lambda folder: os.setxattr(folder / "data", "user.note", b"person 17"),
    "a pipe": lambda folder: os.mkfifo(folder / "data" / "pipe"),
    "a link": lambda folder: (folder / "data" / "link.csv").symlink_to("T.csv"),
}


def set_owner_writable(folder: Path) -> None:
    """An attribute can be set on a file that may be written."""
    os.chmod(folder / "data" / "T.csv", 0o644)


@pytest.mark.parametrize("odd", ODD)
def test_what_lies_beside_the_files_is_found_at_sealing(releases, connection, odd):
    with releases.stage("heritage") as staging:
        staging.write_table(connection, "T", ROWS)
        judge(staging, "T")
        stage_certificate(staging)
        set_owner_writable(staging.folder)
        try:
            ODD[odd](staging.folder)
        except OSError:
            pytest.skip("this file system has no such thing")
        with pytest.raises(ReleaseError, match="nothing is published") as raised:
            staging.publish(describe, staging.slot("2024", "b" * 64, "2024-01-01T00:00:00Z"))
    assert "person" not in str(raised.value)
    assert list(releases.folder.glob("*/0*")) == []


def test_a_file_that_is_no_table_is_named_by_what_was_rendered(releases):
    with releases.stage("heritage") as staging:
        file = staging.write_file("report.html", b"<p>report</p>")
        assert file.sha256 == bytes_digest(b"<p>report</p>")
        stage_certificate(staging)
        staging.write_file("data/x.txt", b"x")
        os.chmod(staging.folder / "report.html", 0o644)
        (staging.folder / "report.html").write_bytes(b"<p>REPORT</p>")
        with pytest.raises(ReleaseError, match="report.html is as listed"):
            staging.publish(describe, staging.slot("2024", "b" * 64, "2024-01-01T00:00:00Z"))


def test_the_digest_of_a_file_is_of_what_was_rendered_and_not_of_what_lies_there(releases, monkeypatch):
    """A file swapped before its digest is taken would be listed as it is."""
    create = publish.durable.create

    def swapped(path, content, mode):
        create(path, b"swapped" if path.name == "report.html" else content, mode)

    monkeypatch.setattr(publish.durable, "create", swapped)
    with releases.stage("heritage") as staging:
        staging.write_file("report.html", b"<p>report</p>")
        staging.write_file("data/x.txt", b"x")
        with pytest.raises(ReleaseError, match="report.html is as listed"):
            publish_staged(staging)


@pytest.mark.parametrize("value", [{"a": float("nan")}, {"a": {1, 2}}, {1: "a", "1": "b"}, {2: "a", 10: "b"}])
def test_json_that_reads_back_as_something_else_is_not_staged(releases, value):
    with releases.stage("heritage") as staging, pytest.raises(ReleaseError):
        staging.write_json("data/dates.json", value)


def test_json_is_staged_for_people_and_programs_to_read(releases):
    with releases.stage("heritage") as staging:
        file = staging.write_json("data/dates.json", {"b": [1, None], "a": "x"})
        content = (staging.folder / "data" / "dates.json").read_bytes()
    assert content == b'{\n "a": "x",\n "b": [\n  1,\n  null\n ]\n}\n' and file.sha256 == bytes_digest(content)


def test_nothing_of_rows_that_are_not_released_is_in_the_bytes(connection, tmp_path):
    """The same released rows give the same bytes, whatever other rows their source holds or held."""
    connection.execute(f"CREATE TABLE alone AS {ROWS}")
    connection.execute(f"CREATE TABLE among AS {ROWS}")
    connection.execute("INSERT INTO among SELECT 'm999', NULL, NULL FROM range(500)")
    connection.execute("INSERT INTO among SELECT 'm' || range, 'person ' || range, range FROM range(1000, 9000)")
    among = "SELECT * FROM among WHERE Number < 5 AND coalesce(Text, '') NOT LIKE 'person %'"
    written = []
    for name, source in (("alone", "SELECT * FROM alone"), ("among", among)):
        (tmp_path / name).mkdir()
        write_both(connection, source, tmp_path / name, "T", ["MemberID"])
        written.append([(tmp_path / name / f"T.{form}").read_bytes() for form in ("csv", "parquet")])
    assert written[0] == written[1]
    stored = pq.ParquetFile(tmp_path / "among" / "T.parquet")
    assert stored.metadata.metadata is None and all(column.nullable for column in stored.schema_arrow)


def test_bytes_follow_from_rows_whatever_their_order(connection, tmp_path):
    written = set()
    for number, order in enumerate(("range", "hash(range)", "range DESC")):
        folder = tmp_path / str(number)
        folder.mkdir()
        connection.execute(f"CREATE OR REPLACE TABLE t AS {ROWS} ORDER BY {order}")
        write_both(connection, "SELECT * FROM t", folder, "T")
        written.add((folder / "T.csv").read_bytes() + (folder / "T.parquet").read_bytes())
    assert len(written) == 1


@pytest.mark.parametrize("rows", [0, 1, 70_000])
def test_both_formats_are_compared_however_many_rows_there_are(connection, tmp_path, rows):
    source = (
        "SELECT 'm' || range AS m, range / 7.0::DOUBLE AS f, DATE '2020-01-01' + range::INTEGER AS d, "
        f"(range % 2)::TINYINT AS i FROM range({rows})"
    )
    write_both(connection, source, tmp_path, "T")
    csv, parquet = tmp_path / "T.csv", tmp_path / "T.parquet"
    assert same_rows(csv.open("rb"), parquet.open("rb"))
    if rows:
        csv.write_bytes(csv.read_bytes().replace(b"m0,", b"m1,", 1))
        assert not same_rows(csv.open("rb"), parquet.open("rb"))


def test_missing_values_of_a_single_column_are_rows_too(releases, connection):
    with releases.stage("heritage") as staging:
        staging.write_table(connection, "T", "SELECT unnest(['x', NULL, '', NULL]) AS Text")
        judge(staging, "T")
        assert (staging.folder / "data" / "T.csv").read_bytes() == b'Text\n\n\n""\nx\n'


UNSAFE = [
    "=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1+1", "\uff0bx", "\uff0dx", "\uff20x", " =1", "\u00a0=1",
    "\u200b=1", '"=1', "\u2212x", "=cmd|' /C calc'!A0", "cmd|' /C calc'!A0", "a;=1+1", 'a; "@x', "a\tb", "a\nb", "a\rb",
    "a\x00b", "a\x1bb", "\u202eabc", "a\u2066b", "\ufeffa", "a\x85b", "a\u2028b", "-", "+", "a\U000e0041",
]  # fmt: skip
SAFE = [
    "5", "-5", "+3.2e4", "-1.5E-3", "-1,234.5", "-12 %", "+.5", "65+", "1- 2 weeks", "United-States", "a@b.org", "x=1",
    "tea; -5", "a|b", "'=1+1", "<b>", "\u00e9\u05d0", "0- 1 month", "",
]  # fmt: skip


@pytest.mark.parametrize("text", UNSAFE)
def test_a_text_that_another_program_would_run_or_hide_refuses(releases, connection, text):
    assert broken_rules(text)
    connection.execute("CREATE TABLE t AS SELECT unnest(?::VARCHAR[]) AS Likes, 1 AS n", [["tea", text, text]])
    with releases.stage("heritage") as staging:
        staging.write_table(connection, "T", "SELECT * FROM t")
        staging.read_into("T", Table(releases.folder.parent / "store.duckdb", "scratch", "t"))
        found = staging.refusals()
    assert {refusal.rule for refusal in found} == {"unsafe_text"} and {refusal.measured for refusal in found} == {2.0}
    for refusal, rule in zip(found, broken_rules(text), strict=True):
        assert refusal.text.startswith(f"data/T: column Likes, fewer than 11 cells: {rule}; change the texts") and rule in RULES
    failure = publishing.refusal(found)
    assert "against" not in failure.description, "an exact number of cells is not shown"
    assert {one["measured"] for one in failure.metadata[publishing.REQUIREMENTS].value} == {None}
    assert not [name for name in failure.metadata if name.startswith("unsafe_text")]


def test_other_texts_and_numbers_are_published(releases, connection):
    assert [text for text in SAFE if broken_rules(text)] == []
    connection.execute("CREATE TABLE t AS SELECT unnest(?::VARCHAR[]) AS Likes, -1 AS n", [SAFE])
    with releases.stage("heritage") as staging:
        staging.write_table(connection, "T", "SELECT * FROM t")
        judge(staging, "T")
