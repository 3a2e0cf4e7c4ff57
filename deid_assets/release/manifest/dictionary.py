"""The data dictionary of a release: every column that is published, what it means, its type, its level and its labels.

It repeats the policy and the contract, and lists the labels that occur in the staged tables as read back; readers of the
files see these anyway. It contains no numbers of rows or people.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pandera.ibis import DataFrameSchema

from deid_assets.policy.hierarchies.hierarchy import Hierarchy
from deid_assets.store.tables import Table, quoted

FILE = "data/dictionary.json"
MOST_LABELS = 500
"""Maximum number of labels listed for a column; with more, only the level is shown."""

_TYPES = {"VARCHAR": "text", "BIGINT": "whole number", "INTEGER": "whole number", "TINYINT": "whole number", "DATE": "date"}


@dataclass(frozen=True)
class DescribedTable:
    """A staged table, and what is known about its columns.

    Attributes
    ----------
    table
        Read back from its file.
    contract
        Defines every column, with description, role and unit.
    hierarchies
        Maps columns of this table to their hierarchy and chosen level.
    notes
        Maps columns of this table to what a reader must know besides their meaning.
    """

    table: Table
    contract: DataFrameSchema
    hierarchies: Mapping[str, tuple[Hierarchy, int]]
    notes: Mapping[str, str]


def dictionary(tables: Mapping[str, DescribedTable]) -> dict:
    """The dictionary as JSON values.

    Parameters
    ----------
    tables
        Name of a released table, such as "Claims", to its description.

    Returns
    -------
    dict
        {"tables": {name: {"files": [...], "columns": [{"name", "type", "role", "meaning", ...}]}}}

    Raises
    ------
    KeyError
        If a staged table has a column that is not in its contract: no column is published without a description.
    """
    return {
        "about": "Every column of the release. Labels are those that occur, in the order of their level; "
        "a blank is told apart.",
        "tables": {
            name: {
                "files": [f"data/{name}.csv", f"data/{name}.parquet"],
                "columns": [_column(described, column, kind) for column, kind in described.table.columns().items()],
            }
            for name, described in tables.items()
        },
    }


def _column(described: DescribedTable, name: str, kind: str) -> dict:
    stated = described.contract.columns[name]
    found = {
        "name": name,
        "type": _TYPES.get(kind, kind.lower()),
        "role": stated.metadata["role"],
        "meaning": ". ".join(text for text in (stated.description, described.notes.get(name)) if text),
    }
    if stated.metadata["unit"]:
        found["unit"] = stated.metadata["unit"]
    if name not in described.hierarchies:
        return found
    hierarchy, level = described.hierarchies[name]
    occurring = labels_of(described.table, name)
    return found | {
        "level": hierarchy.level_names[level],
        "levels_of_the_policy": list(hierarchy.level_names),
        "labels": in_order(hierarchy, level, occurring) if len(occurring) <= MOST_LABELS else None,
        "may_be_blank": _has_blanks(described.table, name),
    }


def labels_of(table: Table, column: str) -> list[str]:
    """The labels that occur in a column, without blanks."""
    name = quoted(column)
    found = table.query(f"SELECT DISTINCT {name} AS label FROM {table.sql} WHERE {name} IS NOT NULL ORDER BY 1")
    return found["label"].tolist()


def in_order(hierarchy: Hierarchy, level: int, labels: Sequence[str]) -> list[str]:
    """Labels in the order of their level; by their leading number if the level lists none.

    Examples
    --------
    >>> from deid_assets.policy.hierarchies.intervals import Cuts, Intervals, Wording
    >>> days = Hierarchy("days", ("days",), Intervals(0, None, (Cuts((0,), 1),), (Wording(),)))
    >>> in_order(days, 0, ["10+", "2", "none", "0"])
    ['0', '2', '10+', 'none']
    """
    try:
        place = {label: at for at, label in enumerate(hierarchy.order(level))}
        return sorted(labels, key=place.__getitem__)
    except (ValueError, KeyError):  # not listed, or opened by a top code
        return sorted(labels, key=_by_number)


def _by_number(label: str) -> tuple[float, str]:
    number = re.match(r"[<\s]*(\d+)", label)
    return (float(number[1]) if number else float("inf"), label)


def _has_blanks(table: Table, column: str) -> bool:
    return bool(table.query(f"SELECT count(*) FILTER ({quoted(column)} IS NULL) > 0 AS any FROM {table.sql}")["any"].iloc[0])
