"""The adversary of the tables that a release publishes: masked or noisy, together with earlier ones (methods#tables-of-a-run).

Tables are frames with one row per cell: table, row, column, count and mark as published, sd, contribution, and `same`: equal
for cells that count the same people of the same delivery, whatever policy published them.
"""

import numpy as np
import pandas as pd

from deid_assets.methods.counts.cohort import sums_of
from deid_assets.methods.counts.estimates import estimate_audit
from deid_assets.methods.counts.tables import CellName, PublishedCounts, Sum

COLUMNS = ("table", "row", "column", "count", "mark", "sd", "contribution", "same")


def names_of(published: pd.DataFrame) -> tuple[CellName, ...]:
    """The names of the cells."""
    return tuple(CellName(*row) for row in published[["table", "row", "column"]].itertuples(index=False))


def masked_tables(published: pd.DataFrame, threshold: int) -> PublishedCounts:
    """What masked tables say; cells that count the same people have the same name, whichever release they are in.

    Parameters
    ----------
    threshold
        Below which counts were masked.

    Raises
    ------
    CountsError
        If a mark is neither 'T' nor 'H'.

    Examples
    --------
    >>> rows = [("attrition", "delivered_members", "remaining", 100, None, None, 1, "a1"),
    ...         ("attrition", "eligible_members", "remaining", 98, None, None, 1, "a2"),
    ...         ("attrition", "eligible_members", "excluded", None, "T", None, 1, "a2")]
    >>> found = masked_tables(pd.DataFrame(rows, columns=list(COLUMNS)), 11)
    >>> found.high[2], found.sums[0].total.table
    (np.float64(10.0), 'attrition a1')
    """
    plain = names_of(published)
    own = {name: name._replace(table=f"{name.table} {same}") for name, same in zip(plain, published["same"], strict=True)}
    shown: list[int | str] = [
        str(mark) if not pd.isna(mark) else int(count)
        for count, mark in zip(published["count"], published["mark"], strict=True)
    ]
    sums = [Sum(one.name, own[one.total], tuple(own[part] for part in one.parts)) for one in sums_of(plain)]
    contribution = published["contribution"].to_numpy(np.int64)
    return PublishedCounts.of_marks(([own[name] for name in plain], sums), shown, contribution, threshold)


def chance_of_exact_estimate(published: pd.DataFrame, publications: int) -> float:
    """Return the highest probability with which the best linear estimate names a count of noisy tables.

    Totals are left out: they are large, and the parts say more about people. Counts without noise are public anyway.

    Parameters
    ----------
    publications
        How often cells were published with noise of their own, this time included; the adversary averages them.

    Examples
    --------
    >>> rows = [("attrition", "delivered_members", "remaining", 103, None, 2.5, 1, "a1"),
    ...         ("attrition", "eligible_members", "remaining", 99, None, 2.5, 1, "a2"),
    ...         ("attrition", "eligible_members", "excluded", 1, None, 2.5, 1, "a2")]
    >>> frame = pd.DataFrame(rows, columns=list(COLUMNS))
    >>> round(chance_of_exact_estimate(frame, 1), 2), round(chance_of_exact_estimate(frame, 12), 2)
    (0.19, 0.6)
    """
    names = names_of(published)
    sums = sums_of(names)
    counts = published["count"].to_numpy(np.float64, na_value=0.0)
    found = estimate_audit(names, sums, counts, published["sd"].to_numpy(np.float64), publications)
    totals = {one.total for one in sums}
    judged = [place for place, name in enumerate(names) if name not in totals and not np.isnan(found.variance_factors[place])]
    return float(found.chances[judged].max(initial=0.0))
