"""The exact counts of each kind of policy: how many each step left, who they are, and what they have. Restricted.

Of a flat table, records are counted. What one person adds to a count is at most `FlatPolicy.records_per_person`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import pandas as pd

from deid_assets.assessments.cohort_demographics import attributes_sql, cells_in, published_attributes
from deid_assets.assessments.kernel_input import chosen_levels
from deid_assets.assessments.record_risk import levels_of
from deid_assets.errors import CountsError
from deid_assets.methods.counts import cohort as counted
from deid_assets.methods.demographics.attributes import Attribute, Level
from deid_assets.methods.flat import queries
from deid_assets.policy.base import ReleasePolicy
from deid_assets.policy.cohort import ORDERED, CohortPolicy
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.hierarchies.specs import IntervalsSpec
from deid_assets.policy.kinds import AnyPolicy, Kind
from deid_assets.policy.models import Policy
from deid_assets.policy.sections.counts import (
    Total,
    characteristics_of,
    level_or_values,
    levels_of_records,
    most_of,
    summed_of,
)
from deid_assets.release.counts.cells import Row, by_level, by_values, class_rows, counted_frame, step_rows
from deid_assets.release.manifest.public_numbers import AttritionStep
from deid_assets.release.public_cells import COHORT_SECTIONS, drawn, shape
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.flat import OPTED_OUT, RECORDS
from deid_assets.store.tables import Table, events_file, is_of, rows_of

if TYPE_CHECKING:
    from pandera.ibis import DataFrameSchema


def attrition(policy: Policy, delivery: Delivery, tables: Mapping[str, Table]) -> tuple[AttritionStep, ...]:
    """Rows in and out of every stage, of members and of each table of events; exact, for the restricted edition.

    Parameters
    ----------
    tables
        Tables of the restricted store, by the names of their assets.
    """
    profiles = tables["member_profiles"]
    opted_out = (
        tables["removed_members"]
        .query(
            f"SELECT count(DISTINCT member_id) FILTER (reason = 'opted out') AS opted, "
            "count(DISTINCT member_id) FILTER (reason IN ('opted out', 'withdrew')) AS opted_or_withdrew, "
            f"count(DISTINCT member_id) AS all_removed FROM {tables['removed_members'].sql}"
        )
        .iloc[0]
    )
    sampled = int(profiles.query(f"SELECT count(*) AS n FROM {profiles.sql} WHERE released")["n"].iloc[0])
    delivered = tables["members"].count()
    remaining = COHORT_SECTIONS
    steps = (
        ("delivered_members", delivered, "", shape(policy, "source")),
        ("members_after_opt_outs", delivered - int(opted_out["opted"]), "opted out", shape(policy, "source", "opt_outs")),
        *(
            [
                (
                    "members_after_withdrawals", delivered - int(opted_out["opted_or_withdrew"]),
                    "opted out of all releases", shape(policy, "source", "opt_outs"),
                )
            ]
            if policy.opt_outs.withdrawn
            else []
        ),
        (
            "members_not_removed", delivered - int(opted_out["all_removed"]),
            "sensitive codes, rare and visible diseases, codes that cannot be read, claims in quarantine",
            shape(policy, *remaining),
        ),
        ("eligible_members", tables["eligible_members"].count(), "no eligible claim", shape(policy, *remaining)),
        (
            "sampled_members", sampled, "random sample",
            # The number drawn is random for each policy and delivery: the same noise would reveal the exact difference.
            shape(policy, *remaining, "sample", **drawn(policy, delivery)),
        ),
        (
            "released_members", tables["release_members"].count(),
            "suppressed because flagged, or standing out beside an earlier release", "",
        ),
    )  # fmt: skip
    of_events = (_event_steps(tables, table) for table in policy.event_tables)
    return (*_in_order("members", steps, "data/Members.csv"), *chain.from_iterable(of_events))


def _event_steps(tables: Mapping[str, Table], table: str) -> Iterator[AttritionStep]:
    """Rows of a table of events in and out of every stage."""
    profiles = tables["member_profiles"]

    def rows(asset: str, of_sample: bool = False) -> int:
        claims = tables[asset]
        sampled = f" AND member_id IN (SELECT member_id FROM {profiles.sql} WHERE released)" if of_sample else ""
        found = claims.query(f"SELECT count(*) AS n FROM {claims.sql} WHERE {is_of(claims, table)}{sampled}")
        return int(found["n"].iloc[0])

    left_out = "claims of newborns and codes that are no procedure" if table == "claims" else "of newborns"
    steps = (
        (f"delivered_{table}", rows("claims"), ""),
        (f"eligible_{table}", rows("eligible_claims"), left_out),
        (f"sampled_{table}", rows("eligible_claims", of_sample=True), "random sample of members"),
        (f"truncated_{table}", rows("held", of_sample=True), "long tail"),
        (f"released_{table}", rows("release_claims"), "suppressed members"),
    )
    return _in_order(table, [(*step, "") for step in steps], f"data/{events_file(table)}.csv")


def _in_order(unit: str, steps: Sequence[tuple[str, int, str, str]], file: str) -> Iterator[AttritionStep]:
    """(stage, rows out, reason, shape) as steps, each from the previous one; the last step's rows are those of a file."""
    stages = [stage for stage, *_ in steps]
    for place, (stage, count, reason, of) in enumerate(steps):
        source = stages[place - 1] if place else None
        yield AttritionStep(stage, unit, count, source, reason, file if stage == stages[-1] else "", of)


