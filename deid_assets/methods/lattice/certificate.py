"""A certificate that a generalization is optimal and minimal, which can be verified without the search.

The proof uses two facts (methods#certificate): a node below a failed node fails too, and no node loses less than one below it.
A few failed nodes, the antichain, therefore rule out everything below them. The losses of the levels determine which nodes
would lose less than the chosen one; each of these must be ruled out, or must have been evaluated and passed over. If losses
depend on the classes, each node that no failed node rules out must be above one measured to lose no less than the chosen one,
whether that passes or not. Only the measured failures, and then the measured losses, must be trusted: `problems` checks the
whole lattice.

Of a lattice that is too large to list, the certificate bounds the loss: every node that would lose less than `rest_loss` is
ruled out or was passed over. Where that is no less than the loss of the chosen node, it proves as much as any other.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from deid_assets.methods.lattice.candidate_gates import COARSER, COMPARED_AT_MOST, KEEPS_NO_MORE, TOO_LITTLE
from deid_assets.methods.lattice.predictive_tagging import (
    LISTED_AT_MOST,
    Node,
    NodesByLoss,
    below_or_equal,
    highest_above,
    highest_of,
    is_of_axis,
    lower_neighbors,
    lowest_of,
    node_text,
    sum_of_losses,
    sums_of_losses,
)
from deid_assets.methods.statistics.confidence import wilson_interval
from deid_assets.methods.statistics.sequential_decision import SequentialRule, rule_of_number

LARGEST_PROOF = 10_000
"""Largest number of nodes that a certificate may name, because a malicious one could try to exhaust memory or time."""

_ROUND_OFF = 1e-9


@dataclass(frozen=True)
class MeasuredNode:
    """A node and its measurement.

    Attributes
    ----------
    node
        Its levels.
    share
        Share at high risk; rounded if `of` is None: up if the node failed, otherwise down.
    flagged, of
        Draws at high risk and all draws, or records in small classes and all records; None if they may not be disclosed.
    number
        How many nodes were measured up to this one, if its error depends on it ('best_first').
    """

    node: Node
    share: float
    flagged: int | None = None
    of: int | None = None
    number: int | None = None


@dataclass(frozen=True)
class Criterion:
    """Condition under which a measured node counts as failed.

    Attributes
    ----------
    kind
        'sequential': the sequential rule finds the share above the threshold, or is undecided at the last allowed draw.
        'best_first': the same, with an error that depends on how many nodes were measured up to this one.
        'lower_bound': Wilson's lower 95 % bound is above the threshold. 'counted': the share itself is above it.
        'suppression': the share is that of the members who would have to be suppressed, and above it.
    threshold
        The share with which nodes were compared.
    error
        Error probability of the sequential rule for one node, or of all decisions together if `kind` is 'best_first'; None for
        the other kinds.
    draws_at_most
        Number of draws after which an undecided node is not a candidate; None for the other kinds.
    """

    kind: Literal["sequential", "best_first", "lower_bound", "counted", "suppression"]
    threshold: float
    error: float | None = None
    draws_at_most: int | None = None

    def fails(self, measured: MeasuredNode) -> bool:
        """Whether the counts of a node show that it failed."""
        flagged, of = measured.flagged, measured.of
        if flagged is None or of is None:
            return self.kind in ("counted", "suppression") and measured.share > self.threshold
        if self.kind in ("sequential", "best_first"):
            decision = self._rule(measured).decide(flagged, of)
            return decision == "not_candidate" or (decision == "undecided" and not self.is_open(measured))
        if self.kind == "lower_bound":
            return wilson_interval(flagged, of)[0] > self.threshold
        return flagged > math.floor(self.threshold * of + _ROUND_OFF)

    def is_open(self, measured: MeasuredNode) -> bool:
        """Whether more draws could still decide, as when another node decided this one before its own draws did."""
        flagged, of = measured.flagged, measured.of
        if self.kind not in ("sequential", "best_first") or flagged is None or of is None:
            return False
        if self.draws_at_most is None:
            raise ValueError("the sequential rule needs its last draw")
        return of < self.draws_at_most and self._rule(measured).decide(flagged, of) == "undecided"

    def _rule(self, measured: MeasuredNode) -> SequentialRule:
        if self.error is None:
            raise ValueError("the sequential rule needs its error probability")
        if self.kind == "sequential":
            return SequentialRule(self.threshold, self.error)
        if measured.number is None:
            raise ValueError("the error of a node depends on how many were measured up to it")
        return rule_of_number(self.threshold, self.error, measured.number)


@dataclass(frozen=True)
class OptimalityCertificate:
    """The chosen node, and what rules out every other node that would lose less.

    Attributes
    ----------
    dimensions, heights
        Names of the axes of the lattice, and the highest level of each.
    losses
        For each dimension the loss at each of its levels, non-decreasing; the loss of a node is their sum. None if the loss
        depends on the classes of a node.
    step
        0 if losses are exact; otherwise each is rounded down to a multiple of it.
    criterion
        Condition under which a node failed.
    chosen
        The node of the release.
    chosen_loss
        Its loss.
    failed
        Measured nodes that failed and have no failed node above; everything below them fails as well.
    passed_over
        Nodes that were evaluated but not chosen, each with the gate that it would fail.
    no_better
        If `losses` is None: nodes that were evaluated and lose no less than the chosen one, with their losses; includes the
        chosen and the coarsest node. Nodes above them lose no less either.
    neighbors
        The nodes directly below the chosen one that were measured themselves, until they failed or one above them did. The
        others must lie below a node that failed, or have been passed over.
    rest_loss
        Smallest loss among the nodes that are neither chosen, nor below a failed node, nor passed over: the best node that
        was never evaluated, or a lower bound on its loss if the lattice is not listed. None if there is none. If `losses` is
        None: the smallest in `no_better` except for the chosen node; nodes above the others lose no less.
    kept_less
        If nodes were compared by the share of the gain that they keep, and the chosen one keeps most: by how much less each of
        the others keeps. Empty if the chosen node is the one of least loss that passes.

    Examples
    --------
    Two dimensions of two levels; (0, 1) would lose less than (1, 0), and fails:

    >>> failed = MeasuredNode((0, 1), 0.5, 5, 10)
    >>> proof = OptimalityCertificate(
    ...     ("age", "sex"), (1, 1), ((0.0, 3.0), (0.0, 2.0)), 0.0, Criterion("counted", 0.1), (1, 0), 3.0,
    ...     (failed,), neighbors=(MeasuredNode((0, 0), 0.9, 9, 10),), rest_loss=5.0)
    >>> proof.problems()
    []
    >>> replace(proof, failed=()).problems()
    ['a node that loses less than the chosen one is neither ruled out nor passed over: 0,0']
    """

    dimensions: tuple[str, ...]
    heights: tuple[int, ...]
    losses: tuple[tuple[float, ...], ...] | None
    step: float
    criterion: Criterion
    chosen: Node
    chosen_loss: float
    failed: tuple[MeasuredNode, ...]
    passed_over: Mapping[Node, str] = field(default_factory=dict)
    no_better: tuple[tuple[Node, float], ...] = ()
    neighbors: tuple[MeasuredNode, ...] = ()
    rest_loss: float | None = None
    kept_less: Mapping[Node, float] = field(default_factory=dict)

    def problems(self) -> list[str]:
        """Return the defects of the proof; empty if it holds; nodes are named by their levels."""
        found = self._malformed()
        if found:
            return found
        found += [
            f"the measured share of a node does not fail: {node_text(measured.node)}"
            for measured in self.failed
            if not self.criterion.fails(measured)
        ]
        found += [
            f"the share of a node is not that of its counts: {node_text(measured.node)}"
            for measured in (*self.failed, *self.neighbors)
            if measured.flagged is not None
            and measured.of is not None
            and not _same(measured.share, measured.flagged / measured.of)
        ]
        found += [*self._problems_below(), *self._problems_of_gain(), *self._problems_of_detail(), *self._problems_of_numbers()]
        if self.below_failed([self.chosen])[0]:
            found.append("the chosen node lies below a node that failed")
        better, rest = self._what_is_left()
        if better is not None:
            found.append(
                f"a node that loses less than the chosen one is neither ruled out nor passed over: {node_text(better)}"
            )
        elif not _same(rest, self.rest_loss):
            found.append("the least loss among the nodes that were never evaluated is not as stated")
        return found

    @property
    def tolerance(self) -> float:
        """How much less than the chosen node another may lose without detection by the proof."""
        return self.step * (1 if self.losses is None else len(self.heights))

    @property
    def is_listed(self) -> bool:
        """Whether the lattice is small enough to check every node."""
        return math.prod(height + 1 for height in self.heights) <= LISTED_AT_MOST

    @property
    def gap(self) -> float:
        """How much less than the chosen node one could lose that was never evaluated; 0 if the certificate is a proof.

        In the rounded edition, `tolerance` comes on top of it.
        """
        if self.rest_loss is None or self.is_listed:
            return 0.0
        return max(0.0, self.chosen_loss - self.rest_loss)

    @property
    def largest_loss(self) -> float:
        """The loss of the coarsest node; 1 if nothing can be lost, or if losses depend on classes."""
        return math.fsum(own[-1] for own in self.losses or ()) or 1.0

    @property
    def bound(self) -> float:
        """By how much less of the largest loss a node may lose without being ruled out; 0 if none does by exact losses."""
        # Rounded losses are parts of the largest already.
        return (self.gap if self.step else self.gap / self.largest_loss) + self.tolerance

    @property
    def says_nothing(self) -> bool:
        """Whether the certificate, or what is left of it after rounding, would hold for any node."""
        return self.tolerance >= 1 or (self.gap > 0 and self.gap >= self.chosen_loss)

    def with_rest(self) -> "OptimalityCertificate":
        """Return the certificate with `rest_loss` computed."""
        return replace(self, rest_loss=self._what_is_left()[1])

    def rounded(self, step: float, hide_counts: bool) -> "OptimalityCertificate":
        """Return what may be published: losses relative to the largest loss, rounded down to multiples of `step`.

        Parameters
        ----------
        hide_counts
            Whether the measured counts are of people. If so, shares are rounded too, those of failed nodes up, so that they
            stay above the threshold. Shares of members who would have to be suppressed always are.

        Examples
        --------
        >>> exact = OptimalityCertificate(("age",), (2,), ((0.0, 3.07, 4.0),), 0.0, Criterion("counted", 0.1), (1,), 3.07, ())
        >>> exact.rounded(0.05, hide_counts=True).losses
        ((0.0, 0.75, 1.0),)
        """
        losses: tuple[tuple[float, ...], ...] | None = None
        no_better: tuple[tuple[Node, float], ...] = ()
        if self.losses is not None:
            most = self.largest_loss
            losses = tuple(tuple(_down(loss / most, step) for loss in own) for own in self.losses)
            chosen_loss = round(sum_of_losses(losses, self.chosen), 12)
        else:
            most = max(loss for _, loss in self.no_better) or 1.0
            chosen_loss = _down(self.chosen_loss / most, step)
            no_better = tuple((node, _down(loss / most, step)) for node, loss in self.no_better)

        def told(measured: MeasuredNode) -> MeasuredNode:
            if not hide_counts and self.criterion.kind != "suppression":
                return measured
            share = min(1.0, -_down(-measured.share, step)) if self.criterion.fails(measured) else _down(measured.share, step)
            return MeasuredNode(measured.node, share, number=measured.number)

        public = replace(
            self,
            losses=losses,
            step=step,
            chosen_loss=chosen_loss,
            no_better=no_better,
            failed=tuple(told(measured) for measured in self.failed),
            neighbors=tuple(told(measured) for measured in self.neighbors),
            kept_less={node: _down(less, step * STEPS_OF_GAIN) for node, less in self.kept_less.items()},
        )
        rest = public._what_is_left()[1]
        return replace(public, rest_loss=None if rest is None else round(rest, 12))

    def _malformed(self) -> list[str]:
        """Return why the proof cannot be read; empty if it can."""
        if len(self.heights) != len(self.dimensions) or any(height < 0 for height in self.heights):
            return ["each dimension needs its highest level"]
        if not 0 <= self.step <= 1 or not 0 <= self.criterion.threshold < 1:
            return ["what losses are rounded to, or the threshold, is out of range"]
        if not self.is_listed and self.losses is None:
            return ["of a lattice that is too large to list, each level needs its loss"]
        nodes = [self.chosen, *self.passed_over, *self.kept_less, *(node for node, _ in self.no_better)]
        nodes += [measured.node for measured in (*self.failed, *self.neighbors)]
        if not self.is_listed and len(nodes) > LARGEST_PROOF:
            return [f"more than {LARGEST_PROOF:,} nodes are named"]
        if not all(self._in_lattice(node) for node in nodes):
            return ["a node does not lie in the lattice"]
        if self.losses is None:
            own = dict(self.no_better).get(self.chosen)
            return [] if _same(own, self.chosen_loss) else ["the loss of the chosen node is not that measured there"]
        if [len(own) for own in self.losses] != [height + 1 for height in self.heights]:
            return ["each level needs its loss"]
        if any(later < earlier for own in self.losses for earlier, later in itertools.pairwise(own)):
            return ["losses must not fall from a level to the next"]
        if not self.is_listed and not self._are_parts_of_the_largest():
            return ["losses are not stated as parts of the largest"]
        total = sum_of_losses(self.losses, self.chosen)
        return [] if _same(total, self.chosen_loss) else ["the loss of the chosen node is not the sum of its levels'"]

    def _are_parts_of_the_largest(self) -> bool:
        """Whether losses, if rounded, add up to the largest loss as far as rounding lets them: the bound is a part of it."""
        within = 1 - self.tolerance - _ROUND_OFF <= self.largest_loss <= 1 + _ROUND_OFF
        return all(own[0] >= 0 for own in self.losses or ()) and (self.step == 0 or within)

    def _in_lattice(self, node: Node) -> bool:
        return len(node) == len(self.heights) and all(
            0 <= level <= height for level, height in zip(node, self.heights, strict=True)
        )

    def _problems_below(self) -> list[str]:
        """Check minimality: each direct lower neighbor failed, alone or with one above, or was passed over."""
        told, below = [measured.node for measured in self.neighbors], lower_neighbors(self.chosen)
        if len(set(told)) < len(told) or not set(told) <= set(below):
            return ["a node is listed twice as directly below the chosen one, or does not lie there"]
        ruled_out = dict(zip(below, self.below_failed(below), strict=True))
        unproven = [node for node in below if node not in told and not ruled_out[node] and node not in self.passed_over]
        if not self.is_listed and self.rest_loss is not None and self.rest_loss < self.chosen_loss + self.tolerance:
            # Where a better node may be left, they may be among those that were never evaluated.
            unproven = []
        return [f"nothing rules out a node directly below the chosen one: {node_text(node)}" for node in unproven] + [
            f"a node directly below the chosen one did not fail: {node_text(measured.node)}"
            for measured in self.neighbors
            if not self.criterion.fails(measured)
            and not (ruled_out[measured.node] and self.criterion.is_open(measured))
            and measured.node not in self.passed_over
        ]

    def _problems_of_gain(self) -> list[str]:
        """Check that no compared node keeps more than the chosen one, and that those not tried lie above one of them."""
        compared = [node for node, gate in self.passed_over.items() if gate == KEEPS_NO_MORE]
        if set(self.kept_less) != set(compared):
            return ["by how much less of the gain a node keeps is missing, or is stated of a node that was not compared"]
        if len(compared) >= COMPARED_AT_MOST:
            return [f"more than {COMPARED_AT_MOST} nodes are said to be compared"]
        return [
            f"a node that is passed over keeps more of the gain than the chosen one: {node_text(node)}"
            for node, less in self.kept_less.items()
            if not less >= 0
        ] + [
            f"a node is passed over, but does not lie above one that keeps no more: {node_text(node)}"
            for node, gate in self.passed_over.items()
            if gate == COARSER and not any(below_or_equal(finer, node) for finer in compared)
        ]

    def _problems_of_detail(self) -> list[str]:
        """Check what is left out with all above it: one column, by itself, and never the chosen node."""
        if self.is_listed:
            return []
        useless = [node for node, gate in self.passed_over.items() if gate == TOO_LITTLE]
        others = [self.chosen, *(node for node, gate in self.passed_over.items() if gate != TOO_LITTLE)]
        return [f"not one column by itself keeps too little: {node_text(node)}" for node in useless if not is_of_axis(node)] + [
            f"a node that keeps too little was tried, or chosen: {node_text(node)}"
            for node in others
            if any(below_or_equal(coarse, node) for coarse in useless)
        ]

    def _problems_of_numbers(self) -> list[str]:
        """Check that no two nodes were measured as the same in a row: the error of each would be too large."""
        if self.criterion.kind != "best_first":
            return []
        numbers = {(measured.node, measured.number or 0) for measured in (*self.failed, *self.neighbors)}
        counted = {number for _, number in numbers}
        if len(counted) < len(numbers) or min(counted, default=1) < 1:
            return ["nodes were measured one after the other, but their numbers do not say so"]
        return []

    def _what_is_left(self) -> tuple[Node | None, float | None]:
        """Return a better node that nothing rules out, and the smallest loss of the remaining nodes."""
        if self.losses is None:
            return self._left_without_losses()
        if not self.is_listed:
            return None, self._bound_of_rest(self.losses)
        loss, left = sums_of_losses(self.losses), ~self.ruled_out()
        for node in (self.chosen, *self.passed_over):
            left[node] = False
        rest = float(loss[left].min()) if np.any(left) else None
        left &= loss < self.chosen_loss
        nodes, own = np.argwhere(left), loss[left]
        # Each rounded level is off by less than one step, so this many steps bound what rounding can hide.
        hidden = np.count_nonzero(nodes != self.chosen, axis=1) * self.step
        better = own < self.chosen_loss - hidden - _ROUND_OFF * max(1.0, abs(self.chosen_loss))
        if not np.any(better):
            return None, rest
        best = nodes[better][np.argmin(own[better])]
        return tuple(int(level) for level in best), rest

    def _bound_of_rest(self, losses: Sequence[Sequence[float]]) -> float | None:
        """Return the smallest loss of the remaining nodes, looked at in the order of their loss."""
        failed = self._failed_levels()
        # What keeps too little does so at every node above.
        useless = [node for node, gate in self.passed_over.items() if gate == TOO_LITTLE]
        looked_at = {self.chosen, *self.passed_over}
        nodes = NodesByLoss(
            losses,
            lambda node: highest_above(failed, node),
            left_out_above=np.array(useless, dtype=np.int16).reshape(-1, len(self.heights)),
        )
        found = next((loss for loss, node in nodes if node not in looked_at), None)
        return nodes.least_left if found is None else found

    def _failed_levels(self) -> np.ndarray:
        """(failed nodes, dimensions) int16."""
        return np.array([measured.node for measured in self.failed], dtype=np.int16).reshape(-1, len(self.heights))

    def below_failed(self, nodes: Sequence[Node]) -> np.ndarray:
        """Return for each node, bool, whether it is or lies below a node that failed."""
        if self.is_listed:
            ruled_out = self.ruled_out()
            return np.array([ruled_out[node] for node in nodes], dtype=bool)
        failed = self._failed_levels()
        return np.array([highest_above(failed, node) is not None for node in nodes], dtype=bool)

    def ruled_out(self) -> np.ndarray:
        """Return for every node of the lattice, indexed by its levels, whether it is or lies below a node that failed."""
        below = np.zeros([height + 1 for height in self.heights], dtype=bool)
        for measured in self.failed:
            below[measured.node] = True
        for axis in range(below.ndim):
            np.logical_or.accumulate(np.flip(below, axis), axis=axis, out=np.flip(below, axis))
        return below

    def _left_without_losses(self) -> tuple[Node | None, float | None]:
        """As `_what_is_left` if losses depend on classes: a node not below a failed one must be above one that is no better."""
        open_ = ~self.ruled_out()
        for node in [node for node, _ in self.no_better]:
            open_[tuple(slice(level, None) for level in node)] = False
        for node in self.passed_over:
            open_[node] = False
        if np.any(open_):
            return tuple(int(level) for level in np.unravel_index(np.argmax(open_), open_.shape)), None
        others = [(loss, node) for node, loss in self.no_better if node != self.chosen]
        limit = self.chosen_loss - self.step - _ROUND_OFF * max(1.0, abs(self.chosen_loss))
        better = next((node for loss, node in others if loss < limit), None)
        return better, min((loss for loss, _ in others), default=None)


def failed_antichain(failed: Sequence[MeasuredNode]) -> tuple[MeasuredNode, ...]:
    """Return the failed nodes that have no failed node above, in lexicographic order.

    Examples
    --------
    >>> [found.node for found in failed_antichain([MeasuredNode((0, 1), 1.0), MeasuredNode((1, 1), 1.0)])]
    [(1, 1)]
    """
    by_node = {measured.node: measured for measured in failed}
    return tuple(by_node[node] for node in highest_of(list(by_node)))


def no_better_nodes(losses: Mapping[Node, float], chosen: Node) -> tuple[tuple[Node, float], ...]:
    """Return the nodes, with their losses, which show that no node above them is better than the chosen one.

    These are the nodes that lose no less and have no such node below, the chosen node itself, and the highest node, which has
    the largest loss.

    Examples
    --------
    >>> no_better_nodes({(0, 1): 2, (1, 0): 3, (1, 1): 4, (2, 0): 5, (2, 1): 9}, (1, 0))
    (((1, 0), 3), ((2, 1), 9))
    """
    no_less = [node for node, loss in losses.items() if loss >= losses[chosen]]
    return tuple((node, losses[node]) for node in sorted({*lowest_of(no_less), chosen, max(losses, key=sum)}))


def _down(number: float, step: float) -> float:
    """Return the largest multiple of the step that does not exceed the number."""
    return round(math.floor(number / step + _ROUND_OFF) * step, 12)


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=_ROUND_OFF, abs_tol=_ROUND_OFF)


STEPS_OF_GAIN = 5
"""Shares of a gain are rounded to so many times the step of shares."""
_LEAST_STEP = 0.001
_PEOPLE_PER_STEP = 25


def rounding_step(people: int) -> float:
    """Return the step to which losses and shares are rounded in public: the effect of 25 people, and at least .001.

    Examples
    --------
    >>> rounding_step(200_000), rounding_step(1_000), rounding_step(2)
    (0.001, 0.025, 1.0)
    """
    return min(1.0, max(_LEAST_STEP, math.ceil(_PEOPLE_PER_STEP / max(people, 1) / _LEAST_STEP) * _LEAST_STEP))
