"""Canaries of a flat table: records in classes of known size, and classes that disclose an attribute."""

from collections.abc import Callable, Mapping
from pathlib import Path

from deid_assets.assessments import measure
from deid_assets.assets.planted import PLAIN, Attack, as_certain, plant, planted_store
from deid_assets.assets.planted_disclosure import attribute_classes, told_of_canaries
from deid_assets.assets.planted_members import domain_rows, label
from deid_assets.methods.canaries.planting import Findings
from deid_assets.methods.disclosure.attribute_disclosure import AttributeDisclosure
from deid_assets.policy.flat import FlatPolicy
from deid_assets.sources.flat import POPULATION
from deid_assets.store.tables import Table


def records_of_canaries(
    levels: Mapping[str, int], like: Mapping[str, Table], population: Table | None, attack: Attack
) -> Findings:
    """Whether the smallest class is found if only one column distinguishes it, for each column in turn.

    Parameters
    ----------
    levels
        Level of every quasi-identifier in the release.
    like
        The asset's inputs.
    population
        The table in which classes are counted; None if they are counted in the release itself.
    """
    total = Findings(0, 0)
    with planted_store() as file:
        for own in levels:
            total += _of_column(file, own, levels, like, population, attack)
    return total


def _of_column(
    file: Path, own: str, levels: Mapping[str, int], like: Mapping[str, Table], population: Table | None, attack: Attack
) -> Findings:
    """Plain records, some with a distinct value in one column, and some where it is missing."""
    rows: list[object] = [PLAIN] * 5 + [PLAIN + 1] * 2 + [None] * 3
    left_out = 4
    delivered = [_record(levels, own, value) for value in [*rows, *[PLAIN] * left_out]]
    domains = [row for column in levels for row in domain_rows(column, (PLAIN, PLAIN + 1, None), levels[column])]
    certain = {measure.SMALLEST_CLASS: 2, measure.SUPPRESSED: left_out / len(delivered)}
    tables = {
        "records": plant(file, like["records"], _numbered(delivered), "records"),
        "record_domains": plant(file, like["record_domains"], domains, "record_domains"),
    }
    if population is not None:
        # One of two in the population is twice in the release, so the population lacks one of them.
        rows = [*rows, PLAIN + 1]
        certain = {measure.SMALLEST_CLASS: 2, measure.SUPPRESSED: (left_out - 1) / len(delivered), measure.BEYOND: 1}
        people = [_record(levels, own, value) for value in [PLAIN] * 5 + [PLAIN + 1] * 2 + [None] * 3]
        plant(file, population, _numbered(people), POPULATION)
    released = [{column: label(told, levels[column]) for column, told in _record(levels, own, value).items()} for value in rows]
    tables["release_records"] = plant(file, like["release_records"], released, "release_records")
    return as_certain(certain, attack(tables))


def _record(levels: Mapping[str, int], own: str, value: object) -> dict[str, object]:
    return dict.fromkeys(levels, PLAIN) | {own: value}


def _numbered(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [
        {"record": number} | {column: None if value is None else str(value) for column, value in row.items()}
        for number, row in enumerate(rows, start=1)
    ]


def record_attributes_of_canaries(
    policy: FlatPolicy, like: Table, attack: Callable[[Table, str], AttributeDisclosure]
) -> Findings:
    """Whether every sensitive attribute is found to be disclosed by exactly the classes that disclose it."""
    columns = [qi.release_as for qi in policy.quasi_identifiers]
    rows = [
        {column: label(own.get(column, PLAIN), 0) for column in columns}
        | {attribute.release_as: str(value) for attribute in policy.attributes}
        for own, values in attribute_classes(columns)
        for value in values
    ]
    with planted_store() as file:
        records = plant(file, like, rows, "release_records")
        found = {column: attack(records, column) for column in policy.sensitive_columns}
    return told_of_canaries(policy.attribute_disclosure, found, dict.fromkeys(found, len(columns)))
