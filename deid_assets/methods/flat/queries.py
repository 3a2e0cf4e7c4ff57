"""Flat tables in the store: generalized records, and their class sizes counted by DuckDB.

The counts here share no code with `classes`, which the search uses; the gate uses them to measure what is published.
"""

from collections.abc import Mapping, Sequence

from deid_assets.methods.candidate.spreadsheet_text import neutralized_sql
from deid_assets.methods.population.encoding import label_joins
from deid_assets.store.tables import Table, quoted


def generalized_records(records: Table, domains: Table, levels: Mapping[str, int], others: Sequence[str] = ()) -> str:
    """SELECT record, the label of every quasi-identifier at its level, and other columns unchanged.

    Missing values form a class and stay missing, except at levels at which the domains assign them to another class.
    """
    labels, joins = label_joins(domains, levels, records.columns(), "r", missing_is_value=True)
    selects = ["r.record", *(f"{label} AS {quoted(column)}" for label, column in zip(labels, levels, strict=True))]
    selects += [f"r.{quoted(column)}" for column in others]
    return f"SELECT {', '.join(selects)} FROM {records.sql} AS r {joins}"


def class_sizes(rows: str, population: str, columns: Sequence[str]) -> str:
    """SELECT every row with `class_size`: the population rows that agree on all columns, where missing equals missing.

    Parameters
    ----------
    rows, population
        SQL to put after FROM.
    """
    names = ", ".join(quoted(column) for column in columns)
    same = " AND ".join(f"r.{quoted(column)} IS NOT DISTINCT FROM p.{quoted(column)}" for column in columns)
    return f"""
        SELECT r.*, coalesce(p.class_size, 0) AS class_size FROM {rows} AS r
        LEFT JOIN (SELECT {names}, count(*) AS class_size FROM {population} GROUP BY ALL) AS p ON {same}"""


def classes_beyond(rows: str, population: str, columns: Sequence[str]) -> str:
    """SELECT `beyond` for each class with more rows than the population has, by how many; the population lacks these.

    Parameters
    ----------
    rows, population
        SQL to put after FROM.
    """
    names = ", ".join(quoted(column) for column in columns)
    # No released column starts with an underscore.
    released = f"(SELECT {names}, count(*) AS _rows FROM {rows} GROUP BY ALL)"
    sized = class_sizes(released, population, columns)
    return f"SELECT _rows - class_size AS beyond FROM ({sized}) WHERE _rows > class_size"


def small_records(records: Table, population: Table | None, domains: Table, levels: Mapping[str, int], k: int) -> str:
    """SELECT the record numbers in classes of fewer than k in the population, or in the table if there is none."""
    rows = generalized_records(records, domains, levels)
    hiding = rows if population is None else generalized_records(population, domains, levels)
    sized = class_sizes(f"({rows})", f"({hiding})", list(levels))
    return f"SELECT record FROM ({sized}) WHERE class_size < {int(k)} ORDER BY record"


def records_by_value(records: Table, suppressed: Table, column: str) -> str:
    """SELECT value, members, sampled: records, and those that are released, with each value; a missing one is null."""
    return f"""
        SELECT {quoted(column)} AS value, count(*) AS members,
            count(*) FILTER (record NOT IN (SELECT record FROM {suppressed.sql})) AS sampled
        FROM {records.sql} GROUP BY ALL ORDER BY ALL
    """


def blanks(records: Table, columns: Sequence[str], among: str | None = None) -> dict[str, int]:
    """Return the number of records with a missing value, for each column.

    Parameters
    ----------
    among
        SELECT of the record numbers to count; None counts all.
    """
    if not columns:
        return {}
    counted = ", ".join(f"count(*) FILTER ({quoted(column)} IS NULL) AS {quoted(column)}" for column in columns)
    where = f" WHERE record IN (SELECT record FROM ({among}))" if among else ""
    found = records.query(f"SELECT {counted} FROM {records.sql}{where}")
    return {column: int(found[column].iloc[0]) for column in columns}


def released_rows(
    records: Table,
    suppressed: Table,
    domains: Table,
    levels: Mapping[str, int],
    others: Sequence[str],
    neutralize: bool = False,
) -> str:
    """SELECT the rows to be published: without record numbers, ordered by their content.

    Parameters
    ----------
    neutralize
        Whether texts of the other columns get an apostrophe if a spreadsheet would take them for a formula.
    """
    rows = generalized_records(records, domains, levels, others)
    shown = [f"{neutralized_sql(quoted(column)) if neutralize else quoted(column)} AS {quoted(column)}" for column in others]
    names = ", ".join([*map(quoted, levels), *shown])
    return f"SELECT {names} FROM ({rows}) WHERE record NOT IN (SELECT record FROM {suppressed.sql}) ORDER BY ALL"


def published_records(
    published: Table, records: Table, suppressed: Table, domains: Table, levels: Mapping[str, int], others: Sequence[str]
) -> str:
    """SELECT record and the other columns of every published row, where record is its source record.

    Published rows have no numbers. Among identical rows, the assignment to identical records is arbitrary and does not change
    what is measured on values and labels. A row that no record yields has no number.

    Parameters
    ----------
    published
        Rows as read back from the files.
    """
    columns = [*levels, *others]
    names = ", ".join(quoted(column) for column in columns)
    # No released column starts with an underscore.
    numbered = f"SELECT *, row_number() OVER (PARTITION BY {names}) AS _nth FROM"
    same = " AND ".join(f"s.{quoted(column)} IS NOT DISTINCT FROM r.{quoted(column)}" for column in columns)
    rows = f"""{numbered} ({generalized_records(records, domains, levels, others)})
        WHERE record NOT IN (SELECT record FROM {suppressed.sql})"""
    shown = "".join(f", s.{quoted(column)}" for column in others)
    return f"""SELECT r.record{shown} FROM ({numbered} {published.sql}) AS s
        LEFT JOIN ({rows}) AS r ON s._nth = r._nth AND {same} ORDER BY ALL"""


def quarantined(rejected: Table, source_table: str, opted_out: str) -> tuple[int, int]:
    """Return the number of rows in quarantine that came from one table of the delivery, and of those whose person opted out.

    Parameters
    ----------
    opted_out
        The rule of rows whose person opted out; they are in the second number only.
    """
    found = rejected.query(
        f"""SELECT count(*) FILTER (rule <> ?) AS unusable, count(*) FILTER (rule = ?) AS opted
            FROM {rejected.sql} WHERE source_table = ?""",
        [opted_out, opted_out, source_table],
    ).iloc[0]
    return int(found["unusable"]), int(found["opted"])
