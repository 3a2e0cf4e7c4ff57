"""Which cells each kind of policy counts. How cells are protected does not depend on it (`published`)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pandas as pd
from pandera.ibis import DataFrameSchema

from deid_assets.assessments.chosen_generalization import chosen_levels
from deid_assets.assessments.record_risk import levels_of
from deid_assets.policy.base import ReleasePolicy
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.kinds import AnyPolicy, Kind
from deid_assets.policy.models import Policy
from deid_assets.release.attrition import attrition
from deid_assets.release.counts.cohort import cohort_counts, ordered_characteristics
from deid_assets.release.counts.people import ordered_people, people_counts, people_steps
from deid_assets.release.counts.records import ordered_records, record_counts, record_steps
from deid_assets.release.manifest.public_numbers import AttritionStep
from deid_assets.schemas.counts import files_of
from deid_assets.sources.delivery import Delivery
from deid_assets.store.tables import Table

P = TypeVar("P", bound=ReleasePolicy)
Tables = Mapping[str, Table]
"""Tables of the restricted store, by the names of their assets."""


@dataclass(frozen=True)
class Counting(Generic[P]):
    """How one kind of policy counts.

    Attributes
    ----------
    kind
        The kind.
    unit
        What is counted, as steps name it, and who the counts describe.
    described
        Whom the table of characteristics describes, in words.
    sections
        Sections of the policy that affect what is counted.
    inputs
        Tables in which is counted, by asset.
    levels_in
        Those of them that hold the levels of the release.
    levels
        Level of every quasi-identifier in the release; they shape its rows.
    steps
        Rows in and out of every step.
    counts
        The exact cells, by policy, steps, tables, and what of the policy shapes the released rows.
    ordered
        The characteristics whose classes have an order.
    """

    kind: Kind
    unit: str
    described: str
    sections: tuple[str, ...]
    inputs: tuple[str, ...]
    levels_in: tuple[str, ...]
    levels: Callable[[P, Tables], Mapping[str, int]]
    steps: Callable[[P, Delivery, Tables], tuple[AttritionStep, ...]]
    counts: Callable[[P, Iterable[AttritionStep], Tables, str], pd.DataFrame]
    ordered: Callable[[P], set[str]]

    @property
    def files(self) -> dict[str, DataFrameSchema]:
        """The contracts of the files of counts, by name."""
        return files_of(self.unit, self.described)


LONGITUDINAL: Counting[Policy] = Counting(
    "longitudinal",
    unit="members",
    described="eligible members",
    sections=("source", "opt_outs", "removal", "sample", "quasi_identifiers", "hierarchies", "counts"),
    inputs=(
        "members", "claims", "removed_members", "eligible_members", "eligible_claims", "truncated_claims", "member_profiles",
        "chosen_generalization", "release_members", "release_claims",
    ),
    levels_in=("chosen_generalization",),
    levels=lambda policy, tables: chosen_levels(policy, tables["chosen_generalization"]),
    steps=attrition,
    counts=cohort_counts,
    ordered=ordered_characteristics,
)  # fmt: skip

FLAT: Counting[FlatPolicy] = Counting(
    "flat",
    unit="records",
    described="usable records",
    sections=("source", "opt_outs", "quasi_identifiers", "attributes", "hierarchies", "counts"),
    inputs=("records", "quarantined_records", "record_generalization", "suppressed_records", "release_records"),
    levels_in=("record_generalization",),
    levels=lambda policy, tables: levels_of(policy, tables["record_generalization"]),
    steps=lambda policy, delivery, tables: record_steps(policy, tables),
    counts=record_counts,
    ordered=ordered_records,
)

COHORT: Counting[CohortPolicy] = Counting(
    "cohort",
    unit="records",
    described="people of the cohort",
    sections=("source", "opt_outs", "columns", "intake", "attributes", "counts"),
    inputs=("cohort_people", "quarantined_people", "population_cells", "release_people"),
    levels_in=(),
    levels=lambda policy, tables: {},
    steps=lambda policy, delivery, tables: people_steps(policy, tables),
    counts=people_counts,
    ordered=ordered_people,
)


def counting_of(policy: AnyPolicy) -> Counting[Any]:
    """How a policy's kind counts."""
    return {one.kind: one for one in (LONGITUDINAL, FLAT, COHORT)}[policy.kind]
