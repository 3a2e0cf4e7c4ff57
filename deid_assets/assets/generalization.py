"""Generalization: the safe node with the least loss, and who is suppressed.

The lattice is that of El Emam et al. 2012 (Table 4).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import dagster as dg
import pandas as pd

from deid_assets.assessments import kernel_input
from deid_assets.assessments.absence import absence_in_search, absence_tells_too_much, what_makes_the_factor
from deid_assets.assessments.candidate_rows import PATTERNS
from deid_assets.assessments.cross_release_risk import flagged_in_linked_releases
from deid_assets.assessments.delivered_values import kept_by_level
from deid_assets.assessments.gain_kept import KeptGain, compared_frame, gain_kept_at, reported_frame
from deid_assets.assessments.no_choice import failed_gates, why_no_choice
from deid_assets.assessments.nodes_to_try import all_but_pinned, nodes_to_try, pinned_node, useful_dimensions
from deid_assets.assessments.number_of_claims import claim_bins_of
from deid_assets.assessments.reachable_risk import GO_ON_TAG, notice, other_gates, reached_frame, reaches, require_reachable
from deid_assets.assessments.worst_classes import worst_class_text
from deid_assets.assets.publishing import last_levels
from deid_assets.assets.random_streams import delivery_tries, stream_key
from deid_assets.assets.step import (
    SENTENCE,
    Step,
    StepLog,
    asset_metadata,
    guarded,
    image,
    markdown_table,
    stage_asset,
    stage_assets,
)
from deid_assets.cluster.executors import search_executor
from deid_assets.figures.lattice_figures import frontier_figure, heights_figure, lattice_figure
from deid_assets.methods.disclosure.absence import removed_and_eligible
from deid_assets.methods.kernel import engine
from deid_assets.methods.lattice.candidate_gates import COARSER, COMPARED_AT_MOST, KEEPS_NO_MORE
from deid_assets.methods.lattice.choice import Choice, Demands, Judge, choose_generalization
from deid_assets.methods.lattice.diagnosis import COLUMNS, Columns, diagnose
from deid_assets.methods.lattice.information_loss import LatticeLoss
from deid_assets.methods.lattice.large_lattice import search_large_lattice
from deid_assets.methods.lattice.longitudinal_search import SearchRule, SuppressionGoal, nodes_frame, search_lattice
from deid_assets.methods.lattice.members_needed import members_needed
from deid_assets.methods.lattice.predictive_tagging import Node, node_text, parse_nodes
from deid_assets.methods.population.encoding import released_ids
from deid_assets.methods.population.longitudinal_data import top_node, without_coarser_levels
from deid_assets.methods.statistics.confidence import confidence_of_try
from deid_assets.methods.statistics.streams import generator_of
from deid_assets.policy.changes import changed_sections, leaving_together
from deid_assets.policy.domains import value_domains_of
from deid_assets.policy.models import Policy
from deid_assets.release.cumulative import standing_out
from deid_assets.resources import Workplace
from deid_assets.store.parts import ByPerson
from deid_assets.store.tables import Table, drop_schema

_SECTIONS = ["dimensions", "risk", "adversary", "neighbor_attack", "demographics", "number_of_claims", "removal"]


@stage_asset(
    policy_sections=_SECTIONS,
    version="5",
    kinds=("duckdb", "numpy"),
    inputs=("eligible_members", "removed_members", *kernel_input.CODED_POPULATION),
)
def reachable_risk(step: Step[Policy], **tables: Table) -> pd.DataFrame:
    """Lowest value that any node can reach, for gates that can be predicted.

    Where it is above a limit, the search refuses before it begins, unless the run is tagged to go on.
    """
    policy = step.policy
    population, eligible = kernel_input.PopulationTables.coded(tables), tables["eligible_members"]
    # Nothing is measured at any other node, so nothing else is indexed.
    computation = kernel_input.node_computation(policy, population, top_node(kernel_input.lattice_dimensions(policy)))
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


_DIAGNOSIS_DRAWS = 100_000


@stage_asset(
    policy_sections=["quasi_identifiers", "hierarchies", "top_coding"],
    derived_columns={"value": ["member_profiles.age", "grouped_claims.condition_group"]},
)
def value_domains(step: Step[Policy], members: Table, member_profiles: Table, known: Table) -> pd.DataFrame:
    """Every value of every quasi-identifier, numbered, with its label and class at every level."""
    return value_domains_of(step.policy, members, member_profiles, known)


@stage_asset(
    policy_sections=["quasi_identifiers"], kinds=("duckdb", "numpy"), derived_columns={"code": ["value_domains.level_code"]}
)
def coded_histories(step: Step[Policy], member_profiles: Table, known: Table, held: Table, value_domains: Table) -> ByPerson:
    """How many times each member's claims have each value, as numbers: what the search and assessments read of all claims."""
    histories = partial(kernel_input.histories_of_claims, step.policy, value_domains)
    return step.by_person(histories, member_profiles, known, held)


