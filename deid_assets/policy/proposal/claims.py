"""Propose a policy for a members table and tables of claims or other events: column maps, years, declared columns, hierarchies.

Codes of other tables of events are read by the first way that can.
"""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from deid_assets.errors import how_many
from deid_assets.policy.form import columns_of
from deid_assets.policy.loading import policy_by_name
from deid_assets.policy.models import Policy
from deid_assets.policy.proposal import looking
from deid_assets.policy.proposal.layouts import (
    Further,
    KnownEvents,
    KnownTable,
    Recognized,
    Role,
    guess,
    plain_name,
    signatures,
)
from deid_assets.policy.proposal.looking import DECIMAL_NUMBERS, ICD9, ICD10, NDC, PROCEDURES, DeliveredColumn, DeliveredTable
from deid_assets.policy.proposal.writing import Text, commented, field_lines, names, scalar
from deid_assets.policy.scaffold import shipped_values
from deid_assets.policy.sections.disclosure import SENSITIVE_BY_DEFAULT
from deid_assets.reference.groups import CODE_GROUPINGS
from deid_assets.reference.known_columns import DAYS_OF_SERVICE, KNOWN
from deid_assets.sources.delivery import (
    DATE_COLUMNS,
    DELIVERED_CLAIM_COLUMNS,
    DELIVERED_MEMBER_COLUMNS,
    DIAGNOSIS_COLUMNS,
    MOST_YEARS,
    NAMES,
    SYSTEM_AT_LEAST,
)

_CONDITIONS = "condition_group"
"""The shipped hierarchy of primary condition groups."""


@dataclass(frozen=True)
class Made:
    """A declared column as it is proposed.

    Attributes
    ----------
    entry
        How it is made.
    hierarchy
        Its hierarchy, or the name of a shipped one like which it is.
    of
        What its codes are, which other tables of events have.
    """

    entry: Mapping[str, str]
    hierarchy: Mapping[str, object] | str
    of: str | None = None


def mapped_columns(table: DeliveredTable, known: KnownEvents) -> dict[str, str]:
    """Canonical column -> the column that the table has."""
    found = {}
    for ours, theirs in known.columns.items():
        given = (table.column(name) for name in ([theirs] if isinstance(theirs, str) else theirs))
        filled = next((column.name for column in given if column is not None and column.kind != "blank"), None)
        if filled is not None:
            found[ours] = filled
    return found


def column_of_codes(table: DeliveredTable, known: KnownEvents, vocabulary: Mapping[str, DeliveredTable]) -> Made | None:
    """The column of codes: by a code system that ships if the codes have its form, or else as concepts; None: there is none."""
    text, concept, named = (
        column if (column := table.column(known.codes.get(key, ""))) is not None and column.kind != "blank" else None
        for key in ("text", "concept", "named")
    )
    of, two_levels = known.codes["of"], {"kind": "prefixes", "lengths": [None, 0]}
    made = _by_form(text, of) if text is not None and not (of == "drug" and concept is not None and vocabulary) else None
    if made is None:
        column = concept or text
        if column is None:
            return None
        made = {"kind": "concept", "of": of, "from": column.name} | ({"named": named.name} if named is not None else {})
    is_grouped = of == "diagnosis"  # conditions have the groups that those of claims have
    return Made(made | {"meaning": f"group of {made['from']}"}, _CONDITIONS if is_grouped else two_levels, of)


def _by_form(column: DeliveredColumn, of: str) -> dict[str, str] | None:
    for system, stated in ((ICD10, "icd10cm"), (ICD9, "icd9cm")):
        if of == "diagnosis" and column.share(system) >= _SURE:
            return {"kind": "diagnosis", "from": column.name, "system": stated}
    if of == "procedure" and column.share(PROCEDURES) >= _SURE:
        return {"kind": "cpt_section", "from": column.name}
    if of == "drug" and column.share(NDC) >= _SURE:
        return {"kind": "ndc", "from": column.name}
    return None


