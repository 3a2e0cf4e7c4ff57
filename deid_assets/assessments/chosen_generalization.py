"""The chosen generalization as the store records it: the level of every quasi-identifier in a release."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from deid_assets.assessments.kernel_input import kept_at_node
from deid_assets.figures.rendering import words
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table


def chosen_frame(policy: Policy, node: tuple[int, ...]) -> pd.DataFrame:
    """The table of a chosen node: one row per dimension, with its level and the level's name."""
    names = [
        policy.hierarchy_of(dimension.columns[0]).level_names[level]
        for dimension, level in zip(policy.dimensions, node, strict=True)
    ]
    found = pd.DataFrame({"dimension": [dimension.name for dimension in policy.dimensions], "level": node, "level_name": names})
    return found.astype({"dimension": "str", "level": "int32", "level_name": "str"})


def retained_frame(policy: Policy, kept: Mapping[str, np.ndarray], node: tuple[int, ...]) -> pd.DataFrame:
    """What a node keeps of every generalized column: its level's name, and the share of information (see `kept_by_level`)."""
    shares = kept_at_node(policy, kept, node)
    return pd.DataFrame(
        [
            (name, policy.hierarchy_of(column).level_names[policy.level_of(column, node)], shares[name])
            for name, column in policy.generalized.items()
        ],
        columns=["column", "level", "share of information kept"],
    )


def chosen_node(policy: Policy, chosen: Table) -> tuple[int, ...]:
    """The chosen node, in the order of the policy's dimensions."""
    levels = chosen.frame().set_index("dimension")["level"]
    return tuple(int(levels[dimension.name]) for dimension in policy.dimensions)


def level_names_of_dimensions(policy: Policy, chosen: Table) -> dict[str, str]:
    """The name of the chosen level of each dimension: what a pinned generalization repeats."""
    names = chosen.frame().set_index("dimension")["level_name"]
    return {dimension.name: str(names[dimension.name]) for dimension in policy.dimensions}


def chosen_levels(policy: Policy, chosen: Table) -> dict[str, int]:
    """The level of every quasi-identifier at the chosen node."""
    return levels_at(policy, chosen_node(policy, chosen))


def named(policy: Policy, node: tuple[int, ...]) -> str:
    """A node as the names of its levels."""
    return "; ".join(
        f"{words(dimension.name)}: {policy.hierarchy_of(dimension.columns[0]).level_names[level]}"
        for dimension, level in zip(policy.dimensions, node, strict=True)
    )


def levels_at(policy: Policy, node: tuple[int, ...]) -> dict[str, int]:
    """The level of every quasi-identifier at a node."""
    return {qi.column: policy.level_of(qi.column, node) for qi in policy.quasi_identifiers.all}


def chosen_level_names(policy: AnyPolicy, tables: Mapping[str, Table]) -> list[tuple[str, str]]:
    """Released name of every quasi-identifier and the name of its chosen level; empty if nothing was chosen.

    Parameters
    ----------
    tables
        Tables of a store, longitudinal or flat, by the names of their assets.
    """
    if "record_generalization" in tables:
        return [(str(row.column), str(row.level_name)) for row in tables["record_generalization"].frame().itertuples()]
    if not policy.has_events or "chosen_generalization" not in tables:
        return []
    levels = chosen_levels(policy, tables["chosen_generalization"])
    return [
        (qi.release_as, policy.hierarchy_of(qi.column).level_names[levels[qi.column]]) for qi in policy.quasi_identifiers.all
    ]
