"""A cohort from its delivery to the gated release: no riskier than Safe Harbor (methods#demographics-risk)."""

import dagster as dg
import pandas as pd

from deid_assets.assessments.cohort_attributes import attribute_leaks, finding_refusals, findings_taken_in
from deid_assets.assessments.cohort_demographics import cells_in, notes_of, published, question_of
from deid_assets.assessments.cohort_risk import measured_risk
from deid_assets.assessments.demographic_verdicts import (
    REFERENCE,
    alternatives,
    frontier,
    frontier_rows,
    judge,
    tables_in_the_paper,
)
from deid_assets.assessments.evidence import Evidence, Refusal
from deid_assets.assessments.record_cross_release_risk import earlier_of, linked_refusals, not_compared, people_of_cohort
from deid_assets.assessments.registry import COHORT
from deid_assets.assets.assessment import assessment_asset
from deid_assets.assets.counts import ReleasedCounts, count_assets
from deid_assets.assets.one_table import KnownPeople, StagedCounts, made_of_the_same_inputs, released_differently, stage_table
from deid_assets.assets.published_tables import Made
from deid_assets.assets.publishing import (
    common_refusals,
    publish,
    read_evidence,
    refusal,
    releases_of,
    repeat_if_overtaken,
    telling_changed_policies,
)
from deid_assets.assets.stage_asset import markdown_table, prefix_of, shapes_of, stage_asset
from deid_assets.figures.demographics_figure import risk_and_detail_figure
from deid_assets.figures.rendering import markdown_image
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.release.cohort_rows import released_people, row_refusals
from deid_assets.release.counts.kinds import COHORT as COUNTING
from deid_assets.release.derived_keys import pseudonym_key
from deid_assets.release.gate import judgement
from deid_assets.release.gate.cross_check import SCHEMA
from deid_assets.release.manifest.dictionary import described_people
from deid_assets.release.manifest.optimality import certificate_refusals, stated_levels_certificate
from deid_assets.release.published_tables import PEOPLE as PEOPLE_FILE
from deid_assets.release.recurring_rows import Delivered, recurring_refusals
from deid_assets.release.same_delivery import other_cohort_refusals
from deid_assets.reports.cohort_report import cohort_report
from deid_assets.resources import Policies, Workplace, ended_in
from deid_assets.sources.cohort import PEOPLE, POPULATION, QUARANTINED
from deid_assets.stages import before_release, stages_of_kind
from deid_assets.store.digests import tables_digest
from deid_assets.store.tables import Table, drop_schema


@stage_asset(policy_sections=["columns", "attributes"])
def safe_harbor_findings(context: dg.AssetExecutionContext, cohort_people: Table, policies: Policies) -> pd.DataFrame:
    """Which of Safe Harbor's eighteen identifiers fails in which column as it was taken in; counts, never values."""
    found = findings_taken_in(policies.of(context, CohortPolicy), cohort_people)
    broken = found[found["source_column"].notna()]
    context.add_output_metadata(
        {
            "elements_broken": int(broken["letter"].nunique()),
            "findings": markdown_table(broken[["letter", "element", "source_column", "rule", "published"]]),
        }
    )
    return found


@stage_asset(policy_sections=["columns", "demographics", "risk"], kinds=("duckdb", "numpy"))
def policy_risks(
    context: dg.AssetExecutionContext, cohort_people: Table, population_cells: Table, policies: Policies
) -> pd.DataFrame:
    """Risk of Safe Harbor, of the published alternatives and of this policy, in the whole cohort and in every state."""
    policy = policies.of(context, CohortPolicy)
    found = judge(cells_in(policy, cohort_people, population_cells), question_of(policy))
    context.add_output_metadata(
        {name: markdown_table(table) for name, table in tables_in_the_paper(found).items()}
        | {"notes": list(notes_of(policy, cohort_people, population_cells))}
    )
    return found.rows


@stage_asset(policy_sections=["columns", "demographics", "risk"], kinds=("duckdb", "numpy"))
def policy_frontier(
    context: dg.AssetExecutionContext, cohort_people: Table, population_cells: Table, policies: Policies
) -> pd.DataFrame:
    """The finest policies that are no riskier than Safe Harbor in any state: what may be published instead."""
    policy = policies.of(context, CohortPolicy)
    cells, question = cells_in(policy, cohort_people, population_cells), question_of(policy)
    found = alternatives(cells, question)
    verdicts = judge(cells, question, found.alternatives)
    kept = frozenset(one.name for one in verdicts.policies if verdicts.no_riskier(one.name))
    figure = risk_and_detail_figure(frontier(cells, verdicts.policies), REFERENCE, kept)
    context.add_output_metadata(
        {
            "policies": found.policies,
            "policies_measured": found.measured,
            "frontier": dg.MetadataValue.md(markdown_image(figure, "every policy by risk and detail")),
        }
    )
    return frontier_rows(found)


