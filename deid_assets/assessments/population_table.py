"""A table of people that an adversary holds, read for attacks 2 and 3 at the levels of the release."""

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pandas as pd

from deid_assets.assessments.assessment import Shown
from deid_assets.errors import DeliveryError
from deid_assets.policy.models import Policy
from deid_assets.policy.rules.population_labels import TOO_WIDE, table_labels
from deid_assets.policy.sections.population import DischargeTable, PopulationTable
from deid_assets.sources.delivery import MOST_YEARS
from deid_assets.sources.population_tables import Labels, TableLayout, read_population_table
from deid_assets.store import durable
from deid_assets.store.tables import Table


def read_table(policy: Policy, table: PopulationTable, levels: Mapping[str, int], target: Table) -> dict[str, Shown]:
    """Read a population table, generalized to the levels of the release; return the numbers of rows used and not usable.

    Raises
    ------
    DeliveryError
        If the table cannot be read, too many of its rows are not usable, or it counts more people than the policy allows.
    """
    mapped = dict(table.columns)
    labels: dict[str, Labels] = {
        column: partial(table_labels, column, one, policy.hierarchy_of(column), levels[column])
        for column, one in mapped.items()
    }
    year = table.year if isinstance(table, DischargeTable) else None
    if year is not None:
        labels["year"] = lambda values: _years([year.values.get(value, value) for value in values], values)
    layout = TableLayout(
        {column: one.name for column, one in mapped.items()} | ({"year": year.name} if year else {}),
        table.table,
        table.delimiter,
        table.only,
        table.leave_out,
        table.count,
        table.person if isinstance(table, DischargeTable) else None,
    )
    # A copy: exactly the table with which the policy was judged is read, even if the file is changed or swapped.
    with tempfile.TemporaryDirectory(dir=durable.owner_only(target.file.parent), prefix="population-") as folder:
        try:
            file = table.copy_to(Path(folder))
        except ValueError as error:
            raise DeliveryError(f"population table: {error}") from None
        report = read_population_table(target, file, layout, labels, TOO_WIDE, policy.intake.quarantine_at_most, table.digest)
    if table.people_at_most is not None and people_of(target) > table.people_at_most:
        raise DeliveryError(
            f"population table: {table.file} counts more people than its people_at_most: it covers a larger area, or counts "
            "people twice, as rows of totals do; choose rows with `only` and `leave_out`"
        )
    return dict(report.metadata())


def people_of(table: Table) -> int:
    """How many people a population table represents."""
    persons = f"SELECT person, max(weight) AS weight FROM {table.sql} GROUP BY person"
    return int(table.query(f"SELECT coalesce(sum(weight), 0) AS n FROM ({persons})")["n"].iloc[0])


def _years(meant: list[str], values: list[str]) -> pd.DataFrame:
    known = [one.isdecimal() and 1 <= int(one) <= MOST_YEARS for one in meant]
    labels = [one if right else None for one, right in zip(meant, known, strict=True)]
    rules = [None if right else f"no year from 1 to {MOST_YEARS}" for right in known]
    return pd.DataFrame({"value": values, "label": labels, "rule": rules}, dtype=object)
