"""Columns that a policy declares: what a delivery has beyond the columns that every policy knows, and how each is made.

A declared column is a quasi-identifier like any other: it has a hierarchy, may be a dimension of the lattice, and is measured,
attacked and released as the policy's other columns are. One of claims may be an attribute instead. Nothing else in the product
names it.
"""

import datetime
import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    model_serializer,
    model_validator,
)

from deid_assets.errors import how_many
from deid_assets.policy.sections.longitudinal import Name, Said, Section
from deid_assets.policy.sections.table_file import TableFile
from deid_assets.reference.codes import DiagnosisSystem, is_ambiguous, ndc11, plain_code
from deid_assets.reference.geography import SUPPRESSED, kept_prefixes
from deid_assets.reference.groups import GROUP_NAMES, CodeGrouping, group_names, known_codes
from deid_assets.sources import derivations
from deid_assets.sources.concepts import ConceptKind, Meaning, concept_book, diagnosis_book, named_drug_book
from deid_assets.sources.delivery import MOST_YEARS, DateFormat, canonical
from deid_assets.sources.derivations import (
    MILLIONTHS,
    CodeBook,
    Declared,
    Derivation,
    FirstEvent,
    MeasuredTest,
    ResultCells,
    TypedColumn,
)
from deid_assets.store.tables import literal

LARGEST = 1_000_000
"""Largest whole number of a declared column: that of interval hierarchies."""

Whole = Annotated[int, Field(ge=0, le=LARGEST)]
Multiple = Annotated[int, Field(ge=1, le=LARGEST)]
Theirs = Annotated[Said, Field(max_length=300)]


def _without_blanks(text: str) -> str:
    if text != text.strip():
        raise ValueError("has blanks around it, which delivered values lose: no value would equal it")
    return text


def _is_day(text: str) -> str:
    datetime.date.fromisoformat(text)
    return text


Code = Annotated[Said, AfterValidator(_without_blanks)]
Day = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"), AfterValidator(_is_day)]


class DeclaredColumn(Section, ABC):
    """What all kinds share."""

    meaning: Said = Field(description="what the column means, for the data dictionary of the release")

    @abstractmethod
    def made(self, table: str) -> Derivation:
        """How the column of a table is made."""

    @property
    def limits(self) -> tuple[int, int | None] | None:
        """Smallest and largest whole number that the column may contain; None: it contains text."""
        return None

    @property
    def values(self) -> tuple[str, ...] | None:
        """The only texts that the column may contain; None: any, or it contains numbers."""
        return None


class DeliveredText(DeclaredColumn):
    """Text as delivered, or translated."""

    kind: Literal["text"]
    from_: Theirs = Field(alias="from", description="name of the column in the delivery")
    translated: dict[Code, Said] = Field(
        {},
        description="delivered value -> value; with any, a row with another value is quarantined. None: every text is a value",
    )

    def made(self, table: str) -> Derivation:
        """As declared."""
        return derivations.delivered_text(table, self.from_, self.translated)

    @property
    def values(self) -> tuple[str, ...] | None:
        """The translated values."""
        return tuple(dict.fromkeys(self.translated.values())) or None


class DeliveredInteger(DeclaredColumn):
    """A whole number as delivered."""

    kind: Literal["integer"]
    from_: Theirs = Field(alias="from", description="name of the column in the delivery")
    at_least: Whole = Field(0, description="smallest value; a row with a smaller one is quarantined")
    at_most: Whole = Field(LARGEST, description="largest value; a row with a larger one is quarantined")

    @model_validator(mode="after")
    def _not_empty(self) -> "DeliveredInteger":
        if self.at_least > self.at_most:
            raise ValueError("at_least is above at_most: no value would be allowed")
        return self

    def made(self, table: str) -> Derivation:
        """One outside the limits quarantines its row."""
        cell = TypedColumn(self.from_, "integer")
        broken = {f"outside {self.at_least} to {self.at_most}": f"{cell.sql} NOT BETWEEN {self.at_least} AND {self.at_most}"}
        return Derivation(table, (cell,), cell.sql, broken)

    @property
    def limits(self) -> tuple[int, int | None]:
        """As declared."""
        return self.at_least, self.at_most


