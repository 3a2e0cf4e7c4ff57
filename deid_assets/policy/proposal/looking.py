"""Look at the tables of a delivery: types, counts, forms of codes and dates. No value leaves this module."""

import fnmatch
import itertools
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Literal

import duckdb

from deid_assets.errors import DeliveryError
from deid_assets.methods.disclosure import identifier_patterns
from deid_assets.reference.groups import known_codes, place_names
from deid_assets.sources.csv_files import DAMAGED_ARCHIVE
from deid_assets.sources.delivery import NAMES, SPELLINGS, spelled_system
from deid_assets.sources.derivations import has_group, ndc_of
from deid_assets.sources.duckdb_files import duckdb_tables
from deid_assets.sources.files import IntakeState, SourceTable, naming_damaged_files, staged
from deid_assets.sources.layout import parsed_day
from deid_assets.sources.received import delivered_files
from deid_assets.sources.text_tables import BESIDE_FILES, CSV, DUCKDB, PARQUET, columns_of_file, stage_file
from deid_assets.store.tables import literal, quoted

Kind = Literal["blank", "integer", "decimal", "date", "text"]

ICD9, ICD10 = NAMES["icd9cm"], NAMES["icd10cm"]
DIAGNOSES = f"{ICD9} or {ICD10}"
PROCEDURES = "CPT or HCPCS"
PLACES, SPECIALTIES, ZIP, SEX_WORDS, SEX_DIGITS = "places of service", "specialties", "ZIP codes", "sex", "sex as 1 and 2"
IDENTIFIERS, CODING_SYSTEMS = "direct identifiers", "coding systems"
REVENUE, TAXONOMY, NDC = "revenue codes", "taxonomy codes", "NDCs"
DECIMAL_NUMBERS = "whole numbers with decimals"

DATE_FORMATS = (
    "%Y-%m-%d", "%Y%m%d", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%Y/%m/%d", "%d-%b-%Y", "%d%b%Y", "%m/%d/%y",
    "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S",
)  # fmt: skip
BOUNDS = (1, 10, 20, 50, 100, 120, 200, 500, 1_000)
"""Round numbers: of a column of numbers, only the smallest of them that is not exceeded is told."""

PERSON = re.compile("member|person|patient|bene|subscriber|enrollee", re.IGNORECASE)
"""Names of columns that identify people."""
BESIDE = "macOS wrote it beside another file, and it is no table"

_SUFFIXES = (*CSV, *PARQUET, *DUCKDB)
_DELIMITERS = (",", ";", "\t", "|")
_NEARLY_ALL = 0.98
_DISTINCT_AT_MOST = 100_000  # values of a column whose forms are looked at; counts are those of all
_UNPACKED_AT_MOST = 200  # times the size of a zip file
_A_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_ .\-/()#%]{0,63}\Z")

_LIKE_A_DAY = "regexp_full_match(v, '[0-9]{8}|[0-9]{2}[A-Za-z]{3}[0-9]{4}|[0-9]{1,4}[-/.][0-9A-Za-z]{1,3}[-/.][0-9]{2,4}.*')"

_CODE = "upper(replace(replace(v, '.', ''), ' ', ''))"
# Forms that are in both systems, such as E119, count for neither.
_OF_ICD9 = f"regexp_full_match({_CODE}, '(?:[0-9]{{3}}|V[0-9]{{2}})[0-9]{{0,2}}|E[0-9]{{3}}[0-9]?')"
_OF_ICD10 = f"regexp_full_match({_CODE}, '[A-Z][0-9][0-9AB][0-9A-Z]{{0,4}}')"
_SYSTEMS = {
    ICD9: f"{_OF_ICD9} AND NOT {_OF_ICD10}",
    ICD10: f"{_OF_ICD10} AND NOT {_OF_ICD9}",
    DIAGNOSES: f"{_OF_ICD9} OR {_OF_ICD10}",
    PROCEDURES: f"regexp_full_match({_CODE}, '[0-9]{{5}}|[0-9]{{4}}[FTMU]|[A-Z][0-9]{{4}}')",
    PLACES: f"CASE WHEN len(v) = 1 THEN '0' || v ELSE v END IN {tuple(place_names())}",
    REVENUE: has_group("v", "revenue_group"),
    TAXONOMY: has_group("v", "taxonomy_kind"),
    NDC: f"{ndc_of('v')} IS NOT NULL OR regexp_full_match(v, '[0-9]{{10}}')",
    DECIMAL_NUMBERS: "regexp_full_match(v, '[0-9]+[.]0+')",
    ZIP: "regexp_full_match(v, '[0-9]{5}(-?[0-9]{4})?')",
    SEX_WORDS: "upper(v) IN ('F', 'M', 'FEMALE', 'MALE')",
    SEX_DIGITS: "v IN ('1', '2')",
    CODING_SYSTEMS: f"{spelled_system('v')} IN {(*SPELLINGS['icd9cm'], *SPELLINGS['icd10cm'])}",
}
_IDENTIFIER = " OR ".join(
    [
        *(f"regexp_matches(v, {literal(one)}, 'i')" for one in identifier_patterns.IDENTIFIERS.values()),
        f"regexp_matches(v, {literal(identifier_patterns.TITLE)})",
    ]
)
"""What the gate takes for a direct identifier in a text."""


