"""Predictive tagging of a lattice: which nodes pass a monotone test, found by testing few of them (methods#lattice-search).

A node that passes tags all nodes above it, a node that fails all below (El Emam et al. 2009). Nodes are tested by bisecting
chains of open nodes (Kohlmayer et al. 2012), cheapest first, so that a search that needs only the best passing nodes can end
before every node has a tag.

This module does not depend on the meaning of a node; it uses only an order of the nodes and a test that a node passes or fails.
The result is correct if the test is monotone, that is, if every node above a passing node passes too.
"""

import bisect
import math
from collections.abc import Callable, Sequence
from itertools import product
from types import EllipsisType

import numpy as np
from numpy.typing import ArrayLike

Node = tuple[int, ...]

LISTED_AT_MOST = 2_000_000
"""Number of nodes up to which a lattice is listed, node by node; a larger one is searched best first (`best_first`)."""

OPEN, FAILS, PASSES = 0, -1, 1
"""The tags of a node: not known, fails, passes."""


def all_nodes(heights: Sequence[int]) -> list[Node]:
    """Return every node, in lexicographic order."""
    return list(product(*(range(height + 1) for height in heights)))


def node_text(node: Sequence[int]) -> str:
    """Return a node as text: '2,1,2,3'."""
    return ",".join(str(level) for level in node)


def parse_node(text: str) -> Node:
    """Parse a node from its text."""
    return tuple(int(level) for level in text.split(","))


def below_or_equal(lower: Node, upper: Node) -> bool:
    """Whether no level of `lower` is above that of `upper`.

    Examples
    --------
    >>> below_or_equal((0, 1), (1, 1)), below_or_equal((0, 2), (1, 1))
    (True, False)
    """
    return all(low <= high for low, high in zip(lower, upper, strict=True))


def lower_neighbors(node: Node) -> list[Node]:
    """Return the nodes directly below: one level less in one dimension.

    Examples
    --------
    >>> lower_neighbors((2, 0, 1))
    [(1, 0, 1), (2, 0, 0)]
    """
    return [(*node[:axis], level - 1, *node[axis + 1 :]) for axis, level in enumerate(node) if level > 0]


def highest_of(nodes: Sequence[Node]) -> list[Node]:
    """Return those of the distinct nodes that have none of the others above, in lexicographic order.

    Examples
    --------
    >>> highest_of([(0, 1), (1, 0), (1, 1), (0, 2)])
    [(0, 2), (1, 1)]
    """
    every = np.array(nodes)
    return sorted(node for node in nodes if np.count_nonzero(np.all(every >= node, axis=1)) == 1)


def lowest_of(nodes: Sequence[Node]) -> list[Node]:
    """Return those of the distinct nodes that have none of the others below, in lexicographic order.

    Examples
    --------
    >>> lowest_of([(0, 1), (1, 0), (1, 1), (0, 2)])
    [(0, 1), (1, 0)]
    """
    every = np.array(nodes)
    return sorted(node for node in nodes if np.count_nonzero(np.all(every <= node, axis=1)) == 1)


def upper_neighbors(node: Node, shape: Sequence[int]) -> list[Node]:
    """Return the nodes directly above, in a lattice with these numbers of levels.

    Examples
    --------
    >>> upper_neighbors((2, 0, 1), (3, 1, 3))
    [(2, 0, 2)]
    """
    return [(*node[:axis], level + 1, *node[axis + 1 :]) for axis, level in enumerate(node) if level + 1 < shape[axis]]


def sums_of_losses(losses: Sequence[ArrayLike]) -> np.ndarray:
    """Return for each node of the lattice, indexed by its levels, the sum of one loss from each dimension.

    Examples
    --------
    >>> sums_of_losses([[0, 3], [0, 1, 5]]).tolist()
    [[0.0, 1.0, 5.0], [3.0, 4.0, 8.0]]
    """
    total = np.zeros(())
    for own in losses:
        total = total[..., np.newaxis] + np.asarray(own, dtype=np.float64)
    return total


def sum_of_losses(losses: Sequence[Sequence[float] | np.ndarray], node: Sequence[int]) -> float:
    """Return the sum for one node, rounded once."""
    return math.fsum(own[level] for own, level in zip(losses, node, strict=True))


def node_of_axis(dimensions: int, axis: int, level: int) -> Node:
    """Return the node with a level of one dimension and the others at their finest.

    Examples
    --------
    >>> node_of_axis(3, 1, 2)
    (0, 2, 0)
    """
    return (*(0,) * axis, level, *(0,) * (dimensions - axis - 1))


def is_of_axis(node: Node) -> bool:
    """Whether just one dimension of a node is above its finest level."""
    return sum(level > 0 for level in node) == 1


