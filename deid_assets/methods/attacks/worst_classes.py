"""Shares at high risk by class and by member: what an average over all draws hides (methods#worst-classes).

The share at high risk is a mean over released members. Members of a small class, or with rare values, may be found far more
often. A class consists of the released members with the same released person-level values; f_c is the probability that a draw
about a member of class c is at high risk. The share of all draws is the mean of f_c, weighted by released members.

By class: a pilot stream fixes the number of draws of each class, and another stream judges once. Looking again until the bound
holds would break it: with f at the limit, twelve looks at doubling numbers of draws err with probability .074 instead of .01.

By member: those whom the first stream flags at all get more draws of a fresh stream, which estimate their own probability.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from deid_assets.methods.attacks.attack_sensitivity import confidence_of_each
from deid_assets.methods.attacks.neighbor_attack import success_given_membership
from deid_assets.methods.kernel.node_computation import Exemption, NodeComputation
from deid_assets.methods.population.longitudinal_data import Generalization
from deid_assets.methods.statistics.confidence import clopper_pearson_upper_bound, wilson_interval

POWER = 0.999
"""Probability with which a class passes whose share is as high as its pilot may understate it.

Near one: draws of the few classes near the limit cost little, and a release that is refused by chance costs much.
"""
PILOT_DRAWS = FEWEST_DRAWS = 8_192
MOST_DRAWS = 262_144
"""Draws of each class: of the pilot, and at least and at most of the judgement."""
UNEVEN = 8
"""Power does not quite grow with hits, which are whole: so many fewer are looked at again."""

NEIGHBORS = 4_096
"""Simulated neighbors of each class."""

FIRST_DRAWS, FRESH_DRAWS = 20, 200
"""Mean number of draws of each released member, and of those who were flagged then."""
MOSTLY = 0.5
"""A member is mostly at high risk above this probability of their own."""


def draws_for_power(truth: float, limit: float, confidence: float, power: float) -> float:
    """Return the fewest draws with which the upper bound of a share is within a limit with some probability.

    The upper bound is that of Clopper and Pearson. With s hits, n draws suffice if n is at least the (confidence)-quantile of
    the number of draws until hit s + 1 at the limit; s is the smallest number of hits that is not exceeded with the given
    probability.

    Parameters
    ----------
    truth, limit
        The share, and the limit of its bound.
    confidence
        Confidence of the bound.
    power
        The probability.

    Returns
    -------
    float
        A whole number; infinity if the share is not below the limit.

    Examples
    --------
    >>> draws_for_power(0.105, 0.15, confidence_of_each(0.99, 36), 0.9)
    1252.0
    >>> draws_for_power(0, 0.05, 0.99, 0.9), draws_for_power(0.05, 0.05, 0.99, 0.9)
    (90.0, inf)
    """
    if not (0 <= truth <= 1 and 0 < limit < 1 and 0 < confidence < 1 and 0 < power < 1):
        raise ValueError("a share, a limit, a confidence and a power lie between 0 and 1")
    if truth >= limit:
        return float("inf")

    def draws(hits: int) -> float:
        return float(scipy.stats.nbinom.isf(1 - confidence, hits + 1, limit)) + hits + 1

    def suffices(hits: int) -> bool:
        return bool(scipy.stats.binom.cdf(hits, draws(hits), truth) >= power)

    low, high = -1, 0
    while not suffices(high):
        low, high = high, 2 * high + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return draws(next(hits for hits in range(max(0, high - UNEVEN), high + 1) if suffices(hits)))


@dataclass(frozen=True, eq=False)
class MemberClasses:
    """The classes of released members.

    Attributes
    ----------
    of_target
        (n,) int64: the class of each released member.
    values
        (C, d) int64: the code of each person-level quasi-identifier of a class, at its released level.
    """

    of_target: np.ndarray
    values: np.ndarray

    def __len__(self) -> int:
        return len(self.values)


def classes_of_members(computation: NodeComputation, node: Sequence[int] | Generalization[int | None]) -> MemberClasses:
    """Return the classes of the released members at a node, ordered by their codes; one class without demographics."""
    data = computation.data
    levels = (node if isinstance(node, Generalization) else computation.generalization(node)).demographics
    own = data.demographics[data.targets]
    codes = np.zeros(own.shape, np.int64)
    for number, (domain, level) in enumerate(zip(data.demographic_domains, levels, strict=True)):
        if level is not None:
            codes[:, number] = domain.levels[level][own[:, number]]
    values, of_target = np.unique(codes, axis=0, return_inverse=True)
    return MemberClasses(of_target.reshape(-1), values)


def flagged_by_class(
    computation: NodeComputation,
    node: Sequence[int],
    classes: MemberClasses,
    draws: np.ndarray,
    stream_key: bytes,
    exemption: Exemption = "once",
) -> np.ndarray:
    """Return (C,) int64: the draws at high risk among those of each class.

    Parameters
    ----------
    draws
        (C,) number of draws of each class, about its members only.
    stream_key
        16 bytes. The classes share the stream: each bound holds whatever the others are.
    """
    return np.array(
        [
            computation.keeping(classes.of_target == number, suppressed_count=True)
            .measure(node, stream_key, int(own), exemption=exemption)
            .flagged
            for number, own in enumerate(draws)
        ],
        dtype=np.int64,
    )


def success_by_class(
    computation: NodeComputation, node: Sequence[int], classes: MemberClasses, draws: int, stream_key: bytes
) -> np.ndarray:
    """Return (C, draws) float: I / f of each simulated neighbor who knows a member of a class and that they are released.

    The average over classes, weighted by their members, is that of attack 1 given membership (El Emam et al. 2012).

    Parameters
    ----------
    computation
        Of the release as its own population: f counts released members.
    draws
        Of each class, about its members only; all released members may match.
    stream_key
        16 bytes. The classes share the stream: each bound holds whatever the others are.
    """
    computation.drawn_classes(node, stream_key, 1)  # builds the bit-sets once, for all classes
    found = (
        computation.keeping(classes.of_target == number, suppressed_count=True).drawn_classes(node, stream_key, draws)
        for number in range(len(classes))
    )
    return np.stack([success_given_membership(~one.exempt, one.sizes) for one in found])


@dataclass(frozen=True, eq=False)
class ClassShares:
    """Draws of each class, and those at high risk in the reading in which they are more; both (C,) int64."""

    draws: np.ndarray
    flagged: np.ndarray

    @property
    def shares(self) -> np.ndarray:
        """(C,) float: share of each class's draws at high risk."""
        return self.flagged / self.draws

    def bounds(self, confidence: float) -> np.ndarray:
        """Return (C,) float: upper bounds of Clopper and Pearson that hold for all classes together."""
        each = confidence_of_each(confidence, len(self.draws))
        counts = zip(self.flagged.tolist(), self.draws.tolist(), strict=True)
        return np.array([clopper_pearson_upper_bound(flagged, draws, each) for flagged, draws in counts])


