"""Assessment: what an adversary could do with exactly the rows that would be published. Each asset is gate evidence.

Evidence is bound to content: it contains the digest of the rows judged, the policy and the version of its method.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import dagster as dg
import numpy as np
import pandas as pd

from deid_assets.assessments import measure
from deid_assets.assessments.canaries import canaries_measurement
from deid_assets.assessments.chosen_generalization import chosen_levels, chosen_node
from deid_assets.assessments.cumulative_attacks import BECAUSE, because_of
from deid_assets.assessments.evidence import Evidence, Measurement, to_frame
from deid_assets.assessments.kernel_input import (
    PopulationTables,
    adversary_of,
    member_columns,
    node_computation,
    sampling_fraction,
    smallest_safe_class,
)
from deid_assets.assessments.membership_changes import Change, change_refusals, changes_measured, changes_since
from deid_assets.assets.claim_numbers import NumberedClaims, number_of_claims_risk
from deid_assets.assets.measured import measured_metadata
from deid_assets.assets.planted_attacks import demographics_of_canaries
from deid_assets.assets.random_streams import stream_key
from deid_assets.assets.stage_asset import stage_asset
from deid_assets.assets.tries import delivery_tries, note_if_refused
from deid_assets.cluster.executors import search_executor
from deid_assets.methods.adversary.two_readings import both_readings
from deid_assets.methods.attacks.neighbor_attack import neighbor_attack as evaluate_neighbor_attack
from deid_assets.methods.canaries.checks import flags_of_canaries, neighbors_of_canaries
from deid_assets.methods.candidate.released_tables import generalized_claims, generalized_members
from deid_assets.methods.disclosure.absence import absence_numbers, removed_for_claims
from deid_assets.methods.disclosure.demographic_classes import DemographicRisk, demographic_class_sizes
from deid_assets.methods.disclosure.demographic_classes import demographic_risk as summarize_demographic_risk
from deid_assets.methods.disclosure.membership_changes import Roll
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.population.released_population import released_data, released_profiles
from deid_assets.methods.statistics.confidence import clopper_pearson_interval, confidence_of_try
from deid_assets.policy.models import Policy
from deid_assets.release.cumulative import comparable_rolls
from deid_assets.release.present_members import Tags, present_members
from deid_assets.reports.figures import class_size_figure, markdown_image, neighbor_attack_figure
from deid_assets.resources import Policies, Workplace
from deid_assets.schemas.candidate import IN_DAYS_IN_HOSPITAL
from deid_assets.stages import METHOD_VERSIONS
from deid_assets.store.digests import tables_digest_once
from deid_assets.store.tables import Table, write_table, write_view


@stage_asset(policy_sections=["risk", "adversary"], version=METHOD_VERSIONS["longitudinal_risk"], kinds=("duckdb", "numpy"))
def longitudinal_risk(
    context: dg.AssetExecutionContext,
    member_profiles: Table,
    grouped_claims: Table,
    truncated_claims: Table,
    value_domains: Table,
    adversary_power: Table,
    chosen_generalization: Table,
    suppressed_members: Table,
    release_members: Table,
    release_claims: Table,
    release_days_in_hospital: Table,
    policies: Policies,
    workplace: Workplace,
) -> pd.DataFrame:
    """Evidence: share of simulated adversaries who find a class of too few members of the population.

    If classes are those of the release, they are counted among the published members; the share with suppressed members
    counted is reported too. Two numbers follow from the share: the exposure, computed as for Safe Harbor, and the expected
    share of members who are re-identified.
    """
    policy = policies.of(context, Policy)
    tables = PopulationTables(member_profiles, grouped_claims, truncated_claims, value_domains, adversary_power)
    node = chosen_node(policy, chosen_generalization)
    levels = chosen_levels(policy, chosen_generalization)
    tried = delivery_tries(context, policy, workplace, member_profiles, value_domains).at(levels)
    key = stream_key(context, workplace, "assessment", tried.number)
    computation = node_computation(policy, tables, node)
    keep = kept_targets(member_profiles, suppressed_members)
    with search_executor() as executor:
        readings = both_readings(
            computation.keeping(keep),
            node,
            adversary_of(policy, member_profiles).of(keep),
            key,
            policy.risk.gate.draws,
            executor,
        )
        everyone = None
        if computation.extract:
            everyone = computation.keeping(keep, suppressed_count=True).measure(
                node, key, policy.risk.gate.draws, executor=executor
            )
    commitment = workplace.secret().commitment()
    canaries = flags_of_canaries(
        computation.data,
        computation.generalization(node),
        computation.k,
        stream_key(context, workplace, "canaries of longitudinal risk"),
    )
    at_high_risk = measure.high_risk_measurements(policy, readings.fixed, readings.literal, commitment, tried.number)
    measured = (
        *at_high_risk,
        *measure.exposure_measurements(policy, at_high_risk),
        *([measure.counted_with_suppressed(everyone, commitment)] if everyone else []),
        canaries_measurement(canaries, commitment),
    )
    note_if_refused(workplace, tried, measured)
    return evidence_frame(context, policy, (release_members, release_claims, release_days_in_hospital), measured, tried.number)


@stage_asset(policy_sections=["neighbor_attack"], version=METHOD_VERSIONS["neighbor_attack"], kinds=("duckdb", "numpy"))
def neighbor_attack(
    context: dg.AssetExecutionContext,
    member_profiles: Table,
    grouped_claims: Table,
    value_domains: Table,
    adversary_power: Table,
    pseudonym_crosswalk: Table,
    chosen_generalization: Table,
    release_members: Table,
    release_claims: Table,
    release_days_in_hospital: Table,
    policies: Policies,
    workplace: Workplace,
) -> pd.DataFrame:
    """Evidence: success of simulated nosey neighbors on the release, for any member and given membership (methods#attack-1)."""
    policy = policies.of(context, Policy)
    levels = chosen_levels(policy, chosen_generalization)
    tried = delivery_tries(context, policy, workplace, member_profiles, value_domains).at(levels)
    names = policy.quasi_identifiers.claim_names
    file = release_members.file
    profiles = write_table(
        scratch := Table(file, "scratch", "released_profiles"),
        profiles_query(policy, release_members.sql, release_days_in_hospital.sql),
    )
    known = Table(file, "scratch", "known_claims")
    released = original_members(pseudonym_crosswalk, release_members)
    write_table(
        known,
        generalized_claims(grouped_claims, value_domains, {column: levels[column] for column in names}, members=released),
    )
    data = released_data(scratch, release_claims, known, pseudonym_crosswalk, adversary_power, member_columns(policy), names)
    before = workplace.released_before(member_profiles, released)
    alpha = sampling_fraction(policy, profiles + before, member_profiles.count())
    trials = policy.neighbor_attack.trials
    neighbors, picks = (
        stream_key(context, workplace, purpose, tried.number) for purpose in ("neighbors", "membership and pick")
    )
    classes = NodeComputation(data, (), k=1).drawn_classes((), neighbors, trials)
    uniform = np.random.default_rng(np.frombuffer(picks, dtype="<u4"))
    confidence = confidence_of_try(measure.attack_confidence(policy), tried.number)
    attack = evaluate_neighbor_attack(
        ~classes.exempt,
        classes.sizes,
        alpha,
        uniform.random(trials),
        uniform.random(trials),
        measure.mean_interval(confidence),
        lambda hits, of: clopper_pearson_interval(hits, of, 2 * confidence - 1),
    )
    canaries = neighbors_of_canaries(data, stream_key(context, workplace, "canaries of neighbors"))
    commitment = workplace.secret().commitment()
    measured = measure.neighbor_measurements(policy, attack, commitment, tried.number)
    note_if_refused(workplace, tried, measured)
    context.add_output_metadata(
        {
            "trials": trials,
            "attack": dg.MetadataValue.md(
                markdown_image(
                    neighbor_attack_figure([(m.name, m.value, m.bound, m.threshold) for m in measured]),
                    "success of simulated neighbors with bounds and thresholds",
                )
            ),
        }
    )
    measured += (canaries_measurement(canaries, commitment),)
    return evidence_frame(context, policy, (release_members, release_claims, release_days_in_hospital), measured, tried.number)


@stage_asset(policy_sections=["demographics", "removal", "number_of_claims"], version=METHOD_VERSIONS["demographic_risk"])
def demographic_risk(
    context: dg.AssetExecutionContext,
    eligible_members: Table,
    removed_members: Table,
    member_profiles: Table,
    truncated_claims: Table,
    value_domains: Table,
    pseudonym_crosswalk: Table,
    chosen_generalization: Table,
    release_members: Table,
    release_claims: Table,
    release_days_in_hospital: Table,
    policies: Policies,
    workplace: Workplace,
) -> pd.DataFrame:
    """Evidence: how many members of the population share a released member's demographics, and what absence discloses."""
    policy = policies.of(context, Policy)
    levels = chosen_levels(policy, chosen_generalization)
    tables = {
        "eligible_members": eligible_members, "removed_members": removed_members, "member_profiles": member_profiles,
        "value_domains": value_domains, "release_members": release_members,
        "release_days_in_hospital": release_days_in_hospital, "truncated_claims": truncated_claims,
        "release_claims": release_claims, "pseudonym_crosswalk": pseudonym_crosswalk,
    }  # fmt: skip

    own = original_members(pseudonym_crosswalk, release_members)
    before = workplace.released_before(member_profiles, own)
    if before:
        context.add_output_metadata({BECAUSE: because_of(workplace.releases_before(member_profiles, own))})
    earlier = comparable_rolls(workplace.releases_made(), workplace.secret().commitment())
    risk, measured, changes = measured_demographics(policy, levels, tables, before, workplace.tags_in_order, earlier)
    canaries = demographics_of_canaries(
        policy, levels, tables, member_columns(policy), risk.k, workplace.tags_in_order,
        lambda planted, rolls: measured_demographics(policy, levels, planted, 0, workplace.tags_in_order, rolls)[1],
    )  # fmt: skip
    measured += (canaries_measurement(canaries),)
    reasons = [refusal.text for refusal in change_refusals(policy, changes)]
    if reasons:
        context.add_output_metadata({"reasons": dg.MetadataValue.json(reasons)})
    context.add_output_metadata(
        {
            "class_sizes": dg.MetadataValue.md(
                markdown_image(class_size_figure(risk.sizes, risk.k), "released members by size of their class")
            )
        }
    )
    return evidence_frame(context, policy, (release_members, release_claims, release_days_in_hospital), measured)


def measured_demographics(
    policy: Policy,
    levels: dict[str, int],
    tables: Mapping[str, Table],
    before: int,
    tags: Tags,
    earlier: Iterable[tuple[str, Roll]],
) -> tuple[DemographicRisk, tuple[Measurement, ...], tuple[Change, ...]]:
    """Class sizes of released members, and what they, absence, and membership changes disclose.

    Parameters
    ----------
    tables
        The asset's inputs by name.
    before
        Members of the population in earlier releases.
    tags
        The tag of each member.
    earlier
        Name and roll of each earlier release.
    """
    risk = demographics_of(
        policy, tables["member_profiles"], tables["value_domains"], levels,
        tables["release_members"].sql, tables["release_days_in_hospital"].sql,
        NumberedClaims(tables["truncated_claims"], tables["release_claims"]),
    )  # fmt: skip
    alone = risk.demographics
    absence = absence_numbers(tables["eligible_members"], tables["removed_members"], alone.released + before)
    present = present_members(
        policy, levels, tables["member_profiles"], tables["value_domains"],
        removed_for_claims(tables["removed_members"]),
        original_members(tables["pseudonym_crosswalk"], tables["release_members"]), tags,
    )  # fmt: skip
    changes = changes_since(earlier, present, policy.safe_class_size)
    measured = (
        *measure.demographic_measurements(policy, alone, *absence),
        *measure.number_of_claims_measurements(policy, risk.with_number_of_claims),
        *changes_measured(policy, changes, alone.released),
    )
    return alone, measured, changes


def original_members(crosswalk: Table, released: Table) -> str:
    """SELECT the member_id of released members."""
    return (
        f"SELECT original_id AS member_id FROM {crosswalk.sql} WHERE kind = 'member'"
        f' AND pseudonym IN (SELECT "MemberID" FROM {released.sql})'
    )


def kept_targets(profiles: Table, suppressed: Table) -> np.ndarray:
    """(n,) bool: sampled members who are not suppressed, ordered by member_number."""
    kept = profiles.arrays(
        f"SELECT member_id NOT IN (SELECT member_id FROM {suppressed.sql}) AS kept FROM {profiles.sql}"
        " WHERE released ORDER BY member_number"
    )["kept"]
    return np.asarray(kept, dtype=bool)


def profiles_query(policy: Policy, members: str, days: str) -> str:
    """SELECT the member-level quasi-identifiers of released rows; `members` and `days` are texts after FROM."""
    listed = policy.quasi_identifiers.members
    names: dict[str, str] = {qi.column: qi.release_as for qi in listed if qi.column not in IN_DAYS_IN_HOSPITAL}
    return released_profiles(members, days, names, member_columns(policy))


@dataclass(frozen=True)
class MemberRisk:
    """Sizes of the classes of released members.

    Attributes
    ----------
    demographics
        By demographics alone.
    with_number_of_claims
        By demographics and the bin of the number of claims.
    """

    demographics: DemographicRisk
    with_number_of_claims: DemographicRisk


def demographics_of(
    policy: Policy, profiles: Table, domains: Table, levels: dict[str, int], members: str, days: str, claims: NumberedClaims
) -> MemberRisk:
    """Sizes of the demographic classes of released rows, counted in the population; also with the number of claims."""
    columns = member_columns(policy)
    of_members = {column: levels[column] for column in columns}
    file = profiles.file
    population = write_view(Table(file, "scratch", "population"), generalized_members(profiles, domains, of_members))
    released = Table(file, "scratch", "released")
    write_table(released, profiles_query(policy, members, days))
    sizes = population.arrays(demographic_class_sizes(population, released, columns))
    alone = summarize_demographic_risk(sizes["population_size"], sizes["released_size"], smallest_safe_class(policy))
    return MemberRisk(alone, number_of_claims_risk(policy, population, released, claims))


def evidence_frame(
    context: dg.AssetExecutionContext,
    policy: Policy,
    candidate: tuple[Table, ...],
    measured: tuple[Measurement, ...],
    try_number: int | None = None,
) -> pd.DataFrame:
    """One row of evidence, bound to the candidate's rows, the policy and the method; its numbers also become metadata."""
    name = context.asset_key.path[-1]
    digest = tables_digest_once({table.name: table for table in candidate})
    evidence = Evidence(name, context.partition_key, policy.hash, digest, METHOD_VERSIONS[name], measured, try_number)
    context.add_output_metadata(measured_metadata(measured) | {"evidence_digest": evidence.digest()})
    return to_frame([evidence])