class Grouped(DeclaredColumn, TableFile):
    """The group of a code, by a table of codes."""

    kind: Literal["group"]
    from_: Theirs = Field(alias="from", description="name of the column of codes in the delivery")
    file: Said = Field(description="path of the table, below the policy's folder: one row per code, `code;group`, no header")
    others: Said | None = Field(
        None, description="group of codes that the table lacks; null: a row with such a code is quarantined"
    )

    @model_validator(mode="after")
    def _read(self, info: ValidationInfo) -> "Grouped":
        self.read_file(info)
        self.require_columns((2,), "a table of codes has two, `code;group`")
        if len(self.groups) < len(self.rows):
            raise ValueError(f"file {self.file} has a code twice: each has one group")
        return self

    @property
    def groups(self) -> Mapping[str, str]:
        """Code -> group."""
        return {code: group for code, group in self.rows}  # noqa: C416 - every row is a pair, which a type cannot say

    def made(self, table: str) -> Derivation:
        """As declared."""
        return derivations.delivered_text(table, self.from_, self.groups, self.others)

    @property
    def values(self) -> tuple[str, ...]:
        """The groups."""
        return tuple(dict.fromkeys((*self.groups.values(), *(() if self.others is None else (self.others,)))))


class CodeGroup(DeclaredColumn):
    """The group of a code, by a table that ships."""

    kind: CodeGrouping
    from_: Theirs = Field(
        alias="from",
        description="name of the column of codes in the delivery; lists of sensitive codes read it, and source.unknown_codes "
        "says what becomes of codes without a group",
    )

    def made(self, table: str) -> Derivation:
        """As declared."""
        return derivations.code_group(table, self.from_, self.kind)

    @property
    def values(self) -> tuple[str, ...]:
        """The groups."""
        return group_names(self.kind)


class Drugs(DeclaredColumn, TableFile):
    """The group of a drug by its National Drug Code (NDC), by a table of drugs."""

    kind: Literal["ndc"]
    from_: Theirs = Field(
        alias="from",
        description="name of the column of NDCs in the delivery; source.unknown_codes says what becomes of those that the "
        "table lacks",
    )
    file: Said | None = Field(
        None,
        description="path of the table, below the policy's folder: one row per drug, `ndc;group;ingredients`, no header; "
        "without ingredients only where no list names drugs: members with a listed ingredient are removed. null: there is none "
        "yet, so that every NDC is unknown",
    )

    @model_validator(mode="after")
    def _read(self, info: ValidationInfo) -> "Drugs":
        if self.file is None:
            return self
        self.read_file(info)
        self.require_columns((2, 3), "a table of drugs has three, `ndc;group;ingredients`")
        ambiguous = sum(is_ambiguous(row[0].strip()) for row in self.rows)
        if ambiguous:
            raise ValueError(
                f"file {self.file}: {how_many(ambiguous, 'row')} with an NDC of ten digits without hyphens, which stands for "
                "several codes: write 11 digits, or hyphens"
            )
        unread = sum(ndc11(row[0].strip()) is None for row in self.rows)
        if unread:
            raise ValueError(
                f"file {self.file}: {how_many(unread, 'row')} without an NDC of 11 digits, or of ten with hyphens, in front"
            )
        if len(self.drugs) < len(self.rows):
            raise ValueError(f"file {self.file} has an NDC twice, as 11 digits: each has one group")
        self.require_groups()
        if self.names_ingredients and (unnamed := sum(not re.search("[A-Za-z]{3}", row[2]) for row in self.rows)):
            raise ValueError(
                f"file {self.file}: {how_many(unnamed, 'row')} without a name of an ingredient: write names, as RxNorm does, "
                "and no numbers or codes"
            )
        return self

    @property
    def names_ingredients(self) -> bool:
        """Whether the table says the ingredients of each drug."""
        return all(len(row) == 3 for row in self.rows)

    @property
    def groups(self) -> Mapping[str, str]:
        """NDC as the table writes it -> group."""
        return {row[0]: row[1] for row in self.rows}

    @property
    def ingredients(self) -> Mapping[str, str]:
        """NDC as the table writes it -> ingredients; empty if the table does not name them."""
        return {row[0]: row[2] for row in self.rows} if self.names_ingredients else {}

    @cached_property
    def drugs(self) -> Mapping[str, tuple[str, str | None]]:
        """NDC in 11 digits -> group and ingredients."""
        return {
            ndc11(row[0].strip()) or "": (row[1], re.sub("[;\\s]+", " ", row[2].lower()) if self.names_ingredients else None)
            for row in self.rows
        }

    def made(self, table: str) -> Derivation:
        """As declared."""
        return derivations.drug_group(table, self.from_, [(code, *found) for code, found in self.drugs.items()])

    @property
    def values(self) -> tuple[str, ...]:
        """The groups."""
        return tuple(dict.fromkeys(group for group, _ in self.drugs.values()))


