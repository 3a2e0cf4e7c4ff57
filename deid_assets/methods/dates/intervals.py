"""Dates by generalized intervals with an anchor: the order of events is kept, the dates are not (methods#dates).

The method is that of El Emam & Arbuckle 2013, ch. 5.

A member's events are distinct days in order. The first is the anchor, the date of birth if it is included; death, if included,
is last. The anchor becomes a random day of its month (or of a longer period). Each interval to the next event is generalized to
a bin and redrawn from it, and the new days are cumulative sums:

    0 and 1 stay, so that days of one stay remain together;  x > 1 is in [w k + 1, w k + w], k = floor((x - 1) / w),
    and the first bin is truncated to [2, w].

Events never change their order, so no service is before birth or after death. What depends on a service (its discharge, a log)
is an event of its own, or keeps its distance to it (`dated_claims`). Redrawing is unbiased if intervals are spread over their
bins; if they are at the lower edges, as (1, 8, 15) are, the sequence grows by 3 days per interval at w = 7. A sequence that
leaves the release window is redrawn, and finally squeezed within its bins.

Two common ways to change dates are here, too, for their defects (El Emam & Arbuckle 2013, ch. 5; methods#dates). Dates
randomized independently of one another change their order, for example after-care before its operation. Shifting a whole
sequence preserves every interval, and intervals identify people as well as dates do. A run that releases dates measures both on
the released members: the share of neighboring events that change their order, and the share of members with a unique sequence
of intervals.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from deid_assets.errors import how_many
from deid_assets.methods.statistics.streams import philox_of

Anchor = Literal["month", "quarter", "half_year", "year"]
MONTHS: dict[str, int] = {"month": 1, "quarter": 3, "half_year": 6, "year": 12}
"""Number of months of each period to which an anchor may be generalized."""

ROUNDS = 5
"""Number of times a sequence that leaves the window is redrawn before it is squeezed."""


@dataclass(frozen=True, eq=False)
class Events:
    """The distinct days of members' events, ordered by member and day.

    Attributes
    ----------
    member
        (e,) integers, ascending: the member of each event.
    day
        (e,) integers, ascending within a member: days since 1970-01-01.
    service
        (e,) bool: whether it is a service, which must stay in the window; otherwise a birth, death or discharge.

    Raises
    ------
    ValueError
        If the events are not in order, or if a member has two on one day.
    """

    member: np.ndarray
    day: np.ndarray
    service: np.ndarray

    def __post_init__(self) -> None:
        member, day = (np.asarray(values, dtype=np.int64) for values in (self.member, self.day))
        same = member[1:] == member[:-1]
        if np.any(member[1:] < member[:-1]) or np.any(same & (day[1:] <= day[:-1])):
            raise ValueError("events must be unique days, by member and day")
        object.__setattr__(self, "member", member)
        object.__setattr__(self, "day", day)
        object.__setattr__(self, "service", np.asarray(self.service, dtype=bool))

    def __len__(self) -> int:
        return len(self.member)

    @property
    def firsts(self) -> np.ndarray:
        """(m,) positions of the members' first events, their anchors."""
        return np.flatnonzero(np.concatenate([[True], self.member[1:] != self.member[:-1]])) if len(self) else np.zeros(0, int)

    def of(self, members: np.ndarray) -> np.ndarray:
        """Return (e,) bool: the events of some members, given as positions in `firsts`."""
        chosen = np.zeros(len(self.firsts), dtype=bool)
        chosen[members] = True
        return np.repeat(chosen, np.diff(np.append(self.firsts, len(self))))

    def take(self, chosen: np.ndarray) -> "Events":
        """Return some of the events, selected by a mask."""
        return Events(self.member[chosen], self.day[chosen], self.service[chosen])