@stage_asset(policy_sections=["columns", "demographics", "attributes", "risk"])
def release_people(
    context: dg.AssetExecutionContext, cohort_people: Table, population_cells: Table, policies: Policies, workplace: Workplace
) -> pd.DataFrame:
    """People as they would be published: pseudonyms, generalized demographics, and attributes."""
    policy = policies.of(context, CohortPolicy)
    return released_people(policy, cohort_people, population_cells, _key(context, workplace))


COUNTS = count_assets(COUNTING)

ASSESSMENTS = [assessment_asset(one, "cohort") for one in COHORT]


@stage_asset(
    policy_sections=[
        "recipients",
        "columns",
        "population",
        "demographics",
        "attributes",
        "risk",
        "releases",
        "counts",
        "reviewed_attributes",
    ],
    kinds=("duckdb", "parquet", "csv"),
    of_kind="cohort",
    stages=before_release(stages_of_kind("cohort")),
)
def release(
    context: dg.AssetExecutionContext,
    cohort_people: Table,
    quarantined_people: Table,
    population_cells: Table,
    safe_harbor_findings: Table,
    policy_risks: Table,
    policy_frontier: Table,
    release_people: Table,
    published_counts: Table,
    cohort_risk: Table,
    record_cross_release_risk: Table,
    count_disclosure_audit: Table,
    policies: Policies,
    workplace: Workplace,
) -> Made | None:
    """The published table: staged, measured again by its own labels, judged, and renamed into place. Or a refusal."""
    policy = policies.of(context, CohortPolicy)
    releases, file = releases_of(workplace), cohort_people.file
    with releases.stage(policy.name) as staging, telling_changed_policies(context, policy, workplace):
        try:
            staged = stage_table(staging, PEOPLE_FILE, release_people, policy.released_columns)
            digest = tables_digest({"release_people": staged})
            counted_in = (cohort_people, quarantined_people, population_cells, release_people)
            counts = ReleasedCounts.of(policy, workplace, context.partition_key, {table.name: table for table in counted_in})
            of_counts = StagedCounts.of(counts, staging, published_counts)
            evidence, refusals = read_evidence((cohort_risk, record_cross_release_risk, count_disclosure_audit))
            refusals += of_counts.refusals
            refusals += common_refusals(context, policy, workplace, file, evidence, (PEOPLE, QUARANTINED, POPULATION))
            expected = released_people(policy, cohort_people, population_cells, _key(context, workplace))
            refusals += row_refusals(policy, staged, expected)
            refusals += judgement.evidence_refusals(policy, context.partition_key, evidence, digest)
            measured = (*measured_risk(policy, staged, cohort_people, population_cells), *of_counts.measured)
            refusals += judgement.measurement_refusals("gate", measured)
            refusals += finding_refusals(policy, staged)
            leaks, leaking = attribute_leaks(policy, staged, cohort_people, population_cells)
            refusals += leaking
            proof = stated_levels_certificate(policy)
            table_of_people = people_of_cohort(policy, cohort_people, population_cells)
            people = table_of_people.released_tags(workplace.tags_in_order)

            def beside_earlier_releases() -> list[Refusal]:
                known, same = workplace.earlier_of(context.partition_key), made_of_the_same_inputs(context, policy, workplace)
                digest, commitment = workplace.delivery(context.partition_key).digest(), workplace.secret().commitment()
                others = other_cohort_refusals(policy, digest, workplace.releases_made(), people, commitment)
                linked = linked_refusals(policy, evidence, known, people, same)
                recurring = recurring_refusals(
                    policy.releases,
                    staged,
                    workplace.home.releases,
                    earlier_of(policy, known, people).of_others,
                    policy.columns.person.release_as,
                    Delivered(cohort_people, workplace.stores_of_releases(), context.run.run_id, ended_in(context.instance)),
                )
                return [*released_differently(context, policy, workplace), *others, *linked, *recurring]

            refusals += [*certificate_refusals(proof), *beside_earlier_releases(), *staging.refusals()]
            if refusals:
                repeat_if_overtaken(context, refusals)
                raise refusal(refusals)
            levels = published(policy, cells_in(policy, cohort_people, population_cells))
            of_counts.write_dictionary(staging, described_people(policy, levels, staged))
            notes = notes_of(policy, cohort_people, population_cells)
            gate = Evidence("gate", context.partition_key, policy.hash, digest, "2", (*measured, *leaks))
            passed = of_counts.passed(
                (*evidence, gate),
                proof,
                shapes_of(policy, workplace.delivery(context.partition_key), {}),
                lambda public: cohort_report(policy, public, notes),
                lambda: not beside_earlier_releases(),
                KnownPeople.of(table_of_people, people, workplace.tags_in_order),
                not_compared=not_compared(policy, workplace.earlier_of(context.partition_key), people),
            )
            return publish(context, policy, workplace, releases, staging, passed)
        finally:
            drop_schema(file, SCHEMA)
            drop_schema(file, "scratch")


def _key(context: dg.AssetExecutionContext, workplace: Workplace) -> bytes:
    """The key of the pseudonyms of this policy and delivery."""
    return pseudonym_key(workplace.secret(), prefix_of(context), context.partition_key, "member")
