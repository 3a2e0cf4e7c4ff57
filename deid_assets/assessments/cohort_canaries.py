"""Canaries for the risk of a cohort: made-up people in a made-up population, in which every class is counted by hand."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from deid_assets.assessments.cohort_demographics import (
    CROWDED,
    EXCESS,
    LARGEST_RISK,
    REFERENCE_RISK,
    question_of,
)
from deid_assets.assessments.demographic_verdicts import rounded
from deid_assets.assessments.evidence import Measurement
from deid_assets.assessments.planting import as_certain, plant, planted_store
from deid_assets.methods.canaries.planting import Findings
from deid_assets.methods.demographics.measures import LARGEST, TOTAL
from deid_assets.methods.demographics.policies import DemographicPolicy, safe_harbor
from deid_assets.methods.demographics.standard_attributes import YEAR
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.sources.census import ALL_RACES, LAST_AGE, RACES
from deid_assets.sources.demographics import PLACES, demographics_of, race_names
from deid_assets.store.tables import Table

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
        policy, question = self._policy, question_of(self._policy)
        own, allowed = (self._sizes(one) for one in (policy.demographic_policy, self._reference()))
        excess = []
        for rows in (np.ones(len(own), dtype=bool), *(self._people["state"] == one for one in self._people["state"].unique())):
            for measure in question.deciding:
                first, second = (measure.of(sizes[np.asarray(rows)]) for sizes in (own, allowed))
                of_all = np.mean if measure.sums else np.max
                excess.append(float(of_all(first) - of_all(second)))
        found: dict[str, float | None] = {LARGEST_RISK: float(np.max(LARGEST.of(own))), CROWDED: 0.0}
        if policy.risk.no_riskier_than is not None:
            found[EXCESS] = round(max(excess), 12)
            found[REFERENCE_RISK] = float(np.mean(TOTAL.of(allowed)))
        return {name: None if value is None else rounded(value, up=True) for name, value in found.items()}

    def labels(self, policy: DemographicPolicy, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the label of each row for each attribute; `rows` are people, or rows of the population."""
        races = race_names(() if self._policy.columns.race is None else self._policy.columns.race.values.values())
        demographics = demographics_of(self._population, races, self._policy.date_attributes)
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
