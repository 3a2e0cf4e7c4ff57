"""Measure the chosen node as the appendix literally specifies (methods#node-risk).

The steps are 2 and 4.b.i.2 in section 5 of Multimedia Appendix 1 to El Emam et al. 2012.

The search computes the adversary's power before generalization and decides exemptions once, so that its flags are monotone
on the lattice. The appendix computes the power on the generalized data and decides the exemption at the node itself. Both are
measured on the chosen node, and the larger share gates.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from deid_assets.methods.adversary.adversary_power import Rounding, power_of, value_pairs
from deid_assets.methods.kernel.node_computation import NodeComputation, NodeMeasurement
from deid_assets.methods.population.longitudinal_data import generalization_at
from deid_assets.methods.statistics.confidence import clopper_pearson_upper_bound


@dataclass(frozen=True)
class Adversary:
    """What is needed to recompute the power.

    Attributes
    ----------
    claims
        (n,) claims of each released member before the long tail is truncated, in the order of the targets.
    power, rounding
        p_m, and the rounding of the formula.
    events
        For each claim-level quasi-identifier, the (n,) events of its table; empty where there are claims only.
    """

    claims: np.ndarray
    power: int
    rounding: Rounding
    events: tuple[np.ndarray, ...] = ()

    def of(self, keep: np.ndarray) -> "Adversary":
        """Return the adversary for the targets selected by a (n,) bool mask."""
        return Adversary(self.claims[keep], self.power, self.rounding, tuple(one[keep] for one in self.events))

    def knowing(self, columns: Sequence[int]) -> "Adversary":
        """Return the adversary who knows only these claim-level quasi-identifiers, given by position."""
        return replace(self, events=tuple(self.events[column] for column in columns) if self.events else ())


@dataclass(frozen=True, eq=False)
class BothReadings:
    """The high-risk share with power and exemption fixed for the search, and as the appendix literally specifies."""

    fixed: NodeMeasurement
    literal: NodeMeasurement

    @property
    def share(self) -> float:
        """The larger of the two shares."""
        return max(self.fixed.share, self.literal.share)

    def upper_bound(self, confidence: float) -> float:
        """Return the larger of the two upper bounds (Clopper-Pearson)."""
        return max(clopper_pearson_upper_bound(found.flagged, found.draws, confidence) for found in (self.fixed, self.literal))

    def hold(self, max_high_risk_share: float, confidence: float, aim: float) -> bool:
        """Whether the larger bound is within MaxSup and the larger share within `aim` of it, so that fresh draws pass too."""
        return self.share <= aim * max_high_risk_share and self.upper_bound(confidence) <= max_high_risk_share


def literal_power(computation: NodeComputation, node: Sequence[int], adversary: Adversary) -> tuple[np.ndarray, ...]:
    """Recompute p_ih from the values generalized at the node; one (n,) int8 array per claim-level quasi-identifier."""
    data = computation.data
    levels = generalization_at(data, computation.dimensions, node).histories
    powers = []
    every = adversary.events or (adversary.claims,) * len(data.known)
    for known, domain, level, events in zip(data.known, data.history_domains, levels, every, strict=True):
        pairs = value_pairs(known.offsets, domain.levels[level][known.codes])
        powers.append(power_of(events, pairs, adversary.power, adversary.rounding))
    return tuple(powers)


def both_readings(
    computation: NodeComputation,
    node: Sequence[int],
    adversary: Adversary,
    stream_key: bytes,
    draws: int,
) -> BothReadings:
    """Measure a node under both readings, on the same stream.

    Parameters
    ----------
    stream_key
        16 bytes, the key of a stream used to choose neither the node nor members.
    draws
        Number of draws, fixed in advance so that the bounds hold.
    """
    fixed = computation.measure(node, stream_key, draws)
    literal = computation.with_power(literal_power(computation, node, adversary)).measure(
        node, stream_key, draws, exemption="literal"
    )
    return BothReadings(fixed, literal)
