"""Rows of a delivery that are less than what they are about: lines of a claim, and spans of a person's enrolment.

Lines are joined to events before anything is judged, so that power, cuts and counts are those of claims and not of lines. A row
that breaks a rule breaks the rule for its whole claim or person: what one line says must not be lost because it cannot be read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

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
from deid_assets.sources.diagnosis_systems import SYSTEM_COLUMN, DiagnosisCodes, is_icd10
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
JOINED = {"claims": "keyed_lines", "members": "spans"}
"""Tables of the rows that were joined, each with the key of what it was joined to."""
KEYS = {"claims": "claim_key", "members": "person_key"}
_BETWEEN = chr(31)
"""Between the id of a claim and the number of its event: a sign that ids do not have, so that no other claim is called so."""
_MILLIONTHS = 1_000_000
_LARGEST = 10**15
"""Amounts beyond it count as it: they are above whatever a policy tells apart, and their sum has a limit."""
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


def join_lines(
    connection: duckdb.DuckDBPyConnection, rows: Rows, conflicts_at_most: float, diagnosis_codes: DiagnosisCodes
) -> str:
    """Create the temporary table `joined_claims` of claims from their lines, and return what to tell of it.

    An event is a claim and one of its procedures: lines of the same procedure, and of the same text in declared columns, are
    one; a line without a procedure joins the first. All events of a claim have all its diagnoses. Decimal numbers are summed,
    whole numbers are the largest. Dates of service and admission are the first, those of discharge and payment the last. Place,
    specialty and providers are those of the first line that has one. Lines of a place that a list of sensitive codes names, or
    that is unknown, are events of their own: policies choose among the lists, and no other place may hide it.

    Parameters
    ----------
    conflicts_at_most
        Share of the claims whose lines may differ in one of the columns of which the first line decides.
    diagnosis_codes
        What says the coding system of diagnoses: of each line, and all lines of a claim must be of one.

    Raises
    ------
    DeliveryError
        If the lines of more claims differ.
    """
    connection.execute(f"CREATE TEMP VIEW lines_of_claims AS {rows.sql}")
    texts = [quoted(cell.name) for cell in rows.cells if cell.kind == "text"]
    ordinary = ", ".join(literal(code) for code in place_names() if code not in _places_in_lists())
    first_of_claim = "OVER (PARTITION BY claim_key ORDER BY row_key ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"
    place = f"coalesce(place, first_value(place IGNORE NULLS) {first_of_claim})"
    connection.execute(
        f"""
        CREATE TEMP TABLE keyed_lines AS
        SELECT *, coalesce(cpt, first_value(cpt IGNORE NULLS) {first_of_claim}) AS event_procedure,
            CASE WHEN {place} NOT IN ({ordinary}) THEN {place} END AS event_place
        FROM (SELECT *, CASE WHEN claim_id IS NULL THEN {literal(chr(0))} || row_key ELSE claim_id END AS claim_key
              FROM lines_of_claims)
        """
    )
    system, own_system = "0", "NULL"
    if diagnosis_codes == "by_date":
        system = f"count(DISTINCT {is_icd10(diagnosis_codes)})"
    elif SYSTEM_COLUMN in rows.others:
        # A line with a diagnosis of which nothing says the system is of another one; a line without either says nothing.
        stated = f"nullif(trim({SYSTEM_COLUMN}::VARCHAR), '') IS NOT NULL"
        system = (
            f"count(DISTINCT coalesce(({is_icd10(diagnosis_codes)})::VARCHAR, ''))"
            f" FILTER (WHERE {stated} OR coalesce({', '.join(DIAGNOSIS_COLUMNS)}) IS NOT NULL)"
        )
        own_system = f"first({SYSTEM_COLUMN} ORDER BY row_key) FILTER (WHERE {stated})"
    flags = "".join(f"bool_or({quoted(flag)}) AS {quoted(flag)}, " for flag in rows.flags)
    # The position of a code: admitting diagnoses beyond the first are further ones.
    listed = ", ".join(f"{{'code': {column}, 'position': {number}}}" for number, column in enumerate(NUMBERED))
    connection.execute(
        f"""
        CREATE TEMP TABLE claims_of_lines AS
        SELECT c.*, coalesce(d.codes, []) AS codes
        FROM (SELECT claim_key, min(row_key) AS first_row, count(*) AS lines,
                count(DISTINCT member_id) > 1 AS of_several_members,
                {system} > 1 AS of_several_systems, {own_system} AS system_of_claim, {flags}
                first(admitting_diagnosis ORDER BY row_key) FILTER (WHERE admitting_diagnosis IS NOT NULL) AS admitting,
                {", ".join(f"count(DISTINCT {column}) > 1 AS differ_in_{column}" for column in _HEADER)}
              FROM keyed_lines GROUP BY claim_key) AS c
        LEFT JOIN (
            SELECT claim_key, list(code ORDER BY is_admitting, row_key, position) AS codes
            FROM (
                SELECT claim_key, code, min(is_admitting) AS is_admitting,
                    arg_min(row_key, (is_admitting, row_key, position)) AS row_key,
                    arg_min(position, (is_admitting, row_key, position)) AS position
                FROM (
                    SELECT claim_key, row_key, one.code AS code, one.position AS position, false AS is_admitting
                    FROM (SELECT claim_key, row_key, unnest([{listed}]) AS one FROM keyed_lines)
                    UNION ALL
                    SELECT claim_key, row_key, admitting_diagnosis, 0, true FROM keyed_lines
                    WHERE admitting_diagnosis IS NOT NULL QUALIFY admitting_diagnosis <> first_value(admitting_diagnosis)
                        OVER (PARTITION BY claim_key ORDER BY row_key)
                )
                WHERE code IS NOT NULL GROUP BY claim_key, code
            )
            GROUP BY claim_key
        ) AS d USING (claim_key)
        """
    )
    counted = ", ".join(f"count_if(differ_in_{column})" for column in _HEADER)
    lines, claims, *differ = connection.execute(
        f"SELECT sum(lines)::BIGINT, count(*), {counted} FROM claims_of_lines"
    ).fetchall()[0]
    conflicts = {column: count for column, count in zip(_HEADER, differ, strict=True) if count}
    told = ", ".join(f"{column} {count:,} ({count / claims:.2%})" for column, count in conflicts.items())
    if any(count > conflicts_at_most * claims for count in conflicts.values()):
        raise DeliveryError(
            f"claims: of {claims:,} claims, the lines differ in {told}, and the first line would decide; at most "
            f"{conflicts_at_most:.2%} of the claims may (source.claims.conflicts_at_most): correct the lines, leave the column "
            "out, or allow a larger share"
        )
    aggregates = [
        "min(l.row_key) AS row_key",
        f"first(l.claim_id ORDER BY l.row_key) || CASE WHEN min(l.row_key) > any_value(c.first_row) THEN {literal(_BETWEEN)}"
        " || dense_rank() OVER (PARTITION BY l.claim_key ORDER BY min(l.row_key)) ELSE '' END AS claim_id",
        *(_of_lines(column) for column in DELIVERED_CLAIM_COLUMNS if column not in ("claim_id", "cpt", *DIAGNOSIS_COLUMNS)),
        "any_value(l.event_procedure) AS cpt",
        *(f"(any_value(c.codes))[{number}] AS {column}" for number, column in enumerate(NUMBERED, start=1)),
        "any_value(c.admitting) AS admitting_diagnosis",
        f"any_value(len(c.codes)) > {len(NUMBERED)} AS with_too_many_diagnoses",
        *(f"bool_or(c.{flag}) AS {flag}" for flag in FLAGS["claims"][:2]),
        *_kept(rows, "c", {SYSTEM_COLUMN: "any_value(c.system_of_claim)"}),
        *(_of_cell(cell) for cell in rows.cells),
    ]
    keys = ", ".join(["l.claim_key", "l.event_procedure", "l.event_place", *(f"l.{text}" for text in texts)])
    connection.execute(
        f"CREATE TEMP TABLE joined_claims AS SELECT {', '.join(aggregates)}"
        f" FROM keyed_lines AS l JOIN claims_of_lines AS c USING (claim_key) GROUP BY {keys}"
    )
    (events,) = connection.execute("SELECT count(*) FROM joined_claims").fetchall()[0]
    return f"claims: {lines:,} lines were joined to {events:,} events of {claims:,} claims" + (
        f"; of their lines, the first decided where they differ in {told}" if told else ""
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
        *(f"count(DISTINCT l.{column}) > 1 AS of_several_{column}" for column in OF_A_PERSON),
        "bool_or(l.enrolled_until < l.enrolled_from) AS of_impossible_enrolment",
        "coalesce(any_value(e.enrolment), []) AS enrolment",
        *_kept(rows, "l"),
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


def _kept(rows: Rows, table: str, known: Mapping[str, str] = MappingProxyType({})) -> Iterable[str]:
    """SQL of flags and of other columns; `known` are those of the whole claim."""
    yield from (f"bool_or({table}.{quoted(flag)}) AS {quoted(flag)}" for flag in rows.flags)
    yield from (f"{known[column]} AS {quoted(column)}" if column in known else _first(quoted(column)) for column in rows.others)


def _of_lines(column: str) -> str:
    """SQL of a canonical column of several rows."""
    if column in (*_LEAST, ENROLMENT[0]) or (column in NUMBERS_OF_MEMBERS and column not in YEARS.values()):
        return f"min(l.{column}) AS {column}"
    if column in (*_MOST, ENROLMENT[1]) or column in YEARS.values():
        return f"max(l.{column}) AS {column}"
    return _first(column)


def _places_in_lists() -> frozenset[str]:
    places = list(place_names())
    return frozenset(sensitive_codes(places, "place", "extended", sets=SENSITIVE_SETS)["code"])


def _of_cell(cell: Cell) -> str:
    """SQL of a cell of a declared column; text is the same in all rows of an event."""
    column = quoted(cell.name)
    if cell.kind == "decimal":
        # Millionths are summed as whole numbers: a sum of floating-point numbers depends on their order. least() passes over
        # a NULL.
        amount = f"CASE WHEN l.{column} IS NOT NULL THEN greatest(-{_LARGEST}, least(l.{column}, {_LARGEST})) END"
        return f"sum(round(({amount}) * {_MILLIONTHS})::HUGEINT)::DOUBLE / {_MILLIONTHS} AS {column}"
    if cell.kind == "integer":
        return f"max(l.{column}) AS {column}"
    if cell.kind == "date":
        return f"min(l.{column}) AS {column}"
    return _first(column)


def _first(column: str) -> str:
    return f"first(l.{column} ORDER BY l.row_key) FILTER (WHERE l.{column} IS NOT NULL) AS {column}"
