"""Digits of other scripts than Latin, of the Unicode Character Database that comes with Python."""

import sys
import unicodedata
from functools import cache


@cache
def digits() -> dict[str, str]:
    """The decimal digits of other scripts, each with the one of 0 to 9 that it stands for.

    Examples
    --------
    >>> digits()["٣"], "3" in digits()
    ('3', False)
    """
    every = map(chr, range(128, sys.maxunicode + 1))
    return {char: str(unicodedata.decimal(char)) for char in every if unicodedata.category(char) == "Nd"}
