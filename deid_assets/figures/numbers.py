"""Numbers as the report shows them: shares in per cent, bounds rounded to the side that does not flatter."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

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
