"""The adversary of the tables that a release publishes: masked or noisy, together with earlier ones (methods#tables-of-a-run).

Tables are frames with one row per cell: table, row, column, count and mark as published, sd, contribution, least (members whom
readers count in the released files, so that the count is at least that), `same`: equal for cells that count the same people
of the same delivery, whatever policy published them, and `definition`: equal for cells that count the same, whatever it is
called.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from deid_assets.methods.counts.audit import CountAudit, SmallCounts, audit
from deid_assets.methods.counts.cohort import sums_of
from deid_assets.methods.counts.estimates import chances_of_repeated_cells
from deid_assets.methods.counts.tables import CellName, PublishedCounts, Sum

COLUMNS = ("table", "row", "column", "count", "mark", "sd", "contribution", "least", "same", "definition")


def names_of(published: pd.DataFrame) -> tuple[CellName, ...]:
    """The names of the cells."""
    return tuple(CellName(*row) for row in published[["table", "row", "column"]].itertuples(index=False))


def delivery_of(name: CellName) -> str:
    """The delivery whose people a cell of `masked_tables` counts, as `same` begins with it."""
    return name.table.partition(" ")[2].partition(".")[0]


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
    >>> rows = [("attrition", "delivered_members", "remaining", 100, None, None, 1, 0, "a1", "b"),
    ...         ("attrition", "eligible_members", "remaining", 98, None, None, 1, 0, "a2", "c"),
    ...         ("attrition", "eligible_members", "excluded", None, "T", None, 1, 0, "a2", "e")]
    >>> found = masked_tables(pd.DataFrame(rows, columns=list(COLUMNS)), 11)
    >>> found.high[2], found.sums[0].total.table
    (np.float64(10.0), 'attrition a1')
    """
    plain = names_of(published)
    own = {
        name: CellName(f"{name.table} {same}", name.row, counted)
        for name, same, counted in zip(plain, published["same"], published["definition"], strict=True)
    }
    shown: list[int | str] = [
        str(mark) if not pd.isna(mark) else int(count)
        for count, mark in zip(published["count"], published["mark"], strict=True)
    ]
    sums = [Sum(one.name, own[one.total], tuple(own[part] for part in one.parts)) for one in sums_of(plain)]
    contribution = published["contribution"].to_numpy(np.int64)
    of_marks = PublishedCounts.of_marks(([own[name] for name in plain], sums), shown, contribution, threshold)
    return replace(of_marks, low=np.maximum(of_marks.low, published["least"].to_numpy(np.float64)))


def disclosed_counts(published: PublishedCounts, earlier: Sequence[PublishedCounts], rule: SmallCounts) -> int:
    """Count the small counts that masked tables show, expose or nearly expose, together with those of earlier releases.

    What an earlier release hid stays hidden: a later policy with a lower threshold must not show it.

    Raises
    ------
    CountsError
        If the releases contradict each other.

    Examples
    --------
    >>> shown = (None, "T"), (5, None)
    >>> rows = [("attrition", "step", "excluded", count, mark, None, 1, 0, "d.1", "e") for count, mark in shown]
    >>> hidden, shown = (masked_tables(pd.DataFrame([row], columns=list(COLUMNS)), 11) for row in rows)
    >>> disclosed_counts(shown, [], SmallCounts(2, 2)), disclosed_counts(shown, [hidden], SmallCounts(2, 2))
    (0, 1)
    """
    together = PublishedCounts.together([published, *earlier])
    found = audit(together, rule)
    disclosed = {found.cells[place] for place in found.disclosed()}
    hidden = {name: int(most + 1) // int(person) for name, most, person in _small_and_hidden(earlier)}
    strictest = max(hidden.values(), default=0)
    if strictest > rule.threshold:
        again = audit(together, replace(rule, threshold=strictest))
        disclosed |= {again.cells[place] for place in again.disclosed()} & set(hidden)
    return len(disclosed) + small_differences(found, published.cells, rule)


def _small_and_hidden(releases: Sequence[PublishedCounts]) -> Iterator[tuple[CellName, float, float]]:
    """The cells marked 'T', with the largest count that the mark allows and what a person contributes."""
    for one in releases:
        is_small = one.hidden & np.isfinite(one.high)
        names = (name for name, small in zip(one.cells, is_small, strict=True) if small)
        yield from zip(names, one.high[is_small], one.contribution[is_small], strict=True)


def small_differences(audited: CountAudit, published: Sequence[CellName], rule: SmallCounts) -> int:
    """Count the known counts that differ by few members from another known count of the same class and delivery.

    Two policies may leave out different members of one delivery. Then the difference of their counts is those few members.

    Parameters
    ----------
    audited
        Of `masked_tables`, of several releases together; what sums give is known, too.
    published
        The cells of the release that is judged.

    Examples
    --------
    >>> shown = (41, "d.1"), (40, "d.2")
    >>> rows = [("characteristics", "sex", "M", count, None, None, 1, 0, same, "M") for count, same in shown]
    >>> one, other = (masked_tables(pd.DataFrame([row], columns=list(COLUMNS)), 11) for row in rows)
    >>> small_differences(audit(PublishedCounts.together([one, other])), one.cells, SmallCounts())
    1
    """
    known = {name: float(low) for name, low, high in zip(audited.cells, audited.low, audited.high, strict=True) if low == high}
    alike: dict[tuple[str, ...], list[float]] = {}
    for name, count in known.items():
        alike.setdefault(_class_of(name), []).append(count)
    return sum(
        any(0 < abs(known[name] - other) < rule.threshold for other in alike[_class_of(name)])
        for name in published
        if name in known
    )


def _class_of(name: CellName) -> tuple[str, ...]:
    """Table, row, column and delivery of a cell of `masked_tables`, without what of the policy shapes it."""
    return name.table.partition(" ")[0], name.row, name.column, delivery_of(name)


def chance_of_exact_estimate(published: pd.DataFrame, earlier: Mapping[str, Sequence[float]]) -> float:
    """Return the highest probability with which anybody names a count of noisy tables from all sums and all publications.

    Totals are left out: they are large, and the parts say more about people. Counts without noise are public anyway.

    Parameters
    ----------
    earlier
        By `definition`: the standard deviations with which the cell was published before with other draws
        (`Budget.earlier_sds`). The count may have been another one, and is taken for the same.

    Examples
    --------
    >>> rows = [("attrition", "delivered_members", "remaining", 103, None, 2.5, 1, 0, "a1", "b"),
    ...         ("attrition", "eligible_members", "remaining", 99, None, 2.5, 1, 0, "a2", "c"),
    ...         ("attrition", "eligible_members", "excluded", 1, None, 2.5, 1, 0, "a2", "e")]
    >>> frame = pd.DataFrame(rows, columns=list(COLUMNS))
    >>> [round(chance_of_exact_estimate(frame, dict.fromkeys("bce", sds)), 2) for sds in ([], [2.5] * 11, [1.5] * 11)]
    [0.19, 0.6, 0.83]
    """
    names = names_of(published)
    sums = sums_of(names)
    widths = published["sd"].to_numpy(np.float64, na_value=np.nan)
    draws = [
        () if np.isnan(sd) else (0.0,) if sd == 0 else (float(sd), *earlier.get(cell, ()))
        for sd, cell in zip(widths, published["definition"], strict=True)
    ]
    chances = chances_of_repeated_cells(names, sums, draws)
    totals = {one.total for one in sums}
    judged = [place for place, name in enumerate(names) if name not in totals and draws[place] not in ((), (0.0,))]
    return float(chances[judged].max(initial=0.0))
