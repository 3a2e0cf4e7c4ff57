"""Risk of a cohort's release beside that of Safe Harbor; the gate reads the labels of the staged rows again."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from deid_assets.assessments.assessment import DIFFERENCE, HALF, Adversary, Assessed, Assessment, Gate, Limit, Work, limit_of
from deid_assets.assessments.cohort_canaries import people_of_canaries
from deid_assets.assessments.cohort_demographics import (
    CROWDED,
    EXCESS,
    LARGEST_RISK,
    REFERENCE_RISK,
    cells_in,
    codes_of_labels,
    published,
    question_of,
    released_labels,
)
from deid_assets.assessments.demographic_verdicts import CONFIDENCE, STATES, Question, reference_of, rounded
from deid_assets.assessments.evidence import Measurement, exact
from deid_assets.assessments.precedents import SAFE_HARBOR
from deid_assets.methods.demographics.cells import Cells
from deid_assets.methods.demographics.class_sizes import ClassCounter
from deid_assets.methods.demographics.measures import LARGEST, TOTAL
from deid_assets.methods.demographics.recoded_classes import classes_with_ages
from deid_assets.methods.demographics.risk import bounded_risks, groups_by, no_riskier, risks_at
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.rules.limits import THIRD
from deid_assets.store.tables import Table, quoted

NAME = "cohort_risk"
_SECTION = "methods#demographics-risk"
_READ = ("cohort_people", "population_cells", "release_people")


def assess(work: Work[CohortPolicy]) -> Assessed:
    """Evidence: risk of the published labels in the population, beside the risk that Safe Harbor would leave."""
    policy, tables = work.policy, work.tables

    def attack(policy: CohortPolicy, tables: Mapping[str, Table]) -> tuple[Measurement, ...]:
        return measured_risk(policy, tables["release_people"], tables["cohort_people"], tables["population_cells"])

    canaries = people_of_canaries(policy, {name: tables[name] for name in _READ}, attack)
    return Assessed(attack(policy, tables), canaries)


@dataclass(frozen=True)
class Found:
    """What was measured: excess over Safe Harbor, Safe Harbor's own risk, and the largest record risk; None if nothing was."""

    excess: float | None = None
    reference: float | None = None
    largest: float | None = None


def measured_risk(policy: CohortPolicy, released: Table, people: Table, population: Table) -> tuple[Measurement, ...]:
    """Measure the rows to be published by their own labels.

    Parameters
    ----------
    released
        The rows as read back from the files.
    people, population
        As they were taken in. Classes are counted in the population; the people of the cohort are known to be in it.

    Returns
    -------
    tuple of Measurement
        Without values if the labels are not those of the people: then no class is known.
    """
    cells = cells_in(policy, people, population)
    read = _as_published(policy, cells, released)
    crowded = cells.warnings.crowded_records / cells.records
    return cohort_measurements(policy, Found() if read is None else _compared(policy, cells, read), crowded, cells.records)


def _as_published(policy: CohortPolicy, cells: Cells, released: Table) -> Cells | None:
    """The cohort with the values that the published labels tell; None if they are not the labels of these people."""
    columns = list(policy.demographic_columns.values())
    own = released_labels(policy, cells)
    shown = released.query(f"SELECT {', '.join(map(quoted, columns))} FROM {released.sql}").astype("str")
    in_order, order = shown.sort_values(columns, ignore_index=True), own.sort_values(columns).index
    if not in_order.equals(own.loc[order].reset_index(drop=True)):
        return None
    of_people = in_order.set_axis(order).sort_index()
    return replace(cells, codes=codes_of_labels(policy, cells, of_people))


