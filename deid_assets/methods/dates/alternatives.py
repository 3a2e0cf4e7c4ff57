"""Two common ways to change dates, and their defects (El Emam & Arbuckle 2013, ch. 5; methods#dates).

Dates randomized independently of one another change their order, for example after-care before its operation. Shifting a whole
sequence preserves every interval, and intervals identify people as well as dates do. A run that releases dates measures both on
the released members: the share of neighboring events that change their order, and the share of members with a unique sequence
of intervals. `intervals` is the recommended method.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from deid_assets.methods.dates.intervals import Events, interval_bins
from deid_assets.methods.statistics.streams import philox_of

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
