"""Convert the findings of methods to the measurements that checks, gate, manifest and report read."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from deid_assets.assessments import disclosure
from deid_assets.assessments.attack_sensitivity import sensitivity_required
from deid_assets.assessments.canaries import FLAT_WITH_CANARIES, canaries_required
from deid_assets.assessments.estimates import estimated_success
from deid_assets.assessments.evidence import LEFT_OUT, Comparison, Measurement, Requirement
from deid_assets.assessments.membership_changes import changes_required
from deid_assets.methods.attacks.neighbor_attack import (
    SAFE_HARBOR_UNIQUE,
    MeanInterval,
    NeighborAttack,
    expected_reidentified_share,
    max_sup_like_safe_harbor,
    risk_exposure,
)
from deid_assets.methods.disclosure.absence import absence_posterior
from deid_assets.methods.disclosure.demographic_classes import DemographicRisk
from deid_assets.methods.kernel.node_computation import Measurement as NodeMeasurement
from deid_assets.methods.statistics.confidence import (
    clopper_pearson_upper_bound,
    confidence_of_try,
    empirical_bernstein_upper_bound,
)
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.models import Policy

FIXED, LITERAL = "high_risk_share", "high_risk_share_literal"
WITH_SUPPRESSED = "high_risk_share_with_suppressed_members"
EXPECTED, EXPOSURE, LIKE_SAFE_HARBOR = "expected_reidentified", "risk_exposure", "max_sup_like_safe_harbor"
UNCONDITIONAL, GIVEN_MEMBERSHIP = "neighbor_success", "neighbor_success_given_membership"
DEMOGRAPHIC = "demographic_high_risk_share"
NUMBERED = "number_of_claims_high_risk_share"
ABSENCE = "absence_posterior"
VOTER_LIST, INPATIENT = "voter_list_match", "inpatient_match"
SMALLEST_CLASS, SUPPRESSED, BEYOND = "smallest_class", "suppressed_share", "records_beyond_population"

MADE_OF_DRAWS = ("longitudinal_risk", "neighbor_attack", "attack_sensitivity")
"""Assessments whose gates use random draws: the number of the try decides how strict they are."""


def required_measurements(policy: Policy) -> tuple[Requirement, ...]:
    """The gating measurements that the policy requires, each with the policy's own threshold."""
    risk, attack = policy.risk, policy.neighbor_attack
    required = [
        Requirement("longitudinal_risk", FIXED, risk.max_high_risk_share, risk.gate.confidence),
        Requirement("longitudinal_risk", LITERAL, risk.max_high_risk_share, risk.gate.confidence),
        Requirement("demographic_risk", DEMOGRAPHIC, risk.max_high_risk_share),
        Requirement("demographic_risk", ABSENCE, policy.removal.absence_posterior_at_most),
        *changes_required(policy),
    ]
    if policy.number_of_claims is not None:
        required.append(Requirement("demographic_risk", NUMBERED, risk.max_high_risk_share))
    for name, gate in ((UNCONDITIONAL, attack.unconditional), (GIVEN_MEMBERSHIP, attack.given_membership)):
        if gate is not None:
            required.append(Requirement("neighbor_attack", name, gate.at_most, attack_confidence(policy)))
    for name, section in ((VOTER_LIST, "voter_list_attack"), (INPATIENT, "inpatient_attack")):
        at_most = getattr(policy, section).at_most
        if at_most is not None:
            required.append(Requirement(section, name, at_most))
    required += [*sensitivity_required(policy), *canaries_required(), *disclosure.required(policy)]
    return tuple(required)


def required_of_flat(policy: FlatPolicy) -> tuple[Requirement, ...]:
    """The gating measurements that the policy of a flat table requires, each with its threshold."""
    return (
        Requirement("record_risk", SMALLEST_CLASS, policy.risk.k),
        Requirement("record_risk", SUPPRESSED, policy.risk.max_suppressed),
        *([Requirement("record_risk", BEYOND, 0.0)] if policy.population else []),
        *canaries_required(FLAT_WITH_CANARIES),
        *disclosure.required_of_flat(policy),
    )


