"""Dates by generalized intervals with an anchor: the order of events is kept, the dates are not (methods#dates).

The method is that of El Emam & Arbuckle 2013, ch. 5.

A member's events are unique days in order. The first is the anchor, his date of birth if that is among them; his death,
if it is, comes last. The anchor becomes a random day of its month (or a longer period). Each interval to the next event
is generalized to a bin and drawn anew from it, and the days follow by adding up:

    0 and 1 stay, so that days of one stay remain together;  x > 1 is in [w k + 1, w k + w], k = floor((x - 1) / w),
    and the first bin is cut to [2, w].

Nothing can overtake anything, so that no service lies before birth or after death. What depends on a service (its
discharge, a log) is an event of its own, or keeps its distance to it (`dated_claims`). Drawing from bins is unbiased where
days are spread over them; where they sit at the lower edges, as (1, 8, 15) do, the sequence grows by 3 days for each
interval at w = 7. What would leave the release window is drawn again, and at last squeezed within its bins.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

Anchor = Literal["month", "quarter", "half_year", "year"]
MONTHS: dict[str, int] = {"month": 1, "quarter": 3, "half_year": 6, "year": 12}
"""Months of each period to which an anchor may be generalized."""

ROUNDS = 5
"""How often a sequence that leaves the window is drawn again before it is squeezed."""


@dataclass(frozen=True, eq=False)
class Events:
    """The unique days of members' events, by member and day.

    Attributes
    ----------
    member
        (e,) integers, ascending: whose event it is.
    day
        (e,) integers, ascending within a member: days since 1970-01-01.
    service
        (e,) bool: whether it is a service, which the window holds; else a birth, death or discharge.

    Raises
    ------
    ValueError
        If the events are not in order, or a member has two on one day.
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
        """(m,) positions of the members' first events: their anchors."""
        return np.flatnonzero(np.concatenate([[True], self.member[1:] != self.member[:-1]])) if len(self) else np.zeros(0, int)

    def of(self, members: np.ndarray) -> np.ndarray:
        """(e,) bool: the events of some members, as positions in `firsts`."""
        chosen = np.zeros(len(self.firsts), dtype=bool)
        chosen[members] = True
        return np.repeat(chosen, np.diff(np.append(self.firsts, len(self))))

    def take(self, chosen: np.ndarray) -> "Events":
        """Some of the events, by a mask."""
        return Events(self.member[chosen], self.day[chosen], self.service[chosen])


def interval_bins(intervals: np.ndarray, width: np.ndarray | int) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and the highest number of days of the bin of each interval.

    Parameters
    ----------
    intervals
        (n,) integers from 0.
    width
        Days in a bin, at least 2; one number, or one for each interval (local recoding).

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
    """Return the mean of what each interval is drawn anew as: the middle of its bin; parameters as `interval_bins`.

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
    """Return the first day, and the days after it, of the period that each day lies in; days since 1970-01-01.

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
    """How dates are drawn anew.

    Attributes
    ----------
    anchor
        Period that the anchor is generalized to.
    window
        First and last day that a service may have, days since 1970-01-01. Delivered services lie in it.
    study_end
        What is done with what leaves the window: drawn again, then squeezed within its bins; or clipped: it becomes the
        window's first or last day, which may join days that were apart.
    """

    anchor: Anchor
    window: tuple[int, int]
    study_end: Literal["redraw", "clip"] = "redraw"


@dataclass(frozen=True, eq=False)
class Redrawn:
    """The days drawn, in the order of the events; and how many members' sequences were clipped or squeezed."""

    day: np.ndarray
    forced: int


def redraw(events: Events, width: np.ndarray | int, how: Redrawing, seed: bytes) -> Redrawn:
    """Draw new days for all events.

    Parameters
    ----------
    events
        In an order that does not change from run to run.
    width
        Days in a bin: one number, or (m,) one for each member in the order of `Events.firsts`.
    how
        Anchor and window.
    seed
        16 bytes: the key of the counter-based generator.

    Raises
    ------
    ValueError
        If a width is below 2, the seed is not of 16 bytes, or a service lies outside the window.
    """
    if len(seed) != 16:
        raise ValueError(f"the seed has {len(seed)} bytes instead of 16")
    if np.any(np.asarray(width) < 2):
        raise ValueError("bins of intervals have at least 2 days: narrower ones change nothing")
    first_day, last_day = how.window
    outside = events.service & ((events.day < first_day) | (events.day > last_day))
    if np.any(outside):
        raise ValueError(f"{np.count_nonzero(outside)} services lie outside the window")
    firsts = events.firsts
    widths = np.broadcast_to(np.asarray(width, dtype=np.int64), firsts.shape)
    generator = np.random.Generator(np.random.Philox(key=int.from_bytes(seed, "big")))
    days = _drawn(events, widths, how.anchor, generator)
    if how.study_end == "clip":
        # Not services alone: what follows the first one, or precedes the last one, must not be passed by it.
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
    """(e,) position of the first event of each event's member."""
    firsts = events.firsts
    return np.repeat(firsts, np.diff(np.append(firsts, len(events))))


