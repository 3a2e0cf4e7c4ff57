"""Rows of a delivery that are less than what they are about: lines of a claim, and spans of a person's enrolment.

Lines are joined to events before anything is judged, so that power, cuts and counts are those of claims and not of lines. A row
that breaks a rule breaks the rule for its whole claim or person: what one line says must not be lost because it cannot be read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from deid_assets.errors import DeliveryError, how_many
from deid_assets.reference.groups import place_names
from deid_assets.reference.known_columns import DAYS_OF_SERVICE, MEMBERS, NUMBERS_OF_MEMBERS, YEARS
from deid_assets.reference.sensitive import SENSITIVE_SETS, sensitive_codes
from deid_assets.sources.delivery import (
    DELIVERED_CLAIM_COLUMNS,
    DIAGNOSIS_COLUMNS,
    ENROLMENT,
    MEMBER_COLUMNS,
    SYSTEM_COLUMN,
    DiagnosisCodes,
    is_icd10,
)
from deid_assets.sources.derivations import MILLIONTHS, TypedColumn
from deid_assets.store.tables import literal, quoted

_LEAST = ("service_date", "admission_date", "year", *DAYS_OF_SERVICE)
_MOST = ("discharge_date", "paid_date", "death_date")
_LARGEST_OF = ("length_of_stay", "pay_delay")
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
IMPOSSIBLE_ENROLMENT = "coalesce(enrolled_until < enrolled_from, enrolled_from IS NULL AND enrolled_until IS NOT NULL)"
"""SQL that is true for an enrolment that ends before it begins, or that ends and never began."""
BETWEEN = chr(31)
"""Between the id of a claim and the number of its event: a sign that ids do not have, so that no other claim is called so."""
_LARGEST = 10**15
"""Amounts beyond it count as it: they are above whatever a policy tells apart, and their sum has a limit."""
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
    cells: Sequence[TypedColumn]
    others: Sequence[str]


def joined_rows(table: str) -> str:
    """Name of the temporary table of the rows that were joined: `row_key`, and in `joined_by` what rows of one have alike."""
    return f"joined_rows_of_{table}"


def join_lines(
    connection: duckdb.DuckDBPyConnection, rows: Rows, conflicts_at_most: float, diagnosis_codes: DiagnosisCodes, outside: str
) -> str:
    """Create the temporary table `joined_claims` of claims from their lines, and return what to tell of it.

    An event is a claim and one of its procedures: lines of the same procedure, and of the same text in declared columns, are
    one; a line without a procedure joins the first. All events of a claim have all its diagnoses. Decimal numbers are summed.
    Of whole numbers the largest counts, or one below 0, which no rule may miss. Dates of service and admission are the first,
    those of discharge and payment the last; a line without a date of service has the claim's first. Place, specialty and
    providers are those of the first line that has one. Lines of a place that a list of sensitive codes names, or that is
    unknown, are events of their own: policies choose among the lists, and no other place may hide it. So are lines of years
    that are left out.

    Parameters
    ----------
    conflicts_at_most
        Share of the claims whose lines may differ in one of the columns of which the first line decides.
    diagnosis_codes
        What says the coding system of diagnoses: of each line, and all lines of a claim must be of one.
    outside
        SQL that is true for a line l of a year that is left out; the column `dated` is its date of service, or its claim's.

    Raises
    ------
    DeliveryError
        If the lines of more claims differ.
    """
    _key_rows(connection, rows, "claims", "claim_id", "lines")
    system, own_system = _system_of_claim(rows, diagnosis_codes)
    of_claim = [
        "min(l.row_key) AS first_row",
        "count(*) AS lines",
        f"{_differs('l.member_id')} AS of_several_members",
        f"{system} AS of_several_systems",
        f"{own_system} AS system_of_claim",
        "min(l.service_date) AS first_service",
        *(f"{_of_the_first(f'l.{column}')} AS first_{column}" for column in ("cpt", "place", "admitting_diagnosis")),
        *(f"{_differs(f'l.{column}')} AS differ_in_{column}" for column in _HEADER),
        *(f"bool_or(l.{quoted(flag)}) AS {quoted(flag)}" for flag in rows.flags),
    ]
    own = ", ".join(of_claim)
    connection.execute(f"CREATE TEMP TABLE claims_of_lines AS SELECT joined_by, {own} FROM lines AS l GROUP BY joined_by")
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
        "any_value(l.event_procedure) AS cpt",
        "coalesce(min(l.service_date), any_value(l.first_service)) AS service_date",
        *(_of_lines(column) for column in DELIVERED_CLAIM_COLUMNS if column not in ("cpt", "service_date", *DIAGNOSIS_COLUMNS)),
        *(_first(quoted(column)) for column in rows.others),
        *(_of_cell(cell) for cell in rows.cells),
    ]
    ordinary = ", ".join(literal(code) for code in place_names() if code not in _places_in_lists())
    place = "coalesce(l.place, c.first_place)"
    of_line = [
        "l.*",
        "c.first_service",
        "coalesce(l.cpt, c.first_cpt) AS event_procedure",
        f"CASE WHEN {place} NOT IN ({ordinary}) THEN {place} END AS event_place",
        "coalesce(l.service_date, c.first_service) AS dated",
        f"{outside} AS is_outside",
    ]
    texts = [quoted(cell.name) for cell in rows.cells if cell.kind == "text"]
    keys = ["joined_by", "event_procedure", "event_place", "is_outside", *texts]
    renamed = f"CASE WHEN e.row_key > c.first_row THEN e.claim_id || {literal(BETWEEN)} || e.row_key ELSE e.claim_id END"
    system = f", c.system_of_claim AS {SYSTEM_COLUMN}" if SYSTEM_COLUMN in rows.others else ""
    of_its_claim = [
        f"e.* REPLACE ({renamed} AS claim_id{system})",
        *(f"d.codes[{number}] AS {column}" for number, column in enumerate(NUMBERED, start=1)),
        "c.first_admitting_diagnosis AS admitting_diagnosis",
        f"coalesce(len(d.codes) > {len(NUMBERED)}, false) AS with_too_many_diagnoses",
        *(f"c.{quoted(flag)}" for flag in ("of_several_members", "of_several_systems", *rows.flags)),
    ]
    connection.execute(
        f"""
        CREATE TEMP TABLE joined_claims AS
        SELECT {", ".join(of_its_claim)}
        FROM (
            SELECT l.joined_by, {", ".join(of_event)}
            FROM (SELECT {", ".join(of_line)} FROM lines AS l JOIN claims_of_lines AS c USING (joined_by)) AS l
            GROUP BY {", ".join(f"l.{key}" for key in keys)}
        ) AS e
        JOIN claims_of_lines AS c USING (joined_by) LEFT JOIN diagnoses_of_claims AS d USING (joined_by)
        """
    )
    for table in ("lines", "claims_of_lines", "diagnoses_of_claims"):
        connection.execute(f"DROP TABLE {table}")  # they would take memory until the intake ends
    (events,) = connection.execute("SELECT count(*) FROM joined_claims").fetchall()[0]
    return (
        f"claims: {how_many(lines, 'line was', 'lines were')} joined to {how_many(events, 'event')} of "
        f"{how_many(claims, 'claim')}" + (f"; of their lines, the first decided where they differ in {told}" if told else "")
    )


def _unite_diagnoses(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the temporary table `diagnoses_of_claims`: the codes of all lines of a claim, each once, in their order.

    Admitting diagnoses but the claim's first are further ones: nothing else would hold them.
    """
    listed = ", ".join(f"{{'code': {column}, 'place_of_code': {number}}}" for number, column in enumerate(NUMBERED))
    connection.execute(
        f"""
        CREATE TEMP TABLE diagnoses_of_claims AS
        SELECT joined_by, list(code ORDER BY place_of_code) AS codes
        FROM (
            SELECT joined_by, code, min(place_of_code) AS place_of_code
            FROM (
                SELECT joined_by, one.code AS code, row_key::HUGEINT * {len(NUMBERED)} + one.place_of_code AS place_of_code
                FROM (
                    SELECT joined_by, row_key, unnest(list_filter([{listed}], lambda one: one.code IS NOT NULL)) AS one
                    FROM lines
                )
                UNION ALL
                SELECT joined_by, admitting_diagnosis, {_AFTER_ALL} + row_key
                FROM lines JOIN claims_of_lines USING (joined_by) WHERE admitting_diagnosis <> first_admitting_diagnosis
            )
            GROUP BY joined_by, code
        )
        GROUP BY joined_by
        """
    )


