"""What each column of a policy costs at the chosen generalization, from the tables of the restricted store."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pandas as pd

from deid_assets.assessments import cohort_demographics
from deid_assets.assessments.demographic_verdicts import reference_of
from deid_assets.assessments.flat_table import flat_table
from deid_assets.assessments.kernel_input import (
    POPULATION,
    PopulationTables,
    chosen_level_names,
    chosen_node,
    levels_at,
    node_computation,
    smallest_safe_class,
)
from deid_assets.assessments.longitudinal_risk import Judged
from deid_assets.assessments.record_risk import levels_of
from deid_assets.cluster.executors import search_executor
from deid_assets.methods.demographics.attributes import WITHHELD, Attribute, CohortAttributes, Level
from deid_assets.methods.demographics.class_sizes import ClassCounter, Classes
from deid_assets.methods.demographics.local_recoding import classes_with_ages
from deid_assets.methods.demographics.measures import TOTAL
from deid_assets.methods.demographics.risk import risks_at
from deid_assets.methods.flat.classes import FlatTable
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.column_costs import Axis, Risk, column_costs, parts, totals_by_value
from deid_assets.methods.lattice.predictive_tagging import Node
from deid_assets.methods.population.longitudinal_data import generalization_at
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table

DRAWS = 65_536
"""Draws of each measurement of a longitudinal policy. Half a thousandth is the standard error of a share of .017."""

DRAWS_OF_VALUES = 262_144
"""Draws that are told apart by value. For a value that one of a hundred people has, two thousandths are the standard error of a
share of .01."""

OF_CLAIMS = (*POPULATION, "chosen_generalization")
OF_RECORDS = ("records", "record_domains", "record_generalization")
OF_PEOPLE = ("cohort_people", "population_cells")
"""The assets whose tables are read."""
HIGH_RISK, REIDENTIFIED = "at high risk", "expected to be re-identified"


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
    what
        What they are of them.
    values
        Of a longitudinal policy, `shares_by_value`.
    """

    frame: pd.DataFrame
    levels: Mapping[str, str]
    share: float
    limit: float
    among: str
    what: str = HIGH_RISK
    values: pd.DataFrame = field(default_factory=pd.DataFrame)


@dataclass(frozen=True)
class WithoutColumn:
    """What is left of the share at high risk without a column; without its name, without all columns of its table."""

    table: str
    column: str
    share: float


@dataclass(frozen=True, eq=False)
class ReleaseCosts:
    """What columns, tables and values mean for the risk of a release.

    Attributes
    ----------
    share
        The share of draws about released members at high risk.
    without
        The same draws without each column and table; columns by their names in the release.
    values
        `shares_by_value` of the released members.
    """

    share: float
    without: tuple[WithoutColumn, ...]
    values: pd.DataFrame


def costs_of_release(policy: Policy, judged: Judged, domains: Table, stream_key: bytes) -> ReleaseCosts:
    """Measure a release with all that the policy's adversary knows, without each of its columns and tables, and by value.

    Parameters
    ----------
    judged
        What the gate judges: the released members at the chosen node.
    domains
        `value_domains`.
    stream_key
        16 bytes. The draws judge nothing.
    """
    with search_executor() as executor:
        computation, node = judged.computation.on(executor), tuple(judged.node)
        risk = _risk_of_claims(policy, computation, stream_key)
        found = [WithoutColumn(table, column, risk(node, gone)) for table, column, gone in parts(_columns_by_table(policy))]
        values = shares_by_value(policy, computation, node, domains, stream_key)
        return ReleaseCosts(risk(node, frozenset()), tuple(found), values)


def _columns_by_table(policy: Policy) -> dict[str, list[str]]:
    """The released names of the quasi-identifiers of each table."""
    names = {qi.column: qi.release_as for qi in policy.quasi_identifiers.all}
    found = {"members": [names[column] for column in policy.member_columns]}
    for table in policy.event_tables:
        found[table] = [names[column] for column in policy.claim_names if policy.columns.table_of(column) == table]
    return found


def _risk_of_claims(policy: Policy, computation: NodeComputation, stream_key: bytes) -> Risk:
    """The share of draws at high risk at a node, without the columns that are left out."""
    names = {qi.column: qi.release_as for qi in policy.quasi_identifiers.all}
    listed = [[names[column] for column in columns] for columns in (policy.member_columns, policy.claim_names)]

    @cache
    def risk(node: Node, gone: frozenset[str]) -> float:
        places = ([place for place, name in enumerate(own) if name in gone] for own in listed)
        return computation.measure(computation.generalization(node, *places), stream_key, DRAWS).share

    return risk


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
    names = {qi.column: qi.release_as for qi in policy.quasi_identifiers.all}
    axes = [
        Axis(" and ".join(names[column] for column in dimension.columns), tuple(names[c] for c in dimension.columns), levels)
        for dimension, levels in zip(policy.dimensions, policy.dimension_levels, strict=True)
    ]
    with search_executor() as executor:
        computation = node_computation(policy, PopulationTables.of(tables)).on(executor)
        risk = _risk_of_claims(policy, computation, stream_key)
        share = risk(node, frozenset())
        limit = max(policy.risk.max_high_risk_share, share)
        frame = column_costs(risk, axes, _columns_by_table(policy), node, limit)
        values = shares_by_value(policy, computation, node, tables["value_domains"], stream_key)
    levels = dict(chosen_level_names(policy, tables))
    return Costs(frame, levels, share, limit, f"{DRAWS:,} draws about members to be released", values=values)


