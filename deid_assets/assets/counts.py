"""Counts: how many members each step left and who they are, exactly and as they are published."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from deid_assets.assessments.count_disclosure import count_measurements
from deid_assets.assessments.evidence import Measurement, Refusal
from deid_assets.assessments.registry import noise_plan
from deid_assets.assets.step import StageAsset, Step, shapes_of, stage_asset
from deid_assets.errors import CountsError, RefusedError
from deid_assets.methods.counts.budget import NoisyCell
from deid_assets.methods.counts.published_tables import EarlierTables
from deid_assets.methods.counts.tables import CellName, Sum
from deid_assets.methods.dates.errors import ReleasedDates
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.policy.models import Policy
from deid_assets.release.counts.cells import counted_frame
from deid_assets.release.counts.kinds import LONGITUDINAL, Counting, counting_of
from deid_assets.release.counts.ledger import files_of, sds_by_definition
from deid_assets.release.counts.noise import DeliveryNoise, Plan
from deid_assets.release.counts.published import file_tables, later_steps, planned_cells, planned_sums
from deid_assets.release.counts.published import published_counts as protected
from deid_assets.release.cumulative import tables_made
from deid_assets.release.gate.judgement import count_refusals
from deid_assets.release.keys import date_keys
from deid_assets.release.manifest.described_dates import described_dates
from deid_assets.release.manifest.dictionary import DescribedTable, described_counts
from deid_assets.release.manifest.public_numbers import AttritionStep, PublicNumbers
from deid_assets.release.publication.publish import Staging
from deid_assets.release.publication.waiting import REGISTRY
from deid_assets.release.registry.chain import Chain, Registry
from deid_assets.release.registry.noise_charges import NoisyPublication, budget_of
from deid_assets.release.staged_files import stage_counts
from deid_assets.resources import Workplace
from deid_assets.store.tables import Table

FURTHEST_OFF = CellName("dates", "members", "beyond the percentile")
"""The only number about people in what a release says about its dates."""


def count_assets(counting: Counting[Any]) -> list[StageAsset]:
    """Make the assets of the counts of one kind of policy: exact, and as they are published."""

    @stage_asset(
        name="cohort_counts", of_kind=counting.kind, policy_sections=counting.sections, inputs=counting.inputs,
        description="Exact counts, restricted: how many remained after each step, who they are, and claims if asked for. No "
        "rows if the policy publishes no tables.",
    )  # fmt: skip
    def cohort_counts(step: Step[AnyPolicy], **tables: Table) -> pd.DataFrame:
        return _counted(step, tables)[1]

    @stage_asset(
        name="published_counts", of_kind=counting.kind, policy_sections=["counts"],
        inputs=["cohort_counts", *counting.levels_in],
        description="The counts as they are published: with noise that the budget covers, or masked. Refused if neither is "
        "possible.",
    )  # fmt: skip
    def published_counts(step: Step[AnyPolicy], **tables: Table) -> pd.DataFrame:
        policy, counts = step.policy, tables["cohort_counts"].frame()
        plan = release_plan(step, counts, counting.levels(policy, tables))
        require_budget(step, plan.cells, planned_sums(policy, counts))
        return protect_or_refuse(policy, counts, delivery_noise(step))

    return [cohort_counts, published_counts]


COUNTS = count_assets(LONGITUDINAL)
"""The assets of a longitudinal policy's counts."""


def release_plan(step: Step[AnyPolicy], counts: pd.DataFrame, levels: Mapping[str, int]) -> Plan:
    """All noisy cells of the release that is in the making that are known: of its tables, dates, manifest and report.

    Measurements are not made yet. Those that will have no value are in the plan, too.
    """
    policy, noise = step.policy, delivery_noise(step)
    plan = Plan(noise, planned_cells(policy, counts, noise))
    for name, shape in later_steps(policy, counts).items():
        plan.note(name, shape, 0)
    if policy.dates is not None:
        plan_dates(step, plan)
    shapes = shapes_of(policy, step.delivery, levels)
    PublicNumbers(plan.note, shapes).measurements(noise_plan(policy))
    return plan


def delivery_noise(step: Step[AnyPolicy]) -> DeliveryNoise:
    """The noise of a delivery's public numbers."""
    return DeliveryNoise.of(step.secret, step.delivery.digest(), step.policy.counts, step.policy.records_per_person)


def plan_dates(step: Step[AnyPolicy], plan: Plan) -> None:
    """Add the only number about people in what a release says about its dates to the plan, before it is drawn."""
    plan.note(FURTHEST_OFF, _shape_of_dates(step), 0)


def told_of_dates(step: Step[Policy], released: ReleasedDates, plan: Plan) -> dict[str, Any]:
    """Describe the dates of a release, see `described_dates`; the same rows give the same noise."""
    shape = _shape_of_dates(step)
    _, *compared_with = date_keys(step.secret, *step.names)
    return described_dates(step.policy, released, lambda count: plan.protect(FURTHEST_OFF, shape, count), compared_with)


def _shape_of_dates(step: Step[AnyPolicy]) -> str:
    return shapes_of(step.policy, step.delivery, {})["class_sizes"]


