"""The lowest risk that any generalization of a policy can reach, by gate, and what to do where that is too much.

The gates besides the share at high risk are those that the policy sets, for nodes that may be chosen.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from deid_assets.assessments.absence import what_helps_against_absence, what_helps_against_factor
from deid_assets.assessments.kernel_input import PopulationTables, sampling_fraction, smallest_safe_class
from deid_assets.assessments.neighbor_attack import attack_confidence, joint_confidence
from deid_assets.errors import RefusedError
from deid_assets.methods.attacks.attack_sensitivity import confidence_of_each
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice import reachable_risk
from deid_assets.methods.lattice.candidate_gates import ATTACK, DEMOGRAPHICS, FACTOR, Absence, OtherGates
from deid_assets.methods.lattice.choice import HIGH_RISK
from deid_assets.methods.lattice.members_needed import MembersNeeded
from deid_assets.methods.population import encoding
from deid_assets.methods.statistics.confidence import confidence_of_try
from deid_assets.policy.models import Policy


def other_gates(
    policy: Policy,
    tables: PopulationTables,
    computation: NodeComputation,
    *,
    released_before: int,
    number: int,
    stream_key: bytes,
    claim_bins: np.ndarray | None,
    absence: Absence | None = None,
) -> OtherGates:
    """The gates other than the share at high risk that a node must pass to be chosen.

    Parameters
    ----------
    released_before
        Members of the population in earlier releases, other than those of this one.
    number
        Of the try in which these gates will judge the node.
    stream_key
        16 bytes, the key of a stream that judges nothing else.
    claim_bins
        (N, y) int64: bins of the number of claims of all delivered members; None if it is not a quasi-identifier.
    absence
        How absence is judged; None for no gate on its factor, or where levels of members do not change.
    """
    attack = policy.neighbor_attack
    released = len(computation.data.targets) + released_before
    alpha = sampling_fraction(policy, released, tables.profiles.count())
    limits = [attack.given_membership.at_most] if attack.given_membership else []
    limits += [attack.unconditional.at_most / alpha] if attack.unconditional else []
    # The bound decides as soon as one of the gates requires it: the stricter reading of both.
    gates = [gate for gate in (attack.given_membership, attack.unconditional) if gate]
    bounded = any(gate.statistic == "upper_bound" for gate in gates)
    joint = policy.measured_number_of_claims.with_values
    return OtherGates(
        computation.data,
        computation.dimensions,
        encoding.demographic_codes(tables.profiles, tables.domains, policy.member_columns),
        encoding.released_members(tables.profiles),
        smallest_safe_class(policy),
        policy.risk.max_high_risk_share,
        min(limits, default=None),
        attack.trials,
        confidence_of_try(attack_confidence(policy), number) if bounded else None,
        stream_key,
        claim_bins,
        joint.at_most if joint else None,
        policy.attack_sensitivity.trials if joint else 0,
        confidence_of_each(confidence_of_try(joint_confidence(policy), number), policy.attack_sensitivity.cells)
        if joint and joint.statistic == "upper_bound"
        else None,
        absence,
    )


GO_ON_TAG = "deid/go_on"
"""Tag of a run that searches although no generalization can pass: `deid run --go-on`."""

_REMEDIES = {
    DEMOGRAPHICS: "fewer or coarser quasi-identifiers of members",
    ATTACK: "more released members, fewer or coarser quasi-identifiers",
}


def reaches(
    policy: Policy,
    computation: NodeComputation,
    gates: OtherGates,
    removed_and_eligible: tuple[int, int],
    before: int,
    keys: Callable[[str], bytes],
) -> list[reachable_risk.Reach]:
    """The lowest value that any node can reach, for gates that can be predicted.

    Parameters
    ----------
    computation
        Of the coarsest node.
    gates
        The gates besides the share at high risk.
    removed_and_eligible
        Members removed because of what their claims reveal, and eligible members.
    before
        Members in earlier releases, other than those of this one.
    keys
        Returns the 16-byte key of a named stream.
    """
    sampled = len(computation.data.targets)
    left_out = math.floor(policy.risk.suppression.at_most * sampled)
    found = [
        reachable_risk.reach_of_demographics(gates, left_out),
        reachable_risk.reach_of_high_risk(computation, keys("reachable risk"), left_out, policy.risk.max_high_risk_share),
    ]
    if gates.success_at_most is not None:
        limit = _success_at_most(policy, gates.success_at_most, sampled / max(sampled - left_out, 1))
        found.append(reachable_risk.reach_of_attack(gates, keys("reachable success"), left_out, limit))
    if gates.absence is not None:
        found.append(reachable_risk.reach_of_factor(gates, left_out))
    posterior = policy.removal.absence_posterior_at_most
    if posterior is not None:
        found.append(reachable_risk.reach_of_absence(*removed_and_eligible, sampled + before, left_out, posterior))
    return found


def _success_at_most(policy: Policy, least: float, fewer: float) -> float:
    """The limit of success given membership; the one for any member, if stricter, rises as `fewer` are released."""
    given = policy.neighbor_attack.given_membership
    return given.at_most if given and least >= given.at_most else min(least * fewer, given.at_most if given else math.inf)


def _against_absence(policy: Policy, removed_and_eligible: tuple[int, int], before: int) -> dict[str, str]:
    """What helps against each gate on absence that the policy has."""
    posterior, factor = policy.removal.absence_posterior_at_most, policy.removal.factor_at_most
    found = {}
    if posterior is not None:
        found[reachable_risk.ABSENCE] = what_helps_against_absence(*removed_and_eligible, before, posterior)
    if factor is not None:
        found[FACTOR] = what_helps_against_factor(removed_and_eligible[1], before, factor)
    return found


def reached_frame(
    policy: Policy,
    found: Sequence[reachable_risk.Reach],
    removed_and_eligible: tuple[int, int],
    before: int,
    needed: Callable[[], MembersNeeded | None],
) -> pd.DataFrame:
    """The table `reachable_risk`: one row per gate; parameters as in `reaches`.

    Parameters
    ----------
    needed
        Returns how many members the share at high risk needs; asked only where that gate is ruled out.
    """
    remedies = _REMEDIES | _against_absence(policy, removed_and_eligible, before)
    if any(reach.gate == HIGH_RISK and reach.ruled_out for reach in found):
        larger = needed()
        more = f"a larger population ({larger.least})" if larger else "a larger population"
        remedies[HIGH_RISK] = f"{more}, fewer or coarser quasi-identifiers"
    suppressed = policy.risk.suppression.at_most
    rows = [
        (
            reach.gate, reach.measured, reach.least, reach.limit, reach.proven, reach.ruled_out,
            _against(reach, suppressed, remedies[reach.gate]) if reach.ruled_out else "",
        )
        for reach in found
    ]  # fmt: skip
    columns = ["gate", "measured", "least", "limit", "proven", "ruled_out", "against"]
    return pd.DataFrame(rows, columns=columns).astype({"gate": "str", "against": "str"})


def _against(reach: reachable_risk.Reach, suppressed: float, helps: str) -> str:
    besides = (
        f", and at least {reach.least:.4f} at any node, even with a share of {suppressed:g} of the members left out"
        if suppressed
        else ""
    )
    measured = f"{reach.gate}: {reach.measured:.4f} at the coarsest node{besides}"
    return f"{measured}; the policy allows {reach.limit:.4f}. What helps: {helps}."


def notice(reached: pd.DataFrame) -> str:
    """What speaks against every release, with its numbers: first counts, then draws; empty if nothing does.

    Parameters
    ----------
    reached
        Rows of `reached_frame`.
    """
    said = []
    for proven, heading in (
        (True, "No generalization of this policy can pass, as class sizes alone show:"),
        (
            False,
            "No generalization of this policy is likely to pass, by bounds from draws that are wrong with a probability of "
            f"{reachable_risk.ERROR}:",
        ),
    ):
        against = reached.loc[reached["ruled_out"] & (reached["proven"] == proven), "against"]
        said += [heading, *against] if len(against) else []
    return " ".join(said)


def require_reachable(reached: pd.DataFrame) -> None:
    """Refuse a policy of which no generalization can pass, before the search, which takes long.

    Parameters
    ----------
    reached
        Rows of `reached_frame`.

    Raises
    ------
    RefusedError
        If a gate is ruled out.
    """
    if said := notice(reached):
        raise RefusedError(
            f"refused before the search: {said} To search anyway, and be told which columns and members carry the risk and "
            f"which changes of the policy would pass, use deid run --go-on, or tag the run {GO_ON_TAG}: true",
            _sentence(reached[reached["ruled_out"]]),
        )


def _sentence(against: pd.DataFrame) -> str:
    """The same without what was measured: a share of so many members is a number of people."""
    gates = "; ".join(f"{row.gate}, at most {row.limit:.4f}" for row in against.itertuples())
    can = "can" if against["proven"].any() else "is likely to"
    return (
        f"no generalization of this policy {can} pass (failed gates: {gates}); the report of the refusal, in the restricted "
        "store, says what helps, such as a larger population or coarser quasi-identifiers"
    )
