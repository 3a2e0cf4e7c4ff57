"""Circuits of sums: sets of cells that can change together while every sum holds (methods#masked-counts).

A circuit through a cell says how others make up for a change of it. Hiding all its cells is what protects the cell.
"""

import functools
import itertools

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from scipy.sparse.csgraph import dijkstra

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
        # A cell of a single sum leads from it to a node outside all sums, where nothing has to add up.
        self._outside = matrix.shape[0]

    @functools.cached_property
    def _ends(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The two nodes of each cell, and its signs there; None if a cell is in more than two sums."""
        by_cell = self._matrix.tocsc()
        often = np.diff(by_cell.indptr)
        if often.max(initial=0) > _SUMS_OF_AN_EDGE:
            return None
        first = by_cell.indptr[:-1]
        second = np.minimum(first + 1, len(by_cell.indices) - 1)
        is_pair = often == _SUMS_OF_AN_EDGE
        nodes = np.column_stack([by_cell.indices[first], np.where(is_pair, by_cell.indices[second], self._outside)])
        return nodes, np.column_stack([by_cell.data[first], np.where(is_pair, by_cell.data[second], 0)])

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
        found = None if self._ends is None else self._path(self._ends, cell, costs)
        if found is None or (self._matrix @ found).any():
            found = self._program(cell, costs)
        return found

    def _path(self, ends: tuple[np.ndarray, np.ndarray], cell: int, costs: np.ndarray) -> np.ndarray | None:
        usable = np.isfinite(costs)
        usable[cell] = False
        edges = np.flatnonzero(usable)
        low, high = ends[0][edges].min(axis=1), ends[0][edges].max(axis=1)
        # Of cells in the same two sums, the cheapest serves.
        order = np.lexsort((costs[edges], high, low))
        edges, low, high = edges[order], low[order], high[order]
        is_first = np.ones(len(edges), bool)
        is_first[1:] = (np.diff(low) != 0) | (np.diff(high) != 0)
        edges, low, high = edges[is_first], low[is_first], high[is_first]
        size = self._outside + 1
        graph = sparse.csr_array((costs[edges], (low, high)), shape=(size, size))
        begin, end = ends[0][cell]
        before = np.asarray(dijkstra(graph, directed=False, indices=begin, return_predecessors=True)[1])
        nodes = [int(end)]
        while nodes[-1] != begin:
            if before[nodes[-1]] < 0:
                return None
            nodes.append(int(before[nodes[-1]]))
        of_pair = low * size + high
        pairs = np.array([min(a, b) * size + max(a, b) for a, b in itertools.pairwise(nodes)], np.int64)
        path = edges[np.searchsorted(of_pair, pairs)]
        found = np.zeros(len(costs), np.int64)
        found[cell] = 1
        self._follow(found, ends, cell, zip(nodes, path, strict=False))
        self._follow(found, ends, cell, zip(nodes[::-1], path[::-1], strict=False))
        return found

    def _follow(self, found: np.ndarray, ends: tuple[np.ndarray, np.ndarray], cell: int, path: "zip[tuple[int, int]]") -> None:
        """Fill in how much the cells of a path change so that its nodes add up, from a cell until the path leaves the sums."""
        for node, following in path:
            if node == self._outside:
                return
            sign, next_sign = (ends[1][one][ends[0][one] == node][0] for one in (cell, following))
            found[following] = -sign * found[cell] // next_sign
            cell = int(following)

    def _program(self, cell: int, costs: np.ndarray) -> np.ndarray | None:
        usable = np.isfinite(costs)
        usable[cell] = True
        columns = np.flatnonzero(usable)
        part = self._matrix[:, columns]
        price = np.where(columns == cell, 0.0, costs[columns])
        fixed = np.where(columns == cell, 1.0, np.inf)
        bounds = [(1.0 if one == cell else 0.0, most) for one, most in zip(columns, fixed, strict=True)]
        bounds += [(0.0, 0.0 if one == cell else np.inf) for one in columns]
        solved = linprog(
            np.concatenate([price, price]),
            A_eq=sparse.hstack([part, -part], format="csc"),
            b_eq=np.zeros(part.shape[0]),
            bounds=bounds,
            method="highs-ds",
        )
        if solved.status != 0:
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
