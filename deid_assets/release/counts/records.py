"""The exact counts of a flat table: how many records each step left, and what they are. Restricted.

Records are counted. What one person adds to a count is at most `FlatPolicy.records_per_person`.
"""

from collections.abc import Iterable, Mapping

import pandas as pd

from deid_assets.methods.counts.cohort import RECORDS_STEP, RELEASED_RECORDS_STEP
from deid_assets.methods.flat import queries
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.sections.counts import level_or_values, levels_of_records
from deid_assets.release.counts.cells import by_level, by_values, class_rows, counted_frame, step_rows
from deid_assets.release.manifest.public_numbers import AttritionStep
from deid_assets.release.public_cells import shape
from deid_assets.sources.flat import OPTED_OUT, RECORDS
from deid_assets.store.tables import Table

_SECTIONS = ("source", "opt_outs", "quasi_identifiers", "attributes", "hierarchies")
"""Sections that affect which records are usable."""

AFTER_OPT_OUTS = "records_after_opt_outs"


def record_steps(policy: FlatPolicy, tables: Mapping[str, Table]) -> tuple[AttritionStep, ...]:
    """Records in and out of every step; exact, for the restricted edition."""
    usable, released = tables["records"].count(), tables["release_records"].count()
    unusable, opted_out = queries.quarantined(tables["quarantined_records"], RECORDS, OPTED_OUT)
    delivered = usable + unusable + opted_out
    of = "delivered_records"
    listed = []
    if policy.opt_outs.people.everybody:
        of = AFTER_OPT_OUTS
        listed = [
            AttritionStep(
                of,
                "records",
                delivered - opted_out,
                "delivered_records",
                "opted out",
                shape=shape(policy, "source", "opt_outs"),
            )
        ]
    return (
        AttritionStep("delivered_records", "records", delivered, shape=shape(policy, "source")),
        *listed,
        AttritionStep(RECORDS_STEP, "records", usable, of, "rows in quarantine", shape=shape(policy, *_SECTIONS)),
        AttritionStep(RELEASED_RECORDS_STEP, "records", released, RECORDS_STEP, "classes below k", "data/Records.csv"),
    )


def record_counts(
    policy: FlatPolicy, steps: Iterable[AttritionStep], tables: Mapping[str, Table], shape_of_rows: str
) -> pd.DataFrame:
    """Count records by step and by characteristic; parameters and result as those of `cohort.cohort_counts`.

    `least` is the number of records that are released.
    """
    most = policy.records_per_person
    rows = step_rows(steps, shape_of_rows, most)
    records, suppressed = tables["records"], tables["suppressed_records"]
    column_of = {one.release_as: one.column for one in policy.columns}
    for name, level in levels_of_records(policy).items():
        found = by_level(policy.hierarchy_of(name), level, records.query(queries.values_counted(records, suppressed, name)))
        rows += class_rows(column_of[name], *found, shape(policy, *_SECTIONS), most)
    for name, values in level_or_values(policy.counts.characteristics or {})[1].items():
        found = by_values(values, records.query(queries.values_counted(records, suppressed, name)))
        rows += class_rows(column_of[name], *found, shape(policy, *_SECTIONS), most)
    return counted_frame(rows)


def ordered_records(policy: FlatPolicy) -> set[str]:
    """The characteristics whose classes the policy lists from low to high, by their names in the delivery."""
    return {one.column for one in policy.columns if one.release_as in policy.counts.ordered}
