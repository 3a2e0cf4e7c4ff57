"""The node to be published, and the members that are suppressed to make it acceptable (methods#suppression).

Section 5 of Multimedia Appendix 1 calls the members "flagged for suppression".

Candidates of the search are tried in order of increasing loss. Each is measured on fresh draws in both readings of the
appendix, and the first that holds is chosen. Where none holds, or detail is preferred, members flagged on draws of the
suppression stream are suppressed, and the rest is measured again on fresh draws. Draws that chose a node or a member never
judge it: on the same draws nothing would be left to flag, on fresh draws .6 to 3 % are flagged (methods#suppression).

If the share of the worst class is limited too, a node that holds on average may fail for one class. Then members are
suppressed there, beginning with those whose own probability is highest: mostly above one half (methods#worst-classes).

Where more of a demographic class were drawn than its factor of absence allows, those in excess are suppressed at random.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from deid_assets.methods.adversary.two_readings import Adversary, BothReadings, both_readings, literal_power
from deid_assets.methods.attacks.worst_classes import (
    ClassShares,
    MemberClasses,
    RiskByClass,
    classes_of_members,
    share_on_fresh_draws,
)
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.candidate_gates import COARSER, FACTOR, OtherGates
from deid_assets.methods.lattice.predictive_tagging import Node, SparseTagging, below_or_equal
from deid_assets.methods.population.longitudinal_data import EVERYTHING

DRAWS_A_MEMBER = 25
"""Number of draws of the suppression stream for each sampled member and round."""


def members_to_suppress(drawn: np.ndarray, flagged: np.ndarray, goal: float, own: np.ndarray | None = None) -> np.ndarray:
    """Return the fewest members, most often flagged first, without whom the share of these draws is at most `goal`.

    Parameters
    ----------
    drawn, flagged
        (n,) number of draws of each member, and number of those that were flagged.
    own
        (n,) how often each member is flagged, by which they are ordered; None: in these draws.

    Returns
    -------
    np.ndarray
        Positions of the members, from most to least often flagged; empty if nobody must be suppressed.

    Examples
    --------
    >>> members_to_suppress(np.array([10, 10, 10]), np.array([1, 9, 0]), goal=0.1).tolist()
    [1]
    """
    order = np.argsort(-(flagged / np.maximum(drawn, 1) if own is None else own), kind="stable")
    left_drawn = drawn.sum() - np.concatenate([[0], np.cumsum(drawn[order])])
    left_flagged = flagged.sum() - np.concatenate([[0], np.cumsum(flagged[order])])
    return order[: int(np.flatnonzero(left_flagged <= goal * left_drawn)[0])]


def members_of_classes_to_suppress(
    drawn: np.ndarray, flagged: np.ndarray, goal: float, own: np.ndarray, class_of: np.ndarray, class_goals: np.ndarray
) -> np.ndarray:
    """Return the fewest members without whom every class is at its goal, and then the rest of them at the goal of all.

    Parameters
    ----------
    drawn, flagged, own
        As above. Draws that do not decide `own` say when to stop: on those that do, the rest looks better than it is.
    class_of
        (n,) class of each member.
    class_goals
        (C,) largest share of the draws of each class.

    Returns
    -------
    np.ndarray
        Ascending positions of the members.

    Examples
    --------
    Two classes of two members. One draw in five may be flagged, and one in ten of each class:

    >>> drawn, flagged = np.array([10, 10, 10, 10]), np.array([1, 9, 0, 2])
    >>> members_of_classes_to_suppress(
    ...     drawn, flagged, 0.2, flagged / drawn, np.array([0, 0, 1, 1]), np.array([0.1, 0.1])).tolist()
    [1]
    """
    chosen = np.zeros(len(drawn), dtype=bool)
    groups = [(np.flatnonzero(class_of == number), class_goal) for number, class_goal in enumerate(class_goals)]
    for members, class_goal in groups:
        chosen[members[members_to_suppress(drawn[members], flagged[members], class_goal, own[members])]] = True
    rest = np.flatnonzero(~chosen)
    chosen[rest[members_to_suppress(drawn[rest], flagged[rest], goal, own[rest])]] = True
    return np.flatnonzero(chosen)


def fewest_to_suppress(drawn: np.ndarray, flagged: np.ndarray, goal: float) -> int:
    """Return how many members have to go, whoever they are, before the share of these draws is at most `goal`.

    On the same draws it never increases on the way up the lattice, because no member is flagged more often at a coarser node.
    The members most often flagged (`members_to_suppress`) may be a few more.

    Parameters
    ----------
    drawn, flagged
        As above.

    Examples
    --------
    One draw in ten may be flagged. Without the first member, 5 of 40 are; without the second, 2 of 21:

    >>> fewest_to_suppress(np.array([1, 20, 20]), np.array([1, 4, 1]), goal=0.1)
    1
    >>> members_to_suppress(np.array([1, 20, 20]), np.array([1, 4, 1]), goal=0.1).tolist()
    [0, 1]
    """
    order = np.argsort(flagged - goal * drawn, kind="stable")  # the members that weigh least stay longest
    left_drawn, left_flagged = (np.concatenate([[0], np.cumsum(counts[order])])[::-1] for counts in (drawn, flagged))
    return int(np.flatnonzero(left_flagged <= goal * left_drawn)[0])


StreamKeys = Callable[[str], bytes]
Progress = Callable[[int, int, str], None]

HIGH_RISK = "share at high risk"
WORST_CLASS = "share at high risk of the worst class"

CLASS_AIM = 0.84
"""Part of the limit of a class at which members are chosen."""
CLASS_ROOM = 0.9
"""Part of it that a class must not exceed on fresh draws, so that the gate's bound does not refuse it by chance."""