def interval_bins(intervals: np.ndarray, width: np.ndarray | int) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and the largest number of days in the bin of each interval.

    Parameters
    ----------
    intervals
        (n,) integers from 0.
    width
        Number of days in a bin, at least 2; one number, or one for each interval (local recoding).

    Examples
    --------
    The four pairs of Table 5-4 of El Emam & Arbuckle 2013, 394 -> 398, 97 -> 96, 349 -> 345, 15 -> 20, are in one bin each:

    >>> low, high = interval_bins(np.array([394, 97, 349, 15, 1, 0, 5]), 7)
    >>> list(zip(low.tolist(), high.tolist()))
    [(393, 399), (92, 98), (344, 350), (15, 21), (1, 1), (0, 0), (2, 7)]
    """
    intervals = np.asarray(intervals, dtype=np.int64)
    below = (intervals - 1) // width * width
    short = intervals <= 1
    return np.where(short, intervals, np.maximum(2, below + 1)), np.where(short, intervals, below + width)


def drawn_on_average(intervals: np.ndarray, width: np.ndarray | int) -> np.ndarray:
    """Return the mean of the redrawn value of each interval, the middle of its bin; parameters as `interval_bins`.

    Examples
    --------
    The book's bias: intervals at the lower edges of their bins grow. The book's 4 for 1 is of a bin that the book itself
    leaves alone:

    >>> drawn_on_average(np.array([1, 8, 15]), 7).tolist()
    [1.0, 11.0, 18.0]
    """
    low, high = interval_bins(intervals, width)
    return (low + high) / 2


def anchor_periods(days: np.ndarray, anchor: Anchor) -> tuple[np.ndarray, np.ndarray]:
    """Return the first day of each day's period, and the number of days after it; days since 1970-01-01.

    Examples
    --------
    >>> first, after = anchor_periods(np.array([np.datetime64("2001-04-08").astype(int)]), "month")
    >>> np.datetime64(int(first[0]), "D"), after.tolist()
    (np.datetime64('2001-04-01'), [29])
    """
    months = np.asarray(days, dtype=np.int64).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    start = months // MONTHS[anchor] * MONTHS[anchor]
    first, last = (
        month.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) for month in (start, start + MONTHS[anchor])
    )
    return first, last - 1 - first


@dataclass(frozen=True)
class Redrawing:
    """How dates are redrawn.

    Attributes
    ----------
    anchor
        Period that the anchor is generalized to.
    window
        First and last day allowed for a service, in days since 1970-01-01. Delivered services are within it.
    study_end
        What happens to a sequence that leaves the window: redrawn, then squeezed within its bins; or clipped to the
        window's first or last day, which may merge distinct days.
    """

    anchor: Anchor
    window: tuple[int, int]
    study_end: Literal["redraw", "clip"] = "redraw"


@dataclass(frozen=True, eq=False)
class Redrawn:
    """The redrawn days, in the order of the events, and the number of members with a clipped or squeezed sequence."""

    day: np.ndarray
    forced: int


def redraw(events: Events, width: np.ndarray | int, how: Redrawing, seed: bytes) -> Redrawn:
    """Draw new days for all events.

    Parameters
    ----------
    events
        Events in an order that does not change between runs.
    width
        Number of days in a bin: one number, or (m,) one per member in the order of `Events.firsts`.
    how
        Anchor and window.
    seed
        16 bytes: the key of the counter-based generator.

    Raises
    ------
    ValueError
        If a width is below 2, the seed does not have 16 bytes, or a service is outside the window.
    """
    if len(seed) != 16:
        raise ValueError(f"the seed has {len(seed)} bytes instead of 16")
    if np.any(np.asarray(width) < 2):
        raise ValueError("bins of intervals have at least 2 days: narrower ones change nothing")
    first_day, last_day = how.window
    outside = events.service & ((events.day < first_day) | (events.day > last_day))
    if np.any(outside):
        raise ValueError(f"{how_many(int(np.count_nonzero(outside)), 'service lies', 'services lie')} outside the window")
    firsts = events.firsts
    widths = np.broadcast_to(np.asarray(width, dtype=np.int64), firsts.shape)
    generator = philox_of(seed)
    days = _drawn(events, widths, how.anchor, generator)
    if how.study_end == "clip":
        # Not only services are clipped: no event may pass the ones it follows or precedes.
        after, before = _about_services(events)
        clipped = np.where(after, np.maximum(days, first_day), days)
        clipped = np.where(before, np.minimum(clipped, last_day), clipped)
        return Redrawn(clipped, len(np.unique(events.member[clipped != days])))
    waiting = _leaving(events, days, how.window)
    for _ in range(ROUNDS):
        if not len(waiting):
            break
        chosen = events.of(waiting)
        days[chosen] = _drawn(events.take(chosen), widths[waiting], how.anchor, generator)
        waiting = _leaving(events, days, how.window)
    if len(waiting):
        chosen = events.of(waiting)
        days[chosen] = _squeezed(events.take(chosen), widths[waiting], how, generator)
    return Redrawn(days, len(waiting))


def _starts(events: Events) -> np.ndarray:
    """Return (e,) position of the first event of each event's member."""
    firsts = events.firsts
    return np.repeat(firsts, np.diff(np.append(firsts, len(events))))


