"""Rules on what claims tell: released dates, the coding system of diagnoses, and declared columns of drugs."""

import re
from collections.abc import Iterator

from deid_assets.policy.hierarchies.specs import FixedSpec
from deid_assets.policy.models import Policy
from deid_assets.policy.problems import Path, Problem
from deid_assets.policy.sections.columns import Concept, Drugs
from deid_assets.policy.sections.longitudinal import DATE_COLUMNS, OTHER_RELEASE_COLUMNS
from deid_assets.reference.codes import is_ambiguous, ndc11
from deid_assets.reference.known_columns import NUMBERS_OF_CLAIMS, STAYS
from deid_assets.sources.delivery import CLAIM_INGREDIENTS, DesynpufSource, FromColumn, TablesSource
from deid_assets.sources.derivations import Derivation

NARROWEST_IN_ORDER = 7
"""Days in the narrowest bins whose pairs are fewer than the 32,767 values that a column of the kernel can have."""


def date_problems(policy: Policy) -> Iterator[Problem]:
    """Dates must be judged at the precision at which they are released, and must not appear beside true derived values."""
    listed = {qi.column: number for number, qi in enumerate(policy.quasi_identifiers.claims)}
    claims = ("quasi_identifiers", "claims")
    dates = policy.dates
    wanted = () if dates is None else dates.columns
    for column in wanted:
        if column not in listed:
            yield Problem(
                claims,
                f"{column} is missing: a policy with dates must list {' and '.join(wanted)}, because otherwise no gate "
                "judges what an adversary may know of released dates",
            )
    for column in (column for column in DATE_COLUMNS if column in listed):
        path = (*claims, listed[column])
        if dates is None:
            yield Problem((*path, "column"), f"{column} is derived from released dates, but this policy has no section dates")
        elif column == "service_order" and dates.intervals_known == "alone":
            yield Problem((*path, "column"), f"{column} goes with dates.intervals_known: in_order, and this policy says alone")
        elif column not in wanted:
            yield Problem((*path, "column"), f"{column} would disclose dates, but format {dates.format} releases none")
        hierarchy = policy.hierarchies.get(policy.quasi_identifiers.claims[listed[column]].hierarchy)
        if hierarchy is not None and not (isinstance(hierarchy, FixedSpec) and not hierarchy.values):
            yield Problem(
                (*path, "hierarchy"),
                f"{column} needs a hierarchy of kind fixed without values: a coarser level would be judged while the "
                "released dates disclose more; make dates.width or dates.anchor coarser instead",
            )
    if dates is None:
        return
    yield from _declared_days(policy)
    if policy.long_tail.unit == "member_year":
        yield Problem(
            ("long_tail", "unit"),
            "is member_year, but the year of a claim follows from its released date, after the long tail is cut: claims "
            "change years, so a cut within a year would not hold in the release; with dates, use member",
        )
    if dates.intervals_known == "in_order" and dates.narrowest < NARROWEST_IN_ORDER:
        yield Problem(
            ("dates", "intervals_known"),
            f"in_order compares pairs of bins, of which {dates.narrowest} days make too many: bins need at least "
            f"{NARROWEST_IN_ORDER} days",
        )
    if dates.study_end == "clip" and dates.derived == "recompute":
        yield Problem(
            ("dates", "study_end"),
            "clip joins days that were apart, and what lies beyond the last service stays where it was drawn: stays "
            "computed from such dates would last no days, or months; use redraw, or derived: drop",
        )
    if dates.derived == "drop":
        for column in NUMBERS_OF_CLAIMS:
            if column in listed:
                yield Problem(
                    (*claims, listed[column], "column"),
                    (f"{column} is dropped by dates.derived: drop; remove the column, or use recompute"),
                )
    names = {
        name.lower()
        for name in (*OTHER_RELEASE_COLUMNS, *policy.attribute_names, *(qi.release_as for qi in policy.quasi_identifiers.all))
    }
    released: list[tuple[Path, str]] = [(("dates", "release_as"), dates.release_as)]
    released += [(("dates", "connected", number, "release_as"), one.release_as) for number, one in enumerate(dates.connected)]
    for place, name in released:
        if name.lower() in names:
            yield Problem(place, f"the release already has a column {name}")
        names.add(name.lower())
    offsets = [one.offset for one in dates.connected]
    for number, offset in enumerate(offsets):
        if offset in offsets[:number]:
            yield Problem(
                ("dates", "connected", number, "offset"), f"another connected date has {offset}: both would be the same date"
            )
    for number, one in enumerate(dates.connected):
        if dates.derived == "drop" or (one.offset in STAYS and one.offset not in listed):
            yield Problem(
                ("dates", "connected", number, "offset"),
                f"{one.offset} is not released, so that a date connected by it would tell more than what is judged; use "
                "derived: recompute, and list length_of_stay as a quasi-identifier, or remove the date",
            )
    delivered = policy.source.claims if policy.source.kind == "tables" else None
    if delivered is not None and "service_date" not in delivered.columns:
        yield Problem(("source", "claims", "columns"), "service_date is not delivered, so no dates can be released")


