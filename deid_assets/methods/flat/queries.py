"""Flat tables in the store: records generalized, and the sizes of their classes counted by DuckDB.

The counts here share no code with `classes`, which searches; the gate measures with them what is published.
"""

from collections.abc import Mapping, Sequence

from deid_assets.methods.candidate.spreadsheet_text import neutralized_sql
from deid_assets.methods.population.value_domains import label_joins
from deid_assets.store.tables import Table, quoted


def generalized_records(records: Table, domains: Table, levels: Mapping[str, int], others: Sequence[str] = ()) -> str:
    """SELECT record, the label of every quasi-identifier at its level, and other columns as they are.

    Missing values are a class of their own and stay missing, but for levels at which the domains put them into a class.
    """
    labels, joins = label_joins(domains, levels, records.columns(), "r", missing_is_value=True)
    selects = ["r.record", *(f"{label} AS {quoted(column)}" for label, column in zip(labels, levels, strict=True))]
    selects += [f"r.{quoted(column)}" for column in others]
    return f"SELECT {', '.join(selects)} FROM {records.sql} AS r {joins}"


def class_sizes(rows: str, population: str, columns: Sequence[str]) -> str:
    """SELECT every row with `class_size`: rows of the population that agree with it on all columns, missing with missing.

    Parameters
    ----------
    rows, population
        What to write after FROM.
    """
    names = ", ".join(quoted(column) for column in columns)
    same = " AND ".join(f"r.{quoted(column)} IS NOT DISTINCT FROM p.{quoted(column)}" for column in columns)
    return f"""
        SELECT r.*, coalesce(p.class_size, 0) AS class_size FROM {rows} AS r
        LEFT JOIN (SELECT {names}, count(*) AS class_size FROM {population} GROUP BY ALL) AS p ON {same}"""


def classes_beyond(rows: str, population: str, columns: Sequence[str]) -> str:
    """SELECT `beyond` of each class of which there are more rows than the population holds: it lacks some of them.

    Parameters
    ----------
    rows, population
        What to write after FROM.
    """
    names = ", ".join(quoted(column) for column in columns)
    # No released column begins with an underscore.
    released = f"(SELECT {names}, count(*) AS _rows FROM {rows} GROUP BY ALL)"
    sized = class_sizes(released, population, columns)
    return f"SELECT _rows - class_size AS beyond FROM ({sized}) WHERE _rows > class_size"


def small_records(records: Table, population: Table | None, domains: Table, levels: Mapping[str, int], k: int) -> str:
    """SELECT the record numbers in classes of fewer than k: in the population, or in the table where there is none."""
    rows = generalized_records(records, domains, levels)
    hiding = rows if population is None else generalized_records(population, domains, levels)
    sized = class_sizes(f"({rows})", f"({hiding})", list(levels))
    return f"SELECT record FROM ({sized}) WHERE class_size < {int(k)} ORDER BY record"


def blanks(records: Table, columns: Sequence[str], among: str | None = None) -> dict[str, int]:
    """How many records have no value, for each column.

    Parameters
    ----------
    among
        SELECT of the record numbers that are counted; all where there is none.
    """
    if not columns:
        return {}
    counted = ", ".join(f"count(*) FILTER ({quoted(column)} IS NULL) AS {quoted(column)}" for column in columns)
    where = f" WHERE record IN (SELECT record FROM ({among}))" if among else ""
    found = records.query(f"SELECT {counted} FROM {records.sql}{where}")
    return {column: int(found[column].iloc[0]) for column in columns}


def released_records(
    records: Table,
    suppressed: Table,
    domains: Table,
    levels: Mapping[str, int],
    others: Sequence[str],
    neutralize: bool = False,
) -> str:
    """SELECT the rows to be published: without record numbers, ordered by what they say.

    Parameters
    ----------
    neutralize
        Whether texts of the other columns get an apostrophe where a spreadsheet would take them for a formula.
    """
    rows = generalized_records(records, domains, levels, others)
    shown = [f"{neutralized_sql(quoted(column)) if neutralize else quoted(column)} AS {quoted(column)}" for column in others]
    names = ", ".join([*map(quoted, levels), *shown])
    return f"SELECT {names} FROM ({rows}) WHERE record NOT IN (SELECT record FROM {suppressed.sql}) ORDER BY ALL"


def published_records(
    published: Table, records: Table, suppressed: Table, domains: Table, levels: Mapping[str, int], others: Sequence[str]
) -> str:
    """SELECT record and the other columns of every published row: the record that it was made of.

    Published rows have no numbers. Of rows that are alike in everything any may be any of the records alike: what is
    measured of values and labels is the same. A row that no record gives has no number.

    Parameters
    ----------
    published
        Rows as they were read back from the files.
    """
    columns = [*levels, *others]
    names = ", ".join(quoted(column) for column in columns)
    # No released column begins with an underscore.
    numbered = f"SELECT *, row_number() OVER (PARTITION BY {names}) AS _nth FROM"
    same = " AND ".join(f"s.{quoted(column)} IS NOT DISTINCT FROM r.{quoted(column)}" for column in columns)
    rows = f"""{numbered} ({generalized_records(records, domains, levels, others)})
        WHERE record NOT IN (SELECT record FROM {suppressed.sql})"""
    shown = "".join(f", s.{quoted(column)}" for column in others)
    return f"""SELECT r.record{shown} FROM ({numbered} {published.sql}) AS s
        LEFT JOIN ({rows}) AS r ON s._nth = r._nth AND {same} ORDER BY ALL"""