@dataclass(frozen=True)
class DeliveredColumn:
    """What is told of a column.

    Attributes
    ----------
    name
        Its name in the delivery.
    kind
        What nearly all of its values are.
    filled, distinct
        Rows with a value, and different values.
    shares
        Share of the filled rows whose value has the form of a code of a system.
    date_formats
        Formats that read nearly all values of a column of dates; none for a column of typed dates.
    years
        Calendar years, or whole numbers of years, each with its share of the filled rows, if it is one in a hundred or more.
    at_most
        The smallest of `BOUNDS` that no number exceeds; None: there is none, or a number is negative.
    """

    name: str
    kind: Kind
    filled: int
    distinct: int
    shares: Mapping[str, float] = field(default_factory=dict)
    date_formats: tuple[str, ...] = ()
    years: Mapping[int, float] = field(default_factory=dict)
    at_most: int | None = None

    def share(self, system: str) -> float:
        """Share of the filled rows that have the form of a system."""
        return self.shares.get(system, 0.0)


@dataclass(frozen=True)
class DeliveredTable:
    """What is told of a table.

    Attributes
    ----------
    file
        Name below the delivery's folder, or a pattern if several files have the same columns.
    table
        Table of a DuckDB file.
    delimiter
        Of a CSV file.
    rows
        Number of rows.
    columns
        Its columns, in order.
    """

    file: str
    table: str | None
    delimiter: str
    rows: int
    columns: tuple[DeliveredColumn, ...]

    @property
    def shown(self) -> str:
        """Its name in messages."""
        return self.file if self.table is None else f"{self.file}:{self.table}"

    def column(self, name: str) -> DeliveredColumn | None:
        """A column by its name, in any case."""
        return next((one for one in self.columns if one.name.lower() == name.lower()), None)


@dataclass(frozen=True)
class Look:
    """What is told of a delivery.

    Attributes
    ----------
    tables
        Its tables.
    related
        (Table, its column, other table, its column) -> share of the other column's values that the first one has.
    is_folder
        Whether the delivery is a folder.
    packed
        Whether it is a zip file of several tables, which no run reads.
    passed_over
        File names, each with the reason why it was not looked at.
    """

    tables: tuple[DeliveredTable, ...]
    related: Mapping[tuple[str, str, str, str], float]
    is_folder: bool
    packed: bool = False
    passed_over: Mapping[str, str] = field(default_factory=dict)


def look_at(path: Path, folder: Path | None = None) -> Look:
    """Look at a delivery.

    Parameters
    ----------
    path
        A file, or a folder of files: CSV (also packed by gzip or zip), Parquet or DuckDB, or a zip file of several of them.
    folder
        Where its files are copied while they are looked at; None: the folder for temporary files. Only the owner can read the
        copies, and they are removed.

    Raises
    ------
    DeliveryError
        If it is missing or unreadable, or contains no table with a header.
    """
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix="unpacked-") as inside:
            tables = _unpacked(path, Path(inside) / "unzipped")
            root = tables or path
            store = Path(inside) / "looked_at.duckdb"
            reading = staged(store, lambda: delivered_files([root]), path.name)
            with reading as staging, naming_damaged_files(staging):
                connection = staging.connection
                found, passed = _staged(staging, root)
                if not found:
                    why = "; ".join(f"{name}: {reason}" for name, reason in passed.items()) or "it contains no file"
                    raise DeliveryError(f"{path.name}: no table was found in it ({why})")
                looked = tuple(_table(connection, one) for one in found)
                related = _related(connection, found, looked)
            return Look(looked, related, root.is_dir(), tables is not None, passed)
    except OSError as error:
        raise DeliveryError(f"{path.name} could not be copied to look at it: {error.strerror}") from None


