"""The adversary of masked tables: which hidden counts the sums give away (methods#inferred-counts).

Least and largest value of every unknown of a system of sums: what an adversary can compute (methods#inferred-counts).

The unknowns are whole numbers with ranges. Ranges are first narrowed sum by sum. That is exact where sums and unknowns
form a tree, because then every value left for one unknown can be completed to a solution. What is not a tree is solved by
integer programming, component by component (`programs`).
"""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import scipy
from scipy import sparse

from deid_assets.errors import CountsError
from deid_assets.methods.counts.programs import Component, ContradictionError, NotFoundError, Watch
from deid_assets.methods.counts.tables import THRESHOLD, CellName, PublishedCounts, sum_matrix

_ROUNDS = 200
_EXACT_AT_MOST = 600  # connected unknowns; of more, programs for both ends of all ranges take minutes


@dataclass(frozen=True, eq=False)
class Hints:
    """What helps to find ranges.

    Attributes
    ----------
    watch
        When to stop, and whom to tell how far it is. By default only the size of each integer program is limited.
    solutions
        float64 arrays per unknown: perhaps solutions. Each is put into the sums, so that a wrong one changes nothing.
    """

    watch: Watch = field(default_factory=Watch)
    solutions: Iterable[np.ndarray] = ()


@dataclass(frozen=True, eq=False)
class Ranges:
    """The least and the largest value of every unknown.

    Attributes
    ----------
    low, high
        float64 arrays of whole numbers; `high` may be infinite. Both are values of solutions that were found.
    outer_low, outer_high
        float64 arrays: no solution has a value beyond these. They differ from `low` and `high` where a program was too hard, or
        where the range needed not be exact.
    """

    low: np.ndarray
    high: np.ndarray
    outer_low: np.ndarray
    outer_high: np.ndarray

    @property
    def proven(self) -> np.ndarray:
        """Whether the range is exact, a bool array. Otherwise the true range is possibly wider."""
        return (self.low == self.outer_low) & (self.high == self.outer_high)


def ranges(
    matrix: sparse.csr_array,
    low: np.ndarray,
    high: np.ndarray,
    enough: np.ndarray | None = None,
    needed: np.ndarray | None = None,
    hints: Hints | None = None,
) -> Ranges:
    """Return the exact range of every unknown x with `matrix` @ x = 0 and `low` <= x <= `high`.

    Parameters
    ----------
    matrix
        Sums x unknowns, of 1 and -1.
    low, high
        float64 arrays of whole numbers; `low` is finite, `high` may be infinite.
    enough
        Per unknown, a difference of largest and smallest value beyond which its range need not be exact, which saves time:
        the true range is then possibly wider than the one returned. By default all ranges are exact.
    needed
        Per unknown, a difference of largest and smallest value that is looked for first, for all, before any range is made
        exact. Connected sums with very many unknowns are then left at that.
    hints
        What helps to find the ranges.

    Raises
    ------
    CountsError
        If no solution exists: the sums contradict the ranges.

    Examples
    --------
    Two unknowns of 1 to 10 that add up to 12:

    >>> found = ranges(sparse.csr_array([[1, 1, -1]]), np.array([1., 1, 12]), np.array([10., 10, 12]))
    >>> found.low.tolist(), found.high.tolist()
    ([2.0, 2.0, 12.0], [10.0, 10.0, 12.0])
    """
    hints = hints or Hints()
    enough = np.full(len(low), np.inf) if enough is None else enough
    outer_low, outer_high, settled = _narrowed(matrix, low.astype(float), high.astype(float))
    low, high = outer_low.copy(), outer_high.copy()
    rest = np.where(outer_low < outer_high, 0.0, outer_low)
    hard = []
    for unknowns, sums, is_tree in components(matrix, low < high):
        if not (is_tree and settled):
            part = matrix[sums]
            limits = outer_low[unknowns], outer_high[unknowns]
            hard.append((unknowns, Component(part[:, unknowns], -(part @ rest), *limits, hints.watch)))
    for solution in hints.solutions if hard else ():
        for unknowns, component in hard:
            component.take_in(solution[unknowns])
    if needed is not None:
        for unknowns, component in hard:
            component.settle(needed[unknowns])
    for unknowns, component in hard:
        if needed is None or len(unknowns) <= _EXACT_AT_MOST:
            component.settle(enough[unknowns])
    for unknowns, component in hard:
        (low[unknowns], high[unknowns]), (outer_low[unknowns], outer_high[unknowns]) = component.result()
    return Ranges(low, high, outer_low, outer_high)


