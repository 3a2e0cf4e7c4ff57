"""The restricted store: short connections, whole tables or none, text that never becomes SQL, owner-only files."""

import stat
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from deid_assets.errors import StoreError
from deid_assets.store import durable, tables
from deid_assets.store.tables import (
    Query,
    Table,
    connect,
    drop_schema,
    fingerprint,
    held_open,
    interrupt_queries,
    quoted,
    require_plain_tables,
    write_table,
    write_view,
)
from deid_assets_tests.processes import WAIT


@pytest.fixture
def table(tmp_path) -> Table:
    return Table(tmp_path / "store" / "delivery.duckdb", "intake", "members")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestIdentifiers:
    @pytest.mark.parametrize("name", ["claims", "_x", "Days_2", "SELECT"])
    def test_letters_digits_and_underscores(self, name):
        assert quoted(name) == f'"{name}"'

    @pytest.mark.parametrize("name", ["", "2x", 'x"; DROP TABLE y; --', "a b", "a.b", "é", "x\n", "x'"])
    def test_anything_else_is_refused_and_not_repeated(self, name):
        with pytest.raises(StoreError) as caught:
            quoted(name)
        assert not name.strip() or name not in str(caught.value)

    def test_a_table_with_such_a_name_cannot_be_written_into_sql(self, tmp_path):
        with pytest.raises(StoreError):
            Table(tmp_path / "x.duckdb", "intake", "members; --").sql  # noqa: B018


class TestWriting:
    def test_a_select_a_query_and_a_frame(self, table):
        assert write_table(table, "SELECT 1 AS a UNION ALL SELECT 2") == 2
        assert write_table(table, Query("SELECT unnest(?::VARCHAR[]) AS a", (["x'; --", "y", None],))) == 3
        assert table.frame()["a"].isna().tolist() == [False, False, True]
        assert write_table(table, pd.DataFrame({"a": pd.Series(["x", None], dtype="str"), "n": [1.5, None]})) == 2
        assert table.columns() == {"a": "VARCHAR", "n": "DOUBLE"}

    def test_a_table_is_replaced_whole(self, table):
        write_table(table, "SELECT 1 AS a, 2 AS b")
        write_table(table, "SELECT 'x' AS c")
        assert table.columns() == {"c": "VARCHAR"}
        assert table.count() == 1

    def test_a_table_may_be_made_from_its_own_rows(self, table):
        write_table(table, "SELECT 1 AS a")
        assert write_table(table, f"SELECT a + 1 AS a FROM {table.sql}") == 1
        assert table.frame()["a"].tolist() == [2]

    def test_an_error_leaves_the_last_table_as_it_was(self, table):
        write_table(table, "SELECT 1 AS a")
        with pytest.raises(duckdb.Error):
            write_table(table, "SELECT 'x'::INTEGER AS a")
        assert table.frame()["a"].tolist() == [1]
        assert write_table(table, "SELECT 3 AS a") == 1, "and the file can be written again"

    def test_an_error_before_the_first_table_leaves_none(self, table):
        with pytest.raises(duckdb.Error):
            write_table(table, "SELECT error('no') AS a FROM range(3)")
        with pytest.raises(duckdb.CatalogException):
            table.count()

    def test_a_table_without_rows(self, table):
        assert write_table(table, "SELECT 1 AS a WHERE false") == 0
        assert (table.count(), table.columns()) == (0, {"a": "INTEGER"})

    def test_the_order_of_rows_is_kept(self, table):
        write_table(table, "SELECT i AS a FROM range(200000) AS r(i) ORDER BY i DESC")
        assert table.query(f"SELECT a FROM {table.sql} LIMIT 2")["a"].tolist() == [199_999, 199_998]


class TestReading:
    def test_parameters_are_bound(self, table):
        write_table(table, "SELECT unnest(['a', 'b']) AS a")
        assert table.query(f"SELECT a FROM {table.sql} WHERE a = ?", ["b"])["a"].tolist() == ["b"]
        assert table.arrays(f"SELECT count(*) AS n FROM {table.sql} WHERE a = ?", ["' OR true"])["n"].tolist() == [0]

    def test_missing_values_come_as_a_mask(self, table):
        write_table(table, "SELECT unnest([1, NULL]::INTEGER[]) AS a")
        found = table.arrays(f"SELECT a FROM {table.sql}")["a"]
        assert found.mask.tolist() == [False, True]

    def test_reading_cannot_write(self, table):
        write_table(table, "SELECT 1 AS a")
        with pytest.raises(duckdb.Error, match="read-only"):
            table.query(f"CREATE TABLE intake.other AS SELECT * FROM {table.sql}")

    def test_a_frame_in_an_order(self, table):
        write_table(table, "SELECT unnest([3, 1, 2]) AS a")
        assert table.frame(order_by="a")["a"].tolist() == [1, 2, 3]

    def test_two_readers_and_a_writer_of_one_process(self, table):
        write_table(table, "SELECT 1 AS a")
        with connect(table.file, read_only=True) as one, connect(table.file, read_only=True) as other:
            for connection in (one, other):
                assert connection.execute(f"SELECT a FROM {table.sql}").fetchall() == [(1,)]
        write_table(table, "SELECT 2 AS a")
        assert table.frame()["a"].tolist() == [2]


