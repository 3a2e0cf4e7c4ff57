"""Generalization: the safe node with the least loss, and who is suppressed.

The lattice is that of El Emam et al. 2012 (Table 4).
"""

import math
import time
from collections.abc import Iterator, Mapping

import dagster as dg
import numpy as np
import pandas as pd

from deid_assets.assessments import measure
from deid_assets.assessments.attack_sensitivity import joint_confidence
from deid_assets.assessments.detail import enough_detail
from deid_assets.assets.claim_numbers import claim_bins_of
from deid_assets.assets.earlier_releases import standing_out
from deid_assets.assets.encoded import (
    PopulationTables,
    claim_columns,
    class_size_needed,
    encoded_data,
    kept_at_node,
    kept_by_level,
    lattice_dimensions,
    member_columns,
    sampling_fraction,
    smallest_safe_class,
)
from deid_assets.assets.policy_changes import absence_tells_too_much, changed_sections, no_choice
from deid_assets.assets.random_streams import stream_key
from deid_assets.assets.stage_asset import asset_metadata, guarded, markdown_table, stage_asset, start_meter
from deid_assets.assets.tries import delivery_tries
from deid_assets.cluster.executors import search_executor
from deid_assets.figures.figures import frontier_figure, lattice_figure, markdown_image
from deid_assets.methods.adversary.two_readings import Adversary
from deid_assets.methods.attacks.attack_sensitivity import confidence_of_each
from deid_assets.methods.kernel import engine
from deid_assets.methods.kernel.knowledge import DRAWS_PER_BLOCK
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.candidate_gates import TOO_LITTLE, OtherGates
from deid_assets.methods.lattice.choice import choose_generalization
from deid_assets.methods.lattice.diagnosis import COLUMNS, Demands, diagnose
from deid_assets.methods.lattice.information_loss import LatticeLoss
from deid_assets.methods.lattice.longitudinal_search import LatticeSearch, search_lattice
from deid_assets.methods.lattice.predictive_tagging import node_text, parse_node
from deid_assets.methods.population import encoding
from deid_assets.methods.population.longitudinal_data import top_node
from deid_assets.methods.population.value_domains import distinct_values, value_domain
from deid_assets.methods.preparation.top_coding import top_code
from deid_assets.methods.statistics.confidence import confidence_of_try
from deid_assets.policy.base import ReleasePolicy
from deid_assets.policy.models import Policy
from deid_assets.resources import Policies, Workplace
from deid_assets.store.tables import Table

_DIAGNOSIS_DRAWS = 100_000


@stage_asset(
    policy_sections=["quasi_identifiers", "hierarchies", "top_coding"],
    derived_columns={"value": ["member_profiles.age", "grouped_claims.condition_group"]},
)
def value_domains(
    context: dg.AssetExecutionContext, members: Table, member_profiles: Table, grouped_claims: Table, policies: Policies
) -> pd.DataFrame:
    """Every value of every quasi-identifier, numbered, with its label and class at every level."""
    policy = policies.of(context, Policy)
    days = top_code(members, ["days_in_hospital_y2", "days_in_hospital_y3"], policy.top_coding.percentile)
    frames = []
    for qi in policy.quasi_identifiers.all:
        of_member = qi.column in member_columns(policy)
        values = distinct_values(member_profiles if of_member else grouped_claims, qi.column)
        hierarchy = policy.hierarchy_of(qi.column)
        hierarchy.check(values, qi.column)
        labels = [hierarchy.labels(values, level) for level in range(hierarchy.levels)]
        coded = days.code if days and qi.column.startswith("days_in_hospital") else None
        missing = [hierarchy.missing_label(level) for level in range(hierarchy.levels)]
        frames.append(value_domain(qi.column, values, labels, hierarchy.codes(values), of_member, coded, missing))
    return pd.concat(frames, ignore_index=True)