class Diagnosis(DeclaredColumn):
    """The primary condition group of a diagnosis, as of those of claims."""

    kind: Literal["diagnosis"]
    from_: Theirs = Field(
        alias="from",
        description="name of the column of ICD codes in the delivery; lists of sensitive codes read it, and "
        "source.unknown_codes says what becomes of unknown ones",
    )
    system: DiagnosisSystem = Field(description="the coding system of all of them: those of the other one are unknown")

    def made(self, table: str) -> Derivation:
        """A code of the other system is unknown, or is read as the one that it is here."""
        cell = TypedColumn(self.from_, "text")
        code = canonical(self.system, f"upper({cell.sql})")
        book = CodeBook(f"diagnoses_of_{table}_{cell.raw}_{self.system}", code, diagnosis_book, is_text=True)
        return derivations.booked_code(table, (cell,), "diagnosis", book)

    @property
    def values(self) -> tuple[str, ...]:
        """The groups."""
        return GROUP_NAMES["diagnosis"]


class Concept(DeclaredColumn, TableFile):
    """The group of a concept of an OMOP vocabulary, or of a code of a system such as SNOMED CT, by a table of the policy."""

    kind: Literal["concept"]
    of: ConceptKind = Field(
        description="what the concepts are; the codes of this kind that a concept stands for give its group"
    )
    from_: Theirs = Field(
        alias="from",
        description="name of the column of concepts in the delivery; whole numbers with decimals lose these. Lists of "
        "sensitive codes read what concepts stand for; source.unknown_codes says what becomes of those that stand for nothing",
    )
    named: Theirs | None = Field(
        None,
        description="of drugs: name of a column with their names as RxNorm writes them, in which lists look for ingredients, "
        "too; a drug is known by its name only if that names an ingredient of the table or of the vocabulary's RxNorm",
    )
    file: Said | None = Field(
        None,
        description="path of a table, below the policy's folder, that goes before the vocabulary: one row per concept, "
        "`concept;group;codes`, no header. The codes that the concept stands for have blanks between them (`icd10cm:E119` of "
        "ICD-10-CM, `25000` of ICD-9-CM, `99213` of CPT or HCPCS); of drugs, they are names of ingredients",
    )

    @model_validator(mode="after")
    def _read(self, info: ValidationInfo) -> "Concept":
        if self.named is not None and self.of != "drug":
            raise ValueError("named is for drugs: lists read names of ingredients, and codes of everything else")
        if self.file is None:
            return self
        self.read_file(info)
        self.require_columns((3,), "a table of concepts has three, `concept;group;codes`")
        if len(self.meanings) < len(self.rows):
            raise ValueError(f"file {self.file} has a concept twice: each has one group")
        self.require_groups()
        if self.of == "drug":
            unread = sum(not re.search("[A-Za-z]{3}", row[2]) for row in self.rows)
            told = "name of an ingredient: write names, as RxNorm does"
        else:
            codes = sorted({code for one in self.meanings.values() for code in one.stands_for})
            known = known_codes(codes, self.of)
            unknown = set(known.loc[~known["known"], "code"])
            unread = sum(not unknown.isdisjoint(one.stands_for) for one in self.meanings.values())
            told = f"known {self.of} code for one of its codes"
        if unread:
            raise ValueError(f"file {self.file}: {how_many(unread, 'row')} without a {told}")
        return self

    @cached_property
    def meanings(self) -> Mapping[str, Meaning]:
        """Concept -> what the table says."""
        return {
            row[0].strip(): Meaning(row[1], (row[2].lower(),) if self.of == "drug" else tuple(map(plain_code, row[2].split())))
            for row in self.rows
        }

    def made(self, table: str) -> Derivation:
        """As the table says, or else the delivered vocabulary."""
        cells = tuple(TypedColumn(column, "text") for column in (self.from_, self.named) if column is not None)
        told = hashlib.sha256(repr((self.of, self.named, sorted(self.rows))).encode()).hexdigest()[:16]
        code, read = derivations.whole_number(cells[0].sql), partial(concept_book, of=self.of, own=self.meanings)
        if self.named is not None:
            code = derivations.code_and_name(code, cells[1].sql)
            read = partial(named_drug_book, own=self.meanings)
        book = CodeBook(f"concepts_of_{table}_{cells[0].raw}_{told}", code, read)
        return derivations.booked_code(table, cells, self.of, book)

    @property
    def values(self) -> tuple[str, ...] | None:
        """The groups, where the vocabulary gives no others."""
        if self.of != "diagnosis":
            return None
        return tuple(dict.fromkeys((*GROUP_NAMES["diagnosis"], *(one.group for one in self.meanings.values()))))


