"""What each column of a policy costs at the chosen generalization, from the tables of the restricted store."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

from deid_assets.assessments.flat_table import flat_table
from deid_assets.assessments.kernel_input import (
    POPULATION,
    PopulationTables,
    chosen_level_names,
    chosen_node,
    claim_columns,
    member_columns,
    node_computation,
)
from deid_assets.assessments.record_risk import levels_of
from deid_assets.cluster.executors import search_executor
from deid_assets.methods.flat.classes import FlatTable
from deid_assets.methods.lattice.column_costs import Axis, column_costs
from deid_assets.methods.lattice.predictive_tagging import Node
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table

DRAWS = 65_536
"""Draws of each measurement of a longitudinal policy. Half a thousandth is the standard error of a share of .017."""

OF_CLAIMS = (*POPULATION, "chosen_generalization")
OF_RECORDS = ("records", "record_domains", "record_generalization")
"""The assets whose tables are read."""


@dataclass(frozen=True, eq=False)
class Costs:
    """What the columns of a delivery cost under a policy.

    Attributes
    ----------
    frame
        See `methods.lattice.column_costs.column_costs`; columns and axes by their names in the release.
    levels
        The name of the chosen level of each column.
    share, limit
        The share at high risk at the chosen generalization, before anybody is suppressed; and the share up to which others
        may get finer: the policy's limit, or that share where suppression made the difference.
    among
        What shares are shares of.
    """

    frame: pd.DataFrame
    levels: Mapping[str, str]
    share: float
    limit: float
    among: str


def costs_of_claims(policy: Policy, tables: Mapping[str, Table], stream_key: bytes) -> Costs:
    """The costs of a longitudinal policy.

    Parameters
    ----------
    tables
        Those of `OF_CLAIMS`.
    stream_key
        16 bytes. The draws judge nothing.
    """
    node = chosen_node(policy, tables["chosen_generalization"])
    members, claims = member_columns(policy), claim_columns(policy)
    names = {qi.column: qi.release_as for qi in policy.quasi_identifiers.all}
    axes = [
        Axis(" and ".join(names[column] for column in dimension.columns), tuple(names[c] for c in dimension.columns), levels)
        for dimension, levels in zip(policy.dimensions, policy.dimension_levels, strict=True)
    ]
    with search_executor() as executor:
        computation = node_computation(policy, PopulationTables.of(tables)).on(executor)

        @cache
        def risk(node: Node, gone: frozenset[str]) -> float:
            places = ([i for i, column in enumerate(columns) if names[column] in gone] for columns in (members, claims))
            return computation.measure(computation.generalization(node, *places), stream_key, DRAWS).share

        share = risk(node, frozenset())
        limit = max(policy.risk.max_high_risk_share, share)
        columns_of = {"members": [names[column] for column in members]}
        for table in policy.event_tables:
            columns_of[table] = [names[column] for column in claims if policy.columns.table_of(column) == table]
        frame = column_costs(risk, axes, columns_of, node, limit)
    levels = dict(chosen_level_names(policy, tables))
    return Costs(frame, levels, share, limit, f"{DRAWS:,} draws about members to be released")


def costs_of_records(policy: FlatPolicy, tables: Mapping[str, Table]) -> Costs:
    """The costs of a flat policy: exact, of the records themselves. The tables are those of `OF_RECORDS`."""
    records = flat_table(policy, tables["records"], tables["record_domains"])
    levels = levels_of(policy, tables["record_generalization"])
    columns, node = list(levels), tuple(levels.values())
    axes = [Axis(name, (name,), height + 1) for name, height in zip(columns, records.heights, strict=True)]

    @cache
    def without(gone: frozenset[str]) -> tuple[FlatTable, tuple[int, ...]]:
        kept = tuple(place for place, name in enumerate(columns) if name not in gone)
        population = None if records.population is None else np.asarray(records.population)[:, kept]
        return FlatTable(records.codes[:, kept], tuple(records.domains[i] for i in kept), population), kept

    def risk(node: Node, gone: frozenset[str]) -> float:
        left, kept = without(gone)
        return left.classes_at([node[place] for place in kept]).below(policy.risk.k) / records.records

    share, limit = risk(node, frozenset()), policy.risk.max_suppressed
    frame = column_costs(risk, axes, {"records": columns}, node, limit)
    return Costs(frame, dict(chosen_level_names(policy, tables)), share, limit, f"{records.records:,} records")
