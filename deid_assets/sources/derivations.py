"""How a declared column is made of the cells of a delivery, in SQL.

A policy declares columns beyond those that every delivery has, and says how each kind is made of what
(`policy/sections/columns.py`). Each is derived while a delivery is read, from cells that are converted to a type first. A
cell that cannot be converted, or a value that the declaration does not allow, quarantines its row under a rule; nothing is
guessed.

Declared columns made of codes: their groups, what lists of sensitive codes read of them, and which codes are unknown.

A code without a group is unknown, and nobody knows whether it is sensitive. What becomes of its row is said by
`source.unknown_codes`, as for the columns of codes that every policy knows.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import duckdb
import pandas as pd

from deid_assets.reference.groups import CodeGrouping, group_prefixes
from deid_assets.reference.known_columns import ListedKind
from deid_assets.store.tables import literal, quoted

Kind = Literal["text", "integer", "decimal", "date"]
ISO = ("%Y-%m-%d",)
MILLIONTHS = 1_000_000
RAW = "given_"
"""Beginning of the name of a delivered column that has no canonical name."""


@dataclass(frozen=True)
class TypedColumn:
    """A delivered column, read as one type.

    Attributes
    ----------
    column
        Its name in the delivery.
    kind
        The type as which it is read.
    formats
        strptime formats of dates that are text or whole numbers.
    """

    column: str
    kind: Kind
    formats: tuple[str, ...] = ISO

    @property
    def raw(self) -> str:
        """Name of the delivered column in an adapter's relation, which also has canonical columns.

        Examples
        --------
        >>> TypedColumn("ZIP code", "text").raw
        'given_ZIP_code_95c87fe32d58da52'
        """
        told = hashlib.sha256(self.column.encode()).hexdigest()[:16]
        return f"{RAW}{re.sub('[^0-9A-Za-z]+', '_', self.column)}_{told}"

    @property
    def name(self) -> str:
        """Name of the converted column: a column may be read in several ways, and as dates of several formats."""
        formats = "" if self.kind != "date" else f"_{hashlib.sha256(repr(self.formats).encode()).hexdigest()[:8]}"
        return f"{self.raw}_{self.kind}{formats}"

    @property
    def unread(self) -> str:
        """Name of the column that flags cells that could not be converted."""
        return f"{self.name}_unread"

    @property
    def sql(self) -> str:
        """The converted value in a row t."""
        return f"t.{quoted(self.name)}"


@dataclass(frozen=True)
class CodeColumn:
    """What a declared column of claims tells of its codes, beside their groups.

    Attributes
    ----------
    kind
        The kind of codes as which lists of sensitive codes read them.
    listed
        SQL of what the lists read in a row t; NULL where there is nothing to read.
    unknown
        SQL that is true for a row t whose code has no group, and may be a sensitive one.
    has_kinds
        Whether `listed` is several codes with semicolons between them, each behind its own kind and a colon.
    """

    kind: ListedKind
    listed: str
    unknown: str
    has_kinds: bool = False


@dataclass(frozen=True)
class Lookup:
    """A table that a value is looked up in: its name, and its columns of equal length."""

    name: str
    columns: Mapping[str, Sequence[str | None]]


@dataclass(frozen=True)
class CodeBook:
    """A table of the codes that a delivery has in a column, which is filled while the delivery is read.

    Attributes
    ----------
    name
        Name of the table.
    code
        SQL of the code of a row t.
    read
        Takes the connection of the intake and the distinct codes; returns code | code_group | listed | known, with a row for
        each of which there is anything to say. Where `known` is NULL, lists cannot tell that the code is harmless.
    is_text
        Whether a delivery of numbers is refused: these have lost leading zeros, which tell codes apart.
    """

    name: str
    code: str
    read: Callable[[duckdb.DuckDBPyConnection, Sequence[str]], pd.DataFrame]
    is_text: bool = False


@dataclass(frozen=True)
class FirstEvent:
    """An anchor in time: the first day on which a person has an event in any of some tables, before any is cut.

    Attributes
    ----------
    tables
        The tables of events.
    by_year
        Whether each year has one of its own.
    """

    tables: tuple[str, ...]
    by_year: bool

    @property
    def name(self) -> str:
        """Name of the table of anchors: member_id, year where each has one, and first_date."""
        return f"first_events_{hashlib.sha256(repr((sorted(self.tables), self.by_year)).encode()).hexdigest()[:16]}"

    def of_row(self) -> str:
        """SQL of the anchor of a row t of any table."""
        year = " AND a.year = t.year" if self.by_year else ""
        return f"(SELECT a.first_date FROM {self.name} AS a WHERE a.member_id = t.member_id{year})"


@dataclass(frozen=True)
class Derivation:
    """How a declared column is made.

    Attributes
    ----------
    table
        The delivered table whose cells are read: members, claims, or another table of events.
    cells
        What is read.
    value
        SQL of the value in a row t of the typed table; of a member's rows where `of_events`.
    broken
        Rule -> SQL that is true for a row t that breaks it.
    of_events
        Whether the column of members is an aggregate of their claims.
    codes
        Codes that the first cell is compared with.
    coded
        What it tells of its codes; None: lists of sensitive codes do not read it.
    lookup
        A table that the SQL reads.
    book
        A table that the SQL reads, of the delivery's own codes.
    anchor
        A table that the SQL reads, of the days from which it counts.
    """

    table: str
    cells: tuple[TypedColumn, ...]
    value: str
    broken: Mapping[str, str]
    of_events: bool = False
    codes: tuple[str, ...] = ()
    coded: CodeColumn | None = None
    lookup: Lookup | None = None
    book: CodeBook | None = None
    anchor: FirstEvent | None = None


def delivered_text(table: str, column: str, values: Mapping[str, str], others: str | None = None) -> Derivation:
    """Text as it is delivered, without blanks around it, or as the declaration translates it.

    Parameters
    ----------
    values
        Delivered value -> value, such as the group of a code. With none, every text is a value.
    others
        Value of all that are not listed; None: another value quarantines its row.
    """
    cell = TypedColumn(column, "text")
    if not values:
        return Derivation(table, (cell,), cell.sql, {})
    listed = ", ".join(map(literal, values))
    cases = " ".join(f"WHEN {literal(one)} THEN {literal(value)}" for one, value in values.items())
    if others is not None:
        cases += f" ELSE {literal(others)}"
    value = f"CASE WHEN {cell.sql} IS NOT NULL THEN CASE {cell.sql} {cases} END END"
    broken = {"value that the policy does not list": f"{cell.sql} NOT IN ({listed})"} if others is None else {}
    return Derivation(table, (cell,), value, broken, codes=tuple(values))


def days_since(table: str, anchor: FirstEvent) -> Derivation:
    """Days of an event since an anchor, by the date of service; NULL without a date.

    Examples
    --------
    >>> days_since("fills", FirstEvent(("claims", "fills"), by_year=False)).anchor.tables
    ('claims', 'fills')
    """
    return Derivation(table, (), f"(t.service_date - {anchor.of_row()})::INTEGER", {}, anchor=anchor)


@dataclass(frozen=True)
class MeasuredTest:
    """A laboratory test: its name, its codes, the unit of its results, and the smallest number of each bin of them."""

    name: str
    codes: tuple[str, ...]
    unit: str
    starts: tuple[float, ...]

    @property
    def bins(self) -> tuple[str, ...]:
        """The bins in words, the lowest first.

        Examples
        --------
        >>> MeasuredTest("glucose", ("2345-7",), "mg/dL", (0, 100, 126.5)).bins
        ('glucose 0 to below 100 mg/dL', 'glucose 100 to below 126.5 mg/dL', 'glucose from 126.5 mg/dL')
        """
        starts = [f"{start:.15g}" for start in self.starts]
        last = f"{self.name} from {starts[-1]} {self.unit}"
        return (*(f"{self.name} {start} to below {end} {self.unit}" for start, end in pairwise(starts)), last)


@dataclass(frozen=True)
class ResultCells:
    """The columns of a delivery that a laboratory result is read from: the number, the code of the test, and the unit."""

    number: str
    test: str
    unit: str


def result_bin(table: str, cells: ResultCells, tests: Sequence[MeasuredTest]) -> Derivation:
    """The bin of a laboratory result, with its test and unit; NULL for a test that is not listed, and without a number.

    A number in another unit, or in none, breaks a rule that names the test: what it is in the listed one is not guessed. Units
    are told apart by upper and lower case: g/L is grams, and G/L thousands of millions.

    Examples
    --------
    >>> glucose = MeasuredTest("glucose", ("2345-7",), "mg/dL", (0, 100))
    >>> [*result_bin("results", ResultCells("VALUE", "LOINC", "UNIT"), [glucose]).broken]
    ['glucose not in mg/dL', 'glucose: not a number', 'glucose below 0, where the first bin begins']
    """
    given, test, unit = (TypedColumn(one, "text") for one in (cells.number, cells.test, cells.unit))
    number = f"TRY_CAST({given.sql} AS DOUBLE)"
    broken: dict[str, str] = {}
    cases = []
    for one in tests:
        own = f"({test.sql} IN ({', '.join(map(literal, one.codes))}) AND {given.sql} IS NOT NULL)"
        broken |= {
            f"{one.name} not in {one.unit}": f"{own} AND {unit.sql} IS DISTINCT FROM {literal(one.unit)}",
            f"{one.name}: not a number": f"{own} AND NOT coalesce(isfinite({number}), false)",
            f"{one.name} below {one.starts[0]:.15g}, where the first bin begins": f"{own} AND {number} < {one.starts[0]!r}",
        }
        labels = reversed([*zip(one.starts, one.bins, strict=True)])
        bins = " ".join(f"WHEN {number} >= {start!r} THEN {literal(label)}" for start, label in labels)
        cases.append(f"WHEN {own} THEN CASE {bins} END")
    codes = tuple(code for one in tests for code in one.codes)
    return Derivation(table, (test, given, unit), f"CASE {' '.join(cases)} END", broken, codes=codes)


@dataclass(frozen=True)
class Declared:
    """The declared columns of a policy, by table, in their order.

    Attributes
    ----------
    members
        Name of the column -> how it is made. Those of members may read claims.
    events
        The same for claims, and for each other table of events, by the name of the table.
    """

    members: Mapping[str, Derivation]
    events: Mapping[str, Mapping[str, Derivation]]

    @property
    def tables(self) -> dict[str, Mapping[str, Derivation]]:
        """Those of every table."""
        return {"members": self.members, **self.events}

    @property
    def of_events(self) -> dict[str, Derivation]:
        """Those of all tables of events."""
        return {name: made for columns in self.events.values() for name, made in columns.items()}

    @property
    def all(self) -> dict[str, Derivation]:
        """Those of all tables."""
        return {**self.members, **self.of_events}

    def cells(self, table: str) -> tuple[TypedColumn, ...]:
        """Every cell that is read of a delivered table, once."""
        return tuple(dict.fromkeys(cell for made in self.all.values() if made.table == table for cell in made.cells))

    def delivered(self, table: str) -> dict[str, str]:
        """Name in an adapter's relation -> name in the delivery, of every column that is read of a table."""
        return {cell.raw: cell.column for cell in self.cells(table)}

    @property
    def coded(self) -> dict[str, CodeColumn]:
        """The columns of codes that lists of sensitive codes read, by name."""
        return {name: made.coded for name, made in self.of_events.items() if made.coded is not None}

    def coded_of(self, table: str) -> dict[str, CodeColumn]:
        """Those of a table of events."""
        return {name: coded for name, coded in self.coded.items() if name in self.events[table]}

    @property
    def lookups(self) -> dict[str, Lookup]:
        """Every table that is looked up, once, by name."""
        return {made.lookup.name: made.lookup for made in self.all.values() if made.lookup is not None}

    def books(self, table: str) -> dict[str, CodeBook]:
        """Every table of a delivered table's own codes, once, by name."""
        return {made.book.name: made.book for made in self.all.values() if made.book is not None and made.table == table}

    @property
    def anchors(self) -> tuple[FirstEvent, ...]:
        """Every anchor, once."""
        found = (made.anchor for made in self.all.values() if made.anchor is not None)
        return tuple({anchor.name: anchor for anchor in found}.values())

    def rules(self, table: str) -> list[tuple[str, str, str]]:
        """The rules on the rows of a delivered table: name, column that is judged, and SQL that is true where it is broken."""
        own = [made for made in self.all.values() if made.table == table]
        judged = ((rule, made.cells[0].raw, broken) for made in own for rule, broken in made.broken.items())
        return list(dict.fromkeys(judged))


