"""Lower bounds on the risk of every generalization of a policy, computed before the search from sizes and a quick sample.

A class of the coarsest node contains whole classes of every other node, so a risk measured there is the least possible for the
same adversaries. Members may also be suppressed: without a share s of them, a mean v of numbers from 0 to 1 is at least
(v - s) / (1 - s), as if the suppressed members had the largest values. A bound above its limit rules out a release. A bound
below it proves nothing, because finer nodes are no better, and not all gates are considered here.

Draws are from a separate stream and judge no node.
"""

from dataclasses import dataclass

import numpy as np

from deid_assets.methods.disclosure.absence import NO_BOUND, AbsenceByClass, absence_posterior
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.candidate_gates import ATTACK, DEMOGRAPHICS, FACTOR, OtherGates
from deid_assets.methods.lattice.choice import HIGH_RISK
from deid_assets.methods.population.longitudinal_data import top_node
from deid_assets.methods.statistics.confidence import clopper_pearson_interval, empirical_bernstein_upper_bound

ABSENCE = "what absence discloses"
GATES = (HIGH_RISK, DEMOGRAPHICS, ATTACK, FACTOR, ABSENCE)
ERROR = 0.001
"""Probability that a bound from draws is too high, for each bound."""
DRAWS, NEIGHBORS = 131_072, 16_384


@dataclass(frozen=True)
class Reach:
    """The best achievable value of a gate's measure.

    Attributes
    ----------
    gate
        One of `GATES`.
    measured
        Value at the coarsest node, with nobody suppressed.
    least
        Lower bound for every node and every suppression; if not `proven`, it may be too high with probability `ERROR`.
    limit
        The policy's threshold.
    proven
        Whether members were counted; otherwise the bound is estimated from draws.
    """

    gate: str
    measured: float
    least: float
    limit: float
    proven: bool

    @property
    def ruled_out(self) -> bool:
        """Whether the gate fails at every node."""
        return self.least > self.limit


def least_without(total: float, members: int, left_out: int) -> float:
    """Return the smallest mean of numbers from 0 to 1 after some of them are left out.

    Parameters
    ----------
    total
        Their sum.
    members, left_out
        Number of values, and number of them that may be left out.

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
    """Bound the share of draws at high risk, with one exemption for the whole lattice, so it never increases on the way up."""
    found = computation.measure(top_node(computation.dimensions), stream_key, draws)
    lower, _ = clopper_pearson_interval(found.flagged, draws, 1 - 2 * ERROR)
    members = len(computation.data.targets)
    return Reach(HIGH_RISK, found.share, least_without(lower * members, members, left_out), limit, proven=False)


def reach_of_demographics(gates: OtherGates, left_out: int) -> Reach:
    """Bound the share of members in small demographic classes, which are counted in the population."""
    members = len(gates.sampled)
    share = gates.small_class_share(top_node(gates.dimensions), np.zeros(members, dtype=bool))
    least = least_without(round(share * members), members, left_out)
    return Reach(DEMOGRAPHICS, share, least, gates.max_high_risk_share, proven=True)


def reach_of_attack(gates: OtherGates, stream_key: bytes, left_out: int, limit: float) -> Reach:
    """Bound the success of a neighbor who knows that the target is in the release."""
    successes = gates.surest_successes(stream_key, NEIGHBORS)
    lower = max(0.0, 1 - empirical_bernstein_upper_bound(1 - successes, 1.0, 1 - ERROR))
    members = len(gates.sampled)
    return Reach(ATTACK, float(successes.mean()), least_without(lower * members, members, left_out), limit, proven=False)


def reach_of_factor(gates: OtherGates, left_out: int) -> Reach:
    """Bound the factor of absence, which is counted; the largest share released of any class is smallest at the coarsest node.

    Raises
    ------
    ValueError
        If absence has no gate on its factor.
    """
    if gates.absence is None:
        raise ValueError("absence is not judged")
    members, top = len(gates.sampled), top_node(gates.dimensions)
    found = gates.absent(top, np.zeros(members, dtype=bool))
    earlier = gates.absent(top, np.ones(members, dtype=bool)).released
    least = least_factor(found, earlier, left_out)
    return Reach(FACTOR, min(found.largest, NO_BOUND), min(least, NO_BOUND), gates.absence.factor_at_most, proven=True)


def least_factor(found: AbsenceByClass, earlier: np.ndarray, left_out: int) -> float:
    """Return the smallest largest factor after some members about to be released are left out.

    Parameters
    ----------
    found
        The members of each class, with nobody left out.
    earlier
        (c,) int64: members of each class whom earlier releases contain; they cannot be left out.
    left_out
        Number of members that may be left out.

    Examples
    --------
    >>> found = AbsenceByClass(np.array([10, 10]), np.array([5, 4]), np.array([0, 0]))
    >>> [round(least_factor(found, np.array([0, 0]), number), 4) for number in (0, 1, 3)]
    [2.0, 1.6667, 1.4286]
    >>> least_factor(found, np.array([5, 0]), 9)
    2.0
    """
    released = found.released.copy()
    for _ in range(left_out):
        now = AbsenceByClass(found.eligible, released, found.removed)
        if not len(released) or released[now.worst] <= earlier[now.worst]:
            break
        released[now.worst] -= 1
    return AbsenceByClass(found.eligible, released, found.removed).largest


def reach_of_absence(removed: int, eligible: int, released: int, left_out: int, limit: float) -> Reach:
    """Bound what absence discloses about a member's condition, at any node; it discloses less if more are left out.

    Parameters
    ----------
    removed, eligible
        Number of members removed because of their claims, and number of members that may be released.
    released
        Number of these that are released, now or before.

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
