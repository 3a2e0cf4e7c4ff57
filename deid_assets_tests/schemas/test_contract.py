"""Contracts count what breaks them, by column and rule, and never show a value."""

import logging

import ibis
import ibis.expr.datatypes as dt
import pandas as pd
import pytest
from pandera.config import ValidationDepth
from pandera.ibis import Check

from deid_assets.schemas import contract as contract_module
from deid_assets.schemas.contract import Role, column, contract, violations
from deid_assets.store.tables import Table, connect, write_table

CANARY = "CANARY-4711"

CONTRACT = contract(
    {
        "id": column(dt.string, Role.DIRECT_IDENTIFIER, "identifier"),
        "n": column(dt.int32, Role.MEASUREMENT, "number", Check.in_range(0, 10, error="0 to 10"), nullable=True, unit="days"),
        "sex": column(dt.string, Role.QUASI_IDENTIFIER, "sex", Check.isin(["F", "M"], error="F or M"), nullable=True),
    },
    unique=["id"],
)


@pytest.fixture
def broken(tmp_path, capfd, caplog):
    """What is broken by a table; nothing of it may be said anywhere else."""

    def made(content: str | pd.DataFrame) -> dict[str, int]:
        table = Table(tmp_path / "store.duckdb", "tests", "held")
        write_table(table, content)
        with caplog.at_level(logging.DEBUG):
            found = violations(table, CONTRACT)
        printed = capfd.readouterr()
        assert CANARY not in f"{found} {printed.out} {printed.err} {caplog.text}"
        return found

    return made


def rows(*values: str) -> str:
    return "SELECT id, n::INTEGER AS n, sex FROM (VALUES " + ", ".join(values) + ") AS t(id, n, sex)"


def test_a_table_that_keeps_its_contract_breaks_nothing(broken):
    assert broken(rows("('a', 0, 'F')", "('b', 10, 'M')", "('c', NULL, NULL)")) == {}


def test_rows_are_counted_by_column_and_rule(broken):
    found = broken(rows(f"('{CANARY}', 11, 'F')", "('b', -1, 'X')", "('c', 99, NULL)"))
    assert found == {"n: 0 to 10": 3, "sex: F or M": 1}


def test_a_value_that_is_missing_where_it_may_not_be(broken):
    assert broken(rows("(NULL, 1, 'F')", "('b', 1, 'F')")) == {"id: not_nullable": 1}


def test_a_key_that_occurs_twice(broken):
    found = broken(rows(f"('{CANARY}', 1, 'F')", f"('{CANARY}', 2, 'F')", "('b', 1, 'F')"))
    assert found == {"table: multiple_fields_uniqueness": 2}


def test_text_where_a_number_belongs(broken):
    found = broken(f"SELECT 'a' AS id, '{CANARY}' AS n, 'F' AS sex")
    assert found["n: dtype"] == 1


def test_a_number_of_another_width(broken):
    assert broken("SELECT 'a' AS id, 5::BIGINT AS n, 'F' AS sex") == {"n: dtype": 1}


def test_a_missing_column(broken):
    assert broken("SELECT 'a' AS id, 5::INTEGER AS n") == {"sex: column_in_dataframe": 1}


def test_a_column_too_many(broken):
    assert broken(f"SELECT 'a' AS id, 5::INTEGER AS n, 'F' AS sex, '{CANARY}' AS more") == {"more: column_in_schema": 1}


def test_several_faults_are_told_at_once(broken):
    found = broken(f"SELECT unnest(['{CANARY}', '{CANARY}']) AS id, 77::INTEGER AS n")
    assert found["sex: column_in_dataframe"] == 1
    assert found.get("n: 0 to 10", 2) == 2


@pytest.mark.parametrize("text", ["object", "str"])
def test_frames_of_text_are_held_the_same_way(broken, text):
    frame = pd.DataFrame(
        {
            "id": pd.Series([CANARY, "b"], dtype=text),
            "n": pd.Series([1, 99], dtype="int32"),
            "sex": pd.Series(["F", None], dtype=text),
        }
    )
    assert broken(frame) == {"n: 0 to 10": 1}


def test_a_table_without_rows_keeps_its_contract(broken):
    """A delivery in which nobody has to be removed is a good one."""
    assert broken(rows("('a', 1, 'F')") + " WHERE false") == {}


