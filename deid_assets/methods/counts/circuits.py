"""Circuits of sums: sets of cells that can change together while every sum holds (methods#masked-counts).

A circuit through a cell says how others make up for a change of it. Hiding all its cells is what protects the cell.
"""

import functools
import itertools

import numpy as np
import scipy
from scipy import sparse

_MULTIPLES = range(1, 5)
_NOT_WHOLE = 1e-6
_SUMS_OF_AN_EDGE = 2


class Circuits:
    """The circuits of connected sums.

    Where every cell is in at most two sums, as in lists and two-way tables, sums are the nodes of a graph and cells its edges:
    the cheapest circuit through a cell is a shortest path. Elsewhere it is a linear program.

    Parameters
    ----------
    matrix
        Sums x cells, int64, of 1 and -1; every cell is in at least one sum.

    Examples
    --------
    A total and three parts: what one part gains, the cheapest other part loses.

    >>> circuits = Circuits(sparse.csr_array(np.array([[-1, 1, 1, 1]])))
    >>> circuits.through(1, np.array([4.0, 1.0, 3.0, 2.0])).tolist()
    [0, 1, 0, -1]
    """

    def __init__(self, matrix: sparse.csr_array) -> None:
        self._matrix = matrix
        self._outside = matrix.shape[0]

    @functools.cached_property
    def _graph(self) -> "_Graph | None":
        """The cells as edges; None if a cell is in more than two sums."""
        by_cell = self._matrix.tocsc()
        often = np.diff(by_cell.indptr)
        if often.max(initial=0) > _SUMS_OF_AN_EDGE:
            return None
        first = by_cell.indptr[:-1]
        second = np.minimum(first + 1, len(by_cell.indices) - 1)
        is_pair = often == _SUMS_OF_AN_EDGE
        nodes = np.column_stack([by_cell.indices[first], np.where(is_pair, by_cell.indices[second], self._outside)])
        return _Graph(nodes, np.column_stack([by_cell.data[first], np.where(is_pair, by_cell.data[second], 0)]), self._outside)

    def within(self, cells: np.ndarray) -> "Circuits":
        """The circuits of some cells alone, an int64 array of positions."""
        part = self._matrix[:, cells]
        return Circuits(part[np.diff(part.indptr) > 0])

    def through(self, cell: int, costs: np.ndarray) -> np.ndarray | None:
        """Return the cheapest circuit through a cell, or None without one.

        Parameters
        ----------
        cell
            Position.
        costs
            float64 array per cell, above 0: of changing it by 1; infinite where it may not change.

        Returns
        -------
        numpy.ndarray or None
            int64 array per cell: by how much each changes, together; 0 for most. Times the matrix it is 0.
        """
        found = None if self._graph is None else self._graph.through(cell, costs)
        if found is None or (self._matrix @ found).any():
            found = self._program(cell, costs)
        return found

    def _program(self, cell: int, costs: np.ndarray) -> np.ndarray | None:
        usable = np.isfinite(costs)
        usable[cell] = True
        columns = np.flatnonzero(usable)
        part = self._matrix[:, columns]
        # By how much each cell goes up, then by how much each goes down: the cell itself goes up by 1.
        price = np.where(columns == cell, 0.0, costs[columns])
        least = np.where(columns == cell, 1.0, 0.0)
        most = np.where(columns == cell, [[1.0], [0.0]], np.inf)
        solved = scipy.optimize.milp(
            np.tile(price, 2),
            constraints=scipy.optimize.LinearConstraint(sparse.hstack([part, -part], format="csc"), 0, 0),
            bounds=scipy.optimize.Bounds(np.concatenate([least, np.zeros(len(columns))]), most.ravel()),
        )
        if solved.x is None:
            return None
        up, down = np.split(np.asarray(solved.x), 2)
        change = up - down
        for multiple in _MULTIPLES:
            whole = np.round(change * multiple)
            if np.abs(change * multiple - whole).max() < _NOT_WHOLE:
                found = np.zeros(len(costs), np.int64)
                found[columns] = whole.astype(np.int64)
                return None if (self._matrix @ found).any() else found
        return None


class _Graph:
    """Sums as nodes, cells as edges, so that the cheapest circuit through a cell is a shortest path.

    Parameters
    ----------
    nodes, signs
        Cells x 2: the sums of each cell, and its signs there. A cell of a single sum leads to a node outside all sums, where
        nothing has to add up.
    outside
        That node, the last.
    """

    def __init__(self, nodes: np.ndarray, signs: np.ndarray, outside: int) -> None:
        self._nodes, self._signs, self._outside = nodes, signs, outside
        size = outside + 1
        of_cell = nodes.min(axis=1) * size + nodes.max(axis=1)
        self._order = np.argsort(of_cell, kind="stable")
        self._pairs, self._starts = np.unique(of_cell[self._order], return_index=True)
        # Every pair of nodes twice, for both directions. An entry holds the position of the pair and, later, its cost.
        low, high = np.divmod(self._pairs, size)
        ends = np.concatenate([low, high]), np.concatenate([high, low])
        places = np.tile(np.arange(len(self._pairs), dtype=float), 2)
        self._links = sparse.csr_array((places, ends), shape=(size, size))
        self._places = self._links.data.astype(np.int64)

    def through(self, cell: int, costs: np.ndarray) -> np.ndarray | None:
        """See `Circuits.through`; where signs do not fit along the path, the changes do not add up."""
        ordered = np.where(self._order == cell, np.inf, costs[self._order])
        # Of cells in the same two sums, the cheapest serves. What costs infinitely much is never on a path.
        self._links.data = np.minimum.reduceat(ordered, self._starts)[self._places]
        begin, end = self._nodes[cell]
        before = np.asarray(scipy.sparse.csgraph.dijkstra(self._links, indices=begin, return_predecessors=True)[1])
        nodes = [int(end)]
        while nodes[-1] != begin:
            if before[nodes[-1]] < 0:
                return None
            nodes.append(int(before[nodes[-1]]))
        path = [self._cheapest(ordered, *two) for two in itertools.pairwise(nodes)]
        found = np.zeros(len(costs), np.int64)
        found[cell] = 1
        self._follow(found, cell, zip(nodes, path, strict=False))
        self._follow(found, cell, zip(nodes[::-1], path[::-1], strict=False))
        return found

    def _cheapest(self, ordered: np.ndarray, one: int, other: int) -> int:
        """The cheapest cell between two nodes."""
        place = int(np.searchsorted(self._pairs, min(one, other) * (self._outside + 1) + max(one, other)))
        start = self._starts[place]
        end = self._starts[place + 1] if place + 1 < len(self._starts) else len(ordered)
        return int(self._order[start + ordered[start:end].argmin()])

    def _follow(self, found: np.ndarray, cell: int, path: "zip[tuple[int, int]]") -> None:
        """Fill in how much the cells of a path change so that its nodes add up, from a cell until the path leaves the sums."""
        for node, following in path:
            if node == self._outside:
                return
            sign, next_sign = (self._signs[one][self._nodes[one] == node][0] for one in (cell, following))
            found[following] = -sign * found[cell] // next_sign
            cell = int(following)