def check_codes(text: Text, table: DeliveredTable, made: Made, vocabulary: Mapping[str, DeliveredTable]) -> None:
    """Say how the codes of a table are read, and what the team has to add."""
    name = made.entry["from"]
    column, shown = table.column(name), f"{table.shown}, {name}"
    share = 0.0 if column is None else column.share(DECIMAL_NUMBERS)
    if share > 0:
        text.check(f"{shown}: {share:.0%} are whole numbers with decimals, such as 1234.0, which are read without them", 4)
    if made.entry["kind"] == "ndc":
        text.check(
            f"{shown}: no table says what these drugs are, so that all are unknown and the delivery is refused: add "
            "`file: drugs.csv` with ndc;group;ingredients",
            4,
        )
    elif made.entry["kind"] == "concept" and "named" in made.entry:
        text.check(
            f"{shown}: lists search the names in {made.entry['named']}, but these make a drug known only if they name an "
            "ingredient of a table that is for you to write: add `file: drugs.csv` with concept;group;ingredients",
            4,
        )
    elif made.entry["kind"] == "concept":
        how = "the delivered vocabulary" if vocabulary else "a table that is for you to write"
        text.check(
            f"{shown}: read by {how}. What stands for no code is unknown, and too many refuse the delivery; "
            "`file: TABLE.csv` with concept;group;codes adds what is missing",
            4,
        )


BASE = "heritage_public"
"""The shipped policy whose thresholds and hierarchies are proposed."""
ANY = "0 characters"
"""The level of prefixes at which a text says nothing."""
DIAGNOSIS_CODES = {name: system for system, name in NAMES.items()}
"""What the policy says of a coding system of diagnoses."""
_OF_DATES = "of_dates"
"""The hierarchy of the columns by which drawn dates are judged."""
BY_DATE = "by_date"
"""What it says where both systems are in use, each in its years."""

_SURE = 0.98
_SOME = 0.2  # share from which a column of that name may contain diagnoses
_MIXED = 1 - SYSTEM_AT_LEAST  # share of another system from which a delivery mixes them
_DIAGNOSES = 0.9  # share of codes of either system from which a column contains diagnoses
_ISO = "%Y-%m-%d"
_NOT_COPIED = ("policy", "title", "description", "owners", "recipients", "source", "intake")
_WHY = {
    "removal": "Who is never released: members with sensitive codes, with rare and visible diseases, and the newborn.",
    "sample": "Deliver the whole population: the product draws the sample, and absence from it protects.",
    "rotation": "At each later delivery, this share of the members released before leaves for good.",
    "number_of_claims": "An adversary may know, to within five, how many claims a member has.",
    "dates": "Dates are drawn anew, by one sequence for all events of a person. Without this section, service_interval and "
    "service_period, none are released.",
    "risk": "Thresholds: a member is at high risk in a class of fewer than 1 / threshold members of the delivery.",
    "detail_at_least": "A release that keeps less of a column's information is refused as useless.",
}


@dataclass(frozen=True)
class Mapped:
    """A table with its column map and the other columns that each might have been."""

    table: looking.DeliveredTable
    columns: Mapping[str, str]
    others: Mapping[str, Sequence[str]]
    sex_values: Mapping[str, str]
    same_as_claims: tuple[str, ...] = ()

    def look(self, canonical: str) -> looking.DeliveredColumn | None:
        """What is told of a mapped column; None if it is not mapped."""
        return self.table.column(self.columns[canonical]) if canonical in self.columns else None


