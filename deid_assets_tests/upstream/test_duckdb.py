"""Facts about DuckDB that the product relies on."""

import hashlib
import subprocess
import sys

import duckdb
import pandas as pd
import pytest


@pytest.fixture
def connection():
    made = duckdb.connect()
    yield made
    made.close()


class TestBoundParameters:
    """Text from a delivery or a policy is bound, never written into SQL; so a parameter must work everywhere."""

    def test_create_table_as(self, connection):
        connection.execute("CREATE TABLE t AS SELECT $1 AS a, $2 AS b", ["x'; --", 3])
        assert connection.execute("SELECT * FROM t").fetchall() == [("x'; --", 3)]

    def test_a_list_in_a_create_table_as(self, connection):
        connection.execute("CREATE TABLE t AS SELECT unnest(?::VARCHAR[]) AS a", [["x", "y"]])
        assert connection.execute("SELECT a FROM t").fetchall() == [("x",), ("y",)]
        connection.execute("CREATE OR REPLACE TABLE t AS SELECT unnest(?::VARCHAR[]) AS a", [[]])
        assert connection.execute("SELECT a FROM t").fetchall() == []

    def test_one_parameter_used_twice(self, connection):
        sql = "CREATE TABLE t AS SELECT CASE WHEN v > $1 THEN $1 ELSE v END AS v FROM range(5) AS r(v)"
        connection.execute(sql, [2])
        assert connection.execute("SELECT v FROM t").fetchall() == [(0,), (1,), (2,), (2,), (2,)]

    def test_a_null_parameter_caps_nothing(self, connection):
        sql = "CREATE TABLE t AS SELECT CASE WHEN v > $1 THEN $1 ELSE v END::INTEGER AS v FROM range(3) AS r(v)"
        connection.execute(sql, [None])
        assert connection.execute("SELECT v FROM t").fetchall() == [(0,), (1,), (2,)]

    def test_limit(self, connection):
        assert connection.execute("SELECT v FROM range(9) AS r(v) ORDER BY v LIMIT ?", [2]).fetchall() == [(0,), (1,)]

    @pytest.mark.parametrize(("reader", "ending"), [("read_csv", "csv"), ("read_parquet", "parquet")])
    def test_the_path_of_a_file(self, connection, tmp_path, reader, ending):
        file = tmp_path / f"it's; a file.{ending}"
        connection.execute("COPY (SELECT 1 AS a) TO '{}'".format(str(file).replace("'", "''")))
        connection.execute(f"CREATE TABLE t AS SELECT * FROM {reader}(?)", [str(file)])
        assert connection.execute("SELECT a FROM t").fetchall() == [(1,)]


class TestNulls:
    def test_least_and_greatest_skip_null(self, connection):
        """`least(x, cap)` gives the cap where x is missing: top codes are written as CASE for that reason."""
        found = connection.execute("SELECT least(NULL, 3), greatest(NULL, 3), least(NULL, NULL)").fetchall()
        assert found == [(3, 3, None)]

    def test_a_case_keeps_null(self, connection):
        sql = "SELECT CASE WHEN v > 3 THEN 3 ELSE v END FROM (VALUES (NULL), (2), (9)) AS t(v)"
        assert connection.execute(sql).fetchall() == [(None,), (2,), (3,)]

    def test_is_not_distinct_from_joins_null_with_null(self, connection):
        sql = "SELECT count(*) FROM (SELECT NULL::INTEGER AS a) x JOIN (SELECT NULL::INTEGER AS a) y ON x.a {} y.a"
        assert connection.execute(sql.format("IS NOT DISTINCT FROM")).fetchall() == [(1,)]
        assert connection.execute(sql.format("=")).fetchall() == [(0,)]

    def test_not_in_a_list_with_null_is_never_true(self, connection):
        assert connection.execute("SELECT 1 WHERE 'a' NOT IN (SELECT NULL::VARCHAR)").fetchall() == []

    def test_count_of_a_column_leaves_null_out_and_max_of_nothing_is_null(self, connection):
        sql = "SELECT count(*), count(v), max(v) FILTER (v > 99) FROM (VALUES (NULL), (2)) AS t(v)"
        assert connection.execute(sql).fetchall() == [(2, 1, None)]

    def test_ranks_put_null_where_they_are_told(self, connection):
        sql = "SELECT v, dense_rank() OVER (ORDER BY v NULLS FIRST) - 1 FROM (VALUES ('b'), (NULL), ('a')) AS t(v)"
        assert dict(connection.execute(sql).fetchall()) == {None: 0, "a": 1, "b": 2}


