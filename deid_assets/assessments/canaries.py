"""Planted truths as evidence: an attack that does not find all of them is refused, whatever risk it reports."""

from deid_assets.assessments.evidence import Measurement, exact
from deid_assets.methods.canaries.planting import Findings

CANARIES = "canaries_found"


def canaries_measurement(found: Findings, commitment: str | None = None) -> Measurement:
    """The share of attacks on canaries with the required outcome; all must have it.

    Parameters
    ----------
    commitment
        Commitment to the stream that attacks were drawn from; None if nothing was drawn.
    """
    return exact(
        CANARIES, "ratio", found.share, 1.0, "canaries", "methods#canaries", found.draws,
        comparison="at_least", seed_commitment=commitment,
    )  # fmt: skip
