"""How to define a contract, and how to check a table against it inside DuckDB."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from deid_assets.methods.preparation.pseudonyms import DIGITS
from deid_assets.sources.delivery import MOST_YEARS
from deid_assets.store.tables import Table, connect, literal, quoted

Type = Literal["BIGINT", "BOOLEAN", "DATE", "DOUBLE", "INTEGER", "TINYINT", "VARCHAR"]
"""Types of columns, as DuckDB calls them."""


class Role(StrEnum):
    """Role of a column, in the terms of disclosure control."""

    DIRECT_IDENTIFIER = "direct identifier"
    PSEUDONYM = "pseudonym"
    QUASI_IDENTIFIER = "quasi-identifier"
    SENSITIVE_ATTRIBUTE = "sensitive attribute"
    MEASUREMENT = "measurement"
    OTHER = "other"


@dataclass(frozen=True)
class Rule:
    """What a value of a column must be.

    Attributes
    ----------
    name
        In words, after "must be".
    sql
        The condition, after the column's name.
    """

    name: str
    sql: str


@dataclass(frozen=True)
class Column:
    """A column of a contract: its type, its role, what it means, and its allowed values.

    Attributes
    ----------
    nullable
        Whether values may be missing; those that are break no rule.
    """

    dtype: Type
    role: Role
    description: str
    rules: tuple[Rule, ...] = ()
    nullable: bool = False
    unit: str = ""

    def broken(self, name: str) -> list[tuple[str, str]]:
        """The name of each rule, and the condition of the rows that break it."""
        missing = f"{name} IS NULL OR isnan({name})" if self.dtype == "DOUBLE" else f"{name} IS NULL"
        given = [(rule.name, f"{name} IS NOT NULL AND ({name} {rule.sql}) IS NOT TRUE") for rule in self.rules]
        return given if self.nullable else [("not_nullable", missing), *given]


@dataclass(frozen=True)
class Contract:
    """A contract: exactly these columns, and the keys of the table, each one or several columns."""

    columns: Mapping[str, Column]
    keys: tuple[tuple[str, ...], ...] = ()

    def with_columns(self, further: Mapping[str, Column]) -> "Contract":
        """The same contract, with further columns."""
        return replace(self, columns={**self.columns, **further})


def column(
    dtype: Type,
    role: Role,
    description: str,
    rules: Rule | Sequence[Rule] = (),
    *,
    nullable: bool = False,
    unit: str = "",
) -> Column:
    """One column of a contract."""
    return Column(dtype, role, description, (rules,) if isinstance(rules, Rule) else tuple(rules), nullable, unit)


def within(least: float, most: float | None, name: str | None = None) -> Rule:
    """The rule on numbers from one to another; None: without a largest."""
    if most is None:
        return Rule(name or f"at least {least}", f">= {least}")
    return Rule(name or f"{least} to {most}", f"BETWEEN {least} AND {most}")


def one_of(values: Iterable[object], what: str) -> Rule:
    """The rule on values of which there are a few; `what` follows "must be"."""
    listed = [literal(value) if isinstance(value, str) else str(value) for value in values]
    return Rule(what, f"IN ({', '.join(listed) or 'NULL'})")


def matching(pattern: str, what: str) -> Rule:
    """The rule on texts that a regular expression describes from beginning to end; `what` follows "must be"."""
    return Rule(what, f"SIMILAR TO {literal(pattern)}")


YEAR_NUMBER = within(1, MOST_YEARS)
"""The number of a year of claims."""


def text(
    description: str, rules: Rule | Sequence[Rule] = (), role: Role = Role.OTHER, *, nullable: bool = False, unit: str = ""
) -> Column:
    """A column of text."""
    return column("VARCHAR", role, description, rules, nullable=nullable, unit=unit)


def identifier(description: str, *, nullable: bool = False) -> Column:
    """A column of identifiers as they were delivered."""
    return text(description, role=Role.DIRECT_IDENTIFIER, nullable=nullable)


def pseudonym(description: str, *, nullable: bool = False) -> Column:
    """A column of the pseudonyms that stand for identifiers."""
    rule = within(10 ** (DIGITS - 1), 10**DIGITS - 1, f"a pseudonym of {DIGITS} digits")
    return column("BIGINT", Role.PSEUDONYM, description, rule, nullable=nullable)


def flag(description: str) -> Column:
    """A column of yes and no."""
    return column("BOOLEAN", Role.OTHER, description)


def count(description: str, unit: str = "", *, least: int = 0, nullable: bool = False) -> Column:
    """A column of counts."""
    return column("BIGINT", Role.MEASUREMENT, description, within(least, None), nullable=nullable, unit=unit)


_FROM_0 = within(0, None)


def number(description: str, rule: Rule = _FROM_0, dtype: Type = "BIGINT", *, nullable: bool = False, unit: str = "") -> Column:
    """A column of whole numbers that measure nothing, such as places and levels."""
    return column(dtype, Role.OTHER, description, rule, nullable=nullable, unit=unit)


def measure(description: str, rules: Rule | Sequence[Rule] = (), *, nullable: bool = False, unit: str = "") -> Column:
    """A column of measured numbers that need not be whole."""
    return column("DOUBLE", Role.MEASUREMENT, description, rules, nullable=nullable, unit=unit)


def share(description: str, unit: str = "share", *, nullable: bool = False) -> Column:
    """A column of measured shares or probabilities."""
    return measure(description, within(0, 1), nullable=nullable, unit=unit)


def quasi_identifier(
    meaning: str, limits: tuple[int, int | None] | None, values: Sequence[str] | None = None, unit: str = ""
) -> Column:
    """A column that an adversary may know, blank if unknown: whole numbers within limits, one of some texts, or any text."""
    if limits is not None:
        return column("INTEGER", Role.QUASI_IDENTIFIER, meaning, within(*limits), nullable=True, unit=unit)
    listed = sorted(values or ())
    error = " or ".join(listed) if len(listed) < 4 else f"one of {len(listed)} values"
    return text(meaning, () if values is None else one_of(listed, error), Role.QUASI_IDENTIFIER, nullable=True)


def days(role: Role, description: str) -> Column:
    """A column of days, blank if unknown."""
    return column("INTEGER", role, description, within(0, None), nullable=True, unit="days")


def contract(columns: Mapping[str, Column], unique: Sequence[str] | Sequence[Sequence[str]] = ()) -> Contract:
    """A contract; `unique` names the columns that together are a key, or several keys."""
    keys = [tuple(key) for key in unique if not isinstance(key, str)]
    return Contract(columns, tuple(keys or ([tuple(map(str, unique))] if unique else [])))


def domains_contract(quasi_identifier: Column, levels: int) -> Contract:
    """The contract of the values of quasi-identifiers, with their classes at so many levels."""
    return contract(
        {
            "quasi_identifier": quasi_identifier,
            "base_code": number("number of the value, from 0", dtype="INTEGER"),
            "value": text("the value as text; empty: it is missing", role=Role.QUASI_IDENTIFIER),
            "level": number("level of the hierarchy", within(0, levels - 1), "INTEGER"),
            "level_code": number("number of its class at this level, from 0", dtype="INTEGER"),
            "label": text("what is published for it at this level; blank: nothing", role=Role.QUASI_IDENTIFIER, nullable=True),
        },
        # The kernel reads by number and the release by value: neither may be duplicated.
        unique=[["quasi_identifier", "level", "base_code"], ["quasi_identifier", "level", "value"]],
    )


def violations(table: Table, expected: Contract) -> dict[str, int]:
    """Check a table against its contract and count violations.

    Returns
    -------
    dict of str to int
        How many rows break each rule, by "column: rule"; empty if the contract is satisfied. Never a value. Rules on the values
        of a column are not asked if it has another type.
    """
    kinds, rules = table.columns(), []
    broken = {f"{name}: column_in_schema": 1 for name in kinds if name not in expected.columns}
    for name, stated in expected.columns.items():
        if kinds.get(name) == stated.dtype:
            rules += [(f"{name}: {rule}", f"count(*) FILTER (WHERE {rows})") for rule, rows in stated.broken(quoted(name))]
        else:
            broken[f"{name}: dtype" if name in kinds else f"{name}: column_in_dataframe"] = 1
    rules += [("table: multiple_fields_uniqueness", _repeated(table, key)) for key in expected.keys if set(key) <= set(kinds)]
    if rules:
        with connect(table.file, read_only=True) as connection:
            (numbers,) = connection.execute(f"SELECT {', '.join(sql for _, sql in rules)} FROM {table.sql}").fetchall()
        for (rule, _), number in zip(rules, numbers, strict=True):
            broken[rule] = broken.get(rule, 0) + number
    return {rule: number for rule, number in broken.items() if number}


def _repeated(table: Table, key: Sequence[str]) -> str:
    """How many rows share their key with others, as a query of one number."""
    columns = ", ".join(quoted(name) for name in key)
    return f"(SELECT coalesce(sum(n), 0)::BIGINT FROM (SELECT count(*) AS n FROM {table.sql} GROUP BY {columns}) WHERE n > 1)"