PROSPECT_DRAWS = 65_536
"""Number of draws for sorting out nodes for which suppression is hopeless."""

QUICK_DRAWS = 100_000
"""Number of draws of measurements that only decide whether a full one is worthwhile."""

ROUNDS = 6

FURTHER_TRIES = 24
"""Number of nodes to try after the first that passes, if more than one is asked for: each try may take as long as the gate."""


@dataclass(frozen=True)
class WorstClass:
    """The class that adversaries find most often at a node that fails for its sake.

    Attributes
    ----------
    node
        The node at which it was measured.
    values
        The code of each person-level quasi-identifier of the class, at the node's level.
    share
        Share of the draws about it that are at high risk.
    """

    node: Node
    values: tuple[int, ...]
    share: float


@dataclass(frozen=True)
class Failed:
    """Why a node does not pass: the gate, and the worst class if it is the limit on that class."""

    gate: str
    worst_class: WorstClass | None = None


@dataclass(frozen=True, eq=False)
class Choice:
    """The chosen node.

    Attributes
    ----------
    readings
        Its shares on draws that chose neither the node nor the suppressed members.
    suppressed
        (n,) bool over the released members.
    """

    node: Node
    readings: BothReadings
    suppressed: np.ndarray


@dataclass(frozen=True)
class Demands:
    """Requirements on a chosen node.

    Attributes
    ----------
    max_high_risk_share
        MaxSup.
    draws, confidence
        Number of draws and confidence of the measurement, the same as for the gate.
    suppress_at_most
        Largest share of sampled members that may be suppressed; 0 for none.
    aim
        Fraction of MaxSup that a chosen node must not exceed, so that the gate's bound does not refuse it by chance.
    worst_class_at_most
        Limit of the share at high risk in each class; None for none. A candidate that fails it is tried again without the
        members who are found most often, if any may be suppressed.
    everything_known_at_most
        Limit of the share at high risk from an adversary who knows everything, where less is assumed; None for none.
    """

    max_high_risk_share: float
    draws: int
    confidence: float
    suppress_at_most: float
    aim: float
    worst_class_at_most: float | None = None
    everything_known_at_most: float | None = None

    @property
    def target(self) -> float:
        """The share that a chosen node must not exceed."""
        return self.aim * self.max_high_risk_share

    def held_by(self, readings: BothReadings) -> bool:
        """Whether both readings are within MaxSup, and low enough that the gate's bound does not refuse them by chance."""
        return readings.hold(self.max_high_risk_share, self.confidence, self.aim)


