"""How to define a contract, and how to check a table against it inside DuckDB."""

from collections.abc import Iterable, Sequence
from enum import StrEnum

import duckdb
import ibis
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import ibis.expr.types as ir
import pandas as pd
import pandera.backends.ibis.builtin_checks  # before any contract copies its rules, which then know ibis
import pandera.errors
from pandera.api.ibis.types import IbisData
from pandera.backends.ibis.checks import IbisCheckBackend
from pandera.config import ValidationDepth, config_context
from pandera.ibis import Check, Column, DataFrameSchema

from deid_assets.methods.preparation.pseudonyms import DIGITS
from deid_assets.sources.delivery import MOST_YEARS
from deid_assets.store.tables import Table, connect, quoted


class Role(StrEnum):
    """Role of a column, in the terms of disclosure control."""

    DIRECT_IDENTIFIER = "direct identifier"
    PSEUDONYM = "pseudonym"
    QUASI_IDENTIFIER = "quasi-identifier"
    SENSITIVE_ATTRIBUTE = "sensitive attribute"
    MEASUREMENT = "measurement"
    OTHER = "other"


def column(
    dtype: dt.DataType,
    role: Role,
    description: str,
    checks: Check | Sequence[Check] = (),
    *,
    nullable: bool = False,
    unit: str = "",
) -> Column:
    """One column of a contract: its type, its role, its unit, and its allowed values."""
    return Column(
        dtype,
        list(checks) if isinstance(checks, Sequence) else [checks],
        nullable=nullable,
        description=description,
        metadata={"role": role.value, "unit": unit},
    )


def within(least: int, most: int | None) -> Check:
    """The rule on whole numbers from one to another; None: without a largest."""
    return (
        Check.ge(least, error=f"at least {least}") if most is None else Check.in_range(least, most, error=f"{least} to {most}")
    )


def one_of(values: Iterable[object], what: str) -> Check:
    """The rule on values of which there are a few; `what` follows "must be"."""
    return Check.isin(list(values), error=what)


YEAR_NUMBER = within(1, MOST_YEARS)
"""The number of a year of claims."""


def text(
    description: str, rules: Check | Sequence[Check] = (), role: Role = Role.OTHER, *, nullable: bool = False, unit: str = ""
) -> Column:
    """A column of text."""
    return column(dt.string, role, description, rules, nullable=nullable, unit=unit)


def identifier(description: str, *, nullable: bool = False) -> Column:
    """A column of identifiers as they were delivered."""
    return text(description, role=Role.DIRECT_IDENTIFIER, nullable=nullable)


def pseudonym(description: str, *, nullable: bool = False) -> Column:
    """A column of the pseudonyms that stand for identifiers."""
    rule = Check.in_range(10 ** (DIGITS - 1), 10**DIGITS - 1, error=f"a pseudonym of {DIGITS} digits")
    return column(dt.int64, Role.PSEUDONYM, description, rule, nullable=nullable)


def flag(description: str) -> Column:
    """A column of yes and no."""
    return column(dt.boolean, Role.OTHER, description)


def count(description: str, unit: str = "", *, least: int = 0, nullable: bool = False) -> Column:
    """A column of counts."""
    return column(dt.int64, Role.MEASUREMENT, description, within(least, None), nullable=nullable, unit=unit)


_FROM_0 = within(0, None)


def number(
    description: str, rule: Check = _FROM_0, dtype: dt.DataType = dt.int64, *, nullable: bool = False, unit: str = ""
) -> Column:
    """A column of whole numbers that measure nothing, such as places and levels."""
    return column(dtype, Role.OTHER, description, rule, nullable=nullable, unit=unit)


def measure(description: str, rules: Check | Sequence[Check] = (), *, nullable: bool = False, unit: str = "") -> Column:
    """A column of measured numbers that need not be whole."""
    return column(dt.float64, Role.MEASUREMENT, description, rules, nullable=nullable, unit=unit)


def share(description: str, unit: str = "share", *, nullable: bool = False) -> Column:
    """A column of measured shares or probabilities."""
    return measure(description, within(0, 1), nullable=nullable, unit=unit)


def quasi_identifier(
    meaning: str, limits: tuple[int, int | None] | None, values: Sequence[str] | None = None, unit: str = ""
) -> Column:
    """A column that an adversary may know, blank if unknown: whole numbers within limits, one of some texts, or any text."""
    if limits is not None:
        return column(dt.int32, Role.QUASI_IDENTIFIER, meaning, within(*limits), nullable=True, unit=unit)
    listed = sorted(values or ())
    error = " or ".join(listed) if len(listed) < 4 else f"one of {len(listed)} values"
    return text(meaning, () if values is None else one_of(listed, error), Role.QUASI_IDENTIFIER, nullable=True)


def days(role: Role, description: str) -> Column:
    """A column of days, blank if unknown."""
    return column(dt.int32, role, description, within(0, None), nullable=True, unit="days")


def contract(columns: dict[str, Column], unique: Sequence[str] | Sequence[Sequence[str]] = ()) -> DataFrameSchema:
    """A contract: exactly these columns. `unique` names the columns that together are a key, or several keys.

    Uniqueness is defined for the whole table, because pandera ignores `unique` of a single column on DuckDB tables.
    """
    # Several keys are more than pandera takes; it is never asked, and `violations` reads either.
    return DataFrameSchema(columns, strict=True, unique=list(unique) or None)  # type: ignore[arg-type]


