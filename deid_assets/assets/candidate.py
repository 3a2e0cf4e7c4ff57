"""Candidate: exactly the rows that would be published, generalized, with providers suppressed and pseudonyms."""

import dagster as dg

from deid_assets.assessments.candidate_rows import ClaimTables, claims_query, days_query, identified_claims, members_query
from deid_assets.assessments.kernel_input import chosen_levels, released_date_columns
from deid_assets.assets.stage_asset import stage_asset
from deid_assets.methods.candidate.provider_suppression import blanked_shares
from deid_assets.policy.models import Policy
from deid_assets.reference.known_columns import YEARS
from deid_assets.resources import Policies
from deid_assets.store.tables import Table


def release_lineage(policy: Policy) -> dict[str, dict[str, list[str]]]:
    """Source of the release's columns, by asset; their released names are those in the policy."""
    member = {"MemberID": ["pseudonym_crosswalk.pseudonym", "member_profiles.member_id"]}
    columns = policy.quasi_identifiers
    return {
        "release_members": member | {name: [f"member_profiles.{column}"] for column, name in policy.member_names.items()},
        "release_days_in_hospital": member
        | {
            "DaysInHospital": [f"member_profiles.{column}" for column in YEARS.values()],
            "ClaimsTruncated": ["member_profiles.claims_truncated"],
        },
        "release_claims": member
        | {
            "ProviderID": ["pseudonym_crosswalk.pseudonym", "truncated_claims.provider_id"],
            "Vendor": ["pseudonym_crosswalk.pseudonym", "truncated_claims.vendor_id"],
            "PCP": ["pseudonym_crosswalk.pseudonym", "truncated_claims.pcp_id"],
            "Year": ["truncated_claims.year"],
            "PayDelay": ["truncated_claims.pay_delay"],
            "CharlsonIndex": ["truncated_claims.charlson"],
            "SupLOS": ["truncated_claims.length_of_stay"],
        }
        | {qi.release_as: [f"truncated_claims.{qi.column}"] for qi in columns.claims}
        | {name: [f"truncated_claims.{column}"] for column, name in released_date_columns(policy).items()}
        | {one.release_as: [f"truncated_claims.{one.offset}"] for one in policy.connected_dates}
        | {name: [f"truncated_claims.{column}"] for name, column in policy.attribute_names.items()},
    }


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
    policy = policies.of(context, Policy)
    levels = chosen_levels(policy, chosen_generalization)
    return members_query(policy, levels, member_profiles, suppressed_members, pseudonym_crosswalk, value_domains)


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
    """Days in hospital as they would be published, one row per member and year of enrollment."""
    policy = policies.of(context, Policy)
    levels = chosen_levels(policy, chosen_generalization)
    return days_query(policy, levels, member_profiles, suppressed_members, pseudonym_crosswalk, value_domains)


@stage_asset(policy_sections=["quasi_identifiers", "attributes", "provider_suppression", "top_coding", "dates"])
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
    policy = policies.of(context, Policy)
    levels = chosen_levels(policy, chosen_generalization)
    identified = identified_claims(policy, truncated_claims, grouped_claims)
    shares = blanked_shares(truncated_claims, identified)
    context.add_output_metadata({f"{identifier}_blanked_share": share for identifier, share in shares.items()})
    return claims_query(
        policy,
        levels,
        member_profiles,
        suppressed_members,
        pseudonym_crosswalk,
        value_domains,
        ClaimTables(eligible_claims, grouped_claims, truncated_claims),
    )
