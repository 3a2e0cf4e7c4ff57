"""The tables of an OMOP CDM as queries over views of a release's files.

Every row has a new number, by the order of the release's rows. A concept is 0, and the released label stands in the column of
the source value: it is what the release says, and nothing of the delivery. Only sex, kinds of visits and the kind of the record
have concepts of their own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from deid_assets.release.omop.columns import VISITS, Cell, Layout, Target
from deid_assets.store.tables import literal, quoted

CLAIM = 32810
"""Concept of the kind of the record: a claim."""
CDM_VERSION = 756265
CONCEPTS: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        0: ("No matching concept", "Metadata"),
        8507: ("MALE", "Gender"),
        8532: ("FEMALE", "Gender"),
        9201: ("Inpatient Visit", "Visit"),
        9202: ("Outpatient Visit", "Visit"),
        9203: ("Emergency Room Visit", "Visit"),
        42898160: ("Non-hospital institution Visit", "Visit"),
        CLAIM: ("Claim", "Type Concept"),
        CDM_VERSION: ("OMOP CDM Version 5.4.0", "Metadata"),
    }
)
"""Every concept that is written: its name and domain."""
_NUMBERED = {"providers": "ProviderID", "sites": "Vendor"}
"""Pseudonyms that get numbers: the view, and the released column."""
_VISIT_LABELS = {"inpatient": 9201, "outpatient": 9202, "emergency room": 9203, "long-term care": 42898160}
SEXES = {"M": 8507, "F": 8532}
BIRTH = "year of birth"
"""How observations call the years in which a member may be born."""


@dataclass(frozen=True)
class _Shape:
    """How a table of events of the CDM calls its columns."""

    prefix: str
    day: str
    own: Mapping[str, str]

    @property
    def key(self) -> str:
        return f"{self.prefix}_id"


_SHAPES: Mapping[Target, _Shape] = {
    "condition_occurrence": _Shape("condition_occurrence", "condition_start_date", {"condition_end_date": "cdm_day"}),
    "procedure_occurrence": _Shape("procedure_occurrence", "procedure_date", {"procedure_end_date": "cdm_day"}),
    "drug_exposure": _Shape("drug_exposure", "drug_exposure_start_date", {"drug_exposure_end_date": "cdm_day"}),
    "measurement": _Shape("measurement", "measurement_date", {}),
}


def named(column: str) -> str:
    """How the views call a released column: none of their own columns begins so, whatever a policy releases it as."""
    return quoted(f"of_{column}")


def numbered_views(layout: Layout, columns: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield statements: persons, providers and sites with their numbers, and the dated rows of each file with theirs.

    `file_<name>` are views of the files, with text in every column.
    """
    yield (
        "CREATE TEMP TABLE persons AS SELECT row_number() OVER (ORDER BY f.MemberID) AS cdm_person, f.MemberID AS cdm_member,"
        f" {_renamed(columns['Members'])} FROM file_Members AS f"
    )
    for name, column in _NUMBERED.items():
        parts = [f"SELECT DISTINCT {column} AS pseudonym FROM file_{file}" for file in layout.events if column in columns[file]]
        every = " UNION ".join(parts) or "SELECT NULL::VARCHAR AS pseudonym"
        yield (
            f"CREATE TEMP TABLE {name} AS SELECT row_number() OVER (ORDER BY pseudonym) AS number, pseudonym FROM ({every})"
            " WHERE pseudonym IS NOT NULL"
        )
    for file in layout.events:
        order = ", ".join(f"f.{quoted(column)}" for column in columns[file])
        has = {name: column for name, column in _NUMBERED.items() if column in columns[file]}
        ids = [f"{f'{name}.number' if name in has else 'NULL::BIGINT'} AS cdm_{name}" for name in _NUMBERED]
        joins = [f" LEFT JOIN {name} ON {name}.pseudonym = f.{column}" for name, column in has.items()]
        yield (
            f"CREATE TEMP TABLE dated_{file} AS SELECT row_number() OVER (ORDER BY {order}) AS cdm_number, p.cdm_person,"
            f" {', '.join(ids)}, f.{quoted(layout.date)}::DATE AS cdm_day, {_renamed(columns[file])} FROM file_{file} AS f"
            f" JOIN persons AS p ON p.cdm_member = f.MemberID{''.join(joins)}"
            f" WHERE f.{quoted(layout.date)} IS NOT NULL"
        )


def _renamed(columns: Sequence[str]) -> str:
    return ", ".join(f"f.{quoted(column)} AS {named(column)}" for column in columns)


