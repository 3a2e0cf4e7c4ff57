"""Finer ages over 89 for those groups whose population carries them (methods#demographics-local-recoding).

`classes_with_ages` counts a cohort of which some groups are published with other ages.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd

from deid_assets.errors import PolicyError
from deid_assets.methods.demographics.attributes import CohortAttributes, DemographicPolicy, Level, Node
from deid_assets.methods.demographics.class_sizes import ClassCounter, Classes
from deid_assets.methods.demographics.discovery import Bar
from deid_assets.methods.demographics.population import Cells
from deid_assets.methods.demographics.risk import bounded_risks, groups_by, no_riskier, risks_and_errors
from deid_assets.methods.demographics.spread import ClassSizes

FIRST_OLD_AGE = 90


def recoded_ages(young: Level, old: Level, years: Sequence[int], first_old: int = FIRST_OLD_AGE) -> Level:
    """Return the level of age that follows `young` below the first old age, and `old` from there on.

    Raises
    ------
    PolicyError
        If a class of either level straddles the first old age, so that the two together are no level.
    """
    is_old = np.asarray(years) >= first_old
    for level in (young, old):
        if np.intersect1d(level.codes[is_old], level.codes[~is_old]).size:
            raise PolicyError(
                f"age {level.name}: a class joins ages below {first_old} and others, and cannot be recoded from there on"
            )
    labels = [
        old.labels[code_old] if late else young.labels[code]
        for code, code_old, late in zip(young.codes, old.codes, is_old, strict=True)
    ]
    return Level.of(f"{young.name}; from {first_old} on {old.name}", labels)


def recode_old_ages(
    cells: Cells,
    policy: DemographicPolicy,
    reference: DemographicPolicy,
    old_ages: Sequence[str],
    by: tuple[str, str],
    bar: Bar | None = None,
    first_old: int = FIRST_OLD_AGE,
) -> pd.DataFrame:
    """Choose for each group the finest old ages at which the group is at no more risk than under the reference.

    Groups are published, so that no class has records of two groups: the choice in one group changes nothing in another, and
    risks add up.

    Parameters
    ----------
    cells
        The cohort in its population.
    policy
        What the recoding starts from; its ages below the first old age are kept.
    reference
        For example Safe Harbor.
    old_ages
        Names of levels of age, from fine to coarse; each must refine the next from the first old age on.
    by
        The attribute and level whose classes are the groups, such as ('geography', 'state') or ('ethnicity', 'any').
    bar
        When a group is no riskier; if the bar has groups of its own, such as states, then in each of them. By default if the
        expected total risk does not exceed that of the reference.

    Returns
    -------
    pandas.DataFrame
        One row for each group: group | records | old_ages, the name of the finest level of old ages that is no riskier in this
        group than the reference; missing if none is. If every group has a level, neither the cohort nor a group is riskier.

    Raises
    ------
    PolicyError
        If the policy does not publish the groups, or levels of age do not fit together.
    """
    bar, demographics = bar or Bar(), cells.demographics
    node, ages = policy.node(demographics), demographics.age
    for grouping in (by, bar.by):
        if grouping is not None and not _publishes(node, demographics, grouping):
            raise PolicyError(
                f"policy {policy.name} does not publish {grouping[0]} by {grouping[1]}: its old ages cannot differ by it"
            )
    years = ages.values.to_numpy()
    levels = [recoded_ages(ages.levels[node[0]], ages.level(name), years, first_old) for name in old_ages]
    if any(not finer.refines(coarser) for finer, coarser in pairwise(levels)):
        raise PolicyError("old ages must be listed from fine to coarse, and each level must refine the next")
    groups, labels = groups_by(cells, *by)
    parts, part_of = _parts(cells, groups, bar.by)
    counter = ClassCounter(cells, parts)
    threshold, error = risks_and_errors(counter.at(reference.node(demographics)), bar.measures, len(part_of))
    classes = [counter.with_ages(level, node) for level in levels]
    compared, errors = np.array([risks_and_errors(own, bar.measures, len(part_of)) for own in classes]).swapaxes(0, 1)
    if bar.confidence is not None:
        compared = np.stack([bounded_risks(own, bar.measures, len(part_of), bar.confidence).upper for own in classes])
    failing: np.ndarray = np.any(~no_riskier(compared, threshold, errors + error), axis=1)
    passes = np.stack([np.bincount(part_of, weights=failing[at], minlength=len(labels)) == 0 for at in range(len(levels))])
    chosen = np.where(passes.any(axis=0), passes.argmax(axis=0), -1)
    return pd.DataFrame(
        {
            "group": labels,
            "records": np.bincount(groups, minlength=len(labels)),
            "old_ages": pd.array([old_ages[number] if number >= 0 else None for number in chosen], dtype="str"),
        }
    )


def _publishes(node: Node, demographics: CohortAttributes, grouping: tuple[str, str]) -> bool:
    names = [attribute.name for attribute in demographics.attributes]
    at = names.index(grouping[0])
    attribute = demographics.attributes[at]
    return bool(attribute.refines[node[at], attribute.number_of(grouping[1])])


def _parts(cells: Cells, groups: np.ndarray, within: tuple[str, str] | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the part of each record, a group within another grouping, and the group of each part."""
    if within is None:
        return groups, np.arange(int(groups.max()) + 1)
    other, labels = groups_by(cells, *within)
    present, parts = np.unique(groups * len(labels) + other, return_inverse=True)
    return parts, present // len(labels)


def classes_with_ages(cells: Cells, node: Node, ages: Sequence[Level], level_of: np.ndarray, groups: np.ndarray) -> Classes:
    """Return the classes of a node where each record has one of several levels of age.

    Parameters
    ----------
    cells
        The cohort in its population.
    node
        Levels of all attributes; that of age is not used.
    ages
        Levels of age.
    level_of
        (records,) int: the position among `ages` of each record's level. It must be the same for all records with the same
        published values of the other attributes, so that no class has records of two levels.
    groups
        (records,) int: group of each record, by which risks are added up.
    """
    found = []
    for number, level in enumerate(ages):
        own = level_of == number
        if own.any():
            found.append(ClassCounter(replace(cells, codes=cells.codes[own]), groups[own]).with_ages(level, node))
    first = np.cumsum([0, *(len(part.sizes.certain) for part in found)])
    return Classes(
        ClassSizes(
            np.concatenate([part.sizes.certain for part in found]),
            _side_by_side([part.sizes.rest for part in found]),
            _side_by_side([part.sizes.share for part in found]),
        ),
        np.concatenate([part.of + start for part, start in zip(found, first, strict=False)]),
        np.concatenate([part.group for part in found]),
        np.concatenate([part.records for part in found]),
    )


def _side_by_side(tables: Sequence[np.ndarray]) -> np.ndarray:
    """Return (parts, all classes); tables with fewer parts have nobody in the others."""
    parts = max(len(table) for table in tables)
    return np.concatenate([np.pad(table, ((0, parts - len(table)), (0, 0))) for table in tables], axis=1)