_OF_RECORDS = ("source", "opt_outs", "quasi_identifiers", "attributes", "hierarchies")
"""Sections that affect which records of a flat table are usable."""
_OF_PEOPLE = ("source", "columns", "intake", "opt_outs")
"""Sections that affect which people of a cohort are usable."""


def _steps(
    policy: FlatPolicy | CohortPolicy, what: str, counts: tuple[int, int], usable: AttritionStep, released: AttritionStep
) -> tuple[AttritionStep, ...]:
    """In and out of every step, of records or of people: delivered, with those who opted out and without, usable, released."""
    delivered = AttritionStep(f"delivered_{what}", "records", counts[0], shape=shape(policy, "source"))
    if not policy.opt_outs.people.everybody:
        return (delivered, replace(usable, source=delivered.stage), released)
    own = shape(policy, "source", "opt_outs")
    after = AttritionStep(f"{what}_after_opt_outs", "records", counts[1], delivered.stage, "opted out", shape=own)
    return (delivered, after, replace(usable, source=after.stage), released)


def record_steps(policy: FlatPolicy, delivery: Delivery, tables: Mapping[str, Table]) -> tuple[AttritionStep, ...]:
    """Records in and out of every step; exact, for the restricted edition."""
    usable, released = tables["records"].count(), tables["release_records"].count()
    unusable, opted_out = queries.quarantined(tables["quarantined_records"], RECORDS, OPTED_OUT)
    own = shape(policy, *_OF_RECORDS)
    return _steps(
        policy,
        "records",
        (usable + unusable + opted_out, usable + unusable),
        AttritionStep(counted.RECORDS_STEP, "records", usable, None, "rows in quarantine", shape=own),
        AttritionStep(
            counted.RELEASED_RECORDS_STEP, "records", released, counted.RECORDS_STEP, "classes below k", "data/Records.csv"
        ),
    )


def record_counts(
    policy: FlatPolicy, steps: Iterable[AttritionStep], tables: Mapping[str, Table], shape_of_rows: str
) -> pd.DataFrame:
    """Count records by step and by characteristic; parameters and result as those of `cohort_counts`.

    `least` is the number of records that are released.
    """
    most = policy.records_per_person
    rows = step_rows(steps, shape_of_rows, most)
    records, suppressed = tables["records"], tables["suppressed_records"]
    column_of = {one.release_as: one.column for one in policy.columns}
    for name, level in levels_of_records(policy).items():
        found = by_level(policy.hierarchy_of(name), level, records.query(queries.records_by_value(records, suppressed, name)))
        rows += class_rows(column_of[name], found, shape(policy, *_OF_RECORDS), most)
    for name, values in level_or_values(policy.counts.characteristics or {})[1].items():
        found = by_values(values, records.query(queries.records_by_value(records, suppressed, name)))
        rows += class_rows(column_of[name], found, shape(policy, *_OF_RECORDS), most)
    return counted_frame(rows)