def _narrowed(matrix: sparse.csr_array, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
    """Narrow the ranges sum by sum until nothing changes; the last value says whether that point was reached."""
    entries = matrix.tocoo()
    row, column, is_part = entries.row, entries.col, entries.data > 0
    count = matrix.shape[0]

    def others(values: np.ndarray, infinite: float) -> np.ndarray:
        """Per term: the sum of the other terms of its sum, some of which may be infinite."""
        unbounded = np.isinf(values)
        finite = np.where(unbounded, 0.0, values)
        total = np.bincount(row, finite, count)[row] - finite
        return np.where(np.bincount(row, unbounded, count)[row] > unbounded, infinite, total)

    for _ in range(_ROUNDS):
        # The terms of a sum (a part, or minus the total) add up to 0: each is minus the others.
        most = -others(np.where(is_part, low[column], -high[column]), -np.inf)
        least = -others(np.where(is_part, high[column], -low[column]), np.inf)
        new_low, new_high = low.copy(), high.copy()
        np.maximum.at(new_low, column, np.where(is_part, least, -most))
        np.minimum.at(new_high, column, np.where(is_part, most, -least))
        if (new_low > new_high).any():
            raise ContradictionError
        if np.array_equal(new_low, low) and np.array_equal(new_high, high):
            return low, high, True
        low, high = new_low, new_high
    return low, high, False


def components(matrix: sparse.csr_array, unknown: np.ndarray) -> list[tuple[np.ndarray, np.ndarray, bool]]:
    """Return the unknowns and the sums of every connected component with a sum, and whether it is a tree."""
    links = matrix[:, np.flatnonzero(unknown)].tocoo()
    sums, unknowns = links.shape
    graph = sparse.coo_array((np.ones(len(links.row)), (links.row, links.col + sums)), shape=(sums + unknowns, sums + unknowns))
    number, label = scipy.sparse.csgraph.connected_components(graph, directed=False)
    size, edges = np.bincount(label, minlength=number), np.bincount(label[links.row], minlength=number)
    positions = np.flatnonzero(unknown)
    order = np.argsort(label, kind="stable")
    groups = np.split(order, np.cumsum(size)[:-1])
    return [
        (positions[group[group >= sums] - sums], group[group < sums], bool(edges[label[group[0]]] == len(group) - 1))
        for group in groups
        if len(group) > 1
    ]


VALUES_AT_LEAST = 5
"""By default, a hidden small count keeps at least this many possible values."""


class CellKnowledge(StrEnum):
    """What an adversary knows of a cell."""

    SHOWN = "shown"
    """The count is shown, and needs no protection."""
    SHOWN_SMALL = "shown although small"
    EXPOSED = "exposed"
    """The sums give exactly one small count."""
    NEARLY_EXPOSED = "nearly exposed"
    """The sums leave too few values, a small count among them."""
    UNPROVEN = "not proven hidden"
    """It was too hard to find enough values, or to prove that there are none."""
    RECOVERED = "recovered"
    """The sums give the count, but it needs no protection."""
    HIDDEN = "hidden"


DISCLOSED = (CellKnowledge.SHOWN_SMALL, CellKnowledge.EXPOSED, CellKnowledge.NEARLY_EXPOSED, CellKnowledge.UNPROVEN)
"""What fails an audit."""


@dataclass(frozen=True)
class SmallCounts:
    """Which counts are small, and how well a hidden one must stay hidden.

    Attributes
    ----------
    threshold
        Counts of 1 to `threshold` - 1 people are small. Where one person contributes c, counts below c * `threshold` are.
    values
        Number of possible values that a hidden small count keeps at least; fewer where the threshold allows no more.
    zeros_shown
        Whether a count of 0 needs no protection. Shown, it tells that nobody is in the cell.
    """

    threshold: int = THRESHOLD
    values: int = VALUES_AT_LEAST
    zeros_shown: bool = True

    def __post_init__(self) -> None:
        if self.threshold < 2 or self.values < 2:
            raise CountsError("the threshold and the number of possible values must be at least 2")

    def smallest(self) -> int:
        """The least count that needs protection."""
        return 1 if self.zeros_shown else 0

    def largest(self, contribution: np.ndarray) -> np.ndarray:
        """Per cell, the largest count that needs protection."""
        return self.threshold * contribution - 1

    def width(self, contribution: np.ndarray) -> np.ndarray:
        """Per cell, the least difference of the largest and the smallest possible value."""
        return np.minimum(self.values - 1, self.largest(contribution) - self.smallest())

    def is_small(self, counts: np.ndarray, contribution: np.ndarray) -> np.ndarray:
        """Whether counts need protection."""
        return (counts >= self.smallest()) & (counts <= self.largest(contribution))


@dataclass(frozen=True, eq=False)
class CountAudit:
    """What an adversary can compute of every cell.

    Attributes
    ----------
    cells
        Names.
    low, high
        float64 arrays: the range of every count given all sums, of whole numbers that occur in solutions.
    findings
        One per cell.
    proven
        bool array: whether the range is exact. Otherwise the true range is possibly wider; a cell only passes if the range that
        was found is wide enough.
    """

    cells: tuple[CellName, ...]
    low: np.ndarray
    high: np.ndarray
    findings: tuple[CellKnowledge, ...]
    proven: np.ndarray

    def disclosed(self) -> np.ndarray:
        """Positions of the cells that fail the audit."""
        return np.flatnonzero([found in DISCLOSED for found in self.findings])

    @property
    def passed(self) -> bool:
        """Whether every small count is proven to be hidden well enough."""
        return not len(self.disclosed())


def audit_tables(
    published: PublishedCounts,
    rule: SmallCounts | None = None,
    watch: Watch | None = None,
    solutions: Iterable[np.ndarray] = (),
) -> CountAudit:
    """Compute what an adversary learns of every cell of masked tables.

    Several releases are audited together: `PublishedCounts.together`.

    There are two readings of an 'H': any number; or a count that needs no protection, because a small one would be a 'T'. The
    second gives away more, and is dropped for connected cells whose sums it contradicts. A cell passes if it passes in both.

    Parameters
    ----------
    published
        What is shown, and the sums that the adversary knows.
    rule
        Which counts are small.
    watch
        How long the audit may take; a cell that is not proven hidden by then fails. By default only the size of each integer
        program is limited.
    solutions
        Counts in place of the marks that perhaps fit, float64 arrays, which spare programs. Each is checked.

    Raises
    ------
    CountsError
        If what is shown contradicts the sums.

    References
    ----------
    Klann JG et al. (2018), Tables 1 and 2. Fischetti M, Salazar JJ (2001), doi:10.1287/mnsc.47.7.1008.9805 (the attacker's
    problems).

    Examples
    --------
    >>> from deid_assets.methods.counts.tables import Sum
    >>> names = [CellName("sex", "all", name) for name in ("total", "F", "M")]
    >>> sums = [Sum("sex", names[0], (names[1], names[2]))]
    >>> found = audit_tables(PublishedCounts.of_marks((names, sums), [100, 98, "T"]))
    >>> found.findings[2], found.low[2]
    (<CellKnowledge.EXPOSED: 'exposed'>, np.float64(2.0))
    """
    matrix, rule = sum_matrix(published.cells, published.sums), rule or SmallCounts()
    low, high = published.low, published.high
    persons, is_any = published.contribution, np.isinf(published.high)
    width, hints = rule.width(persons).astype(float), Hints(watch or Watch(), solutions)
    found, is_second = _second_reading(
        matrix, published, np.where(is_any, np.maximum(low, rule.largest(persons) + 1.0), low), width, hints
    )
    # A range that is wide in this reading is at least as wide in the other.
    doubtful = is_any & is_second & ~(found.high - found.low >= width)
    names = findings_of(found, published.hidden, persons, rule)
    if doubtful.any():
        try:
            other = ranges(matrix, low, high, np.where(doubtful, width, -np.inf), hints=hints)
        except NotFoundError:
            names = np.where(doubtful, CellKnowledge.UNPROVEN.name, names)
        else:
            names = np.where(doubtful, findings_of(other, published.hidden, persons, rule), names)
            both = zip(vars(other).values(), vars(found).values(), strict=True)
            found = Ranges(*(np.where(doubtful, new, old) for new, old in both))
    return CountAudit(published.cells, found.low, found.high, tuple(CellKnowledge[name] for name in names), found.proven)


def _second_reading(
    matrix: sparse.csr_array, published: PublishedCounts, least: np.ndarray, width: np.ndarray, hints: Hints
) -> tuple[Ranges, np.ndarray]:
    """Ranges where hidden counts are at least `least`, but for connected cells whose sums that contradicts; and where so."""
    low, high = published.low, published.high
    try:
        return ranges(matrix, least, high, needed=width, hints=hints), np.ones(len(low), bool)
    except ContradictionError:
        is_second = np.zeros(len(low), bool)
    for unknowns, _, _ in components(matrix, low < high):
        inside = np.zeros(len(low), bool)
        inside[unknowns] = True
        with contextlib.suppress(ContradictionError):
            ranges(matrix, np.where(inside, least, low), high, np.where(inside, 0.0, -np.inf), hints=hints)
            is_second |= inside
    return ranges(matrix, np.where(is_second, least, low), high, needed=width, hints=hints), is_second


def findings_of(found: Ranges, hidden: np.ndarray, contribution: np.ndarray, rule: SmallCounts) -> np.ndarray:
    """Return the name of the finding of every cell, given what can be computed and which cells are hidden."""
    is_small = (found.high >= rule.smallest()) & (found.low <= rule.largest(contribution))
    may_be_small = (found.outer_high >= rule.smallest()) & (found.outer_low <= rule.largest(contribution))
    with np.errstate(invalid="ignore"):  # of ranges that nobody asked for
        width, outer_width = found.high - found.low, found.outer_high - found.outer_low
    is_narrow = width < rule.width(contribution)
    cases = (
        (~hidden & is_small, CellKnowledge.SHOWN_SMALL),
        (~hidden, CellKnowledge.SHOWN),
        (may_be_small & (outer_width == 0), CellKnowledge.EXPOSED),
        (is_small & (outer_width < rule.width(contribution)), CellKnowledge.NEARLY_EXPOSED),
        (may_be_small & is_narrow, CellKnowledge.UNPROVEN),
        (outer_width == 0, CellKnowledge.RECOVERED),
    )
    return np.select([case for case, _ in cases], [finding.name for _, finding in cases], CellKnowledge.HIDDEN.name)