def queries(layout: Layout, first_year: int | None, births: Mapping[str, tuple[int, int | None]]) -> Mapping[str, str]:
    """Name of each table -> its query, over the views of `numbered_views`.

    Parameters
    ----------
    first_year
        The calendar year of year 1, in which the ages are; None: it is not known.
    births
        Label of an age -> the smallest and the largest age of its class; None: there is no largest.
    """
    days = " UNION ALL ".join(f"SELECT cdm_person, cdm_day FROM dated_{file}" for file in layout.events)
    cells = [cell for own in layout.events.values() for cell in own]
    made = {target: [cell for cell in cells if cell.target == target] for target in _SHAPES}
    found: dict[str, str] = {
        "person": _person(layout, first_year, births),
        "observation_period": f"""SELECT cdm_person AS observation_period_id, cdm_person AS person_id,
            min(cdm_day) AS observation_period_start_date, max(cdm_day) AS observation_period_end_date,
            {CLAIM} AS period_type_concept_id FROM ({days}) GROUP BY cdm_person""",
        "provider": "SELECT number AS provider_id FROM providers",
        "care_site": "SELECT number AS care_site_id FROM sites",
        "visit_occurrence": f"""SELECT cdm_number AS visit_occurrence_id, cdm_person AS person_id,
            {_visit_concept(layout)} AS visit_concept_id,
            cdm_day AS visit_start_date, cdm_day AS visit_end_date, {CLAIM} AS visit_type_concept_id,
            cdm_providers AS provider_id, cdm_sites AS care_site_id FROM dated_{VISITS} AS f""",
        **{target: _events(target, own, layout) for target, own in made.items() if own},
        "observation": _observations(layout, cells, first_year, births),
    }
    return {name: f"SELECT * FROM ({query}) ORDER BY 1" for name, query in found.items()}


def vocabulary() -> Mapping[str, str]:
    """The few concepts that the tables name, so that keys refer to something; a recipient's own vocabulary replaces them."""
    rows = ", ".join(f"({number}, {literal(name)}, {literal(domain)})" for number, (name, domain) in CONCEPTS.items())
    domains = ", ".join(f"({literal(name)})" for name in sorted({domain for _, domain in CONCEPTS.values()}))
    return {
        "concept": f"""SELECT number AS concept_id, name AS concept_name, domain AS domain_id, 'None' AS vocabulary_id,
            'Undefined' AS concept_class_id, number::VARCHAR AS concept_code, DATE '1970-01-01' AS valid_start_date,
            DATE '2099-12-31' AS valid_end_date FROM (VALUES {rows}) AS v(number, name, domain) ORDER BY 1""",
        "domain": f"""SELECT name AS domain_id, name AS domain_name, 0 AS domain_concept_id
            FROM (VALUES {domains}) AS v(name) ORDER BY 1""",
        "vocabulary": "SELECT 'None' AS vocabulary_id, 'None' AS vocabulary_name, 0 AS vocabulary_concept_id",
        "concept_class": """SELECT 'Undefined' AS concept_class_id, 'Undefined' AS concept_class_name,
            0 AS concept_class_concept_id""",
    }


def case_of(column: str, concepts: Mapping[str, int]) -> str:
    """SQL of the concept of a label; 0 if it has none."""
    cases = " ".join(f"WHEN {literal(label)} THEN {number}" for label, number in concepts.items())
    return f"CASE {column} {cases} ELSE 0 END"


