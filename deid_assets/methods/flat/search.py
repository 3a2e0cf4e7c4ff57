"""Optimal generalization of a flat table: k-anonymity or k-map with a bound on suppressed records (methods#flat-tables).

A node passes if at most MaxSup of the records are in classes smaller than k. Classes only merge on the way up, so every node
above a passing node passes, and every node below a failing node fails; and no node loses less than one below it. A failing node
therefore rules out all nodes below it. A node that loses no less than the best passing node so far rules out all nodes above
it, whether it passes or not. The search descends from the top to a first good node and then evaluates nodes whose expected loss
is close to that of the best so far, where failing nodes and nodes with too much loss meet. The evaluated nodes prove the
optimum: an antichain of nodes that failed, and one of nodes that lose no less.

If the loss of a node is the sum of the losses of its levels (non-uniform entropy, Prec), it is known before any record is read.
If it depends on the classes (DM*, average class size), it is computed with them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from deid_assets.methods.flat.classes import ClassTable, FlatTable
from deid_assets.methods.lattice.information_loss import entropy_loss
from deid_assets.methods.lattice.predictive_tagging import (
    LISTED_AT_MOST,
    Node,
    best_passing_nodes,
    lower_neighbors,
    node_text,
    sum_of_losses,
    sums_of_losses,
)

EVALUATED_AT_MOST = 1_000
"""Number of nodes of a lattice that is not listed, after which the search ends at the best one that it found."""

_ROUND_OFF = 1e-12

_Rank = tuple[float, int, Node]


@dataclass(frozen=True)
class FlatResult:
    """The best node, and the proof that it is the best.

    Attributes
    ----------
    node, loss
        None and infinite if even the coarsest node fails.
    allowed
        Number of records that may be suppressed.
    evaluated
        Every evaluated node with its records below k; includes the direct lower neighbors of the best node.
    losses
        The loss of each of these nodes.
    """

    node: Node | None
    loss: float
    allowed: int
    evaluated: dict[Node, int]
    losses: dict[Node, float]


def entropy_losses(table: FlatTable) -> tuple[np.ndarray, ...]:
    """Return for each quasi-identifier the non-uniform entropy at each of its levels, in bits over all records."""
    return tuple(
        entropy_loss(np.bincount(column, minlength=domain.sizes[0]), domain)
        for column, domain in zip(np.asarray(table.codes).T, table.domains, strict=True)
    )


def precision_losses(table: FlatTable) -> tuple[np.ndarray, ...]:
    """Return for each quasi-identifier its part of Prec at each of its levels: level / height over the number of columns."""
    return tuple(np.arange(height + 1) / max(height, 1) / len(table.heights) for height in table.heights)


def average_class_size(classes: ClassTable) -> float:
    """Return the number of released records divided by the number of classes.

    Examples
    --------
    >>> ones = np.ones(2, dtype=np.int64)
    >>> average_class_size(ClassTable((ones,), 3 * ones, 3 * ones))
    3.0
    """
    present = classes.released[classes.released > 0]
    return float(present.mean()) if len(present) else 0.0


def search_flat_table(
    table: FlatTable, k: int, max_suppressed: float, losses: Sequence[np.ndarray], tops: Node | None = None
) -> FlatResult:
    """Find the passing node with the least loss; ties go to the lower node, then to lexicographic order.

    Losses are sums of floating-point numbers; two losses tie if they differ by less than 1e-12 of the largest. Of a lattice
    that is too large to list, the node may be the best of `EVALUATED_AT_MOST` only, and losses tie if they are equal.

    Parameters
    ----------
    k
        Smallest class size that is large enough.
    max_suppressed
        MaxSup, as a share of the records.
    losses
        For each quasi-identifier the loss at each of its levels, (levels,) float, non-decreasing. The loss of a node is
        their sum.
    tops
        For each quasi-identifier the highest level that may be chosen; None if every level may.

    Raises
    ------
    ValueError
        If the losses do not fit the table, or if they decrease.
    """
    if [len(own) for own in losses] != [height + 1 for height in table.heights]:
        raise ValueError("losses must give one number for each level of each quasi-identifier")
    if any(np.any(np.diff(own) < 0) for own in losses):
        raise ValueError("losses must not fall from a level to the next")
    if math.prod(map(len, losses)) > LISTED_AT_MOST:
        return _search_best_first(table, k, max_suppressed, losses, tops or table.heights)
    loss = sums_of_losses(losses)
    ranks = _ranks(loss)
    search = _Search(table, k, max_suppressed, ranks, lambda node, classes: int(ranks[node]), True, tops)
    return search.result({node: float(loss[node]) for node in search.looked_at})


def _search_best_first(table: FlatTable, k: int, max_suppressed: float, losses: Sequence[np.ndarray], tops: Node) -> FlatResult:
    """The same for a lattice that is too large to list (methods#best-first-search)."""
    allowed, evaluated = allowed_records(table, max_suppressed), dict[Node, int]()

    def passes(node: Node) -> bool:
        if node not in evaluated:
            evaluated[node] = table.classes_at(node).below(k)
        return evaluated[node] <= allowed

    levels = [own[: top + 1] for own, top in zip(losses, tops, strict=True)]
    found, _ = best_passing_nodes(levels, passes, 1, EVALUATED_AT_MOST)
    node = found[0] if found else None
    while node is not None and (finer := [below for below in lower_neighbors(node) if passes(below)]):
        node = min(finer, key=lambda own: (sum_of_losses(losses, own), own))
    loss = {own: sum_of_losses(losses, own) for own in evaluated}
    return FlatResult(node, math.inf if node is None else loss[node], allowed, evaluated, loss)


def search_flat_table_by_classes(
    table: FlatTable, k: int, max_suppressed: float, loss: Callable[[ClassTable], float], tops: Node | None = None
) -> FlatResult:
    """Find the best node for a positive loss of the classes (DM*, average class size) that never decreases on the way up.

    The loss of a node is predicted from what each quasi-identifier alone would lose, as if they were independent. Predictions
    only determine the order of evaluation; they rule out nothing. `tops` is as for `search_flat_table`.
    """
    alone = [
        [math.log(loss(_classes_of(level[column]))) for level in domain.levels]
        for column, domain in zip(np.asarray(table.codes).T, table.domains, strict=True)
    ]
    search = _Search(table, k, max_suppressed, sums_of_losses(alone), lambda node, classes: loss(classes), False, tops)
    return search.result({node: rank[0] for node, (rank, _) in search.looked_at.items()})


def _classes_of(values: np.ndarray) -> ClassTable:
    """Return the classes of records that differ in only one column."""
    counts = np.bincount(values)
    return ClassTable((), counts, counts)


class _Search:
    """One complete search: which nodes are open, and the best of those that passed.

    Parameters
    ----------
    expected
        Array of the lattice's shape: expected loss of each node, in any unit; it determines the order of evaluation.
    loss
        Loss of a node given its classes; it never decreases on the way up.
    known
        Whether nodes lose exactly in the order of `expected`.
    tops
        For each quasi-identifier the highest level that may be chosen: no node above is evaluated. None if every level may.

    Attributes
    ----------
    looked_at
        Each evaluated node, with its rank (loss, height, node: the smallest is the best) and its records below k.
    """

    def __init__(
        self,
        table: FlatTable,
        k: int,
        max_suppressed: float,
        expected: np.ndarray,
        loss: Callable[[Node, ClassTable], float],
        known: bool,
        tops: Node | None = None,
    ):
        self._table, self._k, self._allowed = table, k, allowed_records(table, max_suppressed)
        self._expected, self._loss, self._known = expected, loss, known
        # The node of the best rank; the coarsest that may be chosen before any passed.
        self._center: Node = tuple(table.heights) if tops is None else tops
        self._open = np.zeros(expected.shape, dtype=bool)
        self._open[tuple(slice(level + 1) for level in self._center)] = True
        self._best: _Rank | None = None
        self.looked_at: dict[Node, tuple[_Rank, int]] = {}
        if self._look_at(self._center):
            self._descend()
            while self._improve():
                pass
            for below in lower_neighbors(self._center):
                if below not in self.looked_at:
                    self._look_at(below)

    def result(self, losses: dict[Node, float]) -> FlatResult:
        """Return the result, with the loss of every evaluated node."""
        evaluated = {node: below for node, (_, below) in self.looked_at.items()}
        if self._best is None:
            return FlatResult(None, math.inf, self._allowed, evaluated, losses)
        node = self._best[-1]
        return FlatResult(node, losses[node], self._allowed, evaluated, losses)

    def _look_at(self, node: Node) -> bool:
        """Evaluate a node, close what it rules out, and return whether it is the best so far."""
        classes = self._table.classes_at(node)
        below = classes.below(self._k)
        rank = (self._loss(node, classes), sum(node), node)
        self.looked_at[node] = rank, below
        passes = below <= self._allowed
        better = passes and (self._best is None or rank < self._best)
        if better:
            self._best, self._center = rank, node
            if self._known:
                self._open &= self._expected <= rank[0]
        if not passes:
            self._open[tuple(slice(level + 1) for level in node)] = False
        # Nodes above lose no less and are higher: if this node is not better than the best, neither are they.
        if self._best is not None and rank >= self._best:
            self._open[tuple(slice(level, None) for level in node)] = False
        return better

    def _descend(self) -> None:
        """Descend from the top, each time to the passing neighbor with the least loss."""
        while True:
            lower = [below for below in lower_neighbors(self._center) if self._open[below]]
            better = [self._look_at(below) for below in lower]  # at all of them, whichever is better
            if not any(better):
                return

    def _improve(self) -> bool:
        """Evaluate open nodes by the distance of their expected loss from the best, until one is better or none is open."""
        expected = self._expected.ravel()
        near = np.abs(expected - self._expected[self._center])
        places = np.flatnonzero(self._open)
        for place in places[np.argsort(near[places], kind="stable")]:
            node = tuple(int(level) for level in np.unravel_index(place, self._open.shape))
            if self._open[node] and self._look_at(node):
                return True
        return False


def _ranks(loss: np.ndarray) -> np.ndarray:
    """Rank losses in ascending order; losses that differ by no more than rounding errors share a rank."""
    order = np.argsort(loss, axis=None)
    ordered = loss.ravel()[order]
    ranks = np.empty(loss.size, dtype=np.int64)
    ranks[order] = np.cumsum(np.diff(ordered, prepend=ordered[:1]) > _ROUND_OFF * ordered[-1])
    return ranks.reshape(loss.shape)


def allowed_records(table: FlatTable, max_suppressed: float) -> int:
    """Return the number of records that may be suppressed; .3 of 10 is 3, although .3 is slightly less in binary."""
    return math.floor(max_suppressed * table.records + 1e-9)


def pinned_result(
    found: FlatResult, table: FlatTable, k: int, node: Node, loss: Callable[[Node, ClassTable], float]
) -> FlatResult:
    """Return a result in which a given node is the only one that may be chosen; None is chosen if it fails.

    Parameters
    ----------
    found
        Of the search, whose evaluated nodes are kept.
    node
        It is evaluated with its direct lower neighbors.
    loss
        Loss of a node given its classes.
    """
    classes = {own: table.classes_at(own) for own in (node, *lower_neighbors(node)) if own not in found.evaluated}
    evaluated = found.evaluated | {own: one.below(k) for own, one in classes.items()}
    losses = found.losses | {own: loss(own, one) for own, one in classes.items()}
    passes = evaluated[node] <= found.allowed
    return FlatResult(node if passes else None, losses[node] if passes else math.inf, found.allowed, evaluated, losses)


def evaluated_nodes_frame(found: FlatResult, names: list[str], records: int) -> pd.DataFrame:
    """Return every evaluated node as a row.

    Parameters
    ----------
    names
        Names of the quasi-identifiers.
    records
        Number of records.
    """
    rows = [
        {
            "node": node_text(node),
            **{f"level_of_{name}": level for name, level in zip(names, node, strict=True)},
            "height": sum(node),
            "loss": float(found.losses[node]),
            "share": below / records,
            "decision": "candidate" if below <= found.allowed else "not_candidate",
            "chosen": node == found.node,
        }
        for node, below in found.evaluated.items()
    ]
    return pd.DataFrame(rows).astype({"node": "str", "decision": "str"})
