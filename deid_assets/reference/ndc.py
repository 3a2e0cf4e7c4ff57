"""National Drug Codes in the one form of 11 digits (5-4-2).

Labels write ten digits with hyphens, as 4-4-2, 5-3-2 or 5-4-1; claims 11 digits: the part that is short gets a zero in front.
Ten digits without hyphens may be any of the three, and are no code. Source: 21 CFR 207.33; the 11 digits are those of the
standard transactions of 45 CFR 162.1002.
"""

import re

_PARTS = re.compile("([0-9]{4,5})-([0-9]{3,4})-([0-9]{1,2})")
_ELEVEN = re.compile("[0-9]{11}")
_TEN = re.compile("[0-9]{10}")


def ndc11(code: str) -> str | None:
    """Return a code in 11 digits; None if it is none, or ambiguous.

    Examples
    --------
    >>> ndc11("1234-5678-90"), ndc11("12345-678-90"), ndc11("12345-6789-0")
    ('01234567890', '12345067890', '12345678900')
    >>> ndc11("01234567890"), ndc11("1234567890"), ndc11("1234-567-89")
    ('01234567890', None, None)
    """
    if _ELEVEN.fullmatch(code):
        return code
    parts = _PARTS.fullmatch(code)
    if parts is None or len(code) < 12:  # ten digits and two hyphens
        return None
    return parts[1].zfill(5) + parts[2].zfill(4) + parts[3].zfill(2)


def is_ambiguous(code: str) -> bool:
    """Whether a text is ten digits without hyphens, which stand for several codes.

    Examples
    --------
    >>> is_ambiguous("1234567890"), is_ambiguous("1234-5678-90")
    (True, False)
    """
    return _TEN.fullmatch(code) is not None
