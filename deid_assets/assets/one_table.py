"""The release of one table of rows, one or a few for each person: of a flat table, and of a cohort."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deid_assets.assessments.evidence import Evidence, Measurement, Refusal
from deid_assets.assessments.record_cross_release_risk import PeopleTable, earlier_of, linked_refusals, not_compared
from deid_assets.assets import publishing
from deid_assets.assets.counts import ReleasedCounts
from deid_assets.assets.published_tables import Made
from deid_assets.assets.step import StageAsset, Step, shapes_of, stage_asset
from deid_assets.errors import ReleaseError
from deid_assets.methods.lattice.certificate import OptimalityCertificate
from deid_assets.policy.kinds import Kind
from deid_assets.release.gate import judgement
from deid_assets.release.gate.cross_check import SCHEMA
from deid_assets.release.kept_file import parquet_of
from deid_assets.release.manifest.dictionary import FILE as DICTIONARY
from deid_assets.release.manifest.dictionary import DescribedTable, dictionary
from deid_assets.release.manifest.editions import Kept
from deid_assets.release.manifest.optimality import certificate_refusals
from deid_assets.release.publication.publish import Staging
from deid_assets.release.recurring_rows import DeliveredRows, recurring_refusals
from deid_assets.release.same_delivery import other_release_refusals
from deid_assets.resources import ended_in
from deid_assets.stages import before_release, stages_of_kind
from deid_assets.store.digests import tables_digest
from deid_assets.store.tables import Table, connect

Tables = Mapping[str, Table]
"""The tables that the release reads, by the names of their assets."""


@dataclass(frozen=True)
class GateFindings:
    """What the gate found in the staged rows.

    Attributes
    ----------
    rows
        Why they are not the rows that the restricted store gives.
    further
        Why they must not be published besides, but for measurements that fail.
    risk, beside
        What was measured: the gates, and what is judged by refusals of its own.
    proof
        Why the levels are optimal, or that the policy states them.
    people
        Whose the rows are.
    levels, level_names
        The level of every quasi-identifier, and its name for later releases; none if the policy states them.
    others
        Given the digest of the delivery and the tags of the released people: further reasons that other releases give.
    described
        The staged table for the dictionary.
    report
        Renders the report from the public edition of the manifest.
    """

    rows: Sequence[Refusal]
    further: Sequence[Refusal]
    risk: tuple[Measurement, ...]
    beside: tuple[Measurement, ...]
    proof: OptimalityCertificate
    people: PeopleTable
    levels: Mapping[str, int]
    level_names: Mapping[str, str] | None
    others: Callable[[str, np.ndarray | None], list[Refusal]]
    described: Callable[[], Mapping[str, DescribedTable]]
    report: Callable[[bytes], bytes]


@dataclass(frozen=True)
class OneTable:
    """How the table of one kind of policies is released.

    Attributes
    ----------
    taken_in, candidate, file
        Names of the rows as they were taken in and as they would be published, and of the published file.
    columns
        The released columns, as a policy says now.
    pseudonym
        The released column of pseudonyms; None if the release has none.
    version
        Of the gate's measurements.
    judge
        Measures the staged rows.
    """

    taken_in: str
    candidate: str
    file: str
    columns: Callable[[Any], Sequence[str]]
    pseudonym: Callable[[Any], str | None]
    version: str
    judge: Callable[[Step[Any], Tables, Table], GateFindings]


def release_asset(
    kind: Kind, policy_sections: Sequence[str], inputs: Sequence[str], one: OneTable, description: str
) -> StageAsset:
    """Make the asset of the release of one kind of policies."""
    stages = stages_of_kind(kind)

    @stage_asset(
        name="release",
        of_kind=kind,
        description=description,
        policy_sections=policy_sections,
        kinds=("duckdb", "parquet", "csv"),
        inputs=(*inputs, one.candidate, "published_counts", *stages["assessment"]),
        stages=before_release(stages),
    )
    def release(step: Step[Any], **tables: Table) -> Made | None:
        with publishing.staged_release(step, tables[one.taken_in].file) as (releases, staging):
            return publishing.publish(step, releases, staging, _judged(step, one, staging, tables))

    return release


def _judged(step: Step[Any], one: OneTable, staging: Staging, tables: Tables) -> publishing.Passed:
    """Stage the table, judge what is read back, and describe it; a refusal has every reason."""
    policy, workplace, rows = step.policy, step.workplace, tables[one.taken_in]
    staged = _stage_table(staging, one.file, tables[one.candidate], one.columns(policy))
    digest = tables_digest({one.candidate: staged})
    counts = ReleasedCounts.of(step, tables)
    staged_counts, refusals_of_counts = counts.staged(staging, tables["published_counts"])
    of_counts = counts.measured()
    evidence, refusals = publishing.read_evidence([tables[name] for name in stages_of_kind(policy.kind)["assessment"]])
    refusals += refusals_of_counts
    refusals += publishing.common_refusals(step, evidence)
    found = one.judge(step, tables, staged)
    refusals += found.rows
    refusals += judgement.evidence_refusals(policy, step.key, evidence, digest)
    measured = (*found.risk, *of_counts)
    refusals += judgement.measurement_refusals("gate", measured)
    refusals += found.further
    released, delivery_digest = found.people.released_tags(workplace.tags_in_order), step.delivery.digest()

    def beside_earlier_releases() -> list[Refusal]:
        known, made = workplace.earlier_of(step.key), workplace.releases_made()
        recurring = recurring_refusals(
            policy.releases,
            staged,
            step.home.releases,
            earlier_of(policy, known, released).of_others,
            one.pseudonym(policy),
            DeliveredRows(rows, workplace.stores_of_releases(), step.context.run.run_id, ended_in(step.instance)),
        )
        return [
            *other_release_refusals(policy, delivery_digest, made),
            *found.others(delivery_digest, released),
            *linked_refusals(policy, evidence, known, released, publishing.made_of_the_same_inputs(step, delivery_digest)),
            *recurring,
        ]

    refusals += [*certificate_refusals(found.proof), *beside_earlier_releases(), *staging.refusals()]
    if refusals:
        publishing.repeat_if_overtaken(step, refusals)
        raise publishing.refusal(refusals)
    staging.write_json(DICTIONARY, dictionary({**found.described(), **counts.described(staged_counts)}))
    return publishing.Passed(
        (*evidence, Evidence("gate", step.key, policy.hash, digest, one.version, (*measured, *found.beside))),
        counts,
        found.proof,
        counts_people=True,
        shapes=shapes_of(policy, step.delivery, found.levels),
        report=found.report,
        still_so=lambda: not beside_earlier_releases() and counts.measured() == of_counts,
        # Nothing is kept of people whom nothing identifies.
        kept=Kept(
            b"" if released is None else released.tobytes(),
            rows=b"" if released is None else parquet_of(found.people.write_kept(workplace.tags_in_order)),
            generalization=found.level_names,
            not_compared=not_compared(policy, workplace.earlier_of(step.key), released),
        ),
    )


def _stage_table(staging: Staging, name: str, candidate: Table, columns: Sequence[str]) -> Table:
    """Write the files of a table, and read them back into the scratch schema.

    Parameters
    ----------
    columns
        Of the release, as the policy says now.

    Raises
    ------
    ReleaseError
        If the table has other columns: the policy was changed since it was made.
    """
    made = set(candidate.columns())
    if made != set(columns):
        differing = ", ".join(sorted(made ^ set(columns)))
        raise ReleaseError(
            f"{candidate.name} was made with other columns than the policy publishes now ({differing}): the policy was changed "
            "since; run the whole job again"
        )
    with connect(candidate.file) as connection:
        staging.write_table(connection, name, candidate)
    staged = Table(candidate.file, SCHEMA, f"staged_{candidate.name}")
    staging.read_into(name, staged)
    return staged