@dataclass(frozen=True)
class _Staged:
    """A table that is read under the name of a view, with columns c0, c1, ...."""

    file: str
    table: str | None
    delimiter: str
    view: str
    names: tuple[str, ...]
    types: tuple[str, ...]


def _unpacked(path: Path, target: Path) -> Path | None:
    """The folder with the tables of a zip file of several; None if the delivery is something else."""
    if path.suffix.lower() != ".zip" or not path.is_file():
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            inside = [one for one in archive.infolist() if one.filename.lower().endswith(_SUFFIXES)]
            inside = [one for one in inside if not PurePosixPath(one.filename).name.startswith(".")]
            if len(inside) < 2:
                return None
            if sum(one.file_size for one in inside) > _UNPACKED_AT_MOST * max(path.stat().st_size, 1 << 20):
                raise DeliveryError(f"{path.name}: far larger when unpacked than tables would be")
            # The folders inside an archive are not trusted.
            names = [PurePosixPath(one.filename.replace("\\", "/")).name for one in inside]
            if twice := {name for name in names if names.count(name) > 1}:
                raise DeliveryError(
                    f"{path.name}: {len(twice)} names occur in several of its folders: unpack it, and name the folder"
                )
            target.mkdir()
            for one, name in zip(inside, names, strict=True):
                (target / name).write_bytes(archive.read(one))
        return target
    except DAMAGED_ARCHIVE:
        raise DeliveryError(f"{path.name}: unreadable file: not a zip file, damaged or encrypted") from None


def _staged(staging: IntakeState, root: Path) -> tuple[list[_Staged], dict[str, str]]:
    """Every table that can be read, and the files that cannot, each with the reason."""
    groups: dict[tuple[object, ...], list[_Staged]] = {}
    passed: dict[str, str] = {}
    files = sorted(path for path in root.rglob("*") if path.is_file()) if root.is_dir() else [root]
    for path in files:
        name = str(path.relative_to(root)) if root.is_dir() else path.name
        if root.is_dir() and not name.lower().endswith((*_SUFFIXES, ".zip")):
            continue
        if root.is_dir() and path.name.startswith(BESIDE_FILES):
            passed[name] = BESIDE
            continue
        try:
            for one in _tables_of(staging, path, name):
                groups.setdefault((one.names, one.types, one.table, one.delimiter, path.suffix), []).append(one)
        except DeliveryError as error:
            if not root.is_dir():
                raise
            passed[name] = str(error).removeprefix(f"{path.name}: ")
    every = {part.file for parts in groups.values() for part in parts} | set(passed)
    tables: list[_Staged] = []
    for parts in groups.values():
        file = _pattern([part.file for part in parts])
        # A pattern that other tables fit would mix them.
        is_own = {name for name in every if fnmatch.fnmatch(name, file)} == {part.file for part in parts}
        tables += [_united(staging, parts, file)] if is_own and len(parts) > 1 else parts
    return tables, passed


def _tables_of(staging: IntakeState, path: Path, name: str) -> Iterator[_Staged]:
    lower = path.name.lower()
    inside: Sequence[str | None] = duckdb_tables(staging, path) if lower.endswith(DUCKDB) else [None]
    for table in inside:
        found = {
            delimiter: columns_of_file(staging, SourceTable(path, table, delimiter))
            for delimiter in (_DELIMITERS if not lower.endswith(PARQUET) and table is None else (",",))
        }
        delimiter = max(found, key=lambda one: len(found[one]))
        columns = {column: kind for column, kind in found[delimiter].items() if column.strip()}
        _require_names(path.name, columns)
        view = f"looked_{len(staging.file_names)}"
        ours = {f"c{number}": column for number, column in enumerate(columns)}
        stage_file(staging, SourceTable(path, table, delimiter), view, view, ours)
        _require_header(staging.connection, path.name, view, columns)
        yield _Staged(name, table, delimiter, view, tuple(columns), tuple(columns.values()))


