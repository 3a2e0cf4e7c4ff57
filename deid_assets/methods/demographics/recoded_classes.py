"""Classes of a cohort of which some groups are published with other ages (methods#demographics-local-recoding)."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from deid_assets.methods.demographics.attributes import Level
from deid_assets.methods.demographics.cells import Cells
from deid_assets.methods.demographics.class_sizes import ClassCounter, Classes
from deid_assets.methods.demographics.policies import Node
from deid_assets.methods.demographics.spread import ClassSizes


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
