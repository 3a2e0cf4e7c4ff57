"""The interface of adapters, and how their columns, of whatever type, are read as canonical columns.

Then the row-level rules, equal for every source, in the order in which they are applied.

A row that breaks a rule is quarantined under the name of the first rule that it breaks. Rules are SQL over the views of
`layout`; `quarantine` applies those that depend on other rows (duplicates, unknown members).

Last, a window of years from a longer history: rows outside are left out before anything is judged, and counted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import duckdb

from deid_assets.errors import DeliveryError, how_many
from deid_assets.reference.groups import place_names
from deid_assets.reference.known_columns import DIAGNOSES, KNOWN, MEMBERS, NUMBERS_OF_CLAIMS, NUMBERS_OF_MEMBERS, YEARS
from deid_assets.sources import joining
from deid_assets.sources.delivery import (
    CLAIM_COLUMNS,
    CLAIM_INGREDIENTS,
    CODE_COLUMNS,
    DATE_COLUMNS,
    DELIVERED_CLAIM_COLUMNS,
    DELIVERED_MEMBER_COLUMNS,
    DIAGNOSIS_COLUMNS,
    ENROLMENT,
    EVENT_COLUMNS,
    FURTHER,
    IN_ICD10,
    OF_OTHER_PERIOD,
    SYSTEM_COLUMN,
    YEARS_BY_DEFAULT,
    DiagnosisCodes,
    FromColumn,
    UnknownCodes,
    Years,
    canonical,
    is_icd10,
)
from deid_assets.sources.derivations import NOTHING, Declared, TypedColumn
from deid_assets.sources.files import UNSEEN, IntakeState, count_rows, is_unseen
from deid_assets.store.tables import literal, quoted

_DATES = set(DATE_COLUMNS)
_ISO = ("%Y-%m-%d",)
_INTEGERS = {*NUMBERS_OF_MEMBERS, *NUMBERS_OF_CLAIMS, "year", "pay_delay"}
_INTEGER_TYPES = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT"}
_FRACTIONS = {"DECIMAL", "FLOAT", "DOUBLE"}
_NUMBERS = {*_INTEGER_TYPES, "UHUGEINT", *_FRACTIONS}
_LOST = "which have lost the leading zeros of their codes (042 became 42): deliver diagnosis codes as text"
_WHOLE_NUMBER = "[+-]?[0-9]+([.]0+)?"
# CMS places that admit patients: hospitals and facilities with beds, and places that do not show it.
_PLACES_OF_STAYS = ("06", "08", "21", "25", "26", "31", "32", "33", "34", "51", "54", "55", "56", "61")
_STAY_GIVEN = "discharge_date >= admission_date"
# A code unknown to CMS shows no place. If claims with such codes are kept, it becomes a blank.
_ELSEWHERE = f"place IS NOT NULL AND place IN {tuple(code for code in place_names() if code not in _PLACES_OF_STAYS)}"
_UNTOLD = f"(place IS NULL OR place NOT IN {tuple(place_names())})"


@dataclass(frozen=True)
class RowRule:
    """A row-level rule: its name, the column that it judges, and SQL that is true where a row breaks it."""

    name: str
    column: str
    broken: str


@dataclass(frozen=True)
class Delivered:
    """The delivery as prepared by an adapter: temporary relations with canonical column names, not yet judged.

    Attributes
    ----------
    members, claims
        Names of relations with a unique `row_key` and some of the canonical columns, as text or typed. Other columns
        are for the adapter's own rules.
    member_rules, claim_rules
        The adapter's own rules, judged before all others.
    column_names
        Per table, canonical column -> the delivery's own name for it, for messages.
    date_formats
        Per table, canonical column -> format of its dates if they are text or whole numbers; default 2008-12-31.
    years
        The calendar years that are read, or None if `year` is delivered as 1 to 3.
    year_1
        The calendar year that is year 1, where `years` does not say it.
    sex_values
        The delivery's coding of sex, in upper case -> F or M.
    unknown_codes
        Treatment of a claim with an unknown code.
    claim_ids_are_rows
        True if the claim id is derived from the row and so cannot be duplicated.
    declared
        The policy's declared columns, whose cells are in the relations under `TypedColumn.raw`.
    diagnosis_codes
        What says the coding system of diagnoses.
    gaps_at_most
        If the rows of members are spans of enrolment: days between two that count as enrolled; None: a row is a member.
    conflicts_at_most
        If the rows of claims are lines: share of the claims whose lines may differ in what the first decides; None: a row is a
        claim.
    events
        Relations of other tables of events, by the name of the table; without a claim id, a row is an event.
    same_as_claims
        By table of events: columns of providers whose identifiers are those of claims.
    """

    members: str
    claims: str
    member_rules: tuple[RowRule, ...] = ()
    claim_rules: tuple[RowRule, ...] = ()
    column_names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    date_formats: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    years: Years | None = None
    year_1: int | None = None
    sex_values: Mapping[str, str] = field(default_factory=dict)
    unknown_codes: UnknownCodes = "quarantine"
    claim_ids_are_rows: bool = False
    declared: Declared = NOTHING
    diagnosis_codes: DiagnosisCodes = "icd9cm"
    gaps_at_most: int | None = None
    conflicts_at_most: float | None = None
    events: Mapping[str, str] = field(default_factory=dict)
    same_as_claims: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def relations(self) -> dict[str, str]:
        """The relation of each table."""
        return {"members": self.members, "claims": self.claims, **self.events}

    def is_joined(self, table: str) -> bool:
        """Whether the rows of a table are lines or spans."""
        joined = {"members": self.gaps_at_most, "claims": self.conflicts_at_most}
        return joined.get(table) is not None

    def shown(self, table: str, column: str) -> str:
        """The delivery's own name for a canonical column, or for the cells of a declared one."""
        names = self.declared.delivered(table) | dict(self.column_names.get(table, {}))
        return names.get(column, column)

    def formats(self, table: str, column: str) -> tuple[str, ...]:
        """The date formats of a column."""
        declared = {cell.raw: cell.formats for cell in self.declared.cells(table) if cell.kind == "date"}
        return declared.get(column) or self.date_formats.get(table, {}).get(column, _ISO)

    @property
    def last_year(self) -> int:
        """The number of the last year."""
        return YEARS_BY_DEFAULT if self.years is None else self.years.count


