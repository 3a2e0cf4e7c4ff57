"""Choose the levels of every demographic class (methods#recoding-by-class).

For each member-level node, in the given order:

1. The first stream estimates every class at all claim-level nodes (`estimates.searched_shares`). The linear relaxation over all
   nodes bounds what the member-level node can reach; if that is no better than the best choice so far, it is passed over. The
   nodes that are cheapest around the relaxation's price of a share are the candidates of each class.
2. The second stream estimates the candidates again, and the knapsack is solved with these shares. A choice by the first stream
   alone would be of nodes that were lucky there.
3. The recoded data are measured on a third stream, in both readings of the appendix. The choice holds if the larger upper bound
   is within the aim. If not, it was lucky too: the budget is lowered, another choice is made, and a fresh stream measures it.

Choices among few candidates on many draws are still a little lucky, and so is the first of several trials that holds. So the
release is not judged here: the choice is measured once more, on streams of its own, before it is published.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from deid_assets.methods.adversary.two_readings import Adversary, both_readings
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.information_loss import LatticeLoss
from deid_assets.methods.lattice.longitudinal_search import Progress
from deid_assets.methods.lattice.predictive_tagging import node_text
from deid_assets.methods.population.longitudinal_data import top_node
from deid_assets.methods.recoding.class_certificate import ChoiceOfClass, ClassCandidate, ClassCertificate
from deid_assets.methods.recoding.class_loss import ClassLoss
from deid_assets.methods.recoding.estimates import ReleasedClasses, at_levels, estimated_shares, searched_shares
from deid_assets.methods.recoding.knapsack import Candidates, relaxation, solve
from deid_assets.methods.recoding.recoded_data import ClassLevels, Node, claim_level, classes_of, recoded
from deid_assets.methods.statistics.confidence import clopper_pearson_upper_bound

StreamKeys = Callable[[str], bytes]

ROUNDS = 6
"""Number of choices that are tried for a member-level node."""

TRIAL_DRAWS = 1_000_000
"""Number of draws that measure a choice."""

BUDGETS = (1.2, 1.0, 0.85, 0.7, 0.55)
"""Parts of the aim at whose prices candidates are looked for: the budget may have to be lowered."""

NEAR = 8
"""Number of candidates of a class at each price: the cheapest on the first stream may only have been lucky."""

_LOWERED = 0.97
"""Largest part of the budget that is left after a choice did not hold."""

Outcome = Literal["chosen", "beaten", "no_better", "infeasible", "over"]


@dataclass(frozen=True)
class Trial:
    """A choice, and what fresh draws say.

    Attributes
    ----------
    budget
        Largest sum of estimated shares.
    estimated_share, loss
        The choice's share by the second stream, and its loss.
    share, upper_bound
        The larger share of both readings on the trial's own stream, and its upper bound.
    """

    budget: float
    estimated_share: float
    loss: float
    share: float
    upper_bound: float


@dataclass(frozen=True)
class TriedMemberNode:
    """What became of a member-level node.

    Attributes
    ----------
    node
        Its claim-level dimensions are at level 0.
    member_loss
        Its own loss, without that of any claim-level node.
    search_bound
        Its loss at the linear relaxation over all claim-level nodes, by the first stream; None if it was not estimated.
    outcome
        'chosen'; 'beaten': it held, and another loses less; 'no_better': it cannot lose less than the best so far;
        'infeasible': no choice of levels is within the budget; 'over': no choice held on fresh draws.
    trials
        The choices that were measured.
    """

    node: Node
    member_loss: float
    search_bound: float | None
    outcome: Outcome
    trials: tuple[Trial, ...] = ()


@dataclass(frozen=True, eq=False)
class ClassRecoding:
    """The chosen levels of every class.

    Attributes
    ----------
    levels
        For `recoded_data.recoded`. Classes without a released member have the coarsest levels.
    loss
        On the scale of the lattice's loss.
    certificate
        Bounds the loss of other choices at this member-level node, given the estimates.
    tried
        Every member-level node, in order.
    """

    levels: ClassLevels
    loss: float
    certificate: ClassCertificate
    tried: tuple[TriedMemberNode, ...]


@dataclass(frozen=True, eq=False)
class _Question:
    """What is asked of every member-level node."""

    computation: NodeComputation
    loss: LatticeLoss
    keys: StreamKeys
    aim: float
    confidence: float
    draws: int
    adversary: Adversary | None
    executor: Executor | None

    def upper_bound(self, flagged: int, draws: int) -> float:
        return clopper_pearson_upper_bound(flagged, draws, self.confidence)

    @property
    def first_budget(self) -> float:
        """Less than the aim by twice what the upper bound adds: for the bound itself, and because a choice is lucky."""
        room = self.upper_bound(round(self.aim * self.draws), self.draws) - self.aim
        return max(self.aim - 2 * room, self.aim / 2)


def choose_class_levels(
    computation: NodeComputation,
    member_nodes: Sequence[Node],
    loss: LatticeLoss,
    keys: StreamKeys,
    max_high_risk_share: float,
    confidence: float = 0.99,
    aim: float = 0.95,
    executor: Executor | None = None,
    progress: Progress | None = None,
    adversary: Adversary | None = None,
    draws: int = TRIAL_DRAWS,
) -> ClassRecoding | None:
    """Choose levels by class that hold on fresh draws and lose little; None if no choice does.

    Parameters
    ----------
    computation
        The node computation of the raw data.
    member_nodes
        Member-level nodes to try, best prospects first: full nodes whose claim-level dimensions are at level 0.
    loss
        The loss of a node for all, over the same data and dimensions.
    keys
        Returns the 16-byte key of a named stream. Names begin with 'recoding' and name the member-level node.
    max_high_risk_share
        MaxSup.
    confidence
        Confidence of the trials' upper bounds.
    aim
        Part of MaxSup within which a trial's upper bound must be, so that further measurements hold too.
    executor
        Where draws are measured. Neither it nor its number of workers changes the result.
    progress
        Called with (member-level nodes done, all, text).
    adversary
        For measuring the literal reading in trials too, as the gate does; None: only the reading with fixed power.
    draws
        Number of draws of a trial.

    Raises
    ------
    ValueError
        If the claim-level dimensions of a member-level node are not at level 0.
    """
    question = _Question(computation, loss, keys, aim * max_high_risk_share, confidence, draws, adversary, executor)
    axes = claim_level(computation.dimensions)
    if any(node[axis] for node in member_nodes for axis in axes):
        raise ValueError("the claim-level dimensions of a member-level node are at level 0")
    best: ClassRecoding | None = None
    tried: list[TriedMemberNode] = []
    for number, node in enumerate(member_nodes):
        result, found = _at_member_node(question, tuple(node), np.inf if best is None else best.loss)
        if found is not None:
            tried = [replace(one, outcome="beaten") if one.outcome == "chosen" else one for one in tried]
            best = found
        tried.append(result)
        if progress:
            progress(number + 1, len(member_nodes), f"member-level node {node_text(node)}: {result.outcome}")
    return None if best is None else ClassRecoding(best.levels, best.loss, best.certificate, tuple(tried))


def _at_member_node(question: _Question, node: Node, loss_to_beat: float) -> tuple[TriedMemberNode, ClassRecoding | None]:
    """Choose levels at one member-level node that lose less than another choice."""
    computation, name = question.computation, f"recoding {node_text(node)}"
    data, dimensions = computation.data, computation.dimensions
    codes, class_of = classes_of(data, dimensions, node)
    classes = ReleasedClasses.of(class_of[data.targets], len(codes))
    class_loss = ClassLoss(question.loss, data, dimensions, node, class_of, len(codes))
    member_loss = class_loss.of_members
    if member_loss >= loss_to_beat:
        return TriedMemberNode(node, member_loss, None, "no_better"), None

    losses = class_loss.of_every_node()
    shares = searched_shares(computation, node, classes, question.keys(f"{name} search"), executor=question.executor)
    every = [_flat(shares[number], losses[number]) for number in classes.released]
    relaxed = relaxation(every, question.aim)
    if relaxed is None:
        return TriedMemberNode(node, member_loss, None, "infeasible"), None
    search_bound = member_loss + relaxed.bound
    if search_bound >= loss_to_beat:
        return TriedMemberNode(node, member_loss, search_bound, "no_better"), None

    lattice = np.argwhere(np.ones(shares.shape[1:], dtype=bool))
    nodes: list[list[Node]] = [[] for _ in codes]
    for number, positions in zip(classes.released, _candidates(every, question.aim), strict=True):
        nodes[number] = [tuple(levels) for levels in lattice[positions].tolist()]
    estimates = estimated_shares(
        computation, node, classes, nodes, lambda number: question.keys(f"{name} class {number}"), question.executor
    )
    estimated = [
        Candidates(estimates[number], np.array([losses[(number, *at)] for at in nodes[number]])) for number in classes.released
    ]

    trials: list[Trial] = []
    budget = question.first_budget
    for trial in range(ROUNDS):
        choice = solve(estimated, budget)
        if choice is None or member_loss + choice.loss >= loss_to_beat:
            # A lower budget cannot help.
            outcome: Outcome = "no_better" if choice else "over" if trials else "infeasible"
            return TriedMemberNode(node, member_loss, search_bound, outcome, tuple(trials)), None
        chosen = {number: nodes[number][at] for number, at in zip(classes.released.tolist(), choice.choice, strict=True)}
        levels = _class_levels(computation, node, codes, chosen)
        share, upper = _measured(question, levels, question.keys(f"{name} trial {trial}"))
        trials.append(Trial(budget, choice.share, member_loss + choice.loss, share, upper))
        if upper <= question.aim:
            certificate = _certificate(question, node, classes, codes, nodes, estimated, choice.choice, member_loss, budget)
            result = TriedMemberNode(node, member_loss, search_bound, "chosen", tuple(trials))
            return result, ClassRecoding(levels, certificate.loss, certificate, (result,))
        budget *= min(_LOWERED, question.aim / upper)
    return TriedMemberNode(node, member_loss, search_bound, "over", tuple(trials)), None


def _candidates(every: Sequence[Candidates], aim: float) -> list[np.ndarray]:
    """Return for each class the positions of the cheapest nodes at the prices of some budgets, and of the coarsest node."""
    prices = [found.price for part in BUDGETS if (found := relaxation(every, part * aim)) is not None]
    chosen = []
    for own in every:
        positions = [np.array([len(own.shares) - 1])]
        for price in prices:
            # Of nodes that cost the same, those with the least share.
            cost = own.losses + price * own.shares
            positions.append(np.lexsort((own.shares, cost))[:NEAR])
        chosen.append(np.unique(np.concatenate(positions)))
    return chosen


def _measured(question: _Question, levels: ClassLevels, stream_key: bytes) -> tuple[float, float]:
    """Measure the recoded data; return the larger share of the readings, and its upper bound."""
    computation = question.computation
    made = NodeComputation(
        recoded(computation.data, computation.dimensions, levels),
        computation.dimensions,
        computation.k,
        only_at=levels.member_node,
        extract=computation.extract,
    )
    if question.adversary is None:
        found = made.measure(levels.member_node, stream_key, question.draws, executor=question.executor)
        return found.share, question.upper_bound(found.flagged, found.draws)
    readings = both_readings(made, levels.member_node, question.adversary, stream_key, question.draws, question.executor)
    return max(readings.fixed.share, readings.literal.share), readings.upper_bound(question.confidence)


def _class_levels(computation: NodeComputation, node: Node, codes: np.ndarray, chosen: dict[int, Node]) -> ClassLevels:
    """Return the levels of all classes: the chosen ones, and the coarsest of classes that nobody in the release has."""
    axes = claim_level(computation.dimensions)
    coarsest = tuple(top_node(computation.dimensions)[axis] for axis in axes)
    levels = [at_levels(node, axes, chosen.get(number, coarsest)) for number in range(len(codes))]
    return ClassLevels(node, codes, np.array(levels, dtype=np.int32).reshape(len(codes), len(node)))


def _certificate(
    question: _Question,
    node: Node,
    classes: ReleasedClasses,
    codes: np.ndarray,
    nodes: Sequence[Sequence[Node]],
    estimated: Sequence[Candidates],
    choice: Sequence[int],
    member_loss: float,
    budget: float,
) -> ClassCertificate:
    own = [question.computation.dimensions[axis] for axis in claim_level(question.computation.dimensions)]
    listed = tuple(
        ChoiceOfClass(
            tuple(int(code) for code in codes[number]),
            tuple(
                ClassCandidate(at, float(share), float(loss))
                for at, share, loss in zip(nodes[number], candidates.shares, candidates.losses, strict=True)
            ),
            chosen,
            int(classes.sizes[number]),
        )
        for number, candidates, chosen in zip(classes.released, estimated, choice, strict=True)
    )
    return ClassCertificate(
        dimensions=tuple(dimension.name for dimension in own),
        heights=tuple(dimension.levels - 1 for dimension in own),
        member_node=node,
        budget=budget,
        classes=listed,
        member_loss=member_loss,
        untold_loss=0.0,
        most_loss=question.loss(top_node(question.computation.dimensions)),
        loss=0.0,
        bound=0.0,
    ).with_bound()


def _flat(shares: np.ndarray, losses: np.ndarray) -> Candidates:
    return Candidates(shares.ravel(), losses.ravel())
