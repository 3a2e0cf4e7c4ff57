"""How a declared column is made of the cells of a delivery: a function for each kind, from delivered columns to SQL.

A policy declares columns beyond those that every delivery has (`policy/sections/columns.py`). Each is derived while a
delivery is read, from cells that are converted to a type first. A cell that cannot be converted, or a value that the
declaration does not allow, quarantines its row under a rule; nothing is guessed.

Declared columns made of codes: their groups, what lists of sensitive codes read of them, and which codes are unknown.

A code without a group is unknown, and nobody knows whether it is sensitive. What becomes of its row is said by
`source.unknown_codes`, as for the columns of codes that every policy knows.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from deid_assets.reference.geography import SUPPRESSED, kept_prefixes
from deid_assets.reference.groups import CodeGrouping, group_prefixes
from deid_assets.reference.known_columns import ListedKind
from deid_assets.store.tables import literal, quoted

Kind = Literal["text", "integer", "decimal", "date"]
ISO = ("%Y-%m-%d",)
MILLIONTHS = 1_000_000
RAW = "given_"
"""Beginning of the name of a delivered column that has no canonical name."""


@dataclass(frozen=True)
class Cell:
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
        >>> Cell("ZIP code", "text").raw
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
    """

    kind: ListedKind
    listed: str
    unknown: str


@dataclass(frozen=True)
class Lookup:
    """A table that a value is looked up in: its name, and its columns of equal length."""

    name: str
    columns: Mapping[str, Sequence[str | None]]


@dataclass(frozen=True)
class Derivation:
    """How a declared column is made.

    Attributes
    ----------
    table
        The delivered table whose cells are read: members or claims.
    cells
        What is read.
    value
        SQL of the value in a row t of the typed table; of a member's rows where `of_events`.
    broken
        Rule -> SQL that is true for a row t that breaks it.
    of_events
        Whether the column of members is an aggregate of their claims.
    codes
        Codes that the cells are compared with.
    coded
        What it tells of its codes; None: lists of sensitive codes do not read it.
    lookup
        A table that the SQL reads.
    """

    table: Literal["members", "claims"]
    cells: tuple[Cell, ...]
    value: str
    broken: Mapping[str, str]
    of_events: bool = False
    codes: tuple[str, ...] = ()
    coded: CodeColumn | None = None
    lookup: Lookup | None = None


def delivered_text(
    table: Literal["members", "claims"], column: str, values: Mapping[str, str], others: str | None = None
) -> Derivation:
    """Text as it is delivered, without blanks around it, or as the declaration translates it.

    Parameters
    ----------
    values
        Delivered value -> value, such as the group of a code. With none, every text is a value.
    others
        Value of all that are not listed; None: another value quarantines its row.
    """
    cell = Cell(column, "text")
    if not values:
        return Derivation(table, (cell,), cell.sql, {})
    listed = ", ".join(map(literal, values))
    cases = " ".join(f"WHEN {literal(one)} THEN {literal(value)}" for one, value in values.items())
    if others is not None:
        cases += f" ELSE {literal(others)}"
    value = f"CASE WHEN {cell.sql} IS NOT NULL THEN CASE {cell.sql} {cases} END END"
    broken = {"value that the policy does not list": f"{cell.sql} NOT IN ({listed})"} if others is None else {}
    return Derivation(table, (cell,), value, broken, codes=tuple(values))


def delivered_integer(table: Literal["members", "claims"], column: str, at_least: int, at_most: int) -> Derivation:
    """A whole number as it is delivered; one outside the limits quarantines its row."""
    cell = Cell(column, "integer")
    broken = {f"outside {at_least} to {at_most}": f"{cell.sql} NOT BETWEEN {at_least} AND {at_most}"}
    return Derivation(table, (cell,), cell.sql, broken)


def zip3(table: Literal["members", "claims"], column: str) -> Derivation:
    """The first three digits of a ZIP code, or 000 where the census counts at most 20,000 people with them (45 CFR 164.514).

    A ZIP code that a spreadsheet made a number of, and that lost its leading zeros, is a number of three or four digits: the
    row is quarantined, because 00501 and 50100 would be told apart by nobody.
    """
    cell = Cell(column, "text")
    prefix = f"left({cell.sql}, 3)"
    kept = ", ".join(map(literal, sorted(kept_prefixes())))
    return Derivation(
        table,
        (cell,),
        f"CASE WHEN {cell.sql} IS NULL THEN NULL WHEN {prefix} IN ({kept}) THEN {prefix} ELSE {literal(SUPPRESSED)} END",
        {"ZIP code without five digits": f"NOT regexp_full_match({cell.sql}, '[0-9]{{5}}(-?[0-9]{{4}})?')"},
    )


