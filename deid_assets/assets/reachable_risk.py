"""Lower bounds on risk for every generalization of the policy, computed before the search, which takes long."""

from functools import partial

import pandas as pd

from deid_assets.assessments.absence import absence_in_search
from deid_assets.assessments.kernel_input import POPULATION, PopulationTables, lattice_dimensions, node_computation
from deid_assets.assessments.number_of_claims import claim_bins_of
from deid_assets.assessments.reachable_risk import notice, other_gates, reached_frame, reaches
from deid_assets.assets.random_streams import stream_key
from deid_assets.assets.stage_asset import stage_asset
from deid_assets.assets.step import Step
from deid_assets.methods.disclosure.absence import removed_and_eligible
from deid_assets.methods.lattice.members_needed import members_needed
from deid_assets.methods.population.encoding import released_ids
from deid_assets.methods.population.longitudinal_data import top_node
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table

_SECTIONS = ["dimensions", "risk", "adversary", "neighbor_attack", "demographics", "number_of_claims", "removal"]


@stage_asset(
    policy_sections=_SECTIONS,
    version="5",
    kinds=("duckdb", "numpy"),
    inputs=("eligible_members", "removed_members", *POPULATION),
)
def reachable_risk(step: Step[Policy], **tables: Table) -> pd.DataFrame:
    """Lowest value that any node can reach, for gates that can be predicted.

    Where it is above a limit, the search refuses before it begins, unless the run is tagged to go on.
    """
    policy = step.policy
    population, eligible = PopulationTables.of(tables), tables["eligible_members"]
    # Nothing is measured at any other node, so nothing else is indexed.
    computation = node_computation(policy, population, top_node(lattice_dimensions(policy)))
    before = step.workplace.released_before(population.profiles, released_ids(population.profiles))
    gates = other_gates(
        policy,
        population,
        computation,
        released_before=before,
        number=1,
        stream_key=stream_key(step, "other gates"),
        claim_bins=claim_bins_of(policy, population.profiles, population.held),
        absence=absence_in_search(
            policy, population.profiles, eligible, step.workplace.ever_released(), step.workplace.tags_in_order
        ),
    )
    absent = removed_and_eligible(eligible, tables["removed_members"])
    keys = partial(stream_key, step)
    found = reaches(policy, computation, gates, absent, before, keys)
    limits = policy.risk.suppression.at_most, policy.risk.max_high_risk_share
    reached = reached_frame(policy, found, absent, before, lambda: members_needed(computation, keys, *limits))
    if said := notice(reached):
        step.tell({"notice": said})
    return reached