def _system_of_claim(rows: Rows, diagnosis_codes: DiagnosisCodes) -> tuple[str, str]:
    """SQL over the lines of a claim: whether they are of several coding systems, and what their column says of it."""
    if diagnosis_codes == "by_date":
        return _differs(f"({is_icd10(diagnosis_codes)})::INTEGER"), "NULL"
    if SYSTEM_COLUMN not in rows.others:
        return "false", "NULL"
    # A line with a diagnosis of which nothing says the system is of another one; a line without either says nothing.
    stated = f"nullif(trim({SYSTEM_COLUMN}::VARCHAR), '') IS NOT NULL"
    says = f"{stated} OR coalesce({', '.join(DIAGNOSIS_COLUMNS)}) IS NOT NULL"
    system = f"CASE WHEN {says} THEN coalesce(({is_icd10(diagnosis_codes)})::VARCHAR, '') END"
    return _differs(system), f"arg_min({SYSTEM_COLUMN}, row_key) FILTER (WHERE {stated})"


def join_spans(connection: duckdb.DuckDBPyConnection, rows: Rows, gaps_at_most: int) -> str:
    """Create the temporary table `joined_members` of people from their spans of enrolment, and return what to tell of it.

    The spans of a person that overlap, or are at most `gaps_at_most` days apart, are one, in the list `enrolment`.

    Parameters
    ----------
    gaps_at_most
        Days between two spans that count as enrolled.
    """
    until = f"coalesce(enrolled_until, {_OPEN_END})"
    _key_rows(connection, rows, "members", "member_id", "spans")
    connection.execute(
        f"""
        CREATE TEMP TABLE enrolments AS
        SELECT joined_by, list({{'since': since, 'until': until}} ORDER BY since) AS enrolment,
            sum(overlapping)::BIGINT AS overlapping
        FROM (
            SELECT joined_by, run, min(enrolled_from) AS since, max({until}) AS until,
                count_if(enrolled_from <= before) AS overlapping
            FROM (
                SELECT *, count_if(before IS NULL OR enrolled_from > before + {int(gaps_at_most) + 1})
                    OVER (PARTITION BY joined_by ORDER BY enrolled_from, row_key) AS run
                FROM (
                    SELECT *, max({until}) OVER (PARTITION BY joined_by ORDER BY enrolled_from, row_key
                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
                    FROM spans WHERE enrolled_from IS NOT NULL
                )
            )
            GROUP BY joined_by, run
        )
        GROUP BY joined_by
        """
    )
    aggregates = [
        "min(l.row_key) AS row_key",
        *(_of_lines(column) for column in (*MEMBER_COLUMNS, *ENROLMENT)),
        *(f"{_differs(f'l.{column}')} AS of_several_{column}" for column in OF_A_PERSON),
        f"bool_or({IMPOSSIBLE_ENROLMENT}) AS of_impossible_enrolment",
        "coalesce(any_value(e.enrolment), []) AS enrolment",
        *(f"bool_or(l.{quoted(flag)}) AS {quoted(flag)}" for flag in rows.flags),
        *(_first(quoted(column)) for column in rows.others),
        *(_of_cell(cell) for cell in rows.cells),
    ]
    connection.execute(
        f"CREATE TEMP TABLE joined_members AS SELECT {', '.join(aggregates)}"
        " FROM spans AS l LEFT JOIN enrolments AS e USING (joined_by) GROUP BY l.joined_by"
    )
    found, people, overlaps = connection.execute(
        "SELECT (SELECT count(*) FROM spans), (SELECT count(*) FROM joined_members),"
        " (SELECT coalesce(sum(overlapping), 0)::BIGINT FROM enrolments)"
    ).fetchall()[0]
    connection.execute("DROP TABLE spans")
    connection.execute("DROP TABLE enrolments")
    return f"members: {how_many(found, 'span was', 'spans were')} joined to {how_many(people, 'person', 'people')}" + (
        f"; {how_many(overlaps, 'span overlaps', 'spans overlap')} an earlier one of the same person" if overlaps else ""
    )


