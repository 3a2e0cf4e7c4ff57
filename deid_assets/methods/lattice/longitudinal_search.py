"""Search the lattice of a longitudinal release for the node with the least loss among those at acceptable risk.

The search is predictive tagging (`predictive_tagging`), in the order of information loss. It tests nodes by the node
computation (`node_computation`) with the sequential rule (`sequential_decision`). All nodes are tested on the same draws with
the same exemptions, so the share never increases on the way up and tagging is sound (methods#lattice-search).

Few nodes are measured. The share of the others lies between the bounds of measured nodes above and below them. A node still
undecided after the last draw is not a candidate. `nodes_frame` lists every node as a row of a table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd

from deid_assets.methods.kernel.knowledge import DRAWS_PER_BLOCK
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.choice import DRAWS_A_MEMBER, Progress, fewest_to_suppress
from deid_assets.methods.lattice.predictive_tagging import (
    Node,
    all_nodes,
    everything_above,
    everything_below,
    lower_neighbors,
    lowest_nodes,
    node_text,
    tagged_lattice,
)
from deid_assets.methods.population.longitudinal_data import top_node
from deid_assets.methods.statistics.confidence import wilson_interval
from deid_assets.methods.statistics.sequential_decision import Decision, SequentialRule

NodeDecision = Literal["candidate", "not_candidate", "undecided", "open"]


@dataclass(frozen=True)
class NodeResult:
    """Results for a node.

    Attributes
    ----------
    flagged, draws, share
        The measured draws; None if there were none.
    lower, upper
        Bounds on the share. If there were draws, Wilson's 95 % interval; the rule chose when to stop, so it is only
        descriptive, and the decision is based on the rule. Otherwise the largest lower bound of a measured node above and the
        smallest upper bound of one below, because the share never increases on the way up.
    decision
        'candidate', 'not_candidate', 'undecided', which is not a candidate either, or 'open': not known, because the node
        loses more than as many candidates as the search was to find.
    reached
        'measured', 'inferred' from another node, or 'not_reached' if the decision is open.
    source
        The node from which the decision was inferred: a candidate below, or a non-candidate above. None if there is none.
    to_suppress
        The smallest share of members without whom the node would be safe on the draws that choose them (`fewest_to_suppress`);
        None if that was not measured.
    number
        Of a measured node of a lattice that is not listed: how many nodes were measured up to this one. The error of its
        decision depends on it.
    """

    node: Node
    height: int
    loss: float
    flagged: int | None
    draws: int | None
    share: float | None
    lower: float
    upper: float
    decision: NodeDecision
    reached: Literal["measured", "inferred", "not_reached"]
    source: Node | None = None
    to_suppress: float | None = None
    number: int | None = None


@dataclass(frozen=True)
class SuppressionGoal:
    """Members who may be suppressed so that the others keep more detail.

    Attributes
    ----------
    goal
        The share at high risk that the others must not exceed on the draws that choose the members.
    at_most
        Largest share of the released members who may be suppressed.
    enough
        Number of nodes of least loss to find that need no more; None: it is decided for every node.
    """

    goal: float
    at_most: float
    enough: int | None = None


@dataclass(frozen=True)
class LatticeSearch:
    """The lattice with the result of every node, the chosen node and its certificate.

    Attributes
    ----------
    dimensions
        Names of the axes.
    nodes
        Every node, in lexicographic order; of a lattice that is not listed, those that were looked at.
    chosen
        The useful candidate with the least loss (ties: lowest height, then lexicographic); None if there is none.
    lower_neighbors
        The nodes directly below the chosen one, each measured itself: none is a candidate.
    minimal
        The candidates with no candidate directly below.
    k, threshold, error, draws_at_most
        Required class size, threshold of the share, error probability of the whole lattice, and maximum number of draws.
    listed
        Whether every node is listed.
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
    listed: bool = True

    def candidates(self) -> list[NodeResult]:
        """Return the candidates, best first; the next is used if the chosen node fails a stricter measurement."""
        return sorted(
            (result for result in self.nodes if result.decision == "candidate"),
            key=lambda result: (result.loss, result.height, result.node),
        )

    def at(self, node: Sequence[int]) -> NodeResult:
        """Return the result of one node."""
        return next(result for result in self.nodes if result.node == tuple(node))


@dataclass(frozen=True)
class Measured:
    """A node that was drawn for until the rule decided, or to the last draw."""

    node: Node
    flagged: int
    draws: int
    decision: Decision