NOTHING = Declared({}, {"claims": {}})
"""Of a policy without declared columns."""


UNGROUPED = "not grouped"
"""Group of a code that is known and in no group."""
AMBIGUOUS = "NDC of ten digits without hyphens, which stand for several codes: deliver 11 digits, or hyphens"

_PLAIN = "upper(replace(replace({0}, '.', ''), ' ', ''))"
_PROCEDURE = (
    f"CASE WHEN regexp_full_match({_PLAIN}, '[0-9]{{{{5}}}}|[0-9]{{{{4}}}}[FTMU]|[A-Z][0-9]{{{{4}}}}') THEN {_PLAIN} END"
)
# Numbers have lost leading zeros, and may have decimals: 450.0 is 0450.
_NUMBER = "regexp_replace({0}, '[.]0+$', '')"
_FORMS: dict[CodeGrouping, tuple[ListedKind, str]] = {
    "hcpcs_letter": ("procedure", _PROCEDURE),
    "cpt_section": ("procedure", _PROCEDURE),
    "revenue_group": (
        "procedure",
        f"CASE WHEN regexp_full_match({_NUMBER}, '[0-9]{{{{1,4}}}}') THEN lpad({_NUMBER}, 4, '0') END",
    ),
    "taxonomy_kind": (
        "taxonomy",
        "CASE WHEN regexp_full_match(upper({0}), '[0-9]{{3}}[0-9A-Z]{{6}}X') THEN upper({0}) END",
    ),
}
"""By grouping: the kind of the lists that read its codes, and SQL of a cell's code in one form; NULL if it is none."""

