"""Search a lattice that is too large to list for the node with the least loss among those at acceptable risk.

The nodes are measured as in `longitudinal_search`, on the same draws with the same exemptions, but in the order of their loss
(`best_first`). How many will be measured is not known before, so the j-th may err with probability error / (j (j + 1)); over
all nodes that adds up to the error at most.

If the first candidate is reached within the measurements allowed, it is the best one. If not, the best node found is chosen,
and the certificate states how much less the nodes that were never measured could lose.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice import longitudinal_search
from deid_assets.methods.lattice.information_loss import LatticeLoss
from deid_assets.methods.lattice.predictive_tagging import Node, best_passing_nodes, lowest_of, node_of_axis
from deid_assets.methods.statistics.confidence import wilson_interval
from deid_assets.methods.statistics.sequential_decision import rule_of_number

CANDIDATES = 500
"""Number of candidates of least loss to find, if a policy does not say how many are enough."""

MEASURED_AT_MOST = 1_000
"""Number of nodes that are measured in the order of their loss before the search ends without the best candidate."""


class _Search(longitudinal_search.Measurements):
    """The measurements of one search, and what they imply for any node."""

    _levels: tuple[np.ndarray, np.ndarray] | None = None

    def implied(self, node: Node) -> tuple[longitudinal_search.NodeDecision, Node | None]:
        """The decision of a node, and the first measured node that implies it."""
        if node in self.measured:
            return self.measured[node].decision, None
        levels, decisions = self._measured_levels()
        for decision in longitudinal_search.STRONGEST_FIRST:
            related = (levels <= np.array(node)) if decision == "candidate" else (levels >= np.array(node))
            sources = np.flatnonzero(related.all(axis=1) & (decisions == decision))
            if len(sources):
                return decision, tuple(levels[sources[0]].tolist())
        return "open", None

    def _measured_levels(self) -> tuple[np.ndarray, np.ndarray]:
        """The levels of each measured node, and its decision, in the order of measurement."""
        if self._levels is None or len(self._levels[1]) != len(self.measured):
            found = self.measured.values()
            self._levels = np.array([one.node for one in found]), np.array([one.decision for one in found])
        return self._levels

    def results(self, nodes: Sequence[Node], loss: LatticeLoss) -> dict[Node, longitudinal_search.NodeResult]:
        """The results of some nodes, in lexicographic order."""
        drawn = [*self.measured, *self.looked_at]
        levels = np.array(drawn)
        ends = np.array([wilson_interval(*self.counts(node)) for node in drawn])
        numbers = {node: number for number, node in enumerate(self.measured, 1)}
        results = {}
        for node in sorted(set(nodes)):
            decision, source = self.implied(node)
            above, below = (levels >= np.array(node)).all(axis=1), (levels <= np.array(node)).all(axis=1)
            bounds = float(ends[above, 0].max(initial=0.0)), float(ends[below, 1].min(initial=1.0))
            results[node] = replace(self.result(node, loss(node), decision, bounds, source), number=numbers.get(node))
        return results


def search_large_lattice(
    computation: NodeComputation,
    loss: LatticeLoss,
    rule: longitudinal_search.SearchRule,
    tops: Sequence[int],
    asked: Sequence[Node] = (),
) -> longitudinal_search.LatticeSearch:
    """Find candidates of least loss, and what is known of every node that was looked at.

    Parameters
    ----------
    computation
        As in `search_lattice`.
    loss
        The loss of any node.
    rule
        Its error is divided as the module says. If it does not say how many candidates are enough, `CANDIDATES` are.
    tops
        For each dimension the highest level to search; those above keep too little information.
    asked
        Nodes to measure besides.

    Returns
    -------
    LatticeSearch
        Its nodes are those found and measured, those asked for, the coarsest, and for each dimension every level with the
        others at their finest.
    """
    shape = [dimension.levels for dimension in computation.dimensions]
    losses = [own[: top + 1] for own, top in zip(loss.of_levels, tops, strict=True)]
    search = _Search(computation, rule, partial(rule_of_number, rule.threshold, rule.error), MEASURED_AT_MOST)
    enough = rule.enough or CANDIDATES

    found, _ = best_passing_nodes(losses, search.is_candidate, enough, MEASURED_AT_MOST)
    for node in asked:
        search.is_candidate(node)

    def best() -> Node | None:
        known = [node for node in {*found, *search.measured} if search.implied(node)[0] == "candidate"]
        return min(known, key=lambda node: (loss(node), sum(node), node), default=None)

    chosen = search.with_certificate(best)
    told = [*found, *search.measured]
    if chosen is None and rule.in_reach is not None:
        told += best_passing_nodes(losses, search.is_in_reach, enough, MEASURED_AT_MOST)[0]
        told += search.looked_at
    if rule.suppression is not None:
        needs_no_more = partial(search.needs_no_more, allowed=rule.suppression)
        told += best_passing_nodes(losses, needs_no_more, rule.suppression.enough or enough, MEASURED_AT_MOST)[0]
        told += search.to_suppress
    told.append(tuple(levels - 1 for levels in shape))
    told += (node_of_axis(len(shape), axis, level) for axis, levels in enumerate(shape) for level in range(levels))
    results = search.results(told, loss)
    passing = [result.node for result in results.values() if result.decision == "candidate"]
    return search.ended(results, chosen, lowest_of(passing), listed=False)
