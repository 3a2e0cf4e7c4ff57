"""Find each cell of a release again in the tables of a CDM that were made of it.

What a table should say is read of the files, and not of the views that the tables are made of; only the new numbers of persons
and providers are taken from there. Both are compared as a whole: nothing may be lost, added or moved.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import duckdb

from deid_assets.errors import ReleaseError
from deid_assets.release.omop.columns import VISITS, Cell, Layout, Target
from deid_assets.release.omop.tables import BIRTH, SEXES, case_of, is_row, years_of_birth
from deid_assets.store.tables import literal, quoted

_READ_BACK: Mapping[Target, tuple[str, str, str]] = {
    "condition_occurrence": ("condition_start_date", "condition_source_value", "''"),
    "procedure_occurrence": ("procedure_date", "procedure_source_value", "''"),
    "drug_exposure": ("drug_exposure_start_date", "drug_source_value", "''"),
    "measurement": ("measurement_date", "measurement_source_value", "''"),
    "observation": ("observation_date", "value_as_string", "w.observation_source_value"),
}
"""Columns of each table of the CDM: the day, the label, and the name of the released column, which only observations have."""
_MEMBERS = "FROM file_Members AS f JOIN persons AS p ON p.cdm_member = f.MemberID"


@dataclass(frozen=True)
class Released:
    """What the files are.

    Attributes
    ----------
    layout
        What their columns are.
    first_year
        The calendar year of year 1; None: it is not known.
    births
        Label of an age -> the smallest and the largest age of its class; None: there is no largest.
    providers, sites
        The files with pseudonyms of providers, and of sites.
    """

    layout: Layout
    first_year: int | None
    births: Mapping[str, tuple[int, int | None]]
    providers: frozenset[str]
    sites: frozenset[str]


def require_read_back(connection: duckdb.DuckDBPyConnection, released: Released) -> None:
    """Compare the views `written_<table>` with the files.

    Raises
    ------
    ReleaseError
        If any table does not say what the files say.
    """
    compared = (("person", *_persons(released)), ("visit_occurrence", *_visits(released)))
    for table, given, found in (*compared, *((target, *_labels(released, target)) for target in _READ_BACK)):
        if given is None or found is None:
            continue
        different = f"SELECT count(*) FROM (({given}) EXCEPT ALL ({found}) UNION ALL (({found}) EXCEPT ALL ({given})))"
        if connection.execute(different).fetchall() != [(0,)]:
            columns = ", ".join(_columns_of(released.layout, table))
            raise ReleaseError(f"{table} does not read back as {columns} of the release")


def members_without_events(layout: Layout) -> str:
    """SQL of the members who have no event with a date: only a row of `person` is of them."""
    return f"file_Members AS f WHERE f.MemberID NOT IN (SELECT MemberID FROM ({_days(layout)}))"


def _columns_of(layout: Layout, table: str) -> list[str]:
    """The released columns that a table is of, for a message."""
    members = [f"Members.{column}" for column in layout.members]
    if table == "person":
        return [name for name in members if name in (f"Members.{layout.sex_label}", f"Members.{layout.age_label}")] or [
            "Members"
        ]
    if table == "visit_occurrence":
        return [VISITS]
    return [f"{one.table}.{one.column}" for one in _cells(layout, table)] + (members if table == "observation" else [])


def _cells(layout: Layout, target: str) -> list[Cell]:
    return [cell for own in layout.events.values() for cell in own if cell.target == target]


def _days(layout: Layout) -> str:
    """SQL of every member with an event on a day."""
    day = quoted(layout.date)
    return " UNION ALL ".join(
        f"SELECT f.MemberID, f.{day}::DATE AS first FROM file_{file} AS f WHERE f.{day} IS NOT NULL" for file in layout.events
    )


def _persons(released: Released) -> tuple[str, str]:
    """Each member has a row, with the sex that was released, and a year in which who has the age may be born."""
    layout, years = released.layout, _years(released)
    sex = f"f.{quoted(layout.sex_label)}" if layout.sex_label else "NULL::VARCHAR"
    age = f"f.{quoted(layout.age_label)}" if layout.age_label and years else "NULL::VARCHAR"
    cases = " ".join(f"WHEN {age} = {literal(label)} THEN {literal(text)}" for label, text in years.items())
    own = f"CASE {cases} ELSE '0' END" if cases else "'0'"
    given = f"SELECT p.cdm_person, {sex}, {case_of(sex, SEXES)}, true {_MEMBERS}"
    first, last = f"nullif(split_part({own}, '-', 1), '')::INTEGER", f"split_part({own}, '-', -1)::INTEGER"
    fits = f"w.year_of_birth BETWEEN coalesce({first}, {last}) AND {last}"
    found = (
        f"SELECT w.person_id, w.gender_source_value, w.gender_concept_id, {fits} FROM written_person AS w"
        " LEFT JOIN persons AS p ON p.cdm_person = w.person_id LEFT JOIN file_Members AS f ON f.MemberID = p.cdm_member"
    )
    return given, found


def _years(released: Released) -> Mapping[str, str]:
    known = released.first_year is not None and released.layout.age_label is not None
    return years_of_birth(released.first_year, released.births) if known and released.first_year is not None else {}


def _visits(released: Released) -> tuple[str, str]:
    """Each row of claims with a date is a visit on its day, of its provider and its site."""
    day = quoted(released.layout.date)
    provider = "f.ProviderID" if VISITS in released.providers else "NULL::VARCHAR"
    site = "f.Vendor" if VISITS in released.sites else "NULL::VARCHAR"
    given = (
        f"SELECT p.cdm_person, f.{day}::DATE, f.{day}::DATE, {provider}, {site} FROM file_{VISITS} AS f"
        f" LEFT JOIN persons AS p ON p.cdm_member = f.MemberID WHERE f.{day} IS NOT NULL"
    )
    found = (
        "SELECT w.person_id, w.visit_start_date, w.visit_end_date, providers.pseudonym, sites.pseudonym"
        " FROM written_visit_occurrence AS w LEFT JOIN providers ON providers.number = w.provider_id"
        " LEFT JOIN sites ON sites.number = w.care_site_id"
    )
    return given, found


def _labels(released: Released, target: Target) -> tuple[str | None, str | None]:
    """The labels of events with person, day, provider and the visit's person and day; of observations also those of members."""
    layout = released.layout
    given = [_of_events(released, one) for one in _cells(layout, target)]
    if target == "observation":
        given += _of_members(released)
    if not given:
        return None, None
    day, label, name = _READ_BACK[target]
    found = (
        f"SELECT w.person_id, w.{day}, {name}, w.{label}, providers.pseudonym, v.person_id,"
        f" v.visit_start_date FROM written_{target} AS w LEFT JOIN providers ON providers.number = w.provider_id"
        " LEFT JOIN written_visit_occurrence AS v ON v.visit_occurrence_id = w.visit_occurrence_id"
    )
    return " UNION ALL ".join(given), found


