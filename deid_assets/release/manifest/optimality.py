"""The certificate of optimality of a release, from the stored results of search and choice."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from deid_assets.assessments.evidence import Refusal
from deid_assets.assessments.kernel_input import chosen_node
from deid_assets.methods.lattice.candidate_gates import COARSER, KEEPS_NO_MORE, PINNED, TOO_LITTLE
from deid_assets.methods.lattice.certificate import (
    Criterion,
    MeasuredNode,
    OptimalityCertificate,
    failed_antichain,
    no_better_nodes,
)
from deid_assets.methods.lattice.predictive_tagging import (
    Node,
    is_of_axis,
    lower_neighbors,
    node_of_axis,
    node_text,
    parse_node,
    sums_of_losses,
)
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table


def longitudinal_certificate(
    policy: Policy, lattice: Table, chosen: Table, passed_over: Table, compared: Table
) -> OptimalityCertificate:
    """Why every node that would lose less than the chosen one is ruled out.

    A node that passes as it is takes precedence over one that passes without flagged members. If the chosen one passes
    as it is, the certificate rules out nodes that the sequential rule did not find below the search's aim, and
    candidates that failed on fresh draws or at another gate. If it passes without flagged members, it rules out nodes
    whose share is too high even if as many members as allowed are suppressed, and those that were tried and failed. If the
    policy prefers detail, no node takes precedence, and nodes are ruled out that would need more suppressed members. If it
    chooses by the gain, the nodes that were compared and keep no more are passed over, and the certificate says how much less.
    """
    passed = {parse_node(row.node): row.gate for row in passed_over.frame().itertuples()}
    node = chosen_node(policy, chosen)
    kept = {parse_node(row.node): float(row.share_of_gain_kept) for row in compared.frame().itertuples()}
    less = {own: kept[node] - kept[own] for own, gate in passed.items() if gate == KEEPS_NO_MORE}
    return replace(_certificate_of(policy, lattice.frame(), node, passed), kept_less=less)


def _certificate_of(policy: Policy, nodes: pd.DataFrame, node: Node, passed: Mapping[Node, str]) -> OptimalityCertificate:
    candidates = {parse_node(text) for text in nodes.loc[nodes["decision"] == "candidate", "node"]}
    # If detail is preferred, a candidate may have been tried without some members first.
    suppressing = node not in candidates or (node in passed and not policy.prefers_detail)
    risk = policy.risk
    if suppressing and policy.prefers_detail:
        criterion = Criterion("suppression", risk.suppression.at_most)
    elif suppressing:
        criterion = Criterion("lower_bound", risk.max_high_risk_share + risk.suppression.at_most)
    else:
        search, aim = risk.search, risk.search.aim * risk.max_high_risk_share
        criterion = (
            Criterion("sequential", aim, search.error / policy.node_count, search.draws_at_most)
            if policy.lists_lattice
            else Criterion("best_first", aim, search.error, search.draws_at_most)
        )
    if criterion.kind == "suppression":
        looked_at = nodes[nodes["to_suppress"].notna()]
        found_at = (MeasuredNode(parse_node(row.node), float(row.to_suppress)) for row in looked_at.itertuples())
    else:
        looked_at = nodes[nodes["draws"].notna()]
        numbers = looked_at["measured_in_order"] if criterion.kind == "best_first" else [None] * len(looked_at)
        found_at = (
            MeasuredNode(
                parse_node(row.node), row.share, int(row.flagged), int(row.draws), None if number is None else int(number)
            )
            for row, number in zip(looked_at.itertuples(), numbers, strict=True)
            if criterion.kind != "best_first" or not pd.isna(number)
        )
    measured = {found.node: found for found in found_at}
    # A node that was not measured until the rule decided follows from a measured one above it.
    by_rule = {parse_node(text) for text in nodes.loc[nodes["reached"] == "measured", "node"]}
    failed = [found for own, found in measured.items() if (suppressing or own in by_rule) and criterion.fails(found)]
    loss = {parse_node(row.node): float(row.loss) for row in nodes.itertuples()}
    heights = tuple(levels - 1 for levels in policy.dimension_levels)
    proof = OptimalityCertificate(
        dimensions=tuple(dimension.name for dimension in policy.dimensions),
        heights=heights,
        losses=tuple(
            tuple(loss[node_of_axis(len(heights), axis, level)] for level in range(height + 1))
            for axis, height in enumerate(heights)
        ),
        step=0.0,
        criterion=criterion,
        chosen=node,
        chosen_loss=loss[node],
        failed=failed_antichain(failed),
        neighbors=tuple(measured[below] for below in lower_neighbors(node) if below in measured),
    )
    others = [own for own in passed if own != node and loss[own] <= loss[node]]
    left = {own for own, failed_above in zip(others, proof.below_failed(others), strict=True) if not failed_above}

    def is_told(own: Node, gate: str) -> bool:
        # Of a lattice that is not listed, what keeps too little of one column leaves out all above it.
        if gate == TOO_LITTLE and not proof.is_listed:
            return is_of_axis(own)
        # Of the nodes that were not tried for one of these reasons, only those count that nothing else rules out.
        return own in left or gate not in (PINNED, TOO_LITTLE, COARSER)

    told = {own: gate for own, gate in passed.items() if own != node and is_told(own, gate)}
    return replace(proof, passed_over=told).with_rest()


def flat_certificate(
    policy: FlatPolicy, lattice: Table, node: Node, records: int, level_losses: Sequence[np.ndarray] | None, tops: Node
) -> OptimalityCertificate:
    """The same for a flat table.

    Parameters
    ----------
    lattice
        Every node that the search evaluated.
    node
        The chosen node.
    records
        Number of records of the delivered table.
    level_losses
        For each quasi-identifier, the loss at each of its levels; None if losses depend on classes.
    tops
        For each quasi-identifier the highest level that keeps what the policy requires.
    """
    looked_at = lattice.frame()
    measured = {
        parse_node(row.node): MeasuredNode(parse_node(row.node), row.share, round(row.share * records), records)
        for row in looked_at.itertuples()
    }
    loss = {parse_node(row.node): float(row.loss) for row in looked_at.itertuples()}
    criterion = Criterion("counted", policy.risk.max_suppressed)
    proof = OptimalityCertificate(
        dimensions=tuple(qi.release_as for qi in policy.quasi_identifiers),
        heights=tuple(policy.hierarchy(qi.hierarchy).levels - 1 for qi in policy.quasi_identifiers),
        losses=None if level_losses is None else tuple(tuple(float(loss) for loss in own) for own in level_losses),
        step=0.0,
        criterion=criterion,
        chosen=node,
        chosen_loss=loss[node],
        failed=failed_antichain([own for own in measured.values() if criterion.fails(own)]),
        no_better=() if level_losses is not None else no_better_nodes(loss, node),
        neighbors=tuple(measured[below] for below in lower_neighbors(node)),
    )
    if not proof.is_listed:
        too_coarse = [axis for axis, (top, height) in enumerate(zip(tops, proof.heights, strict=True)) if top < height]
        useless = (node_of_axis(len(tops), axis, tops[axis] + 1) for axis in too_coarse)
        return replace(proof, passed_over=dict.fromkeys(useless, TOO_LITTLE)).with_rest()
    # Of the nodes that a pinned generalization or too little detail rules out, only those count that nothing else does.
    left = ~proof.ruled_out()
    if level_losses is not None:
        left &= sums_of_losses(level_losses) <= loss[node]
    for own, _ in proof.no_better:
        left[tuple(slice(level, None) for level in own)] = False
    useful = np.zeros_like(left)
    useful[tuple(slice(level + 1) for level in tops)] = True
    if policy.releases.generalization != "pinned":
        left &= ~useful
    others = (tuple(int(level) for level in own) for own in np.argwhere(left))
    passed = {own: PINNED if useful[own] else TOO_LITTLE for own in others if own != node}
    return replace(proof, passed_over=passed).with_rest()


def stated_levels_certificate(policy: CohortPolicy) -> OptimalityCertificate:
    """The same for a cohort, whose policy states the levels: the lattice has one node, and nothing is left to choose."""
    columns = tuple(policy.demographic_columns.values())
    return OptimalityCertificate(
        dimensions=columns,
        heights=(0,) * len(columns),
        losses=((0.0,),) * len(columns),
        step=0.0,
        criterion=Criterion("counted", 0.0),
        chosen=(0,) * len(columns),
        chosen_loss=0.0,
        failed=(),
    ).with_rest()


def certificate_refusals(proof: OptimalityCertificate) -> list[Refusal]:
    """Refuse if the proof fails: the choice then contradicts the search and its measurements."""
    return [
        Refusal("broken_certificate", node_text(proof.chosen), None, None, f"the certificate of optimality fails: {text}")
        for text in proof.problems()
    ]
