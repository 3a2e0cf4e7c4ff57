"""Tables of the report, as text that is ready to be shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from deid_assets.figures.numbers import shown, shown_bound


@dataclass(frozen=True)
class ComparisonRow:
    """A number or level of the Heritage Health Prize as published, and of this release."""

    what: str
    heritage: str
    here: str


@dataclass(frozen=True)
class ReportTable:
    """A table of numbers that the public may see, as text, with a heading and a sentence on how to read it.

    Attributes
    ----------
    name
        Its anchor in the page.
    title, text
        Heading, and what the numbers say.
    columns
        (heading, "name" or "number") of each column.
    rows
        One text for each column; the first names the row.
    """

    name: str
    title: str
    text: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, ...], ...]


Published: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Measurements of a public manifest, by name."""


def written(found: Published, name: str) -> str:
    """A published value as text, with its bound if it has one, and "about" if it has noise; empty if it was not measured."""
    if name not in found:
        return ""
    one = found[name]
    noisy = one.get("protected") is True and isinstance(one["value"], int | float)
    text = f"{'about ' if noisy else ''}{shown(one['value'], one['unit'])}"
    return (
        f"{text} (up to {shown_bound(one['bound'], one['unit'])})"
        if one["bound"] is not None and one["value"] is not None
        else text
    )
