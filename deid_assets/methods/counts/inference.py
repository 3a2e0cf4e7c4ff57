"""Least and largest value of every unknown of a system of sums: what an adversary can compute (methods#inferred-counts).

The unknowns are whole numbers with ranges. Ranges are first narrowed sum by sum. That is exact where sums and unknowns
form a tree, because then every value left for one unknown can be completed to a solution. What is not a tree is solved by
integer programming, component by component.

A solver computes in floating point, so its word is not taken: every reported value is that of a solution, which is
rounded and put into the sums exactly. A range is therefore never reported wider than it is.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse.csgraph import connected_components

from deid_assets.errors import CountsError

_CONTRADICTION = "the counts contradict the sums: no numbers in place of the marks make all sums hold"
_ROUNDS = 200
_RANDOM_DIRECTIONS = 8
_NODES_AT_MOST = 20_000  # of one integer program; a limit in seconds would make results depend on the machine


@dataclass(frozen=True, eq=False)
class Ranges:
    """The least and the largest value of every unknown.

    Attributes
    ----------
    low, high
        float64 arrays of whole numbers; `high` may be infinite.
    proven
        bool array: whether both are proven. Otherwise the program was too hard, and the true range is possibly wider.
    """

    low: np.ndarray
    high: np.ndarray
    proven: np.ndarray


def ranges(matrix: sparse.csr_array, low: np.ndarray, high: np.ndarray, enough: np.ndarray | None = None) -> Ranges:
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
    enough = np.full(len(low), np.inf) if enough is None else enough
    low, high, settled = _narrowed(matrix, low.astype(float), high.astype(float))
    proven = np.ones(len(low), bool)
    for unknowns, sums, is_tree in _components(matrix, low < high):
        if is_tree and settled:
            continue
        part = matrix[sums]
        rest = np.where(low < high, 0.0, low)
        target = -(part @ rest)
        limits = low[unknowns], high[unknowns], enough[unknowns]
        low[unknowns], high[unknowns], proven[unknowns] = _solved(part[:, unknowns], target, *limits)
    return Ranges(low, high, proven)


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
            raise CountsError(_CONTRADICTION)
        if np.array_equal(new_low, low) and np.array_equal(new_high, high):
            return low, high, True
        low, high = new_low, new_high
    return low, high, False


def _components(matrix: sparse.csr_array, unknown: np.ndarray) -> list[tuple[np.ndarray, np.ndarray, bool]]:
    """The unknowns and the sums of every connected component with a sum, and whether it is a tree."""
    links = matrix[:, np.flatnonzero(unknown)].tocoo()
    sums, unknowns = links.shape
    graph = sparse.coo_array((np.ones(len(links.row)), (links.row, links.col + sums)), shape=(sums + unknowns, sums + unknowns))
    number, label = connected_components(graph, directed=False)
    size, edges = np.bincount(label, minlength=number), np.bincount(label[links.row], minlength=number)
    positions = np.flatnonzero(unknown)
    order = np.argsort(label, kind="stable")
    groups = np.split(order, np.cumsum(size)[:-1])
    return [
        (positions[group[group >= sums] - sums], group[group < sums], bool(edges[label[group[0]]] == len(group) - 1))
        for group in groups
        if len(group) > 1
    ]


def _solved(
    matrix: sparse.csr_array, target: np.ndarray, low: np.ndarray, high: np.ndarray, enough: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ranges of one component by integer programming; outer ranges are given, inner ones grow with every solution."""
    # Beyond this, a value is called unbounded: it exceeds everything that is bounded, taken together.
    beyond = float(np.abs(target).sum() + np.abs(low).sum() + high[np.isfinite(high)].sum() + 1000)
    outer_high = np.where(np.isinf(high), 4 * beyond, high)
    constraint, bounds = LinearConstraint(matrix, target, target), Bounds(low, outer_high)
    size = len(low)
    inner_low, inner_high = np.full(size, np.inf), np.full(size, -np.inf)
    proven = np.ones(size, bool)

    def solve(direction: np.ndarray) -> bool:
        """Take in the solution that is least in a direction; return whether it is one, and proven the least."""
        found = milp(
            direction,
            constraints=constraint,
            bounds=bounds,
            integrality=np.ones(size, np.int64),
            options={"mip_rel_gap": 0, "node_limit": _NODES_AT_MOST},
        )
        if found.status == 2:
            raise CountsError(_CONTRADICTION)
        if found.x is None:
            return False
        solution = np.round(found.x)
        if (matrix @ solution != target).any() or (solution < low).any() or (solution > outer_high).any():
            return False
        np.minimum(inner_low, solution, out=inner_low)
        np.maximum(inner_high, solution, out=inner_high)
        return found.status == 0

    draws = np.random.default_rng(0)  # only a choice of directions: the result does not depend on it
    for _ in range(_RANDOM_DIRECTIONS):
        solve(np.round(draws.normal(size=size), 2))
    for sign, outer in ((1.0, low), (-1.0, outer_high)):
        for unknown in range(size):
            inner = inner_low if sign > 0 else inner_high
            if inner[unknown] != outer[unknown] and inner_high[unknown] - inner_low[unknown] < enough[unknown]:
                direction = np.zeros(size)
                direction[unknown] = sign
                proven[unknown] &= solve(direction)
    if not np.isfinite(inner_low).all():
        raise CountsError("no numbers in place of the marks were found that make all sums hold; give fewer tables at a time")
    return inner_low, np.where((inner_high > beyond) & np.isinf(high), np.inf, inner_high), proven
