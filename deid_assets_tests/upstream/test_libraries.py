"""Facts about pandera, NumPy, pandas, SQLAlchemy and pyarrow that the product relies on."""

import duckdb
import ibis
import ibis.expr.datatypes as dt
import numpy as np
import pandas as pd
import pandera.errors
import pytest
from pandera.ibis import Check, Column, DataFrameSchema
from pyarrow import fs
from sqlalchemy.engine import make_url
from sqlalchemy.pool import NullPool, QueuePool


@pytest.fixture
def table():
    connection = duckdb.connect()

    def made(sql: str):
        connection.execute(f"CREATE OR REPLACE TABLE t AS {sql}")
        return ibis.duckdb.from_connection(connection).table("t")

    yield made
    connection.close()


TWICE = "SELECT unnest(['a', 'a', 'b']) AS id"


class TestPandera:
    def test_unique_of_a_column_is_ignored(self, table):
        DataFrameSchema({"id": Column(dt.string, unique=True)}).validate(table(TWICE), lazy=True)

    def test_unique_of_the_table_is_not(self, table):
        with pytest.raises(pandera.errors.SchemaErrors):
            DataFrameSchema({"id": Column(dt.string)}, unique=["id"]).validate(table(TWICE), lazy=True)

    def test_its_errors_carry_values(self, table):
        """Why contracts report counts only, and never chain the original error."""
        schema = DataFrameSchema({"id": Column(dt.string, Check.isin(["b"]))})
        with pytest.raises(pandera.errors.SchemaErrors) as caught:
            schema.validate(table("SELECT 'a person' AS id"), lazy=True)
        assert "a person" in str(caught.value.schema_errors[0].failure_cases)

    def test_the_column_is_named_by_the_schema_of_the_error(self, table):
        schema = DataFrameSchema({"id": Column(dt.string, Check.isin(["b"]))})
        with pytest.raises(pandera.errors.SchemaErrors) as caught:
            schema.validate(table("SELECT 'a' AS id"), lazy=True)
        assert caught.value.schema_errors[0].schema.name == "id"

    def test_missing_values_pass_the_checks_of_a_nullable_column(self, table):
        schema = DataFrameSchema({"n": Column(dt.int32, Check.in_range(0, 1), nullable=True)})
        schema.validate(table("SELECT unnest([0, NULL, 1]::INTEGER[]) AS n"), lazy=True)


def test_numpy_counts_the_bits_of_words():
    """NumPy 2 brought it; the kernel stands on it."""
    words = np.array([0, 1, 0b1011, 2**64 - 1], dtype=np.uint64)
    assert np.bitwise_count(words).tolist() == [0, 1, 3, 64]


def test_philox_blocks_do_not_depend_on_what_was_drawn_before():
    """Streams are counter-based: block 3 is the same whoever makes it, and whether 0, 1 and 2 were made."""

    def block(number):
        return np.random.Generator(np.random.Philox(key=[1, 2], counter=[0, 0, 0, number])).random(4).tolist()

    alone = block(3)
    assert [block(number) for number in range(4)][3] == alone
    assert block(2) != alone


def test_text_of_pandas_is_str():
    """pandas 3 reads text as `str`, whose missing value is NaN, not None."""
    series = pd.Series(["a", None])
    assert series.dtype == "str"
    assert series.isna().tolist() == [False, True]


def test_sqlalchemy_takes_psycopg_3_unless_an_address_names_psycopg2():
    """Dagster's storage on PostgreSQL is written for psycopg2."""
    drivers = {one: make_url(f"{one}://host/name").get_dialect().driver for one in ("postgresql", "postgresql+psycopg2")}
    assert drivers == {"postgresql": "psycopg", "postgresql+psycopg2": "psycopg2"}


def test_dagster_opens_a_connection_for_each_event_unless_it_is_told_to_keep_them():
    """Which `deid` does: it takes a tenth of the time."""
    pytest.importorskip("dagster_postgres", reason="the extra `postgres` is not installed")
    from dagster_postgres.event_log import PostgresEventLogStorage

    storage = PostgresEventLogStorage("postgresql+psycopg2://host/name", should_autocreate_tables=False)
    assert type(storage._engine.pool) is NullPool
    storage.optimize_for_webserver(statement_timeout=0, pool_recycle=3600, max_overflow=20)
    assert type(storage._engine.pool) is QueuePool


def test_pyarrow_moves_a_file_over_another_one_of_a_disk(tmp_path):
    """A copy on a disk gets its name once it is complete."""
    for name in ("draft", "name"):
        (tmp_path / name).write_text(name)
    fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()).move("draft", "name")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("name", "draft")]