def flat_measurements(
    policy: FlatPolicy, smallest: int | None, suppressed: float, records: int, beyond: int | None
) -> tuple[Measurement, ...]:
    """The smallest class of a released record, and the share of suppressed records; both counted.

    Parameters
    ----------
    beyond
        Released records without room in the population; None if classes are counted in the release itself.
    """
    # The release's rows reveal its classes, but not those of a population. The number beyond it is 0, or a refusal.
    held = (
        () if beyond is None else (exact(BEYOND, "published records", beyond, 0.0, "class_sizes", "methods#flat-tables", None),)
    )
    unit = "published records" if policy.population is None else "members"
    return (
        *held,
        exact(
            SMALLEST_CLASS,
            unit,
            smallest,
            policy.risk.k,
            "class_sizes",
            "methods#flat-tables; Samarati 2001",
            None,
            comparison="at_least",
        ),
        exact(SUPPRESSED, LEFT_OUT, suppressed, policy.risk.max_suppressed, "class_sizes", "methods#flat-tables", records),
    )


def high_risk_measurements(
    policy: Policy, fixed: NodeMeasurement, literal: NodeMeasurement, commitment: str, number: int
) -> tuple[Measurement, ...]:
    """The share of draws at high risk, in both readings of methods#node-risk; both are gates, so the larger one decides.

    `number` is that of the try.
    """
    gate = policy.risk.gate
    confidence = confidence_of_try(gate.confidence, number)
    return tuple(
        Measurement(
            name=name,
            unit="share of draws",
            value=measured.share,
            bound=clopper_pearson_upper_bound(measured.flagged, measured.draws, confidence),
            threshold=policy.risk.max_high_risk_share,
            comparison="at_most",
            statistic="upper_bound" if gate.statistic == "upper_bound" else "value",
            confidence=confidence,
            method="node_computation",
            section="methods#node-risk; El Emam et al. 2012, Multimedia Appendix 1, section 5",
            sample_size=measured.draws,
            seed_commitment=commitment,
            gating=True,
        )
        for name, measured in ((FIXED, fixed), (LITERAL, literal))
    )


def counted_with_suppressed(measured: NodeMeasurement, commitment: str) -> Measurement:
    """The share at high risk if suppressed members counted in the classes of an extract, where they cannot be found."""
    return exact(
        WITH_SUPPRESSED, "share of draws", measured.share, None, "node_computation", "methods#node-risk", measured.draws,
        gating=False, seed_commitment=commitment,
    )  # fmt: skip


