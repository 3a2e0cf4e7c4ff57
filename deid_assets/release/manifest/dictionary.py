"""The data dictionary of a release: every column that is published, what it means, its type, its level and its labels.

It repeats the policy and the contract, and lists the labels that occur in the staged tables as read back; readers of the
files see these anyway. It contains no numbers of rows or people.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pandera.ibis import DataFrameSchema

from deid_assets.assessments.cohort_demographics import PublishedLevels
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.hierarchies.hierarchy import Hierarchy
from deid_assets.policy.models import Policy
from deid_assets.reference.known_columns import YEARS
from deid_assets.release.gate.judgement import Staged
from deid_assets.schemas.candidate import release_contracts
from deid_assets.schemas.cohort import release_people_contract
from deid_assets.schemas.contract import contract
from deid_assets.schemas.flat import release_records_contract
from deid_assets.store.tables import Table, events_file, quoted

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
    occurring = occurring_labels(described.table, name)
    return found | {
        "level": hierarchy.level_names[level],
        "levels_of_the_policy": list(hierarchy.level_names),
        "labels": in_order(hierarchy, level, occurring) if len(occurring) <= MOST_LABELS else None,
        "may_be_blank": _has_blanks(described.table, name),
    }


def occurring_labels(table: Table, column: str) -> list[str]:
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


_COUNTED = "Where all labels are numbers, the largest stands for itself and all above, as in the Heritage Health Prize files"


def described_tables(
    policy: Policy, levels: Mapping[str, int], staged: Staged, events: Mapping[str, Table], days: Mapping[str, Table]
) -> dict[str, DescribedTable]:
    """The tables of a longitudinal release by their names.

    Parameters
    ----------
    levels
        Level of every quasi-identifier.
    staged
        The staged files, read back.
    events
        The staged file of each table of events.
    days
        Year, such as "Y2", to its staged table of days in hospital.
    """
    contracts = release_contracts(policy)

    def of(columns: Mapping[str, str]) -> dict[str, tuple[Hierarchy, int]]:
        return {name: (policy.hierarchy_of(column), levels[column]) for name, column in columns.items()}

    members = {name: column for column, name in policy.member_names.items()}
    claims = {qi.release_as: qi.column for qi in policy.quasi_identifiers.claims}
    found = {
        "Members": DescribedTable(staged.members, contracts["release_members"], of(members), {}),
    }
    released = contracts["release_claims"].columns
    for name_of_events, one in events.items():
        own = {name: released[name] for name in policy.columns_of_file(name_of_events, list(released))}
        hierarchies = of({name: column for name, column in claims.items() if name in own})
        found[events_file(name_of_events)] = DescribedTable(one, contract(own), hierarchies, {})
    for year, table in days.items():
        found[f"DaysInHospital_{year}"] = DescribedTable(
            table,
            contracts["release_days_in_hospital"],
            of({"DaysInHospital": YEARS[year]}),
            {
                "DaysInHospital": _COUNTED,
                "MemberID": "Members who are missing here were not enrolled in that year, or that is not told",
            },
        )
    return found


def described_counts(staged: Mapping[str, Table], contracts: Mapping[str, DataFrameSchema]) -> dict[str, DescribedTable]:
    """The tables of counts, read back, by their names."""
    return {name: DescribedTable(table, contracts[name], {}, {}) for name, table in staged.items()}


def described_records(policy: FlatPolicy, levels: Mapping[str, int], staged: Table) -> dict[str, DescribedTable]:
    """The one table of a flat release."""
    hierarchies = {name: (policy.hierarchy_of(name), level) for name, level in levels.items()}
    return {"Records": DescribedTable(staged, release_records_contract(policy), hierarchies, {})}


def described_people(policy: CohortPolicy, levels: PublishedLevels, staged: Table) -> dict[str, DescribedTable]:
    """The one table of a cohort's release; every label that a level may publish is told.

    Parameters
    ----------
    levels
        Released levels.
    """
    notes = {
        column: f"Labels: {', '.join(levels.labels_of(name))}"
        for name, column in policy.demographic_columns.items()
        if len(levels.labels_of(name)) <= MOST_LABELS
    }
    return {"People": DescribedTable(staged, release_people_contract(policy), {}, notes)}