def lay_members(staging: IntakeState, delivered: Delivered) -> None:
    """Create the temporary view `laid_members`: canonical columns in canonical types.

    A value that cannot be read is NULL; for dates and numbers, `<column>_unread` flags it.
    """
    _set_values(staging.connection, delivered)
    _lay(staging, delivered, "members", DELIVERED_MEMBER_COLUMNS, {})


def lay_claims(staging: IntakeState, delivered: Delivered) -> frozenset[str]:
    """Create the temporary view `laid_claims` and return the canonical columns in the delivery.

    If length of stay, pay delay and year are not delivered, they are derived from dates. A visit to a place that does
    not admit patients is not a stay, whatever its dates.
    """
    connection = staging.connection
    present = set(_described(connection, delivered.claims))
    _require_codes_as_text(connection, delivered)
    derived = {}
    if {"admission_date", "discharge_date"} <= present:
        # A stay that ends on the day on which it begins lasts one day.
        derived["length_of_stay"] = (
            f"CASE WHEN {_STAY_GIVEN} AND NOT ({_ELSEWHERE}) THEN greatest(1, discharge_date - admission_date) END"
        )
    if "paid_date" in present:
        derived["pay_delay"] = "paid_date - service_date"
    if delivered.years is not None:
        derived["year"] = f"date_part('year', service_date) - {delivered.years.first - 1}"
    if delivered.claim_ids_are_rows:
        derived["claim_id"] = "row_key::VARCHAR"
    _lay(staging, delivered, "claims", DELIVERED_CLAIM_COLUMNS, derived)
    united = joining.NUMBERED if delivered.is_joined("claims") and present & {*DIAGNOSIS_COLUMNS} else ()
    return frozenset(present & set(DELIVERED_CLAIM_COLUMNS) | {*derived, *united})


