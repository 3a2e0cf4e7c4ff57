"""The node that is published, and the members that are suppressed so that it may be (S3 section 5, "flagged for suppression").

Candidates of the search are tried from the least loss on: each is measured on fresh draws in both readings of the
appendix, and the first that holds is chosen. Only where none holds, and the policy allows it, members flagged on draws
of the suppression stream are left out, and what remains is measured on fresh draws again. Draws that chose a node or a
member never judge it: on the same draws nothing would be left to flag, on fresh ones .6 to 3 % are (methods.md 0).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from deid_assets.methods.literal_reading import Adversary, BothReadings, both_readings
from deid_assets.methods.node_computation import NodeComputation

StreamKeys = Callable[[str], bytes]
Node = tuple[int, ...]

DRAWS_A_MEMBER = 50
"""Draws of the suppression stream for each released member and round."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The chosen node.

    Attributes
    ----------
    readings
        Its shares on draws that chose neither it nor the members suppressed.
    suppressed
        (n,) bool over the released members.
    passed_over
        Nodes of less loss that did not hold on fresh draws.
    """

    node: Node
    readings: BothReadings
    suppressed: np.ndarray
    passed_over: tuple[Node, ...]


def choose_generalization(
    computation: NodeComputation,
    candidates: Sequence[Node],
    others: Sequence[tuple[Node, float]],
    adversary: Adversary,
    keys: StreamKeys,
    max_share: float,
    draws: int,
    confidence: float,
    suppress_at_most: float,
    executor: Executor | None = None,
) -> Choice | None:
    """Choose the node that loses least among those that hold on fresh draws.

    Parameters
    ----------
    candidates
        Candidates of the search, best first.
    others
        The other nodes with the lower bound of their share, best first; tried only with suppression.
    keys
        Gives the 16-byte key of a named stream.
    max_share
        MaxSup.
    draws, confidence
        Effort and confidence of the measurement, as the gate's.
    suppress_at_most
        Share of released members that may be suppressed; 0 for none.

    Returns
    -------
    Choice or None
        None when no node holds.
    """
    nobody = np.zeros(len(computation.data.targets), dtype=bool)
    passed_over: list[Node] = []
    for node in candidates:
        readings = both_readings(computation, node, adversary, keys("confirmation"), draws, executor)
        if readings.upper_bound(confidence) <= max_share:
            return Choice(node, readings, nobody, tuple(passed_over))
        passed_over.append(node)
    if suppress_at_most <= 0:
        return None
    reachable = [*candidates, *(node for node, lower in others if lower <= max_share + suppress_at_most)]
    for node in reachable:
        choice = suppress_flagged(
            computation, node, adversary, keys, max_share, draws, confidence, suppress_at_most, executor
        )
        if choice is not None:
            return Choice(choice.node, choice.readings, choice.suppressed, tuple(passed_over))
        passed_over.append(node)
    return None


def suppress_flagged(
    computation: NodeComputation,
    node: Node,
    adversary: Adversary,
    keys: StreamKeys,
    max_share: float,
    draws: int,
    confidence: float,
    at_most: float,
    executor: Executor | None = None,
    rounds: int = 8,
) -> Choice | None:
    """Suppress flagged members in rounds until the rest holds on fresh draws; None when `at_most` does not suffice.

    Suppressed members leave the release and not the population: they still count in every class.
    """
    members = len(computation.data.targets)
    budget = int(at_most * members)
    suppressed = np.zeros(members, dtype=bool)
    for round_number in range(rounds):
        kept = computation.keeping(~suppressed)
        readings = both_readings(
            kept, node, adversary.of(~suppressed), keys(f"confirmation {node} {round_number}"), draws, executor
        )
        if suppressed.any() and readings.upper_bound(confidence) <= max_share:
            return Choice(node, readings, suppressed, ())
        flags = kept.flagged_targets(
            node, keys(f"suppression {node} {round_number}"), DRAWS_A_MEMBER * members, executor=executor
        )
        rate = np.zeros(members)
        rate[~suppressed] = flags.flagged / np.maximum(flags.drawn, 1)
        room = budget - int(suppressed.sum())
        worst = np.argsort(-rate, kind="stable")[: max(room, 0)]
        # Half of what is allowed at a time: members who are rarely flagged may not need to go.
        chosen = [member for member in worst[: max(1, room // 2)] if rate[member] > 0]
        if room <= 0 or not chosen:
            return None
        suppressed[chosen] = True
    return None
