"""Attack 1: a nosey neighbor who knows demographics and some claims of one person (methods#attack-1)."""

from collections.abc import Mapping

import numpy as np

from deid_assets.assessments.assessment import CANDIDATE, HERITAGE, Adversary, Assessed, Assessment, Gate, Image, Limit, Work
from deid_assets.assessments.evidence import Estimated, Measurement, Method
from deid_assets.assessments.kernel_input import (
    chosen_levels,
    member_columns,
    original_members,
    profiles_query,
    sampling_fraction,
)
from deid_assets.figures.figures import neighbor_attack_figure
from deid_assets.methods.attacks.neighbor_attack import MeanInterval, NeighborAttack, neighbor_attack
from deid_assets.methods.canaries.checks import neighbors_of_canaries
from deid_assets.methods.candidate.released_tables import generalized_claims
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.population.longitudinal_data import LongitudinalData
from deid_assets.methods.population.released_population import released_data
from deid_assets.methods.statistics.confidence import (
    clopper_pearson_interval,
    confidence_of_try,
    empirical_bernstein_upper_bound,
)
from deid_assets.methods.statistics.streams import generator_of
from deid_assets.policy.models import Policy
from deid_assets.policy.sections.longitudinal import AttackGate
from deid_assets.store.tables import Table, write_table

NAME = "neighbor_attack"
UNCONDITIONAL, GIVEN_MEMBERSHIP = "neighbor_success", "neighbor_success_given_membership"


def assess(work: Work[Policy]) -> Assessed:
    """Evidence: success of simulated nosey neighbors on the release, for any member and given membership."""
    policy, tables = work.policy, work.tables
    profiles = tables["member_profiles"]
    levels = chosen_levels(policy, tables["chosen_generalization"])
    tried = work.history.try_at(levels)
    shown, data = attacked_release(policy, levels, tables)
    before = work.history.released_before(profiles, original_members(tables["pseudonym_crosswalk"], tables["release_members"]))
    alpha = sampling_fraction(policy, shown.count() + before, profiles.count())
    trials = policy.neighbor_attack.trials
    neighbors, picks = (work.stream_key(purpose, tried.number) for purpose in ("neighbors", "membership and pick"))
    classes = NodeComputation(data, (), k=1).drawn_classes((), neighbors, trials)
    uniform = generator_of(picks)
    confidence = confidence_of_try(attack_confidence(policy), tried.number)
    attack = neighbor_attack(
        ~classes.exempt,
        classes.sizes,
        alpha,
        uniform.random(trials),
        uniform.random(trials),
        mean_interval(confidence),
        lambda hits, of: clopper_pearson_interval(hits, of, 2 * confidence - 1),
    )
    measured = neighbor_measurements(policy, attack, work.commitment, tried.number)
    figure = neighbor_attack_figure([(found.name, found.value, found.bound, found.threshold) for found in measured])
    return Assessed(
        measured,
        neighbors_of_canaries(data, work.stream_key("canaries of neighbors")),
        tried,
        {"trials": trials, "attack": Image(figure, "success of simulated neighbors with bounds and thresholds")},
    )


def attacked_release(policy: Policy, levels: Mapping[str, int], tables: Mapping[str, Table]) -> tuple[Table, LongitudinalData]:
    """Read the release as its own population, with what neighbors may know.

    Parameters
    ----------
    tables
        Those about to be released, grouped claims, crosswalk, domains and power, by name.

    Returns
    -------
    tuple
        MemberID and the released member-level columns; and the data, whose members are in the order of MemberID.
    """
    members, claims, days = (tables[name] for name in CANDIDATE)
    crosswalk, names = tables["pseudonym_crosswalk"], policy.claim_names
    shown, known = Table(members.file, "scratch", "released_profiles"), Table(members.file, "scratch", "known_claims")
    write_table(shown, profiles_query(policy, members.sql, days.sql))
    of_claims = {column: levels[column] for column in names}
    released = original_members(crosswalk, members)
    write_table(known, generalized_claims(tables["known"], tables["value_domains"], of_claims, members=released))
    return shown, released_data(shown, claims, known, crosswalk, tables["adversary_power"], member_columns(policy), names)


def neighbor_measurements(policy: Policy, attack: NeighborAttack, commitment: str, number: int) -> tuple[Measurement, ...]:
    """The success of simulated nosey neighbors, over all members and given that the target is in the release.

    `number` is that of the try for which `attack` has its bounds.
    """
    gates = policy.neighbor_attack
    method = Method(NAME, "methods#attack-1; El Emam et al. 2012", commitment)
    confidence = confidence_of_try(attack_confidence(policy), number)
    return tuple(
        method.judged(name, "probability", Estimated(found.value, found.high, confidence, attack.trials), gate)
        for name, found, gate in (
            (UNCONDITIONAL, attack.unconditional, gates.unconditional),
            (GIVEN_MEMBERSHIP, attack.given_membership, gates.given_membership),
            ("neighbor_success_literal", attack.literal, None),
        )
    )


def attack_confidence(policy: Policy) -> float:
    """Confidence of attack 1's bounds over all tries: the highest that one of its gates requires."""
    gates = (policy.neighbor_attack.unconditional, policy.neighbor_attack.given_membership)
    return max((gate.confidence for gate in gates if gate is not None), default=0.99)


def mean_interval(confidence: float) -> MeanInterval:
    """Return a function that bounds a mean of values in [0, 1] on both sides (empirical Bernstein, each at `confidence`)."""

    def interval(values: np.ndarray) -> tuple[float, float]:
        high = min(1.0, empirical_bernstein_upper_bound(values, 1.0, confidence))
        low = max(0.0, 1.0 - empirical_bernstein_upper_bound(1.0 - values, 1.0, confidence))
        return low, high

    return interval


def attack_limit(policy: Policy, gate: AttackGate | None) -> Limit | None:
    """The limit of one of attack 1's gates; None if the policy has no such gate."""
    return None if gate is None else Limit(gate.at_most, attack_confidence(policy))


_ADVERSARY = Adversary(
    "The same neighbor, who picks a record that fits: without knowing that the person is in the release, and knowing it.",
    "The attack that the article simulates; knowing that a person is in the release is the worst case for that person.",
    f"{HERITAGE}, attack 1: accepts .05",
)

NEIGHBOR_ATTACK = Assessment(
    NAME,
    adversary=_ADVERSARY,
    version="3",
    policy_sections=("neighbor_attack",),
    inputs=(
        "member_profiles", "known", "value_domains", "adversary_power", "pseudonym_crosswalk",
        "chosen_generalization", *CANDIDATE,
    ),
    measure=assess,
    draws="judged",
    gates=(
        Gate(
            UNCONDITIONAL,
            "neighbor_attack_risk_within_threshold",
            "A simulated nosey neighbor of any member succeeds with at most the allowed probability (attack 1).",
            "Probability that a simulated neighbor picks the right record, without knowing that it is in the release.",
            lambda policy: attack_limit(policy, policy.neighbor_attack.unconditional),
            disclosed=None,
        ),
        Gate(
            GIVEN_MEMBERSHIP,
            "neighbor_attack_given_membership_within_threshold",
            "A simulated nosey neighbor who knows that the target is in the release succeeds with at most the allowed "
            "probability (attack 1).",
            "Probability that a simulated neighbor picks the right record, knowing that it is in the release (prosecutor "
            "risk).",
            lambda policy: attack_limit(policy, policy.neighbor_attack.given_membership),
        ),
    ),
)  # fmt: skip