def shares_by_value(
    policy: Policy, computation: NodeComputation, node: Node, domains: Table, stream_key: bytes
) -> pd.DataFrame:
    """Tell draws at high risk apart by the values that the people whom they are about have.

    Parameters
    ----------
    computation, node
        The people to be released, and the chosen node.
    domains
        `value_domains`.
    stream_key
        16 bytes. The draws judge nothing.

    Returns
    -------
    DataFrame
        Each value of a column at its released level: column, value, share (at high risk, of the draws about people with it) and
        part (of all draws at high risk, those about these people; people have several values of an event's column). Columns by
        their names in the release, in the order of the policy; values about people from the riskiest on, of events from the
        rarest on. A value that too few have, of the population or of those to be released, is not listed, and what part the
        values of a column about people are is then missing: they would tell that of the others.
    """
    data, levels = computation.data, levels_at(policy, node)
    flags = computation.flagged_targets(node, stream_key, DRAWS_OF_VALUES)
    released = np.zeros((data.members, 3))
    released[data.targets] = np.stack([np.ones(len(data.targets)), flags.drawn, flags.flagged], axis=1)
    numbers = np.hstack([np.ones((data.members, 1)), released])
    totals = totals_by_value(data, generalization_at(data, computation.dimensions, node), numbers)
    frame, found = domains.frame(), []
    for number, (column, by_value) in enumerate(zip((*policy.member_columns, *policy.claim_names), totals, strict=True)):
        own = frame[(frame["quasi_identifier"] == column) & (frame["level"] == levels[column])]
        listed, hidden = [], False
        for code, label in sorted(set(zip(own["level_code"], own["label"].fillna("blank"), strict=True))):
            people, about, drawn, flagged = by_value[code]
            if min(people, about) >= smallest_safe_class(policy) and drawn:
                first = -flagged / drawn if column in policy.member_columns else people
                part = flagged / max(1, flags.flagged.sum())
                listed.append((number, first, policy.quasi_identifier(column).release_as, label, flagged / drawn, part))
            else:
                hidden |= bool(about)
        alone = hidden and column in policy.member_columns
        found += [(*told, np.nan) if alone else (*told, part) for *told, part in listed]
    values = pd.DataFrame(found, columns=["number", "first", "column", "value", "share", "part"])
    return values.sort_values(["number", "first"], kind="stable", ignore_index=True).drop(columns=["number", "first"])


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


def costs_of_people(policy: CohortPolicy, tables: Mapping[str, Table]) -> Costs:
    """The costs of a cohort's policy: the expected share of the people whom a list of the whole population re-identifies.

    Others may get finer up to the share under Safe Harbor, if that is what the policy is compared with; else they may not add.
    The tables are those of `OF_PEOPLE`.
    """
    cells = cohort_demographics.cells_in(policy, tables["cohort_people"], tables["population_cells"])
    made, columns = cohort_demographics.published(policy, cells), policy.demographic_columns
    chains = [
        _beside(attribute, number) if attribute.name in columns else (number,)
        for attribute, number in zip(cells.demographics.attributes, made.node, strict=True)
    ]
    chosen = tuple(chain.index(number) for chain, number in zip(chains, made.node, strict=True))
    names = [columns.get(attribute.name, attribute.name) for attribute in cells.demographics.attributes]
    left_out = [_left_out(attribute) for attribute in cells.demographics.attributes]
    age, ethnicity, geography, sex, *dates = (attribute for attribute, _ in left_out)
    demographics = CohortAttributes(age, ethnicity, geography, sex, tuple(dates))
    cells = replace(cells, population=replace(cells.population, demographics=demographics))
    counter, whole = ClassCounter(cells), np.zeros(cells.records, dtype=np.int64)

    def share_of(classes: Classes) -> float:
        return float(risks_at(classes, [TOTAL], 1)[0, 0]) / cells.records

    @cache
    def risk(node: Node, gone: frozenset[str]) -> float:
        numbers = tuple(
            without if name in gone else chain[place]
            for (_, without), name, chain, place in zip(left_out, names, chains, node, strict=True)
        )
        if numbers[0] == made.node[0]:
            return share_of(classes_with_ages(cells, numbers, made.ages, made.level_of, whole))
        return share_of(counter.at(numbers))

    share = risk(chosen, frozenset())
    reference = reference_of(cells).node(cells.demographics)
    limit = share if policy.risk.no_riskier_than is None else max(share, share_of(counter.at(reference)))
    axes = [Axis(name, (name,), len(chain)) for name, chain in zip(names, chains, strict=True)]
    frame = column_costs(risk, axes, {"people": list(columns.values())}, chosen, limit)
    levels = {columns[name]: level.name for name, level in made.levels.items() if name in columns}
    return Costs(frame, levels, share, limit, f"{cells.records:,} people", REIDENTIFIED)


def _beside(attribute: Attribute, number: int) -> tuple[int, ...]:
    """The levels from the next finer one to the next coarser one than a level, which need not be the same for all values."""
    sizes = [len(level.labels) for level in attribute.levels]
    others = [level for level in range(len(sizes)) if level != number]
    finer = [level for level in others if attribute.refines[level, number]]
    coarser = [level for level in others if attribute.refines[number, level]]
    return (*sorted(finer, key=sizes.__getitem__)[:1], number, *sorted(coarser, key=lambda level: -sizes[level])[:1])


def _left_out(attribute: Attribute) -> tuple[Attribute, int]:
    """The attribute with a level at which nobody differs, and the number of this level."""
    number = next((number for number, level in enumerate(attribute.levels) if len(level.labels) == 1), None)
    if number is not None:
        return attribute, number
    nobody_differs = Level.of(WITHHELD, ["*"] * len(attribute.values))
    return replace(attribute, levels=(*attribute.levels, nobody_differs)), len(attribute.levels)