def propose_claims(text: Text, name: str, look: looking.Look, found: Recognized) -> None:
    """Add the sections of a policy for a table of members, one of claims, and other tables of events.

    Parameters
    ----------
    name
        Name of the policy, with which the names of files beside it begin.
    """
    if found.members is None or found.claims is None:
        raise ValueError("a table of members and one of claims are needed")
    claims = _mapped("claims", *found.claims)
    years = _years(claims)
    members = _mapped("members", *found.members, years[0] if years else None)
    year = claims.look("year")
    if year is not None and set(year.years) <= {1, 2, 3}:
        # Years by their numbers go without calendar years, which a birth needs to become an age.
        if "age" in members.columns:
            years = ()
        else:
            claims = replace(claims, columns={ours: theirs for ours, theirs in claims.columns.items() if ours != "year"})
    # Lines with other codes in a declared column would become events of their own.
    of_claims = {} if _repeats(claims, "claim_id") else dict(_columns_of_codes(claims))
    of_claims |= dict(_declared_by_layout(text, name, claims, found.claims[1]))
    declared = {"members": dict(_declared(members)), "claims": of_claims}
    tables, further = {"members": members, "claims": claims}, list(found.further)
    for table, known in found.events:
        made = column_of_codes(table, known, found.vocabulary)
        columns = mapped_columns(table, known)
        if made is None or not {"member_id", "service_date"} <= set(columns):
            further.append(Further(table, known.name, "It has no person, no date or no codes."))
            continue
        same = [one for one in known.same_as_claims if one in columns and one in claims.columns]
        tables[known.name] = Mapped(table, columns, {}, {}, tuple(same))
        declared[known.name] = {known.codes["name"]: made}
    text.lines.append("source:")
    _source(text, look, tables, years)
    _events(text, look, tables, declared, found.vocabulary)
    _further(text, further)
    for mapped, needed in ((members, ("member_id", "sex")), (claims, ("member_id", "service_date"))):
        for column in filter(None, map(mapped.look, needed)):
            blank = 1 - column.filled / mapped.table.rows
            if blank > 0 and not (needed[1] == "service_date" and "year" in mapped.columns):
                text.check(f"{blank:.1%} of the rows of {mapped.table.shown} have no {column.name}, and are quarantined")
    for table, unsearched in (
        (claims.table, found.claims[1].unsearched),
        *((one, known.unsearched) for one, known in found.events),
    ):
        _check_unsearched(text, table, unsearched)
    text.add("intake", {"quarantine_at_most": 0.01})
    with_diagnoses = tuple(table for table, own in declared.items() if any(one.of == "diagnosis" for one in own.values()))
    text.add("diagnosis_codes", _diagnosis_codes(text, claims, with_diagnoses))
    sections = _sections(members, claims, declared, found.dates)
    made_of = {table: {name: dict(one.entry) for name, one in own.items()} for table, own in declared.items()}
    _columns(text, tables, made_of, sections)
    for column in _of_kind(claims, "ndc"):
        text.check(
            f"{column.share(looking.NDC):.0%} of {column.name} have the form of NDCs: to release groups of drugs, declare a "
            f"column of claims {{kind: ndc, from: {column.name}, file: drugs.csv, ...}} with a table ndc;group;ingredients"
        )
    for role, mapped in tables.items():
        _not_read(text, mapped, {one["from"] for one in made_of[role].values()})
    for name, value in sections.items():
        if name != "quasi_identifiers":
            if name in _WHY:
                text.comment(_WHY[name])
            text.add(name, value)


def _check_unsearched(text: Text, table: looking.DeliveredTable, columns: Sequence[str]) -> None:
    """Name further columns of codes, if they are delivered."""
    left = [name for name in columns if (column := table.column(name)) is not None and column.kind != "blank"]
    if left:
        text.check(
            f"{table.shown}: no list searches {names(left)}. Declare columns of codes, or see that other tables repeat them"
        )


def _mapped(role: Role, table: looking.DeliveredTable, known: KnownTable, first_year: int | None = None) -> Mapped:
    """The map that the layout gives, and guesses for what it lacks."""
    columns = {
        ours: column.name
        for ours, theirs in known.columns.items()
        if (column := table.column(theirs)) and column.kind != "blank"
    }
    if role == "claims":
        columns |= _diagnoses(table, columns)
    guessed = guess(table, role, columns, first_year)
    columns |= {ours: theirs[0] for ours, theirs in guessed.items()}
    for one, other in (("admission_date", "discharge_date"), ("discharge_date", "admission_date")):
        if other not in columns:
            columns.pop(one, None)
    for one, other in (("paid_date", "service_date"), ("enrolled_until", "enrolled_from")):
        if other not in columns:
            columns.pop(one, None)
    order = (*DELIVERED_MEMBER_COLUMNS, *DELIVERED_CLAIM_COLUMNS)
    columns = {ours: columns[ours] for ours in sorted(columns, key=lambda ours: (ours in DIAGNOSIS_COLUMNS, order.index(ours)))}
    unused = {ours: [one for one in theirs if one not in columns.values()] for ours, theirs in guessed.items()}
    return Mapped(table, columns, unused, known.sex_values)


