"""The adversary of the tables that a release publishes: masked or noisy, together with earlier ones (methods#tables-of-a-run).

Tables are frames with one row per cell: table, row, column, count and mark as published, sd, contribution, least (members whom
readers count in the released files, so that the count is at least that), `same`: equal for cells that count the same people
of the same delivery, whatever policy published them, and `definition`: equal for cells that count the same, whatever it is
called.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import special

from deid_assets.errors import CountsError
from deid_assets.methods.counts.audit import CountAudit, SmallCounts, audit_tables
from deid_assets.methods.counts.cohort import sums_of
from deid_assets.methods.counts.estimates import chances_of_repeated_cells, estimate_audit
from deid_assets.methods.counts.tables import CellName, PublishedCounts, Sum

COLUMNS = ("table", "row", "column", "count", "mark", "sd", "contribution", "least", "same", "definition")

CONFIDENCE = 0.95
"""Of the interval of a masked count that was also published with noise."""
_Z = float(special.ndtri((1 + CONFIDENCE) / 2))


def names_of(published: pd.DataFrame) -> tuple[CellName, ...]:
    """The names of the cells."""
    return tuple(CellName(*row) for row in published[["table", "row", "column"]].itertuples(index=False))


def counted_delivery(name: CellName) -> str:
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
    plain, own = names_of(published), _own_names(published)
    shown: list[int | str] = [
        str(mark) if not pd.isna(mark) else int(count)
        for count, mark in zip(published["count"], published["mark"], strict=True)
    ]
    sums = _own_sums(own)
    contribution = published["contribution"].to_numpy(np.int64)
    of_marks = PublishedCounts.of_marks(([own[name] for name in plain], sums), shown, contribution, threshold)
    return replace(of_marks, low=np.maximum(of_marks.low, published["least"].to_numpy(np.float64)))


def _own_names(published: pd.DataFrame) -> dict[CellName, CellName]:
    """The names of cells that are equal in two releases if and only if they count the same people."""
    return {
        name: CellName(f"{name.table} {same}", name.row, counted)
        for name, same, counted in zip(names_of(published), published["same"], published["definition"], strict=True)
    }


def _own_sums(own: Mapping[CellName, CellName]) -> list[Sum]:
    return [Sum(one.name, own[one.total], tuple(own[part] for part in one.parts)) for one in sums_of(own)]


@dataclass(frozen=True)
class NoisyTables:
    """What noisy tables say; cells have the same names as in `masked_tables`.

    Attributes
    ----------
    cells
        Names.
    counts
        Noisy counts.
    sds
        Standard deviation of the noise in each; 0 where the count is exact, infinite where it is not shown.
    draws
        Which draw it is: a draw that was published twice is no second look. Empty where the count is exact.
    sums
        The sums that hold for the true counts.
    """

    cells: tuple[CellName, ...]
    counts: tuple[float, ...]
    sds: tuple[float, ...]
    draws: tuple[str, ...]
    sums: tuple[Sum, ...]


def noisy_tables(published: pd.DataFrame) -> NoisyTables:
    """What noisy tables with the columns `COLUMNS` and `draw` say."""
    own = _own_names(published)
    return NoisyTables(
        tuple(own.values()),
        tuple(published["count"].astype(float)),
        tuple(published["sd"].astype(float)),
        tuple("" if pd.isna(draw) else str(draw) for draw in published["draw"]),
        tuple(_own_sums(own)),
    )


@dataclass(frozen=True)
class EarlierTables:
    """The tables of earlier releases.

    Attributes
    ----------
    masked, noisy
        By how they were protected.
    unknown
        Deliveries (`counted_delivery`) of which an earlier version of the product published tables. It did not keep which cells
        of today they are.
    in_masked_files, in_noisy_files
        Cells, as they are called, of files that `deid counts` published in the same home.
    """

    masked: tuple[PublishedCounts, ...] = ()
    noisy: tuple[NoisyTables, ...] = ()
    unknown: frozenset[str] = frozenset()
    in_masked_files: frozenset[CellName] = frozenset()
    in_noisy_files: frozenset[CellName] = frozenset()

    def require_apart_from_files(self, cells: Iterable[CellName], are_masked: bool) -> None:
        """Refuse masks of cells that files show, and noise in cells that files mask: they are not audited together.

        Parameters
        ----------
        cells
            As they are called in the tables that are judged.
        are_masked
            Whether these are masked.

        Raises
        ------
        CountsError
            If a file has one of the cells.
        """
        files = self.in_masked_files | self.in_noisy_files if are_masked else self.in_masked_files
        if both := files & frozenset(cells):
            raise CountsError(
                f"`deid counts` published {len(both)} of these cells in files of this home, and masks are not audited together "
                "with them; release noisy tables of cells that no file masks, or use another home"
            )

    def require_known(self, cells: Iterable[CellName]) -> None:
        """Raise a CountsError if tables of the same delivery exist that cannot be audited together with these cells."""
        if self.unknown & {counted_delivery(name) for name in cells}:
            raise CountsError(
                "an earlier version of this product published tables of this delivery, and did not keep what is needed to "
                "audit masked tables together with them; publish noise"
            )

    def require_same_classes(self, cells: Iterable[CellName], are_masked: bool) -> None:
        """Refuse other tables of a delivery of which tables are masked: sums of other classes would narrow what masks hide.

        Masks are audited together with all tables that count the same classes. Ages by 10 years and by 20, or two kinds of
        policy, make sums that no table states.

        Parameters
        ----------
        cells
            Cells of the tables that are judged, as `masked_tables` names them.
        are_masked
            Whether they are masked; noisy ones are compared with earlier masked ones only.

        Raises
        ------
        CountsError
            If an earlier release counts the people of the same delivery otherwise.
        """
        own = _by_row(cells)
        beside = [one.cells for one in self.masked] + [one.cells for one in self.noisy if are_masked]
        for earlier in beside:
            before = _by_row(earlier)
            others = sorted(
                row for row in own.keys() & before.keys() if not (own[row] <= before[row] or before[row] <= own[row])
            )
            if others or (_deliveries(own) & _deliveries(before) and not own.keys() & before.keys()):
                what = f"{', '.join(row for _, _, row in others[:3])}" if others else "steps and classes"
                raise CountsError(
                    f"an earlier release published tables of this delivery that count otherwise ({what}), and masked tables "
                    "cannot be audited together with them; count the same steps and classes, or publish noise only"
                )


def _by_row(cells: Iterable[CellName]) -> dict[tuple[str, str, str], frozenset[str]]:
    """What cells of `masked_tables` count, by delivery, kind of table, and row."""
    found: dict[tuple[str, str, str], set[str]] = {}
    for name in cells:
        found.setdefault((counted_delivery(name), name.table.partition(" ")[0], name.row), set()).add(name.column)
    return {row: frozenset(names) for row, names in found.items()}


def _deliveries(rows: Iterable[tuple[str, str, str]]) -> set[str]:
    return {delivery for delivery, _, _ in rows}


def disclosed_counts(
    published: PublishedCounts, earlier: Sequence[PublishedCounts], rule: SmallCounts, noisy: Sequence[NoisyTables] = ()
) -> int:
    """Count the small counts that masked tables show, expose or nearly expose, together with all tables of earlier releases.

    What an earlier release hid stays hidden: a later policy with a lower threshold must not show it.

    Parameters
    ----------
    published
        The masked tables that are judged.
    earlier
        Masked tables of earlier releases.
    noisy
        Noisy tables of any release: they narrow what masks leave possible (`disclosed_beside_noise`).

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
    found = audit_tables(together, rule)
    disclosed = {found.cells[place] for place in found.disclosed()}
    hidden = {name: int(most + 1) // int(person) for name, most, person in _small_and_hidden(earlier)}
    strictest = max(hidden.values(), default=0)
    if strictest > rule.threshold:
        again = audit_tables(together, replace(rule, threshold=strictest))
        disclosed |= {again.cells[place] for place in again.disclosed()} & set(hidden)
    disclosed |= disclosed_beside_noise(together, found, noisy, rule)
    return len(disclosed) + small_differences(found, published.cells, rule)


def disclosed_beside_noise(
    masked: PublishedCounts, audited: CountAudit, noisy: Sequence[NoisyTables], rule: SmallCounts
) -> set[CellName]:
    """Return the masked cells of which only with noisy tables too few values are left, a small count among them.

    The best linear estimate from all noisy counts, all sums and all counts that are known gives an interval of 95 %
    confidence. It is intersected with what the masks and sums allow. A cell fails if fewer values than the rule asks for are
    left, none at all included, or if the sums leave fewer once all cells are in their intervals.

    A noisy count is taken for every masked cell of the same class and delivery, also where the policies left out different
    members.

    Parameters
    ----------
    masked, audited
        All masked tables together, and their audit.

    Examples
    --------
    A hidden count of 1 to 10, and a noisy version of it:

    >>> rows = [("attrition", "step", "excluded", None, "T", None, 1, 0, "d.1", "e")]
    >>> hidden = masked_tables(pd.DataFrame(rows, columns=list(COLUMNS)), 11)
    >>> def left(count, sd):
    ...     beside = NoisyTables(hidden.cells, (count,), (sd,), ("a draw",), ())
    ...     return len(disclosed_beside_noise(hidden, audit_tables(hidden), [beside], SmallCounts()))
    >>> left(5.0, 2.5), left(-2.0, 2.5), left(5.0, 0.5), left(-2.0, 5.0)
    (0, 1, 1, 0)
    """
    draws: dict[tuple[str, ...], dict[str, tuple[float, float]]] = {}
    for one in noisy:
        for name, count, sd, draw in zip(one.cells, one.counts, one.sds, one.draws, strict=True):
            if math.isfinite(sd):
                draws.setdefault(_class_of(name), {})[draw] = count, sd
    if not any(_class_of(name) in draws for name in masked.cells):
        return set()
    low = dict(zip(audited.cells, audited.low, strict=True))
    high = dict(zip(audited.cells, audited.high, strict=True))
    names = list(dict.fromkeys([*masked.cells, *(name for one in noisy for name in one.cells)]))
    seen = [
        (low[name], 0.0) if name in low and low[name] == high[name] else _pooled([*draws.get(_class_of(name), {}).values()])
        for name in names
    ]
    counts, sds = (np.array(column) for column in zip(*seen, strict=True))
    sums = {(one.total, one.parts): one for stated in (masked.sums, *(one.sums for one in noisy)) for one in stated}
    found = estimate_audit(names, list(sums.values()), counts, sds)
    reach = np.nan_to_num(_Z * found.sd[: len(masked.cells)], posinf=np.inf)
    is_estimated = np.isfinite(reach) & (audited.low < audited.high)
    middle = np.where(is_estimated, found.estimates[: len(masked.cells)], 0.0)
    # An 'H' may be any number; its audited range is that of counts that need no protection.
    is_any = is_estimated & np.isinf(masked.high)
    lowest, highest = np.where(is_any, masked.low, audited.low), np.where(is_any, masked.high, audited.high)
    least = np.where(is_estimated, np.maximum(lowest, np.ceil(middle - reach)), lowest)
    most = np.where(is_estimated, np.minimum(highest, np.floor(middle + reach)), highest)
    # Where noise and masks contradict each other, the value at the edge is the likeliest.
    is_small = (np.minimum(least, highest) <= rule.largest(masked.contribution)) & (np.maximum(most, lowest) >= rule.smallest())
    narrow = is_estimated & is_small & (most - least < rule.width(masked.contribution))
    if not narrow.any() and is_estimated.any():
        try:
            narrow[audit_tables(replace(masked, low=least, high=most), rule).disclosed()] = True
            narrow &= masked.hidden
        except CountsError:
            narrow = masked.hidden & is_small
    without_noise = set(audited.disclosed().tolist())
    return {masked.cells[place] for place in np.flatnonzero(narrow) if place not in without_noise}


def _pooled(draws: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The best mean of independent noisy versions of one count, and its standard deviation; infinite without any."""
    exact = [count for count, sd in draws if sd == 0]
    if exact or not draws:
        return (exact[0], 0.0) if exact else (0.0, math.inf)
    weights = np.array([1 / sd**2 for _, sd in draws])
    return float(weights @ [count for count, _ in draws] / weights.sum()), float(1 / np.sqrt(weights.sum()))


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
    >>> small_differences(audit_tables(PublishedCounts.together([one, other])), one.cells, SmallCounts())
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
    return name.table.partition(" ")[0], name.row, name.column, counted_delivery(name)


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