def bins(table: Literal["members", "claims"], column: str, starts: Sequence[int]) -> Derivation:
    """The smallest number of the bin of an amount; the last bin is open.

    Parameters
    ----------
    starts
        Smallest number of each bin, ascending. An amount below the first quarantines its row.
    """
    cell = Cell(column, "decimal")
    cases = " ".join(f"WHEN {cell.sql} >= {int(start)} THEN {int(start)}" for start in sorted(starts, reverse=True))
    broken = {f"below {int(starts[0])}, where the first bin begins": f"{cell.sql} < {int(starts[0])}"}
    return Derivation(table, (cell,), f"(CASE {cases} END)::INTEGER", broken)


def rounded(table: Literal["members", "claims"], column: str, to: int, at_most: int) -> Derivation:
    """An amount rounded down to a multiple, and never above a largest one, which stands for all above.

    Parameters
    ----------
    to
        The multiple.
    at_most
        The largest value, a multiple of `to`.
    """
    cell = Cell(column, "decimal")
    value = f"least(floor({cell.sql} / {int(to)}) * {int(to)}, {int(at_most)})::INTEGER"
    value = f"CASE WHEN {cell.sql} IS NOT NULL THEN {value} END"  # least() passes over a NULL
    return Derivation(table, (cell,), value, {"negative amount": f"{cell.sql} < 0"})


def days_between(table: Literal["members", "claims"], first: Cell, last: Cell) -> Derivation:
    """Days from one date to another; a row whose second date is earlier is quarantined."""
    days = f"({last.sql} - {first.sql})"
    return Derivation(table, (first, last), f"{days}::INTEGER", {f"{last.column} before {first.column}": f"{days} < 0"})


def age_at(birth: Cell, at: str) -> Derivation:
    """Completed years of a member on a day.

    Parameters
    ----------
    at
        A day such as 2011-01-01.
    """
    day = f"DATE {literal(at)}"
    years = f"date_sub('year', {birth.sql}, {day})"
    broken = {"age outside 0 to 120": f"{birth.sql} > {day} OR {years} > 120"}
    return Derivation("members", (birth,), f"{years}::INTEGER", broken)


def months_enrolled(year: int) -> Derivation:
    """In how many months of a year of the policy a member was enrolled on at least one day, from 0 to 12.

    Parameters
    ----------
    year
        Number of the year, from 1.
    """
    month = f"getvariable('year_1_start') + to_months({12 * (year - 1)} + month::INTEGER)"
    span = f"one.since < {month} + INTERVAL 1 MONTH AND one.until >= {month}"
    found = f"list_filter(range(12), lambda month: len(list_filter(t.enrolment, lambda one: {span})) > 0)"
    return Derivation("members", (), f"len({found})::INTEGER", {})


def days_since_first(date: Cell, per: Literal["member", "member_year"]) -> Derivation:
    """Days of a claim since the member's first claim with a date, of all or of the same year; before anything is cut."""
    by = "t.member_id, t.year" if per == "member_year" else "t.member_id"
    return Derivation("claims", (date,), f"({date.sql} - min({date.sql}) OVER (PARTITION BY {by}))::INTEGER", {})


def count_of_claims() -> Derivation:
    """How many claims of a member were taken in; 0 if there are none."""
    return Derivation("claims", (), "count(*)::INTEGER", {}, of_events=True)


def sum_of_claims(column: str, to: int, at_most: int) -> Derivation:
    """Sum of an amount over the claims of a member, rounded as by `rounded`; 0 if there are none.

    Millionths are summed as whole numbers: a sum of floating-point numbers depends on their order, and ten times 0.1 would be
    less than 1. An amount above the largest value counts as that, which changes no result.
    """
    cell = Cell(column, "decimal")
    # least() passes over a NULL, and a blank amount is none.
    amount = f"CASE WHEN {cell.sql} IS NOT NULL THEN least({cell.sql}, {int(at_most)}) END"
    total = f"coalesce(sum(round(({amount}) * {MILLIONTHS})::BIGINT), 0)"
    value = f"least({total} // {int(to) * MILLIONTHS} * {int(to)}, {int(at_most)})::INTEGER"
    return Derivation("claims", (cell,), value, {"negative amount": f"{cell.sql} < 0"}, of_events=True)


