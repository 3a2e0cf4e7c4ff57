"""Intake: convert a delivery to the canonical tables, through its adapter and the row-level rules.

Errors in files, or more broken rows than the policy allows, refuse the delivery; the tables of the last intake then
stay unchanged. All intermediate data is temporary and lost when the connection closes, whatever happens.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import pandas as pd

from deid_assets.errors import DeliveryError
from deid_assets.reference.codes import ICD10CM_PREFIX, SYSTEMS, DiagnosisSystem, bare
from deid_assets.reference.known_columns import (
    AGES,
    DAYS_OF_SERVICE,
    DECLARED_CODES,
    EVENT_TABLE,
    GROUPED,
    PROVIDER_PSEUDONYMS,
    UNREADABLE,
    UNREADABLE_DECLARED,
    CodeKind,
)
from deid_assets.sources.delivery import (
    CLAIM_COLUMNS,
    CODE_COLUMNS,
    FURTHER,
    FURTHER_DIAGNOSES,
    IN_ICD10,
    MEMBER_COLUMNS,
    NAMES,
    OF_OTHER_PERIOD,
    SYSTEM_AT_LEAST,
    SYSTEM_COLUMN,
    Delivery,
    DesynpufSource,
    DiagnosisCodes,
    FromColumn,
    SourceOptions,
    SyntheticSource,
    TablesSource,
    of_other_system,
)
from deid_assets.sources.derivations import NOTHING, Declared, Derivation
from deid_assets.sources.desynpuf import lay_out_desynpuf
from deid_assets.sources.files import OURS, IntakeState, naming_damaged_files, replacing, staged
from deid_assets.sources.joining import BETWEEN
from deid_assets.sources.layout import (
    CLAIM_CODE_COLUMNS,
    DUPLICATE_CLAIM,
    DUPLICATE_EVENT,
    DUPLICATE_MEMBER,
    MEMBER_RULES,
    Delivered,
    RowRule,
    claim_rules,
    declared_rules,
    event_rules,
    lay_claims,
    lay_events,
    lay_members,
    open_window,
    system_rules,
    warn_of_stays,
)
from deid_assets.sources.quarantine import Quarantine
from deid_assets.sources.report import IntakeReport
from deid_assets.sources.synthetic.members import first_year
from deid_assets.sources.tables import lay_out_synthetic, lay_out_tables
from deid_assets.store.tables import literal, quoted

SCHEMA = "intake"
_COLUMNS_TOLD = 3

KnownCodes = Callable[[Sequence[str], CodeKind], pd.DataFrame]
"""Says of distinct codes (upper case, without dots) of a kind whether each is known, in the column `known`."""


@dataclass(frozen=True)
class Reading:
    """What a policy says of how its deliveries are read.

    Parameters
    ----------
    source
        The policy's description of the source; must match the delivery's kind.
    quarantine_at_most
        Maximum share of the rows of either table that may break a rule, in [0, 1].
    declared
        Columns that the policy declares beyond the canonical ones.
    diagnosis_codes
        What says the coding system of diagnoses.
    """

    source: SourceOptions
    quarantine_at_most: float
    declared: Declared = NOTHING
    diagnosis_codes: DiagnosisCodes = "icd9cm"


def _laid_out(staging: IntakeState, delivery: Delivery, reading: Reading) -> Delivered:
    """The delivery as its adapter lays it out."""
    source, codes = reading.source, reading.diagnosis_codes
    if isinstance(source, TablesSource) and source.claims is not None and isinstance(codes, FromColumn):
        columns = {**source.claims.columns, SYSTEM_COLUMN: codes.from_}
        source = source.model_copy(update={"claims": source.claims.model_copy(update={"columns": columns})})
    if isinstance(source, SyntheticSource):
        delivered = lay_out_synthetic(staging, delivery, source, reading.declared, first_year(codes == "icd10cm"))
    elif isinstance(source, DesynpufSource):
        delivered = lay_out_desynpuf(staging, delivery, source, reading.declared)
    else:
        delivered = lay_out_tables(staging, delivery, source, reading.declared)
    return replace(delivered, diagnosis_codes=codes)


def read_delivery(
    store_file: Path,
    delivery: Delivery,
    reading: Reading,
    known_codes: KnownCodes | None,
    progress: Callable[[str], None] | None = None,
) -> IntakeReport:
    """Read a delivery into `intake.members`, `.claims`, `.quarantined_rows` and `.delivered_codes` of the store file.

    The four tables are replaced in one transaction; the order of their rows is arbitrary. A delivery without claims
    gives an empty `intake.claims`.

    Parameters
    ----------
    store_file
        DuckDB file of the restricted store; created if absent.
    delivery
        What was received.
    reading
        How the policy reads it.
    known_codes
        Identifies unknown codes; None: no code is looked up.
    progress
        Called with a short sentence per step.

    Returns
    -------
    IntakeReport
        Counts of rows read, kept and quarantined.

    Raises
    ------
    DeliveryError
        If a file is missing, empty, unreadable, has no rows or lacks a column, or if too many rows break a rule (these
        are then listed in `intake.refused_rows`). The message names file, column, line count and rule, never a value.
    """
    if delivery.kind != reading.source.kind:
        raise DeliveryError(
            f"delivery {delivery.key} is of the kind {delivery.kind}, but the policy reads the kind {reading.source.kind}"
        )
    why = ": a file is damaged, or memory or disk space ran out"
    with (
        staged(store_file, delivery.files, f"delivery {delivery.key}", why, progress, OURS) as staging,
        naming_damaged_files(staging),
    ):
        staging.show_folders = len(delivery.paths) > 1
        delivered = _laid_out(staging, delivery, reading)
        return _take_in(staging, delivered, delivery.key, reading.quarantine_at_most, known_codes)


def _take_in(
    staging: IntakeState, delivered: Delivered, key: str, at_most: float, known_codes: KnownCodes | None
) -> IntakeReport:
    """Judge the rows from the adapter, and write the tables or refuse the delivery."""
    connection = staging.connection
    quarantine = Quarantine(staging, delivered)
    _write_lookups(connection, delivered.declared)
    lay_members(staging, delivered)
    given = lay_claims(staging, delivered)
    identified = [table for table in delivered.events if lay_events(staging, delivered, table)]
    open_window(connection, delivered)
    _write_books(connection, delivered)
    staging.progress("judging members")
    quarantine.judge(
        "members", (*delivered.member_rules, *MEMBER_RULES, *declared_rules(delivered.declared, "members"), DUPLICATE_MEMBER)
    )
    quarantine.judge_duplicates("members", DUPLICATE_MEMBER)
    connection.execute(
        f"CREATE TEMP TABLE kept_members AS SELECT member_id FROM typed_members AS t WHERE {quarantine.kept('members')}"
    )
    staging.progress("looking up codes")
    unknown = tuple(kind for kind in GROUPED if _find_unknown(staging, kind, known_codes, given))
    diagnoses = _delivered_codes("diagnosis", given)
    if diagnoses:
        _refuse_other_system(staging, delivered, key, diagnoses, "diagnosis" in unknown)
    in_both = _find_in_both_systems(staging, delivered, known_codes, diagnoses)
    staging.progress("judging claims")
    systems = system_rules(delivered.diagnosis_codes, diagnoses, in_both)
    quarantine.judge("claims", _claim_rules(staging, delivered, systems, unknown))
    if not delivered.claim_ids_are_rows:
        quarantine.judge_duplicates("claims", DUPLICATE_CLAIM)
    for table in delivered.events:
        first = declared_rules(delivered.declared, table, delivered.unknown_codes)
        quarantine.judge(table, event_rules(first, _year_column(staging, delivered.events[table]), delivered.last_year))
        if table in identified:
            quarantine.judge_duplicates(table, DUPLICATE_EVENT)
    warn_of_stays(staging, delivered)
    _warn_of_unknown_codes(staging, quarantine, delivered)
    report = IntakeReport(
        delivery=key,
        files=tuple(staging.file_names),
        rows_read=quarantine.rows_read(),
        rows_left_out=quarantine.rows_left_out(),
        rows_kept=quarantine.rows_kept(),
        quarantined=quarantine.counts(),
        blanked_codes=_count_blanked(staging, quarantine, delivered, _blanked(delivered, given, unknown)),
        warnings=tuple(staging.warnings),
        digest=staging.received.digest(),
    )
    if refusal := report.refusal(at_most, quarantine.every_reason):
        quarantine.write_refused(SCHEMA)
        raise DeliveryError(refusal)
    staging.progress("writing members and claims")
    _write(connection, quarantine, delivered, given, unknown)
    return report


def _write_lookups(connection: duckdb.DuckDBPyConnection, declared: Declared) -> None:
    """Write the tables that declared columns are looked up in."""
    for lookup in declared.lookups.values():
        columns = ", ".join(f"unnest(?::VARCHAR[]) AS {quoted(column)}" for column in lookup.columns)
        connection.execute(
            f"CREATE TEMP TABLE {quoted(lookup.name)} AS SELECT {columns}", [list(values) for values in lookup.columns.values()]
        )


def _write_books(connection: duckdb.DuckDBPyConnection, delivered: Delivered) -> None:
    """Look up every code of the delivery for which a declared column has a table of its own."""
    for table in ("claims", *delivered.events):
        for book in delivered.declared.books(table).values():
            codes = connection.execute(
                f"SELECT DISTINCT {book.code} AS code FROM typed_{table} AS t WHERE {book.code} IS NOT NULL ORDER BY code"
            ).fetchnumpy()["code"]
            found = book.read(connection, [str(code) for code in codes])
            columns = ", ".join(f"unnest(?::VARCHAR[]) AS {column}" for column in found)
            values = [[one if isinstance(one, str) else None for one in found[column]] for column in found]
            connection.execute(f"CREATE TEMP TABLE {quoted(book.name)} AS SELECT {columns}", values)


def _delivered_codes(kind: str, given: frozenset[str]) -> list[str]:
    """The delivered columns of a kind of code."""
    return [column for column in CODE_COLUMNS[kind] if column in given]


def _claim_rules(
    staging: IntakeState, delivered: Delivered, systems: Sequence[RowRule], unknown: Sequence[str]
) -> tuple[RowRule, ...]:
    kinds = unknown if delivered.unknown_codes == "quarantine" else ()
    first = (*delivered.claim_rules, *systems, *declared_rules(delivered.declared, "claims", delivered.unknown_codes))
    return claim_rules(first, _year_column(staging, delivered.claims), delivered.last_year, kinds)


def _year_column(staging: IntakeState, relation: str) -> str:
    """The delivered column that the year of an event comes from."""
    columns = {row[0] for row in staging.connection.execute(f"DESCRIBE {quoted(relation)}").fetchall()}
    return "year" if "year" in columns else "service_date"


def _find_unknown(staging: IntakeState, kind: CodeKind, known_codes: KnownCodes | None, given: frozenset[str]) -> bool:
    """List the delivery's unknown codes of a kind in the table `unknown_<kind>`; return whether there are any."""
    columns = _delivered_codes(kind, given)
    if known_codes is None or not columns:
        return False
    # In one look at the claims: they are a view that reads every cell, and DuckDB plans it anew each time that it is named.
    every = f"SELECT unnest([{', '.join(columns)}]) AS code FROM typed_claims"
    codes = staging.connection.execute(
        f"SELECT code FROM ({every}) WHERE code IS NOT NULL GROUP BY code ORDER BY code"
    ).fetchnumpy()["code"]
    known = known_codes([str(code) for code in codes], kind)["known"].to_numpy(dtype=bool)
    unknown = [str(code) for code in codes[~known]]
    staging.connection.execute(f"CREATE TEMP TABLE unknown_{kind} AS SELECT unnest(?::VARCHAR[]) AS code", [unknown])
    return bool(unknown)


