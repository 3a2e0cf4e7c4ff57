"""Whether columns beside a cohort's demographics identify people, or tell more of demographics than the release does."""

import datetime
from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from deid_assets.assessments.attribute_leaks import PublishedAttributes, Remedy, judge_attributes
from deid_assets.assessments.cohort_demographics import cells_in, published, published_attributes, released_labels
from deid_assets.assessments.evidence import Measurement, Refusal
from deid_assets.errors import DeliveryError
from deid_assets.methods.counts.protected_counts import SMALLEST_DESCRIBED
from deid_assets.methods.demographics.cells import Cells
from deid_assets.methods.demographics.standard_attributes import WITHHELD, YEAR
from deid_assets.methods.disclosure.attribute_leaks import Column, Withheld, column_of, withheld_labels
from deid_assets.methods.disclosure.identifier_patterns import displayed
from deid_assets.methods.disclosure.repeated_ages import repeats_ages
from deid_assets.methods.safe_harbor.findings import Finding, findings
from deid_assets.methods.safe_harbor.identifiers import ELEMENT_OF, FREE, IDENTIFIERS, LINK
from deid_assets.methods.safe_harbor.rules import unreadable, years
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.reference.geography import kept_prefixes
from deid_assets.store.tables import Table, quoted

_INSTEAD = Remedy("Do not publish it", "Do not publish all of them")
_TODAY_IS_NO_MATTER = datetime.date(9999, 12, 31)
"""Reference day for a cohort with ages: no column holds a birth from which an age would be counted."""


def roles_taken_in(policy: CohortPolicy) -> dict[str, str]:
    """Return the role of every column of the people as they were taken in, for the eighteen identifiers."""
    own, place = policy.columns, policy.columns.place
    named = {
        "record": LINK,
        "person": "unique_code",
        "age": "age",
        "sex": FREE,
        "race": own.race and FREE,
        "state": "state",
        "zip": place.zip and "zip",
        "county": place.county and "county",
        "date": own.date and "date",
    }
    return {name: role for name, role in named.items() if role} | {one.release_as: one.role for one in policy.attributes}


def findings_taken_in(policy: CohortPolicy, people: Table) -> pd.DataFrame:
    """Return one row for each of the eighteen identifiers and each column that breaks it; counts, never values.

    Returns
    -------
    pandas.DataFrame
        letter | element | source_column, rule: missing if nothing breaks it | records | certain | published: whether the column
        is published as it was taken in.
    """
    found = _found(policy, people, roles_taken_in(policy))
    unchanged = {one.release_as for one in policy.attributes if one.role != "date"}
    rows: list[tuple[object, ...]] = [
        (one.letter, ELEMENT_OF_LETTER[one.letter], one.column, one.rule, one.records, one.certain, one.column in unchanged)
        for one in found
    ]
    broken = {one.letter for one in found}
    rows += [(one.letter, one.name, None, None, 0, True, False) for one in IDENTIFIERS if one.letter not in broken]
    columns = ["letter", "element", "source_column", "rule", "records", "certain", "published"]
    return pd.DataFrame(rows, columns=columns).sort_values("letter", kind="stable", ignore_index=True)


ELEMENT_OF_LETTER = {one.letter: one.name for one in ELEMENT_OF.values()}


def finding_refusals(policy: CohortPolicy, staged: Table) -> list[Refusal]:
    """Refuse published columns that break an element of Safe Harbor.

    The demographics are judged by their risk instead, except under Safe Harbor itself; pseudonyms are made here. A form that
    ordinary values have, too, is accepted of an attribute that was reviewed.
    """
    own, stated = policy.demographic_columns, policy.demographics
    strict = stated.policy == "safe_harbor" and stated.old_ages is None
    judged = {"age": "age", "geography": "state"} if strict else {}
    if strict and stated.levels.get("date", YEAR) not in (YEAR, WITHHELD):
        judged["date"] = "date"
    roles = {column: judged.get(name, LINK) for name, column in own.items()}
    # A year can be that of a birth, whatever the policy calls it.
    year = "year" if policy.reference_day is None else "birth_year"
    roles |= {one.release_as: FREE if one.role == FREE else year for one in policy.attributes}
    if policy.columns.person.release_as is not None:
        roles[policy.columns.person.release_as] = LINK
    return [
        Refusal(
            "safe_harbor",
            f"gate/{one.column}",
            float(one.records),
            0.0,
            f"column {one.column} breaks element ({one.letter}) of Safe Harbor, {ELEMENT_OF_LETTER[one.letter]}: {one.rule}. "
            + (_INSTEAD.one if one.certain else f"{_INSTEAD.one}, or list it under reviewed_attributes with a reason"),
            "records",
        )
        for one in _found(policy, staged, roles)
        if one.certain or one.column not in policy.reviewed_attributes
    ]