def lay_events(staging: IntakeState, delivered: Delivered, table: str) -> bool:
    """Create the temporary view `laid_<table>` of another table of events; return whether its rows have identifiers."""
    present = set(_described(staging.connection, delivered.events[table]))
    derived = {} if "claim_id" in present else {"claim_id": "row_key::VARCHAR"}
    if delivered.years is not None:
        derived["year"] = f"date_part('year', service_date) - {delivered.years.first - 1}"
    _lay(staging, delivered, table, EVENT_COLUMNS, derived)
    return "claim_id" in present


def warn_of_stays(staging: IntakeState, delivered: Delivered) -> None:
    """Warn of claims that may be visits: whether their first and last day were taken for admission and discharge.

    Call this when the view `typed_claims` exists.
    """
    present = set(_described(staging.connection, delivered.claims))
    if not {"admission_date", "discharge_date"} <= present:
        return
    unstated = "NOT length_of_stay_unread" if "length_of_stay" in present else "true"
    untold = _UNTOLD if delivered.unknown_codes == "blank" else "place IS NULL"  # otherwise such claims are quarantined
    elsewhere, one_day = staging.connection.execute(
        f"SELECT count_if({_STAY_GIVEN} AND {_ELSEWHERE} AND length_of_stay IS NULL AND {unstated}),"
        f" count_if(admission_date = discharge_date AND {untold} AND length_of_stay = 1) FROM typed_claims"
    ).fetchall()[0]
    columns = " and ".join(delivered.shown("claims", column) for column in ("admission_date", "discharge_date"))
    if elsewhere:
        staging.warnings.append(
            f"claims: {how_many(elsewhere, 'claim has', 'claims have')} {columns}, but a place of service where nobody is "
            "admitted, so that none is a stay or gets a length of stay; if they should, map length_of_stay"
        )
    if one_day:
        staging.warnings.append(
            f"claims: {how_many(one_day, 'claim')} without a known place of service, with the same day in {columns}, became "
            "stays of 1 day: if these are the first and last day of any service, map the place, or columns that only stays fill"
        )


def _require_codes_as_text(connection: duckdb.DuckDBPyConnection, delivered: Delivered) -> None:
    """Raise DeliveryError if diagnoses are numbers: 079.53 and 795.3 would both be 7953, and only one of them is sensitive."""
    types = _described(connection, delivered.claims)
    for column in DIAGNOSIS_COLUMNS:
        if types.get(column, "VARCHAR").partition("(")[0] in _NUMBERS and _has_values(connection, delivered.claims, column):
            raise DeliveryError(
                f"claims: column {delivered.shown('claims', column)} (to be read as {column}) contains numbers, {_LOST}"
            )


def _require_declared_codes_as_text(
    connection: duckdb.DuckDBPyConnection, delivered: Delivered, table: str, types: Mapping[str, str]
) -> None:
    """Raise DeliveryError if codes are numbers that equal no text: 0450 would be 450, or 450.0, and be no listed code."""
    relation = delivered.relations[table]
    for made in delivered.declared.all.values():
        if made.table != table or not made.cells:
            continue
        cell, is_diagnosis = made.cells[0], made.book is not None and made.book.is_text
        kind = types[cell.raw].partition("(")[0]
        if is_diagnosis and kind in _NUMBERS and _has_values(connection, relation, cell.raw):
            raise DeliveryError(f"{table}: column {cell.column} contains numbers, {_LOST}")
        lost = kind in _NUMBERS and any(code.startswith("0") and code.isdigit() and code != "0" for code in made.codes)
        if (lost or (made.codes and kind in _FRACTIONS)) and _has_values(connection, relation, cell.raw):
            raise DeliveryError(
                f"{table}: column {cell.column} contains numbers, and the policy lists codes that numbers cannot equal "
                "(0450 became 450, or 450.0): deliver them as text"
            )


