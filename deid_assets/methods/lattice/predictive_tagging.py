"""Predictive tagging of a lattice: which nodes pass a monotone test, found by testing few of them (methods#lattice-search).

A node that passes tags all nodes above it, a node that fails all below (El Emam et al. 2009). Nodes are tested by bisecting
chains of open nodes (Kohlmayer et al. 2012), cheapest first, so that a search that needs only the best passing nodes can end
before every node has a tag.

This module does not depend on the meaning of a node; it uses only an order of the nodes and a test that a node passes or fails.
The result is correct if the test is monotone, that is, if every node above a passing node passes too.

The best nodes of a lattice that is too large to list are found in the order of their loss (methods#best-first-search).

What is known of the lattice are the nodes that failed and those that passed a monotone test; the tag of any other node follows
from them. Nodes come in the order of their loss, without those that are known to fail: below a failed node, the next ones that
can pass have, in one dimension, a level above its own. So whole parts of the lattice are left out without being listed.
"""

import bisect
import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from types import EllipsisType

import numpy as np
from numpy.typing import ArrayLike

Node = tuple[int, ...]

LISTED_AT_MOST = 2_000_000
"""Number of nodes up to which a lattice is listed, node by node; a larger one is searched best first."""

OPEN, FAILS, PASSES = 0, -1, 1
"""The tags of a node: not known, fails, passes."""


def all_nodes(heights: Sequence[int]) -> list[Node]:
    """Return every node, in lexicographic order."""
    return list(product(*(range(height + 1) for height in heights)))


def node_text(node: Sequence[int]) -> str:
    """Return a node as text: '2,1,2,3'."""
    return ",".join(map(str, node))


def parse_node(text: str) -> Node:
    """Parse a node from its text."""
    return tuple(map(int, text.split(",")))


def parse_nodes(texts: Sequence[str]) -> list[Node]:
    """Parse many nodes from their texts, of as many levels each.

    Examples
    --------
    >>> parse_nodes(["2,1", "0,3"])
    [(2, 1), (0, 3)]
    """
    levels = np.fromstring(",".join(texts), dtype=np.int64, sep=",")
    return [tuple(node) for node in levels.reshape(len(texts), -1).tolist()] if len(texts) else []


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

    def find(self, enough: int | None, among: np.ndarray) -> None:
        """Tag nodes in their order until enough pass; only some count, those of an array of the lattice's shape, bool."""
        while True:
            wanted = (self.tags == OPEN) & among
            passing = self._order[(self.tags == PASSES) & among]
            if enough is not None and len(passing) >= enough:
                # Ties are decided too: a node that may stay open never lies below one of those found.
                wanted &= self._order <= np.partition(passing, enough - 1)[enough - 1]
            places = np.flatnonzero(wanted)
            if not len(places):
                return
            first = places[np.argmin(self._order.ravel()[places])]
            node = tuple(int(level) for level in np.unravel_index(first, self.tags.shape))
            bisect_chain(
                node, self.tags.shape, lambda upper: self.tags[upper] == OPEN and among[upper], self._order.__getitem__,
                self._test,
            )  # fmt: skip

    def _test(self, node: Node) -> bool:
        good = self._passes(node)
        related = self.tags[everything_above(node) if good else everything_below(node)]
        related[related == OPEN] = PASSES if good else FAILS
        return good


