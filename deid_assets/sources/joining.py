"""Rows of a delivery that are less than what they are about: lines of a claim, and spans of a person's enrolment.

Lines are joined to events before anything is judged, so that power, cuts and counts are those of claims and not of lines. A row
that breaks a rule breaks the rule for its whole claim or person: what one line says must not be lost because it cannot be read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from deid_assets.errors import DeliveryError
from deid_assets.reference.known_columns import DAYS_OF_SERVICE, MEMBERS, NUMBERS_OF_MEMBERS, YEARS
from deid_assets.reference.places import place_names
from deid_assets.reference.sensitive import SENSITIVE_SETS, sensitive_codes
from deid_assets.sources.delivery import (
    DELIVERED_CLAIM_COLUMNS,
    DIAGNOSIS_COLUMNS,
    ENROLMENT,
    MEMBER_COLUMNS,
)
from deid_assets.sources.derivations import Cell
from deid_assets.sources.diagnosis_systems import SYSTEM_COLUMN
from deid_assets.store.tables import literal, quoted

_LEAST = ("service_date", "admission_date", "year", *DAYS_OF_SERVICE)
_MOST = ("discharge_date", "paid_date", "length_of_stay", "pay_delay", "death_date")
_HEADER = ("provider_id", "vendor_id", "pcp_id", "specialty", "place")
"""Columns of claims of which the first line decides; lines that say something else are counted."""
OF_A_PERSON = (*(name for name, known in MEMBERS.items() if known.values), "birth_date")
"""Columns of members in which the spans of a person must not differ."""
NUMBERED = tuple(column for column in DIAGNOSIS_COLUMNS if column != "admitting_diagnosis")
"""Columns for the diagnoses of all lines of a claim."""
FLAGS = {
    "claims": ("of_several_members", "of_several_systems", "with_too_many_diagnoses"),
    "members": (*(f"of_several_{column}" for column in OF_A_PERSON), "of_impossible_enrolment"),
}
"""Columns of the joined tables that say what is wrong with the rows of one claim or person."""
_MILLIONTHS = 1_000_000
_AFTER_ALL = 2**80
_OPEN_END = "DATE '9999-12-31'"


@dataclass(frozen=True)
class Rows:
    """The rows of one table as they were read, one for each row of the delivery.

    Attributes
    ----------
    sql
        SELECT of them: `row_key`, the canonical columns, `<column>_unread` flags, cells of declared columns, and others.
    flags
        Names of the flags.
    cells
        Cells of declared columns.
    others
        Other columns, which are kept as the first row has them.
    """

    sql: str
    flags: Sequence[str]
    cells: Sequence[Cell]
    others: Sequence[str]


def join_lines(connection: duckdb.DuckDBPyConnection, rows: Rows, conflicts_at_most: float) -> str:
    """Create the temporary table `joined_claims` of claims from their lines, and return what to tell of it.

    An event is a claim and one of its procedures: lines of the same procedure, and of the same text in declared columns, are
    one; a line without a procedure joins the first. All events of a claim have all its diagnoses. Decimal numbers are summed,
    whole numbers are the largest. Dates of service and admission are the first, those of discharge and payment the last. Place,
    specialty and providers are those of the first line that has one, but for a place that lists of sensitive codes name or that
    is unknown, which goes first: no rule may miss it.

    Parameters
    ----------
    conflicts_at_most
        Share of the claims whose lines may differ in one of the columns of which the first line decides.

    Raises
    ------
    DeliveryError
        If the lines of more claims differ.
    """
    connection.execute(
        "CREATE TEMP TABLE lines AS SELECT *,"
        f" CASE WHEN claim_id IS NULL THEN {literal(chr(0))} || row_key ELSE claim_id END AS claim_key FROM ({rows.sql})"
    )
    system = _differs(f"upper(trim({SYSTEM_COLUMN}::VARCHAR))") if SYSTEM_COLUMN in rows.others else "false"
    of_claim = [
        "min(l.row_key) AS first_row",
        "count(*) AS lines",
        f"{_differs('l.member_id')} AS of_several_members",
        f"{system} AS of_several_systems",
        "arg_min(l.cpt, l.row_key) FILTER (WHERE l.cpt IS NOT NULL) AS first_procedure",
        "arg_min(l.admitting_diagnosis, l.row_key) FILTER (WHERE l.admitting_diagnosis IS NOT NULL) AS admitting",
        *(f"{_differs(f'l.{column}')} AS differ_in_{column}" for column in _HEADER),
        *(f"bool_or(l.{quoted(flag)}) AS {quoted(flag)}" for flag in rows.flags),
    ]
    connection.execute(
        f"CREATE TEMP TABLE claims_of_lines AS SELECT claim_key, {', '.join(of_claim)} FROM lines AS l GROUP BY 1"
    )
    _unite_diagnoses(connection)
    counted = ", ".join(f"count_if(differ_in_{column})" for column in _HEADER)
    lines, claims, *differ = connection.execute(
        f"SELECT coalesce(sum(lines), 0)::BIGINT, count(*), {counted} FROM claims_of_lines"
    ).fetchall()[0]
    conflicts = {column: count for column, count in zip(_HEADER, differ, strict=True) if count}
    told = ", ".join(f"{column} {count:,} ({count / claims:.2%})" for column, count in conflicts.items())
    if any(count > conflicts_at_most * claims for count in conflicts.values()):
        raise DeliveryError(
            f"claims: of {claims:,} claims, the lines differ in {told}, and the first line would decide; at most "
            f"{conflicts_at_most:.2%} of the claims may (source.claims.conflicts_at_most): correct the lines, leave the column "
            "out, or allow a larger share"
        )
    of_event = [
        "min(l.row_key) AS row_key",
        *(_of_lines(column) for column in DELIVERED_CLAIM_COLUMNS if column not in ("cpt", *DIAGNOSIS_COLUMNS)),
        *(_first(quoted(column)) for column in rows.others),
        *(_of_cell(cell) for cell in rows.cells),
    ]
    texts = [quoted(cell.name) for cell in rows.cells if cell.kind == "text"]
    keys = ", ".join(["l.claim_key", "event_procedure", *(f"l.{text}" for text in texts)])
    of_its_claim = [
        "e.* REPLACE (CASE WHEN e.row_key > c.first_row THEN e.claim_id || ' ' || e.row_key ELSE e.claim_id END AS claim_id)",
        "e.event_procedure AS cpt",
        *(f"d.codes[{number}] AS {column}" for number, column in enumerate(NUMBERED, start=1)),
        "c.admitting AS admitting_diagnosis",
        f"coalesce(len(d.codes) > {len(NUMBERED)}, false) AS with_too_many_diagnoses",
        *(f"c.{quoted(flag)}" for flag in ("of_several_members", "of_several_systems", *rows.flags)),
    ]
    connection.execute(
        f"""
        CREATE TEMP TABLE joined_claims AS
        SELECT {", ".join(of_its_claim)}
        FROM (
            SELECT l.claim_key, coalesce(l.cpt, c.first_procedure) AS event_procedure, {", ".join(of_event)}
            FROM lines AS l JOIN claims_of_lines AS c USING (claim_key) GROUP BY {keys}
        ) AS e
        JOIN claims_of_lines AS c USING (claim_key) LEFT JOIN diagnoses_of_claims AS d USING (claim_key)
        """
    )
    for table in ("lines", "claims_of_lines", "diagnoses_of_claims"):
        connection.execute(f"DROP TABLE {table}")  # they would take memory until the intake ends
    (events,) = connection.execute("SELECT count(*) FROM joined_claims").fetchall()[0]
    return f"claims: {lines:,} lines were joined to {events:,} events of {claims:,} claims" + (
        f"; of their lines, the first decided where they differ in {told}" if told else ""
    )


def _unite_diagnoses(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the temporary table `diagnoses_of_claims`: the codes of all lines of a claim, each once, in their order.

    Admitting diagnoses but the claim's first are further ones: nothing else would hold them.
    """
    listed = ", ".join(f"{{'code': {column}, 'place_of_code': {number}}}" for number, column in enumerate(NUMBERED))
    connection.execute(
        f"""
        CREATE TEMP TABLE diagnoses_of_claims AS
        SELECT claim_key, list(code ORDER BY place_of_code) AS codes
        FROM (
            SELECT claim_key, code, min(place_of_code) AS place_of_code
            FROM (
                SELECT claim_key, one.code AS code, row_key::HUGEINT * {len(NUMBERED)} + one.place_of_code AS place_of_code
                FROM (
                    SELECT claim_key, row_key, unnest(list_filter([{listed}], lambda one: one.code IS NOT NULL)) AS one
                    FROM lines
                )
                UNION ALL
                SELECT claim_key, admitting_diagnosis, {_AFTER_ALL} + row_key
                FROM lines JOIN claims_of_lines USING (claim_key) WHERE admitting_diagnosis <> admitting
            )
            GROUP BY claim_key, code
        )
        GROUP BY claim_key
        """
    )