class RiskByClass:
    """Measure the classes of a release in both readings of the appendix; of a class, the larger share counts.

    Parameters
    ----------
    computation, literal
        Of the released members, with the power of the search and with that of the generalized data (`two_readings`).
    node
        The released generalization.
    """

    def __init__(self, computation: NodeComputation, literal: NodeComputation, node: Sequence[int]):
        self.classes = classes_of_members(computation, node)
        self._node = node
        self._readings: tuple[tuple[NodeComputation, Exemption], ...] = ((computation, "once"), (literal, "literal"))

    def measured(self, draws: np.ndarray, stream_key: bytes) -> ClassShares:
        """Draw about each class as often as told, on one stream."""
        flagged = [
            flagged_by_class(computation, self._node, self.classes, draws, stream_key, exemption)
            for computation, exemption in self._readings
        ]
        return ClassShares(draws, np.maximum(*flagged))

    def measured_once(self, stream_key: bytes) -> ClassShares:
        """Draw about each class as often as a pilot does."""
        return self.measured(np.full(len(self.classes), PILOT_DRAWS), stream_key)

    def judged(self, pilot_key: bytes, stream_key: bytes, limit: float, confidence: float, room: float = 1) -> ClassShares:
        """Look once at each class, with as many draws as a pilot on another stream asks for.

        Parameters
        ----------
        pilot_key, stream_key
            16 bytes each.
        limit
            Of the share of each class.
        confidence
            Of all bounds together.
        room
            Part of the limit that the caller lets no share exceed: a class above it needs no draws for its bound.
        """
        return self.measured(_draws_of_classes(self.measured_once(pilot_key), limit, confidence, room), stream_key)


def _draws_of_classes(pilot: ClassShares, limit: float, confidence: float, room: float) -> np.ndarray:
    """Return (C,) int64: draws with which a class passes whose share is at the upper end of the pilot's interval.

    A class whose interval lies above what its share may be has the fewest: with any number of draws it is refused.
    """
    each = confidence_of_each(confidence, len(pilot.draws))
    counts = zip(pilot.flagged.tolist(), pilot.draws.tolist(), strict=True)
    intervals = [wilson_interval(flagged, draws, POWER) for flagged, draws in counts]
    most = room * limit
    needed = [0.0 if low > most else draws_for_power(min(high, most), limit, each, POWER) for low, high in intervals]
    return np.clip(needed, FEWEST_DRAWS, MOST_DRAWS).astype(np.int64)


@dataclass(frozen=True, eq=False)
class RiskByMember:
    """Each released member's own probability of being at high risk.

    Attributes
    ----------
    share
        (n,) float: on the fresh draws; 0 for members whom the first stream never flagged.
    flags
        (n,) int64: flagged draws of the first stream, on which `share` does not depend for those with flags.
    """

    share: np.ndarray
    flags: np.ndarray

    def above(self, share: float) -> tuple[float, float]:
        """Return the share of members whose own probability is above a number, and the share of all flags that they hold.

        Examples
        --------
        >>> RiskByMember(np.array([0.9, 0.2, 0, 0]), np.array([18, 4, 0, 0])).above(0.5)
        (0.25, 0.8181818181818182)
        """
        members, flags = self.share > share, int(self.flags.sum())
        return float(members.mean()), float(self.flags[members].sum() / flags) if flags else 0.0


def risk_by_member(computation: NodeComputation, node: Sequence[int], first: bytes, fresh: bytes) -> RiskByMember:
    """Estimate how often each released member is at high risk, in the reading of the search.

    Parameters
    ----------
    first, fresh
        16 bytes each: keys of the streams that find members and estimate their probability.

    Returns
    -------
    RiskByMember
        Draws are with replacement: a member has `FIRST_DRAWS` of the first stream, and `FRESH_DRAWS` of the other, on average.
    """
    members = len(computation.data.targets)
    flags = computation.flagged_targets(node, first, FIRST_DRAWS * members).flagged
    return RiskByMember(share_on_fresh_draws(computation, node, flags > 0, fresh), flags)


def share_on_fresh_draws(computation: NodeComputation, node: Sequence[int], found: np.ndarray, fresh: bytes) -> np.ndarray:
    """Return (n,) float: the probability of high risk of the released members found, about whom alone is drawn; else 0."""
    share = np.zeros(len(found))
    if found.any():
        few = computation.keeping(found, suppressed_count=True)
        again = few.flagged_targets(node, fresh, FRESH_DRAWS * int(found.sum()))
        share[found] = again.flagged / np.maximum(again.drawn, 1)
    return share