def tagged_lattice(
    order: np.ndarray, passes: Callable[[Node], bool], enough: int | None = None, useful: np.ndarray | None = None
) -> np.ndarray:
    """Tag the nodes of a lattice, testing as few as the tags allow.

    Parameters
    ----------
    order
        Array of the lattice's shape that never falls on the way up, such as the loss of each node.
    passes
        The test; called at most once per node.
    enough
        Number of passing nodes to find. Nodes that come after so many in the order may stay open. None: all are tagged.
    useful
        Array of the same shape, bool. If the first of these to pass is not among the nodes found, as many are found among them.

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
    tagging.find(enough, np.ones(order.shape, dtype=bool))
    if useful is not None:
        passing, left = (order[useful & (tagging.tags == tag)] for tag in (PASSES, OPEN))
        if len(left) and not (len(passing) and passing.min() < left.min()):
            tagging.find(enough, useful)
    return tagging.tags


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


STEPS_AT_MOST = 100_000
"""Nodes that are looked at in the order of their loss, before the rest is bounded by the loss of the next one."""

_LEVELS_AT_MOST = 8_000_000
"""Levels of all nodes that are kept to be looked at, beyond which the rest is bounded, too: memory is finite."""


class SparseTagging:
    """The tags of a lattice, as far as they are known, kept as the highest failed and the lowest passing nodes.

    The coarsest node is tested first, because if it fails, all do.

    Parameters
    ----------
    shape
        Number of levels of each dimension.
    order
        Returns a number for a node that never falls on the way up, such as its loss.
    passes
        The test; called at most once per node, and monotone.

    Attributes
    ----------
    tests
        Number of nodes that were tested.
    """

    def __init__(self, shape: Sequence[int], order: Callable[[Node], float], passes: Callable[[Node], bool]):
        self._shape, self._order, self._passes = tuple(shape), order, passes
        self._failed, self._passing = (np.empty((0, len(self._shape)), dtype=np.int16) for _ in range(2))
        self.tests = 0
        self.top: Node = tuple(levels - 1 for levels in self._shape)
        self._test(self.top)

    def failed_above(self, node: Node) -> Node | None:
        """Return the highest failed node that is this one or above it; None if there is none."""
        return highest_above(self._failed, node)

    def tag(self, node: Node) -> int:
        """Return the tag of a node, without a test."""
        if self.failed_above(node) is not None:
            return FAILS
        return PASSES if bool((self._passing <= np.array(node)).all(axis=1).any()) else OPEN

    def decide(self, node: Node) -> int:
        """Return the tag of a node; if it is open, bisect a chain of open nodes from it upwards."""
        tag = self.tag(node)
        if tag != OPEN:
            return tag
        bisect_chain(node, self._shape, lambda upper: self.tag(upper) == OPEN, self._order, self._test)
        return self.tag(node)

    def passes_now(self, node: Node) -> bool:
        """Whether a node passes, tested itself if its tag is open."""
        return self._test(node) if self.tag(node) == OPEN else self.tag(node) == PASSES

    @property
    def passing(self) -> list[Node]:
        """The lowest nodes known to pass."""
        return [tuple(own) for own in self._passing.tolist()]

    def _test(self, node: Node) -> bool:
        self.tests += 1
        passed, own = self._passes(node), np.array(node, dtype=np.int16)
        if passed:
            self._passing = np.vstack([self._passing[~(self._passing >= own).all(axis=1)], own])
        else:
            self._failed = np.vstack([self._failed[~(self._failed <= own).all(axis=1)], own])
        return passed


class NodesByLoss:
    """The nodes that are not known to fail, in the order of loss, height and levels.

    What fails may become known on the way: a node that was given out and fails then is left like the others.

    Parameters
    ----------
    losses
        For each dimension the loss at each of its levels, never falling; the loss of a node is their sum.
    failed_above
        Returns a failed node that is a node or above it; None if none is known.
    left_out_above
        (m, dimensions) int: nodes that are left out with all above them.
    steps_at_most
        Number of nodes to look at.

    Attributes
    ----------
    least_left
        Lower bound on the loss of the nodes that were not given out and are not known to fail; None if there are none.

    Examples
    --------
    >>> [node for _, node in NodesByLoss([[0, 3], [0, 1, 5]], lambda node: (0, 1) if node <= (0, 1) else None)]
    [(1, 0), (1, 1), (0, 2), (1, 2)]
    """

    def __init__(
        self,
        losses: Sequence[Sequence[float] | np.ndarray],
        failed_above: Callable[[Node], Node | None],
        left_out_above: np.ndarray | None = None,
        steps_at_most: int = STEPS_AT_MOST,
    ):
        self._losses = [[float(loss) for loss in own] for own in losses]
        self._shape = tuple(map(len, self._losses))
        self._failed_above, self._steps_at_most = failed_above, steps_at_most
        self._left_out = np.empty((0, len(losses)), dtype=np.int16) if left_out_above is None else left_out_above
        self._next: list[tuple[float, int, Node]] = []
        self._seen: set[Node] = set()
        self._add([(0,) * len(self._shape)])

    def __iter__(self) -> Iterator[tuple[float, Node]]:
        for _ in range(self._steps_at_most):
            if not self._next or len(self._seen) * len(self._shape) > _LEVELS_AT_MOST:
                return
            loss, _, node = heapq.heappop(self._next)
            failed = self._failed_above(node)
            if failed is None:
                yield loss, node
                failed = self._failed_above(node)
            self._add(upper_neighbors(node, self._shape) if failed is None else self._above_failed(node, failed))

    @property
    def least_left(self) -> float | None:
        """See the class."""
        return self._next[0][0] if self._next else None

    def _above_failed(self, node: Node, failed: Node) -> list[Node]:
        """The lowest nodes above one that are not below the failed one: whatever is above and may pass is above one of them."""
        return [
            (*node[:axis], level + 1, *node[axis + 1 :]) for axis, level in enumerate(failed) if level + 1 < self._shape[axis]
        ]

    def _add(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            if node in self._seen:
                continue
            self._seen.add(node)
            if len(self._left_out) and bool((self._left_out <= np.array(node)).all(axis=1).any()):
                continue
            heapq.heappush(self._next, (sum_of_losses(self._losses, node), sum(node), node))


def highest_above(nodes: np.ndarray, node: Node) -> Node | None:
    """Return the highest of some nodes, (m, dimensions) int, that is a node or above it; None if there is none."""
    above = nodes[(nodes >= np.array(node)).all(axis=1)]
    return tuple(above[np.argmax(above.sum(axis=1))].tolist()) if len(above) else None


def lower_loss(node: Node, losses: Sequence[np.ndarray], tagging: SparseTagging, tests_at_most: int) -> Node:
    """Return a passing node that loses no more than this one, looked for nearby: levels down, and one up for others down.

    Parameters
    ----------
    node
        A passing node.
    losses
        As in `NodesByLoss`.
    tests_at_most
        Number of tests to add to those of the tagging.
    """
    most = tagging.tests + tests_at_most

    def loss(other: Node) -> float:
        return sum_of_losses(losses, other)

    while tagging.tests < most:
        raised = [node, *sorted(upper_neighbors(node, [len(own) for own in losses]), key=loss)]
        near = dict.fromkeys(other for start in raised for other in sorted(lower_neighbors(start), key=loss))
        better = (other for other in near if loss(other) < loss(node) and tagging.passes_now(other))
        found = next(better, None)
        if found is None:
            break
        node = found
    return node


def best_passing_nodes(
    losses: Sequence[np.ndarray], passes: Callable[[Node], bool], enough: int, tests_at_most: int
) -> tuple[list[Node], SparseTagging]:
    """Find the nodes of least loss that pass a monotone test, testing as few as the tags allow.

    Parameters
    ----------
    losses
        As in `NodesByLoss`.
    passes
        The test; called at most once per node.
    enough
        Number of nodes to find.
    tests_at_most
        Number of tests after which the search ends at the next open node.

    Returns
    -------
    (list of Node, SparseTagging)
        The nodes that pass, best first; every node that comes before the last of them in the order fails or is among them. If
        the tests did not get as far as the first of them: the best that passes of all that were tested, after looking nearby.
        And what the tests say of the others.

    Examples
    --------
    >>> found, tagging = best_passing_nodes([np.arange(4.0), np.arange(3.0)], lambda node: sum(node) >= 3, 3, 100)
    >>> found
    [(1, 2), (2, 1), (3, 0)]
    """
    tagging = SparseTagging([len(own) for own in losses], lambda node: sum_of_losses(losses, node), passes)
    found: list[Node] = []
    if tagging.tag(tagging.top) == FAILS:
        return found, tagging
    for axis in range(len(losses)):
        # The finest level of each dimension that can pass at all: everything below is left out at once.
        tagging.decide((*tagging.top[:axis], 0, *tagging.top[axis + 1 :]))
    for _, node in NodesByLoss(losses, tagging.failed_above):
        if tagging.tag(node) == OPEN and tagging.tests >= tests_at_most:
            break
        if tagging.decide(node) == PASSES:
            found.append(node)
            if len(found) == enough:
                break
    if not found:
        best = min(tagging.passing, key=lambda node: (sum_of_losses(losses, node), node))
        found.append(lower_loss(best, losses, tagging, tests_at_most))
    return found, tagging
