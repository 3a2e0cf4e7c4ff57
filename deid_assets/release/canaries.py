"""Planted truths as evidence: an attack that does not find them all is refused, whatever risk it reports."""

from deid_assets.methods.canaries import Findings
from deid_assets.release.evidence import Measurement, Requirement

CANARIES = "canaries_found"
WITH_CANARIES = ("longitudinal_risk", "neighbor_attack", "attack_sensitivity")
"""Assessments whose evidence must hold this measurement."""


def canaries_required() -> tuple[Requirement, ...]:
    """The gating measurement of every attack that plants canaries."""
    return tuple(Requirement(asset, CANARIES, 1.0) for asset in WITH_CANARIES)


def canaries_measurement(found: Findings, commitment: str) -> Measurement:
    """The share of attacks on canaries that ended as they must; all of them have to."""
    return Measurement(
        name=CANARIES,
        unit="ratio",
        value=found.share,
        bound=None,
        threshold=1.0,
        comparison="at_least",
        statistic="value",
        confidence=None,
        method="canaries",
        section="methods.md 0, 4",
        sample_size=found.draws,
        seed_commitment=commitment,
        gating=True,
    )