@dataclass(frozen=True, eq=False)
class Judge:
    """Judges nodes of one release: as whom, on which draws, and by which requirements.

    Attributes
    ----------
    keys
        Returns the 16-byte key of a named stream.
    other_gates
        Further requirements on a chosen node.
    progress
        Told of each node that is tried: how many were, how many can be, and what was found.
    """

    computation: NodeComputation
    adversary: Adversary
    keys: StreamKeys
    demands: Demands
    other_gates: OtherGates | None = None
    progress: Progress | None = None

    @property
    def members(self) -> int:
        """Number of released members."""
        return len(self.computation.data.targets)

    def keeping(self, keep: np.ndarray) -> "Judge":
        """The judge of the release of some of them, (n,) bool."""
        return replace(self, computation=self.computation.keeping(keep), adversary=self.adversary.of(keep))

    def readings(self, node: Node, stream: str, draws: int) -> BothReadings:
        """The share of a node at high risk on a named stream."""
        return both_readings(self.computation, node, self.adversary, self.keys(stream), draws)

    def confirmed(self, node: Node, which: str = "") -> BothReadings:
        """The share that counts, on draws that chose nothing."""
        return self.readings(node, f"confirmation{which}", self.demands.draws)

    def part_allowed(self, node: Node, readings: BothReadings, which: str = "") -> float | None:
        """Return which part of the share of confirmed readings is allowed; None if they hold.

        Where the adversary knows less than everything, those of who knows it have to hold, too. All of a share within the aim
        is allowed, though its bound is too high.
        """
        demands, limit = self.demands, self.demands.everything_known_at_most
        if not demands.held_by(readings):
            return demands.target / max(readings.share, demands.target)
        if limit is None:
            return None
        known = replace(self, computation=self.computation.known_as(EVERYTHING)).confirmed(node, which)
        if known.hold(limit, demands.confidence, demands.aim):
            return None
        return demands.aim * limit / max(known.share, demands.aim * limit)

    def by_class(self, node: Node, limit: float, which: str = "") -> tuple[ClassShares, np.ndarray]:
        """The share of each class on fresh draws, and whether it is so high that the gate may refuse it."""
        literal = self.computation.with_power(literal_power(self.computation, node, self.adversary))
        pilot, confirmation = (self.keys(f"{what} of classes{which}") for what in ("pilot", "confirmation"))
        confidence = self.demands.confidence
        found = RiskByClass(self.computation, literal, node).judged(pilot, confirmation, limit, confidence, CLASS_ROOM)
        return found, (found.bounds(confidence) > limit) | (found.shares > CLASS_ROOM * limit)


