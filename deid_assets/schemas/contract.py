"""How a contract is written, and how a table is held against it inside DuckDB."""

from collections.abc import Sequence
from enum import StrEnum

import ibis
import ibis.expr.types as ir
import pandas as pd
import pandera.errors
from pandera.ibis import Check, Column, DataFrameSchema

from deid_assets.store import Table, connect


class Role(StrEnum):
    """What a column is, in the words of disclosure control."""

    DIRECT_IDENTIFIER = "direct identifier"
    PSEUDONYM = "pseudonym"
    QUASI_IDENTIFIER = "quasi-identifier"
    SENSITIVE_ATTRIBUTE = "sensitive attribute"
    MEASUREMENT = "measurement"
    OTHER = "other"


def column(
    dtype,
    role: Role,
    description: str,
    checks: Check | Sequence[Check] = (),
    *,
    nullable: bool = False,
    unit: str = "",
) -> Column:
    """One column of a contract: its type, its role, its unit, and the values it may hold."""
    return Column(
        dtype,
        list(checks) if isinstance(checks, Sequence) else [checks],
        nullable=nullable,
        description=description,
        metadata={"role": role.value, "unit": unit},
    )


def contract(columns: dict[str, Column], unique: Sequence[str] = ()) -> DataFrameSchema:
    """A contract: these columns and no others. `unique` names the columns that together are a key.

    Uniqueness is stated for the whole table: on DuckDB tables pandera passes over the `unique` of a single column.
    """
    return DataFrameSchema(columns, strict=True, unique=list(unique) or None)


def violations(table: Table, expected: DataFrameSchema) -> dict[str, int]:
    """Hold a table against its contract and count what breaks it.

    Returns
    -------
    dict of str to int
        How many rows break each rule, by "column: rule"; empty if the contract is kept. Never a value: pandera's own
        errors carry the failing values and are read here for their counts only.
    """
    with connect(table.file) as connection:
        expression = ibis.duckdb.from_connection(connection).table(table.name, database=table.schema)
        try:
            expected.validate(expression, lazy=True)
        except pandera.errors.SchemaErrors as errors:
            broken: dict[str, int] = {}
            for error in errors.schema_errors:
                rule = _rule(error)
                broken[rule] = broken.get(rule, 0) + _count(error.failure_cases)
            return broken
    return {}


def _rule(error: pandera.errors.SchemaError) -> str:
    if isinstance(error.check, Check):
        rule = error.check.error or error.check.name
    else:
        rule = str(error.check).split("(")[0]
    if rule in ("column_in_schema", "column_in_dataframe"):  # here, and only here, the failure case is a column's name
        return f"{error.failure_cases}: {rule}"
    return f"{error.schema.name or 'table'}: {rule}"


def _count(failure_cases: object) -> int:
    if isinstance(failure_cases, ir.Table):
        return int(failure_cases.count().execute())
    if isinstance(failure_cases, (pd.DataFrame, pd.Series)):
        return len(failure_cases)
    return 1