def join_spans(connection: duckdb.DuckDBPyConnection, rows: Rows, gaps_at_most: int) -> str:
    """Create the temporary table `joined_members` of people from their spans of enrolment, and return what to tell of it.

    The spans of a person that overlap, or are at most `gaps_at_most` days apart, are one, in the list `enrolment`.

    Parameters
    ----------
    gaps_at_most
        Days between two spans that count as enrolled.
    """
    key = f"CASE WHEN member_id IS NULL THEN {literal(chr(0))} || row_key ELSE member_id END AS person_key"
    until = f"coalesce(enrolled_until, {_OPEN_END})"
    connection.execute(f"CREATE TEMP TABLE spans AS SELECT *, {key} FROM ({rows.sql})")
    connection.execute(
        f"""
        CREATE TEMP TABLE enrolments AS
        SELECT person_key, list({{'since': since, 'until': until}} ORDER BY since) AS enrolment,
            sum(overlapping)::BIGINT AS overlapping
        FROM (
            SELECT person_key, run, min(enrolled_from) AS since, max({until}) AS until,
                count_if(enrolled_from <= before) AS overlapping
            FROM (
                SELECT *, count_if(before IS NULL OR enrolled_from > before + {int(gaps_at_most) + 1})
                    OVER (PARTITION BY person_key ORDER BY enrolled_from, row_key) AS run
                FROM (
                    SELECT *, max({until}) OVER (PARTITION BY person_key ORDER BY enrolled_from, row_key
                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
                    FROM spans WHERE enrolled_from IS NOT NULL
                )
            )
            GROUP BY person_key, run
        )
        GROUP BY person_key
        """
    )
    aggregates = [
        "min(l.row_key) AS row_key",
        *(_of_lines(column) for column in (*MEMBER_COLUMNS, *ENROLMENT)),
        *(f"{_differs(f'l.{column}')} AS of_several_{column}" for column in OF_A_PERSON),
        "bool_or(l.enrolled_until < l.enrolled_from) AS of_impossible_enrolment",
        "coalesce(any_value(e.enrolment), []) AS enrolment",
        *(f"bool_or(l.{quoted(flag)}) AS {quoted(flag)}" for flag in rows.flags),
        *(_first(quoted(column)) for column in rows.others),
        *(_of_cell(cell) for cell in rows.cells),
    ]
    connection.execute(
        f"CREATE TEMP TABLE joined_members AS SELECT {', '.join(aggregates)}"
        " FROM spans AS l LEFT JOIN enrolments AS e USING (person_key) GROUP BY l.person_key"
    )
    found, people, overlaps = connection.execute(
        "SELECT (SELECT count(*) FROM spans), (SELECT count(*) FROM joined_members),"
        " (SELECT coalesce(sum(overlapping), 0)::BIGINT FROM enrolments)"
    ).fetchall()[0]
    return f"members: {found:,} spans were joined to {people:,} people" + (
        f"; {overlaps:,} spans overlap an earlier one of the same person" if overlaps else ""
    )