def _key_rows(connection: duckdb.DuckDBPyConnection, rows: Rows, table: str, identifier: str, name: str) -> None:
    """Create a temporary table of the rows with `joined_by`: their identifier, or of a row without one its own key."""
    key = f"CASE WHEN {identifier} IS NULL THEN {literal(chr(0))} || row_key ELSE {identifier} END AS joined_by"
    connection.execute(f"CREATE TEMP TABLE {name} AS SELECT *, {key} FROM ({rows.sql})")
    connection.execute(f"CREATE TEMP TABLE {joined_rows(table)} AS SELECT row_key, joined_by FROM {name}")


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
    if column in (*_MOST, ENROLMENT[1]):
        return f"max(l.{column}) AS {column}"
    if column in (*_LARGEST_OF, *YEARS.values()):
        return _largest(column)
    return _first(column)


def _places_in_lists() -> frozenset[str]:
    places = list(place_names())
    return frozenset(sensitive_codes(places, "place", "extended", sets=SENSITIVE_SETS)["code"])


def _of_cell(cell: TypedColumn) -> str:
    """SQL of a cell of a declared column; text is the same in all rows of an event."""
    column = quoted(cell.name)
    if cell.kind == "decimal":
        # Millionths are summed as whole numbers: a sum of floating-point numbers depends on their order. least() passes over
        # a NULL.
        amount = f"CASE WHEN l.{column} IS NOT NULL THEN greatest(-{_LARGEST}, least(l.{column}, {_LARGEST})) END"
        return f"sum(round(({amount}) * {MILLIONTHS})::HUGEINT)::DOUBLE / {MILLIONTHS} AS {column}"
    if cell.kind == "integer":
        return _largest(column)
    if cell.kind == "date":
        return f"min(l.{column}) AS {column}"
    return _first(column)


def _largest(column: str) -> str:
    """SQL of the largest whole number, or the least if that is below 0: rules judge what is joined."""
    return f"CASE WHEN min(l.{column}) < 0 THEN min(l.{column}) ELSE max(l.{column}) END AS {column}"


def _first(column: str) -> str:
    return f"{_of_the_first(f'l.{column}')} AS {column}"


def _of_the_first(column: str) -> str:
    """SQL of the value of the first row that has one."""
    return f"arg_min({column}, row_key) FILTER (WHERE {column} IS NOT NULL)"
