"""What a cohort's policy asks of its tables: the cohort in its population, its levels, and the labels that it publishes.

Columns beside the demographics are asked whether they identify people, or tell more of demographics than the release does;
and what Safe Harbor says of them, by their roles, and of free columns by what their values look like. Only counts by column
leave the restricted store (methods#safe-harbor).
"""

import datetime
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from deid_assets.assessments.attribute_leaks import PublishedAttributes, Remedy, judge_attributes
from deid_assets.assessments.demographic_verdicts import Question, bar_of, reference_of
from deid_assets.assessments.evidence import Measurement, Refusal
from deid_assets.errors import DeliveryError, RefusedError, ReleaseError
from deid_assets.methods.counts.protected_counts import SMALLEST_DESCRIBED
from deid_assets.methods.demographics.attributes import WITHHELD, YEAR, Attribute, DemographicPolicy, Level, Node
from deid_assets.methods.demographics.local_recoding import recode_old_ages, recoded_ages
from deid_assets.methods.demographics.population import Cells
from deid_assets.methods.demographics.risk import groups_by
from deid_assets.methods.disclosure.attribute_leaks import EncodedColumn, Withheld, column_of, repeats_ages, withheld_labels
from deid_assets.methods.disclosure.identifier_patterns import displayed
from deid_assets.methods.safe_harbor.findings import Finding, findings, unreadable, years
from deid_assets.methods.safe_harbor.identifiers import ELEMENT_OF, FREE, IDENTIFIERS, LINK
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.reference.geography import kept_prefixes
from deid_assets.sources.cohort import CohortLayout
from deid_assets.sources.demographics import cells_of_cohort
from deid_assets.sources.files import is_plain
from deid_assets.sources.report import rows_by_column
from deid_assets.sources.text_tables import read_text_table, text_columns
from deid_assets.store import durable
from deid_assets.store.tables import Table, connect, quoted

EXCESS, REFERENCE_RISK = "risk_above_safe_harbor", "risk_of_safe_harbor"
LARGEST_RISK, CROWDED = "largest_record_risk", "crowded_share"


def cells_in(policy: CohortPolicy, people: Table, population: Table) -> Cells:
    """Place the people that were taken in in the population that was taken in.

    Raises
    ------
    DeliveryError
        If the population's table cannot be right, or lacks a place of the cohort.
    """
    return _placed(policy, people, population)[0]


def population_notes(policy: CohortPolicy, people: Table, population: Table) -> tuple[str, ...]:
    """Return what readers must know of the population's table: that it is synthetic, or that a model spreads its ages."""
    stated = population.query(f"SELECT DISTINCT note FROM {population.sql} WHERE note <> '' ORDER BY note")["note"].tolist()
    return (*stated, *_placed(policy, people, population)[1])


def _placed(policy: CohortPolicy, people: Table, population: Table) -> tuple[Cells, tuple[str, ...]]:
    races: tuple[str, ...] = () if policy.columns.race is None else tuple(sorted(set(policy.columns.race.values.values())))
    table = population.frame().drop(columns="note")
    return cells_of_cohort(people.frame(order_by="record"), table, races, policy.date_attributes)


def question_of(policy: CohortPolicy) -> Question:
    """Return what the policy asks: which measures decide, and what is compared with Safe Harbor."""
    risk = policy.risk
    return Question(
        decided_by=risk.measures,
        thresholds=tuple(sorted(set(risk.thresholds))),
        policies=(DemographicPolicy.of(policy.name, policy.demographic_policy.levels),),
        at_upper_bound=risk.compared == "upper_bound",
        exponent=risk.exponent,
    )


@dataclass(frozen=True, eq=False)
class PublishedLevels:
    """The levels at which the people of a cohort are published.

    Attributes
    ----------
    node
        Levels of all attributes.
    levels
        Level of each attribute, by its name, in the order of the node.
    ages
        Levels of age: one, or with local recoding of old ages several.
    level_of
        (people,) int: the position of each person's level of age among `ages`.
    """

    node: Node
    levels: Mapping[str, Level]
    ages: tuple[Level, ...]
    level_of: np.ndarray

    def labels_of(self, name: str) -> tuple[str, ...]:
        """Labels that may occur of an attribute."""
        listed = self.ages if name == "age" else (self.levels[name],)
        return tuple(dict.fromkeys(label for level in listed for label in level.labels))


def published(policy: CohortPolicy, cells: Cells) -> PublishedLevels:
    """Return the levels of the release.

    Raises
    ------
    PolicyError
        If the population's table does not carry a level.
    RefusedError
        If a group is riskier than under Safe Harbor, however its old ages are published.
    """
    demographics, stated = cells.demographics, policy.demographic_policy
    node = stated.node(demographics)
    levels = {own.name: own.levels[level] for own, level in zip(demographics.attributes, node, strict=True)}
    old = policy.demographics.old_ages
    if old is None:
        return PublishedLevels(node, levels, (levels["age"],), np.zeros(cells.records, dtype=np.int64))
    grouping = ("geography", "state") if old.by == "state" else ("ethnicity", levels["ethnicity"].name)
    found = recode_old_ages(cells, stated, reference_of(cells), old.levels, grouping, bar_of(question_of(policy)))
    if found["old_ages"].isna().any():
        raise RefusedError(
            f"refused: at every level of demographics.old_ages, a {old.by} is riskier than under Safe Harbor; list a coarser "
            "level, or leave old_ages out and state coarser levels"
        )
    years = demographics.age.values.to_numpy()
    ages = tuple(recoded_ages(levels["age"], demographics.age.level(name), years) for name in old.levels)
    groups, _ = groups_by(cells, *grouping)
    chosen = found["old_ages"].map({name: at for at, name in enumerate(old.levels)}).to_numpy(dtype=np.int64)
    return PublishedLevels(node, levels, ages, chosen[groups])