class Zip3(DeclaredColumn):
    """The first three digits of a ZIP code, as Safe Harbor lets them stand."""

    kind: Literal["zip3"]
    from_: Theirs = Field(alias="from", description="name of the column of ZIP codes, of five digits or ZIP+4, in the delivery")

    def made(self, table: str) -> Derivation:
        """000 where the census counts at most 20,000 people with these digits (45 CFR 164.514).

        A ZIP code that a spreadsheet made a number of, and that lost its leading zeros, is a number of three or four digits:
        the row is quarantined, because 00501 and 50100 would be told apart by nobody.
        """
        cell = TypedColumn(self.from_, "text")
        prefix = f"left({cell.sql}, 3)"
        kept = ", ".join(map(literal, sorted(kept_prefixes())))
        return Derivation(
            table,
            (cell,),
            f"CASE WHEN {cell.sql} IS NULL THEN NULL WHEN {prefix} IN ({kept}) THEN {prefix} ELSE {literal(SUPPRESSED)} END",
            {"ZIP code without five digits": f"NOT regexp_full_match({cell.sql}, '[0-9]{{5}}(-?[0-9]{{4}})?')"},
        )


class Bins(DeclaredColumn):
    """The bin of an amount, by its smallest number."""

    kind: Literal["bins"]
    from_: Theirs = Field(alias="from", description="name of the column of numbers in the delivery")
    starts: tuple[Whole, ...] = Field(
        min_length=2,
        description="smallest number of each bin, ascending; the last bin is open. A row with a smaller number than the first "
        "is quarantined",
    )

    @model_validator(mode="after")
    def _ascending(self) -> "Bins":
        if list(self.starts) != sorted(set(self.starts)):
            raise ValueError("starts must ascend, each once")
        return self

    def made(self, table: str) -> Derivation:
        """The smallest number of the bin; an amount below the first quarantines its row."""
        cell, first = TypedColumn(self.from_, "decimal"), self.starts[0]
        cases = " ".join(f"WHEN {cell.sql} >= {start} THEN {start}" for start in sorted(self.starts, reverse=True))
        broken = {f"below {first}, where the first bin begins": f"{cell.sql} < {first}"}
        return Derivation(table, (cell,), f"(CASE {cases} END)::INTEGER", broken)

    @property
    def limits(self) -> tuple[int, int | None]:
        """The first and the last bin."""
        return self.starts[0], self.starts[-1]