def choose_generalization(
    judge: Judge,
    candidates: Sequence[Node],
    with_suppression: Sequence[Node],
    prefer_detail: bool = False,
    most: int = 1,
) -> tuple[tuple[Choice, ...], dict[Node, str], WorstClass | None]:
    """Choose the node with the least loss among those that hold on fresh draws, and find others that hold.

    Others are not coarser than one that holds: they would say no more in any column. They hold in the way of the first, with
    everybody or without some, unless detail is preferred.

    Parameters
    ----------
    candidates
        Candidates of the search, best first.
    with_suppression
        The nodes to try with suppression if no candidate holds without, best first.
    prefer_detail
        Whether each node is tried both ways, with everybody if it is a candidate and then with suppression, before the next.
    most
        Number of nodes to find. For further ones, at most `FURTHER_TRIES` nodes are tried.

    Returns
    -------
    (tuple of Choice, dict of Node to str, WorstClass or None)
        The nodes that hold, best first; the other nodes looked at, each with the gate that it would fail, or `COARSER` if it
        was not tried because a finer one holds; and the worst class of the first of them that fails the limit on it.
    """
    demands, other_gates = judge.demands, judge.other_gates
    suppress_at_most, limit = demands.suppress_at_most, demands.worst_class_at_most
    nobody = np.zeros(judge.members, dtype=bool)
    passed_over: dict[Node, str] = {}
    worst_class: WorstClass | None = None
    everywhere = other_gates.failing_everywhere(suppress_at_most) if other_gates else None
    if everywhere is not None:
        return (), dict.fromkeys([*candidates, *with_suppression], everywhere), None
    judge = replace(judge, computation=judge.computation.for_search())

    def as_it_is(node: Node) -> Choice | Failed:
        gate = other_gates.failing(node, nobody) if other_gates else None
        if gate == FACTOR and suppress_at_most > 0:
            return rest_of(node)
        if gate is not None:
            return Failed(gate)
        readings = judge.confirmed(node)
        if judge.part_allowed(node, readings) is not None:
            return Failed(HIGH_RISK)
        if limit is None:
            return Choice(node, readings, nobody)
        by_class, high = judge.by_class(node, limit)
        if not high.any():
            return Choice(node, readings, nobody)
        worst = _failed_for(node, classes_of_members(judge.computation, node), by_class.shares)
        found = rest_of(node) if suppress_at_most > 0 else worst
        # On average the node holds with everybody: what fails without some of them fails for the worst class.
        return worst if found == Failed(HIGH_RISK) else found

    def failing_at_and_below(node: Node) -> Failed | None:
        gate = other_gates.failing_however_suppressed(node, suppress_at_most, and_below=True) if other_gates else None
        return _failing_however_suppressed(judge, node) if gate is None else Failed(gate)

    ruled_out = _RuledOut(with_suppression, failing_at_and_below)

    def without_flagged(node: Node) -> Choice | Failed:
        failed = ruled_out.why(node)
        if failed is not None:
            return failed
        gate = other_gates.failing_however_suppressed(node, suppress_at_most) if other_gates else None
        return rest_of(node) if gate is None else Failed(gate)

    @cache  # a candidate is tried again among the nodes without flagged members, on the same draws
    def rest_of(node: Node) -> Choice | Failed:
        found = suppress_flagged(judge, node, other_gates.in_excess(node, judge.keys("in excess")) if other_gates else nobody)
        if isinstance(found, Failed):
            return found
        gate = other_gates.failing(node, found[1]) if other_gates else None
        return Choice(node, *found) if gate is None else Failed(gate)

    tries = [(as_it_is, node) for node in candidates]
    tries += [(without_flagged, node) for node in with_suppression if suppress_at_most > 0]
    if prefer_detail:
        # The sort is stable: of a node, everybody is tried first.
        order = {node: place for place, node in enumerate(dict.fromkeys([*with_suppression, *candidates]))}
        tries.sort(key=lambda one: order[one[1]])
    holding: list[Choice] = []
    left = FURTHER_TRIES
    way_of_first = as_it_is
    for number, (way, node) in enumerate(tries, start=1):
        if holding:
            if any(one.node == node for one in holding) or (not prefer_detail and way is not way_of_first):
                continue
            if any(below_or_equal(one.node, node) for one in holding):
                passed_over.setdefault(node, COARSER)
                continue
            if left == 0:
                break
            left -= 1
        tried = way(node)
        if judge.progress is not None:
            found = tried.gate if isinstance(tried, Failed) else "holds"
            judge.progress(number, len(tries), f"node {node}: {found}")
        if isinstance(tried, Failed):
            passed_over[node] = tried.gate
            worst_class = worst_class or tried.worst_class
            continue
        way_of_first = way if not holding else way_of_first
        holding.append(tried)
        if len(holding) == most:
            break
    return tuple(holding), passed_over, worst_class


