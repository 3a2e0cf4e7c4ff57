"""Optimal Lattice Anonymization: the search of El Emam et al. (2009), with predictive tagging (methods#lattice-search).

This module does not depend on the meaning of a node; it uses only heights and a test that a node passes or fails. The result is
correct if the test is monotone, that is, if every node above a passing node passes too.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

Node = tuple[int, ...]

_UNKNOWN, _FAILS, _PASSES = 0, -1, 1


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


def nodes_between(bottom: Node, top: Node, height: int) -> Iterator[Node]:
    """Yield the nodes of a sublattice at one height, left to right.

    Examples
    --------
    >>> list(nodes_between((0, 0), (2, 1), 2))
    [(1, 1), (2, 0)]
    """
    if not bottom:
        if height == 0:
            yield ()
        return
    rest_least, rest_most = sum(bottom[1:]), sum(top[1:])
    for level in range(max(bottom[0], height - rest_most), min(top[0], height - rest_least) + 1):
        for rest in nodes_between(bottom[1:], top[1:], height - level):
            yield (level, *rest)


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
    tags = np.zeros([height + 1 for height in heights], dtype=np.int8)
    minimal: set[Node] = set()
    seen: set[tuple[Node, Node]] = set()

    # Predictive tagging: a passing node tags all nodes above it, a failing node all below.
    def ok(node: Node) -> bool:
        if tags[node] == _UNKNOWN:
            good = passes(node)
            slices = [slice(level, None) if good else slice(None, level + 1) for level in node]
            related = tags[(*slices, ...)]  # a view, even of a lattice with one node and no axis
            related[related == _UNKNOWN] = _PASSES if good else _FAILS
        return tags[node] == _PASSES

    # K-min of the paper: the sublattice is halved by height until only a node and one directly above it are left.
    def kmin(bottom: Node, top: Node) -> None:
        if (bottom, top) in seen:
            return
        seen.add((bottom, top))
        if sum(top) - sum(bottom) > 1:
            for node in nodes_between(bottom, top, (sum(bottom) + sum(top)) // 2):
                if ok(node):
                    kmin(bottom, node)
                else:
                    kmin(node, top)
            return
        node = bottom if ok(bottom) else top
        if ok(node) and not any(below_or_equal(found, node) for found in minimal):
            minimal.difference_update([found for found in minimal if below_or_equal(node, found)])
            minimal.add(node)

    kmin(tuple(0 for _ in heights), tuple(heights))
    return sorted(minimal)
