"""A cohort from its delivery to the gated release: no riskier than Safe Harbor (methods#demographics-risk)."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from deid_assets.assessments import cohort_demographics as demographics
from deid_assets.assessments import demographic_verdicts as of_policies
from deid_assets.assessments.cohort_risk import measured_risk
from deid_assets.assessments.evidence import Refusal
from deid_assets.assessments.record_cross_release_risk import people_of_cohort
from deid_assets.assessments.registry import COHORT
from deid_assets.assets.assessment import assessment_asset
from deid_assets.assets.counts import count_assets
from deid_assets.assets.one_table import GateFindings, OneTable, Tables, release_asset
from deid_assets.assets.step import Step, image, markdown_table, stage_asset
from deid_assets.assets.taking_in import Read, intake_assets, require_known_opt_outs
from deid_assets.figures.demographics_figure import risk_and_detail_figure
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.release.counts.kinds import COHORT as COUNTING
from deid_assets.release.keys import pseudonym_key
from deid_assets.release.manifest.dictionary import described_people
from deid_assets.release.manifest.optimality import stated_levels_certificate
from deid_assets.release.published_tables import PEOPLE as PEOPLE_FILE
from deid_assets.release.same_delivery import other_cohort_refusals
from deid_assets.release.staged_files import people_refusals, people_to_release
from deid_assets.reports.cohort_report import cohort_report
from deid_assets.sources.cohort import PEOPLE, POPULATION, QUARANTINED, read_cohort_delivery
from deid_assets.store.tables import Table, write_table

_DESCRIPTIONS = {
    PEOPLE: "The people of the cohort with their demographics and attributes, numbered in the order of the file.",
    QUARANTINED: "Rows that could not be used, with the rules that they break; restricted.",
    POPULATION: "The table of the population: people by place, sex, race and ages.",
}


@intake_assets(_DESCRIPTIONS, ["source", "intake", "columns", "population", "attributes", "opt_outs"], "1")
def cohort_intake(step: Step[CohortPolicy], tables: Mapping[str, Table]) -> Read:
    """Read the delivered cohort, and the population's table that the policy names."""
    policy, store = step.policy, tables[PEOPLE].file.parent
    read = read_cohort_delivery(step.delivery, policy.layout, policy.population.below(Path()), store, policy.opt_outs.people)
    days = {name: read.cohort.people[name].dt.date for name in policy.layout.dates}
    write_table(tables[PEOPLE], read.cohort.people.assign(**days))
    write_table(tables[QUARANTINED], read.cohort.unusable)
    write_table(tables[POPULATION], read.population.people.assign(note="; ".join(read.population.warnings)))
    require_known_opt_outs(step, read.cohort.left_out)
    return read.digest, {
        PEOPLE: read.cohort.report.metadata(),
        QUARANTINED: {"rows": len(read.cohort.unusable)},
        POPULATION: {"people": read.population.total(), "warnings": list(read.population.warnings)},
    }


@stage_asset(policy_sections=["columns", "attributes"])
def safe_harbor_findings(step: Step[CohortPolicy], cohort_people: Table) -> pd.DataFrame:
    """Which of Safe Harbor's eighteen identifiers fails in which column as it was taken in; counts, never values."""
    found = demographics.findings_taken_in(step.policy, cohort_people)
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
    found = of_policies.judge(demographics.cells_in(policy, cohort_people, population_cells), demographics.question_of(policy))
    step.tell(
        {name: markdown_table(table) for name, table in of_policies.tables_in_the_paper(found).items()}
        | {"notes": list(demographics.population_notes(policy, cohort_people, population_cells))}
    )
    return found.rows


@stage_asset(policy_sections=["columns", "demographics", "risk"], kinds=("duckdb", "numpy"))
def policy_frontier(step: Step[CohortPolicy], cohort_people: Table, population_cells: Table) -> pd.DataFrame:
    """The finest policies that are no riskier than Safe Harbor in any state: what may be published instead."""
    policy = step.policy
    cells, question = demographics.cells_in(policy, cohort_people, population_cells), demographics.question_of(policy)
    found = of_policies.alternatives(cells, question)
    verdicts = of_policies.judge(cells, question, found.alternatives)
    kept = frozenset(one.name for one in verdicts.policies if verdicts.no_riskier(one.name))
    figure = risk_and_detail_figure(of_policies.frontier(cells, verdicts.policies), of_policies.REFERENCE, kept)
    step.tell(
        {
            "policies": found.policies,
            "policies_measured": found.measured,
            "frontier": image(figure, "every policy by risk and detail"),
        }
    )
    return of_policies.frontier_rows(found)


@stage_asset(policy_sections=["columns", "demographics", "attributes", "risk"])
def release_people(step: Step[CohortPolicy], cohort_people: Table, population_cells: Table) -> pd.DataFrame:
    """People as they would be published: pseudonyms, generalized demographics, and attributes."""
    policy = step.policy
    return people_to_release(policy, cohort_people, population_cells, _key(step))


COUNTS = count_assets(COUNTING)

ASSESSMENTS = [assessment_asset(one, "cohort") for one in COHORT]


def _judged(step: Step[CohortPolicy], tables: Tables, staged: Table) -> GateFindings:
    policy, people, population = step.policy, tables[PEOPLE], tables[POPULATION]
    leaks, leaking = demographics.attribute_leaks(policy, staged, people, population)

    def others(delivery_digest: str, released: np.ndarray | None) -> list[Refusal]:
        made, commitment = step.workplace.releases_made(), step.secret.commitment()
        return other_cohort_refusals(policy, delivery_digest, made, released, commitment)

    return GateFindings(
        rows=people_refusals(policy, staged, people_to_release(policy, people, population, _key(step))),
        further=[*demographics.finding_refusals(policy, staged), *leaking],
        risk=measured_risk(policy, staged, people, population),
        beside=tuple(leaks),
        proof=stated_levels_certificate(policy),
        people=people_of_cohort(policy, people, population),
        levels={},
        level_names=None,
        others=others,
        described=lambda: described_people(
            policy, demographics.published(policy, demographics.cells_in(policy, people, population)), staged
        ),
        report=lambda public: cohort_report(policy, public, demographics.population_notes(policy, people, population)),
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