def _refuse_other_system(
    staging: IntakeState, delivered: Delivered, key: str, columns: Sequence[str], has_unknown: bool
) -> None:
    """Refuse a delivery of diagnoses in another coding system, whatever becomes of unknown codes.

    Raises
    ------
    DeliveryError
        If too many diagnoses have the form of the system that they should not be of.
    """
    codes = delivered.diagnosis_codes
    of_other = ", ".join(f"count(*) FILTER ({of_other_system(codes, column, has_unknown)})" for column in columns)
    counts = ", ".join(f"count({column})" for column in columns)
    found = staging.connection.execute(
        f"SELECT {IN_ICD10}, {counts}, {of_other} FROM typed_claims AS t WHERE {IN_ICD10} IS NOT NULL GROUP BY 1 ORDER BY 1"
    ).fetchall()
    written = [sum(row[1 + number] for row in found) for number in range(len(columns))]
    for in_icd10, *numbers in found:
        others = numbers[len(columns) :]
        if sum(others) <= (1 - SYSTEM_AT_LEAST) * sum(written):
            continue
        frequent = sorted(zip(others, written, columns, strict=True), key=lambda one: -one[0])[:_COLUMNS_TOLD]
        shares = [f"{count / of:.0%} of {delivered.shown('claims', column)}" for count, of, column in frequent if count]
        own, theirs = SYSTEMS[::-1] if in_icd10 else SYSTEMS
        raise DeliveryError(
            f"delivery {key} is refused: {', '.join(shares)} are codes of {NAMES[theirs]}, where diagnosis_codes says "
            f"{NAMES[own]}. {_remedy(codes, theirs, sum(others) > sum(written) / 2)}. No list of sensitive codes or "
            "group would see codes of another system"
        )