@stage_asset(
    policy_sections=["dimensions", "risk", "adversary", "detail_at_least", "publish_however_coarse", "releases"],
    version="2",
    kinds=("duckdb", "numpy"),
    inputs=("reachable_risk", "members", "eligible_claims", *kernel_input.CODED_POPULATION),
)
def generalization_lattice(step: Step[Policy], **tables: Table) -> pd.DataFrame:
    """Every node of the lattice: loss, share at high risk with its interval, and decision with how it was reached.

    Of a lattice that is too large to list, the best nodes, and those that were measured.
    """
    policy = step.policy
    if GO_ON_TAG not in step.context.run.tags:
        require_reachable(tables["reachable_risk"].frame())
    population, risk = kernel_input.PopulationTables.coded(tables), policy.risk
    computation = kernel_input.node_computation(policy, population)
    loss = LatticeLoss(computation.data, computation.dimensions, "raw" if risk.loss == "entropy_raw" else "normalised")
    with search_executor() as executor:
        computation = computation.on(executor)
        rule = SearchRule(
            stream_key(step, "search"),
            risk.search.aim * risk.max_high_risk_share,
            risk.search.error,
            risk.search.draws_at_most,
            risk.search.enough,
            risk.max_high_risk_share + risk.suppression.at_most if risk.suppression.at_most else None,
            _suppression(policy),
            StepLog(step.context, "nodes"),
        )
        useful = computation.dimensions
        if policy.detail_required:
            kept = kept_by_level(policy, computation.data, tables)
            useful = useful_dimensions(policy, useful, kept, len(computation.data.targets))
        tops = top_node([replace(dimension, levels=max(1, dimension.levels)) for dimension in useful])
        if policy.lists_lattice:
            search = search_lattice(computation, loss.of_every_node(), rule, risk.search.exhaustive, tops)
        else:
            asked = [] if (pinned := _pinned(policy, step.workplace)) is None else [pinned]
            search = search_large_lattice(computation, loss, rule, tops, asked)
    nodes = nodes_frame(search)
    step.tell(
        {
            "nodes": len(nodes),
            "candidates": int((nodes["decision"] == "candidate").sum()),
            "undecided": int((nodes["decision"] == "undecided").sum()),
            "measured": int((nodes["reached"] == "measured").sum()),
            "open": int((nodes["decision"] == "open").sum()),
            "class_size_at_least": search.k,
            "least_share": float(nodes["share"].min()),
            "threshold": risk.max_high_risk_share,
            "engine": engine.chosen().name,
            # The choice is not known yet: candidates are first tried on fresh draws.
            **_figures(policy, nodes.assign(chosen=False)),
        }
    )
    return nodes


def _pinned(policy: Policy, workplace: Workplace) -> Node | None:
    """The generalization of the last release, if the policy is pinned to it."""
    return pinned_node(policy, last_levels(workplace, policy)) if policy.releases.generalization == "pinned" else None


