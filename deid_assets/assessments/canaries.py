"""Planted truths as evidence: an attack that does not find all of them is refused, whatever risk it reports."""

from collections.abc import Iterable

from deid_assets.assessments.evidence import Measurement, Requirement
from deid_assets.methods.canaries.planting import Findings
from deid_assets.stages import FLAT_STAGES, STAGES

CANARIES = "canaries_found"
WITH_CANARIES = STAGES["assessment"]
FLAT_WITH_CANARIES = FLAT_STAGES["assessment"]
"""Assessments whose evidence must contain this measurement: all of a family."""


def canaries_required(assets: Iterable[str] = WITH_CANARIES) -> tuple[Requirement, ...]:
    """The gating measurement of every assessment."""
    return tuple(Requirement(asset, CANARIES, 1.0) for asset in assets)


def canaries_measurement(found: Findings, commitment: str | None = None) -> Measurement:
    """The share of attacks on canaries with the required outcome; all must have it.

    Parameters
    ----------
    commitment
        Commitment to the stream that attacks were drawn from; None if nothing was drawn.
    """
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
        section="methods#canaries",
        sample_size=found.draws,
        seed_commitment=commitment,
        gating=True,
    )
