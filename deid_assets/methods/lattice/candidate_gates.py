"""Gates that the search does not check, checked before a node is chosen: demographics, absence, attack 1 given membership.

The search finds nodes with few members at high risk. In a small release, or if class sizes are estimated (k may be 2), such a
node can still fail the other two gates, and the run would be refused although a coarser node passes all gates. They are checked
here on separate draws. The gate checks again on other draws, so that the draws that choose a node never judge it. Fresh draws
move the gate's bound, so a node is chosen only if there is room for them.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from deid_assets.methods.disclosure.absence import NO_BOUND, AbsenceByClass, absence_by_class
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.population.longitudinal_data import Dimension, Domain, LongitudinalData, generalization_at, top_node
from deid_assets.methods.statistics.confidence import range_on_fresh_trials
from deid_assets.methods.statistics.numbering import numbered_together
from deid_assets.methods.statistics.streams import generator_of

Node = tuple[int, ...]

DEMOGRAPHICS = "demographic classes"
ATTACK = "attack given membership"
NUMBER = "attack of who knows the number of claims"
FACTOR = "factor of absence"
TOO_LITTLE = "too little detail"
"""Reason for nodes not tried because the policy requires more detail than they keep."""
REFUSED = "refused by chance before"
"""Reason for nodes not tried because the gate refused them in an earlier try."""
NOT_COARSER = "not coarser than what was refused by chance"
"""Reason for nodes not tried because a further try considers only nodes above those of earlier tries."""
PINNED = "not the pinned generalization"
"""Reason for nodes not tried because the policy repeats the generalization of its last release."""
KEEPS_NO_MORE = "keeps no more of the gain"
"""Reason for nodes that pass every gate, where the policy chooses by what their releases keep of the gain."""
COARSER = "coarser than one that keeps no more"
"""Reason for nodes not tried there because a finer one passes, which says as much in every column."""
REASONS = (DEMOGRAPHICS, FACTOR, ATTACK, NUMBER, TOO_LITTLE, REFUSED, NOT_COARSER, PINNED, KEEPS_NO_MORE, COARSER)
"""Why nodes are passed over, beside their share at high risk."""

COMPARED_AT_MOST = 12
"""Nodes that are compared at most: each is judged as the gate judges it, and its release is made and learned from."""

MORE_TRIALS = (1, 4, 16)
"""Numbers of trials, as multiples of the gate's, used in turn until the result is clear."""


@dataclass(frozen=True)
class _Attack:
    """The threshold of an attack, and how the gate will measure it."""

    at_most: float
    trials: int
    confidence: float | None


@dataclass(frozen=True, eq=False)
class Absence:
    """The delivered members as absence is judged: the limit on its factor, and who counts.

    Attributes
    ----------
    factor_at_most
        Largest acceptable factor in any demographic class.
    eligible, before
        (N,) bool: delivered members who may be released, and those whom earlier releases contain.
    of_others
        Members of releases that cannot be compared.
    """

    factor_at_most: float
    eligible: np.ndarray
    before: np.ndarray
    of_others: int = 0


