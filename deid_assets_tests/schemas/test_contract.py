"""Contracts count what breaks them, by column and rule, and never show a value."""

import logging

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
import pandas as pd
import pandera.backends.ibis.builtin_checks  # before the rules are copied, which then know ibis
import pandera.errors
import pytest
from pandera.ibis import Check, Column, DataFrameSchema

from deid_assets.schemas.contract import Role, Rule, column, contract, matching, one_of, violations, within
from deid_assets.store.tables import Table, connect, write_table

CANARY = "CANARY-4711"

CONTRACT = contract(
    {
        "id": column("VARCHAR", Role.DIRECT_IDENTIFIER, "identifier"),
        "n": column("INTEGER", Role.MEASUREMENT, "number", within(0, 10), nullable=True, unit="days"),
        "sex": column("VARCHAR", Role.QUASI_IDENTIFIER, "sex", one_of(["F", "M"], "F or M"), nullable=True),
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
    assert (described.description, described.role, described.unit) == ("number", Role.MEASUREMENT, "days")


def test_a_contract_has_its_keys():
    assert CONTRACT.keys == (("id",),)
    assert contract({}, unique=["a", "b"]).keys == (("a", "b"),)
    assert contract({}, unique=[["a", "b"], ["c"]]).keys == (("a", "b"), ("c",))
    assert contract({}).keys == ()


def test_rules_of_one_name_are_counted_together(broken_by):
    rules = (within(0, None, "good"), within(-5, None, "good"))
    assert broken_by("INTEGER", rules, "-9", "-1", "1") == {"x: good": 3}


def test_nothing_is_one_of_no_values(broken_by):
    assert broken_by("VARCHAR", one_of([], "nothing"), "'a'", "NULL") == {"x: nothing": 1}


@pytest.fixture
def broken_by(tmp_path):
    """What is broken by a table of one column, whose values may be missing."""

    def made(kind: str, rules: Rule | tuple[Rule, ...], *values: str) -> dict[str, int]:
        held = contract({"x": column(kind, Role.OTHER, "x", rules, nullable=True)})
        return violations(table_of(tmp_path, kind, values), held)

    return made


def table_of(folder, kind: str, values) -> Table:
    table = Table(folder / "store.duckdb", "tests", "held")
    write_table(table, f"SELECT unnest([{', '.join(f'({value})::{kind}' for value in values)}]) AS x")
    return table


NUMBERS = ("0", "1", "-1", "10", "11", "1000000000", "NULL")
TEXTS = ("''", "'a'", "'b'", "'A'", "'ab'", "'1'", "'12'", "'1' || chr(10)", "chr(10) || '1'", "'1'' OR true'", "'%'", "NULL")
KINDS = {"INTEGER": dt.int32, "BIGINT": dt.int64, "DOUBLE": dt.float64, "VARCHAR": dt.string, "TINYINT": dt.int8}


def rows_of(failure_cases: object) -> int:
    return int(failure_cases.count().execute()) if isinstance(failure_cases, ir.Table) else len(failure_cases)


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize(
    ("kind", "rule", "check", "values"),
    [
        ("INTEGER", within(0, None), Check.ge(0), NUMBERS),
        ("BIGINT", within(-1, 10), Check.in_range(-1, 10), (*NUMBERS, "999999999999999")),
        ("BIGINT", within(10**14, 10**15 - 1), Check.in_range(10**14, 10**15 - 1), ("99999999999999", "999999999999999", "1")),
        ("DOUBLE", within(0, None), Check.ge(0), (*NUMBERS, "'nan'", "'inf'", "'-inf'", "'-1e-300'")),
        ("DOUBLE", within(0, 1), Check.in_range(0, 1), (*NUMBERS, "'nan'", "'inf'", "'1.0000001'")),
        ("DOUBLE", within(-1e6, 1e6), Check.in_range(-1e6, 1e6), (*NUMBERS, "-1e7")),
        ("TINYINT", one_of([0, 1], "0 or 1"), Check.isin([0, 1]), ("0", "1", "2", "NULL")),
        ("VARCHAR", one_of(["a", "1' OR true"], "known"), Check.isin(["a", "1' OR true"]), TEXTS),
        ("VARCHAR", one_of(["a"], "a"), Check.eq("a"), TEXTS),
        ("VARCHAR", matching("[0-9]+", "digits"), Check.str_matches("^[0-9]+$"), TEXTS),
        ("VARCHAR", matching("1|[0-9]2", "1 or 12"), Check.str_matches("^(1|[0-9]2)$"), TEXTS),
        ("VARCHAR", matching("[ab]?", "at most a letter"), Check.str_matches("^[ab]?$"), TEXTS),
    ],
    ids=lambda value: value.sql if isinstance(value, Rule) else "",
)
def test_as_many_rows_break_a_rule_as_pandera_finds(tmp_path, kind, rule, check, values, nullable):
    table = table_of(tmp_path, kind, values)
    with connect(table.file) as connection:
        rows = ibis.duckdb.from_connection(connection).table(table.name, database=table.schema)
        try:
            DataFrameSchema({"x": Column(KINDS[kind], check, nullable=nullable)}).validate(rows, lazy=True)
            found = {}
        except pandera.errors.SchemaErrors as errors:
            found = {
                rule.name if isinstance(error.check, Check) else error.check: rows_of(error.failure_cases)
                for error in errors.schema_errors
            }
    ours = violations(table, contract({"x": column(kind, Role.OTHER, "x", rule, nullable=nullable)}))
    assert ours == {f"x: {name}": number for name, number in found.items()}
    assert found or set(values) <= {"0", "1"}, "values of which some break the rule"
