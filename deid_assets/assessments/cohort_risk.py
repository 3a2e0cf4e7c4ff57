"""Risk of a cohort's release beside that of Safe Harbor; the gate reads the labels of the staged rows again.

Canaries are made-up people in a made-up population, in which every class is counted by hand.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from deid_assets.assessments import cohort_demographics
from deid_assets.assessments.assessment import DIFFERENCE, SAFE_HARBOR, Adversary, Assessed, Assessment, Gate, Work
from deid_assets.assessments.demographic_verdicts import CONFIDENCE, STATES, Question, reference_of, to_three_digits
from deid_assets.assessments.evidence import Measurement, Method
from deid_assets.assessments.planting import as_certain, plant, planted_store
from deid_assets.methods.canaries.planting import Findings
from deid_assets.methods.demographics.attributes import YEAR, CohortAttributes, DemographicPolicy, safe_harbor
from deid_assets.methods.demographics.class_sizes import ClassCounter
from deid_assets.methods.demographics.local_recoding import classes_with_ages
from deid_assets.methods.demographics.measures import LARGEST, TOTAL
from deid_assets.methods.demographics.population import Cells
from deid_assets.methods.demographics.risk import bounded_risks, groups_by, no_riskier, risks_and_errors, risks_at
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.rules.limits import THIRD
from deid_assets.sources.census import ALL_RACES, LAST_AGE, RACES
from deid_assets.sources.demographics import PLACES, demographics_of, race_names
from deid_assets.store.tables import Table, quoted

_PLAIN = {"age": 40, "sex": "F", "race": RACES["A"], "state": "WA", "county": "A", "zip": "98101"}
_OTHER: Mapping[str, Mapping[str, object]] = {
    "age": {"age": 80},
    "sex": {"sex": "M"},
    "ethnicity": {"race": RACES["B"]},
    "geography": {"state": "ME", "county": "B", "zip": "04101"},
}
"""Values in which a canary differs from everybody else, at every level that tells anything."""
_DAY = "2008-03-14"
_EACH, _ALIKE = 1000, 9
"""People of the population in every cell; people of the cohort who are alike."""


def people_of_canaries(
    policy: CohortPolicy,
    like: Mapping[str, Table],
    attack: Callable[[CohortPolicy, Mapping[str, Table]], Iterable[Measurement]],
) -> Findings:
    """Whether a person in a class of one, or of two, is found by each attribute that the release tells anything of.

    Parameters
    ----------
    like
        The asset's inputs; only their columns are used.
    attack
        Measures planted tables under a policy as this one.
    """
    total, policy = Findings(0, 0), _countable(policy)
    with planted_store() as file:
        for attribute, size in product(_OTHER, (1, 2)):
            if (planted := _Planted.of(policy, like, attribute, size)) is not None:
                tables = {name: plant(file, like[name], rows, name) for name, rows in planted.tables()}
                total += as_certain(planted.certain(), attack(policy, tables))
    return total


def _countable(policy: CohortPolicy) -> CohortPolicy:
    """The policy with everybody dated on one day, and without a choice of old ages: then classes can be counted by hand."""
    columns, demographics = policy.columns, policy.demographics.model_copy(update={"old_ages": None})
    if columns.date is not None:
        day = columns.date.model_copy(update={"first": _DAY, "last": _DAY, "dated": 1.0})
        columns = columns.model_copy(update={"date": day})
    return policy.model_copy(update={"columns": columns, "demographics": demographics})


class _Planted:
    """Nine people who are alike and one in a class of a known size."""

    def __init__(self, policy: CohortPolicy, people: pd.DataFrame, population: pd.DataFrame, size: int) -> None:
        self._policy, self._people, self._population, self._size = policy, people, population, size

    @classmethod
    def of(cls, policy: CohortPolicy, like: Mapping[str, Table], attribute: str, size: int) -> "_Planted | None":
        """Return the planted rows; None if the release does not tell the one from the others by this attribute."""
        one = {**_PLAIN, **_OTHER[attribute]}
        kept = like["cohort_people"].columns()
        people = pd.DataFrame([_PLAIN] * _ALIKE + [one])[[name for name in _PLAIN if name in kept]]
        population = _population([name for name in PLACES if name in kept], "race" in kept)
        planted = cls(policy, people, population, size)
        labels = planted.labels(policy.demographic_policy, people)
        if labels.iloc[0].equals(labels.iloc[-1]):
            return None
        own = planted.labels(policy.demographic_policy, population)
        alone = (own == labels.iloc[-1]).all(axis=1)
        cell = (population[people.columns.drop("age")] == people.iloc[-1].drop("age")).all(axis=1)
        cell &= population["age_from"] == people["age"].iloc[-1]
        population["people"] = np.where(cell, size, np.where(alone, 0, population["people"]))
        return planted

    def tables(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """Yield the name and the rows of each planted table."""
        labels = self.labels(self._policy.demographic_policy, self._people)
        columns = self._policy.demographic_columns
        released = labels[list(columns)].rename(columns=columns)
        numbered = self._people.assign(record=range(1, len(self._people) + 1))
        if self._policy.columns.date is not None:
            numbered["date"] = pd.Timestamp(_DAY)
        yield "cohort_people", _rows(numbered.assign(person=numbered["record"].astype("str")))
        yield "population_cells", _rows(self._population.assign(note=""))
        yield "release_people", _rows(released)

    def certain(self) -> dict[str, float | None]:
        """Return what must be measured: the risks of people in classes counted row by row."""
        policy, question = self._policy, cohort_demographics.question_of(self._policy)
        own, allowed = (self._sizes(one) for one in (policy.demographic_policy, self._reference()))
        excess = []
        for rows in (np.ones(len(own), dtype=bool), *(self._people["state"] == one for one in self._people["state"].unique())):
            for measure in question.deciding:
                first, second = (measure.of(sizes[np.asarray(rows)]) for sizes in (own, allowed))
                of_all = np.mean if measure.sums else np.max
                excess.append(float(of_all(first) - of_all(second)))
        found: dict[str, float | None] = {
            cohort_demographics.LARGEST_RISK: float(np.max(LARGEST.of(own))),
            cohort_demographics.CROWDED: 0.0,
        }
        if policy.risk.no_riskier_than is not None:
            found[cohort_demographics.EXCESS] = round(max(excess), 12)
            found[cohort_demographics.REFERENCE_RISK] = float(np.mean(TOTAL.of(allowed)))
        return {name: None if value is None else to_three_digits(value, up=True) for name, value in found.items()}

    def labels(self, policy: DemographicPolicy, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the label of each row for each attribute; `rows` are people, or rows of the population."""
        races, demographics = self._races, self._demographics
        places = [rows[name] for name in PLACES if name in self._population]
        values = {
            "age": rows["age"] if "age" in rows else rows["age_from"],
            "sex": rows["sex"],
            "ethnicity": rows["race"].map(dict(races)) if "race" in rows else pd.Series(ALL_RACES, rows.index),
            "geography": places[0].str.cat(places[1:], sep=" | "),
            "date": pd.Series(pd.Timestamp(_DAY), rows.index),
        }
        shown = {}
        for attribute, number in zip(demographics.attributes, policy.node(demographics), strict=True):
            level = attribute.levels[number]
            shown[attribute.name] = np.array(level.labels)[level.codes[attribute.codes_of(values[attribute.name])]]
        return pd.DataFrame(shown, index=rows.index)

    @cached_property
    def _races(self) -> Mapping[str, str]:
        return race_names(() if self._policy.columns.race is None else self._policy.columns.race.values.values())

    @cached_property
    def _demographics(self) -> CohortAttributes:
        return demographics_of(self._population, self._races, self._policy.date_attributes)

    def _reference(self) -> DemographicPolicy:
        return safe_harbor(**{date.name: YEAR for date in self._policy.date_attributes})

    def _sizes(self, policy: DemographicPolicy) -> np.ndarray:
        """(people,) float: people of the population with the labels of each person."""
        counted = self.labels(policy, self._population).assign(people=self._population["people"])
        names = [name for name in counted if name != "people"]
        sums = counted.groupby(names, as_index=False)["people"].sum()
        return self.labels(policy, self._people).merge(sums, on=names, how="left")["people"].to_numpy(dtype=float)


