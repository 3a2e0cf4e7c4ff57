"""How well an adversary can infer whether a member of the delivery is in the release (delta-presence)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from deid_assets.assessments import kernel_input, planting
from deid_assets.assessments.assessment import OWNERS_DECIDE, Adversary, Assessed, Assessment, Gate, Work
from deid_assets.assessments.evidence import Estimated, Measurement, Method
from deid_assets.assessments.kernel_input import CANDIDATE
from deid_assets.figures.rendering import Published, ReportTable, written
from deid_assets.methods.canaries.checks import gains_of_canaries
from deid_assets.methods.canaries.planting import Findings
from deid_assets.methods.disclosure import membership
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.population.longitudinal_data import Dimension, LongitudinalData, generalization_at
from deid_assets.methods.statistics.confidence import empirical_bernstein_upper_bound
from deid_assets.policy.models import Policy

NAME = "membership_disclosure"
PRESENCE, ADVANTAGE, ADVANTAGE_CLAIMS = "greatest_presence", "membership_advantage", "membership_advantage_knowing_claims"
CONFIDENCE = 0.99
"""Confidence of the bound on the gain of an adversary who knows claims."""


def assess(work: Work[Policy]) -> Assessed:
    """Evidence: how well an adversary can infer whether a member of the delivery is in the release (delta-presence)."""
    policy, tables = work.policy, work.tables
    candidate, gains = kernel_input.Candidate.of(policy, tables), np.empty(0)
    sizes = kernel_input.demographic_sizes(candidate)
    canaries = presence_of_canaries(candidate, work.commitment)
    if policy.counts_population and sizes["released_size"].sum() < sizes["population_size"].sum():
        kept = kernel_input.kept_targets(tables["member_profiles"], tables["suppressed_members"])
        data = kernel_input.encoded_data(policy, kernel_input.PopulationTables.coded(tables)).keeping(kept)
        dimensions, node = (
            kernel_input.lattice_dimensions(policy),
            kernel_input.chosen_node(policy, tables["chosen_generalization"]),
        )
        gains = gains_knowing_claims(data, dimensions, node, work.stream_key("presence"), policy.membership.draws)
        canaries += gains_of_canaries(
            data, generalization_at(data, dimensions, node), work.stream_key("canaries of presence"),
            lambda planted, key, draws: gains_knowing_claims(planted, (), (), key, draws),
        )  # fmt: skip
    found, measured = measured_presence(policy, sizes, gains, work.commitment)
    low, middle, upper = found.percentiles
    shown = {"presence_5th_percentile": low, "presence_median": middle, "presence_95th_percentile": upper}
    return Assessed(measured, canaries, shown=shown)


def measured_presence(
    policy: Policy, sizes: Mapping[str, np.ndarray], gains: np.ndarray, commitment: str
) -> tuple[membership.Membership, tuple[Measurement, ...]]:
    """What `demographic_sizes` and the gains of adversaries who know claims disclose about who is in the release."""
    found = membership.membership(sizes["population_size"], sizes["released_size"])
    mean, high = (
        (float(gains.mean()), min(1.0, empirical_bernstein_upper_bound(gains, 1.0, CONFIDENCE))) if gains.size else (None, None)
    )
    return found, membership_measurements(policy, found, Estimated(mean, high, CONFIDENCE, int(gains.size)), commitment)


def gains_knowing_claims(
    data: LongitudinalData, dimensions: Sequence[Dimension], node: Sequence[int], key: bytes, draws: int
) -> np.ndarray:
    """(draws,) the gains of simulated adversaries who count, in delivery and release, the members matching their knowledge.

    Both counts use one stream: what is known about a member does not depend on who is counted.
    """
    levels = generalization_at(data, dimensions, node)
    released, everybody = (
        # Only whole classes are counted: with so large a k the index for "fewer than k" is left empty.
        NodeComputation(counted, (), k=counted.members + 1).drawn_classes(levels, key, draws).sizes
        for counted in (data.released_only(), data)
    )
    return membership.shortfalls(released, everybody, len(data.targets) / data.members)


def membership_measurements(
    policy: Policy, found: membership.Membership, knowing_claims: Estimated, commitment: str
) -> tuple[Measurement, ...]:
    """Greatest and least presence, and the gain of the best guess, from demographics alone and with claims.

    Parameters
    ----------
    knowing_claims
        The mean gain of simulated adversaries who know claims, with its upper bound.
    """
    limits = policy.membership
    method = Method("membership", "methods#membership-disclosure; Nergiz et al. 2007")
    # Without sizes, the public edition leaves presence out: the class is often the smallest one, whose size is shown already.
    return (
        method.at_most(PRESENCE, "share of members", found.greatest, limits.presence_at_most),
        method.at_most("least_presence", "share of members", found.least),
        method.at_most(ADVANTAGE, "probability", found.advantage, limits.advantage_at_most),
        replace(method, commitment=commitment).estimated(ADVANTAGE_CLAIMS, "probability", knowing_claims),
    )


def report_table(found: Published) -> ReportTable:
    """The report's table: how well somebody can infer who is in the release."""
    rows = (
        ("highest probability that a member is in the release, from demographics", PRESENCE),
        ("lowest probability that a member is in the release, from demographics", "least_presence"),
        ("advantage over a random guess, from demographics", ADVANTAGE),
        ("advantage over a random guess, from demographics and claims", ADVANTAGE_CLAIMS),
    )
    return ReportTable(
        "membership",
        "Who is in the release",
        "How well an adversary can infer whether a member of the delivery is in the release (membership disclosure). An "
        "advantage of 0 is a random guess, 100 % is certainty. It does not measure which record belongs to whom.",
        (("Inference", "name"), ("Measured", "number")),
        tuple((label, text) for label, name in rows if (text := written(found, name))),  # the public edition leaves some out
    )


