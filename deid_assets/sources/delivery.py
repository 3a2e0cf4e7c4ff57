"""What a delivery is, and how a policy says where its columns are.

The coding system of a delivered diagnosis is ICD-9-CM until September 2015, ICD-10-CM from October 2015. A policy states it for
all claims, for each claim by its dates, or by a column of the delivery. The same text may be a code of both: E888.9 is a fall
in ICD-9-CM, and E88.89 a metabolic disorder in ICD-10-CM. So no diagnosis is read by its form, and the canonical text names the
system (`deid_assets.reference.codes`).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from deid_assets.errors import DeliveryError
from deid_assets.reference import known_columns
from deid_assets.reference.codes import ICD10CM_PREFIX, SYSTEMS, DiagnosisSystem
from deid_assets.reference.known_columns import DIAGNOSES
from deid_assets.sources.received import DeliveredFile, content_digest, delivered_files, digest_of_contents
from deid_assets.store.digests import Json
from deid_assets.store.home import plain_key

SYSTEM_AT_LEAST = 0.99
"""Smallest share of diagnoses that may be of the stated system; no policy lowers it."""

SYSTEM_COLUMN = "diagnosis_system"
"""The delivered column that names the system of a claim's diagnoses, by its name in the claims as they are laid out."""

NAMES: Mapping[DiagnosisSystem, str] = MappingProxyType({"icd9cm": "ICD-9-CM", "icd10cm": "ICD-10-CM"})
IN_ICD10 = "diagnosis_in_icd10"
"""Column of the claims as they are laid out: whether the diagnoses are of ICD-10-CM; NULL where nothing says."""
_DATED_IN_ICD10 = "coalesce(discharge_date, service_date) >= DATE '2015-10-01'"
OF_OTHER_PERIOD = f"coalesce({IN_ICD10} <> ({_DATED_IN_ICD10}), false)"
"""SQL over the claims as they are laid out: whether their dates are of the period of the other system."""

_ICD9 = "(V[0-9]{2}|E[0-9]{3}|[0-9]{3})([.]?[0-9]{1,2})?"
_ICD10 = "[A-Z][0-9][0-9A-Z][.]?[0-9A-Z]{0,4}"
SPELLINGS: Mapping[DiagnosisSystem, tuple[str, ...]] = MappingProxyType(
    {"icd9cm": ("icd9cm", "icd9", "9", "09", "bk", "bf"), "icd10cm": ("icd10cm", "icd10", "10", "0", "abk", "abf")}
)
"""How claims name a system, without blanks, hyphens and dots, in lower case: by name, or as hospital bills and X12 do."""


