"""How many released days and intervals equal the delivered ones, and how many redrawing explains (methods#dates).

Nothing here repeats the draw, so that an error in it cannot hide itself.
"""

from dataclasses import dataclass

import numpy as np

from deid_assets.methods.dates.intervals import Events, interval_bins

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