def suppress_flagged(judge: Judge, node: Node, in_excess: np.ndarray | None = None) -> tuple[BothReadings, np.ndarray] | Failed:
    """Suppress flagged members until the rest holds on fresh draws, unless as many as may be are not enough.

    Suppressed members leave the release but not the population: they still count in every class, unless classes are those of
    the release itself. In that case, the other members of their classes are at higher risk and are flagged in the next round.
    On the draws that chose them, the rest always looks better than it is. The target share on those draws is therefore
    lowered from round to round by what fresh draws show.

    If the share of each class is limited, members flagged at all are drawn more often, and those whose own probability is
    highest go first.

    Parameters
    ----------
    in_excess
        (n,) bool: members to suppress in any case, because their class has more than may be released; None for nobody.

    Returns
    -------
    (BothReadings, np.ndarray) or Failed
        The full measurement of the rest, and (n,) bool of the suppressed members. Otherwise what requires more of them: the
        average, if its goal alone does; else the worst class, if its goal does; else those in excess. After the last round,
        what the rest still failed.
    """
    computation, keys, demands = judge.computation, judge.keys, judge.demands
    members, limit = judge.members, demands.worst_class_at_most
    at_most = demands.suppress_at_most * members
    goal = target = demands.target
    drawn, flagged = np.zeros(members, dtype=np.int64), np.zeros(members, dtype=np.int64)
    asked, judged = np.arange(members), computation
    classes = classes_of_members(computation, node)
    class_goals = np.full(len(classes), CLASS_AIM * (limit or 0))
    for number in range(ROUNDS):
        failed = Failed(HIGH_RISK)
        flags = judged.flagged_targets(node, keys(f"suppression {number}"), DRAWS_A_MEMBER * len(asked))
        drawn[asked] += flags.drawn
        flagged[asked] += flags.flagged
        if limit is None:
            chosen = members_to_suppress(drawn, flagged, goal)
        else:
            own = np.zeros(members)
            own[asked] = share_on_fresh_draws(judged, node, flagged[asked] > 0, keys(f"suppression of classes {number}"))
            chosen = members_of_classes_to_suppress(drawn, flagged, goal, own, classes.of_target, class_goals)
        suppressed = np.zeros(members, dtype=bool) if in_excess is None else in_excess.copy()
        suppressed[chosen] = True
        if suppressed.sum() > at_most:
            if len(members_to_suppress(drawn, flagged, goal)) > at_most:
                return failed
            if len(chosen) <= at_most:
                return Failed(FACTOR)
            return _failed_for(
                node, classes, _shares_of_classes(classes, drawn, flagged), _to_suppress(classes, drawn, flagged, class_goals)
            )
        rest = judge.keeping(~suppressed)
        if computation.extract:
            asked, judged = np.flatnonzero(~suppressed), rest.computation
        quick = rest.readings(node, f"trial {number}", QUICK_DRAWS)
        part = target / max(quick.share, target)
        if quick.share <= target:
            full = rest.confirmed(node, f" {number}")
            allowed = rest.part_allowed(node, full, f" {number}")
            if allowed is None:
                if limit is None:
                    return full, suppressed
                by_class, high = rest.by_class(node, limit, f" {number}")
                if not high.any():
                    return full, suppressed
                left = np.unique(classes.of_target[~suppressed])[high]  # in the order of the classes of the rest
                failed = _failed_for(node, classes_of_members(rest.computation, node), by_class.shares)
                class_goals[left] *= np.minimum(0.9, CLASS_AIM * limit / by_class.shares[high])
                continue
            part = allowed
        goal *= min(0.9, part)
    return failed


def _failed_for(node: Node, classes: MemberClasses, shares: np.ndarray, needed: np.ndarray | None = None) -> Failed:
    """Fail for a class.

    Parameters
    ----------
    shares
        (C,) float: share of the draws of each class that were flagged. The class with the largest fails.
    needed
        (C,) int: how many members of each class have to go. If given, the class with most of them fails: it is why they are
        too many.
    """
    worst = int(np.argmax(shares if needed is None else needed))
    return Failed(WORST_CLASS, WorstClass(node, tuple(classes.values[worst].tolist()), float(shares[worst])))