def _has_values(connection: duckdb.DuckDBPyConnection, relation: str, column: str) -> bool:
    found = connection.execute(f"SELECT 1 FROM {quoted(relation)} WHERE {quoted(column)} IS NOT NULL LIMIT 1").fetchall()
    return bool(found)


def _set_values(connection: duckdb.DuckDBPyConnection, delivered: Delivered) -> None:
    """Set variables for views: a view cannot have parameters, but may read a variable."""
    sexes = {"F": "F", "M": "M", "FEMALE": "F", "MALE": "M"} | dict(delivered.sex_values)
    years = delivered.years
    first = delivered.year_1 if years is None else years.first
    start, end = (None, None) if first is None else (f"{first}-01-01", f"{first + delivered.last_year}-01-01")
    for table in delivered.relations:
        for column in DATE_COLUMNS:
            for number, one in enumerate(delivered.formats(table, column)):
                connection.execute(f"SET VARIABLE {_format_variable(table, column, number)} = ?", [one])
    connection.execute("SET VARIABLE year_1_start = (SELECT ?::DATE)", [start])
    connection.execute("SET VARIABLE years_end = (SELECT ?::DATE)", [end])
    connection.execute("SET VARIABLE sex_values = (SELECT map(?, ?))", [list(sexes), list(sexes.values())])


def _format_variable(table: str, column: str, number: int) -> str:
    return f"format_{number}_of_{table}_{column}"


def _described(connection: duckdb.DuckDBPyConnection, relation: str) -> dict[str, str]:
    return {row[0]: row[1] for row in connection.execute(f"DESCRIBE {quoted(relation)}").fetchall()}


def _lay(
    staging: IntakeState,
    delivered: Delivered,
    table: str,
    columns: tuple[str, ...],
    derived: Mapping[str, str],
) -> None:
    """Create the view `laid_<table>` over a delivered relation: read every cell, join what is one, then derive the rest."""
    connection = staging.connection
    relation = delivered.relations[table]
    types = _described(connection, relation)
    read = []
    unread = []
    final = [f"{is_icd10(delivered.diagnosis_codes)} AS {IN_ICD10}"] if table == "claims" else []
    for column in columns:
        kind = "DATE" if column in _DATES else "INTEGER" if column in _INTEGERS else "VARCHAR"
        if column in types:
            value = _read(column, types[column], table, delivered.formats(table, column))
            if kind != "VARCHAR":
                given = _text(column, types[column]) if types[column] == "VARCHAR" else f"d.{column}"
                read.append(f"({given} IS NOT NULL AND {value} IS NULL) AS {column}_unread")
                unread.append(f"{column}_unread")
                final.append(f"{column}_unread")
            if column == "year" and delivered.years is not None:
                value = f"{value}::BIGINT - {delivered.years.first - 1}"
            read.append(f"{value} AS {column}")
        else:
            read.append(f"NULL::{kind} AS {column}")
            if kind != "VARCHAR":
                final.append(f"false AS {column}_unread")
        value = f"coalesce(r.{column}, {derived[column]})" if column in derived else f"r.{column}"
        if column in DIAGNOSIS_COLUMNS and (column in types or delivered.is_joined(table)):
            value = canonical(delivered.diagnosis_codes, value)
        # Numbers beyond the type were read as NULL; sums and differences of the others may still overflow.
        final.append(f"TRY_CAST({value} AS {kind}) AS {column}")
    _require_declared_codes_as_text(connection, delivered, table, types)
    for cell in delivered.declared.cells(table):
        value = _cell(cell, types[cell.raw])
        given = _text(quoted(cell.raw), types[cell.raw])
        read += [f"({given} IS NOT NULL AND {value} IS NULL) AS {quoted(cell.unread)}", f"{value} AS {quoted(cell.name)}"]
        final += [quoted(cell.unread), quoted(cell.name)]
    others = [column for column in types if column not in columns and column != "row_key"]
    extras = [quoted(column) for column in others]
    each = f"SELECT {', '.join(['row_key', *extras, *read])} FROM {quoted(relation)} AS d"
    cells = delivered.declared.cells(table)
    rows = joining.Rows(each, (*unread, *(cell.unread for cell in cells)), cells, others)
    if table == "claims" and delivered.conflicts_at_most is not None:
        staging.progress("joining lines to claims")
        outside = _left_out(delivered.years)
        told = joining.join_lines(connection, rows, delivered.conflicts_at_most, delivered.diagnosis_codes, outside)
        staging.warnings.append(told)
        each = "SELECT * FROM joined_claims"
        final += joining.FLAGS[table]
    elif table == "members" and delivered.gaps_at_most is not None:
        staging.progress("joining spans to members")
        staging.warnings.append(joining.join_spans(connection, rows, delivered.gaps_at_most))
        each = "SELECT * FROM joined_members"
        final += [*joining.FLAGS[table], "enrolment"]
    elif table == "members":
        final += [f"{joining.IMPOSSIBLE_ENROLMENT} AS of_impossible_enrolment", f"{joining.own_enrolment()} AS enrolment"]
    # What was joined is laid out once: each of its 26 columns of diagnoses is a long expression, for every query to work out.
    kind = "TABLE" if delivered.is_joined(table) else "VIEW"
    connection.execute(
        f"CREATE TEMP {kind} {quoted(f'laid_{table}')} AS SELECT {', '.join(['row_key', *extras, *final])} FROM ({each}) AS r"
    )
    if delivered.is_joined(table):
        connection.execute(f"DROP TABLE joined_{table}")


