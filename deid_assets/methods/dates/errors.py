"""How far released dates are from delivered ones, as reported to analysts (methods#dates).

The dates are made as in El Emam & Arbuckle 2013, ch. 5.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

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