def _compared(policy: CohortPolicy, cells: Cells, read: Cells) -> Found:
    question, made = question_of(policy), published(policy, cells)
    reference = reference_of(cells).node(cells.demographics)
    states, _ = groups_by(cells, *STATES)
    whole = np.zeros(cells.records, dtype=np.int64)
    # Safe Harbor itself is as risky as it is; an upper bound of its own risk would exceed it.
    bounded = question.at_upper_bound and (made.node != reference or len(made.ages) > 1)
    excess: list[float] = []
    for groups in (whole, states):
        classes, number = classes_with_ages(read, made.node, made.ages, made.level_of, groups), int(groups.max()) + 1
        found = bounded_risks(classes, question.deciding, number, CONFIDENCE)
        allowed = risks_at(ClassCounter(cells, groups).at(reference), question.deciding, number)
        excess.append(_excess(question, found.upper if bounded else found.expected, allowed, np.bincount(groups)))
    of_reference = risks_at(ClassCounter(cells).at(reference), [TOTAL], 1)
    classes = classes_with_ages(read, made.node, made.ages, made.level_of, whole)
    largest = bounded_risks(classes, [LARGEST], 1, CONFIDENCE).upper
    return Found(max(excess), float(of_reference[0, 0]) / cells.records, float(largest[0, 0]))


def _excess(question: Question, own: np.ndarray, allowed: np.ndarray, records: np.ndarray) -> float:
    """The greatest risk above that of the reference, over measures and groups; per record, or of one record."""
    sums = np.array([[measure.sums] for measure in question.deciding])
    difference = (own - allowed) / np.where(sums, records, 1)
    below = np.minimum(np.round(difference, 12), 0.0)
    return float(np.max(np.where(no_riskier(own, allowed), below, difference)))


def cohort_measurements(policy: CohortPolicy, found: Found, crowded: float, records: int) -> tuple[Measurement, ...]:
    """Rounded up, so that no number of people follows from what may be published."""
    risk, compares = policy.risk, policy.risk.no_riskier_than is not None

    def measured(name: str, value: float | None, limit: float | None) -> Measurement:
        shown = None if value is None else rounded(value, up=True)
        return exact(name, "probability", shown, limit, NAME, _SECTION, None, gating=limit is not None)

    beside = (
        measured(EXCESS, found.excess, 0.0),
        measured(REFERENCE_RISK, found.reference, float(THIRD)),
    )
    # Where nobody may be in such a row, passing tells the number.
    unit = "probability" if risk.crowded_at_most == 0 else "share of released records"
    return (
        *(beside if compares else ()),
        measured(LARGEST_RISK, found.largest, risk.largest_at_most),
        exact(CROWDED, unit, crowded, risk.crowded_at_most, NAME, _SECTION, records),
    )


COHORT_RISK = Assessment(
    NAME,
    adversary=Adversary(
        "Somebody with a list of the whole population and its demographics.",
        "The comparison is with what Safe Harbor would let such a person do.",
        SAFE_HARBOR,
    ),
    version="1",
    policy_sections=("columns", "population", "demographics", "risk"),
    inputs=_READ,
    measure=assess,
    shaped_by={NAME: ()},
    noisy=lambda policy: cohort_measurements(policy, Found(), 0.5, 2),
    gates=(
        Gate(
            EXCESS,
            "no_riskier_than_safe_harbor",
            "The release is no riskier than Safe Harbor would be, in the whole cohort and in every state.",
            "Risk above that of a release under Safe Harbor, per person: by each deciding measure, in the whole cohort and in "
            "every state, the greatest counts; below 0, the release is less risky.",
            HALF,
            lambda policy: Limit(0.0),
            applies=lambda policy: policy.risk.no_riskier_than is not None,
            range=DIFFERENCE,
        ),
        Gate(
            REFERENCE_RISK,
            "safe_harbor_within_threshold",
            "Safe Harbor leaves at most one person in three re-identified, so that it is worth a comparison.",
            "Expected share of the people who would be re-identified under Safe Harbor, by an adversary with a list of the "
            "whole population.",
            HALF,
            lambda policy: Limit(float(THIRD)),
            applies=lambda policy: policy.risk.no_riskier_than is not None,
        ),
        Gate(
            LARGEST_RISK,
            "largest_record_risk_within_threshold",
            "No person is re-identified with a probability above the policy's limit.",
            "Highest probability of re-identification of one person, by an upper bound.",
            1.0,  # one person who is disclosed decides
            lambda policy: limit_of(policy.risk.largest_at_most),
        ),
        Gate(
            CROWDED,
            "population_holds_the_cohort",
            "Hardly anybody is in a row of the population's table that has fewer people than the cohort has there.",
            "People in rows of the population's table that are smaller than the cohort there: signs of another population's "
            "table.",
            HALF,
            lambda policy: Limit(policy.risk.crowded_at_most),
        ),
    ),
)