@stage_asset(policy_sections=["dimensions", "risk"], kinds=("duckdb", "numpy"), deps=["reachable_risk"])
def generalization_lattice(
    context: dg.AssetExecutionContext,
    member_profiles: Table,
    grouped_claims: Table,
    truncated_claims: Table,
    value_domains: Table,
    adversary_power: Table,
    policies: Policies,
    workplace: Workplace,
) -> pd.DataFrame:
    """Every node of the lattice: loss, share at high risk with its interval, and decision with how it was reached."""
    policy = policies.of(context, Policy)
    tables = PopulationTables(member_profiles, grouped_claims, truncated_claims, value_domains, adversary_power)
    computation = node_computation(policy, tables)
    risk = policy.risk
    with search_executor() as executor:
        search = search_lattice(
            computation,
            LatticeLoss(computation.data, computation.dimensions, "raw" if risk.loss == "entropy_raw" else "normalised"),
            stream_key(context, workplace, "search"),
            risk.search.aim * risk.max_high_risk_share,
            risk.search.error,
            risk.search.draws_at_most,
            draws_for_inferred=DRAWS_PER_BLOCK,
            exhaustive=risk.search.exhaustive,
            progress=Progress(context),
            executor=executor,
        )
    nodes = nodes_frame(search)
    context.add_output_metadata(
        {
            "nodes": len(nodes),
            "candidates": int((nodes["decision"] == "candidate").sum()),
            "undecided": int((nodes["decision"] == "undecided").sum()),
            "class_size_at_least": search.k,
            "least_share": float(nodes["share"].min()),
            "threshold": risk.max_high_risk_share,
            "engine": engine.chosen().name,
            # The choice is not known yet: candidates are first tried on fresh draws.
            **_figures(policy, nodes.assign(chosen=False)),
        }
    )
    return nodes


def _figures(policy: Policy, nodes: pd.DataFrame, without_suppressed: float | None = None) -> dict[str, dg.MetadataValue]:
    """The lattice by decision, and loss against risk, for the UI; `chosen` marks a node.

    `without_suppressed` is the chosen node's share without the suppressed members; None if there are none.
    """
    most, names = policy.risk.max_high_risk_share, [dimension.name for dimension in policy.dimensions]
    lattice = lattice_figure(nodes, most, names, without_suppressed)
    frontier = frontier_figure(nodes, most, without_suppressed=without_suppressed)
    return {
        "lattice": dg.MetadataValue.md(markdown_image(lattice, "the lattice by decision")),
        "frontier": dg.MetadataValue.md(markdown_image(frontier, "loss against share at high risk")),
    }


_CHOICE_SECTIONS = [
    "dimensions", "risk", "adversary", "neighbor_attack", "demographics", "number_of_claims", "detail_at_least",
]  # fmt: skip