def _require_names(name: str, columns: Mapping[str, str]) -> None:
    """Refuse a first line that looks like a row: it would be shown."""
    if not columns or not all(_A_NAME.match(column) and not re.search("[0-9]{5}", column) for column in columns):
        raise DeliveryError(
            f"{name}: the first line does not look like names of columns (letters first, at most 64 characters); write a header"
        )


def _require_header(connection: duckdb.DuckDBPyConnection, name: str, view: str, columns: Mapping[str, str]) -> None:
    """Refuse a first line whose cells are values of their columns."""
    for number, column in enumerate(columns):
        test = f"SELECT 1 FROM {quoted(view)} WHERE trim(c{number}::VARCHAR) = ? LIMIT 1"
        if connection.execute(test, [column.strip()]).fetchall():
            raise DeliveryError(f"{name}: the first line has a cell that is also a value below it: write a header")


def _united(staging: IntakeState, parts: Sequence[_Staged], file: str) -> _Staged:
    """The files of one table."""
    view = f"united_{parts[0].view}"
    union = " UNION ALL ".join(f"SELECT * FROM {quoted(part.view)}" for part in parts)
    staging.connection.execute(f"CREATE TEMP VIEW {view} AS {union}")
    return replace(parts[0], file=file, view=view)


def _pattern(names: Sequence[str]) -> str:
    """A pattern for file names: what they begin and end with, and a star between.

    Examples
    --------
    >>> _pattern(["claims_2009.csv", "claims_2010.csv"]), _pattern(["members.csv"])
    ('claims_*.csv', 'members.csv')
    """
    if len(names) == 1:
        return names[0]
    begin = _common_start(names)
    end = _common_start([name[len(begin) :][::-1] for name in names])[::-1]
    return f"{begin.rstrip('0123456789')}*{end.lstrip('0123456789')}"


def _common_start(texts: Sequence[str]) -> str:
    return "".join(signs[0] for signs in itertools.takewhile(lambda signs: len(set(signs)) == 1, zip(*texts, strict=False)))


def _table(connection: duckdb.DuckDBPyConnection, staged: _Staged) -> DeliveredTable:
    (rows,) = connection.execute(f"SELECT count(*) FROM {staged.view}").fetchall()[0]
    columns = (
        _column(connection, staged.view, f"c{number}", name, kind)
        for number, (name, kind) in enumerate(zip(staged.names, staged.types, strict=True))
    )
    return DeliveredTable(staged.file, staged.table, staged.delimiter, rows, tuple(columns))


def _column(connection: duckdb.DuckDBPyConnection, view: str, column: str, name: str, typed: str) -> DeliveredColumn:
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE every_value AS SELECT nullif(trim({column}::VARCHAR), '') AS v, count(*) AS n"
        f" FROM {view} GROUP BY v HAVING v IS NOT NULL"
    )
    filled, distinct = connection.execute("SELECT coalesce(sum(n), 0)::BIGINT, count(*) FROM every_value").fetchall()[0]
    if not filled:
        return DeliveredColumn(name, "blank", 0, 0)
    if distinct > _DISTINCT_AT_MOST:
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE every_value AS SELECT * FROM every_value USING SAMPLE {_DISTINCT_AT_MOST} ROWS"
        )
    tests = dict(_SYSTEMS)
    tests["integer"] = "regexp_full_match(v, '-?(0|[1-9][0-9]*)')"
    tests["decimal"] = "isfinite(TRY_CAST(v AS DOUBLE))"
    shares = _shares(connection, {**tests, "day": _LIKE_A_DAY})
    is_like_a_day = shares["day"] >= _NEARLY_ALL
    shares |= _shares(connection, {one: _is_day(one) for one in DATE_FORMATS} if is_like_a_day else {})
    is_date = typed == "DATE" or typed.startswith("TIMESTAMP")
    formats = () if is_date else tuple(one for one in DATE_FORMATS if shares.get(one, 0) >= _NEARLY_ALL)
    kind: Kind = "date" if is_date or formats else "text"
    if kind == "text":
        kind = next((one for one in ("integer", "decimal") if shares[one] >= _NEARLY_ALL), "text")
    shares |= _shares(connection, {IDENTIFIERS: _IDENTIFIER} if kind == "text" else {})
    systems = {system: shares[system] for system in (*_SYSTEMS, IDENTIFIERS) if shares.get(system, 0) > 0}
    if distinct <= 1_000 and kind in ("text", "integer"):
        systems[SPECIALTIES] = _known_specialties(connection)
    return DeliveredColumn(
        name, kind, filled, distinct, systems, formats, _years(connection, kind, formats), _bound(connection, kind)
    )