def _remedy(codes: DiagnosisCodes, theirs: DiagnosisSystem, most: bool) -> str:
    """What to do about diagnoses of another system than the policy says, which may be most of all."""
    if most:
        return f"Set diagnosis_codes: {theirs}"
    if codes == "by_date":
        return "Correct the dates, or name the column that states each claim's system (diagnosis_codes: {from: COLUMN})"
    if isinstance(codes, FromColumn):
        return f"Correct the column {codes.from_}, which states each claim's system"
    return "Both systems occur: set diagnosis_codes: by_date, or name the column that states each claim's system (from: COLUMN)"


def _find_in_both_systems(
    staging: IntakeState, delivered: Delivered, known_codes: KnownCodes | None, columns: Sequence[str]
) -> bool:
    """List codes of both systems, on claims of the other's period, in the table `in_both_systems`; return whether any."""
    # By date, no claim is of the other period.
    if known_codes is None or not columns or delivered.diagnosis_codes == "by_date":
        return False
    every = f"SELECT DISTINCT unnest([{', '.join(columns)}]) AS code FROM typed_claims WHERE {OF_OTHER_PERIOD}"
    codes = [row[0] for row in staging.connection.execute(f"SELECT code FROM ({every}) WHERE code IS NOT NULL").fetchall()]
    plain = [bare(code) for code in codes]
    in_icd9, in_icd10 = (
        known_codes([prefix + code for code in plain], "diagnosis")["known"].to_numpy(dtype=bool)
        for prefix in ("", ICD10CM_PREFIX)
    )
    both = [code for code, known in zip(codes, in_icd9 & in_icd10, strict=True) if known]
    staging.connection.execute("CREATE TEMP TABLE in_both_systems AS SELECT unnest(?::VARCHAR[]) AS code", [both])
    return bool(both)