def people_steps(policy: CohortPolicy, delivery: Delivery, tables: Mapping[str, Table]) -> tuple[AttritionStep, ...]:
    """People in and out of every step; exact, for the restricted edition. The files tell how many were usable."""
    people, unusable = tables["cohort_people"].count(), tables["quarantined_people"]
    left_out = unusable.query(
        f"""SELECT count(DISTINCT record) FILTER (rule <> ?) AS unusable, count(DISTINCT record) FILTER (rule = ?) AS opted
            FROM {unusable.sql}""",
        [OPTED_OUT, OPTED_OUT],
    ).iloc[0]
    released, file = tables["release_people"].count(), "data/People.csv"
    usable_or_not = people + int(left_out["unusable"])
    return _steps(
        policy,
        "people",
        (usable_or_not + int(left_out["opted"]), usable_or_not),
        AttritionStep(counted.PEOPLE_STEP, "records", people, None, "rows in quarantine", file, shape(policy, *_OF_PEOPLE)),
        AttritionStep(counted.RELEASED_PEOPLE_STEP, "records", released, counted.PEOPLE_STEP, "none are left out", file),
    )


def people_counts(
    policy: CohortPolicy, steps: Iterable[AttritionStep], tables: Mapping[str, Table], shape_of_rows: str
) -> pd.DataFrame:
    """Count people by step and by characteristic; parameters and result as those of `cohort_counts`.

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
        rows += class_rows(name, ({label: label for label in level.labels}, found), shape(policy, *_OF_PEOPLE))
    column_of = {one.release_as: one.column for one in policy.attributes}
    for column, values in listed.items():
        found = _values_counted(policy, tables["cohort_people"], column)
        of_values = shape(policy, *_OF_PEOPLE, "attributes")
        rows += class_rows(column_of[column], by_values(values, found), of_values)
    return counted_frame(rows)


def _coarsest(attribute: Attribute) -> Level | None:
    """The level with the fewest classes, but several; None if there is none."""
    several = [level for level in attribute.levels if len(level.labels) > 1]
    return min(several, key=lambda level: len(level.labels), default=None)


def _values_counted(policy: CohortPolicy, people: Table, column: str) -> pd.DataFrame:
    """Columns value, members, sampled: people by the value of an attribute as it is published."""
    published = people.query(f"SELECT {attributes_sql(policy)} FROM {people.sql}")[column]
    found = published.value_counts(dropna=False).rename_axis("value").reset_index(name="members")
    return found.assign(sampled=found["members"])


def cohort_counts(
    policy: Policy, steps: Iterable[AttritionStep], tables: Mapping[str, Table], shape_of_rows: str
) -> pd.DataFrame:
    """Count members by step and by characteristic, and claims if the policy asks for them.

    Parameters
    ----------
    steps
        `attrition`.
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
        found = by_level(policy.hierarchy_of(column), level, profiles.query(counted.values_counted(profiles, cohort, column)))
        rows += class_rows(column, found, shape(policy, *COHORT_SECTIONS), identity=policy.identity(column))
    numbers = profiles.query(counted.values_counted(profiles, cohort, "claims"))
    bands = numbers.assign(label=[counted.claim_band(int(claims)) for claims in numbers["value"]])
    rows += class_rows(
        counted.NUMBER_OF_CLAIMS, ({band: band for band in counted.claim_bands()}, bands), shape(policy, *COHORT_SECTIONS)
    )
    # Several totals of a column have the sum over all members in common.
    rows += dict.fromkeys(row for total in policy.counts.totals for row in _totals(policy, total, profiles, cohort))
    if policy.counts.claims_per_member is not None:
        rows += _claims(policy, policy.counts.claims_per_member, tables)
    return counted_frame(rows)


