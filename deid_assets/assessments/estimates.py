"""Success of a simulated attack as a measurement, which is a gate if the policy sets one."""

from deid_assets.assessments.evidence import Measurement
from deid_assets.methods.attacks.neighbor_attack import Estimate
from deid_assets.policy.sections.longitudinal import AttackGate


def estimated_success(
    name: str,
    found: Estimate,
    gate: AttackGate | None,
    trials: int,
    *,
    confidence: float,
    method: str,
    section: str,
    commitment: str,
) -> Measurement:
    """Return the estimate with its upper bound.

    Parameters
    ----------
    gate
        Threshold of the policy, and whether the bound or the estimate is compared with it; None if it is only reported.
    trials
        Number of simulated attacks.
    confidence
        Confidence of the bound.
    """
    return Measurement(
        name=name,
        unit="probability",
        value=found.value,
        bound=found.high,
        threshold=gate.at_most if gate else None,
        comparison="at_most",
        statistic="upper_bound" if gate is None or gate.statistic == "upper_bound" else "value",
        confidence=confidence,
        method=method,
        section=section,
        sample_size=trials,
        seed_commitment=commitment,
        gating=gate is not None,
    )