@dg.multi_asset(
    outs={
        "lattice_diagnosis": dg.AssetOut(
            description="Filled only if no node passes: which columns and members carry the risk at the coarsest node, and "
            "which changes of the policy passed when they were tried there.",
            metadata=asset_metadata("lattice_diagnosis", [*_CHOICE_SECTIONS, "removal"], "4"),
            kinds={"duckdb", "numpy"},
        ),
        "passed_over_nodes": dg.AssetOut(
            description="Nodes that were tried and failed on fresh draws, each with the gate that it failed, and nodes that "
            "were not tried, with the reason.",
            metadata=asset_metadata("passed_over_nodes", _CHOICE_SECTIONS, "2"),
            kinds={"duckdb", "numpy"},
        ),
        "chosen_generalization": dg.AssetOut(
            description="The node of least loss among those that pass on fresh draws, in the reading of the search and in that "
            "of the appendix. One row per dimension, with its level and the level's name.",
            metadata=asset_metadata("chosen_generalization", _CHOICE_SECTIONS, "4"),
            kinds={"duckdb", "numpy"},
        ),
        "suppressed_members": dg.AssetOut(
            description="Sampled members who are left out because they were flagged, or would stand out beside an earlier "
            "release. They stay in the population.",
            metadata=asset_metadata("suppressed_members", _CHOICE_SECTIONS, "5"),
            kinds={"duckdb", "numpy"},
        ),
    }
)
def generalization_choice(
    context: dg.AssetExecutionContext,
    member_profiles: Table,
    grouped_claims: Table,
    truncated_claims: Table,
    value_domains: Table,
    adversary_power: Table,
    generalization_lattice: Table,
    eligible_members: Table,
    removed_members: Table,
    policies: Policies,
    workplace: Workplace,
) -> Iterator[dg.Output[object]]:
    """Try candidates in the order of their loss. Suppress flagged members only where the policy allows it."""
    start_meter(context)
    policy = policies.of(context, Policy)
    tables = PopulationTables(member_profiles, grouped_claims, truncated_claims, value_domains, adversary_power)
    risk = policy.risk
    with guarded(context), search_executor() as executor:
        tries = delivery_tries(context, policy, workplace, member_profiles, value_domains)
        number = tries.choosing()
        confidence = confidence_of_try(risk.gate.confidence, number)
        computation = node_computation(policy, tables)
        nodes = generalization_lattice.frame().sort_values(["loss", "height", "node"])
        kept, sampled = kept_by_level(policy, computation.data), len(computation.data.targets)
        fewest = sampled - math.floor(risk.suppression.at_most * sampled)
        lattice = [parse_node(text) for text in nodes["node"]]
        not_tried = tries.not_tried_again({node: levels_at(policy, node) for node in lattice}) | {
            node: TOO_LITTLE
            for node in lattice
            if not enough_detail(kept_at_node(policy, kept, node), policy.detail_at_least, sampled, fewest)
        }
        useful = nodes[~nodes["node"].isin(map(node_text, not_tried))]
        choice, passed_over = choose_generalization(
            computation,
            [parse_node(text) for text in useful.loc[useful["decision"] == "candidate", "node"]],
            # Suppressing a share s of the members lowers the share at high risk by at most s.
            [
                parse_node(row.node)
                for row in useful.itertuples()
                if row.decision == "candidate" or row.lower <= risk.max_high_risk_share + risk.suppression.at_most
            ],
            adversary_of(policy, member_profiles),
            lambda name: stream_key(context, workplace, name, number),
            risk.max_high_risk_share,
            risk.gate.draws,
            confidence,
            risk.suppression.at_most,
            risk.search.aim,
            executor,
            other_gates_of(context, policy, tables, computation, workplace, number),
        )
        if choice is not None:
            tries.require_not_refused(levels_at(policy, choice.node))
        passed_over |= not_tried
        diagnosis, because = pd.DataFrame(columns=list(COLUMNS)), ""
        if choice is None:
            context.log.info("no node passes; finding out what carries the risk, and trying changes of the policy")
            never, because = absence_tells_too_much(policy, eligible_members, removed_members, member_profiles, workplace)
            # Changes are tried at the coarsest node.
            never = never or not_tried.get(top_node(computation.dimensions), "")
            diagnosis = diagnose(
                computation,
                lambda name: stream_key(context, workplace, f"diagnosis: {name}", number),
                member_columns(policy),
                claim_columns(policy),
                adversary_of(policy, member_profiles),
                Demands(
                    risk.max_high_risk_share,
                    risk.gate.draws,
                    confidence,
                    risk.suppression.at_most,
                    risk.search.aim,
                    never,
                ),
                _DIAGNOSIS_DRAWS,
                other_gates_of(context, policy, tables, computation, workplace, number),
                lambda change: changed_sections(policy, change),
                executor,
            )
    texts, numbers = ("kind", "what", "against", "change"), ("share", "threshold", "suppressed")
    yield dg.Output(
        diagnosis.astype({**dict.fromkeys(texts, "str"), **dict.fromkeys(numbers, "float64"), "would_pass": "bool"}),
        "lattice_diagnosis",
        metadata={"diagnosis": markdown_table(diagnosis.drop(columns="change"))},
    )
    yield dg.Output(
        pd.DataFrame({"node": [node_text(node) for node in passed_over], "gate": list(passed_over.values())}).astype(
            {"node": "str", "gate": "str"}
        ),
        "passed_over_nodes",
    )
    if choice is None:
        raise no_choice(passed_over, diagnosis, risk.suppression.at_most, because)
    chosen = pd.DataFrame(
        {
            "dimension": pd.Series([dimension.name for dimension in policy.dimensions], dtype="str"),
            "level": np.array(choice.node, dtype=np.int32),
            "level_name": pd.Series(
                [
                    policy.hierarchy_of(dimension.columns[0]).level_names[level]
                    for dimension, level in zip(policy.dimensions, choice.node, strict=True)
                ],
                dtype="str",
            ),
        }
    )
    yield dg.Output(
        chosen,
        "chosen_generalization",
        metadata={
            "node": node_text(choice.node),
            "high_risk_share": choice.readings.fixed.share,
            "high_risk_share_literal": choice.readings.literal.share,
            "measured": choice.readings.upper_bound(confidence),
            "try": number,
            "threshold": risk.max_high_risk_share,
            "nodes_passed_over": len(passed_over),
            "retained": markdown_table(
                pd.DataFrame(
                    [
                        (name, policy.hierarchy_of(column).level_names[policy.level_of(column, choice.node)], share)
                        for (name, column), share in zip(
                            policy.generalized.items(), kept_at_node(policy, kept, choice.node).values(), strict=True
                        )
                    ],
                    columns=["column", "level", "share of information kept"],
                )
            ),
            **_figures(
                policy,
                nodes.assign(chosen=nodes["node"] == node_text(choice.node)),
                choice.readings.fixed.share if choice.suppressed.any() else None,
            ),
        },
    )
    ids = member_profiles.query(f"SELECT member_id FROM {member_profiles.sql} WHERE released ORDER BY member_number")
    levels = levels_at(policy, choice.node)
    standing = ids["member_id"].isin(standing_out(policy, levels, member_profiles, value_domains, workplace))
    yield dg.Output(ids[choice.suppressed | standing.to_numpy()].reset_index(drop=True), "suppressed_members")


