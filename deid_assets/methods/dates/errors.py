"""How far released dates are from the delivered ones: what analysts are told of it (methods#dates).

The dates are made as in El Emam & Arbuckle 2013, ch. 5.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

SMALLEST = 11
"""Members that a published number stands for, at least (methods#protected-counts)."""

WEEK, MONTH = 7, 30
"""Days to which published errors are rounded up."""


@dataclass(frozen=True)
class DateErrors:
    """Errors of dates as they may be published.

    Attributes
    ----------
    p95_days
        95 per cent of the dates are at most so far from the delivered ones; rounded up to whole weeks.
    largest_days
        Fewer than `SMALLEST` members have a date that is further away; rounded up to months of 30 days. The very largest
        error is one person's, and is not told.
    """

    p95_days: int | None
    largest_days: int | None


def released_errors(
    member: np.ndarray, delivered: np.ndarray, released: np.ndarray, since_first: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the errors in what is released, and whose they are.

    Parameters
    ----------
    member, delivered, released
        (n,) integers by member and day: whose service it is, its delivered and its released day.
    since_first
        Whether days since the member's first service are released, and not dates. The error of the first service is then
        in all the others; itself it is day 0 and has none.

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
    """Return the errors that may be published; None where fewer than `SMALLEST` members stand behind a number.

    Parameters
    ----------
    errors
        (n,) days between what is released and what was delivered, either sign.
    member
        (n,) integers: whose date it is.
    noisy
        Makes a protected count of the members beyond the percentile, whom no file tells: judged by their true number,
        a number that is missing would say exactly that they are fewer than `SMALLEST`.

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
    # Those beyond the percentile must be several people, or it is about one of them.
    beyond = int(np.count_nonzero(most >= p95 - WEEK + 1))
    largest = -(-int(np.sort(most)[-SMALLEST]) // MONTH) * MONTH if len(most) >= SMALLEST else None
    return DateErrors(p95 if noisy(beyond) >= SMALLEST else None, largest)
