"""Facts about NumPy, pandas, SQLAlchemy and pyarrow that the product relies on."""

import numpy as np
import pandas as pd
import pytest
from pyarrow import fs
from sqlalchemy.engine import make_url
from sqlalchemy.pool import NullPool, QueuePool


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