def _diagnoses(table: looking.DeliveredTable, taken: Mapping[str, str]) -> dict[str, str]:
    """Columns of diagnoses in their order: by name and form, or by form alone if it is that of ICD-10-CM.

    Blank columns that only differ in their number are among them: another delivery may fill them.
    """
    free = [column for column in table.columns if column.kind != "date" and column.name not in taken.values()]
    found = [
        column for column in free if column.share(looking.DIAGNOSES) >= _DIAGNOSES and (_is_named(column) or _is_icd10(column))
    ]
    stems = {_stem(column) for column in found}
    found = [column for column in free if column in found or (column.kind == "blank" and _stem(column) in stems)]
    admitting = [column for column in found if re.search(signatures()["admitting"], plain_name(column.name))][:1]
    numbered = (name for name in DIAGNOSIS_COLUMNS if name != "admitting_diagnosis")
    columns = dict(zip(numbered, (column.name for column in found if column not in admitting), strict=False))
    return columns | ({"admitting_diagnosis": admitting[0].name} if admitting else {})


def _is_named(column: looking.DeliveredColumn) -> bool:
    return re.search(signatures()["diagnosis"], plain_name(column.name)) is not None


def _is_icd10(column: looking.DeliveredColumn) -> bool:
    return column.share(looking.ICD10) >= _DIAGNOSES and column.share(looking.PROCEDURES) < _DIAGNOSES


def _stem(column: looking.DeliveredColumn) -> str:
    return re.sub("_?[0-9]+$", "", plain_name(column.name))


def _years(claims: Mapped) -> tuple[int, ...]:
    """The calendar years in a row with most claims, the latest of equals; none if years are delivered as 1 to 3."""
    column = claims.look("service_date") or claims.look("year")
    if column is None or not column.years or set(column.years) <= {1, 2, 3}:
        return ()
    windows = [[year for year in range(first, first + MOST_YEARS) if year in column.years] for first in column.years]
    most = max(windows, key=lambda window: (round(sum(column.years[year] for year in window), 2), window[0]))
    return tuple(range(most[0], most[-1] + 1))


def _source(text: Text, look: looking.Look, tables: Mapping[str, Mapped], years: Sequence[int]) -> None:
    members, claims = tables["members"], tables["claims"]
    text.add("kind", "tables", 2)
    delimiters = {one.table.delimiter for one in tables.values()}
    if len(delimiters) > 1:
        text.check("the CSV files have different delimiters, and a source has one: write them alike", 2)
    if delimiters != {","}:
        text.add("delimiter", sorted(delimiters)[-1], 2)
    if years:
        column = claims.look("service_date") or claims.look("year")
        share = sum(column.years.get(year, 0) for year in years) if column else 0
        text.check(f"{share:.0%} of the claims are of these years, by {column.name if column else ''}; others are left out", 2)
        text.add("years", {"first": years[0], "last": years[-1], "outside": "leave_out"}, 2)
    elif "age" not in members.columns or "year" not in claims.columns:
        text.check("no year of the claims is known: say which calendar year is year 1", 2)
        text.add("years", {"first": 2000}, 2)
    sex = members.look("sex")
    if members.sex_values:
        text.add("sex_values", members.sex_values, 2)
    elif sex is not None and sex.share(looking.SEX_DIGITS) >= _SURE:
        text.check(f"{sex.name} is coded as 1 and 2; with CMS, 1 is male", 2)
        text.add("sex_values", {"1": "M", "2": "F"}, 2)
    _table(text, "members", members, look, "span" if _repeats(members, "member_id") else None)
    _table(text, "claims", claims, look, "line" if _repeats(claims, "claim_id") else None)


