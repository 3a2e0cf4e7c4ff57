"""What a cohort's policy asks of its tables: the cohort in its population, its levels, and the labels that it publishes."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from deid_assets.assessments.demographic_verdicts import Question, bar_of, reference_of
from deid_assets.errors import RefusedError, ReleaseError
from deid_assets.methods.demographics.attributes import Attribute, Level
from deid_assets.methods.demographics.cells import Cells
from deid_assets.methods.demographics.local_recoding import recode_old_ages, recoded_ages
from deid_assets.methods.demographics.policies import DemographicPolicy, Node
from deid_assets.methods.demographics.risk import groups_by
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
    races: tuple[str, ...] = () if policy.columns.race is None else tuple(sorted(set(policy.columns.race.values.values())))
    table = population.frame().drop(columns="note")
    return cells_of_cohort(people.frame(order_by="record"), table, races, policy.date_attributes)


def question_of(policy: CohortPolicy) -> Question:
    """Return what the policy asks: which measures decide, and what is compared with Safe Harbor."""
    risk = policy.risk
    return Question(
        decided_by=risk.measures,
        thresholds=tuple(sorted(set(risk.thresholds))),
        policies=(DemographicPolicy.of(policy.name, policy.demographic_policy.levels),),
        at_upper_bound=risk.compared == "upper_bound",
        exponent=risk.exponent,
    )


@dataclass(frozen=True, eq=False)
class Published:
    """The levels at which the people of a cohort are published.

    Attributes
    ----------
    node
        Levels of all attributes.
    levels
        Level of each attribute, by its name, in the order of the node.
    ages
        Levels of age: one, or with local recoding of old ages several.
    level_of
        (people,) int: the position of each person's level of age among `ages`.
    """

    node: Node
    levels: Mapping[str, Level]
    ages: tuple[Level, ...]
    level_of: np.ndarray

    def labels_of(self, name: str) -> tuple[str, ...]:
        """Labels that may occur of an attribute."""
        listed = self.ages if name == "age" else (self.levels[name],)
        return tuple(dict.fromkeys(label for level in listed for label in level.labels))


def published(policy: CohortPolicy, cells: Cells) -> Published:
    """Return the levels of the release.

    Raises
    ------
    PolicyError
        If the population's table does not carry a level.
    RefusedError
        If a group is riskier than under Safe Harbor, however its old ages are published.
    """
    demographics, stated = cells.demographics, policy.demographic_policy
    node = stated.node(demographics)
    levels = {own.name: own.levels[level] for own, level in zip(demographics.attributes, node, strict=True)}
    old = policy.demographics.old_ages
    if old is None:
        return Published(node, levels, (levels["age"],), np.zeros(cells.records, dtype=np.int64))
    grouping = ("geography", "state") if old.by == "state" else ("ethnicity", levels["ethnicity"].name)
    found = recode_old_ages(cells, stated, reference_of(cells), old.levels, grouping, bar_of(question_of(policy)))
    if not found.possible:
        raise RefusedError(
            f"refused: at every level of demographics.old_ages, a {old.by} is riskier than under Safe Harbor; list a coarser "
            "level, or leave old_ages out and state coarser levels"
        )
    years = demographics.age.values.to_numpy()
    ages = tuple(recoded_ages(levels["age"], demographics.age.level(name), years) for name in old.levels)
    groups, _ = groups_by(cells, *grouping)
    chosen = found.table["old_ages"].map({name: at for at, name in enumerate(old.levels)}).to_numpy(dtype=np.int64)
    return Published(node, levels, ages, chosen[groups])


def published_attributes(policy: CohortPolicy, cells: Cells) -> dict[str, tuple[str, Attribute]]:
    """Return the released column and the attribute of all demographics that have a column, by the attribute's name."""
    own = {attribute.name: attribute for attribute in cells.demographics.attributes}
    return {name: (column, own[name]) for name, column in policy.demographic_columns.items()}


def released_labels(policy: CohortPolicy, cells: Cells) -> pd.DataFrame:
    """Return the label of each person in each column of demographics, in the order of the people and of the release."""
    made, names = published(policy, cells), [own.name for own in cells.demographics.attributes]
    shown = {}
    for name, column in policy.demographic_columns.items():
        codes = cells.codes[:, names.index(name)]
        shown[column] = _labels(made.levels[name], codes)
        if name == "age":
            for number, level in enumerate(made.ages):
                own = made.level_of == number
                shown[column][own] = _labels(level, codes[own])
    return pd.DataFrame(shown, dtype="str")


def codes_of_labels(policy: CohortPolicy, cells: Cells, shown: pd.DataFrame) -> np.ndarray:
    """Return (people, attributes) int: a base value of which each published label tells.

    Which base value of a class is returned does not matter: all of them have one class. An attribute without a column, as the
    race of a cohort without races, has one value.

    Parameters
    ----------
    shown
        Labels in the order of the people, as `released_labels` gives them.
    """
    made, columns = published(policy, cells), policy.demographic_columns
    codes = np.zeros((len(shown), len(made.levels)), dtype=np.int64)
    for place, (name, level) in enumerate(made.levels.items()):
        if name == "age":
            for number, own_level in enumerate(made.ages):
                own = made.level_of == number
                codes[own, place] = _first_values(own_level, shown.loc[own, columns[name]])
        elif name in columns:
            codes[:, place] = _first_values(level, shown[columns[name]])
    return codes


def _labels(level: Level, codes: np.ndarray) -> np.ndarray:
    return np.array(level.labels, dtype=object)[level.codes[codes]]


def _first_values(level: Level, labels: pd.Series) -> np.ndarray:
    """The first base value of each label's class."""
    found = pd.Index(level.labels).get_indexer(pd.Index(labels))
    if np.any(found < 0):
        raise ReleaseError("a published label is none of its level")
    _, first = np.unique(level.codes, return_index=True)
    return np.asarray(first[found], dtype=np.int64)
