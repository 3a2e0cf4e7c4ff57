"""Read a population table: whom an adversary can identify, in the values of the release.

Unreadable rows are left out and counted by column and rule. Leaving out a person makes a class of the table smaller, so
a release looks more at risk and never less. If the table identifies persons, a person with an unreadable row is left
out entirely; with only some of their visits, they would enlarge a class that they are not in. If the share of unusable
rows exceeds the policy's limit, the table is refused, because it is not the table that the policy describes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pandas as pd

from deid_assets.errors import DeliveryError
from deid_assets.sources.files import (
    UNSEEN,
    IntakeState,
    SourceTable,
    count_rows,
    is_unseen,
    naming_damaged_files,
    replacing,
    staged,
)
from deid_assets.sources.received import delivered_files
from deid_assets.sources.report import Metadata, RowsReport, too_many_unusable
from deid_assets.sources.text_tables import stage_file
from deid_assets.store.tables import Table, quoted

Labels = Callable[[list[str]], pd.DataFrame]
"""Maps distinct values, as text, to value | label | rule; a rule says why there is no label."""

TOO_WIDE = "wider than a class of the released level"
"""The rule of a value of a table that is coarser than the release, which is no fault of the row."""
_ROWS = "population_rows"
_COUNT_RULES = {
    "not a whole number": "{count} IS NULL OR {count} <> floor({count})",
    "negative count": "{count} < 0",
}


@dataclass(frozen=True)
class TableLayout:
    """The layout of a population table.

    Attributes
    ----------
    table
        Table of a DuckDB file; None otherwise.
    delimiter
        Delimiter of a CSV file.
    columns
        Column of the delivery, or 'year', to column of the table.
    only, leave_out
        Column of the table to the values that a row must have, or must not have.
    count, person
        Columns of the table, or None.
    unusable_at_most
        Maximum share of the selected rows that may break a rule.
    """

    columns: Mapping[str, str]
    table: str | None = None
    delimiter: str = ","
    only: Mapping[str, Sequence[str]] | None = None
    leave_out: Mapping[str, Sequence[str]] | None = None
    count: str | None = None
    person: str | None = None
    unusable_at_most: float = 0.0


@dataclass(frozen=True)
class PopulationReport(RowsReport):
    """Counts of one reading, with the rows that the policy selects, and of them those that are too coarse.

    `coarser` are rows whose values are wider than the classes of the release, by column.
    """

    rows_chosen: int
    coarser: Mapping[str, int]

    def metadata(self) -> Metadata:
        """For the event log."""
        return {
            "population_table": self.file,
            **super().metadata(),
            "rows_chosen": self.rows_chosen,
            "rows_coarser_than_the_release": [{"column": column, "rows": rows} for column, rows in self.coarser.items()],
        }


def read_population_table(
    target: Table,
    path: Path,
    layout: TableLayout,
    labels: Mapping[str, Labels],
    digest: str | None = None,
) -> PopulationReport:
    """Read a population table, generalized, into the restricted store, row by row.

    Parameters
    ----------
    target
        Table to write: row_key BIGINT, in file order | person BIGINT (distinct per row if the table identifies nobody)
        | weight BIGINT, people that the row stands for | one VARCHAR for each of `layout.columns`, '' if missing.
    path, layout
        The file and its layout.
    labels
        One for each of `layout.columns`.
    digest
        Required SHA-256 of the file, in hexadecimal; None accepts any.

    Raises
    ------
    DeliveryError
        If the file is missing, empty, unreadable, has no rows or lacks a column, if no row is selected, or if too many
        rows are unusable. The message names file, column, number of rows and rule, never a value.
    """
    try:
        with staged(target.file, lambda: delivered_files((path,)), path.name) as staging:
            if digest is not None and staging.received.digest_of(path) != digest:
                raise DeliveryError(f"{path.name} changed since the policy was read; run again")
            with naming_damaged_files(staging):
                return _take_in(staging, target, path, layout, labels)
    except DeliveryError as error:
        raise DeliveryError(f"population table: {error}") from None


def _take_in(
    staging: IntakeState, target: Table, path: Path, layout: TableLayout, labels: Mapping[str, Labels]
) -> PopulationReport:
    connection, name = staging.connection, path.name
    conditions, values = _stage(staging, path, layout)
    rejected = count_rows(connection, "rejected_lines")
    read = count_rows(connection, quoted(_ROWS)) + rejected
    connection.execute(
        f"CREATE TEMP TABLE chosen_rows AS SELECT * FROM {quoted(_ROWS)} WHERE {' AND '.join(['true', *conditions])}",
        values,
    )
    chosen = count_rows(connection, "chosen_rows")
    if chosen == 0:
        raise DeliveryError(f"{name}: no row has the values that `only` requires and `leave_out` does not exclude")
    connection.execute("CREATE TEMP TABLE unusable (row_key BIGINT, source_column VARCHAR, rule VARCHAR)")
    for column, theirs in layout.columns.items():
        found = connection.execute(f"SELECT DISTINCT {_text(f'of_{column}')} AS value FROM chosen_rows ORDER BY 1").fetchall()
        frame = labels[column]([value for (value,) in found]).astype("str")
        connection.register("labels_found", frame)
        connection.execute(f"CREATE TEMP TABLE {quoted(f'labels_{column}')} AS SELECT * FROM labels_found")
        connection.unregister("labels_found")
        connection.execute(
            f"""INSERT INTO unusable SELECT row_key, ?, rule FROM chosen_rows
                JOIN {quoted(f"labels_{column}")} ON value = {_text(f"of_{column}")} WHERE rule IS NOT NULL""",
            [theirs],
        )
    _check_counts_and_persons(connection, layout)
    coarser = dict(
        connection.execute(
            "SELECT source_column, count(*) FROM unusable WHERE rule = ? GROUP BY 1 ORDER BY 1", [TOO_WIDE]
        ).fetchall()
    )
    broken = {
        (column, rule): rows
        for column, rule, rows in connection.execute(
            """SELECT source_column, rule, count(*) FROM unusable WHERE rule <> ? GROUP BY 1, 2
               UNION ALL SELECT '-', rule, count(*) FROM rejected_lines GROUP BY 2 ORDER BY 3 DESC, 1, 2""",
            [TOO_WIDE],
        ).fetchall()
    }
    wrong = (
        rejected
        + connection.execute("SELECT count(DISTINCT row_key) FROM unusable WHERE rule <> ?", [TOO_WIDE]).fetchall()[0][0]
    )
    if wrong > layout.unusable_at_most * (chosen + rejected):
        raise DeliveryError(f"{name}: {too_many_unusable(broken, layout.unusable_at_most)}")
    used = _write(connection, target, layout)
    return PopulationReport(name, read, used, broken, chosen, coarser)


def _stage(staging: IntakeState, path: Path, layout: TableLayout) -> tuple[list[str], list[list[str]]]:
    """Create a view over the required columns; return the conditions on rows, with the values to bind."""
    columns = {f"of_{column}": theirs for column, theirs in layout.columns.items()}
    conditions, values = [], []
    for kind, chosen in (("only", layout.only), ("leave_out", layout.leave_out)):
        for number, (theirs, wanted) in enumerate((chosen or {}).items()):
            columns[f"{kind}_{number}"] = theirs
            within = f"{_text(f'{kind}_{number}')} IN (SELECT unnest(?::VARCHAR[]))"
            conditions.append(within if kind == "only" else f"NOT {within}")
            values.append(list(wanted))
    if layout.count is not None:
        columns["stands_for"] = layout.count
    if layout.person is not None:
        columns["named"] = layout.person
    file = SourceTable(path, layout.table, layout.delimiter, "the policy must name the table")
    stage_file(staging, file, _ROWS, "population", columns)
    return conditions, values


def _check_counts_and_persons(connection: duckdb.DuckDBPyConnection, layout: TableLayout) -> None:
    if layout.count is not None:
        count = "TRY_CAST(stands_for AS DOUBLE)"
        for rule, condition in _COUNT_RULES.items():
            connection.execute(
                f"INSERT INTO unusable SELECT row_key, ?, ? FROM chosen_rows WHERE {condition.format(count=count)}",
                [layout.count, rule],
            )
    if layout.person is not None:
        for rule, broken in (("person missing", f"{_text('named')} = ''"), (UNSEEN, is_unseen(_text("named")))):
            connection.execute(
                f"INSERT INTO unusable SELECT row_key, ?, ? FROM chosen_rows WHERE {broken}", [layout.person, rule]
            )


def _write(connection: duckdb.DuckDBPyConnection, target: Table, layout: TableLayout) -> int:
    """Write the usable rows with their labels; return how many."""
    joins = " ".join(
        f"JOIN {quoted(f'labels_{column}')} AS l{number} ON l{number}.value = {_text(f'of_{column}')}"
        for number, column in enumerate(layout.columns)
    )
    shown = ", ".join(f"l{number}.label AS {quoted(column)}" for number, column in enumerate(layout.columns))
    person = "row_key" if layout.person is None else f"dense_rank() OVER (ORDER BY {_text('named')})"
    left_out = "row_key IN (SELECT row_key FROM unusable)"
    if layout.person is not None:
        left_out = f"{_text('named')} IN (SELECT {_text('named')} FROM chosen_rows WHERE {left_out})"
    weight = "1" if layout.count is None else "TRY_CAST(stands_for AS DOUBLE)"
    with replacing(connection, target.schema):
        connection.execute(
            f"""CREATE OR REPLACE TABLE {target.sql} AS
                SELECT row_key, {person} AS person, ({weight})::BIGINT AS weight, {shown} FROM chosen_rows {joins}
                WHERE NOT {left_out}"""
        )
    return count_rows(connection, target.sql)


def _text(column: str) -> str:
    """SQL of a column as trimmed text; '' if missing."""
    return f"coalesce(trim({quoted(column)}::VARCHAR), '')"
