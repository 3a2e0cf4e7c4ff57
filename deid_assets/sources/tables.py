"""Tables as a source: CSV, Parquet or DuckDB, read according to the policy's column map.

The output of the synthetic generator is such a delivery too: Parquet whose columns have their canonical names.
"""

import fnmatch
from pathlib import Path
from typing import Any

from deid_assets.errors import DeliveryError, how_many
from deid_assets.reference.known_columns import DAYS_OF_SERVICE
from deid_assets.sources.concepts import VOCABULARY
from deid_assets.sources.delivery import (
    CLAIM_COLUMNS,
    ENROLMENT,
    FURTHER,
    MEMBER_COLUMNS,
    Delivery,
    Lines,
    ReferenceTable,
    Spans,
    SyntheticSource,
    TableMap,
    TablesSource,
    place_of,
)
from deid_assets.sources.derivations import Declared
from deid_assets.sources.files import IntakeState, SourceTable, unite
from deid_assets.sources.layout import RULES_OF_LINES, RULES_OF_SPANS, Delivered
from deid_assets.sources.text_tables import BESIDE_FILES, CSV, DUCKDB, PARQUET, stage_file
from deid_assets.store.tables import quoted

_MEMBERS = "delivered_members"
_CLAIMS = "delivered_claims"


def lay_out_tables(staging: IntakeState, delivery: Delivery, source: TablesSource, declared: Declared) -> Delivered:
    """Map the policy's members and claims tables to canonical names, and read the cells of its declared columns.

    Raises
    ------
    DeliveryError
        If a file is missing, empty, unreadable, has no rows, is of an unknown format or lacks a mapped column, or if the policy
        names tables that nothing describes.
    """
    if source.unreadable:
        raise DeliveryError(f"delivery {delivery.key} contains what nothing describes: {'; '.join(source.unreadable)}")
    tables = source.tables
    if source.claims is None:
        # An empty relation, so that later code needs no special case.
        own = "".join(f", {quoted(column)} VARCHAR" for column in declared.delivered("claims"))
        staging.connection.execute(f"CREATE TEMP TABLE {quoted(_CLAIMS)} (row_key BIGINT{own})")
    for name, table in tables.items():
        _lay_out(staging, name, _files(staging, delivery, table, name, source.delimiter), table, declared)
    _lay_out_vocabulary(staging, delivery, source)
    return Delivered(
        _MEMBERS,
        _CLAIMS,
        column_names={name: table.columns for name, table in tables.items()},
        date_formats={name: table.formats(source.date_format) for name, table in tables.items()},
        years=source.years,
        sex_values={value.upper(): sex for value, sex in source.sex_values.items()},
        unknown_codes=source.unknown_codes,
        claim_ids_are_rows=source.claims is None or "claim_id" not in source.claims.columns,
        declared=declared,
        events={name: f"delivered_{name}" for name in source.events},
        same_as_claims={name: table.same_as_claims for name, table in source.events.items()},
        **_joined(source.members, source.claims),
    )


def lay_out_synthetic(
    staging: IntakeState, delivery: Delivery, source: SyntheticSource, declared: Declared, first_year: int
) -> Delivered:
    """Read `members.parquet`, `claims.parquet` and the generator's other tables of events, in canonical names and types.

    Parameters
    ----------
    first_year
        The calendar year that is year 1.

    Raises
    ------
    DeliveryError
        If a file is missing, unreadable, has no rows or lacks a canonical column.
    """
    # The generator creates no deaths, gives a claim at most four diagnoses, and leaves the days since the first claim
    # to the intake, like a data source.
    absent = ("death_date", *DAYS_OF_SERVICE, FURTHER)
    named = {"members": MEMBER_COLUMNS, "claims": CLAIM_COLUMNS}
    columns = {table: {name: name for name in names if name not in absent} for table, names in named.items()}
    if source.members.unit == "span":
        columns["members"] |= {name: name for name in ENROLMENT}
    columns |= {name: dict(table.columns) for name, table in source.events.items()}
    for table, found in columns.items():
        own = TableMap(file=f"{table}.parquet", columns=found)
        _lay_out(staging, table, _files(staging, delivery, own, table, ","), own, declared)
    return Delivered(
        _MEMBERS,
        _CLAIMS,
        year_1=first_year if source.members.unit == "span" else None,
        declared=declared,
        events={name: f"delivered_{name}" for name in source.events},
        same_as_claims={name: table.same_as_claims for name, table in source.events.items()},
        **_joined(source.members, source.claims),
    )