def require_budget(step: Step[AnyPolicy], cells: tuple[NoisyCell, ...], sums: tuple[Sum, ...]) -> None:
    """Refuse cells that the budget of noise does not cover; call it before they are drawn.

    Raises
    ------
    RefusedError
        If the total would be exceeded, or a cell is locked out.
    """
    try:
        NoisyPublication(step.policy.counts, cells, sums).budget_after(_chain(step.workplace))
    except CountsError as error:
        raise RefusedError(f"refused by the budget of noise: {error}") from None


def protect_or_refuse(policy: AnyPolicy, counts: pd.DataFrame, noise: DeliveryNoise) -> pd.DataFrame:
    """Protect counts.

    Raises
    ------
    RefusedError
        If masked tables would give small counts away.
    """
    try:
        return protected(policy, counts, noise)
    except CountsError as error:
        raise RefusedError(f"refused: {error}") from None


def earlier_tables(workplace: Workplace) -> EarlierTables:
    """The tables of earlier releases, and which cells `deid counts` published in files of the home."""
    in_files: dict[bool, set[CellName]] = {True: set(), False: set()}
    for file in files_of(workplace.home):
        in_files[file.rule is not None].update(file.cells)
    return replace(
        tables_made(workplace.releases_made()),
        in_masked_files=frozenset(in_files[True]),
        in_noisy_files=frozenset(in_files[False]),
    )


def earlier_noise(step: Step[AnyPolicy], published: pd.DataFrame) -> dict[str, tuple[float, ...]]:
    """With which standard deviations cells were published before, in draws other than theirs: `Budget.earlier_sds`.

    The registry knows the noise of files by what cells are called there, not by what they count.
    """
    draws = published["draw"].astype(object).where(published["draw"].notna(), None)
    found = budget_of(_chain(step.workplace), step.policy.counts).earlier_sds(
        dict(zip(published["definition"], draws, strict=True))
    )
    in_files = sds_by_definition(published, files_of(step.workplace.home))
    return {cell: (*sds, *in_files.get(cell, ())) for cell, sds in found.items()}


@dataclass(frozen=True)
class ReleasedCounts:
    """The counts of a release, as the gate counts and protects them again.

    Attributes
    ----------
    steps
        Exact number of rows after every stage.
    plan, sums
        The noisy cells and their sums.
    published
        The protected tables; without rows if the policy publishes none.
    """

    step: Step[AnyPolicy]
    steps: tuple[AttritionStep, ...]
    plan: Plan
    sums: tuple[Sum, ...]
    published: pd.DataFrame

    @classmethod
    def of(cls, step: Step[AnyPolicy], tables: Mapping[str, Table]) -> "ReleasedCounts":
        """Count again, ask the budget, and only then protect. What is told of dates is drawn before the manifest is made, too.

        Raises
        ------
        RefusedError
            If the budget of noise does not cover the cells, or masks do not hide small counts.
        """
        policy, noise = step.policy, delivery_noise(step)
        steps, counts = _counted(step, tables)
        plan, sums = Plan(noise, planned_cells(policy, counts, noise)), planned_sums(policy, counts)
        if policy.dates is not None:
            plan_dates(step, plan)
        require_budget(step, plan.cells, sums)
        return cls(step, steps, plan, sums, protect_or_refuse(policy, counts, noise))

    @property
    def are_published(self) -> bool:
        """Whether the policy publishes tables."""
        return self.step.policy.counts.protection != "none"

    @property
    def stated(self) -> pd.DataFrame | None:
        """The tables for the manifest. That of a release of claims has a place for them, also where there are none."""
        return self.published if self.are_published or self.step.policy.has_events else None

    def staged(self, staging: Staging, stored: Table) -> tuple[dict[str, Table], list[Refusal]]:
        """Write the stored tables as files, and compare what is read back with the gate's own tables."""
        if not self.are_published:
            return {}, []
        staged = stage_counts(staging, file_tables(self.step.policy, stored.frame()), stored)
        return staged, count_refusals(
            staged, file_tables(self.step.policy, self.published), counting_of(self.step.policy).files
        )

    def described(self, staged: Mapping[str, Table]) -> dict[str, DescribedTable]:
        """The staged tables for the dictionary."""
        return described_counts(staged, counting_of(self.step.policy).files)

    def measured(self) -> tuple[Measurement, ...]:
        """What an adversary learns of the tables, from the registry and the earlier releases that exist now."""
        if not self.are_published:
            return ()
        noise = earlier_noise(self.step, self.published)
        return count_measurements(self.step.policy, self.published, earlier_tables(self.step.workplace), noise)


def _chain(workplace: Workplace) -> Chain:
    """The registry; read without the lock of the releases, which the publication holds when it asks again."""
    return Registry(workplace.home.releases / REGISTRY).chain()


def _counted(step: Step[AnyPolicy], tables: Mapping[str, Table]) -> tuple[tuple[AttritionStep, ...], pd.DataFrame]:
    policy, received = step.policy, step.delivery
    counting = counting_of(policy)
    steps = counting.steps(policy, received, tables)
    if policy.counts.protection == "none":
        return steps, counted_frame()
    shape_of_rows = shapes_of(policy, received, counting.levels(policy, tables))[""]
    return steps, counting.counts(policy, steps, tables, shape_of_rows)
