"""Durations as people write them in YAML: `35 days`."""

import re
from datetime import timedelta

from deid_assets.errors import PolicyError

_UNITS = ("minutes", "hours", "days", "weeks")
_WRITTEN = re.compile(rf"([1-9][0-9]{{0,5}}) ?({'|'.join(unit.removesuffix('s') for unit in _UNITS)})s?\Z")


def duration(text: str) -> timedelta:
    """Return the duration that a text states.

    Raises
    ------
    PolicyError
        If it states none.

    Examples
    --------
    >>> duration("35 days")
    datetime.timedelta(days=35)
    """
    found = _WRITTEN.match(text.strip())
    if found is None:
        raise PolicyError(f"a duration is a whole number and a unit, such as '35 days'; units are {', '.join(_UNITS)}")
    return timedelta(**{f"{found[2]}s": int(found[1])})
