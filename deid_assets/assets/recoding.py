"""Recoding by class: levels of claim-level columns for each demographic class, and the claims and values with their class.

Only policies that recode by class have these assets. What comes after reads them instead of the lattice, claims and values of
which they are made (methods#recoding-by-class).
"""

from collections.abc import Iterator
from functools import partial

import dagster as dg
import pandas as pd

from deid_assets.assessments.class_recoding import (
    candidates_frame,
    choose_levels,
    class_lattice_node,
    lattice_frame,
    levels_frame,
    member_levels,
)
from deid_assets.assessments.kernel_input import PopulationTables, claim_columns
from deid_assets.assets.generalization import Progress
from deid_assets.assets.random_streams import stream_key
from deid_assets.assets.stage_asset import asset_metadata, guarded, stage_asset, stage_assets
from deid_assets.cluster.executors import search_executor
from deid_assets.methods.recoding.class_tables import class_domains as class_domains_of
from deid_assets.methods.recoding.class_tables import classed_claims as classed_claims_query
from deid_assets.methods.recoding.class_tables import member_classes
from deid_assets.policy.models import Policy
from deid_assets.resources import Policies, Workplace
from deid_assets.store.tables import Table

_SECTIONS = ["recoding", "dimensions", "risk", "adversary", "demographics"]


@stage_assets(
    {
        "class_levels": {
            "description": "The demographic classes of the chosen member-level node, and the level of every claim-level column "
            "in each. A class is described by the numbers of its labels in value_domains.",
            "metadata": asset_metadata("class_levels", _SECTIONS, "1"),
            "kinds": {"duckdb", "numpy"},
        },
        "class_candidates": {
            "description": "The levels among which each class's were chosen, with estimated share at high risk and loss. No "
            "choice among them within the budget loses less than the bound of their linear relaxation.",
            "metadata": asset_metadata("class_candidates", _SECTIONS, "1"),
            "kinds": {"duckdb", "numpy"},
        },
        "class_lattice": {
            "description": "The generalizations that are tried: that in which each class has its own levels, and coarser ones, "
            "in which no class stays below a level.",
            "metadata": asset_metadata("class_lattice", _SECTIONS, "1"),
            "kinds": {"duckdb", "numpy"},
        },
    }
)
def class_recoding(
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
    """Choose levels by class on streams that judge nothing else."""
    policy = policies.of(context, Policy)
    tables = PopulationTables(member_profiles, grouped_claims, truncated_claims, value_domains, adversary_power)
    with guarded(context), search_executor() as executor:
        nodes = generalization_lattice.frame()
        found = choose_levels(
            policy, tables, nodes, partial(stream_key, context, workplace), executor, Progress(context, "member-level nodes")
        )
        lattice = lattice_frame(policy, nodes.columns, found)
    yield dg.Output(
        levels_frame(policy, found),
        "class_levels",
        metadata={
            "classes": len(found.levels.classes),
            "member_level_nodes_tried": len(found.tried),
            "loss": float(lattice["loss"].min()),
        },
    )
    yield dg.Output(candidates_frame(policy, found), "class_candidates")
    yield dg.Output(lattice, "class_lattice", metadata={"generalizations": len(lattice)})


@stage_asset(policy_sections=["recoding"], derived_columns={"hierarchy_code": ["value_domains.level_code"]})
def class_domains(
    context: dg.AssetExecutionContext, value_domains: Table, class_levels: Table, policies: Policies
) -> pd.DataFrame:
    """Every value of every quasi-identifier, with its label in each demographic class at every level of the class lattice."""
    policy = policies.of(context, Policy)
    return class_domains_of(value_domains.frame(), class_levels.frame("class"), claim_columns(policy))


@stage_asset(policy_sections=["recoding"])
def classed_claims(
    context: dg.AssetExecutionContext,
    truncated_claims: Table,
    member_profiles: Table,
    value_domains: Table,
    class_levels: Table,
    class_lattice: Table,
    policies: Policies,
) -> str:
    """Claims after the long tail is cut, each with the demographic class of its member."""
    levels = member_levels(policies.of(context, Policy), class_lattice_node(class_lattice))
    return classed_claims_query(truncated_claims, member_classes(member_profiles, value_domains, class_levels, levels))


@stage_asset(policy_sections=["recoding"])
def classed_known_claims(
    context: dg.AssetExecutionContext,
    grouped_claims: Table,
    member_profiles: Table,
    value_domains: Table,
    class_levels: Table,
    class_lattice: Table,
    policies: Policies,
) -> str:
    """All eligible claims, which an adversary may know about, each with the demographic class of its member."""
    levels = member_levels(policies.of(context, Policy), class_lattice_node(class_lattice))
    return classed_claims_query(grouped_claims, member_classes(member_profiles, value_domains, class_levels, levels))