class Progress:
    """Logs the progress of the search in the run's log, every few seconds."""

    def __init__(self, context: dg.AssetExecutionContext, seconds: float = 3.0):
        self._context, self._seconds, self._last, self._ended = context, seconds, time.monotonic(), False

    def __call__(self, done: int, total: int, text: str) -> None:
        """Log how many nodes are done, unless it was logged just now."""
        # All are done long before the last call: their numbers are refined, and every call would be a line of the log.
        ends, self._ended = done == total and not self._ended, done == total
        if ends or time.monotonic() - self._last >= self._seconds:
            self._last = time.monotonic()
            self._context.log.info(f"{done} of {total} nodes: {text}")


def node_computation(policy: Policy, tables: PopulationTables, only_at: tuple[int, ...] | None = None) -> NodeComputation:
    """The node computation of this policy on these tables; of a single node if only that is measured."""
    data = encoded_data(policy, tables)
    delivered = tables.profiles.count()
    needed = class_size_needed(policy, sampling_fraction(policy, len(data.targets), delivered))
    return NodeComputation(data, lattice_dimensions(policy), needed, only_at=only_at, extract=not policy.counts_population)


def other_gates_of(
    context: dg.AssetExecutionContext,
    policy: Policy,
    tables: PopulationTables,
    computation: NodeComputation,
    workplace: Workplace,
    number: int,
) -> OtherGates:
    """The gates other than the share at high risk that a node must pass to be chosen.

    `number` is that of the try in which they will judge it.
    """
    attack = policy.neighbor_attack
    sample = f"SELECT member_id FROM {tables.profiles.sql} WHERE released"
    released = len(computation.data.targets) + workplace.released_before(tables.profiles, sample)
    alpha = sampling_fraction(policy, released, tables.profiles.count())
    limits = [attack.given_membership.at_most] if attack.given_membership else []
    limits += [attack.unconditional.at_most / alpha] if attack.unconditional else []
    # The bound decides as soon as one of the gates requires it: the stricter reading of both.
    gates = [gate for gate in (attack.given_membership, attack.unconditional) if gate]
    bounded = any(gate.statistic == "upper_bound" for gate in gates)
    joint = policy.measured_number_of_claims.with_values
    return OtherGates(
        computation.data,
        computation.dimensions,
        encoding.demographic_codes(tables.profiles, tables.domains, member_columns(policy)),
        encoding.released_members(tables.profiles),
        smallest_safe_class(policy),
        policy.risk.max_high_risk_share,
        min(limits, default=None),
        attack.trials,
        confidence_of_try(measure.attack_confidence(policy), number) if bounded else None,
        stream_key(context, workplace, "other gates", number),
        claim_bins_of(policy, tables.profiles, tables.held),
        joint.at_most if joint else None,
        policy.attack_sensitivity.trials if joint else 0,
        confidence_of_each(confidence_of_try(joint_confidence(policy), number), policy.attack_sensitivity.cells)
        if joint and joint.statistic == "upper_bound"
        else None,
    )