def _events(
    text: Text,
    look: looking.Look,
    tables: Mapping[str, Mapped],
    declared: Mapping[str, Mapping[str, Made]],
    vocabulary: Mapping[str, looking.DeliveredTable],
) -> None:
    """Other tables of events, and the vocabulary that says what their codes mean."""
    others = {name: mapped for name, mapped in tables.items() if name not in ("members", "claims")}
    if others:
        text.comment("An unknown code is counted, whoever has one is not released, and too many refuse the delivery.", 2)
        text.add("unknown_codes", "blank", 2)
        text.lines.append("  events:")
    for name, mapped in others.items():
        _table(text, name, mapped, look, None, 4)
        for made in declared[name].values():
            check_codes(text, mapped.table, made, vocabulary)
    if others and vocabulary:
        named = {name: {"file": one.file} | ({"table": one.table} if one.table else {}) for name, one in vocabulary.items()}
        delimiters = {one.delimiter for one in vocabulary.values()} - {","}
        text.add("vocabulary", named | ({"delimiter": sorted(delimiters)[-1]} if delimiters else {}), 2)


def _further(text: Text, further: Sequence[Further]) -> None:
    """Tables that are no events, each with the reason why the release goes without it."""
    if not further:
        return
    if any(one.left_out is None for one in further):
        text.comment(
            "Describe tables of events in `events` and `columns`, or say why the release goes without them (left_out): a run "
            "refuses while a table is listed here without a reason.",
            2,
        )
    if left_out := [one.holds for one in further if one.left_out is not None]:
        text.check(f"left out: {names(left_out)}. No list searches them: check that they have neither codes nor free text", 2)
    text.lines.append("  further_tables:")
    for one in further:
        listed = {"file": one.table.file} | ({"table": one.table.table} if one.table.table else {}) | {"holds": one.holds}
        listed |= {"left_out": one.left_out} if one.left_out is not None else {}
        text.lines.append(f"    - {scalar(listed)}  # {how_many(one.table.rows, 'row')}")


def _repeats(mapped: Mapped, key: str) -> bool:
    column = mapped.look(key)
    return column is not None and column.distinct < column.filled


def _table(text: Text, name: str, mapped: Mapped, look: looking.Look, unit: str | None, indent: int = 2) -> None:
    table, inside = mapped.table, indent + 2
    text.lines.append(f"{' ' * indent}{name}:")
    if look.is_folder:
        text.add("file", table.file, inside)
    if table.file.endswith(".zip"):
        text.check("a run reads no zip files of tables: unpack it, or pack it with gzip", inside)
    if table.table:
        text.add("table", table.table, inside)
    if unit:
        key = mapped.look("member_id" if unit == "span" else "claim_id")
        told = "spans, several rows per person" if unit == "span" else "claim lines, several rows per claim"
        count = f"{how_many(table.rows, 'row')}, {how_many(key.distinct if key else 0, 'value')} of {key.name if key else ''}"
        text.check(f"rows are {told} ({count}), which are joined", inside)
        text.add("unit", unit, inside)


def _columns(
    text: Text,
    tables: Mapping[str, Mapped],
    declared: Mapping[str, Mapping[str, Mapping[str, str]]],
    sections: Mapping[str, Any],
) -> None:
    """Add what each column is read from, its role, and how it is released; `declared` are those of each table."""
    described = {
        role: {"columns": mapped.columns, "date_formats": _date_formats(mapped)}
        | ({"same_as_claims": mapped.same_as_claims} if mapped.same_as_claims else {})
        for role, mapped in tables.items()
    }
    source = {role: described.pop(role) for role in ("members", "claims")} | {"events": described}
    values = {"source": source, "columns": declared, "quasi_identifiers": sections["quasi_identifiers"]}
    text.comment("What each column of the delivery is to its release. Columns that are not listed are not read.")
    if own := [name for columns in declared.values() for name in columns]:
        text.check(f"others may know {names(own)} of a member, beyond what every policy has; remove what may stay out")
    text.lines.append("columns:")
    begun = None
    for column in columns_of(values):
        if column.table != begun:
            begun = column.table
            text.lines.append(f"  {begun}:")
        mapped = tables[column.table]
        look = mapped.look(column.name)
        doubts = list(_doubts(column.name, look, mapped.others.get(column.name, ()))) if look else []
        text.lines += commented(field_lines(column.name, column.entry, 4), [f"CHECK: {'; '.join(doubts)}"] if doubts else [])
        text.doubts += [f"{mapped.columns[column.name]} as {column.name}: {doubt}" for doubt in doubts]


