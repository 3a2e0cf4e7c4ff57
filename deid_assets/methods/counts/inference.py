"""Least and largest value of every unknown of a system of sums: what an adversary can compute (methods#inferred-counts).

The unknowns are whole numbers with ranges. Ranges are first narrowed sum by sum. That is exact where sums and unknowns
form a tree, because then every value left for one unknown can be completed to a solution. What is not a tree is solved by
integer programming, component by component (`programs`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import scipy
from scipy import sparse

from deid_assets.methods.counts.programs import Component, ContradictionError, Watch

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