class ListedTest(Section):
    """A laboratory test, and the bins of its results."""

    codes: tuple[Code, ...] = Field(min_length=1, description="codes of the test, such as those of LOINC")
    unit: Code = Field(
        description="unit of the numbers; one in another unit quarantines its row under a rule that names the test"
    )
    starts: tuple[Annotated[float, Field(ge=-LARGEST, le=LARGEST)], ...] = Field(
        min_length=1,
        description="smallest number of each bin, ascending; the last bin is open. A row with a smaller number than the first "
        "is quarantined",
    )

    @model_validator(mode="after")
    def _ascending(self) -> "ListedTest":
        if list(self.starts) != sorted(set(self.starts)):
            raise ValueError("starts must ascend, each once")
        return self


class Results(DeclaredColumn):
    """The bin of a laboratory result, with its test and unit; blank for a test that is not listed."""

    kind: Literal["result"]
    from_: Theirs = Field(alias="from", description="name of the column of numbers in the delivery")
    test: Theirs = Field(description="name of the column of codes of tests in the delivery")
    unit: Theirs = Field(description="name of the column of units in the delivery")
    tests: dict[Said, ListedTest] = Field(min_length=1, max_length=100, description="the tests by their names")

    @model_validator(mode="after")
    def _one_test_for_each_code(self) -> "Results":
        codes = [code for test in self.tests.values() for code in test.codes]
        if len(set(codes)) < len(codes):
            raise ValueError("tests: a code stands for two tests, or twice for one")
        return self

    @property
    def measured(self) -> list[MeasuredTest]:
        """The tests in their order."""
        return [MeasuredTest(name, test.codes, test.unit, test.starts) for name, test in self.tests.items()]

    def made(self, table: str) -> Derivation:
        """A number in another unit than its test's quarantines its row."""
        return derivations.result_bin(table, ResultCells(self.from_, self.test, self.unit), self.measured)

    @property
    def values(self) -> tuple[str, ...]:
        """The bins of all tests."""
        return tuple(label for test in self.measured for label in test.bins)


class _Rounding(DeclaredColumn, ABC):
    from_: Theirs = Field(alias="from", description="name of the column of numbers in the delivery")
    to: Multiple = Field(description="amounts are rounded down to a multiple of it")
    at_most: Whole = Field(description="largest value, a multiple of `to`: it stands for itself and all above")

    @model_validator(mode="after")
    def _is_a_multiple(self) -> "_Rounding":
        if self.at_most % self.to:
            raise ValueError(f"at_most must be a multiple of {self.to}")
        return self

    @property
    def limits(self) -> tuple[int, int | None]:
        """From 0 to the largest value."""
        return 0, self.at_most


class Rounded(_Rounding):
    """An amount, rounded down and top-coded."""

    kind: Literal["rounded"]

    def made(self, table: str) -> Derivation:
        """Rounded down, and never above the largest, which stands for all above."""
        cell = TypedColumn(self.from_, "decimal")
        value = f"least(floor({cell.sql} / {self.to}) * {self.to}, {self.at_most})::INTEGER"
        value = f"CASE WHEN {cell.sql} IS NOT NULL THEN {value} END"  # least() passes over a NULL
        return Derivation(table, (cell,), value, {"negative amount": f"{cell.sql} < 0"})


class _OfDates(DeclaredColumn, ABC):
    limits: ClassVar[tuple[int, int | None]] = (0, None)
    date_format: DateFormat = Field("%Y-%m-%d", description="format of dates that are text or whole numbers")

    def date(self, column: str) -> TypedColumn:
        """A delivered column, read as dates."""
        return TypedColumn(column, "date", (self.date_format,))


class DaysBetween(_OfDates):
    """Days from one delivered date to another."""

    kind: Literal["days_between"]
    from_: Theirs = Field(alias="from", description="name of the column with the first date in the delivery")
    until: Theirs = Field(description="name of the column with the last date in the delivery")

    def made(self, table: str) -> Derivation:
        """A row whose second date is earlier is quarantined."""
        first, last = self.date(self.from_), self.date(self.until)
        days = f"({last.sql} - {first.sql})"
        return Derivation(table, (first, last), f"{days}::INTEGER", {f"{last.column} before {first.column}": f"{days} < 0"})