_PARTS = " || ".join(f"lpad(split_part({{0}}, '-', {part}), {length}, '0')" for part, length in ((1, 5), (2, 4), (3, 2)))
_NDC = (
    "CASE WHEN regexp_full_match({0}, '[0-9]{{11}}') THEN {0}"
    " WHEN regexp_full_match({0}, '[0-9]{{4,5}}-[0-9]{{3,4}}-[0-9]{{1,2}}') AND len({0}) >= 12"
    f" THEN {_PARTS} END"
)


def code_group(table: str, column: str, by: CodeGrouping) -> Derivation:
    """The group of a code by its first characters, in a table that ships.

    Parameters
    ----------
    table, column
        Table of events in the delivery, and name of the column there.
    by
        The grouping. Revenue codes may be numbers, which have lost leading zeros.

    Examples
    --------
    >>> code_group("claims", "REV_CNTR", "revenue_group").coded.kind
    'procedure'
    """
    cell = TypedColumn(column, "text")
    kind, form = _FORMS[by]
    found = group_prefixes(by)
    lookup = Lookup(f"groups_{by}", {"prefix": [*found], "code_group": [*found.values()]})
    parts = (
        f"(SELECT book.code_group FROM {lookup.name} AS book WHERE book.prefix = {part})" for part in _beginnings(cell.sql, by)
    )
    group = f"coalesce({', '.join((*parts, 'NULL'))})"
    known = has_group(cell.sql, by)  # without a join for each place in which it is asked
    unknown = f"({cell.sql} IS NOT NULL AND NOT {known})"
    listed = f"CASE WHEN {known} THEN {form.format(cell.sql)} END"
    return Derivation(table, (cell,), group, {}, coded=CodeColumn(kind, listed, unknown), lookup=lookup)


