"""What `deid kept` shows: each column of a release with its level, the values that occur, and its bits before and after."""

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from deid_assets.errors import ReleaseError
from deid_assets.figures.rendering import plain
from deid_assets.release.lineage.published import PublishedRelease
from deid_assets.release.manifest.dictionary import FILE as DICTIONARY
from deid_assets.reports.utility_content import kept_columns, measured_use
from deid_assets.store.reading import regular_bytes

_DAYS = "DaysInHospital"
HEADINGS = ("column", "level", "values", "bits delivered", "bits released", "distance")


def kept_rows(manifest: Mapping[str, Any], dictionary: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """One row for each delivered column, as texts under HEADINGS; withheld columns last.

    Parameters
    ----------
    manifest
        The public edition.
    dictionary
        The data dictionary of the release.

    Raises
    ------
    ReleaseError
        If the release has no measurements of its use.
    """
    columns = kept_columns(measured_use(manifest))
    if not columns:
        raise ReleaseError("the manifest has no measurements of what is kept: its policy, or its version, does not make them")
    levels = {
        table if column["name"] == _DAYS else column["name"]: column
        for table, described in dictionary["tables"].items()
        for column in described["columns"]
        if "level" in column
    }
    return [
        (
            column.name,
            *_level(levels.get(column.name), withheld=not column.after),
            plain(column.before) if column.before else "0",
            plain(column.after) if column.after else "0",
            "" if column.distance is None else plain(column.distance),
        )
        for column in columns
    ]


def _level(column: Mapping[str, Any] | None, withheld: bool) -> tuple[str, str]:
    """The level with its place among those of the policy, and how many values occur."""
    if column is None:
        return "withheld" if withheld else "as it is", ""
    names = column["levels_of_the_policy"]
    return f"{column['level']} ({names.index(column['level']) + 1} of {len(names)})", str(len(column["labels"]))


def print_kept(published: PublishedRelease, console: Console) -> None:
    """Print the table."""
    dictionary = json.loads(regular_bytes(published.folder / DICTIONARY))
    table = RichTable(title=f"What release {published.name} keeps", title_justify="left")
    for place, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if place < 2 else "right", no_wrap=place == 0)
    for row in kept_rows(published.public, dictionary):
        table.add_row(*map(escape, row))
    console.print(table)
    console.print(
        "Bits: entropy of a value. Level 1 is the finest. Distance: from the distribution of the delivery, with the labels of "
        "the release (0 to 1). Numbers are rounded to the effect of 25 members.",
        soft_wrap=True,
    )