class FromColumn(BaseModel):
    """A column of the delivered claims that names the system of the claim's diagnoses: `icd-9-cm`, `ICD10`, `9`, `0`, ..."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    from_: str = Field(
        alias="from",
        min_length=1,
        description="name of the column in the delivery: ICD-9-CM, icd9, 9, BK or BF; or ICD-10-CM, icd10, 10, 0, ABK or ABF",
    )


DiagnosisCodes = DiagnosisSystem | Literal["by_date"] | FromColumn
"""How a policy states the system: one for all, `by_date` (discharge, else service), or a column."""


def systems_of(codes: DiagnosisCodes) -> tuple[DiagnosisSystem, ...]:
    """The systems that diagnoses may be of.

    Examples
    --------
    >>> systems_of("icd10cm"), systems_of("by_date")
    (('icd10cm',), ('icd9cm', 'icd10cm'))
    """
    return tuple(one for one in SYSTEMS if codes in (one, "by_date") or isinstance(codes, FromColumn))


def spelled_system(column: str) -> str:
    """SQL of how a cell of a column spells a system, as in `SPELLINGS`; 10 that became a number is written 10.0."""
    return f"lower(regexp_replace(regexp_replace({column}::VARCHAR, '[.]0+ *$', ''), '[-_. ]', '', 'g'))"


def is_icd10(codes: DiagnosisCodes) -> str:
    """SQL over a claim with its dates: whether its diagnoses are of ICD-10-CM; NULL where nothing says."""
    if codes == "by_date":
        return _DATED_IN_ICD10
    if isinstance(codes, FromColumn):
        plain = spelled_system(SYSTEM_COLUMN)
        return f"CASE WHEN {plain} IN {SPELLINGS['icd10cm']} THEN true WHEN {plain} IN {SPELLINGS['icd9cm']} THEN false END"
    return "true" if codes == "icd10cm" else "false"


def canonical(codes: DiagnosisCodes, text: str) -> str:
    """SQL of a diagnosis in canonical form, from its text in upper case without blanks.

    Dots go. A text whose dot stands elsewhere than after the category keeps it, and is no known code: 042 that became a number
    is written 42.0, which without the dot would be 420, another disease.
    """
    misplaced = f"regexp_matches({text}, '^([0-9]{{0,2}}|[0-9]{{4,}}|E[0-9]{{2}})[.][0-9]')"
    in_icd9 = f"CASE WHEN {misplaced} THEN {text} ELSE nullif(replace({text}, '.', ''), '') END"
    if codes == "icd9cm":
        return in_icd9
    in_icd10 = (
        f"'{ICD10CM_PREFIX}' || CASE WHEN regexp_full_match({text}, '[^.]{{3}}[.]?[^.]*') THEN replace({text}, '.', '')"
        f" ELSE {text} END"
    )
    return in_icd10 if codes == "icd10cm" else f"CASE WHEN {IN_ICD10} THEN {in_icd10} ELSE {in_icd9} END"


def of_other_system(codes: DiagnosisCodes, column: str, has_unknown: bool) -> str:
    """SQL that tests whether a diagnosis of claims has the form of the other system, and is no code of its own.

    Parameters
    ----------
    has_unknown
        Whether the table `unknown_diagnosis` lists the codes that are not known.
    """
    listed = f"t.{column} NOT IN (SELECT code FROM unknown_diagnosis)" if has_unknown else "true"
    in_icd9 = f"regexp_full_match(t.{column}, '{_ICD9}') AND {listed}"
    like_icd10 = f"regexp_full_match(t.{column}, '{_ICD10}') AND NOT ({in_icd9})"
    if codes == "icd9cm":
        return like_icd10
    bare = f"substr(t.{column}, {len(ICD10CM_PREFIX) + 1})"
    in_icd10 = f"regexp_full_match({bare}, '{_ICD10}') AND {listed}"
    like_icd9 = f"regexp_full_match({bare}, '{_ICD9}') AND NOT ({in_icd10})"
    return f"CASE WHEN starts_with(t.{column}, '{ICD10CM_PREFIX}') THEN {like_icd9} ELSE {like_icd10} END"


KINDS = ("synthetic", "desynpuf", "tables", "flat", "cohort")


# DuckDB's format specifiers: those of strptime, without those that only some platforms have.
_DATE_FORMAT = re.compile(r"(?:[^%]|%%|%-?[aAbBcdfgGhHIjmMnpSuUVwWxXyYzZ])*\Z")

MEMBER_COLUMNS = (
    "member_id", "sex", "age", "birth_date", "death_date", "days_in_hospital_y2", "days_in_hospital_y3",
)  # fmt: skip
# A hospital bill has up to 25 diagnoses and the admitting diagnosis. The first four are columns of the claims; the
# others are stored in one column, separated by blanks.
FURTHER_DIAGNOSES = (*(f"diagnosis_{number}" for number in range(5, 26)), "admitting_diagnosis")
DIAGNOSIS_COLUMNS = (*DIAGNOSES, *FURTHER_DIAGNOSES)
FURTHER = "further_diagnoses"
CLAIM_COLUMNS = (
    "claim_id", "member_id", "provider_id", "vendor_id", "pcp_id", "year", "service_date", "specialty", "place", "cpt",
    "length_of_stay", "pay_delay", "days_since_first_claim", *DIAGNOSES, FURTHER,
)  # fmt: skip
CODE_COLUMNS = {**known_columns.CODE_COLUMNS, "diagnosis": DIAGNOSIS_COLUMNS}
"""The delivered columns of each kind of code."""
# Delivered columns that canonical ones are derived from: length of stay, pay delay.
CLAIM_INGREDIENTS = ("admission_date", "discharge_date", "paid_date")
DELIVERED_CLAIM_COLUMNS = (
    *(column for column in CLAIM_COLUMNS if column != FURTHER), *FURTHER_DIAGNOSES, *CLAIM_INGREDIENTS,
)  # fmt: skip
"""What a delivery may contain about a claim: the canonical columns, and those that some of them are derived from."""
ENROLMENT = ("enrolled_from", "enrolled_until")
"""First and last day of a member's enrolment, or of a span of it; read for what is derived of it."""
DELIVERED_MEMBER_COLUMNS = (*MEMBER_COLUMNS, *ENROLMENT)
"""What a delivery may contain about a member."""
EVENT_COLUMNS = ("claim_id", "member_id", *known_columns.PROVIDER_PSEUDONYMS, "year", "service_date")
"""What a delivery may contain about an event in another table than the claims, beside columns that a policy declares."""
DATE_COLUMNS = ("birth_date", "death_date", *ENROLMENT, "service_date", *CLAIM_INGREDIENTS)


