"""What a flat policy asks of a table: its classes, its losses, and the search for the best node (methods#flat-tables)."""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from deid_assets.assessments.delivered_values import entropies
from deid_assets.assessments.detail import enough_detail
from deid_assets.assessments.nodes_to_try import node_of_levels
from deid_assets.methods.flat import queries
from deid_assets.methods.flat.classes import ClassTable, FlatTable
from deid_assets.methods.flat.search import (
    FlatResult,
    allowed_records,
    average_class_size,
    entropy_losses,
    pinned_result,
    precision_losses,
    search_flat_table,
    search_flat_table_by_classes,
)
from deid_assets.methods.lattice.information_loss import information_kept, monotone_discernibility
from deid_assets.methods.lattice.predictive_tagging import Node, sum_of_losses
from deid_assets.methods.population.encoding import domains_of, record_codes
from deid_assets.policy.flat import FlatPolicy
from deid_assets.sources.flat import POPULATION
from deid_assets.store.tables import Table, quoted

LEVEL_LOSSES = {"entropy": entropy_losses, "precision": precision_losses}
CLASS_LOSSES: dict[str, Callable[[ClassTable], float]] = {
    "average_class_size": average_class_size,
    "discernibility": lambda classes: monotone_discernibility(classes.released),
}
"""Losses that depend on the levels of a node only, and those that depend on its classes."""


LOSS_LABELS = {
    "entropy": "non-uniform entropy [bits]",
    "precision": "loss of precision (Prec)",
    "average_class_size": "records of a class, on average",
    "discernibility": "discernibility (DM*) [records²]",
}


def population_records(policy: FlatPolicy, records: Table) -> Table | None:
    """The table in which classes are counted, beside the records; None if it is the records' table itself."""
    return None if policy.population is None else Table(records.file, records.schema, POPULATION)


def flat_table(policy: FlatPolicy, records: Table, domains: Table) -> FlatTable:
    """The records, and the population if there is one, as input of the search."""
    names = [qi.release_as for qi in policy.quasi_identifiers]
    population = population_records(policy, records)
    return FlatTable(
        record_codes(records, domains, names),
        domains_of(domains, names),
        None if population is None else record_codes(population, domains, names),
    )


def level_losses(policy: FlatPolicy, table: FlatTable) -> tuple[np.ndarray, ...] | None:
    """For each quasi-identifier, the loss at each of its levels; None if the loss depends on classes."""
    kind = policy.risk.loss
    return LEVEL_LOSSES[kind](table) if kind in LEVEL_LOSSES else None


def kept_by_level(policy: FlatPolicy, table: FlatTable, records: Table) -> dict[str, np.ndarray]:
    """The share of the delivered information that each generalized column keeps, over the delivered records.

    Returns
    -------
    dict of str to np.ndarray
        (levels,) float, non-increasing.
    """
    bits = entropies(records, records.sql, {name: (quoted(name), "true") for name in policy.generalized})
    columns = zip(policy.quasi_identifiers, table.codes.T, table.domains, strict=True)
    return {
        qi.release_as: information_kept(np.bincount(codes, minlength=domain.sizes[0]), domain, bits[qi.release_as])
        for qi, codes, domain in columns
        if qi.release_as in policy.generalized
    }


def highest_levels(policy: FlatPolicy, table: FlatTable, kept: Mapping[str, np.ndarray]) -> Node:
    """The highest level of each quasi-identifier that keeps what the policy requires, however many records are left out.

    The finest level, if even that keeps too little: the gate then refuses with the reason.

    Parameters
    ----------
    kept
        `kept_by_level`.
    """
    required = policy.detail_required
    fewest = table.records - allowed_records(table, policy.risk.max_suppressed)

    def highest(name: str, height: int) -> int:
        if name not in required:
            return height
        enough = (enough_detail({name: share}, {name: required[name]}, table.records, fewest) for share in kept[name])
        return max((level for level, one in enumerate(enough) if one), default=0)

    return tuple(highest(qi.release_as, height) for qi, height in zip(policy.quasi_identifiers, table.heights, strict=True))


def search(policy: FlatPolicy, table: FlatTable, tops: Node, pinned: Node | None = None) -> FlatResult:
    """The best node up to `highest_levels`, and every evaluated node; a pinned node is the best, or none is."""
    risk = policy.risk
    losses = level_losses(policy, table)
    if losses is not None:
        found = search_flat_table(table, risk.k, risk.max_suppressed, losses, tops)
    else:
        found = search_flat_table_by_classes(table, risk.k, risk.max_suppressed, CLASS_LOSSES[risk.loss], tops)
    if pinned is None:
        return found

    def loss(node: Node, classes: ClassTable) -> float:
        return CLASS_LOSSES[risk.loss](classes) if losses is None else sum_of_losses(losses, node)

    return pinned_result(found, table, risk.k, pinned, loss)


def pinned_node(policy: FlatPolicy, last: Mapping[str, str] | None) -> Node | None:
    """The same as `nodes_to_try.pinned_node`, of a flat table."""
    if last is None:
        return None
    levels = {qi.release_as: list(policy.hierarchy(qi.hierarchy).level_names) for qi in policy.quasi_identifiers}
    return node_of_levels(levels, last, "quasi-identifiers")


def blanks_in_small_classes(policy: FlatPolicy, records: Table, domains: Table) -> dict[str, int]:
    """Columns that keep records in small classes at the coarsest node because they are blank, and their number of blanks.

    Blanks of these columns join no class there. The coarsest node is that of levels that keep enough detail. The numbers are
    exact and must be protected before they are shown.
    """
    table = flat_table(policy, records, domains)
    highest = highest_levels(policy, table, kept_by_level(policy, table, records))
    tops = {qi.release_as: level for qi, level in zip(policy.quasi_identifiers, highest, strict=True)}
    alone = queries.small_records(records, population_records(policy, records), domains, tops, policy.risk.k)
    own = [name for name, top in tops.items() if policy.hierarchy_of(name).missing_label(top) is None]
    blanks = queries.blanks(records, own)
    held_up = [name for name, count in blanks.items() if count and queries.blanks(records, [name], among=alone)[name]]
    return {name: blanks[name] for name in held_up}


def level_names_of(policy: FlatPolicy, levels: Mapping[str, int]) -> dict[str, str]:
    """The name of the level of every quasi-identifier."""
    return {name: policy.hierarchy_of(name).level_names[level] for name, level in levels.items()}


def chosen_frame(policy: FlatPolicy, node: Node) -> pd.DataFrame:
    """The table of a chosen node: one row per quasi-identifier, with its level and the level's name."""
    level_names = [
        policy.hierarchy(qi.hierarchy).level_names[level] for qi, level in zip(policy.quasi_identifiers, node, strict=True)
    ]
    names = [qi.release_as for qi in policy.quasi_identifiers]
    return pd.DataFrame({"column": names, "level": np.array(node, dtype=np.int32), "level_name": level_names}).astype(
        {"column": "str", "level_name": "str"}
    )