def _population(places: list[str], with_races: bool) -> pd.DataFrame:
    """Two places, each with the same number of people of every sex, race and year of age."""
    where = [_PLAIN, {**_PLAIN, **_OTHER["geography"]}]
    races = list(RACES.values()) if with_races else [ALL_RACES]
    rows = [
        {**{name: place[name] for name in places}, "sex": sex, "race": race, "age_from": age, "age_to": age, "people": _EACH}
        for place, sex, race, age in product(where, ("F", "M"), races, range(LAST_AGE + 1))
    ]
    return pd.DataFrame(rows)


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return frame.astype(object).to_dict("records")


NAME = "cohort_risk"
_METHOD = Method(NAME, "methods#demographics-risk")
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
    cells = cohort_demographics.cells_in(policy, people, population)
    read = _as_published(policy, cells, released)
    crowded = cells.warnings.crowded_records / cells.records
    return cohort_measurements(policy, Found() if read is None else _compared(policy, cells, read), crowded, cells.records)


def _as_published(policy: CohortPolicy, cells: Cells, released: Table) -> Cells | None:
    """The cohort with the values that the published labels tell; None if they are not the labels of these people."""
    columns = list(policy.demographic_columns.values())
    own = cohort_demographics.released_labels(policy, cells)
    shown = released.query(f"SELECT {', '.join(map(quoted, columns))} FROM {released.sql}").astype("str")
    in_order, order = shown.sort_values(columns, ignore_index=True), own.sort_values(columns).index
    if not in_order.equals(own.loc[order].reset_index(drop=True)):
        return None
    of_people = in_order.set_axis(order).sort_index()
    return replace(cells, codes=cohort_demographics.codes_of_labels(policy, cells, of_people))


