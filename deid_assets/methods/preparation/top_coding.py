"""Top codes: values above a percentile are released as one open-ended class, such as PayDelay '162+' (methods#top-codes).

The codes are those of El Emam et al. 2012.

Percentiles are nearest-rank: the smallest value that at least the required share of rows do not exceed. It is a value that
occurs, does not depend on the order of the rows, and is not interpolated. It is the top code, and every value from it on gets
the label, as in the Heritage files, where no plain '162' occurs beside '162+'.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from deid_assets.store.tables import Table, quoted


def nearest_rank(values: NDArray[np.integer], frequencies: NDArray[np.integer], percentile: float) -> int:
    """Return the nearest-rank percentile of a histogram.

    Parameters
    ----------
    values
        (m,) distinct, ascending.
    frequencies
        (m,) number of rows with that value; the total is at least 1.
    percentile
        In (0, 100]; its decimal notation is taken exactly, so that the 95th percentile of 20 rows is the 19th row.

    Raises
    ------
    ValueError
        If there are no rows.

    Examples
    --------
    >>> nearest_rank(np.array([1, 2, 50]), np.array([15, 4, 1]), 95)
    2
    """
    below = np.cumsum(frequencies)
    if below.size == 0 or below[-1] < 1:
        raise ValueError("there are no rows to take a percentile of")
    rank = math.ceil(Fraction(str(percentile)) * int(below[-1]) / 100)
    return int(values[np.searchsorted(below, rank)])


@dataclass(frozen=True)
class TopCode:
    """The value from which values are released as one open-ended class.

    Attributes
    ----------
    code
        Smallest value of the open-ended class, at least 1.
    """

    code: int

    @property
    def label(self) -> str:
        """The released text, such as '162+'."""
        return f"{self.code}+"

    def number(self, column: str) -> str:
        """Return SQL for the column as a number, capped at the code; NULL stays NULL (`least` would not keep it)."""
        return f"CASE WHEN {quoted(column)} > {self.code} THEN {self.code} ELSE {quoted(column)} END"

    def text(self, column: str) -> str:
        r"""Return SQL for the column as released text, '0', '1' .. '162+'; NULL stays NULL.

        Examples
        --------
        >>> TopCode(162).text("pay_delay")
        'CASE WHEN "pay_delay" >= 162 THEN \'162+\' ELSE CAST("pay_delay" AS VARCHAR) END'
        """
        name = quoted(column)
        return f"CASE WHEN {name} >= {self.code} THEN '{self.label}' ELSE CAST({name} AS VARCHAR) END"


def top_code(table: Table, columns: Sequence[str], percentile: float = 99) -> TopCode | None:
    """Find the top code of integer columns that share a scale, pooled (such as the two years of days in hospital).

    Parameters
    ----------
    table
        Table with the values; every row counts once per column, missing values do not count.
    columns
        Names of non-negative integer columns.
    percentile
        Values above this nearest-rank percentile are top-coded.

    Returns
    -------
    TopCode or None
        None if all values are missing. If the percentile is 0, the code is 1: only the values above 0 form the open-ended
        class.

    Raises
    ------
    StoreError
        If a name is not an identifier.
    """
    pooled = " UNION ALL ".join(f"SELECT {quoted(name)} AS value FROM {table.sql}" for name in columns)
    histogram = table.arrays(
        f"SELECT value::BIGINT AS value, count(*) AS n FROM ({pooled}) WHERE value IS NOT NULL GROUP BY ALL ORDER BY 1"
    )
    if len(histogram["value"]) == 0:
        return None
    return TopCode(max(1, nearest_rank(np.asarray(histogram["value"]), np.asarray(histogram["n"]), percentile)))
