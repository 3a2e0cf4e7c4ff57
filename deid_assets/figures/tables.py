"""Tables of the report, as text that is ready to be shown."""

from dataclasses import dataclass


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