def _intervals(events: Events) -> np.ndarray:
    """(e,) days since the event before it; 0 for anchors."""
    found = np.diff(events.day, prepend=0)
    found[events.firsts] = 0
    return found


def _added_up(events: Events, anchors: np.ndarray, intervals: np.ndarray) -> np.ndarray:
    """(e,) days: each member's anchor, and his intervals added to it one after the other."""
    total = np.cumsum(intervals)
    starts = _starts(events)
    return total - total[starts] + np.repeat(anchors, np.bincount(np.cumsum(np.arange(len(events)) == starts) - 1))


def _drawn(events: Events, widths: np.ndarray, anchor: Anchor, generator: np.random.Generator) -> np.ndarray:
    """Days drawn without regard to the window."""
    firsts = events.firsts
    period, after = anchor_periods(events.day[firsts], anchor)
    anchors = period + generator.integers(0, after, size=len(firsts), endpoint=True)
    lowest, highest = interval_bins(_intervals(events), np.repeat(widths, np.diff(np.append(firsts, len(events)))))
    intervals = generator.integers(lowest, highest, endpoint=True)
    return _added_up(events, anchors, intervals)


def _leaving(events: Events, days: np.ndarray, window: tuple[int, int]) -> np.ndarray:
    """Positions in `Events.firsts` of the members of whom a service lies outside the window."""
    outside = events.service & ((days < window[0]) | (days > window[1]))
    return np.unique(np.searchsorted(events.firsts, np.flatnonzero(outside), side="right") - 1)


def _services_at(events: Events) -> tuple[np.ndarray, np.ndarray]:
    """(m,) positions of each member's first and last service; the first event where he has none."""
    firsts = events.firsts
    position = np.arange(len(events))
    first = np.minimum.reduceat(np.where(events.service, position, len(events)), firsts)
    last = np.maximum.reduceat(np.where(events.service, position, -1), firsts)
    return np.where(last < 0, firsts, first), np.where(last < 0, firsts, last)


def _about_services(events: Events) -> tuple[np.ndarray, np.ndarray]:
    """(e,) bool twice: from the member's first service on, and up to his last one."""
    first, last = _services_at(events)
    lengths = np.diff(np.append(events.firsts, len(events)))
    position = np.arange(len(events))
    return position >= np.repeat(first, lengths), position <= np.repeat(last, lengths)


def _squeezed(events: Events, widths: np.ndarray, how: Redrawing, generator: np.random.Generator) -> np.ndarray:
    """Days that hold the window by force, with every interval still in its bin and the anchor in its period.

    It always succeeds, because the delivered days hold the window: the first service is moved to where the shortest
    intervals would fit, and what the intervals have beyond their least is scaled down to the room that is left.
    """
    firsts = events.firsts
    lengths = np.diff(np.append(firsts, len(events)))
    first, last = _services_at(events)
    low, high = interval_bins(_intervals(events), np.repeat(widths, lengths))
    period, after = anchor_periods(events.day[firsts], how.anchor)
    anchors = period + generator.integers(0, after, size=len(firsts), endpoint=True)
    beyond = generator.integers(0, high - low, endpoint=True)
    # Before the first service lies nothing or the birth, so that one interval leads to it.
    least = np.cumsum(low)
    led = first > firsts
    lead = np.where(led, low[first], 0)
    service = anchors + lead + np.where(led, beyond[first], 0)
    service = np.clip(service, how.window[0], how.window[1] - (least[last] - least[first]))
    beyond[first] = np.where(led, np.clip(service - anchors - lead, 0, high[first] - low[first]), beyond[first])
    anchors = service - lead - np.where(led, beyond[first], 0)
    # The room is cut by up to a month, so that not everybody ends on the last day.
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
