"""The best generalization of a flat table: k-anonymity or k-map with a bound on suppressed records (methods.md 2).

A node passes when at most MaxSup of the records lie in classes below k. Classes only merge on the way up, so every node
above one that passes passes, and every node below one that fails fails. Where the loss of a node is the sum of the losses
of its levels (non-uniform entropy, Prec), it is known before any record is looked at: a node that passes rules out all
that lose more. Among the nodes that nothing rules out the search asks about the one that lies highest, for if it fails it
rules out most; the nodes that failed last are the antichain that proves the optimum.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from deid_assets.methods.flat_table import ClassTable, FlatTable, Node
from deid_assets.methods.information_loss import entropy_loss
from deid_assets.methods.optimal_lattice_search import lower_neighbours, minimal_passing_nodes


@dataclass(frozen=True)
class FlatResult:
    """The best node, and what proves that it is.

    Attributes
    ----------
    node, loss
        None and infinite when even the coarsest node fails.
    below_k
        Records in classes below k there: to be suppressed.
    allowed
        Records that may be suppressed.
    evaluated
        Every node that was looked at, with its records below k; the direct lower neighbours of the best are among them.
    """

    node: Node | None
    loss: float
    below_k: int
    allowed: int
    evaluated: dict[Node, int]


def entropy_losses(table: FlatTable) -> tuple[np.ndarray, ...]:
    """For each quasi-identifier the non-uniform entropy at each of its levels, in bits over all records."""
    return tuple(
        entropy_loss(np.bincount(column, minlength=domain.sizes[0]), domain)
        for column, domain in zip(np.asarray(table.codes).T, table.domains, strict=True)
    )


def precision_losses(table: FlatTable) -> tuple[np.ndarray, ...]:
    """For each quasi-identifier its part of Prec at each of its levels: level / height over the number of columns."""
    return tuple(
        np.arange(height + 1) / max(height, 1) / len(table.heights) for height in table.heights
    )


def average_class_size(classes: ClassTable) -> float:
    """Records of the release over its classes.

    Examples
    --------
    >>> ones = np.ones(2, dtype=np.int64)
    >>> average_class_size(ClassTable((ones,), 3 * ones, 3 * ones))
    3.0
    """
    present = classes.released[classes.released > 0]
    return float(present.mean()) if len(present) else 0.0


def search_flat_table(
    table: FlatTable, k: int, max_suppressed: float, losses: Sequence[np.ndarray]
) -> FlatResult:
    """Find the node of least loss that passes; ties go to the lower node, then in lexicographic order.

    Parameters
    ----------
    k
        Classes of fewer are too small.
    max_suppressed
        MaxSup, as a share of the records.
    losses
        For each quasi-identifier the loss at each of its levels, (levels,) float, not falling. The loss of a node is
        their sum.

    Raises
    ------
    ValueError
        If the losses do not fit the table, or fall.
    """
    if [len(own) for own in losses] != [height + 1 for height in table.heights]:
        raise ValueError("losses must give one number for each level of each quasi-identifier")
    if any(np.any(np.diff(own) < 0) for own in losses):
        raise ValueError("losses must not fall from a level to the next")
    allowed = _allowed(table, max_suppressed)
    levels = np.indices([len(own) for own in losses]).reshape(len(losses), -1).T.astype(np.int8)
    # Added in the order of the columns, so that equal nodes have equal sums to the last bit.
    loss = sum(np.asarray(own, dtype=np.float64)[levels[:, i]] for i, own in enumerate(losses))
    order = np.lexsort((*levels.T[::-1], levels.sum(axis=1, dtype=np.int64), loss))
    levels, loss = levels[order], loss[order]
    columns = np.ascontiguousarray(levels.T)
    relative_height = (levels / np.maximum(table.heights, 1)).sum(axis=1)
    open_, best = np.ones(len(levels), dtype=bool), len(levels)
    evaluated: dict[Node, int] = {}
    while len(places := np.flatnonzero(open_[:best])):
        place = int(places[np.argmax(relative_height[places])])
        node = _node(levels[place])
        evaluated[node] = table.below_k(node, k)
        if evaluated[node] <= allowed:
            best = place
        else:
            open_ &= _somewhere_above(columns, node)
    if best == len(levels):
        return FlatResult(None, math.inf, table.records, allowed, evaluated)
    return _proven(table, k, allowed, _node(levels[best]), float(loss[best]), evaluated)


def search_flat_table_by_classes(
    table: FlatTable, k: int, max_suppressed: float, loss: Callable[[ClassTable], float]
) -> FlatResult:
    """The same for a loss that only the classes tell (DM*, average class size), and that does not fall on the way up.

    The optimum is one of the nodes that pass while no node below them does: all of these are looked at.
    """
    allowed = _allowed(table, max_suppressed)
    evaluated: dict[Node, int] = {}

    def passes(node: Node) -> bool:
        evaluated[node] = table.below_k(node, k)
        return evaluated[node] <= allowed

    minimal = minimal_passing_nodes(table.heights, passes)
    if not minimal:
        return FlatResult(None, math.inf, table.records, allowed, evaluated)
    found = {node: loss(table.classes_at(node)) for node in minimal}
    node = min(found, key=lambda node: (found[node], sum(node), node))
    return _proven(table, k, allowed, node, found[node], evaluated)


def _somewhere_above(columns: np.ndarray, node: Node) -> np.ndarray:
    """(nodes,) bool: which nodes, (quasi-identifiers, nodes) levels, do not lie below or at this one."""
    above = columns[0] > node[0]
    for column, level in zip(columns[1:], node[1:], strict=True):
        above |= column > level
    return above


def _proven(
    table: FlatTable, k: int, allowed: int, node: Node, loss: float, evaluated: dict[Node, int]
) -> FlatResult:
    for below in lower_neighbours(node):
        if below not in evaluated:
            evaluated[below] = table.below_k(below, k)
    return FlatResult(node, loss, evaluated[node], allowed, evaluated)


def _allowed(table: FlatTable, max_suppressed: float) -> int:
    """Records that may be suppressed; a share such as .3 of 10 records is 3, though .3 is a little less in binary."""
    return math.floor(max_suppressed * table.records + 1e-9)


def _node(levels: np.ndarray) -> Node:
    return tuple(int(level) for level in levels)
