"""Times in manifests and in the registry: they may not go backwards, and must be ones that a clock can show.

Nothing offline proves what time it is. But a registry knows when its last entry was made, and this code knows that it
did not exist before it was written.
"""

import datetime

from deid_assets.errors import ReleaseError

WRITTEN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
"""No clock that runs this code is right if it shows an earlier time."""

AHEAD_AT_MOST = datetime.timedelta(days=20 * 366)
"""Beyond the last known time no installation sleeps for so long: the clock is wrong."""

TOGETHER = datetime.timedelta(hours=1)
"""A manifest says when its release was begun: of two runs at once the later one may be published first."""


def parse_time(text: object) -> datetime.datetime:
    """A time in ISO 8601 with its time zone.

    Raises
    ------
    ReleaseError
        If it is none.

    Examples
    --------
    >>> parse_time("2026-03-01T00:00:00Z") == parse_time("2026-03-01T01:00:00+01:00")
    True
    """
    try:
        found = datetime.datetime.fromisoformat(text)
    except (TypeError, ValueError):
        found = None
    if found is None or found.tzinfo is None:
        raise ReleaseError("the time is not in ISO 8601 with its time zone, such as 2026-03-01T12:00:00+00:00")
    return found


def goes_back(time: str, last: str) -> bool:
    """Whether a time lies before an earlier entry's by more than two runs at once explain."""
    return parse_time(time) < parse_time(last) - TOGETHER


def now(last: str | None) -> str:
    """The time in UTC to the second, in ISO 8601, if the clock can be right.

    Parameters
    ----------
    last
        Time of the registry's newest entry; None if it has none.

    Raises
    ------
    ReleaseError
        If the clock shows a time before the newest entry or before this code was written, or one that is decades after
        both.
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
