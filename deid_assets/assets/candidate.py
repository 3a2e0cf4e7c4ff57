"""Candidate: exactly the rows that would be published, generalized, with providers suppressed and pseudonyms."""

from collections.abc import Mapping
from dataclasses import dataclass

import dagster as dg

from deid_assets.assets.generalization import chosen_levels
from deid_assets.assets.preparation import CLAIM_QUASI_IDENTIFIERS
from deid_assets.assets.stage_asset import stage_asset
from deid_assets.methods.candidate import released_tables
from deid_assets.methods.candidate.provider_suppression import providers_needed, suppress_identifiers, suppression_summary
from deid_assets.methods.preparation.top_coding import top_code
from deid_assets.policy.models import Policy
from deid_assets.policy.sections.longitudinal import DATE_COLUMNS
from deid_assets.resources import Policies
from deid_assets.store.tables import Table

YEARS = {"Y2": "days_in_hospital_y2", "Y3": "days_in_hospital_y3"}
"""Released years of days in hospital, and their columns."""

Levels = Mapping[str, int]
"""Level of every quasi-identifier at the chosen node."""


@dataclass(frozen=True)
class ClaimTables:
    """The claims of a release: eligible ones, grouped ones, and those left after the long tail is cut."""

    eligible: Table
    grouped: Table
    truncated: Table


IN_DAYS_IN_HOSPITAL = (*YEARS.values(), "claims_truncated")
"""Member-level columns in the days-in-hospital table instead of the members table."""


def release_lineage(policy: Policy) -> dict[str, dict[str, list[str]]]:
    """Source of the release's columns, by asset; their released names are those in the policy."""
    member = {"MemberID": ["pseudonym_crosswalk.pseudonym", "member_profiles.member_id"]}
    columns = policy.quasi_identifiers
    return {
        "release_members": member
        | {qi.release_as: [f"member_profiles.{qi.column}"] for qi in columns.members if qi.column not in IN_DAYS_IN_HOSPITAL},
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
        | {name: [f"truncated_claims.{column}"] for column, name in released_dates(policy).items()},
    }


def released_dates(policy: Policy) -> dict[str, str]:
    """Date columns that are released unchanged from `dated_claims`, and their names in the release."""
    if policy.dates is None:
        return {}
    return {"service_date" if policy.dates.format == "dates" else "service_day": policy.dates.release_as}


def members_query(policy: Policy, levels: Levels, profiles: Table, suppressed: Table, crosswalk: Table, domains: Table) -> str:
    """SELECT the members table of the release from the restricted store."""
    members = policy.quasi_identifiers.members
    listed: dict[str, str] = {qi.column: qi.release_as for qi in members if qi.column not in IN_DAYS_IN_HOSPITAL}
    own = {column: levels[column] for column in listed}
    return released_tables.release_members(profiles, suppressed, crosswalk, domains, own, listed)


def days_query(policy: Policy, levels: Levels, profiles: Table, suppressed: Table, crosswalk: Table, domains: Table) -> str:
    """SELECT the days-in-hospital table of the release from the restricted store."""
    years = {year: column for year, column in YEARS.items() if policy.publishes(column)}
    truncated = policy.publishes("claims_truncated")
    own = {column: levels[column] for column in [*years.values(), *(["claims_truncated"] if truncated else [])]}
    return released_tables.release_days_in_hospital(profiles, suppressed, crosswalk, domains, own, years, truncated)


def claims_query(
    policy: Policy, levels: Levels, profiles: Table, suppressed: Table, crosswalk: Table, domains: Table, claims: ClaimTables
) -> str:
    """SELECT the claims table of the release from the restricted store."""
    needed = providers_needed(policy.provider_suppression.providers_at_least, policy.provider_suppression.estimator)
    return released_tables.release_claims(
        suppress_identifiers(claims.truncated, claims.grouped, needed),
        profiles,
        suppressed,
        crosswalk,
        domains,
        {column: levels[column] for column in (*CLAIM_QUASI_IDENTIFIERS, *DATE_COLUMNS) if policy.publishes(column)},
        {qi.column: qi.release_as for qi in policy.quasi_identifiers.claims},
        top_code(claims.eligible, ["pay_delay"], policy.top_coding.percentile),
        released_dates(policy),
    )


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


@stage_asset(policy_sections=["quasi_identifiers", "provider_suppression", "top_coding", "dates"])
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
    needed = providers_needed(policy.provider_suppression.providers_at_least, policy.provider_suppression.estimator)
    summary = truncated_claims.query(suppression_summary(truncated_claims, grouped_claims, needed))
    for row in summary.itertuples():
        share = row.claims_blanked / row.claims_with_identifier if row.claims_with_identifier else 0.0
        context.add_output_metadata({f"{row.identifier}_blanked_share": float(share)})
    return claims_query(
        policy,
        chosen_levels(policy, chosen_generalization),
        member_profiles,
        suppressed_members,
        pseudonym_crosswalk,
        value_domains,
        ClaimTables(eligible_claims, grouped_claims, truncated_claims),
    )
