"""Numbers and tables as the report shows them: shares in per cent, bounds rounded to the side that does not flatter."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any, TypeAlias

from deid_assets.figures.rendering import percent, plain

NOT_SHOWN = "not shown"
_IN_PERCENT = ("share of", "probability")
_DIGITS = 3


def shown(number: float | int | str | None, unit: str = "") -> str:
    """Return a number as text: shares and probabilities in per cent, counts with all their digits.

    Examples
    --------
    >>> shown(.0076, "share of draws"), shown(19998, "members"), shown("T", "members"), shown(None)
    ('0.76 %', '19,998', 'T', 'not shown')
    """
    if number is None or isinstance(number, str):
        return NOT_SHOWN if number is None else number
    if not math.isfinite(number):
        return "not measured"
    if unit.startswith(_IN_PERCENT):
        return percent(number, _DIGITS)
    return f"{int(number):,}" if number == int(number) else plain(number, _DIGITS)


def shown_bound(number: float | int | str | None, unit: str = "", upper: bool = True) -> str:
    """Return a bound as text, rounded away from the value: a bound above a threshold never looks equal to it.

    Examples
    --------
    >>> shown_bound(.0080004, "probability"), shown_bound(.008, "probability")
    ('0.801 %', '0.8 %')
    >>> shown_bound(.0080004, "probability", upper=False)
    '0.8 %'
    """
    if isinstance(number, float) and math.isfinite(number) and not number.is_integer():
        # Fifteen digits are what a double is sure of: .008 must not become .00801.
        sure = Context(prec=15).create_decimal_from_float(number)
        number = float(Context(prec=_DIGITS, rounding=ROUND_CEILING if upper else ROUND_FLOOR).plus(sure))
    return shown(number, unit)


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