def _left_out(years: Years | None) -> str:
    """SQL that is true for a line l of a year that is left out; `dated` is its date."""
    if years is None or years.outside != "leave_out":
        return "false"
    return f"coalesce(coalesce(l.year, date_part('year', dated) - {years.first - 1}) NOT BETWEEN 1 AND {years.count}, false)"


def _cell(cell: TypedColumn, kind: str) -> str:
    """SQL of a cell of a declared column, delivered as type `kind`; NULL if it is blank or cannot be read as what it is."""
    column = quoted(cell.raw)
    text = _text(column, kind)
    if cell.kind == "integer":
        return _read_integer(column, kind, text)
    if cell.kind == "decimal":
        return f"CASE WHEN isfinite(TRY_CAST({text} AS DOUBLE)) THEN TRY_CAST({text} AS DOUBLE) END"
    if cell.kind == "date":
        return _read_date(column, kind, text, {literal(one): one for one in cell.formats})
    return text


def _text(column: str, kind: str) -> str:
    """SQL of a delivered cell as text without surrounding blanks; blank is NULL."""
    return f"nullif(trim(d.{column}{'' if kind == 'VARCHAR' else '::VARCHAR'}), '')"


def _read(column: str, kind: str, table: str, formats: tuple[str, ...]) -> str:
    """SQL of a delivered cell of type `kind` in its canonical type; NULL if it is blank or cannot be read."""
    text = _text(column, kind)
    if column in _DATES:
        variables = [f"getvariable('{_format_variable(table, column, number)}')" for number in range(len(formats))]
        return _read_date(column, kind, text, dict(zip(variables, formats, strict=True)))
    if column in _INTEGERS:
        return _read_integer(column, kind, text)
    if column in DIAGNOSIS_COLUMNS:
        # Two codes in one cell are none. The dot says whether it is a code: `canonical` removes it.
        is_two = f"contains({text}, ' ') AND regexp_matches({text}, '[^ ] +[^ ]{{3}}')"
        return f"upper(CASE WHEN {is_two} THEN {text} ELSE replace({text}, ' ', '') END)"
    if column == "cpt":
        return f"nullif(upper(replace(replace({text}, '.', ''), ' ', '')), '')"
    if column == "place":
        return f"CASE WHEN len({text}) = 1 THEN '0' || {text} ELSE {text} END"
    if column == "sex":
        return f"coalesce(getvariable('sex_values')[upper({text})], {text})"
    return text