def published_attributes(policy: CohortPolicy, cells: Cells) -> dict[str, tuple[str, Attribute]]:
    """Return the released column and the attribute of all demographics that have a column, by the attribute's name."""
    own = {attribute.name: attribute for attribute in cells.demographics.attributes}
    return {name: (column, own[name]) for name, column in policy.demographic_columns.items()}


def released_labels(policy: CohortPolicy, cells: Cells) -> pd.DataFrame:
    """Return the label of each person in each column of demographics, in the order of the people and of the release."""
    made, names = published(policy, cells), [own.name for own in cells.demographics.attributes]
    shown = {}
    for name, column in policy.demographic_columns.items():
        codes = cells.codes[:, names.index(name)]
        shown[column] = _labels(made.levels[name], codes)
        if name == "age":
            for number, level in enumerate(made.ages):
                own = made.level_of == number
                shown[column][own] = _labels(level, codes[own])
    return pd.DataFrame(shown, dtype="str")


def codes_of_labels(policy: CohortPolicy, cells: Cells, shown: pd.DataFrame) -> np.ndarray:
    """Return (people, attributes) int: a base value of which each published label tells.

    Which base value of a class is returned does not matter: all of them have one class. An attribute without a column, as the
    race of a cohort without races, has one value.

    Parameters
    ----------
    shown
        Labels in the order of the people, as `released_labels` gives them.
    """
    made, columns = published(policy, cells), policy.demographic_columns
    codes = np.zeros((len(shown), len(made.levels)), dtype=np.int64)
    for place, (name, level) in enumerate(made.levels.items()):
        if name == "age":
            for number, own_level in enumerate(made.ages):
                own = made.level_of == number
                codes[own, place] = _first_values(own_level, shown.loc[own, columns[name]])
        elif name in columns:
            codes[:, place] = _first_values(level, shown[columns[name]])
    return codes


def _labels(level: Level, codes: np.ndarray) -> np.ndarray:
    return np.array(level.labels, dtype=object)[level.codes[codes]]


def _first_values(level: Level, labels: pd.Series) -> np.ndarray:
    """The first base value of each label's class."""
    found = pd.Index(level.labels).get_indexer(pd.Index(labels))
    if np.any(found < 0):
        raise ReleaseError("a published label is none of its level")
    _, first = np.unique(level.codes, return_index=True)
    return np.asarray(first[found], dtype=np.int64)


_ROLES = {
    "person": "unique_code", "age": "age", "birth_date": "birth_date", "birth_year": "birth_year", "sex": FREE, "race": FREE,
    "state": "state", "zip": "zip", "county": "county",
}  # fmt: skip


@dataclass(frozen=True)
class CohortFindings:
    """What was found in the columns of a cohort's file as it is.

    Attributes
    ----------
    found
        Elements of Safe Harbor that columns break, in the order of the letters.
    free
        Columns that hold none of the demographics, in file order: they were searched for identifiers.
    not_searched
        Those of them whose cells are no text, number or date.
    """

    found: tuple[Finding, ...]
    free: tuple[str, ...]
    not_searched: tuple[str, ...]


def cohort_findings(path: Path, layout: CohortLayout, folder: Path) -> CohortFindings:
    """Judge every column of a cohort's file by Safe Harbor.

    Parameters
    ----------
    path, layout
        The file and the meaning of its columns; all others are free.
    folder
        Folder of the restricted store, where the copy of the file lies while it is read.

    Raises
    ------
    DeliveryError
        If the file cannot be read.
    """
    kinds = text_columns(layout.of(path), folder, "cohort")
    roles = _roles(layout)
    free = tuple(column for column in kinds if column not in roles)
    not_searched = tuple(column for column in free if not is_plain(kinds[column]))
    # Names of a file may be no identifiers of DuckDB's.
    columns = {f"c{at}": column for at, column in enumerate(kinds) if column not in not_searched}
    rows = read_text_table(layout.of(path), columns, folder, "cohort")
    with tempfile.TemporaryDirectory(dir=durable.owner_only(folder), prefix="scanning-") as name:
        table = Table(Path(name) / "cohort.duckdb", "main", "rows")
        with connect(table.file) as connection:
            connection.register("read", rows)
            connection.execute(f"CREATE TABLE {table.sql} AS FROM read")
            connection.unregister("read")
        by_column = {short: roles.get(column, FREE) for short, column in columns.items()}
        found = findings(table, by_column, layout.reference or datetime.date.max, kept_prefixes())
    return CohortFindings(tuple(replace(one, column=columns[one.column]) for one in found), free, not_searched)


def _roles(layout: CohortLayout) -> Mapping[str, str]:
    """Role of each column that the layout names; attributes are no demographics, so they are searched as all others."""
    attributes = set(layout.texts.values())
    return {column: _ROLES.get(name, "date") for name, column in layout.columns().items() if column not in attributes}


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


def _ages_repeated(policy: CohortPolicy, cells: Cells, people: Table, columns: Mapping[str, EncodedColumn]) -> dict[str, float]:
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
    broken = unreadable(people, [one.release_as for one in policy.attributes if one.role == "date"])
    if broken:
        named = {one.release_as: one.column for one in policy.attributes}
        listed = rows_by_column({named[name]: rows for name, rows in broken.items()})
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