def everything_above(node: Node) -> tuple[slice | EllipsisType, ...]:
    """Return the index of a node and all nodes above it in an array of the lattice's shape."""
    # The ellipsis makes a view even of a lattice with one node and no axis.
    return (*(slice(level, None) for level in node), ...)


def everything_below(node: Node) -> tuple[slice | EllipsisType, ...]:
    """Return the index of a node and all nodes below it in an array of the lattice's shape."""
    return (*(slice(level + 1) for level in node), ...)


class Tagging:
    """The tags of a lattice, as far as they are known; the coarsest node is tested first, because if it fails, all do.

    Parameters
    ----------
    order, passes
        As in `tagged_lattice`.

    Attributes
    ----------
    tags
        Array of the lattice's shape, int8: `PASSES`, `FAILS` or `OPEN`.
    """

    def __init__(self, order: np.ndarray, passes: Callable[[Node], bool]):
        self.tags = np.zeros(order.shape, dtype=np.int8)
        self._order, self._passes = order, passes
        self._test(tuple(size - 1 for size in order.shape))

    def decide(self, node: Node) -> int:
        """Return the tag of a node; if it is open, bisect a chain of open nodes from it upwards."""
        if self.tags[node] == OPEN:
            bisect_chain(node, self.tags.shape, lambda upper: self.tags[upper] == OPEN, self._order.__getitem__, self._test)
        return int(self.tags[node])

    def _test(self, node: Node) -> bool:
        good = self._passes(node)
        related = self.tags[everything_above(node) if good else everything_below(node)]
        related[related == OPEN] = PASSES if good else FAILS
        return good


def tagged_lattice(order: np.ndarray, passes: Callable[[Node], bool], enough: int | None = None) -> np.ndarray:
    """Tag the nodes of a lattice, testing as few as the tags allow.

    Parameters
    ----------
    order
        Array of the lattice's shape that never falls on the way up, such as the loss of each node.
    passes
        The test; called at most once per node.
    enough
        Number of passing nodes to find. Nodes that come after so many in the order may stay open. None: all are tagged.

    Returns
    -------
    np.ndarray
        Array of the same shape, int8: `PASSES`, `FAILS` or `OPEN`.

    Examples
    --------
    >>> tagged_lattice(np.arange(6), lambda node: node[0] >= 2).tolist()
    [-1, -1, 1, 1, 1, 1]
    >>> tagged_lattice(np.array([[0, 1], [2, 3]]), lambda node: node[1] == 1, enough=1).tolist()
    [[-1, 1], [0, 1]]
    """
    tagging = Tagging(order, passes)
    tags = tagging.tags
    while True:
        wanted = tags == OPEN
        passing = order[tags == PASSES]
        if enough is not None and len(passing) >= enough:
            # Ties are decided too: a node that may stay open never lies below one of those found.
            wanted &= order <= np.partition(passing, enough - 1)[enough - 1]
        places = np.flatnonzero(wanted)
        if not len(places):
            return tags
        first = places[np.argmin(order.ravel()[places])]
        tagging.decide(tuple(int(level) for level in np.unravel_index(first, order.shape)))


def bisect_chain(
    node: Node,
    shape: Sequence[int],
    is_open: Callable[[Node], bool],
    order: Callable[[Node], float],
    passes: Callable[[Node], bool],
) -> None:
    """Bisect a path of open nodes from one upwards, each time to the neighbor that comes first, for its lowest passing node."""
    chain = [node]
    while above := [upper for upper in upper_neighbors(chain[-1], shape) if is_open(upper)]:
        chain.append(min(above, key=order))
    bisect.bisect_left(chain, True, key=passes)


def minimal_passing_nodes(heights: Sequence[int], passes: Callable[[Node], bool]) -> list[Node]:
    """Return every passing node with no passing node below it, testing as few nodes as the tags allow.

    Parameters
    ----------
    heights
        The highest level of each dimension.
    passes
        The test; called at most once per node.

    Returns
    -------
    list
        In lexicographic order; empty if even the top fails.

    Examples
    --------
    >>> minimal_passing_nodes((2, 1), lambda node: sum(node) >= 2)
    [(1, 1), (2, 0)]
    """
    return lowest_nodes(tagged_lattice(sums_of_losses([range(height + 1) for height in heights]), passes) == PASSES)


def lowest_nodes(marked: np.ndarray) -> list[Node]:
    """Return the marked nodes that have no marked node directly below, in lexicographic order.

    Parameters
    ----------
    marked
        Array of the lattice's shape, bool.
    """
    lowest = marked.copy()
    for axis, size in enumerate(marked.shape):
        upper, lower = ([slice(None)] * marked.ndim for _ in range(2))
        upper[axis], lower[axis] = slice(1, None), slice(size - 1)
        lowest[tuple(upper)] &= ~marked[tuple(lower)]
    return [tuple(int(level) for level in node) for node in np.argwhere(lowest)]