def _shares_of_classes(classes: MemberClasses, drawn: np.ndarray, flagged: np.ndarray) -> np.ndarray:
    """Return (C,) float: share of the draws of each class that were flagged."""
    of_class = [np.bincount(classes.of_target, counts, len(classes)) for counts in (drawn, flagged)]
    return np.asarray(of_class[1] / np.maximum(of_class[0], 1))


def _to_suppress(classes: MemberClasses, drawn: np.ndarray, flagged: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Return (C,) int: the fewest members of each class without whom its share is at most its goal."""
    groups = [np.flatnonzero(classes.of_target == number) for number in range(len(classes))]
    return np.array([fewest_to_suppress(drawn[own], flagged[own], goal) for own, goal in zip(groups, goals, strict=True)])


_NONE = -1


class _RuledOut:
    """Nodes that fail because a coarser one fails, and does so for every finer node.

    Parameters
    ----------
    nodes
        The nodes to be asked for, best first.
    failing_at_and_below
        Returns why a node and every finer one fail; None if it does not fail in this way, nor any coarser one.
    """

    def __init__(self, nodes: Sequence[Node], failing_at_and_below: Callable[[Node], Failed | None]):
        self._nodes, self._failing = nodes, failing_at_and_below
        self._failed: list[Failed] = []

    def why(self, node: Node) -> Failed | None:
        """Return why the node fails; None if nothing rules it out."""
        place = self._places[node]
        if self._first_above[place] == _NONE:
            self._tagging.decide(node)
        first = self._first_above[place]
        return None if first == _NONE else self._failed[first]

    @cached_property
    def _places(self) -> dict[Node, int]:
        return {node: place for place, node in enumerate(self._nodes)}

    @cached_property
    def _levels(self) -> np.ndarray:
        return np.array(self._nodes)

    @cached_property
    def _first_above(self) -> np.ndarray:
        """(n,) int: for each node the number of the first failure that is its own or above it."""
        return np.full(len(self._nodes), _NONE)

    @cached_property
    def _tagging(self) -> SparseTagging:
        """Of the nodes that are not coarser than all those asked for; chains prefer nodes that are asked for early."""
        shape = (self._levels.max(axis=0) + 1).tolist()
        return SparseTagging(shape, lambda node: self._places.get(node, len(self._places)), self._passes)

    def _passes(self, node: Node) -> bool:
        failed = self._failing(node)
        if failed is not None:
            new = (self._levels <= np.array(node)).all(axis=1) & (self._first_above == _NONE)
            self._first_above[new] = len(self._failed)
            self._failed.append(failed)
        return failed is None


def _failing_however_suppressed(judge: Judge, node: Node) -> Failed | None:
    """Return why more members would have to go than may, whoever they are, even by draws that judge what they chose.

    The draws are those of the first round of `suppress_flagged`; of many members, few others are tried first, which favour the
    rest more than many draws do. On the same draws no member is flagged more often at a coarser node, and a class there
    consists of whole classes of every finer one. So what is too many here is too many at every finer node.
    """
    computation, demands, draws = judge.computation, judge.demands, DRAWS_A_MEMBER * judge.members
    most = demands.suppress_at_most * judge.members
    prospect = [("prospect", PROSPECT_DRAWS)] if draws > PROSPECT_DRAWS else []
    for stream, asked in (*prospect, ("suppression 0", draws)):
        flags = computation.flagged_targets(node, judge.keys(stream), asked)
        if fewest_to_suppress(flags.drawn, flags.flagged, demands.target) > most:
            return Failed(HIGH_RISK)
    if demands.worst_class_at_most is None:
        return None
    classes = classes_of_members(computation, node)
    goals = np.full(len(classes), CLASS_AIM * demands.worst_class_at_most)
    needed = _to_suppress(classes, flags.drawn, flags.flagged, goals)
    if needed.sum() > most:
        return _failed_for(node, classes, _shares_of_classes(classes, flags.drawn, flags.flagged), needed)
    return None
