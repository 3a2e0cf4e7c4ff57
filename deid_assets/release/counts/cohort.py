"""The exact counts of a run over claims: how many members each step left, and who they are. Restricted."""

from collections.abc import Iterable, Iterator, Mapping

import pandas as pd

from deid_assets.methods.counts.cohort import (
    CLAIMS,
    NUMBER_OF_CLAIMS,
    REMAINING,
    claim_band,
    claim_bands,
    claims_counted,
    values_counted,
)
from deid_assets.policy.hierarchies.specs import IntervalsSpec
from deid_assets.policy.models import Policy
from deid_assets.policy.sections.counts import characteristics_of
from deid_assets.release.counts.cells import Row, by_level, class_rows, counted_frame, step_rows
from deid_assets.release.manifest.public_numbers import AttritionStep
from deid_assets.release.public_cells import COHORT_SECTIONS, shape
from deid_assets.store.tables import Table


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
        One row per cell, classes without members included, with the columns `cells.COLUMNS`. `least` is the number of members
        in the sample, at most so many of whom readers count in the released files; 0 for steps and claims. `counted` says
        what the column counts, whatever it is called: the values in a class.
    """
    rows = step_rows((step for step in steps if step.unit == "members"), shape_of_rows)
    profiles, cohort = tables["member_profiles"], tables["eligible_members"]
    for column, level in characteristics_of(policy).items():
        found = by_level(policy.hierarchy_of(column), level, profiles.query(values_counted(profiles, cohort, column)))
        rows += class_rows(column, *found, shape(policy, *COHORT_SECTIONS), identity=policy.identity(column))
    numbers = profiles.query(values_counted(profiles, cohort, "claims"))
    bands = numbers.assign(label=[claim_band(int(claims)) for claims in numbers["value"]])
    rows += class_rows(NUMBER_OF_CLAIMS, {band: band for band in claim_bands()}, bands, shape(policy, *COHORT_SECTIONS))
    if policy.counts.claims_per_member is not None:
        rows += _claims(policy, policy.counts.claims_per_member, tables)
    return counted_frame(rows)


def ordered_characteristics(policy: Policy) -> set[str]:
    """The characteristics whose classes have an order: bands of numbers."""
    columns = [qi.column for qi in policy.quasi_identifiers.all]
    bands = {
        column for column in columns if isinstance(policy.hierarchies[policy.quasi_identifier(column).hierarchy], IntervalsSpec)
    }
    return {NUMBER_OF_CLAIMS, *bands}


def _claims(policy: Policy, per_member: int, tables: Mapping[str, Table]) -> Iterator[Row]:
    """Claims that were delivered and that remained; of a member, at most as many as hide them."""
    for place, (step, asset, sections) in enumerate(
        (("delivered_claims", "claims", ("source",)), ("eligible_claims", "eligible_claims", COHORT_SECTIONS))
    ):
        table = tables[asset]
        number = int(table.query(claims_counted(table, per_member))["claims"].iloc[0])
        own = shape(policy, *sections, per_member=per_member)
        yield (CLAIMS, step, REMAINING, place, number, per_member, 0, own, REMAINING)