_TRUE_DAYS = ("service_date", *CLAIM_INGREDIENTS, "pay_delay", *NUMBERS_OF_CLAIMS)
"""What a delivery says of a claim that redrawn dates replace."""


def _declared_days(policy: Policy) -> Iterator[Problem]:
    """A declared column is released as it was delivered: true days beside redrawn dates would undo the drawing."""
    tables = policy.source.tables if isinstance(policy.source, TablesSource) else {}
    for table, columns in policy.columns.declared.tables.items():
        for name, made in columns.items():
            mapped = tables[made.table].columns if made.table in tables else {}
            days = {mapped.get(column, column) for column in _TRUE_DAYS}
            of_days = made.anchor is not None or (
                made.table != "members" and any(cell.kind == "date" or cell.column in days for cell in made.cells)
            )
            if of_days:
                yield Problem(
                    ("columns", table, name),
                    "is computed from true days of claims, which would undo the drawing of dates; remove the column, or the "
                    "section dates",
                )


def diagnosis_code_problems(policy: Policy) -> Iterator[Problem]:
    """A column must be delivered, dates be known, and the Charlson index have a list for the system."""
    codes, source = policy.diagnosis_codes, policy.source
    here = ("diagnosis_codes",)
    claims = source.claims if isinstance(source, TablesSource) else None
    if isinstance(codes, FromColumn) and claims is None:
        yield Problem(here, f"deliveries of kind {source.kind} have no column {codes.from_}: state the system, or by_date")
    if codes == "by_date" and claims is not None and not {"service_date", "discharge_date"} & set(claims.columns):
        yield Problem(here, "by_date needs the dates of claims: map service_date, or state the system or its column")
    if isinstance(source, DesynpufSource) and codes != "icd9cm":
        yield Problem(here, "DE-SynPUF is of 2008 to 2010, and its diagnoses are of ICD-9-CM: icd9cm")
    if policy.grouping.charlson == "deyo" and codes != "icd9cm":
        yield Problem(("grouping", "charlson"), "Deyo's list is of ICD-9-CM only: quan, whose list is of both systems")


_MOSTLY = 0.9
_NAMED = re.compile("(^|[^a-z])ndc([^a-z]|$)|national_?drug", re.IGNORECASE)


def drug_problems(policy: Policy) -> Iterator[Problem]:
    """A column of drugs tells of HIV as a diagnosis does, so lists must be able to read its ingredients.

    Nothing is asked where no list names drugs, nor of what people have of the drugs that lists read.
    """
    if not policy.removal.lists_drugs:
        return
    listed = {
        (table, cell.column)
        for table, columns in policy.columns.events.items()
        for column in columns.values()
        if _is_of_drugs(column)
        for cell in column.made(table).cells
    }
    for table, columns in policy.columns.tables.items():
        for name, column in columns.items():
            here = ("columns", table, name)
            if isinstance(column, Drugs) and not column.names_ingredients:
                yield Problem(
                    (*here, "file"),
                    f"the table of drugs names no ingredients, and {policy.removal.rule_of_codes} removes members with "
                    "sensitive drugs, such as those against HIV, which are found by their ingredients: add them as a third "
                    "column (ndc;group;ingredients)",
                )
            made = column.made(table)
            of_listed = made.of_events and listed.issuperset((made.table, cell.column) for cell in made.cells)
            if _reads_drugs(made) and not of_listed and not _is_of_drugs(column):
                yield Problem(
                    here,
                    f"reads NDCs, and no list of sensitive drugs reads a column of this kind: declare a column of {made.table} "
                    "`{kind: ndc, file: ...}` with a table of drugs that names their ingredients",
                )


def _is_of_drugs(column: object) -> bool:
    return isinstance(column, Drugs) or (isinstance(column, Concept) and column.of == "drug")


def _reads_drugs(made: Derivation) -> bool:
    """Whether a column compares cells with NDCs, or reads a column of that name."""
    forms = sum(ndc11(code.strip()) is not None or is_ambiguous(code.strip()) for code in made.codes)
    named = any(_NAMED.search(cell.column) for cell in made.cells)
    return named or (bool(made.codes) and forms >= _MOSTLY * len(made.codes))