@dataclass(frozen=True)
class Delivery:
    """A snapshot received from a source; its key is the Dagster partition key.

    Parameters
    ----------
    key
        Letters, digits, `_`, `.` and `-`; begins with a letter or digit.
    kind
        One of `KINDS`: the adapter that reads it.
    paths
        Files or folders, as received. Several folders are one delivery.
    parameters
        How it was produced, such as the size and the seed of a synthetic delivery; JSON values.
    complete_when
        Name of the file that says that the delivery is complete, if it arrived in a watched folder. Such a delivery is not
        read without it, and its content is final once it was read. None: somebody named the delivery.

    Raises
    ------
    DeliveryError
        If the key or the kind is not allowed.

    Examples
    --------
    >>> delivery = Delivery("2012-04", "tables", (Path("in/2012-04"),), {"note": "first"})
    >>> Delivery.from_json(delivery.to_json()) == delivery
    True
    """

    key: str
    kind: str
    paths: tuple[Path, ...]
    parameters: Mapping[str, Json] = field(default_factory=dict, hash=False)
    complete_when: str | None = None

    def __post_init__(self) -> None:
        plain_key(self.key)
        if self.kind not in KINDS:
            raise DeliveryError(f"delivery {self.key}: the kind must be one of {', '.join(KINDS)}")
        object.__setattr__(self, "paths", tuple(Path(path) for path in self.paths))
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    def __reduce__(self) -> tuple[object, ...]:
        # A mapping proxy cannot be pickled; a delivery may be sent to another process.
        return Delivery, (self.key, self.kind, self.paths, dict(self.parameters), self.complete_when)

    def to_json(self) -> str:
        """Return the delivery as one line of JSON, for a partition's record."""
        record = {
            "key": self.key,
            "kind": self.kind,
            "paths": [str(path) for path in self.paths],
            "parameters": dict(self.parameters),
        }
        if self.complete_when is not None:
            record["complete_when"] = self.complete_when
        return json.dumps(record, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Delivery":
        """Return the delivery that `to_json` wrote.

        Raises
        ------
        DeliveryError
            If the text is not such a record.
        """
        try:
            record = json.loads(text)
            paths, parameters = tuple(map(Path, record["paths"])), record.get("parameters", {})
            return cls(record["key"], record["kind"], paths, parameters, record.get("complete_when"))
        except (json.JSONDecodeError, KeyError, TypeError):
            raise DeliveryError("this is not the record of a delivery: key, kind and paths are needed") from None

    def files(self) -> list[DeliveredFile]:
        """Every file of the delivery.

        Raises
        ------
        DeliveryError
            If a path does not exist, if anything is neither a regular file nor a folder (links are not followed), or if the
            marker of a watched delivery is missing.
        """
        for path in self.paths if self.complete_when is not None else ():
            if not (path / str(self.complete_when)).is_file():
                raise DeliveryError(
                    f"delivery {self.key}: its marker {self.complete_when} is missing from {path}, so it is not complete; put "
                    "the marker there once everything has arrived"
                )
        return delivered_files(self.paths)

    def digest(self) -> str:
        """SHA-256 over the names and contents of all files, in hexadecimal.

        It does not depend on the delivery's location, on file dates, or on the order of `paths`.

        Raises
        ------
        DeliveryError
            As for `files`, or if a file cannot be read.
        """
        return digest_of_contents((file.name, content_digest(file)) for file in self.files())


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


UnknownCodes = Literal["quarantine", "blank"]
ColumnName = Annotated[str, StringConstraints(min_length=1)]
MOST_YEARS = 50
"""Number of years of claims that a release may contain."""
CONFLICTS_BY_DEFAULT = 0.05
"""Share of the claims whose lines may differ where a policy does not state one."""
YEARS_BY_DEFAULT = 3
"""Number of years where a policy does not state the last: those of the Heritage Health Prize."""


def _is_date_format(text: str) -> str:
    # Checked here, so that a wrong format is an error of the policy, not of every row.
    if not _DATE_FORMAT.match(text) or not re.search(r"%-?[yYcxG]", text):
        raise ValueError("must be a strptime format with a year, such as %Y-%m-%d or %m/%d/%Y")
    return text


DateFormat = Annotated[str, AfterValidator(_is_date_format)]
DateFormats = Annotated[
    tuple[DateFormat, ...], Field(min_length=1), BeforeValidator(lambda found: (found,) if isinstance(found, str) else found)
]
Year = Annotated[int, Field(ge=1900, le=2200)]


class Years(_Model):
    """The calendar years of claims that are read, as year 1, year 2 and so on.

    Parameters
    ----------
    first
        The calendar year that is year 1.
    last
        The last year; default: two years after the first.
    outside
        Treatment of claims of other years: quarantined, as claims with a wrong date, or left out and counted, as claims
        of a longer history. With the latter, members without data in these years are left out too.

    Examples
    --------
    >>> Years(first=2009).count, Years(first=2009, last=2010).count
    (3, 2)
    """

    first: Year
    last: Year | None = None
    outside: Literal["quarantine", "leave_out"] = "quarantine"

    @model_validator(mode="after")
    def _few_years(self) -> "Years":
        if self.last is not None and not self.first <= self.last < self.first + MOST_YEARS:
            raise ValueError(
                f"last must be from {self.first} to {self.first + MOST_YEARS - 1}: a release contains at most {MOST_YEARS} "
                "years"
            )
        return self

    @property
    def count(self) -> int:
        """Number of years."""
        return YEARS_BY_DEFAULT if self.last is None else self.last - self.first + 1


class TableMap(_Model):
    """Where a table is in the delivery, and which of its columns is which: canonical name -> their name."""

    file: str | None = Field(
        None,
        description="name or pattern (`claims_*.parquet`) below each folder of the delivery: CSV (`.csv`, `.txt`, `.tsv`, also "
        "`.gz`), Parquet (`.parquet`) or DuckDB (`.duckdb`, `.db`); null: the delivery's path is the file",
    )
    table: str | None = Field(None, description="table of a DuckDB file: `table` or `schema.table`")
    columns: dict[str, ColumnName] = Field(min_length=1, description="canonical name -> the name in the delivery")
    date_formats: dict[str, DateFormats] = Field(
        {},
        description="how the dates of a column, by its canonical name, are written where that differs from the source's "
        "`date_format`: one format, or a list where a column mixes several",
    )

    @model_validator(mode="after")
    def _formats_of_dates(self) -> "TableMap":
        dates = [name for name in self.columns if name in DATE_COLUMNS]
        unknown = sorted(set(self.date_formats) - set(dates))
        if unknown:
            raise ValueError(
                f"date_formats: {', '.join(unknown)} is not a mapped column of dates: {', '.join(dates) or 'there are none'}"
            )
        return self

    def formats(self, default: str) -> dict[str, tuple[str, ...]]:
        """The formats of every mapped date column, by canonical name."""
        return {name: self.date_formats.get(name, (default,)) for name in self.columns if name in DATE_COLUMNS}

    @field_validator("file")
    @classmethod
    def _stays_inside(cls, file: str | None) -> str | None:
        if file is not None and (not file or PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts):
            raise ValueError("must be a file name or pattern below the delivery's folder: not absolute, without '..'")
        return file


def place_of(table: str) -> tuple[str, ...]:
    """Where the source of a policy describes a table of members, claims or other events."""
    return (table,) if table in ("members", "claims") else ("events", table)


def _refuse_unknown(columns: dict[str, str], allowed: tuple[str, ...]) -> None:
    unknown = sorted(set(columns) - set(allowed))
    if unknown:
        raise ValueError(f"no canonical column {', '.join(unknown)}; allowed: {', '.join(allowed)}")


def _require_event(columns: dict[str, str], allowed: tuple[str, ...]) -> None:
    _refuse_unknown(columns, allowed)
    if "member_id" not in columns or not {"service_date", "year"} & set(columns):
        raise ValueError("member_id and one of service_date, year must be mapped")


WithoutCodes = Annotated[str, StringConstraints(min_length=1)] | None


class Spans(_Model):
    """What a row of members is."""

    unit: Literal["person", "span"] = Field(
        "person",
        exclude_if=lambda unit: unit == "person",
        description="what a row is: a person, or a span of enrolment, of which a person has several; they are joined",
    )
    gaps_at_most: Annotated[int, Field(ge=0, le=366)] = Field(
        0,
        exclude_if=lambda days: days == 0,
        description="days between two spans of enrolment that count as enrolled",
    )


class MembersMap(Spans, TableMap):
    """The members table: `member_id`, `sex` and one of `age`, `birth_date` are required; other columns are NULL if absent."""

    @field_validator("columns")
    @classmethod
    def _enough(cls, columns: dict[str, str]) -> dict[str, str]:
        _refuse_unknown(columns, DELIVERED_MEMBER_COLUMNS)
        if not {"member_id", "sex"} <= set(columns) or not {"age", "birth_date"} & set(columns):
            raise ValueError("member_id, sex and one of age, birth_date must be mapped")
        if "enrolled_until" in columns and "enrolled_from" not in columns:
            raise ValueError("enrolled_until needs enrolled_from")
        return columns

    @model_validator(mode="after")
    def _gaps_of_spans(self) -> "MembersMap":
        if self.gaps_at_most and (self.unit != "span" or "enrolled_from" not in self.columns):
            raise ValueError("gaps_at_most has no effect without unit: span and enrolled_from; remove it")
        return self


class Lines(_Model):
    """What a row of claims is."""

    unit: Literal["event", "line"] = Field(
        "event",
        exclude_if=lambda unit: unit == "event",
        description="what a row is: a claim, or a line of one, so that claim ids repeat; lines are joined",
    )
    conflicts_at_most: Annotated[float, Field(ge=0, le=1)] = Field(
        CONFLICTS_BY_DEFAULT,
        exclude_if=lambda share: share == CONFLICTS_BY_DEFAULT,
        description="share of the claims whose lines may differ in place, specialty or a provider: the first line decides",
    )


class ClaimsMap(Lines, TableMap):
    """The claims table: `member_id` and one of `service_date`, `year` are required; other columns are NULL if absent.

    Without `claim_id`, a claim is identified by its file and row. `admission_date` and `discharge_date` give the length
    of stay if none is delivered (a stay that ends on its first day lasts 1 day); `paid_date` gives the pay delay.
    """

    without_codes: WithoutCodes = Field(
        None,
        exclude_if=lambda reason: reason is None,
        description="why neither claims nor other tables of events have diagnoses, in a sentence; where members are removed "
        "for codes, a policy with other tables of events and no column of diagnoses is refused unless this says why",
    )

    @field_validator("columns")
    @classmethod
    def _enough(cls, columns: dict[str, str]) -> dict[str, str]:
        _require_event(columns, DELIVERED_CLAIM_COLUMNS)
        if ("admission_date" in columns) != ("discharge_date" in columns):
            raise ValueError("admission_date and discharge_date go together: map both or neither")
        codes = [columns[name] for names in CODE_COLUMNS.values() for name in names if name in columns]
        if len(set(codes)) < len(codes):
            twice = ", ".join(sorted({name for name in codes if codes.count(name) > 1}))
            raise ValueError(
                f"{twice}: mapped as two columns of codes (diagnoses, cpt, place, specialty); one column contains one kind"
            )
        if "paid_date" in columns and "service_date" not in columns:
            raise ValueError("paid_date needs service_date: the pay delay is the number of days between them")
        return columns


TableName = Annotated[str, StringConstraints(pattern=r"^[a-z]{1,20}(_[a-z]{1,20}){0,3}$")]


class EventsMap(TableMap):
    """Another table of events, such as fills of drugs: `member_id` and one of `service_date`, `year` are required.

    Without `claim_id`, a row is identified by its file and place. Further columns are declared by the policy.
    """

    same_as_claims: tuple[Literal["provider_id", "vendor_id", "pcp_id"], ...] = Field(
        (), description="columns of providers whose identifiers are those of claims: one provider has one pseudonym in both"
    )
    without_codes: WithoutCodes = Field(
        None,
        exclude_if=lambda reason: reason is None,
        description="why no column of the table has codes that could be sensitive, in a sentence; where members are removed "
        "for codes, a table without a declared column of codes is refused unless this says why",
    )

    @field_validator("columns")
    @classmethod
    def _enough(cls, columns: dict[str, str]) -> dict[str, str]:
        _require_event(columns, EVENT_COLUMNS)
        return columns

    @model_validator(mode="after")
    def _same_providers(self) -> "EventsMap":
        if unmapped := sorted(set(self.same_as_claims) - set(self.columns)):
            raise ValueError(f"same_as_claims: {', '.join(unmapped)} is not mapped")
        return self


class ReferenceTable(_Model):
    """A table of the delivery that is not about people."""

    file: ColumnName = Field(description="name or pattern below the delivery's folder")
    table: str | None = Field(None, description="table of a DuckDB file")


class VocabularyMap(_Model):
    """The vocabulary of an OMOP delivery, which says what concepts mean: tables of the CDM under their own names."""

    concept: ReferenceTable = Field(description="table of concepts")
    concept_relationship: ReferenceTable | None = Field(
        None, description="table of relationships: `Maps to`, `Mapped from`, and where there are no ancestors, `Is a`"
    )
    concept_ancestor: ReferenceTable | None = Field(None, description="table of ancestors")
    delimiter: Annotated[str, StringConstraints(min_length=1, max_length=1)] = Field(
        ",", exclude_if=lambda sign: sign == ",", description="field delimiter of CSV files; those of Athena have a tab"
    )

    @property
    def tables(self) -> dict[str, ReferenceTable]:
        """Those that are delivered, by name."""
        named = {name: getattr(self, name) for name in ("concept", "concept_relationship", "concept_ancestor")}
        return {name: table for name, table in named.items() if table is not None}


class FurtherTable(ReferenceTable):
    """A table that nothing describes: a run refuses and names it, until the policy says why it is left out."""

    holds: ColumnName = Field(description="what the table contains, in a few words")
    left_out: ColumnName | None = Field(
        None,
        exclude_if=lambda reason: reason is None,
        description="why the release goes without the table, in a sentence; sensitive codes in it are not searched",
    )


MADE_EVENTS = ("fills", "results")
"""The tables of events that the generator makes besides claims."""


def _is_made(table: str) -> str:
    if table not in MADE_EVENTS:
        raise ValueError(f"the generator makes no such table; it can make {' and '.join(MADE_EVENTS)}")
    return table


class MadeEvents(_Model):
    """A table of events that the generator makes; it is where and as the generator writes it."""

    columns: ClassVar[Mapping[str, str]] = MappingProxyType(
        {name: name for name in ("claim_id", "member_id", "provider_id", "year", "service_date")}
    )
    same_as_claims: ClassVar[tuple[str, ...]] = ("provider_id",)
    without_codes: WithoutCodes = Field(None, exclude_if=lambda reason: reason is None, description="as of other sources")


class MadeMembers(Spans):
    """The members of the generator: people, or spans of their enrolment (`enrolled_from`, `enrolled_until`)."""

    @model_validator(mode="after")
    def _gaps_of_spans(self) -> "MadeMembers":
        if self.gaps_at_most and self.unit != "span":
            raise ValueError("gaps_at_most has no effect without unit: span; remove it")
        return self


class MadeClaims(Lines):
    """The claims of the generator: claims, or lines of them (`line`)."""

    @model_validator(mode="after")
    def _conflicts_of_lines(self) -> "MadeClaims":
        if self.unit != "line" and self.conflicts_at_most != CONFLICTS_BY_DEFAULT:
            raise ValueError("conflicts_at_most has no effect without unit: line; remove it")
        return self


class SyntheticSource(_Model):
    """`members.parquet` and `claims.parquet` with canonical columns, as written by the generator.

    Parameters
    ----------
    members
        What a row of members is.
    claims
        What a row of claims is.
    events
        Further tables that the generator makes: `fills: {}`, fills of drugs, in `fills.parquet`; `results: {}`, laboratory
        results, in `results.parquet`.
    amounts
        Whether claims and fills have a column `paid`, in dollars.
    """

    kind: Literal["synthetic"] = "synthetic"
    members: MadeMembers = Field(MadeMembers(), exclude_if=lambda rows: rows == MadeMembers())
    claims: MadeClaims = Field(MadeClaims(), exclude_if=lambda rows: rows == MadeClaims())
    events: dict[Annotated[str, AfterValidator(_is_made)], MadeEvents] = Field({}, exclude_if=lambda tables: not tables)
    amounts: bool = Field(False, exclude_if=lambda asked: not asked)


class DesynpufEvents(_Model):
    """A table of events of DE-SynPUF beside the claims: its declared columns are under its name."""

    without_codes: WithoutCodes = Field(None, exclude_if=lambda reason: reason is None, description="as of other sources")

    @property
    def columns(self) -> dict[str, str]:
        """Canonical name -> the name in the delivery."""
        return {"claim_id": "PDE_ID", "member_id": "DESYNPUF_ID", "service_date": "SRVC_DT"}


class DesynpufSource(_Model):
    """CMS DE-SynPUF files as downloaded. Its codes are synthetic: `blank` converts unknown ones to NULL and counts them."""

    kind: Literal["desynpuf"] = "desynpuf"
    events: dict[Annotated[str, StringConstraints(pattern="^prescriptions$")], DesynpufEvents] = Field(
        {}, exclude_if=lambda tables: not tables, description="`prescriptions`: prescription drug events are read, too"
    )
    unknown_codes: UnknownCodes = Field(
        "blank",
        description="whether a row with an unknown code is quarantined, or the code becomes NULL and is counted; either "
        "way, who has one is not released where members are removed for codes of its kind",
    )


class TablesSource(_Model):
    """Any CSV, Parquet or DuckDB tables with a column map.

    Parameters
    ----------
    members, claims
        The two tables; a delivery without claims is allowed.
    events
        Other tables of events by name; their declared columns are under the same name.
    date_format
        Format of dates that are text or whole numbers, in strptime notation, unless a table's `date_formats` overrides
        it.
    delimiter
        Field delimiter of CSV files.
    years
        Which calendar years are read. Required if `year` or `age` is not mapped; with it, a mapped `year` is a calendar
        year.
    sex_values
        How this source codes sex, if not as F, M, female or male: their value -> F or M.
    unknown_codes
        Treatment of a row with an unknown code: quarantine the row, or convert the code to NULL. Either way, who has one is
        not released where members are removed for codes of its kind.
    further_tables
        Tables that nothing describes yet; a run refuses while any is listed without a reason why it is left out.
    vocabulary
        The tables that say what OMOP concepts mean; declared columns of kind `concept` read them.
    """

    kind: Literal["tables"] = "tables"
    members: MembersMap
    claims: ClaimsMap | None = None
    events: dict[TableName, EventsMap] = Field({}, exclude_if=lambda tables: not tables)
    date_format: DateFormat = "%Y-%m-%d"
    delimiter: Annotated[str, StringConstraints(min_length=1, max_length=1)] = ","
    years: Years | None = None
    sex_values: dict[str, Literal["F", "M"]] = {}
    unknown_codes: UnknownCodes = "quarantine"
    further_tables: tuple[FurtherTable, ...] = Field((), exclude_if=lambda tables: not tables)
    vocabulary: VocabularyMap | None = Field(None, exclude_if=lambda tables: tables is None)

    @property
    def tables(self) -> dict[str, TableMap]:
        """Every table by its name."""
        claims = {} if self.claims is None else {"claims": self.claims}
        return {"members": self.members, **claims, **self.events}

    @property
    def unreadable(self) -> tuple[str, ...]:
        """What the source names and nothing describes, each with what to do."""
        found = []
        open_ = [one for one in self.further_tables if one.left_out is None]
        if open_:
            listed = ", ".join(f"{one.table or one.file} ({one.holds})" for one in open_)
            found.append(
                f"further tables (source.further_tables): {listed}. Describe them under source.events and columns, or say "
                "why the release goes without them (left_out)"
            )
        return tuple(found)

    @model_validator(mode="after")
    def _conflicts_of_lines(self) -> "TablesSource":
        if self.claims is not None and self.claims.unit != "line" and self.claims.conflicts_at_most != CONFLICTS_BY_DEFAULT:
            raise ValueError("claims.conflicts_at_most has no effect without unit: line; remove it")
        return self

    @model_validator(mode="after")
    def _lines_have_claims(self) -> "TablesSource":
        if self.claims is not None and self.claims.unit == "line" and "claim_id" not in self.claims.columns:
            raise ValueError("claims of unit line need claim_id, by which lines are joined; without it, each line is a claim")
        return self

    @model_validator(mode="after")
    def _events_beside_claims(self) -> "TablesSource":
        if self.events and self.claims is None:
            raise ValueError("events: other tables of events need a table of claims beside them")
        return self

    @model_validator(mode="after")
    def _year_one_is_known(self) -> "TablesSource":
        tables = [] if self.claims is None else [self.claims, *self.events.values()]
        if any("year" not in table.columns for table in tables) and self.years is None:
            raise ValueError(
                "years is needed, such as years: {first: 2009}: without a mapped year, it determines which calendar year is "
                "year 1"
            )
        if "age" not in self.members.columns and self.years is None:
            raise ValueError(
                "years is needed, such as years: {first: 2009}: it determines at what time a birth_date is converted into an "
                "age"
            )
        return self


SourceOptions = Annotated[SyntheticSource | DesynpufSource | TablesSource, Field(discriminator="kind")]