def exposure_measurements(policy: Policy, at_high_risk: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """Compare the share at high risk with Safe Harbor (methods#exposure); none of it is a gate.

    The exposure is that share times the probability that defines high risk; it is shown beside Safe Harbor's. The
    expected re-identifications are, at most, those at high risk with certainty and the others with that probability.
    The third number is the MaxSup whose exposure equals Safe Harbor's, beside the policy's own.

    Parameters
    ----------
    at_high_risk
        `high_risk_measurements`; the larger reading counts.
    """
    tau, worst = policy.risk.threshold, max(at_high_risk, key=lambda found: (found.bound, found.value))

    def from_share(name: str, of: Callable[[float, float], float], beside: float | None) -> Measurement:
        value, bound = (None if share is None else of(share, tau) for share in (worst.value, worst.bound))
        return replace(
            worst, name=name, unit="probability", value=value, bound=bound, threshold=beside,
            statistic="upper_bound", method=of.__name__, section="methods#exposure; El Emam et al. 2012", gating=False,
        )  # fmt: skip

    like_safe_harbor = max_sup_like_safe_harbor(SAFE_HARBOR_UNIQUE, tau)
    return (
        from_share(EXPECTED, expected_reidentified_share, None),
        from_share(EXPOSURE, risk_exposure, risk_exposure(SAFE_HARBOR_UNIQUE, 1)),
        exact(
            LIKE_SAFE_HARBOR, "share of draws", like_safe_harbor, policy.risk.max_high_risk_share, LIKE_SAFE_HARBOR,
            "methods#exposure; El Emam et al. 2012", None, comparison="at_least", gating=False,
        ),
    )  # fmt: skip


def neighbor_measurements(policy: Policy, attack: NeighborAttack, commitment: str, number: int) -> tuple[Measurement, ...]:
    """The success of simulated nosey neighbours, over all members and given that the target is in the release.

    `number` is that of the try for which `attack` has its bounds.
    """
    gates = policy.neighbor_attack

    measured = partial(
        estimated_success,
        trials=attack.trials,
        confidence=confidence_of_try(attack_confidence(policy), number),
        method="neighbor_attack",
        section="methods#attack-1; El Emam et al. 2012",
        commitment=commitment,
    )
    return (
        measured(UNCONDITIONAL, attack.unconditional, gates.unconditional),
        measured(GIVEN_MEMBERSHIP, attack.given_membership, gates.given_membership),
        measured("neighbor_success_literal", attack.literal, None),
    )


def attack_confidence(policy: Policy) -> float:
    """Confidence of attack 1's bounds over all tries: the highest that one of its gates requires."""
    gates = (policy.neighbor_attack.unconditional, policy.neighbor_attack.given_membership)
    return max((gate.confidence for gate in gates if gate is not None), default=0.99)


def demographic_measurements(
    policy: Policy, risk: DemographicRisk, sensitive_share: float, released_of_eligible: float
) -> tuple[Measurement, ...]:
    """What member-level columns alone disclose: small classes, counted exactly, and the meaning of absence.

    Parameters
    ----------
    risk
        Class sizes of the released members.
    sensitive_share
        Members removed because of what their claims reveal, over these and the eligible members.
    released_of_eligible
        Members released now or before, over eligible members.
    """
    limit = policy.risk.max_high_risk_share
    share = risk.share_below_k if risk.released else None
    absence = absence_posterior(sensitive_share, released_of_eligible)
    expected = expected_reidentified_share(limit, policy.risk.threshold)
    return (
        exact(
            DEMOGRAPHIC,
            "share of released members",
            share,
            limit,
            "demographic_risk",
            "methods#demographic-risk",
            risk.released,
        ),
        exact(
            "smallest_demographic_class",
            "members",
            risk.smallest,
            policy.demographics.class_size_at_least,
            "demographic_risk",
            "methods#demographic-risk",
            None,
            comparison="at_least",
            gating=False,
        ),
        exact(
            ABSENCE,
            "share of members",
            absence,
            policy.removal.absence_posterior_at_most,
            "absence",
            "methods#absence",
            None,
        ),
        exact(
            "expected_reidentified_share",
            "probability",
            expected,
            None,
            "neighbor_attack",
            "methods#exposure; El Emam et al. 2012",
            None,
            gating=False,
        ),
    )


def number_of_claims_measurements(policy: Policy, risk: DemographicRisk) -> tuple[Measurement, ...]:
    """What demographics and the number of claims disclose jointly; a gate if the policy lists the number.

    Parameters
    ----------
    risk
        Class sizes of the released members by demographics and bins of their number of claims.
    """
    gating = policy.number_of_claims is not None
    return (
        exact(
            NUMBERED,
            "share of members",
            risk.share_below_k if risk.released else None,
            policy.risk.max_high_risk_share if gating else None,
            "number_of_claims",
            "Anonymizing Health Data 2013, ch. 5",
            risk.released,
            gating=gating,
        ),
    )


def exact(
    name: str,
    unit: str,
    value: float | None,
    threshold: float | None,
    method: str,
    section: str,
    sample_size: int | None,
    *,
    comparison: Comparison = "at_most",
    gating: bool = True,
    seed_commitment: str | None = None,
) -> Measurement:
    """A measurement without a confidence bound: it was counted or computed, not estimated from draws."""
    return Measurement(
        name=name,
        unit=unit,
        value=value,
        bound=None,
        threshold=threshold,
        comparison=comparison,
        statistic="value",
        confidence=None,
        method=method,
        section=section,
        sample_size=sample_size,
        seed_commitment=seed_commitment,
        gating=gating,
    )


def mean_interval(confidence: float) -> MeanInterval:
    """Return a function that bounds a mean of values in [0, 1] on both sides (empirical Bernstein, each at `confidence`)."""

    def interval(values: np.ndarray) -> tuple[float, float]:
        high = min(1.0, empirical_bernstein_upper_bound(values, 1.0, confidence))
        low = max(0.0, 1.0 - empirical_bernstein_upper_bound(1.0 - values, 1.0, confidence))
        return low, high

    return interval