def test_a_table_without_rows_still_needs_its_columns(broken):
    assert broken("SELECT 'a' AS id, 5::INTEGER AS n WHERE false")["sex: column_in_dataframe"] == 1


def test_roles_and_units_are_kept_with_the_column():
    described = CONTRACT.columns["n"]
    assert (described.description, described.metadata) == ("number", {"role": "measurement", "unit": "days"})


def test_a_contract_allows_its_columns_and_no_others():
    assert CONTRACT.strict is True
    assert CONTRACT.unique == ["id"]


KINDS = contract(
    {
        "least": column(dt.float64, Role.OTHER, "at least 0", Check.ge(0, error="at least 0")),
        "range": column(dt.int32, Role.OTHER, "0 to 10", Check.in_range(0, 10, error="0 to 10")),
        "listed": column(dt.string, Role.OTHER, "a or b", Check.isin(["a", "b"], error="a or b"), nullable=True),
        "text": column(dt.string, Role.OTHER, "digits", Check.str_matches(r"^[0-9]+$", error="digits"), nullable=True),
        "one": column(dt.int32, Role.OTHER, "1", Check.eq(1, error="1"), nullable=True),
        "even": column(
            dt.int32, Role.OTHER, "even", Check(lambda data: data.table[data.key] % 2 == 0, error="even"), nullable=True
        ),
    }
)
"""Every kind of rule that contracts use."""

GOOD = {"least": "0::DOUBLE", "range": "10::INTEGER", "listed": "'a'", "text": "'1'", "one": "1::INTEGER", "even": "2::INTEGER"}


@pytest.mark.parametrize(
    ("name", "value", "broken"),
    [
        (None, None, {}),
        *((name, "NULL", {}) for name in ("listed", "text", "one", "even")),
        ("least", "-0.5", {"least: at least 0": 1}),
        ("least", "NULL", {"least: not_nullable": 1}),
        ("least", "'nan'", {"least: not_nullable": 1}),
        ("range", "11", {"range: 0 to 10": 1}),
        ("range", "NULL", {"range: not_nullable": 1}),
        ("listed", "'c'", {"listed: a or b": 1}),
        ("text", "'x'", {"text: digits": 1}),
        ("one", "2", {"one: 1": 1}),
        ("even", "3", {"even: even": 1}),
    ],
)
def test_one_query_for_all_rules_finds_what_pandera_finds_rule_by_rule(tmp_path, name, value, broken):
    table = Table(tmp_path / "store.duckdb", "tests", "held")
    good = ", ".join(f"{sql} AS {column}" for column, sql in GOOD.items())
    kinds = {column: sql.split("::")[1] if "::" in sql else "VARCHAR" for column, sql in GOOD.items()}
    changed = GOOD if name is None else {**GOOD, name: f"{value}::{kinds[name]}"}
    bad = ", ".join(f"{sql} AS {column}" for column, sql in changed.items())
    write_table(table, f"SELECT {good} UNION ALL SELECT {bad}")
    with connect(table.file) as connection:
        rows = ibis.duckdb.from_connection(connection).table(table.name, database=table.schema)
        alone = contract_module._by_pandera(rows, KINDS, ValidationDepth.SCHEMA_AND_DATA)
        assert contract_module._all_rules_hold(rows, KINDS) == (not alone)
    assert violations(table, KINDS) == alone == broken


@pytest.mark.parametrize(
    ("rule", "values"),
    [
        (Check.unique_values_eq([True], error="all"), "(NULL::BOOLEAN)"),
        (Check(lambda data: data.table[data.key].max(), error="all"), "(NULL::BOOLEAN)"),
        (Check(lambda data: data.table.mutate(never=data.table[data.key] & False), error="all"), "(true)"),
        (Check(lambda value: value > 1, element_wise=True, error="all"), "(0)"),
    ],
    ids=["a truth", "a number of the table", "another column", "value by value"],
)
def test_a_rule_that_does_not_answer_row_by_row_is_left_to_pandera(tmp_path, rule, values):
    table = Table(tmp_path / "store.duckdb", "tests", "held")
    write_table(table, f"SELECT x FROM (VALUES {values}) AS t(x)")
    kind = dt.int32 if rule.element_wise else dt.boolean
    held = contract({"x": column(kind, Role.OTHER, "x", rule, nullable=True)})
    assert violations(table, held) == {"x: all": 1}