def _intervals(events: Events) -> np.ndarray:
    """Return (e,) days since the previous event; 0 for anchors."""
    found = np.diff(events.day, prepend=0)
    found[events.firsts] = 0
    return found


def _added_up(events: Events, anchors: np.ndarray, intervals: np.ndarray) -> np.ndarray:
    """Return (e,) days: each member's anchor plus the cumulative sum of their intervals."""
    total = np.cumsum(intervals)
    starts = _starts(events)
    return total - total[starts] + np.repeat(anchors, np.bincount(np.cumsum(np.arange(len(events)) == starts) - 1))


def _drawn(events: Events, widths: np.ndarray, anchor: Anchor, generator: np.random.Generator) -> np.ndarray:
    """Draw days without regard to the window."""
    firsts = events.firsts
    period, after = anchor_periods(events.day[firsts], anchor)
    anchors = period + generator.integers(0, after, size=len(firsts), endpoint=True)
    lowest, highest = interval_bins(_intervals(events), np.repeat(widths, np.diff(np.append(firsts, len(events)))))
    intervals = generator.integers(lowest, highest, endpoint=True)
    return _added_up(events, anchors, intervals)


def _leaving(events: Events, days: np.ndarray, window: tuple[int, int]) -> np.ndarray:
    """Return positions in `Events.firsts` of the members with a service outside the window."""
    outside = events.service & ((days < window[0]) | (days > window[1]))
    return np.unique(np.searchsorted(events.firsts, np.flatnonzero(outside), side="right") - 1)


def _services_at(events: Events) -> tuple[np.ndarray, np.ndarray]:
    """Return (m,) positions of each member's first and last service; the first event if they have none."""
    firsts = events.firsts
    position = np.arange(len(events))
    first = np.minimum.reduceat(np.where(events.service, position, len(events)), firsts)
    last = np.maximum.reduceat(np.where(events.service, position, -1), firsts)
    return np.where(last < 0, firsts, first), np.where(last < 0, firsts, last)


def _about_services(events: Events) -> tuple[np.ndarray, np.ndarray]:
    """Return two (e,) bool masks: from the member's first service on, and up to their last one."""
    first, last = _services_at(events)
    lengths = np.diff(np.append(events.firsts, len(events)))
    position = np.arange(len(events))
    return position >= np.repeat(first, lengths), position <= np.repeat(last, lengths)


