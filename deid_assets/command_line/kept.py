"""What `deid kept` shows: each column of a release with its level, the information kept, and its bits before and after."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from deid_assets.assessments.detail import KEPT
from deid_assets.errors import ReleaseError
from deid_assets.figures.rendering import plain
from deid_assets.release.lineage.published import PublishedRelease
from deid_assets.release.manifest.certificate import FILE as CERTIFICATE
from deid_assets.reports.utility_content import kept_columns, measured_use
from deid_assets.store.digests import parse_json, regular_bytes

_DAYS = "DaysInHospital"
HEADINGS = ("column", "level", "values", "information kept", "bits delivered", "bits released", "distance")


def delivered_column_rows(manifest: Mapping[str, Any], dictionary: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """One row for each delivered column, as texts under HEADINGS; withheld columns last.

    Information kept is the number of the gate, from 0 to 1; of a column that nothing generalizes there is none.

    Parameters
    ----------
    manifest
        The public edition.
    dictionary
        The data dictionary of the release.

    Raises
    ------
    ReleaseError
        If the release has no measurements of what it keeps.
    """
    columns, shares = kept_columns(measured_use(manifest)), kept_shares(manifest)
    if not columns and not shares:
        raise ReleaseError("the manifest has no measurements of what is kept: its policy, or its version, does not make them")
    described = {
        table if column["name"] == _DAYS else column["name"]: column
        for table, of_table in dictionary["tables"].items()
        for column in of_table["columns"]
    }
    if not columns:
        return [
            (name, *_level(column, withheld=False), _share(shares, name), "", "", "")
            for name, column in described.items()
            if "level" in column
        ]
    return [
        (
            column.name,
            *_level(described.get(_in_release(column.name, described)), withheld=not column.after),
            "0" if not column.after and column.distance is None else _share(shares, column.name),
            plain(column.before) if column.before else "0",
            plain(column.after) if column.after else "0",
            "" if column.distance is None else plain(column.distance),
        )
        for column in columns
    ]


def kept_shares(manifest: Mapping[str, Any]) -> dict[str, float]:
    """The share of information that the gate measured, by the released name of each column that the lattice generalizes."""
    return {
        one["name"].removesuffix(f"/{KEPT}"): one["value"]
        for item in manifest["evidence"]
        if item["asset"] == "gate"
        for one in item["measurements"]
        if one["name"].endswith(f"/{KEPT}")
    }


def _share(shares: Mapping[str, float], name: str) -> str:
    return plain(shares[name]) if name in shares else ""


def _in_release(name: str, described: Collection[str]) -> str:
    """The name in the release of a column that several tables have, such as claims_MemberID."""
    parts = name.split("_")
    shorter = ("_".join(parts[first:]) for first in range(len(parts)))
    return next((one for one in shorter if one in described), name)


def _level(column: Mapping[str, Any] | None, withheld: bool) -> tuple[str, str]:
    """The level with its place among those of the policy, and how many values occur."""
    if column is not None and column["role"] == "pseudonym":
        return "pseudonym", ""
    if column is None or "level" not in column:
        return "withheld" if withheld else "as it is", ""
    names = column["levels_of_the_policy"]
    return f"{column['level']} ({names.index(column['level']) + 1} of {len(names)})", str(len(column["labels"]))


def dimension_levels(folder: Path) -> list[tuple[str, int, int]]:
    """Name, chosen and highest level of each dimension, from the certificate of a release; none where nothing was searched."""
    file = folder / CERTIFICATE
    if not file.is_file():
        return []
    told = parse_json(regular_bytes(file))
    dimensions = zip(told["dimensions"], told["chosen"]["node"], strict=True)
    return [(one["name"], level, one["highest_level"]) for one, level in dimensions]


def print_kept(published: PublishedRelease, console: Console) -> None:
    """Print the table."""
    if published.without_dictionary:
        console.print(f"{published.without_dictionary}, so that nothing tells the bits of its columns.", soft_wrap=True)
        for name, level, highest in dimension_levels(published.folder):
            console.print(f"  {name}: level {level} of 0 to {highest}, where 0 is the finest", highlight=False)
        return
    dictionary = published.dictionary()
    table = RichTable(title=f"What release {published.name} keeps", title_justify="left")
    for place, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if place < 2 else "right", no_wrap=place == 0)
    for row in delivered_column_rows(published.public, dictionary):
        table.add_row(*map(escape, row))
    console.print(table)
    console.print(
        "Information kept: bits of the released values, as a share of those that were delivered for the same rows (0 to 1, "
        "rounded down); the gate compares it with detail_at_least. Bits: entropy of a value in the released rows. Level 1 is "
        "the finest. Distance: from the distribution of the delivery, with the labels of the release (0 to 1). Numbers are "
        "rounded to the effect of 25 people.",
        soft_wrap=True,
    )