def _read_date(column: str, kind: str, text: str, formats: Mapping[str, str]) -> str:
    """SQL of a date; `formats` are given by the SQL that yields each of them."""
    if kind == "TIMESTAMP WITH TIME ZONE":
        # The day of a moment must not depend on the time zone of this host.
        day = f"(d.{column} AT TIME ZONE 'UTC')::DATE"
    elif kind == "DATE" or kind.startswith("TIMESTAMP"):
        day = f"d.{column}::DATE"
    else:
        days = [parsed_day(text, found, zoned="%z" in one or "%Z" in one) for found, one in formats.items()]
        # If two formats read different days, the date is ambiguous and not read: 01/02/2008 is in January or in
        # February.
        day = (
            days[0]
            if len(days) == 1
            else f"CASE WHEN len(list_distinct([{', '.join(days)}])) = 1 THEN coalesce({', '.join(days)}) END"
        )
    return f"CASE WHEN isfinite({day}) THEN {day} END"


def parsed_day(text: str, date_format: str, zoned: bool = False) -> str:
    """SQL of text as a date; NULL if it is not one. DuckDB accepts 'epoch' and 'infinity' in any format, for 1900-01-01.

    Parameters
    ----------
    zoned
        Whether the format has a time zone: the day is then that of the moment in UTC, on every host.
    """
    moment = f"try_strptime({text}, {date_format})" + (" AT TIME ZONE 'UTC'" if zoned else "")
    return f"CASE WHEN regexp_matches({text}, '[0-9]') THEN ({moment})::DATE END"


def _read_integer(column: str, kind: str, text: str) -> str:
    if kind in _INTEGER_TYPES:
        return f"TRY_CAST(d.{column} AS INTEGER)"
    if kind in ("FLOAT", "DOUBLE") or kind.startswith("DECIMAL"):
        # A cast would silently round 45.5 to 46.
        return f"CASE WHEN d.{column} = floor(d.{column}) THEN TRY_CAST(d.{column} AS INTEGER) END"
    if column == "year":
        text = f"ltrim(upper({text}), 'Y')"  # published Heritage files write Y1
    return f"CASE WHEN regexp_full_match({text}, '{_WHOLE_NUMBER}') THEN TRY_CAST({text} AS INTEGER) END"


UNPARSEABLE, WRONG_TYPE, OUTSIDE = "unparseable date", "wrong type", "year outside"
_UNREAD = {"text": WRONG_TYPE, "integer": WRONG_TYPE, "decimal": "not a number", "date": UNPARSEABLE}
RULES_OF_LINES = (
    RowRule("lines of one claim with several members", "member_id", "of_several_members"),
    RowRule("lines of one claim with several coding systems", "diagnosis_1", "of_several_systems"),
    RowRule(f"more than {len(joining.NUMBERED)} diagnoses on the lines of a claim", "diagnosis_1", "with_too_many_diagnoses"),
)
RULES_OF_SPANS = tuple(
    RowRule(f"spans of one person that differ in {column}", column, f"of_several_{column}") for column in joining.OF_A_PERSON
)
DUPLICATE_MEMBER = RowRule("duplicate member", "member_id", "false")
DUPLICATE_CLAIM = RowRule("duplicate claim", "claim_id", "false")
DUPLICATE_EVENT = RowRule("duplicate row", "claim_id", "false")

CLAIM_CODE_COLUMNS = {**CODE_COLUMNS, "diagnosis": (*DIAGNOSES, FURTHER)}
"""The columns of the claims for each kind of code."""


def declared_rules(declared: Declared, table: str, unknown_codes: UnknownCodes = "quarantine") -> tuple[RowRule, ...]:
    """The rules on what a policy declares: cells that can be read as what they are, values that are allowed, known codes."""
    unread = [RowRule(_UNREAD[cell.kind], cell.raw, f"t.{quoted(cell.unread)}") for cell in declared.cells(table)]
    coded = declared.events.get(table, {}) if unknown_codes == "quarantine" else {}
    unknown = [
        RowRule("unknown code", made.cells[0].raw, made.coded.unknown) for made in coded.values() if made.coded is not None
    ]
    return (*unread, *(RowRule(*rule) for rule in declared.rules(table)), *dict.fromkeys(unknown))