class AgeAt(_OfDates):
    """Completed years of a member on a day."""

    kind: Literal["age_at"]
    limits: ClassVar[tuple[int, int | None]] = (0, 120)
    from_: Theirs = Field(alias="from", description="name of the column of dates of birth in the delivery")
    day: Day = Field(description="the day, such as 2011-01-01")

    def made(self, table: str) -> Derivation:
        """Completed years."""
        birth, day = self.date(self.from_), f"DATE {literal(self.day)}"
        years = f"date_sub('year', {birth.sql}, {day})"
        broken = {"age outside 0 to 120": f"{birth.sql} > {day} OR {years} > 120"}
        return Derivation("members", (birth,), f"{years}::INTEGER", broken)


class DaysSinceFirst(_OfDates):
    """Days of a claim since the member's first one with a date."""

    kind: Literal["days_since_first"]
    from_: Theirs = Field(alias="from", description="name of the column of dates in the delivery")
    per: Literal["member", "member_year"] = Field("member", description="since the first claim of all, or of the same year")

    def made(self, table: str) -> Derivation:
        """Of all claims, or of those of the same year; before anything is cut."""
        date, by = self.date(self.from_), "t.member_id, t.year" if self.per == "member_year" else "t.member_id"
        return Derivation(table, (date,), f"({date.sql} - min({date.sql}) OVER (PARTITION BY {by}))::INTEGER", {})


class DaysSince(DeclaredColumn):
    """Days of an event since an anchor that several tables of events have in common."""

    kind: Literal["days_since"]
    anchor: Literal["first_event"] = Field(
        description="the day from which is counted, which is not released: that of the first event with a date of service"
    )
    of: tuple[Name, ...] = Field(
        min_length=1, description="tables of events among which the first is sought, this one among them"
    )
    per: Literal["person", "person_year"] = Field(
        "person", description="the first event of all, or of the same year: then at most 365 days before any other of it"
    )

    def made(self, table: str) -> Derivation:
        """Of all events that were taken in, before any is cut."""
        return derivations.days_since(table, FirstEvent(self.of, self.per == "person_year"))

    @property
    def limits(self) -> tuple[int, int | None]:
        """From 0; of one year to 365, from its first to its last day where it has 366."""
        return 0, 365 if self.per == "person_year" else None


class MonthsEnrolled(DeclaredColumn):
    """Months of a year in which a member was enrolled on at least one day, of `enrolled_from` and `enrolled_until`."""

    kind: Literal["months_enrolled"]
    limits: ClassVar[tuple[int, int | None]] = (0, 12)
    year: Annotated[int, Field(ge=1, le=MOST_YEARS)] = Field(description="number of the year, from 1")

    def made(self, table: str) -> Derivation:
        """From 0 to 12."""
        month = f"getvariable('year_1_start') + to_months({12 * (self.year - 1)} + month::INTEGER)"
        span = f"one.since < {month} + INTERVAL 1 MONTH AND one.until >= {month}"
        found = f"list_filter(range(12), lambda month: len(list_filter(t.enrolment, lambda one: {span})) > 0)"
        return Derivation("members", (), f"len({found})::INTEGER", {})