def _shares(connection: duckdb.DuckDBPyConnection, tests: Mapping[str, str]) -> dict[str, float]:
    """Share of the rows that pass each test."""
    if not tests:
        return {}
    sums = ", ".join(f"coalesce(sum(n) FILTER ({test}), 0) / sum(n)" for test in tests.values())
    found = connection.execute(f"SELECT {sums} FROM every_value").fetchall()[0]
    return dict(zip(tests, map(float, found), strict=True))


def _is_day(date_format: str) -> str:
    return f"coalesce(date_part('year', {parsed_day('v', literal(date_format))}) BETWEEN 1800 AND 2200, false)"


def _known_specialties(connection: duckdb.DuckDBPyConnection) -> float:
    values = connection.execute("SELECT v, n FROM every_value").fetchall()
    known = known_codes([value for value, _ in values], "specialty")["known"]
    return sum(n for (_, n), is_known in zip(values, known, strict=True) if is_known) / sum(n for _, n in values)


def _years(connection: duckdb.DuckDBPyConnection, kind: Kind, formats: Sequence[str]) -> dict[int, float]:
    """Years with one in a hundred of the values or more; rarer ones may be those of a few people."""
    if kind not in ("date", "integer"):
        return {}
    day = parsed_day("v", literal(formats[0])) if formats else "TRY_CAST(v AS TIMESTAMP)"
    year = f"date_part('year', {day})" if kind == "date" else "TRY_CAST(v AS INTEGER)"
    found = connection.execute(
        f"SELECT year, n / total FROM (SELECT {year} AS year, sum(n) AS n, sum(sum(n)) OVER () AS total FROM every_value"
        " GROUP BY 1) WHERE (year BETWEEN 1 AND 3 OR year BETWEEN 1900 AND 2200) AND n >= 0.01 * total ORDER BY year"
    ).fetchall()
    return {int(year): float(share) for year, share in found}


def _bound(connection: duckdb.DuckDBPyConnection, kind: Kind) -> int | None:
    if kind != "integer":
        return None
    smallest, largest = connection.execute(
        "SELECT min(TRY_CAST(v AS DOUBLE)), max(TRY_CAST(v AS DOUBLE)) FROM every_value"
    ).fetchall()[0]
    return next((bound for bound in BOUNDS if largest <= bound), None) if smallest >= 0 else None


def _related(
    connection: duckdb.DuckDBPyConnection, staged: Sequence[_Staged], looked: Sequence[DeliveredTable]
) -> dict[tuple[str, str, str, str], float]:
    """Which columns contain the keys of other tables."""
    found = {}
    for one, first in zip(staged, looked, strict=True):
        keys = [(number, key) for number, key in enumerate(first.columns) if _is_key(key, first.rows)]
        for other, second in zip(staged, looked, strict=True):
            for number, key in keys if one is not other else ():
                for position, column in enumerate(second.columns):
                    if column.kind != key.kind or not 1 < column.distinct < column.filled or column.distinct > key.distinct:
                        continue
                    share = connection.execute(
                        f"SELECT count(k) / count(*) FROM (SELECT DISTINCT trim(c{position}::VARCHAR) AS v FROM {other.view})"
                        f" LEFT JOIN (SELECT DISTINCT trim(c{number}::VARCHAR) AS k FROM {one.view}) ON k = v WHERE v <> ''"
                    ).fetchall()[0][0]
                    if share >= 0.5:
                        found[first.shown, key.name, second.shown, column.name] = float(share)
    return found


def _is_key(column: DeliveredColumn, rows: int) -> bool:
    """Whether a column may identify the rows of its table, or the people in it, who may have several."""
    is_unique = column.distinct == rows or PERSON.search(column.name) is not None
    return column.kind in ("text", "integer") and is_unique and column.filled == rows and column.distinct > 1
