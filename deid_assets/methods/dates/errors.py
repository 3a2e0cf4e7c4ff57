"""How far released dates are from delivered ones, as reported to analysts (methods#dates).

The dates are made as in El Emam & Arbuckle 2013, ch. 5. How many released days and intervals equal the delivered ones is
compared with how many redrawing explains. Nothing there repeats the draw, so that an error in it cannot hide itself.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deid_assets.methods.dates.intervals import Events, interval_bins

SMALLEST = 11
"""Smallest number of members behind a published number (methods#protected-counts)."""

WEEK, MONTH = 7, 30
"""Units, in days, to which published errors are rounded up."""


@dataclass(frozen=True)
class DateErrors:
    """Errors of dates that may be published.

    Attributes
    ----------
    p95_days
        95 per cent of the dates are at most this far from the delivered ones; rounded up to whole weeks.
    largest_days
        Fewer than `SMALLEST` members have a date that is further away; rounded up to months of 30 days. The largest error
        belongs to one person and is not published.
    """

    p95_days: int | None
    largest_days: int | None


def released_errors(
    member: np.ndarray, delivered: np.ndarray, released: np.ndarray, since_first: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the errors in what is released, and the member of each.

    Parameters
    ----------
    member, delivered, released
        (n,) integers ordered by member and day: the member of each service, its delivered day and its released day.
    since_first
        Whether days since the member's first service are released instead of dates. All later services then carry the
        error of the first one, which is day 0 and has no error itself.

    Examples
    --------
    A sequence moved by 40 days, whose interval of 7 days was drawn as 5:

    >>> released_errors(np.array([0, 0]), np.array([100, 107]), np.array([140, 145]), since_first=False)[0].tolist()
    [40, 38]
    >>> released_errors(np.array([0, 0]), np.array([100, 107]), np.array([140, 145]), since_first=True)[0].tolist()
    [-2]
    """
    errors = released - delivered
    if not since_first:
        return errors, member
    _, first, own = np.unique(member, return_index=True, return_inverse=True)
    later = np.arange(len(member)) != first[own]
    return (errors - errors[first[own]])[later], member[later]


def date_errors(errors: np.ndarray, member: np.ndarray, noisy: Callable[[int], int]) -> DateErrors:
    """Return the errors that may be published; None if fewer than `SMALLEST` members are behind a number.

    Parameters
    ----------
    errors
        (n,) days between the released and the delivered date, either sign.
    member
        (n,) integers: the member of each date.
    noisy
        Adds noise to the number of members beyond the percentile, which no file reveals. If the true number decided, a
        missing result would reveal that they are fewer than `SMALLEST`.

    Examples
    --------
    >>> date_errors(np.arange(300), np.arange(300), noisy=lambda count: count + 1)
    DateErrors(p95_days=287, largest_days=300)
    """
    if not len(errors):
        return DateErrors(None, None)
    size = np.abs(np.asarray(errors, dtype=np.int64))
    _, own = np.unique(member, return_inverse=True)
    most = np.zeros(own.max() + 1, dtype=np.int64)
    np.maximum.at(most, own, size)
    p95 = int(np.sort(size)[-(-95 * len(size) // 100) - 1])
    p95 = -(-p95 // WEEK) * WEEK
    # Several people must be beyond the percentile; otherwise it describes one of them.
    beyond = int(np.count_nonzero(most >= p95 - WEEK + 1))
    largest = -(-int(np.sort(most)[-SMALLEST]) // MONTH) * MONTH if len(most) >= SMALLEST else None
    return DateErrors(p95 if noisy(beyond) >= SMALLEST else None, largest)


_LIKELIEST = 1 / 28
"""Highest probability that a released first service day is the delivered one: an anchor's period has at least 28 days."""


@dataclass(frozen=True, eq=False)
class ReleasedDates:
    """The services of the released members, as delivered and as released.

    Attributes
    ----------
    events
        Unique days of service as delivered.
    moved
        (e,) the days released.
    width
        (e,) days in a bin of the member's intervals.
    """

    events: Events
    moved: np.ndarray
    width: np.ndarray


@dataclass(frozen=True)
class AsDelivered:
    """Days or intervals that equal the delivered ones.

    Attributes
    ----------
    same
        How many do.
    at_most
        How many may do so by chance: what is expected and a margin of five standard deviations.
    of
        How many could.
    """

    same: int
    at_most: float
    of: int


def first_services_as_delivered(released: ReleasedDates) -> AsDelivered:
    """Count the members whose first service is released on its delivered day.

    Examples
    --------
    Of three members, one has a first service on its delivered day; chance explains up to three:

    >>> events = Events([0, 1, 1, 2], [10, 20, 25, 30], [True] * 4)
    >>> found = first_services_as_delivered(ReleasedDates(events, np.array([10, 22, 25, 31]), np.full(4, 7)))
    >>> found.same, round(found.at_most, 2), found.of
    (1, 2.74, 3)
    """
    firsts = released.events.firsts
    same = int(np.count_nonzero(released.moved[firsts] == released.events.day[firsts]))
    expected = len(firsts) * _LIKELIEST
    return AsDelivered(same, float(expected + 5 * np.sqrt(expected) + 1), len(firsts))


def intervals_as_delivered(released: ReleasedDates) -> AsDelivered:
    """Count the intervals between services that are released as delivered, among those that redrawing may change.

    A shifted sequence moves every date but keeps, and so discloses, every interval (El Emam & Arbuckle 2013). An interval is
    drawn as delivered with a probability of one over the days of its bin. Sequences squeezed into the delivery's years are
    not such draws, so half of the intervals that should differ may be as delivered.

    Examples
    --------
    A shifted sequence: both intervals of 10 days, in a bin of 7, are as delivered.

    >>> events = Events([0, 0, 0], [10, 20, 30], [True] * 3)
    >>> found = intervals_as_delivered(ReleasedDates(events, events.day + 3, np.full(3, 7)))
    >>> found.same, found.of
    (2, 2)
    """
    follows = np.ones(len(released.events), dtype=bool)
    follows[released.events.firsts] = False
    delivered, moved = (np.diff(days, prepend=0)[follows] for days in (released.events.day, released.moved))
    lowest, highest = interval_bins(delivered, released.width[follows])
    of_choice = highest > lowest  # 0 and 1 stay as they are, and so does what is alone in its bin
    n = int(np.count_nonzero(of_choice))
    same = int(np.count_nonzero((delivered == moved)[of_choice]))
    expected = float((1 / (highest - lowest + 1))[of_choice].sum())
    return AsDelivered(same, float(expected + (n - expected) / 2 + 5 * np.sqrt(n)), n)
