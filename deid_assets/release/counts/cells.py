"""The cells of a run's tables, whatever is counted: exact, restricted, and one row for each."""

import json
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import pandas as pd

from deid_assets.errors import CountsError
from deid_assets.methods.counts.cohort import CHARACTERISTICS, OTHER, UNKNOWN, attrition_cells, sums_of
from deid_assets.methods.counts.published_tables import names_of
from deid_assets.methods.counts.tables import CellName, CountTables
from deid_assets.policy.hierarchies.hierarchy import Hierarchy
from deid_assets.release.manifest.public_numbers import AttritionStep

COLUMNS = ("table", "row", "column", "position", "count", "contribution", "least", "shape", "counted")

Row = tuple[object, ...]
"""A cell, in the order of `COLUMNS`."""


_TYPES = {"table": "str", "row": "str", "column": "str", "shape": "str", "counted": "str"} | dict.fromkeys(
    ("position", "count", "contribution", "least"), "int64"
)


def counted_frame(rows: Iterable[Row] = ()) -> pd.DataFrame:
    """One row per cell, with the columns `COLUMNS`."""
    return pd.DataFrame(list(rows), columns=list(COLUMNS)).astype(_TYPES)


def step_rows(steps: Iterable[AttritionStep], shape_of_rows: str, contribution: int = 1) -> list[Row]:
    """The cells of the steps of one unit.

    Parameters
    ----------
    shape_of_rows
        What of the policy shapes the released rows, for the steps that say nothing else.
    contribution
        What one person adds to a count at most.
    """
    listed = tuple(steps)
    shapes = {step.stage: step.shape or shape_of_rows for step in listed}
    counted = attrition_cells([(step.stage, step.count) for step in listed])
    return [(*name, at, count, contribution, 0, shapes[name.row], name.column) for at, (name, count) in enumerate(counted)]


Classed: TypeAlias = tuple[dict[str, str], pd.DataFrame]
"""Each class, in their order, with what it counts, whatever it is called: the values in it. And columns label, members,
sampled: how many are counted, and how many of them readers may count in the released files."""


def class_rows(variable: str, classed: Classed, shape: str, contribution: int = 1, identity: str | None = None) -> list[Row]:
    """The cells of a characteristic, classes without anybody included.

    Parameters
    ----------
    classed
        The classes of the characteristic.
    identity
        What the variable is, whatever it is called; None: its name.
    """
    classes, found = classed
    of = "" if identity in (None, variable) else f"{identity}{_VALUES}"
    sums = found.groupby("label")[["members", "sampled"]].sum().reindex(list(classes), fill_value=0).astype(np.int64)
    return [
        (CHARACTERISTICS, variable, label, at, int(members), contribution, int(sampled), shape, f"{of}{classes[str(label)]}")
        for at, (label, members, sampled) in enumerate(sums.itertuples())
    ]


def by_level(hierarchy: Hierarchy, level: int, found: pd.DataFrame) -> Classed:
    """The classes of a level with the values in them, and the counts with their class.

    A missing value is unknown, unless the level gives it a class.

    Parameters
    ----------
    found
        Columns value, members, sampled.

    Raises
    ------
    CountsError
        If the level does not list a class that occurs.
    """
    rest = {UNKNOWN: "none" if hierarchy.missing_label(level) else "missing"}
    classes = hierarchy.definitions(level)
    classes |= {label: held for label, held in rest.items() if label not in classes}
    known = found[found["value"].notna()]
    labels = [*hierarchy.labels(known["value"].tolist(), level)]
    if not set(labels) <= classes.keys():
        raise CountsError(f"hierarchy {hierarchy.name}: a class that occurs is not among those of its level")
    labelled = found.assign(label=hierarchy.missing_label(level) or UNKNOWN)
    labelled.loc[known.index, "label"] = labels
    return classes, labelled


def by_values(values: Sequence[str], found: pd.DataFrame) -> Classed:
    """The listed values, others, and unknown; and the counts with their class.

    Examples
    --------
    >>> found = pd.DataFrame({"value": ["tea", "milk", None], "members": [3, 2, 1], "sampled": [0, 0, 0]})
    >>> classes, labelled = by_values(["tea", "coffee"], found)
    >>> list(classes), labelled["label"].tolist()
    (['tea', 'coffee', 'other', 'unknown'], ['tea', 'other', 'unknown'])
    """
    shown = found["value"].astype("object")
    labels = shown.where(shown.isin(list(values)), OTHER).where(found["value"].notna(), UNKNOWN)
    rest = {OTHER: f"not {json.dumps(sorted(values))}", UNKNOWN: "missing"}
    return {value: json.dumps([value]) for value in values} | rest, found.assign(label=labels)


def tables_of(counts: pd.DataFrame, without: Iterable[CellName] = ()) -> CountTables:
    """The counts as tables with their sums, without some cells."""
    left_out = set(without)
    names = names_of(counts)
    kept = [place for place, name in enumerate(names) if name not in left_out]
    cells = tuple(names[place] for place in kept)
    return CountTables(
        cells, counts["count"].to_numpy(np.int64)[kept], sums_of(cells), counts["contribution"].to_numpy(np.int64)[kept]
    )


def definitions_of(counts: pd.DataFrame) -> dict[CellName, CellName]:
    """What each cell counts, as a name that does not change with labels: noise, lockout and audit go by it."""
    return {name: _definition(name, counted) for name, counted in zip(names_of(counts), counts["counted"], strict=True)}


_VALUES = "\x1f"
"""Between what a variable is and the values that a cell counts of it, where its name does not say what it is."""


def _definition(name: CellName, counted: str) -> CellName:
    variable, told, values = counted.rpartition(_VALUES)
    return name._replace(row=variable if told else name.row, column=values)


def shapes_of_cells(counts: pd.DataFrame) -> dict[CellName, str]:
    """What of the policy shapes each cell."""
    return dict(zip(names_of(counts), counts["shape"], strict=True))