class TestFrames:
    def test_text_columns_of_nothing_but_nulls_stay_text_only_as_str(self, connection):
        """Why frames of text are of pandas' `str`: as `object` the column gets no type that a contract knows."""
        frame = pd.DataFrame({"as_object": pd.Series([None], dtype=object), "as_str": pd.Series([None], dtype="str")})
        connection.register("frame", frame)
        connection.execute("CREATE TABLE t AS SELECT * FROM frame")
        kinds = {row[0]: row[1] for row in connection.execute("DESCRIBE t").fetchall()}
        assert kinds["as_str"] == "VARCHAR"
        assert kinds["as_object"] != "VARCHAR"

    def test_missing_text_arrives_as_null(self, connection):
        connection.register("frame", pd.DataFrame({"a": pd.Series(["x", None], dtype="str")}))
        assert connection.execute("SELECT a FROM frame").fetchall() == [("x",), (None,)]


class TestFiles:
    def test_the_same_file_opens_twice_in_a_process(self, tmp_path):
        file = str(tmp_path / "store.duckdb")
        one, other = duckdb.connect(file), duckdb.connect(file)
        one.execute("CREATE TABLE t AS SELECT 1 AS a")
        assert other.execute("SELECT a FROM t").fetchall() == [(1,)]
        one.close()
        other.close()

    def test_another_process_cannot_open_it(self, tmp_path):
        """Why a run holds a lock from its first step on."""
        file = str(tmp_path / "store.duckdb")
        held = duckdb.connect(file)
        script = "import duckdb, sys\ntry: duckdb.connect(sys.argv[1])\nexcept duckdb.IOException: sys.exit(7)"
        try:
            assert subprocess.run([sys.executable, "-c", script, file], check=False).returncode == 7
        finally:
            held.close()

    def test_a_read_only_transaction_writes_nothing(self, tmp_path):
        connection = duckdb.connect(str(tmp_path / "store.duckdb"))
        connection.execute("BEGIN TRANSACTION READ ONLY")
        with pytest.raises(duckdb.Error, match="read-only"):
            connection.execute("CREATE TABLE t AS SELECT 1 AS a")
        connection.close()

    @pytest.mark.parametrize("options", ["FORMAT parquet, COMPRESSION zstd", "FORMAT csv, HEADER"])
    def test_ordered_files_are_byte_identical_for_any_number_of_threads(self, tmp_path, options):
        digests = set()
        for threads in (1, 2, 4):
            connection = duckdb.connect()
            connection.execute(f"SET threads = {threads}")
            file = tmp_path / f"{threads}"
            rows = "SELECT hash(i) AS id, i % 7 AS a, CASE WHEN i % 3 = 0 THEN NULL ELSE 'v' || i % 11 END AS b"
            connection.execute(f"COPY ({rows} FROM range(250000) AS r(i) ORDER BY ALL) TO '{file}' ({options})")
            connection.close()
            digests.add(hashlib.sha256(file.read_bytes()).hexdigest())
        assert len(digests) == 1


def test_sha256_of_text_is_that_of_its_utf8(connection):
    """The keyed orders of sample and truncation stand on it."""
    found = connection.execute("SELECT sha256('aé' || '|' || ?)", ["b"]).fetchall()
    assert found == [(hashlib.sha256("aé|b".encode()).hexdigest(),)]


def test_the_difference_of_two_dates_is_in_days(connection):
    """The rule about newborns counts with it."""
    assert connection.execute("SELECT DATE '2001-03-01' - DATE '2001-02-01'").fetchall() == [(28,)]
