"""Gates that the search does not look at, asked before a node is chosen: demographics, attack 1 given membership.

The search finds nodes with few members at high risk. In a small release, or where class sizes are estimated (k may be
2), such a node can still fail the other two gates, and the run would be refused although a coarser node passes them
all. They are asked here on draws of their own; the gate asks again on others, so that nothing is judged by what chose
it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deid_assets.methods.confidence import empirical_bernstein_upper_bound
from deid_assets.methods.longitudinal_data import Dimension, LongitudinalData, generalization_at
from deid_assets.methods.node_computation import NodeComputation

Node = tuple[int, ...]

DEMOGRAPHICS = "demographic classes"
ATTACK = "attack given membership"
TOO_LITTLE = "too little detail"
"""Of nodes that were not tried, because the policy asks for more detail than they keep."""


@dataclass(frozen=True, eq=False)
class OtherGates:
    """What a node must hold besides the share at high risk.

    Attributes
    ----------
    data, dimensions
        What the search works on.
    delivered
        (N, d) int: base codes of the level-1 quasi-identifiers of all delivered members.
    sampled
        (n,) int: rows of the sampled members in `delivered`, in the order of the targets.
    class_size_at_least, max_share
        Share of released members that may be in a demographic class of fewer delivered members.
    success_at_most
        Of a neighbour who knows that his target is in the release: the bound of that gate, or that of the unconditional
        one over alpha, whichever is less; None for no gate.
    trials, confidence
        Simulated neighbours, and confidence of the bound; None to compare the estimate.
    aim
        Part of `success_at_most` that the estimate must reach, so that the gate does not refuse a chosen node by chance.
    stream_key
        16 bytes of a stream that judges nothing else.
    """

    data: LongitudinalData
    dimensions: tuple[Dimension, ...]
    delivered: np.ndarray
    sampled: np.ndarray
    class_size_at_least: int
    max_share: float
    success_at_most: float | None
    trials: int
    confidence: float | None
    aim: float
    stream_key: bytes

    def failing(self, node: Node, suppressed: np.ndarray) -> str | None:
        """The gate that the node fails without the suppressed members, (n,) bool; None if both hold."""
        if self.small_class_share(node, suppressed) > self.max_share:
            return DEMOGRAPHICS
        if self.success_at_most is None:
            return None
        successes = self._successes(node, suppressed)
        holds = float(successes.mean()) <= self.aim * self.success_at_most
        if self.confidence is not None:
            holds &= empirical_bernstein_upper_bound(successes, 1.0, self.confidence) <= self.success_at_most
        return None if holds else ATTACK

    def failing_however_suppressed(self, node: Node, share: float) -> str | None:
        """The gate that no suppression of a share of the members mends: they add their share to a mean at most."""
        nobody = np.zeros(len(self.sampled), dtype=bool)
        if self.small_classes_however_suppressed(node, share):
            return DEMOGRAPHICS
        if self.success_at_most is None:
            return None
        return ATTACK if float(self._successes(node, nobody).mean()) > self.success_at_most + share else None

    def small_classes_however_suppressed(self, node: Node, share: float) -> bool:
        """Whether too many members are in small demographic classes; if so at a node, then at every finer one."""
        nobody = np.zeros(len(self.sampled), dtype=bool)
        return self.small_class_share(node, nobody) > self.max_share + share

    def small_class_share(self, node: Node, suppressed: np.ndarray) -> float:
        """Share of the members left whose demographic class holds too few delivered members."""
        levels = generalization_at(self.data, self.dimensions, node).demographics
        columns = [
            domain.levels[level][self.delivered[:, number]]
            for number, (domain, level) in enumerate(zip(self.data.demographic_domains, levels, strict=True))
        ]
        _, class_of, sizes = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True, return_counts=True)
        left = sizes[class_of.reshape(-1)[self.sampled[~suppressed]]]
        return float((left < self.class_size_at_least).mean()) if len(left) else 1.0

    @cached_property
    def _whole(self) -> NodeComputation:
        return self._release(np.zeros(len(self.sampled), dtype=bool))

    def _release(self, suppressed: np.ndarray) -> NodeComputation:
        """The members left as a population of their own."""
        kept = np.flatnonzero(~suppressed)
        rows = self.data.targets[kept]
        data = LongitudinalData(
            self.data.demographics[rows],
            self.data.demographic_domains,
            tuple(histories.take(rows) for histories in self.data.held),
            self.data.history_domains,
            np.arange(len(kept)),
            tuple(histories.take(kept) for histories in self.data.known),
            tuple(power[kept] for power in self.data.power),
        )
        return NodeComputation(data, self.dimensions, k=1)

    def _successes(self, node: Node, suppressed: np.ndarray) -> np.ndarray:
        """(trials,) float: how probable it is that each simulated neighbour picks his target."""
        computation = self._release(suppressed) if suppressed.any() else self._whole
        classes = computation.drawn_classes(node, self.stream_key, self.trials)
        return np.where(classes.exempt, 0.0, 1 / np.maximum(classes.sizes, 1))
