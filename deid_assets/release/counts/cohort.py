"""The exact counts of a run: how many members each step left, and who they are. Restricted."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pandas as pd

from deid_assets.errors import CountsError
from deid_assets.methods.counts.cohort import (
    CHARACTERISTICS,
    CLAIMS,
    EXCLUDED,
    NUMBER_OF_CLAIMS,
    RELEASED_STEP,
    REMAINING,
    UNKNOWN,
    attrition_cells,
    claim_band,
    claim_bands,
    claims_counted,
    sums_of,
    values_counted,
)
from deid_assets.methods.counts.tables import CellName, CountTables
from deid_assets.policy.models import Policy
from deid_assets.policy.sections.counts import characteristics_of, classes_of
from deid_assets.release.manifest.public_numbers import AttritionStep
from deid_assets.release.public_cells import COHORT_SECTIONS, shape
from deid_assets.store.tables import Table

COLUMNS = ("table", "row", "column", "place", "count", "contribution", "least", "shape", "counted")


def cohort_counts(
    policy: Policy, steps: Iterable[AttritionStep], tables: Mapping[str, Table], shape_of_rows: str
) -> pd.DataFrame:
    """Count members by step and by characteristic, and claims if the policy asks for them.

    Parameters
    ----------
    steps
        `attrition.attrition`.
    tables
        Tables of the restricted store, by the names of their assets.
    shape_of_rows
        What of the policy shapes the released rows.

    Returns
    -------
    pandas.DataFrame
        One row per cell, classes without members included, with the columns `COLUMNS`. `least` is the number of members
        in the sample, at most so many of whom readers count in the released files; 0 for steps and claims. `counted` says
        what the column counts, whatever it is called: the values in a class.
    """
    members = [step for step in steps if step.unit == "members"]
    shapes = {step.stage: step.shape or shape_of_rows for step in members}
    counted = attrition_cells([(step.stage, step.count) for step in members])
    rows: list[tuple[object, ...]] = [
        (*name, place, count, 1, 0, shapes[name.row], name.column) for place, (name, count) in enumerate(counted)
    ]
    profiles, cohort = tables["member_profiles"], tables["eligible_members"]
    for column, level in characteristics_of(policy).items():
        found = profiles.query(values_counted(profiles, cohort, column))
        rows += _classes(policy, column, level, found)
    rows += _claim_bands(policy, profiles.query(values_counted(profiles, cohort, "claims")))
    if policy.counts.claims_per_member is not None:
        rows += _claims(policy, policy.counts.claims_per_member, tables)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def tables_of(counts: pd.DataFrame, without: Iterable[CellName] = ()) -> CountTables:
    """The counts as tables with their sums, without some cells."""
    left_out = set(without)
    names = [CellName(*row) for row in counts[["table", "row", "column"]].itertuples(index=False)]
    kept = [place for place, name in enumerate(names) if name not in left_out]
    cells = tuple(names[place] for place in kept)
    return CountTables(
        cells, counts["count"].to_numpy(np.int64)[kept], sums_of(cells), counts["contribution"].to_numpy(np.int64)[kept]
    )


def definitions_of(counts: pd.DataFrame) -> dict[CellName, CellName]:
    """What each cell counts, as a name that does not change with labels: noise, lockout and audit go by it."""
    return {
        CellName(row.table, row.row, row.column): CellName(row.table, row.row, row.counted)
        for row in counts[list(COLUMNS)].itertuples(index=False)
    }


def shapes_of_cells(counts: pd.DataFrame) -> dict[CellName, str]:
    """What of the policy shapes each cell."""
    return {CellName(row.table, row.row, row.column): row.shape for row in counts[list(COLUMNS)].itertuples(index=False)}


def _classes(policy: Policy, column: str, level: int, found: pd.DataFrame) -> list[tuple[object, ...]]:
    """Members by the classes of a level; a missing value is unknown, unless the level puts it into a class."""
    hierarchy = policy.hierarchy_of(column)
    classes = [*classes_of(hierarchy, level), UNKNOWN]
    known = found[found["value"].notna()]
    labels = [*hierarchy.labels(known["value"].tolist(), level)]
    if not set(labels) <= set(classes):
        raise CountsError(f"column {column}: a class of members is not among those of its level")
    rest = hierarchy.missing_label(level) or UNKNOWN
    by_class = found.assign(label=rest)
    by_class.loc[known.index, "label"] = labels
    members = _by_class(classes, by_class)
    own, held = shape(policy, *COHORT_SECTIONS), hierarchy.definitions(level)
    missing = "none" if hierarchy.missing_label(level) else "missing"
    return [
        (CHARACTERISTICS, column, label, place, number, 1, sampled, own, held.get(label, missing))
        for place, (label, number, sampled) in enumerate(members)
    ]


def _by_class(classes: list[str], found: pd.DataFrame) -> Iterator[tuple[str, int, int]]:
    """Each class with its members, and with those in the sample; classes without members included."""
    sums = found.groupby("label")[["members", "sampled"]].sum().reindex(classes, fill_value=0).astype(np.int64)
    return ((label, int(members), int(sampled)) for label, members, sampled in sums.itertuples())


def _claim_bands(policy: Policy, found: pd.DataFrame) -> list[tuple[object, ...]]:
    members = _by_class(claim_bands(), found.assign(label=[claim_band(int(claims)) for claims in found["value"]]))
    own = shape(policy, *COHORT_SECTIONS)
    return [
        (CHARACTERISTICS, NUMBER_OF_CLAIMS, band, place, number, 1, sampled, own, band)
        for place, (band, number, sampled) in enumerate(members)
    ]


def _claims(policy: Policy, per_member: int, tables: Mapping[str, Table]) -> Iterator[tuple[object, ...]]:
    """Claims that were delivered and that remained; of a member, at most as many as hide them."""
    for place, (step, asset, sections) in enumerate(
        (("delivered_claims", "claims", ("source",)), ("eligible_claims", "eligible_claims", COHORT_SECTIONS))
    ):
        table = tables[asset]
        number = int(table.query(claims_counted(table, per_member))["claims"].iloc[0])
        own = shape(policy, *sections, per_member=per_member)
        yield (CLAIMS, step, REMAINING, place, number, per_member, 0, own, REMAINING)


def is_known_from_files(name: CellName) -> bool:
    """Whether readers of the released files count the cell themselves."""
    return name.row == RELEASED_STEP and name.column != EXCLUDED