def system_rules(codes: DiagnosisCodes, columns: Sequence[str], in_both: bool) -> tuple[RowRule, ...]:
    """The rules on claims of which nothing says the system, and of which dates and policy say different ones.

    Parameters
    ----------
    columns
        The delivered columns of diagnoses.
    in_both
        Whether the table `in_both_systems` lists codes on claims of the other period that both systems know.
    """
    if not columns:
        return ()
    rules = []
    if not isinstance(codes, str) or codes == "by_date":
        column = SYSTEM_COLUMN if isinstance(codes, FromColumn) else "service_date"
        coded = f"coalesce({', '.join(columns)}) IS NOT NULL"
        rules.append(RowRule("diagnosis of an unknown coding system", column, f"{IN_ICD10} IS NULL AND {coded}"))
    if in_both:
        rules += [
            RowRule(
                "diagnosis code of both systems, dated in the period of the other",
                column,
                f"{OF_OTHER_PERIOD} AND {column} IN (SELECT code FROM in_both_systems)",
            )
            for column in columns
        ]
    return tuple(rules)


_DAYS = tuple(column for column in CLAIM_COLUMNS if column in (*NUMBERS_OF_CLAIMS, "pay_delay"))


def _outside(column: str) -> RowRule:
    """The rule on a whole number; limits are those of the known column."""
    words, (least, most) = column.replace("_", " "), (KNOWN[column].limits if column in KNOWN else None) or (0, None)
    if most is None:
        return RowRule(f"negative {words}", column, f"{column} < 0")
    return RowRule(f"{words} outside {least} to {most}", column, f"{column} NOT BETWEEN {least} AND {most}")


MEMBER_RULES = (
    RowRule("null member id", "member_id", "member_id IS NULL"),
    RowRule(UNSEEN, "member_id", is_unseen("member_id")),
    *(RowRule(UNPARSEABLE, column, f"{column}_unread") for column in ("birth_date", "death_date", *ENROLMENT)),
    RowRule("enrolment that ends before it begins, or never began", "enrolled_until", "of_impossible_enrolment"),
    *(RowRule(WRONG_TYPE, column, f"{column}_unread") for column in NUMBERS_OF_MEMBERS),
    *(
        RowRule(f"{column} not {', '.join(known.values)} or blank", column, f"{column} NOT IN {known.values}")
        for column, known in MEMBERS.items()
        if known.values
    ),
    *(_outside(column) for column in NUMBERS_OF_MEMBERS if column not in YEARS.values()),
    # A member born within the years of the delivery has age 0. Birth after them, or 121 years before, gives no valid
    # age.
    RowRule(
        "age outside 0 to 120",
        "birth_date",
        "birth_date >= getvariable('years_end') OR birth_date <= getvariable('year_1_start') - INTERVAL 121 YEAR",
    ),
    RowRule("death before birth", "death_date", "death_date < birth_date"),
    *(RowRule("days in hospital outside 0 to 366", column, f"{column} NOT BETWEEN 0 AND 366") for column in YEARS.values()),
)


