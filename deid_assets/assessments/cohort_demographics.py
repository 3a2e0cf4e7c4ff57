"""What a cohort's policy asks of its tables: the cohort in its population, its levels, and the labels that it publishes."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from deid_assets.assessments.demographic_verdicts import Question
from deid_assets.methods.demographics.attributes import Attribute, Level
from deid_assets.methods.demographics.cells import Cells
from deid_assets.methods.demographics.policies import DemographicPolicy, safe_harbor
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.sources.demographics import cells_of_cohort
from deid_assets.store.tables import Table

EXCESS, REFERENCE_RISK = "risk_above_safe_harbor", "risk_of_safe_harbor"
LARGEST_RISK, CROWDED = "largest_record_risk", "crowded_share"


def cells_in(policy: CohortPolicy, people: Table, population: Table) -> Cells:
    """Place the people that were taken in in the population that was taken in.

    Raises
    ------
    DeliveryError
        If the population's table cannot be right, or lacks a place of the cohort.
    """
    return _placed(policy, people, population)[0]


def notes_of(policy: CohortPolicy, people: Table, population: Table) -> tuple[str, ...]:
    """Return what readers must know of the population's table: that it is synthetic, or that a model spreads its ages."""
    stated = population.query(f"SELECT DISTINCT note FROM {population.sql} WHERE note <> '' ORDER BY note")["note"].tolist()
    return (*stated, *_placed(policy, people, population)[1])


def _placed(policy: CohortPolicy, people: Table, population: Table) -> tuple[Cells, tuple[str, ...]]:
    races = () if policy.columns.race is None else tuple(sorted(set(policy.columns.race.values.values())))
    table = population.frame().drop(columns="note")
    return cells_of_cohort(people.frame(order_by="record"), table, races)


def question_of(policy: CohortPolicy) -> Question:
    """Return what the policy asks: which measures decide, and what is compared with Safe Harbor."""
    risk = policy.risk
    return Question(
        decided_by=risk.measures,
        thresholds=tuple(sorted(set(risk.thresholds))),
        policies=(policy.demographic_policy,),
        at_upper_bound=risk.compared == "upper_bound",
        exponent=risk.exponent,
    )


def reference_of(policy: CohortPolicy) -> DemographicPolicy:
    """Return Safe Harbor on the policy's attributes."""
    return safe_harbor() if policy.columns.date is None else safe_harbor(date="year")


def levels_of(policy: CohortPolicy, cells: Cells) -> dict[str, Level]:
    """Return the released level of every attribute, by its name, in the order of a node.

    Raises
    ------
    PolicyError
        If the population's table does not carry a level.
    """
    node = policy.demographic_policy.node(cells.demographics)
    attributes = cells.demographics.attributes
    return {own.name: own.levels[level] for own, level in zip(attributes, node, strict=True)}


def published_attributes(policy: CohortPolicy, cells: Cells) -> dict[str, tuple[str, Attribute]]:
    """Return the released column and the attribute of all demographics that have a column, by the attribute's name."""
    own = {attribute.name: attribute for attribute in cells.demographics.attributes}
    return {name: (column, own[name]) for name, column in policy.demographic_columns.items()}


def released_labels(policy: CohortPolicy, cells: Cells) -> pd.DataFrame:
    """Return the label of each person in each column of demographics, in the order of the people and of the release."""
    levels, names = levels_of(policy, cells), [own.name for own in cells.demographics.attributes]
    shown = {}
    for name, column in policy.demographic_columns.items():
        level = levels[name]
        shown[column] = np.array(level.labels, dtype=object)[level.codes[cells.codes[:, names.index(name)]]]
    return pd.DataFrame(shown, dtype="str")


def codes_of_labels(policy: CohortPolicy, cells: Cells, shown: pd.DataFrame) -> np.ndarray:
    """Return (rows, attributes) int: a base value of which each published label tells; -1 for a label of no class.

    Which base value of a class is returned does not matter: all of them have one class. An attribute without a column, as the
    race of a cohort without races, has one value.
    """
    columns: Mapping[str, str] = policy.demographic_columns
    codes = np.zeros((len(shown), len(cells.demographics.attributes)), dtype=np.int64)
    for place, (name, level) in enumerate(levels_of(policy, cells).items()):
        if name in columns:
            found = pd.Index(level.labels).get_indexer(pd.Index(shown[columns[name]]))
            _, first = np.unique(level.codes, return_index=True)
            codes[:, place] = np.where(found < 0, -1, first[found])
    return codes