def _blanked(delivered: Delivered, given: frozenset[str], unknown: Sequence[str]) -> dict[str, str]:
    """Claims columns whose unknown codes become NULL -> SQL that tests whether a row's code is unknown."""
    return {
        column: f"t.{column} IN (SELECT code FROM unknown_{kind})"
        for kind in (unknown if delivered.unknown_codes == "blank" else ())
        for column in _delivered_codes(kind, given)
    }


def _count_blanked(
    staging: IntakeState, quarantine: Quarantine, delivered: Delivered, blanked: Mapping[str, str]
) -> dict[str, int]:
    """Unknown codes that become NULL, by column of events; where rows with one are quarantined, no such row is kept."""
    found: dict[str, int] = {}
    for table in delivered.declared.events:
        coded = {name: one.unknown for name, one in delivered.declared.coded_of(table).items()}
        conditions = {**blanked, **coded} if table == "claims" else coded
        if not conditions:
            continue
        counted = ", ".join(f"count_if({condition})" for condition in conditions.values())
        rows = staging.connection.execute(f"SELECT {counted} FROM typed_{table} AS t WHERE {quarantine.kept(table)}")
        found |= {column: count for column, count in zip(conditions, rows.fetchall()[0], strict=True) if count}
    return found


def _warn_of_unknown_codes(staging: IntakeState, quarantine: Quarantine, delivered: Delivered) -> None:
    """Say how many codes of declared columns are unknown; where rows with one are quarantined, no such row is kept."""
    for table, columns in delivered.declared.events.items():
        for name, coded in delivered.declared.coded_of(table).items():
            cell = columns[name].cells[0]
            written, unknown, different = staging.connection.execute(
                f"SELECT count({cell.sql}), count_if({coded.unknown}), count(DISTINCT {cell.sql}) FILTER ({coded.unknown})"
                f" FROM typed_{table} AS t WHERE {quarantine.kept(table)}"
            ).fetchall()[0]
            if unknown:
                staging.warnings.append(
                    f"{table}: {unknown:,} of {written:,} codes in {cell.column} are unknown ({unknown / written:.2%}; "
                    f"{different:,} different ones): nothing says whether they are sensitive, and who has one is not released"
                )


