"""The best nodes of a lattice that is too large to list, found in the order of their loss (methods#best-first-search).

What is known of the lattice are the nodes that failed and those that passed a monotone test; the tag of any other node follows
from them. Nodes come in the order of their loss, without those that are known to fail: below a failed node, the next ones that
can pass have, in one dimension, a level above its own. So whole parts of the lattice are left out without being listed.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from deid_assets.methods.lattice.predictive_tagging import (
    FAILS,
    OPEN,
    PASSES,
    Node,
    bisect_chain,
    lower_neighbors,
    sum_of_losses,
    upper_neighbors,
)

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
        if self.tag(node) == OPEN:
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
