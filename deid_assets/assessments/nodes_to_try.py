"""Which nodes of a searched lattice are tried on fresh draws, in which order, and why the others are not."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np
import pandas as pd

from deid_assets.assessments.detail import enough_detail
from deid_assets.assessments.kernel_input import kept_at_node
from deid_assets.errors import RefusedError
from deid_assets.methods.lattice.candidate_gates import PINNED, TOO_LITTLE, Node
from deid_assets.methods.lattice.predictive_tagging import parse_nodes
from deid_assets.methods.population.longitudinal_data import Dimension
from deid_assets.policy.models import Policy


@dataclass(frozen=True)
class NodesToTry:
    """Nodes that may be chosen, and nodes that may not.

    Attributes
    ----------
    as_they_are
        Candidates of the search, best first.
    without_flagged
        Nodes that may pass once flagged members are suppressed, best first.
    not_tried
        The reason by node, for nodes that are not tried.
    left_open
        Number of nodes that keep enough information and whose decision the search left open; among those that lose more, no
        candidate is tried. Of a lattice that is not listed, the number of nodes that are not in the table, if any of these
        passes.
    """

    as_they_are: tuple[Node, ...]
    without_flagged: tuple[Node, ...]
    not_tried: Mapping[Node, str]
    left_open: int


def nodes_to_try(policy: Policy, nodes: pd.DataFrame, useful: Sequence[Dimension], not_again: Mapping[Node, str]) -> NodesToTry:
    """Leave out nodes that keep too little information, and nodes that get no further try.

    Parameters
    ----------
    nodes
        Every node with its decision and the lower bound on its share, best first.
    useful
        The axes of the lattice with the levels that keep enough information (`useful_dimensions`).
    not_again
        The reason by node, for nodes that an earlier try or a pinned generalization rules out.
    """
    risk = policy.risk
    every = parse_nodes(nodes["node"])
    levels = np.array(every).reshape(len(every), len(useful))
    too_little = (levels >= np.array([dimension.levels for dimension in useful])).any(axis=1)
    not_tried = dict(not_again) | {every[place]: TOO_LITTLE for place in np.flatnonzero(too_little)}
    may_be_tried = np.fromiter((node not in not_tried for node in every), bool, len(every))
    tried = nodes[may_be_tried]
    # A candidate that loses more than an open node may not be the best one that is left, and one that loses as much may lie
    # above it: nothing shows that it is minimal.
    open_ = (nodes["decision"] == "open") & ~too_little
    # The certificate of a lattice that is not listed says how much less such a node could lose.
    decided = tried["loss"] < nodes.loc[open_, "loss"].min() if open_.any() and policy.lists_lattice else True
    candidate = (tried["decision"] == "candidate") & decided
    if PINNED in not_again.values():
        # There is one node, and it is tried whatever the search has left open, unless the certificate would rule it out.
        candidate |= tried["decision"] == "open"
        reachable = candidate | ~_needing(policy, nodes, levels)[1].loc[tried.index]
    elif policy.prefers_detail:
        no_more, more = _needing(policy, nodes, levels)
        left_open = nodes.loc[~(no_more | more | too_little) & policy.lists_lattice, "loss"]
        reachable = candidate | (no_more & (nodes["loss"] < left_open.min() if len(left_open) else True)).loc[tried.index]
    else:
        # Suppressing a share s of the members lowers the share at high risk by at most s.
        reachable = candidate | (tried["lower"] <= risk.max_high_risk_share + risk.suppression.at_most)
    listed = list(compress(every, may_be_tried))
    return NodesToTry(
        tuple(compress(listed, candidate)),
        tuple(compress(listed, reachable)),
        not_tried,
        int(open_.sum()) if policy.lists_lattice else (policy.node_count - len(nodes)) * _may_pass(policy, nodes[~too_little]),
    )


def _may_pass(policy: Policy, nodes: pd.DataFrame) -> bool:
    """Whether a node in the table may pass by its share at high risk; if none may, the coarsest fails, and so do all."""
    in_reach = nodes["lower"] <= policy.risk.max_high_risk_share + policy.risk.suppression.at_most
    return bool(((nodes["decision"] == "candidate") | in_reach).any())


def useful_dimensions(
    policy: Policy, dimensions: Sequence[Dimension], kept: Mapping[str, np.ndarray], sampled: int
) -> tuple[Dimension, ...]:
    """The axes of the lattice without the levels at which a column keeps less than the policy requires.

    A change of the policy is tried at the coarsest node of these: at a coarser one, what passes would be refused as useless.

    Parameters
    ----------
    kept
        By released column, the share of information kept at each of its levels.
    sampled
        Members drawn for the release.

    Returns
    -------
    tuple of Dimension
        An axis without any level where a column keeps too little even at its finest level.
    """
    fewest = sampled - math.floor(policy.risk.suppression.at_most * sampled)

    def enough(place: int, level: int) -> bool:
        node = tuple(level if number == place else 0 for number in range(len(dimensions)))
        columns = {name for name, column in policy.generalized.items() if column in policy.dimensions[place].columns}
        required = {name: share for name, share in policy.detail_required.items() if name in columns}
        return enough_detail(kept_at_node(policy, kept, node), required, sampled, fewest)

    return tuple(
        replace(dimension, levels=sum(enough(place, level) for level in range(dimension.levels)))
        for place, dimension in enumerate(dimensions)
    )


def _needing(policy: Policy, nodes: pd.DataFrame, levels: np.ndarray) -> tuple[pd.Series, pd.Series]:
    """Whether a node is known to need no more suppressed members than allowed, and whether it is known to need more.

    `levels` is (n, dimensions) int: those of each node.
    """
    needs_no_more, needs_more = (np.zeros(len(nodes), dtype=bool) for _ in range(2))
    if policy.prefers_detail:
        measured = nodes["to_suppress"].notna()
        for own, share in zip(levels[measured], nodes.loc[measured, "to_suppress"], strict=True):
            if share <= policy.risk.suppression.at_most:
                needs_no_more |= (levels >= own).all(axis=1)
            else:
                needs_more |= (levels <= own).all(axis=1)
    return pd.Series(needs_no_more, index=nodes.index), pd.Series(needs_more, index=nodes.index)


def all_but_pinned(nodes: Iterable[Node], pinned: Node | None) -> dict[Node, str]:
    """The reason by node, for every node other than the pinned generalization; empty if none is pinned."""
    return {} if pinned is None else {node: PINNED for node in nodes if node != pinned}


def pinned_node(policy: Policy, last: Mapping[str, str] | None) -> Node | None:
    """The node of the last release of a policy that is pinned to it; None if it has no release yet.

    Parameters
    ----------
    last
        The level of each dimension in that release, by name; None if there is none.

    Raises
    ------
    RefusedError
        If the policy no longer has this generalization.
    """
    if last is None:
        return None
    levels = {dimension.name: list(policy.hierarchy_of(dimension.columns[0]).level_names) for dimension in policy.dimensions}
    return node_of_levels(levels, last, "dimensions")


def node_of_levels(levels: Mapping[str, Sequence[str]], last: Mapping[str, str], what: str) -> Node:
    """The node of the last release of a policy that is pinned to it.

    Parameters
    ----------
    levels
        The names of the levels of each dimension, in order.
    last
        The level of each dimension in the last release, by name.
    what
        What the policy's dimensions are called.

    Raises
    ------
    RefusedError
        If the policy lacks a dimension or level, or has another dimension.
    """
    if set(last) != set(levels) or not all(name in levels[dimension] for dimension, name in last.items()):
        told = ", ".join(f"{dimension}: {name}" for dimension, name in last.items())
        raise RefusedError(
            f"refused: the generalization is pinned (releases.generalization), but the policy no longer has that of its last "
            f"release ({told}). Restore these {what} and levels, or say free"
        )
    return tuple(own.index(last[name]) for name, own in levels.items())
