"""How far released dates are from the delivered ones: what analysts are told of it (S1 ch. 5; methods.md 10)."""

from dataclasses import dataclass

import numpy as np

SMALLEST = 11
"""Members that a published number stands for, at least (methods.md 14)."""

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


def date_errors(errors: np.ndarray, member: np.ndarray) -> DateErrors:
    """Return the errors that may be published; None where fewer than `SMALLEST` members stand behind a number.

    Parameters
    ----------
    errors
        (n,) days between released and delivered date, either sign.
    member
        (n,) integers: whose date it is.

    Examples
    --------
    >>> date_errors(np.arange(300), np.arange(300))
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
    return DateErrors(p95 if beyond >= SMALLEST else None, largest)
