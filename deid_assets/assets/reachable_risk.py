"""What no generalization of the policy can be better than: looked at before the search, which takes long."""

import math
from collections.abc import Sequence

import dagster as dg
import pandas as pd

from deid_assets.assets.assessment import removed_and_eligible
from deid_assets.assets.encoded import PopulationTables
from deid_assets.assets.generalization import node_computation, other_gates_of, stream_key
from deid_assets.assets.stage_asset import stage_asset
from deid_assets.methods.flagged_suppression import HIGH_RISK
from deid_assets.methods.other_gates import ATTACK, DEMOGRAPHICS
from deid_assets.methods.reachable_risk import (
    ABSENCE,
    ERROR,
    Reach,
    reach_of_absence,
    reach_of_attack,
    reach_of_demographics,
    reach_of_high_risk,
)
from deid_assets.policy.models import Policy
from deid_assets.resources import Policies, Workplace
from deid_assets.store import Table

_SECTIONS = ["dimensions", "risk", "adversary", "neighbor_attack", "demographics", "removal"]
_REMEDIES = {
    HIGH_RISK: "a larger population, fewer or coarser quasi-identifiers",
    DEMOGRAPHICS: "fewer or coarser quasi-identifiers of members",
    ATTACK: "more released members, fewer or coarser quasi-identifiers",
    ABSENCE: "fewer released members (--release), or fewer removed",
}


@stage_asset(policy_sections=_SECTIONS, kinds=("duckdb", "numpy"))
def reachable_risk(
    context: dg.AssetExecutionContext,
    eligible_members: Table,
    removed_members: Table,
    member_profiles: Table,
    grouped_claims: Table,
    truncated_claims: Table,
    value_domains: Table,
    adversary_power: Table,
    policies: Policies,
    workplace: Workplace,
) -> pd.DataFrame:
    """For gates that can be foreseen, the least that any node can have; where counts prove that one fails, a refusal."""
    policy = policies.of(context)
    tables = PopulationTables(member_profiles, grouped_claims, truncated_claims, value_domains, adversary_power)
    computation = node_computation(policy, tables)
    gates = other_gates_of(context, policy, tables, computation, workplace)
    sampled = len(computation.data.targets)
    left_out = math.floor(policy.risk.suppression.at_most * sampled)
    before = workplace.released_before(member_profiles, f"SELECT member_id FROM {member_profiles.sql} WHERE released")
    found = [
        reach_of_demographics(gates, left_out),
        reach_of_high_risk(
            computation, stream_key(context, workplace, "reachable risk"), left_out, policy.risk.max_high_risk_share
        ),
    ]
    if gates.success_at_most is not None:
        # Fewer released members make the attack on any member less likely to find one: its limit for this one rises.
        limit = gates.success_at_most * (sampled / (sampled - left_out) if policy.neighbor_attack.unconditional else 1)
        found.append(reach_of_attack(gates, stream_key(context, workplace, "reachable success"), left_out, limit))
    found.append(
        reach_of_absence(
            *removed_and_eligible(eligible_members, removed_members), sampled + before, left_out, policy.removal.absence_posterior_at_most
        )
    )
    if proven := [reach for reach in found if reach.ruled_out and reach.proven]:
        raise dg.Failure(
            f"refused: no generalization of this policy can hold, as sizes alone tell. {_said(policy, proven)}",
            metadata={"refused": True},
            allow_retries=False,
        )
    unlikely = [reach for reach in found if reach.ruled_out]
    if unlikely:
        context.add_output_metadata(
            {
                "notice": f"No generalization of this policy is likely to hold (bounds from draws are wrong with a probability of {ERROR}). "
                f"{_said(policy, unlikely)}"
            }
        )
    rows = [(reach.gate, reach.measured, reach.least, reach.limit, reach.proven, reach.ruled_out) for reach in found]
    return pd.DataFrame(rows, columns=["gate", "measured", "least", "limit", "proven", "ruled_out"]).astype({"gate": "str"})


def _said(policy: Policy, ruled_out: Sequence[Reach]) -> str:
    """What stands against a release, with its numbers."""
    suppressed = policy.risk.suppression.at_most
    besides = f", and at least {{0.least:.4f}} at any, were a share of {suppressed:g} of the members left out" if suppressed else ""
    return " ".join(
        f"{reach.gate}: {reach.measured:.4f} at the coarsest node{besides.format(reach)}; the policy allows {reach.limit:.4f}. "
        f"What helps: {_REMEDIES[reach.gate]}."
        for reach in ruled_out
    )