def domains_contract(quasi_identifier: Column, levels: int) -> DataFrameSchema:
    """The contract of the values of quasi-identifiers, with their classes at so many levels."""
    return contract(
        {
            "quasi_identifier": quasi_identifier,
            "base_code": number("number of the value, from 0", dtype=dt.int32),
            "value": text("the value as text; empty: it is missing", role=Role.QUASI_IDENTIFIER),
            "level": number("level of the hierarchy", within(0, levels - 1), dt.int32),
            "level_code": number("number of its class at this level, from 0", dtype=dt.int32),
            "label": text("what is published for it at this level; blank: nothing", role=Role.QUASI_IDENTIFIER, nullable=True),
        },
        # The kernel reads by number and the release by value: neither may be duplicated.
        unique=[["quasi_identifier", "level", "base_code"], ["quasi_identifier", "level", "value"]],
    )


def violations(table: Table, expected: DataFrameSchema) -> dict[str, int]:
    """Check a table against its contract and count violations.

    A table without rows must have the columns; no other rule can be broken.

    Returns
    -------
    dict of str to int
        How many rows break each rule, by "column: rule"; empty if the contract is satisfied. Never a value: pandera's
        own errors contain the failing values, and only their counts are read here.
    """
    with connect(table.file) as connection:
        filled = connection.execute(f"SELECT 1 FROM {table.sql} LIMIT 1").fetchone() is not None
        expression = ibis.duckdb.from_connection(connection).table(table.name, database=table.schema)
        broken = _broken_columns(expression, expected, filled)
        keys = [key for key in _keys(expected) if set(key) <= set(expression.columns)]
        repeated = sum(_repeated(connection, table, key) for key in keys)
    return broken | {"table: multiple_fields_uniqueness": repeated} if repeated else broken


def _broken_columns(expression: ir.Table, expected: DataFrameSchema, filled: bool) -> dict[str, int]:
    """Violations of single-column rules, without keys."""
    found = _by_pandera(expression, expected, ValidationDepth.SCHEMA_ONLY)
    # Without rows, DuckDB answers null to "do all rows satisfy the rule", which pandera takes for a no.
    if not filled or (not found and _all_rules_hold(expression, expected)):
        return found
    return _by_pandera(expression, expected, ValidationDepth.SCHEMA_AND_DATA)


def _all_rules_hold(expression: ir.Table, expected: DataFrameSchema) -> bool:
    """Whether every row of a table with the right columns satisfies every rule, in one query.

    Pandera compiles and runs a query for every rule, which takes most of the time of a contract. What each rule asks is
    still pandera's. Only a clear yes to all of them counts; where rules are broken, pandera counts the rows.
    """
    held = []
    for name, rules in expected.columns.items():
        values = expression[name]
        if not rules.nullable:
            missing = values.isnull() | values.isnan() if values.type().is_floating() else values.isnull()
            held.append((~missing).all())
        for check in rules.checks:
            satisfied = _satisfied(expression, name, check)
            if satisfied is None:
                return False
            held.append(satisfied.all())
    if not held:
        return True
    answers = expression.aggregate(**{f"rule_{i}": rule for i, rule in enumerate(held)}).to_pyarrow().to_pylist()
    return len(answers) == 1 and all(answer is True for answer in answers[0].values())


def _satisfied(expression: ir.Table, name: str, check: Check) -> ir.BooleanColumn | None:
    """Whether each row satisfies a rule, as a column of the table itself; None if the rule does not answer row by row.

    Pandera's own rules return a projection of the table, which pandera joins to the table again.
    """
    if check.element_wise:
        return None
    satisfied = IbisCheckBackend(check).check_fn(IbisData(expression, name))
    if isinstance(satisfied, ir.Table) and satisfied.columns == (name,) and isinstance(satisfied.op(), ops.Project):
        satisfied = satisfied.op().values[name].to_expr()
    if not isinstance(satisfied, ir.BooleanColumn):
        return None
    return satisfied | expression[name].isnull() if check.ignore_na else satisfied


def _by_pandera(expression: ir.Table, expected: DataFrameSchema, depth: ValidationDepth) -> dict[str, int]:
    broken: dict[str, int] = {}
    # Both settings are explicit, because the environment may tell pandera to check less, or nothing.
    with config_context(validation_enabled=True, validation_depth=depth):
        try:
            DataFrameSchema(expected.columns, strict=bool(expected.strict)).validate(expression, lazy=True)
        except pandera.errors.SchemaErrors as errors:
            for error in errors.schema_errors:
                rule = _rule(error)
                broken[rule] = broken.get(rule, 0) + _count(error.failure_cases)
    return broken


def _keys(expected: DataFrameSchema) -> list[list[str]]:
    """The keys of a contract, each as its columns."""
    unique = expected.unique or []
    return [unique] if unique and isinstance(unique[0], str) else unique


def _repeated(connection: duckdb.DuckDBPyConnection, table: Table, key: Sequence[str]) -> int:
    """Count the rows that share their key with others; a GROUP BY, because pandera's window takes twice the time."""
    columns = ", ".join(quoted(name) for name in key)
    ((repeated,),) = connection.execute(
        f"""SELECT coalesce(sum(n), 0)::BIGINT
            FROM (SELECT count(*) AS n FROM {table.sql} GROUP BY {columns} HAVING count(*) > 1)"""
    ).fetchall()
    return int(repeated)


def _rule(error: pandera.errors.SchemaError) -> str:
    check = error.check
    rule = (check.error or check.name) if isinstance(check, Check) else str(check).split("(")[0]
    if rule in ("column_in_schema", "column_in_dataframe"):  # here, and only here, the failure case is a column's name
        return f"{error.failure_cases}: {rule}"
    return f"{error.schema.name or 'table'}: {rule}"


def _count(failure_cases: object) -> int:
    if isinstance(failure_cases, ir.Table):
        return int(failure_cases.count().execute())
    if isinstance(failure_cases, (pd.DataFrame, pd.Series)):
        return len(failure_cases)
    return 1
