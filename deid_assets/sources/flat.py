"""A flat table: read as text, checked against the hierarchies, and stored with one number per record."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import duckdb

from deid_assets.errors import DeliveryError, how_many
from deid_assets.methods.preparation.eligibility import NOBODY, NOBODY_LEFT_OUT, LeftOut, OptedOut, OptOutMatch, match_query
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.files import (
    UNSEEN,
    IntakeState,
    SourceTable,
    count_rows,
    is_unseen,
    key_parts,
    naming_damaged_files,
    replacing,
    staged,
)
from deid_assets.sources.report import Metadata, shape_sql, told
from deid_assets.sources.text_tables import stage_file
from deid_assets.store.tables import Table, quoted

RECORDS, POPULATION, QUARANTINED = "records", "population_records", "quarantined_records"
_UNKNOWN, _NOBODY = "value outside the hierarchy", "missing person"
OPTED_OUT = "opted out"
"""The rule of rows that are left out because their person opted out; they are no fault of the delivery."""
PERSON = "_person"
"""Column of the records that identifies a person, if the policy names one; no released column starts with an underscore."""
_UNNAMED_TABLE = "the policy must name the table (source.table)"


@dataclass(frozen=True)
class Persons:
    """Whose a record is.

    Attributes
    ----------
    column
        Column of the delivery that identifies a person; it is stored with the records and never published.
    records_at_most
        How many records one person may have.
    opted_out
        Whose records are left out.
    """

    column: str
    records_at_most: int
    opted_out: OptedOut = NOBODY


@dataclass(frozen=True)
class FlatReport:
    """Counts of one intake: rows read and kept per table, and rows in quarantine by rule and column.

    `hints` say why values of a column may be outside its hierarchy. `digest` is that of the delivery, over exactly the
    bytes that were read. `left_out` is what was found of the people who opted out.
    """

    rows_read: Mapping[str, int]
    rows_kept: Mapping[str, int]
    quarantined: Mapping[tuple[str, str, str], int]
    hints: Mapping[tuple[str, str], str]
    files: tuple[str, ...]
    warnings: tuple[str, ...]
    digest: str
    left_out: LeftOut = NOBODY_LEFT_OUT

    def metadata(self) -> Metadata:
        """For the event log."""
        return {
            "files": list(self.files),
            "warnings": list(self.warnings),
            "quarantined_by_rule": [
                {"table": table, "column": column, "rule": rule, "rows": rows, "hint": self.hints.get((table, column), "")}
                for (table, column, rule), rows in self.quarantined.items()
            ],
        }


@dataclass(frozen=True)
class FlatLayout:
    """What a policy says of a flat delivery.

    Parameters
    ----------
    columns
        Name in the release -> name in the delivery. The population needs only those of `allowed`.
    allowed
        Name in the release -> every value that its hierarchy covers; a column without an entry may contain anything.
    file, population_file, table, delimiter
        As in the policy.
    quarantine_at_most
        Maximum share of the rows of a table with other values; these rows are quarantined.
    one_column
        Names in the release of columns whose hierarchy is a file of one column, perhaps read with a wrong separator.
    persons
        Whose a record is; None if nothing in the delivery tells.
    """

    columns: Mapping[str, str]
    allowed: Mapping[str, Sequence[str]]
    file: str | None = None
    population_file: str | None = None
    table: str | None = None
    delimiter: str = ","
    quarantine_at_most: float = 0.0
    one_column: Collection[str] = ()
    persons: Persons | None = None


def read_flat_delivery(
    records: Table, delivery: Delivery, layout: FlatLayout, progress: Callable[[str], None] | None = None
) -> FlatReport:
    """Read a flat table, and its population if there is one, into the store; blank fields are missing values.

    Parameters
    ----------
    records
        The table of the records, in the restricted store; those of the population and of quarantine are beside it.
    delivery
        A folder with the named files, or one file if none is named.

    Raises
    ------
    DeliveryError
        If a file is missing, empty, unreadable, has no rows or lacks a column, if it is outside the delivery's folder, if a
        person has too many records, or if too many rows are unusable. The message names file, column, number of rows and rule,
        never a value.
    """
    persons = layout.persons
    of_person = {} if persons is None else {PERSON: persons.column}
    wanted = [(RECORDS, layout.file, {**layout.columns, **of_person})]
    if layout.population_file:
        known = {name: theirs for name, theirs in layout.columns.items() if name in layout.allowed}
        wanted.append((POPULATION, layout.population_file, known))
    reading = staged(records.file, delivery.files, f"delivery {delivery.key}", progress=progress)
    # Parquet and DuckDB files are read only where their rows are used, so that damage shows there.
    with reading as staging, naming_damaged_files(staging):
        for name, file, own in wanted:
            table = SourceTable(_path(staging, delivery, file), layout.table, layout.delimiter, _UNNAMED_TABLE)
            stage_file(staging, table, f"delivered_{name}", name, own)
            # One person is one person with blanks around the identifier, too: in one delivery, and from one to the next.
            person = f"REPLACE (nullif(trim({quoted(PERSON)}::VARCHAR), '') AS {quoted(PERSON)})" if PERSON in own else ""
            staging.connection.execute(
                f"CREATE TEMP VIEW {quoted(f'read_{name}')} AS SELECT * {person} FROM {quoted(f'delivered_{name}')}"
            )
        staging.connection.execute(
            "CREATE TEMP TABLE unusable (source_table VARCHAR, row_key BIGINT, source_column VARCHAR, rule VARCHAR)"
        )
        left_out = NOBODY_LEFT_OUT
        if persons is not None:
            _require_few_records(staging.connection, delivery.key, persons)
            left_out = _leave_out(staging.connection, persons)
        tables = [(name, own) for name, _, own in wanted]
        return replace(_take_in(staging, records.schema, delivery.key, tables, layout), left_out=left_out)


def _path(staging: IntakeState, delivery: Delivery, file: str | None) -> Path:
    (path,) = delivery.paths if len(delivery.paths) == 1 else (None,)
    if path is None:
        raise DeliveryError(f"delivery {delivery.key}: a flat table is one file, or one folder that contains it")
    if not path.is_dir():
        if file is None or path.name == file:
            return path
        # The digest of the delivery covers only what was delivered; a file beside it could change undetected.
        raise DeliveryError(
            f"delivery {delivery.key} is the file {path.name}, but the policy also names {file}: deliver the folder that "
            "contains both"
            if path.with_name(file).is_file()
            else f"delivery {delivery.key} is the file {path.name}, but the policy names {file}"
        )
    if file is None:
        raise DeliveryError(f"delivery {delivery.key} is a folder: the policy must name the file (source.file)")
    if path / file in staging.received:
        return path / file
    if PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts:
        raise DeliveryError(f"delivery {delivery.key}: {file} is outside the delivery's folder: put the file itself there")
    raise DeliveryError(f"{PurePosixPath(file).name}: missing file; it should be in the folder of delivery {delivery.key}")


def _take_in(
    staging: IntakeState,
    schema: str,
    key: str,
    tables: Sequence[tuple[str, Mapping[str, str]]],
    layout: FlatLayout,
) -> FlatReport:
    connection, allowed, at_most = staging.connection, layout.allowed, layout.quarantine_at_most
    read, kept, left_out, hints = {}, {}, {}, {}
    for name, columns in tables:
        for released, theirs in columns.items():
            if released == PERSON:
                for rule, broken in ((_NOBODY, f"{quoted(PERSON)} IS NULL"), (UNSEEN, is_unseen(quoted(PERSON)))):
                    connection.execute(
                        f"""INSERT INTO unusable SELECT ?, row_key, ?, ? FROM {quoted(f"read_{name}")} WHERE {broken}
                            AND row_key NOT IN (SELECT row_key FROM unusable WHERE source_table = ?)""",
                        [name, theirs, rule, name],
                    )
            if released in allowed:
                connection.execute(
                    f"""INSERT INTO unusable SELECT ?, row_key, ?, ? FROM {quoted(f"read_{name}")}
                        WHERE nullif({quoted(released)}::VARCHAR, '') IS NOT NULL
                        AND {quoted(released)}::VARCHAR NOT IN (SELECT unnest(?::VARCHAR[]))
                        AND row_key NOT IN (SELECT row_key FROM unusable WHERE source_table = ?)""",
                    [name, theirs, _UNKNOWN, list(allowed[released]), name],
                )
                if hint := _hint(connection, name, released, theirs, layout):
                    hints[name, theirs] = hint
        rows = count_rows(connection, quoted(f"read_{name}"))
        rejected = connection.execute("SELECT count(*) FROM rejected_lines WHERE source_table = ?", [name]).fetchall()[0][0]
        bad, left_out[name] = connection.execute(
            "SELECT count(*), count(*) FILTER (rule = ?) FROM unusable WHERE source_table = ?", [OPTED_OUT, name]
        ).fetchall()[0]
        read[name], kept[name] = rows + rejected, rows - bad
    broken = """
        SELECT source_table, row_key, source_column, rule FROM unusable UNION ALL
        SELECT source_table, NULL, '', rule FROM rejected_lines"""
    counts = {
        (table, column, rule): rows
        for table, column, rule, rows in connection.execute(
            f"SELECT source_table, source_column, rule, count(*) FROM ({broken}) GROUP BY ALL ORDER BY 4 DESC, 1, 2, 3"
        ).fetchall()
    }
    for name in read:
        wrong = read[name] - kept[name] - left_out[name]
        if wrong > at_most * read[name] or not kept[name]:
            listed = "; ".join(
                f"column {c or '-'}: {how_many(n, 'row')}: {r}{f' ({hints[t, c]})' if r == _UNKNOWN else ''}"
                for (t, c, r), n in counts.items()
                if t == name
            )
            raise DeliveryError(
                f"delivery {key} is refused: more than {at_most:.2%} of the rows of {name} break a rule: {listed}"
            )
    digest = staging.received.digest()
    _write(connection, schema, tables, broken)
    return FlatReport(read, kept, counts, hints, tuple(staging.file_names), tuple(staging.warnings), digest)


def _leave_out(connection: duckdb.DuckDBPyConnection, persons: Persons) -> LeftOut:
    """Leave out the records of people who opted out."""
    relation, person = quoted(f"read_{RECORDS}"), quoted(PERSON)

    def match(listed: Sequence[str]) -> OptOutMatch:
        return OptOutMatch(*connection.execute(match_query(relation, person), [list(listed)]).fetchall()[0])

    connection.execute(
        f"INSERT INTO unusable SELECT ?, row_key, ?, ? FROM {relation} WHERE {person} IN (SELECT unnest(?::VARCHAR[]))",
        [RECORDS, persons.column, OPTED_OUT, persons.opted_out.everybody],
    )
    left_out = connection.execute(
        f"SELECT DISTINCT r.{person} FROM {relation} AS r JOIN unusable AS u ON u.row_key = r.row_key "
        "AND u.source_table = ? AND u.rule = ?",
        [RECORDS, OPTED_OUT],
    ).fetchall()
    problems = tuple(f"column {persons.column}: {text}" for text in persons.opted_out.problems(match))
    return LeftOut(tuple(sorted(one for (one,) in left_out)), problems)


def _require_few_records(connection: duckdb.DuckDBPyConnection, key: str, persons: Persons) -> None:
    """Refuse a delivery in which somebody has more records than the noise of counts is made for; unusable rows count too."""
    many, rows = connection.execute(
        f"""SELECT count(*), coalesce(sum(n), 0) FROM (
            SELECT count(*) AS n FROM {quoted(f"read_{RECORDS}")} WHERE {quoted(PERSON)} IS NOT NULL
            GROUP BY {quoted(PERSON)}) WHERE n > ?""",
        [persons.records_at_most],
    ).fetchall()[0]
    if many:
        raise DeliveryError(
            f"delivery {key}: column {persons.column}: {how_many(rows, 'record')} belonging to persons who have more than "
            f"{persons.records_at_most} of them; deliver fewer of each, or raise source.records_per_person, which widens the "
            "noise of counts as many times"
        )


def _hint(connection: duckdb.DuckDBPyConnection, table: str, column: str, theirs: str, layout: FlatLayout) -> str:
    """Why values of a column may be outside its hierarchy, inferred from what would bring them inside and from their shapes."""
    relation, cell, allowed = quoted(f"read_{table}"), f"r.{quoted(column)}", list(layout.allowed[column])
    text = f"{cell}::VARCHAR"
    whole = f"regexp_replace(trim({text}), '[.]0+$', '')"
    bad = f"""{relation} AS r JOIN unusable AS u ON u.row_key = r.row_key AND u.source_table = ? AND u.source_column = ?
        AND u.rule = ?"""
    inside = "IN (SELECT unnest(?::VARCHAR[]))"
    rows, blank, trimmed, plain, lower = connection.execute(
        f"""SELECT count(*), count_if(trim({text}) = ''), count_if(trim({text}) {inside}),
            count_if(trim({text}) NOT {inside} AND {whole} {inside}),
            count_if(trim({text}) NOT {inside} AND lower(trim({text})) IN (SELECT lower(unnest(?::VARCHAR[])))) FROM {bad}""",
        [*[allowed] * 5, table, theirs, _UNKNOWN],
    ).fetchall()[0]
    if not rows:
        return ""
    kind = connection.execute(f"SELECT any_value(typeof({cell})) FROM {relation} AS r").fetchall()[0][0].partition("(")[0]
    occurs = connection.execute(f"SELECT 1 FROM {relation} AS r WHERE {text} {inside} LIMIT 1", [allowed]).fetchall()
    shapes = connection.execute(
        f"SELECT {shape_sql(text)} AS shape, count(*) AS n FROM {bad} GROUP BY ALL ORDER BY n DESC, shape",
        [table, theirs, _UNKNOWN],
    ).fetchall()
    found = [
        (blank, "consist of white space: a missing value is an empty field"),
        (trimmed, "match without surrounding blanks: trim them in the delivery"),
        (plain, f"match except for decimals that are 0 (the column has the type {kind}): deliver whole numbers, or text"),
        (lower, "match in another case: spell them as the hierarchy does"),
    ]
    said = [f"{count:,} {what}" for count, what in found if count]
    if column in layout.one_column:
        said.append("the file of the hierarchy has one column: semicolons must separate the value from its labels")
    if not occurs and not said:
        said.append(
            f"none of the {len(allowed):,} values of the hierarchy occurs in the column: does the hierarchy belong to "
            "another column?"
        )
    return "; ".join([*said, told(shapes)])


def _write(
    connection: duckdb.DuckDBPyConnection, schema: str, tables: Sequence[tuple[str, Mapping[str, str]]], broken: str
) -> None:
    """Replace the tables in one transaction; all values are text, and records are numbered in file order."""
    file_number, row = key_parts("row_key")
    with replacing(connection, schema):
        connection.execute(f"DROP TABLE IF EXISTS {quoted(schema)}.{quoted(POPULATION)}")
        for name, _ in tables:
            connection.execute(
                f"""CREATE OR REPLACE TABLE {quoted(schema)}.{quoted(name)} AS
                    SELECT row_number() OVER (ORDER BY row_key) AS record,
                           nullif(COLUMNS(* EXCLUDE (row_key))::VARCHAR, '')
                    FROM {quoted(f"read_{name}")}
                    WHERE row_key NOT IN (SELECT row_key FROM unusable WHERE source_table = '{name}')"""
            )
        connection.execute(
            f"""CREATE OR REPLACE TABLE {quoted(schema)}.{quoted(QUARANTINED)} AS
                SELECT source_table, f.name AS source_file, ({row} + f.header_lines)::BIGINT AS source_row, source_column, rule
                FROM ({broken}) AS b LEFT JOIN delivered_files AS f ON f.file_number = {file_number}"""
        )