def _write(
    connection: duckdb.DuckDBPyConnection,
    quarantine: Quarantine,
    delivered: Delivered,
    given: frozenset[str],
    unknown: Sequence[str],
) -> None:
    """Replace the four tables in one transaction."""
    declared = delivered.declared
    counts = _codes_select(quarantine, given, unknown, delivered)
    _find_first_claims(connection, quarantine)
    _find_anchors(connection, quarantine, declared)
    members = _members_select(quarantine, declared.members)
    claims = _claims_select(quarantine, given, _blanked(delivered, given, unknown), delivered)
    claims = " UNION ALL BY NAME ".join((claims, *(_events_select(quarantine, delivered, table) for table in delivered.events)))
    with replacing(connection, SCHEMA):
        connection.execute(f"CREATE OR REPLACE TABLE {SCHEMA}.members AS {members}")
        connection.execute(f"CREATE OR REPLACE TABLE {SCHEMA}.claims AS {claims}")
        connection.execute(f"CREATE OR REPLACE TABLE {SCHEMA}.delivered_codes AS {counts}")
        quarantine.write(SCHEMA)


def _codes_select(quarantine: Quarantine, given: frozenset[str], unknown: Sequence[str], delivered: Delivered) -> str:
    """Count, for each column of codes, the codes on the kept claims, and how many of them cannot be read.

    A blanked code is not in the claims: only this table distinguishes it from one that was never there.
    """

    def counts(kind: str, column: str) -> tuple[str, str, str]:
        bad = f"t.{column} IN (SELECT code FROM unknown_{kind})" if kind in unknown and column in given else "false"
        is_diagnosis = kind == "diagnosis" and column in given
        other = of_other_system(delivered.diagnosis_codes, column, "diagnosis" in unknown) if is_diagnosis else "false"
        return f"count(t.{column})", f"count(*) FILTER ({bad})", f"count(*) FILTER ({other})"

    def row(column: str, kind: str, counted: Sequence[str]) -> str:
        written, unreadable, other = counted
        return (
            f"{{source_column: {literal(column)}, kind: {literal(kind)}, written: {written}, unreadable: {unreadable},"
            f" other_system: {other}}}"
        )

    own = [(name, kind) for kind, columns in CLAIM_CODE_COLUMNS.items() for name in columns if name != FURTHER]
    further = [counts("diagnosis", column) for column in FURTHER_DIAGNOSES if column in given]
    together = [" + ".join(sums) for sums in zip(*further, strict=True)] or ["0::BIGINT"] * 3
    rows: dict[str, list[str]] = {table: [] for table in delivered.declared.events} | {
        "claims": [row(name, kind, counts(kind, name)) for name, kind in own] + [row(FURTHER, "diagnosis", together)]
    }
    for table, columns in delivered.declared.events.items():
        for name, coded in delivered.declared.coded_of(table).items():
            text = columns[name].cells[0].sql
            rows[table].append(row(name, coded.kind, (f"count({text})", f"count(*) FILTER ({coded.unknown})", "0::BIGINT")))
    every = " UNION ALL ".join(
        f"SELECT [{', '.join(of_table)}] AS found FROM typed_{table} AS t WHERE {quarantine.kept(table)}"
        for table, of_table in rows.items()
        if of_table
    )
    return f"SELECT unnest(found, recursive := true) FROM ({every})"