def _date_formats(mapped: Mapped) -> dict[str, str]:
    """The formats of the mapped dates that are not written as in 2012-12-31."""
    looked = {name: mapped.look(name) for name in mapped.columns if name in DATE_COLUMNS}
    return {
        name: one.date_formats[0] for name, one in looked.items() if one and one.date_formats and one.date_formats[0] != _ISO
    }


def _doubts(ours: str, column: looking.DeliveredColumn, others: Sequence[str]) -> Iterator[str]:
    if others:
        yield f"or {names(others, 3)}"
    if len(column.date_formats) > 1:
        yield f"its dates fit {' and '.join(column.date_formats)}"
    system = signatures()["names"]["claims"].get(ours, {}).get("system")
    if system is not None and column.share(system) < _SURE:
        yield f"{column.share(system):.0%} are {system}"


def _names_system(column: looking.DeliveredColumn) -> bool:
    return re.search(signatures()["system"], plain_name(column.name)) is not None


def _diagnosis_codes(text: Text, claims: Mapped, of_events: Sequence[str]) -> str | dict[str, str]:
    """The system of the diagnoses, after a comment with the share of each column."""
    columns = [column for name in claims.columns if name in DIAGNOSIS_COLUMNS and (column := claims.look(name))]
    if not columns and of_events:
        text.check(f"the claims have no column of diagnoses, which are searched in {names(of_events)} alone")
        return DIAGNOSIS_CODES[looking.ICD10]
    if not columns:
        text.check("no column of ICD-9-CM or ICD-10-CM diagnoses was found: without one, no sensitive code is searched")
        return DIAGNOSIS_CODES[looking.ICD10]
    left = [
        column.name
        for column in claims.table.columns
        if column not in columns and _is_named(column) and column.share(looking.DIAGNOSES) >= _SOME
    ]
    if left:
        text.check(f"not mapped: {names(left)}. If they contain diagnoses, sensitive codes in them are not searched")
    filled = sum(column.filled for column in columns)
    shares = {one: sum(column.share(one) * column.filled for column in columns) / filled for one in DIAGNOSIS_CODES}
    system, other = sorted(shares, key=lambda one: -shares[one])
    text.check(f"{columns[0].share(system):.0%} of {columns[0].name} have the form of {system} codes, and of no other system's")
    if shares[other] > _MIXED:
        stating = [
            one.name for one in claims.table.columns if one.share(looking.CODING_SYSTEMS) >= _SURE and _names_system(one)
        ]
        how = f"{stating[0]} tells the systems apart" if stating else "the systems are told apart by date"
        text.check(f"{shares[other]:.1%} of all diagnoses have the form of {other} codes: {how}")
        return {"from": stating[0]} if stating else BY_DATE
    return DIAGNOSIS_CODES[system]


def _declared(members: Mapped) -> Iterator[tuple[str, Made]]:
    """Columns of members that others may know: how each is made, and its hierarchy."""
    used = {theirs.lower() for theirs in members.columns.values()}
    for name, pattern in signatures()["known"].items():
        for column in members.table.columns:
            if column.name.lower() in used or column.distinct < 2 or not re.search(pattern, plain_name(column.name)):
                continue
            if column.kind == "date" or (name == "zip" and column.share(looking.ZIP) < _SURE):
                continue
            used.add(column.name.lower())
            made = {"kind": "zip3" if name == "zip" else "text", "from": column.name, "meaning": f"{column.name} of the member"}
            levels = {"kind": "prefixes", "lengths": [None, 0], "missing_joins": ANY}
            yield ("zip3" if name == "zip" else name), Made(made, levels)
            break


