"""What Safe Harbor says of the columns of a cohort's file: by their roles, and free columns by what their values look like.

Only counts by column leave the restricted store (methods#safe-harbor).
"""

import datetime
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from deid_assets.methods.safe_harbor.findings import Finding, findings
from deid_assets.methods.safe_harbor.identifiers import FREE
from deid_assets.reference.geography import kept_prefixes
from deid_assets.sources.cohort import CohortLayout
from deid_assets.sources.files import is_plain
from deid_assets.sources.text_tables import columns_of, read_text_table
from deid_assets.store import durable
from deid_assets.store.tables import Table, connect

_ROLES = {
    "person": "unique_code", "age": "age", "birth_date": "birth_date", "birth_year": "birth_year", "sex": FREE, "race": FREE,
    "state": "state", "zip": "zip", "county": "county",
}  # fmt: skip


@dataclass(frozen=True)
class CohortFindings:
    """What was found in the columns of a cohort's file as it is.

    Attributes
    ----------
    found
        Elements of Safe Harbor that columns break, in the order of the letters.
    free
        Columns that hold none of the demographics, in file order: they were searched for identifiers.
    not_searched
        Those of them whose cells are no text, number or date.
    """

    found: tuple[Finding, ...]
    free: tuple[str, ...]
    not_searched: tuple[str, ...]


def cohort_findings(path: Path, layout: CohortLayout, folder: Path) -> CohortFindings:
    """Judge every column of a cohort's file by Safe Harbor.

    Parameters
    ----------
    path, layout
        The file and the meaning of its columns; all others are free.
    folder
        Folder of the restricted store, where the copy of the file lies while it is read.

    Raises
    ------
    DeliveryError
        If the file cannot be read.
    """
    kinds = columns_of(layout.of(path), folder, "cohort")
    roles = _roles(layout)
    free = tuple(column for column in kinds if column not in roles)
    not_searched = tuple(column for column in free if not is_plain(kinds[column]))
    # Names of a file may be no identifiers of DuckDB's.
    columns = {f"c{at}": column for at, column in enumerate(kinds) if column not in not_searched}
    rows = read_text_table(layout.of(path), columns, folder, "cohort")
    with tempfile.TemporaryDirectory(dir=durable.owner_only(folder), prefix="scanning-") as name:
        table = Table(Path(name) / "cohort.duckdb", "main", "rows")
        with connect(table.file) as connection:
            connection.register("read", rows)
            connection.execute(f"CREATE TABLE {table.sql} AS FROM read")
            connection.unregister("read")
        by_column = {short: roles.get(column, FREE) for short, column in columns.items()}
        found = findings(table, by_column, layout.reference or datetime.date.max, kept_prefixes())
    return CohortFindings(tuple(replace(one, column=columns[one.column]) for one in found), free, not_searched)


def _roles(layout: CohortLayout) -> Mapping[str, str]:
    """Role of each column that the layout names; attributes are no demographics, so they are searched as all others."""
    attributes = set(layout.texts.values())
    return {column: _ROLES.get(name, "date") for name, column in layout.columns().items() if column not in attributes}
