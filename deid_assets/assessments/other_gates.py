"""The gates besides the share at high risk, as a policy sets them, for nodes that may be chosen."""

import numpy as np

from deid_assets.assessments.attack_sensitivity import joint_confidence
from deid_assets.assessments.kernel_input import PopulationTables, member_columns, sampling_fraction, smallest_safe_class
from deid_assets.assessments.neighbor_attack import attack_confidence
from deid_assets.methods.attacks.attack_sensitivity import confidence_of_each
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.candidate_gates import Absence, OtherGates
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
        encoding.demographic_codes(tables.profiles, tables.domains, member_columns(policy)),
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