def _suppression(policy: Policy) -> SuppressionGoal | None:
    """Who may be suppressed so that the others keep more detail; None if the policy does not prefer that."""
    risk = policy.risk
    if not policy.prefers_detail:
        return None
    return SuppressionGoal(risk.search.aim * risk.max_high_risk_share, risk.suppression.at_most, risk.search.enough)


def _figures(policy: Policy, nodes: pd.DataFrame, without_suppressed: float | None = None) -> dict[str, dg.MetadataValue]:
    """The lattice by decision, and loss against risk, for the UI; `chosen` marks a node.

    `without_suppressed` is the chosen node's share without the suppressed members; None if there are none.
    """
    most, names = policy.risk.max_high_risk_share, [dimension.name for dimension in policy.dimensions]
    lattice = (
        lattice_figure(nodes, most, names, without_suppressed)
        if policy.lists_lattice
        else heights_figure(nodes[(nodes["reached"] == "measured") | nodes["chosen"]], policy.node_count)
    )
    frontier = frontier_figure(nodes, most, without_suppressed=without_suppressed)
    return {
        "lattice": image(lattice, "the lattice by decision"),
        "frontier": image(frontier, "loss against share at high risk"),
    }


_CHOICE_SECTIONS = [
    "dimensions", "risk", "adversary", "neighbor_attack", "demographics", "number_of_claims", "detail_at_least",
    "publish_however_coarse", "releases", "removal",
]  # fmt: skip
_COMPARED_SECTIONS = ["quasi_identifiers", "hierarchies", "top_coding", "provider_suppression", "dates", "utility"]
"""What the rows of a release are made by, and how they are predicted from: read where releases are compared."""