def _of_kind(claims: Mapped, kind: str) -> Iterator[looking.DeliveredColumn]:
    """Columns of claims that are not mapped, and contain codes by their name and nearly all of their values."""
    wanted, used = signatures()["codes"][kind], {theirs.lower() for theirs in claims.columns.values()}
    for column in claims.table.columns:
        is_named = re.search(wanted["name"], plain_name(column.name)) is not None
        if column.name.lower() not in used and is_named and column.share(wanted["system"]) >= _SURE and column.kind != "date":
            yield column


def _columns_of_codes(claims: Mapped) -> Iterator[tuple[str, Made]]:
    """The first column of codes of each kind whose groups ship: how it is made, and its hierarchy."""
    for kind in CODE_GROUPINGS:
        for column in _of_kind(claims, kind) if kind in signatures()["codes"] else ():
            made = {"kind": kind, "from": column.name, "meaning": f"group of {column.name}"}
            yield kind, Made(made, {"kind": "prefixes", "lengths": [None, 0]})
            break


def _declared_by_layout(text: Text, name: str, claims: Mapped, known: KnownTable) -> Iterator[tuple[str, Made]]:
    """The columns of claims that the layout declares, and a table beside the policy for the groups of one."""
    for own, stated in known.declared.items():
        columns = [claims.table.column(stated[key]) for key in ("from", "until") if key in stated]
        if any(column is None or column.kind == "blank" for column in columns):
            continue
        entry = {key: value for key, value in stated.items() if key not in ("groups", "hierarchy")}
        if "groups" in stated:
            entry["file"] = f"{name}_{own}.csv"
            text.files[entry["file"]] = "".join(f"{code};{group}\n" for code, group in stated["groups"].items())
        yield own, Made(entry, stated["hierarchy"])


def _not_read(text: Text, mapped: Mapped, declared: set[str]) -> None:
    """Name the columns that are neither mapped nor declared."""
    used = {*mapped.columns.values(), *declared}
    left = [column.name for column in mapped.table.columns if column.name not in used and column.kind != "blank"]
    blank = sum(column.kind == "blank" for column in mapped.table.columns)
    more = f" {how_many(blank, 'column is', 'columns are')} blank." if blank else ""
    if left:
        text.comment(f"{mapped.table.shown}, not read: {names(left)}. Declare what recipients need (columns).{more}")


def _sections(
    members: Mapped, claims: Mapped, declared: Mapping[str, Mapping[str, Made]], dates: Mapping[str, Any]
) -> dict[str, Any]:
    """What does not depend on the files: the thresholds of the base, for the columns that the delivery has."""
    base = policy_by_name(BASE)
    values: dict[str, Any] = copy.deepcopy(dict(shipped_values(BASE)))
    has = {*members.columns, *claims.columns}
    listed = {
        table: [qi for qi in values["quasi_identifiers"][table] if _is_made(qi["column"], has)]
        for table in ("members", "claims")
    }
    if dates:
        _release_dates(values, listed)
    own: dict[str, Made] = {}
    for table, made_of in declared.items():
        own |= made_of
        listed["members" if table == "members" else "claims"] += [
            {"column": name, "release_as": name.title().replace("_", ""), "hierarchy": _hierarchy_name(name, made)}
            for name, made in made_of.items()
        ]
    if len(declared) > 2:
        _search_in_events(values["removal"], claims, {one.of for one in own.values() if one.of is not None})
    columns = {qi["column"] for qi in (*listed["members"], *listed["claims"])}
    dimensions = [{**one, "columns": [name for name in one["columns"] if name in columns]} for one in values["dimensions"]]
    dimensions = [one for one in dimensions if one["columns"]] + [{"name": name, "columns": [name]} for name in own]
    used = {qi["hierarchy"] for qi in (*listed["members"], *listed["claims"])}
    hierarchies = {name: _plain(one) for name, one in values["hierarchies"].items() if name in used}
    hierarchies |= {name: dict(one.hierarchy) for name, one in own.items() if not isinstance(one.hierarchy, str)}
    kept = {
        **values,
        "quasi_identifiers": listed,
        "dimensions": dimensions,
        "sample": {"fraction": 0.1},
        "hierarchies": hierarchies,
    }
    moved = {name for one in dimensions for name in one["columns"]}
    released = {qi["release_as"] for qi in (*listed["members"], *listed["claims"])}
    kept["number_of_claims"]["reference"] = {
        name: level
        for name, level in values["number_of_claims"]["reference"].items()
        if name in {one["name"] for one in dimensions}
    } | dict.fromkeys(declared["members"], ANY)
    kept["detail_at_least"] = {name: least for name, least in values["detail_at_least"].items() if name in released}
    of_diagnoses = [name for name, one in own.items() if one.of == "diagnosis"]
    coded = not has.isdisjoint(DIAGNOSIS_COLUMNS)
    kept["inference"]["columns"] = [
        name
        for name in values["inference"]["columns"]
        if (name not in KNOWN or name in {*columns, *moved}) and (coded or not of_diagnoses or name != "diagnosis")
    ] + of_diagnoses
    more: dict[str, Any] = {"dates": dict(dates)} if dates else {}
    if of_diagnoses:
        usual = {*columns, "charlson"} if coded else columns
        more["attribute_disclosure"] = {"sensitive": [*(name for name in SENSITIVE_BY_DEFAULT if name in usual), *of_diagnoses]}
    return {
        name: kept[name]
        for name in values
        if name not in _NOT_COPIED
        and (
            (field := Policy.model_fields[name]).is_required()
            or getattr(base, name) != field.get_default(call_default_factory=True)
        )
    } | more