def _person(layout: Layout, first_year: int | None, births: Mapping[str, tuple[int, int | None]]) -> str:
    sex = f"f.{named(layout.sex_label)}" if layout.sex_label else "NULL::VARCHAR"
    year = "0"
    if first_year is not None and layout.age_label is not None and births:
        middles = {
            label: first_year - (low if high is None else (low + high + 1) // 2) for label, (low, high) in births.items()
        }
        year = case_of(f"f.{named(layout.age_label)}", middles)
    return f"""SELECT cdm_person AS person_id, {case_of(sex, SEXES)} AS gender_concept_id, {year} AS year_of_birth,
        0 AS race_concept_id, 0 AS ethnicity_concept_id, {sex} AS gender_source_value FROM persons AS f"""


def years_of_birth(first_year: int, births: Mapping[str, tuple[int, int | None]]) -> Mapping[str, str]:
    """Label of an age -> the years in which a member may be born, as an observation tells them."""
    return {
        label: f"{'' if high is None else first_year - high - 1}-{first_year - low}" for label, (low, high) in births.items()
    }


def _visit_concept(layout: Layout) -> str:
    """The concept of a visit by the label of any of its columns that is one of a visit."""
    labels = [
        case_of(f"f.{named(cell.column)}", _VISIT_LABELS) for cell in layout.events[VISITS] if cell.target == "observation"
    ]
    return f"greatest({', '.join(['0', *labels])})"


def is_row(cell: Cell, layout: Layout) -> bool:
    """Whether a blank is a row, too: in the first column of codes of another table than that of the visits."""
    return cell.table != VISITS and cell == next(
        (one for one in layout.events[cell.table] if one.target != "observation"), None
    )


def _events(target: Target, cells: Sequence[Cell], layout: Layout) -> str:
    """A row for each label; of another table than that of visits also for a blank, if the column is its first of this kind."""
    shape, what = _SHAPES[target], target.split("_")[0]
    parts = []
    for place, cell in enumerate(cells):
        visit = "cdm_number" if cell.table == VISITS else "NULL::BIGINT"
        parts.append(
            f"SELECT {place} AS place, cdm_number, cdm_person, cdm_day, cdm_providers, {visit} AS visit,"
            f" f.{named(cell.column)} AS label FROM dated_{cell.table} AS f"
            + ("" if is_row(cell, layout) else f" WHERE f.{named(cell.column)} IS NOT NULL")
        )
    own = "".join(f", {value} AS {name}" for name, value in shape.own.items())
    return f"""SELECT row_number() OVER (ORDER BY place, cdm_number) AS {shape.key}, cdm_person AS person_id,
        0 AS {what}_concept_id, cdm_day AS {shape.day}{own}, {CLAIM} AS {what}_type_concept_id,
        cdm_providers AS provider_id, visit AS visit_occurrence_id,
        label AS {what}_source_value FROM ({" UNION ALL ".join(parts)})"""


def _observations(
    layout: Layout, cells: Sequence[Cell], first_year: int | None, births: Mapping[str, tuple[int, int | None]]
) -> str:
    """What no other table is for: every other column of members, on the first day of their period, and of events."""
    parts = [
        f"SELECT {place} AS place, cdm_person AS cdm_number, cdm_person, NULL::BIGINT AS cdm_providers, NULL::BIGINT AS visit,"
        f" {literal(f'Members.{column}')} AS named, f.{named(column)} AS label FROM persons AS f"
        f" WHERE f.{named(column)} IS NOT NULL"
        for place, column in enumerate(layout.members)
    ] or [
        "SELECT 0 AS place, cdm_person AS cdm_number, cdm_person, NULL::BIGINT AS cdm_providers, NULL::BIGINT AS visit,"
        " NULL::VARCHAR AS named, NULL::VARCHAR AS label FROM persons WHERE false"
    ]
    if first_year is not None and layout.age_label is not None and births:
        born = years_of_birth(first_year, births)
        cases = " ".join(f"WHEN {literal(label)} THEN {literal(text)}" for label, text in born.items())
        parts.append(
            f"SELECT {len(parts)}, cdm_person, cdm_person, NULL, NULL, {literal(BIRTH)},"
            f" CASE f.{named(layout.age_label)} {cases} END FROM persons AS f"
            f" WHERE f.{named(layout.age_label)} IN ({', '.join(map(literal, born))})"
        )
    days = " UNION ALL ".join(f"SELECT cdm_person, cdm_day FROM dated_{file}" for file in layout.events)
    of_members = f"""SELECT p.*, cdm_day FROM ({" UNION ALL ".join(parts)}) AS p
        JOIN (SELECT cdm_person, min(cdm_day) AS cdm_day FROM ({days}) GROUP BY cdm_person) USING (cdm_person)"""
    of_events = [
        f"SELECT cdm_person, {len(parts) + place} AS place, cdm_number, cdm_providers,"
        f" {'cdm_number' if cell.table == VISITS else 'NULL'} AS visit,"
        f" {literal(f'{cell.table}.{cell.column}')} AS named, f.{named(cell.column)} AS label, cdm_day"
        f" FROM dated_{cell.table} AS f WHERE f.{named(cell.column)} IS NOT NULL"
        for place, cell in enumerate(cell for cell in cells if cell.target == "observation")
    ]
    every = " UNION ALL BY NAME ".join((of_members, *of_events))
    return f"""SELECT row_number() OVER (ORDER BY place, cdm_number) AS observation_id, cdm_person AS person_id,
        0 AS observation_concept_id, cdm_day AS observation_date, {CLAIM} AS observation_type_concept_id,
        label AS value_as_string, cdm_providers AS provider_id,
        visit AS visit_occurrence_id, named AS observation_source_value FROM ({every})"""
