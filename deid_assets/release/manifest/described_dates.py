"""What a release says about its dates: how they were made, what is preserved, and how far off they are."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from deid_assets.methods.dates.errors import SMALLEST, ReleasedDates, date_errors, released_errors
from deid_assets.methods.dates.intervals import GENERALIZED, INDEPENDENT, SHIFTED, compared_ways, drawn_on_average
from deid_assets.policy.models import Policy

_AT_LOWER_EDGES = (1, 8, 15)
_WEEK = 7
"""The example of growing intervals in El Emam & Arbuckle 2013, and its width (methods#dates)."""


def described_dates(
    policy: Policy, released: ReleasedDates, noisy: Callable[[int], int], keys: Sequence[bytes]
) -> dict[str, Any]:
    """The content of the file for analysts.

    It also states what the two methods that are not recommended would have done.

    Parameters
    ----------
    noisy
        Adds noise to the number of members whose dates are furthest off.
    keys
        16 bytes each: for days randomized independently, and for shifted sequences.
    """
    dates = policy.dates_section
    events = released.events
    as_days = dates.format != "dates"
    errors = date_errors(*released_errors(events.member, events.day, released.moved, as_days), noisy)
    compared = compared_ways(events, released.moved, released.width, keys)
    ways = compared.set_index("method")
    several = np.count_nonzero(np.diff(np.append(events.firsts, len(events))) > 1)
    with_stays = dates.derived == "recompute"
    exact = ["services of one day stay on one day", *(["distance of a payment to its service"] if with_stays else [])]
    if dates.study_end == "redraw":
        exact.append(f"order of a member's services{' and discharges' if with_stays else ''}")
        exact.append("intervals of 1 day between them, so that days of one stay remain together")
    with_season = dates.format == "dates" and dates.anchor in ("month", "quarter")
    told = {
        "column": dates.release_as,
        "format": dates.format,
        "anchor": {
            "event": "birth, where it is known, else first service",
            "generalized_to": dates.anchor,
            "drawn": "uniformly",
        },
        "interval_bins": {
            "widest_days": dates.width,
            "first_bin": [2, dates.width],
            "drawn": "uniformly, independently",
            "local_recoding": dates.narrower is not None,
        },
        "leaving_the_years": dates.study_end,
        "derived_columns": dates.derived,
        **(
            {
                "connected": {
                    one.release_as: f"drawn within the released {one.offset}; may pass the next service, or the years"
                    for one in dates.connected
                }
            }
            if dates.connected
            else {}
        ),
        "bias": {
            "where": "intervals that lie at the lower edges of their bins grow",
            "example": _grown(np.array(_AT_LOWER_EDGES), _WEEK),
            "here": _grown(dates.width * np.arange(len(_AT_LOWER_EDGES)) + 1, dates.width),
        },
        "preserved_exactly": exact,
        "preserved_approximately": ["interval between services", *(["season"] if with_season else [])],
        "not_preserved": [
            "weekday",
            *([] if with_season else ["season"]),
            "distance in days from one member's dates to another's",
        ],
        "where_clipped": None
        if dates.study_end == "redraw"
        else "order is kept, but different days of a member may have become the first or the last day of the years delivered",
        # With few members, shares reveal individuals.
        "not_recommended": {
            INDEPENDENT: {"order_violated_share": round(float(ways.loc[INDEPENDENT, "order_violated_share"]), 2)},
            SHIFTED: {"unique_intervals_share": round(float(ways.loc[SHIFTED, "unique_intervals_share"]), 2)},
            GENERALIZED: {"unique_intervals_share": round(float(ways.loc[GENERALIZED, "unique_intervals_share"]), 2)},
        }
        if several >= 100 * SMALLEST
        else None,
        "errors": {
            "of": "days since the first service, of all services after it" if as_days else "dates",
            "p95_days": errors.p95_days,
            "largest_days": errors.largest_days,
            "note": f"p95_days is rounded up to weeks; fewer than 11 members have a {'day' if as_days else 'date'} further "
            "off than largest_days, which is rounded up to 30 days; null where fewer than 11 members stand behind a number, "
            "by a noisy count where the files do not tell it",
        },
    }
    return told


def _grown(intervals: np.ndarray, width: int) -> dict[str, object]:
    """The average of some intervals after the draw, and the days from the first to the last event before and after."""
    drawn = drawn_on_average(intervals, width)
    return {
        "width": width,
        "intervals": intervals.tolist(),
        "drawn_on_average": drawn.tolist(),
        "days": int(intervals.sum()),
        "days_on_average": float(drawn.sum()),
    }
