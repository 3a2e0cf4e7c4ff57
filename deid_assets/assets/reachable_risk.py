"""Lower bounds on risk for every generalization of the policy, computed before the search, which takes long."""

import math
from collections.abc import Iterator, Mapping, Sequence

import dagster as dg
import pandas as pd

from deid_assets.assets.encoded import PopulationTables, lattice_dimensions
from deid_assets.assets.generalization import node_computation, other_gates_of
from deid_assets.assets.policy_changes import what_helps_against_absence
from deid_assets.assets.random_streams import stream_key
from deid_assets.assets.stage_asset import stage_asset
from deid_assets.methods.disclosure.absence import removed_and_eligible
from deid_assets.methods.lattice.candidate_gates import ATTACK, DEMOGRAPHICS
from deid_assets.methods.lattice.choice import HIGH_RISK
from deid_assets.methods.lattice.reachable_risk import (
    ABSENCE,
    ERROR,
    Reach,
    reach_of_absence,
    reach_of_attack,
    reach_of_demographics,
    reach_of_high_risk,
)
from deid_assets.methods.population.longitudinal_data import top_node
from deid_assets.policy.models import Policy
from deid_assets.resources import Policies, Workplace
from deid_assets.store.tables import Table

_SECTIONS = ["dimensions", "risk", "adversary", "neighbor_attack", "demographics", "number_of_claims", "removal"]
_REMEDIES = {
    HIGH_RISK: "a larger population, fewer or coarser quasi-identifiers",
    DEMOGRAPHICS: "fewer or coarser quasi-identifiers of members",
    ATTACK: "more released members, fewer or coarser quasi-identifiers",
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
    """Lowest value that any node can reach, for gates that can be predicted.

    It decides nothing, and shows early what will be refused.
    """
    policy = policies.of(context, Policy)
    tables = PopulationTables(member_profiles, grouped_claims, truncated_claims, value_domains, adversary_power)
    # Nothing is measured at any other node, so nothing else is indexed.
    computation = node_computation(policy, tables, top_node(lattice_dimensions(policy)))
    gates = other_gates_of(context, policy, tables, computation, workplace, 1)
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
        limit = _success_at_most(policy, gates.success_at_most, sampled / max(sampled - left_out, 1))
        found.append(reach_of_attack(gates, stream_key(context, workplace, "reachable success"), left_out, limit))
    sensitive, eligible = removed_and_eligible(eligible_members, removed_members)
    limit = policy.removal.absence_posterior_at_most
    found.append(reach_of_absence(sensitive, eligible, sampled + before, left_out, limit))
    remedies = _REMEDIES | {ABSENCE: what_helps_against_absence(sensitive, eligible, before, limit)}
    if notice := " ".join(_notices(policy, found, remedies)):
        # The search runs anyway: if no node passes, it finds what carries the risk, and which changes would help.
        context.add_output_metadata({"notice": notice})
    rows = [(reach.gate, reach.measured, reach.least, reach.limit, reach.proven, reach.ruled_out) for reach in found]
    return pd.DataFrame(rows, columns=["gate", "measured", "least", "limit", "proven", "ruled_out"]).astype({"gate": "str"})


def _success_at_most(policy: Policy, least: float, fewer: float) -> float:
    """The limit of success given membership; the one for any member, if stricter, rises as `fewer` are released."""
    given = policy.neighbor_attack.given_membership
    return given.at_most if given and least >= given.at_most else min(least * fewer, given.at_most if given else math.inf)


def _notices(policy: Policy, found: Sequence[Reach], remedies: Mapping[str, str]) -> Iterator[str]:
    """What speaks against a release, with its numbers: first counts, then draws."""
    suppressed = policy.risk.suppression.at_most
    for proven, said in (
        (True, "No generalization of this policy can pass, as class sizes alone show:"),
        (
            False,
            "No generalization of this policy is likely to pass, by bounds from draws that are wrong with a probability of "
            f"{ERROR}:",
        ),
    ):
        against = [reach for reach in found if reach.ruled_out and reach.proven == proven]
        if against:
            yield said
        for reach in against:
            besides = (
                f", and at least {reach.least:.4f} at any node, even with a share of {suppressed:g} of the members left out"
                if suppressed
                else ""
            )
            yield (
                f"{reach.gate}: {reach.measured:.4f} at the coarsest node{besides}; the policy allows {reach.limit:.4f}. "
                f"What helps: {remedies[reach.gate]}."
            )