def claim_rules(
    first: Iterable[RowRule], year_column: str, last_year: int, unknown_kinds: Iterable[str]
) -> tuple[RowRule, ...]:
    """The rules on claims, in order.

    Parameters
    ----------
    first
        The adapter's own rules.
    year_column
        The column that the year comes from.
    last_year
        The number of the last year.
    unknown_kinds
        Kinds of codes (keys of `CODE_COLUMNS`) with unknown codes in the delivery that are to be quarantined; the table
        `unknown_<kind>` lists them.
    """
    return (
        *first,
        RowRule("null claim id", "claim_id", "claim_id IS NULL"),
        RowRule("null member id", "member_id", "member_id IS NULL"),
        *(RowRule(UNPARSEABLE, column, f"{column}_unread") for column in ("service_date", *CLAIM_INGREDIENTS)),
        *(RowRule(WRONG_TYPE, column, f"{column}_unread") for column in ("year", *_DAYS)),
        RowRule("no year and no service date", year_column, "year IS NULL"),
        RowRule(f"{OUTSIDE} 1 to {last_year}", year_column, f"year NOT BETWEEN 1 AND {last_year}"),
        RowRule("discharge before admission", "discharge_date", "discharge_date < admission_date"),
        *(_outside(column) for column in _DAYS),
        RowRule(
            "claim of an unknown member",
            "member_id",
            "member_id NOT IN (SELECT member_id FROM typed_members WHERE member_id IS NOT NULL)",
        ),
        RowRule(
            "claim of a quarantined member",
            "member_id",
            "member_id NOT IN (SELECT member_id FROM kept_members)",
        ),
        *(
            RowRule(f"unknown {kind} code", column, f"{column} IN (SELECT code FROM unknown_{kind})")
            for kind in unknown_kinds
            for column in CODE_COLUMNS[kind]
        ),
        DUPLICATE_CLAIM,
    )


def event_rules(first: Iterable[RowRule], year_column: str, last_year: int) -> tuple[RowRule, ...]:
    """The rules on the rows of another table of events, in order; parameters as for `claim_rules`."""
    common = (rule for rule in claim_rules((), year_column, last_year, ()) if rule.column in EVENT_COLUMNS)
    return (*first, *(RowRule(rule.name.replace("claim", "row"), rule.column, rule.broken) for rule in common))


def open_window(connection: duckdb.DuckDBPyConnection, delivered: Delivered) -> None:
    """Create the view `typed_<table>` of each table: the rows of `layout` to be judged.

    If the policy leaves out claims of other years, it also leaves out members not known to belong to these years: all
    their events are of other years, or they have none and were born after the years or died before. They would enlarge
    the classes in which released members hide, although nobody would look for them in the release.

    Raises
    ------
    DeliveryError
        If all claims are of other years.
    """
    years = delivered.years
    if years is None or years.outside != "leave_out":
        for table in delivered.relations:
            connection.execute(f"CREATE TEMP VIEW typed_{table} AS SELECT * FROM laid_{table}")
        return
    # A claim whose year cannot be read is judged, not left out.
    outside = f"coalesce(year NOT BETWEEN 1 AND {delivered.last_year}, false)"
    for table in ("claims", *delivered.events):
        connection.execute(f"CREATE TEMP VIEW typed_{table} AS SELECT * FROM laid_{table} WHERE NOT {outside}")
    every = " UNION ALL ".join(f"SELECT member_id, year FROM laid_{table}" for table in ("claims", *delivered.events))
    of_claims = f"SELECT member_id, bool_and({outside}) AS elsewhere FROM ({every}) GROUP BY member_id"
    connection.execute(
        f"""
        CREATE TEMP TABLE left_out_members AS
        SELECT row_key FROM laid_members AS m
        LEFT JOIN ({of_claims}) AS c USING (member_id)
        WHERE coalesce(c.elsewhere,
            m.birth_date >= getvariable('years_end') OR m.death_date < getvariable('year_1_start'), false)
        """
    )
    connection.execute(
        "CREATE TEMP VIEW typed_members AS SELECT * FROM laid_members AS m"
        " WHERE NOT EXISTS (SELECT 1 FROM left_out_members AS l WHERE l.row_key = m.row_key)"
    )
    for table in ("claims", *delivered.events):
        laid, kept = (count_rows(connection, f"{view}_{table}") for view in ("laid", "typed"))
        if not laid or kept:
            continue
        years_read = f"{years.first} to {years.first + years.count - 1} (source.years)"
        what = "claims" if table == "claims" else "rows"
        raise DeliveryError(f"{table}: none of {laid:,} {what} is from the years {years_read}: correct the years of the policy")