class TestConnections:
    def test_they_are_closed_when_something_goes_wrong_inside(self, table):
        write_table(table, "SELECT 1 AS a")
        with pytest.raises(RuntimeError), connect(table.file) as connection:
            raise RuntimeError
        with pytest.raises(duckdb.ConnectionException):
            connection.execute("SELECT 1")

    def test_a_file_that_another_process_holds_is_a_store_error_that_names_no_folder(self, table):
        write_table(table, "SELECT 1 AS a")
        script = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
        other = subprocess.Popen(
            [sys.executable, "-c", script, str(table.file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            assert other.stdout.readline() == "held\n"
            with pytest.raises(StoreError, match="delivery.duckdb is in use by another process") as caught:
                table.count()
            assert str(table.file.parent) not in str(caught.value)
        finally:
            other.communicate("")

    def test_large_results_spill_beside_the_store_whatever_its_folder_is_called(self, tmp_path):
        table = Table(tmp_path / "it's a folder" / "delivery.duckdb", "intake", "members")
        write_table(table, "SELECT 1 AS a")
        with connect(table.file) as connection:
            spill = connection.execute("SELECT current_setting('temp_directory')").fetchall()[0][0]
        assert Path(spill) == table.file.parent / "spill"


class TestMemory:
    def test_duckdb_takes_what_the_setting_says(self, tmp_path, monkeypatch):
        monkeypatch.setenv("DEID_DUCKDB_GB", "1.5")
        with connect(tmp_path / "a.duckdb") as connection:
            assert connection.execute("SELECT current_setting('memory_limit')").fetchall() == [("1.3 GiB",)]

    def test_by_default_it_takes_what_the_processors_need_and_less_on_a_small_machine(self, monkeypatch):
        monkeypatch.delenv("DEID_DUCKDB_GB", raising=False)
        pages = {"SC_PHYS_PAGES": 16_000_000, "SC_PAGE_SIZE": 1_000}
        monkeypatch.setattr(tables.os, "sysconf", pages.get)
        for processors, expected in ((1, 1e9), (2, 1e9), (6, 3e9), (8, 4e9), (64, 4e9)):
            monkeypatch.setattr(tables.os, "cpu_count", lambda processors=processors: processors)
            assert tables.memory_limit() == expected
        pages["SC_PHYS_PAGES"] = 5_000_000
        assert tables.memory_limit() == 3e9

    @pytest.mark.parametrize("value", ["4GB", "0.2", "-1", "nan", "10001"])
    def test_what_is_no_number_of_gigabytes_is_refused(self, tmp_path, monkeypatch, value):
        monkeypatch.setenv("DEID_DUCKDB_GB", value)
        said = f"DEID_DUCKDB_GB is '{value}'; it must be a number of gigabytes from 0.25 to 10,000, or unset"
        with pytest.raises(StoreError, match=said), connect(tmp_path / "a.duckdb"):
            pass


class TestOwnership:
    def test_folder_and_file_are_for_their_owner_only(self, table):
        write_table(table, "SELECT 1 AS a")
        assert (mode(table.file.parent), mode(table.file)) == (0o700, 0o600)

    def test_a_folder_that_others_could_read_is_closed(self, tmp_path):
        folder = tmp_path / "a" / "b"
        folder.mkdir(parents=True, mode=0o755)
        assert durable.owner_only(folder) == folder
        assert mode(folder) == 0o700


class TestViewsAndSchemas:
    def test_a_view_shows_its_table_as_it_is_now(self, table):
        write_table(table, "SELECT 1 AS a")
        view = write_view(Table(table.file, "scratch", "shown"), f"SELECT a + 1 AS b FROM {table.sql}")
        write_table(table, "SELECT 5 AS a")
        assert view.frame()["b"].tolist() == [6]
        write_view(view, f"SELECT a AS c FROM {table.sql}")
        assert view.columns() == {"c": "INTEGER"}

    def test_a_schema_goes_with_all_that_is_in_it(self, table):
        write_table(table, "SELECT 1 AS a")
        scratch = Table(table.file, "scratch", "t")
        write_table(scratch, "SELECT 1 AS a")
        write_view(Table(table.file, "scratch", "v"), f"SELECT * FROM {scratch.sql}")
        drop_schema(table.file, "scratch")
        drop_schema(table.file, "scratch")
        assert table.count() == 1
        with pytest.raises(duckdb.CatalogException):
            scratch.count()


class TestFingerprint:
    KEY = b"a key of the tests"

    def of(self, table: Table, sql: str, key: bytes = KEY) -> str:
        write_table(table, sql)
        return fingerprint(table, key)

    def test_it_is_that_of_the_rows_in_whatever_order(self, table):
        rows = "SELECT * FROM (VALUES (1, 'a', NULL), (2, 'b', 0.5), (1, 'a', NULL)) AS t(n, x, y)"
        assert self.of(table, rows) == self.of(table, f"{rows} ORDER BY n DESC")

    @pytest.mark.parametrize(
        "changed",
        [
            "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS t(n, x)",
            "SELECT * FROM (VALUES (1, 'a'), (1, 'a'), (2, 'b'), (2, 'b')) AS t(n, x)",
            "SELECT * FROM (VALUES (1, 'a'), (1, 'a'), (2, NULL)) AS t(n, x)",
            "SELECT * FROM (VALUES (1, 'a'), (1, 'b'), (2, 'a')) AS t(n, x)",
            "SELECT * FROM (VALUES (1, 'a'), (1, 'a'), (2, 'b')) AS t(m, x)",
            "SELECT * FROM (VALUES (1::BIGINT, 'a'), (1, 'a'), (2, 'b')) AS t(n, x)",
            "SELECT * FROM (VALUES (1, 'a')) AS t(n, x) WHERE false",
        ],
    )
    def test_whatever_changes_the_table_changes_it(self, table, changed):
        original = self.of(table, "SELECT * FROM (VALUES (1, 'a'), (1, 'a'), (2, 'b')) AS t(n, x)")
        assert self.of(table, changed) != original

    def test_the_columns_count_where_there_is_no_row(self, table):
        original = self.of(table, "SELECT 1 AS n WHERE false")
        for changed in ("SELECT 1 AS n, 1 AS more WHERE false", "SELECT 1 AS m WHERE false", "SELECT 'a' AS n WHERE false"):
            assert self.of(table, changed) != original

    @pytest.mark.parametrize("name", ["t", "T", "found", "whole_row", "hash"])
    def test_no_name_of_a_column_hides_the_others(self, table, name):
        """DuckDB takes the name of a table for its whole row only where no column has that name."""
        original = self.of(table, f"SELECT 1 AS {name}, 'a' AS x")
        assert self.of(table, f"SELECT 1 AS {name}, 'b' AS x") != original

    def test_it_tells_nothing_without_the_key(self, table):
        assert self.of(table, "SELECT 1 AS a") != self.of(table, "SELECT 1 AS a", b"another key")


class TestHeldOpen:
    def test_a_store_that_is_not_there_is_not_made(self, table):
        with held_open(table.file):
            assert not table.file.exists()

    def test_tables_are_written_and_read_meanwhile(self, table):
        write_table(table, "SELECT 1 AS a")
        with held_open(table.file):
            write_table(table, "SELECT 2 AS a")
            assert table.frame()["a"].tolist() == [2]
        assert table.frame()["a"].tolist() == [2]


class TestPlainTables:
    @pytest.mark.parametrize(
        ("statement", "kind"),
        [
            ("CREATE MACRO main.min(x) AS 100", "macros"),
            ("CREATE MACRO duckdb_functions() AS TABLE SELECT 1 AS x WHERE false", "macros"),
            ("CREATE VIEW intake.claims AS SELECT current_query() LIKE '%whole row%' AS a", "views"),
            ("CREATE TABLE intake.claims (a INT, b BOOLEAN GENERATED ALWAYS AS (current_query() = 'x'))", "generated columns"),
            ("CREATE TYPE main.mood AS ENUM ('a')", "types"),
        ],
    )
    def test_whatever_may_answer_differently_is_refused(self, table, statement, kind):
        write_table(table, "SELECT 1 AS a")
        with connect(table.file) as connection:
            connection.execute(statement)
        with pytest.raises(StoreError, match=f"contains {kind}, which this product never creates"):
            require_plain_tables(table.file)

    def test_tables_and_the_views_of_a_step_are_no_obstacle(self, table):
        write_table(table, "SELECT 1 AS a")
        write_view(Table(table.file, "scratch", "shown"), f"FROM {table.sql}")
        require_plain_tables(table.file)


def test_a_handle_holds_no_rows(table):
    write_table(table, "SELECT 'a person' AS name")
    assert "a person" not in repr(table)


@pytest.mark.parametrize("make", [lambda file: file.write_bytes(b"no store" * 1000), lambda file: file.mkdir()])
def test_a_store_file_that_is_none_is_named_with_what_to_do(tmp_path, make):
    make(tmp_path / "people.duckdb")
    said = "store people.duckdb is damaged, or is not a store: remove it, and run again"
    with pytest.raises(StoreError, match=said), connect(tmp_path / "people.duckdb"):
        pass


def test_a_query_of_another_thread_is_interrupted(tmp_path):
    """One that would take hours; it counts as at work once the connection is known."""
    ended = []

    def work():
        try:
            with connect(tmp_path / "people.duckdb") as connection:
                working.set()
                connection.execute(
                    "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE (a.range * b.range) % 7 = 3"
                )
        except Exception as error:
            ended.append(type(error))

    working = threading.Event()
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert working.wait(WAIT)
    while thread.is_alive():
        interrupt_queries()
        thread.join(0.1)
    assert ended == [duckdb.InterruptException]
