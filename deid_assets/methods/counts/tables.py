"""Tables of counts in long form, with the sums that hold between their cells (methods#counts).

A cell is named by table, row and column. The name is the cell's definition: cells of the same name, in whatever file or
release, count the same people. What an adversary can compute depends on the sums, so they are part of the tables.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse

from deid_assets.errors import CountsError, how_many

LARGEST_COUNT = 2**40
"""Counts are below this, so that their sums are exact as double-precision numbers."""
THRESHOLD = 11
"""Counts from 1 to one less are small."""
SMALL, HIDDEN = "T", "H"
"""Marks in place of a count: 1 to one less than the threshold; any number, hidden so that others cannot be computed."""


class CellName(NamedTuple):
    """The definition of a cell."""

    table: str
    row: str
    column: str

    def __str__(self) -> str:
        return " / ".join(self)


class Sum(NamedTuple):
    """A total and the cells that add up to it; with one part, two cells that are equal."""

    name: str
    total: CellName
    parts: tuple[CellName, ...]


@dataclass(frozen=True, eq=False)
class CountTables:
    """True counts: tables before they are protected.

    Attributes
    ----------
    cells
        Names, each once.
    counts
        int64 array of the cells' shape, not negative.
    sums
        Every sum that holds between cells and that an adversary may know.
    contribution
        int64 array: how much one person adds to the cell at most; 1 where people are counted. By default 1.

    Raises
    ------
    CountsError
        If a name repeats, a count is negative, a sum names a cell that is not there or does not hold, or one person contributes
        more to a part than to its total.

    Examples
    --------
    >>> total, women, men = (CellName("sex", "all", name) for name in ("total", "F", "M"))
    >>> tables = CountTables((total, women, men), np.array([100, 98, 2]), (Sum("sex", total, (women, men)),))
    >>> tables.contribution
    array([1, 1, 1])
    """

    cells: tuple[CellName, ...]
    counts: np.ndarray
    sums: tuple[Sum, ...] = ()
    contribution: np.ndarray = None  # type: ignore[assignment] # filled in below

    def __post_init__(self) -> None:
        if self.contribution is None:
            object.__setattr__(self, "contribution", np.ones(len(self.cells), np.int64))
        for name in ("counts", "contribution"):
            values = np.asarray(getattr(self, name))
            if values.shape != (len(self.cells),) or values.dtype.kind not in "iu":
                raise CountsError(f"{name} must be whole numbers, one per cell")
            object.__setattr__(self, name, values.astype(np.int64))
        if (self.counts < 0).any() or (self.counts >= LARGEST_COUNT).any():
            raise CountsError(
                f"{_where(self.cells, (self.counts < 0) | (self.counts >= LARGEST_COUNT))}: a count is negative or too large"
            )
        if (self.contribution < 1).any():
            raise CountsError(f"{_where(self.cells, self.contribution < 1)}: one person contributes at least 1 to a cell")
        matrix = sum_matrix(self.cells, self.sums)
        check_contributions(self.cells, matrix, self.contribution)
        broken = (matrix @ self.counts) != 0
        if broken.any():
            names = ", ".join(repr(self.sums[i].name) for i in np.flatnonzero(broken)[:5])
            raise CountsError(
                f"{how_many(int(broken.sum()), 'sum does', 'sums do')} not hold ({names}): the parts do not add up to the total"
            )


@dataclass(frozen=True, eq=False)
class PublishedCounts:
    """What an adversary sees of masked tables: a range for every cell, and the sums that they know to hold.

    Attributes
    ----------
    cells
        Names, each once.
    low, high
        float64 arrays of whole numbers: the least and the largest count that the mark allows, equal where the count is
        shown; `high` may be infinite.
    sums
        As in `CountTables`.
    contribution
        As in `CountTables`.
    """

    cells: tuple[CellName, ...]
    low: np.ndarray
    high: np.ndarray
    sums: tuple[Sum, ...]
    contribution: np.ndarray

    @classmethod
    def of_marks(
        cls,
        tables: tuple[Sequence[CellName], Sequence[Sum]],
        shown: Sequence[int | str],
        contribution: np.ndarray | None = None,
        threshold: int = THRESHOLD,
        smallest: int = 1,
    ) -> "PublishedCounts":
        """Return what counts and marks say.

        Parameters
        ----------
        tables
            Cells and sums.
        shown
            A count, 'T' or 'H' for every cell.
        threshold
            Of people. A 'T' is `smallest` to `threshold` times the cell's contribution, less 1.
        smallest
            0 where zeros are masked too.

        Raises
        ------
        CountsError
            If a cell has another mark, or one person contributes more to a part than to its total.
        """
        cells, sums = tables
        persons = np.ones(len(cells), np.int64) if contribution is None else np.asarray(contribution, np.int64)
        if strange := {value for value in shown if isinstance(value, str) and value not in (SMALL, HIDDEN)}:
            raise CountsError(f"{how_many(len(strange), 'mark is', 'marks are')} neither {SMALL!r} nor {HIDDEN!r}")
        is_small = np.array([value == SMALL for value in shown], bool)
        is_hidden = np.array([value == HIDDEN for value in shown], bool)
        counts = np.array([0 if isinstance(value, str) else value for value in shown], np.float64)
        low = np.where(is_small, float(smallest), counts)
        high = np.where(is_hidden, np.inf, np.where(is_small, threshold * persons - 1.0, counts))
        check_contributions(cells, sum_matrix(cells, sums), persons)
        return cls(tuple(cells), low, high, tuple(sums), persons)

    @property
    def hidden(self) -> np.ndarray:
        """Whether the cell's count is not shown, a bool array."""
        return self.low < self.high

    @classmethod
    def together(cls, releases: Iterable["PublishedCounts"]) -> "PublishedCounts":
        """Return what several releases say together: cells of one name are one unknown, all sums hold.

        Raises
        ------
        CountsError
            If two releases contradict each other about a cell.
        """
        position: dict[CellName, int] = {}
        low: list[float] = []
        high: list[float] = []
        contribution: list[int] = []
        sums: dict[tuple[CellName, tuple[CellName, ...]], Sum] = {}
        for one in releases:
            for name, least, most, person in zip(one.cells, one.low, one.high, one.contribution, strict=True):
                at = position.setdefault(name, len(low))
                if at == len(low):
                    low.append(float(least))
                    high.append(float(most))
                    contribution.append(int(person))
                elif contribution[at] != person:
                    raise CountsError(f"{name}: releases differ in what one person contributes")
                low[at], high[at] = max(low[at], float(least)), min(high[at], float(most))
            sums |= {(one.total, one.parts): one for one in one.sums}
        found = cls(tuple(position), np.array(low), np.array(high), tuple(sums.values()), np.array(contribution, np.int64))
        if (found.low > found.high).any():
            raise CountsError(
                f"{_where(found.cells, found.low > found.high)}: releases contradict each other; cells that do not count the "
                "same people need names of their own"
            )
        return found


