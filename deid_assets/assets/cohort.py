"""A cohort from its delivery to the gated release: no riskier than Safe Harbor (methods#demographics-risk)."""

import numpy as np
import pandas as pd

from deid_assets.assessments.cohort_demographics import (
    attribute_leaks,
    cells_in,
    finding_refusals,
    findings_taken_in,
    notes_of,
    published,
    question_of,
)
from deid_assets.assessments.cohort_risk import measured_risk
from deid_assets.assessments.demographic_verdicts import (
    REFERENCE,
    alternatives,
    frontier,
    frontier_rows,
    judge,
    tables_in_the_paper,
)
from deid_assets.assessments.evidence import Refusal
from deid_assets.assessments.record_cross_release_risk import people_of_cohort
from deid_assets.assessments.registry import COHORT
from deid_assets.assets.assessment import assessment_asset
from deid_assets.assets.counts import count_assets
from deid_assets.assets.one_table import Judged, OneTable, Tables, release_asset
from deid_assets.assets.stage_asset import image, markdown_table, stage_asset
from deid_assets.assets.step import Step
from deid_assets.figures.demographics_figure import risk_and_detail_figure
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.release.counts.kinds import COHORT as COUNTING
from deid_assets.release.derived_keys import pseudonym_key
from deid_assets.release.manifest.dictionary import described_people
from deid_assets.release.manifest.optimality import stated_levels_certificate
from deid_assets.release.published_tables import PEOPLE as PEOPLE_FILE
from deid_assets.release.same_delivery import other_cohort_refusals
from deid_assets.release.staged_files import people_refusals, people_to_release
from deid_assets.reports.cohort_report import cohort_report
from deid_assets.sources.cohort import PEOPLE, POPULATION, QUARANTINED
from deid_assets.store.tables import Table


@stage_asset(policy_sections=["columns", "attributes"])
def safe_harbor_findings(step: Step[CohortPolicy], cohort_people: Table) -> pd.DataFrame:
    """Which of Safe Harbor's eighteen identifiers fails in which column as it was taken in; counts, never values."""
    found = findings_taken_in(step.policy, cohort_people)
    broken = found[found["source_column"].notna()]
    step.tell(
        {
            "elements_broken": int(broken["letter"].nunique()),
            "findings": markdown_table(broken[["letter", "element", "source_column", "rule", "published"]]),
        }
    )
    return found


@stage_asset(policy_sections=["columns", "demographics", "risk"], kinds=("duckdb", "numpy"))
def policy_risks(step: Step[CohortPolicy], cohort_people: Table, population_cells: Table) -> pd.DataFrame:
    """Risk of Safe Harbor, of the published alternatives and of this policy, in the whole cohort and in every state."""
    policy = step.policy
    found = judge(cells_in(policy, cohort_people, population_cells), question_of(policy))
    step.tell(
        {name: markdown_table(table) for name, table in tables_in_the_paper(found).items()}
        | {"notes": list(notes_of(policy, cohort_people, population_cells))}
    )
    return found.rows


@stage_asset(policy_sections=["columns", "demographics", "risk"], kinds=("duckdb", "numpy"))
def policy_frontier(step: Step[CohortPolicy], cohort_people: Table, population_cells: Table) -> pd.DataFrame:
    """The finest policies that are no riskier than Safe Harbor in any state: what may be published instead."""
    policy = step.policy
    cells, question = cells_in(policy, cohort_people, population_cells), question_of(policy)
    found = alternatives(cells, question)
    verdicts = judge(cells, question, found.alternatives)
    kept = frozenset(one.name for one in verdicts.policies if verdicts.no_riskier(one.name))
    figure = risk_and_detail_figure(frontier(cells, verdicts.policies), REFERENCE, kept)
    step.tell(
        {
            "policies": found.policies,
            "policies_measured": found.measured,
            "frontier": image(figure, "every policy by risk and detail"),
        }
    )
    return frontier_rows(found)


@stage_asset(policy_sections=["columns", "demographics", "attributes", "risk"])
def release_people(step: Step[CohortPolicy], cohort_people: Table, population_cells: Table) -> pd.DataFrame:
    """People as they would be published: pseudonyms, generalized demographics, and attributes."""
    policy = step.policy
    return people_to_release(policy, cohort_people, population_cells, _key(step))


COUNTS = count_assets(COUNTING)

ASSESSMENTS = [assessment_asset(one, "cohort") for one in COHORT]


def _judged(step: Step[CohortPolicy], tables: Tables, staged: Table) -> Judged:
    policy, people, population = step.policy, tables[PEOPLE], tables[POPULATION]
    leaks, leaking = attribute_leaks(policy, staged, people, population)

    def others(delivery_digest: str, released: np.ndarray | None) -> list[Refusal]:
        made, commitment = step.workplace.releases_made(), step.secret.commitment()
        return other_cohort_refusals(policy, delivery_digest, made, released, commitment)

    return Judged(
        rows=people_refusals(policy, staged, people_to_release(policy, people, population, _key(step))),
        further=[*finding_refusals(policy, staged), *leaking],
        risk=measured_risk(policy, staged, people, population),
        beside=tuple(leaks),
        proof=stated_levels_certificate(policy),
        people=people_of_cohort(policy, people, population),
        levels={},
        level_names=None,
        others=others,
        described=lambda: described_people(policy, published(policy, cells_in(policy, people, population)), staged),
        report=lambda public: cohort_report(policy, public, notes_of(policy, people, population)),
    )


release = release_asset(
    "cohort",
    [
        "recipients", "columns", "population", "demographics", "attributes", "risk", "releases", "counts",
        "reviewed_attributes",
    ],
    (PEOPLE, QUARANTINED, POPULATION, "safe_harbor_findings", "policy_risks", "policy_frontier"),
    OneTable(
        taken_in=PEOPLE,
        candidate="release_people",
        file=PEOPLE_FILE,
        columns=lambda policy: policy.released_columns,
        pseudonym=lambda policy: policy.columns.person.release_as,
        version="2",
        judge=_judged,
    ),
    "The published table: staged, measured again by its own labels, judged, and renamed into place. Or a refusal.",
)  # fmt: skip


def _key(step: Step[CohortPolicy]) -> bytes:
    """The key of the pseudonyms of this policy and delivery."""
    return pseudonym_key(step.secret, *step.names, "member")