def _joined(members: Spans, claims: Lines | None) -> dict[str, Any]:
    """What is told of the rows of members and claims that are spans and lines."""
    spans = {"member_rules": RULES_OF_SPANS, "gaps_at_most": members.gaps_at_most} if members.unit == "span" else {}
    if claims is None or claims.unit != "line":
        return spans
    return {**spans, "claim_rules": RULES_OF_LINES, "conflicts_at_most": claims.conflicts_at_most}


def _lay_out(staging: IntakeState, source_table: str, files: list[SourceTable], table: TableMap, declared: Declared) -> None:
    """Create the relation over all files of one table, with its declared columns; the files of a table have one format."""
    columns = {**table.columns, **declared.delivered(source_table)}
    formats = {_format(file.path, staging) for file in files}
    if len(formats) > 1:
        raise DeliveryError(f"{table.file}: matches files of several formats ({', '.join(sorted(formats))})")
    parts = [f"delivered_{source_table}_{number}" for number in range(len(files))]
    for file, part in zip(files, parts, strict=True):
        stage_file(staging, file, part, source_table, columns)
    unite(staging, f"delivered_{source_table}", parts, table.file or files[0].path.name, columns)


def _lay_out_vocabulary(staging: IntakeState, delivery: Delivery, source: TablesSource) -> None:
    """Create the views of a delivered vocabulary, under the names that `concepts` reads."""
    for name, table in source.vocabulary.tables.items() if source.vocabulary is not None else ():
        files = _files(
            staging, delivery, table, f"vocabulary.{name}", source.vocabulary.delimiter if source.vocabulary else ","
        )
        parts = [f"{VOCABULARY[name].view}_{number}" for number in range(len(files))]
        columns = {column: column for column in VOCABULARY[name].columns}
        for file, part in zip(files, parts, strict=True):
            stage_file(staging, file, part, VOCABULARY[name].view, columns)
        unite(staging, VOCABULARY[name].view, parts, table.file, columns)


def _files(
    staging: IntakeState, delivery: Delivery, table: TableMap | ReferenceTable, source_table: str, delimiter: str
) -> list[SourceTable]:
    """The files of one table: below each folder of the delivery, or among its listed files."""
    # The vocabulary is no table of events.
    named = (source_table,) if isinstance(table, ReferenceTable) else place_of(source_table)
    place, found = ".".join(("source", *named)), list[Path]()
    for path in delivery.paths:
        if not path.is_dir():
            if table.file is None or path.name == table.file or fnmatch.fnmatch(path.name, table.file):
                found.append(path)
        elif table.file is None:
            raise DeliveryError(f"delivery {delivery.key} is a folder: the policy must name the file ({place}.file)")
        elif path / table.file in staging.received:
            # A name may contain the characters of a pattern; as a pattern, it would match other files.
            found.append(path / table.file)
        else:
            fitting = sorted(file for file in path.glob(table.file) if file in staging.received)
            passed = [file for file in fitting if file.name.startswith(BESIDE_FILES)]
            if passed:
                staging.warnings.append(
                    f"{table.file}: {how_many(len(passed), 'file was', 'files were')} passed over with a name that begins with "
                    f"{BESIDE_FILES}: macOS writes such files beside others, and they are no tables"
                )
            found.extend(file for file in fitting if file not in passed)
    if not found:
        raise DeliveryError(f"{table.file}: missing file; it should contain {source_table} of delivery {delivery.key}")
    unnamed = f"the policy must name the table ({place}.table)"
    return [SourceTable(path, table.table, delimiter, unnamed) for path in found]


def _format(path: Path, staging: IntakeState) -> str:
    name = path.name.lower()
    for file_format, suffixes in (("CSV", CSV), ("Parquet", PARQUET), ("DuckDB", DUCKDB)):
        if name.endswith(suffixes):
            return file_format
    known = ", ".join(CSV + PARQUET + DUCKDB)
    raise DeliveryError(f"{staging.shown(path)}: unknown format; the name must end in one of {known}")