@stage_assets(
    {
        "lattice_diagnosis": {
            "description": "Filled only if no node passes: which columns and members carry the risk at the coarsest node, and "
            "which changes of the policy passed when they were tried there.",
            "metadata": asset_metadata("lattice_diagnosis", _CHOICE_SECTIONS, "7"),
            "kinds": {"duckdb", "numpy"},
        },
        "passed_over_nodes": {
            "description": "Nodes that failed, tried on fresh draws or ruled out by a coarser one, each with the gate, and "
            "nodes that were not tried, with the reason.",
            "metadata": asset_metadata("passed_over_nodes", _CHOICE_SECTIONS, "5", if_compared=_COMPARED_SECTIONS),
            "kinds": {"duckdb", "numpy"},
        },
        "compared_nodes": {
            "description": "Filled only if the policy compares generalizations that pass by what their releases keep of the "
            "gain (`risk.nodes_by_gain`). Each with its loss and its share; that of least loss first.",
            "metadata": asset_metadata("compared_nodes", _CHOICE_SECTIONS, "1", if_compared=_COMPARED_SECTIONS),
            "kinds": {"duckdb", "numpy"},
        },
        "chosen_generalization": {
            "description": "The node of least loss among those that pass on fresh draws, in the reading of the search and in "
            "that of the appendix; or, if the policy says so, the one among them that keeps most of the gain. One row per "
            "dimension, with its level and the level's name.",
            "metadata": asset_metadata("chosen_generalization", _CHOICE_SECTIONS, "7", if_compared=_COMPARED_SECTIONS),
            "kinds": {"duckdb", "numpy"},
        },
        "suppressed_members": {
            "description": "Sampled members who are left out because they were flagged, in this release or in earlier ones "
            "linked with it, or would stand out beside an earlier release. They stay in the population.",
            "metadata": asset_metadata("suppressed_members", _CHOICE_SECTIONS, "9", if_compared=_COMPARED_SECTIONS),
            "kinds": {"duckdb", "numpy"},
        },
    },
    inputs=(
        "members", *kernel_input.CODED_POPULATION, "generalization_lattice", "eligible_claims", "eligible_members",
        "removed_members", "pseudonym_crosswalk", PATTERNS,
    ),
)  # fmt: skip
def generalization_choice(step: Step[Policy], **tables: Table) -> Iterator[dg.Output[object]]:
    """Try candidates in the order of their loss. Suppress flagged members only where the policy allows it."""
    policy, population, eligible_members = step.policy, kernel_input.PopulationTables.coded(tables), tables["eligible_members"]
    risk, profiles, domains = policy.risk, population.profiles, population.domains
    with guarded(step), search_executor() as executor:
        tries = delivery_tries(step, profiles, domains)
        number = tries.choosing()
        confidence = confidence_of_try(risk.gate.confidence, number)
        computation = kernel_input.node_computation(policy, population).on(executor)
        nodes = tables["generalization_lattice"].frame().sort_values(["loss", "height", "node"])
        kept = kept_by_level(policy, computation.data, tables)
        sampled = len(computation.data.targets)
        listed = parse_nodes(nodes["node"])
        not_again = tries.not_tried_again(listed, partial(kernel_input.levels_at, policy))
        pinned = all_but_pinned(listed, _pinned(policy, step.workplace))
        useful = useful_dimensions(policy, computation.dimensions, kept, sampled)
        to_try = nodes_to_try(policy, nodes, useful, not_again | pinned)
        before = step.workplace.released_before(profiles, released_ids(profiles))
        gates = other_gates(
            policy,
            population,
            computation,
            released_before=before,
            number=number,
            stream_key=stream_key(step, "other gates", number),
            claim_bins=claim_bins_of(policy, profiles, population.held),
            absence=absence_in_search(
                policy, profiles, eligible_members, step.workplace.ever_released(), step.workplace.tags_in_order
            ),
        )
        judge = Judge(
            computation,
            kernel_input.adversary_of(policy, profiles),
            lambda name: stream_key(step, name, number),
            Demands(
                risk.max_high_risk_share,
                risk.gate.draws,
                confidence,
                risk.suppression.at_most,
                risk.search.aim,
                risk.worst_class_share_at_most,
                policy.adversary.everything_known_at_most,
            ),
            gates,
            StepLog(step.context, "tries"),
        )
        most = COMPARED_AT_MOST if risk.nodes_by_gain else 1
        passing, passed_over, worst_class = choose_generalization(
            judge, to_try.as_they_are, to_try.without_flagged, policy.prefers_detail, most
        )
        choice, compared = next(iter(passing), None), compared_frame((), KeptGain(), {}, 0)
        if choice is not None and risk.nodes_by_gain:
            step.context.log.info(f"comparing {len(passing)} generalizations that pass by what their releases keep of the gain")
            key = stream_key(step, "nodes by gain", number)
            losses = dict(zip(listed, nodes["loss"] / (nodes["loss"].max() or 1.0), strict=True))
            compared = _compared(policy, passing, tables, losses, key)
            choice = passing[int(compared["chosen"].argmax())]
            by_gain = risk.nodes_by_gain == "choose" and bool(compared["share_of_gain_kept"].notna().all())
            passed_over = _passed_over(passed_over, passing, choice.node, losses, by_gain)
        if choice is not None:
            tries.require_not_refused(kernel_input.levels_at(policy, choice.node))
        passed_over |= to_try.not_tried
        diagnosis, because = pd.DataFrame(columns=list(COLUMNS)), ""
        if choice is None:
            step.context.log.info("no node passes; finding out what carries the risk, and trying changes of the policy")
            earlier = step.workplace.releases_before(profiles, released_ids(profiles))
            absent = removed_and_eligible(eligible_members, tables["removed_members"])
            never, because = absence_tells_too_much(policy, absent, sampled, before, earlier)
            because = because or what_makes_the_factor(policy, gates, absent[1], before, earlier)
            # Changes are tried at the coarsest node that says enough; where none does, no change that is tried would help.
            useful = tuple(replace(dimension, levels=max(1, dimension.levels)) for dimension in useful)
            never = never or to_try.not_tried.get(top_node(useful), "")
            cut = without_coarser_levels(computation.data, useful)
            diagnosis = diagnose(
                replace(
                    judge,
                    computation=computation.over(cut, useful),
                    keys=lambda name: stream_key(step, f"diagnosis: {name}", number),
                    other_gates=replace(gates, data=cut, dimensions=useful),
                ),
                Columns(policy.member_columns, tuple(policy.claim_names), leaving_together(policy)),
                _DIAGNOSIS_DRAWS,
                lambda change: changed_sections(policy, change),
                never,
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
    yield dg.Output(
        compared,
        "compared_nodes",
        metadata={"kept": markdown_table(reported_frame(policy, compared, sampled))} if len(compared) else {},
    )
    if choice is None:
        worst = worst_class_text(policy, computation, worst_class, domains) if worst_class else ""
        raise dg.Failure(
            why_no_choice(
                passed_over, diagnosis, risk.suppression.at_most, because, to_try.left_open, worst, policy.lists_lattice
            ),
            metadata={
                "refused": True,
                "nodes_passed_over": len(passed_over),
                SENTENCE: failed_gates(passed_over, to_try.left_open),
            },
            allow_retries=False,
        )
    yield dg.Output(
        kernel_input.chosen_frame(policy, choice.node),
        "chosen_generalization",
        metadata={
            "node": node_text(choice.node),
            "high_risk_share": choice.readings.fixed.share,
            "high_risk_share_literal": choice.readings.literal.share,
            "measured": choice.readings.upper_bound(confidence),
            "try": number,
            "threshold": risk.max_high_risk_share,
            "nodes_passed_over": len(passed_over),
            "retained": markdown_table(kernel_input.retained_frame(policy, kept, choice.node)),
            **_figures(
                policy,
                nodes.assign(chosen=nodes["node"] == node_text(choice.node)),
                choice.readings.fixed.share if choice.suppressed.any() else None,
            ),
        },
    )
    ids = profiles.query(released_ids(profiles))
    candidate = kernel_input.Candidate(policy, kernel_input.levels_at(policy, choice.node), tables)
    standing = ids["member_id"].isin(standing_out(candidate, step.workplace.releases_made(), step.secret))
    left_out = choice.suppressed | standing.to_numpy()
    with guarded(step):
        flagged = flagged_in_linked_releases(
            candidate, ids["member_id"][left_out].tolist(), step.workplace.earlier_of(step.key), step.workplace.tags_in_order,
            partial(stream_key, step), number,
        )  # fmt: skip
    yield dg.Output(ids[left_out | ids["member_id"].isin(flagged).to_numpy()].reset_index(drop=True), "suppressed_members")


def _compared(
    policy: Policy, passing: Sequence[Choice], tables: Mapping[str, Table], losses: Mapping[Node, float], stream_key: bytes
) -> pd.DataFrame:
    """The table of the nodes that pass; nothing else of the comparison stays in the store."""
    try:
        kept = gain_kept_at(policy, passing, tables, generator_of(stream_key))
    finally:
        drop_schema(tables["member_profiles"].file, "scratch")
    return compared_frame(passing, kept, losses, kept.most if policy.risk.nodes_by_gain == "choose" else 0)


def _passed_over(
    passed_over: Mapping[Node, str], passing: Sequence[Choice], chosen: Node, losses: Mapping[Node, float], by_gain: bool
) -> dict[Node, str]:
    """Why nodes are passed over, where several pass.

    Parameters
    ----------
    passed_over
        Why each does not pass, or was not tried, of all that were looked at.
    by_gain
        Whether the chosen node is the one that keeps most. Otherwise those that pass lose more, and are not passed over.
    """
    others = {one.node for one in passing} - {chosen}
    told = {
        node: gate
        for node, gate in passed_over.items()
        if node not in others and (gate != COARSER or losses[node] < losses[chosen])
    }
    return told | (dict.fromkeys(others, KEEPS_NO_MORE) if by_gain else {})