class _OfEvents(DeclaredColumn, ABC):
    of: Name = Field("claims", description="table of events whose rows are read: claims, or another one of `columns`")

    @model_serializer(mode="wrap")
    def _without_claims(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Claims are not stated: policies of earlier versions, which read nothing else, keep their hashes."""
        return {key: value for key, value in handler(self).items() if (key, value) != ("of", "claims")}


class CountOfClaims(_OfEvents):
    """How many claims a member has, or events of another table."""

    kind: Literal["count_of_claims"]
    limits: ClassVar[tuple[int, int | None]] = (0, None)

    def made(self, table: str) -> Derivation:
        """Events that were taken in; 0 if there are none."""
        return Derivation(self.of, (), "count(*)::INTEGER", {}, of_events=True)


class SumOfClaims(_OfEvents, _Rounding):
    """A sum over the claims of a member, or over their events of another table, rounded down and top-coded."""

    kind: Literal["sum_of_claims"]

    def made(self, table: str) -> Derivation:
        """0 if there are no events.

        Millionths are summed as whole numbers: a sum of floating-point numbers depends on their order, and ten times 0.1 would
        be less than 1. An amount above the largest value counts as that, which changes no result.
        """
        cell = TypedColumn(self.from_, "decimal")
        # least() passes over a NULL, and a blank amount is none.
        amount = f"CASE WHEN {cell.sql} IS NOT NULL THEN least({cell.sql}, {self.at_most}) END"
        total = f"coalesce(sum(round(({amount}) * {MILLIONTHS})::BIGINT), 0)"
        value = f"least({total} // {self.to * MILLIONTHS} * {self.to}, {self.at_most})::INTEGER"
        return Derivation(self.of, (cell,), value, {"negative amount": f"{cell.sql} < 0"}, of_events=True)


class AnyOfClaims(_OfEvents):
    """Whether any claim of a member, or any of their events of another table, has one of some values."""

    kind: Literal["any_of_claims"]
    values: ClassVar[tuple[str, ...]] = ("no", "yes")
    from_: Theirs = Field(alias="from", description="name of the column of the events in the delivery")
    with_values: tuple[Code, ...] = Field(min_length=1, description="the values; a member with any of them has 'yes'")

    def made(self, table: str) -> Derivation:
        """Otherwise 'no'."""
        cell = TypedColumn(self.from_, "text")
        found = f"coalesce(bool_or({cell.sql} IN ({', '.join(map(literal, self.with_values))})), false)"
        value = f"CASE WHEN {found} THEN 'yes' ELSE 'no' END"
        return Derivation(self.of, (cell,), value, {}, of_events=True, codes=self.with_values)


_OfEither = DeliveredText | DeliveredInteger | Grouped | Zip3 | Bins | Rounded | DaysBetween
OfMembers = Annotated[
    _OfEither | AgeAt | MonthsEnrolled | CountOfClaims | SumOfClaims | AnyOfClaims, Field(discriminator="kind")
]
OfClaims = Annotated[
    _OfEither | DaysSinceFirst | DaysSince | CodeGroup | Drugs | Results | Diagnosis | Concept, Field(discriminator="kind")
]


class DeclaredColumns(Section):
    """Columns that the policy declares, by table and name; other tables of events than claims are under their own names."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[Name, dict[Name, OfClaims]]

    members: dict[Name, OfMembers] = Field({}, description="columns of members")
    claims: dict[Name, OfClaims] = Field({}, description="columns of claims")

    @property
    def tables(self) -> dict[str, Mapping[str, DeclaredColumn]]:
        """Those of every table."""
        return {"members": self.members, **self.events}

    @cached_property
    def events(self) -> dict[str, dict[str, DeclaredColumn]]:
        """Those of claims, and of the other tables of events in the order of their names."""
        return {"claims": dict(self.claims), **{table: dict(own) for table, own in sorted(self.__pydantic_extra__.items())}}

    @cached_property
    def of_events(self) -> dict[str, DeclaredColumn]:
        """Those of all tables of events; no name is in two tables."""
        return {name: column for columns in self.events.values() for name, column in columns.items()}

    @cached_property
    def all(self) -> dict[str, DeclaredColumn]:
        """Those of all tables."""
        return {**self.members, **self.of_events}

    def table_of(self, column: str) -> str:
        """The table of events that a column is of: claims, unless another declares it."""
        return next((table for table, columns in self.events.items() if column in columns), "claims")

    @cached_property
    def declared(self) -> Declared:
        """How each is made."""
        return Declared(
            {name: column.made("members") for name, column in sorted(self.members.items())},
            {table: {name: own[name].made(table) for name in sorted(own)} for table, own in self.events.items()},
        )
