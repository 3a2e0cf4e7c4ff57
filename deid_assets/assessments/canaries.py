"""Planted truths as evidence: an attack that does not find all of them is refused, whatever risk it reports."""

from deid_assets.assessments.evidence import Measurement
from deid_assets.methods.canaries.planting import Findings

CANARIES = "canaries_found"


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