def ordered_characteristics(policy: Policy) -> set[str]:
    """The characteristics whose classes have an order: bands of numbers."""
    columns = [qi.column for qi in policy.quasi_identifiers.all]
    bands = {
        column for column in columns if isinstance(policy.hierarchies[policy.quasi_identifier(column).hierarchy], IntervalsSpec)
    }
    return {counted.NUMBER_OF_CLAIMS, *bands}


def _claims(policy: Policy, per_member: int, tables: Mapping[str, Table]) -> Iterator[Row]:
    """Claims that were delivered and that remained; of a member, at most as many as hide them."""
    for place, (step, asset, sections) in enumerate(
        (("delivered_claims", "claims", ("source",)), ("eligible_claims", "eligible_claims", COHORT_SECTIONS))
    ):
        table = tables[asset]
        number = int(table.query(counted.claims_counted(rows_of(table), per_member))["claims"].iloc[0])
        own = shape(policy, *sections, per_member=per_member)
        yield (counted.CLAIMS, step, counted.REMAINING, place, number, per_member, 0, own, counted.REMAINING)


def _totals(policy: Policy, total: Total, profiles: Table, cohort: Table) -> Iterator[Row]:
    """The sum of a column over the cohort, and its parts by the classes of the characteristics that are named.

    Raises
    ------
    CountsError
        If two combinations of classes would have the same name.
    """
    most, own = most_of(policy, total.column) or 0, shape(policy, *COHORT_SECTIONS)
    # In one order, whatever the policy says: the same cell has the same noise.
    for by in dict.fromkeys(((), tuple(sorted(total.by, key=policy.identity)))):
        found = profiles.query(counted.totals_counted(profiles, cohort, total.column, by))
        levels = [
            by_level(policy.hierarchy_of(column), characteristics_of(policy)[column], found.rename(columns={name: "value"}))
            for column, name in zip(by, counted.names_by(by), strict=True)
        ]
        combined = list(product(*(classes.items() for classes, _ in levels)))
        classes = {_combined(label for label, _ in one): json.dumps([held for _, held in one]) for one in combined}
        if len(classes) < len(combined):
            raise CountsError(f"two combinations of classes of {', '.join(by)} have the same name; rename a label with a '|'")
        labels = (
            [_combined(one) for one in zip(*(labelled["label"] for _, labelled in levels), strict=True)]
            if by
            else [counted.ALL]
        )
        identity = counted.total_by(summed_of(policy, total.column), [policy.identity(column) for column in by])
        row = counted.total_by(total.column, by)
        for _, *cell in class_rows(row, (classes, found.assign(label=labels)), own, most, identity):
            yield counted.TOTALS, *cell


def _combined(labels: Iterable[str]) -> str:
    return " | ".join(labels) or counted.ALL


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
    def files(self) -> "dict[str, DataFrameSchema]":
        """The contracts of the files of counts, by name."""
        # Here, because commands that only read a release start sooner without contracts.
        from deid_assets.schemas.counts import files_of

        return files_of(self.unit, self.described)


LONGITUDINAL: Counting[Policy] = Counting(
    "longitudinal",
    unit="members",
    described="eligible members",
    sections=("source", "opt_outs", "removal", "sample", "quasi_identifiers", "hierarchies", "counts"),
    inputs=(
        "members", "claims", "removed_members", "eligible_members", "eligible_claims", "held", "member_profiles",
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
    steps=record_steps,
    counts=record_counts,
    # By their names in the delivery.
    ordered=lambda policy: {one.column for one in policy.columns if one.release_as in policy.counts.ordered},
)

COHORT: Counting[CohortPolicy] = Counting(
    "cohort",
    unit="records",
    described="people of the cohort",
    sections=("source", "opt_outs", "columns", "intake", "attributes", "counts"),
    inputs=("cohort_people", "quarantined_people", "population_cells", "release_people"),
    levels_in=(),
    levels=lambda policy, tables: {},
    steps=people_steps,
    counts=people_counts,
    ordered=lambda policy: set(policy.demographic_columns) & ORDERED,
)


def counting_of(policy: AnyPolicy) -> Counting[Any]:
    """How a policy's kind counts."""
    return {one.kind: one for one in (LONGITUDINAL, FLAT, COHORT)}[policy.kind]