def has_group(text: str, by: CodeGrouping) -> str:
    """SQL that is true for a code with a group, delivered as a text without blanks around it."""
    listed = ", ".join(map(literal, group_prefixes(by)))
    return f"coalesce({' OR '.join(f'{part} IN ({listed})' for part in _beginnings(text, by))}, false)"


def _beginnings(text: str, by: CodeGrouping) -> Iterator[str]:
    """Yield SQL of the first characters of a code by which it may have a group, the most first."""
    code = _FORMS[by][1].format(text)
    key = f"regexp_replace({code}, '([0-9]+)([A-Z])', '-\\2\\1')" if by == "cpt_section" else code
    for length in dict.fromkeys(len(prefix) for prefix in group_prefixes(by)):
        yield f"left({key}, {length})"


def ndc_of(text: str) -> str:
    """SQL of an NDC in 11 digits, as `reference.ndc` reads a text without blanks around it; NULL if it is none."""
    return _NDC.format(text)


def drug_group(table: str, column: str, rows: Sequence[tuple[str, str, str | None]]) -> Derivation:
    """The group of a drug by its NDC, in a table of the policy.

    Parameters
    ----------
    table, column
        Table of events in the delivery, and name of the column there. Ten digits without hyphens quarantine a row: they are
        ambiguous.
    rows
        NDC in 11 digits, its group, and its ingredients, if the table says them.

    Examples
    --------
    >>> drug_group("claims", "NDC", [("61958180101", "antivirals", "sofosbuvir")]).coded.kind
    'drug'
    """
    cell = TypedColumn(column, "text")
    name = f"drugs_{hashlib.sha256(repr(sorted(rows, key=lambda row: row[0])).encode()).hexdigest()[:16]}"
    code = ndc_of(cell.sql)
    codes = [ndc for ndc, _, _ in rows]

    def found(what: str) -> str:
        return f"(SELECT book.{what} FROM {name} AS book WHERE book.ndc = {code})"

    return Derivation(
        table,
        (cell,),
        found("drug_group"),
        {AMBIGUOUS: f"regexp_full_match({cell.sql}, '[0-9]{{10}}')"},
        codes=tuple(codes),
        coded=CodeColumn("drug", found("ingredients"), f"({cell.sql} IS NOT NULL AND {found('drug_group')} IS NULL)"),
        lookup=Lookup(name, {"ndc": codes, "drug_group": [row[1] for row in rows], "ingredients": [row[2] for row in rows]}),
    )