def _find_first_claims(connection: duckdb.DuckDBPyConnection, quarantine: Quarantine) -> None:
    """Create the table `first_claims`: the first service date of each member and year, over the kept claims."""
    connection.execute(
        "CREATE TEMP TABLE first_claims AS SELECT member_id, year, min(service_date) AS first_date"
        f" FROM typed_claims AS t WHERE {quarantine.kept('claims')} GROUP BY member_id, year"
    )


def _find_anchors(connection: duckdb.DuckDBPyConnection, quarantine: Quarantine, declared: Declared) -> None:
    """Create the table of every anchor that declared columns count from, over the kept rows of its tables of events."""
    for anchor in declared.anchors:
        by = "member_id, year" if anchor.by_year else "member_id"
        events = " UNION ALL ".join(
            f"SELECT member_id, year, service_date FROM typed_{table} AS t WHERE {quarantine.kept(table)}"
            for table in anchor.tables
        )
        connection.execute(
            f"CREATE TEMP TABLE {anchor.name} AS SELECT {by}, min(service_date) AS first_date FROM ({events}) GROUP BY {by}"
        )


def _members_select(quarantine: Quarantine, declared: Mapping[str, Derivation]) -> str:
    """The kept members; if age is not delivered, it is the completed years at the first claim of year 1.

    Without such a claim, it is the age at the start of year 1; members born later, but within the delivery's years, are
    0 years old.
    """
    # least and greatest skip NULL, so unknown dates need an explicit test.
    age = """
        CASE
            WHEN t.age IS NOT NULL THEN t.age
            WHEN t.birth_date IS NOT NULL AND getvariable('year_1_start') IS NOT NULL THEN greatest(0, least(120,
                date_sub('year', t.birth_date, coalesce(f.first_date, getvariable('year_1_start')))))
        END::INTEGER AS age
    """
    columns = [age if column in AGES else f"t.{column}" for column in MEMBER_COLUMNS]
    for name, made in declared.items():
        # Of a member without events, an aggregate is that of no rows.
        of_none = f"(SELECT {made.value} FROM typed_{made.table} AS t WHERE false)"
        value = f"coalesce(of_{made.table}.{quoted(name)}, {of_none})" if made.of_events else made.value
        columns.append(f"{value} AS {quoted(name)}")
    events = ""
    for table in sorted({made.table for made in declared.values() if made.of_events}):
        own = {name: made.value for name, made in declared.items() if made.of_events and made.table == table}
        aggregates = ", ".join(f"{value} AS {quoted(name)}" for name, value in own.items())
        events += (
            f" LEFT JOIN (SELECT member_id, {aggregates} FROM typed_{table} AS t WHERE {quarantine.kept(table)}"
            f" GROUP BY member_id) AS of_{table} ON of_{table}.member_id = t.member_id"
        )
    return (
        f"SELECT {', '.join(columns)} FROM typed_members AS t"
        f" LEFT JOIN first_claims AS f ON f.member_id = t.member_id AND f.year = 1{events}"
        f" WHERE {quarantine.kept('members')}"
    )


