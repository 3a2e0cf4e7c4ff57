"""The exact counts of a cohort: how many people each step left, and who they are. Restricted."""

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from deid_assets.assessments.cohort_attributes import attributes_sql
from deid_assets.assessments.cohort_demographics import cells_in, published_attributes
from deid_assets.methods.counts.cohort import PEOPLE_STEP, RELEASED_PEOPLE_STEP
from deid_assets.methods.demographics.attributes import Attribute, Level
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.sections.cohort import ORDERED
from deid_assets.policy.sections.counts import level_or_values
from deid_assets.release.counts.cells import by_values, class_rows, counted_frame, step_rows
from deid_assets.release.manifest.public_numbers import AttritionStep
from deid_assets.release.public_cells import shape
from deid_assets.sources.cohort import OPTED_OUT
from deid_assets.store.tables import Table

_SECTIONS = ("source", "columns", "intake", "opt_outs")
"""Sections that affect which people are usable."""
AFTER_OPT_OUTS = "people_after_opt_outs"
_FILE = "data/People.csv"


def people_steps(policy: CohortPolicy, tables: Mapping[str, Table]) -> tuple[AttritionStep, ...]:
    """People in and out of every step; exact, for the restricted edition. The files tell how many were usable."""
    people, unusable = tables["cohort_people"].count(), tables["quarantined_people"]
    left_out = unusable.query(
        f"""SELECT count(DISTINCT record) FILTER (rule <> ?) AS unusable, count(DISTINCT record) FILTER (rule = ?) AS opted
            FROM {unusable.sql}""",
        [OPTED_OUT, OPTED_OUT],
    ).iloc[0]
    released = tables["release_people"].count()
    usable_or_not = people + int(left_out["unusable"])
    of = "delivered_people"
    listed = []
    if policy.opt_outs.people.everybody:
        of = AFTER_OPT_OUTS
        listed = [
            AttritionStep(
                of, "records", usable_or_not, "delivered_people", "opted out", shape=shape(policy, "source", "opt_outs")
            )
        ]
    delivered = usable_or_not + int(left_out["opted"])
    return (
        AttritionStep("delivered_people", "records", delivered, shape=shape(policy, "source")),
        *listed,
        AttritionStep(PEOPLE_STEP, "records", people, of, "rows in quarantine", _FILE, shape(policy, *_SECTIONS)),
        AttritionStep(RELEASED_PEOPLE_STEP, "records", released, PEOPLE_STEP, "none are left out", _FILE),
    )


def people_counts(
    policy: CohortPolicy, steps: Iterable[AttritionStep], tables: Mapping[str, Table], shape_of_rows: str
) -> pd.DataFrame:
    """Count people by step and by characteristic; parameters and result as those of `cohort.cohort_counts`.

    `least` is the count itself: everybody is released.

    Raises
    ------
    PolicyError
        If the population's table does not carry a level that the policy names.
    """
    rows = step_rows(steps, shape_of_rows)
    cells = cells_in(policy, tables["cohort_people"], tables["population_cells"])
    named, listed = level_or_values(policy.counts.characteristics or {})
    names = [own.name for own in cells.demographics.attributes]
    for name, (column, attribute) in published_attributes(policy, cells).items():
        if policy.counts.characteristics is not None and column not in named:
            continue
        level = attribute.level(named[column]) if column in named else _coarsest(attribute)
        if level is None:
            continue
        people = np.bincount(level.codes[cells.codes[:, names.index(name)]], minlength=len(level.labels))
        found = pd.DataFrame({"label": list(level.labels), "members": people, "sampled": people})
        rows += class_rows(name, {label: label for label in level.labels}, found, shape(policy, *_SECTIONS))
    column_of = {one.release_as: one.column for one in policy.attributes}
    for column, values in listed.items():
        found = _values_counted(policy, tables["cohort_people"], column)
        of_values = shape(policy, *_SECTIONS, "attributes")
        rows += class_rows(column_of[column], *by_values(values, found), of_values)
    return counted_frame(rows)


def ordered_people(policy: CohortPolicy) -> set[str]:
    """The characteristics whose classes have an order."""
    return set(policy.demographic_columns) & ORDERED


def _coarsest(attribute: Attribute) -> Level | None:
    """The level with the fewest classes, but several; None if there is none."""
    several = [level for level in attribute.levels if len(level.labels) > 1]
    return min(several, key=lambda level: len(level.labels), default=None)


def _values_counted(policy: CohortPolicy, people: Table, column: str) -> pd.DataFrame:
    """Columns value, members, sampled: people by the value of an attribute as it is published."""
    published = people.query(f"SELECT {attributes_sql(policy)} FROM {people.sql}")[column]
    found = published.value_counts(dropna=False).rename_axis("value").reset_index(name="members")
    return found.assign(sampled=found["members"])