def any_of_claims(column: str, values: Sequence[str]) -> Derivation:
    """'yes' if any claim of a member has one of some values, otherwise 'no'."""
    cell = Cell(column, "text")
    found = f"coalesce(bool_or({cell.sql} IN ({', '.join(map(literal, values))})), false)"
    value = f"CASE WHEN {found} THEN 'yes' ELSE 'no' END"
    return Derivation("claims", (cell,), value, {}, of_events=True, codes=tuple(values))


@dataclass(frozen=True)
class Declared:
    """The declared columns of a policy, by table, in their order.

    Attributes
    ----------
    members, claims
        Name of the column -> how it is made. Those of members may read claims.
    """

    members: Mapping[str, Derivation]
    claims: Mapping[str, Derivation]

    @property
    def all(self) -> dict[str, Derivation]:
        """Both."""
        return {**self.members, **self.claims}

    def cells(self, table: str) -> tuple[Cell, ...]:
        """Every cell that is read of a delivered table, once."""
        return tuple(dict.fromkeys(cell for made in self.all.values() if made.table == table for cell in made.cells))

    def delivered(self, table: str) -> dict[str, str]:
        """Name in an adapter's relation -> name in the delivery, of every column that is read of a table."""
        return {cell.raw: cell.column for cell in self.cells(table)}

    @property
    def coded(self) -> dict[str, CodeColumn]:
        """The columns of codes that lists of sensitive codes read, by name."""
        return {name: made.coded for name, made in self.claims.items() if made.coded is not None}

    @property
    def lookups(self) -> dict[str, Lookup]:
        """Every table that is looked up, once, by name."""
        return {made.lookup.name: made.lookup for made in self.all.values() if made.lookup is not None}

    def rules(self, table: str) -> list[tuple[str, str, str]]:
        """The rules on the rows of a delivered table: name, column that is judged, and SQL that is true where it is broken."""
        own = [made for made in self.all.values() if made.table == table]
        judged = ((rule, made.cells[0].raw, broken) for made in own for rule, broken in made.broken.items())
        return list(dict.fromkeys(judged))


NOTHING = Declared({}, {})
"""Of a policy without declared columns."""


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


def code_group(column: str, by: CodeGrouping) -> Derivation:
    """The group of a code by its first characters, in a table that ships.

    Parameters
    ----------
    column
        Name of the column of claims in the delivery.
    by
        The grouping. Revenue codes may be numbers, which have lost leading zeros.

    Examples
    --------
    >>> code_group("REV_CNTR", "revenue_group").coded.kind
    'procedure'
    """
    cell = Cell(column, "text")
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
    return Derivation("claims", (cell,), group, {}, coded=CodeColumn(kind, listed, unknown), lookup=lookup)


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


def drug_group(column: str, rows: Sequence[tuple[str, str, str | None]]) -> Derivation:
    """The group of a drug by its NDC, in a table of the policy.

    Parameters
    ----------
    column
        Name of the column of claims in the delivery. Ten digits without hyphens quarantine a row: they are ambiguous.
    rows
        NDC in 11 digits, its group, and its ingredients, if the table says them.

    Examples
    --------
    >>> drug_group("NDC", [("61958180101", "antivirals", "sofosbuvir")]).coded.kind
    'drug'
    """
    cell = Cell(column, "text")
    name = f"drugs_{hashlib.sha256(repr(sorted(rows, key=lambda row: row[0])).encode()).hexdigest()[:16]}"
    code = ndc_of(cell.sql)
    codes = [ndc for ndc, _, _ in rows]

    def found(what: str) -> str:
        return f"(SELECT book.{what} FROM {name} AS book WHERE book.ndc = {code})"

    return Derivation(
        "claims",
        (cell,),
        found("drug_group"),
        {AMBIGUOUS: f"regexp_full_match({cell.sql}, '[0-9]{{10}}')"},
        codes=tuple(codes),
        coded=CodeColumn("drug", found("ingredients"), f"({cell.sql} IS NOT NULL AND {found('drug_group')} IS NULL)"),
        lookup=Lookup(name, {"ndc": codes, "drug_group": [row[1] for row in rows], "ingredients": [row[2] for row in rows]}),
    )