def _squeezed(events: Events, widths: np.ndarray, how: Redrawing, generator: np.random.Generator) -> np.ndarray:
    """Return days forced into the window, with every interval in its bin and the anchor in its period.

    This always succeeds, because the delivered days are in the window. The first service is moved to where the shortest
    intervals would fit, and the excess of intervals over their minimum is scaled down to the remaining room.
    """
    firsts = events.firsts
    lengths = np.diff(np.append(firsts, len(events)))
    first, last = _services_at(events)
    low, high = interval_bins(_intervals(events), np.repeat(widths, lengths))
    period, after = anchor_periods(events.day[firsts], how.anchor)
    anchors = period + generator.integers(0, after, size=len(firsts), endpoint=True)
    beyond = generator.integers(0, high - low, endpoint=True)
    # Before the first service there is nothing or the birth, so one interval leads to it.
    least = np.cumsum(low)
    led = first > firsts
    lead = np.where(led, low[first], 0)
    service = anchors + lead + np.where(led, beyond[first], 0)
    service = np.clip(service, how.window[0], how.window[1] - (least[last] - least[first]))
    beyond[first] = np.where(led, np.clip(service - anchors - lead, 0, high[first] - low[first]), beyond[first])
    anchors = service - lead - np.where(led, beyond[first], 0)
    # The room is reduced by up to a month, so that not everybody ends on the last day.
    room = how.window[1] - service - (least[last] - least[first])
    room = room - generator.integers(0, np.minimum(room, 30), endpoint=True)
    position = np.arange(len(events))
    scaled = (position > np.repeat(first, lengths)) & (position <= np.repeat(last, lengths))
    total = np.cumsum(np.where(scaled, beyond, 0))
    before = np.repeat(total[first], lengths)
    taken = np.maximum(total[last] - total[first], 1)
    share = np.repeat(np.minimum(room, taken), lengths), np.repeat(taken, lengths)
    reached = np.where(scaled, (total - before) * share[0] // share[1], 0)
    steps = np.where(scaled, reached - np.where(np.roll(scaled, 1), np.roll(reached, 1), 0), beyond)
    return _added_up(events, anchors, low + steps)


INDEPENDENT, SHIFTED, GENERALIZED = "randomized independently", "shifted as a whole", "generalized intervals"
SHIFTED_AT_MOST = 15
"""Days by which El Emam & Arbuckle 2013 randomize and shift dates, in either direction."""


def randomize_independently(days: np.ndarray, at_most: int, seed: bytes) -> np.ndarray:
    """Return each day moved by an independent uniform number of days, up to `at_most` in either direction.

    Parameters
    ----------
    days
        (e,) integers.
    at_most
        Days, at least 0; 15 in El Emam & Arbuckle 2013.
    seed
        16 bytes.
    """
    return np.asarray(days) + _uniform(len(days), at_most, seed)


def shift_sequences(events: Events, at_most: int, seed: bytes) -> np.ndarray:
    """Return the days of the events, with all days of a member moved by the same uniform number; parameters as above.

    Examples
    --------
    >>> events = Events([0, 0, 1], [10, 404, 7], [True, True, True])
    >>> moved = shift_sequences(events, 15, bytes(16))
    >>> int(moved[1] - moved[0])
    394
    """
    firsts = events.firsts
    return events.day + np.repeat(_uniform(len(firsts), at_most, seed), np.diff(np.append(firsts, len(events))))


def _uniform(size: int, at_most: int, seed: bytes) -> np.ndarray:
    generator = philox_of(seed)
    return generator.integers(-at_most, at_most, size=size, endpoint=True)


def order_violations(events: Events, days: np.ndarray) -> float:
    """Return the share of neighboring events of a member whose days are out of order or equal; 0 if there are none.

    Parameters
    ----------
    days
        (e,) new day of each event.

    Examples
    --------
    >>> events = Events([0, 0, 0], [10, 20, 30], [True] * 3)
    >>> order_violations(events, [10, 31, 30])
    0.5
    """
    same = events.member[1:] == events.member[:-1]
    return float(np.mean(np.diff(days)[same] <= 0)) if same.any() else 0.0


def unique_sequences(events: Events, values: np.ndarray) -> float:
    """Return the share of members with a unique sequence of values, one value for each event after the first.

    Parameters
    ----------
    values
        (e,) integers, such as days since the previous event or the bin of that interval; those of first events are ignored.

    Returns
    -------
    float
        Share of the members with two events or more; 0 if there are none.

    Examples
    --------
    >>> events = Events([0, 0, 1, 1, 2, 2, 2, 3], [1, 395, 5, 399, 2, 3, 4, 9], [True] * 8)
    >>> round(unique_sequences(events, np.diff(events.day, prepend=0)), 4)
    0.3333
    """
    firsts = events.firsts
    length = np.diff(np.append(firsts, len(events))) - 1
    several = length > 0
    if not several.any():
        return 0.0
    values = np.unique(np.asarray(values, dtype=np.int64), return_inverse=True)[1]
    starts, length = firsts[several], length[several]
    unique = 0
    # Members who agree so far are in one class; each step splits classes by the next value.
    found = np.zeros(len(starts), dtype=np.int64)
    for step in range(1, int(length.max()) + 1):
        found = np.unique(found * (values.max() + 1) + values[starts + step], return_inverse=True)[1]
        ends = length == step
        unique += int(np.count_nonzero(np.bincount(found[ends]) == 1))
        starts, length, found = starts[~ends], length[~ends], found[~ends]
    return unique / int(several.sum())


def compared_ways(events: Events, moved: np.ndarray, width: np.ndarray, keys: Sequence[bytes]) -> pd.DataFrame:
    """Compare the methods to change dates.

    Parameters
    ----------
    events
        Days of service as delivered.
    moved
        (e,) their redrawn days.
    width
        (e,) days in a bin of the member's intervals.
    keys
        16 bytes each: for days randomized independently, and for shifted sequences.

    Returns
    -------
    pandas.DataFrame
        method, order_violated_share and unique_intervals_share; one row per method.
    """
    intervals = np.diff(events.day, prepend=0)
    intervals[events.firsts] = 0
    independent = randomize_independently(events.day, SHIFTED_AT_MOST, keys[0])
    shifted = shift_sequences(events, SHIFTED_AT_MOST, keys[1])
    bins = interval_bins(intervals, width)[0]
    rows = [
        (INDEPENDENT, order_violations(events, independent), None),
        (SHIFTED, order_violations(events, shifted), unique_sequences(events, intervals)),
        (GENERALIZED, order_violations(events, moved), unique_sequences(events, bins)),
    ]
    return pd.DataFrame(rows, columns=["method", "order_violated_share", "unique_intervals_share"])