def whole_number(text: str) -> str:
    """SQL of a text; of a whole number with decimals, such as 65363002.0, the number."""
    return f"CASE WHEN regexp_full_match({text}, '[0-9]+[.]0+') THEN split_part({text}, '.', 1) ELSE {text} END"


BETWEEN_CODE_AND_NAME = "\x1f"


def code_and_name(code: str, name: str) -> str:
    """SQL of a code and the name beside it as one text; NULL where there is neither."""
    between = f"chr({ord(BETWEEN_CODE_AND_NAME)})"
    return f"nullif(concat({code}, {between}, {name}), {between})"


def booked_code(
    table: str,
    cells: tuple[TypedColumn, ...],
    kind: ListedKind,
    book: CodeBook,
) -> Derivation:
    """The group of a code in a table that is filled while the delivery is read.

    Parameters
    ----------
    table
        Table of events in the delivery.
    cells
        The column of codes, and what else the book is asked by.
    kind
        The kind of the codes.
    book
        The table.
    """

    def found(what: str) -> str:
        return f"(SELECT book.{what} FROM {book.name} AS book WHERE book.code = {book.code})"

    given = f"{cells[0].sql} IS NOT NULL"
    unknown = f"({given} AND {found('known')} IS NULL)"
    of_known = f"CASE WHEN {found('known')} IS NOT NULL THEN {literal(UNGROUPED)} END"
    value = f"CASE WHEN {given} THEN coalesce({found('code_group')}, {of_known}) END"
    coded = CodeColumn(kind, found("listed"), unknown, has_kinds=True)
    return Derivation(table, cells, value, {}, coded=coded, book=book)
