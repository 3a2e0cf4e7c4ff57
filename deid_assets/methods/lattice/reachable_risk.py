"""What no generalization of a policy can be better than, seen before the search: from sizes and a quick sample of draws.

A class of the coarsest node holds whole classes of every other node, so that a risk measured there is the least there is,
for the same adversaries. Members may be left out besides: without a share s of them a mean v of numbers from 0 to 1 is at
least (v - s) / (1 - s), as if the members left out had carried the most. A bound above its limit rules a release out; one
below it says nothing, as finer nodes, and gates that are not looked at here, are not better.

What is drawn is drawn on a stream of its own, and judges no node.
"""

from dataclasses import dataclass

import numpy as np

from deid_assets.methods.disclosure.absence import absence_posterior
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.candidate_gates import ATTACK, DEMOGRAPHICS, OtherGates
from deid_assets.methods.lattice.choice import HIGH_RISK
from deid_assets.methods.population.longitudinal_data import top_node
from deid_assets.methods.statistics.confidence import clopper_pearson_interval, empirical_bernstein_upper_bound

ABSENCE = "what absence tells"
GATES = (HIGH_RISK, DEMOGRAPHICS, ATTACK, ABSENCE)
ERROR = 0.001
"""Probability that a bound from draws is too high, for each of them."""
DRAWS, NEIGHBORS = 131_072, 16_384


@dataclass(frozen=True)
class Reach:
    """How good a gate's number can become.

    Attributes
    ----------
    gate
        One of `GATES`.
    measured
        At the coarsest node, with nobody left out.
    least
        No node has less, whoever is left out; where it is not `proven`, but for a probability of `ERROR`.
    limit
        The policy's threshold.
    proven
        Whether members were counted; else the bound is one of draws.
    """

    gate: str
    measured: float
    least: float
    limit: float
    proven: bool

    @property
    def ruled_out(self) -> bool:
        """Whether the gate holds at no node."""
        return self.least > self.limit


def least_without(total: float, members: int, left_out: int) -> float:
    """The least mean of what is left of numbers from 0 to 1.

    Parameters
    ----------
    total
        Their sum.
    members, left_out
        How many there are, and how many of them may be left out.

    Examples
    --------
    >>> least_without(30, 100, 0), round(least_without(30, 100, 20), 4), least_without(30, 100, 40)
    (0.3, 0.125, 0.0)
    """
    left = members - left_out
    return max(0.0, total - left_out) / left if left > 0 else 0.0


def reach_of_high_risk(
    computation: NodeComputation, stream_key: bytes, left_out: int, limit: float, draws: int = DRAWS
) -> Reach:
    """The share of draws at high risk, with knowledge exempted once for the whole lattice: it does not rise on the way up."""
    found = computation.measure(top_node(computation.dimensions), stream_key, draws)
    lower, _ = clopper_pearson_interval(found.flagged, draws, 1 - 2 * ERROR)
    members = len(computation.data.targets)
    return Reach(HIGH_RISK, found.share, least_without(lower * members, members, left_out), limit, proven=False)


def reach_of_demographics(gates: OtherGates, left_out: int) -> Reach:
    """The share of members in small demographic classes, which are counted in the population."""
    members = len(gates.sampled)
    share = gates.small_class_share(top_node(gates.dimensions), np.zeros(members, dtype=bool))
    least = least_without(round(share * members), members, left_out)
    return Reach(DEMOGRAPHICS, share, least, gates.max_share, proven=True)


def reach_of_attack(gates: OtherGates, stream_key: bytes, left_out: int, limit: float, draws: int = NEIGHBORS) -> Reach:
    """The success of a neighbour who knows that his target is in the release."""
    successes = gates.surest_successes(stream_key, draws)
    lower = max(0.0, 1 - empirical_bernstein_upper_bound(1 - successes, 1.0, 1 - ERROR))
    members = len(gates.sampled)
    return Reach(ATTACK, float(successes.mean()), least_without(lower * members, members, left_out), limit, proven=False)


def reach_of_absence(removed: int, eligible: int, released: int, left_out: int, limit: float) -> Reach:
    """What absence tells of a member's condition, whatever the node; it tells less where more are left out.

    Parameters
    ----------
    removed, eligible
        Members removed for what their claims tell, and members that may be released.
    released
        Those of them that are released, now or before.

    Examples
    --------
    >>> reach = reach_of_absence(removed=168, eligible=832, released=100, left_out=3, limit=0.15)
    >>> round(reach.measured, 4), round(reach.least, 4), reach.ruled_out
    (0.1867, 0.186, True)
    """
    share = removed / max(removed + eligible, 1)
    measured, least = (
        absence_posterior(share, min(1.0, max(0, found) / max(eligible, 1))) for found in (released, released - left_out)
    )
    return Reach(ABSENCE, measured, least, limit, proven=True)
