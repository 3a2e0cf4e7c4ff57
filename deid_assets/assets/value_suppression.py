"""Suppressed values: which values of released members a release does not show, and the claims and domains as it shows them.

Only policies that suppress values have these assets. What comes after reads them instead of the lattice, claims and values of
which they are made (methods#suppressed-values).
"""

from collections.abc import Iterator
from functools import partial

import dagster as dg
import pandas as pd

from deid_assets.assessments.kernel_input import PopulationTables, claim_columns
from deid_assets.assessments.value_suppression import choose_values, loss_by_column
from deid_assets.assessments.value_suppression import value_lattice as value_lattice_of
from deid_assets.assets.generalization import Progress
from deid_assets.assets.random_streams import stream_key
from deid_assets.assets.stage_asset import asset_metadata, guarded, markdown_table, stage_asset, stage_assets
from deid_assets.cluster.executors import search_executor
from deid_assets.methods.lattice.predictive_tagging import node_text
from deid_assets.methods.population.encoding import released_ids
from deid_assets.methods.suppression.tables import shown_claims as shown_claims_query
from deid_assets.methods.suppression.tables import shown_domains as shown_domains_of
from deid_assets.methods.suppression.tables import suppressed_frame
from deid_assets.policy.models import Policy
from deid_assets.resources import Policies, Workplace
from deid_assets.store.tables import Table

_SECTIONS = ["dimensions", "risk", "adversary", "demographics"]


@stage_assets(
    {
        "suppressed_values": {
            "description": "Values that are not shown in any claim of the member who has them: simulated adversaries found "
            "members by them, and not to tell them loses little.",
            "metadata": asset_metadata("suppressed_values", _SECTIONS, "1"),
            "kinds": {"duckdb", "numpy"},
        },
        "value_lattice": {
            "description": "The generalization for which these values were chosen, with what both lose together.",
            "metadata": asset_metadata("value_lattice", _SECTIONS, "1"),
            "kinds": {"duckdb", "numpy"},
        },
    }
)
def value_choice(
    context: dg.AssetExecutionContext,
    member_profiles: Table,
    grouped_claims: Table,
    truncated_claims: Table,
    value_domains: Table,
    adversary_power: Table,
    generalization_lattice: Table,
    policies: Policies,
    workplace: Workplace,
) -> Iterator[dg.Output[object]]:
    """Choose values to suppress, and the node at which that loses least, on streams that judge nothing else."""
    policy = policies.of(context, Policy)
    tables = PopulationTables(member_profiles, grouped_claims, truncated_claims, value_domains, adversary_power)
    with guarded(context), search_executor() as executor:
        nodes = generalization_lattice.frame()
        found = choose_values(
            policy, tables, nodes, partial(stream_key, context, workplace), executor, Progress(context, "generalizations")
        )
        members = member_profiles.query(released_ids(member_profiles))["member_id"].tolist()
        frame = suppressed_frame(found.suppressed, claim_columns(policy), members, value_domains)
        lattice = value_lattice_of(policy, nodes, found)
    yield dg.Output(
        frame,
        "suppressed_values",
        metadata={
            "node": node_text(found.node),
            "loss": found.loss,
            "high_risk_share": found.share,
            "generalizations_estimated": found.estimated,
            "suppressed": markdown_table(loss_by_column(policy, found)),
        },
    )
    yield dg.Output(lattice, "value_lattice", metadata={"generalizations": len(lattice)})


@stage_asset(policy_sections=["quasi_identifiers"])
def shown_domains(
    context: dg.AssetExecutionContext,
    value_domains: Table,
    truncated_claims: Table,
    suppressed_values: Table,
    policies: Policies,
) -> pd.DataFrame:
    """Every value of every quasi-identifier with its labels, and for claims the value of what is suppressed or missing."""
    types = truncated_claims.columns()
    return shown_domains_of(
        value_domains.frame(), {column: types[column] for column in policies.of(context, Policy).suppressible}
    )


@stage_asset(policy_sections=["quasi_identifiers"])
def shown_claims(
    context: dg.AssetExecutionContext, truncated_claims: Table, suppressed_values: Table, policies: Policies
) -> str:
    """Claims after the long tail is cut, with what a release shows of their values."""
    return shown_claims_query(truncated_claims, suppressed_values, policies.of(context, Policy).suppressible, missing_too=True)


@stage_asset(policy_sections=["quasi_identifiers"])
def shown_known_claims(
    context: dg.AssetExecutionContext, grouped_claims: Table, suppressed_values: Table, policies: Policies
) -> str:
    """All eligible claims, which an adversary may know about, with suppressed values as a release shows them."""
    return shown_claims_query(grouped_claims, suppressed_values, policies.of(context, Policy).suppressible, missing_too=False)