def sum_matrix(cells: Sequence[CellName], sums: Sequence[Sum]) -> sparse.csr_array:
    """Return the sums as a sparse matrix (sums x cells): 1 for a part, -1 for the total; times the counts it is 0.

    Raises
    ------
    CountsError
        If a cell repeats, or a sum names a cell twice, none, or one that is not there.
    """
    position = {name: i for i, name in enumerate(cells)}
    if len(position) < len(cells):
        name, often = Counter(cells).most_common(1)[0]
        raise CountsError(f"the cell {name} occurs {often} times; name every cell once")
    rows, columns, signs = [], [], []
    for i, one in enumerate(sums):
        named = (one.total, *one.parts)
        if not one.parts or len(set(named)) < len(named):
            raise CountsError(f"the sum {one.name!r} needs a total and at least one part, and names a cell only once")
        if missing := [name for name in named if name not in position]:
            raise CountsError(f"the sum {one.name!r} names {missing[0]}, which is no cell of these tables")
        rows += [i] * len(named)
        columns += [position[name] for name in named]
        signs += [-1, *[1] * len(one.parts)]
    return sparse.csr_array((np.array(signs, np.int64), (rows, columns)), shape=(len(sums), len(cells)))


def check_contributions(cells: Sequence[CellName], matrix: sparse.csr_array, contribution: np.ndarray) -> None:
    """Raise a CountsError where one person contributes more to a part than to its total.

    A total whose contribution was forgotten would get the noise, and the threshold, of a count of people.
    """
    entries = matrix.tocoo()
    of_total = np.zeros(matrix.shape[0], np.int64)
    is_total = entries.data < 0
    of_total[entries.row[is_total]] = contribution[entries.col[is_total]]
    wrong = np.zeros(len(cells), bool)
    wrong[entries.col[(contribution[entries.col] > of_total[entries.row]) & ~is_total]] = True
    if wrong.any():
        raise CountsError(f"{_where(cells, wrong)}: one person contributes more to them than to a total that they are part of")


def _where(cells: Sequence[CellName], wrong: np.ndarray) -> str:
    """The first wrong cells, and how many there are."""
    found = np.flatnonzero(wrong)
    return f"{how_many(len(found), 'cell')} ({', '.join(str(cells[i]) for i in found[:3])}{' ...' if len(found) > 3 else ''})"