def adversary_of(policy: Policy, profiles: Table) -> Adversary:
    """Input for computing the adversary's power on generalized data."""
    claims = profiles.arrays(f"SELECT claims FROM {profiles.sql} WHERE released ORDER BY member_number")["claims"]
    return Adversary(np.asarray(claims), policy.adversary.power, policy.adversary.rounding)


def nodes_frame(search: LatticeSearch) -> pd.DataFrame:
    """Every node as a row; `certificate` marks the direct lower neighbours of the optimum."""
    below = {result.node for result in search.lower_neighbours}
    rows = [
        {
            "node": node_text(result.node),
            **dict(zip(search.dimensions, result.node, strict=True)),
            "height": result.height,
            "loss": result.loss,
            "flagged": result.flagged,
            "draws": result.draws,
            "share": result.share,
            "lower": result.lower,
            "upper": result.upper,
            "decision": result.decision,
            "reached": result.reached,
            "inferred_from": node_text(result.source) if result.source else None,
            "minimal": result.node in search.minimal,
            "chosen": search.chosen is not None and result.node == search.chosen.node,
            "certificate": result.node in below,
        }
        for result in search.nodes
    ]
    return pd.DataFrame(rows).astype({"inferred_from": "str", "node": "str", "decision": "str", "reached": "str"})


def chosen_node(policy: Policy, chosen: Table) -> tuple[int, ...]:
    """The chosen node, in the order of the policy's dimensions."""
    levels = chosen.frame().set_index("dimension")["level"]
    return tuple(int(levels[dimension.name]) for dimension in policy.dimensions)


def chosen_levels(policy: Policy, chosen: Table) -> dict[str, int]:
    """The level of every quasi-identifier at the chosen node."""
    return levels_at(policy, chosen_node(policy, chosen))


def levels_at(policy: Policy, node: tuple[int, ...]) -> dict[str, int]:
    """The level of every quasi-identifier at a node."""
    return {qi.column: policy.level_of(qi.column, node) for qi in policy.quasi_identifiers.all}


def chosen_level_names(policy: ReleasePolicy, tables: Mapping[str, Table]) -> list[tuple[str, str]]:
    """Released name of every quasi-identifier and the name of its chosen level; empty if nothing was chosen.

    Parameters
    ----------
    tables
        Tables of a store, longitudinal or flat, by the names of their assets.
    """
    if "record_generalization" in tables:
        return [(str(row.column), str(row.level_name)) for row in tables["record_generalization"].frame().itertuples()]
    if not isinstance(policy, Policy) or "chosen_generalization" not in tables:
        return []
    levels = chosen_levels(policy, tables["chosen_generalization"])
    return [
        (qi.release_as, policy.hierarchy_of(qi.column).level_names[levels[qi.column]]) for qi in policy.quasi_identifiers.all
    ]
