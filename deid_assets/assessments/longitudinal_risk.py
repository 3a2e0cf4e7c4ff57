"""The share of simulated adversaries who find a class of too few members of the population (methods#node-risk)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from deid_assets.assessments import kernel_input
from deid_assets.assessments.assessment import HERITAGE, Adversary, Assessed, Assessment, Gate, Limit, Work
from deid_assets.assessments.evidence import Estimated, Measurement, Method
from deid_assets.assessments.kernel_input import CANDIDATE
from deid_assets.cluster.executors import search_executor
from deid_assets.methods.adversary.two_readings import Adversary as Power
from deid_assets.methods.adversary.two_readings import both_readings
from deid_assets.methods.attacks.neighbor_attack import (
    SAFE_HARBOR_UNIQUE,
    expected_reidentified_share,
    max_sup_like_safe_harbor,
    risk_exposure,
)
from deid_assets.methods.canaries.checks import flags_of_canaries
from deid_assets.methods.kernel.node_computation import NodeComputation, NodeMeasurement
from deid_assets.methods.population.longitudinal_data import EVERYTHING
from deid_assets.methods.statistics.confidence import clopper_pearson_upper_bound, confidence_of_try
from deid_assets.policy.models import Policy

NAME = "longitudinal_risk"
FIXED, LITERAL = "high_risk_share", "high_risk_share_literal"
EVERYTHING_KNOWN = "everything_known_high_risk_share"
EVERYTHING_KNOWN_LITERAL = "everything_known_high_risk_share_literal"
WITH_SUPPRESSED = "high_risk_share_with_suppressed_members"
EXPECTED, EXPOSURE, LIKE_SAFE_HARBOR = "expected_reidentified", "risk_exposure", "max_sup_like_safe_harbor"


def assess(work: Work[Policy]) -> Assessed:
    """Evidence: share of simulated adversaries who find a class of too few members of the population.

    If classes are those of the release, they are counted among the published members; the share with suppressed members
    counted is reported too. Two numbers follow from the share: the exposure, computed as for Safe Harbor, and the expected
    share of members who are re-identified. Where the policy's adversary knows less than everything, the share from one who
    knows it is measured on the same draws.
    """
    policy, tables = work.policy, work.tables
    profiles, chosen = tables["member_profiles"], tables["chosen_generalization"]
    node = kernel_input.chosen_node(policy, chosen)
    tried = work.history.try_at(kernel_input.chosen_levels(policy, chosen))
    key, draws = work.stream_key("assessment", tried.number), policy.risk.gate.draws
    computation = kernel_input.node_computation(policy, kernel_input.PopulationTables.coded(tables), node)
    keep = kernel_input.kept_targets(profiles, tables["suppressed_members"])
    with search_executor() as executor:
        adversary = kernel_input.adversary_of(policy, profiles).of(keep)
        computation = computation.on(executor)
        shares = judged_shares(policy, Judged(computation.keeping(keep), node, adversary), key, tried.number, work.commitment)
        everyone = None
        if computation.extract:
            everyone = computation.keeping(keep, suppressed_count=True).measure(node, key, draws)
    canaries = flags_of_canaries(
        computation.data,
        computation.generalization(node),
        computation.k,
        work.stream_key("canaries of longitudinal risk"),
    )
    measured = (
        *shares,
        *exposure_measurements(policy, [found for found in shares if found.name in (FIXED, LITERAL)]),
        *([counted_with_suppressed(everyone, work.commitment)] if everyone else []),
    )
    return Assessed(measured, canaries, tried)


@dataclass(frozen=True, eq=False)
class Judged:
    """What is judged by draws: the node of a computation, and what is needed to recompute the adversary's power there."""

    computation: NodeComputation
    node: Sequence[int]
    adversary: Power


def judged_shares(policy: Policy, judged: Judged, key: bytes, number: int, commitment: str) -> tuple[Measurement, ...]:
    """Measure the share of draws at high risk in both readings; where less is assumed, also from who knows everything.

    Parameters
    ----------
    key
        16 bytes, the key of the stream.
    number
        That of the try.
    commitment
        Commitment to the seed of the stream.

    Returns
    -------
    tuple of Measurement
        `high_risk_measurements`; those of an adversary who knows everything are of the same draws.
    """
    computation, node, adversary, draws = judged.computation, judged.node, judged.adversary, policy.risk.gate.draws
    readings = both_readings(computation, node, adversary, key, draws)
    found = high_risk_measurements(policy, readings.fixed, readings.literal, commitment, number)
    if not policy.adversary.knows_less:
        return found
    everything = both_readings(computation.known_as(EVERYTHING), node, adversary, key, draws)
    shares = {EVERYTHING_KNOWN: everything.fixed, EVERYTHING_KNOWN_LITERAL: everything.literal}
    return found + _shares(policy, shares, policy.adversary.everything_known_at_most, commitment, number)


def high_risk_measurements(
    policy: Policy, fixed: NodeMeasurement, literal: NodeMeasurement, commitment: str, number: int
) -> tuple[Measurement, ...]:
    """The share of draws at high risk, in both readings of methods#node-risk; both are gates, so the larger one decides.

    `number` is that of the try.
    """
    return _shares(policy, {FIXED: fixed, LITERAL: literal}, policy.risk.max_high_risk_share, commitment, number)


