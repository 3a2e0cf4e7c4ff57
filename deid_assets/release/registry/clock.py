"""Times in manifests and in the registry: they must not go backwards, and must be plausible for a clock.

Nothing offline proves what time it is. But a registry knows when its last entry was made, and this code knows when it
was written.
"""

import contextlib
import datetime

from deid_assets.errors import ReleaseError

WRITTEN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
"""Earliest plausible time: a clock that runs this code and shows an earlier time is wrong."""

AHEAD_AT_MOST = datetime.timedelta(days=20 * 366)
"""No installation is idle for so long after the last known time; a later time means that the clock is wrong."""

TOGETHER = datetime.timedelta(hours=1)
"""A manifest states when its release was begun: of two concurrent runs, the later one may be published first."""


def parse_time(text: object) -> datetime.datetime:
    """A time in ISO 8601 with its time zone.

    Raises
    ------
    ReleaseError
        If it is not such a time.

    Examples
    --------
    >>> parse_time("2026-03-01T00:00:00Z") == parse_time("2026-03-01T01:00:00+01:00")
    True
    """
    found = None
    if isinstance(text, str):
        with contextlib.suppress(ValueError):
            found = datetime.datetime.fromisoformat(text)
    if found is None or found.tzinfo is None:
        raise ReleaseError("the time is not in ISO 8601 with its time zone, such as 2026-03-01T12:00:00+00:00")
    return found


def goes_back(time: str, last: str) -> bool:
    """Whether a time is before an earlier entry's by more than two concurrent runs explain."""
    return parse_time(time) < parse_time(last) - TOGETHER


def now(last: str | None) -> str:
    """The time in UTC to the second, in ISO 8601, if the clock is plausible.

    Parameters
    ----------
    last
        Time of the registry's newest entry; None if it has none.

    Raises
    ------
    ReleaseError
        If the clock shows a time before the newest entry or before this code was written, or decades after both.
    """
    shown = datetime.datetime.now(datetime.UTC)
    text = shown.isoformat(timespec="seconds")
    known = max([WRITTEN, *([parse_time(last)] if last else [])])
    if shown < WRITTEN:
        raise ReleaseError(
            f"the clock of this machine shows {text}, before this program was written: correct it, and run again"
        )
    if last and goes_back(text, last):
        raise ReleaseError(
            f"the clock of this machine shows {text}, but the registry's newest entry is dated {last}: correct the clock, "
            "and run again. If that entry was made while the clock was ahead, record that with `deid clock correct --reason "
            "TEXT`"
        )
    if shown - known > AHEAD_AT_MOST:
        raise ReleaseError(
            f"the clock of this machine shows {text}, over twenty years after the last known time {known.isoformat()}: "
            "correct it, and run again"
        )
    return text