def _release_dates(values: dict[str, Any], listed: dict[str, list[dict[str, Any]]]) -> None:
    """Dates drawn anew in place of what follows from true ones, and by which columns they are judged."""
    judged = {"service_interval": "DaysSinceLastService", "service_period": "ServicePeriod"}
    listed["claims"] = [
        *({"column": name, "release_as": released, "hierarchy": _OF_DATES} for name, released in judged.items()),
        *(qi for qi in listed["claims"] if qi["column"] not in DAYS_OF_SERVICE),
    ]
    values["hierarchies"][_OF_DATES] = {"kind": "fixed", "level_name": "as dates are drawn"}
    values["long_tail"]["unit"] = "member"  # the year of a claim is that of its drawn date


def _hierarchy_name(name: str, made: Made) -> str:
    return made.hierarchy if isinstance(made.hierarchy, str) else name


def _search_in_events(removal: dict[str, Any], claims: Mapped, declared: Set[str]) -> None:
    """Where claims have no codes of a kind, and another table of events has, which must be readable, claims need none.

    Only claims have places. They need none where there are diagnoses: what a place tells of its visitors, these tell, too.
    """
    delivered = {"diagnosis": "diagnosis_1", "procedure": "cpt", "place": "place"}
    absent = [kind for kind, column in delivered.items() if column not in claims.columns]
    has_diagnoses = "diagnosis" not in absent or "diagnosis" in declared
    searched = [kind for kind in absent if kind in declared or (kind == "place" and has_diagnoses)]
    if searched:
        removal["coded_claims_at_least"] = dict.fromkeys(searched)
    if "procedure" in absent:
        removal["non_procedure_claims"] = False


def _plain(hierarchy: Mapping[str, Any]) -> dict[str, Any]:
    """A hierarchy without levels of values that were pooled by the numbers of another delivery."""
    if hierarchy["kind"] != "codes":
        return dict(hierarchy)
    kept = [place for place, name in enumerate(hierarchy["level_names"]) if not name.startswith("pooled")]
    values = {value: [labels[place - 1] for place in kept[1:]] for value, labels in hierarchy["values"].items()}
    return {**hierarchy, "level_names": [hierarchy["level_names"][place] for place in kept], "values": values}


def _is_made(column: str, has: set[str]) -> bool:
    """Whether a known column is delivered, or can be made of what is."""
    known = KNOWN.get(column)
    return known is not None and (known.delivered_as in has or bool(known.ingredients and set(known.ingredients) <= has))