def _compared(policy: CohortPolicy, cells: Cells, read: Cells) -> Found:
    question, made = cohort_demographics.question_of(policy), cohort_demographics.published(policy, cells)
    reference = reference_of(cells).node(cells.demographics)
    states, _ = groups_by(cells, *STATES)
    whole = np.zeros(cells.records, dtype=np.int64)
    # Safe Harbor itself is as risky as it is; an upper bound of its own risk would exceed it.
    bounded = question.at_upper_bound and (made.node != reference or len(made.ages) > 1)
    excess: list[float] = []
    for groups in (whole, states):
        classes, number = classes_with_ages(read, made.node, made.ages, made.level_of, groups), int(groups.max()) + 1
        found = bounded_risks(classes, question.deciding, number, CONFIDENCE)
        own = found.upper if bounded else found.expected
        allowed, error = risks_and_errors(ClassCounter(cells, groups).at(reference), question.deciding, number)
        excess.append(_excess(question, own - allowed, no_riskier(own, allowed, found.error + error), np.bincount(groups)))
    of_reference = risks_at(ClassCounter(cells).at(reference), [TOTAL], 1)
    classes = classes_with_ages(read, made.node, made.ages, made.level_of, whole)
    largest = bounded_risks(classes, [LARGEST], 1, CONFIDENCE).upper
    return Found(max(excess), float(of_reference[0, 0]) / cells.records, float(largest[0, 0]))


def _excess(question: Question, above: np.ndarray, passes: np.ndarray, records: np.ndarray) -> float:
    """The greatest risk above that of the reference, over measures and groups; per record, or of one record."""
    sums = np.array([[measure.sums] for measure in question.deciding])
    difference = above / np.where(sums, records, 1)
    return float(np.max(np.where(passes, np.minimum(np.round(difference, 12), 0.0), difference)))


def cohort_measurements(policy: CohortPolicy, found: Found, crowded: float, records: int) -> tuple[Measurement, ...]:
    """Rounded up, so that no number of people follows from what may be published."""
    risk, compares = policy.risk, policy.risk.no_riskier_than is not None

    def measured(name: str, value: float | None, limit: float | None) -> Measurement:
        shown = None if value is None else to_three_digits(value, up=True)
        return _METHOD.at_most(name, "probability", shown, limit)

    beside = (
        measured(cohort_demographics.EXCESS, found.excess, 0.0),
        measured(cohort_demographics.REFERENCE_RISK, found.reference, float(THIRD)),
    )
    # Where nobody may be in such a row, passing tells the number.
    unit = "probability" if risk.crowded_at_most == 0 else "share of released records"
    return (
        *(beside if compares else ()),
        measured(cohort_demographics.LARGEST_RISK, found.largest, risk.largest_at_most),
        _METHOD.at_most(cohort_demographics.CROWDED, unit, crowded, risk.crowded_at_most, records),
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
            cohort_demographics.EXCESS,
            "no_riskier_than_safe_harbor",
            "The release is no riskier than Safe Harbor would be, in the whole cohort and in every state.",
            "Risk above that of a release under Safe Harbor, per person: by each deciding measure, in the whole cohort and in "
            "every state, the greatest counts; below 0, the release is less risky.",
            lambda policy: 0.0,
            applies=lambda policy: policy.risk.no_riskier_than is not None,
            range=DIFFERENCE,
        ),
        Gate(
            cohort_demographics.REFERENCE_RISK,
            "safe_harbor_within_threshold",
            "Safe Harbor leaves at most one person in three re-identified, so that it is worth a comparison.",
            "Expected share of the people who would be re-identified under Safe Harbor, by an adversary with a list of the "
            "whole population.",
            lambda policy: float(THIRD),
            applies=lambda policy: policy.risk.no_riskier_than is not None,
        ),
        Gate(
            cohort_demographics.LARGEST_RISK,
            "largest_record_risk_within_threshold",
            "No person is re-identified with a probability above the policy's limit.",
            "Highest probability of re-identification of one person, by an upper bound.",
            lambda policy: policy.risk.largest_at_most,
            disclosed=1.0,  # one person who is disclosed decides
        ),
        Gate(
            cohort_demographics.CROWDED,
            "population_holds_the_cohort",
            "Hardly anybody is in a row of the population's table that has fewer people than the cohort has there.",
            "People in rows of the population's table that are smaller than the cohort there: signs of another population's "
            "table.",
            lambda policy: policy.risk.crowded_at_most,
        ),
    ),
)