def own_enrolment() -> str:
    """SQL of the list `enrolment` of a person in one row."""
    own = f"{{'since': enrolled_from, 'until': coalesce(enrolled_until, {_OPEN_END})}}"
    return f"CASE WHEN enrolled_from IS NULL THEN [] ELSE [{own}] END"


def _differs(column: str) -> str:
    """SQL that is true for rows with several values."""
    return f"coalesce(min({column}) <> max({column}), false)"


def _of_lines(column: str) -> str:
    """SQL of a canonical column of several rows."""
    if column in (*_LEAST, ENROLMENT[0]) or (column in NUMBERS_OF_MEMBERS and column not in YEARS.values()):
        return f"min(l.{column}) AS {column}"
    if column in (*_MOST, ENROLMENT[1]) or column in YEARS.values():
        return f"max(l.{column}) AS {column}"
    if column == "place":
        ordinary = [code for code in place_names() if code not in _places_in_lists()]
        first = "arg_min(l.place, l.row_key) FILTER (WHERE l.place IS NOT NULL"
        return f"coalesce({first} AND l.place NOT IN ({', '.join(map(literal, ordinary))})), {first})) AS place"
    return _first(column)


def _places_in_lists() -> frozenset[str]:
    places = list(place_names())
    return frozenset(sensitive_codes(places, "place", "extended", sets=SENSITIVE_SETS)["code"])


def _of_cell(cell: Cell) -> str:
    """SQL of a cell of a declared column; text is the same in all rows of an event."""
    column = quoted(cell.name)
    if cell.kind == "decimal":
        # Millionths are summed as whole numbers: a sum of floating-point numbers depends on their order.
        return f"sum(round(l.{column} * {_MILLIONTHS})::HUGEINT)::DOUBLE / {_MILLIONTHS} AS {column}"
    if cell.kind == "integer":
        return f"max(l.{column}) AS {column}"
    if cell.kind == "date":
        return f"min(l.{column}) AS {column}"
    return _first(column)


def _first(column: str) -> str:
    return f"arg_min(l.{column}, l.row_key) FILTER (WHERE l.{column} IS NOT NULL) AS {column}"