def _of_events(released: Released, one: Cell) -> str:
    layout = released.layout
    day, label = f"f.{quoted(layout.date)}::DATE", f"f.{quoted(one.column)}"
    provider = "f.ProviderID" if one.table in released.providers else "NULL::VARCHAR"
    visit = f"p.cdm_person, {day}" if one.table == VISITS else "NULL::BIGINT, NULL::DATE"
    name = f"{one.table}.{one.column}" if one.target == "observation" else ""
    return (
        f"SELECT p.cdm_person, {day}, {literal(name)}, {label}, {provider}, {visit} FROM file_{one.table} AS f"
        f" LEFT JOIN persons AS p ON p.cdm_member = f.MemberID WHERE f.{quoted(layout.date)} IS NOT NULL"
        + ("" if is_row(one, layout) else f" AND {label} IS NOT NULL")
    )


def _of_members(released: Released) -> Iterator[str]:
    """Yield the labels of members who have an event, on the day of the first, and the years in which they may be born."""
    layout = released.layout
    cells = [(f"Members.{column}", f"f.{quoted(column)}") for column in layout.members]
    if years := _years(released):
        age = f"f.{quoted(layout.age_label or '')}"
        cases = " ".join(f"WHEN {literal(label)} THEN {literal(text)}" for label, text in years.items())
        cells.append((BIRTH, f"CASE {age} {cases} END"))
    for name, label in cells:
        yield (
            f"SELECT p.cdm_person, d.first, {literal(name)}, {label}, NULL::VARCHAR, NULL::BIGINT, NULL::DATE {_MEMBERS}"
            f" JOIN (SELECT MemberID, min(first) AS first FROM ({_days(layout)}) GROUP BY MemberID) AS d"
            f" ON d.MemberID = f.MemberID WHERE {label} IS NOT NULL"
        )