STRONGEST_FIRST: tuple[Decision, ...] = ("candidate", "not_candidate", "undecided")
"""The decisions in the order in which they count, where measured nodes imply several of them for another node."""


@dataclass(frozen=True)
class SearchRule:
    """What a search accepts, what it looks for, and how far it goes.

    Attributes
    ----------
    stream_key
        16 bytes, the key of the search's own stream. Draws that choose a node must not judge it.
    threshold
        m, the share with which nodes are compared: MaxSup, or slightly less, so that the gate's bound does not refuse what
        the search accepts.
    error
        Largest probability of any wrong decision in the whole lattice.
    draws_at_most
        Maximum number of draws for one node, rounded up to whole blocks.
    enough
        Number of candidates of least loss to find; nodes that lose more than these may stay open.
    in_reach
        Largest share that suppression could bring down to what is accepted. If there is no candidate, nodes are measured by
        one block of draws until it is known for all which share is certainly larger. None: nobody may be suppressed.
    suppression
        Who may be suppressed although there may be a candidate. The nodes that lose least are then found that need no more.
    progress
        Called with (nodes decided, nodes, text).
    """

    stream_key: bytes = field(repr=False)
    threshold: float
    error: float = 0.001
    draws_at_most: int = 2_000_000
    enough: int | None = None
    in_reach: float | None = None
    suppression: SuppressionGoal | None = None
    progress: Progress | None = None

    @property
    def blocks(self) -> int:
        """Most blocks of draws for one node."""
        return max(1, -(-self.draws_at_most // DRAWS_PER_BLOCK))


class Measurements:
    """The measurements of one search.

    Parameters
    ----------
    computation, rule
        As in `search_lattice`.
    of_number
        Returns the rule for a node by how many nodes were measured up to it.
    nodes
        Number of nodes that are decided at the end, for the progress.
    full_effort
        Whether each node is measured with all draws.
    """

    def __init__(
        self,
        computation: NodeComputation,
        rule: SearchRule,
        of_number: Callable[[int], SequentialRule],
        nodes: int,
        full_effort: bool = False,
    ):
        self.computation, self.rule = computation.for_search(), rule
        self._of_number, self._nodes, self._full_effort = of_number, nodes, full_effort
        self.measured: dict[Node, Measured] = {}
        self.looked_at: dict[Node, tuple[int, int]] = {}
        self.to_suppress: dict[Node, float] = {}

    def is_candidate(self, node: Node) -> bool:
        """Draw until the rule decides or the maximum is reached; the result is cached.

        These are steps 4 and 5 of the node computation (methods#node-risk).
        """
        if node not in self.measured:
            flagged = draws = 0
            decision: Decision = "undecided"
            sequential = self._of_number(len(self.measured) + 1)
            counts = self.computation.running_counts(node, self.rule.stream_key, self.rule.blocks)
            for flagged, _, draws in counts:
                decision = sequential.decide(flagged, draws)
                if decision != "undecided" and not self._full_effort:
                    break
            self.measured[node] = Measured(node, flagged, draws, decision)
            self._learn(self.measured[node])
            self._tell(f"node {node}: {flagged / draws:.5f} of {draws:,} draws at high risk, {decision}")
        return self.measured[node].decision == "candidate"

    def _learn(self, found: Measured) -> None:
        """Hear of a decision, for what it implies of other nodes."""

    def _decided(self) -> int:
        """Number of nodes that are decided."""
        return len(self.measured)

    def _tell(self, text: str) -> None:
        if self.rule.progress is not None:
            decided = self._decided()
            self.rule.progress(decided, max(decided, self._nodes), text)

    def is_in_reach(self, node: Node) -> bool:
        """Whether suppression may be enough for a node, by the draws that decided it or else by one block."""
        found = self.measured.get(node)
        if found is None and node not in self.looked_at:
            looked = self.computation.measure(node, self.rule.stream_key, DRAWS_PER_BLOCK)
            self.looked_at[node] = looked.flagged, looked.draws
        most = self.rule.in_reach
        return most is not None and wilson_interval(*self.counts(node))[0] <= most

    def needs_no_more(self, node: Node, allowed: SuppressionGoal) -> bool:
        """Whether a node would be safe without so many members, on the draws that choose them."""
        members = len(self.computation.data.targets)
        flags = self.computation.flagged_targets(node, self.rule.stream_key, DRAWS_A_MEMBER * members)
        share = fewest_to_suppress(flags.drawn, flags.flagged, allowed.goal) / members
        self.to_suppress[node] = share
        self._tell(f"node {node}: safe without {share:.2%} of the members")
        return share <= allowed.at_most

    def counts(self, node: Node) -> tuple[int, int] | tuple[None, None]:
        """The draws at high risk and all draws at a node; None if there were none."""
        found = self.measured.get(node)
        return (found.flagged, found.draws) if found else self.looked_at.get(node, (None, None))

    def with_certificate(self, best: Callable[[], Node | None]) -> Node | None:
        """Return the best candidate, after each node directly below it was measured and failed."""
        while (chosen := best()) is not None:
            # A neighbor tagged as failing that now passes (a wrong decision, rare by the rule) is a better choice.
            confirmed = [self.is_candidate(node) for node in (chosen, *lower_neighbors(chosen))]
            if confirmed[0] and not any(confirmed[1:]):
                break
        return chosen

    def ended(
        self, results: Mapping[Node, NodeResult], chosen: Node | None, minimal: Sequence[Node], listed: bool = True
    ) -> LatticeSearch:
        """The search, with what is known at its end."""
        return LatticeSearch(
            dimensions=tuple(dimension.name for dimension in self.computation.dimensions),
            nodes=tuple(results.values()),
            chosen=None if chosen is None else results[chosen],
            lower_neighbors=() if chosen is None else tuple(results[below] for below in lower_neighbors(chosen)),
            minimal=tuple(minimal),
            k=self.computation.k,
            threshold=self.rule.threshold,
            error=self.rule.error,
            draws_at_most=self.rule.blocks * DRAWS_PER_BLOCK,
            listed=listed,
        )

    def result(
        self, node: Node, loss: float, decision: NodeDecision, bounds: tuple[float, float], source: Node | None
    ) -> NodeResult:
        """The result of a node; its bounds and the source of its decision count where it was not measured itself."""
        found, (flagged, draws) = node in self.measured, self.counts(node)
        if flagged is not None and draws is not None:
            bounds = wilson_interval(flagged, draws)
        return NodeResult(
            node=node,
            height=sum(node),
            loss=loss,
            flagged=flagged,
            draws=draws,
            share=None if flagged is None or draws is None else flagged / draws,
            lower=bounds[0],
            # Bounds from different draws may cross by chance.
            upper=max(bounds),
            decision=decision,
            reached="measured" if found else "not_reached" if decision == "open" else "inferred",
            source=None if found else source,
            to_suppress=self.to_suppress.get(node),
        )


_NONE = -1


class _Search(Measurements):
    """The state of one search: the measurements so far, and what they imply for every node."""

    def __init__(
        self, computation: NodeComputation, rule: SearchRule, losses: np.ndarray, exhaustive: bool, useful: np.ndarray
    ):
        sequential = SequentialRule(rule.threshold, rule.error / losses.size)
        super().__init__(computation, rule, lambda _: sequential, losses.size, exhaustive)
        self._losses, self._useful, shape = losses, useful, losses.shape
        # For each kind of decision, the number of the first measured node that implies it.
        self._sources = {decision: np.full(shape, _NONE, dtype=np.int32) for decision in STRONGEST_FIRST}
        self._open = np.ones(shape, dtype=bool)

    def _learn(self, found: Measured) -> None:
        """Nodes above a candidate, and below another, are decided with it."""
        implied = everything_above(found.node) if found.decision == "candidate" else everything_below(found.node)
        sources = self._sources[found.decision][implied]
        sources[sources == _NONE] = len(self.measured) - 1
        self._open[implied] = False

    def _decided(self) -> int:
        return self._open.size - int(np.count_nonzero(self._open))

    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The largest lower bound of a node with draws above each node, and the smallest upper bound of one below."""
        lower, upper = np.zeros(self._open.shape), np.ones(self._open.shape)
        for node in (*self.measured, *self.looked_at):
            low, high = wilson_interval(*self.counts(node))
            np.maximum(lower[everything_below(node)], low, out=lower[everything_below(node)])
            np.minimum(upper[everything_above(node)], high, out=upper[everything_above(node)])
        return lower, upper

    def decisions(self) -> np.ndarray:
        """Return the decision of every node, an array of the lattice's shape, str."""
        conditions = [self._sources[decision] != _NONE for decision in STRONGEST_FIRST]
        implied = np.select(conditions, STRONGEST_FIRST, "open")
        for node, found in self.measured.items():
            implied[node] = found.decision
        return implied

    def best(self) -> Node | None:
        """The useful candidate with the least loss."""
        passing = (self.decisions() == "candidate") & self._useful
        candidates = np.argwhere(passing)
        if not len(candidates):
            return None
        order = np.lexsort((candidates.sum(axis=1), self._losses[passing]))
        return tuple(int(level) for level in candidates[order[0]])

    def results(self) -> dict[Node, NodeResult]:
        """Return the result of every node, in lexicographic order."""
        nodes, measured = all_nodes([size - 1 for size in self._losses.shape]), list(self.measured)
        columns = (self._losses, self.decisions(), *self._bounds())
        sources = np.select([self._sources[d] != _NONE for d in STRONGEST_FIRST], [*self._sources.values()], _NONE)
        results = {}
        for node, loss, decision, lower, upper, source in zip(
            nodes, *(column.ravel().tolist() for column in (*columns, sources)), strict=True
        ):
            results[node] = self.result(node, loss, decision, (lower, upper), None if source == _NONE else measured[source])
        return results


def search_lattice(
    computation: NodeComputation,
    losses: np.ndarray,
    rule: SearchRule,
    exhaustive: bool = False,
    tops: Sequence[int] | None = None,
) -> LatticeSearch:
    """Find the candidate with the least loss, and what is known of every node.

    Parameters
    ----------
    computation
        The node computation, with its lattice. Neither its executor nor the number of workers changes the result.
    losses
        Loss of every node, an array of the lattice's shape, never decreasing on the way up
        (`information_loss.LatticeLoss.of_every_node`).
    rule
        Each node gets an equal part of its error. If it does not say how many candidates are enough, every node is decided.
    exhaustive
        Whether to decide every node by all `draws_at_most` of its own draws, without tagging.
    tops
        For each dimension the highest useful level; those above keep too little information. If the best useful candidate is
        not among those found, the search goes on among the useful nodes. None: all levels are useful.

    Returns
    -------
    LatticeSearch

    Raises
    ------
    ValueError
        If `losses` does not have the lattice's shape.
    """
    shape = tuple(dimension.levels for dimension in computation.dimensions)
    if losses.shape != shape:
        raise ValueError(f"the lattice has the shape {shape}, but its losses have {losses.shape}")
    within = everything_below(top_node(computation.dimensions) if tops is None else tuple(tops))
    useful = np.zeros(shape, dtype=bool)
    useful[within] = True
    search = _Search(computation, rule, losses, exhaustive, useful)

    def decide(passes: Callable[[Node], bool], enough: int | None = None) -> None:
        if exhaustive:
            for node in all_nodes([levels - 1 for levels in shape]):
                passes(node)
        else:
            tagged_lattice(losses, passes, enough, useful)

    decide(search.is_candidate, rule.enough)
    chosen = search.with_certificate(search.best)
    if chosen is None and rule.in_reach is not None and not exhaustive:
        tagged_lattice(losses[within], search.is_in_reach)
    if rule.suppression is not None:
        # The number of members never increases on the way up (`fewest_to_suppress`), so that tags are sound here, too.
        decide(partial(search.needs_no_more, allowed=rule.suppression), rule.suppression.enough)
    return search.ended(search.results(), chosen, lowest_nodes(search.decisions() == "candidate"))


def nodes_frame(search: LatticeSearch) -> pd.DataFrame:
    """Every node as a row; `certificate` marks the direct lower neighbors of the optimum.

    Of a lattice that is not listed, the nodes that were looked at, with the place that each had among those measured.
    """
    below, minimal = {result.node for result in search.lower_neighbors}, set(search.minimal)
    rows = [
        {
            "node": node_text(result.node),
            **dict(zip(search.dimensions, result.node, strict=True)),
            "height": result.height,
            "loss": result.loss,
            "flagged": result.flagged,
            "draws": result.draws,
            "share": result.share,
            "lower": result.lower,
            "upper": result.upper,
            "decision": result.decision,
            "reached": result.reached,
            "inferred_from": node_text(result.source) if result.source else None,
            "minimal": result.node in minimal,
            "chosen": search.chosen is not None and result.node == search.chosen.node,
            "certificate": result.node in below,
            "to_suppress": result.to_suppress,
            **({} if search.listed else {"measured_in_order": result.number}),
        }
        for result in search.nodes
    ]
    texts = dict.fromkeys(("inferred_from", "node", "decision", "reached"), "str")
    numbers = dict.fromkeys(("flagged", "draws", *([] if search.listed else ["measured_in_order"])), "Int64")
    return pd.DataFrame(rows).astype(texts | numbers | {"share": "float64", "to_suppress": "float64"})