def presence_of_canaries(like: kernel_input.Candidate, commitment: str) -> Findings:
    """Whether classes released entirely, or not at all, reveal with certainty who is in the release."""
    values = planting.own_values()
    groups = [planting.CanaryGroup({}, 3, 0)]
    for column in like.policy.member_columns:
        groups += [
            planting.CanaryGroup({column: next(values)}, people, released) for people, released in ((1, 1), (2, 2), (2, 0))
        ]
    with planting.planted_store() as file:
        sizes = kernel_input.demographic_sizes(planting.plant_members(file, like, planting.members_of(groups)))
    _, found = measured_presence(like.policy, sizes, np.empty(0), commitment)
    return planting.as_certain({PRESENCE: 1.0, ADVANTAGE: 1.0, "least_presence": 0.0}, found)


MEMBERSHIP_DISCLOSURE = Assessment(
    NAME,
    adversary=Adversary(
        "Somebody who wants to know whether a person is in the release.",
        "Presence may itself be sensitive.",
        "Nergiz ME, Atzori M, Clifton C. Hiding the presence of individuals from shared databases. SIGMOD 2007. "
        + OWNERS_DECIDE,
    ),
    version="3",
    policy_sections=("membership",),
    inputs=(
        *kernel_input.CODED_POPULATION, "chosen_generalization",
        "suppressed_members", *CANDIDATE,
    ),
    measure=assess,
    draws="reported",
    shaped_by={"membership": ()},
    report_table=report_table,
    gates=(
        Gate(
            PRESENCE,
            "presence_within_threshold",
            "No demographic class shows with more than the allowed probability that its members are in the release.",
            "Probability that a member of the delivery is in the release, given their demographics; the worst class.",
            lambda policy: policy.membership.presence_at_most,
            disclosed=1.0,
        ),
        Gate(
            ADVANTAGE,
            "membership_advantage_within_threshold",
            "The advantage over a random guess at who is in the release, given demographics, is at most the allowed one.",
            "Advantage over a random guess at who is in the release, given demographics.",
            lambda policy: policy.membership.advantage_at_most,
        ),
    ),
)  # fmt: skip