@dataclass(frozen=True, eq=False)
class OtherGates:
    """Requirements on a node besides the share at high risk.

    Attributes
    ----------
    data, dimensions
        Input of the search.
    delivered
        (N, d) int: base codes of the level-1 quasi-identifiers of all delivered members.
    sampled
        (n,) int: rows of the sampled members in `delivered`, in the order of the targets.
    class_size_at_least, max_high_risk_share
        Smallest large enough demographic class, in delivered members; largest share of released members in smaller ones.
    success_at_most
        Largest success of a neighbor who knows that the target is in the release: the limit of that gate, or that of the
        unconditional one over alpha, whichever is smaller; None for no gate.
    trials, confidence
        Number of the gate's simulated neighbors, and the confidence of its bound in this try; None if it compares the
        estimate.
    stream_key
        16 bytes, the key of a stream that judges nothing else.
    claim_bins
        (N, y) int: bins of the number of claims of all delivered members, if it is a quasi-identifier. It divides the
        demographic classes, and no level makes it coarser.
    number_at_most
        As `success_at_most`, for a neighbor who also knows the bin; None for no gate.
    number_trials, number_confidence
        Number of that gate's simulated neighbors, and the confidence of its bound; None if it compares the estimate.
    absence
        How absence is judged; None for no gate on its factor.
    """

    data: LongitudinalData
    dimensions: tuple[Dimension, ...]
    delivered: np.ndarray
    sampled: np.ndarray
    class_size_at_least: int
    max_high_risk_share: float
    success_at_most: float | None
    trials: int
    confidence: float | None
    stream_key: bytes
    claim_bins: np.ndarray | None = None
    number_at_most: float | None = None
    number_trials: int = 0
    number_confidence: float | None = None
    absence: Absence | None = None

    def __post_init__(self) -> None:
        if self.number_at_most is not None and self.claim_bins is None:
            raise ValueError("a gate on who knows the number of claims needs the bins of it")

    def failing(self, node: Node, suppressed: np.ndarray) -> str | None:
        """Return the gate that the node fails without the suppressed members, (n,) bool; None if it passes all."""
        if self.small_class_share(node, suppressed) > self.max_high_risk_share:
            return DEMOGRAPHICS
        if self.absence is not None and self.absent(node, suppressed).largest > self.absence.factor_at_most:
            return FACTOR
        return next((gate for gate in self._attacks if not self._leaves_room(gate, node, suppressed)), None)

    def _leaves_room(self, gate: str, node: Node, suppressed: np.ndarray) -> bool:
        """Whether the gate's bound will hold on separate draws; if it is close, more trials than the gate's decide."""
        attack = self._attacks[gate]
        for times in MORE_TRIALS:
            successes = self._successes(gate, node, suppressed, max(2, times * attack.trials))
            low, high = range_on_fresh_trials(successes, 1.0, attack.trials, attack.confidence)
            if high <= attack.at_most:
                return True
            if low > attack.at_most:
                return False
        return False

    def excess(self, node: Node) -> float:
        """Return the sum of the relative excesses over the gates' limits with nobody suppressed; 0 if all gates hold."""
        nobody = np.zeros(len(self.sampled), dtype=bool)
        ratios = [self.small_class_share(node, nobody) / self.max_high_risk_share]
        if self.absence is not None:
            ratios.append(min(self.absent(node, nobody).largest, NO_BOUND) / self.absence.factor_at_most)
        ratios += [float(self._successes_of_all(gate, node).mean()) / attack.at_most for gate, attack in self._attacks.items()]
        return sum(max(0.0, ratio - 1) for ratio in ratios)

    def failing_everywhere(self, share: float) -> str | None:
        """Return the counted gate that fails at every node for every suppression of a share of the members."""
        top = top_node(self.dimensions)
        if self.small_classes_however_suppressed(top, share):
            return DEMOGRAPHICS
        return FACTOR if self.absence_however_suppressed(top, share) else None

    def failing_however_suppressed(self, node: Node, share: float, and_below: bool = False) -> str | None:
        """Return the gate that fails for every suppression of a share of the members, who add at most that share to a mean.

        Parameters
        ----------
        and_below
            Whether it has to fail at every finer node, too. On the same draws, a neighbor's class is no larger there. More of
            their knowledge may be truncated, and most is at the finest node: it is left out of the success.
        """
        if self.small_classes_however_suppressed(node, share):
            return DEMOGRAPHICS
        if self.absence_however_suppressed(node, share):
            return FACTOR
        for gate, attack in self._attacks.items():
            successes = self._successes_of_all(gate, node)
            if and_below:
                successes = np.where(self._lost_at_the_finest[gate], 0.0, successes)
            if float(successes.mean()) > attack.at_most + share:
                return gate
        return None

    def small_classes_however_suppressed(self, node: Node, share: float) -> bool:
        """Whether too many members are in small demographic classes; if so at a node, then at every finer one."""
        nobody = np.zeros(len(self.sampled), dtype=bool)
        return self.small_class_share(node, nobody) > self.max_high_risk_share + share

    def absence_however_suppressed(self, node: Node, share: float) -> bool:
        """Whether more members than a share of the sample must be suppressed so that absence tells no more than allowed.

        If so at a node, then at every finer one: the share released of a class is at most the largest share of its parts.
        """
        if self.absence is None:
            return False
        found = self.absent(node, np.zeros(len(self.sampled), dtype=bool))
        excess = found.excess(self.absence.factor_at_most)
        earlier = self.absent(node, np.ones(len(self.sampled), dtype=bool)).released
        return bool((excess > found.released - earlier).any() or excess.clip(0).sum() > share * len(self.sampled))

    def in_excess(self, node: Node, stream_key: bytes) -> np.ndarray:
        """Choose at random the members to leave out where more of a demographic class were drawn than may ever be released.

        Parameters
        ----------
        stream_key
            16 bytes, the key of a stream that decides nothing else.

        Returns
        -------
        np.ndarray
            (n,) bool over the sampled members; nobody where absence has no limit. Members of earlier releases stay: leaving
            them out would not lower the factor.
        """
        chosen = np.zeros(len(self.sampled), dtype=bool)
        if self.absence is None:
            return chosen
        found = self.absent(node, chosen)
        excess = found.excess(self.absence.factor_at_most)
        new = np.flatnonzero(~self.absence.before[self.sampled] & self.absence.eligible[self.sampled])
        order = generator_of(stream_key).permutation(new)
        class_of = self._demographic_class(node)[self.sampled[order]]
        by_class = np.argsort(class_of, kind="stable")
        ordered, classes = order[by_class], class_of[by_class]
        place = np.arange(len(ordered)) - np.searchsorted(classes, classes)
        chosen[ordered[place < excess[classes]]] = True
        return chosen

    def absent(self, node: Node, suppressed: np.ndarray) -> AbsenceByClass:
        """Return the members of each demographic class as absence is judged.

        Raises
        ------
        ValueError
            If absence is not judged.
        """
        if self.absence is None:
            raise ValueError("absence is not judged")
        ever = self.absence.before.copy()
        ever[self.sampled[~suppressed]] = True
        nobody = np.zeros(len(ever), dtype=bool)
        return absence_by_class(self._demographic_class(node), self.absence.eligible, ever, nobody, self.absence.of_others)

    def small_class_share(self, node: Node, suppressed: np.ndarray) -> float:
        """Return the share of remaining members whose demographic class has too few delivered members."""
        columns = self._demographics(node)
        if self.claim_bins is not None:
            columns += list(self.claim_bins.T)
        class_of = numbered_together(columns)
        left = np.bincount(class_of)[class_of[self.sampled[~suppressed]]]
        return float((left < self.class_size_at_least).mean()) if len(left) else 1.0

    def _demographic_class(self, node: Node) -> np.ndarray:
        """Return (N,) int: the demographic class of every delivered member, numbered from 0."""
        return numbered_together(self._demographics(node))

    def _demographics(self, node: Node) -> list[np.ndarray]:
        """Return (N,) int for each member-level column: the class of every delivered member at the node's level."""
        levels = generalization_at(self.data, self.dimensions, node).demographics
        return [
            domain.levels[level][self.delivered[:, number]]
            for number, (domain, level) in enumerate(zip(self.data.demographic_domains, levels, strict=True))
        ]

    def surest_successes(self, stream_key: bytes, draws: int) -> np.ndarray:
        """Return (draws,) float: the least probability, over all nodes, that a simulated neighbor picks the target.

        Classes are largest at the coarsest node, and truncation removes most knowledge at the finest.
        """
        sizes = self._whole[ATTACK].drawn_classes(top_node(self.dimensions), stream_key, draws).sizes
        lost = self._lost_at_finest(self._whole[ATTACK], stream_key, draws)
        return np.where(lost, 0.0, 1 / np.maximum(sizes, 1))

    def _lost_at_finest(self, computation: NodeComputation, stream_key: bytes, draws: int) -> np.ndarray:
        """Return (draws,) bool: neighbors some of whose knowledge is truncated at the finest node, in any scenario."""
        finest = (0,) * len(self.dimensions)
        of_each = (one.drawn_classes(finest, stream_key, draws).exempt for one in computation.of_each_scenario())
        return np.any(np.stack(list(of_each)), axis=0)

    @cached_property
    def _attacks(self) -> dict[str, _Attack]:
        """Return the attacks that gate."""
        both = (
            (ATTACK, self.success_at_most, self.trials, self.confidence),
            (NUMBER, self.number_at_most, self.number_trials, self.number_confidence),
        )
        return {gate: _Attack(at_most, trials, confidence) for gate, at_most, trials, confidence in both if at_most is not None}

    @cached_property
    def _whole(self) -> dict[str, NodeComputation]:
        nobody = np.zeros(len(self.sampled), dtype=bool)
        return {gate: self._release(gate, nobody) for gate in {ATTACK, *self._attacks}}

    def _release(self, gate: str, suppressed: np.ndarray) -> NodeComputation:
        """Return the remaining members as a population, with all that the adversary of an attack knows about them."""
        data = self.data.keeping(~suppressed).released_only()
        if gate == NUMBER:
            if self.claim_bins is None:
                raise ValueError("an adversary who knows the number of claims needs its bins")
            known = self.claim_bins[self.sampled[~suppressed]]
            data = replace(
                data,
                demographics=np.concatenate([data.demographics, known.astype(data.demographics.dtype)], axis=1),
                demographic_domains=(
                    *data.demographic_domains, *(Domain((np.arange(int(own.max(initial=0)) + 1),)) for own in known.T)
                ),
            )  # fmt: skip
        return NodeComputation(data, self.dimensions, k=1)

    @cached_property
    def _lost_at_the_finest(self) -> dict[str, np.ndarray]:
        """By gate: the neighbors some of whose knowledge is truncated at the finest node."""
        return {
            gate: self._lost_at_finest(self._whole[gate], self.stream_key, attack.trials)
            for gate, attack in self._attacks.items()
        }

    def _successes_of_all(self, gate: str, node: Node) -> np.ndarray:
        """Return as many successes as the gate has trials, with nobody suppressed."""
        return self._successes(gate, node, np.zeros(len(self.sampled), dtype=bool), self._attacks[gate].trials)

    def _successes(self, gate: str, node: Node, suppressed: np.ndarray, trials: int) -> np.ndarray:
        """Return (trials,) float: the probability that each simulated neighbor picks the target."""
        computation = self._release(gate, suppressed) if suppressed.any() else self._whole[gate]
        classes = computation.drawn_classes(node, self.stream_key, trials)
        return np.where(classes.exempt, 0.0, 1 / np.maximum(classes.sizes, 1))