def _shares(
    policy: Policy, measured: Mapping[str, NodeMeasurement], limit: float | None, commitment: str, number: int
) -> tuple[Measurement, ...]:
    gate = policy.risk.gate
    confidence = confidence_of_try(gate.confidence, number)
    section = "methods#node-risk; El Emam et al. 2012, Multimedia Appendix 1, section 5"
    method = Method("node_computation", section, commitment)
    return tuple(
        method.estimated(
            name, "share of draws",
            Estimated(
                found.share, clopper_pearson_upper_bound(found.flagged, found.draws, confidence), confidence, found.draws
            ),
            limit, "upper_bound" if gate.statistic == "upper_bound" else "value",
        )
        for name, found in measured.items()
    )  # fmt: skip


def counted_with_suppressed(measured: NodeMeasurement, commitment: str) -> Measurement:
    """The share at high risk if suppressed members counted in the classes of an extract, where they cannot be found."""
    method = Method("node_computation", "methods#node-risk", commitment)
    return method.at_most(WITH_SUPPRESSED, "share of draws", measured.share, size=measured.draws)


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
    section = "methods#exposure; El Emam et al. 2012"
    tau, worst = policy.risk.threshold, max(at_high_risk, key=lambda found: (found.bound, found.value))

    def from_share(name: str, of: Callable[[float, float], float], beside: float | None) -> Measurement:
        value, bound = (None if share is None else of(share, tau) for share in (worst.value, worst.bound))
        return replace(
            worst, name=name, unit="probability", value=value, bound=bound, threshold=beside,
            statistic="upper_bound", method=of.__name__, section=section, gating=False,
        )  # fmt: skip

    like_safe_harbor = Method(LIKE_SAFE_HARBOR, section).at_least(
        LIKE_SAFE_HARBOR, "share of draws", max_sup_like_safe_harbor(SAFE_HARBOR_UNIQUE, tau), policy.risk.max_high_risk_share
    )
    return (
        from_share(EXPECTED, expected_reidentified_share, None),
        from_share(EXPOSURE, risk_exposure, risk_exposure(SAFE_HARBOR_UNIQUE, 1)),
        like_safe_harbor.ungated,
    )


def max_sup(policy: Policy) -> Limit:
    """The limit of a share at high risk."""
    return Limit(policy.risk.max_high_risk_share, policy.risk.gate.confidence)


def everything_known(policy: Policy) -> Limit | None:
    """The limit of the share at high risk from an adversary who knows everything, where the policy's knows less."""
    limit = policy.adversary.everything_known_at_most
    return None if limit is None else Limit(limit, policy.risk.gate.confidence)


def knows_less(policy: Policy) -> bool:
    """Whether the policy's adversary knows less than everything."""
    return policy.adversary.knows_less


LONGITUDINAL_RISK = Assessment(
    NAME,
    adversary=Adversary(
        "A nosey neighbor who knows all demographics of one person and some values of each claim-level quasi-identifier, and "
        "looks for them in the release.",
        "Acquaintances know age, sex and some visits of a person; nobody needs access to another database for that.",
        f"{HERITAGE}: accepts a probability of re-identification of .05, and a share of members above it (MaxSup) of .008, "
        "which exposes as much as Safe Harbor does",
    ),
    version="6",
    policy_sections=("risk", "adversary"),
    inputs=(
        *kernel_input.CODED_POPULATION, "chosen_generalization",
        "suppressed_members", *CANDIDATE,
    ),
    measure=assess,
    draws="judged",
    gates=(
        Gate(
            FIXED,
            "high_risk_share_within_threshold",
            "At most MaxSup of the simulated adversaries find a class of fewer than k members of the population.",
            "Share at high risk: how often what a neighbor may know about a member matches too few members of the population.",
            max_sup,
        ),
        Gate(
            LITERAL,
            "literal_high_risk_share_within_threshold",
            "At most MaxSup of the simulated adversaries find a small class, with power and exemption computed literally as in "
            "the appendix, on the generalized data.",
            "The share at high risk, with exemptions and adversary power computed from the generalized data.",
            max_sup,
        ),
        Gate(
            EVERYTHING_KNOWN,
            "everything_known_high_risk_share_within_threshold",
            "At most the stated share of adversaries who know everything that their power allows, of every table at once, find "
            "a class of fewer than k members of the population.",
            "Share at high risk from somebody who knows all tables at once, and every value that the power allows: the policy "
            "judges its releases by an adversary who knows less.",
            everything_known,
            applies=knows_less,
        ),
        Gate(
            EVERYTHING_KNOWN_LITERAL,
            "everything_known_literal_high_risk_share_within_threshold",
            "The same, with power and exemption computed literally as in the appendix, on the generalized data.",
            "The share at high risk from somebody who knows everything, with exemptions and adversary power computed from the "
            "generalized data.",
            everything_known,
            applies=knows_less,
        ),
    ),
)  # fmt: skip