def _claims_select(quarantine: Quarantine, given: frozenset[str], blanked: Mapping[str, str], delivered: Delivered) -> str:
    """The kept claims, with the days since the member's first claim of the year unless these are delivered."""
    derive_days = given.isdisjoint(DAYS_OF_SERVICE)

    def value(column: str) -> str:
        return f"CASE WHEN {blanked[column]} THEN NULL ELSE t.{column} END" if column in blanked else f"t.{column}"

    columns = []
    for column in CLAIM_COLUMNS:
        if column in DAYS_OF_SERVICE and derive_days:
            columns.append(f"(t.service_date - f.first_date)::INTEGER AS {column}")
        elif column == FURTHER:
            further = ", ".join(["NULL", *(value(name) for name in FURTHER_DIAGNOSES if name in given)])
            columns.append(f"nullif(concat_ws(' ', {further}), '')::VARCHAR AS {FURTHER}")
        else:
            columns.append(f"{value(column)} AS {column}")
    for kind, name in UNREADABLE.items():
        unread = [f"coalesce(({blanked[column]})::INTEGER, 0)" for column in CODE_COLUMNS[kind] if column in blanked]
        columns.append(f"({' + '.join(unread) or '0'})::INTEGER AS {name}")
    columns += _declared_values(delivered.declared, "claims")
    columns += [f"'claims' AS {EVENT_TABLE}"] if delivered.events else []
    join = " LEFT JOIN first_claims AS f ON f.member_id = t.member_id AND f.year = t.year" if derive_days else ""
    return f"SELECT {', '.join(columns)} FROM typed_claims AS t{join} WHERE {quarantine.kept('claims')}"


def _declared_values(declared: Declared, table: str) -> list[str]:
    """The declared columns of a table of events, and what they tell of their codes if any table declares codes."""
    columns = [f"{made.value} AS {quoted(name)}" for name, made in declared.events[table].items()]
    if declared.coded:
        coded = declared.coded_of(table).values()
        # `||` is NULL if any part is, and concat_ws passes over that.
        listed = (one.listed if one.has_kinds else f"{literal(f'{one.kind}:')} || {one.listed}" for one in coded)
        written = ", ".join(["NULL", *listed])
        columns.append(f"nullif(concat_ws(';', {written}), '')::VARCHAR AS {DECLARED_CODES}")
        unknown = " + ".join(f"coalesce(({one.unknown})::INTEGER, 0)" for one in coded) or "0"
        columns.append(f"({unknown})::INTEGER AS {UNREADABLE_DECLARED}")
    return columns


def _events_select(quarantine: Quarantine, delivered: Delivered, table: str) -> str:
    """The kept rows of another table of events as claims that have no columns of claims: what they lack is blank.

    No claim has an identifier that begins with the name of a table and the sign behind it. Providers are others than those of
    claims, unless the policy says that they are the same.
    """

    def provider(column: str) -> str:
        own = "" if column in delivered.same_as_claims.get(table, ()) else f"{literal(table + BETWEEN)} || "
        return f"{own}t.{column} AS {column}"

    columns = [
        f"{literal(table + BETWEEN)} || t.claim_id AS claim_id",
        "t.member_id",
        *(provider(column) for column in PROVIDER_PSEUDONYMS),
        "t.year",
        "t.service_date",
        *(f"0::INTEGER AS {name}" for name in UNREADABLE.values()),
        *_declared_values(delivered.declared, table),
        f"{literal(table)} AS {EVENT_TABLE}",
    ]
    return f"SELECT {', '.join(columns)} FROM typed_{table} AS t WHERE {quarantine.kept(table)}"