def _found(policy: CohortPolicy, table: Table, roles: dict[str, str]) -> tuple[Finding, ...]:
    return findings(table, roles, policy.reference_day or _TODAY_IS_NO_MATTER, kept_prefixes())


def attribute_leaks(
    policy: CohortPolicy, staged: Table, people: Table, population: Table
) -> tuple[tuple[Measurement, ...], list[Refusal]]:
    """Measure every attribute of the release, and refuse those that leak and were not reviewed.

    Values are rare if fewer than eleven people have them.

    Parameters
    ----------
    staged
        The published rows as read back. The gate compares them with the people, row by row, so that what holds for the values
        of the people holds for them.
    """
    if not policy.attributes:
        return (), []
    cells, k = cells_in(policy, people, population), SMALLEST_DESCRIBED
    values = people.query(f"SELECT {attributes_sql(policy)} FROM {people.sql} ORDER BY record")
    columns = {name: column_of(values[name], k) for name in values}
    withheld, repeated = list(_withheld(policy, cells)), _ages_repeated(policy, cells, people, columns)
    return judge_attributes(policy, staged, PublishedAttributes(columns, columns, withheld, repeated), k, _INSTEAD)


def _ages_repeated(policy: CohortPolicy, cells: Cells, people: Table, columns: Mapping[str, Column]) -> dict[str, float]:
    """How far each attribute repeats the ages, where the release withholds an age of the cohort; 0 if it withholds none."""
    ages, shown = cells.codes[:, 0], released_labels(policy, cells)[policy.columns.age.release_as]
    if len(np.unique(ages)) == shown.nunique():
        return dict.fromkeys(columns, 0.0)
    read = ", ".join(
        f"TRY_CAST(regexp_extract({displayed(quoted(name))}, '[0-9]{{1,9}}') AS DOUBLE) AS {quoted(name)}" for name in columns
    )
    numbers = people.query(f"SELECT {read} FROM (SELECT record, {attributes_sql(policy)} FROM {people.sql}) ORDER BY record")
    return {
        name: repeats_ages(numbers[name].to_numpy(dtype=np.float64)[~column.blank], ages[~column.blank])
        for name, column in columns.items()
    }


def require_readable(policy: CohortPolicy, people: Table) -> None:
    """Refuse attributes of dates in which a year cannot be read: they would silently become blanks.

    Raises
    ------
    DeliveryError
        With columns and numbers of rows.
    """
    dates = {one.release_as: one.role for one in policy.attributes if one.role == "date"}
    broken = unreadable(people, dates, policy.reference_day or _TODAY_IS_NO_MATTER)
    if broken:
        named = {one.release_as: one.column for one in policy.attributes}
        listed = "; ".join(f"column {named[name]}: {rows:,} rows" for name, rows in broken.items())
        raise DeliveryError(f"cohort: the year of a date cannot be read ({listed}): correct these dates, or leave them empty")


def attributes_sql(policy: CohortPolicy) -> str:
    """SQL of the attributes as they are published, from the people as they were taken in; of a date, the year."""
    return ", ".join(
        f"{years(quoted(one.release_as)) if one.role == 'date' else quoted(one.release_as)} AS {quoted(one.release_as)}"
        for one in policy.attributes
    )


def _withheld(policy: CohortPolicy, cells: Cells) -> Iterator[Withheld]:
    """For each published attribute of the demographics, all labels that are finer than the released one."""
    released, names = published(policy, cells).levels, [own.name for own in cells.demographics.attributes]
    shown = released_labels(policy, cells)
    for name, (column, attribute) in published_attributes(policy, cells).items():
        codes, own = cells.codes[:, names.index(name)], attribute.number_of(released[name].name)
        finer = [level for at, level in enumerate(attribute.levels) if at != own and attribute.refines[at, own]]
        finer.sort(key=lambda level: -len(level.labels))
        by_level = [codes, *(level.codes[codes] for level in finer), pd.factorize(shown[column])[0]]
        level_names = ["as delivered", *(level.name for level in finer), released[name].name]
        yield from withheld_labels(column, level_names, by_level, len(by_level) - 1)
