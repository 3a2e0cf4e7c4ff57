"""Candidate: the very rows that would be published, generalized, providers suppressed, under pseudonyms."""

import dagster as dg

from deid_assets.assets.generalization import chosen_levels
from deid_assets.assets.preparation import CLAIM_QUASI_IDENTIFIERS
from deid_assets.assets.stage_asset import stage_asset
from deid_assets.methods import candidate
from deid_assets.methods.provider_suppression import providers_needed, suppress_identifiers, suppression_summary
from deid_assets.methods.top_coding import top_code
from deid_assets.resources import Policies
from deid_assets.store import Table

YEARS = {"Y2": "days_in_hospital_y2", "Y3": "days_in_hospital_y3"}
"""Released years of days in hospital, and their columns."""

IN_DAYS_IN_HOSPITAL = (*YEARS.values(), "claims_truncated")
"""Member-level columns that the days-in-hospital table carries instead of the members table."""


@stage_asset(policy_sections=["quasi_identifiers"])
def release_members(
    context: dg.AssetExecutionContext,
    member_profiles: Table,
    pseudonym_crosswalk: Table,
    value_domains: Table,
    chosen_generalization: Table,
    suppressed_members: Table,
    policies: Policies,
) -> str:
    """Members as they would be published: MemberID and demographics at the chosen generalization."""
    policy = policies.of(context)
    levels = chosen_levels(policy, chosen_generalization)
    listed = {qi.column: qi.release_as for qi in policy.quasi_identifiers.members if qi.column not in IN_DAYS_IN_HOSPITAL}
    return candidate.release_members(
        member_profiles,
        suppressed_members,
        pseudonym_crosswalk,
        value_domains,
        {column: levels[column] for column in listed},
        listed,
    )


@stage_asset(policy_sections=["quasi_identifiers"])
def release_days_in_hospital(
    context: dg.AssetExecutionContext,
    member_profiles: Table,
    pseudonym_crosswalk: Table,
    value_domains: Table,
    chosen_generalization: Table,
    suppressed_members: Table,
    policies: Policies,
) -> str:
    """Days in hospital as they would be published, one row per member and year of enrolment."""
    policy = policies.of(context)
    levels = chosen_levels(policy, chosen_generalization)
    years = {year: column for year, column in YEARS.items() if policy.publishes(column)}
    truncated = policy.publishes("claims_truncated")
    columns = [*years.values(), *(["claims_truncated"] if truncated else [])]
    return candidate.release_days_in_hospital(
        member_profiles,
        suppressed_members,
        pseudonym_crosswalk,
        value_domains,
        {column: levels[column] for column in columns},
        years,
        truncated,
    )


@stage_asset(policy_sections=["quasi_identifiers", "provider_suppression", "top_coding"])
def release_claims(
    context: dg.AssetExecutionContext,
    eligible_claims: Table,
    grouped_claims: Table,
    truncated_claims: Table,
    member_profiles: Table,
    pseudonym_crosswalk: Table,
    value_domains: Table,
    chosen_generalization: Table,
    suppressed_members: Table,
    policies: Policies,
) -> str:
    """Claims as they would be published: generalized, with provider, vendor and PCP blanked where few share a pattern."""
    policy = policies.of(context)
    levels = chosen_levels(policy, chosen_generalization)
    needed = providers_needed(policy.provider_suppression.providers_at_least, policy.provider_suppression.estimator)
    summary = truncated_claims.query(suppression_summary(truncated_claims, grouped_claims, needed))
    for row in summary.itertuples():
        share = row.claims_blanked / row.claims_with_identifier if row.claims_with_identifier else 0.0
        context.add_output_metadata({f"{row.identifier}_blanked_share": float(share)})
    return candidate.release_claims(
        suppress_identifiers(truncated_claims, grouped_claims, needed),
        member_profiles,
        suppressed_members,
        pseudonym_crosswalk,
        value_domains,
        {column: levels[column] for column in CLAIM_QUASI_IDENTIFIERS if policy.publishes(column)},
        {qi.column: qi.release_as for qi in policy.quasi_identifiers.claims},
        top_code(eligible_claims, ["pay_delay"], policy.top_coding.percentile),
    )
