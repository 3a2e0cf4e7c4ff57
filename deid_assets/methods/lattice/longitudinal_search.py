"""Search the lattice of a longitudinal release for the node with the least loss among those at acceptable risk.

The search is OLA (`predictive_tagging`). It tests nodes by the node computation (`node_computation`) with the sequential rule
(`sequential_decision`) and orders them by information loss. All nodes are tested on the same draws with the same exemptions, so
the share never increases on the way up and tagging is sound (methods#lattice-search).

Every node gets a share with an interval, a decision, and how the decision was reached. A node still undecided after the last
draw is not a candidate.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Literal

import numpy as np

from deid_assets.methods.kernel.knowledge import DRAWS_PER_BLOCK
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.predictive_tagging import (
    Node,
    all_nodes,
    below_or_equal,
    lower_neighbors,
    minimal_passing_nodes,
)
from deid_assets.methods.statistics.confidence import wilson_interval
from deid_assets.methods.statistics.sequential_decision import Decision, SequentialRule

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class NodeResult:
    """Results for a node.

    Attributes
    ----------
    flagged, draws, share, lower, upper
        The measured draws and Wilson's 95 % interval for the share. If the rule chose when to stop, the interval is only
        descriptive; the decision is based on the rule.
    decision
        'candidate', 'not_candidate', or 'undecided', which is not a candidate either.
    reached
        'measured', or 'inferred' from another node.
    source
        The node from which the decision was inferred: a candidate below, or a non-candidate above. None if measured.
    """

    node: Node
    height: int
    loss: float
    flagged: int
    draws: int
    share: float
    lower: float
    upper: float
    decision: Decision
    reached: Literal["measured", "inferred"]
    source: Node | None = None


@dataclass(frozen=True)
class LatticeSearch:
    """The lattice with the result of every node, the chosen node and its certificate.

    Attributes
    ----------
    dimensions
        Names of the axes.
    nodes
        Every node, in lexicographic order.
    chosen
        The candidate with the least loss (ties: lowest height, then lexicographic); None if there is no candidate.
    lower_neighbors
        The nodes directly below the chosen one, each measured itself: none is a candidate.
    minimal
        The candidates with no candidate below.
    k, threshold, error, draws_at_most
        Required class size, threshold of the share, error probability of the whole lattice, and maximum number of draws.
    """

    dimensions: tuple[str, ...]
    nodes: tuple[NodeResult, ...]
    chosen: NodeResult | None
    lower_neighbors: tuple[NodeResult, ...]
    minimal: tuple[Node, ...]
    k: int
    threshold: float
    error: float
    draws_at_most: int

    def candidates(self) -> list[NodeResult]:
        """Return the candidates, best first; the next is used if the chosen node fails a stricter measurement."""
        return sorted((result for result in self.nodes if result.decision == "candidate"), key=_preference)

    def at(self, node: Sequence[int]) -> NodeResult:
        """Return the result of one node."""
        return next(result for result in self.nodes if result.node == tuple(node))


@dataclass(frozen=True)
class _Measured:
    flagged: int
    draws: int
    decision: Decision


class _Search:
    """The state of one search: the measurements so far."""

    def __init__(
        self,
        computation: NodeComputation,
        stream_key: bytes,
        rule: SequentialRule,
        blocks: int,
        nodes: list[Node],
        progress: Progress,
        executor: Executor | None,
        full_effort: bool,
    ):
        self.computation, self.stream_key, self.rule, self.blocks = computation, stream_key, rule, blocks
        self.nodes, self.progress, self.executor, self.full_effort = nodes, progress, executor, full_effort
        self.measured: dict[Node, _Measured] = {}
        self._levels = np.array(nodes, dtype=np.int64).reshape(len(nodes), -1)
        self._open = np.ones(len(nodes), dtype=bool)

    def is_candidate(self, node: Node) -> bool:
        """Draw until the rule decides or the maximum is reached; the result is cached.

        These are steps 4 and 5 of the node computation (methods#node-risk).
        """
        if node not in self.measured:
            flagged = draws = 0
            decision: Decision = "undecided"
            counts = self.computation.running_counts(node, self.stream_key, self.blocks, self.executor)
            for flagged, _, draws in counts:
                decision = self.rule.decide(flagged, draws)
                if decision != "undecided" and not self.full_effort:
                    break
            self.measured[node] = _Measured(flagged, draws, decision)
            above, below = self._levels >= node, self._levels <= node
            self._open &= ~np.all(above if decision == "candidate" else below, axis=1)
            decided = len(self.nodes) - int(np.count_nonzero(self._open))
            share = f"{flagged / draws:.5f} of {draws:,} draws at high risk"
            self.progress(decided, len(self.nodes), f"node {node}: {share}, {decision}")
        return self.measured[node].decision == "candidate"

    def open_nodes(self) -> list[Node]:
        """Return the nodes that were neither measured nor inferred from one that was."""
        return [self.nodes[place] for place in np.flatnonzero(self._open)]

    def inferred(self, node: Node) -> tuple[Decision, Node | None]:
        """Return the decision that measured nodes imply for another: candidates below it, or others above it."""
        for decision in ("candidate", "not_candidate", "undecided"):
            for source, found in self.measured.items():
                below, above = (source, node) if decision == "candidate" else (node, source)
                if found.decision == decision and below_or_equal(below, above):
                    return decision, source
        return "undecided", None


def search_lattice(
    computation: NodeComputation,
    loss: Callable[[Node], float],
    stream_key: bytes,
    threshold: float,
    error: float = 0.001,
    draws_at_most: int = 2_000_000,
    draws_for_inferred: int = 2 * DRAWS_PER_BLOCK,
    exhaustive: bool = False,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> LatticeSearch:
    """Find the candidate with the least loss, and a result for every node.

    Parameters
    ----------
    computation
        The node computation, with its lattice.
    loss
        Loss of a node, never decreasing on the way up (`information_loss.LatticeLoss`).
    stream_key
        16 bytes, the key of the search's own stream. Draws that choose a node must not judge it.
    threshold
        m, the share with which nodes are compared: MaxSup, or slightly less, so that the gate's bound does not refuse what
        the search accepts.
    error
        Largest probability of any wrong decision in the whole lattice; each node gets an equal part of it.
    draws_at_most
        Maximum number of draws for one node, rounded up to whole blocks.
    draws_for_inferred
        Number of draws for nodes whose decision is inferred, so that each has a share and an interval.
    exhaustive
        Whether to decide every node by all `draws_at_most` of its own draws, without tagging.
    progress
        Called with (nodes decided, nodes, text).
    executor
        Where draws are measured. Neither it nor its number of workers changes the result.

    Returns
    -------
    LatticeSearch
    """
    heights = [dimension.levels - 1 for dimension in computation.dimensions]
    nodes = all_nodes(heights)
    rule = SequentialRule(threshold, error / len(nodes))
    blocks = max(1, -(-draws_at_most // DRAWS_PER_BLOCK))
    search = _Search(computation, stream_key, rule, blocks, nodes, progress or _silent, executor, exhaustive)
    losses = {node: loss(node) for node in nodes}

    if exhaustive:
        for node in nodes:
            search.is_candidate(node)
    else:
        minimal_passing_nodes(heights, search.is_candidate)
        # Tagging leaves no node open if shares are monotone; measure what a rare wrong decision left open.
        for node in search.open_nodes():
            search.is_candidate(node)
    chosen = _choose_with_certificate(search, losses)

    results = _results(search, losses, draws_for_inferred)
    minimal = tuple(
        result.node
        for result in results.values()
        if result.decision == "candidate"
        and not any(results[below].decision == "candidate" for below in lower_neighbors(result.node))
    )
    return LatticeSearch(
        dimensions=tuple(dimension.name for dimension in computation.dimensions),
        nodes=tuple(results.values()),
        chosen=None if chosen is None else results[chosen],
        lower_neighbors=() if chosen is None else tuple(results[below] for below in lower_neighbors(chosen)),
        minimal=minimal,
        k=computation.k,
        threshold=threshold,
        error=error,
        draws_at_most=blocks * DRAWS_PER_BLOCK,
    )


def _choose_with_certificate(search: _Search, losses: dict[Node, float]) -> Node | None:
    """Return the candidate with the least loss, after each node directly below it was measured and failed."""
    while True:
        candidates = [node for node in search.nodes if _decision_of(search, node) == "candidate"]
        if not candidates:
            return None
        chosen = min(candidates, key=lambda node: (losses[node], sum(node), node))
        # A neighbor tagged as failing that now passes (a wrong decision, rare by the rule) is a better choice.
        passing = [search.is_candidate(node) for node in (chosen, *lower_neighbors(chosen))]
        if passing[0] and not any(passing[1:]):
            return chosen


def _decision_of(search: _Search, node: Node) -> Decision:
    found = search.measured.get(node)
    return found.decision if found else search.inferred(node)[0]


def _results(search: _Search, losses: dict[Node, float], draws_for_inferred: int) -> dict[Node, NodeResult]:
    results = {}
    for node in search.nodes:
        found = search.measured.get(node)
        if found:
            flagged, draws, decision, source = found.flagged, found.draws, found.decision, None
        else:
            decision, source = search.inferred(node)
            measurement = search.computation.measure(node, search.stream_key, draws_for_inferred, executor=search.executor)
            flagged, draws = measurement.flagged, measurement.draws
        lower, upper = wilson_interval(flagged, draws)
        results[node] = NodeResult(
            node=node,
            height=sum(node),
            loss=losses[node],
            flagged=flagged,
            draws=draws,
            share=flagged / draws,
            lower=lower,
            upper=upper,
            decision=decision,
            reached="measured" if found else "inferred",
            source=source,
        )
        search.progress(len(search.nodes), len(search.nodes), f"node {node}: {decision}")
    return results


def _preference(result: NodeResult) -> tuple[float, int, Node]:
    return result.loss, result.height, result.node


def _silent(done: int, total: int, text: str) -> None:
    pass
